"""Measure the power of the judge: the number of illegal edits that it detects, and the number of its false alarms.

The form of the recording defines the possible edits, and decides which of them are *illegal without doubt*
(:class:`Reading`). To decide, the form reads the recording independently of the judge
(:mod:`fsm.mutation.strict_reading`). ``docs/reference/power.md`` gives the reasons.
"""

import random
import re
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import chain
from pathlib import Path
from typing import Final, Literal, Protocol, TypeAlias, get_args

from fsm.entry_points import loaded
from fsm.errors import InputError, refused
from fsm.monitor.judgement import Judged, judge
from fsm.mutation.strict_reading import RecordedAct
from fsm.recordings import either, open_recording
from fsm.recordings.form import RecordingForm, own_forms
from fsm.recordings.time_order import Assume
from fsm.scratch import ScratchFolder

# The possible reactions of the judge to an edit: the judge finds a new violation of a MUST, only other new findings,
# or nothing new.
EditAnswer: TypeAlias = Literal["caught", "surprise", "missed"]
ANSWERS: Final[tuple[EditAnswer, ...]] = get_args(EditAnswer)

EditedLines: TypeAlias = tuple[bytes, ...]

ID: Final = re.compile(rb"\b[0-9a-f]{64}\b")  # matches a full id in a line, such as the id of an entity
_Alarms: TypeAlias = dict[EditAnswer, Counter[tuple[str, ...]]]


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordingEdit:
    kind: str
    what: str
    line: int
    changes: Mapping[int, EditedLines]

    def applied(self, lines: Sequence[bytes]) -> list[bytes]:
        """Return *lines* after this edit.

        >>> RecordingEdit(kind="line dropped", what="b", line=2, changes={1: ()}).applied([b"a", b"b"])
        [b'a']
        """
        return [new for index, line in enumerate(lines) for new in self.changes.get(index, (line,))]

    def touched(self, lines: Sequence[bytes]) -> frozenset[str]:
        changed = (*(lines[index] for index in self.changes), *chain.from_iterable(self.changes.values()))
        return frozenset(found.decode() for line in changed for found in ID.findall(line))


@dataclass(frozen=True, slots=True, kw_only=True)
class Illegality:
    """The proof that an edited recording is illegal: the recorded ``acts`` contradict a cell of ``machine``."""

    machine: str
    cell: str
    why: str
    acts: tuple[RecordedAct, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Planted:
    edit: RecordingEdit
    illegality: Illegality
    answer: EditAnswer


@dataclass(frozen=True, slots=True, kw_only=True)
class Power:
    """The judge's reactions to edits that certainly make a recording illegal."""

    name: str
    form: RecordingForm
    edits: int  # number of possible edits
    tried: int  # number of edits that were tried
    planted: tuple[Planted, ...]
    alarms: int  # violations of a MUST that the judge finds in the unedited recording
    surprises: int  # findings in the unedited recording that violate no MUST

    def counts(self) -> dict[str, int]:
        return {answer: sum(each.answer == answer for each in self.planted) for answer in ANSWERS}


class Reading(Protocol):
    """A recording that can be edited. Its form creates it from the arguments of :func:`power_over`."""

    lines: Sequence[bytes]

    def edits(self) -> Iterator[RecordingEdit]: ...

    def illegality(self, edit: RecordingEdit, lines: Sequence[bytes]) -> Illegality | None:
        """Return the reason why *lines*, the result of *edit*, are illegal, or ``None`` if that is in doubt."""


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
    """Judge the edits of the recording in the file *name*, or a sample of *limit* edits that depends only on *seed*.

    The recording is judged under *profile*, together with *calls*, the calls of the same run. *assume* controls
    when the judge assumes a restart. *advanced* is called after each edit.
    """
    form = open_recording(name).form
    if not form.power:
        hint = f"give {either(each.title for each in own_forms() if each.power)}"
        raise refused(name, "FSM222", f"the form of the file is {form.title}, which cannot be edited", hint)
    read: Callable[..., Reading] = loaded(form.power)
    reading = read(name, form, calls, profile, assume)
    every = list(reading.edits())
    chosen = every if not 0 < limit < len(every) else random.Random(seed).sample(every, limit)  # noqa: S311  (a sample)
    planted: list[Planted] = []
    with ScratchFolder() as folder:
        file = Path(folder) / "edited"

        def alarms(edited: Sequence[bytes]) -> _Alarms:
            file.write_bytes(b"\n".join(edited) + b"\n")
            try:
                return _count_alarms(judge(file, calls=calls, profile=profile, restarts=assume))
            except InputError as error:  # The error is in the recording itself, so the message names its file.
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
        form=form,
        edits=len(every),
        tried=len(chosen),
        planted=tuple(planted),
        alarms=before["caught"].total(),
        surprises=before["surprise"].total(),
    )


def _count_alarms(judged: Judged) -> _Alarms:
    found: _Alarms = {answer: Counter() for answer in ANSWERS}
    for judgement in judged.judgements:
        for finding in judgement.findings:
            first = finding.first[0]
            which = (first.machine, first.cause.value, first.observation.event, first.illegal, first.clause.name)
            found["caught" if first.clause.level == "MUST" else "surprise"][which] += finding.count
    return found
