"""The reference CRI service handles folders, sockets and tasks correctly, and planted bugs are found."""

# ruff: noqa: SLF001  (a method is the bug that its class describes, and uses private names)

from __future__ import annotations

import asyncio
import socket
import sys
from contextlib import asynccontextmanager
from functools import cache
from typing import TYPE_CHECKING, NoReturn

import pytest

from fsm.conformance.lookup import find
from fsm.conformance.plan import steps
from fsm.conformance.suite import conform, replay
from fsm.errors import InputError
from fsm.language.library import load, load_system
from fsm.machine.driver import CannotHappenError
from fsm.machine.product.flatten import flatten
from fsm.runtimes.reference.clock import TurnedClock, cancel_others
from fsm.runtimes.reference.criservice import (
    CloseError,
    Construction,
    ConstructionError,
    CRIService,
    Makers,
    Parts,
    RunError,
    exit_process,
)
from fsm.runtimes.reference.criservice.components import (
    MACHINE,
    Component,
    EventMonitor,
    Queue,
    Registration,
    StreamingServer,
    SubscriptionError,
    Syncer,
    Watches,
    until,
)
from fsm.runtimes.reference.criservice.parts_sut import ConstructionSUT, Feed, MonitorSUT
from fsm.runtimes.reference.criservice.sut import CRIServiceSUT
from fsm.runtimes.reference.criservice.upstream import UpstreamConstruction, UpstreamService, UpstreamSyncer
from fsm.runtimes.reference.driven import driver
from fsm.runtimes.reference.events import HandlerError
from fsm.runtimes.reference.nri import NRI
from fsm.runtimes.reference.nri.messages import Container, Domain, Domains, Pod

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Iterator
    from pathlib import Path

    from fsm.machine import Machine


