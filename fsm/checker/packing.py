"""Whether a system is searched as packed states (:mod:`fsm.checker.packed`): where it is large, and the extra is there."""

from __future__ import annotations

from importlib import import_module
from math import prod
from sys import modules
from typing import TYPE_CHECKING, Final

from fsm.checker.breadth_first import Limit, reachable_size
from fsm.machine.traversal import LimitError
from fsm.product import SystemTable

if TYPE_CHECKING:
    from fsm.checker.packed.packed_graph import PackedGraph
    from fsm.machine.table import TransitionSystem

SMALL: Final = 500
"""A system of so many states is searched sooner than the libraries are loaded."""


def packed(table: TransitionSystem) -> PackedGraph | None:
    """*table* to be searched as packed states; ``None`` if that is not worth it, or not possible."""
    if not isinstance(table, SystemTable) or not _large(table):
        return None
    try:
        graph: PackedGraph = import_module("fsm.checker.packed.packed_graph").PackedGraph(table)
    except ImportError:  # the extra is not installed, or does not work
        return None
    except import_module("fsm.checker.packed.programs").TooWideError:
        return None
    return graph


def _large(table: SystemTable) -> bool:
    """Whether *table* may reach more than so few states; once the libraries are loaded, it is not tried out."""
    copies = table.system.copies
    if prod(len(table.table_of(copies[digit].part).states) for digit in table.cone) <= SMALL:
        return False
    if "numba" not in modules:
        try:
            reachable_size(table, Limit(states=SMALL))
        except LimitError:
            return True
        return False
    return True
