"""All engines and several independent interpreters agree on which calls are legal."""

from __future__ import annotations

import random
from collections import Counter
from dataclasses import replace
from typing import TYPE_CHECKING

import judges
import naive
import naive_linearizability
import pytest
from machines import machine_of
from random_histories import WIDEST, random_history
from random_machines import random_machine, random_trace
from random_tests import changed, random_test
from related_machines import deviating, undeviating
from thorough import TIMES

from fsm.conformance.concurrency import concurrently
from fsm.conformance.lookup import Simulated
from fsm.language.library import load
from fsm.linearizability import linearize
from fsm.linearizability.history import History, Operation
from fsm.machine import fits
from fsm.machine.calls import ASKED, Rules
from fsm.machine.calls.configuration import Configuration, Covering, Pending
from fsm.machine.simulation import simulate
from fsm.machine.table import tabulate
from fsm.monitor import Monitor
from fsm.mutation import mutants
from fsm.sut import Response, Stimulus
from fsm.trace import Observation
from fsm.verdict import Fails, Holds

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from naive_oracle import Test

    from fsm.machine import Machine

MANY = TIMES if TIMES == 1 else 5 * TIMES // 2
"""The factor that increases the number of random machines to a hundred thousand at night."""
AT_NIGHT = [1_001_445, 1_001_890, 1_002_028, 2_002_653]
"""Seeds of machines with calls in progress on which engines disagreed in a nightly run."""
REPLIES = ("ok", "ok", "BUSY", "GONE", "NOT_FOUND", "CANCELED", "WEIRD")
LONGEST = 5


def random_script(chance: random.Random, machine: Machine) -> list[Observation]:
    made = simulate(machine, seed=chance.randrange(1 << 30), length=2 * LONGEST)
    shown = sorted({state.shows for state in machine.states.values()})
    script = []
    for each in made:
        event = machine.events.get(each.event)
        if event is None or event.kind == "hidden" or each.phase in {"request", "lost"}:
            continue
        reply, shows = each.reply, each.shows
        if event.kind == "call" and chance.random() < 0.2:
            reply = chance.choice(REPLIES)
        if chance.random() < 0.2:
            shows = chance.choice(shown)
        elif chance.random() < 0.3:
            shows = ""
        script.append(Observation(entity="e", event=event.name, reply=reply, shows=shows))
    return script[:LONGEST]


def history(script: list[Observation]) -> History:
    return History(
        operations=tuple(
            Operation(called=2 * at, returned=2 * at + 1, event=each.event, reply=each.reply, shows=each.shows)
            for at, each in enumerate(script)
        )
    )


def kit_test(script: list[Observation]) -> Test:
    return [(Stimulus(each.event), Response(reply=each.reply, shows=each.shows)) for each in script]


EXACT = ("naive", "oracle", "property monitor")
"""Judges that agree on all tests without calls in progress."""


def judging(machine: Machine) -> Callable[[list[Observation]], bool]:
    traces = {f"{name}, of traces": judge(machine) for name, judge in judges.TRACE.items()}
    histories = {f"{name}, of histories": judge(machine) for name, judge in judges.HISTORY.items()}
    tests = {f"{name}, of tests": judges.KIT[name](machine) for name in EXACT}

    def agree(script: list[Observation]) -> bool:
        answers = {name: judge(script) for name, judge in traces.items()}
        answers |= {name: judge(history(script)) for name, judge in histories.items()}
        answers |= {name: judge(kit_test(script)) for name, judge in tests.items()}

        assert len(set(answers.values())) == 1, (answers, script)
        return answers["naive, of traces"]

    return agree


class Examples:
    """Random machines with a few inputs each, and the number of inputs for the report."""

    def __init__(
        self, record: Callable[[str, object], None], part: int, *, machines: int, more: Iterable[int] = ()
    ) -> None:
        self._record = record
        self._numbers = [*range(1_000_000 * part, 1_000_000 * part + machines * MANY), *more]
        self.legal: list[bool] = []

    def machines(self) -> Iterator[tuple[random.Random, Machine]]:
        for number in self._numbers:
            chance = random.Random(number)
            yield chance, random_machine(chance)
        self._record("random examples", len(self.legal))
        assert 0.1 < sum(self.legal) / len(self.legal) < 0.97, "there have to be legal and illegal ones"


@pytest.mark.slow
@pytest.mark.parametrize("part", range(3))
def test_scripts_that_do_not_overlap(part: int, record_property: Callable[[str, object], None]) -> None:
    examples = Examples(record_property, part, machines=80)
    for chance, machine in examples.machines():
        agree = judging(machine)
        examples.legal += [agree(random_script(chance, machine)) for _ in range(5)]


