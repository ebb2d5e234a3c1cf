"""An intermediate form between machines and the file formats of other tools.

The reader of each format creates a draft, which has flat states and transitions in the order in which they are tried.
A cell without a transition does what the library does by default.  In the other direction, a machine is written with
one transition for each outcome.
"""

import itertools
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final, TypeAlias

from fsm.language.names import distinct, identifiers
from fsm.machine import Cell, Clause, Event, Ignores, Kind, Machine, Moves, Outcome, Refuses, State, StateKind, outcomes

OTHERWISE: Final = "otherwise"  # name of the outcome that is taken when the conditions of all others fail
NOT: Final = "not "
MOST: Final = 6  # maximum number of conditions per cell for which all combinations are tried


@dataclass(frozen=True, slots=True, kw_only=True)
class DraftState:
    name: str
    ignores: bool  # if true, an event without a transition has no effect; if false, it is an error
    final: bool = False
    notes: tuple[str, ...] = ()
    shows: str = ""  # by default, the name


@dataclass(frozen=True, slots=True, kw_only=True)
class DraftTransition:
    event: str
    source: str
    line: int = 0
    to: str = ""  # empty if the state does not change
    when: tuple[str, ...] = ()  # the conditions, all of which hold
    emits: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    fails: bool = False  # whether the event is a call that replies an error


@dataclass(frozen=True, slots=True, kw_only=True)
class OutcomeTransition(DraftTransition):
    outcome: Outcome  # the outcome that the transition stands for


@dataclass(frozen=True, slots=True, kw_only=True)
class Draft:
    name: str
    form: str
    kind: Kind
    initial: str
    states: tuple[DraftState, ...]
    transitions: tuple[DraftTransition, ...]
    about: str = ""
    notes: tuple[str, ...] = ()  # comments of the model file


# The transitions of an event, by outcome ("" for the event itself) and then by source state.
_Row: TypeAlias = dict[str, dict[str, list[DraftTransition]]]


def machine_of(draft: Draft, *, file: str, outcomes: bool) -> Machine:
    """Convert *draft*, read from *file*. If *outcomes* is true, ``EVENT.OUTCOME`` is an outcome of ``EVENT``."""
    rows: dict[str, _Row] = {}
    for arrow in draft.transitions:
        event, _, part = arrow.event.rpartition(".") if outcomes else ("", "", "")
        row = rows.setdefault(event or arrow.event, {})
        row.setdefault(part if event else "", {}).setdefault(arrow.source, []).append(arrow)
    states = named(place.name for place in draft.states)
    events = named(rows)
    return Machine(
        name=(name := named([draft.name])[draft.name]),
        title=draft.name,
        about=draft.about or f"Imported from {file}, {draft.form}.",
        source=file,
        initial=states[draft.initial],
        entity=name,
        states={states[each.name]: _state(states[each.name], each, draft) for each in draft.states},
        events={events[event]: _event(draft, file, events[event], event, row, states) for event, row in rows.items()},
        clauses={},
    )


def _state(name: str, place: DraftState, draft: Draft) -> State:
    kind: StateKind | None = "initial" if place.name == draft.initial else "final" if place.final else None
    return State(name=name, about=_sentence(place.name, place.notes), shows=place.shows or place.name, kind=kind)


def named(names: Iterable[str]) -> dict[str, str]:
    """Map each of *names* to a unique name that is valid in the model language.

    >>> named(["not ready", "not-ready", "-", "a.b"])
    {'not ready': 'not-ready-2', 'not-ready': 'not-ready', '-': '_', 'a.b': 'a.b'}
    """
    wanted = list(dict.fromkeys(names))
    kept = {name for name in wanted if _clean_name(name) == name}
    others = [name for name in wanted if name not in kept]
    found = dict(zip(others, _unique_names(map(_clean_name, others), kept), strict=True))
    return {name: found.get(name, name) for name in wanted}


def _unique_names(words: Iterable[str], taken: Iterable[str] = ()) -> Iterator[str]:
    used = set(taken)
    numbers: dict[str, int] = {}
    for word in words:
        found = word
        while found in used:
            numbers[word] = numbers.get(word, 1) + 1
            found = f"{word}-{numbers[word]}"
        used.add(found)
        yield found


def _clean_name(text: str) -> str:
    return re.sub(r"[^A-Za-z0-9_.-]+", "-", text).strip("-.") or "_"


