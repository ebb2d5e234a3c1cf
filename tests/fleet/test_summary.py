"""Summaries can be added in any order, and the sum equals the summary of the whole."""

from __future__ import annotations

import json
import random
from functools import reduce
from operator import add
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from commands import FAILING, RECORDINGS, fsm
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec import structs
from msgspec.json import decode, encode

from fsm.fleet import FirstPlace, GatheredCause, Share, Summary, summarise, total
from fsm.monitor.judgement import judge
from fsm.report import ExitCode

if TYPE_CHECKING:
    from collections.abc import Callable

NOTHING = Summary(shares=())
NAMES = (
    "containerd-1.6.20.log",
    "1.7.24-killed-containers.log.gz",
    "cri-calls-1.6.20.jsonl",
    "2.1.9-nri.nri.jsonl.gz",
    "2.1.9-jsonlog.calls.jsonl.gz",
)
ENTITIES = 5

counts = st.integers(1, 50)
numbers = st.dictionaries(st.sampled_from(["one", "two"]), counts)
places = st.builds(
    FirstPlace,
    at=st.integers(0, 4),
    node=st.sampled_from(["", "a", "b"]),
    file=st.just("log"),
    line=st.integers(1, 4),
    entity=st.sampled_from(["c1", "c2"]),
    what=st.sampled_from(["this", "that"]),
)
causes = st.builds(
    GatheredCause,
    clause=st.sampled_from(["first", "second"]),
    level=st.sampled_from(["MUST", "MAY"]),
    says=st.sampled_from(["it is so", "it is not so"]),
    source=st.just(""),
    cause=st.just("reply"),
    event=st.sampled_from(["start", "stop"]),
    illegal=st.just("ok"),
    deviation=st.just(""),
    count=counts,
    entities=counts,
    first=st.sets(places, min_size=1, max_size=3).map(lambda those: tuple(sorted(those))),
    others=st.booleans(),
)
shares = st.builds(
    Share,
    node=st.sampled_from(["", "a", "b"]),
    version=st.sampled_from(["1.7.24", "2.1.9"]),
    machine=st.sampled_from(["cri-pod", "pod-sandbox"]),
    entity=st.just("pod"),
    profile=st.just(""),
    recordings=counts,
    entities=counts,
    observations=counts,
    unknown=numbers,
    notes=numbers,
    cells=st.dictionaries(st.sampled_from(["start", "stop"]), numbers),
    fields=numbers,
    found=st.lists(causes, max_size=3).map(tuple),
    tolerated=st.lists(causes, max_size=2).map(tuple),
)
summaries = st.builds(Summary, notes=numbers, shares=st.lists(shares, max_size=3).map(tuple)).map(
    lambda each: total([each, NOTHING])
)


@settings(max_examples=40)
@given(summaries, summaries, summaries)
def test_addition_is_associative_and_commutative(one: Summary, two: Summary, three: Summary) -> None:
    """The empty summary is the neutral element, and a summary is unchanged by writing and reading."""
    assert (one + two) + three == one + (two + three) == total([three, one, two])
    assert one + two == two + one
    assert one + NOTHING == one
    assert decode(encode(one), type=Summary) == one


@settings(max_examples=40)
@given(summaries, summaries)
def test_nothing_is_lost(one: Summary, two: Summary) -> None:
    """The sum of two summaries adds up all counts and keeps the earliest place."""

    def counted(count: Callable[[Share], int], *those: Summary) -> int:
        return sum(count(share) for each in those for share in each.shares)

    def in_causes(share: Share) -> int:
        return sum(each.count for each in (*share.found, *share.tolerated))

    both = one + two
    counts: tuple[Callable[[Share], int], ...] = (
        in_causes,
        lambda share: share.recordings + share.entities + share.observations,
        lambda share: sum(share.unknown.values()) + sum(share.notes.values()) + sum(share.fields.values()),
        lambda share: sum(count for row in share.cells.values() for count in row.values()),
    )
    for each in counts:
        assert counted(each, one, two) == counted(each, both)
    found = [place for of in (one, two) for share in of.shares for each in share.found for place in each.first]
    kept = [place for share in both.shares for each in share.found for place in each.first]
    assert min(found, default=None) == min(kept, default=None)


@settings(max_examples=40)
@given(st.lists(summaries, max_size=4), st.randoms(use_true_random=False))
def test_of_all_is_of_all(those: list[Summary], chance: random.Random) -> None:
    """Totals over nodes, versions and profiles do not depend on when they are computed."""
    mixed = chance.sample(those, len(those))

    assert reduce(add, (each.of_all() for each in mixed), NOTHING) == total(those).of_all()