class Place:
    """A service on an event loop, with two CNI folders and no plugins."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.watches = Watches(asyncio.get_running_loop())
        self.feed = Feed()
        self.loaded: list[str] = []
        self.handled: list[str] = []
        self.unblocked = asyncio.Event()
        self.unblocked.set()
        self.domains = Domains()
        self.nri = NRI(domains=self.domains)
        self.has_controller = True

    def makers(self) -> Makers:
        return Makers(
            queue=Queue,
            platform=lambda: (self.root / "a", self.root / "b"),
            server=StreamingServer,
            monitor=lambda: EventMonitor(lambda: self.feed, self.handle, TurnedClock(hurried=True)),
            watch=lambda path: Syncer(self.watches, path, lambda: self.loaded.append(path.name)),
            registration=lambda: Registration(self.nri, Domain()),
            controller=lambda: bool if self.has_controller else None,
            introspect=lambda: None,
        )

    def parts(self) -> Parts:
        construction = Construction(self.makers())
        construction.make()
        return construction.parts

    async def handle(self, event: str) -> None:
        await self.unblocked.wait()
        self.handled.append(event)


@asynccontextmanager
async def placed(root: Path) -> AsyncIterator[Place]:
    place = Place(root)
    try:
        yield place
    finally:
        await cancel_others()
        place.watches.close()


async def soon(holds: Callable[[], object]) -> None:
    """Let the event loop run until *holds* returns true, and fail after 2,000 turns."""
    for _ in range(2_000):
        if holds():
            return
        await asyncio.sleep(0)
    raise AssertionError("it never becomes true")


async def served(service: CRIService) -> asyncio.Task[None]:
    ready = asyncio.Event()
    running = asyncio.create_task(service.run(ready.set))
    await asyncio.wait({running, asyncio.create_task(ready.wait())}, return_when=asyncio.FIRST_COMPLETED)
    return running


async def test_it_serves_until_it_is_closed(tmp_path: Path) -> None:
    async with placed(tmp_path) as place:
        service = Construction(place.makers()).make()
        before = service.is_initialized()
        running = await served(service)

        place.feed.put_nowait("exit")
        (tmp_path / "b" / "10-net.conf").write_text("{}")
        assert service.parts.server.socket is not None
        stream, writer = await asyncio.open_connection(*service.parts.server.socket.getsockname())
        content = await stream.read()
        writer.close()
        await soon(lambda: place.loaded and place.handled)

        assert (False, True, b"", ["exit"]) == (before, service.is_initialized(), content, place.handled)
        assert {"b"} == set(place.loaded)
        assert ("started", ["k8s.io"]) == (place.nri.state, [domain.name for domain in place.domains._domains])
        service.close()
        service.close()
        await running
        await soon(lambda: len(asyncio.all_tasks()) == 1)
        assert (False, "stopped", 0) == (service.is_initialized(), place.nri.state, place.watches.count)
        assert service.parts.server.socket is None


async def test_run_returns_the_reason_with_all_other_errors(tmp_path: Path) -> None:
    async with placed(tmp_path) as place:

        async def pause(phase: str) -> None:
            if phase == "shut-down":
                await soon(lambda: service.parts.syncers[0].state == "failed")

        service = CRIService(place.parts(), pause=pause)
        running = await served(service)
        (tmp_path / "a").rmdir()
        place.feed.put_nowait(OSError("no stream"))

        with pytest.raises(RunError, match="no stream") as raised:
            await running
        assert ("monitor", 2) == (raised.value.what, len(raised.value.errors))
        assert "is removed, stop watching" in str(raised.value.errors[1])


async def test_run_does_not_wait_forever_for_a_handler(tmp_path: Path) -> None:
    """Run waits at most ten seconds for a handler to end. Containerd waits forever."""
    async with placed(tmp_path) as place:
        service = CRIService(place.parts(), clock=TurnedClock(hurried=True))
        running = await served(service)
        place.unblocked.clear()
        place.feed.put_nowait("exit")
        await soon(lambda: service.parts.monitor.busy)
        service.close()

        with pytest.raises(RunError, match="still being handled"):
            await running
        place.unblocked.set()
        await soon(lambda: service.parts.monitor.state == "ended")

        written = UpstreamService(place.parts(), clock=TurnedClock(hurried=True))
        place.domains._domains = ()
        written.parts.registration.nri = NRI(domains=place.domains)
        running = await served(written)
        place.unblocked.clear()
        place.feed.put_nowait("exit")
        await soon(lambda: written.parts.monitor.busy)
        written.close()
        for _ in range(50):
            await asyncio.sleep(0)
        assert not running.done()


ALL_BUT_NRI = ["StreamingServer", "Syncer", "Syncer", "EventMonitor", "Queue"]


@pytest.mark.parametrize(("kind", "left"), [(CRIService, []), (UpstreamService, ALL_BUT_NRI)])
async def test_what_is_left_when_nri_cannot_be_started(tmp_path: Path, kind: type[CRIService], left: list[str]) -> None:
    """If NRI cannot be started, Run stops everything else that it has started. Containerd leaves it running."""
    async with placed(tmp_path) as place:
        place.domains.register(Domain())
        service = kind(place.parts())
        with pytest.raises(RunError, match="there is one already") as raised:
            await service.run(lambda: None)
        assert "registration" == raised.value.what
        for _ in range(10):
            await asyncio.sleep(0)
        assert left == [type(each).__name__ for each in service.parts if each.has_task]
        assert (left == []) == (service.parts.server.socket is None) == (len(asyncio.all_tasks()) == 1)


@pytest.mark.parametrize(("kind", "waits"), [(CRIService, False), (UpstreamService, True)])
async def test_an_error_that_is_not_read(tmp_path: Path, kind: type[CRIService], waits: object) -> None:
    """The monitor ends even if nobody reads its error. In containerd, it waits forever."""
    async with placed(tmp_path) as place:
        place.domains.register(Domain())
        service = kind(place.parts())
        with pytest.raises(RunError):
            await service.run(lambda: None)
        place.feed.put_nowait(OSError("no stream"))
        for _ in range(10):
            await asyncio.sleep(0)
        assert waits == service.parts.monitor.has_task


@pytest.mark.parametrize(("kind", "readies"), [(CRIService, 0), (UpstreamService, 1)])
async def test_a_service_that_is_closed_before_it_runs(tmp_path: Path, kind: type[CRIService], readies: int) -> None:
    async with placed(tmp_path) as place:
        service = kind(place.parts())
        ready: list[str] = []
        service.close()
        await service.run(lambda: ready.append("ready"))
        assert (readies, readies > 0) == (len(ready), service.is_initialized())


async def test_run_can_be_called_once(tmp_path: Path) -> None:
    async with placed(tmp_path) as place:
        service = CRIService(place.parts())
        running = await served(service)
        with pytest.raises(RunError, match="was run before, and is serving"):
            await service.run(lambda: None)
        assert service.is_initialized()
        service.close()
        await running


async def test_a_second_run_exits_the_process_of_containerd(tmp_path: Path) -> None:
    async with placed(tmp_path) as place:
        fatal: list[str] = []

        def record(error: Exception) -> NoReturn:
            fatal.append(str(error))
            exit_process(error)

        service = UpstreamService(place.parts(), fatal=record)
        running = await served(service)
        with pytest.raises(SystemExit):
            service._fatal(OSError("why"))
        again = service.run(lambda: None)
        with pytest.raises(SystemExit):
            again.send(None)
        assert ["why", "failed to register namespace with NRI: there is one already"] == fatal
        assert (False, "exited") == (service.is_initialized(), service.position.state)
        running.cancel()


async def test_an_exit_before_the_registration_is_reported_later(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with placed(tmp_path) as place:
        heard: list[str] = []
        recovers = asyncio.Event()

        async def recover() -> None:
            await recovers.wait()

        def notify(pod: Pod, container: Container) -> None:
            heard.append(f"{pod.id}/{container.id}")

        service = CRIService(place.parts(), recover)
        monkeypatch.setattr(place.nri, "notify_container_exit", notify)
        running = asyncio.create_task(service.run(lambda: None))
        await asyncio.sleep(0)
        service.exited(Pod(id="p"), Container(id="early", pod_id="p"))
        assert not heard
        recovers.set()
        await soon(service.is_initialized)
        service.exited(Pod(id="p"), Container(id="late", pod_id="p"))
        assert ["p/early", "p/late"] == heard
        service.close()
        await running


@pytest.mark.parametrize("way", ["removed", "renamed", "closed"])
async def test_a_syncer_without_its_folder_fails(tmp_path: Path, way: str) -> None:
    async with placed(tmp_path) as place:
        syncer, other = (Syncer(place.watches, tmp_path / "a", lambda: place.loaded.append("loaded")) for _ in "12")
        syncer.start()
        (tmp_path / "a" / "new.conf").touch()
        await soon(lambda: place.loaded)
        if way == "renamed":
            (tmp_path / "a").rename(tmp_path / "b")
        elif way == "removed":
            (tmp_path / "a" / "new.conf").unlink()
            (tmp_path / "a").rmdir()
        else:
            syncer.watcher.close()
        await until(syncer.changed, lambda: syncer.state == "failed")
        assert ("cni conf dir" in str(syncer.take_error()), syncer.has_task, place.watches.count) == (True, False, 1)
        other.stop()
        other.stop()
        assert ("closed", 0) == (other.state, place.watches.count)


@pytest.mark.parametrize("breaks", [False, True])
async def test_a_server_that_cannot_listen_fails(tmp_path: Path, breaks: object) -> None:
    """The server fails if its address is in use or its socket breaks, but not if a client disconnects early."""
    async with placed(tmp_path):
        with socket.create_server(("127.0.0.1", 0)) as taken:
            server = StreamingServer(("127.0.0.1", 0) if breaks else taken.getsockname())
            server.start()
            if server.socket is not None:
                socket.create_connection(server.socket.getsockname()).close()
                server.socket.shutdown(socket.SHUT_RDWR)
            await until(server.changed, lambda: server.state == "failed")
            await asyncio.sleep(0)
            assert (True, True, None) == (isinstance(server.take_error(), OSError), server.has_task, server.socket)
            await asyncio.sleep(0)
            await asyncio.sleep(0)
            assert not server.has_task


async def test_a_registration_that_is_stopped_in_progress_stops_nri(tmp_path: Path) -> None:
    class Slow(Registration):
        async def join(self) -> None:
            await place.unblocked.wait()
            await super().join()

    async with placed(tmp_path) as place:
        place.unblocked.clear()
        registration = Slow(place.nri, Domain())
        joining = asyncio.create_task(registration.register())
        await asyncio.sleep(0)
        registration.stop()
        place.unblocked.set()
        await joining
        assert ("ended", "stopped") == (registration.state, place.nri.state)


async def test_a_monitor_retries_and_finishes_the_current_event(tmp_path: Path) -> None:
    async with placed(tmp_path) as place:
        tries: list[str] = []

        async def handle(event: str) -> None:
            tries.append(event)
            if len(tries) == 1:
                raise HandlerError
            await place.unblocked.wait()

        monitor = EventMonitor(lambda: place.feed, handle, TurnedClock(hurried=True))
        monitor.subscribe()
        monitor.start()
        place.unblocked.clear()
        place.feed.put_nowait("exit")
        await soon(lambda: len(tries) == 2)
        monitor.stop()
        assert ("stopping", True) == (monitor.state, monitor.has_task)
        place.unblocked.set()
        await soon(lambda: monitor.state == "ended")


async def test_a_monitor_without_a_subscription_retries_deferred_events(tmp_path: Path) -> None:
    async with placed(tmp_path) as place:
        monitor = EventMonitor(lambda: place.feed, place.handle, TurnedClock(hurried=True))
        monitor.start()
        monitor.backoff.defer("container", "exit")
        await soon(lambda: place.handled)
        monitor.stop()
        assert ("ended", ["exit"]) == (monitor.state, place.handled)


async def test_a_subscription_that_ends_is_an_error(tmp_path: Path) -> None:
    async with placed(tmp_path) as place:
        monitor = EventMonitor(lambda: place.feed, place.handle)
        monitor.subscribe()
        monitor.start()
        place.feed.put_nowait(StopAsyncIteration())
        await until(monitor.changed, lambda: monitor.state == "failed")
        assert isinstance(monitor.take_error(), SubscriptionError)


@pytest.mark.parametrize(("kind", "left"), [(Construction, (0, 1)), (UpstreamConstruction, (1, 2))])
async def test_what_is_left_when_construction_fails(
    tmp_path: Path, kind: type[Construction], left: tuple[int, int]
) -> None:
    """Nothing is left of a construction that fails because the second folder cannot be watched.

    In containerd, the first folder is still watched and the event queue keeps running.
    """
    async with placed(tmp_path) as place:
        (tmp_path / "b").touch()
        with pytest.raises(ConstructionError, match=r"watch-folder: .*File exists"):
            kind(place.makers()).make()
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        assert left == (place.watches.count, len(asyncio.all_tasks()))


@pytest.mark.parametrize(("kind", "error"), [(Construction, ConstructionError), (UpstreamConstruction, SystemExit)])
async def test_a_controller_that_is_missing(
    tmp_path: Path, kind: type[Construction], error: type[BaseException]
) -> None:
    async with placed(tmp_path) as place:
        place.has_controller = False
        with pytest.raises(error):
            kind(place.makers()).make()


@cache
def flat(profile: str) -> Machine:
    whole = load_system("cri-service")
    return flatten(whole.under(profile))


def test_upstream_and_mended_services_do_not_conform_to_each_other() -> None:
    life = steps("run; launch=server-not-started; ready; shut-down=server: monitor ends; run-returns")

    assert () == replay(flat(""), CRIServiceSUT, life).failures
    assert replay(flat("mended"), CRIServiceSUT, life).failures
    assert replay(flat(""), lambda: CRIServiceSUT("mended"), steps("run; launch=server-not-started; ready")).failures


def test_a_missing_library_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    """The library that watches folders belongs to an optional extra, so the error must name it."""
    for name in [each for each in sys.modules if "criservice" in each]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "asyncinotify", None)

    with pytest.raises(InputError, match="the Python module asyncinotify is needed"):
        find("reference", flat(""))


def all_but(kind: type[Component], service: CRIService) -> list[OSError]:
    service.flag.take("clears")
    for each in service.parts:
        if not isinstance(each, kind):
            each.stop()
    return []


class LeavesSyncers(CRIService):
    def _stop_all(self) -> list[OSError]:
        return all_but(Syncer, self)


class LeavesTheServer(CRIService):
    def _stop_all(self) -> list[OSError]:
        return all_but(StreamingServer, self)


class LeavesNRI(CRIService):
    """A service that does not stop NRI, as in containerd."""

    def _stop_all(self) -> list[OSError]:
        return all_but(Registration, self)


class LeavesTheQueue(CRIService):
    """A service that does not shut down the event queue, as in containerd."""

    def _stop_all(self) -> list[OSError]:
        return all_but(Queue, self)


class StopsAtTheFirstError(CRIService):
    def _stop_all(self) -> list[OSError]:
        self.flag.take("clears")
        try:
            for each in self.parts:
                each.stop()
        except OSError as error:
            return [error]
        return []


class StaysInitialized(CRIService):
    """A service that still counts as initialised after it has stopped."""

    def is_initialized(self) -> bool:
        return self.flag.state == "yes" or self.position.state in {"draining", "returned"}


class ReadyTooEarly(CRIService):
    """A service that signals readiness before it accepts calls."""

    def _serve(self, ready: Callable[[], None]) -> None:
        ready()
        super()._serve(lambda: None)


class ReadyWithoutLooking(CRIService):
    """A service that counts as ready even after a component has ended."""

    def _all_on(self) -> bool:
        return self.position.state == "launched" or super()._all_on()


class LosesTheReason(CRIService):
    async def run(self, ready: Callable[[], None]) -> None:
        try:
            await super().run(ready)
        except RunError as error:
            if error.what not in {"run", "recovery"}:
                return
            raise


class BlamesTheServer(CRIService):
    """A service that returns the server's error even if another component failed too."""

    async def run(self, ready: Callable[[], None]) -> None:
        try:
            await super().run(ready)
        except RunError as error:
            if any("Address already in use" in str(each) for each in error.errors):
                raise RunError("server", *error.errors) from error
            raise


