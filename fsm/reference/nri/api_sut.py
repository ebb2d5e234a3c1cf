"""The reference of containerd's NRI interface under test: made, started and stopped, with a plugin that sees what is relayed."""

from __future__ import annotations

import socket
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from itertools import count, cycle
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Final

from fsm.reference.nri.api import NRI
from fsm.reference.nri.config import RELEASES, Config, default_config
from fsm.reference.nri.domain import Domains
from fsm.reference.nri.fake_domain import FakeDomain
from fsm.reference.nri.messages import Answer, Container, Pod, Update
from fsm.reference.nri.nri_errors import NRIError
from fsm.reference.nri.syncing import PluginSyncBlock, SyncLock
from fsm.sut import UnsupportedError, drained

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator, Sequence

    from fsm.reference.nri.messages import Request

PATIENT: Final = 10.0
"""Seconds that a plugin has to answer; it does at once."""

POD: Final = Pod(id="pod")
OTHER: Final = "other"


@dataclass(kw_only=True, eq=False)
class _Recorder:
    """A plugin that counts what it is sent; with ``refuses`` it answers with an error."""

    index: str
    name: str = "recorder"
    events: Collection[str] = ()
    synchronised: int = 0
    heard: int = 0
    refuses: bool = False

    def synchronize(self, pods: Sequence[Pod], containers: Sequence[Container]) -> Sequence[Update]:
        """Nothing is wanted."""
        del pods, containers
        self.synchronised += 1
        return ()

    def handle(self, request: Request) -> Answer:
        """Do as it is told."""
        self.heard += 1
        if self.refuses:
            raise NRIError(f"no {request.event}", code="INTERNAL")
        return Answer()


class _Impatient(SyncLock):
    """Nobody waits to join while that is blocked: there is nobody else who could unblock it."""

    @contextmanager
    def joining(self, *, timeout: float) -> Iterator[None]:
        """Now, or not at all."""
        del timeout
        with super().joining(timeout=0):
            yield


