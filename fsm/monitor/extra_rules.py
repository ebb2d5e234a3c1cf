"""Check two kinds of rules that no cell of a machine contains.

The first rule is that ids are fresh. A machine lets an entity be created again, but a runtime never assigns the same
id twice. The other rules are clauses about the fields of a status.
"""

from collections import OrderedDict
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import replace
from itertools import chain
from typing import Final, TypeAlias, TypeVar

from fsm.machine import ANY_ERROR, Clause, Event, Machine, Moves, Profile, Refuses
from fsm.machine.calls.belief import Dynamics
from fsm.machine.calls.configuration import Configurations
from fsm.machine.fields import Demand, FieldValue, Requirement
from fsm.machine.findings import Cause, Permitted, Violation
from fsm.monitor.diagnosis import Explained
from fsm.monitor.grouping import Folder
from fsm.trace import Key, Line, Observation, nanoseconds

T = TypeVar("T")

REMEMBERED: Final = 65_536
"""Maximum number of ids to remember, and maximum number of entities whose fields are remembered."""


class FreshIds:
    """Detects ids that are assigned twice. If *dynamics* is ``None``, no ids are tracked."""

    def __init__(self, dynamics: Dynamics | None) -> None:
        self._initial = dynamics.table.machine.initial if dynamics else ""
        self._clauses = _creations(dynamics) if dynamics else {}
        self._named: OrderedDict[str, int | None] = OrderedDict()
        self.given: OrderedDict[str, None] = OrderedDict()

    def gives(self, seen: Observation | Key) -> bool:
        return seen.event in self._clauses and seen.reply == "ok" and seen.phase != "request"

    def give(self, identity: str) -> None:
        self._named.pop(identity, None)
        _remember(self.given, identity, None)

    def named(self, seen: Observation) -> None:
        # Only calls with a start and an end need this record. Compiled code does not keep it, because it reads only
        # recordings with columns, and recordings of such calls have none.
        if self._clauses and seen.entity not in self._named:
            _remember(self._named, seen.entity, nanoseconds(seen.at))

    def reused_id_violation(self, seen: Observation, after: Configurations) -> Explained | None:
        if not self.gives(seen):
            return None
        named = self._named.pop(seen.entity, None)
        early = named is not None and seen.start is not None and named < seen.start
        if seen.entity not in self.given and not early:
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


def _remember(ids: OrderedDict[str, T], identity: str, what: T) -> T:
    ids[identity] = what
    if len(ids) > REMEMBERED:
        ids.popitem(last=False)
    return what


def _creations(dynamics: Dynamics) -> dict[str, Clause]:
    """Return each call that can succeed and leave the initial state, with a clause that refuses the call."""
    machine = dynamics.table.machine
    found = {}
    for name, row in dynamics.names.items():
        event = dynamics.table.rows[row].event
        refused = [cell.clause for cell in event.cells.values() if isinstance(cell, Refuses)]
        ways = machine.step(machine.initial, event.name) or ()
        if event.kind == "call" and refused and any(way.to != machine.initial and way.replies("ok") for way in ways):
            found[name] = refused[0]
    return found


Kept: TypeAlias = dict[str, dict[str, FieldValue]]
"""Maps each clause to the fields that must not change and their values."""


