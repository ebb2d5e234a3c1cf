"""The connection of one plugin and its thread, from start to end, driven by the machine ``nri-plugin``."""

import logging
import re
import threading
from collections.abc import Callable, Collection, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field
from queue import SimpleQueue
from typing import Final, Protocol, TypeVar

from fsm.runtimes.reference.clock import Clock
from fsm.runtimes.reference.driven import UNKNOWN, Driven, driver
from fsm.runtimes.reference.nri.config import Config
from fsm.runtimes.reference.nri.messages import EVENTS, Answer, Container, Pod, Request, Update, subscribed
from fsm.runtimes.reference.nri.nri_errors import NRIError, PluginLateError, PluginLostError, RegistrationError

_log = logging.getLogger(__name__)
_NAME: Final = re.compile(r"[A-Za-z0-9_.+-]+")
_INDEX: Final = re.compile(r"[0-9]{2}")

T = TypeVar("T")

MACHINE: Final = "nri-plugin"


class Plugin(Protocol):
    """Base class of plugins. A plugin's members are used on a thread of its own, one after the other.

    An exception is an error answer. :class:`PluginLostError` means that the plugin has disconnected.
    """

    @property
    def index(self) -> str:
        """Two digits. Plugins are called in ascending order."""

    @property
    def name(self) -> str:
        """Letters, digits, and ``_ . + -``."""

    @property
    def events(self) -> Collection[str] | int:
        """Names of the requests to which it subscribes, or the mask of their bits. Empty means all."""

    def synchronize(self, pods: Sequence[Pod], containers: Sequence[Container]) -> Sequence[Update]:
        """Receive the existing objects, or the last part of them. Return the updates that it requests."""

    def handle(self, request: Request) -> Answer:
        """Answer *request*."""

    def synchronize_part(self, pods: Sequence[Pod], containers: Sequence[Container]) -> bool:
        """Receive a part of the existing objects. Return whether it waits for more."""
        del pods, containers
        return False

    def launch(self) -> None:
        """Start its process, if it has one. May raise any exception."""
        return

    def close(self) -> None:
        """Called when the runtime has closed the connection. Must return immediately."""
        return


class PluginLocal(threading.local):
    """Marks threads that belong to a plugin."""

    on_plugin_thread = False


class PluginThread:
    """A thread that runs a plugin's calls one after the other, with timeouts by *clock*. Marks itself in *local*.

    >>> thread = PluginThread(Clock(), PluginLocal())
    >>> thread.call(lambda: 6 * 7, until=Clock().now() + 10)
    42
    >>> thread.end()
    >>> thread.call(lambda: 6 * 7, until=Clock().now() + 10)
    Traceback (most recent call last):
        ...
    fsm.runtimes.reference.nri.nri_errors.PluginLostError: it is closed
    """

    def __init__(self, clock: Clock, local: PluginLocal) -> None:
        self._clock: Final = clock
        self._local: Final = local
        self._changed: Final = threading.Condition()
        self._jobs: Final[SimpleQueue[Callable[[], None] | None]] = SimpleQueue()
        self._thread: Final = threading.Thread(target=self._work, daemon=True)
        self._ended = False

    def rename(self, name: str) -> None:
        self._thread.name = name

    def call(self, function: Callable[[], T], *, until: float) -> T:
        """Run *function* on the thread. Return its result or raise its exception.

        Raise :class:`PluginLateError` after *until*, or :class:`PluginLostError` if the thread was ended.
        """
        if self._ended:
            raise PluginLostError("it is closed")
        if not self._thread.is_alive():
            self._thread.start()
        future: Future[T] = Future()

        def job() -> None:
            try:
                future.set_result(function())
            except BaseException as error:  # noqa: BLE001  (the caller raises it; this thread continues)
                future.set_exception(error)
            with self._changed:
                self._changed.notify_all()

        begin = self._clock.now()
        self._jobs.put(job)
        with self._changed:
            if not self._clock.wait(self._changed, future.done, until=until):
                raise PluginLateError(f"did not answer in {max(0.0, until - begin):.3g} seconds")
        error = future.exception()
        if error is not None and not isinstance(error, Exception):
            raise PluginLostError(f"ended its thread: {error!r}") from error
        return future.result()

    def end(self) -> None:
        """End the thread after the calls that have begun."""
        self._ended = True
        self._jobs.put(None)

    def _work(self) -> None:
        self._local.on_plugin_thread = True
        while (job := self._jobs.get()) is not None:
            job()


@dataclass(slots=True, kw_only=True)
class Terms:
    """Settings of connections, changeable at any time. ``known`` lists all events, ``local`` marks plugin threads."""

    config: Config = field(default_factory=Config)
    known: Collection[str] = EVENTS
    clock: Clock = field(default_factory=Clock)
    local: PluginLocal = field(default_factory=PluginLocal)


