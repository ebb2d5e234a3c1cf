"""Match versions to profiles.

``since`` and ``until`` are each a version, or a comma-separated list that has one version for each release branch.  A
release branch is identified by the first two numbers of a version.
"""

import re
from collections.abc import Mapping, Sequence
from typing import Final, Protocol

from fsm.errors import Problem, nearest

PATCH: Final = 3  # number of components in a full version


class Bounded(Protocol):
    """Something that applies to versions from ``since`` (inclusive) to ``until`` (exclusive)."""

    @property
    def since(self) -> str: ...
    @property
    def until(self) -> str: ...


def numbers(version: str) -> tuple[int, ...]:
    """Return the leading numeric components of *version*, or an empty tuple if there are none.

    >>> numbers("v1.7.24~ds1"), numbers("main")
    ((1, 7, 24), ())
    """
    found = re.match(r"v?([0-9]+(?:\.[0-9]+)*)", version.strip())
    return tuple(map(int, found[1].split("."))) if found else ()


def parted(name: str) -> tuple[str, str]:
    """Split a profile name into a product and a version, which may be empty.

    >>> parted("acme-2.4.0-rc.1"), parted("acme-main")
    (('acme', '2.4.0-rc.1'), ('acme-main', ''))
    """
    found = re.match(r"(.+?)-([0-9].*)", name)
    return (found[1], found[2]) if found else (name, "")


def has(version: str, each: Bounded) -> bool:
    def reached(bounds: str) -> bool:
        own, least = numbers(version), sorted(map(numbers, bounds.split(",")))
        return own >= next((each for each in least if each[:2] == own[:2]), least[-1])

    return (not each.since or reached(each.since)) and not (each.until and reached(each.until))


def profiles_of_version(name: str, profiles: Mapping[str, Bounded]) -> tuple[str, ...]:
    runtime, version = parted(name)
    fitting = {
        key: numbers(each.since)
        for key, each in profiles.items()
        if key.startswith(f"{runtime}-") and each.since and has(version, each)
    }
    newest = max(fitting.values(), default=()) if len(numbers(version)) >= PATCH else ()
    return tuple(key for key, since in fitting.items() if since == newest)


def meant(asked: str | None, profiles: Mapping[str, Bounded]) -> dict[str, str]:
    """Map each of the ``+``-separated names in *asked* to the only matching profile, or else to an empty string.

    >>> meant("old+new", {})
    {'old': '', 'new': ''}
    """

    def matching(name: str) -> str:
        found = (name,) if name in profiles else profiles_of_version(name, profiles)
        return found[0] if len(found) == 1 else ""

    return {each: matching(each) for each in (asked or "").split("+") if each}


def within(asked: str | None, profiles: Mapping[str, Bounded]) -> str | None:
    """Return the names in *asked* that match one of *profiles*, joined by ``+``, or ``None`` if no name does."""
    return "+".join(each for each, name in meant(asked, profiles).items() if name) or None


def unknown_profile(asked: str | None, groups: Sequence[Mapping[str, Bounded]]) -> tuple[str, str] | None:
    """Return the first name in *asked* that matches no profile, with a hint, or ``None`` if all names match."""
    for name in meant(asked, {}):
        if not any(within(name, profiles) for profiles in groups):
            return name, _advice(name, {key: each for profiles in groups for key, each in profiles.items()})
    return None


def conflict(path: str, of: str, one: tuple[str, int], other: tuple[str, int]) -> Problem:
    what = f"'{one[0]}' and '{other[0]}' define {of} differently"
    hint = f"leave out one of the two profiles; '{other[0]}' has its definition on line {other[1]}"
    return Problem(path=path, line=one[1], code="FSM105", what=what, hint=hint)


def _advice(name: str, profiles: Mapping[str, Bounded]) -> str:
    if several := profiles_of_version(name, profiles) or tuple(
        each for each in profiles if each.startswith(f"{name}.")
    ):
        return f"several profiles match; use one of {', '.join(several)}"
    runtime, version = parted(name)
    if len(numbers(version)) >= PATCH and any(each.startswith(f"{runtime}-") for each in profiles):
        return f"no profile is for that version; profiles: {', '.join(profiles)}"
    return nearest(name, profiles, of="profiles")
