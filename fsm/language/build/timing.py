"""Build timers, and check that each of them can fire and restart."""

from fsm.language.build.cells import REST, Sets
from fsm.language.build.problems import Problems
from fsm.language.machine_file import Written, WrittenTimer
from fsm.machine import Cannot, Ignores, Machine, Moves, Silent
from fsm.machine.timers import Timer, duration, nanoseconds_in


def timers(problems: Problems[Written], machine: Machine, sets: Sets) -> dict[str, Timer]:
    found: dict[str, Timer] = {}
    for name, written in problems.model.written.timer.items():
        here = problems.below("timer", name)
        if name in {*machine.data, *machine.states, *machine.events}:
            what = f"'{name}' is also the name of a variable, a state or an event"
            here.say("FSM141", what, "choose a name that is not used for anything else")
        timer = _timer(here, machine, sets, name, written)
        if timer is not None:
            _check_restarts(here, machine, timer)
            for other in found.values():
                if other.event == timer.event and other.states & timer.states:
                    what = f"the timers '{other.name}' and '{name}' fire '{timer.event}' in the same states"
                    here.say("FSM173", what, "give each timer its own event, or its own states")
            found[name] = timer
    return found


def _timer(here: Problems[Written], machine: Machine, sets: Sets, name: str, written: WrittenTimer) -> Timer | None:
    states, names = set[str](), {**machine.hierarchy.names, **sets}
    for index, state in enumerate(written.in_):
        if state != REST:
            here.known("FSM102", "unknown state", state, (*machine.states, *names), "in", index)
        states |= {*(machine.states if state == REST else names.get(state, (state,)))}
    after, tolerance = _duration(here, written.after, "after"), _duration(here, written.tolerance, "tolerance")
    event = machine.events.get(written.event)
    if not here.known("FSM171", f"timer '{name}' fires the unknown event", written.event, machine.events, "event"):
        return None
    if event is None or after is None or tolerance is None or not states <= machine.states.keys():
        return None
    if not 0 <= tolerance < after:
        what = f"the tolerance of timer '{name}' is {duration(tolerance)}, but its time is {duration(after)}"
        here.say("FSM170", what, "give a tolerance that is shorter than the time", "tolerance")
        return None
    if event.kind == "call":
        hint = 'fire an event that happens by itself: kind = "signal" or "hidden"'
        here.say("FSM172", f"timer '{name}' fires the call '{event.name}'", hint, "event")
    for state in [each for each in machine.states if each in states]:
        if isinstance(event.cells[state], Cannot | Silent):
            what = f"timer '{name}' runs in '{state}', where its event '{event.name}' has no effect that is specified"
            here.say(
                "FSM172", what, "say in a cell of the event what it does there, or let the timer not run there", "in"
            )
    return Timer(
        name=name,
        about=written.about,
        states=frozenset(states),
        event=event.name,
        after=after,
        tolerance=tolerance,
        clause=event.cells[next(each for each in machine.states if each in states)].clause,
        restarts=frozenset(written.restarts),
    )


def _duration(here: Problems[Written], text: str, word: str) -> int | None:
    found = nanoseconds_in(text)
    if found is None:
        here.say("FSM170", f"{text!r} is not a duration", "write a number and ms, s, min, h or d: '30 min'", word)
    return found


def _check_restarts(here: Problems[Written], machine: Machine, timer: Timer) -> None:
    for name in sorted(timer.restarts):
        if not here.known(
            "FSM171", f"timer '{timer.name}' restarts on the unknown event", name, machine.events, "restarts"
        ):
            continue
        event = machine.events[name]
        cells = [cell for state in timer.states for cell in (event.cells[state], event.ends.get(state)) if cell]
        acts = [
            (cell.line, way)
            for cell in cells
            for way in (cell.outcomes if isinstance(cell, Moves) else ())
            if way.to in timer.states and not way.begins
        ]
        if line := next((cell.line for cell in cells if isinstance(cell, Ignores)), 0):
            what = f"timer '{timer.name}' restarts on '{name}', which is ignored where it runs"
            here.say_at(line, "FSM174", what, "write moves with stays = true, or let the timer not run there")
        elif name == timer.event or not acts:
            what = f"timer '{timer.name}' restarts on '{name}', which never lets it run on"
            here.say("FSM174", what, "leave out the event, or write stays = true where the timer runs", "restarts")
        for line, way in acts:
            if "ok" in way.reply and len(way.reply) > 1:
                what = f"whether '{name}' with outcome '{way.name}' restarts timer '{timer.name}' depends on its reply"
                here.say_at(line, "FSM174", what, "write an outcome for the reply ok, and another one for errors")
