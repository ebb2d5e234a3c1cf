"""The reference connection of a plugin: joining, requests, leaving, and planted bugs."""

# ruff: noqa: SLF001  (a method is the bug that its class describes, and uses private names)

from __future__ import annotations

import threading
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING

import pytest
from nri_parts import TWO, domain_of_two

from fsm.conformance.suite import conform
from fsm.language.library import load
from fsm.runtimes.reference.clock import TurnedClock
from fsm.runtimes.reference.nri.api import NRI
from fsm.runtimes.reference.nri.config import Config
from fsm.runtimes.reference.nri.connection import Connection, Terms
from fsm.runtimes.reference.nri.domain import Domains
from fsm.runtimes.reference.nri.messages import EVENTS, Answer, Container, Pod, Request, known, subscribed
from fsm.runtimes.reference.nri.nri_errors import (
    NRIError,
    NRIStoppedError,
    PluginLateError,
    PluginLostError,
    RegistrationError,
)
from fsm.runtimes.reference.nri.plugin_sut import NriPluginSUT
from fsm.runtimes.reference.nri.plugins import Plugins
from fsm.runtimes.reference.nri.sut import FakePlugin
from fsm.runtimes.reference.nri.upstream import UpstreamConnection

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator, Sequence

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
"""The outcomes that the reference has not, by profile."""

POD = Pod(id="p1")


@pytest.mark.parametrize("profile", UNARRANGED)
def test_passes_the_test_of_its_machine(profile: str) -> None:
    """All cells are covered, in each outcome."""
    found = conform(load("nri-plugin"), lambda: NriPluginSUT(profile), profile=profile or None, examples=2)

    assert ((), ()) == (found.failures, found.missed)
    assert UNARRANGED[profile] == {"=".join(each) for each in found.unarranged}


def test_upstream_does_not_conform_without_its_profile() -> None:
    found = conform(load("nri-plugin"), lambda: NriPluginSUT("upstream"), examples=0)

    assert {"register", "stop"} == {each.steps[-1].event for each in found.failures}


class AnyName(Connection):
    """Accepts any name."""

    def _mistake(self, name: str, index: str) -> str:
        wrong = super()._mistake(name, index)
        return "" if wrong == "bad-name" else wrong


class AnyIndex(Connection):
    """Accepts any index."""

    def _mistake(self, name: str, index: str) -> str:
        del index
        return super()._mistake(name, "00")


class RegistersAgain(Connection):
    """Accepts a second registration, as NRI does."""

    def register(self, name: str, index: str) -> None:
        if self.state == "active":
            self._rename(name, index)
        else:
            super().register(name, index)


class KeepsWrongNames(Connection):
    """Does not close the connection of a plugin with a wrong name, as NRI does not."""

    def register(self, name: str, index: str) -> None:
        if self._mistake(name, index):
            self._require("register")
            raise RegistrationError(name)
        super().register(name, index)


class WaitsForever(Connection):
    """Does not give up a plugin that does not register."""

    def await_registration(self) -> None:
        with suppress(PluginLateError):
            self._thread.call(lambda: self.plugin.name, until=self._deadline)


class AnyEvents(Connection):
    """Accepts a subscription to events that do not exist."""

    def configure(self) -> None:
        self.events = frozenset(EVENTS[:-1])
        self._call(lambda: self.plugin.events, "configure")
        self._take("configure", "ok")


class IgnoresTimeouts(Connection):
    """Goes on with a plugin that is late to be configured."""

    def configure(self) -> None:
        call = self._thread.call

        def forgiving(what: Callable[[], Collection[str]], *, until: float) -> Collection[str]:
            try:
                return call(what, until=until)
            except PluginLateError:
                return ()

        self._thread.call = forgiving  # type: ignore[method-assign,assignment]  # the planted bug
        super().configure()


class OnePart(Connection):
    """Treats the first part as the last."""

    def synchronise_part(self, pods: Sequence[Pod], containers: Sequence[Container]) -> None:
        self.synchronise_last(pods, containers)


class AnyPart(Connection):
    """Does not check whether a plugin waits for more."""

    def synchronise_part(self, pods: Sequence[Pod], containers: Sequence[Container]) -> None:
        self._call(lambda: self.plugin.synchronize(pods, containers), "synchronise")
        self._take("synchronise", "part")


