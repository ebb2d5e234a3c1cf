"""Choose packed states (:mod:`fsm.checker.packed`) for large systems if the ``fast`` extra is installed."""

from __future__ import annotations

from importlib import import_module
from math import prod
from sys import modules
from typing import TYPE_CHECKING, Final, TypeGuard

from fsm.machine.product import SystemTable
from fsm.machine.table import TransitionSystem
from fsm.machine.traversal import LimitError
from fsm.scratch import is_compiled

if TYPE_CHECKING:
    from fsm.checker.packed.packed_graph import PackedGraph
    from fsm.machine.table import TransitionSystem
from fsm.checker.breadth_first import Limit, reachable_size

SMALL: Final = 500
"""Maximum number of states for which a search is faster than loading the libraries."""
UNCOMPILED: Final = 5_000
"""Maximum number of states for which a search is faster than compiling the search, which takes about 10 s."""
FEW_STEPS: Final = 5_000
"""Maximum number of steps for which a search is faster than compiling or loading more code."""
ENGINE: Final = "fsm.checker.packed.packed_graph"
FEW: Final = 100_000
"""Maximum number of joint states of copies for which folding interchangeable copies does not pay off."""


def packed(table: TransitionSystem) -> PackedGraph | None:
    """Return *table* as a graph of packed states, or ``None`` if that is not possible or does not pay off."""
    if not isinstance(table, SystemTable) or _joint_states(table) <= SMALL:
        return None
    loaded = ENGINE in modules
    if not loaded and _small(table):
        return None
    try:
        graph: PackedGraph = import_module(ENGINE).PackedGraph(table)
    except ImportError:  # the extra is not installed, or it is broken
        return None
    except import_module("fsm.checker.packed.programs").TooWideError:
        return None
    return None if loaded and graph.within(SMALL, FEW_STEPS) else graph


def foldable(table: TransitionSystem) -> TypeGuard[SystemTable]:
    """Check whether *table* is not folded yet and is large enough for folding interchangeable copies to pay off."""
    return isinstance(table, SystemTable) and table.orbits is None and _joint_states(table) > FEW


def _joint_states(table: SystemTable) -> int:
    copies = table.system.copies
    return prod(len(table.table_of(copies[digit].part).states) for digit in table.cone)


def _small(table: SystemTable) -> bool:
    try:
        few = SMALL if is_compiled("fsm.checker.packed.exploration", "explore") else UNCOMPILED
        reachable_size(table, Limit(states=few))
    except LimitError:
        return False
    return True
