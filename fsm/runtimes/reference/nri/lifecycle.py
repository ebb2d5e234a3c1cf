"""The NRI layer's rules for accepting calls, merging the answers of plugins and keeping states.

The machine ``nri-api`` drives the calls.
"""

import threading
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from typing import Any, Final, Generic, TypeAlias, TypeVar

from fsm.machine import Outcome
from fsm.machine.driver import Position
from fsm.machine.table import tabulate
from fsm.runtimes.reference.driven import Driven, driver
from fsm.runtimes.reference.nri.connection import PluginLocal
from fsm.runtimes.reference.nri.messages import (
    Answer,
    ConflictError,
    Container,
    Eviction,
    Fields,
    NRIError,
    NRIStoppedError,
    ReentrantError,
    Request,
    Update,
)
from fsm.runtimes.reference.nri.session import A, R, Session

S = TypeVar("S", bound=Session[Any, Any, Any, Any])

ALLOWED: Final[Mapping[str, frozenset[str]]] = {
    "CreateContainer": frozenset({"adjust", "updates", "evictions"}),
    "UpdateContainer": frozenset({"updates", "evictions"}),
    "StopContainer": frozenset({"updates"}),
}
"""Maps events to the parts of an answer that they allow. All other events allow no part."""


class MergedAnswers:
    """The merged answers of all plugins to a request. Only one plugin may set a given field of a container.

    ``lost`` is true if a plugin was lost. ``error`` is the error that ended the request, if any.

    >>> from fsm.runtimes.reference.nri.messages import Container, Pod
    >>> merged = MergedAnswers(Request(event="CreateContainer", pod=Pod(id="p1"), container=Container(id="c1")))
    >>> merged.add("10-a", Answer(adjust={"env.A": "1"}))
    >>> merged.add("20-b", Answer(adjust={"env.A": "2"}))
    Traceback (most recent call last):
        ...
    fsm.runtimes.reference.nri.messages.ConflictError: plugins '20-b' and '10-a' both set env.A of container c1
    >>> merged.adjust
    {'env.A': '1'}
    """

    def __init__(self, request: Request) -> None:
        self.adjust: dict[str, object] = {}
        self.evictions: list[Eviction] = []
        self.lost = False
        self.error: NRIError | None = None
        self._allowed: Final = ALLOWED.get(request.event, frozenset())
        self._subject: Final = request.container.id if request.container else ""
        self._base: Final[Fields] = request.resources
        self._requested: dict[str, Update] = {}
        self._owners: dict[tuple[str, str], str] = {}

    def add(self, plugin: str, answer: Answer) -> None:
        """Add the answer of *plugin*.

        A conflicting update with ``ignore_failure`` is dropped as a whole. Raise :class:`ConflictError` for a field
        that another plugin has already set, or :class:`NRIError` for an update of the container that is being created.
        """
        if "adjust" in self._allowed:
            self._claim(plugin, self._subject, answer.adjust)
            self.adjust |= answer.adjust
        for update in answer.updates if "updates" in self._allowed else ():
            self._update(plugin, update)
        self.evictions += answer.evictions if "evictions" in self._allowed else ()

    @property
    def result(self) -> str:
        return "error" if self.error else "lost" if self.lost else "ok"

    @property
    def others(self) -> tuple[Update, ...]:
        return tuple(update for update in self._requested.values() if update.container_id != self._subject)

    @property
    def own(self) -> Fields | None:
        requested = self._requested.get(self._subject)
        return {**self._base, **requested.resources} if requested else None

    def _update(self, plugin: str, update: Update) -> None:
        if "adjust" in self._allowed and update.container_id == self._subject:
            message = f"plugin {plugin!r} requested an update of {self._subject} during its creation; adjust it instead"
            raise NRIError(message, code="INVALID_ARGUMENT")
        try:
            self._claim(plugin, update.container_id, update.resources)
        except ConflictError:
            if update.ignore_failure:
                return
            raise
        known = self._requested.get(update.container_id, update)
        resources = {**known.resources, **update.resources}
        ignored = known.ignore_failure and update.ignore_failure
        self._requested[update.container_id] = replace(known, resources=resources, ignore_failure=ignored)

    def _claim(self, plugin: str, container: str, fields: Fields) -> None:
        for name in fields:
            owner = self._owners.get((container, name))
            if owner is not None:
                raise ConflictError(f"plugins {plugin!r} and {owner!r} both set {name} of container {container}")
        self._owners |= {(container, name): plugin for name in fields}


