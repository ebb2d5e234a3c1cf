"""Recordings of machines with data are judged by the values of variables and arguments."""

from __future__ import annotations

import json
import random
from collections import Counter
from typing import TYPE_CHECKING, TypeAlias

import naive_data
import pytest
from machines import machine_of
from msgspec import structs
from random_data_machines import random_data_machine, random_data_trace
from thorough import TIMES

from fsm.errors import InputError
from fsm.language.library import load
from fsm.linearizability import linearize
from fsm.linearizability.history import History
from fsm.machine.calls import valued
from fsm.machine.calls.valued import ValuedTable
from fsm.machine.driver import CannotHappenError, Driver
from fsm.machine.findings import Cause, Illegal
from fsm.machine.guards import DataEffects
from fsm.machine.simulation import simulate
from fsm.monitor import Monitor
from fsm.monitor.judgement import judge
from fsm.monitor.provenance import provenance
from fsm.recordings import open_recording
from fsm.recordings.time_order import Restarts
from fsm.report import words
from fsm.trace import Observation
from fsm.verdict import Holds, Unknown

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

    from fsm.machine import Machine
    from fsm.machine.findings import Violation
    from fsm.machine.table import Way
    from fsm.machine.terms import Values

Step: TypeAlias = "tuple[str, dict[str, object]]"
SAFE = "examples/models/safe.toml"
LIFT = """\
[machine]
name = "lift"
title = "A lift"
about = "Carries people."
source = "handbook"
initial = "still"
[states]
still = { about = "It waits." }
moving = { about = "It moves." }
[data]
floor = { from = 0, to = 3, scope = true, shown = true }
full = { type = "bool" }
[event.go]
kind = "call"
about = "Go to a floor."
arguments = { to = { from = 0, to = 3, scope = true } }
moves.still = [{ name = "begins", begins = "moving", when = "to != floor and not (full == true)" },
               { name = "no", stays = true, when = "otherwise", reply = "NO" }]
moves.moving = [{ name = "busy", stays = true, reply = "BUSY" }]
ends.moving = [{ name = "there", to = "still", set = { floor = "to" } }]
[event.enter]
kind = "signal"
about = "Somebody enters."
moves.still = [{ name = "in", stays = true, set = { full = true } }]
ignores = ["moving"]
[event.leave]
kind = "hidden"
about = "Somebody leaves."
moves.still = [{ name = "out", stays = true, set = { full = false } }]
cannot = ["moving"]
"""


def first_violation(machine: Machine, trace: Sequence[Observation]) -> int | None:
    monitor = Monitor(machine, fresh=True)
    return next((index for index, seen in enumerate(trace) if monitor.observe(seen)), None)


def compared(seeds: range, *, vague: bool) -> Counter[str]:
    """Count how often the monitor and the naive interpreter find the same first violation in random traces."""
    found = Counter[str]()
    for seed in seeds:
        chance = random.Random(seed)
        machine = random_data_machine(chance, vague=vague)
        trace = random_data_trace(chance, machine, vague=vague)
        try:
            expected = naive_data.first_unexplained(machine, trace)
        except naive_data.TooWideError:
            continue
        index = first_violation(machine, trace)
        found[naive_data.agreement(index, expected)] += 1
        found["illegal"] += expected is not None
    return found


@pytest.mark.slow
def test_known_values_are_judged_like_a_naive_interpreter_judges_them() -> None:
    """Without missing arguments, hidden events and silent cells, every violation is found at the same observation."""
    found = compared(range(150 * TIMES), vague=False)

    print(dict(found))  # noqa: T201  (the figures show how much was compared)
    assert (0, 0) == (found["missed"], found["false"])
    assert found["illegal"] >= 10 * TIMES


@pytest.mark.slow
def test_unknown_values_cause_no_false_alarm() -> None:
    """A violation is missed only if values are unknown, and this is rare."""
    found = compared(range(1_000, 1_000 + 150 * TIMES), vague=True)

    print(dict(found))  # noqa: T201
    assert found["false"] == 0
    assert found["missed"] * 5 <= found["illegal"]
    assert found["illegal"] >= 5 * TIMES


def without_updates(self: DataEffects, way: Way, row: int, frame: Values) -> Values | None:
    return AFTER(self, structs.replace(way, updates=()), row, frame)


