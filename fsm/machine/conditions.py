"""Conditions on the step at an instant, and on the states before and after it.

Instants are defined in :mod:`fsm.machine.claims`, and :mod:`fsm.language.build.grammar` parses conditions.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TypeAlias, TypeVar

T = TypeVar("T")


@dataclass(frozen=True, slots=True, kw_only=True)
class In:
    """The state is one of ``states`` after the step or, if ``before`` is true, before the step."""

    states: frozenset[str]
    before: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Emits:
    """``output`` is emitted.  An empty ``output`` means that nothing is emitted."""

    output: str


@dataclass(frozen=True, slots=True, kw_only=True)
class EmitsOnly:
    """All instants of the step together emit exactly ``outputs``, in this order.

    If ``among`` is set, outputs that are not in it are ignored.
    """

    outputs: tuple[str, ...]
    among: frozenset[str] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Happens:
    """The step is ``event``.  For a call, this means that the call takes effect or begins."""

    event: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Replies:
    """A call to ``event`` returns the reply ``reply``. If ``reply`` is ``error``, any error matches."""

    event: str
    reply: str


@dataclass(frozen=True, slots=True, kw_only=True)
class StateChanges:
    pass


@dataclass(frozen=True, slots=True, kw_only=True)
class SilentOn:
    """The specification is silent about ``event`` in the state after the step."""

    event: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Not:
    of: Condition


@dataclass(frozen=True, slots=True, kw_only=True)
class All:
    of: tuple[Condition, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Some:
    of: tuple[Condition, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class At:
    """In a system, all of ``copies`` are in one of ``states`` or, if ``every`` is false, at least one copy is."""

    part: str
    copies: tuple[int, ...]
    states: frozenset[str]
    every: bool = True
    before: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class StepEmits:
    """The step emits ``output``.  The condition is true at every instant of the step."""

    output: str


Atom: TypeAlias = In | Emits | EmitsOnly | Happens | Replies | StateChanges | SilentOn | At | StepEmits
Condition: TypeAlias = Atom | Not | All | Some


@dataclass(frozen=True, slots=True, kw_only=True)
class WrittenCondition:
    text: str
    means: Condition


Sequence: TypeAlias = tuple[WrittenCondition, ...]
"""Conditions that hold one after another.  Other instants may come between them."""


def atoms(condition: Condition) -> Iterator[Atom]:
    """Yield the atoms of *condition*, from left to right.

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
    """Simplify *condition* for a step in which *event* happens.

    >>> left_at(Some(of=(Not(of=Happens(event="stop")), Emits(output=""))), "stop")
    Some(of=(Emits(output=''),))
    >>> left_at(Some(of=(Not(of=Happens(event="stop")), Emits(output=""))), "start")
    True
    """

    def left(atom: Atom) -> Condition | bool:
        if isinstance(atom, Happens):
            return atom.event == event
        return False if isinstance(atom, Replies) and atom.event != event else atom

    return with_atoms(condition, left)


def with_atoms(condition: Condition, of_atom: Callable[[Atom], Condition | bool]) -> Condition | bool:
    """Replace each atom of *condition* with the result of *of_atom*, and simplify if a result is a boolean."""
    match condition:
        case Not(of=inner):
            left = with_atoms(inner, of_atom)
            return not left if isinstance(left, bool) else Not(of=left)
        case All(of=parts) | Some(of=parts):
            decided = isinstance(condition, Some)  # one true part is enough for Some, and one false part for All
            found = [with_atoms(part, of_atom) for part in parts]
            if decided in found:
                return decided
            rest = tuple(left for left in found if not isinstance(left, bool))
            return type(condition)(of=rest) if rest else not decided
        case _:
            return of_atom(condition)


def mapped(condition: Condition, of_atom: Callable[[Atom], Condition]) -> Condition:
    match condition:
        case Not(of=inner):
            return Not(of=mapped(inner, of_atom))
        case All(of=parts) | Some(of=parts):
            return type(condition)(of=tuple(mapped(part, of_atom) for part in parts))
        case _:
            return of_atom(condition)


def predicate(condition: Condition, of_atom: Callable[[Atom], Callable[[T], bool]]) -> Callable[[T], bool]:
    """Return a predicate for *condition*, using *of_atom* to get the predicates for its atoms.

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
