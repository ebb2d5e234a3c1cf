"""Judge a recording with machines, passing each observation to the monitor for the kind of its entity.

A history of concurrent operations is judged as a whole (:mod:`fsm.monitor.judgement.histories`).
"""

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from operator import attrgetter
from os import PathLike, fspath
from pathlib import Path

from msgspec import structs

from fsm.entry_points import loaded
from fsm.errors import InputError, Problem, nearest, refused
from fsm.language.library import is_path, is_system, load, load_any, load_system
from fsm.machine import Machine
from fsm.machine.findings import Judgement, Violation, legality
from fsm.machine.product.flatten import machine_of
from fsm.machine.product.system import System
from fsm.machine.versions import unknown_profile, within
from fsm.monitor import Monitor
from fsm.monitor.beliefs import shared
from fsm.monitor.judgement.detection import AUTO, detected, name_of, read_ahead
from fsm.monitor.judgement.histories import judge_history
from fsm.monitor.judgement.joint import JointWatch, JudgeOfForm, nested
from fsm.monitor.judgement.part import WHOLE, Chosen, Part, Story, Teller, check_one
from fsm.monitor.judgement.properties import PropertyWatch, stated
from fsm.recordings import Source, open_recording, open_together
from fsm.recordings.form import HISTORY, TRACE, Recording, RecordingForm
from fsm.recordings.line_reader import BROKEN_OFF, INCOMPLETE
from fsm.recordings.time_order import SHORTEST, Assume, Restarts
from fsm.trace import Batch, Line
from fsm.verdict import Unknown


@dataclass(frozen=True, slots=True, kw_only=True)
class Judged:
    """The judgements of one recording, in the order of the machines.

    ``notes`` counts the lines that are foreign, damaged or not relevant. ``places`` contains the first lines of some
    notes, such as foreign lines, except for a log whose lines have no common form. ``version`` is the name and version
    of the recorded program if the recording shows them, and ``profile`` is the name of the profile used, or an empty
    string. ``stories`` are the stories that were requested. ``detected`` describes the result of profile detection if
    it was requested.
    """

    name: str
    form: RecordingForm
    judgements: tuple[Judgement, ...]
    notes: Mapping[str, int]
    version: str
    places: Mapping[str, tuple[Line, ...]] = field(default_factory=dict)
    profile: str = ""
    stories: tuple[Story, ...] = ()
    detected: str = ""


