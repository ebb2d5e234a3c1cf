"""The steps of a machine, taken directly from its cells, one for each outcome and reply.

The export is a second opinion, so this module uses neither a machine's table or graph nor the checker.
``tests/repo/test_layers.py`` checks that.
"""

from collections.abc import Collection, Iterator
from dataclasses import dataclass

from fsm.machine import ANY_ERROR, Machine, Outcome, Silent, outcomes


@dataclass(frozen=True, slots=True, kw_only=True)
class ExportedStep:
    """An outcome of an event in a state or, if ``ends`` is true, of a call in progress.  ``reply`` may be empty."""

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
    """Yield every step of *machine* in model order.  Silent cells have none.

    If *codes* are given, there is one step for each reply, and "any error" includes each of *codes*.  Otherwise, there
    is one step for each outcome.
    """
    for event in machine.events.values():
        for ends, cells in ((False, event.cells), (True, event.ends)):
            for source in machine.states:
                cell = cells.get(source)
                for way in (outcomes(cell, source, event.kind) or ()) if cell else ():
                    for reply in _replies(way.reply, codes):
                        yield ExportedStep(event=event.name, ends=ends, source=source, way=way, reply=reply)


def reached(machine: Machine) -> tuple[list[frozenset[tuple[str, frozenset[str]]]], int]:
    """Return the reachable pairs of state and begun calls, grouped by distance, and the total number of steps."""
    start = (machine.initial, frozenset[str]())
    layers, met, taken, every = [frozenset({start})], {start}, 0, list(steps(machine))
    while layers[-1]:
        further = set()
        for state, begun in layers[-1]:
            for step in every:
                own = step.event in begun
                if step.source != state or (step.ends and not own) or (step.way.begins and own and not step.ends):
                    continue
                over = begun if machine.events[step.event].interrupts else {step.event} if step.ends else set[str]()
                left = begun - over
                further.add((step.way.to, left | {step.event} if step.way.begins else left))
                taken += 1
        layers.append(frozenset(further - met))
        met |= further
    return layers[:-1], taken


def _replies(replies: tuple[str, ...], codes: Collection[str] | None) -> tuple[str, ...]:
    if not replies:
        return ("",)
    if codes is None:
        return (" or ".join(replies),)
    return tuple(dict.fromkeys((*replies, *sorted(codes)))) if ANY_ERROR in replies else replies


def silent(machine: Machine, event: str) -> tuple[str, ...]:
    """Return the states in which the specification is silent on *event*."""
    return tuple(state for state, cell in machine.events[event].cells.items() if isinstance(cell, Silent))
