"""What a claim adds to the machine in Promela: a few variables, and what each step does to them.

Each of the machine's steps remains one step of SPIN's, so that both count the same
states and find counterexamples of the same length.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import NamedTuple, Protocol

from fsm.interop.promela.steps import ExportedStep, busy, silent
from fsm.interop.promela.vocabulary import INSTANT, NOWHERE, PromelaNames, size
from fsm.machine.conditions import Condition
from fsm.property.claims import Idempotent


class Option(NamedTuple):
    """The guard of a step beyond its source state, and its effect beyond the next state."""

    guard: str
    effect: str


class Product(Protocol):
    """A claim and the machine."""

    @property
    def cases(self) -> int:
        """Number of parts of the claim; each is checked separately."""

    @property
    def lasting(self) -> bool:
        """Whether it is about infinite runs."""

    def declarations(self) -> Iterable[str]:
        """Macros and variables."""

    def options(self, step: ExportedStep) -> Iterable[Option]:
        """The ways of taking *step*."""

    def others(self) -> Iterable[str]:
        """Options that are no step of the machine."""


BROKEN = 255
"""The value of a variable once the claim is broken."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Alone:
    """The machine without a claim."""

    words: PromelaNames
    cases: int = 1
    lasting: bool = False

    def declarations(self) -> Iterable[str]:
        return ()

    def options(self, step: ExportedStep) -> Iterator[Option]:
        yield Option("", f"state = {self.words.states[step.target]}")

    def others(self) -> Iterable[str]:
        return ()


@dataclass(frozen=True, slots=True, kw_only=True)
class SequenceProduct:
    """A run through one of ``sequences``; ``until`` resets its progress.

    ``held`` is the number of conditions that have held, one after the other.
    """

    words: PromelaNames
    sequences: tuple[tuple[Condition, ...], ...]
    until: Condition | None = None
    lasting: bool = False

    @property
    def cases(self) -> int:
        return len(self.sequences)

    def declarations(self) -> Iterator[str]:
        """The update of ``held`` at an instant, for the sequence that is selected."""
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
        """The step, with ``held`` updated by each of its instants."""
        held = [f"held = NEXT(held, {instant})" for instant in self.words.instants(step)]
        yield Option("", "; ".join([f"state = {self.words.states[step.target]}", *held]))

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
class IdempotenceProduct:
    """The call of the claim, and another right after it.

    ``stage`` 1 is the first call in progress, 2 the moment between the two, 3 the
    second in progress; ``between`` is the state at 2.
    """

    words: PromelaNames
    claim: Idempotent
    cases: int = 1
    lasting: bool = False

    def declarations(self) -> Iterator[str]:
        """The condition of the first call, and the stage of the two calls."""
        once = self.words.expression(self.claim.once.means) if self.claim.once else "true"
        yield f"#define ONCE({INSTANT}) {once}"
        yield f"#define BROKEN {BROKEN}"
        yield "byte stage = 0;"
        yield f"{size(len(self.words.states))} between = {NOWHERE};"

    def options(self, step: ExportedStep) -> Iterator[Option]:
        """The step as any other, as the first call, and as the second."""
        to = self.words.states[step.target]
        yield Option("stage == 0", f"state = {to}")
        if step.event == self.claim.event and step.ends:
            yield from self._called(step, "stage == 1", first=True)
            yield from self._called(step, "stage == 3", first=False)
        if step.event == self.claim.event and not step.ends:
            if step.source not in busy(self.words.machine):
                yield from self._called(step, "stage == 0", first=True)
            yield from self._called(step, "stage == 2", first=False)

    def _called(self, step: ExportedStep, guard: str, *, first: bool) -> Iterator[Option]:
        to = self.words.states[step.target]
        if first and step.begins:
            yield Option(guard, f"state = {to}; stage = 1")
        elif first and step.reply == "ok":
            once = f"ONCE({self.words.instants(step)[-1]})"
            yield Option(f"{guard} && {once}", f"state = {to}; stage = 2; between = {to}")
        elif not first and (step.emits or (step.reply != "ok" and not step.begins)):
            yield Option(guard, f"state = {to}; stage = BROKEN")
        elif not first and step.begins:
            yield Option(guard, f"state = {to}; stage = 3")
        elif not first:
            good = f"(between == {to} -> 0 : BROKEN)"
            yield Option(guard, f"state = {to}; stage = {good}; between = {NOWHERE}")

    def others(self) -> Iterator[str]:
        """A second call where the specification is silent, and the end of the search."""
        for state in silent(self.words.machine, self.claim.event):
            yield f":: d_step {{ stage == 2 && state == {self.words.states[state]} -> stage = BROKEN }}"
        yield ":: stage == BROKEN -> assert(false)"


@dataclass(frozen=True, slots=True, kw_only=True)
class FollowsProduct:
    """The outputs as events of another machine: ``belief`` has a bit for each state that the other may be in.

    ``initial`` is its initial value.  ``leads`` has for each output the states that it
    leads to from each state, ``hears`` the same for each signal that both have.  All
    are sets of states as bits, closed under hidden events.
    """

    words: PromelaNames
    initial: int
    leads: dict[str, tuple[int, ...]]
    hears: dict[str, tuple[int, ...]]
    cases: int = 1
    lasting: bool = False

    def declarations(self) -> Iterator[str]:
        """The states that each output leads to."""
        after = {self.words.outputs[output]: masks for output, masks in self.leads.items()}
        after |= {self.words.events[event]: masks for event, masks in self.hears.items()}
        for name, masks in after.items():
            parts = [f"((belief & {1 << bit}) -> {mask} : 0)" for bit, mask in enumerate(masks) if mask]
            yield f"#define AFTER_{name} ({' | '.join(parts) or '0'})"
        yield f"int belief = {self.initial};"

    def options(self, step: ExportedStep) -> Iterator[Option]:
        """The step, with ``belief`` updated by each signal and output that the other knows."""
        outputs = [self.words.events[step.event]] if step.event in self.hears and not step.ends else []
        outputs += [self.words.outputs[output] for output in step.emits if output in self.leads]
        beliefs = [f"belief = AFTER_{name}" for name in outputs]
        yield Option("", "; ".join([f"state = {self.words.states[step.target]}", *beliefs]))

    def others(self) -> Iterator[str]:
        yield ":: belief == 0 -> assert(false)"
