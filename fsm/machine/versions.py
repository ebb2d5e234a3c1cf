"""Versions of what a profile is of: which profile is of a version, and what of it that version has.

``since`` and ``until`` are a version, or several with commas: one for each release branch, its first two numbers.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final, Protocol

from fsm.errors import nearest

if TYPE_CHECKING:
    from collections.abc import Mapping

PATCH: Final = 3
"""Numbers of a version, the first two of which are those of its release branch."""


class Bounded(Protocol):
    """What versions have from one on, and until one."""

    @property
    def since(self) -> str: ...
    @property
    def until(self) -> str: ...


def numbers(version: str) -> tuple[int, ...]:
    """The numbers that *version* begins with; none if it is not one.

    >>> numbers("v1.7.24~ds1"), numbers("main")
    ((1, 7, 24), ())
    """
    found = re.match(r"v?([0-9]+(?:\.[0-9]+)*)", version.strip())
    return tuple(map(int, found[1].split("."))) if found else ()


def parted(name: str) -> tuple[str, str]:
    """What the profile *name* is of, and its version; empty if it has none.

    >>> parted("containerd-2.4.0-rc.1"), parted("containerd-main")
    (('containerd', '2.4.0-rc.1'), ('containerd-main', ''))
    """
    found = re.match(r"(.+?)-([0-9].*)", name)
    return (found[1], found[2]) if found else (name, "")


def has(version: str, each: Bounded) -> bool:
    """Whether *version* is one of those that have *each*."""

    def reached(bounds: str) -> bool:
        own, least = numbers(version), sorted(map(numbers, bounds.split(",")))
        return own >= next((each for each in least if each[:2] == own[:2]), least[-1])

    return (not each.since or reached(each.since)) and not (each.until and reached(each.until))


def of_version(name: str, profiles: Mapping[str, Bounded]) -> tuple[str, ...]:
    """The newest *profiles* of the version *name*, such as ``containerd-1.7.24``; several if they begin with one version."""
    runtime, version = parted(name)
    fitting = {
        key: numbers(each.since)
        for key, each in profiles.items()
        if key.startswith(f"{runtime}-") and each.since and has(version, each)
    }
    newest = max(fitting.values(), default=()) if len(numbers(version)) >= PATCH else ()
    return tuple(key for key, since in fitting.items() if since == newest)


def advice(name: str, profiles: Mapping[str, Bounded]) -> str:
    """The way out where *name* is none of *profiles*, nor a version that exactly one of them is of."""
    if several := of_version(name, profiles) or tuple(each for each in profiles if each.startswith(f"{name}.")):
        if len(several) == 1:
            return f"did you mean '{several[0]}'? here a profile is taken as it stands, not as one version has it"
        return f"it may be {' or '.join(several)}: name one of them"
    runtime, version = parted(name)
    if len(numbers(version)) >= PATCH and any(each.startswith(f"{runtime}-") for each in profiles):
        return f"none is of that version; profiles: {', '.join(profiles)}"
    return nearest(name, profiles, of="profiles")
