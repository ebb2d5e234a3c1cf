"""Drawings of lifecycles, and machines at the same level of detail, as data.

If several states are drawn as one, events that only lead from one of them to another are invisible. A call that takes
time is a move if it leads to a state that is drawn differently, whether or not the call has returned by then; a drawing
may instead show where the call ends. An event that leaves the state unchanged is a move only if it has no other
outcome. For example, a stop that may fail is not drawn as an arrow from a state to itself, but executing a process in a
container is.

A :class:`Drawing` has only names and arrows; :mod:`fsm.diagrams.compare` finds what they mean for a machine.
"""

import itertools
import re
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from fsm.errors import Problem
from fsm.machine import Ignores, Machine, Moves, Omission
from fsm.machine.table import Row, Table, Way, tabulate
from fsm.machine.traversal import closure


class Move(NamedTuple):
    """A move between drawn states. ``source`` is empty if the arrow has no source."""

    source: str
    event: str
    target: str


class Act(NamedTuple):
    state: str
    outcome: str
    named: bool  # whether drawings have a separate label for this outcome
    failed: bool  # whether the caller gets an error


class Abstraction:
    """A machine at the level of detail of a drawing.

    States are drawn under the names in *names*, or under their own names. Events in *nowhere* interrupt the machine;
    they are drawn without a source because the state before them does not matter.

    >>> from fsm.diagrams.drawing import proposed
    >>> from fsm.language.library import load
    >>> machine = load("examples/models/door.toml")
    >>> [key.target for key in Abstraction(machine, proposed(machine)).must if key.event == "push"]
    ['open']
    """

    def __init__(self, machine: Machine, names: Mapping[str, tuple[str, ...]], nowhere: Collection[str] = ()) -> None:
        drawn = {state: name for name, states in names.items() for state in states}
        self.table = tabulate(machine)
        self.shown = drawn | {state: state for state in machine.states if state not in drawn}  # drawn names
        self.nowhere = nowhere
        self.must: dict[Move, list[Act]] = {}  # the moves of a complete drawing, in the machine's order
        self.may: dict[Move, list[Act]] = {}  # moves that a drawing can omit
        self.ends: dict[Move, set[Move]] = {}  # maps a move that begins a call to the moves that may end it
        self.begun: set[tuple[Move, str]] = set()  # outcomes that only begin a call, which may be drawn as loops
        events = machine.events.values()
        self._labelled = {(event.name, way.name) for event in events for way in event.outcomes() if way.aliases}
        for row in self.table.rows:
            for number in range(len(self.table.states)):
                self._add_cell(row, number)

    def _add_cell(self, row: Row, number: int) -> None:
        table, cell = self.table, self.table.cell(number, row.index)
        ways = table.step(number, row.index) or ()
        if not isinstance(cell, Moves | Ignores):
            return
        finals = [end for way in ways for end in _final_outcomes(table, row, way)]
        # A drawing shows the machine itself, so ignore deviations. They may turn an ignored event into a move.
        stays = all(end.to == number and end.deviation is None for end in finals) and not row.ends
        for way in ways:
            key = self._key(row, number, way)
            moves = self.shown[table.states[way.to]] != self.shown[table.states[number]]
            if way.begins and not moves:
                if way.to == number:
                    self.begun |= {(key, way.name), (key, "")}
                continue
            self._add_act(row, number, way, must=isinstance(cell, Moves) and (moves or stays))
            if way.begins:
                ends = {self._key(row, number, end) for end in _final_outcomes(table, row, way)}
                self.ends.setdefault(key, set()).update(ends)
        for end in finals:
            if end not in ways:
                self._add_act(row, number, end, must=False)

    def _key(self, row: Row, number: int, way: Way) -> Move:
        event = row.event.name
        source = "" if event in self.nowhere else self.shown[self.table.states[number]]
        return Move(source, event, self.shown[self.table.states[way.to]])

    def _add_act(self, row: Row, number: int, way: Way, *, must: bool) -> None:
        event = row.event.name
        named = (event, way.name) in self._labelled
        unconditional = event in self.nowhere and isinstance(self.table.cell(number, row.index), Moves)
        into = self.must if must or unconditional or named else self.may
        failed = bool(way.reply) and "ok" not in way.reply
        act = Act(state=self.table.states[number], outcome=way.name, named=named, failed=failed)
        into.setdefault(self._key(row, number, way), []).append(act)

    def acts(self, key: Move) -> tuple[Act, ...]:
        return (*self.must.get(key, ()), *self.may.get(key, ()))

    def omitted(self, act: Act, event: str) -> bool:
        omission = (self.table.machine.omits or {}).get(event, Omission())
        alike = {state for state, name in self.shown.items() if name == self.shown[act.state]}
        return act.outcome in omission.outcomes or bool(alike & omission.states)

    def allows(self, key: Move, outcome: str) -> bool:
        return (key, outcome) in self.begun or any(outcome in {"", act.outcome} for act in self.acts(key))


