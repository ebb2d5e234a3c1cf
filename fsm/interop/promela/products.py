"""What a claim adds to the machine in Promela: a few variables, and what each step does to them.

Each of the machine's steps remains one step of SPIN's, so that both count the same
states and find counterexamples of the same length.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import ClassVar, NamedTuple

from fsm.interop.promela.steps import ExportedStep, busy, silent
from fsm.interop.promela.vocabulary import INSTANT, NOWHERE, PromelaNames, size
from fsm.machine.conditions import Condition
from fsm.property.claims import Idempotent


class Option(NamedTuple):
    """The guard of a step beyond its source state, and its effect beyond the next state."""

    guard: str
    effect: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Product:
    """The machine without a claim; its subclasses add one.

    ``cases`` is the number of parts of the claim, each of which is checked separately;
    a ``lasting`` claim is about infinite runs.
    """

    words: PromelaNames
    lasting: ClassVar[bool] = False

    @property
    def cases(self) -> int:
        return 1

    def declarations(self) -> Iterable[str]:
        """Macros and variables."""
        return ()

    def options(self, step: ExportedStep) -> Iterable[Option]:
        """The ways of taking *step*."""
        return (self._option(step),)

    def others(self) -> Iterable[str]:
        """Options that are no step of the machine."""
        return ()

    def _option(self, step: ExportedStep, *effects: str, guard: str = "") -> Option:
        """The step, if *guard* holds, with further *effects*."""
        return Option(guard, "; ".join([f"state = {self.words.states[step.way.to]}", *effects]))


BROKEN = 255
"""The value of a variable once the claim is broken."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SequenceProduct(Product):
    """A run through one of ``sequences``: ``held`` conditions have held one after the other, and ``until`` resets that."""

    sequences: tuple[tuple[Condition, ...], ...]
    until: Condition | None = None

    @property
    def cases(self) -> int:
        return len(self.sequences)

    def declarations(self) -> Iterator[str]:
        until = self.words.expression(self.until) if self.until else "false"
        yield f"#define UNTIL({INSTANT}) {until}"
        yield f"#define BROKEN {BROKEN}"
        if self.cases > 1:
            yield from ("#ifndef CASE", "#define CASE 1", "#endif")
        for number, sequence in enumerate(self.sequences, 1):
            if self.cases > 1:
                yield f"{'#if' if number == 1 else '#elif'} CASE == {number}"
            for place, condition in enumerate(sequence, 1):
                yield f"#define HOLDS_{place}({INSTANT}) {self.words.expression(condition)}"
            yield f"#define NEXT(held, {INSTANT}) {_next(len(sequence))}"
        if self.cases > 1:
            yield "#endif"
        yield f"byte held = NEXT(0, {self.words.first()});"

    def options(self, step: ExportedStep) -> Iterator[Option]:
        yield self._option(step, *(f"held = NEXT(held, {instant})" for instant in self.words.instants(step)))

    def others(self) -> Iterator[str]:
        yield ":: held == BROKEN -> assert(false)"


def _next(length: int) -> str:
    """The number of conditions of *length* that have held after an instant: at most one more."""
    last = length - 1
    parts = [f"held == BROKEN || (held == {last} && HOLDS_{length}({INSTANT})) -> BROKEN"]
    if last:
        parts.append(f"UNTIL({INSTANT}) -> (HOLDS_1({INSTANT}) -> 1 : 0)")
    parts += [f"held == {place} && HOLDS_{place + 1}({INSTANT}) -> {place + 1}" for place in range(last)]
    return f"({' : ('.join(parts)} : held{')' * len(parts)}"


@dataclass(frozen=True, slots=True, kw_only=True)
class IdempotenceProduct(Product):
    """The call of the claim, and another right after it.

    ``stage`` 1 is the first call in progress, 2 the moment between the two, 3 the
    second in progress; ``between`` is the state at 2.
    """

    claim: Idempotent

    def declarations(self) -> Iterator[str]:
        once = self.words.expression(self.claim.once.means) if self.claim.once else "true"
        yield f"#define ONCE({INSTANT}) {once}"
        yield f"#define BROKEN {BROKEN}"
        yield "byte stage = 0;"
        yield f"{size(len(self.words.states))} between = {NOWHERE};"

    def options(self, step: ExportedStep) -> Iterator[Option]:
        yield self._option(step, guard="stage == 0")
        if step.event == self.claim.event:
            if step.ends or step.source not in busy(self.words.machine):
                yield from self._called(step, "stage == 1" if step.ends else "stage == 0", first=True)
            yield from self._called(step, "stage == 3" if step.ends else "stage == 2", first=False)

    def _called(self, step: ExportedStep, guard: str, *, first: bool) -> Iterator[Option]:
        to = self.words.states[step.way.to]
        if first and step.way.begins:
            yield self._option(step, "stage = 1", guard=guard)
        elif first and step.reply == "ok":
            once = f"ONCE({self.words.instants(step)[-1]})"
            yield self._option(step, "stage = 2", f"between = {to}", guard=f"{guard} && {once}")
        elif not first and (step.way.emits or (step.reply != "ok" and not step.way.begins)):
            yield self._option(step, "stage = BROKEN", guard=guard)
        elif not first and step.way.begins:
            yield self._option(step, "stage = 3", guard=guard)
        elif not first:
            good = f"(between == {to} -> 0 : BROKEN)"
            yield self._option(step, f"stage = {good}", f"between = {NOWHERE}", guard=guard)

    def others(self) -> Iterator[str]:
        for state in silent(self.words.machine, self.claim.event):
            yield f":: d_step {{ stage == 2 && state == {self.words.states[state]} -> stage = BROKEN }}"
        yield ":: stage == BROKEN -> assert(false)"
