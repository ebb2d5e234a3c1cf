"""Damage bytes, texts or documents.

Damaged documents stay well formed, so the parser accepts them.
"""

from __future__ import annotations

import copy
import gzip
import pickle
import re
from typing import TYPE_CHECKING, TypeAlias

if TYPE_CHECKING:
    import random
    from collections.abc import Callable, Iterator

Place: TypeAlias = "tuple[dict[str, object] | list[object], str | int]"

STRANGE = ("\x00", "\x07", "\x1b[2J", "\r", "\x7f", "\x85", "\x9b31m", "\u2028", "\u202e", "\u2066", "\ud800", "\ufeff")
"""Control characters of terminals, bidirectional controls, and unassigned code points."""

NAMES = (
    *("", " ", "*", "-", "--help", "none", "null", "true", "ok", "node", "end", "start", "init", "default", "digraph"),
    *(
        "__class__",
        "a.b",
        "a b",
        "a\nb",
        "a/b",
        "../a",
        "%s{}",
        '"',
        "\\",
        "é停🐚",
        "a\u0301",
        "x" * 300,
        "a/" + "x" * 300,
        "[*]",
        "<b>&amp;",
    ),
)
"""Names that have a special meaning in some format, or that have to be quoted."""

NUMBERS = (-1, 0, 1, 2**31, 2**53 + 1, 2**63 - 1, 2**63, -(2**63) - 1, 2**64, 10**30, -0.5, 1e308, 1e-308)

OTHERS: tuple[object, ...] = (True, False, [], {}, [[]], [{}], {"a": {}}, [300, -1], "x", "9" * 5_000)


# -- damage to bytes ------------------------------------------------------------------


def flipped(data: bytes, chosen: random.Random) -> bytes:
    damaged = bytearray(data)
    for _ in range(chosen.randrange(1, 30) if damaged else 0):
        damaged[chosen.randrange(len(damaged))] = chosen.randrange(256)
    return bytes(damaged)


def mixed(data: bytes, chosen: random.Random) -> bytes:
    lines = data.splitlines(keepends=True) or [b""]
    kept = chosen.sample(lines, k=chosen.randrange(1, len(lines) + 1))
    return b"".join([*kept, *chosen.choices(lines, k=3)])


def displaced(data: bytes, chosen: random.Random) -> bytes:
    first, second, third = sorted(chosen.randrange(len(data) + 1) for _ in range(3))
    return data[:first] + data[second:third] + data[first:second] + data[third:]


def inserted(data: bytes, chosen: random.Random) -> bytes:
    strange = [b"\xff\xfe", b"\n", b'"', b"{", b"}", b"[", b"null", b"\x1f\x8b", b"\xc3", b"9" * 400, b"9" * 5_000]
    strange += [each.encode("utf-8", "surrogatepass") for each in (*STRANGE, *NAMES)]
    for _ in range(chosen.randrange(1, 10)):
        at = chosen.randrange(len(data) + 1)
        data = data[:at] + chosen.choice(strange) * chosen.randrange(1, 4) + data[at:]
    return data


def squeezed(data: bytes, chosen: random.Random) -> bytes:
    return flipped(gzip.compress(data), chosen)


def broken_off(data: bytes, chosen: random.Random) -> bytes:
    data = chosen.choice([data, gzip.compress(data)])
    return data[: chosen.randrange(len(data) + 1)]


TO_BYTES = (flipped, mixed, displaced, inserted, squeezed, broken_off)


# -- damage to words ------------------------------------------------------------------

_WORD = re.compile(r'"(?:[^"\\\n]|\\.)*"|[\w.:+-]*\w|[^\w\s]')


def reworded(text: str, chosen: random.Random) -> str:
    for _ in range(chosen.choice((1, 1, 2, 4))):
        words = [each.span() for each in _WORD.finditer(text)]
        if not words:
            return text
        first, last = chosen.choice(words)
        word = text[first:last]
        alike = [text[slice(*each)] for each in words if _kind(text[slice(*each)]) == _kind(word)]
        other = chosen.choice([*alike, *alike, _quoted_as(word, strange_text(word.strip('"'), chosen))])
        lines = text.split("\n")
        at, to = chosen.randrange(len(lines)), chosen.randrange(len(lines))
        match chosen.randrange(7):
            case 0 | 1:
                text = text[:first] + other + text[last:]
            case 2:
                text = text.replace(word, other) if word.strip('"') else text
            case 3:
                text = text[:first] + text[last:]
            case 4:
                text = f"{text[:last]} {other}{text[last:]}"
            case 5:
                lines[at], lines[to] = lines[to], lines[at]
                text = "\n".join(lines)
            case _:
                text = "\n".join([*lines[:at], *lines[at : at + 3] * chosen.choice((0, 2, 3)), *lines[at + 3 :]])
    return text


def _kind(word: str) -> str:
    return '"' if word[:1] == '"' else "1" if word[:1].isdigit() else "a" if word[:1].isalnum() else word


def _quoted_as(word: str, text: str) -> str:
    return f'"{text}"' if word.startswith('"') else text


