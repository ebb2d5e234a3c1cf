"""Linearizability checks agree with a second opinion on thousands of random histories."""

from __future__ import annotations

import random
from collections import Counter
from dataclasses import replace
from itertools import pairwise
from typing import TYPE_CHECKING

import naive
import pytest
from machines import door, job
from naive_linearizability import linearizable
from random_histories import random_history
from random_machines import random_machine
from thorough import TIMES, amount

from fsm.language.library import load
from fsm.linearizability import Linearizable, NotLinearizable, linearize
from fsm.linearizability.history import History, Operation
from fsm.machine.findings import Cause
from fsm.monitor import Monitor
from fsm.trace import Observation
from fsm.verdict import Fails, Unknown

if TYPE_CHECKING:
    from fsm.linearizability.moves import Step
    from fsm.machine import Machine


def history(*lines: str, outputs: str | None = None) -> History:
    """Build operations from texts of the form ``CALLED RETURNED EVENT [REPLY]``.

    A missing part is written as ``-``, and the shown state X as ``=X``.
    """
    operations = []
    for thread, line in enumerate(lines):
        called, returned, event, *said = line.split()
        operations.append(
            Operation(
                called=int(called),
                returned=None if returned == "-" else int(returned),
                event="" if event == "-" else event,
                reply=next((each for each in said if not each.startswith("=")), ""),
                shows=next((each[1:] for each in said if each.startswith("=")), ""),
                thread=thread,
            )
        )
    return History(operations=tuple(operations), outputs={} if outputs is None else {"": tuple(outputs.split())})


CREATED = "0 1 create ok"
RUNNING = (CREATED, "2 3 start ok")

PAIRS = {
    "one after the other": (
        ("container-status", history(CREATED, "2 3 start ok")),
        ("container-status", history("0 1 start ok", "2 3 create ok")),
    ),
    "at once, in either order": (
        ("container-status", history("0 3 start ok", "1 2 create ok")),
        ("container-status", history("0 3 start ok", "4 5 create ok")),
    ),
    "instants that touch overlap": (
        ("container-status", history("0 3 start ok", "3 5 create ok")),
        ("container-status", history("0 2 start ok", "3 5 create ok")),
    ),
    "a call that takes time is met in its middle": (
        ("job", history("0 1 make ok", "2 9 start ok", "3 4 - =WAITING", "5 6 - =RUNNING")),
        ("job", history("0 1 make ok", "2 9 start ok", "3 4 - =RUNNING", "5 6 - =WAITING")),
    ),
    "what was seen of a call bears on its reply": (
        ("job", history("0 1 make ok", "2 9 start NOT_READY", "3 4 - =WAITING")),
        ("job", history("0 1 make ok", "2 9 start NOT_READY", "3 4 - =RUNNING")),
    ),
    "one of two starts succeeds": (
        ("container-status", history(CREATED, "2 9 start ok", "3 8 start UNKNOWN")),
        ("container-status", history(CREATED, "2 9 start ok", "3 8 start ok")),
    ),
    "a call that never returned may have acted, late too": (
        ("container-status", history(CREATED, "2 - start", "4 5 exec UNKNOWN", "6 7 exec ok")),
        ("container-status", history(CREATED, "8 - start", "4 5 exec UNKNOWN", "6 7 exec ok")),
    ),
    "or not at all": (
        ("container-status", history(CREATED, "2 - start", "4 5 start ok")),
        ("container-status", history(CREATED, "2 3 start ok", "4 5 start ok")),
    ),
    "a reply that says nothing of what was done": (
        ("container-status", history(CREATED, "2 3 start CANCELED", "4 5 start ok")),
        ("container-status", history(CREATED, "2 3 start UNKNOWN", "4 5 exec ok")),
    ),
    "what is shown at the end": (
        ("container-status", history(*RUNNING, "4 5 stop ok =CONTAINER_EXITED")),
        ("container-status", history(*RUNNING, "4 5 stop ok =CONTAINER_CREATED")),
    ),
    "a signal that can happen": (
        ("container-status", history(CREATED, "2 5 start ok", "4 6 exit")),
        ("container-status", history(CREATED, "2 5 start ok", "6 7 stop ok =CONTAINER_RUNNING", "3 4 exit")),
    ),
    "an interruption takes what is in progress": (
        ("container-status", history(CREATED, "2 9 start UNAVAILABLE", "4 5 restart", "6 7 start ok")),
        ("container-status", history(CREATED, "2 9 start ok", "4 5 restart", "6 7 start ok")),
    ),
    "relayed once": (
        ("nri-container", history("0 1 create-container ok", "2 9 stop-container ok", "3 8 notify-exit", outputs="CreateContainer StopContainer")),
        ("nri-container", history("0 1 create-container ok", "2 9 stop-container ok", "3 8 notify-exit", outputs="CreateContainer StopContainer StopContainer")),
    ),
    "outputs in order": (
        ("nri-container", history("0 1 create-container ok", "2 9 post-start-container ok", "3 8 post-update-container ok", outputs="CreateContainer PostUpdateContainer PostStartContainer")),
        ("nri-container", history("0 1 create-container ok", "2 4 post-start-container ok", "5 8 post-update-container ok", outputs="CreateContainer PostUpdateContainer PostStartContainer")),
    ),
}  # fmt: skip


