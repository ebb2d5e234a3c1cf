"""Read histories of concurrent operations in JSON or EDN, with a form on each line or with a single list of forms.

A history is read as a whole, and must be complete, because other operations may look illegal if an operation is
missing.
"""

import json
import re
from bisect import bisect
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Final, Literal, NamedTuple

import msgspec
from msgspec.structs import replace

from fsm.errors import InputError, Problem, documented, refused
from fsm.recordings import operations
from fsm.recordings.operations import Data, EdnForm, MeaningError, NotationError, UnderstoodForm, forms, reader
from fsm.trace import Observation

LARGEST: Final = 1 << 26
"""Maximum size of a history in bytes, which is enough for half a million operations."""

REPORTED: Final = 20
"""Maximum number of problems to report for one history. An early error may cause thousands of others."""

_FORMS: Final = documented("how-to/linearizability")
_ESCAPED: Final = re.compile(r"\\u[dD][89a-fA-F]")
_LONE: Final = re.compile("[\ud800-\udfff]")
_BLANK: Final = re.compile(r"[ \t\r\n]*")


class Title(msgspec.Struct, frozen=True, kw_only=True):
    """The header of a history, an optional first form.

    If ``fresh`` is false, entities may start in any state. ``unseen`` lists the signals that the history does not
    show. If ``outputs`` is true, the history contains all outputs of every entity.
    """

    history: Literal[1]
    machine: str = ""
    fresh: bool = True
    unseen: tuple[str, ...] = ()
    outputs: bool = False


class Recorded(NamedTuple):
    """An operation, with the lines of its call and its return.

    If the operation never returned, ``seen`` has no ``end``. If ``aside`` is true, the operation belongs to no client
    and counts only if the machine has its event.
    """

    seen: Observation
    called: int
    returned: int
    aside: bool = False


@dataclass(frozen=True, slots=True)
class RecordedHistory:
    """The operations in a file, in the order of their calls, and the outputs of each entity in order.

    ``left_out`` is the number of operations that were left out because they certainly had no effect.
    """

    title: Title
    operations: tuple[Recorded, ...]
    outputs: Mapping[str, tuple[str, ...]]
    left_out: int

    def observations(self) -> Iterator[tuple[int, Observation]]:
        """Return both ends of all operations with their lines, sorted by time. At equal times, calls come first."""
        ends: list[tuple[int, int, int, Observation]] = []
        for operation in self.operations:
            start, end = operation.seen.start or 0, operation.seen.end
            reply = replace(operation.seen, phase="reply", start=None, end=None)
            ends.append((start, 0, operation.called, replace(reply, phase="request", reply="", shows="", detail="")))
            ends += [(end, 1, operation.returned, reply)] if end is not None else []
        return ((line, seen) for _, _, line, seen in sorted(ends, key=lambda end: end[:3]))


def recognised(head: bytes) -> bool:
    """Check whether *head* is the beginning of a history.

    >>> recognised(b'{:type :invoke, :f :start, :process 0}'), recognised(b'{"op": "stop"}')
    (True, False)
    """
    text = head.decode("utf-8-sig", "ignore")
    if text.lstrip()[:1] not in {"{", "[", "(", "#", ";"}:
        return False
    try:
        value = next(_read(text)).value
    except (StopIteration, NotationError):
        return False
    if not isinstance(value, dict):
        return False
    match reader(value):
        case operations.jepsen:
            return isinstance(value["type"], str) and value["type"] in operations.TYPES and "f" in value
        case operations.ours:
            return "process" in value
        case interpreted:
            return interpreted is not None or "history" in value


