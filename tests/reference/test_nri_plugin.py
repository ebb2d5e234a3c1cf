"""A plugin can join the reference implementation, make requests and leave, and planted bugs are found."""

# ruff: noqa: SLF001  (a method is the bug that its class describes, and uses private names)

from __future__ import annotations

import asyncio
import threading
from contextlib import closing, contextmanager, suppress
from functools import partial
from math import inf
from typing import TYPE_CHECKING, TypeVar

import pytest
from nri_parts import TWO, FakePlugin, domain_of_two

from fsm.conformance.suite import conform
from fsm.language.library import load
from fsm.runtimes.names import REQUESTS
from fsm.runtimes.reference.clock import TurnedClock
from fsm.runtimes.reference.nri import NRI
from fsm.runtimes.reference.nri.connection import Connection, UpstreamConnection, finish
from fsm.runtimes.reference.nri.lifecycle import Plugins, relay_merged
from fsm.runtimes.reference.nri.messages import (
    Answer,
    Container,
    Domains,
    NRIError,
    NRIStoppedError,
    PluginLateError,
    PluginLostError,
    Pod,
    RegistrationError,
    Request,
    known,
    subscribed,
)
from fsm.runtimes.reference.nri.plugin_sut import NriPluginSUT
from fsm.runtimes.reference.nri.session import Config, Terms, parts

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Collection, Iterator, Sequence

    from fsm.runtimes.reference.nri.connection import Part
    from fsm.runtimes.reference.nri.messages import Update

UNARRANGED = {
    "": set(),
    "upstream": {"register=bad-name", "register=bad-index"},
    "containerd-1.7": {
        "synchronise=unlisted",
        "synchronise=unsynchronised",
        "register=bad-names-are-unknown",
        "register=left",
    },
    "containerd-2.1": {"register=bad-name", "register=bad-index"},
}
"""The outcomes that the reference lacks, for each profile."""

POD = Pod(id="p1")
NOTHING: Part = ((), ())

T = TypeVar("T")


@pytest.mark.parametrize("profile", UNARRANGED)
def test_passes_the_test_of_its_machine(profile: str) -> None:
    found = conform(load("nri-plugin"), lambda: NriPluginSUT(profile), profile=profile or None, examples=2)

    assert ((), ()) == (found.failures, found.missed)
    assert UNARRANGED[profile] == {"=".join(each) for each in found.unarranged}


def test_upstream_does_not_conform_without_its_profile() -> None:
    found = conform(load("nri-plugin"), lambda: NriPluginSUT("upstream"), examples=0)

    assert {"register", "stop"} == {each.steps[-1].event for each in found.failures}


class AnyName(Connection):
    def _name_error(self, name: str, index: str) -> str:
        wrong = super()._name_error(name, index)
        return "" if wrong == "bad-name" else wrong


class AnyIndex(Connection):
    def _name_error(self, name: str, index: str) -> str:
        del index
        return super()._name_error(name, "00")


class RegistersAgain(Connection):
    def register(self, name: str, index: str) -> None:
        if self.state == "active":
            self._rename(name, index)
        else:
            super().register(name, index)


class KeepsWrongNames(Connection):
    def register(self, name: str, index: str) -> None:
        if self._name_error(name, index):
            self._require("register")
            raise RegistrationError(name)
        super().register(name, index)


class WaitsForever(Connection):
    async def await_registration(self) -> None:
        with suppress(PluginLateError):
            await self._ask_registration(self._deadline)


class AnyEvents(Connection):
    async def configure(self) -> None:
        self.events = frozenset(REQUESTS[:-1])
        await self._call(self._ask_events, "configure")
        self._take("configure", "ok")


class IgnoresTimeouts(Connection):
    async def _ask_events(self, until: float) -> Collection[str] | int:
        try:
            return await super()._ask_events(until)
        except PluginLateError:
            return ()


class OnePart(Connection):
    async def synchronise_part(self, part: Part) -> None:
        await self.synchronise_last(part)


class AnyPart(Connection):
    async def synchronise_part(self, part: Part) -> None:
        await self._call(partial(self._ask_last, part), "synchronise")
        self._take("synchronise", "part")


class SynchronisesTwice(Connection):
    async def synchronise_last(self, part: Part) -> Sequence[Update]:
        await self._call(partial(self._ask_last, part), "synchronise")
        return await super().synchronise_last(part)


class LossIsError(Connection):
    async def _ask(self, request: Request, until: float) -> Answer:
        try:
            return await super()._ask(request, until)
        except PluginLostError as error:
            raise NRIError(str(error)) from error