class WaitsForever(CRIService):
    async def _drain(self) -> None:
        await until(self._changed, lambda: self.parts.monitor.state != "stopping")


class RunsAgain(CRIService):
    async def run(self, ready: Callable[[], None]) -> None:
        self.position = type(self)(self.parts).position
        await super().run(ready)


class ClosesOnce(CRIService):
    def close(self) -> None:
        if self.parts.queue.state != "on":
            raise CloseError("closed already")
        super().close()


class ClosesOnlyWhileRunning(CRIService):
    """A service for which closing has no effect before Run is called."""

    def close(self) -> None:
        if self.position.state != "idle":
            super().close()


class IgnoresTheSyncers(CRIService):
    def _all_on(self) -> bool:
        return all(each.state == "on" for each in (self.parts.monitor, self.parts.server))


class ClosedWatcherIsNormal(CRIService):
    """A service whose syncer ends without an error if its watcher is closed, as in containerd."""

    syncer = UpstreamSyncer


class KeepsItsWatch(Syncer):
    def close(self) -> None: ...


class LeavesWatches(CRIService):
    syncer = KeepsItsWatch


BUGS: dict[type[CRIService], str] = {
    LeavesSyncers: "close",
    LeavesTheServer: "close",
    LeavesNRI: "close",
    LeavesTheQueue: "close",
    StopsAtTheFirstError: "run; launch=started; close=not-closed: monitor ends",
    StaysInitialized: "run; recover-fails",
    ReadyTooEarly: "run; launch=started; ready",
    ReadyWithoutLooking: "run; launch=server-not-started; ready=ended-before: monitor ends",
    LosesTheReason: "run; launch=started; nri-fails=done: monitor ends; run-returns",
    BlamesTheServer: "run; launch=server-not-started; nri-fails=done: monitor ends; run-returns",
    WaitsForever: "run; launch=started; nri-fails=done: monitor lingers; run-returns",
    RunsAgain: "run; run",
    ClosesOnce: "close; close",
    ClosesOnlyWhileRunning: "close",
    IgnoresTheSyncers: "run; launch=started; ready; syncer-ends.1=failed",
    ClosedWatcherIsNormal: "run; launch=started; syncer-ends.1=ended",
    LeavesWatches: "close",
}


