"""Export a machine, with or without a property, to Promela, the language of the model checker SPIN.

A single process repeatedly takes one of the machine's steps.  Each step is a ``d_step``, so that SPIN stores only the
states of the machine.  A step also prints its name, so that ``spin -t`` shows a readable counterexample.

A claim adds variables besides ``state``, which are updated in the same ``d_step``.  If a claim about finite runs is
violated, an assertion fails.  If a claim about infinite runs is violated, SPIN finds an acceptance cycle.

Since each step of the machine remains one step in SPIN, SPIN and :mod:`fsm.checker` count the same states and find
counterexamples of the same length.
"""

import textwrap
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import reduce
from itertools import groupby
from operator import attrgetter, or_
from typing import Final, assert_never

from fsm.interop.promela.vocabulary import (
    INSTANT,
    NOWHERE,
    CannotExportError,
    ExportedStep,
    PromelaNames,
    reached,
    silent,
    size,
    steps,
)
from fsm.machine import Event, Machine, claims, outcomes
from fsm.machine.claims import Fair, Idempotent, LeadsTo
from fsm.machine.conditions import All, Condition, Not

BROKEN: Final = 255  # value of a variable when the claim is violated
MOST: Final = 30  # maximum number of items that are stored as one bit each


@dataclass(frozen=True, slots=True, kw_only=True)
class Product:
    """The combination of a machine and a claim."""

    options: Callable[[ExportedStep], Iterable[str]]
    declarations: tuple[str, ...] = ()
    others: tuple[str, ...] = ()  # options in addition to the steps of the machine
    cases: int = 1  # number of parts of the claim, which are checked one at a time
    lasting: bool = False  # whether the claim is about infinite runs


def option(words: PromelaNames, step: ExportedStep, *effects: str, guard: str = "") -> str:
    asked, calls = words.calls(step)
    guards, updates = words.data_of(step)
    when = " && ".join([f"state == {words.states[step.source]}", *asked, *guards, *([guard] if guard else [])])
    changes = (f"{words.begun[event]} = {number}" for event, number in calls.items())
    effect = "; ".join([*updates, f"state = {words.states[step.way.to]}", *changes, *effects])
    title = "".join(each if each.isalnum() or each in " /_.,:-" else "?" for each in step.title)
    return f':: d_step {{ {when} -> {effect}; printf("{title}\\n") }}'


def sequence_product(
    words: PromelaNames, sequences: tuple[tuple[Condition, ...], ...], until: Condition | None = None
) -> Product:
    """Return the product for runs through *sequences*.

    ``held`` counts the conditions that have held in order.  It is reset when *until* holds.
    """
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
    last = length - 1
    parts = [f"held == BROKEN || (held == {last} && HOLDS_{length}({INSTANT})) -> BROKEN"]
    if last:
        parts.append(f"UNTIL({INSTANT}) -> (HOLDS_1({INSTANT}) -> 1 : 0)")
    parts += [f"held == {place} && HOLDS_{place + 1}({INSTANT}) -> {place + 1}" for place in range(last)]
    return f"({' : ('.join(parts)} : held{')' * len(parts)}"


def idempotence_product(words: PromelaNames, claim: Idempotent) -> Product:
    """Return the product for a call and its repetition.

    ``stage`` is 1 after the first call, which leads to ``between``, and 2 while the second call is in progress.
    """

    def options(step: ExportedStep) -> Iterator[str]:
        yield option(words, step, guard="stage == 0")
        if step.event == claim.event:
            if step.reply == "ok" and not step.way.begins:
                idle = [f"!{begun}" for event, begun in words.begun.items() if event != step.event or not step.ends]
                guard = " && ".join(["stage == 0", *idle, f"ONCE({words.instants(step)[-1]})"])
                yield option(words, step, "stage = 1", f"between = {words.states[step.way.to]}", guard=guard)
            guard = "stage == 2" if step.ends else "stage == 1"
            yield option(words, step, *_effects_of_repetition(words, step), guard=guard)

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


def _effects_of_repetition(words: PromelaNames, step: ExportedStep) -> tuple[str, ...]:
    if step.way.emits or (step.reply != "ok" and not step.way.begins):
        return ("stage = BROKEN",)
    if step.way.begins:
        return ("stage = 2",)
    return f"stage = (between == {words.states[step.way.to]} -> 0 : BROKEN)", f"between = {NOWHERE}"


