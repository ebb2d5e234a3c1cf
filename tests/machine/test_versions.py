"""A profile describes a release branch or, if its name has a patch number, a single version."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from fsm.checker import check
from fsm.errors import InputError
from fsm.language.library import load, load_system
from fsm.machine import Profile
from fsm.machine.evidence import Refuted
from fsm.machine.findings import Illegal
from fsm.machine.versions import has, profiles_of_version, unknown_profile
from fsm.monitor.judgement import judge
from fsm.verdict import Holds

if TYPE_CHECKING:
    from pathlib import Path

OK, GONE = ("ok",), ("NOT_FOUND",)

STOPS = [
    ("containerd-1.6", [OK, GONE]),
    ("containerd-1.6.20", [OK, GONE]),
    ("containerd-1.6.34", [OK, GONE]),
    ("containerd-1.6.35", [OK]),
    ("containerd-1.7", [OK, GONE]),
    ("containerd-1.7.20", [OK, GONE]),
    ("containerd-1.7.21", [OK]),
    ("containerd-1.7.24", [OK]),
    ("containerd-2.0.0", [OK]),
    ("containerd-2.4.0-beta.0", [OK]),
]
"""The replies of each version when a removed container is stopped.

Versions 1.6.35 and 1.7.21 fixed the wrong reply.
"""

CREATIONS = [
    ("containerd-2.2", "ok"),
    ("containerd-2.2.5", "ok"),
    ("containerd-2.2.6", "UNKNOWN"),
    ("containerd-2.3.2", "ok"),
    ("containerd-2.3.3", "UNKNOWN"),
    ("containerd-main", "UNKNOWN"),
]
"""The first reply of each version when a container is created in a stopped pod.

