"""Plugins as Python objects, each asked on a thread of its own, in the order of their index."""

from __future__ import annotations

import logging
import re
import threading
from dataclasses import dataclass, replace
from queue import Empty, SimpleQueue
from typing import TYPE_CHECKING, Final, Literal, Protocol, TypeAlias, TypeVar

from fsm.reference.nri.errors import NRIError, PluginFailedError, PluginLostError, RegistrationError
from fsm.reference.nri.memory import driver
from fsm.reference.nri.merging import Merged

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Sequence

    from fsm.machine import Outcome
    from fsm.reference.nri.messages import Answer, Container, Pod, Request, Update

_log = logging.getLogger(__name__)
_NAME: Final = re.compile(r"[A-Za-z0-9_.+-]+")
_INDEX: Final = re.compile(r"[0-9]{2}")

T = TypeVar("T")

Came: TypeAlias = Literal["ok", "error", "lost"]
"""How a request went: all answered; one answered with an error, those after it were not asked; one was lost."""


class Plugin(Protocol):
    """What wants to be asked.

    Its methods run on a thread of its own, one at a time.  An exception is
    an answer, an error; :class:`PluginLostError` says that there is no plugin
    any more.  One that does not answer in time is lost, too.
    """

    @property
    def index(self) -> str:
        """Two digits: plugins are asked in ascending order."""

    @property
    def name(self) -> str:
        """Letters, digits, and ``_ . + -``."""

    @property
    def events(self) -> Collection[str]:
        """The names of the requests that it subscribes to; none stand for all."""

    def synchronize(self, pods: Sequence[Pod], containers: Sequence[Container]) -> Sequence[Update]:
        """What there is when it joins; it may ask for updates."""

    def handle(self, request: Request) -> Answer:
        """Answer *request*."""


