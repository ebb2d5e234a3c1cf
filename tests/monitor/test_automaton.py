"""Judging batches with compiled code and judging single observations lead to equal verdicts, counts and coverage."""

from __future__ import annotations

import random
from collections import OrderedDict
from typing import TYPE_CHECKING, Any, NamedTuple
from unittest.mock import patch

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from judged import CALLS, EVENTS, LOGS, RECORDINGS
from random_machines import random_machine, random_observation, random_seen
from thorough import amount

pytest.importorskip("numba", reason="the extra 'fast' is not installed")

from columns import Columned

from fsm import monitor as judging
from fsm.language.library import load
from fsm.machine.simulation import simulate
from fsm.monitor import Monitor, automaton, entities, extra_rules
from fsm.monitor.automaton import BeliefAutomaton, KindRows, StepTable, run
from fsm.monitor.judgement import Judging
from fsm.recordings import open_recording
from fsm.trace import LATEST, Batch, Line, Observation

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from fsm.compiled import Numbers
    from fsm.machine import Machine
    from fsm.machine.findings import Judgement
    from fsm.monitor.judgement import Judged


class Outcome(NamedTuple):
    """The judgement of a monitor, the lines that it reported as violations, and the states of the entities."""

    judgement: Judgement
    told: list[tuple[str, Line]]
    states: dict[str, frozenset[str]]


def outcome(monitor: Monitor, batches: Iterator[Batch], *, columns: bool) -> Outcome:
    told: list[tuple[str, Line]] = []
    monitor.violated = lambda entity, line: told.append((entity, line))
    entities = {}
    for batch in batches:
        if columns:
            assert monitor.take(batch) or monitor._assumptions.number  # noqa: SLF001  (what is not taken is told)
        if not columns or monitor._assumptions.number:  # noqa: SLF001
            monitor.feed(list(batch.observations), batch.lines)
        entities.update(dict.fromkeys(seen.entity for seen in batch.observations if seen.entity))
    states = {entity: monitor.states(entity) for entity in entities}
    return Outcome(monitor.judgement(), told, states)


def both(machine: Machine, trace: Sequence[Observation], size: int, **how: object) -> tuple[Outcome, Outcome]:
    plain, fast = (Monitor(machine, **how) for _ in range(2))  # type: ignore[arg-type]
    columned = Columned(random.Random(size))
    return (
        outcome(plain, columned.batches(trace, size), columns=False),
        outcome(fast, columned.batches(trace, size), columns=True),
    )


