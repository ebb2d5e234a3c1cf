"""Measure the judge's power: how many illegal edits of a recording it detects, and how many false alarms it raises.

An edit is *illegal without doubt* if any of these is true only after the edit: an entity that it touches contradicts
its contract in the strict reading (:mod:`fsm.mutation.strict_reading`); a container is started in a pod that has been
stopped; two statuses show different times or exit codes; or a plugin is told of a call only after the reply, or never.
``docs/reference/power.md`` gives the reasons.
"""

import random
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final, Literal, TypeAlias

import msgspec

from fsm.errors import InputError
from fsm.language.library import load
from fsm.machine.findings import Illegal
from fsm.monitor.judgement import Judged, judge
from fsm.mutation.recorded_acts import Entity, RecordedActs, changed, of_calls, of_events, of_log, timed, told
from fsm.mutation.recording_edits import RecordingEdit, edits_of_calls, edits_of_events, edits_of_log
from fsm.mutation.strict_reading import Contradiction, RecordedAct, contradiction
from fsm.recordings import RecordingKind, open_recording
from fsm.recordings.line_reader import LineReader
from fsm.recordings.pod_calls import CONTAINER, POD
from fsm.recordings.restarts import Assume, Restarts
from fsm.scratch import ScratchFolder

EditAnswer: TypeAlias = Literal["caught", "surprise", "missed"]
ANSWERS: Final[tuple[EditAnswer, ...]] = ("caught", "surprise", "missed")
"""A new violation of a MUST is *caught*. Only weaker new findings are a *surprise*. No new finding means *missed*."""

CONTRACTS: Final = {
    RecordingKind.CALLS: {CONTAINER: "cri-container", POD: "cri-pod"},
    RecordingKind.LOG: {CONTAINER: "cri-container", POD: "cri-pod"},
    RecordingKind.EVENTS: {CONTAINER: "plugin-container", POD: "plugin-pod"},
}
"""Maps each kind of recording to the contracts for its strict reading. A log is read as the calls in it."""

