"""The window of a history is the shortest part that is illegal by itself and ends with the reported operation."""

from __future__ import annotations

import random
from collections import Counter
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest
from machines import door
from naive_linearizability import linearizable
from random_histories import random_history
from random_machines import random_machine
from thorough import TIMES

from fsm.language.library import load
from fsm.linearizability import NotLinearizable, linearize
from fsm.linearizability.history import History, Operation

if TYPE_CHECKING:
    from fsm.linearizability.frontier import Window
    from fsm.machine import Machine


def history(*lines: str) -> History:
    """Build operations from texts of the form ``CALLED RETURNED EVENT [REPLY]``.

    A missing part is written as ``-``, and the shown state X as ``=X``.
    """
    operations = []
    for thread, line in enumerate(lines):
        called, returned, event, *seen = line.split()
        operations.append(
            Operation(
                called=int(called),
                returned=None if returned == "-" else int(returned),
                event="" if event == "-" else event,
                reply=next((each for each in seen if not each.startswith("=")), ""),
                shows=next((each[1:] for each in seen if each.startswith("=")), ""),
                thread=thread,
            )
        )
    return History(operations=tuple(operations))


def window(machine: Machine, seen: History) -> Window:
    answer = linearize(machine, seen)
    assert isinstance(answer, NotLinearizable)
    return answer.window


def shown(found: Window) -> list[str]:
    return [str(each) for each in found.operations]


LONG = [f"{10 * number} {10 * number + 5} status ok" for number in range(1, 100)]


def test_what_came_long_before_is_not_in_it() -> None:
    seen = history("0 1 create ok", *LONG, "1000 1001 start ok", "1002 1003 start ok", "1004 1005 status ok")

    found = window(load("container-status"), seen)

    assert (["start: ok", "start: ok"], False, True) == (shown(found), found.begins, found.least)


def test_what_needs_the_beginning_says_so() -> None:
    seen = history("0 1 start ok", "2 3 status ok")

    found = window(load("container-status"), seen)

    assert (["start: ok"], True) == (shown(found), found.begins)


def test_an_operation_may_be_illegal_alone() -> None:
    found = window(door(), history("0 1 push ok", "2 3 push NONSENSE"))

    assert (["push: NONSENSE"], False) == (shown(found), found.begins)


def test_operations_in_progress_at_its_beginning_are_beside_it() -> None:
    """An operation that began before the window may still act within it.

    In this history, an earlier start cannot explain both of the shown states.
    """
    seen = history("0 1 create ok", "2 20 start ok", "4 5 - =CONTAINER_RUNNING", "6 7 - =CONTAINER_CREATED")

    found = window(load("container-status"), seen)

    assert ["shows CONTAINER_RUNNING", "shows CONTAINER_CREATED"] == shown(found)
    assert ["start: ok"] == [str(each) for each in found.beside]


def test_those_that_never_return_may_do_what_they_do_at_any_time() -> None:
    """Starts that never return may take effect at any time, but a hundred of them do not make the search harder.

    One such start explains that the exec succeeds. No start explains that the container is still created afterwards.
    """
    lost = [f"{number} - start" for number in range(2, 102)]
    seen = history("0 1 create ok", *lost, "200 201 exec ok", "202 203 - =CONTAINER_CREATED")

    found = window(load("container-status"), seen)

    assert ["exec: ok", "shows CONTAINER_CREATED"] == shown(found)
    assert 100 == len(found.beside)


@pytest.mark.slow
@pytest.mark.parametrize("part", range(2))
def test_it_is_illegal_by_itself_and_no_part_of_it_is(part: int) -> None:
    kinds: Counter[str] = Counter()
    for number in range(500 * TIMES):
        chance = random.Random(f"window {part} {number}")
        machine = random_machine(chance)
        seen = replace(random_history(chance, machine), outputs={})
        answer = linearize(machine, seen)
        if isinstance(answer, NotLinearizable):
            found = answer.window
            kinds["from the beginning" if found.begins else "in between"] += 1
            states = [machine.initial] if found.begins else list(machine.states)
            assert not _possible(machine, found.operations, states), (part, number)
            assert answer.operation in found.operations
            (first, *rest), over = found.operations, answer.operation.returned
            later = (each for each in seen.operations if each not in found.operations and each.called >= first.called)
            pending = (each for each in later if over is None or each.called <= over)
            others = tuple(replace(each, returned=None) for each in (*found.beside, *pending))
            if not any(machine.events[each.event].ends for each in others if each.event):
                lost = replace(first, returned=None)
                takes_time = bool(first.event and machine.events[first.event].ends)
                begun = [frozenset({lost})] if takes_time else []  # it may have begun before the rest, in any state
                assert any(
                    _possible(machine, (*rest, *others, lost), list(machine.states), each)
                    for each in (frozenset(), *begun)
                )
                last = tuple(
                    replace(each, returned=None) if each is answer.operation else each for each in found.operations
                )
                assert _possible(machine, (*last, *others), list(machine.states))

    assert min(kinds.values()) > 15


def _possible(
    machine: Machine, operations: tuple[Operation, ...], states: list[str], begun: frozenset[Operation] = frozenset()
) -> bool:
    kept = tuple(each for each in operations if each.returned is not None or each.event)
    return any(linearizable(replace(machine, initial=state), History(operations=kept), begun) for state in states)