class Listener(Protocol):
    """A socket that is open."""

    def close(self) -> None:
        """Close it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Told:
    """How a request went, and what came of it; ``error`` is what a plugin answered, if one did."""

    came: Came
    merged: Merged
    error: NRIError | None = None


class Connection:
    """One plugin, and the thread on which it is asked; where it stands is said by the machine ``nri-plugin``.

    >>> class Slow:
    ...     index, name, events = "10", "slow", ()
    ...     def synchronize(self, pods, containers): return ()
    ...     def handle(self, request): threading.Event().wait()
    >>> connection = Connection(Slow(), frozenset({"StopContainer"}))
    >>> connection.register()
    >>> connection.configure()
    >>> connection.name, sorted(connection.events), connection.state
    ('10-slow', ['StopContainer'], 'synchronising')
    >>> connection.ask(lambda: connection.plugin.handle(None), timeout=0.01)
    Traceback (most recent call last):
        ...
    fsm.reference.nri.errors.PluginLostError: 10-slow did not answer in 0.01 seconds
    """

    def __init__(self, plugin: Plugin, known: frozenset[str], *, launched: bool = False) -> None:
        """One that has come by itself, or was launched; *known* are all events that there are."""
        self._life: Final = driver("nri-plugin", "").position()
        self._life.take(*(("launch", "launched") if launched else ("connect",)))
        self._known: Final = known
        self.plugin: Final = plugin
        self.name = "plugin"
        self.events: frozenset[str] = frozenset()
        self.closed = False
        self._ended = False
        self._jobs: SimpleQueue[Callable[[], None] | None] = SimpleQueue()
        self._thread = threading.Thread(target=self._work, daemon=True)

    @property
    def state(self) -> str:
        """The machine's name for where it stands."""
        return self._life.state

    @property
    def listed(self) -> bool:
        """Whether it is asked."""
        return self._life.ways("relay")[0].name == "ok"

    def may(self, event: str) -> None:
        """Raises the error that the machine replies to *event*, where it is refused."""
        way = self._life.ways(event)[0]
        if way.name == "refused":
            message = f"{event}: {self.name} is {self.state}"
            raise NRIError(message, code=way.reply[0])

    def went(self, event: str, outcome: str = "") -> None:
        """*event* has gone the way that *outcome* names; the thread is ended where that ends the connection."""
        way = self._life.take(event, outcome)
        self.closed |= "closed" in way.emits
        if way.to == "absent":
            self._ended = True
            self._jobs.put(None)

    def register(self) -> None:
        """Let it say who it is; raises :class:`RegistrationError` for what cannot be registered, or does not answer."""
        self.may("register")
        try:
            name, index = self.plugin.name, self.plugin.index
        except PluginLostError as error:
            self.went("no-registration")
            message = f"plugin did not register: {error}"
            raise RegistrationError(message, code="DEADLINE_EXCEEDED") from error
        if not _NAME.fullmatch(name):
            self.went("register", "bad-name")
            message = f"plugin name {name!r}: write letters, digits, and _ . + -"
            raise RegistrationError(message)
        if not _INDEX.fullmatch(index):
            self.went("register", "bad-index")
            message = f"plugin index {index!r}: write two digits"
            raise RegistrationError(message)
        self.went("register", "registered")
        self.name = f"{index}-{name}"
        self._thread.name = f"plugin {self.name}"

    def configure(self) -> None:
        """Let it say what it subscribes to; raises :class:`RegistrationError` if it cannot, or for what there is not."""
        try:
            events = frozenset(self.plugin.events)
        except Exception as error:
            self.went("configure", "timeout" if isinstance(error, PluginLostError) else "error")
            message = f"plugin {self.name} could not be configured: {error}"
            raise RegistrationError(message) from error
        unknown = sorted(events - self._known)
        if unknown:
            self.went("configure", "bad-events")
            message = f"plugin events {', '.join(unknown)}: there are {', '.join(sorted(self._known))}"
            raise RegistrationError(message)
        self.went("configure", "ok")
        self.events = events or self._known

    def ask(self, what: Callable[[], T], *, timeout: float) -> T:
        """What *what* returns or raises on the plugin's thread.

        Raises :class:`PluginLostError` if that takes more than *timeout*
        seconds, or the thread is ended; the plugin is not asked again then.
        """
        if self._ended:
            message = f"{self.name} is closed"
            raise PluginLostError(message)
        if not self._thread.is_alive():
            self._thread.start()
        answers: SimpleQueue[tuple[T | None, BaseException | None]] = SimpleQueue()

        def job() -> None:
            try:
                answers.put((what(), None))
            except BaseException as error:  # noqa: BLE001  # whoever asks is told, and this thread goes on
                answers.put((None, error))

        self._jobs.put(job)
        try:
            result, error = answers.get(timeout=timeout)
        except Empty:
            message = f"{self.name} did not answer in {timeout:g} seconds"
            raise PluginLostError(message) from None
        if isinstance(error, Exception):
            raise error
        if error is not None:
            message = f"{self.name} ended its thread: {error!r}"
            raise PluginLostError(message) from error
        return result  # type: ignore[return-value]  # there is one if there is no error

    def _work(self) -> None:
        while (job := self._jobs.get()) is not None:
            job()


