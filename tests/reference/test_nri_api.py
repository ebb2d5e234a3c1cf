"""The reference NRI interface conforms to its machine, and planted bugs are found."""

# ruff: noqa: SLF001  (a method is the bug that its class describes, and uses private names)

from __future__ import annotations

import threading
from pathlib import Path
from typing import TYPE_CHECKING, Any
from unittest.mock import MagicMock

import pytest
from nri_parts import ONE, POD, FakePlugin

from fsm.conformance.suite import conform
from fsm.language.library import load
from fsm.runtimes.reference.clock import TurnedClock
from fsm.runtimes.reference.nri import NRI, PluginSyncBlock, SyncLock
from fsm.runtimes.reference.nri.connection import Connection, finish
from fsm.runtimes.reference.nri.messages import NOTHING, BlockedError, NRIError, NRIStoppedError, ReentrantError
from fsm.runtimes.reference.nri.session import Config
from fsm.runtimes.reference.nri.sut import NriApiSUT

if TYPE_CHECKING:
    from collections.abc import Callable

    from fsm.runtimes.reference.nri.lifecycle import MergedAnswers
    from fsm.runtimes.reference.nri.messages import Container, Fields, Pod

UNARRANGED = {
    "": {"block=unknown", "new-default=disabled", "relay-pod-update=unknown", "start=unsynchronised"},
    "containerd-1.7": set(),
    "containerd-2.1": set(),
    "containerd-main": set(),
    "upstream": {
        *("block=unknown", "new-default=disabled", "relay-pod-update=unknown", "start=unsynchronised"),
        *("configure-timeouts=kept", "new=failed-late", "new=timeouts", "new-default=timeouts", "notify-exit=panic"),
        *("block=panic", "relay=panic", "relay-end=panic", "relay-pod-update=panic", "start=panic", "stop=panic"),
        *("register-domain=fatal", "start=again", "start=left", "stop=left"),
    },
}
"""Outcomes that tests of a release cannot request, because the reference or the release lacks them."""


@pytest.mark.slow
@pytest.mark.parametrize("release", UNARRANGED)
def test_passes_the_test_of_its_machine(release: str) -> None:
    found = conform(load("nri-api"), lambda: NriApiSUT(release), profile=release or None, examples=5)

    assert ((), ()) == (found.failures, found.missed)
    assert {"=".join(each) for each in found.unarranged} == UNARRANGED[release]


def test_the_newest_release_does_not_conform_to_an_old_one() -> None:
    found = conform(load("nri-api"), NriApiSUT, profile="containerd-1.7", examples=0)

    assert {"new-default", "start", "block", "relay-pod-update"} == {each.steps[-1].event for each in found.failures}


class CrashesAfterStop(NRI):
    """An interface that crashes on a second stop, because the first stop has deleted the plugins, as in containerd."""

    def stop(self) -> None:
        if self.state == "stopped":
            raise AttributeError("nil pointer dereference")
        super().stop()


class AcceptsAfterStop(NRI):
    def relay(
        self, event: str, pod: Pod, container: Container | None = None, resources: Fields = NOTHING
    ) -> MergedAnswers | None:
        try:
            return super().relay(event, pod, container, resources)
        except NRIStoppedError:
            if event != "run-pod-sandbox":
                raise
        return None


class StopsNothing(NRI):
    """An interface that does not remove the plugins when it stops."""

    def stop(self) -> None:
        self._plugins.close = MagicMock()  # type: ignore[method-assign]  # the planted bug
        super().stop()


class StartsAgain(NRI):
    def start(self) -> None:
        if self.state != "started":
            super().start()


class LeavesPlugins(NRI):
    """An interface that keeps the plugins if the socket cannot be opened, as in containerd."""

    def _open_socket(self) -> None:
        before = self._plugins.joined
        try:
            super()._open_socket()
        except NRIError:
            self._plugins.leave = MagicMock()  # type: ignore[method-assign]  # the planted bug
            self._plugins.joined = before
            raise


class StartsUnsynchronised(NRI):
    def start(self) -> None:
        installed, self._installed = self._installed, ()  # type: ignore[misc]  # the planted bug
        super().start()
        for each in installed:
            connection = Connection(FakePlugin(name=each.name), self._terms)
            finish(connection.handshake(launched=True))
            finish(connection.synchronise([((), ())]))
            self._plugins.join(connection)


class StartsWhileBlocked(NRI):
    """An interface that can be started while synchronisation is blocked, as in containerd."""

    def start(self) -> None:
        if self.state == "held":
            self._life.take("unblock", "last")
            super().start()
            self._life.take("block", "blocked")
        else:
            super().start()


