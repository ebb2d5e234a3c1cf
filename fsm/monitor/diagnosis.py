"""Explain a violation by the possible states, the legal alternatives, and the edits that would fix the trace."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import chain
from typing import NamedTuple

from msgspec import structs

from fsm.machine import LEVELS, Clause, Deviation, Machine, fits
from fsm.machine.calls import ASKED, BEGUN, CUT, LOST, finals, makers, origins
from fsm.machine.calls.belief import Dynamics
from fsm.machine.calls.configuration import Configuration, Configurations, Pending, bits, each_with_rest, numbers
from fsm.machine.calls.unobserved import tried
from fsm.machine.findings import Cause, Edit, Permitted, Repair, TimeLimit, Violation
from fsm.machine.table import Table, Way
from fsm.machine.terms import Argument
from fsm.trace import Key, Line, Observation


@dataclass(frozen=True, slots=True, kw_only=True)
class Scene:
    """An illegal observation ``seen``, and the configurations that were possible ``before`` it.

    ``led`` is the last earlier observation that may have moved the entity or that showed its state. ``others`` are
    the tables of the other profiles. ``since`` is a bit set of the states in which a call without a recorded request
    may have acted. ``again`` is true if the previous observation has the same event; requests are skipped. Scenes can
    be compared only if they belong to the same machine.
    """

    dynamics: Dynamics = field(compare=False)
    before: Configurations
    seen: Key
    led: Key | None
    others: tuple[Table, ...] = field(compare=False)
    since: int = 0
    again: bool = False

    @property
    def table(self) -> Table:
        return self.dynamics.table

    @property
    def row(self) -> int:
        """The row of the event, or -1 if only a state or an output was observed."""
        return self.dynamics.place(self.seen)

    def left(self, seen: Key) -> Configurations:
        return tried(lambda: self.dynamics.observed(self.before, seen, self.since).configurations)

    def acted(self) -> set[int]:
        """Return the states in which the call or event may have acted."""
        now = {each.state for each in self.before}
        if self.seen.phase == "answered":
            return {*numbers(self.since or bits(self.before))}
        if self.seen.phase != "reply":
            return now
        calls = (call for each in self.before for call in each.pending if self.table.agree(call.row, self.row))
        met = (numbers(call.met) for call in calls if call.stage >= 0 or call.stage in {ASKED, CUT})
        return {*chain.from_iterable(met)} or now

    def showing(self, met: str) -> set[int]:
        met = self.dynamics.understood(met)
        return {state for state in self.acted() if not met or self.table.matches(state, met)}


class Fault(NamedTuple):
    """The illegal part of an observation. If ``met`` is true, the part depends on the state in which the call acted."""

    cause: Cause
    illegal: str
    met: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Explained:
    """The diagnosis of a violation, without its entity and time.

    The monitor continues from the configurations ``after``. If possible, these are the configurations after one of
    the ``edits``. ``args`` are the arguments of the call, if its request had any.
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
    args: dict[str, Argument] = field(default_factory=dict)

    def violation(self, machine: Machine, observation: Observation, place: Line) -> Violation:
        shown = (observation.fields or {}) if self.cause is Cause.FIELDS else {}
        return Violation(
            machine=machine.name,
            cause=self.cause,
            observation=structs.replace(observation, args=self.args) if self.args else observation,
            file=place.file,
            line=place.number,
            before=self.before,
            permitted=self.permitted,
            clause=self.clause,
            edits=tuple(edit for edit, _ in self.edits),
            illegal=self.illegal,
            found=", ".join(f"{name} {shown[name]}" for name in self.illegal.split(", ") if name in shown),
            resembles=self.resembles,
            lines=(self.limit.line, place) if self.limit else (),
            limit=self.limit,
        )


def explain(scene: Scene) -> Explained:
    fault, states, permitted, clause = reasons(scene)
    edits = [*_other_replies(scene, states), *_missing_events(scene)]
    if extra := _without_observation(scene, fault):
        repeated = scene.again and fault.cause is not Cause.STATE
        edits.append((Edit(repair=Repair.REPEATED if repeated else Repair.EXTRA), extra))
    edits.sort(key=lambda pair: [*Repair].index(pair[0].repair))
    after, whatever = frozenset().union(*(left for _, left in edits)), _configurations_as_shown(scene, fault)
    # If a call reported a wrong state, either this state is wrong, or the belief is.
    after = after | whatever if not after or (fault.cause is Cause.STATE and fault.met) else after
    calls = {call.row for each in scene.before for call in each.pending if scene.table.agree(call.row, scene.row)}
    return Explained(
        cause=fault.cause,
        illegal=fault.illegal,
        args=scene.table.arguments(*calls) if len(calls) == 1 and scene.seen.phase == "reply" else {},
        before=tuple(scene.table.named(state) for state in states),
        permitted=permitted,
        clause=clause,
        edits=tuple(edits),
        resembles=_resembling_deviations(scene, fault, states),
        after=tried(lambda: scene.dynamics.closed(after)) or scene.dynamics.closed(whatever),
    )