def demanded(
    machine: Machine,
    shown: str,
    seen: Mapping[str, FieldValue],
    before: Kept | None = None,
    possible: Collection[str] = (),
) -> Iterator[tuple[Requirement, list[Demand]]]:
    """Yield each clause that applies to all states that show *shown*, with its demands on the fields *seen*.

    States outside *possible* are ignored, unless no state in *possible* shows *shown*. *before* maps each clause to the
    values that must not change, and is updated with the values that must not change from now on.

    >>> from fsm.language.library import load
    >>> found = demanded(load("examples/models/washer.toml"), "WASHING", {"started": 0, "finished": 0})
    >>> [(clause.clause.name, each.legal) for clause, those in found for each in those if not each.holds]
    [('washing-has-a-start', 'started set')]
    """
    states = {state.name for state in machine.states.values() if state.shows == shown}
    states = states.intersection(possible) or states
    read = {name: _time(value) if machine.fields.get(name) == "time" else value for name, value in seen.items()}
    known = {name: value for name, value in read.items() if value is not None}
    for name, each in machine.requires.items():
        if states and states <= each.states:
            kept = {} if before is None else before.setdefault(name, {})
            if found := list(each.demands(known, kept)):
                yield each, found
            kept |= {one: at for one, at in each.kept(known).items() if at or machine.fields[one] == "int"}


def _states_left_by(event: Event) -> set[str]:
    cells = [(state, each) for state, each in event.cells.items() if isinstance(each, Moves)]
    return {state for state, each in cells if any(way.to != state for way in each.outcomes)}


def _time(value: FieldValue) -> int | None:
    return 0 if value in {"", "0001-01-01T00:00:00Z"} else nanoseconds(value)


class FieldClauses:
    """Checks the statuses in one trace against the field clauses of *machine*, and adds violations to *folder*.

    A violation includes the known deviations in *profiles* that explain it. ``tested`` counts how often each clause
    was tested.
    """

    def __init__(self, machine: Machine, profiles: Iterable[Profile], folder: Folder) -> None:
        events = [
            each for each in machine.events.values() if each.interrupts or _states_left_by(each) == {machine.initial}
        ]
        self.anew = {word for each in events for word in each.words}
        self.tested = dict.fromkeys(machine.requires, 0)
        self._machine, self._folder = machine, folder
        self.kept: OrderedDict[str, Kept] = OrderedDict()
        self._known = tuple(chain.from_iterable(each.exemptions for each in profiles))

    def notice(self, seen: Observation) -> None:
        """Forget the fields that may change after *seen*.

        The fields may change after an interruption, after a creation, and after a gap that names no entity. If *seen*
        names no entity, the fields of all entities are forgotten.
        """
        if seen.entity and seen.event in self.anew:
            self.kept.pop(seen.entity, None)
        elif not seen.entity and (seen.event in self.anew or seen.phase == "gap"):
            self.kept.clear()

    def hold(self, seen: Observation, place: Line, possible: Collection[str] = ()) -> tuple[Violation, ...]:
        if not seen.fields:
            return ()
        found = []
        shown, fields = seen.shows or seen.met, seen.fields
        kept = _remember(self.kept, seen.entity, self.kept.pop(seen.entity, {}))
        for requirement, those in demanded(self._machine, shown, fields, kept, possible):
            clause = requirement.clause
            self.tested[clause.name] += 1
            wrong = [each for each in those if not each.holds]
            if not wrong:
                continue
            if deviations := [each.deviation for each in self._machine.exemptions if each.explains(clause, fields)]:
                self._folder.tolerate(self._machine.name, deviations, seen, place)
                continue
            names = tuple(dict.fromkeys(name for each in wrong for name in each.fields))
            violation = Violation(
                machine=self._machine.name,
                cause=Cause.FIELDS,
                observation=seen,
                file=place.file,
                line=place.number,
                permitted=(Permitted(state=shown, what=(" and ".join(each.legal for each in wrong),)),),
                clause=clause,
                illegal=", ".join(names),
                found=", ".join(f"{name} {fields[name] if fields[name] != '' else 'empty'}" for name in names),
                resembles=tuple(each.deviation for each in self._known if each.explains(clause, fields)),
            )
            self._folder.fold(violation)
            found.append(violation)
        return tuple(found)


def requirement_checker(requirements: Iterable[Requirement], machine: Machine, folder: Folder) -> FieldClauses:
    requires = {each.clause.name: each for each in requirements}
    return FieldClauses(replace(machine, requires=requires, exemptions=()), (), folder)
