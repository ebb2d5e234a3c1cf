"""A runtime that is killed while a call of a test is in progress.

Crash points are times.  Effect number *n* of :class:`~fsm.sut.Crashing` is *n* time steps after the first one, which is
shortly after the call began.
"""

from collections.abc import Callable
from contextlib import suppress
from threading import Thread
from typing import Final

from fsm.machine import Machine
from fsm.runtimes.live.entity_sut import EntitySUT
from fsm.runtimes.live.runtime_session import RuntimeSession
from fsm.sut import BrokenError, UnsupportedError

BEGINNING: Final = 0.003
"""Number of seconds from the start of a call to the earliest kill.  A shorter call is not cut off."""

STEP: Final = 0.015
"""Number of seconds between successive kill times."""


class KilledSUT(EntitySUT):
    """An entity whose runtime *kill* kills and restarts."""

    def __init__(
        self,
        machine: Machine,
        session: RuntimeSession,
        restart: Callable[[], None] | None,
        *,
        kill: Callable[[], None],
        damage: Callable[[str], None] | None = None,
    ) -> None:
        super().__init__(machine, session, restart, damage=damage)
        self._kill = kill

    def crash(self, event: str, point: int) -> bool:
        """Like :class:`~fsm.sut.Crashing`, except that a call that is not cut off needs no restart."""
        if self._rpc[event] not in self._calls:
            raise UnsupportedError("only calls are cut off")
        call = Thread(target=self._attempted, args=(event,), daemon=True)
        call.start()
        call.join(BEGINNING + STEP * point)
        if not call.is_alive():
            return False
        self._kill()
        call.join()
        self.find()  # the reply with the entity's id is lost
        return True

    def _attempted(self, event: str) -> None:
        with suppress(BrokenError):  # the killed runtime gives no answer
            self.do(event)