def reasons(scene: Scene) -> tuple[Fault, tuple[int, ...], tuple[Permitted, ...], Clause]:
    """Return the fault, the states in which it is illegal, the legal alternatives, and the clause that it breaks."""
    fault = _fault(scene)
    before = (
        scene.showing(scene.seen.met) or scene.acted() if fault.met else {each.state for each in likely(scene.before)}
    )
    states = tuple(sorted(before))
    clause = min(_clauses(scene, fault, states), key=_strength, default=None) or implied(scene.table)
    return fault, states, _alternatives(scene, fault, states), clause


def likely(configurations: Configurations) -> Configurations:
    """Return the configurations without pending outputs, or all configurations if each has pending outputs.

    Only hidden events cause pending outputs.
    """
    return frozenset(each for each in configurations if not each.queue) or configurations


def _fault(scene: Scene) -> Fault:
    """Return the part of the observation that makes it illegal.

    This is the shown state, the state that the call met, or the outputs, if the observation is legal without that part.
    Otherwise, it is the call's reply, or the event itself. A state that the call can have met is never at fault.
    """
    seen = scene.seen
    if seen.output:
        return Fault(Cause.OUTPUT, seen.output)
    rest, data = _without_values(scene), scene.table.machine.data
    values = ", ".join(name for name, _ in seen.args if name in data)
    parts = [(Fault(Cause.FIELDS, values), rest)] if values else []
    if not seen.event:
        return parts[0][0] if parts and (scene.left(rest) or not seen.shows) else Fault(Cause.STATE, seen.shows)
    call = scene.dynamics.calls(scene.row)
    if seen.shows:
        parts.append((Fault(Cause.STATE, seen.shows), seen._replace(shows="")))
    elsewhere = seen.met and not scene.showing(seen.met)
    if elsewhere:
        parts.append((Fault(Cause.STATE, seen.met, met=True), seen._replace(met="")))
    if seen.emits is not None:
        parts.append((Fault(Cause.OUTPUT, " ".join(seen.emits), met=call), seen._replace(emits=None)))
    for fault, rest in parts:
        if scene.left(rest):
            return fault
    if parts and scene.left(rest._replace(shows="", met="" if elsewhere else seen.met, emits=None)):
        return parts[0][0]
    return Fault(Cause.REPLY, seen.reply, met=True) if call else Fault(Cause.EVENT, seen.event)


def _without_values(scene: Scene) -> Key:
    return scene.seen._replace(args=tuple(each for each in scene.seen.args if each[0] not in scene.table.machine.data))


def _alternatives(scene: Scene, fault: Fault, states: tuple[int, ...]) -> tuple[Permitted, ...]:
    seen, named = scene.seen, scene.table.named
    found = [Permitted(state=named(state), what=_permitted_values(scene, fault, state)) for state in states]
    # If no reply fits the shown state or the outputs, ignore both, and return the replies that are then legal.
    if fault.cause is Cause.REPLY and (seen.shows or seen.emits is not None) and not any(each.what for each in found):
        return _alternatives(replace(scene, seen=seen._replace(shows="", emits=None)), fault, states)
    return tuple(found)


def _permitted_values(scene: Scene, fault: Fault, state: int) -> tuple[str, ...]:
    table = scene.table
    match fault.cause:
        case Cause.STATE:
            texts = table.shown_like(scene.seen.shows or scene.seen.met)
            found: Iterable[str] = [texts[state]] if fault.met else _visible(scene, state, texts)
        case Cause.FIELDS:
            found = _visible(scene, state)
        case Cause.EVENT:
            rows = [row for row in table.rows if row.event.kind != "call" and not row.ends]
            # Some observers receive only events with an RPC name. List only these events if there are any.
            rows = [row for row in rows if row.event.rpc] or rows
            found = [row.event.rpc or row.name for row in rows if table.step(state, row.index) != ()]
        case Cause.OUTPUT if scene.row < 0:
            found = [way.emits[0] for row in table.rows for way in table.step(state, row.index) or () if way.emits]
        case Cause.OUTPUT:
            unknown = scene.dynamics.rules.indefinite(scene.seen.reply)
            ways = finals(table, state, scene.row) or ()
            fitting = (way for way in ways if unknown or not way.reply or way.replies(scene.seen.reply))
            found = [" ".join(way.emits) for way in fitting]
        case _:
            found = _legal_replies(scene, state)
    return tuple(dict.fromkeys(found))


