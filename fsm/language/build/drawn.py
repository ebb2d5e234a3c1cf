"""What a model says of drawings of it: other names, and what they leave out."""

from collections.abc import Iterator, Mapping

from fsm.language.build.cells import ways
from fsm.language.build.problems import Problems
from fsm.language.machine_file import Written
from fsm.machine import Machine, Omission, State


def check_aliases(problems: Problems[Written], machine: Machine) -> None:
    """A drawing may use any name of an event, so no two share one; nor do states, unless they show the same."""
    events: dict[str, str] = {}
    for event in machine.events.values():
        events |= {event.name: event.name, event.rpc or event.name: event.name}
    for owner, called, line, alias in (*_event_aliases(problems, machine), *_outcome_aliases(machine)):
        if events.setdefault(alias, owner) != owner:
            what = f"alias '{alias}' of {called} is a name of event '{events[alias]}'"
            problems.say_at(line, "FSM121", what, "one name is one event")
    shown: dict[str, State] = {state.name: state for state in machine.states.values()}
    for state in machine.states.values():
        for index, alias in enumerate(state.aliases):
            if shown.setdefault(alias, state).shows != state.shows:
                what = f"alias '{alias}' of state '{state.name}' is a name of state '{shown[alias].name}'"
                hint = "one name is one state, or several that show the same"
                problems.say("FSM121", what, hint, "states", state.name, "aliases", index)


def _event_aliases(problems: Problems[Written], machine: Machine) -> Iterator[tuple[str, str, int, str]]:
    """Of every event its name, what it is called, the line of each of its aliases, and the alias."""
    for event in machine.events.values():
        for index, alias in enumerate(event.aliases):
            line = problems.model.lines.find("event", event.name, "aliases", index)
            yield event.name, f"event '{event.name}'", line, alias


def _outcome_aliases(machine: Machine) -> Iterator[tuple[str, str, int, str]]:
    """The same of every outcome."""
    for event in machine.events.values():
        for cell in (*event.cells.values(), *event.ends.values()):
            for way in ways((cell,)):
                called = f"outcome '{way.name}' of '{event.name}'"
                yield from ((event.name, called, cell.line, alias) for alias in way.aliases)


def omissions(
    problems: Problems[Written], machine: Machine, sets: Mapping[str, tuple[str, ...]]
) -> Mapping[str, Omission] | None:
    """What drawings leave out of each event; ``None`` where the model does not say."""
    written = problems.model.written.drawing
    if written is None:
        return None
    found = {}
    for name, each in written.omits.items():
        at = ("drawing", "omits", name)
        if not problems.known("FSM123", "drawings omit unknown event", name, machine.events, *at):
            continue
        event = machine.events[name]
        known = {way.name for way in event.outcomes()}
        for index, state in enumerate(each.states):
            if state not in {"*", *sets}:
                what = f"drawings omit '{name}' from unknown state"
                problems.known("FSM123", what, state, machine.states, *at, "states", index)
        for index, outcome in enumerate(each.outcomes):
            what = f"drawings omit of '{name}' unknown outcome"
            problems.known("FSM123", what, outcome, known, *at, "outcomes", index)
        if not known or not (each.states or each.outcomes):
            hint = "name states or outcomes" if known else "it moves nothing, so nothing of it would be drawn"
            problems.say("FSM123", f"drawings omit nothing of '{name}'", hint, *at)
        named = {one for state in each.states for one in sets.get(state, (state,))}
        states = frozenset(machine.states if "*" in named else named)
        found[name] = Omission(states=states, outcomes=frozenset(each.outcomes))
    return found
