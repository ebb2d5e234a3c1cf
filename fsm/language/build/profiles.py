"""What profiles change: whether they say so, and a machine as one of them has it."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from fsm.language.build.cells import Groups
from fsm.language.build.ends import check_ends
from fsm.machine import ANY_ERROR, Deviation, Moves, Override, Profile, outcomes

if TYPE_CHECKING:
    from collections.abc import Iterable

    from fsm.language.build.problems import Problems
    from fsm.language.machine_file import Written, WrittenOverride, WrittenProfile
    from fsm.machine import Cell, Clause, Event, Machine, Outcome


def under(machine: Machine, profile: str) -> Machine:
    """*machine* as *profile* has it.

    Where the profile deviates, its outcomes are allowed beside the machine's
    own and carry the deviation; elsewhere its cells replace the machine's.

    Raises ``ValueError`` if the machine has no such profile.

    >>> from fsm.library import load
    >>> machine = load("container-status")
    >>> under(machine, "containerd-1.6").events["stop"].cells["absent"].outcomes[-1].reply
    ('NOT_FOUND',)
    """
    if profile not in machine.profiles:
        known = ", ".join(machine.profiles) or "none"
        raise ValueError(f"machine '{machine.name}' has no profile {profile!r}; profiles: {known}")
    events = dict(machine.events)
    for override in machine.profiles[profile].overrides:
        event = events[override.event]
        cells = {state: _merged(event, state, override) for state in override.cells}
        ends = {state: _merged_end(event, state, override) for state in override.ends}
        events[override.event] = replace(event, cells={**event.cells, **cells}, ends={**event.ends, **ends})
    return replace(machine, events=events, profiles={})


def _merged(event: Event, state: str, override: Override) -> Cell:
    cell, own = override.cells[state], event.cells[state]
    if override.deviation is None:
        return cell
    ways = outcomes(own, state, event.kind) or ()
    return _extended(ways, outcomes(cell, state, event.kind) or (), override, own.clause, cell.line)


def _merged_end(event: Event, state: str, override: Override) -> Moves:
    end, own = override.ends[state], event.ends.get(state)
    if override.deviation is None:
        return end
    ways, clause = (own.outcomes, own.clause) if own else ((), end.clause)
    return _extended(ways, end.outcomes, override, clause, end.line)


def _extended(
    own: tuple[Outcome, ...], more: tuple[Outcome, ...], override: Override, clause: Clause, line: int
) -> Moves:
    """The *own* ways, and those of *more* that the machine does not have, as deviations; others may allow them too.

    A deviation is called as the override is, one of several with its own name behind.
    """
    undeviating = [way for way in own if way.deviation is None]
    extra = [way for way in more if not _covers(undeviating, way)]
    names = [override.name if len(extra) == 1 else f"{override.name}-{way.name}" for way in extra]
    deviating = (replace(way, deviation=override.deviation, name=name) for way, name in zip(extra, names, strict=True))
    return Moves(outcomes=(*own, *deviating), clause=clause, line=line)


def _covers(ways: Iterable[Outcome], way: Outcome) -> bool:
    """Whether *ways* already allow everything that *way* does."""
    return any(
        (own.to, own.begins, own.emits) == (way.to, way.begins, way.emits)
        and all(own.replies(reply) if reply != ANY_ERROR else ANY_ERROR in own.reply for reply in way.reply)
        for own in ways
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Overriding:
    """Builds the profile *name* of *machine*, noting what is wrong with it."""

    problems: Problems[Written]
    machine: Machine
    name: str

    def profile(self, written: WrittenProfile) -> Profile:
        """The profile, without the overrides of events that do not exist."""
        overrides = []
        for key, override in written.cell.items():
            if override.event in self.machine.events:
                overrides.append(self._override(key, override))
            else:
                at = ("profile", self.name, "cell", key, "event")
                self.problems.unknown("FSM114", "unknown event", override.event, self.machine.events, *at)
        self._check_once(overrides)
        made = Profile(
            name=self.name,
            about=written.about,
            since=written.since,
            until=written.until,
            overrides=tuple(overrides),
        )
        # A call that begins can end, profiled as well.
        check_ends(self.problems, under(replace(self.machine, profiles={self.name: made}), self.name))
        return made

    def _override(self, key: str, written: WrittenOverride) -> Override:
        at = ("profile", self.name, "cell", key)
        event = self.machine.events[written.event]
        clause = self.machine.clauses.get(written.deviates or "")
        if written.deviates is not None and clause is None:
            self.problems.unknown("FSM108", "unknown clause", written.deviates, self.machine.clauses, *at, "deviates")
        groups = Groups(
            problems=self.problems,
            name=event.name,
            kind=event.kind,
            written=written,
            clause_of=lambda state: event.cells[state].clause,
            at=at,
        )
        deviation = (
            None
            if clause is None
            else Deviation(
                name=key,
                event=written.event,
                clause=clause,
                about=written.about,
                profile=self.name,
                since=written.since,
                until=written.until,
                link=written.link,
            )
        )
        made = Override(
            name=key,
            event=written.event,
            cells=groups.cells(),
            ends=groups.ends(),
            about=written.about,
            deviation=deviation,
            line=self.problems.model.lines.find(*at),
        )
        self._check_changes(made, event, deviates=written.deviates is not None)
        return made

    def _check_changes(self, made: Override, event: Event, *, deviates: bool) -> None:
        """An override that allows more names the clause it breaks; one that does not, does not."""
        for state, cell in made.cells.items():
            own = outcomes(event.cells[state], state, event.kind)
            new = outcomes(cell, state, event.kind)
            if own is not None and new is None:
                what = f"'{made.name}' says nothing of '{state}', where event '{event.name}' has a rule"
                self.problems.say_at(cell.line, "FSM115", what, "say what the implementation does there")
                continue
            wider = own is not None and not all(_covers(own, way) for way in new or ())
            self._check_change(made, state, cell.line, wider=wider, deviates=deviates)
        for state, end in made.ends.items():
            kept = event.ends[state].outcomes if state in event.ends else ()
            wider = not all(_covers(kept, way) for way in end.outcomes)
            self._check_change(made, state, end.line, wider=wider, deviates=deviates)
        if not made.cells and not made.ends:
            self.problems.say_at(
                made.line, "FSM116", f"'{made.name}' overrides no cell", "name those that differ, or drop it"
            )

    def _check_change(self, made: Override, state: str, line: int, *, wider: bool, deviates: bool) -> None:
        if wider and not deviates:
            what = f"'{made.name}' allows in '{state}' what event '{made.event}' does not"
            self.problems.say_at(line, "FSM115", what, 'name the clause that breaks: deviates = "…"')
        elif deviates and not wider:
            what = f"'{made.name}' allows in '{state}' nothing that event '{made.event}' does not"
            self.problems.say_at(line, "FSM116", what, "drop deviates, or the cell")

    def _check_once(self, overrides: Iterable[Override]) -> None:
        """Deviations from several clauses may meet in a cell; what replaces it stands alone."""
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
                self.problems.say_at(
                    several[-1][1], "FSM105", what, "keep the one that is meant; only deviations may meet"
                )
