"""Convert a small system to a single machine."""

from collections.abc import Collection, Iterator
from dataclasses import replace
from typing import Final

from fsm.errors import refused
from fsm.machine import Cannot, Cell, Machine, Moves, Outcome, State
from fsm.machine.product import SystemTable
from fsm.machine.product.system import JointEvent, System
from fsm.machine.table import Done, Way

MOST: Final = 2_000  # default maximum number of states; a larger machine could not reasonably be read or drawn


def flatten(system: System, *, most: int = MOST, visible: Collection[str] = ()) -> Machine:
    """Return *system* as a single machine, whose states are the reachable states of the system.

    Each state shows what the parts in *visible* show or, by default, the states of all parts.  Ways with the same
    name are distinguished by the steps of their parts.  Raise :class:`InputError` if there are more than *most*
    states.

    >>> from fsm.language.library import load_system
    >>> flat = flatten(load_system("examples/models/systems/house.toml"))
    >>> flat.initial, flat.states[flat.initial].shows == load_system("examples/models/systems/house.toml").shows({})
    ('the beginning', True)
    """
    table = SystemTable(system)
    cells: list[dict[str, Cell]] = [{} for _ in table.rows]
    state = 0
    while state < len(table.states):  # the call to step() below adds new states
        for row in table.rows:
            joint = system.events[row.event.name]
            cells[row.index][_state_name(table, state)] = _cell(joint, table, table.step(state, row.index))
        state += 1
        if len(table.states) > most:
            what = f"the system has more than {most} states, which are too many for one machine"
            hint = "use --parts to reduce the number of copies, or name the machine of one part instead of the system"
            raise refused(system.path or system.name, "FSM602", what, hint)
    names = [_state_name(table, each) for each in range(state)]
    shown = [_shown_text(table, each, visible) for each in range(state)] if visible else table.states
    return Machine(
        name=system.name,
        title=system.title,
        about=system.about,
        source=system.source,
        initial=names[table.initial],
        entity="system",
        states={
            name: State(name=name, about=name, shows=shows, kind="initial" if name == names[table.initial] else None)
            for name, shows in zip(names, shown, strict=True)
        },
        events={row.event.name: replace(row.event, cells=cells[row.index]) for row in table.rows},
        clauses=system.clauses,
        path=system.path,
    )


def _state_name(table: SystemTable, state: int) -> str:
    here = table.locals(state)
    calls = (
        f"{table.system.copies[digit].name} {part.named(here[digit])}"
        for digit, part in table.timed.items()
        if not part.idle(here[digit])
    )
    return ", ".join([table.states[state], *calls])


def _shown_text(table: SystemTable, state: int, visible: Collection[str]) -> str:
    copies = zip(table.system.copies, table.shows(state), strict=True)
    return ", ".join(f"{copy.name} {shows}" for copy, shows in copies if copy.part in visible)


def _cell(joint: JointEvent, table: SystemTable, ways: tuple[Way, ...]) -> Cell:
    if not ways:
        return Cannot(clause=joint.clause)
    return Moves(
        outcomes=tuple(
            Outcome(name=name, to=_state_name(table, way.to), reply=way.reply, emits=way.emits)
            for name, way in zip(_names(ways), ways, strict=True)
        ),
        clause=joint.clause,
    )


def _names(ways: tuple[Way, ...]) -> Iterator[str]:
    for way in ways:
        alike = [other for other in ways if other.name == way.name]
        if len(alike) == 1:
            yield way.name
            continue
        common = set.intersection(*({_action_text(done) for done in other.done} for other in alike))
        own = [_action_text(done) for done in way.done if _action_text(done) not in common]
        yield f"{way.name}: {', '.join(own) or 'no more'}"


def _action_text(done: Done) -> str:
    return f"{done.copy} {done.outcome or done.event or 'reset'}"
