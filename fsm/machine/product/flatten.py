"""Convert a small system to a single machine, to test it or to judge it.

A test must be able to tell what a system does, so :func:`flatten` treats everything that a machine is silent about as
impossible.  A judge must not blame an implementation for it, so in the result of :func:`machine_of` it is unspecified.
"""

from collections import Counter
from collections.abc import Callable, Collection, Iterator
from dataclasses import replace
from functools import partial
from typing import Final

from fsm.errors import InputError, refused
from fsm.machine import LEVELS, Cannot, Cell, Machine, Moves, Outcome, Silent, State
from fsm.machine.conditions import All, Condition, Not, WrittenCondition, all_of, any_of
from fsm.machine.evidence import used_cell
from fsm.machine.product import SystemTable
from fsm.machine.product.composition import AssumedData
from fsm.machine.product.system import JointMove, System
from fsm.machine.table import Done, Way
from fsm.trace import shown_text

MOST: Final = 2_000  # default maximum number of states; a larger machine could not reasonably be read or drawn
JOINT: Final = 5_000  # maximum number of states of a system that is judged, driven or simulated as one machine
BRANCHES: Final = 20 * JOINT  # maximum number of results of one way of a joint event


def machine_of(model: Machine | System, profile: str | None = None) -> Machine:
    """Return *model* if it is a machine, and otherwise a machine whose states are the joint states of the system.

    *profile* is applied to a system only.  A joint state shows what each part shows, as in ``door=OPEN lock=LOCKED``.
    The variables of parts have names such as ``till.cash``.
    A cell has the clause of the joint event, or a weaker clause of a cell that a step of it uses.  Raise
    :class:`InputError` if there are more than :data:`JOINT` states, ``ValueError`` for an unknown profile, and
    ``TypeError`` for anything else.

    >>> from fsm.language.library import load_system
    >>> machine = machine_of(load_system("examples/models/systems/house.toml", {"door": 1}))
    >>> machine.initial, machine.states[machine.initial].shows
    ('door=shut alarm=off', 'door=SHUT alarm=off')
    >>> [way.to for way in machine.step("door=shut alarm=armed", "push")]
    ['door=open alarm=ringing']
    """
    if isinstance(model, Machine):
        return model
    if not isinstance(model, System):
        raise TypeError(f"{model!r} is not a machine or a system; read a file with fsm.load or fsm.load_system")
    system = model.under(profile)
    table = SystemTable(system, symbolic=True)
    what = f"the system has more than {JOINT:,} joint states, which are too many for one machine"
    hint = "use a system with fewer copies or the machine of one part; 'fsm check' accepts systems of any size"
    refusal = refused(system.path or system.name, "FSM720", what, hint)
    most = max((path.most() for row in table.joint for path in row.paths), default=1)
    if most > BRANCHES:  # one step that many copies take, each with several outcomes, could take years to compute
        raise refusal
    flat = _flattened(table, partial(_joint_name, table), _judged_cell, most=JOINT, refusal=refusal)
    states = {each.name: replace(each, shows=shown_text(each.parts)) for each in flat.states.values()}
    rpcs = Counter(event.rpc for event in flat.events.values())
    # If each copy has its own version of an event, the RPC name does not tell which of the copies is meant.
    events = {event.name: replace(event, rpc=event.rpc * (rpcs[event.rpc] == 1)) for event in flat.events.values()}
    return replace(flat, entity=system.name, states=states, events=events, profile=system.profile)


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
    table = SystemTable(system, symbolic=True)
    what = f"the system has more than {most} states, which are too many for one machine"
    hint = "use --parts to reduce the number of copies, or name the machine of one part instead of the system"
    refusal = refused(system.path or system.name, "FSM602", what, hint)
    flat = _flattened(table, partial(_state_name, table), _cell, most=most, refusal=refusal)
    shown = [_shown_text(table, each, visible) for each in range(len(table.states))] if visible else table.states
    states = zip(flat.states.values(), shown, strict=True)
    return replace(flat, states={state.name: replace(state, shows=shows) for state, shows in states})


_CellOf = Callable[[SystemTable, int, int, Callable[[int], str]], Cell]


