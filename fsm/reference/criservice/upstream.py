"""The CRI service as containerd has it, where that is not what it should be.

The system ``cri-service`` without a profile is this one.
"""

from __future__ import annotations

import random
from typing import TYPE_CHECKING

from fsm.reference.criservice.components import until
from fsm.reference.criservice.service import CloseError, CRIService, RunError
from fsm.reference.criservice.syncer import Syncer

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from fsm.reference.criservice.components import Component
    from fsm.reference.nri.messages import Container, Pod


class UnrecoverableError(Exception):
    """A sandbox controller that cannot recover at all."""


class AsWrittenSyncer(Syncer):
    """One that takes a watcher that was closed for the end."""

    def unasked(self) -> None:
        """End without an error."""


class AsWritten(CRIService):
    """Run returns early, and forgets what it has started; what is initialised stays so."""

    syncer = AsWrittenSyncer

    chance: Callable[[Sequence[str]], str] = staticmethod(random.choice)
    """Which of several channels is read."""

    async def run(self, ready: Callable[[], None]) -> None:
        """As it is; where it was run before and something is there, that ends the process."""
        if self.position.state != "idle" and not self._may_run_again():
            await self._run_again()
        self.position.take("starts")
        self.parts.monitor.subscribe()
        try:
            await self._recover()
        except UnrecoverableError as error:
            self._exit(error)
        except Exception as error:  # noqa: BLE001  (whatever it is, it is returned)
            self._fail("recovery", error)
        self._launch()
        await self._pause("register")
        await self.parts.registration.register()
        if self.parts.registration.error is not None:
            self._fail("registration", self.parts.registration.error)
        self._serve(ready)
        await until(self._changed, lambda: not self._all_on())
        await self._pause("shut-down")
        told = self._select()
        try:
            self.close()
        except CloseError as error:
            self._fail("close", error)
        self.position.take("closes")
        await until(self._changed, lambda: self.parts.monitor.state != "stopping")
        await self._pause("return")
        self._return_after(told)

    def exited(self, pod: Pod, container: Container) -> None:
        """As it is, but what tells NRI is there only when the service was registered."""
        if self.parts.registration.state != "on":
            message = "invalid memory address or nil pointer dereference"
            self._exit(RuntimeError(message))
        super().exited(pod, container)

    def close(self) -> None:
        """Stop syncers, monitor and server; NRI and event queue are not, and what cannot be closed goes on."""
        for each in (*self.parts.syncers, self.parts.monitor):
            each.stop()
        try:
            self.parts.server.stop()
        except OSError as error:
            message = f"failed to stop stream server: {error}"
            raise CloseError(message) from error

    # -- steps ---------------------------------------------------------------

    def _may_run_again(self) -> bool:
        """Whether nothing was started when it was run before."""
        return self.position.state == "returned" and self.parts.monitor.state in {"off", "closed"}

    async def _run_again(self) -> None:
        """Recover what is there already, and register the domain again: either fails."""
        try:
            await self._recover()
        except Exception as error:
            what = "recovery"
            raise RunError(what, error) from error
        message = "failed to register namespace with NRI: there is one already"
        self._exit(RuntimeError(message))

    def _fail(self, what: str, error: Exception) -> None:
        """Return at once."""
        self.position.take("fails")
        raise RunError(what, error) from error

    def _select(self) -> dict[str, Exception]:
        """Read one channel of those that have something, and its error, if it is one."""
        over = {"failed", "ended"}
        ready = [name for name, each in self._drains().items() if each.state in over]
        states = {each.state for each in self.parts.syncers}
        ready += ["syncer"] * ("failed" in states) + ["syncer-ended"] * ("ended" in states)
        chosen = self.chance(ready)
        if chosen == "syncer-ended":
            return {}
        read: Sequence[Component] = self.parts.syncers if chosen == "syncer" else (self._drains()[chosen],)
        errors = [each.tell() for each in read if each.state == "failed"]
        return {chosen: errors[0]} if errors else {}

    def _drains(self) -> dict[str, Component]:
        """Those that Run waits for in any case."""
        return {"monitor": self.parts.monitor, "server": self.parts.server}

    def _return_after(self, told: dict[str, Exception]) -> None:
        """Read the other two channels, and return the first error in their order."""
        told |= {name: each.tell() for name, each in self._drains().items() if each.state == "failed"}
        what = next((name for name in ("monitor", "server", "syncer") if name in told), "nothing")
        self.position.take("returns", what)
        if told:
            raise RunError(what, told[what]) from told[what]

    def _exit(self, error: Exception) -> None:
        """End the process; what it had the system takes back."""
        self.position.take("exits")
        self.flag.take("clears")
        for each in self.parts:
            each.abandon()
        self._fatal(error)
