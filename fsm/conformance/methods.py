"""Find the optional methods that a machine needs and a system under test lacks, and those that are misspelled."""

import difflib
import inspect
from collections.abc import Mapping
from typing import Final

from fsm.conformance.cover import Cover
from fsm.machine.table import Table
from fsm.sut import SUT, Detailed, Overlapping, arranger

METHODS: Final = (
    *("reset", "do", "shows", "outputs", "fields", "arrange", "arrange_stage", "begin", "end", "record", "crash"),
    *("never", "unasked", "costly"),
)
"""Names of all SUT methods, including those of the optional protocols."""

_NEAR: Final = 0.75  # minimum similarity, from 0 to 1, at which a name counts as a misspelled method


def needed(table: Table, sut: SUT, cover: Cover) -> tuple[str, ...]:
    """Return the methods needed to compare *sut* with *table* that it lacks, or that returned nothing in the tests."""
    lacks = {
        "outputs": any(way.emits for way in table.ways) and not cover.heard,
        "fields": bool(table.machine.requires) and not isinstance(sut, Detailed),
        "arrange": any(len(ways or ()) > 1 for ways in table.cells) and arranger(sut) is None,
        "begin": bool(table.end) and not isinstance(sut, Overlapping),
        "end": bool(table.end) and not isinstance(sut, Overlapping),
    }
    return tuple(name for name, lacking in lacks.items() if lacking)


def misnamed(sut: SUT) -> Mapping[str, str]:
    """Return the public methods of *sut* that no protocol defines, each with the missing method of a similar name.

    >>> from types import SimpleNamespace
    >>> misnamed(SimpleNamespace(do=print, output=print, helper=print))
    {'output': 'outputs'}
    """
    absent = [name for name in METHODS if getattr(sut, name, None) is None]
    own = [name for name, _ in inspect.getmembers_static(sut, callable) if name[0] != "_" and name not in METHODS]
    close = {name: difflib.get_close_matches(name, absent, n=1, cutoff=_NEAR) for name in own}
    return {name: meant[0] for name, meant in close.items() if meant}
