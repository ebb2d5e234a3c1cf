"""Find steps whose recording proves that a cell was exercised.

Something may have happened unseen before a call, and a call on a new id may concern any entity. The monitor decides
what is proved, by judging what a client would record of a simulated machine.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

from fsm.conformance.clients import client_of
from fsm.conformance.simulated import Simulated
from fsm.machine import Machine
from fsm.monitor import Monitor
from fsm.sut import Stimulus
from fsm.trace import Observation

_ENTITY: Final = "it"


class EvidentPaths:
    """Finds steps whose recording proves that they exercised a cell of *machine*.

    *seen* holds the signals that happen only when a recording shows them. ``None`` stands for all signals. *unseen*
    holds the signals that a recording never shows.
    """

    def __init__(self, machine: Machine, *, seen: frozenset[str] | None, unseen: frozenset[str] = frozenset()) -> None:
        self._machine, self._seen, self._unseen = machine, seen, unseen
        self._runtime = Simulated(machine)
        self._client = client_of(machine)

    def of(self, cell: tuple[str, str], steps: Sequence[Stimulus]) -> tuple[Stimulus, ...]:
        """Return *steps* to *cell*, with steps added if a recording needs them as proof; empty if none proves it."""
        for tried in self._variants(tuple(steps)):
            monitor = Monitor(self._machine, seen=self._seen)
            for each in self._recording_of(tried):
                monitor.observe(each)
            if monitor.judgement().covered.cells[cell]:
                return tried
        return ()

    def _variants(self, steps: tuple[Stimulus, ...]) -> Iterator[tuple[Stimulus, ...]]:
        """Yield *steps*, then variants that begin after another lifecycle or query the state before the last step."""
        yield steps
        names = {event.rpc: event.name for event in self._machine.events.values() if event.kind == "call"}
        makes, removes, looks = (
            [Stimulus(names[rpc]) for rpc in names if rpc in those]
            for those in ({self._client.creates.get(self._machine.entity)}, self._client.removes, self._client.looks)
        )
        if makes and removes and steps[0].event != makes[0].event:
            yield (*makes, *removes, *steps)
        yield from ((*steps[:-1], look, steps[-1]) for look in looks)

    def _recording_of(self, steps: Sequence[Stimulus]) -> Iterator[Observation]:
        self._runtime.reset()
        of = self._machine.entity
        for step in steps:
            for outcome in step.expected:
                self._runtime.arrange(step.event, outcome)
            reply = self._runtime.do(step.event)
            event = self._machine.events[step.event]
            if event.kind == "call":
                met = self._runtime.shows() if event.rpc in self._client.looks and reply == "ok" else ""
                yield Observation(entity=_ENTITY, of=of, event=event.name, phase="request")
                yield Observation(entity=_ENTITY, of=of, event=event.name, phase="reply", reply=reply, met=met)
            elif event.name not in self._unseen:
                yield Observation(entity=_ENTITY, of=of, event=event.name)
