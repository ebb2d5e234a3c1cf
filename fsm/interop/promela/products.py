"""Products of a machine and a claim in Promela: extra variables, and how each step updates them.

Each step of the machine remains one step in SPIN.  SPIN and :mod:`fsm.checker` therefore count the same states and find
counterexamples of the same length.
"""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import reduce
from operator import or_
from typing import Final

from fsm.interop.promela.vocabulary import (
    INSTANT,
    NOWHERE,
    CannotExportError,
    ExportedStep,
    PromelaNames,
    silent,
    size,
    steps,
)
from fsm.machine import Event, Machine, outcomes
from fsm.machine.conditions import Condition
from fsm.machine.property.claims import Fair, Idempotent, LeadsTo

BROKEN: Final = 255  # value of a variable once the claim is violated
MOST: Final = 30  # maximum number of items that take one bit each


@dataclass(frozen=True, slots=True, kw_only=True)
class Product:
    """A machine combined with a claim.  ``others`` are options that are not steps of the machine.

    ``cases`` is the number of parts of the claim, each of which is checked separately.  ``lasting`` is true if the
    claim is about infinite runs.
    """

    options: Callable[[ExportedStep], Iterable[str]]
    declarations: tuple[str, ...] = ()
    others: tuple[str, ...] = ()
    cases: int = 1
    lasting: bool = False


def option(words: PromelaNames, step: ExportedStep, *effects: str, guard: str = "") -> str:
    """Return the option that takes *step*, with an additional *guard* and additional *effects*."""
    asked, calls = words.calls(step)
    when = " && ".join([f"state == {words.states[step.source]}", *asked, *([guard] if guard else [])])
    changes = (f"{words.begun[event]} = {number}" for event, number in calls.items())
    effect = "; ".join([f"state = {words.states[step.way.to]}", *changes, *effects])
    title = "".join(each if each.isalnum() or each in " /_.,:-" else "?" for each in step.title)
    return f':: d_step {{ {when} -> {effect}; printf("{title}\\n") }}'


def sequence_product(
    words: PromelaNames, sequences: tuple[tuple[Condition, ...], ...], until: Condition | None = None
) -> Product:
    """Return the product for runs through *sequences*.  ``held`` counts conditions met in order.  *until* resets it."""
    several = len(sequences) > 1
    lines = [f"#define UNTIL({INSTANT}) {words.expression(until) if until else 'false'}", f"#define BROKEN {BROKEN}"]
    lines += ["#ifndef CASE", "#define CASE 1", "#endif"] if several else []
    for number, sequence in enumerate(sequences, 1):
        lines += [f"{'#if' if number == 1 else '#elif'} CASE == {number}"] if several else []
        for place, condition in enumerate(sequence, 1):
            lines.append(f"#define HOLDS_{place}({INSTANT}) {words.expression(condition)}")
        lines.append(f"#define NEXT(held, {INSTANT}) {_next(len(sequence))}")
    lines += ["#endif"] if several else []
    lines.append(f"byte held = NEXT(0, {words.first()});")

    def options(step: ExportedStep) -> Iterator[str]:
        yield option(words, step, *(f"held = NEXT(held, {instant})" for instant in words.instants(step)))

    others = (":: held == BROKEN -> assert(false)",)
    return Product(options=options, declarations=tuple(lines), others=others, cases=len(sequences))


def _next(length: int) -> str:
    """Return an expression for the number of conditions, out of *length*, that have held by the end of an instant.

    The number grows by at most one per instant.
    """
    last = length - 1
    parts = [f"held == BROKEN || (held == {last} && HOLDS_{length}({INSTANT})) -> BROKEN"]
    if last:
        parts.append(f"UNTIL({INSTANT}) -> (HOLDS_1({INSTANT}) -> 1 : 0)")
    parts += [f"held == {place} && HOLDS_{place + 1}({INSTANT}) -> {place + 1}" for place in range(last)]
    return f"({' : ('.join(parts)} : held{')' * len(parts)}"


