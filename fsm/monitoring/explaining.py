"""Why an observation is a violation: what was possible, what would have been legal, the edits that mend it.

Called once for each distinct violation of a belief; the answers are data.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from fsm.machine import LEVELS, Clause
from fsm.monitoring.belief import TooManyError
from fsm.monitoring.possibility import ASKED, Possibilities, Possibility, numbers
from fsm.verdict import Cause, Edit, Permitted, Repair

if TYPE_CHECKING:
    from collections.abc import Iterable

    from fsm.machine import Deviation
    from fsm.monitoring.belief import Dynamics
    from fsm.table import Table
    from fsm.trace import Key


@dataclass(frozen=True, slots=True, kw_only=True)
class Explained:
    """All that can be said of a violation without knowing who and when.

    ``after`` are the possibilities that a legal trace one edit away leaves:
    from there the monitor goes on.
    """

    cause: Cause
    before: tuple[str, ...]
    permitted: tuple[Permitted, ...]
    clause: Clause
    edits: tuple[tuple[Edit, Possibilities], ...]
    resembles: tuple[Deviation, ...]
    after: Possibilities


@dataclass(frozen=True, slots=True, kw_only=True)
class Scene:
    """A belief, what was seen, and what was seen of the entity before that.

    ``again`` says that the last that was seen to end was of the same event.
    """

    dynamics: Dynamics
    before: Possibilities
    seen: Key
    last: Key | None
    others: tuple[Table, ...]
    again: bool = False

    @property
    def row(self) -> int:
        """The row of the event that was seen; -1 for a sight or an output alone."""
        return self.dynamics.names.get(self.seen[0], -1)


def explain(scene: Scene) -> Explained:
    """What is wrong with ``scene.seen`` after ``scene.before``.

    >>> from fsm.library import load
    >>> from fsm.table import tabulate
    >>> from fsm.monitoring.belief import Dynamics
    >>> table = tabulate(load("cri-container"))
    >>> dynamics = Dynamics(table=table, unseen=(), names=dict(table.row))
    >>> seen = ("stop", "", "NOT_FOUND", "", "", "", None)
    >>> found = explain(Scene(dynamics=dynamics, before=dynamics.beginning(), seen=seen, last=None, others=()))
    >>> found.before, found.permitted[0].what, found.clause.level, found.edits[0][0].instead
    (('absent',), ('ok',), 'MUST', 'ok')
    """
    table = scene.dynamics.table
    states = _met(scene)
    cause = _cause(scene)
    edits = _edits(scene, cause)
    after = frozenset().union(*(left for _, left in edits)) or _whatever(scene)
    return Explained(
        cause=cause,
        before=tuple(table.states[state] for state in states),
        permitted=tuple(_permitted(scene, cause, state) for state in states),
        clause=_weakest(_clauses(scene, cause, states)) or _implied(table),
        edits=tuple(edits),
        resembles=_resembling(scene, cause, states),
        after=_closed(scene.dynamics, after) or scene.dynamics.closed(_whatever(scene)),
    )


def _cause(scene: Scene) -> Cause:
    event, phase, reply, shows, _, output, _ = scene.seen
    if output:
        return Cause.OUTPUT
    if not event:
        return Cause.STATE
    if shows and _left(scene.dynamics, scene.before, (event, phase, reply, "", "", "", None)):
        return Cause.STATE
    return Cause.REPLY if scene.dynamics.table.rows[scene.row].event.kind == "call" else Cause.EVENT


def _met(scene: Scene) -> tuple[int, ...]:
    """The states in which the event may have acted, or that may have been shown.

    Where another output than the one that was seen would have been next, the
    entity is elsewhere only by what nobody saw.
    """
    states = set()
    quiet = [each for each in scene.before if not each.queue]
    for each in quiet or scene.before:
        mine = [call for call in each.pending if call.row == scene.row and call.stage >= ASKED]
        states |= {state for call in mine for state in numbers(call.met)} or {each.state}
    return tuple(sorted(states))


def _permitted(scene: Scene, cause: Cause, state: int) -> Permitted:
    table = scene.dynamics.table
    name = table.states[state]
    match cause:
        case Cause.STATE:
            return Permitted(state=name, what=_sights(scene, state))
        case Cause.EVENT:
            rows = [row for row in table.rows if row.event.kind != "call" and not row.ends]
            return Permitted(state=name, what=tuple(row.name for row in rows if table.step(state, row.index) != ()))
        case Cause.OUTPUT:
            heads = [way.emits[0] for row in table.rows for way in table.step(state, row.index) or () if way.emits]
            return Permitted(state=name, what=tuple(dict.fromkeys(heads)))
        case _:
            return Permitted(state=name, what=_replies(scene, state))


def _sights(scene: Scene, state: int) -> tuple[str, ...]:
    """What may be shown after the event, or just so, if the entity is in *state* before."""
    event, phase, reply, _, met, output, emits = scene.seen
    here = frozenset(each for each in scene.before if each.state == state)
    if event:
        here = _left(scene.dynamics, here, (event, phase, reply, "", met, output, emits)) or here
    shows = scene.dynamics.table.shows
    return tuple(dict.fromkeys(shows[each] for each in sorted({each.state for each in here})))


def _replies(scene: Scene, state: int) -> tuple[str, ...]:
    """The replies that a call met in *state* may have, each once."""
    found = scene.dynamics.replies(state, scene.row)
    return () if found is None else tuple(dict.fromkeys(reply for replies in found for reply in replies))


def _clauses(scene: Scene, cause: Cause, states: tuple[int, ...]) -> Iterable[Clause]:
    table = scene.dynamics.table
    match cause:
        case Cause.REPLY | Cause.EVENT:
            cells = [table.cell(state, scene.row) for state in states]
        case Cause.OUTPUT:
            # Whichever event it was, an output that no cell of the state has breaks
            # the strongest of the cells that might have had it.
            makers = [row.index for row in table.rows if _emits(table, row.index, scene.seen[5])]
            by_state = [[cell.clause for row in makers if (cell := table.cell(state, row))] for state in states]
            return [clause for clauses in by_state if (clause := _strongest(clauses))]
        case _:
            event = scene.seen[0] or (scene.last[0] if scene.last else "")
            row = scene.dynamics.names.get(event, -1)
            cells = [
                table.cell(state, row)
                for state in range(len(table.states))
                if row >= 0 and any(way.to in states and way.to != state for way in table.step(state, row) or ())
            ]
    return [cell.clause for cell in cells if cell is not None]


def _emits(table: Table, row: int, output: str) -> bool:
    return any(output in way.emits for state in range(len(table.states)) for way in table.step(state, row) or ())


def _weakest(clauses: Iterable[Clause]) -> Clause | None:
    return min(clauses, key=lambda clause: LEVELS.index(clause.level), default=None)


def _strongest(clauses: Iterable[Clause]) -> Clause | None:
    return max(clauses, key=lambda clause: LEVELS.index(clause.level), default=None)


def _implied(table: Table) -> Clause:
    """What is broken when no cell can be named: what is seen follows from the machine at all."""
    machine = table.machine
    weakest = _weakest(cell.clause for event in machine.events.values() for cell in event.cells.values())
    level = weakest.level if weakest else "observed"
    return Clause(name="states", says="What is seen follows from what happened.", level=level, source=machine.source)


def _edits(scene: Scene, cause: Cause) -> list[tuple[Edit, Possibilities]]:
    """Every single edit that makes the observation legal, smallest first, and what each leaves."""
    found = [
        *(_other_replies(scene) if cause is Cause.REPLY else ()),
        *_missing(scene),
    ]
    extra = _without(scene)
    if extra:
        found.append((Edit(repair=Repair.REPEATED if scene.again else Repair.EXTRA), extra))
    order = list(Repair)
    return sorted(found, key=lambda each: order.index(each[0].repair))


def _other_replies(scene: Scene) -> Iterable[tuple[Edit, Possibilities]]:
    replies = {reply: None for state in _met(scene) for reply in _replies(scene, state)}
    event, phase, _, shows, _, _, emits = scene.seen
    for reply in replies:
        left = _left(scene.dynamics, scene.before, (event, phase, reply, shows, "", "", emits))
        if left:
            yield Edit(repair=Repair.REPLY, instead=reply), left


def _missing(scene: Scene) -> Iterable[tuple[Edit, Possibilities]]:
    """Events of which one, put before the observation, makes it legal: by what is specified, not by silence."""
    dynamics = replace(scene.dynamics, silence=False)
    for row in dynamics.table.rows:
        if row.ends or row.index in dynamics.unseen or row.index == scene.row:
            continue
        once: Key = (row.event.name, "request" if row.event.kind == "call" else "maybe", "", "", "", "", None)
        left = _left(dynamics, _left(dynamics, scene.before, once), scene.seen)
        ended = frozenset(
            each._replace(pending=tuple(call for call in each.pending if call.row != row.index)) for each in left
        )
        if closed := _closed(dynamics, ended):
            yield Edit(repair=Repair.MISSING, instead=row.event.name), closed


def _left(dynamics: Dynamics, before: Possibilities, seen: Key) -> Possibilities:
    """What *seen* leaves of *before*; nothing where that is too much to try."""
    try:
        return dynamics.observed(before, seen).possibilities
    except TooManyError:
        return frozenset()


def _closed(dynamics: Dynamics, possibilities: Possibilities) -> Possibilities:
    """*possibilities* and all that may come of them unseen; nothing where that is too much to try."""
    try:
        return dynamics.closed(possibilities)
    except TooManyError:
        return frozenset()


def _without(scene: Scene) -> Possibilities:
    """The possibilities if the observation had not been made."""
    if scene.row < 0 or scene.seen[1] != "reply":
        return scene.before if _cause(scene) is not Cause.STATE else frozenset()
    kept = set()
    for each in scene.before:
        for index, call in enumerate(each.pending):
            if call.row == scene.row:
                kept.add(each._replace(pending=each.pending[:index] + each.pending[index + 1 :]))
                break
    return frozenset(kept)


def _whatever(scene: Scene) -> Possibilities:
    """Every state that what was shown allows."""
    shows = scene.seen[3]
    table = scene.dynamics.table
    states = [state for state in range(len(table.states)) if not shows or table.shows[state] == shows]
    return frozenset(Possibility(state) for state in states or range(len(table.states)))


def _resembling(scene: Scene, cause: Cause, states: tuple[int, ...]) -> tuple[Deviation, ...]:
    """Declared deviations, of any profile, that allow what was seen."""
    found: dict[tuple[str, str], Deviation] = {}
    if cause is Cause.REPLY:
        for table in scene.others:
            for state in states:
                for way in table.step(state, table.row[scene.dynamics.table.rows[scene.row].event.name]) or ():
                    if way.deviation is not None and way.replies(scene.seen[2]):
                        found.setdefault((way.deviation.profile, way.deviation.name), way.deviation)
    return tuple(found.values())
