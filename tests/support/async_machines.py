"""Classes with ``async def`` methods that are made from a machine, and are right by construction.

They read the cells of the machine as a person would, and share no code with the engines of fsm. A call that takes time
awaits a fake, whose result is the name of its next outcome.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from fsm.conformance.fake import Fake
from fsm.machine import Cannot, Moves, Refuses
from fsm.sut import UnsupportedError

if TYPE_CHECKING:
    from collections.abc import Callable

    from fsm.machine import Machine, Outcome


class AsyncMachine:
    def __init__(self, machine: Machine) -> None:
        self.machine = machine
        self.state = machine.initial
        self.out: list[str] = []
        self.wish = ""
        ends = (way.name for event in machine.events.values() for cell in event.ends.values() for way in cell.outcomes)
        self.environment = Fake(outcomes={name: name for name in ends})

    def arrange_stage(self, event: str, outcome: str, stage: str) -> bool:
        """Arrange all outcomes but those of the end of a call, which are left to the fake."""
        if stage == "end":
            return False
        self.wish = outcome
        return any(way.name == outcome for way in self._ways(event))

    def _ways(self, event: str) -> tuple[Outcome, ...]:
        cell = self.machine.events[event].cells[self.state]
        return cell.outcomes if isinstance(cell, Moves) else ()

    async def do(self, name: str) -> str:
        event = self.machine.events[name]
        cell = event.cells[self.state]
        wish, self.wish = self.wish, ""
        if isinstance(cell, Cannot):
            raise UnsupportedError(name)
        if isinstance(cell, Refuses):
            return self._reply(cell.codes)
        if not isinstance(cell, Moves):
            return "ok" if event.kind == "call" else ""
        way = self._take(cell.outcomes, wish)
        while way.begins:
            chosen = await self._awaited()
            if self.state not in event.ends:
                return "ok"
            way = self._take(event.ends[self.state].outcomes, chosen)
        return self._reply(way.reply) if event.kind == "call" else ""

    async def _awaited(self) -> str:
        """Await the environment in a roundabout way, as real code does: in a task, with a limit and a pause."""
        await asyncio.sleep(0)
        async with asyncio.timeout(3600):
            task = asyncio.create_task(self.environment())
            try:
                return str(await task)
            finally:
                await asyncio.sleep(0)

    def _take(self, ways: tuple[Outcome, ...], wish: str) -> Outcome:
        way = next((way for way in ways if way.name == wish), ways[0])
        self.state = way.to
        self.out += way.emits
        return way

    def _reply(self, codes: tuple[str, ...]) -> str:
        return "UNKNOWN" if codes[0] == "error" else codes[0]

    def shows(self) -> str:
        return self.machine.states[self.state].shows

    def outputs(self) -> list[str]:
        out, self.out = self.out, []
        return out


def async_sut(machine: Machine) -> Callable[[], AsyncMachine]:
    return lambda: AsyncMachine(machine)
