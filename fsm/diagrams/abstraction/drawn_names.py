"""Names in a drawing, and what they mean in a machine.

A drawn state stands for the state with that name or alias, or for all states that show it.  A drawn label stands for an
event or for one outcome of an event.  An event is written as its model name, its RPC name or an alias.  An outcome is
written as one of its aliases or as ``event/outcome``.  Labels along one line are joined by ``then``, so a call drawn in
two steps is an outcome with the alias ``"Create(Run) then Start(Run)"``.  Outputs and marks that ``fsm draw`` adds to a
label are recognised.  Names must match exactly, including case and spaces.
"""

import re
from collections.abc import Iterable, Mapping
from typing import Final, NamedTuple

from fsm.machine import Machine

THEN: Final = " then "  # separates the labels along one line
_SEVERAL: Final = re.compile(r"\s*[/,|]\s*|\s+or\s+")  # separates events that share a label
# Matches names that cannot be mistaken for another part of a drawing.
_PLAIN: Final = re.compile(r"\w[\w.()-]*(?: [\w.()-]+)*", re.ASCII)

_OUTPUTS: Final = " / "  # separates an event from its outputs
# What `fsm draw` may append to an event: a not-a-state marker, the end of a call, an error, or outputs.
_ADDED: Final = re.compile(
    r"(?:: …)?(?: ends)?(?: ✗(?: (?:[A-Z_]+|error)(?: or (?:[A-Z_]+|error))*)?)?(?: / [^,]+| ↗)?$"
)


class Meaning(NamedTuple):
    """The event that a label stands for, and the outcome if the label names one."""

    event: str
    outcome: str = ""


class LabelMeanings:
    """Maps every label that a drawing of *machine* may use to its meaning.

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
        """Return the meaning of each of *labels*.  A label that names several events is split."""
        found: list[tuple[str, Meaning | None]] = []
        for label in labels:
            several = [label] if self._meaning(label) else parts(self._without_outputs(label))
            meanings = [(part, self._meaning(part)) for part in several]
            found += meanings if any(meaning for _, meaning in meanings) else [(label, None)]
        return found

    def events(self, labels: Iterable[str]) -> set[str]:
        return {meaning.event for _, meaning in self.meant(labels) if meaning}

    def _without_outputs(self, label: str) -> str:
        """Remove the outputs that ``fsm draw`` adds after a slash.  Commas separate outputs as well as events."""
        if _OUTPUTS not in label:
            return label
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
    """Return the names that can be written in any drawing without being mistaken for something else.

    >>> plain(["Create(Run) then Start(Run)", "-->", "CREATED", "(note)"])
    ['Create(Run) then Start(Run)', 'CREATED']
    """
    return [each for each in those if _PLAIN.fullmatch(each) and not _SEVERAL.search(each)]


def groups(machine: Machine, drawn: Mapping[str, Iterable[str]]) -> dict[str, tuple[str, ...]]:
    """Map each *drawn* name to the states of *machine* that it stands for, or to an empty tuple if it is unknown.

    The lines below a name may name further states, which are drawn as one with it.  A state that has no alias and is
    not drawn under its own name belongs to the drawn state that shows the same value, if there is exactly one.
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
    """Return the names to use in a drawing of *machine*, each with the states that it stands for.

    States that show the same value are drawn as one, unless they have different aliases.

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