_Alarms: TypeAlias = dict[EditAnswer, Counter[tuple[str, ...]]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Illegality:
    """The reason why an edited recording is illegal: a contradicted cell of ``machine``, with ``acts`` as proof."""

    machine: str
    cell: str
    why: str
    acts: tuple[RecordedAct, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Planted:
    """An edit that is illegal without doubt, and the judge's answer to it."""

    edit: RecordingEdit
    illegality: Illegality
    answer: EditAnswer


@dataclass(frozen=True, slots=True, kw_only=True)
class Power:
    """The judge's answers to those edits of a recording that are illegal without doubt.

    ``edits`` is the number of possible edits, of which ``tried`` were tried. ``alarms`` is the number of violations of
    a MUST in the unedited recording, and ``surprises`` is the number of weaker findings in it.
    """

    name: str
    kind: RecordingKind
    edits: int
    tried: int
    planted: tuple[Planted, ...]
    alarms: int
    surprises: int

    def counts(self) -> dict[str, int]:
        """Return the number of illegal edits with each answer."""
        return {answer: sum(each.answer == answer for each in self.planted) for answer in ANSWERS}


def power_over(
    name: str,
    *,
    calls: str = "",
    profile: str | None = None,
    assume: Assume = "maybe",
    seed: int = 0,
    limit: int = 0,
    advanced: Callable[[], None] = lambda: None,
) -> Power:
    """Judge every edit of the recording in the file *name*, or *limit* edits chosen at random with *seed*.

    The recording is judged under *profile*, together with *calls*, the calls of the same run. *assume* says where the
    judge assumes restarts. *advanced* is called after each edit.
    """
    reading = _StrictReading(name, calls, profile, assume)
    every = list(reading.edits())
    chosen = every if not 0 < limit < len(every) else random.Random(seed).sample(every, limit)  # noqa: S311  (a sample)
    planted: list[Planted] = []
    with ScratchFolder() as folder:
        file = Path(folder) / "edited"

        def alarms(edited: Sequence[bytes]) -> _Alarms:
            file.write_bytes(b"\n".join(edited) + b"\n")
            try:
                return _alarms(judge(file, calls=calls, profile=profile, restarts=assume))
            except InputError as error:  # an error in the recording itself, so the message names its file
                named = (replace(each, path=name) if each.path == str(file) else each for each in error.problems)
                raise InputError(named) from error

        before = alarms(reading.lines)
        for edit in sorted(chosen, key=lambda each: each.line):
            edited = edit.applied(reading.lines)
            illegality = reading.illegality(edit, edited)
            if illegality is not None:
                after = alarms(edited)
                answer = next((each for each in ANSWERS[:-1] if after[each] - before[each]), ANSWERS[-1])
                planted.append(Planted(edit=edit, illegality=illegality, answer=answer))
            advanced()
    return Power(
        name=name,
        kind=reading.kind,
        edits=len(every),
        tried=len(chosen),
        planted=tuple(planted),
        alarms=before["caught"].total(),
        surprises=before["surprise"].total(),
    )


def _alarms(judged: Judged) -> _Alarms:
    found: _Alarms = {answer: Counter() for answer in ANSWERS}
    for judgement in judged.judgements:
        for finding in judgement.verdict.findings if isinstance(judgement.verdict, Illegal) else ():
            first = finding.first[0]
            which = (first.machine, first.cause.value, first.observation.event, first.illegal, first.clause.name)
            found["caught" if first.clause.level == "MUST" else "surprise"][which] += finding.count
    return found


def _lines(name: str, *, json: bool = True) -> list[bytes]:
    """Return the lines of the file *name*. JSON lines get the spaces after colons and commas that edits expect."""
    lines = (line for piece in LineReader(name=name, notes=Counter()) for line in piece.lines) if name else ()
    return [_spaced(line) if json else line for line in lines]


def _spaced(line: bytes) -> bytes:
    try:
        return msgspec.json.format(line, indent=0)
    except (msgspec.DecodeError, RecursionError):  # the line is damaged
        return line


class _StrictReading:
    def __init__(self, name: str, calls: str, profile: str | None, assume: Assume) -> None:
        self.kind = open_recording(name).kind
        self.lines = _lines(name, json=self.kind in {RecordingKind.CALLS, RecordingKind.EVENTS})
        self.calls = tuple(timed(_lines(calls)))
        self.restarts = Restarts(assume=assume)
        self.machines = {}
        for of, contract in CONTRACTS[self.kind].items():
            machine = load(contract)
            self.machines[of] = machine.partly_under(profile)
        self.before = self._read(self.lines)
        self.told = told(self.lines, self.calls)
        self.changed = changed(self.lines, self.before.rooms)
        self.started = {act.entity for act in self.before.started_once_stopped()}
        self.illegal: dict[Entity, bool] = {}

    def _read(self, lines: Sequence[bytes]) -> RecordedActs:
        if self.kind is RecordingKind.CALLS:
            return of_calls(lines, self.restarts)
        return of_events(lines) if self.kind is RecordingKind.EVENTS else of_log(lines)

    def edits(self) -> Iterator[RecordingEdit]:
        if self.kind is RecordingKind.CALLS:
            return edits_of_calls(self.lines)
        if self.kind is RecordingKind.EVENTS:
            return edits_of_events(self.lines, self.calls)
        return edits_of_log(self.lines)

    def illegality(self, edit: RecordingEdit, lines: Sequence[bytes]) -> Illegality | None:
        """Return why *edit*, which results in *lines*, is illegal without doubt, or ``None`` if there is doubt."""
        read, touched = self._read(lines), edit.touched(self.lines)
        for entity in sorted({*self.before.acts, *read.acts}):
            if entity[1] in touched or read.pods.get(entity[1]) in touched:
                found = self._contradiction(read, entity)
                if found is not None and entity not in self.illegal:
                    self.illegal[entity] = self._contradiction(self.before, entity) is not None
                if found is not None and not self.illegal[entity]:
                    return self._stated(found)
        for act in read.started_once_stopped():
            if act.entity not in self.started:
                why = f"{act.entity} is started in line {act.line}, and its pod was stopped before"
                return Illegality(machine=self.machines[POD].name, cell="StartContainer in stopped", why=why)
        for identity, name in sorted(changed(lines, read.rooms) - self.changed):
            why = f"{name} of {identity} is one thing, and then another"
            return Illegality(machine=self.machines[CONTAINER].name, cell=f"{name} changes", why=why)
        after = told(lines, self.calls) if self.calls else {}
        late = next((call for call, before in self.told.items() if before and after.get(call) is False), None)
        if late is None:
            return None
        of = POD if late[0].endswith("PodSandbox") else CONTAINER
        why = f"{late[0]} succeeds before the plugin is told of it"
        return Illegality(machine=self.machines[of].name, cell=f"{late[0]} succeeds", why=why)

    def _stated(self, found: Contradiction) -> Illegality:
        act, states = found.act, " or ".join(found.states)
        seen = " ".join(filter(None, (act.event, act.reply, act.shows)))
        return Illegality(
            machine=self.machines[act.of].name,
            cell=f"{act.event} in {states}",
            why=f"{seen} in line {act.line}, where it is {states}",
            acts=found.before,
        )

    def _contradiction(self, read: RecordedActs, entity: Entity) -> Contradiction | None:
        """Return a contradiction in the acts on *entity*, if any."""
        of, identity = entity
        machine, fresh = self.machines[of], entity in read.fresh
        if self.kind is RecordingKind.LOG and of == CONTAINER:
            fresh &= (POD, read.pods.get(identity, "")) in read.fresh
        if self.kind is not RecordingKind.CALLS and not fresh:
            return None  # logs and events do not show the initial state and pending calls of older entities
        acts, unseen = read.during(entity), ["exit"]
        if self.kind is RecordingKind.EVENTS:
            acts, unseen = read.acts.get(entity, []), []
        initial = [machine.initial] if fresh else list(machine.states)
        return contradiction(machine, acts, read.rooms, initial=initial, unseen=unseen)
