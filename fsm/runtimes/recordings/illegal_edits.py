"""Edits of a recording of a container runtime that are illegal without doubt.

After such an edit, and not before it, an entity that it touches contradicts its contract in the strict reading
(:mod:`fsm.mutation.strict_reading`); a container is started in a pod that has been stopped; two statuses show different
times or exit codes; or a plugin is told of a call only after the reply, or never.
"""

from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Final

import msgspec

from fsm.language.library import load
from fsm.mutation.power import Illegality, RecordingEdit
from fsm.mutation.strict_reading import Contradiction, contradiction
from fsm.recordings.form import RecordingForm
from fsm.recordings.line_reader import LineReader
from fsm.recordings.restarts import Assume, Restarts
from fsm.runtimes.names import CONTAINER, POD
from fsm.runtimes.recordings.recorded_acts import (
    Entity,
    RecordedActs,
    changed,
    of_calls,
    of_events,
    of_log,
    timed,
    told,
)
from fsm.runtimes.recordings.recording_edits import edits_of_calls, edits_of_events, edits_of_log
from fsm.runtimes.recordings.runtime_forms import CALLS, EVENTS, LOG

CONTRACTS: Final = {
    CALLS.name: {CONTAINER: "cri-container", POD: "cri-pod"},
    LOG.name: {CONTAINER: "cri-container", POD: "cri-pod"},
    EVENTS.name: {CONTAINER: "plugin-container", POD: "plugin-pod"},
}
"""Maps each form of recording to the contracts for its strict reading. A log is read as the calls in it."""


def _lines(name: str, *, json: bool = True) -> list[bytes]:
    """Return the lines of the file *name*. JSON lines get the spaces after colons and commas that edits expect."""
    lines = (line for piece in LineReader(name=name, notes=Counter()) for line in piece.lines) if name else ()
    return [_spaced(line) if json else line for line in lines]


def _spaced(line: bytes) -> bytes:
    try:
        return msgspec.json.format(line, indent=0)
    except (msgspec.DecodeError, RecursionError):  # the line is damaged
        return line


class StrictReading:
    """The strict reading of the recording in the file *name*, together with the *calls* of the same run."""

    def __init__(self, name: str, form: RecordingForm, calls: str, profile: str | None, assume: Assume) -> None:
        self.form = form
        self.lines = _lines(name, json=form is not LOG)
        self.calls = tuple(timed(_lines(calls)))
        self.restarts = Restarts(assume=assume)
        self.machines = {}
        for of, contract in CONTRACTS[form.name].items():
            machine = load(contract)
            self.machines[of] = machine.partly_under(profile)
        self.before = self._read(self.lines)
        self.told = told(self.lines, self.calls)
        self.changed = changed(self.lines, self.before.rooms)
        self.started = {act.entity for act in self.before.started_once_stopped()}
        self.illegal: dict[Entity, bool] = {}

    def _read(self, lines: Sequence[bytes]) -> RecordedActs:
        if self.form is CALLS:
            return of_calls(lines, self.restarts)
        return of_events(lines) if self.form is EVENTS else of_log(lines)

    def edits(self) -> Iterator[RecordingEdit]:
        if self.form is CALLS:
            return edits_of_calls(self.lines)
        if self.form is EVENTS:
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
                    return self._explained(found)
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

    def _explained(self, found: Contradiction) -> Illegality:
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
        if self.form is LOG and of == CONTAINER:
            fresh &= (POD, read.pods.get(identity, "")) in read.fresh
        if self.form is not CALLS and not fresh:
            return None  # logs and events do not show the initial state and pending calls of older entities
        acts, unseen = read.during(entity), ["exit"]
        if self.form is EVENTS:
            acts, unseen = read.acts.get(entity, []), []
        initial = [machine.initial] if fresh else list(machine.states)
        return contradiction(machine, acts, read.rooms, initial=initial, unseen=unseen)
