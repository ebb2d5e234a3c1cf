"""Detect the profile for the program and version that a recording shows."""

from collections.abc import Sequence
from dataclasses import replace
from itertools import chain
from typing import Final

from fsm.machine import Machine
from fsm.machine.product.system import System
from fsm.machine.versions import numbers, unknown_profile
from fsm.recordings.form import Recording
from fsm.recordings.time_order import HELD
from fsm.trace import Batch

AUTO: Final = "auto"


def read_ahead(recording: Recording, *, followed: bool = False) -> Recording:
    """Read *recording* until it shows a version, and return a recording that still yields all batches.

    Reading stops at a limit. If *followed* is true, the recording may still grow, so reading also stops at its
    current end.
    """
    held: list[Batch] = []
    observations, lines, quiet = 0, -1, 0
    for batch in recording.batches if recording.history is None else ():
        held.append(batch)
        observations += len(batch.observations)
        lines, before = recording.notes["lines"], lines
        quiet = quiet + 1 if lines == before else 0
        if recording.version() or observations > HELD or (followed and quiet > 1):  # Each piece yields two batches.
            break
    return replace(recording, batches=chain(held, recording.batches))


def name_of(version: str) -> str:
    """Return the name of the profile for *version*, or an empty string if *version* has no version number.

    >>> name_of("runner v1.7.24~ds1"), name_of("runner"), name_of("")
    ('runner-1.7.24', '', '')
    """
    program, _, version = version.partition(" ")
    found = numbers(version)
    return f"{program}-{'.'.join(map(str, found))}" if found else ""


def detected(version: str, machines: Sequence[Machine | System]) -> tuple[str | None, str]:
    """Return the profile for *version* and an explanation. The profile is ``None`` if no machine has such a profile."""
    name = name_of(version)
    if not name:
        return None, "no profile, because the recording does not show its version"
    if unknown_profile(name, [machine.profiles for machine in machines]):
        return None, f"no profile, because no model has a profile for {name}"
    return name, f"profile {name}, because the recording shows this version"
