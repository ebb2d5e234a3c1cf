"""containerd's CRI service and its construction, where they differ from what the machines intend."""

import random
from collections.abc import Callable, Sequence
from typing import NoReturn

from fsm.runtimes.reference.criservice.components import Component, Syncer, until
from fsm.runtimes.reference.criservice.service import CloseError, Construction, ConstructionError, CRIService, RunError
from fsm.runtimes.reference.nri.messages import Container, Pod


class UnrecoverableError(Exception):
    """A sandbox controller cannot recover at all."""


class UpstreamSyncer(Syncer):
    """A syncer that ends without an error if its watcher is closed."""

    def lose_watcher(self) -> None: ...


class UpstreamService(CRIService):
    """A service whose Run returns early and leaves components running. Once initialised, it stays initialised."""

    syncer = UpstreamSyncer

    chance: Callable[[Sequence[str]], str] = staticmethod(random.choice)
    """Chooses which of several ready channels is read."""

    async def run(self, ready: Callable[[], None]) -> None:
        """Run the service. A second call terminates the process if anything remains from the first."""
        has_run = self.position.state == "returned" and self.parts.monitor.state in {"off", "closed"}
        if self.position.state != "idle" and not has_run:
            await self._run_again()
        self.position.take("starts")
        self.parts.monitor.subscribe()
        try:
            await self._recover()
        except UnrecoverableError as error:
            self._exit(error)
        except Exception as error:  # noqa: BLE001  (any error is returned)
            self._fail("recovery", error)
        self._launch()
        await self._pause("register")
        await self.parts.registration.register()
        if self.parts.registration.error is not None:
            self._fail("registration", self.parts.registration.error)
        self._serve(ready)
        await until(self._changed, lambda: not self._all_on())
        await self._pause("shut-down")
        errors = self._select()
        try:
            self.close()
        except CloseError as error:
            self._fail("close", error)
        self.position.take("closes")
        await until(self._changed, lambda: self.parts.monitor.state != "stopping")
        await self._pause("return")
        self._return_first(errors)

    def exited(self, pod: Pod, container: Container) -> None:
        """Notify NRI. Before the registration, exit the process, because NRI is then a nil pointer."""
        if self.parts.registration.state != "on":
            self._exit(RuntimeError("invalid memory address or nil pointer dereference"))
        super().exited(pod, container)

    def close(self) -> None:
        """Stop syncers, monitor and server until one cannot be closed. Leave NRI and the queue running."""
        for each in (*self.parts.syncers, self.parts.monitor):
            each.stop()
        try:
            self.parts.server.stop()
        except OSError as error:
            raise CloseError(f"failed to stop stream server: {error}") from error

    async def _run_again(self) -> None:
        """Recover what already exists, and register the domain again. One of the two fails."""
        try:
            await self._recover()
        except Exception as error:
            raise RunError("recovery", error) from error
        self._exit(RuntimeError("failed to register namespace with NRI: there is one already"))

    def _fail(self, what: str, error: Exception) -> None:
        self.position.take("fails")
        raise RunError(what, error) from error

    def _select(self) -> dict[str, Exception]:
        """Read one of the ready channels. Return a mapping of its name to its error, if it has one."""
        ready = [name for name, each in self._drains().items() if each.state in {"failed", "ended"}]
        states = {each.state for each in self.parts.syncers}
        ready += ["syncer"] * ("failed" in states) + ["syncer-ended"] * ("ended" in states)
        chosen = self.chance(ready)
        if chosen == "syncer-ended":
            return {}
        read: Sequence[Component] = self.parts.syncers if chosen == "syncer" else (self._drains()[chosen],)
        errors = [each.take_error() for each in read if each.state == "failed"]
        return {chosen: errors[0]} if errors else {}

    def _drains(self) -> dict[str, Component]:
        """Return the components that Run always waits for, by name."""
        return {"monitor": self.parts.monitor, "server": self.parts.server}

    def _return_first(self, errors: dict[str, Exception]) -> None:
        errors |= {name: each.take_error() for name, each in self._drains().items() if each.state == "failed"}
        what = next((name for name in ("monitor", "server", "syncer") if name in errors), "nothing")
        self.position.take("returns", what)
        if errors:
            raise RunError(what, errors[what]) from errors[what]

    def _exit(self, error: Exception) -> None:
        self.position.take("exits")
        self.flag.take("clears")
        for each in self.parts:
            each.discard()
        self._fatal(error)


class UpstreamConstruction(Construction):
    """A construction that returns an error immediately, and leaves running what it has made."""

    profile = "upstream"

    def miss_controller(self) -> None:
        """Panic, because containerd does not check for a missing controller."""
        self._leak("set-controller")
        self._fatal(TypeError("interface conversion: interface is nil, not *podsandbox.Controller"))

    def fail(self, step: str, outcome: str, error: Exception) -> NoReturn:
        del outcome
        self._leak(step)
        raise ConstructionError(f"{step}: {error}") from error

    def _leak(self, step: str) -> None:
        (way,) = (each.name for each in self.position.outcomes(step) if each.to.startswith(("leaked", "panicked")))
        self.position.take(step, way)
