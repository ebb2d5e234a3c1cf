"""Histories are drawn as lanes that show each operation as text."""

from __future__ import annotations

from machines import counter

from fsm.conformance.race_runs import Programme, Race
from fsm.linearizability import linearize
from fsm.linearizability.history import History, Operation
from fsm.report.lanes import explained, lanes, raced
from fsm.verdict import Unknown


def test_a_race_is_drawn_in_lanes() -> None:
    operations = (
        Operation(called=1, returned=2, event="add", reply="ok"),
        Operation(called=5, returned=30, event="add", reply="ok", thread=1),
        Operation(called=9, returned=20, event="add", reply="ok", thread=2),
        Operation(called=40, returned=50, shows="n2"),
    )
    history = History(operations=operations, outputs={"": ("tick", "tick", "tick")})
    programme = Programme(before=("add",), threads=(("add",), ("add",)))

    assert (
        "\n".join(raced(Race(programme=programme, history=history, verdict=linearize(counter(), history))))
        == """\
main      |-add: ok-|                 |-shows n2-|
thread 1              |---add: ok---|
thread 2                |-add: ok-|
outputs   tick, tick, tick
not linearizable: shows n2 in main
legal would be: n3
legal up to this point: add (done); add (done); add (done)"""
    )


def test_what_never_returned_has_no_end() -> None:
    operations = (
        Operation(called=1, returned=None, event="add", thread=1, entity="a"),
        Operation(called=2, returned=3, event="reset", reply="ok", thread=2, entity="b"),
    )

    assert list(lanes(History(operations=operations))) == [
        "thread 1, a  |--------add: …--------",
        "thread 2, b    |-reset: ok-|",
    ]


def test_what_is_not_decided_is_said_to_be_unknown() -> None:
    assert list(explained(Unknown(why="the search ended undecided after 5,000 situations"))) == [
        "unknown: the search ended undecided after 5,000 situations"
    ]
