"""The steps of a machine, straight from its cells, one for each outcome and reply.

What is exported is for a second opinion, so nothing here uses the table of a machine, its
graph or the checker; ``tests/repo/test_layers.py`` holds that.
"""

from collections.abc import Collection, Iterator
from dataclasses import dataclass

from fsm.machine import ANY_ERROR, Event, Machine, Outcome, Silent, outcomes


@dataclass(frozen=True, slots=True, kw_only=True)
class ExportedStep:
    """One outcome of an event in a state, or, with ``ends``, of a call in progress; ``reply`` may be empty."""

    event: str
    ends: bool
    source: str
    way: Outcome
    reply: str

    @property
    def title(self) -> str:
        name = f"{self.event}{' ends' if self.ends else ''}/{self.way.name}"
        reply = f" replies {self.reply}" if self.reply else ""
        emits = f" emits {', '.join(self.way.emits)}" if self.way.emits else ""
        return f"{name}{reply}{emits}: {self.source} to {self.way.to}"


def steps(machine: Machine, codes: Collection[str] | None = None) -> Iterator[ExportedStep]:
    """Every step of *machine*, in its order; silent cells have none.

    There is one for each reply.  Where any error may be replied, each of *codes* is one more reply.  Without *codes*
    there is one step for each outcome, with all of its replies.
    """
    for event in machine.events.values():
        begun = _begun(event)
        for ends, cells in ((False, event.cells), (True, event.ends)):
            for source in machine.states:
                cell = None if ends and source not in begun else cells.get(source)
                for way in (outcomes(cell, source, event.kind) or ()) if cell else ():
                    for reply in _replies(way.reply, codes):
                        yield ExportedStep(event=event.name, ends=ends, source=source, way=way, reply=reply)


def reached(machine: Machine) -> list[frozenset[str]]:
    """The states that can be reached, by the number of steps that it takes."""
    leads = [(step.source, step.way.to) for step in steps(machine)]
    layers = [frozenset({machine.initial})]
    met = layers[0]
    while further := frozenset(target for source, target in leads if source in layers[-1]) - met:
        layers.append(further)
        met |= further
    return layers


def _replies(replies: tuple[str, ...], codes: Collection[str] | None) -> tuple[str, ...]:
    if not replies:
        return ("",)
    if codes is None:
        return (" or ".join(replies),)
    return tuple(dict.fromkeys((*replies, *sorted(codes)))) if ANY_ERROR in replies else replies


def silent(machine: Machine, event: str) -> tuple[str, ...]:
    """The states in which the specification is silent on *event*."""
    return tuple(state for state, cell in machine.events[event].cells.items() if isinstance(cell, Silent))


def busy(machine: Machine) -> frozenset[str]:
    """The states in which a call is in progress."""
    return frozenset(state for event in machine.events.values() for state in _begun(event))


def _begun(event: Event) -> frozenset[str]:
    """The states in which a call of *event* begins."""
    return frozenset(way.to for way in event.outcomes() if way.begins)
