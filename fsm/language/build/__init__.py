"""Build a well-formed machine from a written model, or report every error in the model.

This module checks the rules that the engines rely on: every cell exists, every name is defined, calls have replies
and signals have none, and a call that begins can end. :mod:`fsm.language.codes` has the rules and their codes.
"""

from dataclasses import replace
from typing import Final, get_args

from fsm.language.build.cells import Events, Sets, keys, ways
from fsm.language.build.data import check_data, variables
from fsm.language.build.ends import check_ends
from fsm.language.build.problems import Problems, check_used, clauses_of, definitions
from fsm.language.build.profiles import Demands, kinds_of_fields, profiles, requirements
from fsm.language.build.substates import flattened, remembering
from fsm.language.build.timing import timers
from fsm.language.machine_file import Cells, Written
from fsm.language.read import Model
from fsm.machine import Machine, Omission, State, StateKind

__all__ = ["LARGEST_TABLE", "build"]

LARGEST_TABLE: Final = 500_000
"""Maximum number of outcomes in the table of a machine. Each cell of an event counts like its largest cell."""


def build(model: Model) -> Machine:
    """Build the machine that *model* describes, or raise :class:`InputError` with every semantic error in the file."""
    problems = flattened(Problems(model=model))
    machine = _flat(problems)
    return _flat(remembering(problems, machine, LARGEST_TABLE)) if machine.hierarchy.unresolved else machine


def _flat(problems: Problems[Written]) -> Machine:
    written = problems.model.written
    if sum(map(_outcomes, written.event.values())) * len(written.states) > LARGEST_TABLE:
        size = f"{len(written.event)} events in {len(written.states)} states"
        what = f"{size} can have more than {LARGEST_TABLE} outcomes"
        problems.say("FSM120", what, "split the machine into several machines", "event")
        problems.refuse()
    sets = _sets(problems)
    machine = _machine(problems, sets)
    check_ends(problems, machine)
    if not problems.found:  # a condition with an error is missing
        check_data(problems, machine)
    machine = replace(machine, timers=timers(problems, machine, sets))
    _check_kinds(problems)
    _check_rpcs(problems)
    _check_aliases(problems, machine)
    machine = replace(machine, omits=_omissions(problems, machine, sets))
    under = profiles(problems, machine, sets)
    used = {event.clause for event in written.event.values()}
    used |= {clause for event in written.event.values() for clause in event.clauses}
    used |= {cell.deviates for profile in written.profile.values() for cell in profile.cell.values()}
    check_used(problems, written.clause, used, "no cell", "the 'clause' or 'clauses' of an event")
    problems.refuse()
    return replace(machine, profiles=under)


def _outcomes(event: Cells) -> int:
    return max((len(each) if isinstance(each, list) else 1 for each in event.moves.values()), default=1)


def _machine(problems: Problems[Written], sets: Sets) -> Machine:
    written, header = problems.model.written, problems.model.written.machine
    problems.known("FSM101", "unknown initial state", header.initial, written.states, "machine", "initial")
    known = clauses_of(problems, written.clause, written.event)
    fields = kinds_of_fields(problems)
    data = variables(problems)
    return Machine(
        name=header.name,
        title=header.title,
        about=header.about,
        source=header.source,
        initial=header.initial,
        entity=header.entity or header.name,
        states=_states(problems),
        events=Events(problems=problems, known=known, sets=sets, data=data).build_events(),
        clauses=known,
        indefinite=tuple(header.indefinite),
        data=data,
        fields=fields,
        requires=requirements(problems, Demands(states=written.states, sets=sets, kinds=fields), known),
        hierarchy=problems.tree,
        path=problems.model.path,
    )


def _sets(problems: Problems[Written]) -> dict[str, tuple[str, ...]]:
    written = problems.model.written
    cells: list[Cells] = list(written.event.values())
    cells += [rest for event in written.event.values() for rest in event.clauses.values()]
    cells += [each for profile in written.profile.values() for each in profile.cell.values()]
    texts = [key for each in cells for key in keys(each)]
    texts += [state for each in written.requires.values() for state in each.in_]
    texts += [state for each in written.timer.values() for state in each.in_]
    texts += [state for each in (written.drawing.omits.values() if written.drawing else ()) for state in each.states]
    found = definitions(problems, written.define, states=written.states, taken={}, texts=texts)
    return {name: value for name, value in found.items() if not isinstance(value, str)}