class SynchronisesTwice(Connection):
    """Sends the last part twice."""

    def synchronise_last(self, pods: Sequence[Pod], containers: Sequence[Container]) -> Sequence[Update]:
        self._call(lambda: self.plugin.synchronize(pods, containers), "synchronise")
        return super().synchronise_last(pods, containers)


class LossIsError(Connection):
    """Treats a lost plugin as an error."""

    def relay(self, request: Request) -> Answer | None:
        handle = self.plugin.handle

        def failing(request: Request) -> Answer:
            try:
                return handle(request)
            except PluginLostError as error:
                raise NRIError(str(error)) from error

        self.plugin.handle = failing  # type: ignore[method-assign]  # the planted bug
        try:
            return super().relay(request)
        finally:
            self.plugin.handle = handle  # type: ignore[method-assign]  # see above


class DropsAtErrors(Connection):
    """Closes the connection of a plugin that fails."""

    def relay(self, request: Request) -> Answer | None:
        try:
            return super().relay(request)
        except NRIError:
            self.stop()
            raise


class IgnoresSubscriptions(Connection):
    """Relays every event."""

    def relay(self, request: Request) -> Answer | None:
        self.events = frozenset(EVENTS)
        return super().relay(request)


class KeepsTheLost(Connection):
    """Does not drop a plugin that has hung up."""

    def drop(self) -> None:
        if self.state != "lost":
            super().drop()


class UpdatesTooEarly(Connection):
    """Makes updates of a plugin that is not synchronised yet."""

    def request_updates(self, make: Callable[[], None]) -> None:
        if self.state == "synchronising":
            make()
        else:
            super().request_updates(make)


class ClosesSilently(Connection):
    """Does not close the plugin's end at the stop."""

    def stop(self) -> None:
        self.hang_up()
        super().stop()


class OutlivesTheStop(Connection):
    """The stop does not close it, as in NRI."""

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
    """A plugin that turns the clock by ``takes`` in each call."""

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
    connection.handshake()
    return connection


def things(number: int) -> tuple[list[Pod], list[Container]]:
    return [Pod(id=f"p{each}") for each in range(number)], [Container(id=f"c{each}") for each in range(number)]


def test_all_parts_share_one_timeout() -> None:
    """Three messages of a second each exceed two seconds, though none of them does."""
    clock = TurnedClock()
    plugin = Slow(clock, 0.6)
    connection = configured(plugin, Terms(config=Config(plugin_request_timeout=2, sync_objects=4), clock=clock))
    assert connection.synchronise(*things(5)) == ()
    assert (connection.state, plugin.parts) == ("active", [["p0", "p1", "p2", "p3"], ["p4", "c0", "c1", "c2"]])
    assert [(len(pods), len(containers)) for pods, containers in plugin.synchronised] == [(0, 2)]

    plugin = Slow(clock, 1)
    connection = configured(plugin, Terms(config=Config(plugin_request_timeout=2, sync_objects=4), clock=clock))
    with pytest.raises(RegistrationError, match="could not be synchronised") as caught:
        connection.synchronise(*things(5))
    assert (connection.state, caught.value.code, len(plugin.parts)) == ("absent", "DEADLINE_EXCEEDED", 2)


def test_each_request_has_its_own_timeout() -> None:
    """The time of one request does not count for the next."""
    clock = TurnedClock()
    connection = configured(Slow(clock, 1.5), Terms(config=Config(plugin_request_timeout=2), clock=clock))
    connection.synchronise((), ())

    for _ in range(3):
        assert connection.relay(Request(event="RunPodSandbox", pod=POD)) == Answer()
    assert connection.state == "active"


def test_a_plugin_that_does_not_accept_parts_is_closed() -> None:
    plugin = FakePlugin()
    connection = configured(plugin, Terms(config=Config(sync_objects=1)))

    with pytest.raises(RegistrationError, match="does not handle synchronisation in parts"):
        connection.synchronise(*things(1))
    assert (connection.state, plugin.synchronised) == ("absent", [])


def test_objects_are_sent_in_order() -> None:
    """However they are split."""
    for largest in range(9):
        plugin = Slow(TurnedClock(), 0)
        configured(plugin, Terms(config=Config(sync_objects=largest))).synchronise(*things(3))

        [last] = plugin.synchronised
        assert [each for part in (*plugin.parts, ids(*last)) for each in part] == ["p0", "p1", "p2", "c0", "c1", "c2"]
        assert all(len(part) == largest for part in plugin.parts)