@pytest.mark.slow
@pytest.mark.parametrize("kind", BUGS, ids=lambda kind: kind.__name__)
def test_a_bug_is_found_by_the_shortest_test(kind: type[CRIService]) -> None:
    found = conform(flat("mended"), lambda: CRIServiceSUT(kind=kind), examples=0, most=1)

    assert ["; ".join(map(str, each.steps)) for each in found.failures] == [BUGS[kind]]


class LeaksTheWatchers(Construction):
    """A service that stops only the event queue after a failed construction."""

    @property
    def running(self) -> Iterator[Component]:
        yield from [each for each in super().running if isinstance(each, Queue)]


class LeaksTheQueue(Construction):
    """A service that closes only the watchers after a failed construction."""

    @property
    def running(self) -> Iterator[Component]:
        yield from self.syncers


class KeepsTheFirst(Construction):
    """A service that closes only the last of several watchers."""

    @property
    def running(self) -> Iterator[Component]:
        yield from [*self.syncers[-1:], *([self.queue] if self.position.state != "begun" else [])]


class GoesOnWithoutAController(Construction):
    def miss_controller(self) -> None:
        self.position.take("set-controller", "done")


LEAKS: dict[type[Construction], str] = {
    LeaksTheWatchers: "start-queue; platform=done; make-server=done; make-monitor; watch-folder=done; watch-folder=failed",
    LeaksTheQueue: "start-queue; platform=failed",
    KeepsTheFirst: "start-queue; platform=done; make-server=done; make-monitor; watch-folder=done; watch-folder=done; watch-folder=failed",
    GoesOnWithoutAController: "start-queue; platform=done; make-server=done; make-monitor; set-controller=missing",
}


