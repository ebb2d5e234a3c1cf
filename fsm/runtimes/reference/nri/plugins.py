"""The plugins that have joined, called one after the other in the order of their index, and their merged answers."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Final, Literal

from fsm.machine import Outcome
from fsm.runtimes.reference.nri.connection import Connection, Plugin, Terms
from fsm.runtimes.reference.nri.messages import Answer, Eviction, Fields, Request, Update
from fsm.runtimes.reference.nri.nri_errors import ConflictError, NRIError

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
    fsm.runtimes.reference.nri.nri_errors.ConflictError: plugins '20-b' and '10-a' both set env.A of container c1
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
        return tuple(each for each in self._requested.values() if each.container_id != self._subject)

    @property
    def own(self) -> Fields | None:
        """Resources for the container of the request, or ``None`` if no plugin changes them."""
        requested = self._requested.get(self._subject)
        return {**self._base, **requested.resources} if requested else None

    def _update(self, plugin: str, update: Update) -> None:
        if "adjust" in self._allowed and update.container_id == self._subject:
            message = f"plugin {plugin!r} asked for an update of {self._subject} during its creation; adjust it instead"
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


class Plugins:
    """All plugins that have joined, with connections of *kind* on *terms*. Not thread-safe."""

    def __init__(self, terms: Terms, kind: type[Connection] = Connection) -> None:
        self.terms: Final = terms
        self._kind: Final = kind
        self._connections: tuple[Connection, ...] = ()

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(connection.name for connection in self._connections if connection.listed)

    def connection(self, plugin: Plugin) -> Connection:
        return self._kind(plugin, self.terms)

    def join(self, connection: Connection) -> None:
        self._connections = tuple(sorted((*self._connections, connection), key=lambda each: each.index))

    def request_updates(self, plugin: Plugin | None, make: Callable[[], None]) -> None:
        """Make updates with *make*, for *plugin* if it is given. Raise :class:`NRIError` if it must not request any."""
        if plugin is None:
            make()
        elif connections := self._of(plugin):
            connections[0].request_updates(make)
        else:
            raise NRIError("a plugin that is not connected cannot ask", code="UNAVAILABLE")

    def lose(self, plugin: Plugin) -> None:
        """Handle the disconnection of *plugin*. Has no effect if it has not joined."""
        for connection in self._of(plugin):
            connection.hang_up()

    def leave(self, connection: Connection) -> None:
        connection.stop()
        self._connections = tuple(each for each in self._connections if each is not connection)

    def close(self) -> None:
        for connection in self._connections:
            connection.stop()
        self._connections = ()

    def _of(self, plugin: Plugin) -> list[Connection]:
        return [each for each in self._connections if each.plugin is plugin]

    def relay(self, request: Request) -> Relayed:
        """Send *request* to each plugin that subscribed to it, up to the first error. Remove lost plugins."""
        merged = MergedAnswers(request)
        lost = False
        try:
            for connection in self._connections:
                listed = connection.listed
                answer = connection.relay(replace(request, adjusted=dict(merged.adjust)))
                lost |= listed and not connection.listed
                if answer is not None:
                    merged.add(connection.name, answer)
        except NRIError as error:
            return Relayed(result="error", merged=merged, error=error)
        finally:
            for connection in self._connections:
                if not connection.listed:
                    connection.drop()
            self._connections = tuple(each for each in self._connections if each.listed)
        return Relayed(result="lost" if lost else "ok", merged=merged)


def relay_outcome(ways: tuple[Outcome, ...], outputs: tuple[str, ...], relayed: list[Relayed]) -> str:
    """Return which of *ways* the relays of *outputs* lead to: the outcome of the last, or of an earlier loss."""
    if not relayed:
        return ""
    *before, last = relayed
    lost = next((number for number, each in enumerate(before, start=1) if each.result == "lost"), 0)
    if lost and last.result != "error":
        return next(way.name for way in ways if way.emits == outputs[:lost])
    return last.result
