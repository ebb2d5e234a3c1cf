"""What a plugin may subscribe to: by name, or as the mask of bits that goes over the wire."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Collection

EVENTS: Final = (
    "RunPodSandbox",
    "StopPodSandbox",
    "RemovePodSandbox",
    "CreateContainer",
    "PostCreateContainer",
    "StartContainer",
    "PostStartContainer",
    "UpdateContainer",
    "PostUpdateContainer",
    "StopContainer",
    "RemoveContainer",
    "UpdatePodSandbox",
    "PostUpdatePodSandbox",
    "ValidateContainerAdjustment",
)
"""All events in the order of their bits."""


def known(relayed: Collection[str]) -> frozenset[str]:
    """What a plugin may subscribe to where *relayed* are relayed: these, and in the newest the validation of adjustments.

    That is never asked for here.
    """
    return frozenset(relayed) | (set(EVENTS[-1:]) if set(EVENTS[:-1]) <= set(relayed) else set())


def subscribed(asked: Collection[str] | int, there: Collection[str]) -> frozenset[str]:
    """The events that *asked* names or has the bits of, of those that are *there*; all of them, where it has none.

    Raises :class:`ValueError` for what is not there.

    >>> sorted(subscribed(0b1001, EVENTS)), subscribed((), EVENTS) == subscribed(0, EVENTS) == frozenset(EVENTS)
    (['CreateContainer', 'RunPodSandbox'], True)
    >>> subscribed(1 << 14, EVENTS)
    Traceback (most recent call last):
        ...
    ValueError: plugin events 0x4000: the mask of all that there are is 0x3fff
    """
    if isinstance(asked, int):
        valid = sum(1 << bit for bit, event in enumerate(EVENTS) if event in there)
        if asked & ~valid:
            message = f"plugin events {asked & ~valid:#x}: the mask of all that there are is {valid:#x}"
            raise ValueError(message)
        asked = [event for bit, event in enumerate(EVENTS) if asked >> bit & 1]
    unknown = sorted(set(asked) - set(there))
    if unknown:
        message = f"plugin events {', '.join(unknown)}: there are {', '.join(sorted(there))}"
        raise ValueError(message)
    return frozenset(asked or there)
