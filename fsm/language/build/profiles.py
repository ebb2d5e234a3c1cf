"""Build profiles from the cells that they override, and check that they declare what they change."""

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace

from fsm.language.build.cells import Groups, Part, Sets
from fsm.language.build.events import check_ends
from fsm.language.build.problems import Problems
from fsm.language.build.requirements import Demands, deviation, exemptions
from fsm.language.machine_file import Written, WrittenOverride, WrittenProfile
from fsm.machine import Cell, Event, Machine, Moves, Override, Profile, outcomes


def profiles(problems: Problems[Written], machine: Machine, sets: Sets) -> dict[str, Profile]:
    """Return the profiles of *machine* by name, in file order.  Each begins with what it inherits."""
    written = problems.model.written.profile
    made: dict[str, Profile] = {}
    for name in _parents_first(problems):
        each = written[name]
        parent = made.get(each.extends) if each.extends is not None else None
        made[name] = Overriding(problems=problems, machine=machine, sets=sets, name=name).profile(each, parent)
    return {name: made[name] for name in written}


def _parents_first(problems: Problems[Written]) -> list[str]:
    written = problems.model.written.profile
    ordered: dict[str, None] = {}
    for first in written:
        chain: list[str] = []
        name: str | None = first
        while name is not None and name not in ordered:
            chain.append(name)
            at, parent = ("profile", name, "extends"), written[name].extends
            if not problems.known("FSM124", "extends unknown profile", parent, written, *at):
                parent = None
            elif parent in chain:
                circle = " and ".join(f"'{each}'" for each in chain[chain.index(parent) :])
                what = f"profile {circle} extends itself" if parent == name else f"profiles {circle} extend each other"
                problems.say("FSM125", what, "one of them is to extend nothing, or another profile", *at)
                parent = None
            name = parent
        ordered |= dict.fromkeys(reversed(chain))
    return list(ordered)


def _inherited(parent: Profile, own: Iterable[Override], name: str) -> Iterator[Override]:
    """Yield the overrides that *name* inherits from *parent*, without cells that *own* replaces in every version."""
    named = {each.name for each in own}
    own = [each for each in own if each.deviation or not (each.since or each.until)]
    cells = {(each.event, state) for each in own for state in each.cells}
    ends = {(each.event, state) for each in own for state in each.ends}
    for each in parent.overrides:
        kept = replace(
            each,
            cells={state: cell for state, cell in each.cells.items() if (each.event, state) not in cells},
            ends={state: end for state, end in each.ends.items() if (each.event, state) not in ends},
        ).of(name)
        if each.name not in named and (kept.cells or kept.ends):
            yield kept