Versions since 2.2.6 and 2.3.3 refuse the creation.
"""


@pytest.mark.parametrize(("profile", "replies"), STOPS)
@pytest.mark.parametrize("model", ["container-status", "cri-container", "pod-sandbox", "cri-pod"])
def test_what_was_mended_is_left_out(model: str, profile: str, replies: list[tuple[str]]) -> None:
    ways = load(model).under(profile).step("absent", "stop") or ()

    assert replies == [way.reply for way in ways]


@pytest.mark.parametrize(("profile", "reply"), CREATIONS)
@pytest.mark.parametrize("model", ["pod-sandbox", "cri-pod"])
def test_what_came_later_is_left_out(model: str, profile: str, reply: str) -> None:
    ways = load(model).under(profile).step("stopped", "create-container") or ()

    assert ways[0].reply[0] == reply


MENDED = [
    ("container-loading", "wait-before-the-store", "1.6.38 1.7.33 2.0.8", "1.7.34 2.0.9 2.1.0"),
    ("event-monitor", "start-panics", "2.0.6 2.1.4", "2.0.7 2.1.5 2.2.0"),
    ("runtime-handlers", "type-refused", "2.1.9 2.2.6 2.3.3", "2.2.7 2.3.4 2.4.0"),
    ("runtime-handlers", "no-linux-panics", "2.2.6 2.3.3", "2.2.7 2.3.4 2.4.0"),
    ("event-backoff", "overwritten", "1.6.20 2.2.0 2.4.0", ""),
    ("nri-api", "second-stop", "2.0.11 2.3.0 2.4.0", ""),
]
"""Deviations in the ``upstream`` profiles, with versions before and after the fix."""


@pytest.mark.parametrize(("model", "cell", "old", "new"), MENDED)
def test_every_branch_has_its_own_repair(model: str, cell: str, old: str, new: str) -> None:
    (override,) = [each for each in load(model).profiles["upstream"].overrides if each.name == cell]

    assert [has(each, override) for each in old.split()] == [True] * len(old.split())
    assert [has(each, override) for each in new.split()] == [False] * len(new.split())


@pytest.mark.parametrize(
    ("version", "reply"),
    [("1.7.25", "UNIMPLEMENTED"), ("1.7.26", "ok"), ("2.0.2", "UNIMPLEMENTED"), ("2.0.3", "ok"), ("2.1.0", "ok")],
)
def test_blocks_are_there_since(version: str, reply: str) -> None:
    (way,) = load("nri-api").under(f"containerd-{version}").step("started", "block") or ()

    assert way.reply == (reply,)


def test_a_profile_does_not_conflict_with_itself() -> None:
    alone, combined = (
        load("nri-api").under(f"containerd-1.7{each}").step("none", "block") for each in ("", "+upstream")
    )

    assert alone
    assert alone == combined


def test_a_deviation_is_named_after_the_version() -> None:
    named = {
        way.deviation.profile
        for way in load("cri-pod").under("containerd-1.6.20").step("absent", "stop") or ()
        if way.deviation
    }

    assert named == {"containerd-1.6.20"}


def test_the_newest_profile_is_taken() -> None:
    profiles = {
        name: Profile(name=name, about="", overrides=(), since=since)
        for name, since in {"door-1": "1.0.0", "door-1.2": "1.2.0", "door-new": "1.3.0", "door-other": "1.3.0"}.items()
    }

    assert profiles_of_version("door-1.1.9", profiles) == ("door-1",)
    assert profiles_of_version("door-1.2.7", profiles) == ("door-1.2",)
    assert profiles_of_version("door-1.4.0", profiles) == ("door-new", "door-other")
    assert (
        profiles_of_version("gate-1.4.0", profiles)
        == profiles_of_version("door-0.9.0", profiles)
        == profiles_of_version("door-1.2", {})
        == ()
    )

    several, none = (unknown_profile(f"door-1.2+{each}", [profiles]) for each in ("door-1.4.0", "door-0.9.0"))
    assert several == ("door-1.4.0", "several profiles match; use one of door-new, door-other")
    assert none
    assert none[1].startswith("no profile is for that version; profiles: door-1,")


def test_a_bound_is_that_of_the_branch() -> None:
    mended = Profile(name="old", about="", overrides=(), since="1.6.0", until="1.7.34, 2.0.9, 2.1.0")

    assert [has(each, mended) for each in ("1.5.9", "1.6.38", "1.7.33", "1.7.34", "2.0.8", "2.0.9", "2.2.0")] == [
        False,
        True,
        True,
        False,
        True,
        False,
        False,
    ]


@pytest.mark.parametrize(
    ("profile", "hint"),
    [
        ("containerd-1.5.9", "no profile is for that version; profiles: containerd-1.6,"),
        ("containerd-2.5.0", "no profile is for that version; profiles: containerd-1.6,"),
        ("containerd-9.9.9", "no profile is for that version; profiles: containerd-1.6,"),
        (
            "containerd-2",
            "several profiles match; use one of containerd-2.0, containerd-2.1, containerd-2.2, containerd-2.3",
        ),
    ],
)
def test_an_unknown_version_is_a_mistake(profile: str, hint: str) -> None:
    with pytest.raises(InputError) as caught:
        judge("tests/recordings/containerd-1.6.20.log", profile=profile)
    (problem,) = caught.value.problems

    assert problem.code == "FSM203"
    assert problem.hint.startswith(hint)


def test_a_system_has_versions_too() -> None:
    system = load_system("nri-plugin-contract")
    under = system.under("containerd-1.7.24")

    assert {part.machine.profile for part in under.parts.values()} == {"containerd-1.7.24"}
    assert system.under("containerd-1.7").events == under.events != system.events
    with pytest.raises(ValueError, match=r"has no profile 'containerd-2\.2\.0'"):
        system.under("containerd-2.2.0")


def test_profiles_of_a_system_combine() -> None:
    contract, locks = load_system("nri-plugin-contract"), load_system("nri-locks")
    old, new = (contract.profiles[f"containerd-{each}"] for each in ("1.7", "2.1"))
    new = replace(new, events={name: each for name, each in new.events.items() if name not in old.events})
    both = replace(contract, profiles={each.name: each for each in (old, new)}).under(f"{old.name}+{new.name}")

    assert both.events == {**contract.events, **old.events, **new.events}
    assert {part.machine.profile for part in both.parts.values()} == {"containerd-1.7+containerd-2.1"}
    with pytest.raises(InputError) as caught:
        locks.under("containerd-1.7.24+mended")
    first = caught.value.problems[0]
    assert "'mended' and 'containerd-1.7' define 'call-begins' differently" in first.what
    assert 0 < first.line


@pytest.mark.parametrize(("profile", "known"), [("containerd-1.7.20", True), ("containerd-1.7.24", False)])
def test_what_was_mended_is_no_known_failure(profile: str, *, known: bool) -> None:
    (found,) = check(load("container-status"), "stop-of-the-gone-succeeds", profile=profile).checked
    (branch,) = check(load("container-status"), "stop-of-the-gone-succeeds", profile="containerd-1.7").checked

    assert (isinstance(found.verdict, Refuted), found.expected is not None, found.unexpected) == (known, known, False)
    assert branch.expected is not None


@pytest.mark.slow
@pytest.mark.parametrize("version", ["1.6.20", "1.7.24", "2.1.9"])
@pytest.mark.parametrize("kind", ["random", "restart-kill9"])
def test_a_recording_holds_under_its_own_version(version: str, kind: str) -> None:
    for form in ("log", "calls.jsonl"):
        found = judge(f"tests/recordings/{version}-{kind}.{form}.gz", profile=f"containerd-{version}")

        assert [type(each.verdict) for each in found.judgements] == [Holds, Holds]


LOG = """\
time="2026-11-20T11:03:20Z" level=info msg="starting containerd" revision=x version={version}
time="2026-11-20T11:03:21Z" level=info msg="StopContainer for \\"{id}\\" with timeout 0 (s)"
time="2026-11-20T11:03:21Z" level=error msg="StopContainer for \\"{id}\\" failed" error="rpc error: code = NotFound desc = \
an error occurred when try to find container \\"{id}\\": not found"
"""


@pytest.mark.parametrize(
    ("version", "known"),
    [("1.6.20~ds1", {"containerd-1.6.20"}), ("v1.7.24", set()), ("1.5.0", {"containerd-1.6", "containerd-1.7"})],
)
def test_a_log_names_the_deviations_of_its_version(tmp_path: Path, version: str, known: set[str]) -> None:
    log = tmp_path / "containerd.log"
    log.write_text(LOG.format(version=version, id="c" * 64), encoding="utf-8")
    verdict = judge(log).judgements[0].verdict

    assert isinstance(verdict, Illegal)
    assert {each.profile for each in verdict.findings[0].first[0].resembles} == known


def test_no_profile_is_advised_against_the_version() -> None:
    name = "tests/recordings/containerd-1.6.20.log"
    given, asked = (judge(name, profile=each).judgements[0].verdict for each in ("containerd-1.6.36", "containerd-2.1"))

    assert isinstance(given, Illegal)
    assert isinstance(asked, Illegal)
    assert given.findings[0].first[0].resembles == ()
    assert asked.findings[0].first[0].resembles
