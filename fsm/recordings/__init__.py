"""Open files as recordings, recognise their forms, and read their observations.

The form (:mod:`fsm.recordings.form`) of a recording is the form of the first line that any form recognises. Lines of
other forms are only counted. A history is recognised by its beginning and read as a whole. A form may also claim a
path, such as a directory.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from itertools import chain
from os.path import isdir
from pathlib import Path
from typing import Final, NamedTuple, Protocol

from fsm import entry_points
from fsm.entry_points import loaded
from fsm.errors import documented, is_file, nearest, of_extra, refused
from fsm.language.library import is_path
from fsm.language.read import content, table_at
from fsm.recordings import histories, json_lines
from fsm.recordings.form import (
    HISTORY,
    TRACE,
    UNKNOWN,
    Opening,
    Recording,
    RecordingForm,
    foreign_forms,
    own_forms,
    recognised,
)
from fsm.recordings.line_reader import PIECE, STDIN, LineReader, Notes, Piece, estimated_size
from fsm.recordings.log_form import form_in_file
from fsm.recordings.time_order import Restarts
from fsm.trace import Line, Observation, batch


class Source(Protocol):
    """A source of lines, such as a growing file or several files."""

    def pieces(self, notes: Counter[str], advanced: Callable[[int], None]) -> Iterator[Piece]: ...


_DEFAULT: Final = Restarts()
SUFFIXES: Final = (".parquet", ".arrow")

PARQUET: Final = b"PAR1"
ARROW: Final = b"ARROW1"


PROJECT: Final = "pyproject.toml"
_FORMS: Final = ("tool", "fsm", "form")  # the table of the project file that contains forms


def form_named(name: str) -> RecordingForm:
    """Return the form *name*: the path of a form file, a form of a package, or a form in the current folder."""
    if is_path(name):
        return form_in_file(name, Path(name).stem)
    project, file, generic = {}, f"forms/{name}.toml", {each.name: each for each in (TRACE, HISTORY)}
    if is_file(PROJECT):
        project = table_at(content(PROJECT), _FORMS, path=PROJECT)
    found = generic.get(name) or entry_points.find(entry_points.FORMS, name, RecordingForm)
    places = [*["fsm or an installed package"] * bool(found), *[file] * is_file(file), *[PROJECT] * (name in project)]
    if len(places) > 1:
        hint = "rename one of the forms, or give the path of the file"
        raise refused(name, "FSM220", f"several forms have this name: {' and '.join(places)}", hint)
    if not places:
        known = [*generic, *entry_points.own(entry_points.FORMS), *entry_points.foreign_names(entry_points.FORMS)]
        known += [*project, *sorted(each.stem for each in Path("forms").glob("*.toml"))]
        hint = nearest(name, known, of="forms")
        if is_file(PROJECT) and name in table_at(content(PROJECT), _FORMS[-1:], path=PROJECT):
            hint = f"{PROJECT} has the table [form.{name}]: write [tool.fsm.form.{name}]"
        raise refused(name, "FSM220", "this is not the name of a form of recording", hint)
    return found or form_in_file(places[0], name, at=() if places == [file] else (*_FORMS, name))


def open_recording(
    name: str,
    advanced: Callable[[int], None] = lambda _: None,
    *,
    form: str = "",
    restarts: Restarts = _DEFAULT,
    as_called: bool = False,
    source: Source | None = None,
    settle: int | None = None,
    lenient: bool = False,
) -> Recording:
    """Open the recording in the file or directory *name*.

    Raise :class:`InputError` if the file cannot be opened. If some lines of a trace cannot be read, raise it after
    the last line.

    Args:
        name: The name of the file or directory. ``-`` is standard input.
        advanced: Called with the size in bytes of each piece that is read.
        form: The name of the form of the recording. By default, the form is recognised.
        restarts: The stretches of time in which to assume that the runtime restarted.
        as_called: If true, leave out the effects of calls on entities that they do not name.
        source: If given, read the lines from it.
        settle: The maximum delay of a line, in nanoseconds. Observations that must be sorted by time are held back this
            long. If *settle* is ``None``, they may be held back until the end.
        lenient: If true, count the lines of a trace that cannot be read instead of raising an error. If *settle* is
            given, such lines are always counted.
    """
    notes = Notes()
    if source is None and is_table(name):
        tables = of_extra("fsm.recordings.tables", name, extra="fast")
        recording: Recording = tables.recording(name, notes, advanced, restarts=restarts, as_called=as_called)
        return recording
    known = form_named(form) if form else None
    if source is None:
        forms = (*own_forms(), *foreign_forms()) if isdir(name) else own_forms()  # noqa: PTH112  (long names)
        forms = (*forms, known) if known else forms
        if claiming := next((each for each in forms if each.claims and each.claims(name)), None):
            return claiming.open(Opening(name=name, form=claiming, pieces=iter(()), notes=notes))
        reader = LineReader(name=name, notes=notes, advanced=advanced)
        data = reader.data()
        start = next(data, b"")
        _check_lines(name, start)
        if known is HISTORY or (known is None and histories.recognised(start)):
            return _history(name, chain([start], data), notes)
        pieces = reader.pieces(chain([start], data))
        begun = [next(pieces, Piece())]
    else:
        pieces = source.pieces(notes, advanced)
        begun = _first_pieces(name, pieces)
        _check_lines(name, begun[0].data if begun else b"")
        if begun and histories.recognised(begun[0].data):
            hint = "a history can be judged only as a whole and when it is complete; give one file"
            raise refused(name, "FSM201", "a history cannot be followed or combined from several files", hint)
    head = next((piece for piece in begun if piece.data), Piece())
    known = known or recognised(name, (line for piece in begun for line in piece.lines))
    _check_known(name, known, head)
    opening = Opening(
        name=name,
        form=known or own_forms()[0],
        head=head,
        pieces=chain(begun, pieces),
        notes=notes,
        size=0 if source else estimated_size(name),
        whole=source is None,
        restarts=restarts,
        as_called=as_called,
        settle=settle,
        lenient=lenient or known is None,
    )
    found = opening.form.open(opening)
    return found if known else replace(found, form=replace(opening.form, name="", title=UNKNOWN, power=""))


def open_together(name: str, other: str, advanced: Callable[[int], None] = lambda _: None) -> Recording:
    """Open the files *name* and *other*, which record the same run, as one recording.

    Raise :class:`InputError` if a file cannot be opened, or if recordings of these forms cannot be judged together.
    """
    hint = f"give a file of {either(each.title for each in own_forms() if each.together)}"
    form = form_among(name, lambda form: bool(form.together), hint)
    together: Callable[..., Recording] = loaded(form.together)
    return together(name, other, advanced)


def form_among(name: str, fits: Callable[[RecordingForm], bool], hint: str) -> RecordingForm:
    """Return the form of the file *name* if *fits* accepts the form and the file can be read again.

    Otherwise, raise :class:`InputError` with *hint*.
    """
    form = None if name == STDIN else open_recording(name, as_called=True).form
    if form is None or not fits(form):
        what = "the file cannot be read twice" if form is None else f"the form of the file is {form.title}"
        raise refused(name, "FSM206", what, hint)
    return form


def either(words: Iterable[str]) -> str:
    """Join *words* with commas and "or".

    >>> either(["logs", "calls", "events"])
    'logs, calls or events'
    """
    *most, last = words
    return f"{', '.join(most)} or {last}" if most else last


def matching(name: str) -> list[str]:
    """Return the files in a store that match the pattern *name*, sorted by name.

    If *name* is not a pattern, return only *name*.

    >>> matching("node.log"), matching("s3://logs/node-7.parquet")
    (['node.log'], ['s3://logs/node-7.parquet'])
    """
    if "://" not in name or "*" not in name:
        return [name]
    found: list[str] = of_extra("fsm.recordings.tables", name, extra="fast").matching(name)
    return found


def _history(name: str, data: Iterable[bytes], notes: Notes) -> Recording:
    whole = bytearray()
    for piece in data:
        whole += piece
        if len(whole) > histories.LARGEST:
            break
    history = histories.read(name, bytes(whole))
    notes["lines"] = whole.count(b"\n") + (not whole.endswith(b"\n"))
    if history.left_out:
        notes["operations that did nothing"] = history.left_out
    return Recording(
        name=name,
        form=HISTORY,
        machines=(history.title.machine,) if history.title.machine else (),
        hidden=history.title.unseen,
        fresh=history.title.fresh,
        batches=iter([batch(history.observations())]),
        notes=notes,
        history=history,
    )


def is_table(name: str) -> bool:
    """Check whether *name* is a table.

    A table is a URL, a folder of tables, or a file with the suffix or magic bytes of a table.
    """
    path = Path(name)
    with suppress(OSError):  # Opening the file will report the error.
        if path.is_dir():
            return any(file.suffix in SUFFIXES for file in path.iterdir())
        if not path.is_file():
            return "://" in name
        with path.open("rb") as file:
            return path.suffix in SUFFIXES or file.read(6).startswith((PARQUET, ARROW))
    return False


def _check_lines(name: str, start: bytes) -> None:
    if start.startswith((PARQUET, ARROW)):
        hint = "give the uncompressed file, without --rotated, --follow and --with"
        raise refused(name, "FSM201", "the file is a table, which cannot be read by lines", hint)


def _check_known(name: str, form: RecordingForm | None, head: Piece) -> None:
    if (form is None or form is TRACE) and (wrong := json_lines.mistake(b"".join(head.lines[:1]))):
        hint = (
            f'a header is a line such as {{"trace": 1, "machine": "NAME"}}, see {documented("reference/trace-format")}'
        )
        raise refused(name, "FSM212", f"the header of the trace cannot be read: {wrong}", hint, line=head.first)
    if form is None and any(b"\x00" in line.strip(b"\x00") for line in head.lines):
        hint = "give a log or a recording, plain or compressed by gzip or zstd; unpack an archive first"
        raise refused(name, "FSM201", "the file is binary data of an unknown kind", hint)


def _first_pieces(name: str, pieces: Iterator[Piece]) -> list[Piece]:
    begun, size = [], 0
    for piece in pieces:
        begun.append(piece)
        size += len(piece.data)
        if size > PIECE or recognised(name, piece.lines):
            break
    return [piece for piece in begun if piece.data or piece.gap]


class RecordedStep(NamedTuple):
    line: Line
    seen: Observation


@dataclass(frozen=True, slots=True, kw_only=True)
class AsRecorded:
    """The observations of one or two files in chronological order. They can be read only once.

    ``within`` maps each entity to the entity that contains it. It covers only the steps that have been read so far.
    """

    files: tuple[str, ...]
    form: RecordingForm
    machines: tuple[str, ...]
    steps: Iterator[RecordedStep]
    within: Mapping[str, str] = field(default_factory=dict)


def as_recorded(name: str, other: str = "") -> AsRecorded:
    """Open the recording *name*, together with *other*, if given, which must record the same run.

    Raise :class:`fsm.errors.InputError` if a file cannot be opened, or if the two cannot be read together.
    """
    recording = open_recording(name, restarts=Restarts(assume="none"), as_called=True)
    if recording.form.steps:
        special: Callable[[str, str], AsRecorded] = loaded(recording.form.steps)
        return special(name, other)
    if other:
        what = f"the form of the file is {recording.form.title}, which cannot be judged together with another recording"
        raise refused(name, "FSM206", what, f"leave out {other}")
    steps = (
        RecordedStep(Line.of(line, recording.name), seen)
        for part in recording.batches
        for seen, line in zip(part.observations, part.lines, strict=True)
        if seen.entity or not seen.output  # Leave out failed relays, which have no entity.
    )
    return AsRecorded(files=(name,), form=recording.form, machines=recording.machines, steps=steps)
