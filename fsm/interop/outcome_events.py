"""A machine for tools without outcomes: each outcome is an event of its own.

They take the first transition that an event enables, so the outcomes of one event in one state could not be
distinguished; as ``stop.stopped`` and ``stop.failed`` they can, and the environment chooses by sending one of them.
The step in which a call in progress goes on is ``stop-ends.stopped``.

An outcome that does not change the state is a transition without a target.  Cells that refuse, cannot happen or are
silent have no transition.  None of these tools can express replies, what a state shows, clauses and profiles.
"""

from collections.abc import Iterator

from fsm.interop.draft import DraftTransition
from fsm.language.names import distinct, identifiers
from fsm.machine import Machine, Refuses, outcomes


def outcome_events(machine: Machine) -> Iterator[DraftTransition]:
    """All outcomes, by event and state, except in cells that refuse, cannot happen or are silent."""
    ends = [f"{event.name}-ends" for event in machine.events.values() if event.ends]
    named = identifiers("", dict.fromkeys([*machine.events, *ends]), also="-")
    for event in machine.events.values():
        for row, cells in ((named[event.name], event.cells), (named.get(f"{event.name}-ends", ""), event.ends)):
            for state, cell in cells.items():
                ways = () if isinstance(cell, Refuses) else outcomes(cell, state, event.kind) or ()
                taken: list[str] = []
                for way in ways:
                    taken.append(distinct(way.name, taken, also="-"))
                    # A transition without a target does not leave and re-enter the state.
                    to = way.to if way.to != state else ""
                    yield DraftTransition(event=f"{row}.{taken[-1]}", source=state, to=to, emits=way.emits)
