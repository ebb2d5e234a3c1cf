"""Read one line of a trace: its observation, or everything that is wrong with it.

Every misspelt key and every value of the wrong type is reported, because it might be the illegal part of the trace.
"""

import math
import re
from typing import Final, TypeAlias

import msgspec

from fsm.errors import documented, nearest
from fsm.recordings.line_reader import decoded
from fsm.trace import Observation, nanoseconds

OWN: Final = "x-"
"""Prefix of keys that the format reserves for the author of a trace."""

EARLIEST: Final = 946_684_800 * 10**9
"""2000-01-01 in nanoseconds since the epoch. Anything smaller is in another unit or comes from a relative clock."""

_LAST: Final = 4_102_444_800 * 10**9

_PAGE: Final = documented("reference/trace-format")
_FORM: Final = "write nanoseconds since the epoch, or RFC 3339"
_UNITS: Final = {"seconds": 10**9, "milliseconds": 10**6, "microseconds": 10**3}
_KEYS: Final = Observation.__struct_fields__
DECODER: Final = msgspec.json.Decoder(Observation)
_ANYTHING: Final = msgspec.json.Decoder(object)
_PLACE: Final = re.compile(r"(.+) - at `\$\.(\w+).*`")

_DAY: Final = (
    r"(?:(?:0[13578]|1[02])-(?:0[1-9]|[12]\d|3[01])|(?:0[469]|11)-(?:0[1-9]|[12]\d|30)|02-(?:0[1-9]|1\d|2[0-8]))"
)
_USUAL: Final = (
    rf"(?:19|2[01])\d\d-{_DAY}T(?:[01]\d|2[0-3]):[0-5]\d:[0-5]\d(?:\.\d+)?(?:Z|[+-](?:[01]\d|2[0-3]):[0-5]\d)"
)
"""Pattern for times in the usual format, which are all valid. Any other time takes longer to check."""

_TIME: Final = re.compile(_USUAL, re.ASCII)

LineMistake: TypeAlias = tuple[str, str]
"""A mistake in a line, and how to fix it."""


def own(line: bytes) -> dict[str, object] | None:
    """Return the JSON object in *line* without keys that begin with ``x-``, or ``None`` if it is not an object."""
    found = decoded(line, _ANYTHING)
    return {key: each for key, each in found.items() if not key.startswith(OWN)} if isinstance(found, dict) else None


def is_plain(seen: Observation, *, relative: bool) -> bool:
    """Check whether the decoded *seen* has valid times, and has both a file and a line or neither."""
    at, start, end = seen.at, seen.start, seen.end
    if bool(seen.file) != bool(seen.line) or (isinstance(at, str) and _TIME.fullmatch(at) is None):
        return False
    early = isinstance(at, int) and at < EARLIEST
    return relative or not (early or (start is not None and start < EARLIEST) or (end is not None and end < EARLIEST))


def reading(line: bytes, *, relative: bool) -> tuple[Observation | None, list[LineMistake]]:
    """Return the observation in *line*, or ``None`` and the mistakes.  If *relative*, times may have any origin.

    >>> [what for what, _ in reading(b'{"entity": "c1", "evnt": "stop"}', relative=False)[1]]
    ["unknown key 'evnt'"]
    """
    found = decoded(line, DECODER)
    if found is not None and is_plain(found, relative=relative):
        return found, []
    given = own(line)
    if given is None:
        return None, [("is no JSON object", f"each line of a trace is one, see {_PAGE}")]
    unknown = [key for key in given if key not in _KEYS]
    free = f"; keys that begin with '{OWN}' are free"
    mistakes = [(f"unknown key '{key}'", nearest(key, _KEYS, of="keys") + free) for key in unknown]
    known = {key: each for key, each in given.items() if key in _KEYS}
    for key in [each for each in ("at", "start", "end") if each in known]:
        known[key], wrong = _time(key, known[key], relative=relative)
        mistakes += [wrong] if wrong else []
    if bool(known.get("file")) != bool(known.get("line")):
        mistakes.append(("has one of 'file' and 'line'", "give both, or leave out both"))
    seen = _converted(known, mistakes)
    return (None if mistakes else seen), mistakes


def _converted(known: dict[str, object], mistakes: list[LineMistake]) -> Observation | None:
    """Convert *known* to an observation. Remove each value of the wrong type and add it to *mistakes*."""
    while True:
        try:
            return msgspec.convert(known, Observation)
        except msgspec.ValidationError as error:
            place = _PLACE.fullmatch(str(error))
            if place is None:
                raise
            what, key = place.groups()
            known.pop(key)
            mistakes.append((f"'{key}': {what[:1].lower()}{what[1:]}", f"{_PAGE} has the types"))


def _time(key: str, value: object, *, relative: bool) -> tuple[object, LineMistake | None]:
    """Return *value*, the time under *key*, as an observation stores it, and what is wrong with it, if anything."""
    if isinstance(value, str):
        if (at := nanoseconds(value)) is None:
            return None, (f"'{key}' is no time: '{value}'", _FORM)
        return (value if key == "at" else at), None
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
        return value, None
    return (int(value), None) if value >= EARLIEST or relative else (None, too_small(key, value))


def too_small(key: str, value: float) -> LineMistake:
    """Return the mistake for a time too small to be nanoseconds of this century, with the unit likely meant."""
    unit = next((name for name, factor in _UNITS.items() if EARLIEST <= value * factor < _LAST), "")
    what = f"'{key}' is {value}, which is too small for nanoseconds of this century"
    meant = f"; it may be {unit}" if unit else ""
    times = f"multiply by {_UNITS[unit]:,}" if unit else _FORM
    return (f"{what}{meant}", f'{times}; if the clock is relative, say "clock": "relative" in the header')