def trace_of(
    chance: random.Random, machine: Machine, *, length: int, wrong: float, overlap: int = 1
) -> list[Observation]:
    found = []
    for number in range(length // 40):
        run = simulate(machine, seed=chance.getrandbits(30), length=40, entities=chance.randint(1, 5), overlap=overlap)
        name = number if chance.random() < 0.8 else number // 3
        for seen in run:
            if chance.random() < wrong:
                other = random_observation(chance, machine, lost=False)
                seen = seen if other.phase in {"gap", "answered"} and overlap == 1 else other  # noqa: PLW2901
            entity = seen.entity and f"{seen.entity}-{['', 'ü', 'a longer name than a word has'][number % 3]}-{name}"
            found.append(msgspec.structs.replace(seen, entity=entity))
    return found


def dated(chance: random.Random, trace: list[Observation]) -> list[Observation]:
    found, at = [], 0
    for seen in trace:
        at += chance.choice([0, 0, 1, 2]) * 500_000_000
        found.append(msgspec.structs.replace(seen, at=at if chance.random() < 0.95 else None))
    return found


@pytest.mark.slow
@given(seed=st.integers(0, 1 << 32))
@settings(max_examples=amount(8, night=300))
def test_random_machines(seed: int) -> None:
    """Random inputs have violations, notes, unknown events, signals to all entities, assumptions and time limits."""
    chance = random.Random(seed)
    machine = random_machine(chance, time=False, limits=chance.random() < 0.6)
    trace = dated(chance, trace_of(chance, machine, length=400, wrong=chance.choice([0, 0.02]), overlap=1))
    how: dict[str, Any] = {"fresh": True, "seen": random_seen(chance, machine), "own": chance.random() < 0.5}
    plain, fast = both(machine, trace, chance.choice([7, 50, 1000]), **how)

    assert plain == fast


MODELS = ("container-status", "cri-container", "pod-sandbox", "nri-plugin")


@pytest.mark.parametrize("model", MODELS)
@pytest.mark.parametrize("ids", [False, True])
@pytest.mark.parametrize("remembered", [3, 65_536])
def test_shipped_machines(model: str, *, ids: bool, remembered: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(judging, "REMEMBERED", remembered)
    monkeypatch.setattr(entities, "MANY", 4)
    machine = load(model)
    trace = trace_of(random.Random(len(model)), machine, length=800, wrong=0.02)
    plain, fast = both(machine, trace, 60, fresh=True, ids=ids)

    assert plain == fast
    assert plain.judgement.observations == len(trace)


def restarted(model: str, seed: int) -> tuple[Machine, list[Observation]]:
    machine, chance = load(model), random.Random(seed)
    trace = trace_of(chance, machine, length=1_200, wrong=0.02, overlap=2)
    restart = Observation(event="restart", of=machine.entity)
    return machine, [each for seen in trace for each in ([restart, seen] if chance.random() < 0.1 else [seen])]


@pytest.mark.parametrize("model", ["container-status", "pod-sandbox"])
@pytest.mark.parametrize("remembered", [3, 65_536])
def test_what_happens_to_all(model: str, remembered: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(judging, "REMEMBERED", remembered)
    monkeypatch.setattr(entities, "MANY", 4)
    compiled = 0

    def ran(rows: KindRows, first: int, *others: object) -> int:
        nonlocal compiled
        end = int(run(rows, first, *others))  # type: ignore[arg-type]
        compiled += end - first
        return end

    monkeypatch.setattr(automaton, "run", ran)
    for seed in range(3):
        machine, trace = restarted(model, seed)
        plain, fast = both(machine, trace, 300, fresh=True)
        assert plain == fast
        assert plain.told
        assert compiled > len(trace) / 10


def test_what_happens_to_all_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    """The comparison notices skipped steps. Handling every step as an unknown step does not change the result."""
    machine, trace = restarted("container-status", 0)
    found = both(machine, trace, 300, fresh=True)
    monkeypatch.setattr(entities.Entities, "take", lambda *_: False)
    assert found == both(machine, trace, 300, fresh=True)
    monkeypatch.setattr(entities.Entities, "take", lambda *_: True)
    assert found != both(machine, trace, 300, fresh=True)


def late(chance: random.Random, length: int = 1_000) -> list[Observation]:
    """Return a trace of containers that are stopped repeatedly. Statuses are on time or late, or have no time."""
    found, now = [], 0
    for number in range(length):
        name, now = f"c{number // 200}-{chance.randrange(6)}", now + chance.choice([0, 1, 2, 30]) * 10**9
        event = chance.choice(["create", "start", "stop", "stop", "status", "status", "status", "remove"])
        shown = "CONTAINER_RUNNING" if event == "status" and chance.random() < 0.6 else ""
        reply = "ok" if event in {"stop", "status"} or chance.random() < 0.5 else "UNKNOWN"
        at = chance.choice([now, now, now, now - 10**9, None, -now])
        for phase in ("request", "reply") if chance.random() < 0.5 else ("",):
            asked = phase == "request"
            found.append(
                Observation(
                    entity=name,
                    event=event,
                    phase=phase,
                    reply="" if asked else reply,
                    met="" if asked else shown,
                    at=at,
                )
            )
    return found


@pytest.mark.parametrize("model", ["container-status", "cri-container"])
@pytest.mark.parametrize("timed", [True, False])
def test_what_is_left_in_time(model: str, *, timed: bool) -> None:
    trace = late(random.Random(4))
    plain, fast = both(load(model), trace if timed else [msgspec.structs.replace(each, at=None) for each in trace], 100)

    assert plain == fast


class NextLine(Line):
    """A line whose number is too high by one."""

    @classmethod
    def of(cls, line: int | Line, file: str) -> Line:
        return Line(file, int(line) + 1 if isinstance(line, int) else line.number + 1)


def without_end(self: BeliefAutomaton, fill: Callable[[BeliefAutomaton], None] = BeliefAutomaton._fill) -> None:  # noqa: SLF001
    """Fill the automaton, but make each time limit infinite."""
    fill(self)
    limits = self._table.limits
    limits[limits >= 0] = LATEST


LATE = {
    "time does not run": ("fsm.monitor.automaton.BeliefAutomaton._fill", without_end),
    "time began on another line": ("fsm.monitor.automaton.Line", NextLine),
}


@pytest.mark.parametrize("mistake", LATE)
def test_time_that_runs_otherwise_is_noticed(mistake: str) -> None:
    with patch(*LATE[mistake]):
        plain, fast = both(load("container-status"), late(random.Random(4)), 100)

    assert plain != fast


def coming_back(chance: random.Random) -> list[Observation]:
    """Return a trace in which some entities have the id of an earlier entity.

    The earlier entity may be in the same batch, may be long gone, or may be one that the automaton left to the monitor.
    """
    found = []
    for number in range(200):
        name = f"c{chance.choice([number, number, number - 1, number % 7])}"
        fields: dict[str, int | str] | None = {"created": 1} if chance.random() < 0.3 else None
        found.append(
            Observation(entity=name, event="create", reply=chance.choice(["ok", "ok", "UNKNOWN"]), fields=fields)
        )
        for event in ("start", "stop", "remove"):
            found.append(Observation(entity=name, event=event, phase="request"))
            found.append(Observation(entity=name, event=event, phase="reply", reply="ok"))
    return found


@pytest.mark.parametrize("remembered", [5, 65_536])
@pytest.mark.parametrize("size", [7, 60, 400])
def test_ids_that_come_back(size: int, remembered: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(extra_rules, "REMEMBERED", remembered)
    machine = load("container-status")
    plain, fast = both(machine, coming_back(random.Random(2)), size, fresh=True, ids=True)

    assert plain == fast
    assert len(plain.told) > 5


@pytest.mark.parametrize("mistake", [("_fresh_rows", lambda *_: OrderedDict()), ("_give", lambda *_: None)])
def test_an_id_that_is_not_looked_up_is_noticed(mistake: tuple[str, object], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(BeliefAutomaton, *mistake)
    machine = load("container-status")
    plain, fast = both(machine, coming_back(random.Random(2)), 60, fresh=True, ids=True)

    assert plain != fast


def test_fields_go_the_slow_way() -> None:
    machine, chance = load("cri-container"), random.Random(1)
    trace = []
    for seen in trace_of(chance, machine, length=800, wrong=0):
        shown = {"created": chance.choice([1, 1, 1, 2]), "started": chance.choice([0, 5]), "finished": 0}
        fields = shown if seen.shows and chance.random() < 0.5 else None
        trace.append(msgspec.structs.replace(seen, fields=fields))
    plain, fast = both(machine, trace, 500, fresh=True)

    assert plain == fast
    assert sum(plain.judgement.covered.fields.values()) > 10


@pytest.mark.parametrize("cells", [30, 1 << 22])
def test_the_table_is_begun_anew(cells: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(automaton, "CELLS", cells)
    monkeypatch.setattr("fsm.monitor.stepping.INTERNED", 60)
    machine = load("container-status")
    plain, fast = both(machine, trace_of(random.Random(3), machine, length=800, wrong=0.05), 100, fresh=True)

    assert plain == fast


def test_batches_of_both_forms_may_alternate() -> None:
    machine = load("container-status")
    trace = trace_of(random.Random(5), machine, length=800, wrong=0.02)
    found = []
    for every in (1, 3, 10_000):
        monitor, columned = Monitor(machine, fresh=True), Columned()
        told = []
        for number, batch in enumerate(columned.batches(trace, 100)):
            if number % every:
                assert monitor.take(batch)
            else:
                monitor.feed(batch.observations, batch.lines)
            if number % 7 == 0:
                told.append(monitor.judgement(over=False))
            if number % 11 == 0:
                monitor.shed()
        found.append((told, monitor.judgement()))

    assert found[0] == found[1] == found[2]


def in_full(name: str, *, columns: bool) -> Judged:
    recording = open_recording(str(RECORDINGS / name))
    judging = Judging(recording)
    columned = Columned()
    for batch in recording.batches:
        judging.take(columned.batch(batch.observations, batch.lines) if columns else batch)
    return judging.judged()


QUICK = ("containerd-1.7.24.log", "cri-calls-2.1.9.jsonl", "nri-events-2.1.9.jsonl")


@pytest.mark.parametrize(
    "name", [pytest.param(each, marks=() if each in QUICK else pytest.mark.slow) for each in (*LOGS, *CALLS, *EVENTS)]
)
def test_recordings(name: str) -> None:
    assert in_full(name, columns=False) == in_full(name, columns=True)


def astray(rows: KindRows, first: int, unseen: int, most: int, table: StepTable, cells: Numbers) -> int:
    """Run the loop with a defect: every step in the table leads to *unseen*, the belief about a new entity."""
    table.to[table.to >= 0] = unseen
    return int(run(rows, first, unseen, most, table, cells))


PLANTED = {
    "a wrong entry": (automaton, "run", astray),
    "coverage is not counted": (BeliefAutomaton, "count", lambda _self: None),
    "entities are not counted": (Monitor, "_count", lambda _self: None),
}


@pytest.mark.parametrize("mistake", PLANTED)
def test_a_mistake_is_noticed(mistake: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(*PLANTED[mistake])
    different = 0
    machine = load("container-status")
    for seed in range(3):
        trace = trace_of(random.Random(seed), machine, length=600, wrong=0.05)
        try:
            plain, fast = both(machine, trace, 100, fresh=True)
        except KeyError:  # the defect made the automaton count a step that does not exist
            different += 1
        else:
            different += plain != fast

    assert different
