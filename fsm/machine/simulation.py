"""Generate random legal traces of a machine.

Every possible event is equally likely, even if it is refused or ignored.  If calls may overlap, their requests and
replies interleave.  The same seed always produces the same trace.
"""

import random
from collections.abc import Iterator
from dataclasses import dataclass, field

from msgspec import structs

from fsm.machine import ANY_ERROR, Machine
from fsm.machine.calls import ASKED, CallInstant, Rules
from fsm.machine.calls.valued import MOST, with_data
from fsm.machine.product.flatten import machine_of
from fsm.machine.product.system import System
from fsm.machine.table import Table, tabulate
from fsm.machine.terms import Argument, Variable
from fsm.machine.timers import Clocks
from fsm.machine.traversal import closure
from fsm.trace import Observation


@dataclass(slots=True, kw_only=True)
class _Call:
    row: int
    stage: int = ASKED


@dataclass(slots=True, kw_only=True)
class _Life:
    state: int
    clocks: Clocks
    calls: list[_Call] = field(default_factory=list)
    now: int = 1_767_225_600 * 10**9  # the time in nanoseconds; simulations begin on 1 January 2026


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
    nothing can be observed after some point.  A system is simulated as one entity.  If the machine has timers, time
    passes, and observations have times.

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
    lives = [_Life(state=table.initial, clocks=Clocks(table.machine)) for _ in range(entities)]
    rules = Rules(table)
    active = _active_states(tabulate(table.machine))
    made = vain = 0
    while made < length and vain < MOST:
        going = [number for number, life in enumerate(lives) if life.calls or table.bare(life.state) in active]
        if not going:
            break
        due = _pass_time(table, lives, chance) if table.machine.timers else None
        number, fires = due or (chance.choice(going), "")
        for seen in _simulate_step(rules, lives[number], chance, overlap, fires):
            yield _with_entity(table, seen, number, lives[number])
            made, vain = made + 1, -1
        vain += 1
    for number, life in enumerate(lives):
        while life.calls:
            for seen in _advance_call(rules, life, life.calls[0], chance):
                yield _with_entity(table, seen, number, life)


def _pass_time(table: Table, lives: list[_Life], chance: random.Random) -> tuple[int, str] | None:
    """Let a random time pass.  If a timer must fire before it is over, return the number of the life and the event."""
    timers = table.machine.timers.values()
    time = chance.randint(0, max(each.after for each in timers) // 2)
    left = [
        (*life.clocks.left(each)[::-1], number, each.event)
        for number, life in enumerate(lives)
        for each in timers
        if each.name in life.clocks.since
    ]
    due = min(left, default=None)
    due = due if due is not None and due[0] <= time else None
    time = chance.randint(due[1], due[0]) if due else time
    for life in lives:
        life.now += time
        life.clocks.advance(time)
    return due and due[2:]


def _with_entity(table: Table, seen: Observation, number: int, life: _Life) -> Observation:
    at = life.now if table.machine.timers else None
    return structs.replace(seen, entity=f"{table.machine.entity}-{number + 1}", of=table.machine.entity, at=at)


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


def _simulate_step(rules: Rules, life: _Life, chance: random.Random, overlap: int, fires: str) -> Iterator[Observation]:
    """Yield the observations of a random step, or of the event *fires* of a timer that must fire."""
    table, going = rules.table, [] if fires else life.calls
    running = [each for name, each in table.machine.timers.items() if name in life.clocks.since]
    early = {each.event for each in running if life.clocks.left(each)[0]}
    new = [row.index for row in table.rows if not row.ends and table.step(life.state, row.index)]
    new = [each for each in new if (name := table.rows[each].event.name) not in early and fires in {"", name}]
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
        _move(table, life, row, instant)
        if event.kind == "signal":
            shows, fields = table.shows[instant.to], table.visible(instant.to) or None
            yield Observation(event=event.name, args=args, shows=shows, emits=instant.emits, fields=fields)
        if event.interrupts:
            # The observer of a visible interruption knows that no replies will follow. A hidden interruption has to
            # be reported to each caller as a lost call.
            for call in life.calls if event.kind == "hidden" else ():
                yield Observation(event=table.rows[call.row].event.name, phase="lost")
            life.calls.clear()


def _move(table: Table, life: _Life, row: int, instant: CallInstant) -> None:
    if instant.way is not None:
        way, before, after = instant.way, table.states[life.state], table.states[instant.to]
        life.clocks.move(table.rows[row].event.name, before, after, way.reply, begins=way.begins)
    life.state = instant.to


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
    _move(rules.table, life, call.row, instant)
    call.stage = instant.stage
