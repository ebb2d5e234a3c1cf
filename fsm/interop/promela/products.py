"""What a claim adds to the machine in Promela: a few variables, and what each step does to them.

Each of the machine's steps remains one step of SPIN's, so that both count the same
states and find counterexamples of the same length.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import reduce
from operator import or_
from typing import ClassVar, Final, NamedTuple

from fsm.interop.promela.steps import ExportedStep, busy, silent
from fsm.interop.promela.vocabulary import INSTANT, NOWHERE, CannotExportError, PromelaNames, size
from fsm.machine import Event, Machine, outcomes
from fsm.machine.conditions import Condition
from fsm.property.claims import Fair, Idempotent, LeadsTo

MOST: Final = 30
"""Largest number of things that have a bit each."""


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


@dataclass(frozen=True, slots=True, kw_only=True)
class LeadsToProduct(Product):
    """The machine, whether the target is due, and the rounds of fairness: infinite runs, decided by acceptance cycles.

    In a run that breaks the claim the target is due for ever from some instant on.  SPIN guesses that instant
    (``committed``), and from then on takes only steps without the target; each fairness condition is then waited for in
    ``turn``, one after the other, and each round ends at an accepting label.

    The turn of a weakly fair event is over when it is taken or is disabled.  The turn of a strongly fair one is over
    when it is taken, or was guessed to be disabled for ever (``spared``), after which no step may enable it.  A run that
    stops is one whose rounds continue without steps.
    """

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


@dataclass(frozen=True, slots=True, kw_only=True)
class FollowsProduct(Product):
    """The machine with ``belief``, a variable with a bit for each state that the other may be in: a subset construction.

    It is independent of :mod:`fsm.monitor`, and does not support calls of the other that take time.

    ``initial`` is its initial value.  ``after`` has the states to which each output, and each signal that both have,
    leads from each state, by its name in Promela.  All are sets of states as bits, closed under hidden events.
    """

    initial: int
    after: Mapping[str, tuple[int, ...]]

    def declarations(self) -> Iterator[str]:
        for name, masks in self.after.items():
            parts = [f"((belief & {1 << bit}) -> {mask} : 0)" for bit, mask in enumerate(masks) if mask]
            yield f"#define AFTER_{name} ({' | '.join(parts) or '0'})"
        yield f"int belief = {self.initial};"

    def options(self, step: ExportedStep) -> Iterator[Option]:
        happens = [] if step.ends else [self.words.events[step.event]]
        names = (*happens, *(self.words.outputs[output] for output in step.way.emits))
        yield self._option(step, *(f"belief = AFTER_{name}" for name in names if name in self.after))

    def others(self) -> Iterator[str]:
        yield ":: belief == 0 -> assert(false)"


def follows_product(words: PromelaNames, other: Machine) -> FollowsProduct:
    """The product of the machine of *words* with the states that *other* may be in, given its outputs."""
    if len(other.states) > MOST:
        what = f"'{other.name}' has more than {MOST} states, and each needs a bit"
        raise CannotExportError(f"{what}: follow a smaller machine")
    names = {name: event for event in other.events.values() for name in (event.name, event.rpc) if name}
    known = {output: names[output] for output in words.outputs if output in names}
    for output, event in known.items():
        if event.ends:
            what = f"'{output}' is a call of '{other.name}' that takes time"
            raise CannotExportError(f"{what}: follow a machine of signals")
    signals = [name for name, event in words.machine.events.items() if event.kind == "signal"]
    shared = {name: event for name, event in other.events.items() if event.kind == "signal" and name in signals}
    bits = {state: 1 << bit for bit, state in enumerate(other.states)}
    closed = {state: sum(bits[to] for to in _reached(other, state)) for state in other.states}

    def leads(event: Event) -> tuple[int, ...]:
        return tuple(reduce(or_, (closed[to] for to in _after(other, event, state)), 0) for state in other.states)

    after = {words.outputs[output]: leads(event) for output, event in known.items()}
    after |= {words.events[name]: leads(event) for name, event in shared.items()}
    return FollowsProduct(words=words, initial=closed[other.initial], after=after)


def _after(other: Machine, event: Event, state: str) -> frozenset[str]:
    """The states that *event* may lead to from *state*; a call without a known reply may also have had no effect."""
    ways = outcomes(event.cells[state], state, event.kind)
    if ways is None:
        return frozenset(other.states)
    found = frozenset(way.to for way in ways)
    return found | {state} if event.kind == "call" else found


def _reached(other: Machine, state: str) -> set[str]:
    """The states that *other* may reach from *state* by hidden events."""
    hidden = [event for event in other.events.values() if event.kind == "hidden"]
    found: set[str] = set()
    fresh = {state}
    while fresh:
        found |= fresh
        fresh = {to for here in fresh for event in hidden for to in _after(other, event, here)} - found
    return found