class Judging:
    """A recording that is being judged. Pass each of its batches to :meth:`take`, then call :meth:`judged`.

    The arguments are the same as for :func:`judge`.
    """

    def __init__(
        self,
        recording: Recording,
        *,
        models: Sequence[str | Machine | System] = (),
        profile: str | None = None,
        fresh: bool = False,
        restarts: Assume = "maybe",
        properties: Sequence[str] | None = None,
        every: bool = False,
        part: Part = WHOLE,
        telling: Callable[[str], bool] | None = None,
    ) -> None:
        name, fresh = recording.name, fresh or recording.fresh
        self.recording, self.shown, self.detected = recording, recording.version(), ""
        given = [each for model in models for each in _judging_models(model, recording)] or _defaults(recording)
        if profile == AUTO:
            profile, self.detected = detected(self.shown, given)
        self.version = profile or ""
        if wrong := unknown_profile(profile, [model.profiles for model in given]):
            of = " and ".join(model.name for model in given)
            raise refused(name, "FSM203", f"no profile '{wrong[0]}' of {of}", wrong[1])
        self.machines = [machine_of(model, within(profile, model.profiles)) for model in given]
        _check_unseen(self.machines, recording)
        if part and (properties is not None or recording.history is not None):
            judged = "property" if properties is not None else "history"
            what = f"a {judged} can be judged only against the whole recording"
            raise refused(name, "FSM204", what, "leave out the times and the entity")
        self.chosen = Chosen(part=part, notes=recording.notes, names=recording.names, telling=telling)
        held_to = None if properties is None else stated(self.machines, properties, name, profile)
        self.monitors: list[Monitor] = []
        self._watches: list[PropertyWatch] = []
        for index, machine in enumerate(self.machines):
            own = within(profile, machine.profiles)
            seen = _shown_events(machine, recording, restarts)
            monitor = Monitor(
                machine,
                file=name,
                profile=own,
                seen=seen,
                fresh=fresh,
                outputs=recording.outputs,
                own=recording.form.strict,
                every=every,
                wanted=self.chosen.wanted,
                ids=recording.form.ids,
            )
            self.monitors.append(monitor)
            if held_to is not None:
                moves = shared(machine, own, seen, outputs=recording.outputs).dynamics
                watch = PropertyWatch(held_to[index], moves, profile=own, fresh=fresh, file=name)
                self._watches.append(watch)
                monitor.violated = watch.violated
        self._judgements: tuple[Judgement, ...] = ()
        if (history := recording.history) is not None:
            self._judgements = judge_history(
                history, self.machines, file=name, profile=profile, hidden=recording.hidden
            )
        self._pieces = _batch_splitter(models or recording.machines, recording, self.monitors, profile)
        self._tellers: list[Teller] = []
        if part.entity or telling:
            self._tellers = [Teller(monitor, self.chosen, name) for monitor in self.monitors]
            self.tell()

    def take(self, batch: Batch) -> None:
        # An operation of a history may show the state at any instant during the operation. Ignore that state.
        if self.recording.history:
            batch = batch._replace(observations=[structs.replace(each, shows="") for each in batch.observations])
        for piece in self._pieces(self.chosen.read(batch)):
            _feed([*(self._tellers or self.monitors), *self._watches], piece)

    def tell(self, *found: Callable[[Violation], None]) -> None:
        def tell(violation: Violation) -> None:
            for each in (*found, *(teller.found for teller in self._tellers)):
                each(violation)

        for monitor in self.monitors:
            monitor.folder.found = tell

    def shed(self) -> None:
        """Free memory while judging an endless recording. The rest of the recording is judged more leniently."""
        for monitor in self.monitors:
            monitor.shed()

    def judged(self, *, over: bool = True) -> Judged:
        """Return the verdicts on the batches so far. If *over* is true, no more batches follow."""
        recording, notes = self.recording, self.recording.notes
        version, later = self.version or name_of(recording.version()), ""
        if self.detected and name_of(recording.version()) != name_of(self.shown):
            later = f"; {recording.version()} was started later, and is judged under the same profile"
        found = self._judgements or tuple(monitor.judgement(over=over) for monitor in self.monitors)
        found = tuple(
            _keep_version_deviations(each, of, version) for each, of in zip(found, self.machines, strict=True)
        )
        if self._watches:
            found = tuple(watch.added_to(each) for watch, each in zip(self._watches, found, strict=True))
        unread = sum(notes[each] for each in (*notes.places, INCOMPLETE)) if recording.form.strict else 0
        why = "the compressed data end early, and the missing part is not judged" if notes[BROKEN_OFF] else ""
        if unread:
            why = f"{unread} {'line' if unread == 1 else 'lines'} of the {recording.form.title} could not be read"
        if why:
            found = tuple(replace(each, verdict=legality(each.findings, each.why or why)) for each in found)
        if self.chosen.part.timed and not self.chosen.inside:
            why = f"nothing was observed in the requested time{self.chosen.times()}"
            found = tuple(replace(each, verdict=Unknown(why=why)) if each.observations else each for each in found)
        return Judged(
            name=recording.name,
            form=recording.form,
            judgements=found,
            notes=dict(notes),
            version=recording.version(),
            places={each: tuple(Line.of(line, recording.name) for line in notes.places[each]) for each in notes.places},
            profile=self.version,
            stories=tuple(story for teller in self._tellers for story in teller.told()),
            detected=f"{self.detected}{later}",
        )


