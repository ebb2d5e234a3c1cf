"""The plugins that have joined, called one after the other in the order of their index, and their merged answers."""

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any, Final, Generic, Literal, TypeVar

from fsm.runtimes.reference.nri.messages import Answer, ConflictError, Eviction, Fields, NRIError, Request, Update
from fsm.runtimes.reference.nri.session import A, R, Session

S = TypeVar("S", bound=Session[Any, Any, Any, Any])

ALLOWED: Final[Mapping[str, frozenset[str]]] = {
    "CreateContainer": frozenset({"adjust", "updates", "evictions"}),
    "UpdateContainer": frozenset({"updates", "evictions"}),
    "StopContainer": frozenset({"updates"}),
}
"""Maps events to the parts of an answer that are used. For other events, no parts are used."""


class MergedAnswers:
    """The merged answers to *request*. Each field of a container belongs to one plugin.

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
        self._allowed: Final = ALLOWED.get(request.event, frozenset())
        self._subject: Final = request.container.id if request.container else ""
        self._base: Final[Fields] = request.resources
        self._requested: dict[str, Update] = {}
        self._owners: dict[tuple[str, str], str] = {}

    def add(self, plugin: str, answer: Answer) -> None:
        """Add the *answer* of *plugin*. A conflicting update with ``ignore_failure`` is dropped as a whole.

        Raise :class:`ConflictError` for a field that belongs to another plugin, or :class:`NRIError` for an update of
        the container that is being created.
        """
        if "adjust" in self._allowed:
            self._claim(plugin, self._subject, answer.adjust)
            self.adjust |= answer.adjust
        if "updates" in self._allowed:
            for update in answer.updates:
                self._update(plugin, update)
        if "evictions" in self._allowed:
            self.evictions += answer.evictions

    @property
    def others(self) -> tuple[Update, ...]:
        """Updates of other containers, in the order in which plugins first requested them."""
        return tuple(update for update in self._requested.values() if update.container_id != self._subject)

    @property
    def own(self) -> Fields | None:
        """Resources for the container of the request, or ``None`` if no plugin changes them."""
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
        self._requested[update.container_id] = replace(
            known,
            resources={**known.resources, **update.resources},
            ignore_failure=known.ignore_failure and update.ignore_failure,
        )

    def _claim(self, plugin: str, container: str, fields: Fields) -> None:
        for name in fields:
            owner = self._owners.get((container, name))
            if owner is not None:
                raise ConflictError(f"plugins {plugin!r} and {owner!r} both set {name} of container {container}")
        self._owners |= {(container, name): plugin for name in fields}


@dataclass(frozen=True, slots=True, kw_only=True)
class Relayed:
    """A relayed request. ``result`` is ``lost`` if a plugin disconnected, and ``error`` if an error ended the relay."""

    result: Literal["ok", "error", "lost"]
    merged: MergedAnswers
    error: NRIError | None = None


class Plugins(Generic[R, A, S]):
    """All plugins that have joined, called in the order of their index. Not thread-safe."""

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
            plugin.stop()
        self.joined = ()

    async def relay(self, event: str, request: Callable[[], R], add: Callable[[str, A], object]) -> bool:
        """Send *request()* to each plugin that subscribed to *event*, and pass its name and answer to *add*.

        Remove lost plugins, and return whether one was lost. Stop at the first :class:`NRIError` of a plugin or *add*.
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
) -> Relayed:
    """Relay *request* with *relay*, as :meth:`Plugins.relay` does, and merge the answers."""
    merged = MergedAnswers(request)
    try:
        lost = await relay(lambda: replace(request, adjusted=dict(merged.adjust)), merged.add)
    except NRIError as error:
        return Relayed(result="error", merged=merged, error=error)
    return Relayed(result="lost" if lost else "ok", merged=merged)
