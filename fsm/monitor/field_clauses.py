"""Whether the fields of a status are what the clauses of the state require that is shown with them."""

from collections.abc import Iterable, Iterator, Mapping
from itertools import chain

from fsm.machine import Machine, Profile
from fsm.machine.fields import Demand, FieldValue, Requirement
from fsm.monitor.grouping import Folder
from fsm.trace import Line, Observation, nanoseconds
from fsm.verdict import Cause, Permitted, Violation


def demanded(
    machine: Machine, shown: str, seen: Mapping[str, FieldValue]
) -> Iterator[tuple[Requirement, list[Demand]]]:
    """Each clause that *machine* requires of every state that shows *shown*, with what it requires of the fields *seen*.

    >>> from fsm.library import load
    >>> found = demanded(load("cri-container"), "CONTAINER_RUNNING", {"started": 0, "finished": 0})
    >>> [(clause.clause.name, each.legal) for clause, those in found for each in those if not each.holds]
    [('running-has-a-start', 'started set')]
    """
    states = {state.name for state in machine.states.values() if state.shows == shown}
    times = {
        name: at
        for name, value in seen.items()
        if machine.fields.get(name) == "time"
        if (at := _time(value)) is not None
    }
    known = {name: value for name, value in seen.items() if machine.fields.get(name, "time") != "time"} | times
    for each in machine.requires.values():
        if states and states <= each.states and (found := list(each.demands(known))):
            yield each, found


def _time(value: FieldValue) -> int | None:
    """*value* in nanoseconds since 1970; ``None`` if it is no time."""
    return 0 if value in {"", "0001-01-01T00:00:00Z"} else nanoseconds(value)


class FieldClauses:
    """Holds the statuses of one trace to the clauses on fields of *machine*, which is under a profile or none.

    What breaks one goes to *folder*: as known if one of its *profiles* is known for it.  ``tested`` counts how often each
    clause was put to the test.
    """

    def __init__(self, machine: Machine, profiles: Iterable[Profile], folder: Folder) -> None:
        self.tested = dict.fromkeys(machine.requires, 0)
        self._machine, self._folder = machine, folder
        self._known = tuple(chain.from_iterable(each.exemptions for each in profiles))

    def hold(self, seen: Observation, place: Line) -> tuple[Violation, ...]:
        """Judge the fields that were *seen*, if a state was shown with them; gives the violations."""
        found = []
        shown, fields = seen.shows or seen.met, seen.fields or {}
        for requirement, those in demanded(self._machine, shown, fields):
            clause = requirement.clause
            self.tested[clause.name] += 1
            wrong = [each for each in those if not each.holds]
            if not wrong:
                continue
            deviations = [each.deviation for each in self._machine.exemptions if each.explains(clause, fields)]
            if deviations:
                self._folder.tolerate(self._machine.name, deviations, seen, place)
                continue
            names = tuple(dict.fromkeys(name for each in wrong for name in each.fields))
            violation = Violation(
                machine=self._machine.name,
                cause=Cause.FIELDS,
                observation=seen,
                file=place.file,
                line=place.number,
                before=(),
                permitted=(Permitted(state=shown, what=(" and ".join(each.legal for each in wrong),)),),
                clause=clause,
                edits=(),
                illegal=", ".join(names),
                found=", ".join(f"{name} {fields[name] if fields[name] != '' else 'empty'}" for name in names),
                resembles=tuple(each.deviation for each in self._known if each.explains(clause, fields)),
            )
            self._folder.fold(violation)
            found.append(violation)
        return tuple(found)
