"""Conditions on an instant: on the state after a step, the state before it, and the step itself.

:mod:`fsm.machine.property.claims` defines instants; the notation of conditions is in
:mod:`fsm.language.build.machine_conditions`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TypeAlias, TypeVar

T = TypeVar("T")


@dataclass(frozen=True, slots=True, kw_only=True)
class In:
    """The state is one of ``states``: after the step, or with ``before``, before it."""

    states: frozenset[str]
    before: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Emits:
    """``output`` is emitted; if it is empty, nothing is."""

    output: str


@dataclass(frozen=True, slots=True, kw_only=True)
class EmitsOnly:
    """The step emits exactly ``outputs`` of those ``among``, in order; true at each instant of that step."""

    outputs: tuple[str, ...]
    among: frozenset[str] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Happens:
    """The step is one of ``event``: a call acts or begins, or another event happens."""

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
    """The cell of ``event`` in the state after the step is silent."""

    event: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Not:
    """The condition does not hold."""

    of: Condition


@dataclass(frozen=True, slots=True, kw_only=True)
class All:
    """Every part holds."""

    of: tuple[Condition, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Some:
    """At least one part holds."""

    of: tuple[Condition, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class At:
    """In a system: ``every`` one, or else at least one, of these ``copies`` of ``part`` is in one of ``states``."""

    part: str
    copies: tuple[int, ...]
    states: frozenset[str]
    every: bool = True
    before: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class StepEmits:
    """``output`` is among all outputs of the step, whichever of its instants this is."""

    output: str


Atom: TypeAlias = In | Emits | EmitsOnly | Happens | Replies | StateChanges | SilentOn | At | StepEmits
Condition: TypeAlias = Atom | Not | All | Some


@dataclass(frozen=True, slots=True, kw_only=True)
class WrittenCondition:
    """A condition as its author wrote it, and its meaning."""

    text: str
    means: Condition


Sequence: TypeAlias = tuple[WrittenCondition, ...]
"""Conditions that hold one after the other, with any other instants in between."""


def atoms(condition: Condition) -> Iterator[Atom]:
    """Yield the atoms of *condition*, in its order.

    >>> list(atoms(All(of=(Happens(event="stop"), Not(of=StateChanges())))))
    [Happens(event='stop'), StateChanges()]
    """
    match condition:
        case Not(of=inner):
            yield from atoms(inner)
        case All(of=parts) | Some(of=parts):
            for part in parts:
                yield from atoms(part)
        case _:
            yield condition


def left_at(condition: Condition, event: str) -> Condition | bool:
    """Return what is left of *condition* at a step of *event*, whatever else is true of that step.

    >>> left_at(Some(of=(Not(of=Happens(event="stop")), Emits(output=""))), "stop")
    Some(of=(Emits(output=''),))
    >>> left_at(Some(of=(Not(of=Happens(event="stop")), Emits(output=""))), "start")
    True
    """

    def left(atom: Atom) -> Condition | bool:
        match atom:
            case Happens(event=of):
                return of == event
            case Replies(event=of) if of != event:
                return False
            case _:
                return atom

    return with_atoms(condition, left)


def with_atoms(condition: Condition, of_atom: Callable[[Atom], Condition | bool]) -> Condition | bool:
    """Return *condition* with its atoms replaced; replacements that are true or false may decide it."""
    match condition:
        case Not(of=inner):
            left = with_atoms(inner, of_atom)
            return not left if isinstance(left, bool) else Not(of=left)
        case All(of=parts) | Some(of=parts):
            decided = isinstance(condition, Some)  # this value of one part decides the whole
            found = [with_atoms(part, of_atom) for part in parts]
            if decided in found:
                return decided
            rest = tuple(left for left in found if not isinstance(left, bool))
            return type(condition)(of=rest) if rest else not decided
        case _:
            return of_atom(condition)


def predicate(condition: Condition, of_atom: Callable[[Atom], Callable[[T], bool]]) -> Callable[[T], bool]:
    """Return a test of *condition*, built from the tests that *of_atom* returns.

    >>> busy = predicate(Not(of=Happens(event="stop")), lambda atom: lambda event: event == atom.event)
    >>> busy("start"), busy("stop")
    (True, False)
    """
    match condition:
        case Not(of=inner):
            negated = predicate(inner, of_atom)
            return lambda at: not negated(at)
        case All(of=parts):
            if not parts:
                return lambda at: True  # noqa: ARG005  (an empty conjunction)
            first, rest = predicate(parts[0], of_atom), predicate(All(of=parts[1:]), of_atom)
            return (lambda at: first(at) and rest(at)) if parts[1:] else first
        case Some(of=parts):
            some = [predicate(part, of_atom) for part in parts]
            return lambda at: any(part(at) for part in some)
        case _:
            return of_atom(condition)
