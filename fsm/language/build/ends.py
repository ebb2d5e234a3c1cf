"""Whether calls that take time can end, and whether their ends can be met."""

from fsm.language.build.problems import Problems
from fsm.language.machine_file import Written
from fsm.machine import Event, Machine, Moves
from fsm.machine.calls.endings import begun_in, found_in


def check_ends(problems: Problems[Written], machine: Machine) -> None:
    """Note every call of *machine* that begins and cannot end, and every end that no call can come to."""
    for event in machine.events.values():
        begun = begun_in(event)
        for state, line in begun.items():
            if state not in event.ends and state in machine.states:
                what = f"event '{event.name}' begins in '{state}' and never ends there"
                problems.say_at(line, "FSM111", what, f"say how it ends: ends = {{ {state} = … }}")
        met = in_progress(machine, event)
        for state, end in event.ends.items():
            if state not in met:
                what = f"event '{event.name}' ends in '{state}', where it is never in progress"
                where = (
                    f"nothing leads there from {' or '.join(begun)}, where it begins" if begun else "it never begins"
                )
                hint = f'{where}: add an outcome with begins = "{state}", or drop the end'
                problems.say_at(end.line, "FSM111", what, hint)
        if stuck := endless(event):
            where = " and ".join(f"'{state}'" for state in stuck)
            what = f"event '{event.name}' never ends: from {where} it only begins again"
            hint = "give one of them an outcome with to or stays"
            problems.say_at(event.ends[stuck[0]].line, "FSM122", what, hint)


def endless(event: Event) -> list[str]:
    """The states from which a call of *event* only ever begins again."""
    ending: set[str] = set()

    def leaves(end: Moves) -> bool:
        # A call that begins where no end is written is noted elsewhere.
        ways = end.outcomes
        return not ways or any(not way.begins or way.to in ending or way.to not in event.ends for way in ways)

    while more := {state for state, end in event.ends.items() if state not in ending and leaves(end)}:
        ending |= more
    return [state for state in event.ends if state not in ending]


def in_progress(machine: Machine, event: Event) -> set[str]:
    """The states in which a call of *event* may be that has begun and not yet ended."""
    begun = begun_in(event)
    return {*begun} if event.ends.keys() <= begun.keys() else {*begun, *found_in(machine, event)}