class DropsAtErrors(Connection):
    async def relay(self, event: str, request: Request) -> Answer | None:
        try:
            return await super().relay(event, request)
        except NRIError:
            self.stop()
            raise


class IgnoresSubscriptions(Connection):
    async def relay(self, event: str, request: Request) -> Answer | None:
        self.events = frozenset(REQUESTS)
        return await super().relay(event, request)


class KeepsTheLost(Connection):
    def drop(self) -> None:
        if self.state != "lost":
            super().drop()


class UpdatesTooEarly(Connection):
    async def request_updates(self, make: Callable[[], Awaitable[T]]) -> T:
        return await (make() if self.state == "synchronising" else super().request_updates(make))


class ClosesSilently(Connection):
    def stop(self) -> None:
        self.hang_up()
        super().stop()


class OutlivesTheStop(Connection):
    """A connection that survives the stop, as in NRI."""

    def stop(self) -> None:
        if not self.listed:
            super().stop()


CONNECTED = "connect; register=registered"
CONFIGURED = f"{CONNECTED}; configure=ok"
BUILT_IN = "launch=built-in; configure=ok"

BUGS: dict[type[Connection], str] = {
    AnyName: "connect; register=bad-name",
    AnyIndex: "connect; register=bad-index",
    RegistersAgain: f"{BUILT_IN}; synchronise=ok; register",
    KeepsWrongNames: "connect; register=bad-name",
    WaitsForever: "connect; no-registration",
    AnyEvents: "launch=built-in; configure=bad-events",
    IgnoresTimeouts: "launch=built-in; configure=timeout",
    OnePart: f"{BUILT_IN}; synchronise=part",
    AnyPart: f"{BUILT_IN}; synchronise=not-split",
    SynchronisesTwice: f"{BUILT_IN}; synchronise=ok",
    LossIsError: f"{BUILT_IN}; synchronise=ok; relay=lost",
    DropsAtErrors: f"{BUILT_IN}; synchronise=ok; relay=error",
    IgnoresSubscriptions: f"{BUILT_IN}; synchronise=ok; relay=not-subscribed",
    KeepsTheLost: f"{BUILT_IN}; synchronise=ok; hang-up; relay",
    UpdatesTooEarly: f"{BUILT_IN}; update-containers",
    ClosesSilently: "connect; stop",
    OutlivesTheStop: f"{BUILT_IN}; synchronise=ok; stop",
}


@pytest.mark.slow
@pytest.mark.parametrize("kind", BUGS, ids=lambda kind: kind.__name__)
def test_a_bug_is_found_by_the_shortest_test(kind: type[Connection]) -> None:
    found = conform(load("nri-plugin"), lambda: NriPluginSUT(kind=kind), examples=0)

    shortest = min(found.failures, key=lambda failure: len(failure.steps))
    assert BUGS[kind] == "; ".join(map(str, shortest.steps))


def ids(pods: Sequence[Pod], containers: Sequence[Container]) -> list[str]:
    return [each.id for each in pods] + [each.id for each in containers]


class Slow(FakePlugin):
    """A plugin that needs ``takes`` seconds to answer each call."""

    def __init__(self, clock: TurnedClock, takes: float, **how: object) -> None:
        super().__init__(**how)  # type: ignore[arg-type]  # the fields of a plugin
        self.clock = clock
        self.takes = takes
        self.parts: list[list[str]] = []

    def synchronize_part(self, pods: Sequence[Pod], containers: Sequence[Container]) -> bool:
        self.parts.append(ids(pods, containers))
        self.clock.turn(self.takes)
        return True

    def synchronize(self, pods: Sequence[Pod], containers: Sequence[Container]) -> Sequence[Update]:
        self.clock.turn(self.takes)
        return super().synchronize(pods, containers)

    def handle(self, request: Request) -> Answer:
        self.clock.turn(self.takes)
        return super().handle(request)


def configured(plugin: FakePlugin, terms: Terms) -> Connection:
    connection = Connection(plugin, terms)
    finish(connection.handshake())
    return connection


def things(number: int, most: float = 4) -> list[Part]:
    pods = [Pod(id=f"p{each}") for each in range(number)]
    return [*parts(pods, [Container(id=f"c{each}") for each in range(number)], most)]