def _states(problems: Problems[Written]) -> dict[str, State]:
    states = {}
    for name, each in problems.model.written.states.items():
        if each.shows == "":
            hint = f"leave out 'shows' for '{name}', or write the text that an observer reads"
            problems.say("FSM107", f"state '{name}' shows an empty text", hint, "states", name, "shows")
        states[name] = State(
            name=name,
            about=each.about,
            shows=name if each.shows is None else each.shows,
            aliases=tuple(each.aliases),
            kind="initial" if name == problems.model.written.machine.initial else each.kind,
        )
    return states


def _check_kinds(problems: Problems[Written]) -> None:
    initial, states = problems.model.written.machine.initial, problems.model.written.states
    for name, each in states.items() if initial in states else ():
        if each.kind is not None and (each.kind == "initial") != (name == initial):
            what = f"state '{name}' has the kind {each.kind}, but the machine begins in '{initial}'"
            others = ", ".join(kind for kind in get_args(StateKind) if kind != "initial")
            hint = f"leave out 'kind', or choose one of {others}"
            if name == initial:
                hint = "leave out 'kind': the initial state always has the kind initial"
            problems.say("FSM134", what, hint, "states", name, "kind")


def _check_rpcs(problems: Problems[Written]) -> None:
    events = problems.model.written.event
    seen: dict[str, str] = {}
    for name, rpc in ((name, event.rpc) for name, event in events.items() if event.rpc is not None):
        what = hint = ""
        if rpc == "":
            what = f"event '{name}' has an empty name on the wire"
            hint = "leave out 'rpc' if the event has no name on the wire"
        elif rpc in seen:
            what = f"events '{seen[rpc]}' and '{name}' have the same name {rpc!r} on the wire"
            hint = "give each event its own name on the wire"
        elif rpc in events and rpc != name:
            what = f"event '{name}' has the name {rpc!r} on the wire, but another event is called that"
            hint = "rename one of the two events, because a trace may use either name of an event"
        if what:
            problems.say("FSM117", what, hint, "event", name, "rpc")
        seen.setdefault(rpc, name)


def _check_aliases(problems: Problems[Written], machine: Machine) -> None:
    events = {word: event.name for event in machine.events.values() for word in event.words}
    aliases = [
        (event.name, f"event '{event.name}'", problems.line("event", event.name, "aliases", index), alias)
        for event in machine.events.values()
        for index, alias in enumerate(event.aliases)
    ]
    aliases += (
        (event.name, f"outcome '{way.name}' of '{event.name}'", cell.line, alias)
        for event in machine.events.values()
        for cell in (*event.cells.values(), *event.ends.values())
        for way in ways((cell,))
        for alias in way.aliases
    )
    for owner, called, line, alias in aliases:
        if events.setdefault(alias, owner) != owner:
            what = f"alias '{alias}' of {called} is a name of event '{events[alias]}'"
            problems.say_at(line, "FSM121", what, "use each name for only one event")
    shown = dict(machine.states)
    for state in machine.states.values():
        for index, alias in enumerate(state.aliases):
            if shown.setdefault(alias, state).shows != state.shows:
                what = f"alias '{alias}' of state '{state.name}' is a name of state '{shown[alias].name}'"
                hint = "use each name for only one state, or for several states that show the same text"
                problems.say("FSM121", what, hint, "states", state.name, "aliases", index)


def _omissions(problems: Problems[Written], machine: Machine, sets: Sets) -> dict[str, Omission] | None:
    written = problems.model.written.drawing
    if written is None:
        return None
    found = {}
    for name, each in written.omits.items():
        here = problems.below("drawing", "omits", name)
        if not here.known("FSM123", "drawings omit the unknown event", name, machine.events):
            continue
        known = {way.name for way in machine.events[name].outcomes()}
        for index, state in enumerate(each.states):
            if state not in {"*", *sets}:
                what = f"drawings omit '{name}' in the unknown state"
                here.known("FSM123", what, state, machine.states, "states", index)
        for index, outcome in enumerate(each.outcomes):
            here.known("FSM123", f"drawings omit, for '{name}', the unknown outcome", outcome, known, "outcomes", index)
        if not known or not (each.states or each.outcomes):
            undrawn = "remove this entry, because the event has no outcome that would be drawn"
            hint = "name states or outcomes that drawings omit" if known else undrawn
            here.say("FSM123", f"the entry of '{name}' in [drawing.omits] omits nothing", hint)
        named = {one for state in each.states for one in sets.get(state, (state,))}
        states = frozenset(machine.states if "*" in named else named)
        found[name] = Omission(states=states, outcomes=frozenset(each.outcomes))
    return found