def strange_text(text: str, chosen: random.Random) -> str:
    if chosen.randrange(5):
        return chosen.choice((*NAMES, f"{text}2", text.upper(), text * 2))
    at = chosen.randrange(len(text) + 1)
    return text[:at] + chosen.choice(STRANGE) + text[at:]


# -- damage to documents --------------------------------------------------------------


def changed(document: object, chosen: random.Random) -> object:
    document = pickle.loads(pickle.dumps(document))  # noqa: S301  (a quick copy)
    for _ in range(chosen.choice((1, 1, 1, 1, 2, 4))):
        places = list(_places(document))
        if not places:
            break
        document = chosen.choice(CHANGES)(document, places, chosen)
    return document


def _places(value: object) -> Iterator[Place]:
    holder: dict[str, object] | list[object]
    if isinstance(value, dict):
        holder = value
        keys: list[str | int] = list(value)
    elif isinstance(value, list):
        holder = value
        keys = list(range(len(value)))
    else:
        return
    for key in keys:
        yield holder, key
        yield from _places(_at((holder, key)))


def _at(place: Place) -> object:
    holder, key = place
    return holder[key]  # type: ignore[index]  # a key of it


def _put(place: Place, value: object) -> None:
    holder, key = place
    holder[key] = value  # type: ignore[index]  # a key of it


def _alike(places: list[Place], chosen: random.Random) -> tuple[Place, Place]:
    one = chosen.choice(places)
    same = [each for each in places if type(_at(each)) is type(_at(one))]
    named = [each for each in same if each[1] == one[1]]
    return one, chosen.choice(named if len(named) > 1 and chosen.randrange(4) else same)


def _exchange(document: object, places: list[Place], chosen: random.Random) -> object:
    one, other = _alike(places, chosen)
    was = copy.deepcopy(_at(one))
    _put(one, copy.deepcopy(_at(other)))
    _put(other, was)
    return document


def _repeat(document: object, places: list[Place], chosen: random.Random) -> object:
    one, other = _alike(places, chosen)
    _put(one, copy.deepcopy(_at(other)))
    return document


def _add(document: object, places: list[Place], chosen: random.Random) -> object:
    holder, key = place = chosen.choice(places)
    value = copy.deepcopy(_at(place))
    if isinstance(holder, list):
        holder.insert(chosen.randrange(len(holder) + 1), value)
    else:
        holder[_other_name(str(key), places, chosen)] = value
    return document


def _drop(document: object, places: list[Place], chosen: random.Random) -> object:
    holder, key = chosen.choice(places)
    del holder[key]  # type: ignore[arg-type]  # a key of it
    return document


def _rename(document: object, places: list[Place], chosen: random.Random) -> object:
    holder, key = chosen.choice(places)
    if isinstance(holder, dict):
        entries, name = list(holder.items()), _other_name(str(key), places, chosen)
        holder.clear()
        holder.update({name if each == key else each: value for each, value in entries})
    return document


def _other_name(name: str, places: list[Place], chosen: random.Random) -> str:
    known = [str(key) for holder, key in places if isinstance(holder, dict)]
    return chosen.choice([chosen.choice(known), strange_text(name, chosen)]) if known else strange_text(name, chosen)


def _call_otherwise(document: object, places: list[Place], chosen: random.Random) -> object:
    words = [word for holder, key in places for text in (key, _at((holder, key))) if isinstance(text, str)
             for word in re.findall(r"\w[\w-]*", text)]  # fmt: skip
    if not words:
        return document
    word = chosen.choice(words)
    other = chosen.choice([chosen.choice(words), strange_text(word, chosen), strange_text(word, chosen)])
    pattern = re.compile(rf"(?<![\w-]){re.escape(word)}(?![\w-])")

    def anew(value: object) -> object:
        match value:
            case str():
                return pattern.sub(lambda _: other, value)
            case list():
                return list(map(anew, value))
            case dict():
                return {str(anew(key)): anew(each) for key, each in value.items()}
        return value

    return anew(document)


def _retype(document: object, places: list[Place], chosen: random.Random) -> object:
    _put(chosen.choice(places), copy.deepcopy(chosen.choice(OTHERS)))
    return document


def _renumber(document: object, places: list[Place], chosen: random.Random) -> object:
    numbers = [each for each in places if type(_at(each)) in {int, float}]
    _put(chosen.choice(numbers or places), chosen.choice(NUMBERS))
    return document


def _reword(document: object, places: list[Place], chosen: random.Random) -> object:
    texts = [each for each in places if isinstance(_at(each), str)]
    if texts:
        place = chosen.choice(texts)
        text = str(_at(place))
        _put(place, chosen.choice([strange_text, reworded])(text, chosen))
    return document


def _nest(document: object, places: list[Place], chosen: random.Random) -> object:
    place = chosen.choice(places)
    value = _at(place)
    for _ in range(chosen.choice((1, 1, 2, 40, 150))):
        value = chosen.choice([[value], {"a": value}])
    _put(place, value)
    return document


CHANGES: tuple[Callable[[object, list[Place], random.Random], object], ...] = (
    *(_exchange, _exchange, _exchange, _repeat, _repeat, _repeat, _add, _add, _drop, _drop, _rename),
    *(_call_otherwise, _call_otherwise, _call_otherwise, _retype, _renumber, _reword, _nest),
)