def test_all_parts_share_one_timeout() -> None:
    """All parts of a synchronisation share one timeout, so three parts of one second exceed two seconds."""
    clock = TurnedClock()
    plugin = Slow(clock, 0.6)
    connection = configured(plugin, Terms(config=Config(plugin_request_timeout=2), clock=clock))
    assert finish(connection.synchronise(things(5))) == ()
    assert (connection.state, plugin.parts) == ("active", [["p0", "p1", "p2", "p3"], ["p4", "c0", "c1", "c2"]])
    assert [(len(pods), len(containers)) for pods, containers in plugin.synchronised] == [(0, 2)]

    plugin = Slow(clock, 1)
    connection = configured(plugin, Terms(config=Config(plugin_request_timeout=2), clock=clock))
    with pytest.raises(RegistrationError, match="could not be synchronised") as caught:
        finish(connection.synchronise(things(5)))
    assert (connection.state, caught.value.code, len(plugin.parts)) == ("absent", "DEADLINE_EXCEEDED", 2)


def test_each_request_has_its_own_timeout() -> None:
    clock = TurnedClock()
    connection = configured(Slow(clock, 1.5), Terms(config=Config(plugin_request_timeout=2), clock=clock))
    finish(connection.synchronise([NOTHING]))

    for _ in range(3):
        assert finish(connection.relay("RunPodSandbox", Request(event="RunPodSandbox", pod=POD))) == Answer()
    assert connection.state == "active"


def test_a_plugin_that_does_not_accept_parts_is_closed() -> None:
    plugin = FakePlugin()
    connection = configured(plugin, Terms())

    with pytest.raises(RegistrationError, match="does not handle synchronisation in parts"):
        finish(connection.synchronise(things(1, 1)))
    assert (connection.state, plugin.synchronised) == ("absent", [])


def test_objects_are_sent_in_order() -> None:
    for largest in range(9):
        plugin = Slow(TurnedClock(), 0)
        finish(configured(plugin, Terms()).synchronise(things(3, largest or inf)))

        [last] = plugin.synchronised
        assert [each for part in (*plugin.parts, ids(*last)) for each in part] == ["p0", "p1", "p2", "c0", "c1", "c2"]
        assert all(len(part) == largest for part in plugin.parts)


def test_a_plugin_that_disconnects_in_the_handshake_is_removed() -> None:
    def hangs_up() -> Sequence[Update]:
        raise PluginLostError("gone")

    connection = configured(FakePlugin(wants=hangs_up), Terms())
    with pytest.raises(RegistrationError) as caught:
        finish(connection.synchronise([NOTHING]))
    assert (connection.state, caught.value.code) == ("absent", "UNAVAILABLE")


@pytest.mark.parametrize(
    ("asked", "there", "events"),
    [
        (0, REQUESTS, REQUESTS),
        ((), REQUESTS, REQUESTS),
        (0x3FFF, REQUESTS, REQUESTS),
        (1 << 9, REQUESTS, ["StopContainer"]),
        (0x7FF, REQUESTS[:11], REQUESTS[:11]),
    ],
)
def test_subscriptions(asked: Collection[str] | int, there: Collection[str], events: Collection[str]) -> None:
    assert frozenset(events) == subscribed(asked, there)


@pytest.mark.parametrize(
    ("asked", "there", "named"),
    [
        (1 << 14, REQUESTS, "0x4000: the mask of all events is 0x3fff"),
        (0x3FFF, REQUESTS[:11], "0x3800: the mask of all events is 0x7ff"),
        (-1, REQUESTS, "the mask of all"),
        (["EatContainer"], REQUESTS[:1], "EatContainer: there are RunPodSandbox"),
    ],
)
def test_subscriptions_to_events_that_do_not_exist(
    asked: Collection[str] | int, there: Collection[str], named: str
) -> None:
    with pytest.raises(ValueError, match=named):
        subscribed(asked, there)


def test_only_the_newest_release_has_validation() -> None:
    assert known(REQUESTS[:11]) == frozenset(REQUESTS[:11])
    assert known(REQUESTS[:13]) == frozenset(REQUESTS)


