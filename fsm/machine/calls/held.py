"""Beliefs of a test: the possible configurations after each of its steps.

A test knows more than a monitor.  It controls when its calls in progress continue, so they are *held*, and it sees all
outputs of each step, so these are passed as *coming*.  Everything else works as in :mod:`fsm.machine.calls.belief`.
"""

from collections.abc import Iterable, Iterator
from dataclasses import replace

from fsm.machine.calls.belief import Dynamics
from fsm.machine.calls.configuration import Configuration, Configurations, Pending, each_of, released
from fsm.machine.calls.rules import ASKED, BEGUN, HELD
from fsm.sut import Response, Stimulus
from fsm.trace import Key


def stepped(dynamics: Dynamics, before: Configurations, step: Stimulus, seen: Response) -> Configurations:
    """Return the configurations that are possible after the response *seen* to *step*; none if it is a violation.

    The SUT's state is read before its outputs, so *seen* also includes outputs of hidden events in between.
    """
    moves = replace(dynamics, coming=seen.outputs)
    before = moves.closed(before)
    row = moves.table.row[step.event]
    if seen.reply is None:
        found = moves.closed(_held(moves, before, step))
    elif step.stage == "end":
        before = moves.closed(each._replace(pending=released(each.pending, row)) for each in before)
        found = moves.observed(before, Key(event=step.event, phase="reply", reply=seen.reply)).configurations
    else:
        found = moves.observed(before, Key(event=step.event, reply=seen.reply)).configurations
        if moves.rules.interrupts(row):
            # The test has caused the interruption itself, so it awaits no more replies.
            found = frozenset(each._replace(pending=()) for each in found)
    return shown(moves, found, seen)


def _held(moves: Dynamics, before: Configurations, step: Stimulus) -> Iterator[Configuration]:
    """Yield the configurations in which the call of *step* has begun or advanced by a stage, but not ended."""
    row = moves.table.row[step.event]
    for here in before:
        if step.stage == "begin":
            yield from moves.advanced(here, Pending(row, ASKED, 1 << here.state), here.pending)
        for call, others in each_of(here.pending if step.stage == "end" else ()):
            if (call.row, call.stage) == (row, HELD):
                yield from moves.advanced(here, call._replace(stage=BEGUN), others)


def shown(moves: Dynamics, found: Iterable[Configuration], seen: Response) -> Configurations:
    """Return the configurations in *found* that show the state in *seen*, and what hidden events lead to from there."""
    shows = moves.table.shows
    left = moves.closed(each for each in found if not seen.shows or shows[each.state] == seen.shows)
    return frozenset(each._replace(queue=()) for each in left if seen.outputs in {None, each.queue})
