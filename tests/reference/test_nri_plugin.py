"""The reference of a plugin's connection: how it comes, is told and asked, and goes, and what the kit notices."""

# ruff: noqa: D102, SLF001  (a method is the bug that its class tells of, and reaches for what it should not)

from __future__ import annotations

from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING

import pytest
from nri_parts import TWO, domain_of_two

from fsm.conformance.suite import conform
from fsm.library import load
from fsm.reference.clock import TurnedClock
from fsm.reference.nri.api import NRI
from fsm.reference.nri.config import Config
from fsm.reference.nri.connection import Connection, Terms
from fsm.reference.nri.domain import Domains
from fsm.reference.nri.fakes import FakePlugin
from fsm.reference.nri.messages import Answer, Container, Pod, Request
from fsm.reference.nri.nri_errors import (
    NRIError,
    NRIStoppedError,
    PluginFailedError,
    PluginLateError,
    PluginLostError,
    RegistrationError,
)
from fsm.reference.nri.plugin_sut import NriPluginSUT
from fsm.reference.nri.plugins import Plugins
from fsm.reference.nri.subscriptions import EVENTS, known, subscribed
from fsm.reference.nri.upstream import UpstreamConnection

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator, Sequence

    from fsm.reference.nri.messages import Update

UNARRANGED = {
    "": set(),
    "as-written": {"register=bad-name", "register=bad-index"},
    "containerd-1.7": {"synchronise=unlisted", "synchronise=untold"},
    "containerd-2.1": set(),
}
"""By profile, what the reference does not do, or does otherwise."""

POD = Pod(id="p1")


@pytest.mark.parametrize("profile", UNARRANGED)
def test_passes_the_test_of_its_machine(profile: str) -> None:
    """All cells are covered, in every way that there is."""
    found = conform(load("nri-plugin"), lambda: NriPluginSUT(profile), profile=profile or None, examples=2)

    assert ((), ()) == (found.failures, found.missed)
    assert UNARRANGED[profile] == {"=".join(each) for each in found.unarranged}


def test_as_it_is_written_it_is_not_as_it_should_be() -> None:
    found = conform(load("nri-plugin"), lambda: NriPluginSUT("as-written"), examples=0)

    assert {"register", "stop"} == {each.steps[-1].event for each in found.failures}


class AnyName(Connection):
    """Lets in whoever comes."""

    def _mistake(self, name: str, index: str) -> str:
        wrong = super()._mistake(name, index)
        return "" if wrong == "bad-name" else wrong


class AnyIndex(Connection):
    """Does not look at the index."""

    def _mistake(self, name: str, index: str) -> str:
        del index
        return super()._mistake(name, "00")


class RegistersAgain(Connection):
    """Takes a second registration, as NRI does."""

    def register(self, name: str, index: str) -> None:
        if self.state == "active":
            self._rename(name, index)
        else:
            super().register(name, index)


class LeavesTheNameless(Connection):
    """Does not close the connection of one with a wrong name, as NRI does not."""

    def register(self, name: str, index: str) -> None:
        if self._mistake(name, index):
            self._require("register")
            raise RegistrationError(name)
        super().register(name, index)


class WaitsForNames(Connection):
    """Does not give up who does not register."""

    def await_registration(self) -> None:
        with suppress(PluginLateError):
            self._thread.call(lambda: self.plugin.name, until=self._deadline)


class AnyEvents(Connection):
    """Takes a subscription to what there is not."""

    def configure(self) -> None:
        self.events = frozenset(EVENTS[:-1])
        self._call(lambda: self.plugin.events, "configure")
        self._take("configure", "ok")


class ForgivesTheDeaf(Connection):
    """Goes on with one that does not answer when it is configured."""

    def configure(self) -> None:
        call = self._thread.call

        def forgiving(what: Callable[[], Collection[str]], *, until: float) -> Collection[str]:
            try:
                return call(what, until=until)
            except PluginLateError:
                return ()

        self._thread.call = forgiving  # type: ignore[method-assign,assignment]  # that is the bug
        super().configure()


class OnePart(Connection):
    """Takes the first part for all."""

    def synchronise_part(self, pods: Sequence[Pod], containers: Sequence[Container]) -> None:
        self.synchronise_last(pods, containers)


