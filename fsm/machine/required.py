"""The refusal of a system where one machine is needed."""

from fsm.errors import InputError, refused
from fsm.machine import Machine


def require_machine(given: object) -> None:
    """Raise :class:`InputError` for a system, which few engines take, and ``TypeError`` for anything else that is no machine."""
    if isinstance(given, Machine):
        return
    if not hasattr(given, "parts"):
        raise TypeError(f"a Machine is needed, not {given!r}")
    raise a_system(str(getattr(given, "name", given)))


def a_system(name: str) -> InputError:
    """The error of a system *name* where a machine is needed."""
    hint = "systems are for 'fsm check', 'explore', 'findings', 'mutate', 'test' and 'show', and in Python for fsm.load_system"
    return refused(name, "FSM001", "is a system, not a machine", hint)