@pytest.mark.parametrize("profile", [None, "upstream"])
def test_a_construction_conforms(profile: str | None) -> None:
    found = conform(load("service-construction"), "reference", profile=profile, examples=0)

    assert ((), ()) == (found.failures, found.missed)


@pytest.mark.parametrize("kind", LEAKS, ids=lambda kind: kind.__name__)
def test_a_leak_is_found_by_the_shortest_test(kind: type[Construction]) -> None:
    """The shortest possible test finds the leak, unless only folders leak, which the machine does not count."""
    found = conform(load("service-construction"), lambda: ConstructionSUT(kind=kind), examples=200, most=1)

    assert ["; ".join(map(str, each.steps)) for each in found.failures] == [LEAKS[kind]]


class NeedsASubscription(EventMonitor):
    async def work(self) -> None:
        if self._stream is None:
            raise SubscriptionError("event channel is nil")
        await super().work()


class StartsAfterStop(EventMonitor):
    def start(self) -> None:
        if self.state == "closed":
            self.position = driver(MACHINE).position()
            self._stopping.clear()
        super().start()


class OutlivesItsStream(EventMonitor):
    async def work(self) -> None:
        try:
            await super().work()
        except OSError:
            await asyncio.Event().wait()


MONITORS: dict[type[EventMonitor], str] = {
    NeedsASubscription: "start",
    StartsAfterStop: "stop; start",
    OutlivesItsStream: "subscribe; start; stream-ends",
}


@pytest.mark.parametrize("kind", MONITORS, ids=lambda kind: kind.__name__)
def test_a_bug_of_the_monitor_is_found_by_the_shortest_test(kind: type[EventMonitor]) -> None:
    found = conform(load("event-monitor"), lambda: MonitorSUT(kind=kind), examples=0, most=1)

    assert ["; ".join(map(str, each.steps)) for each in found.failures] == [MONITORS[kind]]


def test_an_event_that_only_containerd_has_is_left_out() -> None:
    """If only containerd has a deviation, its event is left out of the test."""
    tested = conform(load("event-monitor"), "reference", profile="upstream", examples=0)

    assert ((), ["foreign"]) == (tested.failures, [each.event for each in tested.left_out])


async def test_a_running_server_cannot_be_started_again(tmp_path: Path) -> None:
    async with placed(tmp_path):
        server = StreamingServer()
        server.start()
        before = server.socket
        with pytest.raises(CannotHappenError):
            server.start()
        assert before is server.socket
        server.stop()
