"""One semantics of calls: every engine gives one answer on what is legal, and so do interpreters that share no line with it."""

from __future__ import annotations

import random
from typing import TYPE_CHECKING

import naive
import naive_linearizability
import pytest
from random_machines import random_machine
from thorough import TIMES

from fsm.conformance.concurrency import concurrently
from fsm.conformance.oracle import oracle
from fsm.conformance.simulated import Simulated
from fsm.library import load
from fsm.linearizability import linearize
from fsm.linearizability.history import History, Operation
from fsm.machine import fits
from fsm.machine.simulation import simulate
from fsm.monitor import Monitor
from fsm.sut import Response, Stimulus
from fsm.trace import Observation
from fsm.verdict import Fails, Holds

if TYPE_CHECKING:
    from fsm.machine import Machine

EXAMPLES = 400 if TIMES == 1 else 20_000
REPLIES = ("ok", "ok", "BUSY", "GONE", "NOT_FOUND", "CANCELED", "WEIRD")
LONGEST = 5


def random_script(chance: random.Random, machine: Machine) -> list[Observation]:
    """Whole events in turn, one after the other: simulated ones, some of them changed."""
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


def by_monitor(machine: Machine, script: list[Observation]) -> bool:
    monitor = Monitor(machine, fresh=True)
    monitor.feed(script, range(1, len(script) + 1))
    return not isinstance(monitor.judgement().verdict, Fails)


def by_oracle(machine: Machine, script: list[Observation]) -> bool:
    of = oracle(machine)
    belief = of.start
    for each in script:
        belief = of.legal(belief, Stimulus(each.event), Response(reply=each.reply, shows=each.shows))
        if not belief:
            return False
    return True


def history(script: list[Observation]) -> History:
    return History(
        operations=tuple(
            Operation(called=2 * at, returned=2 * at + 1, event=each.event, reply=each.reply, shows=each.shows)
            for at, each in enumerate(script)
        )
    )


def agree(machine: Machine, script: list[Observation]) -> bool:
    """Whether *script* is legal, as every engine and both interpreters say."""
    answers = {
        "naive": naive.first_unexplained(machine, script, fresh=True) is None,
        "naive, of histories": naive_linearizability.linearizable(machine, history(script)),
        "monitor": by_monitor(machine, script),
        "oracle": by_oracle(machine, script),
        "linearizability": isinstance(linearize(machine, history(script)), Holds),
    }

    assert len(set(answers.values())) == 1, (answers, script)
    return answers["naive"]


@pytest.mark.parametrize("seed", range(5))
def test_every_engine_gives_one_answer(seed: int) -> None:
    """On machines with hidden events, interruptions, calls that take time, silent cells and indefinite replies."""
    found = []
    for number in range(EXAMPLES):
        chance = random.Random(1_000_000 * seed + number)
        machine = random_machine(chance)
        found.append(agree(machine, random_script(chance, machine)))

    assert 0.1 < sum(found) / len(found) < 0.95


# -- what engines once disagreed on ------------------------------------------------


def test_a_refusal_is_no_empty_reply() -> None:
    assert not fits("", ("error",))
    assert fits("GONE", ("error",))


class _StopRefuses(Simulated):
    """Replies NOT_FOUND to the stop of a container that is not there."""

    def do(self, event: str) -> str:
        reply = super().do(event)
        return "NOT_FOUND" if event == "stop" and self.shows() == "absent" else reply


@pytest.mark.parametrize(("reply", "legal"), [("ok", True), ("NOT_FOUND", False)])
def test_the_stop_of_an_absent_container_succeeds(reply: str, legal: bool) -> None:  # noqa: FBT001  (a column)
    """A hidden restart that interrupts does not make any reply legal."""
    assert legal == agree(load("cri-container"), [Observation(entity="e", event="stop", reply=reply)])


def test_a_race_is_found_though_restarts_are_hidden() -> None:
    machine = load("cri-container")

    assert concurrently(machine, lambda: _StopRefuses(machine), examples=20, repeats=1) is not None


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
    """A pod may become not ready between the reply to its run and the look that follows; a stopped one is not ready."""
    run = Observation(entity="e", event="run", reply="ok", shows="SANDBOX_READY")
    script = [run] if event == "stop" else []

    assert legal == agree(load("cri-pod"), [*script, Observation(entity="e", event=event, reply="ok", shows=shows)])