def machine(name: str) -> Machine:
    return job() if name == "job" else load(name)


@pytest.mark.parametrize("case", PAIRS)
def test_one_is_legal_and_its_twin_is_not(case: str) -> None:
    (legal, good), (illegal, bad) = PAIRS[case]

    assert isinstance(linearize(machine(legal), good), Linearizable)
    assert isinstance(linearize(machine(illegal), bad), NotLinearizable)


def test_of_a_call_that_is_displaced_nothing_is_specified() -> None:
    displaced = history("0 1 make ok", "2 9 start ok", "3 8 exit", outputs="")
    ended = history("0 1 make ok", "2 9 start ok", outputs="")

    assert isinstance(linearize(job(), displaced), Linearizable)
    assert isinstance(linearize(job(), ended), NotLinearizable)


# -- the illegal part ----------------------------------------------------------


def found(machine: Machine, seen: History) -> NotLinearizable:
    answer = linearize(machine, seen)
    assert isinstance(answer, NotLinearizable)
    return answer


def test_a_reply_is_told_with_those_that_would_have_been_legal() -> None:
    answer = found(load("container-status"), history(CREATED, "2 3 stop NOT_FOUND", "4 9 start ok"))

    assert (str(answer.operation), answer.cause, answer.allowed) == ("stop: NOT_FOUND", Cause.REPLY, ("ok",))
    assert [(step.row, step.outcome, step.after) for step in answer.steps] == [("create", "created", "created")]


def test_what_came_later_is_no_part_of_the_longest_legal_beginning() -> None:
    answer = found(
        load("container-status"), history(CREATED, "2 9 start ok", "3 4 exec ok", "5 6 start ok", "7 8 stop ok")
    )

    assert (str(answer.operation), answer.allowed) == ("start: ok", ("error",))
    assert [step.row for step in answer.steps] == ["create", "start", "…start", "exec"]


def test_a_sight_is_told_with_those_that_would_have_been_legal() -> None:
    answer = found(load("container-status"), history(CREATED, "2 3 - =CONTAINER_EXITED"))

    assert (answer.cause, answer.allowed) == (Cause.STATE, ("CONTAINER_CREATED",))


def test_a_signal_is_told_as_one_that_cannot_happen() -> None:
    answer = found(load("container-status"), history(CREATED, "2 3 exit"))

    assert (str(answer.operation), answer.cause, answer.allowed) == ("exit", Cause.EVENT, ())


def test_outputs_are_told_with_those_that_could_have_come() -> None:
    operations = ("0 1 create-container ok", "2 3 stop-container ok")
    lacking = found(load("nri-container"), history(*operations, outputs="CreateContainer"))
    needless = found(load("nri-container"), history(*operations, outputs="CreateContainer StopContainer StopContainer"))

    assert (str(lacking.operation), lacking.cause) == ("stop-container: ok", Cause.OUTPUT)
    assert lacking.allowed == ("CreateContainer StopContainer",)
    assert (needless.operation, needless.cause) == (None, Cause.OUTPUT)
    assert needless.allowed == ("CreateContainer StopContainer",)


def test_entities_do_not_meet() -> None:
    one, other = history(*RUNNING), history(CREATED, "2 3 exec ok")
    operations = [replace(each, entity="a") for each in one.operations]
    operations += [replace(each, entity="b") for each in other.operations]

    assert found(load("container-status"), History(operations=tuple(operations))).entity == "b"


def test_a_search_that_ends_early_knows_nothing() -> None:
    seen = history(CREATED, "2 3 stop NOT_FOUND")

    assert linearize(load("container-status"), seen, limit=1) == Unknown(
        why="the search ended undecided after 1 situations"
    )
    assert isinstance(linearize(load("container-status"), seen, limit=50), NotLinearizable)


def test_many_operations_one_after_the_other_take_no_more_than_a_little_each() -> None:
    """Each operation of a long history takes little time, because only concurrent operations are reordered."""
    lines = [f"{10 * number + each} {10 * number + 9} status ok" for number in range(200) for each in (1, 2, 3)]

    assert isinstance(linearize(load("container-status"), history("0 0 create ok", *lines), limit=20_000), Linearizable)


