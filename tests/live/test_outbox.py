"""The outbox is a queue that a thread empties: producers never wait, and lost items are counted."""

from __future__ import annotations

import threading

from fsm.runtimes.live.call_recording import Outbox


def test_everything_is_taken_in_order() -> None:
    taken: list[int] = []
    outbox: Outbox[int] = Outbox(taken.append)

    for number in range(1_000):
        outbox.put(number)
    outbox.close(5)

    assert list(range(1_000)) == taken
    assert (0, "") == (outbox.dropped, outbox.failure)


def test_what_comes_while_too_much_waits_is_dropped_and_counted() -> None:
    taken: list[int] = []
    busy, go = threading.Event(), threading.Event()

    def take(number: int) -> None:
        busy.set()
        assert go.wait(5)
        taken.append(number)

    outbox: Outbox[int] = Outbox(take, most=3)
    outbox.put(0)
    assert busy.wait(5)
    for number in range(1, 10):
        outbox.put(number)
    assert outbox.dropped == 7
    go.set()
    outbox.close(5)

    assert [0, 1, 2] == taken
    assert outbox.dropped == 7


def test_nothing_is_taken_after_a_failure() -> None:
    def fail(_: int) -> None:
        raise OSError(28, "No space left on device")

    said: list[str] = []
    outbox: Outbox[int] = Outbox(fail, failed=said.append)
    for number in range(5):
        outbox.put(number)
    outbox.close(5)

    assert (5, "no space left on device") == (outbox.dropped, outbox.failure)
    assert ["no space left on device"] == said


def test_what_takes_too_long_is_not_waited_for() -> None:
    go = threading.Event()

    def take(_: int) -> None:
        go.wait(5)

    outbox: Outbox[int] = Outbox(take)
    for number in range(4):
        outbox.put(number)

    outbox.close(0.05)

    assert (3, "it takes too long") == (outbox.dropped, outbox.failure)
    go.set()
