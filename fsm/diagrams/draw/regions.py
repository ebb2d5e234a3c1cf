"""Draw a system as regions, one for each part.

The region of a part is a machine with the states of the part and the joint events that move its first copy. A
condition on other parts follows the name of the event in brackets.
"""

from collections.abc import Collection, Iterator
from contextlib import suppress
from dataclasses import replace
from itertools import chain
from typing import Final

from fsm.diagrams.draw.markdown_table import markdown
from fsm.diagrams.draw.picture import Extra, Picture, picture
from fsm.errors import InputError, plural
from fsm.machine import Cannot, Event, Machine, Moves, Outcome
from fsm.machine.conditions import At, Condition, WrittenCondition, with_atoms
from fsm.machine.product import JointPath, SystemTable
from fsm.machine.product.composition import NOTHING_ASSUMED
from fsm.machine.product.flatten import machine_of
from fsm.machine.product.system import JointEvent, JointMove, Part, System, Test
from fsm.machine.traversal import closure

READABLE: Final = 40  # maximum number of joint states in a table


def regions(system: System, chosen: Collection[str] | None = None) -> tuple[Machine, ...]:
    """Return a machine for each part of *system*, with the joint events of the *chosen* families that move it.

    >>> from fsm.language.library import load_system
    >>> door, alarm = regions(load_system("examples/models/systems/house.toml"))
    >>> [*door.events], [*alarm.events]
    (['push', 'pull', 'remove'], ['push', 'switch-on', 'switch-off', 'arm [no door is open]'])
    """
    table = SystemTable(system)
    return tuple(_region(table, part, chosen) for part in system.parts.values())


def _region(table: SystemTable, part: Part, chosen: Collection[str] | None) -> Machine:
    locals_ = range(len(table.table_of(part.name).states))
    first: dict[str, JointEvent] = {}  # only one version of an event that each copy has
    found: dict[str, tuple[JointEvent, dict[str, dict[Outcome, None]]]] = {}
    for joint, path in ((row.joint, path) for row in table.joint for path in row.paths):
        if not any(move.at == part.copies[0].digit for move in path.moves):
            continue
        for local in locals_ if first.setdefault(joint.family, joint) is joint else ():
            for when, outcome in _outcomes(table, part, joint, path, local):
                name = f"{joint.family} [{when}]" if when else joint.family
                cells = found.setdefault(name, (joint, {}))[1]
                cells.setdefault(table.table_of(part.name).states[local], {})[outcome] = None
    reached = closure([part.initial], lambda at: (each.to for _, own in found.values() for each in own.get(at, ())))
    states = {name: state for name, state in part.machine.states.items() if name in reached}
    events = {
        name: Event(
            name=name,
            kind=joint.kind,
            about=joint.about,
            arguments=joint.arguments,
            cells={
                state: Moves(outcomes=tuple(own[state]), clause=joint.clause)
                if state in own
                else Cannot(clause=joint.clause)
                for state in states
            },
        )
        for name, (joint, own) in found.items()
        if chosen is None or joint.family in chosen
    }
    title = f"{part.name}, {plural(len(part.copies), 'copy')}" if part.copies[1:] else part.name
    own_machine = replace(part.machine, name=part.name, title=title, initial=part.initial, profiles={}, profile="")
    data = {name: each for name, each in table.system.data.items() if name.startswith(f"{part.copies[0].name}.")}
    return replace(own_machine, states=states, events=events, data=data)


def _outcomes(
    table: SystemTable, part: Part, joint: JointEvent, path: JointPath, local: int
) -> Iterator[tuple[str, Outcome]]:
    """Yield what *path* may do to the first copy of *part*, and the condition on other parts."""
    own, copy = table.table_of(part.name), part.copies[0]
    moves = [move for move in path.moves if move.at == copy.digit]
    whens = [joint.when, path.way.when, *(move.step.when for move in moves)]
    start = table.locals(table.initial)
    here = (*start[: copy.digit], local, *start[copy.digit + 1 :])
    heard_by_all, call = replace(part, heard=None), joint.kind == "call"
    taken = [JointMove(replace(move.step, when=None), own, heard_by_all, _always, call=call) for move in moves]

    def known(atom: Condition) -> Condition | bool:
        return own.states[local] in atom.states if isinstance(atom, At) and atom.copies == (copy.digit,) else atom

    left = [with_atoms(each, known) for each in whens if each is not None]
    when = " and ".join(table.system.text(each, joint.arguments) for each in left if not isinstance(each, bool))
    runs = table.composition.runs(taken, (here, (), (), NOTHING_ASSUMED)) if False not in left else ()
    for after, steps, error, assumed in runs:
        emits = (output.removesuffix(copy.suffix) for done in steps for output in done.emits)
        holding = assumed.condition
        text = table.system.text(holding, joint.arguments) if holding else ""
        yield (
            when,
            Outcome(
                name=path.way.name,
                to=own.states[after[copy.digit]],
                reply=error or path.reply,
                emits=tuple(emits),
                when=WrittenCondition(text=text, means=holding) if holding else None,
                updates=table.composition.updates(assumed),
            ),
        )


def _always(_condition: Condition | None) -> Test:
    return lambda _here: True


def system_picture(system: System, *, show: Collection[Extra] = (), chosen: Collection[str] | None = None) -> Picture:
    """Return a picture of *system*, or of the families of joint events that are *chosen*."""
    drawn = [
        picture(each, show=show, events=None if chosen is None else each.events.keys()).within(system.name)
        for each in regions(system, chosen)
        if each.events
    ]
    left_out = {event: None for each in drawn for event in each.left_out}
    return Picture(
        name=system.name,
        title=system.title,
        initial="",
        nodes=tuple(chain(*(each.nodes for each in drawn))),
        edges=tuple(chain(*(each.edges for each in drawn))),
        left_out=tuple(left_out),
        regions=tuple(drawn),
    )


def system_markdown(system: System, *, chosen: Collection[str] | None = None) -> str:
    """Return a table for each part of *system* and, if it has few joint states, a table of them."""
    tables = [markdown(each) for each in regions(system, chosen)]
    with suppress(InputError):  # raised if there are too many joint states
        if len((joint := machine_of(system)).states) <= READABLE:
            events = {each.name for each in system.events.values() if chosen is None or each.family in chosen}
            tables.append(markdown(joint, events=events))
    return "\n".join(tables)
