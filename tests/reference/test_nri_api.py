"""The reference of the NRI interface does what its machine says, and the kit notices where it does not."""

# ruff: noqa: D102, SLF001  (a method is the bug that its class tells of, and reaches for what it should not)

from __future__ import annotations

import threading
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any
from unittest.mock import MagicMock

import pytest
from nri_parts import ONE, POD

from fsm.conformance.suite import conform
from fsm.library import load
from fsm.reference.nri.api import NRI
from fsm.reference.nri.api_sut import NriApiSUT
from fsm.reference.nri.config import Config
from fsm.reference.nri.fakes import FakePlugin
from fsm.reference.nri.nri_errors import BlockedError, DuplicateDomainError, NRIError, NRIStoppedError, ReentrantError
from fsm.reference.nri.sync_lock import PluginSyncBlock

if TYPE_CHECKING:
    from fsm.reference.nri.messages import Container, Pod

UNARRANGED = {
    "": {"block=unknown", "new-default=disabled", "relay-pod-update=unknown", "start=untold"},
    "containerd-1.7": set(),
    "containerd-2.1": set(),
    "containerd-main": set(),
}
"""By release, what only other releases do."""


@pytest.mark.parametrize("release", UNARRANGED)
def test_passes_the_test_of_its_machine(release: str) -> None:
    """All cells are covered, in every way that this release may go."""
    found = conform(load("nri-api"), lambda: NriApiSUT(release), profile=release or None, examples=5)

    assert ((), ()) == (found.failures, found.missed)
    assert {"=".join(each) for each in found.unarranged} == UNARRANGED[release]


def test_the_newest_is_not_an_old_release() -> None:
    found = conform(load("nri-api"), NriApiSUT, profile="containerd-1.7", examples=0)

    assert {"new-default", "start", "block", "relay-pod-update"} == {each.steps[-1].event for each in found.failures}


class Forgets(NRI):
    """Forgets at the stop whom it relays to, as containerd does, so that the next call crashes."""

    def stop(self) -> None:
        if self.state == "stopped":
            raise AttributeError("nil pointer dereference")
        super().stop()


class GoesOn(NRI):
    """Is still there after the stop."""

    def run_pod_sandbox(self, pod: Pod) -> None:
        with suppress(NRIStoppedError):
            super().run_pod_sandbox(pod)


class StopsNothing(NRI):
    """Keeps those that have joined at the stop."""

    def stop(self) -> None:
        self._plugins.close = MagicMock()  # type: ignore[method-assign]  # that is the bug
        super().stop()


class StartsAgain(NRI):
    """Takes a second start for a success."""

    def start(self) -> None:
        if self.state != "started":
            super().start()


class LeavesPlugins(NRI):
    """Does not dismiss the plugins where there can be no socket, as containerd does not."""

    def _open_socket(self) -> None:
        before = self._plugins._connections
        try:
            super()._open_socket()
        except NRIError:
            self._plugins.leave = MagicMock()  # type: ignore[method-assign]  # that is the bug
            self._plugins._connections = before
            raise


class StartsUntold(NRI):
    """Installed plugins are told nothing at the start."""

    def start(self) -> None:
        installed, self._installed = self._installed, ()  # type: ignore[misc]  # that is the bug
        super().start()
        for each in installed:
            connection = self._plugins.connection(FakePlugin(name=each.name))
            connection.handshake(launched=True)
            connection.synchronise((), ())
            self._plugins.join(connection)


class StartsHeld(NRI):
    """Starts though that is blocked, as containerd does."""

    def start(self) -> None:
        if self.state == "held":
            self._life.take("unblock", "last")
            super().start()
            self._life.take("block", "blocked")
        else:
            super().start()


class BlocksNothing(NRI):
    """A block is none."""

    def block_plugin_sync(self) -> PluginSyncBlock:
        return PluginSyncBlock()


class BlocksOnce(NRI):
    """The first to unblock unblocks for all."""

    def block_plugin_sync(self) -> PluginSyncBlock:
        return PluginSyncBlock() if self.state == "blocked" else super().block_plugin_sync()


