"""``fsm check --parts PART=any`` works, even for numbers of copies that are too large for a search."""

from __future__ import annotations

import json

import pytest
from commands import fsm

SYNC = ("check", "plugin-sync", "-p", "none", "--parts")


def test_any_number_is_asked_for() -> None:
    found = fsm(*SYNC, "call=any", "--format", "json")
    [examined] = json.loads(found.stdout)["machines"]
    told = {each["name"]: (each["status"], each["any_number"]) for each in examined["properties"]}

    assert (found.returncode, examined["any_number"]) == (3, "call")
    assert told["waiters-get-the-lock"] == ("holds", "call")
    assert told["calls-wait-for-no-other-call"] == ("known", None)
    assert told["calls-share"] == ("unknown", None)


def test_a_hundred_are_decided_by_any_number_and_by_runs_of_two() -> None:
    """A run of two calls is also a run of a hundred, but does not show whether all hundred can be in progress."""
    found = fsm(*SYNC, "call=100", "--runs", "--format", "json")
    [examined] = json.loads(found.stdout)["machines"]
    properties = {each["name"]: each for each in examined["properties"]}

    assert properties["waiters-get-the-lock"]["any_number"] == "call"
    assert properties["calls-nest"]["status"] == "holds"
    assert len(properties["calls-nest"]["witnesses"]) == 2
    assert properties["calls-wait-for-no-other-call"]["status"] == "known"
    assert len(properties["calls-wait-for-no-other-call"]["counterexample"]["steps"]) == 3
    assert properties["calls-share"]["why"] == "this number of copies cannot be searched; for two copies, it holds"


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (("call=any,plugin=any",), "but only one part can have any number"),
        (("call=any,call=2",), "is given two numbers of copies"),
        (("cal=any",), "unknown part 'cal'"),
        (("call=101",), "give a number from 1 to 100"),
        (("call=any", "--each-copy"), "--each-copy can be used with at most 9 copies of a part"),
    ],
)
def test_what_is_no_number(options: tuple[str, ...], said: str) -> None:
    found = fsm(*SYNC, *options)

    assert found.returncode == 2
    assert said in " ".join(found.stderr.split())


def test_a_test_has_a_number() -> None:
    found = fsm("test", "plugin-sync", "--against", "model:plugin-sync", "--parts", "call=any")

    assert found.returncode == 2
    assert "'call=any' is not PART=COUNT" in found.stderr
