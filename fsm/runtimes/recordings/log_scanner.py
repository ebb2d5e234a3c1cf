"""A compiled scanner for log lines, which reduces each line to a template by cutting out its variable parts.

Variable parts are timestamps, 64-digit ids, numbers, names of pods and containers, and words that mix digits with
lowercase letters. A line is *unfit* for a template if it is too long, has too many variable parts, or contains
control characters or numeric escapes.
"""

from typing import Final

import numpy as np
from numpy.typing import NDArray

from fsm.compiled import Bytes, Number, Numbers, compiled_nogil, inner

UNFIT: Final = -1  # template number of a line without a template
MOMENTS: Final = 2  # maximum number of timestamps to record per line
IDS: Final = 4  # maximum number of distinct ids in a line
SPANS: Final = 128  # maximum number of variable parts in a line
LONGEST: Final = 8_192  # maximum length in bytes of a line with a template

ID, TIME, NUMBER, ZEROS, NAME, MIXED = 1, 2, 3, 4, 5, 6
"""Kinds of variable parts. ``ZEROS`` is a number with leading zeros, which JSON does not allow."""

_DIGIT, _HEX, _SMALL, _OTHER = 1, 2, 4, 8
_BACKSLASH, _CONTROL = 16, 32
_WORD: Final = _DIGIT | _HEX | _SMALL | _OTHER
_LOWER: Final = _DIGIT | _HEX | _SMALL
_NEWLINE, _PLUS, _COMMA, _MINUS, _DOT, _ZERO, _NINE, _COLON, _CLOSING = map(ord, "\n+,-.09:}")
_T, _Z, _SMALL_A, _SMALL_X, _SMALL_U, _U = map(ord, "TZaxuU")
_FULL: Final = 64
_YEAR: Final = 4
_LAST: Final = 2261  # last year in which every time in nanoseconds since the epoch fits in 64 bits
_LONG: Final = 18  # maximum number of digits of a number that certainly fits in 64 bits
_DATE, _SECONDS, _ZONE, _NANOSECONDS = 10, 19, 6, 9
"""Lengths of a date, a date with a time to the second, a UTC offset and the longest fraction of a second."""
_OFFSET: Final = np.int64(719_469)
"""Number of days from 0000-03-01 to 1970-01-01, plus one, because days of a month are counted from one."""


def _kinds() -> NDArray[np.uint8]:
    kinds = np.zeros(256, np.uint8)
    kinds[:32] = _CONTROL
    kinds[ord("\t")] = 0
    kinds[127] = _CONTROL
    kinds[128:] = _OTHER
    for first, last, kind in (("0", "9", _DIGIT), ("a", "f", _HEX), ("g", "z", _SMALL), ("A", "Z", _OTHER)):
        kinds[ord(first) : ord(last) + 1] = kind
    kinds[ord("_")] = _OTHER
    kinds[ord("\\")] = _BACKSLASH
    return kinds


KINDS: Final = _kinds()
_NAME, _UID, _NAMESPACE = (np.frombuffer(word, np.uint8) for word in (b"Name", b"Uid", b"Namespace"))


@inner
def _number(data: Bytes, at: Number, size: Number, largest: Number) -> Number:
    """Parse the *size* digits that begin at index *at*. Return -1 for a non-digit or a number above *largest*."""
    found = np.int64(0)
    for index in range(at, at + size):
        digit = np.int64(data[index]) - _ZERO
        if digit < 0 or digit > 9:  # noqa: PLR2004
            return -1
        found = found * 10 + digit
    return found if found <= largest else -1


@inner
def _day(data: Bytes, at: Number) -> Number:
    year, month, day = _number(data, at, 4, _LAST), _number(data, at + 5, 2, 12), _number(data, at + 8, 2, 31)
    if data[at + 4] != _MINUS or data[at + 7] != _MINUS or year < 1970 or month < 1 or day < 1:  # noqa: PLR2004
        return -1
    leap = (year % 4 == 0 and year % 100 != 0) or year % 400 == 0
    if month == 2 and day > (29 if leap else 28):  # noqa: PLR2004
        return -1
    if day == 31 and month in {4, 6, 9, 11}:  # noqa: PLR2004
        return -1
    before = 1 if month <= 2 else 0  # noqa: PLR2004
    year, month = year - before, month - 3 + 12 * before
    return 365 * year + year // 4 - year // 100 + year // 400 + (153 * month + 2) // 5 + day - _OFFSET