def leads_to_product(words: PromelaNames, claim: LeadsTo) -> Product:
    """Return the product for a leads-to claim.

    Infinite runs are decided by acceptance cycles, and a bit tells whether the target is due.  In an infinite run
    that violates the claim, there is an instant after which the target is due forever.  SPIN guesses that instant
    (``committed``), and from then on takes only steps that do not meet the target.

    From that instant, SPIN also checks the fairness conditions in rounds.  Each condition has its ``turn``, and each
    round ends at an accepting label.  The turn of a weakly fair event is over when the event is taken or disabled.
    The turn of a strongly fair event is over when it is taken, or when it is guessed to be disabled forever
    (``spared``), after which no step may enable it.  If a run stops, its rounds continue without steps.
    """
    if len(claim.fair) > MOST:
        raise CannotExportError(f"the property assumes that more than {MOST} events are fair; state it with fewer")
    taken = tuple(steps(words.machine, words.codes))
    macros, rounds = [], list[str]()
    for number, fair in enumerate(claim.fair):
        where = [step.source for step in taken if _applies_to(fair, step)]
        # A second call counts as possible, and so does the end of a call if it is unspecified, although the exported
        # machine has no steps for them.
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
            if _applies_to(fair, step)
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
        # In addition to its steps, a run may commit to a violation, guess that an event stays disabled forever, end the
        # turn of a disabled event, or end a round at the accepting label.
        others=(
            *("#ifndef SAFETY", ":: d_step { due && !committed -> committed = true }", *rounds),
            *(f":: committed && turn == {len(claim.fair)} ->", "accept_round:", "   turn = 0", "#endif"),
        ),
        lasting=True,
    )


def _applies_to(fair: Fair, step: ExportedStep) -> bool:
    return (fair.event, fair.ends) == (step.event, step.ends) and fair.outcome in {"", step.way.name}


def follows_product(words: PromelaNames, other: Machine) -> Product:
    """Return the product for the claim that the machine follows *other*.

    ``belief`` is a bit set of the possible states of *other* (subset construction).  Outputs of the machine, and
    signals that both machines have, count as events of *other*.  The sets of states are closed under hidden events.

    The construction is independent of :mod:`fsm.monitor`.  Calls of *other* must not take time.
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
    closed = {state: sum(bits[to] for to in _hidden_closure(other, state)) for state in other.states}
    after = {words.outputs[output]: event for output, event in known.items()}
    after |= {words.events[name]: event for name, event in shared.items()}

    def leads(event: Event) -> str:
        masks = {
            state: reduce(or_, (closed[to] for to in _states_after(other, event, state)), 0) for state in other.states
        }
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


def _states_after(other: Machine, event: Event, state: str) -> frozenset[str]:
    ways = outcomes(event.cells[state], state, event.kind)
    return frozenset(other.states) if ways is None else frozenset(way.to for way in ways)


def _hidden_closure(other: Machine, state: str) -> set[str]:
    hidden = [event for event in other.events.values() if event.kind == "hidden"]
    found: set[str] = set()
    fresh = {state}
    while fresh:
        found |= fresh
        fresh = {to for here in fresh for event in hidden for to in _states_after(other, event, here)} - found
    return found


WIDTH: Final = 100


def promela(machine: Machine, stated: claims.Property | None = None, *, file: str = "") -> str:
    """Export *machine* to Promela, with the claim of *stated* if it is given.

    The text ends in a newline.  The commands in its header use the file name *file*.  Raise
    :class:`CannotExportError` for a claim that SPIN cannot decide.

    >>> from fsm.language.library import load
    >>> print(promela(load("examples/models/door.toml")).splitlines()[0])
    /* door: A door
    """
    claim = stated.claim if stated else None
    words = PromelaNames(machine, [each.means for each in claims.conditions_of(claim)] if claim else ())
    product = _product(claim, words) if claim else Product(options=lambda step: [option(words, step)])
    lines = [
        *_comment(_head(machine, stated, product, file or f"{machine.name}.pml")),
        "",
        *words.definitions(),
        "",
        *words.variables(),
        *product.declarations,
        f"{size(len(words.states))} state = {words.states[machine.initial]};",
        *(f"bool {begun} = false;" for begun in words.begun.values()),
        "",
        "active proctype machine() {",
        "end:",
        "   do",
        *_options(steps(machine, words.codes if claim else None), product),
        *(f"   {line}" if line[0] != "#" else line for line in product.others),
        "   od",
        "}",
    ]
    return "\n".join(lines) + "\n"


def _options(taken: Iterable[ExportedStep], product: Product) -> Iterator[str]:
    event = ""
    for event, those in groupby(taken, key=attrgetter("event")):
        yield f"   /* {event} */"
        yield from (f"   {each}" for step in those for each in product.options(step))
    if not event:
        yield "   :: false -> skip"