def without_guards(self: DataEffects, way: Way, row: int, frame: Values) -> Values | None:
    return AFTER(self, structs.replace(way, when=None), row, frame)


def unknown_as_zero(self: DataEffects, way: Way, row: int, frame: Values) -> Values | None:
    return AFTER(self, way, row, tuple(value or 0 for value in frame))


def stale_arguments(self: ValuedTable, row: int, given: dict[str, int | bool | str]) -> int:
    """Let the ends of all calls of an event use the arguments of the first of these calls."""
    number = PLACED(self, row, given)
    plain = self.rows[number].index
    if number in self.end and number != plain:
        first = min(each for each in self.end if each != plain and self.rows[each].index == plain)
        self.end[number] = self.end[first]  # type: ignore[index]  # a dictionary
    return number


AFTER, PLACED = DataEffects._after, ValuedTable.placed  # noqa: SLF001  (defects are planted there)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("owner", "name", "defect", "vague"),
    [
        (DataEffects, "_after", without_updates, False),
        (DataEffects, "_after", without_guards, False),
        (DataEffects, "_after", unknown_as_zero, True),
        (ValuedTable, "placed", stale_arguments, False),
    ],
)
def test_the_comparison_finds_planted_defects(
    owner: type, name: str, defect: Callable[..., object], *, vague: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Ignored updates, ignored guards, unknown values that count as zero, and stale arguments are found."""
    monkeypatch.setattr(owner, name, defect)
    found = compared(range(1_000, 1_300) if vague else range(300), vague=vague)
    assert found["false"] or (found["missed"] and not vague)


@pytest.mark.slow
def test_simulated_traces_are_legal() -> None:
    """The simulator produces arguments, also beyond a scope, and the values that are shown."""
    args, fields = Counter[object](), 0
    for seed in range(40):
        machine = random_data_machine(random.Random(seed))
        trace = list(simulate(machine, seed=seed, length=12, overlap=2, entities=2))
        monitor = Monitor(machine, fresh=True)
        assert [] == [found for seen in trace for found in monitor.observe(seen)]
        args.update((name, value) for seen in trace for name, value in (seen.args or {}).items())
        fields += sum(bool(seen.fields) for seen in trace)
    assert fields
    assert ("c", True) in args
    assert any(("a", value) in args for value in range(3, 20))


def enters(*calls: tuple[int | None, str]) -> list[Observation]:
    return [
        Observation(entity="s", event="enter", reply=reply, args=None if code is None else {"code": code})
        for code, reply in calls
    ]


@pytest.mark.parametrize(
    ("calls", "illegal"),
    [
        ([(1999, "WRONG"), (2, "ok")], None),
        ([(1999, "ok")], 0),
        ([(1, "WRONG"), (None, "WRONG"), (1, "BLOCKED"), (2, "BLOCKED")], None),
        ([(1, "WRONG"), (None, "WRONG"), (1, "WRONG")], 2),
        ([(None, "ok"), (2, "ALREADY_OPEN")], None),
        ([(None, "BLOCKED")], 0),
    ],
)
def test_arguments_beyond_the_scope_and_missing_ones(calls: list[tuple[int | None, str]], illegal: int | None) -> None:
    """A code of 1999 is judged, although the scope ends at 3, and a reply tells which code was missing."""
    assert illegal == first_violation(load(SAFE), enters(*calls))


def violation(machine: Machine, *trace: Observation) -> Violation:
    monitor = Monitor(machine, fresh=True)
    (found,) = [each for seen in trace for each in monitor.observe(seen)]
    return found


def test_a_violation_names_the_values() -> None:
    """The report tells the arguments, the values before the call, and what would have been allowed."""
    found = violation(load(SAFE), *enters((1, "WRONG"), (0, "WRONG"), (3, "WRONG")))

    assert "enter(code = 3) replied WRONG" == words.what(found)
    assert "locked, failures = 2" == words.before(found)
    assert "BLOCKED" == words.allowed(found)


def test_the_reply_of_a_call_names_its_arguments() -> None:
    """If the request and the reply are separate lines, the violation still tells the arguments."""
    found = violation(machine_of(LIFT), *lift(ASK_1, NO))
    assert "go(to = 1) replied NO" == words.what(found)


def lift(*steps: Step) -> list[Observation]:
    return [Observation(entity="l", event=event, **each) for event, each in steps]  # type: ignore[arg-type]


ASK_2: Step = ("go", {"phase": "request", "args": {"to": 2}})
ASK_1: Step = ("go", {"phase": "request", "args": {"to": 1}})
OK: Step = ("go", {"phase": "reply", "reply": "ok"})
NO: Step = ("go", {"phase": "reply", "reply": "NO"})


def going(floor: int) -> Step:
    return "go", {"args": {"to": floor}, "reply": "ok"}


def shown(floor: int) -> Step:
    return "", {"fields": {"floor": floor}}


@pytest.mark.parametrize(
    ("steps", "illegal"),
    [
        ([ASK_2, OK, shown(2)], None),
        ([ASK_2, OK, shown(1)], 2),
        ([ASK_2, OK, ASK_2, OK], 3),
        ([ASK_2, OK, ASK_2, NO], None),
        ([ASK_2, OK, ("go", {"args": {"to": 1}, "reply": "ok"}), shown(1), shown(2)], 4),
        ([("go", {"phase": "request"}), OK, shown(3), ASK_2, OK], None),
        ([("go", {"phase": "request"}), OK, shown(3), ASK_2, OK, shown(3)], 5),
        ([("enter", {}), ASK_1, NO], None),  # the person is still inside
        ([("enter", {}), ASK_1, OK], None),  # the person has left, which nobody saw
        ([ASK_1, NO], 1),
        ([("gone", {}), ASK_1, OK], None),
    ],
)
def test_calls_that_take_time_keep_their_arguments(steps: list[Step], illegal: int | None) -> None:
    """A lift arrives at the floor of its call, shown values are compared, and hidden events make values unknown."""
    steps = [each for each in steps if each[0] != "gone"]
    assert illegal == first_violation(machine_of(LIFT), lift(*steps))


def test_a_shown_value_that_nothing_explains_is_a_violation() -> None:
    """The violation names the variable, its value, the possible values, and a clause."""
    found = violation(machine_of(LIFT), *lift(ASK_2, OK, shown(1)))

    assert (Cause.FIELDS, "floor", "floor 1") == (found.cause, found.illegal, found.found)
    assert [("still, floor = 2, full = false",)] == [each.what for each in found.permitted]
    assert found.clause.name


def test_the_reply_to_a_call_is_explained_by_the_values() -> None:
    """The explanation of a belief shows values."""
    monitor = Monitor(machine_of(LIFT), fresh=True)
    moves = [monitor.follow(seen, 1)["l"] for seen in lift(ASK_2, OK)]
    (told,) = map(provenance, moves[-1])
    assert ("still, floor = 2, full = false",) == told.after
    assert ["still, floor = 2, full = false"] == [each.state for each in told.derivations]


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ({"args": {"code": "x"}}, "line 2: code is 'x', but it must be an integer"),
        ({"args": {"cod": 1}}, "line 2: the machine has no argument 'cod' of 'enter'"),
        ({"args": {"code": True}}, "line 2: code is True, but it must be an integer"),
    ],
)
def test_a_wrong_argument_makes_the_verdict_on_a_trace_unknown(
    line: dict[str, object], said: str, tmp_path: Path
) -> None:
    """A value of the wrong type is reported with its line, and is then unknown."""
    name = written(tmp_path, {"entity": "s", "event": "enter", "reply": "WRONG"} | line)
    (judged,) = judge(name, models=[load(SAFE)]).judgements

    assert Unknown(why=said) == judged.verdict
    assert {"value not understood": 1} == dict(judged.notes)


def written(folder: Path, *lines: dict[str, object]) -> Path:
    name = folder / "trace.jsonl"
    name.write_text("\n".join(map(json.dumps, [{"trace": 1, "machine": "safe", "fresh": True}, *lines])))
    return name


def test_arguments_that_cannot_be_read_are_an_error(tmp_path: Path) -> None:
    """A list is not a value."""
    with pytest.raises(InputError):
        judge(written(tmp_path, {"entity": "s", "event": "enter", "args": {"code": [1]}}), models=[load(SAFE)])


def test_tables_keep_arguments(tmp_path: Path) -> None:
    """A trace and its table have the same verdict, which depends on the arguments."""
    pytest.importorskip("pyarrow")
    from fsm.recordings.tables import write  # noqa: PLC0415  (needs the extra "fast")

    lines: list[dict[str, object]] = [
        {"entity": "s", "event": "enter", "args": {"code": 2}, "reply": reply} for reply in ("WRONG", "ok")
    ]
    name = written(tmp_path, *lines)
    table = tmp_path / "trace.parquet"
    with table.open("wb") as sink:
        write(open_recording(str(name)), sink, Restarts())
    found = [judge(each, models=[load(SAFE)]).judgements[0] for each in (name, table)]

    assert [2, 2] == [each.verdict.findings[0].first[0].line for each in found if isinstance(each.verdict, Illegal)]


def test_the_driver_agrees() -> None:
    """A driver and the monitor allow the same outcomes."""
    machine = load(SAFE)
    driver = Driver(machine).position()
    trace = []
    for code in (1999, 1, 3, 2):
        outcome = driver.take("enter", code=code)
        trace += enters((code, outcome.reply[0]))
    assert first_violation(machine, trace) is None
    with pytest.raises(CannotHappenError):
        Driver(machine_of(LIFT)).position().take("go", ends=True)


def test_too_many_values_become_unknown(monkeypatch: pytest.MonkeyPatch) -> None:
    """Beyond the limit nothing is violated wrongly, and the verdict says that it is incomplete."""
    monkeypatch.setattr(valued, "MOST", 3)
    monkeypatch.setattr("fsm.monitor.beliefs.MOST", 3)
    machine = machine_of(LIFT)
    monitor = Monitor(machine, fresh=True)
    steps = [step for floor in range(1, 9) for step in (going(floor), shown(floor))]
    assert [] == [found for seen in lift(*steps) for found in monitor.observe(seen)]
    assert Unknown(why="too many different values to follow all of them") == monitor.judgement().verdict
    monkeypatch.undo()
    fresh = Monitor(machine, fresh=True)
    assert [] == [found for seen in lift(*steps) for found in fresh.observe(seen)]
    assert isinstance(fresh.judgement().verdict, Holds)


SWAPPED = """\
[machine]
name = "swapped"
title = "Two sides"
about = "Two sides that are exchanged."
source = "handbook"
initial = "here"
[states]
here = { about = "It is here." }
[data]
left = { from = 0, to = 1, initial = 1 }
right = { from = 0, to = 1 }
[event.turn]
kind = "hidden"
about = "The sides are exchanged."
moves.here = [{ name = "turned", stays = true, set = { left = "right", right = "left" } }]
[event.compare]
kind = "call"
about = "Compare the sides."
moves.here = [{ name = "same", stays = true, when = "left == right", reply = "SAME" },
              { name = "other", stays = true, when = "otherwise" }]
"""


@pytest.mark.parametrize(("joint", "illegal"), [(16, 0), (2, None)])
def test_hidden_variables_depend_on_each_other(
    joint: int, illegal: int | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The sides differ however often they are exchanged. If there are too many combinations, this is forgotten."""
    monkeypatch.setattr(valued, "JOINT", joint)
    machine = machine_of(SWAPPED)
    replies = {reply: [Observation(entity="s", event="compare", reply=reply)] for reply in ("ok", "SAME")}
    assert illegal == first_violation(machine, replies["SAME"])
    assert first_violation(machine, replies["ok"] * 3) is None


def test_histories_are_refused() -> None:
    """Operations of a history have no arguments."""
    with pytest.raises(InputError, match="FSM225"):
        linearize(load(SAFE), History(operations=()))


def test_properties_are_watched(tmp_path: Path) -> None:
    """A property about data holds on a recording that keeps to it, and what is reachable is not watched."""
    name = written(tmp_path, {"entity": "s", "event": "enter", "args": {"code": 1}, "reply": "WRONG"})
    (judged,) = judge(name, models=[SAFE], properties=[]).judgements

    assert ["holds", "not watched"] == [each.status for each in judged.properties]
    assert isinstance(judged.verdict, Holds)