def test_recordings_add_up_to_what_judging_all_of_them_gives() -> None:
    judged = [judge(RECORDINGS / name, profile=profile) for name in NAMES for profile in (None, "auto")]
    parts = [summarise([each], node=f"node-{number % 3}") for number, each in enumerate(judged)]
    whole = total(parts)

    assert reduce(add, parts[::-1]) == whole
    assert summarise(judged) == reduce(add, (summarise([each]) for each in judged))
    assert {"node-0", "node-1", "node-2"} == {each.node for each in whole.shares}
    assert ExitCode.FAILS is whole.answer()
    assert whole.answer() is max((each.answer() for each in parts), key=lambda each: each is ExitCode.FAILS)
    assert sum(each.notes["lines"] for each in judged) == whole.notes["lines"]


@pytest.mark.parametrize("seed", range(4))
def test_entities_that_are_judged_apart_add_up(seed: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Judging entities separately changes no total except the number of recordings."""
    made = fsm(
        *("simulate", "container-status", "--length", "600", "--entities", str(ENTITIES)),
        *("--profile", "containerd-1.6", "--seed", str(seed)),
    ).stdout.splitlines()
    head, *lines = made

    def judged(chosen: Callable[[str], bool]) -> Summary:
        kept = [line if chosen(json.loads(line)["entity"]) else "" for line in lines]
        Path("trace.jsonl").write_text("\n".join([head, *kept]), encoding="utf-8")
        return summarise([judge("trace.jsonl")])

    monkeypatch.chdir(tmp_path)
    whole = judged(lambda _: True)
    parts = [judged(lambda each, own=f"container-{number + 1}": each == own) for number in range(ENTITIES)]  # type: ignore[misc]
    [together] = total(parts).shares

    assert (structs.replace(together, recordings=1),) == whole.shares
    assert together.found
    assert total(parts[1:]).shares != total(parts).shares


def test_a_summary_is_written_and_merged(tmp_path: Path) -> None:
    for number, name in enumerate(NAMES[:3]):
        written = fsm("judge", "--format", "summary", str(RECORDINGS / name))
        assert (written.returncode, written.stderr) == (1 if "1.6" in name else 0, "")
        (tmp_path / f"node-{number}.v1.json").write_text(written.stdout, encoding="utf-8")
    files = sorted(str(each) for each in tmp_path.iterdir())
    merged, backwards = (fsm("merge", "--format", "json", *those) for those in (files, files[::-1]))
    (tmp_path / "all.json").write_text(merged.stdout, encoding="utf-8")

    def printed(*options: str) -> str:
        ran, again = (fsm("merge", *options, *those) for those in (files, [str(tmp_path / "all.json")]))
        assert (ran.returncode, ran.stderr) == (1, "")
        assert again.stdout == ran.stdout
        return ran.stdout

    document: dict[str, Any] = json.loads(merged.stdout)
    assert merged.stdout == backwards.stdout
    assert {"node-0.v1", "node-1.v1", "node-2.v1"} == {each["node"] for each in document["shares"]}
    clauses = printed()
    assert "violation: StopContainer replied NOT_FOUND in state absent" in clauses
    assert "    nodes      node-2.v1\n" in clauses
    assert "    known      stop-of-removed\n" in clauses
    assert clauses.endswith(" lines, 3 nodes, 1 version\n  verdict: fails\n")
    versions = printed("--by", "version")
    assert versions.startswith("no version is known: fails\n")
    assert "containerd 1.7.24~ds1: holds\n" in versions
    assert "node-1.v1: holds\n" in printed("--by", "node")


@pytest.mark.parametrize(
    ("content", "said"),
    [
        ("{}\n{}", "the file is not a summary: "),
        ('{"verdict": "holds"}', "the file is not a summary: Object missing required field `shares`"),
        ('{"shares": [{}]}', "the file is not a summary: Object missing required field `node`"),
        (
            '{"format": "container-fsm-summary/9", "shares": []}',
            "the file is a summary in the format 'container-fsm-summary/9'",
        ),
        (None, "the file cannot be opened: no such file or directory"),
    ],
)
def test_what_is_no_summary_is_refused(content: str | None, said: str, tmp_path: Path) -> None:
    file, out = tmp_path / "one.json", tmp_path / "all.json"
    if content is not None:
        file.write_text(content, encoding="utf-8")

    ran = fsm("merge", str(file), str(tmp_path / "two.json"), "-o", str(out))

    assert (2, "") == (ran.returncode, ran.stdout)
    assert f"{file}: {said}" in ran.stderr
    assert "two.json: the file cannot be opened" in ran.stderr
    assert "'fsm judge --format summary' writes a summary" in ran.stderr
    assert not out.exists()


@pytest.mark.parametrize("form", ["text", "json", "summary", "junit", "sarif", "github"])
def test_a_report_is_written_to_a_file(form: str, tmp_path: Path) -> None:
    printed = fsm("judge", "--format", form, FAILING)

    ran = fsm("judge", "--format", form, "-o", str(tmp_path / "report"), FAILING)

    assert (ran.returncode, ran.stdout, ran.stderr) == (printed.returncode, "", "")
    assert (tmp_path / "report").read_text(encoding="utf-8") == printed.stdout
