"""Turn names into distinct identifiers for other languages."""

import re
from collections.abc import Iterable
from itertools import chain, count
from typing import Final, Literal, TypeAlias, get_args


def identifiers(prefix: str, names: Iterable[str], *, also: str = "", taken: Iterable[str] = ()) -> dict[str, str]:
    """Map *names* to distinct identifiers that begin with *prefix* and are not in *taken* (see :func:`distinct`).

    >>> identifiers("s_", ["exited-starting", "exited.starting", "gone"])
    {'exited-starting': 's_exited_starting', 'exited.starting': 's_exited_starting_2', 'gone': 's_gone'}
    """
    found: dict[str, str] = {}
    for name in names:
        found[name] = distinct(prefix + name, (*taken, *found.values()), also=also)
    return found


def distinct(name: str, taken: Iterable[str], *, also: str = "") -> str:
    """Replace all characters in *name*, except letters, digits and the characters in *also*, with ``_``.

    A number is appended if the result is in *taken*.
    """
    used = frozenset(taken)
    plain = re.sub(rf"[^A-Za-z0-9_{re.escape(also)}]", "_", name) or "_"
    numbered = (f"{plain}_{number}" for number in count(2))
    return next(word for word in chain([plain], numbered) if word not in used)


ErrorCode: TypeAlias = Literal[
    "CANCELED",
    "UNKNOWN",
    "INVALID_ARGUMENT",
    "DEADLINE_EXCEEDED",
    "NOT_FOUND",
    "ALREADY_EXISTS",
    "PERMISSION_DENIED",
    "RESOURCE_EXHAUSTED",
    "FAILED_PRECONDITION",
    "ABORTED",
    "OUT_OF_RANGE",
    "UNIMPLEMENTED",
    "INTERNAL",
    "UNAVAILABLE",
    "DATA_LOSS",
    "UNAUTHENTICATED",
]

CODES: Final = ("OK", *get_args(ErrorCode))  # all gRPC codes, in numerical order
