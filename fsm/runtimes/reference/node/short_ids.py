"""Ids as callers give them: complete, or a unique prefix."""

from collections.abc import Collection


class AmbiguousIdError(Exception):
    """An id is empty, or the prefix of several ids."""


def full_id(given: str, known: Collection[str]) -> str:
    """Return the id in *known* that *given* stands for, or *given* itself if there is none.

    Raise :class:`AmbiguousIdError`, with containerd's message, if *given* is empty or ambiguous.

    >>> full_id("ab", ["abc", "b"]), full_id("x", ["abc"])
    ('abc', 'x')
    >>> full_id("a", ["abc", "abd"])
    Traceback (most recent call last):
    fsm.runtimes.reference.node.short_ids.AmbiguousIdError: Multiple IDs found with provided prefix: a
    """
    if not given:
        raise AmbiguousIdError("prefix can't be empty")
    if given in known:
        return given
    found = [each for each in known if each.startswith(given)]
    if len(found) > 1:
        raise AmbiguousIdError(f"Multiple IDs found with provided prefix: {given}")
    return found[0] if found else given
