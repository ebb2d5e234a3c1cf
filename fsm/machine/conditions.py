"""What may be true of an instant: of the state after a step, the one before it, and the step itself.

The first instant of a run is its initial state and belongs to no step; what
an instant is stands in :mod:`fsm.property.claims`, the words of people for these
conditions in :mod:`fsm.language.build.machine_conditions`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias


@dataclass(frozen=True, slots=True, kw_only=True)
class In:
    """The state is one of ``states``, after the step or, if ``before``, ahead of it."""

    states: frozenset[str]
    before: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Emits:
    """``output`` is emitted; nothing is if it is empty."""

    output: str


@dataclass(frozen=True, slots=True, kw_only=True)
class EmitsOnly:
    """The step emits ``outputs``, in this order, and nothing else; each of its instants says so.

    With ``among``, nothing else of those.
    """

    outputs: tuple[str, ...]
    among: frozenset[str] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Happens:
    """The step is of ``event``: a call acts or begins, something else happens."""

    event: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Replies:
    """A call of ``event`` replies ``reply``, ``error`` standing for every error."""

    event: str
    reply: str


@dataclass(frozen=True, slots=True, kw_only=True)
class StateChanges:
    """The state changes."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SilentOn:
    """The machine says nothing of ``event`` in the state after the step."""

    event: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Not:
    """The condition does not hold."""

    of: Condition


@dataclass(frozen=True, slots=True, kw_only=True)
class All:
    """All of them hold."""

    of: tuple[Condition, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Some:
    """At least one of them holds."""

    of: tuple[Condition, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class At:
    """Of a system: ``every`` or some of these copies of ``part`` are in one of ``states``.

    ``copies`` are digits of the system; there is one where one copy is meant.
    """

    part: str
    copies: tuple[int, ...]
    states: frozenset[str]
    every: bool = True
    before: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class StepEmits:
    """``output`` is among all that the step emits, whichever of its instants this is."""

    output: str


Condition: TypeAlias = (
    In | Emits | EmitsOnly | Happens | Replies | StateChanges | SilentOn | Not | All | Some | At | StepEmits
)


@dataclass(frozen=True, slots=True, kw_only=True)
class WrittenCondition:
    """A condition as its author wrote it, and what that means."""

    text: str
    means: Condition


Sequence: TypeAlias = tuple[WrittenCondition, ...]
"""Conditions that hold at one instant after the other, with any others in between."""