def idempotence_product(words: PromelaNames, claim: Idempotent) -> Product:
    """Return the product for a call and its repetition.

    ``stage`` is 1 after the first call, which leads to the state ``between``, and 2 while the second is in progress.
    """

    def options(step: ExportedStep) -> Iterator[str]:
        yield option(words, step, guard="stage == 0")
        if step.event == claim.event:
            yield from _call_options(words, step, "stage == 0", first=True)
            yield from _call_options(words, step, "stage == 2" if step.ends else "stage == 1", first=False)

    unspecified = [words.states[state] for state in silent(words.machine, claim.event)]
    return Product(
        options=options,
        declarations=(
            f"#define ONCE({INSTANT}) {words.expression(claim.once.means) if claim.once else 'true'}",
            f"#define BROKEN {BROKEN}",
            "byte stage = 0;",
            f"{size(len(words.states))} between = {NOWHERE};",
        ),
        others=(
            *(f":: d_step {{ stage == 1 && state == {state} -> stage = BROKEN }}" for state in unspecified),
            ":: stage == BROKEN -> assert(false)",
        ),
    )


def _call_options(words: PromelaNames, step: ExportedStep, guard: str, *, first: bool) -> Iterator[str]:
    to = words.states[step.way.to]
    if first and step.reply == "ok" and not step.way.begins:
        once = f"ONCE({words.instants(step)[-1]})"
        idle = [f"!{begun}" for event, begun in words.begun.items() if event != step.event or not step.ends]
        yield option(words, step, "stage = 1", f"between = {to}", guard=" && ".join([guard, *idle, once]))
    elif not first and (step.way.emits or (step.reply != "ok" and not step.way.begins)):
        yield option(words, step, "stage = BROKEN", guard=guard)
    elif not first and step.way.begins:
        yield option(words, step, "stage = 2", guard=guard)
    elif not first:
        good = f"(between == {to} -> 0 : BROKEN)"
        yield option(words, step, f"stage = {good}", f"between = {NOWHERE}", guard=guard)


