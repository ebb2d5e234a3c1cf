"""The reference of a plugin's connection under test: a plugin that plays along, and a clock that it turns."""

from __future__ import annotations

import threading
from dataclasses import dataclass, field
from itertools import count, cycle
from typing import TYPE_CHECKING, Final

from fsm.reference.clock import TurnedClock
from fsm.reference.nri.connection import Connection, Terms
from fsm.reference.nri.entities import driver
from fsm.reference.nri.messages import Answer, Container, Pod, Request
from fsm.reference.nri.nri_errors import NRIError, PluginLostError
from fsm.reference.nri.plugins import Plugins
from fsm.reference.nri.subscribing import EVENTS
from fsm.reference.nri.upstream import AsWritten
from fsm.sut import UnsupportedError, drained

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from fsm.reference.nri.connection import Launch
    from fsm.reference.nri.messages import Update

PATIENCE: Final = 0.5
"""Real seconds for which a plugin that does not answer waits to be given up; it is at once."""

POD: Final = Pod(id="pod")
CONTAINER: Final = Container(id="container", pod_id=POD.id)

SUBSCRIBED: Final = EVENTS[:-1]
"""What the plugin subscribes to."""

NAMES: Final = ("player", "logger_2.0+x-y", "P")
WRONG_NAMES: Final = ("", "a b", "a/b")
WRONG_INDICES: Final = ("", "7", "007", "1x")

STAYS: Final = "bad-names-stay"
AGAIN: Final = "registered-again"

ARRANGED_AS_WRITTEN: Final[Mapping[tuple[str, str], tuple[str, ...]]] = {
    ("register", "registering"): ("registered", STAYS),
    ("register", "active"): (AGAIN, "third-registration-hangs"),
    ("stop", "active"): ("left-at-the-stop", "stopped"),
}
"""How the connection as it is written goes: by event and state, the outcomes that there may be."""


@dataclass(kw_only=True, eq=False)
class Player:
    """A plugin that writes down what it is sent, and answers as ``plays`` says; ``late`` waits for nothing."""

    told: list[str]
    late: Callable[[], None]
    plays: str = ""
    index: str = "10"
    numbers: Iterator[str] = field(default_factory=lambda: cycle(NAMES))

    @property
    def name(self) -> str:
        """One of those that it may have."""
        self._play()
        return next(self.numbers)

    @property
    def events(self) -> Sequence[str] | int:
        """All but one, by name or by mask."""
        self.told.append("Configure")
        self._play()
        if self.plays == "bad-events":
            return 1 << len(EVENTS)
        return SUBSCRIBED

    def launch(self) -> None:
        """A process is started, or not."""
        if self.plays == "failed":
            raise OSError("there is no such file")

    def synchronize_part(self, pods: Sequence[Pod], containers: Sequence[Container]) -> bool:
        """Some of it."""
        del pods, containers
        self.told.append("Synchronize")
        self._play()
        return self.plays != "not-split"

    def synchronize(self, pods: Sequence[Pod], containers: Sequence[Container]) -> Sequence[Update]:
        """The last of it."""
        del pods, containers
        self.told.append("Synchronize")
        self._play()
        return ()

    def handle(self, request: Request) -> Answer:
        """Whatever it is."""
        del request
        self.told.append("request")
        self._play()
        return Answer()

    def close(self) -> None:
        """Its end is closed."""
        self.told.append("closed")

    def _play(self) -> None:
        match self.plays:
            case "error":
                raise NRIError("no", code="INTERNAL")
            case "lost":
                raise PluginLostError("hung up")
            case "timeout" | "given-up":
                self.late()
            case _:
                pass