def _product(claim: claims.Claim, words: PromelaNames) -> Product:
    match claim:
        case claims.Idempotent():
            return idempotence_product(words, claim)
        case claims.Always(conditions=conditions, when=when):
            breaches: list[Condition] = [Not(of=each.means) for each in conditions]
            if when:
                breaches = [All(of=(when.means, each)) for each in breaches]
            return sequence_product(words, tuple((each,) for each in breaches))
        case claims.Never(sequences=sequences) | claims.Reachable(sequences=sequences):
            means = tuple(tuple(each.means for each in sequence) for sequence in sequences)
            until = claim.until if isinstance(claim, claims.Never) else None
            return sequence_product(words, means, until.means if until else None)
        case claims.LeadsTo() if words.machine.timers:
            raise CannotExportError("'fsm check' assumes that time passes, which is not exported for leads-to")
        case claims.LeadsTo():
            return leads_to_product(words, claim)
        case claims.Follows(other=other):
            return follows_product(words, other.partly_under(words.machine.profile))
        case claims.Refines(other=other):
            hint = "use 'fsm check' instead"
            raise CannotExportError(f"refinement of {other.name} cannot be expressed in Promela; {hint}")
        case claims.MatchesDiagram() | claims.Requires():
            drawn = isinstance(claim, claims.MatchesDiagram)
            raise CannotExportError(f"no run can {'violate a drawing' if drawn else 'show fields'}: see 'fsm check'")
        case _:
            assert_never(claim)


def _head(machine: Machine, stated: claims.Property | None, product: Product, file: str) -> Iterator[str]:
    yield f"{machine.name}: {machine.title}"
    if stated is None:
        yield "Every state that can be reached, for SPIN (https://spinroot.com)."
    else:
        yield f"{stated.name} ({stated.level}): {stated.says}"
        yield "The machine and this property, for SPIN (https://spinroot.com)."
    yield ""
    case = "-DCASE=1 " if product.cases > 1 else ""
    yield f"  spin {case}-a {file}"
    yield f"  gcc {'-O2' if product.lasting else '-O2 -DSAFETY -DBFS'} -o pan pan.c"
    yield f"  ./pan{' -a' if product.lasting else ''}"
    if stated is not None:
        yield f"  spin {case}-t {file}   (the run that was found, if one was)"
    yield ""
    if product.cases > 1:
        yield f"The claim has {product.cases} parts: do it with each CASE from 1 to {product.cases}."
    match stated.claim if stated else None:
        case None if machine.data or machine.timers:
            yield "Expect errors: 0, and as many states, stored, as 'fsm check' counts configurations."
        case None:
            layers, transitions = reached(machine)
            yield f"Expect {sum(map(len, layers))} states, stored; {transitions + 1} transitions, of which"
            yield f"SPIN counts the start as one; depth reached {len(layers) - 1}; errors: 0."
        case claims.Reachable():
            yield "It can be reached if SPIN says 'errors: 1': an assertion fails where it is."
        case _:
            yield "It holds if SPIN says 'errors: 0'. Otherwise there is a run that breaks it."
    if not product.lasting and stated is not None:
        yield "The run is as short as there is, its last step the assertion."
    if product.lasting:
        yield "With -DSAFETY for spin, the states alone are counted."


def _comment(lines: Iterator[str]) -> Iterator[str]:
    wrapped = [
        row
        for line in lines
        for row in (textwrap.wrap(line, WIDTH, subsequent_indent="  ") if not line.startswith(" ") else [line]) or [""]
    ]
    for number, row in enumerate(wrapped):
        yield f"{' * ' if number else '/* '}{row.replace('*/', '* /')}".rstrip()
    yield " */"
