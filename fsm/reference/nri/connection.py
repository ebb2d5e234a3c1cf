"""The connection of one plugin, from its start to its end, driven by the machine ``nri-plugin``."""

import logging
import re
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, field
from typing import Final, Protocol, TypeVar

from fsm.reference.clock import Clock
from fsm.reference.driven import UNKNOWN, Driven, driver
from fsm.reference.nri.config import Config
from fsm.reference.nri.messages import EVENTS, Answer, Container, Pod, Request, Update, subscribed
from fsm.reference.nri.nri_errors import NRIError, PluginLateError, PluginLostError, RegistrationError
from fsm.reference.nri.plugin_thread import PluginLocal, PluginThread

_log = logging.getLogger(__name__)
_NAME: Final = re.compile(r"[A-Za-z0-9_.+-]+")
_INDEX: Final = re.compile(r"[0-9]{2}")

T = TypeVar("T")

MACHINE: Final = "nri-plugin"


class Plugin(Protocol):
    """A plugin, to derive from; its members are used on a thread of its own, one at a time.

    An exception is an error answer; :class:`PluginLostError` means that it has disconnected.
    """

    @property
    def index(self) -> str:
        """Two digits: plugins are called in ascending order."""

    @property
    def name(self) -> str:
        """Letters, digits, and ``_ . + -``."""

    @property
    def events(self) -> Collection[str] | int:
        """The names of the requests that it subscribes to, or the mask of their bits; all if empty."""

    def synchronize(self, pods: Sequence[Pod], containers: Sequence[Container]) -> Sequence[Update]:
        """Receive the existing objects, or the last of them; the updates it requests."""

    def handle(self, request: Request) -> Answer:
        """Answer *request*."""

    def synchronize_part(self, pods: Sequence[Pod], containers: Sequence[Container]) -> bool:
        """Receive some of the existing objects; whether it waits for more."""
        del pods, containers
        return False

    def launch(self) -> None:
        """Start its process, if it is one; raises any exception if that cannot be started."""
        return

    def close(self) -> None:
        """The runtime has closed the connection; returns at once."""
        return


@dataclass(slots=True, kw_only=True)
class Terms:
    """The settings of connections, which may change while they exist.

    ``known`` are all events; ``local`` marks threads of plugins.
    """

    config: Config = field(default_factory=Config)
    known: Collection[str] = EVENTS
    clock: Clock = field(default_factory=Clock)
    local: PluginLocal = field(default_factory=PluginLocal)


