"""Choose the arguments of events, and the values of variables, that tests should try.

A guard is most likely wrong at its boundary. Tests therefore try the values at and beside the places where the two
terms of a comparison become equal (boundary value analysis), both where the comparison decides the outcome and where
another one does. They also try values with which a small mistake in an update, such as a wrong sign, makes a difference
(weak mutation testing; W. E. Howden, 1982).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import cache, cached_property
from itertools import islice, pairwise
from operator import itemgetter
from typing import Final, NamedTuple, TypeAlias

from fsm.machine.conditions import All, Compare, Condition, Not, Some, comparisons_in, predicate
from fsm.machine.guards import DataEffects, TooManyValuesError, solution
from fsm.machine.table import Table, Way
from fsm.machine.terms import (
    COMPARISONS,
    OPERATORS,
    Argument,
    Combined,
    Constant,
    Operator,
    Read,
    Term,
    Value,
    Values,
    Variable,
    constants_in,
    evaluator,
)

FEW: Final = 8  # a word with at most this number of values has each of them
MOST_TRIED: Final = 2000  # maximum number of combinations of arguments to consider in a state

FAR: Final = 2  # differences from a boundary that are at least this large count as equal

_SIGNS: Final[tuple[Operator, ...]] = ("-", "+")

NOT_FOUND: Final = "not found within the scope"


class GuardSide(NamedTuple):
    """A comparison in the guards of a cell, by its number, and whether it is true."""

    row: int
    state: int
    number: int
    holds: bool


Goal: TypeAlias = tuple[object, ...]
Arguments: TypeAlias = tuple[tuple[str, Argument], ...]  # names with values


class Compared(NamedTuple):
    """A comparison in a cell, and the difference of its terms for the values followed by the arguments."""

    of: Compare
    difference: Callable[[Values], Value]


class Boundaries:
    """The comparisons in the cells of *table*, whose rows and states have no data.

    >>> from fsm.language.library import load
    >>> from fsm.machine.table import tabulate
    >>> table = tabulate(load("examples/models/safe.toml"))
    >>> list(Boundaries(table, table.data).arguments(table.row["enter"], table.initial, (0,)))
    [(('code', 0),), (('code', 1),), (('code', 2),), (('code', 3),)]
    """

    def __init__(self, table: Table, data: DataEffects) -> None:
        self._table, self._data = table, data
        self.compared = cache(self._comparisons)
        self._relevant = cache(self._relevant_comparisons)
        self._deciding = cache(self._decisive)
        self._variants = cache(self._mistaken)
        self._difference = cache(self._subtraction)

    def arguments(self, row: int, state: int, values: Values) -> Iterator[Arguments]:
        """Yield the arguments that tests try for an event: all boundaries, and some on each side of each comparison."""
        relevant, met = self._relevant(row, state), set[object]()
        for given in islice(self._combinations(row, relevant, values, ()), MOST_TRIED):
            near = tuple(_near(each.difference(values + given)) for each in relevant)
            holds = tuple(value and value // abs(value) for value in near)
            new = {near, *((place, value, holds) for place, value in enumerate(given))}
            if not new <= met:
                met |= new
                pairs = zip(self._data.arguments[row], given, strict=True)
                yield tuple((each.name, each.written(value)) for each, value in pairs if value is not None)

    def _relevant_comparisons(self, row: int, state: int) -> tuple[Compared, ...]:
        cells = [(row, state)]
        if row in self._table.end:  # the arguments also matter when the call ends
            cells += [(self._table.end[row], each) for each, _ in enumerate(self._table.states)]
        return tuple({each.of: each for cell in cells for each in self.compared(*cell)}.values())

    def _combinations(self, row: int, relevant: Sequence[Compared], values: Values, given: Values) -> Iterator[Values]:
        if len(given) == len(self._data.arguments[row]):
            yield given
            return
        for value in self._values_to_try(self._data.arguments[row], relevant, values, given):
            yield from self._combinations(row, relevant, values, (*given, value))

    def _values_to_try(
        self, variables: Sequence[Variable], relevant: Sequence[Compared], values: Values, given: Values
    ) -> list[int]:
        variable = variables[len(given)]
        low, high = variable.low, variable.high
        found = {low, min(low + 1, high), high}
        if not variable.number and high - low < FEW:
            found.update(range(low, high + 1))
        rest = (None,) * (len(variables) - len(given) - 1)
        for each in (each for each in relevant if variable.name in each.of.names):
            at = {value: each.difference((*values, *given, value, *rest)) for value in sorted(found)}
            roots = {*constants_in(each.of.left), *constants_in(each.of.right), *_roots(at)}
            found.update(root + beside for root in roots for beside in (-1, 0, 1))
        possible = (each for each in found if variable.has(each) and (variable.number or low <= each <= high))
        return sorted(possible, key=lambda each: (abs(each), each))

    def goals(self, row: int, state: int, frame: Values, way: Way | None, after: Values) -> Iterator[Goal]:
        """Yield what a test exercises in a cell if the values and arguments are *frame*, and *after* the values then.

        A :class:`GuardSide` is a goal. The others are outcomes, possible mistakes, and values at or beside a boundary.
        """
        index = way.index if way else -1
        changed = [value != each.initial for each, value in zip(self._data.variables, frame, strict=False)]
        yield from (("way", row, state, index, place, each) for place, each in enumerate(changed or [False]))
        yield from (goal for goal, _ in self.mistakes(row, frame, way, after))
        found = [(each.of, each.difference(frame)) for each in self.compared(row, state)]
        holds = tuple(value is not None and COMPARISONS[each.comparison](value, 0) for each, value in found)
        deciding = self._deciding(row, state, holds)
        for number, (of, value) in enumerate(found):
            if value is not None:
                since = tuple(
                    each for each, read in zip(changed, self._data.variables, strict=True) if read.name in of.names
                )
                yield "near", row, state, number, _near(value), number in deciding, since
                yield GuardSide(row, state, number, holds[number])

    def mistakes(self, row: int, frame: Values, way: Way | None, after: Values) -> Iterator[tuple[Goal, Values]]:
        """Yield the values that follow if *way* has a mistake in the update of one variable, with the mistake."""
        updates = {each.variable: each.term for each in way.updates} if way else {}
        for place, variable in enumerate(self._data.variables if way else ()):
            for number, mistaken in enumerate(self._variants(variable.name, updates.get(variable.name), row)):
                value = variable.kept(mistaken(frame))
                if None not in {value, after[place]} and value != after[place] and variable.has(value):
                    yield ("mistake", way and way.index, place, number), (*after[:place], value, *after[place + 1 :])

    def distance(self, of: Condition | None, row: int, values: Values, *, holds: bool = True) -> int:
        """Return how far *values* are from those for which *of* holds, or does not hold if *holds* is false."""
        match of:
            case Not(of=inner):
                return self.distance(inner, row, values, holds=not holds)
            case All(of=parts) | Some(of=parts):
                each = [self.distance(part, row, values, holds=holds) for part in parts]
                return sum(each) if isinstance(of, All) is holds else min(each, default=0)
            case Compare(comparison=comparison):
                frame = values + (None,) * len(self._data.arguments[row])
                found = self._difference(of, row)(frame)
                return 0 if found is None or COMPARISONS[comparison](found, 0) is holds else max(abs(found), 1)
            case _:
                return 0

    @cached_property
    def sides(self) -> tuple[GuardSide, ...]:
        return tuple(
            GuardSide(row, state, number, holds)
            for row, state in self._table.defined()
            for number, _ in enumerate(self.compared(row, state))
            for holds in (True, False)
        )

    def unmet(self, side: GuardSide) -> str:
        """Return the reason why the plan is not on *side*: no declared values are there, or it has not found any."""
        known = (*self._data.variables, *self._data.arguments[side.row])
        of = self.compared(side.row, side.state)[side.number].of
        ranges = {each.name: (each.low, each.high) for each in known}
        try:
            found = solution(of if side.holds else Not(of=of), ranges)
        except TooManyValuesError:
            return NOT_FOUND
        return NOT_FOUND if found is not None else "impossible, because no declared values satisfy it"

    def text(self, side: GuardSide) -> str:
        known = {each.name: each for each in (*self._data.variables, *self._data.arguments[side.row])}
        of = self.compared(side.row, side.state)[side.number].of
        return of.text(known) if side.holds else f"not {of.text(known)}"

    def _comparisons(self, row: int, state: int) -> tuple[Compared, ...]:
        guards = [way.when for way in self._table.step(state, row) or () if way.when]
        found = dict.fromkeys(each for guard in guards for each in comparisons_in(guard))
        return tuple(Compared(each, self._difference(each, row)) for each in found)

    def _subtraction(self, of: Compare, row: int) -> Callable[[Values], Value]:
        return evaluator(Combined(operator="-", left=of.left, right=of.right), self._data.places(row))

    def _mistaken(self, name: str, term: Term | None, row: int) -> list[Callable[[Values], Value]]:
        own, one = Read(name=name), Constant(value=1)
        less, more = (Combined(operator=sign, left=term or own, right=one) for sign in _SIGNS)
        terms: list[Term] = [own, less, more]
        return [evaluator(each, self._data.places(row)) for each in (*terms, *_mistakes_in(term or own))]

    def _decisive(self, row: int, state: int, holds: tuple[bool, ...]) -> frozenset[int]:
        """Return the numbers of the comparisons without which other outcomes would be possible."""
        numbers = {each.of: number for number, each in enumerate(self.compared(row, state))}
        ways = self._table.step(state, row) or ()
        tests = [predicate(way.when, lambda atom: itemgetter(numbers[atom])) for way in ways if way.when]  # type: ignore[index]  # guards consist of comparisons
        now = [test(holds) for test in tests]
        flipped = [(*holds[:at], not holds[at], *holds[at + 1 :]) for at in range(len(holds))]
        return frozenset(at for at, truths in enumerate(flipped) if [test(truths) for test in tests] != now)


def _mistakes_in(term: Term) -> Iterator[Term]:
    """Yield *term* with one wrong operator."""
    if isinstance(term, Combined):
        yield from (replace(term, operator=each) for each in OPERATORS if each != term.operator)  # type: ignore[arg-type]
        yield from (replace(term, left=each) for each in _mistakes_in(term.left))
        yield from (replace(term, right=each) for each in _mistakes_in(term.right))


def _roots(differences: dict[int, Value]) -> Iterator[int]:
    """Yield the values at which a straight line through neighbouring *differences* crosses zero, rounded down."""
    known = [(value, found) for value, found in differences.items() if found is not None]
    for (value, found), (other, later) in pairwise(known):
        if later != found:
            yield value - found * (other - value) // (later - found)


def _near(difference: Value) -> Value:
    return None if difference is None else max(-FAR, min(FAR, difference))
