"""The reference's stores lose no acknowledged change, whenever the power fails."""

from __future__ import annotations

import subprocess
import sys

import power_loss
import pytest
from real_parts import program


def after_power_loss(*arguments: str) -> str:
    """Return the number of states in which a power failure may leave a store.

    The check runs in a new process, because a process with threads should not fork.
    """
    program("strace")
    command = [sys.executable, power_loss.__file__, *arguments]
    result = subprocess.run(command, check=False, capture_output=True, text=True)
    assert 0 == result.returncode, result.stderr
    return result.stdout


@pytest.mark.parametrize(("store", "least"), [("record", 20), ("metadata", 15)])
def test_whatever_a_file_system_keeps_of_a_change_is_the_old_or_the_new(store: str, least: int) -> None:
    """After a power failure, a store has every acknowledged change, and all or nothing of the change in progress."""
    assert int(after_power_loss(store)) > least


@pytest.mark.slow
@pytest.mark.parametrize(
    ("store", "fault", "found"),
    [
        ("record", "files", "no record in them"),
        ("record", "folders", "None is none of"),
        ("record", "in-place", "no record in them"),
        ("record", "made-only", "None is none of"),
        ("metadata", "files", "cannot be read"),
        ("metadata", "made-only", "None is none of"),
    ],
)
def test_what_is_not_synced_is_torn_or_lost(store: str, fault: str, found: str) -> None:
    """Without syncing, changes are torn or lost, which shows that the previous test can fail."""
    with pytest.raises(AssertionError, match=found):
        after_power_loss(store, fault)


def test_the_states_that_a_file_system_may_leave() -> None:
    """The computed states after creating, writing, syncing and moving a file match a list that was made by hand."""
    made = power_loss.Names("/d", {"/d/new": 1})
    written, synced = power_loss.Written(1, b"ab"), power_loss.Synced(1)
    moved = power_loss.Names("/d", {"/d/new": None, "/d/old": 1})

    def left(*done: power_loss.Operation) -> set[tuple[tuple[str, bytes | None], ...]]:
        return {tuple(sorted(tree.items())) for tree in power_loss.left({"/d/old": b"o"}, done)}

    old, torn, whole = (("/d/old", b"o"),), (("/d/old", b""),), (("/d/old", b"ab"),)
    beside = [(("/d/new", each), *old) for each in (b"", b"\0\0", b"a", b"ab")]
    assert {old, *beside} == left(made, written)
    assert {old, beside[-1], whole} == left(made, written, synced, moved)
    assert {whole} == left(made, written, synced, moved, power_loss.Synced("/d"))
    assert torn in left(made, written, moved), "nothing was synced before it was moved"