def test_a_plugin_that_disconnects_in_the_handshake_is_removed() -> None:
    """Its end is not closed again."""

    def hangs_up() -> Sequence[Update]:
        raise PluginLostError("gone")

    connection = configured(FakePlugin(wants=hangs_up), Terms())
    with pytest.raises(RegistrationError) as caught:
        connection.synchronise((), ())
    assert (connection.state, caught.value.code) == ("absent", "UNAVAILABLE")


@pytest.mark.parametrize(
    ("asked", "there", "events"),
    [
        (0, EVENTS, EVENTS),
        ((), EVENTS, EVENTS),
        (0x3FFF, EVENTS, EVENTS),
        (1 << 9, EVENTS, ["StopContainer"]),
        (0x7FF, EVENTS[:11], EVENTS[:11]),
    ],
)
def test_subscriptions(asked: Collection[str] | int, there: Collection[str], events: Collection[str]) -> None:
    assert frozenset(events) == subscribed(asked, there)


@pytest.mark.parametrize(
    ("asked", "there", "named"),
    [
        (1 << 14, EVENTS, "0x4000: the mask of all that there are is 0x3fff"),
        (0x3FFF, EVENTS[:11], "0x3800: the mask of all that there are is 0x7ff"),
        (-1, EVENTS, "the mask of all"),
        (["EatContainer"], EVENTS[:1], "EatContainer: there are RunPodSandbox"),
    ],
)
def test_subscriptions_to_events_that_do_not_exist(
    asked: Collection[str] | int, there: Collection[str], named: str
) -> None:
    with pytest.raises(ValueError, match=named):
        subscribed(asked, there)


def test_only_the_newest_release_has_validation() -> None:
    assert known(EVENTS[:11]) == frozenset(EVENTS[:11])
    assert known(EVENTS[:13]) == frozenset(EVENTS)


def test_upstream_a_second_registration_changes_the_name_and_not_the_order() -> None:
    """Until another plugin joins; a third registration blocks until the timeout."""
    clock = TurnedClock()
    plugins = Plugins(Terms(clock=clock), UpstreamConnection)
    first, second, third = (plugins.connection(FakePlugin(index=index)) for index in ("10", "20", "30"))
    for each in (first, second):
        each.handshake()
        each.synchronise((), ())
        plugins.join(each)

    first.register("late", "40")
    assert plugins.names == ("40-late", "20-fake")
    clock.hurried = True
    with pytest.raises(NRIError) as caught:
        first.register("later", "50")
    clock.hurried = False
    assert (caught.value.code, clock.now()) == ("DEADLINE_EXCEEDED", 5)
    assert plugins.names == ("40-late", "20-fake")

    third.handshake()
    third.synchronise((), ())
    plugins.join(third)
    assert list(plugins.names) == ["20-fake", "30-fake", "40-late"]


@pytest.mark.parametrize(("launched", "left"), [(True, []), (False, ["done"])])
def test_upstream_a_plugin_that_connected_by_itself_survives_the_stop(*, launched: bool, left: list[str]) -> None:
    """It receives no requests, but its updates are made."""
    plugins = Plugins(Terms(), UpstreamConnection)
    plugin = FakePlugin()
    connection = plugins.connection(plugin)
    connection.handshake(launched=launched)
    connection.synchronise((), ())
    plugins.join(connection)

    plugins.close()
    done: list[str] = []
    plugins.relay(Request(event="RunPodSandbox", pod=POD))
    with suppress(NRIError):
        connection.request_updates(lambda: done.append("done"))

    assert (plugin.heard, done) == ([], left)


class Closed(FakePlugin):
    """A plugin that counts how often its end was closed."""

    def __init__(self, **how: object) -> None:
        super().__init__(**how)  # type: ignore[arg-type]  # the fields of a plugin
        self.closed = 0

    def close(self) -> None:
        self.closed += 1


def test_every_connection_is_closed_once() -> None:
    """At the stop, when the plugin is lost, or when it fails to join."""

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
    """It does not join."""
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
    """With as many objects as configured."""
    plugin = Slow(TurnedClock(), 0)
    nri = NRI(Config(sync_objects=2), Domains([domain_of_two()]))
    nri.start()

    nri.register(plugin)

    assert (plugin.parts, plugin.synchronised) == ([["p1", "c1"]], [((), (TWO,))])
    with pytest.raises(ValueError, match="sync_objects is -1"):
        Config(sync_objects=-1)
    nri.stop()


def test_no_thread_outlives_its_test() -> None:
    """Each connection has one, which ends when another test begins."""
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
