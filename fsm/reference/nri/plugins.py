"""The plugins that have joined, asked one after the other in the order of their index."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final, Literal, Protocol, TypeAlias

from fsm.reference.nri.connection import Connection
from fsm.reference.nri.merging import Merged
from fsm.reference.nri.nri_errors import NRIError

if TYPE_CHECKING:
    from collections.abc import Callable

    from fsm.machine import Outcome
    from fsm.reference.nri.connection import Plugin, Terms
    from fsm.reference.nri.messages import Request

Came: TypeAlias = Literal["ok", "error", "lost"]
"""How a request went: all answered; one answered with an error, those after it were not asked; one was lost."""


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


class Plugins:
    """All plugins that have joined.  Not locked: whoever owns it sees to that."""

    def __init__(self, terms: Terms, kind: type[Connection] = Connection) -> None:
        """None yet; each will have a connection of *kind*, on *terms*."""
        self.terms: Final = terms
        self._kind: Final = kind
        self._connections: tuple[Connection, ...] = ()

    @property
    def names(self) -> tuple[str, ...]:
        """Index and name of each, in the order in which they are asked."""
        return tuple(connection.name for connection in self._connections if connection.listed)

    @property
    def working(self) -> bool:
        """Whether this is the thread of a plugin, even of one that was lost since."""
        return getattr(self.terms.here, "working", False)

    def connection(self, plugin: Plugin) -> Connection:
        """One for *plugin*, which is not yet among these."""
        return self._kind(plugin, self.terms)

    def join(self, connection: Connection) -> None:
        """Ask the plugin of *connection*, too, from now on."""
        self._connections = tuple(sorted((*self._connections, connection), key=lambda each: each.index))

    def updates(self, plugin: Plugin | None, make: Callable[[], None]) -> None:
        """*make* what *plugin*, if it is named, asks for by itself; raises :class:`NRIError` where it may not."""
        if plugin is None:
            make()
            return
        for connection in self._connections:
            if connection.plugin is plugin:
                connection.updates(make)
                return
        message = "a plugin that is not connected cannot ask"
        raise NRIError(message, code="UNAVAILABLE")

    def lose(self, plugin: Plugin) -> None:
        """*plugin* has hung up; nothing happens if it was not asked."""
        for connection in self._connections:
            if connection.plugin is plugin:
                connection.hang_up()

    def leave(self, connection: Connection) -> None:
        """Give *connection* up, wherever it stands."""
        connection.stop()
        self._connections = tuple(each for each in self._connections if each is not connection)

    def close(self) -> None:
        """Ask nobody any more."""
        for connection in self._connections:
            connection.stop()
        self._connections = ()

    def relay(self, request: Request) -> Told:
        """Send *request* to each that subscribed to it, and put together what they answer.

        An error ends it: those after are not asked.  One that is lost is
        passed over, and is no longer there when this ends.
        """
        merged = Merged(request)
        lost = False
        try:
            for connection in self._connections:
                listed = connection.listed
                answer = connection.relay(replace(request, adjusted=dict(merged.adjust)))
                lost |= listed and not connection.listed
                if answer is not None:
                    merged.add(connection.name, answer)
        except NRIError as error:
            return Told(came="error", merged=merged, error=error)
        finally:
            self._drop()
        return Told(came="lost" if lost else "ok", merged=merged)

    def _drop(self) -> None:
        """Those that have hung up are closed, and nobody is kept who is."""
        for connection in self._connections:
            if not connection.listed:
                connection.drop()
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
