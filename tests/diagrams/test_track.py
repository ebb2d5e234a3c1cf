"""Tracking an entity through a machine fails if and only if the judge finds a violation for the entity."""

from __future__ import annotations

import gzip
import re

import pytest
from judged import RECORDINGS, every_violation

from fsm.diagrams.track import track
from fsm.language.library import load
from fsm.machine.findings import Illegal
from fsm.monitor.judgement import judge

__all__ = ["every_violation"]

LAST = 15


@pytest.mark.slow
@pytest.mark.parametrize("name", ["1.6.20-corrupt-checkpoints.log.gz", "2.1.9-restart-kill9.log.gz"])
def test_fails_where_the_judge_does(name: str) -> None:
    path = str(RECORDINGS / name)
    machine = load("container-status")
    text = gzip.decompress((RECORDINGS / name).read_bytes()).decode()
    containers = dict.fromkeys(re.findall(r'returns container id \\?"([0-9a-f]{64})', text))
    (judgement,) = judge(path, models=[machine]).judgements
    findings = judgement.verdict.findings if isinstance(judgement.verdict, Illegal) else ()
    violating = {each.observation.entity for finding in findings for each in finding.first}

    last = list(containers)[-LAST:]
    assert [each in violating for each in last] == [bool(track(machine, path, each).failed) for each in last]
    assert bool(violating) == name.startswith("1.6.20")
