"""The names of pods, each reserved for one id at a time."""

from fsm.reference.container.world import WorldError


class Registrar:
    """Names and the ids they are reserved for, in memory.

    >>> names = Registrar()
    >>> names.reserve("web", "1")
    >>> names.reserve("web", "1")
    >>> names.reserve("web", "2")
    Traceback (most recent call last):
    fsm.reference.container.world.WorldError: name "web" is reserved for "1"
    >>> names.release("1")
    >>> names.holder("web")
    ''
    """

    def __init__(self) -> None:
        self._holders: dict[str, str] = {}

    def reserve(self, name: str, holder: str) -> None:
        """Reserve *name* for *holder*, which may have it already; raises :class:`WorldError` if another one has it."""
        other = self._holders.setdefault(name, holder)
        if other != holder:
            raise WorldError(f'name "{name}" is reserved for "{other}"')

    def release(self, holder: str) -> None:
        self._holders = {name: other for name, other in self._holders.items() if other != holder}

    def holder(self, name: str) -> str:
        """The id that *name* is reserved for; the empty string if it is free."""
        return self._holders.get(name, "")
