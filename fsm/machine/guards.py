"""The effect of data: which ways of a cell are possible, and the values after them.

Every engine uses :class:`DataEffects`.  It computes with the values that it is given, also beyond the declared ranges.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from functools import cache
from itertools import product
from typing import TYPE_CHECKING, Final, Protocol, TypeVar

from fsm.machine.conditions import All, Compare, Condition, Not, Some, comparisons_in, predicate, truth, truth_within
from fsm.machine.terms import DataUpdate, Range, Term, Values, Variable, assignments, bounds, evaluator, names_in

if TYPE_CHECKING:
    from fsm.machine import Event, Machine, Outcome


MOST_BOXES: Final = 50_000
FEW_BOXES: Final = 1_000


class Guarded(Protocol):
    """The condition and the updates of an outcome."""

    @property
    def when(self) -> Condition | None: ...

    @property
    def impossible(self) -> bool: ...

    @property
    def updates(self) -> tuple[DataUpdate, ...]: ...


E = TypeVar("E", bound=Guarded)


def arguments_read(event: Event, ways: Iterable[Outcome] | None = None) -> set[str]:
    """Return the arguments of *event* that *ways* read, or any of its outcomes if *ways* is not given."""
    ways = event.outcomes() if ways is None else ways
    names = (name for way in ways for name in names_of(way.when.means if way.when else None, way.updates))
    return event.arguments.keys() & names


def arguments_read_later(event: Event) -> set[str]:
    """Return the arguments that the end of a call reads."""
    return arguments_read(event, [way for end in event.ends.values() for way in end.outcomes])


def has_data(machine: Machine) -> bool:
    return bool(machine.data) or any(event.arguments for event in machine.events.values())


class DataEffects:
    """The variables in *data*, with the values of an entity as a tuple in their order, and what *events* do to them.

    >>> from fsm.language.library import load
    >>> from fsm.machine.table import tabulate
    >>> table = tabulate(load("examples/models/safe.toml"))
    >>> data, row = table.data, table.row["enter"]
    >>> data.texts(data.initial)
    ('failures = 0',)
    >>> [(way.name, after) for way, after in data.outcomes(table.step(0, row), row, data.initial, (7,))]
    [('wrong', (1,))]
    """

    def __init__(self, data: Mapping[str, Variable], events: Iterable[Event]) -> None:
        self.variables = tuple(data.values())
        self.initial: Values = tuple(each.initial for each in self.variables)
        self.unknown: Values = (None,) * len(self.variables)
        self._place = {name: place for place, name in enumerate(data)}
        self.arguments = tuple(tuple(event.arguments.values()) for event in events for _ in range(1 + bool(event.ends)))
        """The arguments of the event of each row of the table."""
        self._compiled = cache(self._compile)

    def outcomes(
        self, ways: Sequence[E] | None, row: int, values: Values, arguments: Values
    ) -> tuple[tuple[E, Values], ...] | None:
        """Return those of *ways* that are possible, each with the values after it.

        The result is ``None`` if the specification is silent: *ways* is ``None``, an argument is outside its range, or
        no guard covers the values.  Unknown values may be any values.  If perhaps no guard covers them, the result is
        ``None``, too.
        """
        if ways is None or not all(map(Variable.has, self.arguments[row], arguments)):
            return None
        frame = values + arguments
        found = [(way, after) for way in ways if (after := self._after(way, row, frame)) is not None]
        if None in frame and not any(self._compiled(way.when, way.updates, row)[0](frame) for way, _ in found):
            uncovered = Not(of=Some(of=tuple(way.when for way in ways if way.when)))
            found = [] if self.possible(uncovered, row, frame) else found
        return tuple((way, after) for way, after in found if not way.impossible) if found or not ways else None

    def possible(self, condition: Condition, row: int, frame: Values = ()) -> bool:
        """Check whether values, also beyond a scope, may satisfy *condition*.  *frame* has those that are known.

        The result is also true if this cannot be decided soon.
        """
        names = (*self.variables, *self.arguments[row])
        try:
            return solution(condition, _box(names, frame or (None,) * len(names)), FEW_BOXES) is not None
        except TooManyValuesError:
            return True

    def _after(self, way: Guarded, row: int, frame: Values) -> Values | None:
        values = frame[: len(self.variables)]
        if way.when is None and not way.updates:
            return values
        guard, updates = self._compiled(way.when, way.updates, row)
        certain = guard(frame)
        if way.when and not certain and (certain is False or not self.possible(way.when, row, frame)):
            return None
        after = list(values)
        for place, evaluate in updates:
            after[place] = self.variables[place].kept(evaluate(frame))
        return tuple(after)

    def _compile(
        self, when: Condition | None, updates: Sequence[DataUpdate], row: int
    ) -> tuple[Callable[[Values], bool | None], tuple[tuple[int, Callable[[Values], int | None]], ...]]:
        places = self.places(row)
        compiled = ((self._place[each.variable], evaluator(each.term, places)) for each in updates)
        return truth(when or All(of=()), places), tuple(compiled)

    def places(self, row: int) -> dict[str, int]:
        """Return the indices of the variables and of the arguments of *row* in the values followed by the arguments."""
        names = (each.name for each in (*self.variables, *self.arguments[row]))
        return {name: place for place, name in enumerate(names)}

    def combinations(self, row: int, ways: Sequence[Guarded]) -> tuple[Values, ...]:
        """Return the arguments that the event of *row* may have.  Arguments that none of *ways* reads are unknown."""
        read = {name for way in ways for name in names_of(way.when, way.updates)}
        ranges = (range(each.low, each.high + 1) if each.name in read else (None,) for each in self.arguments[row])
        return tuple(product(*ranges))

    def test(self, condition: Condition) -> Callable[[Values], bool | None]:
        """Return a function that tests *condition*; the result is ``None`` if it may depend on unknown values."""
        known = truth(condition, self._place)

        def test(values: Values) -> bool | None:
            found = known(values)
            return truth_within(condition, _box(self.variables, values)) if found is None else found

        return test

    def in_range(self, values: Values) -> bool:
        return all(map(Variable.in_range, self.variables, values))

    def texts(self, values: Values) -> tuple[str, ...]:
        return assignments(self.variables, values)

    def given(self, row: int, arguments: Values) -> tuple[str, ...]:
        """Format the arguments of the event of *row*, except unknown ones."""
        known = [(each, value) for each, value in zip(self.arguments[row], arguments, strict=True) if value is not None]
        return assignments((each for each, _ in known), tuple(value for _, value in known))

    @property
    def scope(self) -> tuple[str, ...]:
        """The ranges of the variables and arguments that may have other values."""
        known = dict.fromkeys((*self.variables, *(each for arguments in self.arguments for each in arguments)))
        return tuple(f"{each.name} from {each.low} to {each.high}" for each in known if each.beyond == "scope")


def names_of(when: Condition | None, updates: Iterable[DataUpdate]) -> Iterator[str]:
    """Yield the names of the variables and arguments that a guard and updates read."""
    for each in comparisons_in(when) if when else ():
        yield from each.names
    for update in updates:
        yield from names_in(update.term)


def encoded(event: Event, given: Mapping[str, object]) -> Values:
    """Return the arguments in *given* in the order of the event; a missing argument is unknown.

    Raise ``ValueError`` for an argument that the event does not have, or that has the wrong type.
    """
    for name in given:
        if name not in event.arguments:
            known = ", ".join(event.arguments) or "none"
            raise ValueError(f"{event.name} has no argument {name!r}; arguments: {known}")
    return tuple(each.encoded(given[name]) if name in given else None for name, each in event.arguments.items())


def may_agree(one: Collection[Values], other: Collection[Values]) -> bool:
    """Check whether two events, each with one of some arguments, may have the same ones.

    Without arguments, they have.

    >>> may_agree([(1,), (2,)], [(3,)]), may_agree([(1,)], [(None,)])
    (False, True)
    """
    return not (one and other) or any(
        all(a is None or b is None or a == b for a, b in zip(first, second, strict=True))
        for first, second in product(one, other)
    )


_ANY: Final = (-(10**18), 10**18)


def _box(variables: Iterable[Variable], values: Values) -> dict[str, Range]:
    return {
        each.name: (value, value) if value is not None else _ANY if each.beyond == "scope" else (each.low, each.high)
        for each, value in zip(variables, values, strict=True)
    }


MOST_SIGNS: Final = 6


class TooManyValuesError(Exception):
    """The values in a range are too many to decide whether some of them satisfy a condition."""


def solution(condition: Condition, ranges: Mapping[str, Range], most: int = MOST_BOXES) -> dict[str, int] | None:
    """Return the first values in *ranges* that satisfy *condition*, or ``None`` if there are none.

    Ranges are halved until the condition has the same value in all of a range.  Raise :class:`TooManyValuesError` if
    this needs more than *most* parts.

    >>> from fsm.machine.terms import Constant, Read
    >>> late = Compare(comparison=">", left=Read(name="n"), right=Constant(value=2))
    >>> solution(late, {"n": (0, 9)}), solution(late, {"n": (0, 2)})
    ({'n': 3}, None)
    """
    if not consistent(condition):
        return None
    names = dict.fromkeys(name for each in comparisons_in(condition) for name in each.names)
    todo = [{name: ranges[name] for name in names}]
    for number in range(most):
        if not todo or (number == most // 100 and not consistent(condition, ranges)):
            return None
        box = todo.pop()
        found = truth_within(condition, box)
        if found:
            return {name: low for name, (low, _) in box.items()}
        if found is None:
            todo += _halves(box)
    raise TooManyValuesError


def _halves(box: dict[str, Range]) -> Iterator[dict[str, Range]]:
    widest = max(box, key=lambda name: box[name][1] - box[name][0])
    low, high = box[widest]
    middle = (low + high) // 2
    yield {**box, widest: (middle + 1, high)}
    yield {**box, widest: (low, middle)}


def consistent(condition: Condition, ranges: Mapping[str, Range] | None = None) -> bool:
    """Check whether the condition can hold if each compared pair of terms may be less, equal or greater independently.

    This decides at once, whatever the ranges, that ``a < b``, ``a == b`` and ``a > b`` cover everything.  With
    *ranges*, it also decides that ``a + b < c`` and ``a + b > 9`` exclude each other if ``c`` is at most 9.
    """
    pairs = list(dict.fromkeys((each.left, each.right) for each in comparisons_in(condition)))
    if len(pairs) > MOST_SIGNS:
        return True

    def holds(each: object) -> Callable[[Sequence[int]], bool]:
        if not isinstance(each, Compare):
            raise TypeError(f"{each} is not about data")
        place, signs = pairs.index((each.left, each.right)), _SIGNS[each.comparison]
        return lambda found: found[place] in signs

    test = predicate(condition, holds)
    found = filter(test, product((-1, 0, 1), repeat=len(pairs)))
    return any(ranges is None or _in_order(pairs, signs, ranges) for signs in found)


def _in_order(pairs: Sequence[tuple[Term, Term]], signs: Sequence[int], box: Mapping[str, Range]) -> bool:
    """Check whether terms may compare as *signs* say if they take the values in their bounds independently."""
    found = {term: bounds(term, box) for pair in pairs for term in pair}
    for pair, sign in [*zip(pairs, signs, strict=True)] * len(pairs):
        less, more = pair[::-1] if sign > 0 else pair
        (low, high), (least, most) = found[less], found[more]
        found[less] = (low if sign else max(low, least), min(high, most - abs(sign)))
        found[more] = (max(least, low + abs(sign)), most if sign else min(most, high))
    return all(low <= high for low, high in found.values())


_SIGNS: Final = {"==": (0,), "!=": (-1, 1), "<": (-1,), "<=": (-1, 0), ">": (1,), ">=": (0, 1)}
