"""Whether a system is searched as packed states (:mod:`fsm.checker.packed`): where it is large, and the extra is there."""

from __future__ import annotations

from importlib import import_module
from math import prod
from sys import modules
from typing import TYPE_CHECKING, Final, TypeGuard

from fsm.checker.breadth_first import Limit, reachable_size
from fsm.machine.product import SystemTable
from fsm.machine.traversal import LimitError

if TYPE_CHECKING:
    from fsm.checker.packed.packed_graph import PackedGraph
    from fsm.machine.table import TransitionSystem

SMALL: Final = 500
"""A system of so many states is searched sooner than the libraries are loaded."""

FEW_STEPS: Final = 5_000
"""A system of so few steps, too, is searched sooner than further code is compiled, or loaded."""

ENGINE: Final = "fsm.checker.packed.packed_graph"

FEW: Final = 100_000
"""Where copies have no more joint states than these, nothing is won by taking copies for one another."""


def packed(table: TransitionSystem) -> PackedGraph | None:
    """*table* to be searched as packed states; ``None`` if that is not worth it, or not possible."""
    if not isinstance(table, SystemTable) or _joint_states(table) <= SMALL:
        return None
    loaded = ENGINE in modules
    if not loaded and _small(table):
        return None
    try:
        graph: PackedGraph = import_module(ENGINE).PackedGraph(table)
    except ImportError:  # the extra is not installed, or does not work
        return None
    except import_module("fsm.checker.packed.programs").TooWideError:
        return None
    return None if loaded and graph.within(SMALL, FEW_STEPS) else graph


def foldable(table: TransitionSystem) -> TypeGuard[SystemTable]:
    """Whether *table* may reach so many states that it pays to take copies for one another; that is not so yet."""
    return isinstance(table, SystemTable) and table.orbits is None and _joint_states(table) > FEW


def _joint_states(table: SystemTable) -> int:
    copies = table.system.copies
    return prod(len(table.table_of(copies[digit].part).states) for digit in table.cone)


def _small(table: SystemTable) -> bool:
    """Whether *table* reaches so few states only, which is tried out."""
    try:
        reachable_size(table, Limit(states=SMALL))
    except LimitError:
        return False
    return True
