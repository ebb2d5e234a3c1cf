"""Translate conditions on data into formulas of another library, such as arrays of truth values."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, assert_never

from fsm.machine.conditions import All, Compare, Condition, Not, Some
from fsm.machine.terms import COMPARISONS, Combined, Constant, Read, Term

Formula = Any
"""A term or a condition in the other library, or a Python value."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FormulaWriter:
    """The operations of the other library.  ``operators`` are those of terms."""

    operators: Mapping[str, Callable[[Formula, Formula], Formula]]
    negated: Callable[[Formula], Formula]
    every: Callable[..., Formula]
    some: Callable[..., Formula]

    def condition(self, condition: Condition, frame: Mapping[str, Formula]) -> Formula:
        """Return *condition* with the values that *frame* has for the names in it."""
        match condition:
            case Not(of=inner):
                return self.negated(self.condition(inner, frame))
            case All(of=parts):
                return self.every(*(self.condition(each, frame) for each in parts))
            case Some(of=parts):
                return self.some(*(self.condition(each, frame) for each in parts))
            case Compare(comparison=comparison, left=left, right=right):
                return COMPARISONS[comparison](self.term(left, frame), self.term(right, frame))
            case _:
                raise TypeError(f"{condition} is not about data")

    def term(self, term: Term, frame: Mapping[str, Formula]) -> Formula:
        match term:
            case Constant(value=value):
                return value
            case Read(name=name):
                return frame[name]
            case Combined(operator=operator, left=left, right=right):
                return self.operators[operator](self.term(left, frame), self.term(right, frame))
            case _:
                assert_never(term)
