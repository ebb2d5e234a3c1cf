"""The plugins that have joined, called one after the other in the order of their index."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Final, Literal

from fsm.machine import Outcome
from fsm.reference.nri.connection import Connection, Plugin, Terms
from fsm.reference.nri.merge import MergedAnswers
from fsm.reference.nri.messages import Request
from fsm.reference.nri.nri_errors import NRIError


@dataclass(frozen=True, slots=True, kw_only=True)
class Relayed:
    """A relayed request: whether all plugins answered, one with an error, which ends the relay, or one was lost."""

    result: Literal["ok", "error", "lost"]
    merged: MergedAnswers
    error: NRIError | None = None


class Plugins:
    """All plugins that have joined, with connections of *kind* on *terms*.  Not thread-safe."""

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
        """*make* updates that *plugin* requests, if one is given; raises :class:`NRIError` if it must not."""
        if plugin is None:
            make()
        elif connections := self._of(plugin):
            connections[0].request_updates(make)
        else:
            raise NRIError("a plugin that is not connected cannot ask", code="UNAVAILABLE")

    def lose(self, plugin: Plugin) -> None:
        """*plugin* has disconnected; has no effect if it has not joined."""
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
        """Send *request* to each plugin that subscribed to it, up to the first error; lost plugins are removed."""
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
    """The outcome among *ways* that the relays of *outputs* lead to: that of the last, or of an earlier loss."""
    if not relayed:
        return ""
    *before, last = relayed
    lost = next((number for number, each in enumerate(before, start=1) if each.result == "lost"), 0)
    if lost and last.result != "error":
        return next(way.name for way in ways if way.emits == outputs[:lost])
    return last.result
