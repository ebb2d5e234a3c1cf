"""The reference NRI layer handles new plugins, concurrent calls and exits in any order."""

from __future__ import annotations

import threading
from contextlib import nullcontext
from typing import TYPE_CHECKING, Any

import pytest
from nri_parts import ONE, POD, FakePlugin, domain_of_two

from fsm.language.library import load
from fsm.machine.driver import Driver
from fsm.runtimes.reference.clock import TurnedClock
from fsm.runtimes.reference.nri import CALL, NRI, PLUGIN, PluginSyncBlock, SyncLock, UpstreamSyncLock
from fsm.runtimes.reference.nri.connection import finish
from fsm.runtimes.reference.nri.messages import Answer, BlockedError, Container, Domains, NRIStoppedError, Request
from fsm.runtimes.reference.nri.session import Config

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from nri_parts import Heard

    from fsm.runtimes.reference.nri.messages import Pod, Update

LONG = 10.0
"""The number of seconds to wait for something that must happen."""

SHORT = 0.1
"""The number of seconds to wait for something that must not happen."""


def in_threads(*calls: Callable[[], object]) -> list[threading.Thread]:
    threads = [threading.Thread(target=call, daemon=True) for call in calls]
    for thread in threads:
        thread.start()
    return threads


def ended(threads: list[threading.Thread], seconds: float = LONG) -> bool:
    for thread in threads:
        thread.join(seconds)
    return not any(thread.is_alive() for thread in threads)


def test_no_plugin_joins_while_synchronisation_is_blocked() -> None:
    """A registration times out while synchronisation is blocked, and may be repeated."""
    plugin = FakePlugin()
    nri = NRI(Config(plugin_registration_timeout=SHORT))
    nri.start()

    with nri.block_plugin_sync(), pytest.raises(BlockedError, match=r"was blocked for 0\.1 seconds") as caught:
        nri.register(plugin)
    assert (nri.plugins, plugin.synchronised, caught.value.code) == ((), [], "DEADLINE_EXCEEDED")

    nri.register(plugin)
    assert nri.plugins == ("10-fake",)
    nri.stop()


class NeverBlocks(SyncLock):
    def block(self) -> PluginSyncBlock:
        return PluginSyncBlock()


@pytest.mark.parametrize(("lock", "blocked"), [(SyncLock, True), (NeverBlocks, False)])
def test_a_block_keeps_a_plugin_out(lock: type[SyncLock], *, blocked: bool) -> None:
    locks = lock()
    joined = []

    with locks.block():
        try:
            with locks.joining(timeout=SHORT):
                joined.append("joined")
        except BlockedError:
            pass

    assert joined == ([] if blocked else ["joined"])


def test_plugins_join_one_at_a_time() -> None:
    lock = SyncLock()

    with lock.joining(timeout=LONG), pytest.raises(BlockedError), lock.joining(timeout=SHORT):
        pass


class Watched(SyncLock):
    def __init__(self) -> None:
        super().__init__()
        self.waits = threading.Event()
        wait_for = self._changed.wait_for

        def watched(predicate: Callable[[], bool], timeout: float | None = None) -> bool:
            if not predicate():
                self.waits.set()
            return wait_for(predicate, timeout)

        self._changed.wait_for = watched  # type: ignore[method-assign,assignment]  # to notice it


class Positions:
    """The states of a call and a plugin that use a lock. An event in ``waits`` is set when the call or plugin waits."""

    def __init__(self, kind: type[SyncLock]) -> None:
        self.clock = TurnedClock()
        self.lock = kind(self.clock, self._observe)
        self.positions = {CALL: Driver(load("sync-reader")).position(), PLUGIN: Driver(load("sync-writer")).position()}
        self.waits = {CALL: threading.Event(), PLUGIN: threading.Event()}

    def _observe(self, process: str, step: str) -> None:
        self.positions[process].take(step)
        if step == "waits":
            self.waits[process].set()

    @property
    def states(self) -> tuple[str, str]:
        return self.positions[CALL].state, self.positions[PLUGIN].state


def blocks_twice(at: Positions, done: list[str]) -> list[threading.Thread]:
    """Return a thread in which a plugin joins, and a thread that blocks a second time while the plugin waits."""

    def calls() -> None:
        with at.lock.block():
            joining.start()
            assert at.waits[PLUGIN].wait(LONG)
            with at.lock.block():
                done.append("inside-twice")
        done.append("outside")

    def joins() -> None:
        try:
            with at.lock.joining(timeout=5):
                done.append("joined")
        except BlockedError:
            done.append("timed out")

    joining = threading.Thread(target=joins, daemon=True)
    [calling] = in_threads(calls)
    assert at.waits[PLUGIN].wait(LONG)
    return [calling, joining]