class Connection(Driven):
    """The connection of *plugin* on *terms*. Not thread-safe.

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
        """Begin the registration of a plugin that has connected by itself, and its time limit."""
        self._deadline = self._terms.clock.now() + self._terms.config.registration_timeout
        self._take("connect")

    def launch(self, *, built_in: bool = False) -> None:
        """Start an installed plugin. If *built_in*, it has no process and need not register.

        Raise :class:`RegistrationError` if it cannot be launched.
        """
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
        """Connect or launch, register and configure the plugin. Raise :class:`RegistrationError` if that fails."""
        if launched:
            self.launch()
        else:
            self.connect()
        self.await_registration()
        self.configure()

    def await_registration(self) -> None:
        """Let the plugin register. Raise :class:`RegistrationError` if it does not, or is late."""
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
        """Register the plugin as *name* with *index*.

        Raise :class:`RegistrationError` if one of them is invalid, or :class:`NRIError` if it must not register now.
        """
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
        """Ask the plugin for its events. Raise :class:`RegistrationError` if it fails or names an unknown event."""
        requested = self._call(lambda: self.plugin.events, "configure")
        try:
            self.events = subscribed(requested, self._terms.known)
        except ValueError as error:
            self._take("configure", "bad-events")
            raise RegistrationError(str(error)) from error
        self._take("configure", "ok")

    def synchronise(self, pods: Sequence[Pod], containers: Sequence[Container]) -> Sequence[Update]:
        """Send the existing objects, in as many messages as necessary. Return the updates that the plugin requests.

        Raise :class:`RegistrationError` if that fails, or takes longer than one request may.
        """
        most = self._terms.config.sync_objects or len(pods) + len(containers)
        while len(pods) + len(containers) > most:
            room = most - len(pods[:most])
            self.synchronise_part(pods[:most], containers[:room])
            pods, containers = pods[most:], containers[room:]
        return self.synchronise_last(pods, containers)

    def synchronise_part(self, pods: Sequence[Pod], containers: Sequence[Container]) -> None:
        """Send a part of the existing objects. Raise :class:`RegistrationError` if the plugin waits for no more."""
        if not self._call(lambda: self.plugin.synchronize_part(pods, containers), "synchronise"):
            self._take("synchronise", "not-split")
            message = f"plugin {self.name} does not handle synchronisation in parts"
            raise RegistrationError(message, code="FAILED_PRECONDITION")
        self._take("synchronise", "part")

    def synchronise_last(self, pods: Sequence[Pod], containers: Sequence[Container]) -> Sequence[Update]:
        """Send the last part of the existing objects. Raise the same errors as :meth:`synchronise`."""
        updates = self._call(lambda: self.plugin.synchronize(pods, containers), "synchronise")
        self._take("synchronise", "ok")
        return updates

    def skip_synchronisation(self) -> Sequence[Update]:
        """Let the plugin join without synchronisation, as in old releases. Return no updates."""
        self._take("synchronise", "unsynchronised")
        return ()

    def relay(self, request: Request) -> Answer | None:
        """Return the plugin's answer, or ``None`` if it has not subscribed or is lost.

        Raise :class:`NRIError` if it answers with an error.
        """
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
        """Close the connection if the plugin has hung up and a request has ended without it."""
        self._take("relay")

    def request_updates(self, make: Callable[[], None]) -> None:
        """Let the plugin request updates, which *make* makes.

        Raise the error of *make*, or :class:`NRIError` if the plugin must not request updates now.
        """
        self._require("update-containers")
        try:
            make()
        except NRIError:
            self._take("update-containers", "failed")
            raise
        self._take("update-containers", "updated")

    def hang_up(self) -> None:
        """Handle the disconnection of the plugin. Has no effect without a connection."""
        if self._driver.offered("hang-up", self.state):
            self._take("hang-up")

    def stop(self) -> None:
        self._take("stop", "stopped")

    def _require(self, event: str) -> None:
        way = self.position.outcomes(event)[0]
        if way.name == "refused":
            raise NRIError(f"{event}: {self.name} is {self.state}", code=way.reply[0])

    def _take(self, event: str, outcome: str = "") -> None:
        way = self.position.take(event, outcome)
        if "closed" in way.emits:
            self.plugin.close()
        if self.state == "absent":
            self._thread.end()

    def _mistake(self, name: str, index: str) -> str:
        if not _NAME.fullmatch(name):
            return "bad-name"
        return "" if _INDEX.fullmatch(index) else "bad-index"

    def _rename(self, name: str, index: str) -> None:
        self.index = index
        self.name = f"{index}-{name}"
        self._thread.rename(f"plugin {self.name}")

    def _call(self, function: Callable[[], T], event: str) -> T:
        """Return *function*'s result within the request timeout, which all messages of a synchronisation share."""
        if not self._synchronising:
            self._deadline = self._terms.clock.now() + self._terms.config.request_timeout
        self._synchronising = event == "synchronise"
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