class NriApiSUT:
    """The interface of *release*; *kind* makes it.

    >>> sut = NriApiSUT()
    >>> sut.shows(), sut.do("new"), sut.outputs(), sut.do("start"), sut.outputs(), sut.shows()
    ('none', 'ok', ['timeouts'], 'ok', ['synchronised'], 'started')
    >>> sut.arrange("relay", "error"), sut.do("relay"), sut.outputs()
    (True, 'INTERNAL', ['relayed'])
    >>> sut.do("stop"), sut.outputs(), sut.do("stop"), sut.shows()
    ('ok', ['dismissed'], 'UNAVAILABLE', 'stopped')
    >>> sut.close()
    """

    def __init__(self, release: str = "", kind: Callable[..., NRI] = NRI) -> None:
        self._release: Final = release if release in RELEASES else ""
        self._kind: Final = kind
        self._directory: Final = TemporaryDirectory(prefix="fsm-nri-")
        self._begin()

    def _begin(self) -> None:
        self._nri: NRI | None = None
        self._others: list[NRI] = []
        self._hope = ""
        self._told: list[str] = []
        self._blocks: list[PluginSyncBlock] = []
        self._numbers = count(1)
        self._domain = FakeDomain(containers=[Container(id=OTHER, pod_id=POD.id)])
        self._domains = Domains([self._domain])
        self._plugin = _Recorder(index="10")
        self._relays: Iterator[Callable[[NRI, Pod, Container], object]] = cycle(
            (
                lambda nri, pod, _: nri.run_pod_sandbox(pod),
                lambda nri, pod, one: nri.create_container(pod, one),
                lambda nri, pod, one: nri.post_create_container(pod, one),
                lambda nri, pod, one: nri.start_container(pod, one),
                lambda nri, pod, one: nri.post_start_container(pod, one),
                lambda nri, pod, one: nri.update_container(pod, one, {}),
                lambda nri, pod, one: nri.post_update_container(pod, one),
            )
        )

    def reset(self) -> None:
        """A process without an interface."""
        self._end()
        self._begin()

    def close(self) -> None:
        """End the plugins' threads."""
        self._end()
        self._directory.cleanup()

    def shows(self) -> str:
        """Where the interface stands."""
        return self._nri.state if self._nri else "none"

    def outputs(self) -> Sequence[str]:
        """What the world was told."""
        return drained(self._told)

    def arrange(self, event: str, outcome: str) -> bool:
        """See to all but what another release does."""
        self._hope = outcome
        old = self._release == "containerd-1.7"
        match event, outcome:
            case ("relay-pod-update" | "block", "unknown"):
                return False
            case ("new-default", "disabled") | ("start", "untold"):
                return old
            case ("new-default", "created") | ("start", "started"):
                return not old
            case _:
                return True

    def do(self, event: str) -> str:
        """Call the interface; where there is none, it is as one that is disabled."""
        call = getattr(self, "_" + event.replace("-", "_"), None)
        if call is None:
            message = f"the reference of nri-api has no event {event!r}"
            raise UnsupportedError(message)
        hope, self._hope = self._hope, ""
        try:
            call(hope)
        except NRIError as error:
            return error.code
        except ValueError:
            return "INVALID_ARGUMENT"
        finally:
            self._plugin.refuses = False
            self._domain.stubborn = ()
        return "ok"

    # -- making ----------------------------------------------------------------

    @property
    def _here(self) -> NRI:
        return self._nri or NRI(Config(disable=True, release=RELEASES[self._release]))

    def _new(self, hope: str) -> None:
        self._make(
            Config(
                disable=hope == "disabled",
                plugin_request_timeout=-1 if hope == "failed" else PATIENT,
                release=RELEASES[self._release],
            )
        )

    def _new_default(self, _: str) -> None:
        self._make(default_config(self._release))

    def _make(self, config: Config) -> None:
        path = Path(self._directory.name) / "nri.sock"
        config = replace(
            config,
            socket_path=str(path),
            plugin_registration_timeout=PATIENT,
            plugin_request_timeout=PATIENT + next(self._numbers),
        )
        before = self._nri and self._nri.config
        nri = self._kind(config, self._domains, [self._plugin], self._listen, _Impatient())
        if self._nri is None:
            self._nri = nri
            if nri.is_enabled() and nri.config == config:
                self._told.append("timeouts")
            return
        self._others.append(nri)
        if self._nri.config != before:
            self._told.append("timeouts")

    def _is_enabled(self, _: str) -> None:
        if self._here.is_enabled():
            self._told.append("enabled")

    def _configure_timeouts(self, _: str) -> None:
        nri, request = self._here, PATIENT + next(self._numbers)
        nri.configure_timeouts(registration=PATIENT, request=request)
        if nri.config.request_timeout == request:
            self._told.append("timeouts")

    def _register_domain(self, hope: str) -> None:
        self._domains.register(FakeDomain(name="k8s.io" if hope == "duplicate" else f"domain-{next(self._numbers)}"))

    # -- starting and stopping ---------------------------------------------------

    def _listen(self, path: str) -> socket.socket:
        Path(path).unlink(missing_ok=True)
        listener = socket.socket(socket.AF_UNIX)
        try:
            listener.bind(path + "/no/such/place" if self._breaks else path)
        except OSError:
            listener.close()
            self._unheard = True
            raise
        listener.listen()
        return listener

    def _start(self, hope: str) -> None:
        nri, before = self._here, self._plugin.synchronised
        self._breaks, self._unheard = hope == "no-socket", False
        self._plugin.index = "none" if hope == "no-plugins" else "10"
        try:
            nri.start()
        except NRIError:
            if self._unheard:
                self._told.append("left-running" if nri.plugins else "dismissed")
            raise
        if self._plugin.synchronised > before:
            self._told.append("synchronised")

    def _stop(self, _: str) -> None:
        nri = self._here
        before = nri.plugins
        nri.stop()
        if before and not nri.plugins:
            self._told.append("dismissed")

    # -- what is relayed -----------------------------------------------------------

    def _relay(self, hope: str) -> None:
        self._hearing(hope, lambda: next(self._relays)(self._here, POD, self._container()))

    def _relay_end(self, hope: str) -> None:
        nri, one = self._here, self._container()
        if hope in {"ok", "error"}:
            nri.start_container(POD, one)
        self._hearing(hope, lambda: nri.stop_container(POD, one))

    def _relay_pod_update(self, hope: str) -> None:
        self._hearing(hope, lambda: self._here.update_pod_sandbox(POD))

    def _notify_exit(self, hope: str) -> None:
        nri, one = self._here, self._container()
        if hope == "relayed":
            nri.start_container(POD, one)

        def notified() -> None:
            nri.notify_container_exit(POD, one)
            nri.wait_for_exits()

        self._hearing(hope, notified)

    def _container(self) -> Container:
        return Container(id=f"container-{next(self._numbers)}", pod_id=POD.id)

    def _hearing(self, hope: str, call: Callable[[], object]) -> None:
        self._plugin.refuses = hope == "error"
        before = self._plugin.heard
        try:
            call()
        finally:
            self._told += ["relayed"] * (self._plugin.heard - before)

    # -- plugins ---------------------------------------------------------------------

    def _block(self, _: str) -> None:
        self._blocks.append(self._here.block_plugin_sync())

    def _unblock(self, hope: str) -> None:
        if hope == "another" and len(self._blocks) == 1:
            self._block("")
        while len(self._blocks) > 1 and hope == "last":
            self._blocks.pop().unblock()
        (self._blocks.pop(0) if self._blocks else PluginSyncBlock()).unblock()

    def _join(self, hope: str) -> None:
        plugin = _Recorder(index="none" if hope == "failed" else "20", name=f"comes-{next(self._numbers)}")
        try:
            self._here.register(plugin)
        finally:
            self._told += ["synchronised"] * plugin.synchronised
            with suppress(NRIError):
                self._here.disconnect(plugin)

    def _leave(self, _: str) -> None:
        self._here.disconnect(_Recorder(index="30"))

    def _update_containers(self, hope: str) -> None:
        self._domain.stubborn = (OTHER,) if hope == "failed" else ()
        self._domain.done.clear()
        try:
            self._here.update_containers([Update(container_id=OTHER)])
        finally:
            self._told += ["updated"] * len(self._domain.done)

    def _end(self) -> None:
        for block in self._blocks:
            block.unblock()
        for nri in (*self._others, *([self._nri] if self._nri else [])):
            nri.wait_for_exits()
            with suppress(Exception):  # whatever is wrong with it was found before
                nri.stop()
