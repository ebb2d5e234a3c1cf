"""The sandbox controller as containerd 2.2 has it, where that is not what it is meant to do.

The profile ``as-written`` of the machine allows all of it.
"""

from __future__ import annotations

from contextlib import suppress
from dataclasses import replace
from typing import TYPE_CHECKING

from fsm.reference.container.world import Exit, NoTaskError, WorldError
from fsm.reference.driven import UNKNOWN, CallError
from fsm.reference.sandbox.controller import LOST_CODE, Controller, Sandbox, driver
from fsm.reference.sandbox.world import WatchError

if TYPE_CHECKING:
    from fsm.machine import Outcome


class AsWritten(Controller):
    """A controller whose records say ready until the task is deleted, and which forgets who waits."""

    _forgets = False

    async def wait(self, name: str, patience: float | None = None) -> Exit:
        """As the other, but the error for what is not there has no code of its own."""
        if name not in self._store:
            event = "wait"
            raise CallError(event, UNKNOWN, f'failed to get exit channel. "{name}"')
        return await super().wait(name, patience)

    def create(self, name: str) -> None:
        """Replace what is there without a word."""
        known = self._store.pop(name, None)
        try:
            super().create(name)
        except CallError:
            if known:
                self._store[name] = known
            raise

    def _describe(self, sandbox: Sandbox, pid: int) -> None:
        """Record it before."""
        sandbox.record = replace(sandbox.record, pid=pid, created_at=sandbox.world.now())
        super()._describe(sandbox, pid)

    def _failed(self, sandbox: Sandbox, why: str) -> None:
        """Leave the record in the store, whatever it says."""
        with suppress(WorldError):
            sandbox.world.undo()
        if sandbox.record.pid:
            sandbox.position, sandbox.noticed = driver().position("ended"), True
        event = "start"
        raise CallError(event, UNKNOWN, why)

    async def stop(self, name: str, patience: float | None = None) -> None:
        """As the other; but where there is no task, what is ready stays so."""
        known = self._store.get(name)
        if known and known.record.pid:
            self._notice(known)
            if not known.world.task():
                return
        await super().stop(name, patience)

    def _deleted(self, sandbox: Sandbox, well: str) -> tuple[str, str]:
        """As the other; the hook runs before each attempt, not after the one that succeeds."""
        came, why = super()._deleted(sandbox, well)
        if came != "kept":
            return came, why
        self._notice(sandbox)
        sandbox.world.hook()
        return "failed", why

    async def _retried(self, event: tuple[Sandbox, Exit]) -> None:
        """Discard what is told of a sandbox that is not in the store any more."""
        if self._store.get(event[0].id) is event[0]:
            await super()._retried(event)

    def handle(self, sandbox: Sandbox, ended: Exit) -> bool:
        """Record the exit once the task is deleted, over what is recorded."""
        self._notice(sandbox)
        if sandbox.record.exit is not None and not self._forgotten(sandbox):
            self._tell(sandbox, ended)
            return True
        if self._idle(sandbox, "handle"):
            return super().handle(sandbox, ended)
        handled = self._attempted(sandbox)
        if handled:
            self._take(sandbox, "handle", handled, ended)
        return bool(handled)

    async def _watch(self, sandbox: Sandbox) -> None:
        """Take a watch that breaks for an exit, and kill what runs."""
        try:
            ended = await sandbox.world.exited()
        except WatchError:
            ended = Exit(LOST_CODE, sandbox.world.now())
            if not sandbox.noticed and not sandbox.world.ended():
                sandbox.noticed = True
                sandbox.position.take("exit")  # as it thinks
        if not self.handle(sandbox, ended):
            self.monitor.backoff(sandbox.id, (sandbox, ended))

    def _attempted(self, sandbox: Sandbox) -> str:
        """Try to delete the task: what came of it; nothing, if it failed."""
        try:
            if not sandbox.world.task():
                return "gone"
            sandbox.world.delete()
        except NoTaskError:
            return "gone"
        except WorldError:
            sandbox.world.hook()
            return ""
        return "deleted"

    def _forgotten(self, sandbox: Sandbox) -> bool:
        return self._store.get(sandbox.id) is not sandbox

    def _take(
        self, sandbox: Sandbox, event: str, outcome: str = "", ended: Exit | None = None, why: str = "not in this state"
    ) -> Outcome:
        self._forgets = event == "shutdown" and outcome == "removed" and (sandbox.noticed or not sandbox.record.pid)
        return super()._take(sandbox, event, outcome, ended, why)

    def _tell(self, sandbox: Sandbox, ended: Exit) -> None:
        """Write over what is recorded; and nobody is told of what is shut down."""
        if self._forgets:
            return
        if sandbox.over.done():
            sandbox.record = replace(sandbox.record, exit=ended)
            self._told(sandbox.id)
        else:
            super()._tell(sandbox, ended)
