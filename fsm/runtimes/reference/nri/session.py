"""The connection of one plugin from start to end, driven by the machine ``nri-plugin``.

Input and output are left to subclasses. :class:`~fsm.runtimes.reference.nri.connection.Connection` blocks while a
plugin in this process answers, whereas :class:`~fsm.runtimes.sockets.nri_runtime.NriRuntime` suspends while a plugin at
a socket answers. The time limits and the differences between releases are in the configuration.
"""

import logging
import re
from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable, Collection, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from math import inf
from typing import ClassVar, Final, Generic, TypeVar

from fsm.machine.driver import CannotHappenError
from fsm.runtimes.names import REGISTRATION, REQUEST, REQUESTS
from fsm.runtimes.reference.clock import Clock
from fsm.runtimes.reference.driven import UNKNOWN, Driven, driver
from fsm.runtimes.reference.nri.messages import (
    NRIError,
    PluginLateError,
    PluginLostError,
    RegistrationError,
    subscribed,
)

# The profile containerd-1.7 describes containerd 1.7.2. containerd 1.7.26 can also block synchronisation.
RELEASES: Final = {"": False, "containerd-2.1": False, "containerd-1.7": True}
"""Maps each release to whether it disables NRI by default. The newest release has no name."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Config:
    """The configuration of an NRI interface.

    Timeouts are in seconds, and 0 means the default. If ``disable_connections`` is true, only plugins that are passed
    at the start can join. A message to a joining plugin has at most ``sync_objects`` pods and containers; 0 means any
    number. Raise :class:`ValueError` if a timeout or ``sync_objects`` is negative.

    >>> config = Config(plugin_request_timeout=0.5)
    >>> config.disable, config.registration_timeout, config.request_timeout
    (False, 5.0, 0.5)
    """

    disable: bool = False
    socket_path: str = "/var/run/nri/nri.sock"
    plugin_registration_timeout: float = REGISTRATION
    plugin_request_timeout: float = REQUEST
    disable_connections: bool = False
    sync_objects: int = 0
    release: str = ""

    def __post_init__(self) -> None:
        for name in ("plugin_registration_timeout", "plugin_request_timeout", "sync_objects"):
            if (value := getattr(self, name)) < 0:
                hint = "give a number, or 0 for any" if name == "sync_objects" else "give seconds, or 0 for the default"
                raise ValueError(f"{name} is {value}; {hint}")

    @property
    def registration_timeout(self) -> float:
        return self.plugin_registration_timeout or REGISTRATION

    @property
    def request_timeout(self) -> float:
        return self.plugin_request_timeout or REQUEST


def default_config(release: str = "") -> Config:
    """Return the default configuration of *release*. Raise :class:`ValueError` if *release* is unknown.

    >>> default_config().disable, default_config("containerd-1.7").disable
    (False, True)
    """
    if release not in RELEASES:
        known = ", ".join(filter(None, RELEASES))
        raise ValueError(f"unknown release {release!r}; known are {known}, and the newest, which has no name")
    return Config(disable=RELEASES[release], release=release)


_log = logging.getLogger(__name__)
_NAME: Final = re.compile(r"[A-Za-z0-9_.+-]+")
_INDEX: Final = re.compile(r"[0-9]{2}")
_SHOWN: Final = 100

MACHINE: Final = "nri-plugin"

R = TypeVar("R")
A = TypeVar("A")
P = TypeVar("P")
U = TypeVar("U")
T = TypeVar("T")
Pod = TypeVar("Pod")
Container = TypeVar("Container")


@dataclass(slots=True, kw_only=True)
class Terms:
    """The settings of connections, which may change at any time. ``known`` lists all known events."""

    config: Config = field(default_factory=Config)
    known: Collection[str] = REQUESTS
    clock: Clock = field(default_factory=Clock)


class Session(Driven, ABC, Generic[R, A, P, U]):
    """Base class for the connection of one plugin. Subclasses add the input and output. Not thread-safe.

    *R* is the type of a request, and *A* the type of its answer. The plugin is synchronised in parts, each of which
    lists some pods and containers and has the type *P*. *U* is the type of the updates that the plugin then requests.

    Subclasses implement the ``_ask…`` methods, which ask the plugin and wait for its answer until the clock has reached
    *until*. They raise :class:`PluginLateError` if the plugin is late, :class:`PluginLostError` if it has disconnected,
    and any other exception if it answers with an error.
    """

    profile: ClassVar[str] = ""

    def __init__(self, terms: Terms) -> None:
        super().__init__(driver(MACHINE, self.profile or terms.config.release).position())
        self._terms: Final = terms
        self._deadline = 0.0
        self._synchronising = False
        self._given: tuple[str, str] | None = None
        self.index = ""
        self.name = "plugin"
        self.events: frozenset[str] = frozenset()

    @abstractmethod
    async def _ask_registration(self, until: float) -> None:
        """Wait until the plugin has called :meth:`register`. If that call raises an error, raise it here too."""

    @abstractmethod
    async def _ask_events(self, until: float) -> Collection[str] | int:
        """Configure the plugin. Return the events to which it subscribes, as names or as a mask."""

    @abstractmethod
    async def _ask_part(self, part: P, until: float) -> bool:
        """Send a part of the existing objects. Return whether the plugin waits for more."""

    @abstractmethod
    async def _ask_last(self, part: P, until: float) -> U:
        """Send the last part of the existing objects. Return the updates that the plugin requests."""

    @abstractmethod
    async def _ask(self, request: R, until: float) -> A:
        """Send *request*. Return the answer."""

    @abstractmethod
    def _close(self) -> None:
        """Close the connection, which the runtime no longer uses. This must return immediately."""

    def _start_process(self) -> None:
        """Start the plugin's process, if it has one. This may raise any exception."""

    @property
    def listed(self) -> bool:
        return self.state == "active"

    def connect(self) -> None:
        self._deadline = self._terms.clock.now() + self._terms.config.registration_timeout
        self._take("connect")

    def launch(self, given: tuple[str, str] | None = None, *, built_in: bool = False) -> None:
        """Start an installed plugin, or raise :class:`RegistrationError`.

        *given* is the plugin's name and index, if they are fixed. If *built_in* is true, the plugin has no process and
        need not register.
        """
        self._deadline = self._terms.clock.now() + self._terms.config.registration_timeout
        self._given = given
        if given:
            self._rename(*given)
        try:
            if not built_in:
                self._start_process()
        except Exception as error:
            self._take("launch", "failed")
            raise RegistrationError(f"plugin cannot be launched: {error}", code="UNAVAILABLE") from error
        self._take("launch", "built-in" if built_in else "launched")

    async def handshake(self, *, launched: bool = False) -> None:
        if launched:
            self.launch()
        else:
            self.connect()
        await self.await_registration()
        await self.configure()

    async def await_registration(self) -> None:
        try:
            await self._ask_registration(self._deadline)
        except RegistrationError:
            raise
        except PluginLateError as error:
            self._take("no-registration")
            raise RegistrationError(f"plugin registration timed out: it {error}", code="DEADLINE_EXCEEDED") from error
        except Exception as error:
            self.hang_up()
            raise RegistrationError(f"plugin did not register: {error}", code="UNAVAILABLE") from error

    def register(self, name: str, index: str) -> None:
        """Register the plugin with *name* and *index*, or with those that were fixed at its launch.

        Raise :class:`RegistrationError` if the name or the index is invalid, and :class:`NRIError` if the plugin must
        not register now.
        """
        self._require("register")
        name, index = self._given or (name, index)
        error = self._name_error(name, index)
        self._take("register", error or "registered")
        if error == "bad-name":
            raise RegistrationError(f"invalid plugin name {name[:_SHOWN]!r}: write letters, digits, and _ . + -")
        if error:
            raise RegistrationError(f"invalid plugin index {index[:_SHOWN]!r}: write two digits")
        self._rename(name, index)

    async def configure(self) -> None:
        requested = await self._call(self._ask_events, "configure")
        try:
            self.events = subscribed(requested, self._terms.known)
        except ValueError as error:
            self._take("configure", "bad-events")
            raise RegistrationError(str(error)) from error
        self._take("configure", "ok")

    async def synchronise(self, parts: Sequence[P]) -> U:
        """Send each part of the existing objects, and return the updates that the plugin requests in response.

        Raise :class:`RegistrationError` if this fails, or takes longer than a single request may take.
        """
        for part in parts[:-1]:
            await self.synchronise_part(part)
        return await self.synchronise_last(parts[-1])

    async def synchronise_part(self, part: P) -> None:
        if not await self._call(lambda until: self._ask_part(part, until), "synchronise"):
            self._take("synchronise", "not-split")
            message = f"plugin {self.name} does not handle synchronisation in parts"
            raise RegistrationError(message, code="FAILED_PRECONDITION")
        self._take("synchronise", "part")

    async def synchronise_last(self, part: P) -> U:
        updates = await self._call(lambda until: self._ask_last(part, until), "synchronise")
        self._take("synchronise", "ok")
        return updates

    def skip_synchronisation(self) -> None:
        self._take("synchronise", "unsynchronised")

    async def relay(self, event: str, request: R) -> A | None:
        """Relay *request* for *event*, and return the answer.

        Return ``None`` if the plugin is lost or has not subscribed to *event*. Raise :class:`NRIError` if the plugin
        answers with an error.
        """
        if not self.listed:
            self.drop()
            return None
        if event not in self.events:
            self._take("relay", "not-subscribed")
            return None
        outcome = ""
        try:
            answer = await self._ask(request, self._terms.clock.now() + self._terms.config.request_timeout)
        except PluginLostError as error:
            outcome = "lost"
            _log.warning("plugin %s is lost at %s: it %s", self.name, event, error)
            return None
        except Exception as error:
            outcome = "error"
            code = error.code if isinstance(error, NRIError) else ""
            raise NRIError(f"plugin {self.name}: {error}", code=code) from error
        else:
            outcome = "ok"
            return answer
        finally:
            if outcome:  # a cancelled request has none
                self._take("relay", outcome if self.listed else "")  # the plugin may have hung up or been stopped

    def drop(self) -> None:
        """End a request without an answer. If the plugin has hung up, close the connection."""
        self._take("relay")

    async def request_updates(self, make: Callable[[], Awaitable[T]]) -> T:
        """Call *make*, which makes the updates that the plugin requests.

        Raise whatever *make* raises, or :class:`NRIError` if the plugin must not request updates now.
        """
        self._require("update-containers")
        try:
            made = await make()
        except NRIError:
            self._take("update-containers", "failed")
            raise
        self._take("update-containers", "updated")
        return made

    def hang_up(self) -> None:
        with suppress(CannotHappenError):
            self._take("hang-up")

    def stop(self) -> None:
        self._take("stop", "stopped")

    def _require(self, event: str) -> None:
        way = self.position.outcomes(event)[0]
        if way.name == "refused":
            raise NRIError(f"{event}: {self.name} is {self.state} already", code=way.reply[0])

    def _take(self, event: str, outcome: str = "") -> None:
        if "closed" in self.position.take(event, outcome).emits:
            self._close()

    def _name_error(self, name: str, index: str) -> str:
        if not _NAME.fullmatch(name):
            return "bad-name"
        return "" if _INDEX.fullmatch(index) else "bad-index"

    def _rename(self, name: str, index: str) -> None:
        self.index = index
        self.name = f"{index}-{name}"

    async def _call(self, ask: Callable[[float], Awaitable[T]], event: str) -> T:
        """Return the plugin's answer to *ask*. All messages of a synchronisation share one timeout."""
        if not self._synchronising:
            self._deadline = self._terms.clock.now() + self._terms.config.request_timeout
        self._synchronising = event == "synchronise"
        state = self.state
        try:
            answer = await ask(self._deadline)
            if self.state != state:
                raise PluginLostError("was disconnected")  # noqa: TRY301  (handled like any loss)
            return answer  # noqa: TRY300  (see above)
        except Exception as error:
            late = isinstance(error, PluginLateError)
            if isinstance(error, PluginLostError) and not late:
                self.hang_up()
            elif self.state == state:
                self._take(event, "timeout" if late else "error")
            code = error.code if isinstance(error, NRIError | PluginLostError) else UNKNOWN
            raise RegistrationError(f"plugin {self.name} could not be {event}d: {error}", code=code) from error


def parts(
    pods: Sequence[Pod],
    containers: Sequence[Container],
    most: float = inf,
    size: Callable[[Pod | Container], int] = lambda _: 1,
) -> list[tuple[list[Pod], list[Container]]]:
    """Divide *pods* and *containers* into parts. The maximum size of a part is *most*.

    *size* measures an object. An object that exceeds the maximum gets a part of its own.

    >>> parts(["p1", "p2", "p3"], ["c1"], 2), parts([], [])
    ([(['p1', 'p2'], []), (['p3'], ['c1'])], [([], [])])
    """
    objects: list[tuple[Pod | Container, int]] = [*((pod, 0) for pod in pods), *((one, 1) for one in containers)]
    divided: list[tuple[list[Pod], list[Container]]] = [([], [])]
    total = 0
    for item, kind in objects:
        if total and total + size(item) > most:
            divided.append(([], []))
            total = 0
        divided[-1][kind].append(item)  # type: ignore[arg-type]  # kind is the index of the list for the item
        total += size(item)
    return divided
