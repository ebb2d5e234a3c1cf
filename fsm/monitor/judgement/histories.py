"""Judge whether the history of each entity is linearizable, and find the broken clause if it is not.

The events, replies and shown states are translated to the machine's names as described in
``docs/how-to/linearizability.md``.
"""

from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace as copied
from typing import Final

from msgspec.structs import replace

from fsm.errors import InputError, Problem, nearest
from fsm.linearizability import Linearizable, NotLinearizable, linearize
from fsm.linearizability.history import History, Operation
from fsm.linearizability.moves import Step
from fsm.machine import Machine, findings
from fsm.machine.calls import finals
from fsm.machine.graph import reachable_pairs
from fsm.machine.versions import within
from fsm.monitor.beliefs import shared
from fsm.monitor.diagnosis import Explained, Scene
from fsm.monitor.grouping import Folder
from fsm.monitor.life import undecided_text
from fsm.recordings.histories import Recorded, RecordedHistory
from fsm.trace import Key, Line, Observation, key
from fsm.verdict import Unknown

LOOKS: Final = ("look", "read")
"""Names of operations that only read the state, unless the machine has an event with the same name."""


def judge_history(
    history: RecordedHistory, machines: Sequence[Machine], *, file: str, profile: str | None, hidden: Sequence[str]
) -> tuple[findings.Judgement, ...]:
    """Judge *history*, which was read from *file*, with each machine.

    *profile* applies to each machine that has such a profile. *hidden* names the signals that the history does not
    show. Raise :class:`InputError` for events and shown states that no machine has.
    """
    judges = [_HistoryJudge(machine, history, file, profile, hidden) for machine in machines]
    problems: dict[str, Problem] = {}
    for each in history.operations:
        for problem in _problems(each, [judge for judge in judges if judge.concerns(each.seen)], file):
            problems.setdefault(problem.what, problem)
    if problems:
        raise InputError(problems.values())
    return tuple(judge.judgement() for judge in judges)


