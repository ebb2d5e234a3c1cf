"""Detect creations that succeed with an id that was given before, or was named before the creation began.

A run of a machine may create an entity again, but a runtime never gives the same id twice.
"""

from collections import OrderedDict
from typing import Final

from fsm.machine import ANY_ERROR, Clause, Refuses
from fsm.machine.calls.belief import Dynamics
from fsm.machine.calls.configuration import Configurations
from fsm.machine.findings import Cause, Permitted
from fsm.monitor.diagnosis import Explained
from fsm.trace import Key, Observation, nanoseconds

REMEMBERED: Final = 65_536
"""Maximum number of ids to remember."""


class FreshIds:
    """Tracks the ids given by creations, which are calls that leave the initial state.

    Without *dynamics*, nothing is tracked.
    """

    def __init__(self, dynamics: Dynamics | None) -> None:
        self._initial = dynamics.table.machine.initial if dynamics else ""
        self._clauses = _creations(dynamics) if dynamics else {}
        self._named: OrderedDict[str, int | None] = OrderedDict()
        self._given: OrderedDict[str, int | None] = OrderedDict()

    def gives(self, seen: Observation | Key) -> bool:
        """Check whether *seen* gives an id."""
        return seen.event in self._clauses and seen.reply == "ok" and seen.phase != "request"

    def known(self, identity: str) -> bool:
        """Check whether *identity* was given before."""
        return identity in self._given

    def give(self, identity: str) -> None:
        """Record that *identity*, a new id, was given."""
        self._named.pop(identity, None)
        _remember(self._given, identity, None)

    def named(self, seen: Observation) -> None:
        """Record the id of *seen*, whose entity was neither alive nor at rest."""
        # Only calls with intervals need this.  Their recordings have no columns, so compiled code need not report ids.
        if self._clauses and seen.entity not in self._named:
            _remember(self._named, seen.entity, nanoseconds(seen.at))

    def given_again(self, seen: Observation, after: Configurations) -> Explained | None:
        """Return the violation if *seen* gives an id that is not fresh, or ``None`` if it does not.

        *after* holds the configurations after *seen*.
        """
        if not self.gives(seen):
            return None
        named = self._named.pop(seen.entity, None)
        early = named is not None and seen.start is not None and named < seen.start
        if seen.entity not in self._given and not early:
            self.give(seen.entity)
            return None
        return Explained(
            cause=Cause.REPLY,
            illegal=seen.reply,
            before=(self._initial,),
            permitted=(Permitted(state=self._initial, what=(ANY_ERROR,)),),
            clause=self._clauses[seen.event],
            after=after,
        )


def _remember(ids: OrderedDict[str, int | None], identity: str, at: int | None) -> None:
    ids[identity] = at
    if len(ids) > REMEMBERED:
        ids.popitem(last=False)


def _creations(dynamics: Dynamics) -> dict[str, Clause]:
    """For each call that can leave the initial state by succeeding, return a clause that refuses the call."""
    machine = dynamics.table.machine
    found = {}
    for name, row in dynamics.names.items():
        event = dynamics.table.rows[row].event
        refused = [cell.clause for cell in event.cells.values() if isinstance(cell, Refuses)]
        ways = machine.step(machine.initial, event.name) or ()
        if event.kind == "call" and refused and any(way.to != machine.initial and way.replies("ok") for way in ways):
            found[name] = refused[0]
    return found
