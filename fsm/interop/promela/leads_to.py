"""Leads-to in Promela: infinite runs, with fairness by acceptance cycles.

In a run that breaks the claim the target is due for ever from some instant on.  SPIN guesses that instant
(``committed``), and from then on takes only steps without the target; each fairness condition is then waited for in
``turn``, one after the other, and each round ends at an accepting label.

The turn of a weakly fair event is over when it is taken or is disabled.  The turn of a strongly fair one is over when
it is taken, or was guessed to be disabled for ever (``spared``), after which no step may enable it.  A run that stops
is one whose rounds continue without steps.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import ClassVar

from fsm.interop.promela.products import Option, Product
from fsm.interop.promela.steps import ExportedStep
from fsm.interop.promela.vocabulary import INSTANT, CannotExportError, size
from fsm.property.claims import Fair, LeadsTo

MOST = 30
"""Largest number of strongly fair events: each has a bit."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LeadsToProduct(Product):
    """The machine, whether the target is due, and the rounds of fairness."""

    claim: LeadsTo
    taken: tuple[ExportedStep, ...]
    lasting: ClassVar[bool] = True

    def __post_init__(self) -> None:
        if len(self.claim.fair) > MOST:
            raise CannotExportError(f"more than {MOST} things are fair: state the property with fewer")

    def declarations(self) -> Iterator[str]:
        words = self.words
        yield f"#define SOURCE({INSTANT}) {words.expression(self.claim.source.means)}"
        yield f"#define TARGET({INSTANT}) {words.expression(self.claim.target.means)}"
        yield f"#define DUE(due, {INSTANT}) ((due || SOURCE({INSTANT})) && !(TARGET({INSTANT})))"
        spoilt = []
        for number, fair in enumerate(self.claim.fair):
            where = [step.source for step in self.taken if _is(fair, step)]
            yield f"#define POSSIBLE_{number}(is) {words.any_of(where, 'is')} /* {_title(fair)} */"
            spoilt += [f"((spared & {1 << number}) && POSSIBLE_{number}(is))"] if fair.strongly else []
        yield f"#define SPOILT(is) ({' || '.join(spoilt) or 'false'})"
        yield f"bool due = DUE(0, {words.first()});"
        yield from ("#ifdef SAFETY", "#define committed false", "#else", "bool committed = false;", "#endif")
        yield f"{size(len(self.claim.fair))} turn = 0;"
        yield "int spared = 0;"

    def options(self, step: ExportedStep) -> Iterator[Option]:
        instants = self.words.instants(step)
        kept = [*(f"!(TARGET({instant}))" for instant in instants), f"!(SPOILT({self.words.states[step.way.to]}))"]
        turns = [
            f"turn = (committed && turn == {number} -> {number + 1} : turn)"
            for number, fair in enumerate(self.claim.fair)
            if _is(fair, step)
        ]
        due = (f"due = DUE(due, {instant})" for instant in instants)
        yield self._option(step, *due, *turns, guard=f"(!committed || ({' && '.join(kept)}))")

    def others(self) -> Iterator[str]:
        """The guesses, the turns that pass without a step, and the end of each round."""
        yield "#ifndef SAFETY"
        yield ":: d_step { due && !committed -> committed = true }"
        for number, fair in enumerate(self.claim.fair):
            bit, next_ = 1 << number, f"turn = {number + 1}"
            if fair.strongly:
                possible = f"POSSIBLE_{number}(state)"
                yield f":: d_step {{ committed && !(spared & {bit}) && !({possible}) -> spared = spared | {bit} }}"
                yield f":: d_step {{ committed && turn == {number} && (spared & {bit}) -> {next_} }}"
            else:
                yield f":: d_step {{ committed && turn == {number} && !(POSSIBLE_{number}(state)) -> {next_} }}"
        yield from (f":: committed && turn == {len(self.claim.fair)} ->", "accept_round:", "   turn = 0", "#endif")


def _is(fair: Fair, step: ExportedStep) -> bool:
    return (fair.event, fair.ends) == (step.event, step.ends) and fair.outcome in {"", step.way.name}


def _title(fair: Fair) -> str:
    how = "strongly" if fair.strongly else "weakly"
    return f"{fair.event}{' ends' if fair.ends else ''}{'/' if fair.outcome else ''}{fair.outcome}: {how} fair"
