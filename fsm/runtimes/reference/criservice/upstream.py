"""containerd's own CRI service and the code that constructs it. Both deviate from the intended behaviour."""

import random
from collections.abc import Callable, Sequence
from typing import NoReturn

from fsm.runtimes.reference.criservice import CloseError, Construction, ConstructionError, CRIService, RunError
from fsm.runtimes.reference.criservice.components import Component, Syncer, until
from fsm.runtimes.reference.nri.messages import Container, Pod


class UnrecoverableError(Exception):
    """A sandbox controller cannot recover at all."""


class UpstreamSyncer(Syncer):
    """A syncer that ends without an error if its watcher is closed."""

    def lose_watcher(self) -> None: ...


class UpstreamService(CRIService):
    """containerd's own service, whose Run returns early and leaves components running. It stays initialised forever."""

    syncer = UpstreamSyncer

    chance: Callable[[Sequence[str]], str] = staticmethod(random.choice)

    def _may_run(self) -> bool:
        return super()._may_run() or (
            self.position.state == "returned" and self.parts.monitor.state in {"off", "closed"}
        )

    async def _run_until_end(self, ready: Callable[[], None]) -> None:
        if self.parts.registration.error is not None:
            self._fail("registration", self.parts.registration.error)
        await self._serve_until_end(ready)
        errors = self._select_error()
        try:
            self.close()
        except CloseError as error:
            self._fail("close", error)
        self.position.take("closes")
        await until(self._changed, lambda: self.parts.monitor.state != "stopping")
        await self._pause("return")
        errors |= {name: part.take_error() for name, part in self._drained_parts().items() if part.state == "failed"}
        self._return([(name, errors[name]) for name in ("monitor", "server", "syncer") if name in errors][:1])

    def exited(self, pod: Pod, container: Container) -> None:
        """Notify NRI of an exit. Before the registration, the process exits instead, because NRI is a nil pointer."""
        if self.parts.registration.state != "on":
            self._exit(RuntimeError("invalid memory address or nil pointer dereference"))
        super().exited(pod, container)

    def close(self) -> None:
        """Stop the syncers, the monitor and the server in this order. NRI and the queue keep running."""
        for part in (*self.parts.syncers, self.parts.monitor):
            part.stop()
        try:
            self.parts.server.stop()
        except OSError as error:
            raise CloseError(f"failed to stop stream server: {error}") from error

    async def _run_again(self) -> None:
        """Fail like a second Run in containerd: in the recovery, or because the domain is already registered."""
        try:
            await self._recover()
        except Exception as error:
            raise RunError("recovery", error) from error
        self._exit(RuntimeError("failed to register namespace with NRI: there is one already"))

    def _fail(self, what: str, error: Exception) -> NoReturn:
        if isinstance(error, UnrecoverableError):
            self._exit(error)
        self.position.take("fails")
        raise RunError(what, error) from error

    def _select_error(self) -> dict[str, Exception]:
        ready = [name for name, part in self._drained_parts().items() if part.state in {"failed", "ended"}]
        states = {syncer.state for syncer in self.parts.syncers}
        ready += ["syncer"] * ("failed" in states) + ["syncer-ended"] * ("ended" in states)
        chosen = self.chance(ready)
        if chosen == "syncer-ended":
            return {}
        read: Sequence[Component] = self.parts.syncers if chosen == "syncer" else (self._drained_parts()[chosen],)
        errors = [part.take_error() for part in read if part.state == "failed"]
        return {chosen: errors[0]} if errors else {}

    def _drained_parts(self) -> dict[str, Component]:
        return {"monitor": self.parts.monitor, "server": self.parts.server}

    def _exit(self, error: Exception) -> NoReturn:
        self.position.take("exits")
        self.flag.take("clears")
        for part in self.parts:
            part.discard()
        self._fatal(error)


class UpstreamConstruction(Construction):
    """containerd's own construction, which stops at the first error and leaves the finished parts running."""

    profile = "upstream"

    def miss_controller(self) -> None:
        self._take_leaking_outcome("set-controller")
        self._fatal(TypeError("interface conversion: interface is nil, not *podsandbox.Controller"))

    def fail(self, step: str, _outcome: str, error: Exception) -> NoReturn:
        self._take_leaking_outcome(step)
        raise ConstructionError(f"{step}: {error}") from error

    def _take_leaking_outcome(self, step: str) -> None:
        leaking = (way for way in self.position.outcomes(step) if way.to.startswith(("leaked", "panicked")))
        self.position.take(step, next(leaking).name)