class BlocksNothing(NRI):
    def block_plugin_sync(self) -> PluginSyncBlock:
        return PluginSyncBlock()


class BlocksOnce(NRI):
    def block_plugin_sync(self) -> PluginSyncBlock:
        return PluginSyncBlock() if self.state == "blocked" else super().block_plugin_sync()


class BlocksForever(NRI):
    def block_plugin_sync(self) -> PluginSyncBlock:
        super().block_plugin_sync()
        return PluginSyncBlock()


class JoinsWhileBlocked(NRI):
    def register(self, plugin: Any) -> None:  # noqa: ANN401  # a plugin
        if self.state == "blocked":
            plugin.synchronize((), ())
        else:
            super().register(plugin)


class JoinsBeforeStart(NRI):
    def register(self, plugin: Any) -> None:  # noqa: ANN401  # a plugin
        if self.state != "created":
            super().register(plugin)


class UpdatesAfterStop(NRI):
    """An interface that accepts updates from plugins after the stop, as in containerd."""

    def update_containers(self, updates: Any, plugin: Any = None) -> None:  # noqa: ANN401  # updates
        if self.state == "stopped":
            self.domains.change(updates)
        else:
            super().update_containers(updates, plugin)


class DisabledFails(NRI):
    def start(self) -> None:
        if not self.is_enabled():
            raise NRIError("disabled")
        super().start()


class EnabledAlways(NRI):
    def is_enabled(self) -> bool:
        return True


class EnabledWhileStarted(NRI):
    """An interface that counts as disabled after the stop."""

    def is_enabled(self) -> bool:
        return self.state != "stopped" and super().is_enabled()


class KeepsItsTimeouts(NRI):
    def configure_timeouts(self, *, registration: float = 0, request: float = 0) -> None:
        before = self.config
        super().configure_timeouts(registration=registration, request=request)
        self.config = before


class SharesTimeouts(NRI):
    """An interface whose timeouts also apply to all other interfaces, as in containerd."""

    last: list[NRI]

    def __init__(self, config: Config, *args: Any) -> None:  # noqa: ANN401  # the arguments of the interface
        super().__init__(config, *args)
        for each in SharesTimeouts.last:
            each.config = config
        SharesTimeouts.last[:] = [*SharesTimeouts.last, self][-2:]


SharesTimeouts.last = []


class DropsExits(NRI):
    def notify_container_exit(self, pod: Pod, container: Container) -> None:
        self._life.accepts("notify-exit")
        del pod, container


class RelaysTwice(NRI):
    def relay(
        self, event: str, pod: Pod, container: Container | None = None, resources: Fields = NOTHING
    ) -> MergedAnswers | None:
        relayed = super().relay(event, pod, container, resources)
        if container and event == "stop-container" and self.state == "started":
            super().relay("start-container", pod, container)
        return relayed


BUGS: dict[type[NRI], str] = {
    CrashesAfterStop: "new; stop; stop",
    AcceptsAfterStop: "new; stop; relay",
    StopsNothing: "new; start; stop",
    StartsAgain: "new; start; start",
    LeavesPlugins: "new; start",
    StartsUnsynchronised: "new; start",
    StartsWhileBlocked: "new; block; start",
    BlocksNothing: "new; block",
    BlocksOnce: "new; start; block; unblock",
    BlocksForever: "new; block; unblock",
    JoinsWhileBlocked: "new; start; block; join",
    JoinsBeforeStart: "new; join",
    UpdatesAfterStop: "new; stop; update-containers",
    DisabledFails: "new; start",
    EnabledAlways: "new",
    EnabledWhileStarted: "new; stop; is-enabled",
    KeepsItsTimeouts: "new; configure-timeouts",
    SharesTimeouts: "new; new",
    DropsExits: "new; start; notify-exit",
    RelaysTwice: "new; start; relay-end",
}


@pytest.mark.slow
@pytest.mark.parametrize("profile", ["", "upstream"])
@pytest.mark.parametrize("kind", BUGS, ids=lambda kind: kind.__name__)
def test_a_bug_is_found_by_the_shortest_test(kind: type[NRI], profile: str) -> None:
    found = conform(load("nri-api"), lambda: NriApiSUT(profile, kind), profile=profile or None, examples=0)

    shortest = min(found.failures, key=lambda failure: len(failure.steps))
    # If ``new`` never has the expected outcome under a profile, the test uses ``new-default``.
    assert BUGS[kind] == "; ".join(step.event for step in shortest.steps).replace("new-default", "new")


class ExitsAtDuplicates(NriApiSUT):
    """An interface that ends the process when a domain is registered twice, as in containerd."""

    def _register_domain(self) -> None:
        try:
            super()._register_domain()
        except NRIError:
            self.reset()
            raise


