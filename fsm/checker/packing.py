"""Decide whether a search uses packed states (:mod:`fsm.checker.packed`).

Packed states are for large systems and require the ``fast`` extra.
"""

from __future__ import annotations

from importlib import import_module
from math import prod
from sys import modules
from typing import TYPE_CHECKING, Any, Final, Protocol, TypeGuard

from fsm.checker.breadth_first import Limit, reachable_size
from fsm.machine.claims import Counts
from fsm.machine.in_progress import InProgress
from fsm.machine.product import SystemTable, TransitionSystem
from fsm.machine.traversal import LimitError
from fsm.scratch import is_compiled

if TYPE_CHECKING:
    from fsm.checker.packed.packed_graph import PackedGraph

SMALL: Final = 500
"""Number of states up to which a search takes less time than loading the libraries."""
UNCOMPILED: Final = 5_000
"""Number of states up to which a search takes less time than compiling its code, about 10 s."""
FEW_STEPS: Final = 5_000
"""Number of steps up to which a search takes less time than compiling or loading more code."""
MANY: Final = 20_000
"""Number of states with values from which on a machine with data is searched with arrays."""
ENGINE: Final = "fsm.checker.packed.packed_graph"
FEW: Final = 100_000
"""Number of joint states of the copies up to which it does not pay off to fold interchangeable copies."""


def packed(table: TransitionSystem) -> PackedGraph | None:
    if not isinstance(table, SystemTable) or table.data is not None or _joint_states(table) <= SMALL:
        return None
    loaded = ENGINE in modules
    if not loaded and _is_small(table):
        return None
    try:
        graph: PackedGraph = import_module(ENGINE).PackedGraph(table)
    except ImportError:  # the extra is not installed, or its installation is broken
        return None
    except import_module("fsm.checker.packed.programs").TooWideError:
        return None
    return None if loaded and graph.within(SMALL, FEW_STEPS) else graph


class ArraySearch(Protocol):
    """The interface of :class:`fsm.checker.packed.valuations.Valuations`, which depends on modules below this one."""

    table: InProgress

    def search(self, successors: Any, sought: Any, limit: Limit) -> Any: ...  # noqa: ANN401  (as above)

    def size(self, successors: Any, limit: Limit) -> tuple[Counts, int]: ...  # noqa: ANN401  (as above)


def valuations(table: TransitionSystem) -> ArraySearch | None:
    """Return *table* as a machine whose many configurations are searched with arrays, if it is one."""
    if not isinstance(table, InProgress) or table.data is None or table.end:
        return None
    ranges = prod(each.high - each.low + 1 for each in table.data.variables)
    if len(table.of.states) * ranges <= MANY:
        return None
    try:
        found: ArraySearch = import_module("fsm.checker.packed.valuations").Valuations(table)
    except ImportError:
        return None
    return found


def is_foldable(table: TransitionSystem) -> TypeGuard[SystemTable]:
    if not isinstance(table, SystemTable) or table.orbits is not None or table.data is not None:
        return False
    return _joint_states(table) > FEW


def _joint_states(table: SystemTable) -> int:
    copies = table.system.copies
    return prod(len(table.table_of(copies[digit].part).states) for digit in table.cone)


def _is_small(table: SystemTable) -> bool:
    try:
        few = SMALL if is_compiled("fsm.checker.packed.exploration", "explore") else UNCOMPILED
        reachable_size(table, Limit(states=few))
    except LimitError:
        return False
    return True
