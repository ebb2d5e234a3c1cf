"""The errors that an author could make in the conditions and updates of the outcomes of a cell."""

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import Final, TypeAlias

from fsm.machine import Outcome
from fsm.machine.conditions import All, Compare, Condition, Not, comparisons_in, mapped
from fsm.machine.terms import Combined, Constant, DataUpdate, Read, Term, Variable, names_in, term_text

CellWays: TypeAlias = tuple[Outcome, ...]
ComparisonEdit: TypeAlias = Callable[[Compare], Condition]

_SHIFTS: Final = (1, -1)


@dataclass(frozen=True, slots=True, kw_only=True)
class DataMutants:
    """Changes the conditions and updates of outcomes, which read the variables in ``data`` and ``arguments``."""

    data: Mapping[str, Variable]
    arguments: Mapping[str, Variable]

    @property
    def known(self) -> Mapping[str, Variable]:
        return {**self.data, **self.arguments}

    def changes(self, ways: CellWays) -> Iterator[tuple[str, Outcome | None, CellWays]]:
        """Yield each error: its name, the outcome that has it, or ``None`` if all have it, and *ways* with the error.

        Many errors in only one condition leave gaps or overlaps, which the language rejects. So each error is also
        made in all conditions.
        """
        for name, edit in self._edits(ways):
            yield name, None, tuple(_edited(way, edit) for way in ways)
        for index, way in enumerate(ways):
            edits = ((name, _edited(way, edit)) for name, edit in self._edits([way]))
            for name, instead in (*edits, *self._conjuncts(way), *self._updates(way)):
                yield name, way, (*ways[:index], instead, *ways[index + 1 :])

    def _edits(self, ways: Iterable[Outcome]) -> Iterator[tuple[str, ComparisonEdit]]:
        found = (each for way in ways if way.when for each in comparisons_in(way.when.means))
        for comparison in dict.fromkeys(found):
            yield from self._comparisons(comparison)

    def _comparisons(self, of: Compare) -> Iterator[tuple[str, ComparisonEdit]]:
        yield f"not {of.text(self.known)}", lambda each: Not(of=each) if each == of else each
        shifts = _SHIFTS if all(self.known[name].number for name in of.names) else ()
        others = [replace(of, right=_shifted(of.right, shift)) for shift in shifts]
        others += [replace(of, left=term) for term in self._swaps(of.left)]
        others += [replace(of, right=term) for term in self._swaps(of.right)]
        for other in others:
            yield f"{other.text(self.known)} instead of {of.text(self.known)}", partial(_instead, of, other)

    def _conjuncts(self, way: Outcome) -> Iterator[tuple[str, Outcome]]:
        if way.when is None or not isinstance(way.when.means, All):
            return
        parts = way.when.means.of
        for number, _ in enumerate(parts):
            rest = All(of=(*parts[:number], *parts[number + 1 :]))
            yield f"drops condition {number + 1}", replace(way, when=replace(way.when, means=rest))

    def _updates(self, way: Outcome) -> Iterator[tuple[str, Outcome]]:
        for number, update in enumerate(way.updates):
            variable, before, after = self.known[update.variable], way.updates[:number], way.updates[number + 1 :]
            yield f"does not set {variable.name}", replace(way, updates=(*before, *after))
            terms = [*self._swaps(update.term)]
            if variable.number:
                terms += [_shifted(update.term, shift) for shift in _SHIFTS]
            elif isinstance(update.term, Constant):
                values = range(variable.low, variable.high + 1)
                terms += [Constant(value=value) for value in values if value != update.term.value]
            for term in terms:
                text = term_text(term, Read(name=variable.name), self.known)
                other = DataUpdate(variable=variable.name, term=term, text=text)
                yield f"sets {variable.name} to {text}", replace(way, updates=(*before, other, *after))

    def _swaps(self, term: Term) -> Iterator[Term]:
        """Yield *term* with another variable or argument of the same type in place of an argument that it reads."""
        for name in dict.fromkeys(each for each in names_in(term) if each in self.arguments):
            for other, each in self.known.items():
                if other != name and (each.words, each.truth) == (self.known[name].words, self.known[name].truth):
                    yield _renamed(term, name, other)


def _edited(way: Outcome, edit: ComparisonEdit) -> Outcome:
    return replace(way, when=replace(way.when, means=mapped(way.when.means, edit))) if way.when else way  # type: ignore[arg-type]


def _instead(of: Compare, other: Compare, each: Compare) -> Compare:
    """Return *each* with the terms of *other* if it compares those of *of*."""
    same = (each.left, each.right) == (of.left, of.right)
    return replace(each, left=other.left, right=other.right) if same else each


def _shifted(term: Term, shift: int) -> Term:
    if isinstance(term, Constant):
        return Constant(value=term.value + shift)
    return Combined(operator="+" if shift > 0 else "-", left=term, right=Constant(value=1))


def _renamed(term: Term, name: str, other: str) -> Term:
    match term:
        case Combined(left=left, right=right):
            return replace(term, left=_renamed(left, name, other), right=_renamed(right, name, other))
        case Read(name=known) if known == name:
            return Read(name=other)
        case _:
            return term
