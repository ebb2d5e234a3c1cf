"""The compiled part of :mod:`fsm.recordings.shapes`: lines of JSON are cut into what is their own, and their shape."""

from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from fsm.compiled import EIGHT, Bytes, Codes, Number, Numbers, alike, eight, hashed, lean, lean_inner, spread

ALONE: Final = -1
"""In place of a kind: only the line itself says what it is."""

UNKNOWN: Final = -2
"""In place of a kind: no line of this shape was seen yet."""

ODD: Final = -3
"""In place of a kind: the line is not of a form that can be cut."""

ENTITY, AT, LINE = range(3)
"""What is cut out of a line: its values of these keys."""

NAMES: Final = np.frombuffer(b"entityatline", np.uint8)
ENDS: Final = (6, 8, 12)
"""How they are called, and where each name ends."""

CUTS: Final = 9
"""What is known of the cuts of a line, of which there are three, in order: where each begins and ends, and which key it is of."""

QUOTE, BACKSLASH, COMMA, COLON, MINUS, ZERO, NINE = (np.uint8(ord(each)) for each in '"\\,:-09')
OPEN, CLOSE, BEGIN, END = (np.uint8(ord(each)) for each in "{}[]")
SPACE, TAB, ASCII = np.uint8(32), np.uint8(9), np.uint8(128)
QUOTES, BACKSLASHES, SPACES, ONES, TOPS = (np.uint64(0x0101010101010101 * each) for each in (34, 92, 32, 1, 128))
"""Eight times the same byte."""

NUMBERED: Final = np.uint64(0x0001020304050607)
"""Its top byte, times a number of which one byte is 1, is the number of that byte."""

DIGITS: Final = 18
"""A number of so many digits fits into 64 bits."""


class JsonRows(NamedTuple):
    """The lines of a piece: where each begins and ends, its kind, its entity; the hash of its shape, and what is cut out of it."""

    begins: Numbers
    ends: Numbers
    kind: Codes
    entity: Codes
    shapes: NDArray[np.uint64]
    cuts: Numbers


class JsonIds(NamedTuple):
    """The ids of a piece, of which so many were ``counted``, and a hash table of their numbers, each one more than it is."""

    starts: Numbers
    ends: Numbers
    hashes: NDArray[np.uint64]
    buckets: Codes


class KnownShapes(NamedTuple):
    """The shapes that are known: their text, where each begins, its length, its hash and its kind; a hash table of them."""

    text: Bytes
    begins: Numbers
    lengths: Numbers
    hashes: NDArray[np.uint64]
    kinds: Codes
    buckets: Codes


@lean_inner
def blanks(text: Bytes, at: Number, end: Number) -> Number:
    """Where what is no blank begins."""
    while at < end and (text[at] == SPACE or text[at] == TAB):
        at += 1
    return at


@lean_inner
def behind(text: Bytes, at: Number, end: Number, mark: np.uint8) -> Number:
    """Where what is no blank begins behind the *mark*; -1 if that does not come next."""
    at = blanks(text, at, end)
    return blanks(text, at + 1, end) if at < end and text[at] == mark else ODD


@lean_inner
def quoted(text: Bytes, at: Number, end: Number, key: Number) -> Number:
    """Where the string ends that begins *at* this place, at its quote; -1 if it does not, or is not plain but should be, as what *key* has."""
    place, last = np.uint64(at), np.uint64(end)
    while place < last:
        if place + EIGHT <= last:
            word = eight(text, place)
            marks = below(word ^ QUOTES, ONES) | below(word ^ BACKSLASHES, ONES) | below(word, SPACES)
            if key >= 0:
                marks |= word & TOPS
            if not marks:
                place += EIGHT
                continue
            place += (((marks & (~marks + np.uint64(1))) >> np.uint64(7)) * NUMBERED) >> np.uint64(56)
        byte = text[place]
        if byte == QUOTE:
            return np.int64(place)
        if byte < SPACE or (key >= 0 and (byte == BACKSLASH or byte >= ASCII)):
            return ODD
        place += np.uint64(2) if byte == BACKSLASH else np.uint64(1)
    return ODD


@lean_inner
def below(word: np.uint64, than: np.uint64) -> np.uint64:
    """The top bit of each of eight bytes that is less *than* the byte there, and of none before the first such."""
    return (word - than) & ~word & TOPS


@lean_inner
def nested(text: Bytes, at: Number, end: Number) -> Number:
    """Where the list or object ends that begins *at* this place; -1 if it does not."""
    depth = 0
    while at < end:
        byte = text[at]
        if byte == QUOTE:
            at = quoted(text, at + 1, end, -1)
            if at < 0:
                return ODD
        elif byte in (OPEN, BEGIN):
            depth += 1
        elif byte in (CLOSE, END):
            depth -= 1
            if depth == 0:
                return at + 1
        at += 1
    return ODD


@lean_inner
def word(text: Bytes, at: Number, end: Number) -> Number:
    """Where the number or name ends that begins *at* this place."""
    while at < end and text[at] > SPACE and text[at] != COMMA and text[at] != CLOSE:
        at += 1
    return at


@lean_inner
def whole(text: Bytes, at: Number, end: Number) -> bool:
    """Whether a whole number stands there that fits into 64 bits, and nothing else."""
    first = at + 1 if text[at] == MINUS else at
    if first == end or end - first > DIGITS or (text[first] == ZERO and end > first + 1):
        return False
    for each in range(first, end):  # noqa: SIM110  (a generator is not compiled)
        if text[each] < ZERO or text[each] > NINE:
            return False
    return True