def _legal_replies(scene: Scene, state: int) -> list[str]:
    bit, row, before, agree = 1 << state, scene.row, scene.before, scene.table.agree
    if scene.seen.phase == "reply":

        def acting_here(calls: tuple[Pending, ...]) -> tuple[Pending, ...]:
            possible = (call for call in calls if not agree(call.row, row) or call.met & bit)
            return tuple(call._replace(met=bit) if agree(call.row, row) else call for call in possible)

        before = frozenset(each._replace(pending=acting_here(each.pending)) for each in before)
    elif not scene.seen.phase:
        before = frozenset(each for each in before if each.state == state)
    found = [*_fitting_replies(replace(scene, before=before, since=1 << scene.table.bare(state)))]
    return [reply for reply in found if reply in {"ok", "error"}] if "error" in found else found


def _fitting_replies(scene: Scene) -> dict[str, Configurations]:
    """Return the definite replies that would be legal, each with the configurations after it."""
    table, seen = scene.table, scene.seen
    row = table.rows[scene.row].index
    cells = [table.step(state, each) for each in (row, table.end.get(row, row)) for state in table.anywhere]
    named = [reply for ways in cells for way in ways or () for reply in way.reply]
    met = seen.met if seen.reply == "ok" or scene.showing(seen.met) else ""
    found = {
        reply: scene.left(seen._replace(reply="UNHEARD_OF" if reply == "error" else reply, met=met))
        for reply in dict.fromkeys([*named, "error"])
        if not scene.dynamics.rules.indefinite(reply)
    }
    return {reply: left for reply, left in found.items() if left}


def _visible(scene: Scene, state: int, texts: Sequence[str] = ()) -> Iterator[str]:
    rest = _without_values(scene)._replace(shows="")
    own = replace(scene, before=frozenset(each for each in scene.before if each.state == state))
    here = (scene.seen.event and (own.left(rest) or own.left(rest._replace(emits=None)))) or own.before
    return (texts[each] if texts else scene.table.named(each) for each in sorted({each.state for each in here}))


def _clauses(scene: Scene, fault: Fault, states: tuple[int, ...]) -> Iterable[Clause]:
    table = scene.table
    match fault.cause:
        case Cause.STATE | Cause.FIELDS:
            cells = _contradicted_cells(scene, fault, states)
        case Cause.OUTPUT if scene.row < 0:
            # The recording shows an output without its event, and several events may be able to emit the output. For
            # each possible state, the output breaks the strongest of the clauses of these events in this state.
            emitters = makers(table, output=fault.illegal)
            by_state = [[cell.clause for row in emitters if (cell := table.cell(state, row))] for state in states]
            return [max(clauses, key=_strength) for clauses in by_state if clauses]
        case _:
            cells = [(state, scene.row) for state in states]
    return [cell.clause for state, row in cells if (cell := table.cell(state, row))]


def _contradicted_cells(scene: Scene, fault: Fault, states: tuple[int, ...]) -> list[tuple[int, int]]:
    """Return the cells that contradict the state that was shown, or that the call reported.

    The cells come from the first of these sources that has any:

    1. the call, if it was refused because of the state that it met;
    2. the event after which the state was shown, if this event moves entities;
    3. the last event that moved the entity, unless a state was shown with it;
    4. the event after which the state was shown;
    5. hidden events (preferably those that can lead to the state), in the states that were shown last if possible;
    6. calls in progress;
    7. any event that can lead to the state.
    """
    table = scene.table
    if fault.met and scene.seen.reply not in {"", "ok"}:
        return [(state, scene.row) for state in states]
    own = [(state, scene.row) for state in scene.acted()] if scene.row >= 0 and not fault.met else []
    if own and scene.dynamics.rules.moves(scene.row):
        return own
    led = scene.dynamics.row(scene.led.event) if scene.led and not (scene.led.shows or scene.led.met) else -1
    if led >= 0 and (sources := origins(table, states, led)):
        return [(state, led) for state in sources if state not in states] or [(state, led) for state in sources]
    seen = {scene.led.shows, scene.led.met} if scene.led else ()
    shown = [state for state in states if any(table.matches(state, each) for each in seen)]
    emitters = makers(table, shows=fault.illegal)
    unseen = [row for row in emitters if row in scene.dynamics.unseen] or scene.dynamics.unseen
    going = [(each.state, call) for each in scene.before for call in each.pending if call.stage in {ASKED, BEGUN, LOST}]
    calls = [(state, table.end.get(call.row, -1) if call.stage == BEGUN else call.row) for state, call in going]
    return (
        own
        or [(state, row) for state in shown or states for row in unseen]
        or calls
        or [(state, row) for state in shown or states for row in emitters]
    )