def judge(
    name: str | PathLike[str],
    *,
    calls: str | PathLike[str] = "",
    form: str = "",
    models: Sequence[str | Machine | System] = (),
    profile: str | None = None,
    fresh: bool = False,
    restarts: Assume = "maybe",
    shortest_restart: float = SHORTEST / 1e9,
    properties: Sequence[str] | None = None,
    every: bool = False,
    part: Part = WHOLE,
    lenient: bool = False,
    source: Source | None = None,
    advanced: Callable[[int], None] = lambda _: None,
    telling: Callable[[str], bool] | None = None,
) -> Judged:
    """Judge the recording in the file *name* (``-`` for standard input), reading it as a stream.

    Args:
        name: the file of the recording.
        calls: a file of the same run to judge with the recording, if the form of the recording allows this.
        form: the name of the form of the recording. By default, the form is recognised.
        models: machines, systems, names of shipped models, or paths of model files.  By default, the machines for
            the kind of recording.  A trace has the joint events of a system; other recordings have those of its parts.
        profile: the name of a profile, used for every machine that has such a profile.  ``auto`` selects the profile
            for the program and version that the recording shows.
        fresh: whether no entity existed before the recording began.
        restarts: when to assume a restart that no line shows (:data:`fsm.recordings.time_order.Assume`).
        shortest_restart: the minimum duration of a restart in seconds.
        properties: names of properties to judge as well.  If empty, judge all properties.  If ``None``, judge none.
        every: whether to keep all violations rather than only the first few of each cause.
        part: the part of the recording in which violations count.
        lenient: whether unreadable lines of a trace make the verdict unknown.  Otherwise they are errors.
        source: where to read lines from instead of the file.
        advanced: called with the number of bytes of each read.
        telling: ``telling(entity)`` returns whether to tell the story of this entity.

    Raise :class:`InputError` if a file cannot be read or a model is not well formed.  Also raise it if no machine has
    the profile or a property, or if the recording does not have the entity.
    """
    name, calls = fspath(name), fspath(calls)
    room = Restarts(assume=restarts, shortest=round(shortest_restart * 1e9))
    if calls:
        recording = open_together(name, calls, advanced)
    else:
        recording = open_recording(name, advanced, form=form, restarts=room, source=source, lenient=lenient)
    if profile == AUTO:
        recording = read_ahead(recording)
    judging = Judging(
        recording,
        models=models,
        profile=profile,
        fresh=fresh,
        restarts=restarts,
        properties=properties,
        every=every,
        part=part,
        telling=telling,
    )
    if recording.history is None or properties is not None:
        for each in recording.batches:
            judging.take(each)
    judged = judging.judged()
    if part.entity:
        check_one(judged.stories, judging.chosen, name)
    return judged


def without_profile(machine: Machine) -> Machine:
    return load(machine.path) if machine.profile and machine.path and not is_system(machine.path) else machine


def _keep_version_deviations(judgement: Judgement, machine: Machine, version: str) -> Judgement:
    own = None if version in machine.profiles else machine.profiled(version)
    if own is None:
        return judgement
    known = {each.name: each.deviation for each in own.overrides if each.deviation}

    def resembling(violation: Violation) -> Violation:
        alike = dict.fromkeys(known[each.name] for each in violation.resembles if each.name in known)
        return replace(violation, resembles=tuple(alike))

    findings = tuple(replace(each, first=tuple(map(resembling, each.first))) for each in judgement.findings)
    return replace(judgement, verdict=legality(findings, judgement.why))


def _batch_splitter(
    models: Sequence[str | Machine | System], recording: Recording, monitors: Sequence[Monitor], profile: str | None
) -> Callable[[Batch], Iterable[Batch]]:
    if recording.form.judge:
        judge_of_form: Callable[[Sequence[Monitor], str], JudgeOfForm] = loaded(recording.form.judge)
        return judge_of_form(monitors, recording.name).pieces
    systems = [load_system(each) for each in models if isinstance(each, str) and is_system(each)]
    kinds = {each.machine.entity for each in monitors}
    nesting = nested(systems[0]) if len(systems) == 1 else None
    if nesting is None or recording.within is None or len(kinds) < len(monitors):
        return lambda batch: (batch,)
    return JointWatch(systems[0], monitors, recording, kinds=nesting, profile=profile).pieces