def _flattened(
    table: SystemTable, name: Callable[[int], str], cell: _CellOf, *, most: int, refusal: InputError
) -> Machine:
    system = table.system
    state = 0
    while state < len(table.states):  # the call to step() below adds new states
        for row in table.rows:
            table.step(state, row.index)
            if len(table.states) > most:
                raise refusal
        state += 1
    cells = [{name(each): cell(table, each, row.index, name) for each in range(state)} for row in table.rows]
    copies = [copy.name for copy in system.copies]
    states = (
        State(
            name=name(each),
            about=name(each),
            shows="",
            kind="initial" if each == table.initial else None,
            parts=dict(zip(copies, table.shows(each), strict=True)),
        )
        for each in range(state)
    )
    return Machine(
        name=system.name,
        title=system.title,
        about=system.about,
        source=system.source,
        initial=name(table.initial),
        entity="system",
        states={each.name: each for each in states},
        events={row.event.name: replace(row.event, cells=cells[row.index]) for row in table.rows},
        clauses=system.clauses,
        data=system.data,
        path=system.path,
    )


def _joint_name(table: SystemTable, state: int) -> str:
    here = zip(table.system.copies, table.locals(state), strict=True)
    return shown_text({copy.name: table.table_of(copy.part).named(local) for copy, local in here})


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


def _cell(table: SystemTable, state: int, row: int, name: Callable[[int], str]) -> Cell:
    clause, ways = table.joint[row].joint.clause, table.step(state, row)
    if not ways:
        return Cannot(clause=clause)
    return Moves(
        outcomes=tuple(
            Outcome(
                name=own,
                to=name(way.to),
                reply=way.reply,
                emits=way.emits,
                when=_written(table, row, way.when) if way.when else None,
                updates=way.updates,
                chosen=way.when is not None,
            )
            for own, way in zip(_names(ways), ways, strict=True)
        ),
        clause=clause,
    )


def _judged_cell(table: SystemTable, state: int, row: int, name: Callable[[int], str]) -> Cell:
    joint, copies, parts = table.joint[row].joint, table.system.copies, table.system.parts
    met = list(table.met(state, row))
    clauses = (cell.clause for move, local, _ in met if (cell := move.cell(local)))
    clause = min((joint.clause, *clauses), key=lambda each: LEVELS.index(each.level))
    # A hidden event that is unspecified could lead anywhere at any time, so that a judge would accept everything.
    silence = list(_silence(table, joint.name, met)) if joint.kind != "hidden" else []
    if All(of=()) in silence:
        return Silent(clause=clause)
    cell = _cell(table, state, row, name)
    known = Counter[str]()
    outcomes = []
    ways = table.step(state, row)
    for outcome, way in zip(cell.outcomes if isinstance(cell, Moves) else (), ways, strict=True):
        used = (used_cell(parts[copies[done.digit].part].machine, done) for done in way.done if done.event)
        deviation = next((each.deviation for each in used if each.deviation), None)
        known[outcome.name] += 1
        own = f"{outcome.name} ({known[outcome.name]})" if known[outcome.name] > 1 else outcome.name
        holding = ([way.when] if way.when else []) + ([Not(of=any_of(silence))] if silence else [])
        when = all_of(holding) if holding else None
        written = _written(table, row, when) if when else None
        outcomes.append(replace(outcome, name=own, deviation=deviation, when=written))
    if not outcomes and not silence:
        return replace(cell, clause=clause)
    guards = [way.when for way in ways if way.when]
    rest = Not(of=any_of([*silence, *guards]))
    if len(guards) == len(ways) and table.satisfiable(rest, joint.name):
        impossible = _written(table, row, rest)
        outcomes.append(Outcome(name="cannot", to=name(state), when=impossible, chosen=True, impossible=True))
    return Moves(outcomes=tuple(outcomes), clause=clause)


def _silence(table: SystemTable, event: str, met: list[tuple[JointMove, int, AssumedData]]) -> Iterator[Condition]:
    """Yield the conditions under which a move of *event* is unspecified.  An empty condition always holds."""
    for move, local, assumed in met:
        if move.unspecified(local):
            yield all_of(assumed.holding)
        elif (uncovered := move.uncovered(local)) is not None:
            condition = All(of=(*assumed.holding, table.composition.now(assumed, uncovered)))
            if table.satisfiable(condition, event):
                yield condition


def _written(table: SystemTable, row: int, condition: Condition) -> WrittenCondition:
    return WrittenCondition(text=table.system.text(condition, table.joint[row].joint.arguments), means=condition)


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