def test_a_nested_block_does_not_wait_for_a_waiting_plugin() -> None:
    at = Positions(SyncLock)
    done: list[str] = []

    assert ended(blocks_twice(at, done))

    assert done.index("inside-twice") < min(done.index("outside"), done.index("joined"))
    assert (sorted(done), at.states) == (["inside-twice", "joined", "outside"], ("outside", "outside"))


def test_containerds_lock_deadlocks_if_a_plugin_waits_in_between() -> None:
    """In containerd, the call and the plugin wait for each other until the registration times out."""
    at = Positions(UpstreamSyncLock)
    done: list[str] = []
    threads = blocks_twice(at, done)
    assert at.waits[CALL].wait(LONG)

    assert (done, at.states) == ([], ("waiting-within", "waiting"))  # the deadlock in the system ``plugin-sync``

    at.clock.turn(5)
    assert ended(threads)
    assert sorted(done) == ["inside-twice", "outside", "timed out"]


def test_a_pod_is_removed_with_its_containers_while_a_plugin_waits() -> None:
    nri = NRI()
    nri._sync = Watched()  # type: ignore[misc]  # noqa: SLF001  # to notice that the plugin waits
    plugin = FakePlugin()
    nri.start()
    nri.relay("run-pod-sandbox", POD)
    nri.relay("create-container", POD, ONE)

    with nri.block_plugin_sync():
        nri.relay("stop-pod-sandbox", POD)
        joining = in_threads(lambda: nri.register(plugin))
        assert nri._sync.waits.wait(LONG)  # noqa: SLF001  # see above
        with nri.block_plugin_sync():
            nri.relay("remove-container", POD, ONE)
        nri.relay("remove-pod-sandbox", POD)
        assert plugin.synchronised == []

    assert ended(joining)
    assert (len(plugin.synchronised), plugin.heard) == (1, [])
    nri.stop()


def test_a_block_waits_for_the_plugin_that_is_joining() -> None:
    entered, free = threading.Event(), threading.Event()

    def slowly() -> Sequence[Update]:
        entered.set()
        free.wait()
        return ()

    nri = NRI()
    nri.start()
    found: list[tuple[str, ...]] = []

    def blocks() -> None:
        with nri.block_plugin_sync():
            found.append(nri.plugins)

    joining = in_threads(lambda: nri.register(FakePlugin(wants=slowly)))
    assert entered.wait(LONG)
    blocking = in_threads(blocks)
    assert not ended(blocking, SHORT)
    free.set()

    assert ended(joining + blocking)
    assert found == [("10-fake",)]
    nri.stop()


def test_a_block_can_be_released_after_the_stop() -> None:
    """A plugin that is waiting to join gets an error when the block is released."""
    nri = NRI()
    nri.start()
    errors: list[Exception] = []

    def joins() -> None:
        try:
            nri.register(FakePlugin())
        except NRIStoppedError as error:
            errors.append(error)

    block = nri.block_plugin_sync()
    joining = in_threads(joins)
    nri.stop()
    block.unblock()
    block.unblock()

    assert ended(joining)
    assert len(errors) == 1


class Unlocked(NRI):
    def __init__(self, **given: Any) -> None:  # noqa: ANN401  # the arguments of the layer
        super().__init__(**given)
        self._life.lock = nullcontext()  # type: ignore[assignment]


@pytest.mark.parametrize("kind", [NRI, Unlocked])
def test_calls_do_not_overlap(kind: type[NRI]) -> None:
    """A call is relayed only when the previous call has reached all plugins. Without the lock, calls overlap."""
    order: Heard = []
    inside, overlaps = threading.Event(), threading.Event()

    def first(request: Request) -> Answer:
        order.append(("10", request.pod.id))
        if inside.is_set():
            overlaps.set()
        return Answer()

    def second(request: Request) -> Answer:
        inside.set()
        overlaps.wait(SHORT if kind is NRI else LONG)
        order.append(("20", request.pod.id))
        return Answer()

    nri = kind(
        plugins=[
            FakePlugin(answers={"RunPodSandbox": first}),
            FakePlugin(index="20", answers={"RunPodSandbox": second}),
        ]
    )
    nri.start()

    calls = in_threads(lambda: nri.relay("run-pod-sandbox", POD))
    assert inside.wait(LONG)
    calls += in_threads(lambda: nri.relay("stop-pod-sandbox", POD), lambda: nri.relay("run-pod-sandbox", POD))
    assert ended(calls)

    assert [index for index, _ in order] == (["10", "20"] * 2 if kind is NRI else ["10", "10", "20", "20"])
    nri.stop()