@lean_inner
def which(text: Bytes, at: Number, end: Number) -> Number:
    """Which key stands there of those whose values are cut out; -1 for none."""
    for key in range(len(ENDS)):
        begin = ENDS[key - 1] if key else 0
        if ENDS[key] - begin == end - at and alike(text, at, NAMES, begin, end - at):
            return key
    return -1


@lean_inner
def valued(text: Bytes, at: Number, end: Number, key: Number) -> Number:
    """Where the value of *key* ends that begins *at* this place; -1 if it is odd."""
    if at == end:
        return ODD
    byte = text[at]
    if byte == QUOTE:
        last = quoted(text, at + 1, end, key)
        return last + 1 if last >= 0 and key != LINE else ODD
    if byte in (OPEN, BEGIN):
        return nested(text, at, end) if key < 0 else ODD
    last = word(text, at, end)
    if last == at or key == ENTITY or (key >= 0 and not whole(text, at, last)):
        return ODD
    return last


@lean_inner
def cut(text: Bytes, at: Number, end: Number, cuts: Numbers) -> bool:
    """Whether the line is an object whose values can be cut out; *cuts* gets those."""
    for each in range(CUTS):
        cuts[each] = -1
    found = 0
    at = behind(text, at, end, OPEN)
    while 0 <= at < end and text[at] == QUOTE:
        last = quoted(text, at + 1, end, ENTITY)
        if last < 0:
            return False
        key = which(text, at + 1, last)
        start = behind(text, last + 1, end, COLON)
        at = valued(text, start, end, key) if start >= 0 else ODD
        if at < 0:
            return False
        if key >= 0:
            if key == cuts[2] or key == cuts[5] or found == CUTS:
                return False
            inside = 1 if text[start] == QUOTE else 0
            cuts[found], cuts[found + 1], cuts[found + 2] = start + inside, at - inside, key
            found += 3
        start = behind(text, at, end, CLOSE)
        if start >= 0:
            return bool(start == end)
        at = behind(text, at, end, COMMA)
    return False


@lean_inner
def shaped(text: Bytes, at: Number, end: Number, cuts: Numbers) -> np.uint64:
    """The hash of the shape of a line, which is all that is not cut out of it."""
    mixed = np.uint64(0)
    for each in range(0, CUTS, 3):
        if cuts[each] >= 0:
            mixed = spread(text, at, cuts[each], mixed)
            at = cuts[each + 1]
    return np.uint64(spread(text, at, end, mixed))


@lean_inner
def fits(text: Bytes, at: Number, end: Number, cuts: Numbers, known: KnownShapes, shape: Number) -> bool:
    """Whether a line has the *shape*, byte by byte."""
    begin, last = known.begins[shape], known.begins[shape] + known.lengths[shape]
    for each in range(0, CUTS, 3):
        if cuts[each] >= 0:
            size = cuts[each] - at
            if begin + size > last or not alike(text, at, known.text, begin, size):
                return False
            begin += size
            at = cuts[each + 1]
    return bool(begin + end - at == last and alike(text, at, known.text, begin, end - at))


@lean_inner
def named(text: Bytes, start: Number, end: Number, ids: JsonIds, counted: Numbers) -> Number:
    """The number of an id."""
    mixed = hashed(text, start, end)
    last = np.uint64(ids.buckets.shape[0] - 1)
    at = mixed & last
    while ids.buckets[at]:
        number = np.int64(ids.buckets[at]) - 1
        size = ids.ends[number] - ids.starts[number]
        if ids.hashes[number] == mixed and size == end - start and alike(text, start, text, ids.starts[number], size):
            return number
        at = (at + np.uint64(1)) & last
    number = counted[0]
    ids.starts[number], ids.ends[number], ids.hashes[number] = start, end, mixed
    ids.buckets[at] = number + 1
    counted[0] += 1
    return number


@lean_inner
def looked_up(text: Bytes, at: Number, end: Number, cuts: Numbers, mixed: np.uint64, known: KnownShapes) -> Number:
    """The kind of a line."""
    last = np.uint64(known.buckets.shape[0] - 1)
    place = mixed & last
    while known.buckets[place]:
        shape = np.int64(known.buckets[place]) - 1
        if known.hashes[shape] == mixed and fits(text, at, end, cuts, known, shape):
            return np.int64(known.kinds[shape])
        place = (place + np.uint64(1)) & last
    return UNKNOWN


@lean
def scan(
    text: Bytes, first: Number, most: Number, lines: JsonRows, ids: JsonIds, known: KnownShapes, counted: Numbers
) -> Number:
    """Find out the kinds of the lines from the *first* on, until *most* of them are odd or unknown; gives which is the next."""
    row, strange = first, 0
    while row < lines.kind.shape[0] and strange < most:
        begin, end, cuts = lines.begins[row], lines.ends[row], lines.cuts[row]
        lines.kind[row], lines.entity[row] = ODD, 0
        if cut(text, begin, end, cuts):
            start = stop = begin
            for each in range(0, CUTS, 3):
                if cuts[each + 2] == ENTITY:
                    start, stop = cuts[each], cuts[each + 1]
            lines.entity[row] = named(text, start, stop, ids, counted)
            lines.shapes[row] = shaped(text, begin, end, cuts)
            lines.kind[row] = looked_up(text, begin, end, cuts, lines.shapes[row], known)
        strange += lines.kind[row] < ALONE
        row += 1
    return row
