"""Forms of recordings. A form specifies what its recordings show, how to recognise them, and how to read them.

The forms of traces and histories are defined here. Packages add other forms in the group
:data:`fsm.entry_points.FORMS`.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from itertools import chain
from typing import TYPE_CHECKING, Final, Protocol, TypeAlias

import msgspec

from fsm import entry_points
from fsm.errors import refused
from fsm.recordings import histories, json_lines
from fsm.recordings.json_lines import TraceHeader
from fsm.recordings.line_reader import Piece, decoded
from fsm.recordings.time_order import Restarts
from fsm.trace import Batch, Line, Observation, batch

if TYPE_CHECKING:
    from fsm.recordings.histories import RecordedHistory
    from fsm.recordings.line_reader import Notes

Numbered: TypeAlias = "Iterable[tuple[int | Line, Observation]]"

HEAD: Final = 1 << 16
"""Maximum number of bytes that are used to recognise the form of a recording."""


_LINES: Final = 64


def _is_never_recognised(_head: bytes) -> bool:
    return False


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class RecordingForm:
    """A form of recording. By default, a recording of the form may show anything.

    Names:
        name: The name for ``--form``, such as ``trace``. Empty if no form recognised the recording.
        title: The name that reports use, such as ``trace``.
        about: A line in the help of ``fsm judge``. Empty if the form is not listed there.

    Reading:
        sniff: Checks whether a text is the beginning of a recording of this form. The text has at most :data:`HEAD`
            bytes and begins with a line of the recording. Lines are tried in order until a form recognises one.
        open: Reads a recording that was recognised.
        claims: Checks whether a path, such as a directory, is a recording of this form regardless of its content.
        time: Returns the time of a line in nanoseconds since the epoch, or ``None``. It is needed to sort files.
        together: ``MODULE:ATTRIBUTE`` of a function like :func:`fsm.recordings.open_together`, if a recording can be
            judged together with another recording of the same run.
        steps: ``MODULE:ATTRIBUTE`` of a function like :func:`fsm.recordings.as_recorded`, if a recording
            of this form is read differently when nothing may be inferred.

    Judging:
        machines: The models to judge a recording against by default.
        shown: The signals that happen only if the recording shows them, or ``None`` for all signals.
        outputs: Whether a recording shows all outputs, but no calls or replies. It may also show signals.
        ids: Whether entities are named by ids that are never reused.
        contains: Maps a kind of entity to the kind of entity that contains it.
        judge: ``MODULE:ATTRIBUTE`` of a :class:`fsm.monitor.judgement.joint.JudgeOfForm`. It checks rules that no
            machine has.
        power: ``MODULE:ATTRIBUTE`` of a :class:`fsm.mutation.power.Reading`, which edits such a recording.

    Coverage and pictures:
        recorded: The signals that a recording always shows if they happen to a recorded entity; ``None`` if unknown.
        calls_only: Whether a recording shows only calls and the signals ``recorded``. The reader assumes restarts.
        intervals: Whether calls have a beginning and an end.
        receiver: The receiver of the outputs that a recording shows, if known.
        sighted: Whether states without a call in progress come from lines of the log rather than from replies.
        creates: Maps each call that creates an entity to the kind of the entity that it names instead (in its
            ``detail``), or to an empty string. The reply contains the id of the new entity.
        reaches: The calls that also act on the entities inside the entity that they name.
        status: The call whose result is on a separate line.
        strict: Whether the verdict is unknown if a line cannot be read, or has an event that its model does not have.
    """

    name: str
    title: str
    sniff: Callable[[bytes], bool] = _is_never_recognised
    open: Callable[[Opening], Recording]
    about: str = ""
    claims: Callable[[str], bool] | None = None
    time: Callable[[bytes], int | None] | None = None
    together: str = ""
    steps: str = ""
    machines: tuple[str, ...] = ()
    shown: frozenset[str] | None = None
    outputs: bool = False
    ids: bool = False
    contains: Mapping[str, str] = field(default_factory=dict)
    judge: str = ""
    power: str = ""
    recorded: frozenset[str] | None = None
    calls_only: bool = False
    intervals: bool = False
    receiver: str = ""
    sighted: bool = False
    creates: Mapping[str, str] = field(default_factory=dict)
    reaches: frozenset[str] = frozenset()
    status: str = ""
    strict: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Recording:
    """An open recording. Its observations are read lazily.

    ``machines``, ``shown`` and ``outputs`` are copied from the form unless the recording itself specifies them.
    ``hidden`` lists the signals that the recording does not show. ``version()`` returns the name and version of the
    recorded program, such as ``acme 1.7.24``, once the part that shows them has been read. ``history`` contains the
    operations if the recording is a history. ``within`` maps each entity to the entity that contains it, and grows
    while the recording is read. ``names`` maps entities to their readable names. If ``relative`` is true, times do not
    count from the epoch.
    """

    name: str
    form: RecordingForm
    machines: tuple[str, ...]
    batches: Iterator[Batch]
    notes: Notes
    shown: frozenset[str] | None = None
    hidden: tuple[str, ...] = ()
    fresh: bool = False
    relative: bool = False
    outputs: bool = False
    version: Callable[[], str] = str
    history: RecordedHistory | None = None
    within: Mapping[str, str] | None = None
    names: Mapping[str, tuple[str, ...]] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Opening:
    """The lines of the recording ``name``, and the options for reading them.

    ``form`` is the form that was recognised or requested. ``pieces`` are the pieces of the recording, and ``head`` is
    the first piece that has lines. ``size`` is the size in bytes, or 0 if it is unknown. If ``whole`` is false, the
    lines come from a growing file or from several files. The other attributes are arguments of
    :func:`fsm.recordings.open_recording`.
    """

    name: str
    form: RecordingForm
    pieces: Iterator[Piece]
    notes: Notes
    head: Piece = field(default_factory=Piece)
    size: int = 0
    whole: bool = True
    restarts: Restarts = field(default_factory=Restarts)
    as_called: bool = False
    settle: int | None = None
    lenient: bool = False

    def batches(
        self,
        read: Callable[[bytes, int | Line], Numbered],
        reader: Reader | None = None,
        *,
        pieces: Iterable[Piece] | None = None,
        rest: Callable[[], Numbered] = tuple,
        whole: Callable[[Piece], Batch | None] = lambda _: None,
    ) -> Iterator[Batch]:
        """Yield a batch of observations for each piece, followed by the *rest*.

        *read* returns the observations on a line. A *reader* that holds observations back is told about pauses and
        gaps. If *whole* returns a batch for a piece, the lines of the piece are not read one by one. If *pieces* is
        given, it is used instead of the pieces of the recording.
        """
        file = ""
        for piece in self.pieces if pieces is None else pieces:
            if piece.gap:
                gap = reader.gap() if reader else [(0, Observation(phase="gap"))]
                yield _in_file(file, gap)
            file = piece.file
            if (read_whole := whole(piece)) is not None:
                yield read_whole
                continue
            places = range(piece.first, piece.first + len(piece.lines))
            # Store the file with each line number, because observations may be held back until another file is read.
            numbers: Iterable[int | Line] = (Line(file, number) for number in places) if file else places
            yield _in_file(file, chain.from_iterable(map(read, piece.lines, numbers)))
            if reader:
                yield _in_file(file, reader.paused(piece.quiet))
        yield _in_file(file, rest())

    def by_line(self, read: Callable[[bytes], Observation | None]) -> Recording:
        """Return a recording that is read line by line. *read* returns ``None`` for a foreign line."""

        def observed(line: bytes, number: int | Line) -> Iterator[tuple[int | Line, Observation]]:
            if (seen := read(line)) is not None:
                yield number, seen
            elif line.strip():
                self.notes.add(number)

        return self.recorded(self.batches(observed))

    def recorded(self, batches: Iterator[Batch]) -> Recording:
        """Return a recording of this form with these *batches*."""
        return recorded(self.form, self.name, batches, self.notes)


def _in_file(file: str, found: Numbered) -> Batch:
    return batch((Line.of(number, file) if file else number, seen) for number, seen in found)


class Reader(Protocol):
    """Converts lines to observations, and may hold some of them back until a pause or a gap."""

    def paused(self, quiet: int) -> Numbered: ...

    def gap(self) -> Numbered: ...


class _LineKeys(msgspec.Struct):
    trace: int | None = None
    op: str | None = None
    ts: int | None = None
    event: str | None = None
    entity: str | None = None
    phase: str | None = None


_KEYS: Final = msgspec.json.Decoder(_LineKeys)


def first_line(head: bytes) -> bytes:
    """Return the first line of *head* without its line break."""
    return head.partition(b"\n")[0]


def deciding_key(head: bytes) -> str:
    """Return ``trace``, ``op`` or ``event``, whichever key decides the form of the first line of *head*.

    Return an empty string if there is no such key, or if a key that distinguishes forms has the wrong type.
    """
    found = decoded(first_line(head), _KEYS)
    if found is None:
        return ""
    if {found.trace, found.entity, found.phase} != {None}:
        return "trace"
    if found.op is not None:
        return "op"
    if found.event is None:
        return ""
    return "trace" if found.ts is None else "event"


def _open_trace(opening: Opening) -> Recording:
    title = next(filter(None, map(json_lines.header, opening.head.lines[:1])), TraceHeader(trace=1))
    trace = json_lines.Trace(
        name=opening.name,
        title=title,
        lenient=opening.lenient or opening.settle is not None,
        notes=opening.notes,
        settle=opening.settle,
        size=opening.size,
    )
    return recorded(title, opening.name, trace.batches(opening.pieces), opening.notes)


def _open_history(opening: Opening) -> Recording:
    what = "a history cannot be followed or combined from several files"
    raise refused(opening.name, "FSM201", what, "give one complete file")


def _is_trace(head: bytes) -> bool:
    return deciding_key(head) == "trace"


TRACE: Final = RecordingForm(
    name="trace", title="trace", about="in fsm's own format", sniff=_is_trace, open=_open_trace, strict=True
)
HISTORY: Final = RecordingForm(
    name="history", title="history of concurrent operations", sniff=histories.recognised, open=_open_history
)

UNKNOWN: Final = "nothing known"
"""The title of a recording that no form recognises. The first form reads it, only to count its lines."""


def own_forms() -> tuple[RecordingForm, ...]:
    """Return the forms that belong to fsm, in the order in which they are tried."""
    return (*(each for _, each in entry_points.own_objects(entry_points.FORMS, RecordingForm)), TRACE)


def foreign_forms() -> tuple[RecordingForm, ...]:
    return tuple(each for _, each in entry_points.foreign_objects(entry_points.FORMS, RecordingForm))


def recognised(name: str, lines: Iterable[bytes]) -> RecordingForm | None:
    """Return the form that recognises the earliest of *lines*, or ``None`` if no form recognises any line.

    The forms that belong to fsm are tried first. Raise :class:`InputError` if several forms of other packages
    recognise the same line of the recording *name*.
    """
    held, own = list(lines), own_forms()
    for at in range(len(held)):
        head = _head(held, at)
        if found := next((form for form in own if form.sniff(head)), None):
            return found
    foreign = list(foreign_forms())
    for at in range(len(held) if foreign else 0):
        if claims := _recognising_forms(foreign, _head(held, at)):
            if len(claims) == 1:
                return claims[0]
            what = f"several forms recognise the recording: {' and '.join(form.name for form in claims)}"
            raise refused(name, "FSM220", what, f"select one of them, as with --form {claims[0].name}")
    return None


def _recognising_forms(forms: list[RecordingForm], head: bytes) -> list[RecordingForm]:
    """Return the *forms* that recognise *head*. If a form raises an error, warn and remove it from *forms*."""
    found = []
    for form in tuple(forms):
        try:
            found += [form] if form.sniff(head) else []
        except Exception as error:  # noqa: BLE001  (anybody's code, and the recording may be somebody else's)
            forms.remove(form)
            what = f"the form of recording '{form.name}' failed and is skipped: {type(error).__name__}: {error}"
            warnings.warn(what, entry_points.PluginWarning, stacklevel=2)
    return found


def _head(lines: list[bytes], at: int) -> bytes:
    size, end = 0, at
    while end < len(lines) and size < HEAD and end - at < _LINES:
        size += len(lines[end]) + 1
        end += 1
    return b"\n".join(lines[at:end])[:HEAD]


def form_of_title(title: str, name: str) -> RecordingForm | TraceHeader:
    """Return the form that has the title *title*, or the trace header that *title* contains.

    An empty *title* means a trace. Raise :class:`InputError` about the table *name* if *title* is neither the title of
    a form nor a header.
    """
    if title in {"", TRACE.title}:
        return TraceHeader(trace=1)
    own = {form.title: form for form in own_forms()}
    if found := own.get(title) or json_lines.header(title.encode()):
        return found
    if foreign := [form for form in foreign_forms() if form.title == title]:
        return foreign[0]
    what = f"the table has rows of '{title}', which is neither a form of recording nor the header of a trace"
    raise refused(name, "FSM212", what, f"forms: {', '.join(own)}")


def recorded(known: RecordingForm | TraceHeader, name: str, batches: Iterator[Batch], notes: Notes) -> Recording:
    """Return the recording *name*. *known* is its form, or its header if the recording is a trace."""
    if isinstance(known, TraceHeader):
        return Recording(
            name=name,
            form=TRACE,
            machines=(known.machine,) if known.machine else (),
            hidden=known.unseen,
            fresh=known.fresh,
            relative=known.relative,
            batches=batches,
            notes=notes,
        )
    return Recording(
        name=name,
        form=known,
        machines=known.machines,
        shown=known.shown,
        outputs=known.outputs,
        batches=batches,
        notes=notes,
    )