def _event(draft: Draft, file: str, name: str, written: str, row: _Row, states: Mapping[str, str]) -> Event:
    clause = Clause(name=name, says=_sentence(written, ()), level="MUST", source=file)
    return Event(
        name=name,
        kind=draft.kind,
        about=clause.says,
        rpc="" if name == written else written,
        cells={states[place.name]: _cell(draft.kind, place, row, states, clause) for place in draft.states},
    )


def _cell(kind: Kind, place: DraftState, row: _Row, states: Mapping[str, str], clause: Clause) -> Cell:
    ways = [
        way
        for part, arrows in row.items()
        for way in _draft_outcomes(kind, part, arrows.get(place.name, ()), place, states)
    ]
    if not ways:
        return Ignores(clause=clause) if place.ignores else Refuses(codes=("error",), clause=clause)
    if [(way.to, way.emits, way.about) for way in ways] == [(states[place.name], (), "")]:
        return Ignores(clause=clause)
    names = _unique_names(way.name for way in ways) if len(ways) > 1 else ["done"]
    return Moves(outcomes=tuple(replace(way, name=name) for way, name in zip(ways, names, strict=True)), clause=clause)


def _draft_outcomes(
    kind: Kind, part: str, arrows: Sequence[DraftTransition], place: DraftState, states: Mapping[str, str]
) -> Iterator[Outcome]:
    reply = ("ok",) if kind == "call" else ()
    stays = DraftTransition(event="", source="", notes=("When no condition holds: nothing is done.",))
    for arrow in _transitions_that_may_fire(arrows):
        taken = arrow or stays
        parts = (part, *map(_clean_name, taken.when)) if arrow else (part, OTHERWISE)
        about = f"When {' and '.join(taken.when)}." if taken.when else ""
        yield Outcome(
            name="-".join(filter(None, parts)) or OTHERWISE,
            to=states[taken.to or place.name],
            reply=("error",) if taken.fails else reply,
            emits=taken.emits,
            about=" ".join(filter(None, (about, *taken.notes))),
        )


def _transitions_that_may_fire(given: Sequence[DraftTransition]) -> Iterable[DraftTransition | None]:
    """Return the transitions that may be the first to fire, and ``None`` if it is possible that none fires."""
    before: dict[frozenset[str], DraftTransition] = {}
    for arrow in given:
        before.setdefault(frozenset(arrow.when), arrow)
    arrows = list(before.values())
    atoms = list(dict.fromkeys(each.removeprefix(NOT) for arrow in arrows for each in arrow.when))
    if len(atoms) > MOST:
        sure = next((number for number, arrow in enumerate(arrows) if not arrow.when), None)
        return [*arrows, None] if sure is None else arrows[: sure + 1]
    found: set[DraftTransition | None] = set()
    for values in itertools.product((True, False), repeat=len(atoms)):
        true = {atom if value else f"{NOT}{atom}" for atom, value in zip(atoms, values, strict=True)}
        found.add(next((arrow for arrow in arrows if true.issuperset(arrow.when)), None))
    return [arrow for arrow in (*arrows, None) if arrow in found and (arrow or arrows)]


def _sentence(name: str, notes: Iterable[str]) -> str:
    words = re.sub(r"[\s_-]+", " ", name).strip() or name
    stop = "" if words.endswith((".", "!", "?")) else "."
    return " ".join((f"{words[:1].upper()}{words[1:]}{stop}", *notes))


def outcome_events(machine: Machine) -> Iterator[OutcomeTransition]:
    """Yield every outcome as a separate event, ordered by event and state.

    Tools without outcomes take the first transition that an event enables.  The environment therefore chooses the
    outcome by sending ``stop.stopped`` or ``stop.failed``.  A call in progress ends with an event such as
    ``stop-ends.stopped``.  A cell is skipped if it refuses the event, if it is silent, or if the event cannot happen.
    """
    ends = [f"{event.name}-ends" for event in machine.events.values() if event.ends]
    named = identifiers("", dict.fromkeys([*machine.events, *ends]), also="-")
    for event in machine.events.values():
        for row, cells in ((named[event.name], event.cells), (named.get(f"{event.name}-ends", ""), event.ends)):
            for state, cell in cells.items():
                ways = () if isinstance(cell, Refuses) else outcomes(cell, state, event.kind) or ()
                taken: list[str] = []
                for way in ways:
                    taken.append(distinct(way.name, taken, also="-"))
                    # Without a target, the transition does not leave and re-enter the state.
                    to = way.to if way.to != state else ""
                    event_of = f"{row}.{taken[-1]}"
                    yield OutcomeTransition(event=event_of, source=state, to=to, emits=way.emits, outcome=way)
