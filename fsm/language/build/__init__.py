"""From a model as written to a machine that is well formed, or every reason why not.

What the rules here promise, the engines take for granted: every cell is
there, every name exists, calls reply and signals do not, a call that begins
can end.  The rules and their codes stand in :mod:`fsm.language.codes`.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Final

from fsm.language.build.cells import Groups
from fsm.language.build.drawn import check_aliases, omissions
from fsm.language.build.ends import check_ends
from fsm.language.build.problems import Problems
from fsm.language.build.profiles import profiles
from fsm.machine import Clause, Event, Machine, Silent, State

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from fsm.language.machine_file import Written, WrittenEvent
    from fsm.language.read import Model
    from fsm.machine import Cell

__all__ = ["LARGEST_TABLE", "build"]

LARGEST_TABLE: Final = 1_000_000
"""Cells: events times states."""


def build(model: Model) -> Machine:
    """The machine that *model* describes.

    Raises :class:`InputError` with every mistake of meaning in the file.
    """
    problems = Problems(model=model)
    written = model.written
    if len(written.event) * len(written.states) > LARGEST_TABLE:
        what = f"{len(written.event)} events in {len(written.states)} states are more than {LARGEST_TABLE} cells"
        problems.say("FSM120", what, "split the machine", "event")
        problems.refuse()
    machine = _machine(problems)
    check_ends(problems, machine)
    _check_rpcs(problems)
    check_aliases(problems, machine)
    machine = replace(machine, omits=omissions(problems, machine))
    under = profiles(problems, machine)
    _check_clauses_used(problems)
    problems.refuse()
    return replace(machine, profiles=under)


def _machine(problems: Problems[Written]) -> Machine:
    """All but the profiles."""
    written, header = problems.model.written, problems.model.written.machine
    if header.initial not in written.states:
        problems.unknown("FSM101", "unknown initial state", header.initial, written.states, "machine", "initial")
    clauses = {
        name: Clause(name=name, says=each.says, level=each.level, source=each.source, link=each.link)
        for name, each in written.clause.items()
    }
    return Machine(
        name=header.name,
        title=header.title,
        about=header.about,
        source=header.source,
        initial=header.initial,
        entity=header.entity or header.name,
        states=_states(problems),
        events={name: _event(problems, name, each, clauses) for name, each in written.event.items()},
        clauses=clauses,
        indefinite=tuple(header.indefinite),
        path=problems.model.path,
    )


def _states(problems: Problems[Written]) -> dict[str, State]:
    states = {}
    for name, each in problems.model.written.states.items():
        if each.shows == "":
            hint = f"leave shows out for '{name}', or say what is read"
            problems.say("FSM107", f"state '{name}' shows ''", hint, "states", name, "shows")
        states[name] = State(
            name=name,
            about=each.about,
            shows=name if each.shows is None else each.shows,
            aliases=tuple(each.aliases),
        )
    return states


def _event(problems: Problems[Written], name: str, written: WrittenEvent, clauses: Mapping[str, Clause]) -> Event:
    at = ("event", name)
    if written.interrupts and written.kind == "call":
        what = f"call '{name}' cannot interrupt calls"
        problems.say("FSM118", what, "only signals and hidden events do", *at, "interrupts")
    groups = Groups(
        problems=problems,
        name=name,
        kind=written.kind,
        written=written,
        clause_of=_clauses(problems, name, written, clauses),
        at=at,
    )
    cells = _total(groups)
    ends = groups.ends()
    return Event(
        name=name,
        kind=written.kind,
        about=written.about,
        cells=cells,
        ends=ends,
        rpc=written.rpc or "",
        aliases=tuple(written.aliases),
        interrupts=written.interrupts,
    )


def _total(groups: Groups) -> dict[str, Cell]:
    """A cell for every state, in the order of the states; those that are missing are noted."""
    cells, name = groups.cells(), groups.name
    for state in groups.problems.model.written.states:
        if state not in cells:
            hint = f"say what '{name}' does there: moves, ignores, refuses, cannot or silent (or '*' for the rest)"
            groups.problems.say("FSM103", f"event '{name}' has no cell for state '{state}'", hint, *groups.at)
            cells[state] = Silent(clause=groups.clause_of(state))
    return {state: cells[state] for state in groups.problems.model.written.states}


def _clauses(
    problems: Problems[Written], name: str, event: WrittenEvent, clauses: Mapping[str, Clause]
) -> Callable[[str], Clause]:
    """Which clause the event's cell in a state rests on."""
    written = problems.model.written
    implied = Clause(
        name=name,
        says=event.about,
        level=event.level or written.machine.level,
        source=event.source or written.machine.source,
    )
    if event.clause is not None and event.clause not in clauses:
        problems.unknown("FSM108", "unknown clause", event.clause, clauses, "event", name, "clause")
    for state, clause in event.clauses.items():
        at = ("event", name, "clauses", state)
        if clause not in clauses:
            problems.unknown("FSM108", "unknown clause", clause, clauses, *at)
        if state not in written.states:
            problems.unknown("FSM102", "unknown state", state, written.states, *at)
    return lambda state: clauses.get(event.clauses.get(state, event.clause or ""), implied)


# -- the file as a whole -------------------------------------------------------


def _check_rpcs(problems: Problems[Written]) -> None:
    """A trace may name an event by either of its names, so no two events share one."""
    events = problems.model.written.event
    seen: dict[str, str] = {}
    for name, event in events.items():
        at = ("event", name, "rpc")
        if event.rpc is None:
            continue
        if event.rpc == "":
            problems.say("FSM117", f"event '{name}' is '' on the wire", "leave rpc out if it has no name there", *at)
        elif event.rpc in seen:
            what = f"events '{seen[event.rpc]}' and '{name}' are both {event.rpc!r} on the wire"
            problems.say("FSM117", what, "one name on the wire is one event", *at)
        elif event.rpc in events and event.rpc != name:
            what = f"event '{name}' is {event.rpc!r} on the wire, which is another event"
            problems.say("FSM117", what, "rename one of them: a trace may use either name", *at)
        seen.setdefault(event.rpc, name)


def _check_clauses_used(problems: Problems[Written]) -> None:
    written = problems.model.written
    used = {event.clause for event in written.event.values()}
    used |= {clause for event in written.event.values() for clause in event.clauses.values()}
    used |= {cell.deviates for profile in written.profile.values() for cell in profile.cell.values()}
    for name in written.clause:
        if name not in used:
            hint = "name it in an event's clause or clauses, or drop it"
            problems.say("FSM119", f"no cell rests on clause '{name}'", hint, "clause", name)
