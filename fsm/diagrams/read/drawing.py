"""A drawing of a lifecycle as data: its names and arrows, and where they are drawn.

The meaning of the names depends on a machine. :mod:`fsm.diagrams.compare` compares the two.
"""

import itertools
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Final

from fsm.diagrams.abstraction import THEN
from fsm.errors import Problem

MOST: Final = 30_000  # maximum number of names and arrows in a drawing


@dataclass(frozen=True, slots=True, kw_only=True, order=True)
class Location:
    """A location in a file.  Line and column count from 1."""

    line: int
    column: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ArrowLabel:
    """One label along an arrow.  Stacked labels are alternatives."""

    names: tuple[str, ...]
    place: Location


def only_step(names: Iterable[str], place: Location) -> tuple[ArrowLabel, ...]:
    """Return the steps of an arrow with at most one label."""
    found = tuple(names)
    return (ArrowLabel(names=found, place=place),) if found else ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Arrow:
    """A line from one state to another."""

    source: str | None  # None for an arrow without a source
    target: str
    steps: tuple[ArrowLabel, ...]  # labels along the line, in order
    place: Location  # location of the arrowhead or of the statement

    @property
    def labels(self) -> tuple[str, ...]:
        """Labels of the arrow, one for each combination of stacked labels.  Empty if it has no label."""
        choices = itertools.product(*(step.names for step in self.steps))
        return tuple(THEN.join(choice) for choice in choices if choice)


@dataclass(frozen=True, slots=True, kw_only=True)
class Drawing:
    """A parsed drawing.  If ``problems`` is not empty, ignore the rest."""

    path: str
    line: int
    last: int
    states: dict[str, Location]
    arrows: tuple[Arrow, ...]  # in order of position
    below: dict[str, tuple[str, ...]] = field(default_factory=dict)  # lines below the name of each state
    problems: tuple[Problem, ...] = ()

    @property
    def place(self) -> str:
        """The location of the drawing's first line, as ``path:line``."""
        return f"{self.path}:{self.line}"