def test_upstream_a_second_registration_changes_the_name_and_not_the_order() -> None:
    """In NRI, a second registration renames a plugin at once, but moves it only when another plugin joins.

    A third registration blocks until the timeout.
    """
    clock = TurnedClock()
    plugins = Plugins[Request, Answer, Connection]()
    first, second, third = (
        UpstreamConnection(FakePlugin(index=index), Terms(clock=clock)) for index in ("10", "20", "30")
    )
    for each in (first, second):
        finish(each.handshake())
        finish(each.synchronise([NOTHING]))
        plugins.join(each)

    first.register("late", "40")
    assert plugins.names == ("40-late", "20-fake")
    clock.hurried = True
    with pytest.raises(NRIError) as caught:
        first.register("later", "50")
    clock.hurried = False
    assert (caught.value.code, clock.now()) == ("DEADLINE_EXCEEDED", 5)
    assert plugins.names == ("40-late", "20-fake")

    finish(third.handshake())
    finish(third.synchronise([NOTHING]))
    plugins.join(third)
    assert list(plugins.names) == ["20-fake", "30-fake", "40-late"]


@pytest.mark.parametrize(("launched", "left"), [(True, []), (False, ["done"])])
def test_upstream_a_plugin_that_connected_by_itself_survives_the_stop(*, launched: bool, left: list[str]) -> None:
    """In NRI, such a plugin gets no requests after the stop, but its own updates are still made."""
    plugins = Plugins[Request, Answer, Connection]()
    plugin = FakePlugin()
    connection = UpstreamConnection(plugin, Terms())
    finish(connection.handshake(launched=launched))
    finish(connection.synchronise([NOTHING]))
    plugins.join(connection)

    plugins.close()
    done: list[str] = []
    request = Request(event="RunPodSandbox", pod=POD)
    finish(relay_merged(request, partial(plugins.relay, "RunPodSandbox")))

    async def make() -> None:
        done.append("done")

    with suppress(NRIError):
        finish(connection.request_updates(make))

    assert (plugin.heard, done) == ([], left)


class Closed(FakePlugin):
    def __init__(self, **how: object) -> None:
        super().__init__(**how)  # type: ignore[arg-type]  # the fields of a plugin
        self.closed = 0

    def close(self) -> None:
        self.closed += 1


def test_every_connection_is_closed_once() -> None:
    """Every connection is closed exactly once, even if its plugin is lost or fails to join."""

    def fails() -> Sequence[Update]:
        raise NRIError("not now")

    def hangs_up(_: Request) -> Answer:
        raise PluginLostError("gone")

    installed, lost = Closed(), Closed(index="20", answers={"RunPodSandbox": hangs_up})
    failed, nameless = Closed(index="30", wants=fails), Closed(name="")
    nri = NRI(plugins=[installed])
    nri.start()
    nri.register(lost)
    for each in (failed, nameless):
        with pytest.raises(RegistrationError):
            nri.register(each)
    nri.relay("run-pod-sandbox", POD)
    assert [each.closed for each in (installed, lost, failed, nameless)] == [0, 1, 1, 1]

    nri.stop()
    assert [each.closed for each in (installed, lost, failed, nameless)] == [1, 1, 1, 1]


def test_a_plugin_that_joins_during_the_stop_is_closed() -> None:
    plugin = Closed()
    nri = NRI()
    nri.start()
    wait_for = nri._sync.joining

    @contextmanager
    def overtaken(*, timeout: float) -> Iterator[None]:
        with wait_for(timeout=timeout):
            nri.stop()
            yield

    nri._sync.joining = overtaken  # type: ignore[method-assign]  # the stop overtakes it
    with pytest.raises(NRIStoppedError):
        nri.register(plugin)

    assert (nri.plugins, plugin.synchronised, plugin.closed) == ((), [], 1)


def test_a_layer_synchronises_in_parts() -> None:
    plugin = Slow(TurnedClock(), 0)
    nri = NRI(Config(sync_objects=2), Domains([domain_of_two()]))
    nri.start()

    nri.register(plugin)

    assert (plugin.parts, plugin.synchronised) == ([["p1", "c1"]], [((), (TWO,))])
    with pytest.raises(ValueError, match="sync_objects is -1"):
        Config(sync_objects=-1)
    nri.stop()


def test_no_thread_outlives_its_test() -> None:
    """The thread of a connection ends before the next test begins."""
    before = {*threading.enumerate()}
    sut = NriPluginSUT()
    for _ in range(3):
        sut.do("connect")
        sut.do("register")
        sut.do("configure")
        sut.reset()
    sut.close()

    left = {*threading.enumerate()} - before
    for each in left:
        each.join(10)
    assert not any(each.is_alive() for each in left)


def test_work_that_suspends_is_an_error() -> None:
    """Work that suspends is an error, because no event loop would finish it."""
    work = asyncio.sleep(0)
    with closing(work), pytest.raises(RuntimeError, match="suspends"):
        finish(work)