def _strength(clause: Clause) -> int:
    return LEVELS.index(clause.level)


def implied(table: Table) -> Clause:
    """Return the clause to cite if no cell is to blame. It says that observations must follow from events."""
    machine = table.machine
    clauses = (cell.clause for event in machine.events.values() for cell in event.cells.values())
    weakest = min(clauses, key=_strength, default=None)
    level = weakest.level if weakest else "observed"
    return Clause(name="states", says="What is seen follows from what happened.", level=level, source=machine.source)


def _other_replies(scene: Scene, states: tuple[int, ...]) -> Iterator[tuple[Edit, Configurations]]:
    if not scene.dynamics.calls(scene.row) or scene.seen.phase not in {"", "reply", "answered"}:
        return
    found = _fitting_replies(scene)
    ways = [way for state in states for way in finals(scene.table, state, scene.row) or ()]
    # If every error is legal, suggest only the errors that the cells name.
    named = dict.fromkeys(reply for way in ways for reply in way.reply) if "error" in found else found
    for reply in named:
        if reply in found and not fits(scene.seen.reply, (reply,)):
            yield Edit(repair=Repair.REPLY, instead=reply), found[reply]


def _missing_events(scene: Scene) -> Iterator[tuple[Edit, Configurations]]:
    """Yield each event that would make the observation legal by happening right before it."""
    dynamics = replace(scene.dynamics, silence=False)
    scene = replace(scene, dynamics=dynamics)
    own, agree = scene.table.rows[scene.row].index if scene.row >= 0 else -1, scene.table.agree
    for row in scene.table.rows:
        if row.ends or row.index in dynamics.unseen or row.index == own:
            continue
        then = scene.left(Key(event=row.event.name, phase="request" if row.event.kind == "call" else "maybe"))
        left = replace(scene, before=then, since=scene.since and scene.since | dynamics.bits(then)).left(scene.seen)
        ended = frozenset(
            each._replace(pending=tuple(call for call in each.pending if not agree(call.row, row.index)))
            for each in left
        )
        if closed := tried(partial(dynamics.closed, ended)):
            signal = row.event.kind == "signal" and row.event.rpc  # Use the name that requests and replies use.
            yield Edit(repair=Repair.MISSING, instead=signal or row.event.name), closed


def _without_observation(scene: Scene, fault: Fault) -> Configurations:
    if scene.seen.phase != "reply":
        return scene.before if fault.met or fault.cause is not Cause.STATE else frozenset()
    own, agree = scene.row, scene.table.agree
    rests = [[rest for call, rest in each_with_rest(each.pending) if agree(call.row, own)] for each in scene.before]
    return frozenset(each._replace(pending=rest[0]) for each, rest in zip(scene.before, rests, strict=True) if rest)


def _configurations_as_shown(scene: Scene, fault: Fault) -> Configurations:
    shows = fault.illegal if fault.cause is Cause.STATE else scene.seen.shows
    states = scene.table.showing(shows) if shows else ()
    return frozenset(map(Configuration, states or scene.table.anywhere))


def _resembling_deviations(scene: Scene, fault: Fault, states: tuple[int, ...]) -> tuple[Deviation, ...]:
    table = scene.table
    where = {scene.row: states} if scene.row >= 0 else {}
    if fault.cause is Cause.STATE:
        where |= dict.fromkeys(scene.dynamics.unseen, states)
        led = scene.dynamics.row(scene.led.event) if scene.led else -1
        where |= {led: tuple(origins(table, states, led))} if led >= 0 else {}
    elif fault.cause is Cause.OUTPUT and scene.row < 0:
        where = {row.index: states for row in table.rows if not row.ends}
    found: dict[tuple[str, str], Deviation] = {}
    for other in scene.others:
        for row, those in where.items():
            for state in those:
                for way in finals(other, table.bare(state), other.row[table.rows[row].event.name]) or ():
                    if way.deviation is not None and _explains(scene, fault, way):
                        found.setdefault((way.deviation.profile, way.deviation.name), way.deviation)
    return tuple(found.values())


def _explains(scene: Scene, fault: Fault, way: Way) -> bool:
    match fault.cause:
        case Cause.REPLY:
            return way.replies(fault.illegal)
        case Cause.STATE:
            return scene.table.matches(way.to, fault.illegal)
        case Cause.OUTPUT:
            return fault.illegal in {*way.emits, " ".join(way.emits)}
    return True
