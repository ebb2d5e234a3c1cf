"""Silent cells that can be reached by unobserved steps.

Anything may follow where a machine is silent.  After such steps an observer therefore knows nothing, although nothing
was observed.
"""

from collections.abc import Collection

from fsm.machine import Machine, Silent


def washed_out(machine: Machine, unobserved: Collection[str] | None = None) -> tuple[tuple[str, str, str], ...]:
    """Return the silent cells that *unobserved* events lead to, as triples of event, state and unobserved event.

    The unobserved event leads there from a state in which the machine has a rule for the event.  *unobserved* defaults
    to the hidden events.  An unobserved event that is itself silent is paired with itself.  Cells whose clause has
    level MAY are omitted, because they are left open on purpose.

    >>> from fsm.language.library import load
    >>> washed_out(load("event-monitor")), washed_out(load("event-monitor"), ["stop"])
    ((), (('subscribe', 'closed', 'stop'),))
    """
    if unobserved is None:
        unobserved = [event.name for event in machine.events.values() if event.kind == "hidden"]
    moves = [
        (name, state, way.to)
        for name in unobserved
        for state in machine.states
        for way in machine.step(state, name) or ()
    ]
    found: dict[tuple[str, str], str] = {}
    for event in machine.events:
        cells = machine.events[event].cells
        silent = [state for state, cell in cells.items() if isinstance(cell, Silent) and cell.clause.level != "MAY"]
        found |= {(event, state): event for state in silent if event in unobserved}
        reached = {state for state in machine.states if state not in silent}
        while more := {to: name for name, state, to in moves if state in reached and to not in reached}:
            reached |= more.keys()
            found |= {(event, to): name for to, name in more.items()}
    return tuple((event, state, name) for (event, state), name in found.items())