class Connection(Driven):
    """The connection of *plugin* on *terms*.  Not thread-safe.

    >>> import threading
    >>> class Slow(Plugin):
    ...     index, name, events = "10", "slow", ("StopContainer",)
    ...     def synchronize(self, pods, containers): return ()
    ...     def handle(self, request): threading.Event().wait()
    >>> connection = Connection(Slow(), Terms(config=Config(plugin_request_timeout=0.5)))
    >>> connection.connect(), connection.await_registration(), connection.configure(), connection.synchronise((), ())
    (None, None, None, ())
    >>> connection.name, sorted(connection.events), connection.state
    ('10-slow', ['StopContainer'], 'active')
    >>> connection.relay(Request(event="RunPodSandbox", pod=Pod(id="p1")))
    >>> connection.relay(Request(event="StopContainer", pod=Pod(id="p1")))
    >>> connection.state
    'absent'
    """

    def __init__(self, plugin: Plugin, terms: Terms) -> None:
        self._driver: Final = driver(MACHINE, terms.config.release)
        self.position = self._driver.position()
        self._thread: Final = PluginThread(terms.clock, terms.local)
        self._terms: Final = terms
        self._deadline = 0.0
        self._synchronising = False
        self.plugin: Final = plugin
        self.index = ""
        self.name = "plugin"
        self.events: frozenset[str] = frozenset()

    @property
    def listed(self) -> bool:
        """Whether requests are relayed to the plugin."""
        return self.position.outcomes("relay")[0].name == "ok"

    def connect(self) -> None:
        """The plugin has connected by itself; its time to register begins."""
        self._deadline = self._terms.clock.now() + self._terms.config.registration_timeout
        self._take("connect")

    def launch(self, *, built_in: bool = False) -> None:
        """Start an installed plugin, as a process or ``built_in``, which need not register; raises :class:`RegistrationError`."""
        self._deadline = self._terms.clock.now() + self._terms.config.registration_timeout
        if built_in:
            self._rename(self.plugin.name, self.plugin.index)
        else:
            try:
                self.plugin.launch()
            except Exception as error:
                self._take("launch", "failed")
                raise RegistrationError(f"plugin cannot be launched: {error}", code="UNAVAILABLE") from error
        self._take("launch", "built-in" if built_in else "launched")

    def handshake(self, *, launched: bool = False) -> None:
        """Connect or launch, register and configure; raises :class:`RegistrationError` if that fails."""
        if launched:
            self.launch()
        else:
            self.connect()
        self.await_registration()
        self.configure()

    def await_registration(self) -> None:
        """Let the plugin register, unless it need not; raises :class:`RegistrationError` if it fails to, or is late."""
        if self.state != "registering":
            return
        try:
            name, index = self._thread.call(lambda: (self.plugin.name, self.plugin.index), until=self._deadline)
        except PluginLateError as error:
            self._take("no-registration")
            raise RegistrationError(f"plugin registration timed out: it {error}", code="DEADLINE_EXCEEDED") from error
        except Exception as error:
            self.hang_up()
            raise RegistrationError(f"plugin did not register: {error}", code="UNAVAILABLE") from error
        self.register(name, index)

    def register(self, name: str, index: str) -> None:
        """The plugin registers; raises :class:`RegistrationError`, or :class:`NRIError` if it must not register now."""
        self._require("register")
        mistake = self._mistake(name, index)
        self._take("register", mistake or "registered")
        if mistake:
            message = f"plugin name {name!r}: write letters, digits, and _ . + -"
            if mistake == "bad-index":
                message = f"plugin index {index!r}: write two digits"
            raise RegistrationError(message)
        self._rename(name, index)

    def configure(self) -> None:
        """Ask which events it subscribes to; raises :class:`RegistrationError` if it fails, or one does not exist."""
        requested = self._call(lambda: self.plugin.events, "configure")
        try:
            self.events = subscribed(requested, self._terms.known)
        except ValueError as error:
            self._take("configure", "bad-events")
            raise RegistrationError(str(error)) from error
        self._take("configure", "ok")

    def synchronise(self, pods: Sequence[Pod], containers: Sequence[Container]) -> Sequence[Update]:
        """Send the existing objects, in as many messages as necessary; the updates that it requests.

        Raises :class:`RegistrationError` if that fails, or takes longer than one request may.
        """
        most = self._terms.config.sync_objects or len(pods) + len(containers)
        while len(pods) + len(containers) > most:
            room = most - len(pods[:most])
            self.synchronise_part(pods[:most], containers[:room])
            pods, containers = pods[most:], containers[room:]
        return self.synchronise_last(pods, containers)

    def synchronise_part(self, pods: Sequence[Pod], containers: Sequence[Container]) -> None:
        """Send some of the existing objects; raises as :meth:`synchronise`, also if the plugin does not wait for more."""
        if not self._send(lambda: self.plugin.synchronize_part(pods, containers)):
            self._take("synchronise", "not-split")
            message = f"plugin {self.name} does not handle synchronisation in parts"
            raise RegistrationError(message, code="FAILED_PRECONDITION")
        self._take("synchronise", "part")

    def synchronise_last(self, pods: Sequence[Pod], containers: Sequence[Container]) -> Sequence[Update]:
        """Send the last of the existing objects; raises as :meth:`synchronise`."""
        updates = self._send(lambda: self.plugin.synchronize(pods, containers))
        self._take("synchronise", "ok")
        return updates

    def skip_synchronisation(self) -> Sequence[Update]:
        """Join without being synchronised, as in old releases; no updates."""
        self._take("synchronise", "unsynchronised")
        return ()

    def relay(self, request: Request) -> Answer | None:
        """The answer of the plugin; ``None`` if it has not subscribed, or is lost.  Raises :class:`NRIError` for an error."""
        if not self.listed:
            self.drop()
            return None
        if request.event not in self.events:
            self._take("relay", "not-subscribed")
            return None
        try:
            deadline = self._terms.clock.now() + self._terms.config.request_timeout
            answer = self._thread.call(lambda: self.plugin.handle(request), until=deadline)
        except PluginLostError as error:
            _log.warning("plugin %s is lost at %s: it %s", self.name, request.event, error)
            self._take("relay", "lost")
            return None
        except Exception as error:
            self._take("relay", "error")
            code = error.code if isinstance(error, NRIError) else ""
            raise NRIError(f"plugin {self.name}: {error}", code=code) from error
        self._take("relay", "ok")
        return answer

    def drop(self) -> None:
        """Close the connection if the plugin has hung up; a request has ended without it."""
        self._take("relay")

    def request_updates(self, make: Callable[[], None]) -> None:
        """*make* updates that it requests; raises what that does, and :class:`NRIError` if it must not request any."""
        self._require("update-containers")
        try:
            make()
        except NRIError:
            self._take("update-containers", "failed")
            raise
        self._take("update-containers", "updated")

    def hang_up(self) -> None:
        """The plugin has disconnected; has no effect without a connection."""
        if self._driver.offered("hang-up", self.state):
            self._take("hang-up")

    def stop(self) -> None:
        self._take("stop", "stopped")

    def _require(self, event: str) -> None:
        """Raise the error that the machine replies to *event*, if it refuses it."""
        way = self.position.outcomes(event)[0]
        if way.name == "refused":
            raise NRIError(f"{event}: {self.name} is {self.state}", code=way.reply[0])

    def _take(self, event: str, outcome: str = "") -> None:
        """Take *outcome* of *event*; close the plugin's end and the thread as it demands."""
        way = self.position.take(event, outcome)
        if "closed" in way.emits:
            self.plugin.close()
        if self.state == "absent":
            self._thread.end()

    def _mistake(self, name: str, index: str) -> str:
        """The outcome of a registration that is not valid; the empty string for a valid one."""
        if not _NAME.fullmatch(name):
            return "bad-name"
        return "" if _INDEX.fullmatch(index) else "bad-index"

    def _rename(self, name: str, index: str) -> None:
        self.index = index
        self.name = f"{index}-{name}"
        self._thread.rename(f"plugin {self.name}")

    def _call(self, function: Callable[[], T], event: str) -> T:
        """The result of *function* within the timeout of one request; an error is an outcome of *event*."""
        if not self._synchronising:
            self._deadline = self._terms.clock.now() + self._terms.config.request_timeout
        try:
            return self._thread.call(function, until=self._deadline)
        except Exception as error:
            match error:
                case PluginLateError():
                    self._take(event, "timeout")
                case PluginLostError():
                    self.hang_up()
                case _:
                    self._take(event, "error")
            code = error.code if isinstance(error, NRIError | PluginLostError) else UNKNOWN
            raise RegistrationError(f"plugin {self.name} could not be {event}d: {error}", code=code) from error

    def _send(self, message: Callable[[], T]) -> T:
        """The answer to a *message* of the synchronisation; all messages share one timeout."""
        answer = self._call(message, "synchronise")
        self._synchronising = True
        return answer
