"""Memory stops growing during a long recording when the caches have reached their limits."""

from __future__ import annotations

import gc
import importlib.util
from pathlib import Path
from types import BuiltinFunctionType, CodeType, FrameType, FunctionType, ModuleType
from typing import Any

import pytest

from fsm import monitor
from fsm.monitor import entities, extra_rules, grouping, judgement
from fsm.monitor.judgement import joint
from fsm.recordings import open_recording
from fsm.runtimes.recordings import container_events, containerd_log, nri_events, pod_calls

BENCH = Path(__file__).resolve().parent / "bench" / "follow.py"
APART = (ModuleType, type, FunctionType, BuiltinFunctionType, CodeType, FrameType)
LIMITS = [
    (monitor, "REMEMBERED"),
    (entities, "MANY"),
    (joint, "REMEMBERED"),
    (extra_rules, "REMEMBERED"),
    (nri_events, "REMEMBERED"),
    (grouping, "NAMED"),
    (containerd_log, "_NAMED"),
    (pod_calls, "UNRECORDED"),
    (container_events, "_MOST"),
]
"""The modules and names of the constants that limit caches."""
TURNS = 48


def _bench() -> Any:  # noqa: ANN401  (a script)
    spec = importlib.util.spec_from_file_location("bench_follow", BENCH)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def _reached(root: object) -> int:
    seen, todo = {id(root)}, [root]
    for each in todo:
        for other in gc.get_referents(each):
            if id(other) not in seen and not isinstance(other, APART):
                seen.add(id(other))
                todo.append(other)
    return len(seen)


def _sizes(name: str) -> tuple[int, int]:
    """Return the number of objects in memory after half of a repeated recording and at its end.

    Each repetition has new ids.
    """
    turns = _bench().Turns(name, 0, turns=TURNS)
    judging = judgement.Judging(open_recording(name, source=turns, settle=10**12))
    judging.tell(lambda _: None)
    held: list[int] = []
    for batch in judging.recording.batches:
        judging.take(batch)
        judging.shed()
        if turns.turn >= TURNS // 2 * (len(held) + 1):
            held.append(_reached(judging))
    held.append(_reached(judging))
    return held[0], held[-1]


@pytest.mark.slow
@pytest.mark.parametrize("name", ["containerd-2.1.9.log", "nri-events-2.1.9.jsonl"])
def test_nothing_grows(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    free = _sizes(name)
    for module, limit in LIMITS:
        monkeypatch.setattr(module, limit, 32)
    bounded = _sizes(name)

    assert 4 * (bounded[1] - bounded[0]) < free[1] - free[0]
