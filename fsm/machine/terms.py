"""Variables of machines, and the terms that read them.

Values are integers: a truth value is 0 or 1, and a word is its index in the list of words.  An unknown value is
``None``.  It makes every term that reads it unknown, and so a comparison may be true, false or unknown (Kleene, 1938).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from operator import add, eq, ge, gt, le, lt, ne, sub
from typing import Final, Literal, TypeAlias, assert_never

Value: TypeAlias = "int | None"
Values: TypeAlias = "tuple[Value, ...]"
Argument: TypeAlias = "int | bool | str"
"""A value as people write it."""

Comparator: TypeAlias = Literal["==", "!=", "<", "<=", ">", ">="]
Operator: TypeAlias = Literal["+", "-", "min", "max"]

COMPARISONS: Final[Mapping[str, Callable[[int, int], bool]]] = {
    "==": eq,
    "!=": ne,
    "<": lt,
    "<=": le,
    ">": gt,
    ">=": ge,
}
NEGATED: Final[Mapping[Comparator, Comparator]] = {
    "==": "!=",
    "!=": "==",
    "<": ">=",
    ">=": "<",
    ">": "<=",
    "<=": ">",
}
OPERATORS: Final[Mapping[str, Callable[[int, int], int]]] = {"+": add, "-": sub, "min": min, "max": max}


@dataclass(frozen=True, slots=True, kw_only=True)
class Variable:
    """A variable of a machine, or an argument of an event, with values from ``low`` to ``high``.

    ``words`` are its values if it is a word, and ``truth`` tells whether it is a truth value.  ``beyond`` states what
    happens beyond the range: *error* means that no value is there, *saturates* that the nearest value in the range
    is taken, and *scope* that such values exist, although the checker does not search them.  A ``shown`` variable is
    visible to observers.
    """

    name: str
    about: str = ""
    low: int = 0
    high: int = 1
    words: tuple[str, ...] = ()
    truth: bool = False
    initial: int = 0
    beyond: Literal["error", "saturates", "scope"] = "error"
    shown: bool = False

    @property
    def number(self) -> bool:
        return not (self.words or self.truth)

    def has(self, value: Value) -> bool:
        """Check whether *value* may occur: it is unknown, in the range, or beyond a range that is only a scope."""
        return self.beyond == "scope" or self.in_range(value)

    def in_range(self, value: Value) -> bool:
        return value is None or self.low <= value <= self.high

    def kept(self, value: Value) -> Value:
        return max(self.low, min(self.high, value)) if value is not None and self.beyond == "saturates" else value

    def encoded(self, given: object) -> int:
        """Return *given* as an integer, or raise ``ValueError`` if it has the wrong type.

        >>> Variable(name="method", words=("card", "cash"), high=1).encoded("cash")
        1
        """
        if self.words and given in self.words:
            return self.words.index(str(given))
        if (self.truth and isinstance(given, bool)) or (
            self.number and isinstance(given, int) and not isinstance(given, bool)
        ):
            return int(given)
        raise ValueError(f"{self.name} is {given!r}, but it must be {self.domain}")

    def read(self, text: str) -> Argument:
        """Return the value that is written as *text*, or raise ``ValueError`` if it has the wrong type."""
        truths = {"true": True, "false": False} if self.truth else {}
        value = int(text) if self.number and text.removeprefix("-").isdecimal() else truths.get(text, text)
        return self.written(self.encoded(value))

    def written(self, value: int) -> Argument:
        """Return *value* as people write it."""
        return self.words[value] if self.words else bool(value) if self.truth else value

    def text(self, value: Value) -> str:
        return "?" if value is None else word(self.written(value))

    @property
    def domain(self) -> str:
        """The possible values, for error messages.

        >>> Variable(name="paid", truth=True).domain, Variable(name="attempts", high=3).domain
        ('true or false', 'an integer from 0 to 3')
        """
        if self.words:
            return f"one of {', '.join(self.words)}"
        if self.truth:
            return "true or false"
        return "an integer" if self.beyond == "scope" else f"an integer from {self.low} to {self.high}"


def word(value: Argument) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


@dataclass(frozen=True, slots=True, kw_only=True)
class Constant:
    value: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Read:
    """The value of the variable or argument ``name``."""

    name: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Combined:
    operator: Operator
    left: Term
    right: Term


Term: TypeAlias = Constant | Read | Combined


@dataclass(frozen=True, slots=True, kw_only=True)
class DataUpdate:
    """The new value of ``variable``, as written in ``text``."""

    variable: str
    term: Term
    text: str


def names_in(term: Term) -> Iterator[str]:
    """Yield the names of the variables and arguments in *term*, from left to right."""
    return (leaf.name for leaf in _leaves(term) if isinstance(leaf, Read))


def constants_in(term: Term) -> Iterator[int]:
    """Yield the constants in *term*, from left to right."""
    return (leaf.value for leaf in _leaves(term) if isinstance(leaf, Constant))


def substituted(term: Term, of: Callable[[str], Term]) -> Term:
    """Return *term* with each name replaced by the result of *of*."""
    match term:
        case Read(name=name):
            return of(name)
        case Combined(operator=operator, left=left, right=right):
            return Combined(operator=operator, left=substituted(left, of), right=substituted(right, of))
        case _:
            return term


def _leaves(term: Term) -> Iterator[Constant | Read]:
    if isinstance(term, Combined):
        yield from _leaves(term.left)
        yield from _leaves(term.right)
    else:
        yield term


def evaluator(term: Term, places: Mapping[str, int]) -> Callable[[Values], Value]:
    """Return a function that evaluates *term*.  *places* maps the names in *term* to indices of the values.

    >>> evaluator(Combined(operator="+", left=Read(name="n"), right=Constant(value=2)), {"n": 0})((3,))
    5
    """
    match term:
        case Constant(value=constant):
            return lambda _: constant
        case Read(name=name):
            place = places[name]
            return lambda values: values[place]
        case Combined(operator=operator, left=left, right=right):
            combine, of_left, of_right = OPERATORS[operator], evaluator(left, places), evaluator(right, places)

            def combined(values: Values) -> Value:
                one, other = of_left(values), of_right(values)
                return None if one is None or other is None else combine(one, other)

            return combined
        case _:
            assert_never(term)


Range: TypeAlias = tuple[int, int]


def bounds(term: Term, box: Mapping[str, Range]) -> Range:
    """Return bounds for the value of *term* if each name in it has a value in its range in *box*."""
    match term:
        case Constant(value=value):
            return value, value
        case Read(name=name):
            return box[name]
        case Combined(operator=operator, left=left, right=right):
            (low, high), (least, most) = bounds(left, box), bounds(right, box)
            if operator == "-":
                return low - most, high - least
            combine = OPERATORS[operator]
            return combine(low, least), combine(high, most)
        case _:
            assert_never(term)


def assignments(variables: Iterable[Variable], values: Values) -> tuple[str, ...]:
    """Format *values* of *variables*: ``attempts = 2``."""
    return tuple(f"{each.name} = {each.text(value)}" for each, value in zip(variables, values, strict=True))


def term_text(term: Term, beside: Term, known: Mapping[str, Variable]) -> str:
    """Format *term*, which is compared with the term *beside*. *known* has the variables and arguments by name."""
    match term:
        case Constant(value=value):
            return known[beside.name].text(value) if isinstance(beside, Read) else str(value)
        case Read(name=name):
            return name
        case Combined(operator="+" | "-" as operator, left=left, right=Combined(operator="+" | "-") as right):
            # There are no parentheses in terms: a - (b + c) is a - b - c.
            last: Operator = right.operator if operator == "+" else "-" if right.operator == "+" else "+"
            less = Combined(operator=operator, left=left, right=right.left)
            return term_text(Combined(operator=last, left=less, right=right.right), beside, known)
        case Combined(operator=operator, left=left, right=right):
            one, other = term_text(left, left, known), term_text(right, right, known)
            return f"{operator}({one}, {other})" if operator in {"min", "max"} else f"{one} {operator} {other}"
        case _:
            assert_never(term)
