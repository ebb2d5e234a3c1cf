"""The profile of the version of containerd that a recording shows."""

from collections.abc import Sequence
from dataclasses import replace
from itertools import chain
from typing import Final

from fsm.machine import Machine
from fsm.machine.versions import numbers, unknown_profile
from fsm.recordings import Recording
from fsm.recordings.time_order import HELD
from fsm.trace import Batch

AUTO: Final = "auto"
"""In place of a profile: that of the version that the recording shows."""


def read_ahead(recording: Recording, *, followed: bool = False) -> Recording:
    """*recording*, read until it shows its version, to its end, or so far that it is not waited for any longer.

    One that is *followed* is read to where it ends now.
    """
    held: list[Batch] = []
    observations, lines, quiet = 0, -1, 0
    for batch in recording.batches if recording.history is None else ():
        held.append(batch)
        observations += len(batch.observations)
        lines, before = recording.notes["lines"], lines
        quiet = quiet + 1 if lines == before else 0
        if recording.version() or observations > HELD or (followed and quiet > 1):  # a piece of lines has two batches
            break
    return replace(recording, batches=chain(held, recording.batches))


def name_of(version: str) -> str:
    """The name of the profile of containerd's *version*; empty if it is none.

    >>> name_of("v1.7.24~ds1"), name_of("")
    ('containerd-1.7.24', '')
    """
    found = numbers(version)
    return f"containerd-{'.'.join(map(str, found))}" if found else ""


def detected(version: str, machines: Sequence[Machine]) -> tuple[str | None, str]:
    """The profile of one of *machines* that is of the *version*, and in words which one, or why there is none."""
    name = name_of(version)
    if not name:
        return None, "no profile: it does not show which version of containerd it is of"
    if unknown_profile(name, [machine.profiles for machine in machines]):
        return None, f"no profile: there is none of {name}"
    return name, f"profile {name}, the version that it shows"