class AnyPart(Connection):
    """Does not look whether a plugin waits for more."""

    def synchronise_part(self, pods: Sequence[Pod], containers: Sequence[Container]) -> None:
        self._send(lambda: self.plugin.synchronize(pods, containers))
        self._take("synchronise", "part")


class TellsTwice(Connection):
    """Tells again what was told."""

    def synchronise_last(self, pods: Sequence[Pod], containers: Sequence[Container]) -> Sequence[Update]:
        self._send(lambda: self.plugin.synchronize(pods, containers))
        return super().synchronise_last(pods, containers)


class Insists(Connection):
    """Takes one that is lost for one that answers with an error."""

    def relay(self, request: Request) -> Answer | None:
        handle = self.plugin.handle

        def insisting(request: Request) -> Answer:
            try:
                return handle(request)
            except PluginLostError as error:
                raise NRIError(str(error)) from error

        self.plugin.handle = insisting  # type: ignore[method-assign]  # that is the bug
        try:
            return super().relay(request)
        finally:
            self.plugin.handle = handle  # type: ignore[method-assign]  # see above


class DropsAtErrors(Connection):
    """Gives up one that answers with an error."""

    def relay(self, request: Request) -> Answer | None:
        try:
            return super().relay(request)
        except PluginFailedError:
            self.stop()
            raise


class AsksAll(Connection):
    """Asks whatever it subscribed to."""

    def relay(self, request: Request) -> Answer | None:
        self.events = frozenset(EVENTS)
        return super().relay(request)


class KeepsTheLost(Connection):
    """Does not drop one that has hung up."""

    def drop(self) -> None:
        if self.state != "lost":
            super().drop()


class HeedsAnybody(Connection):
    """Does what a plugin asks for that is not yet let in."""

    def request_updates(self, make: Callable[[], None]) -> None:
        if self.state == "synchronising":
            make()
        else:
            super().request_updates(make)


class ClosesSilently(Connection):
    """Does not close the plugin's end when it is given up."""

    def stop(self) -> None:
        self.hang_up()
        super().stop()


class OutlivesTheStop(Connection):
    """Is left by the stop, as NRI leaves it."""

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
    LeavesTheNameless: "connect; register=bad-name",
    WaitsForNames: "connect; no-registration",
    AnyEvents: "launch=built-in; configure=bad-events",
    ForgivesTheDeaf: "launch=built-in; configure=timeout",
    OnePart: f"{BUILT_IN}; synchronise=part",
    AnyPart: f"{BUILT_IN}; synchronise=not-split",
    TellsTwice: f"{BUILT_IN}; synchronise=ok",
    Insists: f"{BUILT_IN}; synchronise=ok; relay=lost",
    DropsAtErrors: f"{BUILT_IN}; synchronise=ok; relay=error",
    AsksAll: f"{BUILT_IN}; synchronise=ok; relay=not-subscribed",
    KeepsTheLost: f"{BUILT_IN}; synchronise=ok; hang-up; relay",
    HeedsAnybody: f"{BUILT_IN}; update-containers",
    ClosesSilently: "connect; stop",
    OutlivesTheStop: f"{BUILT_IN}; synchronise=ok; stop",
}


@pytest.mark.parametrize("kind", BUGS, ids=lambda kind: kind.__name__)
def test_a_bug_is_found_by_the_shortest_test(kind: type[Connection]) -> None:
    found = conform(load("nri-plugin"), lambda: NriPluginSUT(kind=kind), examples=0)

    shortest = min(found.failures, key=lambda failure: len(failure.steps))
    assert BUGS[kind] == "; ".join(map(str, shortest.steps))


def ids(pods: Sequence[Pod], containers: Sequence[Container]) -> list[str]:
    return [each.id for each in pods] + [each.id for each in containers]


class Slow(FakePlugin):
    """A plugin for which time goes by whenever it is asked."""

    def __init__(self, clock: TurnedClock, takes: float, **how: object) -> None:
        super().__init__(**how)  # type: ignore[arg-type]  # whatever a plugin has
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