class Plugins(Generic[R, A, S]):
    """The plugins that have joined, in the order of their indices. Not thread-safe."""

    def __init__(self) -> None:
        self.joined: tuple[S, ...] = ()

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(plugin.name for plugin in self.joined if plugin.listed)

    def join(self, plugin: S) -> None:
        self.joined = tuple(sorted((*self.joined, plugin), key=lambda joined: joined.index))

    def leave(self, plugin: S) -> None:
        plugin.stop()
        self.joined = tuple(other for other in self.joined if other is not plugin)

    def close(self) -> None:
        for plugin in self.joined:
            self.leave(plugin)

    async def relay(self, event: str, request: Callable[[], R], add: Callable[[str, A], object]) -> bool:
        """Relay a request to each plugin that subscribed to *event*, and return whether a plugin was lost and removed.

        *request* is called to create each request, and *add* is called with the name and the answer of each plugin.
        The first :class:`NRIError` from a plugin or from *add* ends the relay.
        """
        lost = False
        try:
            for plugin in self.joined:
                listed = plugin.listed
                answer = await plugin.relay(event, request())
                lost |= listed and not plugin.listed
                if answer is not None:
                    add(plugin.name, answer)
        finally:
            for plugin in self.joined:
                if not plugin.listed:
                    plugin.drop()
            self.joined = tuple(plugin for plugin in self.joined if plugin.listed)
        return lost


async def relay_merged(
    request: Request, relay: Callable[[Callable[[], Request], Callable[[str, Answer], None]], Awaitable[bool]]
) -> MergedAnswers:
    merged = MergedAnswers(request)
    try:
        merged.lost = await relay(lambda: replace(request, adjusted=dict(merged.adjust)), merged.add)
    except NRIError as error:
        merged.error = error
    return merged


SendRequest: TypeAlias = Callable[[Request], Awaitable[MergedAnswers]]
"""A function that sends a request to the subscribed plugins, and merges their answers. It stops at the first error."""

RELAYS: Final = {
    **dict.fromkeys(("update-pod-sandbox", "post-update-pod-sandbox"), "relay-pod-update"),
    **dict.fromkeys(("stop-pod-sandbox", "remove-pod-sandbox", "stop-container", "remove-container"), "relay-end"),
    "notify-exit": "notify-exit",
}
"""Maps events of pods and containers to events of ``nri-api``. All other events map to ``relay``."""

IDLE: Final = frozenset({"ignored", "nothing"})


class Lifecycle(Driven):
    def __init__(self, release: str, *, disabled: bool) -> None:
        self._driver: Final = driver("nri-api", release)
        super().__init__(self._driver.position())
        self.position.take("new", "disabled" if disabled else "created")
        self.local: Final = PluginLocal()
        self._moving: Final = threading.Lock()
        self._blocks = 0
        self.lock = threading.Lock()
        self._holder = 0

    def outcomes(self, event: str) -> tuple[Outcome, ...]:
        return self._driver.offered(event, self.state)

    def take(self, event: str, outcome: str = "", *, ends: bool = False) -> Outcome:
        with self._moving:
            return self.position.take(event, outcome, ends=ends)

    def accepts(self, event: str) -> bool:
        """Check whether the call *event* would have an effect.

        Raise the error with which the machine replies, or :class:`ReentrantError` if a plugin or domain makes the call.
        """
        if self._holder == threading.get_ident() or self.local.on_plugin_thread:
            message = "a plugin or domain must not call NRI while NRI waits for it: return updates, or call later"
            raise ReentrantError(message)
        return self._acts(event)

    @contextmanager
    def call(self, event: str) -> Iterator[bool]:
        """Make the call *event* while no other call is in progress. Yield true if the call has an effect."""
        if not self.accepts(event):
            yield False
            return
        with self.lock:
            self._holder = threading.get_ident()
            try:
                yield self._acts(event)
            finally:
                self._holder = 0

    def block(self) -> bool:
        with self._moving:
            acts = self._acts("block")
            if acts:
                self.position.take("block", "blocked")
                self._blocks += 1
            return acts

    def unblock(self) -> None:
        with self._moving:
            self._blocks -= 1
            self.position.take("unblock", "another" if self._blocks else "last")

    def _acts(self, event: str) -> bool:
        ways = self.outcomes(event)
        if ways and ways[0].name == "refused":
            code = ways[0].reply[0]
            if code == "UNAVAILABLE":
                raise NRIStoppedError("the NRI interface was stopped; create a new one")
            missing = code == "UNIMPLEMENTED"
            why = "this release has no such method" if missing else f"the NRI interface is {self.state} already"
            raise NRIError(f"{event}: {why}", code=code)
        return bool(ways) and ways[0].name not in IDLE


