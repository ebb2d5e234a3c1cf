"""Which names are reserved, and for whom."""

from __future__ import annotations

from fsm.reference.container.world import WorldError


class TakenError(WorldError):
    """A name is reserved for another."""


class Names:
    """Names, each reserved for one id at a time; in memory.

    >>> names = Names()
    >>> names.reserve("web", "1")
    >>> names.reserve("web", "1")
    >>> names.reserve("web", "2")
    Traceback (most recent call last):
    fsm.reference.pods.names.TakenError: name "web" is reserved for "1"
    >>> names.release("1")
    >>> names.holder("web")
    ''
    """

    def __init__(self) -> None:
        self._holders: dict[str, str] = {}

    def reserve(self, name: str, holder: str) -> None:
        """Reserve *name* for *holder*, who may have it already; raises :class:`TakenError`."""
        other = self._holders.setdefault(name, holder)
        if other != holder:
            message = f'name "{name}" is reserved for "{other}"'
            raise TakenError(message)

    def release(self, holder: str) -> None:
        """Whatever *holder* has is free."""
        self._holders = {name: other for name, other in self._holders.items() if other != holder}

    def holder(self, name: str) -> str:
        """For whom *name* is reserved; the empty text if it is free."""
        return self._holders.get(name, "")
