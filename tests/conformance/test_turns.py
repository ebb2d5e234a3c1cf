"""Threads take turns at each line of code, so that runs are reproducible.

No turn waits for a blocked thread.
"""

from __future__ import annotations

import random
import sys
import threading
from typing import TYPE_CHECKING

import pytest

from fsm.conformance import turns
from fsm.conformance.turns import Turns

if TYPE_CHECKING:
    from collections.abc import Callable

LONG = 30.0
"""The number of seconds to wait for something that must happen."""


def by_turns(chance: int, *work: Callable[[], object]) -> bool:
    """Run functions in threads that take turns, and return whether all of them have finished."""
    shared, start = Turns(len(work), random.Random(chance)), threading.Barrier(len(work))

    def run(number: int, does: Callable[[], object]) -> None:
        start.wait()
        with shared.taken(number):
            does()

    threads = [threading.Thread(target=run, args=each, daemon=True) for each in enumerate(work, 1)]
    for each in threads:
        each.start()
    for each in threads:
        each.join(LONG)
    return not any(each.is_alive() for each in threads)


def order(chance: int) -> str:
    done = []

    def work(name: str) -> None:
        done.append(name)
        done.append(name)
        done.append(name)

    assert by_turns(chance, lambda: work("a"), lambda: work("b"))
    return "".join(done)


def test_turns_differ_by_their_chance_and_can_be_repeated(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(turns, "BLOCKED", LONG)  # no thread is blocked, but on a busy machine a thread may wake late

    found = [order(chance) for chance in range(20)]

    assert {"ababab", "bababa"} < set(found)
    assert len(set(found)) > 4
    assert [order(chance) for chance in range(20)] == found


@pytest.mark.parametrize("chance", range(5))
def test_who_waits_for_another_one_in_a_loop_lets_it_run(chance: int) -> None:
    done = threading.Event()

    def wait() -> None:
        while not done.is_set():
            pass

    assert by_turns(chance, wait, done.set, wait)


@pytest.mark.parametrize("chance", range(5))
def test_who_is_blocked_lets_others_run(chance: int) -> None:
    """Other threads run while a thread is blocked by a lock or by something unknown."""
    lock, done = threading.Lock(), threading.Event()
    count: list[int] = []

    def work() -> None:
        for _ in range(3):
            with lock:
                count.append(len(count))
        done.set()

    assert by_turns(chance, work, work, done.wait)
    assert [*range(6)] == count


def test_a_debugger_or_coverage_tool_traces_again_afterwards() -> None:
    seen = []

    def tool(_frame: object, _what: str, _arg: object) -> None: ...

    def work() -> None:
        sys.settrace(tool)
        with Turns(1, random.Random(0)).taken(1):
            seen.append(sys.gettrace())
        seen.append(sys.gettrace())

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()

    assert tool not in seen[:1]
    assert [tool] == seen[1:]
