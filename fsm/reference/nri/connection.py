"""One plugin's connection, as the runtime sees it: from its coming to its end.

Where it stands, what may happen there and what comes of it is said by the
machine ``nri-plugin``; what is here is how a plugin is asked, how long, and
what its answers are worth.  Who is asked in which order is in ``plugins``.
"""

from __future__ import annotations

import logging
import re
import threading
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final, Literal, Protocol, TypeAlias, TypeVar, runtime_checkable

from fsm.reference.clock import Clock
from fsm.reference.nri.asking import Line
from fsm.reference.nri.config import REGISTRATION, REQUEST
from fsm.reference.nri.entities import driver
from fsm.reference.nri.nri_errors import (
    NRIError,
    PluginFailedError,
    PluginLateError,
    PluginLostError,
    RegistrationError,
)
from fsm.reference.nri.subscribing import EVENTS, subscribed

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Sequence

    from fsm.machine import Outcome
    from fsm.reference.nri.messages import Answer, Container, Pod, Request, Update

_log = logging.getLogger(__name__)
_NAME: Final = re.compile(r"[A-Za-z0-9_.+-]+")
_INDEX: Final = re.compile(r"[0-9]{2}")

T = TypeVar("T")

Launch: TypeAlias = Literal["launched", "built-in"]
"""How an installed plugin comes: as a process, or as part of the runtime, which need not register."""


class Plugin(Protocol):
    """What wants to be asked.

    All of it is asked for on a thread of its own, one thing at a time.  An
    exception is an answer, an error; :class:`PluginLostError` says that there
    is no plugin any more.  One that does not answer in time is lost, too.
    """

    @property
    def index(self) -> str:
        """Two digits: plugins are asked in ascending order."""

    @property
    def name(self) -> str:
        """Letters, digits, and ``_ . + -``."""

    @property
    def events(self) -> Collection[str] | int:
        """The names of the requests that it subscribes to, or the mask of their bits; none stand for all."""

    def synchronize(self, pods: Sequence[Pod], containers: Sequence[Container]) -> Sequence[Update]:
        """What there is when it joins, or the last of it; it may ask for updates."""

    def handle(self, request: Request) -> Answer:
        """Answer *request*."""


@runtime_checkable
class Splitting(Protocol):
    """A plugin that can be told in several messages what there is."""

    def synchronize_part(self, pods: Sequence[Pod], containers: Sequence[Container]) -> bool:
        """Some of it; whether it waits for more."""


@runtime_checkable
class Launching(Protocol):
    """A plugin that is a process, to be started by the runtime."""

    def launch(self) -> None:
        """Start it; any exception says that it cannot be."""


@runtime_checkable
class Closing(Protocol):
    """A plugin that has an end of the connection to close."""

    def close(self) -> None:
        """The runtime has given it up; returns at once."""


@dataclass(slots=True, kw_only=True)
class Terms:
    """On what terms plugins are connected; they may change meanwhile, and hold from then on.

    ``registration`` and ``request`` are seconds by ``clock``; ``known`` are
    all events that there are; ``largest`` is how many pods and containers go
    into one message, zero stands for any number; ``here`` says of a thread
    that it is a plugin's; ``profile`` is that of the machine.
    """

    registration: float = REGISTRATION
    request: float = REQUEST
    known: Collection[str] = EVENTS
    largest: int = 0
    clock: Clock = field(default_factory=Clock)
    here: threading.local = field(default_factory=threading.local)
    profile: str = ""