def _judging_models(given: str | Machine | System, recording: Recording) -> Collection[Machine | System]:
    model = load_any(given) if isinstance(given, str) else given
    if isinstance(model, Machine) or recording.form in {TRACE, HISTORY}:
        return [model]
    if given not in recording.machines:
        what = f"a recording of this form, '{recording.form.title}', has no joint events of the system '{model.name}'"
        hint = "name the machines of its parts, or write a trace of joint events"
        raise refused(recording.name, "FSM721", what, hint)
    return {part.machine.name: part.machine for part in model.parts.values()}.values()


def _defaults(recording: Recording) -> list[Machine | System]:
    if not recording.machines:
        header = "history" if recording.form is HISTORY else "trace"
        what = f"no header names the machine to which the {header} belongs"
        hint = f'use --model NAME, or begin the file with the line {{"{header}": 1, "machine": "NAME"}}'
        if recording.form not in {HISTORY, TRACE}:
            what = f"the form '{recording.form.name}' names no machine that judges such a recording"
            hint = "use --model NAME, or add to the file of the form: machine = 'NAME'"
        raise refused(recording.name, "FSM202", what, hint)
    try:
        return [
            model
            for each in recording.machines
            for model in _judging_models(_model_in_reach(each, recording), recording)
        ]
    except InputError as error:
        raise InputError(
            each if each.line else replace(each, path=recording.name, line=1, what=f"model '{each.path}': {each.what}")
            for each in error.problems
        ) from error


def _model_in_reach(name: str, recording: Recording) -> str:
    """Return the model that a header names. If it is a path, the file must be in or below the recording's folder."""
    if not is_path(name) or name in recording.form.machines:
        return name
    folder = Path(recording.name).parent
    try:
        path = (folder / name).resolve()
        inside = path.is_relative_to(folder.resolve()) and (path.is_file() or not path.exists())
    except (OSError, ValueError):
        inside = False
    if not inside or Path(name).is_absolute() or ".." in Path(name).parts:
        what = f"machine '{name}' is not a file in the folder of the recording or below it"
        hint = "a header can name only a shipped model or a file there; for other models, use --model FILE"
        raise refused(recording.name, "FSM214", what, hint, line=1)
    return str(folder / name)


def _check_unseen(machines: Sequence[Machine], recording: Recording) -> None:
    kinds = {event.name: event.kind for machine in machines for event in machine.events.values()}
    signals = [name for name, kind in kinds.items() if kind != "call"]
    of = " and ".join(machine.name for machine in machines)
    problems = []
    for name in recording.hidden:
        if name not in signals:
            what = f"'{name}' in unseen is {'a call, not a signal,' if name in kinds else 'not a signal'} of {of}"
            hint = nearest(name, signals, of="signals")
            problems.append(Problem(path=recording.name, line=1, code="FSM205", what=what, hint=hint))
    if problems:
        raise InputError(problems)


def _shown_events(machine: Machine, recording: Recording, restarts: Assume) -> frozenset[str] | None:
    """Return the signals and hidden events that happen only if *recording* shows them.

    ``None`` means all signals and no hidden events.
    """
    shown = recording.shown
    if recording.hidden or (shown is None and restarts != "maybe"):
        signals = frozenset(event.name for event in machine.events.values() if event.kind == "signal")
        shown = signals - frozenset(recording.hidden)
    if shown is not None and restarts != "maybe":
        shown |= {"restart"}
    return shown


def _feed(receivers: Sequence[Monitor | PropertyWatch], batch: Batch) -> None:
    if not batch.observations:
        return
    if batch.columns is not None:
        receivers = [each for each in receivers if not (isinstance(each, Monitor) and each.take(batch))]
        batch = Batch(list(batch.observations), list(batch.lines)) if receivers else Batch((), ())
    kinds = set(map(attrgetter("of"), batch.observations))
    for receiver in receivers:
        entity = receiver.machine.entity
        if kinds <= {entity, ""}:
            receiver.feed(batch.observations, batch.lines)
            continue
        mine = [index for index, seen in enumerate(batch.observations) if seen.of in {entity, ""}]
        receiver.feed([batch.observations[index] for index in mine], [batch.lines[index] for index in mine])