def leads_to_product(words: PromelaNames, claim: LeadsTo) -> Product:
    """Return the product with a bit for whether the target is due, and with rounds of fairness.

    Infinite runs are decided by acceptance cycles.  In a run that violates the claim, the target is due forever from
    some instant on.  SPIN guesses that instant (``committed``) and from then on takes only steps that do not meet the
    target.  Each fairness condition is then awaited in its ``turn``, and each round ends at an accepting label.  The
    turn of a weakly fair event is over when it is taken or disabled.  The turn of a strongly fair event is over when it
    is taken, or when it was guessed to be disabled forever (``spared``), after which no step may enable it.  A run that
    stops is one whose rounds continue without steps.
    """
    if len(claim.fair) > MOST:
        raise CannotExportError(f"more than {MOST} things are fair: state the property with fewer")
    taken = tuple(steps(words.machine, words.codes))
    macros, rounds = [], list[str]()
    for number, fair in enumerate(claim.fair):
        where = [step.source for step in taken if _concerns(fair, step)]
        # The beginning of a second call and an unspecified end count as possible, although no step takes them.
        possible = words.any_of(where, "is") if fair.outcome or not fair.ends else "true"
        possible += " && begun" if fair.ends else ""
        title = f"{fair.event}{' ends' if fair.ends else ''}{'/' if fair.outcome else ''}{fair.outcome}"
        title += f": {'strongly' if fair.strongly else 'weakly'} fair"
        macros.append(f"#define POSSIBLE_{number}(is, begun) ({possible}) /* {title} */")
        bit, disabled = 1 << number, f"!(POSSIBLE_{number}(state, {words.begun.get(fair.event, 0)}))"
        if fair.strongly:
            rounds.append(f":: d_step {{ committed && !(spared & {bit}) && {disabled} -> spared = spared | {bit} }}")
        over = f"(spared & {bit})" if fair.strongly else disabled
        rounds.append(f":: d_step {{ committed && turn == {number} && {over} -> turn = {number + 1} }}")

    def options(step: ExportedStep) -> Iterator[str]:
        instants = words.instants(step)
        kept = [f"!(TARGET({instant}))" for instant in instants]
        _, calls = words.calls(step)
        for number, fair in enumerate(claim.fair):
            if fair.strongly:
                begun = calls.get(fair.event, words.begun.get(fair.event, 0))
                possible = f"POSSIBLE_{number}({words.states[step.way.to]}, {begun})"
                kept.append(f"!((spared & {1 << number}) && {possible})")
        turns = [
            f"turn = (committed && turn == {number} -> {number + 1} : turn)"
            for number, fair in enumerate(claim.fair)
            if _concerns(fair, step)
        ]
        due = (f"due = DUE(due, {instant})" for instant in instants)
        yield option(words, step, *due, *turns, guard=f"(!committed || ({' && '.join(kept)}))")

    return Product(
        options=options,
        declarations=(
            f"#define SOURCE({INSTANT}) {words.expression(claim.source.means)}",
            f"#define TARGET({INSTANT}) {words.expression(claim.target.means)}",
            f"#define DUE(due, {INSTANT}) ((due || SOURCE({INSTANT})) && !(TARGET({INSTANT})))",
            *macros,
            f"bool due = DUE(0, {words.first()});",
            *("#ifdef SAFETY", "#define committed false", "#else", "bool committed = false;", "#endif"),
            f"{size(len(claim.fair))} turn = 0;",
            "int spared = 0;",
        ),
        # Choices besides steps: commit to a violation, spare an event, skip its turn, and finish a round (accepting).
        others=(
            *("#ifndef SAFETY", ":: d_step { due && !committed -> committed = true }", *rounds),
            *(f":: committed && turn == {len(claim.fair)} ->", "accept_round:", "   turn = 0", "#endif"),
        ),
        lasting=True,
    )


def _concerns(fair: Fair, step: ExportedStep) -> bool:
    return (fair.event, fair.ends) == (step.event, step.ends) and fair.outcome in {"", step.way.name}


def follows_product(words: PromelaNames, other: Machine) -> Product:
    """Return the product with ``belief``, a bit set of the states that *other* may be in (subset construction).

    The outputs of the machine and the signals that both machines have are events of *other*.  Sets of states are closed
    under hidden events.  The construction is independent of :mod:`fsm.monitor` and does not support calls of *other*
    that take time.
    """
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
    after = {words.outputs[output]: event for output, event in known.items()}
    after |= {words.events[name]: event for name, event in shared.items()}

    def leads(event: Event) -> str:
        masks = {state: reduce(or_, (closed[to] for to in _after(other, event, state)), 0) for state in other.states}
        return " | ".join(f"((belief & {bits[state]}) -> {mask} : 0)" for state, mask in masks.items() if mask) or "0"

    def options(step: ExportedStep) -> Iterator[str]:
        happens = [] if step.ends else [words.events[step.event]]
        seen = (*happens, *(words.outputs[output] for output in step.way.emits))
        yield option(words, step, *(f"belief = AFTER_{name}" for name in seen if name in after))

    macros = (f"#define AFTER_{name} ({leads(event)})" for name, event in after.items())
    return Product(
        options=options,
        declarations=(*macros, f"int belief = {closed[other.initial]};"),
        others=(":: belief == 0 -> assert(false)",),
    )


def _after(other: Machine, event: Event, state: str) -> frozenset[str]:
    ways = outcomes(event.cells[state], state, event.kind)
    return frozenset(other.states) if ways is None else frozenset(way.to for way in ways)


def _reached(other: Machine, state: str) -> set[str]:
    hidden = [event for event in other.events.values() if event.kind == "hidden"]
    found: set[str] = set()
    fresh = {state}
    while fresh:
        found |= fresh
        fresh = {to for here in fresh for event in hidden for to in _after(other, event, here)} - found
    return found
