"""From a model as written to a machine that is well formed, or every reason why not.

What the rules here promise, the engines take for granted: every cell is
there, every name exists, calls reply and signals do not, a call that begins
can end.  The rules and their codes stand in :mod:`fsm.rules`.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, assert_never

from fsm.errors import InputError, Problem, nearest
from fsm.machine import (
    ANY_ERROR,
    Cannot,
    Cell,
    Clause,
    Deviation,
    Event,
    Ignores,
    Machine,
    Moves,
    Outcome,
    Override,
    Profile,
    Refuses,
    Silent,
    State,
    outcomes,
)
from fsm.model import WrittenOutcome

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from fsm.model import Cells, Kind, WrittenEvent, WrittenOverride
    from fsm.reading import Model

REST = "*"
"""Every state that the event does not mention otherwise."""


def build(model: Model) -> Machine:
    """The machine that *model* describes.

    Raises :class:`InputError` with every mistake of meaning in the file.
    """
    builder = _Builder(model=model)
    machine = builder.machine()
    if builder.problems:
        raise InputError(sorted(builder.problems, key=lambda problem: problem.line))
    return machine


def under(machine: Machine, profile: str) -> Machine:
    """*machine* as *profile* has it.

    Where the profile deviates, its outcomes are allowed beside the machine's
    own and carry the deviation; elsewhere its cells replace the machine's.

    Raises ``ValueError`` if the machine has no such profile.
    """
    if profile not in machine.profiles:
        raise ValueError(f"machine '{machine.name}' has no profile {profile!r}; profiles: {', '.join(machine.profiles)}")
    events = dict(machine.events)
    for override in machine.profiles[profile].overrides:
        event = events[override.event]
        cells = {state: _merged(event, state, override) for state in override.cells}
        events[override.event] = replace(
            event, cells={**event.cells, **cells}, ends={**event.ends, **override.ends}
        )
    return replace(machine, events=events, profiles={})


def _merged(event: Event, state: str, override: Override) -> Cell:
    cell = override.cells[state]
    deviation = override.deviation
    if deviation is None:
        return cell
    own = outcomes(event.cells[state], state, event.kind) or ()
    more = outcomes(cell, state, event.kind) or ()
    extra = tuple(replace(way, deviation=deviation, name=override.name) for way in more if not _covers(own, way))
    return Moves(outcomes=(*own, *extra), clause=event.cells[state].clause, line=cell.line)


def _covers(ways: Iterable[Outcome], way: Outcome) -> bool:
    """Whether *ways* already allow everything that *way* does."""
    return any(
        (own.to, own.begins, own.emits) == (way.to, way.begins, way.emits)
        and all(own.replies(reply) if reply != ANY_ERROR else ANY_ERROR in own.reply for reply in way.reply)
        for own in ways
    )


@dataclass(slots=True, kw_only=True)
class _Builder:
    """Collects problems while it makes what can be made."""

    model: Model
    problems: list[Problem] = field(default_factory=list)

    def machine(self) -> Machine:
        written = self.model.written
        header = written.machine
        if header.initial not in written.states:
            self._unknown("FSM101", header.initial, "initial state", "states", written.states, "machine", "initial")
        states = {
            name: State(name=name, about=each.about, shows=name if each.shows is None else each.shows)
            for name, each in written.states.items()
        }
        clauses = {
            name: Clause(name=name, says=each.says, level=each.level, source=each.source, link=each.link)
            for name, each in written.clause.items()
        }
        events = {name: self._event(name, each, clauses) for name, each in written.event.items()}
        self._distinct_rpcs()
        machine = Machine(
            name=header.name,
            title=header.title,
            about=header.about,
            source=header.source,
            initial=header.initial,
            entity=header.entity or header.name,
            states=states,
            events=events,
            clauses=clauses,
            indefinite=tuple(header.indefinite),
            path=self.model.path,
        )
        profiles = {
            name: Profile(
                name=name,
                about=each.about,
                since=each.since,
                until=each.until,
                overrides=tuple(
                    self._override(name, key, override, machine)
                    for key, override in each.cell.items()
                    if self._has_event(name, key, override)
                ),
            )
            for name, each in written.profile.items()
        }
        self._used_clauses()
        return replace(machine, profiles=profiles)

    # -- events and their cells -------------------------------------------

    def _event(self, name: str, event: WrittenEvent, clauses: Mapping[str, Clause]) -> Event:
        at = ("event", name)
        if event.interrupts and event.kind == "call":
            self._say("FSM118", f"call '{name}' cannot interrupt calls", "only signals and hidden events do", *at, "interrupts")
        clause_of = self._clauses(name, event, clauses)
        cells = self._cells(name, event, event.kind, clause_of, at)
        for state in self.model.written.states:
            if state not in cells:
                hint = f"say what '{name}' does there: moves, ignores, refuses, cannot or silent (or '*' for the rest)"
                self._say("FSM103", f"event '{name}' has no cell for state '{state}'", hint, *at)
                cells[state] = Silent(clause=clause_of(state))
        ends = self._ends(name, event, event.kind, clause_of, at)
        self._begun_and_ended(name, cells, ends, at)
        return Event(
            name=name,
            kind=event.kind,
            about=event.about,
            cells={state: cells[state] for state in self.model.written.states},
            ends=ends,
            rpc=event.rpc or "",
            interrupts=event.interrupts,
        )

    def _clauses(self, name: str, event: WrittenEvent, clauses: Mapping[str, Clause]) -> Callable[[str], Clause]:
        """Which clause a state's cell rests on."""
        header = self.model.written.machine
        implied = Clause(
            name=name,
            says=event.about,
            level=event.level or header.level,
            source=event.source or header.source,
        )
        mentioned = {**dict.fromkeys(event.clauses, ""), **event.clauses}
        if event.clause is not None and event.clause not in clauses:
            self._unknown("FSM108", event.clause, "clause", "clauses", clauses, "event", name, "clause")
        for state, clause in mentioned.items():
            if clause not in clauses:
                self._unknown("FSM108", clause, "clause", "clauses", clauses, "event", name, "clauses", state)
            if state not in self.model.written.states:
                self._unknown("FSM102", state, "state", "states", self.model.written.states, "event", name, "clauses", state)

        def clause_of(state: str) -> Clause:
            return clauses.get(event.clauses.get(state, event.clause or ""), implied)

        return clause_of

    def _cells(
        self, name: str, groups: Cells, kind: Kind, clause_of: Callable[[str], Clause], at: tuple[str, ...]
    ) -> dict[str, Cell]:
        """The cells that *groups* mentions, ``*`` expanded; problems for what does not fit."""
        states = self.model.written.states
        mentions = [
            *(("moves", state) for state in groups.moves),
            *(("ignores", state) for state in groups.ignores),
            *(("refuses", state) for state in groups.refuses),
            *(("cannot", state) for state in groups.cannot),
            *(("silent", state) for state in groups.silent),
        ]
        named = {state for _, state in mentions}
        rest = [state for state in states if state not in named]
        times = Counter(state for _, state in mentions)
        cells: dict[str, Cell] = {}
        for group, state in mentions:
            if state != REST and state not in states:
                self._unknown("FSM102", state, "state", "states", states, *at, group, state)
                continue
            if times[state] > 1:
                what = f"event '{name}' has {times[state]} cells for '{state}'"
                self._say("FSM105", what, "keep the one that is meant", *at, group, state)
                times[state] = 1
            if state == REST and not rest:
                self._say("FSM113", f"'*' of event '{name}' stands for no state", "leave it out", *at, group, state)
            misfit = {("refuses", "call"): False, ("refuses", "signal"): True, ("refuses", "hidden"): True, ("cannot", "call"): True}
            if misfit.get((group, kind), False):
                way_out = "use cannot, ignores or silent" if group == "refuses" else "use refuses or silent: anyone may call"
                self._say("FSM106", f"{kind} '{name}' cannot have '{group}' cells", way_out, *at, group, state)
            line = self.model.lines.find(*at, group, state)
            for each in rest if state == REST else [state]:
                cells[each] = self._cell(group, state, each, name, groups, kind, clause_of(each), (*at, group, state), line)
        return cells

    def _cell(  # noqa: PLR0913  (one row of the table, all of it needed)
        self,
        group: str,
        key: str,
        state: str,
        name: str,
        groups: Cells,
        kind: Kind,
        clause: Clause,
        at: tuple[str, ...],
        line: int,
    ) -> Cell:
        match group:
            case "moves":
                ways = self._outcomes(groups.moves[key], name, kind, at)
                return Moves(outcomes=ways, clause=clause, line=line)
            case "ignores":
                return Ignores(clause=clause, line=line)
            case "refuses":
                written = groups.refuses[key]
                codes = (written,) if isinstance(written, str) else tuple(written)
                if not codes:
                    self._say("FSM112", f"event '{name}' refuses '{key}' with no reply", "name an error, or use silent", *at)
                return Refuses(codes=codes, clause=clause, line=line)
            case "cannot":
                return Cannot(clause=clause, line=line)
            case _:
                return Silent(clause=clause, line=line)

    def _ends(
        self, name: str, groups: Cells, kind: Kind, clause_of: Callable[[str], Clause], at: tuple[str, ...]
    ) -> dict[str, Moves]:
        ends = {}
        for state, written in groups.ends.items():
            place = (*at, "ends", state)
            if state not in self.model.written.states:
                self._unknown("FSM102", state, "state", "states", self.model.written.states, *place)
                continue
            ways = self._outcomes(written, name, kind, place)
            ends[state] = Moves(outcomes=ways, clause=clause_of(state), line=self.model.lines.find(*place))
        return ends

    def _begun_and_ended(self, name: str, cells: Mapping[str, Cell], ends: Mapping[str, Moves], at: tuple[str, ...]) -> None:
        """A call that begins must be able to end, and only such a call has ends."""
        begun = {
            way.to: None
            for cell in (*cells.values(), *ends.values())
            if isinstance(cell, Moves)
            for way in cell.outcomes
            if way.begins
        }
        for state in begun:
            if state not in ends and state in self.model.written.states:
                hint = f"say how it ends: [event.{name}.ends] {state} = …"
                self._say("FSM111", f"event '{name}' begins in '{state}' and never ends there", hint, *at)
        for state in ends:
            if state not in begun:
                what = f"event '{name}' ends in '{state}' but never begins there"
                self._say("FSM111", what, f"add an outcome with begins = \"{state}\", or drop the end", *at, "ends", state)

    def _outcomes(
        self, written: str | WrittenOutcome | Sequence[WrittenOutcome], name: str, kind: Kind, at: tuple[str, ...]
    ) -> tuple[Outcome, ...]:
        match written:
            case str():
                forms: list[tuple[WrittenOutcome, tuple[str | int, ...]]] = [(WrittenOutcome(to=written), at)]
            case WrittenOutcome():
                forms = [(written, at)]
            case _:
                forms = [(each, (*at, index)) for index, each in enumerate(written)]
        if not forms:
            self._say("FSM112", f"event '{name}' has no outcome here", "name at least one, or use another kind of cell", *at)
        names = Counter(each.name for each, _ in forms)
        ways = []
        for each, place in forms:
            if len(forms) > 1 and (each.name is None or names[each.name] > 1):
                what = f"alternative outcome of '{name}' has {'no name' if each.name is None else f'the name of another, {each.name!r}'}"
                self._say("FSM112", what, "alternatives need distinct names: name = \"…\"", *place)
            ways.append(self._outcome(each, name, kind, place))
        return tuple(ways)

    def _outcome(self, each: WrittenOutcome, name: str, kind: Kind, at: tuple[str | int, ...]) -> Outcome:
        states = self.model.written.states
        target = each.to if each.to is not None else each.begins
        if (each.to is None) == (each.begins is None):
            what = f"outcome of '{name}' has {'neither' if target is None else 'both'} to {'n' * (target is None)}or begins"
            what = what if target is None else f"outcome of '{name}' has both to and begins"
            self._say("FSM109", what, "give the one state it leads to", *at)
        elif target not in states:
            key = "to" if each.begins is None else "begins"
            place = (*at, key) if isinstance(at[-1], int) else at
            self._unknown("FSM104", str(target), f"event '{name}' moves to unknown state", "states", states, *place, whole=True)
        replies = (each.reply,) if isinstance(each.reply, str) else tuple(each.reply)
        if not replies:
            self._say("FSM112", f"outcome of '{name}' has no reply", "name one, or leave reply out for ok", *at)
        if kind != "call" and ("reply" in each.model_fields_set or each.begins is not None):
            word = "reply" if "reply" in each.model_fields_set else "begins"
            self._say("FSM106", f"{kind} '{name}' cannot have '{word}'", "only calls are asked, reply, and take time", *at)
        if each.begins is not None and ("reply" in each.model_fields_set or each.emits):
            self._say("FSM110", f"outcome of '{name}' begins and already replies or emits", "say so where it ends", *at)
        return Outcome(
            name=each.name or (f"begins-{target}" if each.begins is not None else "done"),
            to=str(target),
            reply=replies if kind == "call" and each.begins is None else (),
            emits=tuple(each.emits),
            begins=each.begins is not None,
            about=each.about,
        )

    # -- profiles ---------------------------------------------------------

    def _has_event(self, profile: str, key: str, override: WrittenOverride) -> bool:
        events = self.model.written.event
        if override.event in events:
            return True
        self._unknown("FSM114", override.event, "event", "events", events, "profile", profile, "cell", key, "event")
        return False

    def _override(self, profile: str, key: str, written: WrittenOverride, machine: Machine) -> Override:
        at = ("profile", profile, "cell", key)
        event = machine.events[written.event]
        clause = machine.clauses.get(written.deviates or "")
        if written.deviates is not None and clause is None:
            self._unknown("FSM108", written.deviates, "clause", "clauses", machine.clauses, *at, "deviates")

        def clause_of(state: str) -> Clause:
            return event.cells[state].clause if state in event.cells else next(iter(event.cells.values())).clause

        cells = self._cells(written.event, written, event.kind, clause_of, at)
        ends = self._ends(written.event, written, event.kind, clause_of, at)
        deviation = clause and Deviation(
            name=key,
            event=written.event,
            clause=clause,
            about=written.about,
            profile=profile,
            since=written.since,
            until=written.until,
            link=written.link,
        )
        for state, cell in cells.items():
            self._changes_as_it_says(key, state, cell, event, deviates=written.deviates is not None, at=at)
        if not cells and not ends:
            self._say("FSM116", f"'{key}' overrides no cell", "name the cells that differ, or drop it", *at)
        return Override(
            name=key,
            event=written.event,
            cells=cells,
            ends=ends,
            about=written.about,
            deviation=deviation,
            line=self.model.lines.find(*at),
        )

    def _changes_as_it_says(  # noqa: PLR0913  (one comparison, all of it needed)
        self, key: str, state: str, cell: Cell, event: Event, *, deviates: bool, at: tuple[str, ...]
    ) -> None:
        """An override that allows more names the clause it breaks; one that does not, does not."""
        own = outcomes(event.cells[state], state, event.kind)
        new = outcomes(cell, state, event.kind)
        if own is None:
            wider = False
        else:
            wider = new is None or not all(_covers(own, way) for way in new)
        if wider and not deviates:
            what = f"'{key}' allows in '{state}' what event '{event.name}' does not"
            self._say("FSM115", what, "name the clause that breaks: deviates = \"…\"", *at)
        elif deviates and not wider:
            what = f"'{key}' allows in '{state}' nothing that event '{event.name}' does not"
            self._say("FSM116", what, "drop deviates, or the cell", *at)

    # -- the file as a whole ----------------------------------------------

    def _distinct_rpcs(self) -> None:
        seen: dict[str, str] = {}
        for name, event in self.model.written.event.items():
            if event.rpc is None:
                continue
            if event.rpc in seen:
                what = f"events '{seen[event.rpc]}' and '{name}' are both '{event.rpc}' on the wire"
                self._say("FSM117", what, "one name on the wire is one event", "event", name, "rpc")
            seen.setdefault(event.rpc, name)

    def _used_clauses(self) -> None:
        written = self.model.written
        used = {event.clause for event in written.event.values()}
        used |= {clause for event in written.event.values() for clause in event.clauses.values()}
        used |= {cell.deviates for profile in written.profile.values() for cell in profile.cell.values()}
        for name in written.clause:
            if name not in used:
                self._say("FSM119", f"no cell rests on clause '{name}'", "name it in an event's clause or clauses, or drop it", "clause", name)

    def _unknown(  # noqa: PLR0913  (a sentence has many parts)
        self, code: str, word: str, what: str, of: str, known: Iterable[str], *at: str | int, whole: bool = False
    ) -> None:
        self._say(code, f"{what} '{word}'" if whole else f"unknown {what} '{word}'", nearest(word, known, of=of), *at)

    def _say(self, code: str, what: str, hint: str, *at: str | int) -> None:
        line = self.model.lines.find(*at)
        problem = Problem(path=self.model.path, line=line, code=code, what=what, hint=hint)
        if problem not in self.problems:
            self.problems.append(problem)
