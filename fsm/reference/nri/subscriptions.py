"""The events that a plugin may subscribe to, by name or as the bit mask that is sent."""

from collections.abc import Collection
from typing import Final

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
    """The events that a plugin may subscribe to: *relayed*, and the validations of the newest release."""
    return frozenset(relayed) | (set(EVENTS[-1:]) if set(EVENTS[:-1]) <= set(relayed) else set())


def subscribed(requested: Collection[str] | int, existing: Collection[str]) -> frozenset[str]:
    """The events that *requested* names or has the bits of; all *existing* events if it is empty or 0.

    Raises :class:`ValueError` for an event that does not exist.

    >>> sorted(subscribed(0b1001, EVENTS)), subscribed((), EVENTS) == subscribed(0, EVENTS) == frozenset(EVENTS)
    (['CreateContainer', 'RunPodSandbox'], True)
    >>> subscribed(1 << 14, EVENTS)
    Traceback (most recent call last):
        ...
    ValueError: plugin events 0x4000: the mask of all that there are is 0x3fff
    """
    if isinstance(requested, int):
        valid = sum(1 << bit for bit, event in enumerate(EVENTS) if event in existing)
        if requested & ~valid:
            raise ValueError(f"plugin events {requested & ~valid:#x}: the mask of all that there are is {valid:#x}")
        requested = [event for bit, event in enumerate(EVENTS) if requested >> bit & 1]
    unknown = sorted(set(requested) - set(existing))
    if unknown:
        raise ValueError(f"plugin events {', '.join(unknown)}: there are {', '.join(sorted(existing))}")
    return frozenset(requested or existing)