def _final_outcomes(table: Table, row: Row, way: Way) -> list[Way]:
    if not way.begins:
        return [way]
    end = table.end.get(row.index, row.index)

    def ways(state: int, *, begin: bool) -> list[Way]:
        return [each for each in table.step(state, end) or () if each.begins == begin]

    between = closure([way.to], lambda state: (each.to for each in ways(state, begin=True)))
    return [each for state in between for each in ways(state, begin=False)]


THEN: Final = " then "  # separates the labels along one line
_SEVERAL: Final = re.compile(r"\s*[/,|]\s*|\s+or\s+")  # separates events that share a label
# Matches names that readers cannot mistake for another part of a drawing.
_PLAIN: Final = re.compile(r"\w[\w.()-]*(?: [\w.()-]+)*", re.ASCII)

_OUTPUTS: Final = " / "  # separates an event from its outputs
_UPDATES: Final = re.compile(r" / (?:[\w.-]+, )*+[\w.-]+ := .*")  # outputs, then updates, which come last
# Text that `fsm draw` may append to an event. It marks the end of a call, an error or outputs, or says that the
# text is not a state.
_ADDED: Final = re.compile(
    r"(?:: …)?(?: ends)?(?: ✗(?: (?:[A-Z_]+|error)(?: or (?:[A-Z_]+|error))*)?)?(?: \[[^]]*\])?(?: / [^,]+| ↗)?$"
)


class Meaning(NamedTuple):
    event: str
    outcome: str = ""


class LabelMeanings:
    """The meaning of every label that a drawing of *machine* may use.

    >>> from fsm.language.library import load
    >>> LabelMeanings(load("examples/models/washer.toml")).meant(["StopWash"])
    [('StopWash', Meaning(event='stop', outcome=''))]
    """

    def __init__(self, machine: Machine) -> None:
        self.meanings: dict[str, Meaning] = {}
        for event in machine.events.values():
            for way in event.outcomes():
                written = (f"{event.name}/{way.name}", f"{event.name} {way.name}", f"{event.name}: {way.name}")
                for alias in (*way.aliases, *written):
                    self.meanings.setdefault(alias, Meaning(event.name, way.name))
        for event in machine.events.values():
            self.meanings |= dict.fromkeys(filter(None, (*event.words, *event.aliases)), Meaning(event.name))
        self._outputs = machine.outputs()

    def meant(self, labels: Iterable[str]) -> list[tuple[str, Meaning | None]]:
        found: list[tuple[str, Meaning | None]] = []
        for label in labels:
            plain = label if self._meaning(label) else self._without_outputs(label)
            several = [plain] if self._meaning(plain) else parts(plain)
            meanings = [(part, self._meaning(part)) for part in several]
            found += meanings if any(meaning for _, meaning in meanings) else [(label, None)]
        return found

    def events(self, labels: Iterable[str]) -> set[str]:
        return {meaning.event for _, meaning in self.meant(labels) if meaning}

    def _without_outputs(self, label: str) -> str:
        """Remove the outputs and updates that ``fsm draw`` writes after a slash, separated by commas."""
        if _OUTPUTS not in label:
            return label
        label = _UPDATES.sub(_OUTPUTS, label)
        kept: list[str] = []
        emitting = False
        for part in label.split(", "):
            if not (emitting and part in self._outputs):
                event, emits, _ = part.partition(_OUTPUTS)
                emitting = bool(emits)
                kept.append(event)
        return ", ".join(kept)

    def _meaning(self, label: str) -> Meaning | None:
        return self.meanings.get(label) or self.meanings.get(_ADDED.sub("", label))