@dataclass(frozen=True, slots=True, kw_only=True)
class Overriding:
    """Builds the profile ``name`` of ``machine``, and reports its errors."""

    problems: Problems[Written]
    machine: Machine
    sets: Sets
    name: str

    def profile(self, written: WrittenProfile, parent: Profile | None) -> Profile:
        """Return the profile, which extends *parent* if given.  Leave out overrides of unknown events."""
        overrides = []
        for key, override in written.cell.items():
            at = ("profile", self.name, "cell", key, "event")
            if self.problems.known("FSM114", "unknown event", override.event, self.machine.events, *at):
                overrides.append(self._override(key, override))
        self._check_once(overrides)
        demands = Demands(states=(), sets=self.sets, kinds=self.machine.fields)
        own = tuple(exemptions(self.problems, demands, self.name, self.machine.requires))
        named = {each.deviation.name for each in own}
        above = parent.exemptions if parent else ()
        taken_over = (each.of(self.name) for each in above if each.deviation.name not in named)
        made = Profile(
            name=self.name,
            about=written.about,
            extends=parent.name if parent else "",
            since=written.since,
            until=written.until,
            overrides=(*_inherited(parent, overrides, self.name), *overrides) if parent else tuple(overrides),
            exemptions=(*taken_over, *own),
        )
        # Check that a call that begins can also end under the profile.
        profiled = replace(self.machine, profiles={self.name: made}).under(self.name)
        check_ends(self.problems, profiled)
        # Check that outcomes of one cell, including those of deviations, have distinct names.
        for event in (each for name, each in profiled.events.items() if each is not self.machine.events[name]):
            for state, cell in (*event.cells.items(), *event.ends.items()):
                times = Counter(way.name for way in cell.outcomes) if isinstance(cell, Moves) else Counter[str]()
                for name in (name for name, number in times.items() if number > 1):
                    what = f"'{event.name}' in '{state}' has two outcomes of the name '{name}' under '{self.name}'"
                    self.problems.say_at(cell.line, "FSM112", what, "rename the outcome of the profile")
        return made

    def _override(self, key: str, written: WrittenOverride) -> Override:
        at = ("profile", self.name, "cell", key)
        event = self.machine.events[written.event]
        clause = self.machine.clauses.get(written.deviates or "")
        self.problems.known("FSM108", "unknown clause", written.deviates, self.machine.clauses, *at, "deviates")
        groups = Groups(
            problems=self.problems,
            name=event.name,
            kind=event.kind,
            parts=[Part(written=written, clauses={state: cell.clause for state, cell in event.cells.items()}, at=at)],
            sets=self.sets,
        )
        made = Override(
            name=key,
            event=written.event,
            cells=groups.cells(),
            ends=groups.ends(),
            about=written.about,
            deviation=deviation(key, self.name, clause, written, event.name) if clause else None,
            since=written.since,
            until=written.until,
            line=self.problems.model.lines.find(*at),
        )
        self._check_changes(made, event, deviates=written.deviates is not None)
        return made

    def _check_changes(self, made: Override, event: Event, *, deviates: bool) -> None:
        """Check that an override names the clause that it breaks if, and only if, it allows more than the machine."""
        cells: list[tuple[str, Cell, Cell | None]]
        cells = [(state, cell, event.cells[state]) for state, cell in made.cells.items()]
        cells += [(state, end, event.ends.get(state)) for state, end in made.ends.items()]
        for state, cell, before in cells:
            own = outcomes(before, state, event.kind) if before else ()
            new = outcomes(cell, state, event.kind)
            wider = own is not None and not all(any(each.covers(way) for each in own) for way in new or ())
            if own is not None and new is None:
                what = f"'{made.name}' says nothing of '{state}', where event '{event.name}' has a rule"
                self.problems.say_at(cell.line, "FSM115", what, "say what the implementation does there")
            elif wider and not deviates:
                what = f"'{made.name}' allows in '{state}' what event '{made.event}' does not"
                self.problems.say_at(cell.line, "FSM115", what, 'name the clause that breaks: deviates = "…"')
            elif deviates and not wider:
                what = f"'{made.name}' allows in '{state}' nothing that event '{made.event}' does not"
                self.problems.say_at(cell.line, "FSM116", what, "drop deviates, or the cell")
        if not made.cells and not made.ends:
            what = f"'{made.name}' overrides no cell"
            self.problems.say_at(made.line, "FSM116", what, "name those that differ, or drop it")

    def _check_once(self, overrides: Iterable[Override]) -> None:
        """Check that an override that replaces a cell is the only one for it.  Only deviations may share a cell."""
        meeting: defaultdict[tuple[str, str, bool], list[tuple[Override, int]]] = defaultdict(list)
        for override in overrides:
            for state, cell in override.cells.items():
                meeting[override.event, state, False].append((override, cell.line))
            for state, end in override.ends.items():
                meeting[override.event, state, True].append((override, end.line))
        for (event, state, _), several in meeting.items():
            if len(several) > 1 and any(override.deviation is None for override, _ in several):
                names = " and ".join(f"'{override.name}'" for override, _ in several)
                what = f"event '{event}' in '{state}' is overridden by {names}"
                hint = "keep the one that is meant; only deviations may meet"
                self.problems.say_at(several[-1][1], "FSM105", what, hint)