@inner
def _time(data: Bytes, at: Number, end: Number) -> tuple[Number, Number]:
    """Parse the RFC 3339 time at *at*. Return its end and the nanoseconds since the epoch, or zeros on failure."""
    if end - at <= _SECONDS or data[at + _DATE] != _T or data[at + 13] != _COLON or data[at + 16] != _COLON:
        return 0, 0
    day = _day(data, at)
    hour, minute, second = _number(data, at + 11, 2, 23), _number(data, at + 14, 2, 59), _number(data, at + 17, 2, 59)
    if day < 0 or hour < 0 or minute < 0 or second < 0:
        return 0, 0
    stop: Number = at + _SECONDS
    part, weight = np.int64(0), np.int64(100_000_000)
    if data[stop] == _DOT:
        stop += 1
        first = stop
        while stop < end and _ZERO <= data[stop] <= _NINE:
            part += weight * (np.int64(data[stop]) - _ZERO)
            weight //= 10
            stop += 1
        if stop == first or stop - first > _NANOSECONDS:
            return 0, 0
    away: Number = 0
    if stop < end and data[stop] == _Z:
        stop += 1
    elif stop + _ZONE <= end and (data[stop] == _PLUS or data[stop] == _MINUS) and data[stop + 3] == _COLON:
        hours, minutes = _number(data, stop + 1, 2, 23), _number(data, stop + 4, 2, 59)
        if hours < 0 or minutes < 0:
            return 0, 0
        away = (hours * 60 + minutes) * (1 if data[stop] == _PLUS else -1)
        stop += _ZONE
    else:
        return 0, 0
    if stop < end and KINDS[data[stop]] & _WORD:
        return 0, 0
    return stop, (((day * 24 + hour) * 60 + minute - away) * 60 + second) * 1_000_000_000 + part


@inner
def _is_name_key(data: Bytes, at: Number, stop: Number) -> bool:
    if stop >= len(data) or data[stop] != _COLON:
        return False
    for word in (_NAME, _UID, _NAMESPACE):
        if stop - at == len(word):
            same = True
            for index in range(len(word)):
                same &= data[at + index] == word[index]
            if same:
                return True
    return False


@inner
def cut(  # noqa: C901, PLR0912, PLR0915  (one loop: a compiled function is called slowly)
    data: Bytes, start: Number, text: Bytes, spans: Numbers
) -> tuple[Number, Number, Number]:
    """Copy the line that begins at *start* to *text*, and replace each variable part with a one-byte placeholder.

    Return the length of the text, the number of spans, and the position where scanning stopped. The length is -1 if the
    line cannot have a template. A span contains the kind, start and end of a part and, if the part is a time, its
    nanoseconds since the epoch.
    """
    at, size, count, end, last = start, 0, 0, len(data), start + LONGEST
    while at < end:
        byte = data[at]
        kind = KINDS[byte]
        if at >= last or (kind == _CONTROL and byte != _NEWLINE):
            return -1, 0, at
        if kind == 0:
            text[size] = byte
            size += 1
            at += 1
            continue
        if kind == _CONTROL:
            break
        if kind == _BACKSLASH:
            text[size] = byte
            size += 1
            at += 1
            if at < end:
                byte = data[at]
                if KINDS[byte] == _CONTROL or byte in {_SMALL_X, _SMALL_U, _U} or KINDS[byte] == _DIGIT:
                    return -1, 0, at
                text[size] = byte
                size += 1
                at += 1
            continue
        stop, seen, before = at, 0, size
        while True:
            seen |= kind
            text[size] = byte
            size += 1
            stop += 1
            if stop >= end:
                break
            byte = data[stop]
            kind = KINDS[byte]
            if kind & _WORD == 0:
                break
            if stop >= last:
                return -1, 0, stop
        what = 0
        nanos: Number = 0
        if seen & (_SMALL | _OTHER) == 0 and stop - at == _FULL:
            what = ID
        elif seen == _DIGIT:
            if stop - at == _YEAR:
                until, nanos = _time(data, at, end)
                if until:
                    what, stop = TIME, until
            if what == 0 and stop - at <= _LONG:
                what = ZEROS if data[at] == _ZERO and stop - at > 1 else NUMBER
        elif seen & _DIGIT and seen & _OTHER == 0:
            what = MIXED
        if what:
            if count == SPANS:
                return -1, 0, at
            spans[count, 0], spans[count, 1], spans[count, 2], spans[count, 3] = what, at, stop, nanos
            count += 1
            text[before] = what
            size = before + 1
            at = stop
            continue
        named = seen & _DIGIT == 0 and _is_name_key(data, at, stop)
        at = stop
        if named:
            text[size] = _COLON
            size += 1
            at += 1
            stop = at
            while stop < end and (KINDS[data[stop]] & _LOWER or data[stop] == _MINUS or data[stop] == _DOT):
                stop += 1
            if stop > at and stop < end and (data[stop] == _COMMA or data[stop] == _CLOSING):
                if count == SPANS or stop >= last:
                    return -1, 0, at
                spans[count, 0], spans[count, 1], spans[count, 2], spans[count, 3] = NAME, at, stop, 0
                count += 1
                text[size] = NAME
                size += 1
                at = stop
    return size, count, at