@pytest.mark.slow
@pytest.mark.parametrize("part", range(3))
def test_tests_that_leave_calls_in_progress(part: int, record_property: Callable[[str, object], None]) -> None:
    """The oracle and a naive judge agree, and other judges allow at least the same tests."""
    known = [number for number in AT_NIGHT if number // 1_000_000 == part]
    examples = Examples(record_property, part, machines=80, more=known)
    for chance, machine in examples.machines():
        of = {name: judge(machine) for name, judge in judges.KIT.items()}
        simulated = random_test(chance, machine)

        assert all(judge(simulated) for judge in of.values()), "a simulated system under test does what is legal"
        for test in (changed(chance, machine, simulated) for _ in range(6)):
            answers = {name: judge(test) for name, judge in of.items()}
            legal = answers["naive"]
            examples.legal.append(legal)

            assert answers["oracle"] == legal, test
            assert answers["property monitor"] == legal, test
            assert not legal or all(answers.values()), (answers, test)


@pytest.mark.parametrize("part", range(3))
def test_histories_that_overlap(part: int, record_property: Callable[[str, object], None]) -> None:
    examples = Examples(record_property, part, machines=40)
    for chance, machine in examples.machines():
        for history in (random_history(chance, machine) for _ in range(3)):
            answers = {name: judge(machine)(history) for name, judge in judges.HISTORY.items()}
            examples.legal.append(answers["naive"])

            assert len(set(answers.values())) == 1, (answers, history)

            calls = only_calls(machine, history)
            if len(calls.operations) > WIDEST:
                continue
            linearizable = judges.history_by_linearizability(machine)(calls)
            traces = {name: judge(machine)(judges.trace_of(calls)) for name, judge in judges.TRACE.items()}

            assert len(set(traces.values())) == 1, (traces, calls)
            assert linearizable <= traces["naive"], calls
            assert linearizable == traces["naive"] or not judges.distinct(calls), calls


def only_calls(machine: Machine, history: History) -> History:
    """Return the calls of *history* without shown states, like a trace of overlapping calls."""
    calls = (each for each in history.operations if each.event and machine.events[each.event].kind == "call")
    return History(operations=tuple(replace(each, shows="") for each in calls))


def test_deviations(record_property: Callable[[str, object], None]) -> None:
    found = Counter[bool]()
    for number in range(120 * TIMES):
        chance = random.Random(number)
        machine = deviating(chance)
        if not machine.profiles:
            continue
        whole = machine.under("old")
        without = undeviating(whole)
        trace = random_trace(chance, whole, lost=True)
        monitor = Monitor(machine, fresh=True, profile="old")
        monitor.feed(trace, range(len(trace)))
        judgement = monitor.judgement()
        legal = naive.first_unexplained(whole, trace, fresh=True) is None
        needed = naive.first_unexplained(without, trace, fresh=True)
        first = min((each.first.line for each in judgement.tolerated), default=None)
        found[needed is not None] += 1

        assert legal != isinstance(judgement.verdict, Fails), trace
        assert not legal or first == needed, trace

        history = random_history(chance, whole)
        answer = linearize(machine, history, profile="old")
        rests = isinstance(answer, Holds) and any(step.deviation for step in answer.steps)

        assert isinstance(answer, Holds) == naive_linearizability.linearizable(whole, history), history
        assert rests == (isinstance(answer, Holds) and not naive_linearizability.linearizable(without, history))
    record_property("random examples", 2 * found.total())

    assert min(found.values()) > 0.1 * found.total()


ENGINES = [
    *(("traces", name) for name in judges.TRACE),
    *(("histories", name) for name in judges.HISTORY),
    *(("tests", name) for name in judges.KIT),
]


@pytest.mark.parametrize(("what", "engine"), ENGINES)
def test_a_judge_that_reads_other_cells_is_caught(what: str, engine: str) -> None:
    """A judge for a mutant rejects a legal input, which shows that the comparisons above can fail."""
    for number in range(100):
        chance = random.Random(number)
        machine = random_machine(chance)
        mutant = chance.choice([*mutants(machine)]).machine
        match what:
            case "tests":
                test = random_test(chance, machine)
                caught = judges.kit_naively(machine)(test) and not judges.KIT[engine](mutant)(test)
            case "histories":
                history = random_history(chance, machine)
                caught = judges.history_naively(machine)(history) and not judges.HISTORY[engine](mutant)(history)
            case _:
                trace = random_script(chance, machine)
                caught = judges.trace_naively(machine)(trace) and not judges.TRACE[engine](mutant)(trace)
        if caught:
            return
    pytest.fail("no mutant was caught")


# -- former disagreements between engines ------------------------------------------


def test_a_refusal_is_no_empty_reply() -> None:
    assert not fits("", ("error",))
    assert fits("GONE", ("error",))


class _StopRefuses(Simulated):
    """A simulated container that answers a stop of an absent container with NOT_FOUND."""

    def do(self, event: str) -> str:
        reply = super().do(event)
        return "NOT_FOUND" if event == "stop" and self.shows() == "absent" else reply


@pytest.mark.parametrize(("reply", "legal"), [("ok", True), ("NOT_FOUND", False)])
def test_the_stop_of_an_absent_container_succeeds(reply: str, legal: bool) -> None:  # noqa: FBT001  (a column)
    """The reply must be ok, even if a hidden restart could interrupt the call."""
    assert legal == judging(load("cri-container"))([Observation(entity="e", event="stop", reply=reply)])


def test_a_race_is_found_though_restarts_are_hidden() -> None:
    machine = load("cri-container")

    assert concurrently(machine, lambda: _StopRefuses(machine), examples=20, repeats=1).race is not None


@pytest.mark.parametrize(
    ("event", "shows", "legal"),
    [
        ("run", "SANDBOX_NOTREADY", True),
        ("run", "SANDBOX_READY", True),
        ("stop", "SANDBOX_NOTREADY", True),
        ("stop", "SANDBOX_READY", False),
    ],
)
def test_hidden_events_may_happen_before_the_look(event: str, shows: str, legal: bool) -> None:  # noqa: FBT001  (a column)
    """A running pod may become not ready before its state is shown, but a stopped pod stays not ready."""
    run = Observation(entity="e", event="run", reply="ok", shows="SANDBOX_READY")
    script = [run] if event == "stop" else []

    assert legal == judging(load("cri-pod"))([*script, Observation(entity="e", event=event, reply="ok", shows=shows)])


LAMP = """\
[machine]
name = "lamp"
title = "A lamp"
about = "Gets hot, and hums when it is lit."
source = "none"
initial = "cold"
[states]
cold = { about = "Off.", shows = "OFF" }
hot = { about = "Off, and hot.", shows = "OFF" }
lit = { about = "On.", shows = "ON" }
burning = { about = "On, and hot.", shows = "ON" }
[event.press]
kind = "call"
about = "Switch it on."
moves = { cold = "lit", hot = "burning" }
ignores = ["lit", "burning"]
[event.touch]
kind = "call"
about = "Touch it."
ignores = ["cold", "lit"]
refuses = { hot = "HOT", burning = "HOT" }
[event.warm]
kind = "hidden"
about = "The sun shines on it."
moves = { cold = "hot" }
cannot = ["*"]
[event.hum]
kind = "hidden"
about = "It hums."
moves = { lit = { to = "lit", emits = ["hum"] } }
cannot = ["*"]
[event.flash]
kind = "signal"
about = "It flashes; if it burns, nothing is specified."
silent = ["burning"]
cannot = ["*"]
"""


@pytest.mark.parametrize(
    ("test", "legal"),
    [
        ("press=ok touch=HOT", True),  # the lamp was hot before the press, but only the touch shows it
        ("touch=HOT press=ok touch=ok", False),
        ("press=ok>hum+hum", True),
        ("press=ok>bang", False),
        ("press=ok@ON touch=ok>hum+hum", True),
        ("press=ok@OFF touch=ok>hum+hum", False),
        ("touch=HOT press=ok flash=>bang", True),  # any output is legal in a silent cell
        ("touch=HOT flash=>bang", False),
    ],
)
def test_what_judges_of_tests_once_disagreed_on(test: str, legal: bool) -> None:  # noqa: FBT001  (a column)
    steps = []
    for word in test.split():
        event, _, seen = word.partition("=")
        seen, _, outputs = seen.partition(">")
        reply, _, shows = seen.partition("@")
        steps.append(
            (
                Stimulus(event),
                Response(reply=reply, shows=shows, outputs=tuple(outputs.split("+")) if outputs else None),
            )
        )

    assert {name: judges.KIT[name](machine_of(LAMP))(steps) for name in EXACT} == dict.fromkeys(EXACT, legal)


def test_a_call_that_has_not_taken_effect_covers_one_that_failed_without_effect() -> None:
    rules = Rules(tabulate(load("examples/models/washer.toml")))
    states, row = rules.table.states, rules.table.row["start"]
    idle, filling = states.index("idle"), states.index("filling")
    failed = next(way for way in rules.table.step(filling, row + 1) or () if way.name == "failed")
    asked = frozenset({Configuration(idle, (Pending(row, ASKED, 1 << idle),))})
    ended = frozenset({Configuration(idle, (Pending(row, failed.index, 1 << idle),))})

    covering = Covering(rules)

    assert covering.within(ended, asked)
    assert not covering.within(asked, ended)