def test_there_is_one_time_for_all_parts() -> None:
    """Three messages that take a second each are too much for two seconds, though none of them is."""
    clock = TurnedClock()
    plugin = Slow(clock, 0.6)
    connection = configured(plugin, Terms(request=2, largest=4, clock=clock))
    assert connection.synchronise(*things(5)) == ()
    assert (connection.state, plugin.parts) == ("active", [["p0", "p1", "p2", "p3"], ["p4", "c0", "c1", "c2"]])
    assert [(len(pods), len(containers)) for pods, containers in plugin.synchronised] == [(0, 2)]

    plugin = Slow(clock, 1)
    connection = configured(plugin, Terms(request=2, largest=4, clock=clock))
    with pytest.raises(RegistrationError, match="could not be synchronised") as caught:
        connection.synchronise(*things(5))
    assert (connection.state, caught.value.code, len(plugin.parts)) == ("absent", "DEADLINE_EXCEEDED", 2)


def test_each_request_has_its_own_time() -> None:
    """What a plugin has taken for one is not taken from the next."""
    clock = TurnedClock()
    connection = configured(Slow(clock, 1.5), Terms(request=2, clock=clock))
    connection.synchronise((), ())

    for _ in range(3):
        assert connection.relay(Request(event="RunPodSandbox", pod=POD)) == Answer()
    assert connection.state == "active"


def test_a_plugin_that_cannot_be_told_in_parts_is_closed() -> None:
    plugin = FakePlugin()
    connection = configured(plugin, Terms(largest=1))

    with pytest.raises(RegistrationError, match="does not handle synchronisation in parts"):
        connection.synchronise(*things(1))
    assert (connection.state, plugin.synchronised) == ("absent", [])


def test_all_that_there_is_is_told_in_order() -> None:
    """However it is split."""
    for largest in range(9):
        plugin = Slow(TurnedClock(), 0)
        configured(plugin, Terms(largest=largest)).synchronise(*things(3))

        [last] = plugin.synchronised
        assert [each for part in (*plugin.parts, ids(*last)) for each in part] == ["p0", "p1", "p2", "c0", "c1", "c2"]
        assert all(len(part) == largest for part in plugin.parts)


def test_who_hangs_up_in_the_handshake_is_gone() -> None:
    """And is not closed: it has done that itself."""

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
def test_a_subscription_to_what_there_is_not(asked: Collection[str] | int, there: Collection[str], named: str) -> None:
    with pytest.raises(ValueError, match=named):
        subscribed(asked, there)


def test_only_the_newest_knows_of_validation() -> None:
    assert known(EVENTS[:11]) == frozenset(EVENTS[:11])
    assert known(EVENTS[:13]) == frozenset(EVENTS)


def test_a_second_registration_gives_another_name_and_not_another_place() -> None:
    """Until another one joins; a third is not answered before the plugin's time is over."""
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
def test_what_has_come_by_itself_outlives_the_stop(*, launched: bool, left: list[str]) -> None:
    """It is asked no more, but what it asks for is done."""
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
    """A plugin that says that its end was closed."""

    def __init__(self, **how: object) -> None:
        super().__init__(**how)  # type: ignore[arg-type]  # whatever a plugin has
        self.closed = 0

    def close(self) -> None:
        self.closed += 1


def test_every_end_that_is_given_up_is_closed() -> None:
    """At the stop, when it is lost, when it fails to join, when it comes too late; once."""

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
    nri.run_pod_sandbox(POD)
    assert [each.closed for each in (installed, lost, failed, nameless)] == [0, 1, 1, 1]

    nri.stop()
    assert [each.closed for each in (installed, lost, failed, nameless)] == [1, 1, 1, 1]


def test_one_that_comes_while_all_is_stopped_is_closed() -> None:
    """Whatever it is at when that happens, it does not join."""
    plugin = Closed()
    nri = NRI()
    nri.start()
    wait_for = nri._sync.joining

    @contextmanager
    def overtaken(*, timeout: float) -> Iterator[None]:
        with wait_for(timeout=timeout):
            nri.stop()
            yield

    nri._sync.joining = overtaken  # type: ignore[method-assign]  # others come first
    with pytest.raises(NRIStoppedError):
        nri.register(plugin)

    assert (nri.plugins, plugin.synchronised, plugin.closed) == ((), [], 1)


def test_a_layer_tells_in_parts() -> None:
    """As many as it is configured to."""
    plugin = Slow(TurnedClock(), 0)
    nri = NRI(Config(sync_objects=2), Domains([domain_of_two()]))
    nri.start()

    nri.register(plugin)

    assert (plugin.parts, plugin.synchronised) == ([["p1", "c1"]], [((), (TWO,))])
    with pytest.raises(ValueError, match="sync_objects is -1"):
        Config(sync_objects=-1)
    nri.stop()
