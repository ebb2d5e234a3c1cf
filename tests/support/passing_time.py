"""A method with which a class lets the time of a test pass."""

from __future__ import annotations

import fsm


class PassingTime:
    async def wait(self) -> None:
        await fsm.next_timer()