class EntityStates:
    """The states of all entities that the machine *name* drives under *profile*. Not thread-safe.

    >>> pods = EntityStates("nri-pod")
    >>> pods.take("p1", "run-pod-sandbox", "ok").to, pods.state("p1"), pods.state("p2")
    ('running', 'running', 'absent')
    """

    def __init__(self, name: str, profile: str = "") -> None:
        self._driver: Final = driver(name, profile)
        self._positions: dict[str, Position] = {}

    @property
    def outputs(self) -> frozenset[str]:
        return frozenset(output for way in tabulate(self._driver.machine).ways for output in way.emits)

    def state(self, entity: str) -> str:
        known = self._positions.get(entity)
        return known.state if known else self._driver.machine.initial

    def take(self, entity: str, event: str, outcome: str = "") -> Outcome:
        position = self._positions.pop(entity, None) or self._driver.position()
        try:
            return position.take(event, outcome)
        finally:
            if position.state != self._driver.machine.initial:
                self._positions[entity] = position

    def offered(self, entity: str, event: str) -> tuple[Outcome, ...]:
        return self._driver.offered(event, self.state(entity))

    def synchronise(self, containers: Iterable[Container]) -> None:
        for container in containers:
            self.take(container.id, container.state.event)


class RelayedEntities:
    def __init__(self, release: str = "") -> None:
        self.release = release
        self.pods = EntityStates("nri-pod", release)
        self.containers = EntityStates("nri-container", release)

    async def relay(self, request: Request, send: SendRequest) -> MergedAnswers | None:
        """Apply the event of *request* to its pod or container, and pass each request that follows from it to *send*.

        Return the answers to the last request, or ``None`` if nothing was sent. If the machine replies with an error,
        raise that error.
        """
        event, container = request.event, request.container
        states, entity = (self.containers, container.id) if container else (self.pods, request.pod.id)
        ways = states.offered(entity, event)
        outputs = max((way.emits for way in ways), key=len, default=())  # shorter tuples end where a plugin was lost
        relayed = [await send(replace(request, event=name)) for name in outputs]
        last = relayed[-1] if relayed else None
        way = states.take(entity, event, relay_outcome(ways, outputs, relayed))
        if way.reply and "ok" not in way.reply:
            error = last.error if last else None
            raise error or NRIError(f"{event}: {way.about or 'there is no such method'}", code=way.reply[0])
        return last


def relay_outcome(ways: tuple[Outcome, ...], outputs: tuple[str, ...], relayed: list[MergedAnswers]) -> str:
    """Return the outcome that follows from the results of the relayed requests.

    If a request before the last one has lost a plugin, and the last request has not failed, the first request that has
    lost a plugin decides. Otherwise, the last request decides.
    """
    if not relayed:
        return ""
    *earlier, last = relayed
    lost = next((number for number, answers in enumerate(earlier, start=1) if answers.result == "lost"), 0)
    if lost and not last.error:
        return next(way.name for way in ways if way.emits == outputs[:lost])
    return last.result
