"""A drawing of a lifecycle as data: its names and arrows, and where they are drawn.

The meaning of the names depends on a machine; :mod:`fsm.diagrams.compare` compares the two.
"""

import itertools
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Final

from fsm.diagrams.abstraction.drawn_names import THEN
from fsm.errors import Problem

MOST: Final = 30_000
"""Most names and arrows in a drawing."""


@dataclass(frozen=True, slots=True, kw_only=True, order=True)
class Location:
    """A place in a file; line and column count from 1."""

    line: int
    column: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ArrowLabel:
    """One label along an arrow; stacked labels are alternatives."""

    names: tuple[str, ...]
    place: Location


def only_step(names: Iterable[str], place: Location) -> tuple[ArrowLabel, ...]:
    """Return the steps of an arrow with at most one label."""
    found = tuple(names)
    return (ArrowLabel(names=found, place=place),) if found else ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Arrow:
    """A line from one state to another; ``source`` is ``None`` for an arrow without one.

    ``steps`` are the labels along it, in order; ``place`` is that of the arrowhead, or of the statement.
    """

    source: str | None
    target: str
    steps: tuple[ArrowLabel, ...]
    place: Location

    @property
    def labels(self) -> tuple[str, ...]:
        """Labels of the arrow, joined along it, one for each choice among stacked labels; empty if it has none."""
        choices = itertools.product(*(step.names for step in self.steps))
        return tuple(THEN.join(choice) for choice in choices if choice)


@dataclass(frozen=True, slots=True, kw_only=True)
class Drawing:
    """States, lines ``below`` their names, and arrows in the order of their places; void if it has ``problems``."""

    path: str
    line: int
    last: int
    states: dict[str, Location]
    arrows: tuple[Arrow, ...]
    below: dict[str, tuple[str, ...]] = field(default_factory=dict)
    problems: tuple[Problem, ...] = ()

    @property
    def place(self) -> str:
        """File and line at which it begins, as ``path:line``."""
        return f"{self.path}:{self.line}"