@inner
def _id_number(data: Bytes, at: Number, places: Numbers, table: Numbers) -> Number:
    """Return the number of the id at index *at*, or -1 if the id is new and there is no room for it."""
    seen = np.uint64(0)
    for index in range(at + 1, at + _FULL, 2):
        seen = seen * np.uint64(31) + data[index]
    mask = len(table) - 1
    slot = np.int64((seen ^ (seen >> np.uint64(29))) & np.uint64(mask))
    while table[slot]:
        known = places[table[slot]]
        same = 0
        while same < _FULL and data[known + same] == data[at + same]:
            same += 1
        if same == _FULL:
            return np.int64(table[slot])
        slot = (slot + 1) & mask
    number: Number = places[0]
    if number == len(places):
        return -1
    places[0] += 1
    places[number], table[slot] = at, number
    return number


@inner
def _template(text: NDArray[np.uint64], size: Number, forms: Numbers, pool: NDArray[np.uint64]) -> Number:
    """Return the number of the template text[:size], or ``UNFIT`` if it is new and there is no room for it."""
    seen = np.uint64(0xCBF29CE484222325)
    for index in range(size):
        seen = (seen ^ text[index]) * np.uint64(0x9E3779B97F4A7C15)
        seen ^= seen >> np.uint64(29)
    mask = len(forms) - 1
    slot = np.int64(seen & np.uint64(mask))
    while forms[slot]:
        begin = forms[slot]
        if np.int64(pool[begin + 1]) == size:
            same = 0
            while same < size and pool[begin + 2 + same] == text[same]:
                same += 1
            if same == size:
                return np.int64(pool[begin])
        slot = (slot + 1) & mask
    begin, number = np.int64(pool[0]), np.int64(pool[1])
    if begin + size + 2 > len(pool) or number >= len(forms) // 2:
        return UNFIT
    forms[slot] = begin
    pool[begin], pool[begin + 1] = np.uint64(number), np.uint64(size)
    for index in range(size):
        pool[begin + 2 + index] = text[index]
    pool[0], pool[1] = np.uint64(begin + size + 2), np.uint64(number + 1)
    return number


@compiled_nogil
def scan(  # noqa: C901  (one loop: a compiled function is called slowly)
    data: Bytes,
    forms: Numbers,
    pool: NDArray[np.uint64],
    table: Numbers,
    places: Numbers,
    begins: Numbers,
    found: NDArray[np.int32],
    times: NDArray[np.int64],
    spans: Numbers,
    words: NDArray[np.uint64],
    text: Bytes,
) -> None:
    """Find the start, template, ids and first timestamps of each line of *data*.

    Store the starts in ``begins``, the templates and ids in ``found``, and the nanoseconds, start and end of each
    timestamp in ``times``. ``forms`` and ``pool`` contain the templates of all lines so far. ``table`` and ``places``
    contain the ids in *data*, and ``spans`` contains the variable parts of the last line. ``words`` and ``text`` are
    the same buffer.
    """
    end, line = len(data), 0
    start: Number = 0
    while line < len(found):
        size, count, stop = cut(data, start, text, spans)
        while stop < end and data[stop] != _NEWLINE:
            stop += 1
        found[line, 0] = UNFIT
        ids = moments = 0
        for index in range(count if size >= 0 else 0):
            if spans[index, 0] == TIME and moments < MOMENTS:
                times[line, moments, 0] = spans[index, 3]
                times[line, moments, 1], times[line, moments, 2] = spans[index, 1], spans[index, 2]
                moments += 1
            elif spans[index, 0] == ID:
                number = _id_number(data, spans[index, 1], places, table)
                which = 0
                while which < ids and found[line, 1 + which] != number:
                    which += 1
                if which == IDS or number < 0:
                    size = -1
                    break
                if which == ids:
                    found[line, 1 + ids] = number
                    ids += 1
                # The template also contains the index of each id among the distinct ids of the line, so a line that
                # repeats an id has a different template. Spans are in the order of their placeholders.
                spans[index, 3] = which
        if size >= 0:
            order = np.uint64(1)
            for index in range(count):
                if spans[index, 0] == ID:
                    order = order * np.uint64(5) + np.uint64(spans[index, 3]) + np.uint64(1)
            last = (size + 7) // 8
            for index in range(size, 8 * last):
                text[index] = 0
            words[last] = order
            found[line, 0] = _template(words, last + 1, forms, pool)
        start = stop + 1
        line += 1
        begins[line] = start