def test_many_threads_at_one_container() -> None:
    heard: Heard = []
    nri = NRI(plugins=[FakePlugin(heard=heard), FakePlugin(index="20", heard=heard)])
    nri.start()
    for _ in range(20):
        nri.relay("create-container", POD, ONE)
        heard.clear()

        assert ended(
            in_threads(
                *[lambda: nri.relay("stop-container", POD, ONE)] * 4,
                *[lambda: nri.relay("remove-container", POD, ONE)] * 4,
            )
        )

        assert heard == [(index, event) for event in ("StopContainer", "RemoveContainer") for index in ("10", "20")]
    nri.stop()


def test_many_threads_at_many_entities() -> None:
    heard: list[Request] = []
    plugin = FakePlugin(requests=heard)
    nri = NRI(domains=Domains([domain_of_two()]), plugins=[plugin])
    nri.start()

    def lives(name: str) -> None:
        container = Container(id=name, pod_id=POD.id)
        nri.relay("create-container", POD, container)
        nri.relay("start-container", POD, container)
        nri.notify_container_exit(POD, container)
        nri.wait_for_exits()
        nri.relay("remove-container", POD, container)

    names = [f"c{number}" for number in range(8)]
    assert ended(in_threads(*[lambda name=name: lives(name) for name in names]))

    for name in names:
        own = [request.event for request in heard if request.container and request.container.id == name]
        assert own == ["CreateContainer", "StartContainer", "StopContainer", "RemoveContainer"]
        assert nri.container_state(name) == "absent"
    nri.stop()


class Late(NRI):
    def __init__(self, plugin: FakePlugin) -> None:
        super().__init__(plugins=[plugin])
        self.free = threading.Event()

    def _relay_exit(self, pod: Pod, container: Container) -> None:
        self.free.wait()
        super()._relay_exit(pod, container)


class RelaysAfterRemoval(Late):
    def _relay_exit(self, pod: Pod, container: Container) -> None:
        self.free.wait()
        with self._life.call("notify-exit"):
            finish(self._relay(Request(event="StopContainer", pod=pod, container=container)))


def heard_of(kind: type[Late], *, removed_first: bool) -> list[str]:
    plugin = FakePlugin()
    nri = kind(plugin)
    nri.start()
    nri.relay("start-container", POD, ONE)
    nri.notify_container_exit(POD, ONE)
    if removed_first:
        nri.relay("remove-container", POD, ONE)
    nri.free.set()
    nri.wait_for_exits()
    nri.relay("remove-container", POD, ONE)
    nri.stop()
    return [event for _, event in plugin.heard]


@pytest.mark.parametrize("removed_first", [True, False])
def test_an_exit_that_a_removal_overtakes(*, removed_first: bool) -> None:
    """If a removal overtakes an exit, a single stop is relayed, and the removal is relayed last."""
    assert heard_of(Late, removed_first=removed_first) == ["StartContainer", "StopContainer", "RemoveContainer"]


def test_an_exit_relayed_after_the_removal_is_noticed() -> None:
    heard = heard_of(RelaysAfterRemoval, removed_first=True)

    assert heard == ["StartContainer", "StopContainer", "RemoveContainer", "StopContainer"]


def test_exits_race_removals() -> None:
    heard: Heard = []
    nri = NRI(plugins=[FakePlugin(heard=heard)])
    nri.start()
    for _ in range(50):
        nri.relay("start-container", POD, ONE)
        heard.clear()

        nri.notify_container_exit(POD, ONE)
        nri.relay("remove-container", POD, ONE)
        nri.wait_for_exits()

        assert heard == [("10", "StopContainer"), ("10", "RemoveContainer")]
    nri.stop()


def test_an_exit_does_not_wait_and_drops_errors() -> None:
    free = threading.Event()

    def waits(_: Request) -> Answer:
        free.wait()
        raise OSError("never mind")

    plugin = FakePlugin(answers={"StopContainer": waits})
    nri = NRI(plugins=[plugin])
    nri.start()
    nri.relay("start-container", POD, ONE)

    nri.notify_container_exit(POD, ONE)
    free.set()
    nri.wait_for_exits()

    assert (nri.container_state("c1"), nri.plugins) == ("stopped", ("10-fake",))
    nri.stop()
