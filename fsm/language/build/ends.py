"""Check that every call that begins can end, and that no call ends that is not in progress."""

from fsm.language.build.problems import Problems
from fsm.language.machine_file import Written
from fsm.machine import Event, Machine, Moves
from fsm.machine.calls import states_begun_in, states_during_call


def check_ends(problems: Problems[Written], machine: Machine) -> None:
    """Report every call that begins but cannot end, and every end in a state where no call is in progress."""
    if machine.hierarchy.unresolved:
        return  # Where a history leads is known when states have variants.
    for event in machine.events.values():
        begun = states_begun_in(event)
        for state, line in begun.items():
            if state not in event.ends and state in machine.states:
                what = f"event '{event.name}' begins in '{state}', but cannot end there"
                problems.say_at(line, "FSM111", what, f"state how the call ends: ends = {{ {state} = … }}")
        met = {machine.hierarchy.in_model(state) for state in in_progress(machine, event)}
        for state, end in event.ends.items():
            if machine.hierarchy.in_model(state) not in met:
                what = f"event '{event.name}' ends in '{state}', but is never in progress in that state"
                led = f"no event leads to it from {' or '.join(begun)}, where the call begins"
                why = led if begun else "the call never begins"
                hint = f'{why}: add an outcome with begins = "{state}", or remove the end'
                problems.say_at(end.line, "FSM111", what, hint)
        if stuck := endless(event):
            where = " and ".join(f"'{state}'" for state in stuck)
            what = f"event '{event.name}' never ends, because its ends in {where} only begin the call again"
            hint = "give one of these ends an outcome with 'to' or 'stays'"
            problems.say_at(event.ends[stuck[0]].line, "FSM122", what, hint)


def endless(event: Event) -> list[str]:
    stuck = dict(event.ends)

    def leaves(end: Moves) -> bool:
        # Another check reports states in which the call begins but cannot end.
        return not end.outcomes or any(not way.begins or way.to not in stuck for way in end.outcomes)

    while len(left := {state: end for state, end in stuck.items() if not leaves(end)}) < len(stuck):
        stuck = left
    return list(stuck)


def in_progress(machine: Machine, event: Event) -> set[str]:
    begun = states_begun_in(event)
    return {*begun} if event.ends.keys() <= begun.keys() else {*begun, *states_during_call(machine, event)}