class BlocksForGood(NRI):
    """Nobody can unblock."""

    def block_plugin_sync(self) -> PluginSyncBlock:
        super().block_plugin_sync()
        return PluginSyncBlock()


class LetsInWhileBlocked(NRI):
    """A plugin joins whether that is blocked or not."""

    def register(self, plugin: Any) -> None:  # noqa: ANN401  # a plugin
        if self.state == "blocked":
            plugin.synchronize((), ())
        else:
            super().register(plugin)


class LetsInTooEarly(NRI):
    """A plugin may come before the start."""

    def register(self, plugin: Any) -> None:  # noqa: ANN401  # a plugin
        if self.state != "created":
            super().register(plugin)


class UpdatesAfterTheStop(NRI):
    """Those who are still connected are still heard, as containerd does."""

    def update_containers(self, updates: Any, plugin: Any = None) -> None:  # noqa: ANN401  # updates
        if self.state == "stopped":
            self._domains.update_containers(updates)
        else:
            super().update_containers(updates, plugin)


class DisabledFails(NRI):
    """One that is disabled says so."""

    def start(self) -> None:
        if not self.is_enabled():
            raise NRIError("disabled")
        super().start()


class EnabledAlways(NRI):
    """Is enabled though it is disabled."""

    def is_enabled(self) -> bool:
        return True


class EnabledWhileStarted(NRI):
    """Is enabled only until it is stopped."""

    def is_enabled(self) -> bool:
        return self.state != "stopped" and super().is_enabled()


class KeepsItsTimes(NRI):
    """Other time-outs are not heeded."""

    def configure_timeouts(self, *, registration: float = 0, request: float = 0) -> None:
        before = self.config
        super().configure_timeouts(registration=registration, request=request)
        self.config = before


class SharesItsTimes(NRI):
    """The time-outs belong to all, as containerd's do."""

    last: list[NRI]

    def __init__(self, config: Config, *args: Any) -> None:  # noqa: ANN401  # whatever the interface takes
        super().__init__(config, *args)
        for each in SharesItsTimes.last:
            each.config = config
        SharesItsTimes.last[:] = [*SharesItsTimes.last, self][-2:]


SharesItsTimes.last = []


class DropsExits(NRI):
    """Has no ear for exits."""

    def notify_container_exit(self, pod: Pod, container: Container) -> None:
        self._life.accepts("notify-exit")
        del pod, container


class RelaysTwice(NRI):
    """Relays a stop twice."""

    def stop_container(self, pod: Pod, container: Container) -> None:
        super().stop_container(pod, container)
        if self.state == "started" and self.container_state(container.id) == "stopped":
            self.start_container(pod, container)


BUGS: dict[type[NRI], str] = {
    Forgets: "new; stop; stop",
    GoesOn: "new; stop; relay",
    StopsNothing: "new; start; stop",
    StartsAgain: "new; start; start",
    LeavesPlugins: "new; start",
    StartsUntold: "new; start",
    StartsHeld: "new; block; start",
    BlocksNothing: "new; block",
    BlocksOnce: "new; start; block; unblock",
    BlocksForGood: "new; block; unblock",
    LetsInWhileBlocked: "new; start; block; join",
    LetsInTooEarly: "new; join",
    UpdatesAfterTheStop: "new; stop; update-containers",
    DisabledFails: "new; start",
    EnabledAlways: "new",
    EnabledWhileStarted: "new; stop; is-enabled",
    KeepsItsTimes: "new; configure-timeouts",
    SharesItsTimes: "new; new",
    DropsExits: "new; start; notify-exit",
    RelaysTwice: "new; start; relay-end",
}


@pytest.mark.parametrize("kind", BUGS, ids=lambda kind: kind.__name__)
def test_a_bug_is_found_by_the_shortest_test(kind: type[NRI]) -> None:
    found = conform(load("nri-api"), lambda: NriApiSUT(kind=kind), examples=0)

    shortest = min(found.failures, key=lambda failure: len(failure.steps))
    assert BUGS[kind] == "; ".join(step.event for step in shortest.steps)