class Connection:
    """One plugin's connection.  Not locked: whoever owns it sees to that.

    >>> class Slow:
    ...     index, name, events = "10", "slow", ("StopContainer",)
    ...     def synchronize(self, pods, containers): return ()
    ...     def handle(self, request): threading.Event().wait()
    >>> connection = Connection(Slow(), Terms(request=0.5))
    >>> connection.connect(), connection.introduce(), connection.configure(), connection.synchronise((), ())
    (None, None, None, ())
    >>> connection.name, sorted(connection.events), connection.state
    ('10-slow', ['StopContainer'], 'active')
    >>> from fsm.reference.nri.messages import Pod, Request
    >>> connection.relay(Request(event="RunPodSandbox", pod=Pod(id="p1")))
    >>> connection.relay(Request(event="StopContainer", pod=Pod(id="p1")))
    >>> connection.state
    'absent'
    """

    def __init__(self, plugin: Plugin, terms: Terms) -> None:
        """None yet of *plugin*, on *terms*."""
        self._driver: Final = driver("nri-plugin", terms.profile)
        self._life: Final = self._driver.position()
        self._line: Final = Line(terms.clock, terms.here)
        self._terms: Final = terms
        self._until = 0.0
        self._telling = False
        self.plugin: Final = plugin
        self.index = ""
        self.name = "plugin"
        self.events: frozenset[str] = frozenset()

    @property
    def state(self) -> str:
        """The machine's name for where it stands."""
        return self._life.state

    @property
    def listed(self) -> bool:
        """Whether the plugin is asked."""
        return self._life.ways("relay")[0].name == "ok"

    # -- coming ----------------------------------------------------------------

    def connect(self) -> None:
        """The plugin has come by itself, and is to register in time."""
        self._until = self._terms.clock.now() + self._terms.registration
        self._went("connect")

    def launch(self, kind: Launch = "launched") -> None:
        """Bring up an installed plugin; raises :class:`RegistrationError` if its process cannot be started."""
        self._until = self._terms.clock.now() + self._terms.registration
        if kind == "launched" and isinstance(self.plugin, Launching):
            try:
                self.plugin.launch()
            except Exception as error:
                self._went("launch", "failed")
                message = f"plugin cannot be launched: {error}"
                raise RegistrationError(message, code="UNAVAILABLE") from error
        self._went("launch", kind)
        if kind == "built-in":
            self._named(self.plugin.name, self.plugin.index)

    def enter(self, *, launched: bool = False) -> None:
        """Come, register and be configured; raises :class:`RegistrationError` where that fails."""
        if launched:
            self.launch()
        else:
            self.connect()
        self.introduce()
        self.configure()

    def introduce(self) -> None:
        """Let the plugin register, unless it need not; raises :class:`RegistrationError` if it does not in time, or wrongly."""
        if self.state != "registering":
            return
        try:
            name, index = self._line.ask(lambda: (self.plugin.name, self.plugin.index), until=self._until)
        except PluginLateError as error:
            self._went("no-registration")
            message = f"plugin registration timed out: it {error}"
            raise RegistrationError(message, code="DEADLINE_EXCEEDED") from error
        except Exception as error:
            self.hang_up()
            message = f"plugin did not register: {error}"
            raise RegistrationError(message, code="UNAVAILABLE") from error
        self.register(name, index)

    def register(self, name: str, index: str) -> None:
        """The plugin says who it is.

        Raises :class:`RegistrationError` for a name or an index that no
        plugin may have, :class:`NRIError` for a plugin that is not to
        register now.
        """
        self._may("register")
        wrong = self._wrong(name, index)
        self._went("register", wrong or "registered")
        if wrong:
            message = f"plugin name {name!r}: write letters, digits, and _ . + -"
            if wrong == "bad-index":
                message = f"plugin index {index!r}: write two digits"
            raise RegistrationError(message)
        self._named(name, index)

    def configure(self) -> None:
        """Let it say what it subscribes to; raises :class:`RegistrationError` if it does not, or to what there is not."""
        try:
            asked = self._asked(lambda: self.plugin.events, "configure")
        except Exception as error:
            message = f"plugin {self.name} could not be configured: {error}"
            raise RegistrationError(message, code=_code(error)) from error
        try:
            self.events = subscribed(asked, self._terms.known)
        except ValueError as error:
            self._went("configure", "bad-events")
            raise RegistrationError(str(error)) from error
        self._went("configure", "ok")

    def synchronise(self, pods: Sequence[Pod], containers: Sequence[Container]) -> Sequence[Update]:
        """Tell it what there is, in as many messages as it takes; what it wants updated.

        Raises :class:`RegistrationError` if it fails, or has not answered
        all of them when the time of one request is over.
        """
        most = self._terms.largest or len(pods) + len(containers)
        while len(pods) + len(containers) > most:
            there = most - len(pods[:most])
            self.tell_part(pods[:most], containers[:there])
            pods, containers = pods[most:], containers[there:]
        return self.tell(pods, containers)

    def tell_part(self, pods: Sequence[Pod], containers: Sequence[Container]) -> None:
        """Tell it some of what there is; raises as :meth:`synchronise`, also where it does not wait for more."""
        plugin = self.plugin
        if not self._told(lambda: isinstance(plugin, Splitting) and plugin.synchronize_part(pods, containers)):
            self._went("synchronise", "not-split")
            message = f"plugin {self.name} does not handle synchronisation in parts"
            raise RegistrationError(message, code="FAILED_PRECONDITION")
        self._went("synchronise", "part")

    def tell(self, pods: Sequence[Pod], containers: Sequence[Container]) -> Sequence[Update]:
        """Tell it the last of what there is; raises as :meth:`synchronise`."""
        updates = self._told(lambda: self.plugin.synchronize(pods, containers))
        self._went("synchronise", "ok")
        return updates

    def untold(self) -> Sequence[Update]:
        """It is told nothing, and asked all the same, as in releases that do so; it wants nothing."""
        self._went("synchronise", "untold")
        return ()

    # -- being there -----------------------------------------------------------

    def relay(self, request: Request) -> Answer | None:
        """What it answers; ``None`` if it is not asked, or is lost.

        Raises :class:`PluginFailedError` if it answers with an error.
        """
        if not self.listed:
            self.drop()
            return None
        if request.event not in self.events:
            self._went("relay", "not-subscribed")
            return None
        try:
            answer = self._ask(lambda: self.plugin.handle(request), self._terms.clock.now() + self._terms.request)
        except PluginLostError as error:
            _log.warning("plugin %s is lost at %s: it %s", self.name, request.event, error)
            self._went("relay", "lost")
            return None
        except Exception as error:
            self._went("relay", "error")
            raise PluginFailedError(self.name, error) from error
        self._went("relay", "ok")
        return answer

    def drop(self) -> None:
        """A request has ended, and the plugin was not asked: if it has hung up the connection is closed."""
        self._went("relay")

    def updates(self, make: Callable[[], None]) -> None:
        """*make* what it asks for by itself; raises what that does, and :class:`NRIError` where it may not ask."""
        self._may("update-containers")
        try:
            make()
        except NRIError:
            self._went("update-containers", "failed")
            raise
        self._went("update-containers", "updated")

    # -- going -----------------------------------------------------------------

    def hang_up(self) -> None:
        """The plugin has closed its end; nothing happens where there is none."""
        if self._driver.offered("hang-up", self.state):
            self._went("hang-up")

    def stop(self) -> None:
        """Give it up."""
        self._went("stop", "stopped")

    # -- how it is done --------------------------------------------------------

    def _may(self, event: str) -> None:
        """Raises the error that the machine replies to *event*, where it is refused."""
        way = self._life.ways(event)[0]
        if way.name == "refused":
            message = f"{event}: {self.name} is {self.state}"
            raise NRIError(message, code=way.reply[0])

    def _went(self, event: str, outcome: str = "") -> Outcome:
        """*event* has gone the way that *outcome* names; the plugin's end is closed, and the thread ended, as that says."""
        way = self._life.take(event, outcome)
        if "closed" in way.emits and isinstance(self.plugin, Closing):
            self.plugin.close()
        if self.state == "absent":
            self._line.end()
        return way

    def _wrong(self, name: str, index: str) -> str:
        """How the machine calls what is wrong with who it says that it is."""
        if not _NAME.fullmatch(name):
            return "bad-name"
        return "" if _INDEX.fullmatch(index) else "bad-index"

    def _named(self, name: str, index: str) -> None:
        self.index = index
        self.name = f"{index}-{name}"
        self._line.named(f"plugin {self.name}")

    def _ask(self, what: Callable[[], T], until: float) -> T:
        return self._line.ask(what, until=until)

    def _asked(self, what: Callable[[], T], event: str) -> T:
        """The same, in the time of one request; where there is no answer, *event* has gone that way."""
        if not self._telling:
            self._until = self._terms.clock.now() + self._terms.request
        try:
            return self._ask(what, self._until)
        except PluginLateError:
            self._went(event, "timeout")
            raise
        except PluginLostError:
            self.hang_up()
            raise
        except Exception:
            self._went(event, "error")
            raise

    def _told(self, what: Callable[[], T]) -> T:
        """What it answers to a message of its synchronisation; all of them have one time."""
        try:
            answer = self._asked(what, "synchronise")
        except Exception as error:
            message = f"plugin {self.name} could not be synchronised: {error}"
            raise RegistrationError(message, code=_code(error)) from error
        self._telling = True
        return answer


def _code(error: Exception) -> str:
    match error:
        case NRIError():
            return error.code
        case PluginLateError():
            return "DEADLINE_EXCEEDED"
        case PluginLostError():
            return "UNAVAILABLE"
        case _:
            return "UNKNOWN"