class Plugins:
    """All plugins that have joined.  Not locked: whoever owns it sees to that."""

    def __init__(self, timeout: float) -> None:
        """A plugin that takes more than *timeout* seconds to answer is lost."""
        self.timeout = timeout
        self._connections: tuple[Connection, ...] = ()
        self._here: Final = threading.local()

    @property
    def names(self) -> tuple[str, ...]:
        """Index and name of each, in the order in which they are asked."""
        return tuple(connection.name for connection in self._connections if connection.listed)

    @property
    def working(self) -> bool:
        """Whether this is the thread of a plugin, even of one that was lost since."""
        return getattr(self._here, "working", False)

    def synchronize(
        self, connection: Connection, pods: Sequence[Pod], containers: Sequence[Container]
    ) -> Sequence[Update]:
        """What the plugin of *connection*, which is about to join, wants updated.

        If it fails or is lost it is closed; raises :class:`RegistrationError`.
        """
        try:
            return self._ask(connection, lambda: connection.plugin.synchronize(pods, containers))
        except Exception as error:
            connection.went("synchronise", "timeout" if isinstance(error, PluginLostError) else "error")
            message = f"plugin {connection.name} could not be synchronised: {error}"
            raise RegistrationError(message, code=error.code if isinstance(error, NRIError) else "UNKNOWN") from error

    def join(self, connection: Connection) -> None:
        """Ask the plugin of *connection*, too, from now on."""
        connection.went("synchronise", "ok")
        self._connections = tuple(sorted((*self._connections, connection), key=lambda each: each.plugin.index))

    def asks(self, plugin: Plugin | None) -> None:
        """*plugin*, if it is named, asks for something by itself; raises :class:`NRIError` where it may not."""
        if plugin is None:
            return
        for connection in self._connections:
            if connection.plugin is plugin:
                connection.may("update-containers")
                return
        message = "a plugin that is not connected cannot ask"
        raise NRIError(message, code="UNAVAILABLE")

    def lose(self, plugin: Plugin) -> None:
        """*plugin* has hung up; nothing happens if it was not asked."""
        for connection in self._connections:
            if connection.plugin is plugin and connection.listed:
                connection.went("hang-up")

    def leave(self, plugin: Plugin) -> None:
        """Ask *plugin* no more; nothing happens if it was not asked."""
        for connection in self._connections:
            if connection.plugin is plugin:
                connection.went("stop")
        self._drop()

    def close(self) -> None:
        """Ask nobody any more."""
        for connection in self._connections:
            connection.went("stop")
        self._drop()

    def relay(self, request: Request) -> Told:
        """Send *request* to each that subscribed to it, and put together what they answer.

        An error ends it: those after are not asked.  One that is lost is
        passed over, and is no longer there when this ends.
        """
        merged = Merged(request)
        lost = False
        try:
            for connection in self._connections:
                if connection.listed and request.event in connection.events:
                    lost |= not self._told(connection, replace(request, adjusted=dict(merged.adjust)), merged)
        except NRIError as error:
            return Told(came="error", merged=merged, error=error)
        finally:
            self._drop()
        return Told(came="lost" if lost else "ok", merged=merged)

    def _told(self, connection: Connection, request: Request, merged: Merged) -> bool:
        """Whether the plugin of *connection* is still there after *request*."""
        try:
            answer = self._ask(connection, lambda: connection.plugin.handle(request))
        except PluginLostError as error:
            _log.warning("plugin %s is lost at %s: %s", connection.name, request.event, error)
            connection.went("relay", "lost")
            return False
        except Exception as error:
            connection.went("relay", "error")
            raise PluginFailedError(connection.name, error) from error
        connection.went("relay", "ok")
        merged.add(connection.name, answer)
        return True

    def _ask(self, connection: Connection, what: Callable[[], T]) -> T:
        def here() -> T:
            self._here.working = True
            return what()

        return connection.ask(here, timeout=self.timeout)

    def _drop(self) -> None:
        """Those that have hung up are closed, and nobody is kept who is."""
        for connection in self._connections:
            if not connection.listed:
                connection.went("relay")
        self._connections = tuple(connection for connection in self._connections if connection.listed)


def came(ways: tuple[Outcome, ...], relays: tuple[str, ...], told: list[Told]) -> str:
    """The outcome that the plugins have chosen: the last relay's, unless one was lost at an earlier one."""
    if not told:
        return ""
    *before, last = told
    lost = next((number for number, each in enumerate(before, start=1) if each.came == "lost"), 0)
    if lost and last.came != "error":
        return next(way.name for way in ways if way.emits == relays[:lost])
    return last.came