class Fatal(NriApiSUT):
    """A domain that is there already ends the process, as in containerd."""

    def _register_domain(self, hope: str) -> None:
        try:
            super()._register_domain(hope)
        except DuplicateDomainError:
            self.reset()
            raise


def test_a_process_that_a_domain_ends_is_found() -> None:
    found = conform(load("nri-api"), Fatal, examples=0)

    assert "new; register-domain" in {"; ".join(step.event for step in each.steps) for each in found.failures}


def test_the_socket_is_opened_at_the_start_and_closed_at_the_stop() -> None:
    done: list[str] = []

    class Opened:
        def close(self) -> None:
            done.append("closed")

    def listen(path: str) -> Opened:
        done.append(path)
        return Opened()

    nri = NRI(Config(socket_path="here"), listen=listen)
    nri.start()
    assert done == ["here"]
    nri.stop()
    assert done == ["here", "closed"]


def test_no_socket_is_opened_where_nobody_may_connect() -> None:
    def listen(path: str) -> Any:  # noqa: ANN401  # never
        raise AssertionError(path)

    nri = NRI(Config(disable_connections=True), listen=listen)
    nri.start()

    assert nri.state == "started"
    nri.stop()


def test_a_start_without_a_socket_can_be_tried_again(tmp_path: Path) -> None:
    """Nobody has joined, and nobody twice."""
    broken = [True]

    def listen(path: str) -> Any:  # noqa: ANN401  # a file will do
        if broken.pop():
            raise PermissionError(13, "Permission denied")
        return Path(path).open("w", encoding="utf-8")

    broken.append(False)
    broken.append(True)
    nri = NRI(Config(socket_path=str(tmp_path / "nri.sock")), plugins=[FakePlugin()], listen=listen)

    with pytest.raises(NRIError, match=r"no plugin can connect at .*nri\.sock: Permission denied"):
        nri.start()
    assert (nri.state, nri.plugins) == ("created", ())
    nri.start()

    assert (nri.state, nri.plugins) == ("started", ("10-fake",))
    nri.stop()


def test_times_can_be_changed() -> None:
    """Zero is the default; what is below zero is refused, and changes nothing."""
    nri = NRI(Config(plugin_request_timeout=7))
    nri.configure_timeouts(registration=3)

    assert (nri.config.registration_timeout, nri.config.request_timeout, nri._plugins.terms.request) == (3, 2, 2)
    with pytest.raises(ValueError, match="plugin_request_timeout is -1"):
        nri.configure_timeouts(request=-1)
    assert nri.config.registration_timeout == 3
    nri.stop()


def test_a_start_waits_while_that_is_blocked() -> None:
    nri = NRI(Config(plugin_registration_timeout=0.01), plugins=[FakePlugin()])
    block = nri.block_plugin_sync()

    with pytest.raises(BlockedError):
        nri.start()
    assert (nri.state, nri.plugins) == ("held", ())
    block.unblock()
    nri.start()

    assert nri.plugins == ("10-fake",)
    nri.stop()


def test_a_block_that_the_stop_overtakes_is_an_error() -> None:
    """And holds up nobody."""
    nri = NRI()
    nri.start()
    blocks = nri._sync.block

    def overtaken() -> PluginSyncBlock:
        block = blocks()
        nri.stop()
        return block

    nri._sync.block = overtaken  # type: ignore[method-assign]  # others come first
    with pytest.raises(NRIStoppedError):
        nri.block_plugin_sync()

    assert (nri.state, nri._sync._blocks) == ("stopped", 0)


def test_blocks_from_many_threads_are_counted() -> None:
    """Whatever the order, it is blocked as long as anybody blocks, and no longer."""
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


def test_who_is_asked_is_told_so_even_if_it_was_stopped() -> None:
    """To wait for oneself is worse than to come too late."""
    nri = NRI(plugins=[FakePlugin()])
    nri.start()
    nri.stop()
    nri._plugins.terms.local.on_plugin_thread = True

    with pytest.raises(ReentrantError):
        nri.start_container(POD, ONE)


def test_a_plugin_that_is_named_asks_only_while_it_is_connected() -> None:
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