class NriPluginSUT:
    """A plugin's connection under test; of another *kind* for those who try what is noticed.

    >>> sut = NriPluginSUT()
    >>> [sut.do(event) for event in ("connect", "register", "configure")], sut.outputs(), sut.shows()
    (['', 'ok', ''], ['Configure'], 'synchronising')
    >>> sut.arrange("synchronise", "timeout"), sut.do("synchronise"), sut.outputs(), sut.shows()
    (True, '', ['Synchronize', 'closed'], 'absent')
    >>> sut.close()
    """

    def __init__(self, profile: str = "", *, kind: type[Connection] | None = None) -> None:
        self._kind: Final = kind or (AsWritten if profile == "as-written" else Connection)
        self.reset()

    def reset(self) -> None:
        """A runtime without plugins."""
        self.clock = TurnedClock()
        self._told: list[str] = []
        self._hope = ""
        self._numbers = count()
        self._free = threading.Event()
        self._plugins = Plugins(Terms(clock=self.clock), self._kind)
        self._begin()

    def _begin(self) -> None:
        self.player = Player(told=self._told, late=self._late)
        self.connection = self._plugins.connection(self.player)
        self._launched = self._again = self._stopped = False

    def close(self) -> None:
        """End the plugin's thread."""
        self.connection.hang_up()
        self.connection.stop()

    def shows(self) -> str:
        """Where it stands."""
        return self.connection.state

    def outputs(self) -> list[str]:
        """What the plugin was sent, and the domains were asked for."""
        return drained(self._told)

    def arrange(self, event: str, outcome: str) -> bool:
        """The plugin plays along, unless it would have to be another one."""
        self._hope = outcome
        if not issubclass(self._kind, AsWritten):
            return any(way.name == outcome for way in driver("nri-plugin", "").offered(event, self.connection.state))
        if event == "relay" and self._stopped:
            return False
        may = ARRANGED_AS_WRITTEN.get((event, self.connection.state))
        if may and self.connection.state == "active":
            may = may[self._launched if event == "stop" else self._again :][:1]
        return may is None or outcome in may

    def do(self, event: str) -> str:
        """Let it happen."""
        call = getattr(self, "_" + event.replace("-", "_"), None)
        if call is None:
            message = f"the reference of nri-plugin has no event {event!r}"
            raise UnsupportedError(message)
        hope, self._hope = self._hope, ""
        self._free.clear()
        self.player.plays = hope
        try:
            call(hope)
        except NRIError as error:
            return error.code if event in {"register", "relay", "update-containers", "stop"} else ""
        finally:
            self._free.set()
            self.player.plays = ""
        return "ok" if event in {"register", "relay", "update-containers", "stop"} else ""

    # -- what happens ------------------------------------------------------

    def _connect(self, _: str) -> None:
        self._begin()
        self.connection.connect()

    def _launch(self, hope: str) -> None:
        self._begin()
        self.player.plays = hope
        kind: Launch = "built-in" if hope == "built-in" else "launched"
        self._launched = kind == "launched"
        self.connection.launch(kind)

    def _register(self, hope: str) -> None:
        number = next(self._numbers)
        name, index = NAMES[number % len(NAMES)], f"{number % 100:02}"
        if hope == "bad-name" or (hope == STAYS and number % 2):
            name = WRONG_NAMES[number % len(WRONG_NAMES)]
        elif hope in {"bad-index", STAYS}:
            index = WRONG_INDICES[number % len(WRONG_INDICES)]
        self.clock.hurried = True
        active = self.shows() == "active"
        try:
            self.connection.register(name, index)
        finally:
            self.clock.hurried = False
            self._again |= active

    def _no_registration(self, _: str) -> None:
        self.player.plays = "given-up"
        self.connection.introduce()

    def _configure(self, _: str) -> None:
        self.connection.configure()

    def _synchronise(self, hope: str) -> None:
        if hope in {"part", "not-split"}:
            self.connection.tell_part([POD], [CONTAINER])
            return
        self.connection.tell([POD], [CONTAINER])
        self._plugins.join(self.connection)

    def _relay(self, hope: str) -> None:
        events = EVENTS[-1:] if hope == "not-subscribed" else SUBSCRIBED
        event = events[next(self._numbers) % len(events)]
        told = self._plugins.relay(Request(event=event, pod=POD, container=CONTAINER))
        if self._stopped and not self.connection.listed:
            self.connection.drop()  # which was left by the stop, and is among no plugins any more
        if told.error is not None:
            raise told.error

    def _update_containers(self, hope: str) -> None:
        def make() -> None:
            if hope == "failed":
                raise NRIError("it will not", code="INTERNAL")
            self._told.append("updated")

        self.connection.updates(make)

    def _hang_up(self, _: str) -> None:
        self.connection.hang_up()

    def _stop(self, _: str) -> None:
        listed = self.connection.listed
        self._plugins.close()
        if not listed:
            self.connection.stop()
        self._stopped = True

    def _late(self) -> None:
        """Time goes by, and the plugin does not answer."""
        self.clock.turn(self._plugins.terms.registration)
        self._free.wait(PATIENCE)
