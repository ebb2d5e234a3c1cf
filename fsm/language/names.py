"""Identifiers for other languages, made from names so that no two are equal."""

import re
from collections.abc import Iterable


def identifiers(prefix: str, names: Iterable[str], *, also: str = "", taken: Iterable[str] = ()) -> dict[str, str]:
    """Map *names* to distinct identifiers of letters, digits, ``_`` and *also*, with this *prefix*, not in *taken*.

    >>> identifiers("s_", ["exited-starting", "exited.starting", "gone"])
    {'exited-starting': 's_exited_starting', 'exited.starting': 's_exited_starting_2', 'gone': 's_gone'}
    """
    found: dict[str, str] = {}
    for name in names:
        found[name] = distinct(prefix + name, (*taken, *found.values()), also=also)
    return found


def distinct(name: str, taken: Iterable[str], *, also: str = "") -> str:
    """Return *name* in letters, digits, ``_`` and *also*, followed by a number if that is in *taken*."""
    used = frozenset(taken)
    plain = word = re.sub(rf"[^A-Za-z0-9_{re.escape(also)}]", "_", name) or "_"
    number = 1
    while word in used:
        number += 1
        word = f"{plain}_{number}"
    return word