def read(name: str, data: bytes) -> RecordedHistory:
    if len(data) > LARGEST:
        what = f"the history is larger than {LARGEST >> 20} MiB"
        raise refused(name, "FSM209", what, "divide the history: each entity can be judged by itself")
    pairing = _Pairing(name)
    try:
        text = data.decode("utf-8-sig")
        found = _reject_half_surrogates(_read(text)) if _ESCAPED.search(text) else _read(text)
        for number, form in enumerate(found):
            pairing.take(number, form)
            if len(pairing.problems) >= REPORTED:
                break
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        pairing.refuse(line, "FSM207", "a byte that is not UTF-8", "histories are UTF-8")
    except RecursionError:
        pairing.refuse(0, "FSM207", "the history is nested too deeply", "an operation must be a flat map")
    except NotationError as error:
        hint = f"a history is JSON or EDN with one form for each operation; {_FORMS} shows the forms"
        pairing.refuse(error.line, "FSM207", error.what, hint)
    return pairing.history()


def _read(text: str) -> Iterator[EdnForm]:
    try:
        next(_json(text), None)
    except NotationError:
        return forms(text)
    return _json(text)


def _reject_half_surrogates(found: Iterator[EdnForm]) -> Iterator[EdnForm]:
    for form in found:
        if _LONE.search(json.dumps(form.value, ensure_ascii=False)):
            raise NotationError(form.line, "an escape sequence is half of a surrogate pair, which is not a character")
        yield form


def _json(text: str) -> Iterator[EdnForm]:
    decoder = json.JSONDecoder()
    ends = [found.start() for found in re.finditer("\n", text)]

    def wrong(what: str) -> NotationError:
        return NotationError(bisect(ends, position) + 1, what)

    position = _skip_blanks(text, 0)
    listed = text.startswith("[", position)
    position = _skip_blanks(text, position + listed)
    while position < len(text) and not (listed and text[position] == "]"):
        try:
            value, end = decoder.raw_decode(text, position)
        except json.JSONDecodeError as error:
            raise NotationError(error.lineno, error.msg[:1].lower() + error.msg[1:]) from error
        except (RecursionError, ValueError) as error:
            raise wrong("the text is nested too deeply, or has a number with too many digits") from error
        yield EdnForm(bisect(ends, position) + 1, value)
        position = _skip_blanks(text, end)
        if listed and text[position : position + 1] == ",":
            position = _skip_blanks(text, position + 1)
        elif listed and text[position : position + 1] not in {"]", ""}:
            raise wrong("there is no comma after an item of the list")
    if listed and position >= len(text):
        raise wrong("the list does not end")
    position = _skip_blanks(text, position + 1)
    if listed and position < len(text):
        raise wrong("there is text after the end of the list")


def _skip_blanks(text: str, position: int) -> int:
    found = _BLANK.match(text, position)
    return found.end() if found else position


@dataclass(slots=True)
class _Begun:
    number: int
    line: int
    part: UnderstoodForm


