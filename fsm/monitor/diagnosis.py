"""Explain a violation: the possible states, the legal alternatives, and the edits that would fix the trace."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from functools import partial
from typing import Final

from fsm.machine import LEVELS, Clause, Deviation, Machine, fits
from fsm.machine.calls import ASKED, BEGUN, LOST, finals
from fsm.machine.calls.configuration import Configuration, Configurations, bits, each_with_rest
from fsm.machine.calls.unobserved import tried
from fsm.machine.findings import Cause, Edit, Permitted, Repair, TimeLimit, Violation
from fsm.machine.table import Table, Way
from fsm.monitor.scene import Fault, Scene, acted, showing
from fsm.trace import Key, Line, Observation


@dataclass(frozen=True, slots=True, kw_only=True)
class Explained:
    """The diagnosis of a violation, without its entity and time.

    The monitor continues from the configurations ``after``, which follow legal traces that are one edit away.
    """

    cause: Cause
    illegal: str
    before: tuple[str, ...]
    clause: Clause
    after: Configurations
    permitted: tuple[Permitted, ...] = ()
    edits: tuple[tuple[Edit, Configurations], ...] = ()
    resembles: tuple[Deviation, ...] = ()
    limit: TimeLimit | None = None

    def violation(self, machine: Machine, observation: Observation, edits: Iterable[Edit], place: Line) -> Violation:
        return Violation(
            machine=machine.name,
            cause=self.cause,
            observation=observation,
            file=place.file,
            line=place.number,
            before=self.before,
            permitted=self.permitted,
            clause=self.clause,
            edits=tuple(edits),
            illegal=self.illegal,
            resembles=self.resembles,
            lines=(self.limit.line, place) if self.limit else (),
            limit=self.limit,
        )


_UNHEARD: Final = "UNHEARD_OF"


def explain(scene: Scene) -> Explained:
    table = scene.dynamics.table
    fault, permitted, clause = reasons(scene)
    states, whatever = _states(scene, fault), _configurations_as_shown(scene, fault)
    edits = _edits(scene, fault, states)
    after = frozenset().union(*(left for _, left in edits))
    if fault.cause is Cause.STATE and fault.met:
        after |= whatever  # Either the call reported a wrong state, or the belief is wrong.
    after = after or whatever
    return Explained(
        cause=fault.cause,
        illegal=fault.illegal,
        before=tuple(table.states[state] for state in states),
        permitted=permitted,
        clause=clause,
        edits=tuple(edits),
        resembles=_resembling_deviations(scene, fault, states),
        after=tried(lambda: scene.dynamics.closed(after)) or scene.dynamics.closed(whatever),
    )


def reasons(scene: Scene) -> tuple[Fault, tuple[Permitted, ...], Clause]:
    fault = _fault(scene)
    states = _states(scene, fault)
    clause = min(_clauses(scene, fault, states), key=_strength, default=None) or implied(scene.dynamics.table)
    return fault, _alternatives(scene, fault, states), clause


def _fault(scene: Scene) -> Fault:
    """Return the part of the observation that is at fault.

    If the observation is legal without the state that was shown or met, or without the output, that part is at fault.
    Otherwise, the reply of a call or the event itself is at fault. A met state is not at fault if the entity may be
    in that state.
    """
    seen = scene.seen
    if seen.output:
        return Fault(cause=Cause.OUTPUT, illegal=seen.output)
    if not seen.event:
        return Fault(cause=Cause.STATE, illegal=seen.shows)
    call = scene.dynamics.calls(scene.row)
    parts: list[tuple[Fault, Key]] = []
    if seen.shows:
        parts.append((Fault(cause=Cause.STATE, illegal=seen.shows), seen._replace(shows="")))
    elsewhere = seen.met and not showing(scene, seen.met)
    if elsewhere:
        parts.append((Fault(cause=Cause.STATE, illegal=seen.met, met=True), seen._replace(met="")))
    if seen.emits is not None:
        parts.append((Fault(cause=Cause.OUTPUT, illegal=" ".join(seen.emits), met=call), seen._replace(emits=None)))
    for fault, rest in parts:
        if scene.left(rest):
            return fault
    if parts and scene.left(seen._replace(shows="", met="" if elsewhere else seen.met, emits=None)):
        return parts[0][0]
    if call:
        return Fault(cause=Cause.REPLY, illegal=seen.reply, met=True)
    return Fault(cause=Cause.EVENT, illegal=seen.event)


def _states(scene: Scene, fault: Fault) -> tuple[int, ...]:
    if fault.met:
        return tuple(sorted(showing(scene, scene.seen.met) or acted(scene)))
    # Configurations with pending outputs are possible only because of hidden events. Ignore them if there are other
    # configurations.
    quiet = [each for each in scene.before if not each.queue]
    return tuple(sorted({each.state for each in quiet or scene.before}))


def _alternatives(scene: Scene, fault: Fault, states: tuple[int, ...]) -> tuple[Permitted, ...]:
    seen, names = scene.seen, scene.dynamics.table.states
    found = [Permitted(state=names[state], what=_permitted_values(scene, fault, state)) for state in states]
    # If no reply fits the shown state or the outputs, return the replies that are legal without them.
    if fault.cause is Cause.REPLY and (seen.shows or seen.emits is not None) and not any(each.what for each in found):
        return _alternatives(replace(scene, seen=seen._replace(shows="", emits=None)), fault, states)
    return tuple(found)


def _permitted_values(scene: Scene, fault: Fault, state: int) -> tuple[str, ...]:
    table = scene.dynamics.table
    match fault.cause:
        case Cause.STATE:
            found: Iterable[str] = [table.shows[state]] if fault.met else _visible_states(scene, state)
        case Cause.EVENT:
            rows = [row for row in table.rows if row.event.kind != "call" and not row.ends]
            # Some observers receive only events with an RPC name. If there are such events, list only them.
            rows = [row for row in rows if row.event.rpc] or rows
            found = [row.event.rpc or row.name for row in rows if table.step(state, row.index) != ()]
        case Cause.OUTPUT if scene.row < 0:
            found = [way.emits[0] for row in table.rows for way in table.step(state, row.index) or () if way.emits]
        case Cause.OUTPUT:
            found = [" ".join(way.emits) for way in finals(table, state, scene.row) or () if _may_reply(scene, way)]
        case _:
            found = _legal_replies(scene, state)
    return tuple(dict.fromkeys(found))


def _legal_replies(scene: Scene, state: int) -> list[str]:
    bit, row = 1 << state, scene.row
    before = scene.before
    if scene.seen.phase == "reply":
        before = frozenset(
            each._replace(
                pending=tuple(
                    call._replace(met=bit) if call.row == row else call
                    for call in each.pending
                    if call.row != row or call.met & bit
                )
            )
            for each in before
        )
    elif not scene.seen.phase:
        before = frozenset(each for each in before if each.state == state)
    here = replace(scene, before=before, since=bit)
    found = [reply for reply in _replies(scene) if here.left(_with_reply(scene, reply))]
    return [reply for reply in found if reply in {"ok", "error"}] if "error" in found else found


def _replies(scene: Scene) -> list[str]:
    table = scene.dynamics.table
    rows = {scene.row, table.end.get(scene.row)}
    ways = [way for way in table.ways if table.origin[way.index][0] in rows]
    found = dict.fromkeys([*(reply for way in ways for reply in way.reply), "error"])
    return [reply for reply in found if not scene.dynamics.rules.indefinite(reply)]


def _with_reply(scene: Scene, reply: str) -> Key:
    seen = scene.seen
    met = seen.met if seen.reply == "ok" or showing(scene, seen.met) else ""
    return seen._replace(reply=_UNHEARD if reply == "error" else reply, met=met)


def _may_reply(scene: Scene, way: Way) -> bool:
    return not way.reply or scene.dynamics.rules.indefinite(scene.seen.reply) or way.replies(scene.seen.reply)


def _visible_states(scene: Scene, state: int) -> Iterator[str]:
    here = frozenset(each for each in scene.before if each.state == state)
    if scene.seen.event:
        here = replace(scene, before=here).left(scene.seen._replace(shows="")) or here
    return (scene.dynamics.table.shows[each] for each in sorted({each.state for each in here}))


def _clauses(scene: Scene, fault: Fault, states: tuple[int, ...]) -> Iterable[Clause]:
    table = scene.dynamics.table
    match fault.cause:
        case Cause.STATE:
            cells = _contradicted_cells(scene, fault, states)
        case Cause.OUTPUT if scene.row < 0:
            # The recording shows an output without its event. If no cell of the state emits the output, it breaks the
            # strongest clause of the events that can emit it in other states.
            makers = [
                row.index for row in table.rows if not row.ends and _may_cause(table, row.index, output=fault.illegal)
            ]
            by_state = [[cell.clause for row in makers if (cell := table.cell(state, row))] for state in states]
            return [max(clauses, key=_strength) for clauses in by_state if clauses]
        case _:
            cells = [(state, scene.row) for state in states]
    return [cell.clause for state, row in cells if (cell := table.cell(state, row))]


def _contradicted_cells(scene: Scene, fault: Fault, states: tuple[int, ...]) -> list[tuple[int, int]]:
    """Return the cells that contradict the state that was shown or met, from the first source that has any.

    1. the call that was refused because of the state it met;
    2. the event after which the state was shown, if this event moves entities;
    3. the last event that moved the entity, unless a state was shown with it;
    4. the event after which the state was shown;
    5. hidden events, preferably those that can lead to the state, in the states shown last if these are possible;
    6. calls in progress;
    7. any event that can lead to the state.
    """
    table = scene.dynamics.table
    if fault.met and scene.seen.reply not in {"", "ok"}:
        return [(state, scene.row) for state in states]
    own = [(state, scene.row) for state in acted(scene)] if scene.row >= 0 and not fault.met else []
    if own and scene.dynamics.rules.moves(scene.row):
        return own
    led = scene.dynamics.row(scene.led.event) if scene.led and not (scene.led.shows or scene.led.met) else -1
    if led >= 0 and (origins := _origins(table, states, led)):
        return [(state, led) for state in origins if state not in states] or [(state, led) for state in origins]
    shown = [state for state in states if scene.led and table.shows[state] in {scene.led.shows, scene.led.met}]
    makers = [row.index for row in table.rows if not row.ends and _may_cause(table, row.index, shows=fault.illegal)]
    unseen = [row for row in makers if row in scene.dynamics.unseen] or scene.dynamics.unseen
    going = [(each.state, call) for each in scene.before for call in each.pending if call.stage in {ASKED, BEGUN, LOST}]
    calls = [(state, table.end.get(call.row, -1) if call.stage == BEGUN else call.row) for state, call in going]
    return (
        own
        or [(state, row) for state in shown or states for row in unseen]
        or calls
        or [(state, row) for state in shown or states for row in makers]
    )


def _origins(table: Table, states: tuple[int, ...], row: int) -> list[int]:
    everywhere = range(len(table.states))
    return [state for state in everywhere if any(way.to in states for way in finals(table, state, row) or ())]


def _may_cause(table: Table, row: int, *, shows: str = "", output: str = "") -> bool:
    ways = [(state, way) for state in range(len(table.states)) for way in finals(table, state, row) or ()]
    if output:
        return any(output in way.emits for _, way in ways)
    return any(way.to != state for state, way in ways) and any(table.shows[way.to] == shows for _, way in ways)


def _strength(clause: Clause) -> int:
    return LEVELS.index(clause.level)


def implied(table: Table) -> Clause:
    """Return the clause to cite if no cell is to blame. It says that observations must follow from events."""
    machine = table.machine
    clauses = (cell.clause for event in machine.events.values() for cell in event.cells.values())
    weakest = min(clauses, key=_strength, default=None)
    level = weakest.level if weakest else "observed"
    return Clause(name="states", says="What is seen follows from what happened.", level=level, source=machine.source)


def _edits(scene: Scene, fault: Fault, states: tuple[int, ...]) -> list[tuple[Edit, Configurations]]:
    found = [*_other_replies(scene, states), *_missing_events(scene)]
    if extra := _without_observation(scene, fault):
        repeated = scene.again and fault.cause is not Cause.STATE
        found.append((Edit(repair=Repair.REPEATED if repeated else Repair.EXTRA), extra))
    order = list(Repair)
    return sorted(found, key=lambda pair: order.index(pair[0].repair))


def _other_replies(scene: Scene, states: tuple[int, ...]) -> Iterator[tuple[Edit, Configurations]]:
    if not scene.dynamics.calls(scene.row) or scene.seen.phase not in {"", "reply", "answered"}:
        return
    found = {reply: left for reply in _replies(scene) if (left := scene.left(_with_reply(scene, reply)))}
    ways = [way for state in states for way in finals(scene.dynamics.table, state, scene.row) or ()]
    # If any error is legal, suggest only the errors that the cells name.
    named = dict.fromkeys(reply for way in ways for reply in way.reply) if "error" in found else found
    for reply in named:
        if reply in found and not fits(scene.seen.reply, (reply,)):
            yield Edit(repair=Repair.REPLY, instead=reply), found[reply]


def _missing_events(scene: Scene) -> Iterator[tuple[Edit, Configurations]]:
    """Yield each event that would make the observation legal if it happened just before it."""
    dynamics = replace(scene.dynamics, silence=False)
    for row in dynamics.table.rows:
        if row.ends or row.index in dynamics.unseen or row.index == scene.row:
            continue
        once = Key(event=row.event.name, phase="request" if row.event.kind == "call" else "maybe")
        then = replace(scene, dynamics=dynamics).left(once)
        then_since = scene.since and scene.since | bits(then)
        left = replace(scene, dynamics=dynamics, before=then, since=then_since).left(scene.seen)
        ended = frozenset(
            each._replace(pending=tuple(call for call in each.pending if call.row != row.index)) for each in left
        )
        if closed := tried(partial(dynamics.closed, ended)):
            signal = row.event.kind == "signal" and row.event.rpc  # Use the name that requests and replies use.
            yield Edit(repair=Repair.MISSING, instead=signal or row.event.name), closed


def _without_observation(scene: Scene, fault: Fault) -> Configurations:
    if scene.seen.phase != "reply":
        return scene.before if fault.met or fault.cause is not Cause.STATE else frozenset()
    left = (
        (each, [others for call, others in each_with_rest(each.pending) if call.row == scene.row])
        for each in scene.before
    )
    return frozenset(each._replace(pending=pending[0]) for each, pending in left if pending)


def _configurations_as_shown(scene: Scene, fault: Fault) -> Configurations:
    shows = fault.illegal if fault.cause is Cause.STATE else scene.seen.shows
    table = scene.dynamics.table
    states = [state for state in range(len(table.states)) if not shows or table.shows[state] == shows]
    return frozenset(Configuration(state) for state in states or range(len(table.states)))


def _resembling_deviations(scene: Scene, fault: Fault, states: tuple[int, ...]) -> tuple[Deviation, ...]:
    table = scene.dynamics.table
    where = {scene.row: states} if scene.row >= 0 else {}
    if fault.cause is Cause.STATE:
        where |= dict.fromkeys(scene.dynamics.unseen, states)
        led = scene.dynamics.row(scene.led.event) if scene.led else -1
        where |= {led: tuple(_origins(table, states, led))} if led >= 0 else {}
    elif fault.cause is Cause.OUTPUT and scene.row < 0:
        where = {row.index: states for row in table.rows if not row.ends}
    found: dict[tuple[str, str], Deviation] = {}
    for other in scene.others:
        for row, those in where.items():
            for state in those:
                for way in finals(other, state, other.row[table.rows[row].event.name]) or ():
                    if way.deviation is not None and _explains(scene, fault, way):
                        found.setdefault((way.deviation.profile, way.deviation.name), way.deviation)
    return tuple(found.values())


def _explains(scene: Scene, fault: Fault, way: Way) -> bool:
    match fault.cause:
        case Cause.REPLY:
            return way.replies(fault.illegal)
        case Cause.STATE:
            return scene.dynamics.table.shows[way.to] == fault.illegal
        case Cause.OUTPUT:
            return fault.illegal in {*way.emits, " ".join(way.emits)}
        case _:
            return True
