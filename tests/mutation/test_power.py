"""The detection power of the judge is measured against an independent reading of the recordings."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec
import pytest
from judged import RECORDINGS, content

from fsm.monitor.judgement import judge
from fsm.mutation import power
from fsm.mutation.power import power_over

if TYPE_CHECKING:
    from pathlib import Path

    from fsm.monitor.judgement import Judged

CALLS = str(RECORDINGS / "cri-calls-2.1.9.jsonl")


def test_a_blind_judge_misses_everything(monkeypatch: pytest.MonkeyPatch) -> None:
    """A judge that reports nothing misses every edit. The edits are the same, because no judge chooses them."""
    seeing = power_over(CALLS, limit=60)
    whole = judge(CALLS)

    def blind(*_: object, **__: object) -> Judged:
        return whole

    monkeypatch.setattr(power, "judge", blind)
    blinded = power_over(CALLS, limit=60)

    assert [each.edit for each in seeing.planted] == [each.edit for each in blinded.planted]
    assert blinded.counts()["missed"] == len(blinded.planted) > 0
    assert seeing.counts()["missed"] == 0


def test_an_accusation_that_was_there_before_does_not_count() -> None:
    """A violation that exists before an edit does not count as a detection of the edit.

    In containerd 1.6, stops of removed containers fail even without an edit.
    """
    name = str(RECORDINGS / "cri-calls-1.6.20.jsonl")
    found, tolerated = power_over(name, limit=40), power_over(name, profile="containerd-1.6", limit=40)

    assert found.alarms > 0
    assert tolerated.alarms == 0


def test_the_same_seed_gives_the_same_edits() -> None:
    first, again, other = (power_over(CALLS, limit=30, seed=seed) for seed in (1, 1, 2))

    assert first == again
    assert [each.edit for each in first.planted] != [each.edit for each in other.planted]
    assert first.tried == 30 < first.edits


@pytest.mark.parametrize("name", ["cri-calls-2.1.9.jsonl", "nri-events-2.1.9.jsonl"])
def test_blanks_between_keys_and_values_do_not_matter(name: str, tmp_path: Path) -> None:
    file = tmp_path / "compact"
    file.write_bytes(b"".join(msgspec.json.format(line, indent=-1) + b"\n" for line in content(name).splitlines()))
    written, compact = (power_over(str(each), limit=40) for each in (RECORDINGS / name, file))

    assert [each.edit for each in compact.planted] == [each.edit for each in written.planted]
    assert compact.counts() == written.counts()


def test_lines_that_are_damaged_are_passed_over(tmp_path: Path) -> None:
    file = tmp_path / "calls"
    file.write_bytes(b'{"op": 7}\nnot json\n\n' + content("cri-calls-2.1.9.jsonl"))

    assert power_over(str(file), limit=30).planted