def test_a_process_that_a_duplicate_domain_ends_is_found() -> None:
    found = conform(load("nri-api"), ExitsAtDuplicates, examples=0)

    assert "new; register-domain" in {"; ".join(step.event for step in each.steps) for each in found.failures}


def test_the_socket_is_opened_at_the_start_and_closed_at_the_stop() -> None:
    done: list[str] = []

    def listen(path: str) -> Callable[[], None]:
        done.append(path)
        return lambda: done.append("closed")

    nri = NRI(Config(socket_path="here"), listen=listen)
    nri.start()
    assert done == ["here"]
    nri.stop()
    assert done == ["here", "closed"]


def test_no_socket_is_opened_if_connections_are_disabled() -> None:
    def listen(path: str) -> Any:  # noqa: ANN401  # never
        raise AssertionError(path)

    nri = NRI(Config(disable_connections=True), listen=listen)
    nri.start()

    assert nri.state == "started"
    nri.stop()


def test_a_start_without_a_socket_can_be_repeated(tmp_path: Path) -> None:
    broken = [True]

    def listen(path: str) -> Any:  # noqa: ANN401  # a file
        if broken.pop():
            raise PermissionError(13, "Permission denied")
        return Path(path).open("w", encoding="utf-8").close

    broken.append(False)
    broken.append(True)
    nri = NRI(Config(socket_path=str(tmp_path / "nri.sock")), plugins=[FakePlugin()], listen=listen)

    with pytest.raises(NRIError, match=r"no plugin can connect at .*nri\.sock: Permission denied"):
        nri.start()
    assert (nri.state, nri.plugins) == ("created", ())
    nri.start()

    assert (nri.state, nri.plugins) == ("started", ("10-fake",))
    nri.stop()


def test_timeouts_can_be_changed() -> None:
    """Zero means the default timeout, and a negative timeout is refused."""
    nri = NRI(Config(plugin_request_timeout=7))
    nri.configure_timeouts(registration=3)

    assert (nri.config.registration_timeout, nri.config.request_timeout, nri._terms.config.request_timeout) == (
        3,
        2,
        2,
    )
    with pytest.raises(ValueError, match="plugin_request_timeout is -1"):
        nri.configure_timeouts(request=-1)
    assert nri.config.registration_timeout == 3
    nri.stop()


def test_a_start_waits_while_synchronisation_is_blocked() -> None:
    nri = NRI(plugins=[FakePlugin()], sync=SyncLock(TurnedClock(hurried=True)))
    block = nri.block_plugin_sync()

    with pytest.raises(BlockedError):
        nri.start()
    assert (nri.state, nri.plugins) == ("held", ())
    block.unblock()
    nri.start()

    assert nri.plugins == ("10-fake",)
    nri.stop()


def test_a_block_that_the_stop_overtakes_does_not_stay() -> None:
    nri = NRI()
    nri.start()
    blocks = nri._sync.block

    def overtaken() -> PluginSyncBlock:
        block = blocks()
        nri.stop()
        return block

    nri._sync.block = overtaken  # type: ignore[method-assign]  # the stop overtakes it
    nri.block_plugin_sync()

    assert (nri.state, nri._sync._blocks) == ("stopped", 0)


def test_blocks_from_many_threads_are_counted() -> None:
    nri = NRI()
    nri.start()
    states: set[str] = set()

    def blocks() -> None:
        for _ in range(50):
            with nri.block_plugin_sync():
                states.add(nri.state)

    threads = [threading.Thread(target=blocks) for _ in range(4)]
    for each in threads:
        each.start()
    for each in threads:
        each.join()

    assert (states, nri.state) == ({"blocked"}, "started")
    nri.stop()


def test_a_reentrant_call_after_the_stop_is_reentrant() -> None:
    """A reentrant call after the stop fails as reentrant, because that is the more serious of its two errors."""
    nri = NRI(plugins=[FakePlugin()])
    nri.start()
    nri.stop()
    nri._life.local.on_plugin_thread = True

    with pytest.raises(ReentrantError):
        nri.relay("start-container", POD, ONE)


def test_a_plugin_can_request_updates_only_while_it_is_connected() -> None:
    plugin = FakePlugin()
    nri = NRI(plugins=[plugin])
    nri.start()
    nri.update_containers([], plugin)

    for each in (plugin, FakePlugin(index="20")):
        nri.disconnect(each)
        with pytest.raises(NRIError) as caught:
            nri.update_containers([], each)
        assert caught.value.code == "UNAVAILABLE"
    assert nri.plugins == ()
    nri.stop()