class _HistoryJudge:
    def __init__(
        self, machine: Machine, history: RecordedHistory, file: str, profile: str | None, hidden: Sequence[str]
    ) -> None:
        self._shared = shared(machine, within(profile, machine.profiles), None, outputs=False)
        self.machine = self._shared.machine
        self.table = self._shared.dynamics.table
        self._history, self._file, self._hidden = history, file, hidden
        self._folder, self._covered = Folder(), Counter[tuple[str, str]]()
        self._events = machine.words()
        ways = (reply for way in self.table.ways for reply in way.reply)
        self._replies = {"ok", *ways, *machine.indefinite}

    def concerns(self, seen: Observation) -> bool:
        return seen.of in {self.machine.entity, ""}

    def has(self, seen: Observation) -> bool:
        return not seen.event or seen.event in self._events or seen.event in LOOKS

    def to_machine_names(self, seen: Observation) -> Observation | None:
        event = self._events.get(seen.event)
        reply, shows = seen.reply, seen.shows
        if not shows and reply in self.table.shows and reply not in self._replies:
            reply, shows = "ok", reply
        capitals = reply.upper().replace("-", "_")
        if reply not in self._replies and capitals in self._replies:
            reply = capitals
        if event is None or event.kind != "call":
            reply = ""
        return replace(seen, event=event.name if event else "", reply=reply, shows=shows) if event or shows else None

    def judgement(self) -> findings.Judgement:
        entities = self._entities()
        undecided = [reason for entity, those in entities.items() if (reason := self._entity(entity, those))]
        table = self.table
        pairs = [(table.rows[row].name, table.states[state]) for row, state in reachable_pairs(table)]
        cells = {pair: self._covered[pair] for pair in pairs}
        return findings.Judgement(
            machine=self.machine,
            verdict=self._verdict(undecided, len(entities)),
            tolerated=self._folder.tolerated(),
            covered=findings.Covered(machine=self.machine.name, cells=cells),
            entities=len(entities),
            observations=sum(map(len, entities.values())),
            notes={undecided_text(each): len(entities) for each in self.machine.timers.values()},
        )

    def _verdict(self, undecided: Sequence[str], entities: int) -> findings.Legality:
        found, incomplete = self._folder.findings(), undecided[0] if undecided else ""
        if not found and not entities:
            incomplete = f"the history has no operation on a {self.machine.entity}"
        elif not found and not any(self._covered.values()):
            incomplete = incomplete or findings.NOTHING_MET
        return findings.legality(found, incomplete)

    def _entities(self) -> dict[str, list[Observation]]:
        """Map each entity to its operations. The line of an operation is the line on which it returned."""
        found = defaultdict[str, list[Observation]](list)
        for each in self._history.operations:
            if self.concerns(each.seen) and self.has(each.seen) and (seen := self.to_machine_names(each.seen)):
                found[seen.entity].append(replace(seen, line=each.returned))
        for entity in self._history.outputs:
            found[entity]  # looking up an entity adds it
        everybody = found.pop("", []) if len(found) > 1 else []
        return {entity: those + [replace(seen, entity=entity) for seen in everybody] for entity, those in found.items()}

    def _entity(self, entity: str, those: Sequence[Observation]) -> str:
        operations = tuple(map(operation_of, those))
        origin = {id(one): seen for one, seen in zip(operations, those, strict=True)}
        outputs = self._history.outputs.get(entity, () if self._history.title.outputs else None)
        history = History(operations=operations, outputs={} if outputs is None else {entity: outputs})
        answer = linearize(self.machine, history, unseen=self._hidden, fresh=self._history.title.fresh)
        if isinstance(answer, Unknown):
            return answer.why
        self._covered.update((step.row, step.before) for step in answer.steps if step.row)
        if isinstance(answer, NotLinearizable):
            self._folder.fold(self._violation(answer, history, origin))
            return ""
        for step in answer.steps:
            if step.deviation is not None:
                seen = origin[id(step.operation)] if step.operation else Observation()
                self._folder.tolerate(self.machine.name, [step.deviation], seen, Line(self._file, seen.line))
        return ""

    def _violation(
        self, answer: NotLinearizable, history: History, origin: Mapping[int, Observation]
    ) -> findings.Violation:
        last = max((seen.line for seen in origin.values()), default=1)
        seen = origin[id(answer.operation)] if answer.operation else Observation(entity=answer.entity)
        window, explained = answer.window, self._explained(answer, seen)
        return findings.Violation(
            machine=self.machine.name,
            cause=answer.cause,
            observation=seen,
            file=self._file,
            line=seen.line if answer.operation else last,
            before=answer.before,
            permitted=tuple(findings.Permitted(state=state, what=answer.allowed) for state in answer.before),
            clause=explained.clause,
            edits=tuple(self._edits(answer, history)),
            illegal=_illegal_value(answer, history),
            resembles=explained.resembles,
            stretch=findings.Stretch(
                operations=tuple(origin[id(one)] for one in window.operations),
                beside=tuple(origin[id(one)] for one in window.beside),
                begins=window.begins,
                least=window.least,
            ),
        )

    def _explained(self, answer: NotLinearizable, seen: Observation) -> Explained:
        row = self.table.row.get(seen.event, -1)
        states = []
        for state in answer.before:
            ways = finals(self.table, self.table.states.index(state), row) if row >= 0 else ()
            if not any(way.replies(seen.reply) for way in ways or ()):
                states.append(state)
        states = states or list(answer.before)
        whole = self._explained_in(states, answer, seen)
        if answer.steps and answer.steps[-1].after in states:
            last = self._explained_in([answer.steps[-1].after], answer, seen)
            return last if last.clause.level == whole.clause.level else whole
        return whole

    def _explained_in(self, states: Sequence[str], answer: NotLinearizable, seen: Observation) -> Explained:
        known, names = self._shared, self.table.states
        before = frozenset(each for each in known.everything if not each.pending and names[each.state] in states)
        led, others = _last_move(answer.steps), known.others
        return known.explain(Scene(dynamics=known.dynamics, before=before, seen=key(seen), led=led, others=others))

    def _edits(self, answer: NotLinearizable, history: History) -> Iterator[findings.Edit]:
        if answer.cause is findings.Cause.REPLY:
            yield from (findings.Edit(repair=findings.Repair.REPLY, instead=reply) for reply in answer.allowed)
        last = answer.operation
        if last is None or last.returned is None:
            return
        others = tuple(
            one if one.returned is not None and one.returned <= last.returned else copied(one, returned=None)
            for one in history.operations
            if one is not last and one.called <= last.returned
        )
        fresh = self._history.title.fresh
        without = linearize(self.machine, History(operations=others), unseen=self._hidden, fresh=fresh)
        if isinstance(without, Linearizable):
            yield findings.Edit(repair=findings.Repair.EXTRA)


def _problems(each: Recorded, judges: Sequence[_HistoryJudge], file: str) -> Iterator[Problem]:
    of = " and ".join(judge.machine.name for judge in judges)
    known = [judge for judge in judges if judge.has(each.seen)]
    if judges and not known and not each.aside:
        events = dict.fromkeys(event for judge in judges for event in judge.machine.events)
        what = f"no event '{each.seen.event}' of {of}"
        hint = nearest(each.seen.event, events, of="events")
        yield Problem(path=file, line=each.called, code="FSM210", what=what, hint=hint)
    shown = [seen for judge in known if (seen := judge.to_machine_names(each.seen)) is not None and seen.shows]
    sights = dict.fromkeys(shows for judge in known for shows in judge.table.shows)
    if shown and not any(judge.table.showing(shown[0].shows) for judge in known):
        what = f"the history shows '{shown[0].shows}', which {of} never shows"
        hint = nearest(shown[0].shows, sights, of="texts that states show")
        yield Problem(path=file, line=each.returned, code="FSM210", what=what, hint=hint)


def operation_of(seen: Observation) -> Operation:
    names = {name: getattr(seen, name) for name in ("event", "reply", "shows", "entity")}
    return Operation(called=seen.start or 0, returned=seen.end, **names)


def _last_move(steps: Sequence[Step]) -> Key | None:
    for step in reversed(steps):
        if step.operation is not None and (step.before != step.after or not step.row):
            made = step.operation
            return Key(event=made.event, reply=made.reply) if step.row else Key(reply=made.reply, shows=made.shows)
    return None


def _illegal_value(answer: NotLinearizable, history: History) -> str:
    last = answer.operation
    if last is None or answer.cause is findings.Cause.OUTPUT:
        return " ".join(history.outputs.get(answer.entity, ()))
    return {findings.Cause.STATE: last.shows, findings.Cause.REPLY: last.reply}.get(answer.cause, last.event)
