"""Generate random legal traces of a machine.

Every possible event is equally likely, even if it is refused or ignored.  If calls may overlap, their requests and
replies interleave.  The same seed always produces the same trace.
"""

import random
from collections.abc import Iterator
from dataclasses import dataclass, field

from msgspec import structs

from fsm.machine import ANY_ERROR, Machine
from fsm.machine.calls import ASKED, Rules
from fsm.machine.calls.valued import MOST, with_data
from fsm.machine.product.flatten import machine_of
from fsm.machine.product.system import System
from fsm.machine.table import Table, tabulate
from fsm.machine.terms import Argument, Variable
from fsm.machine.traversal import closure
from fsm.trace import Observation


@dataclass(slots=True, kw_only=True)
class _Call:
    row: int
    stage: int = ASKED


@dataclass(slots=True, kw_only=True)
class _Life:
    state: int
    calls: list[_Call] = field(default_factory=list)
    now: int = 0
    started: dict[str, int] = field(default_factory=dict)  # the times at which the timers that run were started


def simulate(
    machine: Machine | System,
    *,
    profile: str | None = None,
    seed: int = 0,
    length: int = 20,
    entities: int = 1,
    overlap: int = 1,
) -> Iterator[Observation]:
    """Simulate *machine* and yield at least *length* observations of *entities* entities.

    Up to *overlap* calls are in progress on each entity.  Calls that are still in progress at the end get their
    replies.  Events do not occur where the specification is silent about them.  The trace is shorter than *length* if
    nothing can be observed after some point.  A system is simulated as one entity.

    >>> from fsm.language.library import load
    >>> machine = load("examples/models/door.toml")
    >>> trace = list(simulate(machine, seed=1, length=50))
    >>> [trace == list(simulate(machine, seed=seed, length=50)) for seed in (1, 2)]
    [True, False]
    """
    machine = machine_of(machine, profile)
    return _simulate_entities(with_data(tabulate(machine.under(profile))), seed, length, entities, overlap)


def _simulate_entities(table: Table, seed: int, length: int, entities: int, overlap: int) -> Iterator[Observation]:
    chance = random.Random(seed)  # noqa: S311  (a reproducible choice, not a secret)
    lives = [_Life(state=table.initial) for _ in range(entities)]
    rules = Rules(table)
    active = _active_states(tabulate(table.machine))
    made = vain = 0
    while made < length and vain < MOST:
        going = [number for number, life in enumerate(lives) if life.calls or table.bare(life.state) in active]
        if not going:
            break
        number = chance.choice(going)
        for seen in _simulate_step(rules, lives[number], chance, overlap):
            yield _with_entity(table, seen, number)
            made, vain = made + 1, -1
        vain += 1
    for number, life in enumerate(lives):
        while life.calls:
            for seen in _advance_call(rules, life, life.calls[0], chance):
                yield _with_entity(table, seen, number)


def _with_entity(table: Table, seen: Observation, number: int) -> Observation:
    return structs.replace(seen, entity=f"{table.machine.entity}-{number + 1}", of=table.machine.entity)


def _value(argument: Variable, chance: random.Random) -> Argument:
    beyond = argument.beyond == "scope" and chance.random() < 0.2  # noqa: PLR2004  (sometimes)
    return argument.written(chance.randint(argument.low, 2 * argument.high + 9 if beyond else argument.high))


def _active_states(table: Table) -> set[int]:
    hidden = [row.index for row in table.rows if row.event.kind == "hidden"]
    seen = [row.index for row in table.rows if row.event.kind != "hidden" and not row.ends]

    def unseen(state: int) -> Iterator[int]:
        return (way.to for row in hidden for way in table.step(state, row) or ())

    states = range(len(table.states))
    return {each for each in states if any(table.step(state, row) for state in closure([each], unseen) for row in seen)}


def _simulate_step(rules: Rules, life: _Life, chance: random.Random, overlap: int) -> Iterator[Observation]:
    table, going = rules.table, life.calls
    new = [row.index for row in table.rows if not row.ends and table.step(life.state, row.index)]
    if len(going) >= overlap:
        new = [row for row in new if table.rows[row].event.kind != "call"]
    if going and (not new or chance.random() < 0.5):  # noqa: PLR2004  (half of the time)
        yield from _advance_call(rules, life, chance.choice(going), chance)
    elif new:
        row = chance.choice(new)
        event = table.rows[row].event
        args = {name: _value(each, chance) for name, each in event.arguments.items()} or None
        row = table.placed(row, args or {})
        if event.kind == "call":
            life.calls.append(_Call(row=row))
            yield Observation(event=event.name, phase="request", args=args)
            return
        if not table.step(life.state, row):
            return  # The specification is silent about these values.
        instant = chance.choice(rules.instants(life.state, row))
        life.state = instant.to
        if event.kind == "signal":
            shows, fields = table.shows[instant.to], table.visible(instant.to) or None
            yield Observation(event=event.name, args=args, shows=shows, emits=instant.emits, fields=fields)
        if event.interrupts:
            # The observer of a visible interruption knows that no replies will follow. A hidden interruption has to
            # be reported to each caller as a lost call.
            for call in life.calls if event.kind == "hidden" else ():
                yield Observation(event=table.rows[call.row].event.name, phase="lost")
            life.calls.clear()


def _advance_call(rules: Rules, life: _Life, call: _Call, chance: random.Random) -> Iterator[Observation]:
    event = rules.table.rows[call.row].event
    if call.stage >= 0:
        life.calls.remove(call)
        way, shows = rules.table.ways[call.stage], rules.table.shows[life.state]
        reply = chance.choice(way.reply)
        reply = "UNKNOWN" if reply == ANY_ERROR else reply
        fields = rules.table.visible(life.state) or None
        yield Observation(event=event.name, phase="reply", reply=reply, shows=shows, emits=way.emits, fields=fields)
        return
    instants = rules.instants(life.state, call.row, call.stage)
    instant = chance.choice(instants) if instants else None
    # The specification is silent about the next state, or a joint call of a system has become impossible.
    if instant is None or instant.way is None:
        life.calls.remove(call)
        yield Observation(event=event.name, phase="lost")
        return
    life.state = instant.to
    call.stage = instant.stage