def parts(label: str) -> list[str]:
    """Split a label into the events that share it.

    >>> parts("Stop/Exit")
    ['Stop', 'Exit']
    """
    return [label] if THEN in label else _SEVERAL.split(label)


def plain(those: Iterable[str]) -> list[str]:
    """Return the names that a reader of a drawing cannot mistake for something else.

    >>> plain(["Create(Run) then Start(Run)", "-->", "CREATED", "(note)"])
    ['Create(Run) then Start(Run)', 'CREATED']
    """
    return [each for each in those if _PLAIN.fullmatch(each) and not _SEVERAL.search(each)]


def groups(machine: Machine, drawn: Mapping[str, Iterable[str]]) -> dict[str, tuple[str, ...]]:
    """Map each name in *drawn* to the states of *machine* that it denotes, if any.

    The lines below a name may list further states that are drawn as the same box. A name also denotes a state that is
    not drawn and has no alias, if no other name denotes states that show the same value as this state.
    """
    found: dict[str, tuple[str, ...]] = {}
    for name, below in drawn.items():
        own = tuple(state.name for state in machine.states.values() if {name, *below} & {state.name, *state.aliases})
        found[name] = own or tuple(state.name for state in machine.states.values() if state.shows == name)
    taken = {state for states in found.values() for state in states}
    shown = {name: {machine.states[state].shows for state in states} for name, states in found.items()}
    for state in machine.states.values():
        alike = [name for name, shows in shown.items() if state.shows in shows]
        if state.name not in taken and not state.aliases and len(alike) == 1:
            found[alike[0]] = (*found[alike[0]], state.name)
    return found


def proposed(machine: Machine) -> dict[str, tuple[str, ...]]:
    """Return the names to use in a drawing of *machine*, and the states that each name denotes.

    States that show the same value are drawn as one state, unless they have different aliases.

    >>> from fsm.language.library import load
    >>> list(proposed(load("examples/models/washer.toml")))
    ['IDLE', 'washing', 'done', 'frozen']
    """
    names: dict[str, tuple[str, ...]] = {}
    taken = {name for state in machine.states.values() for name in (state.name, *state.aliases)}
    for state in machine.states.values():
        alike = [each for each in machine.states.values() if each.shows == state.shows]
        aliased = {alias for each in alike for alias in plain(each.aliases)[:1]}
        own = plain(state.aliases)
        if own:
            names[own[0]] = ()
        elif len(aliased) != 1:
            together = len(alike) > 1 and not aliased and plain([state.shows]) and state.shows not in taken
            names[state.shows if together else state.name] = ()
    return groups(machine, names)


MOST: Final = 30_000  # maximum number of names and arrows in a drawing


@dataclass(frozen=True, slots=True, kw_only=True, order=True)
class Location:
    line: int  # counted from 1, as the column is
    column: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ArrowLabel:
    names: tuple[str, ...]
    place: Location


def single_label(names: Iterable[str], place: Location) -> tuple[ArrowLabel, ...]:
    found = tuple(names)
    return (ArrowLabel(names=found, place=place),) if found else ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Arrow:
    source: str | None  # None for an arrow without a source
    target: str
    steps: tuple[ArrowLabel, ...]  # labels in the order in which they appear along the line
    place: Location  # location of the arrowhead or of the statement

    @property
    def labels(self) -> tuple[str, ...]:
        choices = itertools.product(*(step.names for step in self.steps))
        return tuple(THEN.join(choice) for choice in choices if choice)


@dataclass(frozen=True, slots=True, kw_only=True)
class Drawing:
    """A drawing that was read from a file. If there are ``problems``, the rest is not reliable."""

    path: str
    line: int
    last: int
    states: dict[str, Location]
    arrows: tuple[Arrow, ...]  # in order of position
    below: dict[str, tuple[str, ...]] = field(default_factory=dict)  # lines below the name of each state
    problems: tuple[Problem, ...] = ()

    @property
    def place(self) -> str:
        return f"{self.path}:{self.line}"
