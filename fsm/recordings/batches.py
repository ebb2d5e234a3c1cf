"""Observations of a recording as they are read: a batch at a time, each with the line on which it stands."""

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from fsm.trace import Line, Observation


class Batch(NamedTuple):
    """Observations in order, and the line on which each stands."""

    observations: Sequence[Observation]
    lines: Sequence[int | Line]


def batch(found: Iterable[tuple[int | Line, Observation]]) -> Batch:
    """The observations *found*, each with its line."""
    listed = list(found)
    return Batch([seen for _, seen in listed], [line for line, _ in listed])
