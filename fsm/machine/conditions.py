"""Conditions on the step at an instant, and on the states before and after it.

Instants are defined in :mod:`fsm.machine.claims`, and :mod:`fsm.language.build.grammar` parses conditions.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import TypeAlias, TypeVar

from fsm.machine.terms import (
    COMPARISONS,
    NEGATED,
    Comparator,
    Range,
    Term,
    Values,
    Variable,
    bounds,
    evaluator,
    names_in,
    substituted,
    term_text,
)

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


@dataclass(frozen=True, slots=True, kw_only=True)
class Compare:
    """A comparison of two terms, after the step.  Guards of outcomes consist of such comparisons.

    In a system, ``copies`` are the copies whose variables it reads.
    """

    comparison: Comparator
    left: Term
    right: Term
    copies: tuple[int, ...] = ()

    @property
    def names(self) -> tuple[str, ...]:
        return (*names_in(self.left), *names_in(self.right))

    def text(self, known: Mapping[str, Variable]) -> str:
        left, right = term_text(self.left, self.right, known), term_text(self.right, self.left, known)
        return f"{left} {self.comparison} {right}"


Atom: TypeAlias = In | Emits | EmitsOnly | Happens | Replies | StateChanges | SilentOn | At | StepEmits | Compare
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


def comparisons_in(condition: Condition) -> Iterator[Compare]:
    return (atom for atom in atoms(condition) if isinstance(atom, Compare))


def compares_data(condition: Condition) -> bool:
    return any(True for _ in comparisons_in(condition))


def all_of(conditions: Iterable[Condition]) -> Condition:
    found = tuple(conditions)
    return found[0] if len(found) == 1 else All(of=found)


def any_of(conditions: Iterable[Condition]) -> Condition:
    found = tuple(conditions)
    return found[0] if len(found) == 1 else Some(of=found)


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


def comparisons_over(
    condition: Condition, of: Callable[[str], Term], copies: tuple[int, ...] | None = None
) -> Condition:
    """Return *condition* with the names in comparisons replaced by the results of *of*, and with *copies* if given."""

    def left(atom: Atom) -> Condition:
        if not isinstance(atom, Compare):
            return atom
        compared = replace(atom, left=substituted(atom.left, of), right=substituted(atom.right, of))
        return compared if copies is None else replace(compared, copies=copies)

    return mapped(condition, left)


def certainly(condition: Condition, *, negated: bool = False) -> Condition:
    """Return a condition without negated comparisons, which holds only if *condition* holds for all unknown values.

    If *negated* is true, *condition* is negated first.  A comparison with an unknown value does not hold.

    >>> from fsm.machine.terms import Constant, Read
    >>> few = Compare(comparison="<", left=Read(name="n"), right=Constant(value=2))
    >>> certainly(Not(of=few)).comparison
    '>='
    """
    match condition:
        case Not(of=inner):
            return certainly(inner, negated=not negated)
        case All(of=parts) | Some(of=parts):
            kind = All if isinstance(condition, All) != negated else Some
            return kind(of=tuple(certainly(part, negated=negated) for part in parts))
        case Compare() if negated:
            return replace(condition, comparison=NEGATED[condition.comparison])
        case _:
            return Not(of=condition) if negated else condition


def possibly(condition: Condition) -> Condition:
    """Return a condition that holds if *condition* holds for some unknown values, or if this cannot be decided."""
    return Not(of=certainly(condition, negated=True))


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


def truth(condition: Condition, places: Mapping[str, int]) -> Callable[[Values], bool | None]:
    """Return a function that evaluates a condition which consists of comparisons.

    *places* maps the names in *condition* to indices of the values.  The result is ``None`` if it depends on unknown
    values.

    >>> from fsm.machine.terms import Constant, Read
    >>> few = truth(Compare(comparison="<", left=Read(name="n"), right=Constant(value=2)), {"n": 0})
    >>> few((1,)), few((2,)), few((None,))
    (True, False, None)
    """
    match condition:
        case Not(of=inner):
            negated = truth(inner, places)
            return lambda values: None if (found := negated(values)) is None else not found
        case All(of=parts) | Some(of=parts):
            decided = isinstance(condition, Some)  # one true part is enough for Some, and one false part for All
            tests = [truth(part, places) for part in parts]

            def of_parts(values: Values) -> bool | None:
                unknown = False
                for test in tests:
                    found = test(values)
                    if found is decided:
                        return decided
                    unknown = unknown or found is None
                return None if unknown else not decided

            return of_parts
        case Compare(comparison=comparison, left=left, right=right):
            compare, of_left, of_right = COMPARISONS[comparison], evaluator(left, places), evaluator(right, places)

            def compared(values: Values) -> bool | None:
                one, other = of_left(values), of_right(values)
                return None if one is None or other is None else compare(one, other)

            return compared
        case _:
            raise TypeError(f"{condition} is not about data")


def truth_within(condition: Condition, box: Mapping[str, Range]) -> bool | None:
    """Return the value of a condition on data if it is the same for all values in *box*, and ``None`` otherwise.

    The result may also be ``None`` if the value is the same, but not if each range contains only one value.
    """
    match condition:
        case Not(of=inner):
            return None if (found := truth_within(inner, box)) is None else not found
        case All(of=parts) | Some(of=parts):
            decided = isinstance(condition, Some)
            results = [truth_within(part, box) for part in parts]
            return decided if decided in results else None if None in results else not decided
        case Compare(comparison=comparison, left=left, right=right):
            (low, high), (least, most) = bounds(left, box), bounds(right, box)
            corners = {COMPARISONS[comparison](one, other) for one in (low, high) for other in (least, most)}
            apart = comparison not in {"==", "!="} or high < least or most < low or (low == high and least == most)
            return corners.pop() if len(corners) == 1 and apart else None
        case _:
            raise TypeError(f"{condition} is not about data")