def test_signals_that_nobody_saw_may_happen_where_the_history_does_not_show_them() -> None:
    seen = history(*RUNNING, "4 5 exec UNKNOWN")

    assert isinstance(
        linearize(load("container-status"), history(*RUNNING, "4 5 - =CONTAINER_EXITED")), NotLinearizable
    )
    assert isinstance(
        linearize(load("container-status"), history(*RUNNING, "4 5 - =CONTAINER_EXITED"), unseen=["exit"]), Linearizable
    )
    assert isinstance(linearize(load("container-status"), seen, unseen=["exit"]), Linearizable)


def test_a_profile_allows_what_it_says() -> None:
    seen = history("0 1 stop NOT_FOUND")

    assert isinstance(linearize(load("container-status"), seen), NotLinearizable)
    assert isinstance(linearize(load("container-status"), seen, profile="containerd-1.6"), Linearizable)


@pytest.mark.parametrize(
    ("seen", "message"),
    [
        (history("0 1 jump ok"), "no event 'jump'; it has push, remove"),
        (history("0 1 - =WIDE"), "never shows 'WIDE'; its states show CLOSED, OPEN"),
    ],
)
def test_what_the_machine_has_not_is_refused(seen: History, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        linearize(door(), seen)


def test_no_operation_returns_before_it_is_called() -> None:
    with pytest.raises(ValueError, match="before it was called at 2"):
        Operation(called=2, returned=1, event="push")
    with pytest.raises(ValueError, match="needs an event or an observed state"):
        Operation(called=2, returned=3)


# -- second opinions -----------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize("part", range(4))
def test_a_second_opinion_agrees_on_random_histories(part: int) -> None:
    answers: Counter[bool] = Counter()
    for number in range(amount(50, night=3_000)):
        chance = random.Random(f"{part} {number}")
        machine = random_machine(chance)
        for _ in range(6):
            seen = random_history(chance, machine)
            answer = linearize(machine, seen)
            assert not isinstance(answer, Unknown)
            assert isinstance(answer, Linearizable) == linearizable(machine, seen), (part, number, seen)
            answers[isinstance(answer, Linearizable)] += 1
            _check_steps(machine, seen, answer.steps, whole=isinstance(answer, Linearizable))

    assert min(answers.values()) > 25, "there have to be histories of both kinds"


def _check_steps(machine: Machine, seen: History, steps: tuple[Step, ...], *, whole: bool) -> None:
    state = machine.initial
    for before, after in pairwise(steps):
        assert before.after == after.before
    for step in steps:
        assert step.before == state
        state = step.after
        if step.outcome:
            event = step.row.removeprefix("…")
            ways = (naive.ends if step.row.startswith("…") else naive.ways)(machine, step.before, event)
            assert (step.after, step.outcome) in {(way.to, way.outcome) for way in ways or ()}
    mine = [step.operation for step in steps if step.operation is not None]
    for number, one in enumerate(mine):
        for other in mine[number + 1 :]:
            assert other.returned is None or one.called <= other.returned
    if whole:
        over = sum(each.returned is not None for each in seen.operations)
        assert len({id(each) for each in mine}) >= over


@pytest.mark.slow
def test_what_is_linearizable_is_a_behaviour_to_the_monitor() -> None:
    """The monitor allows every linearizable history, and sometimes more.

    Unlike a history, a trace does not tell which of two equal calls a reply belongs to.
    """
    judged = 0
    for number in range(600 * TIMES):
        chance = random.Random(number)
        machine = random_machine(chance)
        calls = {each.name for each in machine.events.values() if each.kind == "call"}
        seen = random_history(chance, machine).operations
        if not seen or not calls.issuperset(each.event for each in seen):
            continue
        operations = tuple(replace(each, shows="") for each in seen)
        if isinstance(linearize(machine, History(operations=operations)), Linearizable):
            judged += 1
            assert _monitored(machine, operations), (number, operations)

    assert judged > 200


def _monitored(machine: Machine, operations: tuple[Operation, ...]) -> bool:
    ends = [(each.called, 0, Observation(entity="e", event=each.event, phase="request")) for each in operations]
    ends += [
        (each.returned, 1, Observation(entity="e", event=each.event, phase="reply", reply=each.reply))
        for each in operations
        if each.returned is not None
    ]
    monitor = Monitor(machine, fresh=True)
    observations = [each for _, _, each in sorted(ends, key=lambda end: end[:2])]
    monitor.feed(observations, range(1, len(observations) + 1))
    return not isinstance(monitor.judgement().verdict, Fails)