@dataclass(slots=True)
class _Pairing:
    name: str
    problems: list[Problem] = field(default_factory=list)
    _title: Title = field(default_factory=lambda: Title(history=1))
    _found: list[Recorded] = field(default_factory=list)
    _begun: dict[str, _Begun] = field(default_factory=dict)
    _outputs: dict[str, list[str]] = field(default_factory=dict)
    _timed: set[bool] = field(default_factory=set)
    _left_out: int = 0

    def take(self, number: int, form: EdnForm) -> None:
        try:
            self._take(number, form.line, form.value)
        except MeaningError as error:
            self.refuse(form.line, "FSM208", error.what, error.hint)

    def refuse(self, line: int, code: str, what: str, hint: str) -> None:
        self.problems.append(Problem(path=self.name, line=line, code=code, what=what, hint=hint))

    def _take(self, number: int, line: int, value: Data) -> None:
        if not number and isinstance(value, dict) and "history" in value:
            try:
                self._title = msgspec.convert(value, Title)
            except msgspec.ValidationError as error:
                what = f"the header of the history is wrong: {str(error)[:1].lower()}{str(error)[1:]}"
                raise MeaningError(what, f"{_FORMS} lists the keys of the header") from error
            return
        read = reader(value)
        if read is None or not isinstance(value, dict):
            text = repr(value)
            what = f"{text[:30]}{'…' if text[30:] else ''} is not an operation"
            raise MeaningError(what, f"{_FORMS} shows the forms of histories")
        part = read(value)
        if part.end == "output":
            self._outputs.setdefault(part.seen.entity, []).append(part.seen.output)
            return
        timed = part.end == "whole" and part.seen.start is not None
        mixed = bool(self._timed) and timed not in self._timed
        self._timed.add(timed)
        if part.end == "whole":
            self._add_operation(number, line, part.seen)
        elif part.end == "call" or (part.end == "next" and part.pairs not in self._begun):
            self._call(number, line, part)
        else:
            self._return(number, line, part)
        if mixed:  # Either all operations have a start and an end, or all are ordered by position in the file.
            what = f"the operation {'has a' if timed else 'has no'} start, unlike the operations before it"
            raise MeaningError(what, "give either all or none of the operations of a history a start and an end")

    def _add_operation(self, number: int, line: int, seen: Observation) -> None:
        if seen.start is None:
            seen = replace(seen, start=number, end=number)
        elif seen.end is not None and seen.end < seen.start:
            what = f"the operation returns at {seen.end}, before its call at {seen.start}"
            raise MeaningError(what, "take both times from the same clock")
        if not seen.event and not seen.shows:
            what = "the operation has neither an event nor an observed state"
            raise MeaningError(what, "an operation is an event or an observation of the state")
        self._found.append(Recorded(seen, line, line))

    def _call(self, number: int, line: int, part: UnderstoodForm) -> None:
        before = self._begun.pop(part.pairs, None)
        self._begun[part.pairs] = _Begun(number, line, part)
        if before is not None:
            what = (
                f"the process calls {part.seen.event} during its call of {before.part.seen.event} on line {before.line}"
            )
            hint = "a process has one operation in progress; end one that never returns with :info or phase lost"
            raise MeaningError(what, hint)
        if not part.seen.event and not part.seen.shows:
            raise MeaningError("the call does not name an event", "a call must name the event that it calls")

    def _return(self, number: int, line: int, part: UnderstoodForm) -> None:
        begun = self._begun.pop(part.pairs, None)
        seen = part.seen
        if begun is None:
            what = f"{seen.event} ends" if seen.event else "an operation ends"
            raise MeaningError(
                f"{what} that was not called", "an end must follow its call and have the same process or id"
            )
        asked = begun.part.seen
        for was, now, kind in ((asked.event, seen.event, "event"), (asked.entity, seen.entity, "entity")):
            if now and was != now:
                what = f"the end has the {kind} {now!r}, but its call on line {begun.line} has {was!r}"
                raise MeaningError(what, "an end belongs to the last call with the same process or id")
        if part.end == "undone":
            self._left_out += 1
        elif part.end == "lost":
            self._add_lost_call(begun)
        else:
            echo = part.value is not None and part.value == begun.part.value
            reply = "ok" if echo else seen.reply
            whole = replace(asked, start=begun.number, end=number, reply=reply, shows=seen.shows, detail=seen.detail)
            self._found.append(Recorded(whole, begun.line, line, part.aside))

    def _add_lost_call(self, begun: _Begun) -> None:
        seen = replace(begun.part.seen, start=begun.number, end=None)
        self._found.append(Recorded(seen, begun.line, begun.line, begun.part.aside))

    def history(self) -> RecordedHistory:
        if self.problems:
            raise InputError(self.problems[:REPORTED])
        for begun in self._begun.values():
            self._add_lost_call(begun)
        operations = sorted(self._found, key=lambda each: (each.seen.start or 0, each.called))
        outputs = {entity: tuple(emitted) for entity, emitted in self._outputs.items()}
        return RecordedHistory(self._title, tuple(operations), outputs, self._left_out)
