"""The monitor finds and explains the same violations as a brute-force search, and forgets old data safely."""

from __future__ import annotations

import random
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import msgspec
import naive
import pytest
from hypothesis import given
from hypothesis import strategies as st
from judged import content
from machines import DOOR, JOB, counter, door, edited, job, machine_of
from random_machines import LONGEST, machines, random_machine, random_seen, random_trace
from thorough import TIMES, amount

import fsm.monitor
from fsm.language.library import load, names
from fsm.machine.calls import unobserved
from fsm.machine.findings import Cause, Illegal, Repair
from fsm.machine.simulation import simulate
from fsm.monitor import Monitor, beliefs, grouping, stepping
from fsm.monitor.beliefs import MACHINES, shared
from fsm.monitor.entities import ALIVE, RESTING
from fsm.monitor.judgement import judge
from fsm.trace import Observation
from fsm.verdict import Holds, Unknown

if TYPE_CHECKING:
    from pathlib import Path

    from fsm.machine import Machine
    from fsm.machine.calls.configuration import Configuration, Configurations, Covering
    from fsm.machine.findings import Edit, Judgement, Violation
    from fsm.trace import Phase

PHASES: dict[str, Phase] = {
    "?": "request", "=": "reply", "!": "lost", "+": "answered", "~": "noticed", "%": "maybe", "-": "gap",
}  # fmt: skip


STARTED = 'checking = { to = "running", emits = ["started"] }\n'
"""The possible results of starting the job."""


def seen(text: str) -> list[Observation]:
    """Parse observations in a short notation.

    Examples are ``push:ok``, ``push?`` and ``push=ok``, ``push!``, ``slam~``, ``@OPEN`` and ``push:ok@OPEN``. A word
    before ``/`` names the entity, ``&`` precedes the state in which the call acted, and ``>`` precedes the outputs.
    """
    return [_observation(word) for word in text.split()]


def remembered(monitor: Monitor, head: int) -> list[str]:
    entities = monitor._entities  # noqa: SLF001  (memory is what is tested)
    return [entities.identity(slot) for slot in entities.listed(head)]


def _observation(word: str) -> Observation:
    entity, _, rest = word.rpartition("/")
    rest, _, emits = rest.partition(">")
    rest, _, met = rest.partition("&")
    rest, _, shows = rest.partition("@")
    event, reply = rest, ""
    phase: Phase = ""
    for mark in (":", *PHASES):
        if mark in rest:
            event, _, reply = rest.partition(mark)
            phase = PHASES.get(mark, "")
            break
    return Observation(
        entity=entity or "e",
        event=event,
        phase=phase,
        reply=reply,
        shows=shows,
        met=met,
        emits=tuple(emits.split("+")) if emits else None,
    )


def judged(
    machine: Machine,
    trace: list[Observation],
    *,
    fresh: bool = False,
    signals: frozenset[str] | None = None,
    outputs: bool = False,
    profile: str | None = None,
) -> Judgement:
    monitor = Monitor(machine, fresh=fresh, seen=signals, outputs=outputs, profile=profile)
    monitor.feed(trace, range(1, len(trace) + 1))
    return monitor.judgement()


def violations(judgement: Judgement) -> list[Violation]:
    match judgement.verdict:
        case Illegal(findings=findings):
            return sorted((each for finding in findings for each in finding.first), key=lambda each: each.line)
        case _:
            return []


def first_violation(
    machine: Machine,
    trace: list[Observation],
    *,
    fresh: bool = False,
    signals: frozenset[str] | None = None,
    outputs: bool = False,
) -> int | None:
    judgement = judged(machine, trace, fresh=fresh, signals=signals, outputs=outputs)

    met = any(judgement.covered.cells.values())
    assert isinstance(judgement.verdict, Illegal if violations(judgement) else Holds if met else Unknown)
    return first_in(judgement)


def first_in(judgement: Judgement) -> int | None:
    return next((each.line - 1 for each in violations(judgement)), None)


def gave_up(judgement: Judgement) -> bool:
    """Return whether the monitor gave up because of too many possibilities, so the verdict cannot be compared."""
    return "too many possibilities" in judgement.notes


# -- the same as brute force -----------------------------------------------------


def agree(chance: random.Random, machine: Machine, *, lost: bool) -> bool:
    """Check the first violation in a random trace against brute force, or return ``False`` if the monitor gave up."""
    trace = random_trace(chance, machine, lost=lost)
    signals, fresh = random_seen(chance, machine), chance.random() < 0.7
    judgement = judged(machine, trace, fresh=fresh, signals=signals)
    if gave_up(judgement):
        return False
    expected = naive.first_unexplained(machine, trace, fresh=fresh, seen=signals)

    assert expected == first_in(judgement), (trace, signals, fresh)
    return True


@pytest.mark.slow
@pytest.mark.parametrize("lost", [False, True], ids=["answered", "given-up"])
@pytest.mark.parametrize("seed", range(4))
def test_finds_what_brute_force_finds(seed: int, lost: bool) -> None:  # noqa: FBT001  (a table's column)
    """On thousands of legal and illegal traces, the monitor and a brute-force search find the same first violation."""
    first = TIMES * (1_000 * seed + 500 * lost)
    compared = 0
    for number in range(first, first + amount(100, night=6_000)):
        chance = random.Random(number)
        machine = random_machine(chance)
        compared += agree(chance, machine, lost=lost) + agree(chance, machine, lost=lost)

    assert compared > 1.95 * amount(100, night=6_000)  # two traces for each machine, as giving up is rare


@pytest.mark.parametrize("number", [659, 969, 1159, 1230, 1300])
def test_a_call_without_an_end_emits_nothing_although_another_cell_is_silent(number: int) -> None:
    """On these machines, outputs of a call without an end were once accepted, because another cell was silent."""
    chance = random.Random(number)
    machine = random_machine(chance)

    assert [agree(chance, machine, lost=False) for _ in range(2)] == [True, True]


@given(machines(), st.randoms(use_true_random=False))
def test_finds_what_brute_force_finds_in_what_shrinks(machine: Machine, chance: random.Random) -> None:
    """The monitor also agrees with brute force on machines that Hypothesis generates, and shrinks after a failure."""
    agree(chance, machine, lost=True)


@given(machines(), st.randoms(use_true_random=False))
def test_never_fails_what_a_single_late_call_explains(machine: Machine, chance: random.Random) -> None:
    """If brute force, in which an abandoned call acts at most once, accepts a trace, the monitor accepts it too."""
    trace = random_trace(chance, machine, lost=True)[: LONGEST - 1]
    judgement = judged(machine, trace, fresh=True)
    found = first_in(judgement)
    if found is None or gave_up(judgement):
        return
    once = naive.first_unexplained(machine, trace, fresh=True, once=True)

    assert once is not None
    assert once <= found


@given(machines(time=False), st.lists(st.sampled_from("xyz"), max_size=5))
def test_finds_what_brute_force_finds_in_outputs_alone(machine: Machine, outputs: list[str]) -> None:
    """If only outputs are observed, the first one that no run emits is the violation."""
    trace = [Observation(entity="e", output=output) for output in outputs]
    expected = naive.first_unexplained_output(machine, outputs)

    assert expected == first_violation(machine, trace, fresh=True, outputs=True, signals=frozenset())


class Unpruned:
    """A set that keeps every configuration, even if another configuration covers it."""

    def __init__(self, _covering: Covering) -> None:
        self._all: dict[Configuration, None] = {}
        self.covered: set[Configuration] = set()

    @property
    def size(self) -> int:
        return len(self._all)

    def add(self, new: Configuration) -> bool:
        fresh = new not in self._all
        self._all[new] = None
        return fresh

    def all(self) -> Configurations:
        return frozenset(self._all)


def test_dropping_what_adds_nothing_loses_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    for number in range(5_000 * TIMES, 5_300 * TIMES):
        chance = random.Random(number)
        machine = random_machine(chance)
        trace = random_trace(chance, machine, lost=True)
        signals = random_seen(chance, machine)
        pruned = judged(machine, trace, fresh=True, signals=signals)
        with monkeypatch.context() as patched:
            patched.setattr(unobserved, "ConfigurationSet", Unpruned)
            whole = judged(machine, trace, fresh=True, signals=signals)

        assert gave_up(whole) or first_in(whole) == first_in(pruned)


# -- traces that begin in mid-life, and pieces of traces ---------------------------


@given(machines(), st.integers(0, 10_000))
def test_accepts_any_piece_of_a_legal_trace(machine: Machine, seed: int) -> None:
    """No piece of a legal trace has a violation if the trace is cut where no call is in progress."""
    if any(event.interrupts for event in machine.events.values()):
        return
    quiet = quiescent(list(simulate(machine, seed=seed, length=12, overlap=2)))
    whole = list(simulate(machine, seed=seed, length=12, overlap=2))
    for start in quiet:
        for stop in (*quiet, len(whole)):
            assert first_violation(machine, whole[start:stop]) is None


def quiescent(trace: list[Observation]) -> list[int]:
    """Return the positions in *trace* at which no call is in progress, not even an abandoned one."""
    found, waiting = [0], 0
    for place, each in enumerate(trace, 1):
        if each.phase == "lost":
            break
        waiting += {"request": 1, "reply": -1}.get(each.phase, 0)
        found += [place] if not waiting else []
    return found


@pytest.mark.parametrize("name", names())
def test_accepts_shipped_machines_in_mid_life(name: str) -> None:
    machine = load(name)
    trace = list(simulate(machine, seed=5, length=60))
    for start in quiescent(trace):
        assert first_violation(machine, trace[start:]) is None


def test_a_call_in_progress_at_the_cut_is_known_from_its_reply_on() -> None:
    """If a trace is cut while a call is in progress, the call is unknown until its reply.

    This is a known limit: until the reply, the effects of the call count as violations.
    """
    trace = seen("make:ok start? @WAITING @RUNNING start=ok @RUNNING")

    assert first_violation(job(), trace) is None
    assert first_violation(job(), trace[3:]) is None
    assert 1 == first_violation(job(), trace[2:])


def test_a_fresh_trace_does_not_begin_in_mid_life() -> None:
    trace = seen("add:ok@n2")

    assert first_violation(counter(), trace) is None
    assert 0 == first_violation(counter(), trace, fresh=True)


NOBODY = Observation(phase="gap")


@pytest.mark.parametrize("fresh", [False, True])
@pytest.mark.parametrize(
    ("before", "gap", "after", "violation"),
    [
        ("add:ok", [], "add:ok@n1", 1),
        ("add:ok", seen("-"), "add:ok@n1", None),
        ("add:ok", [NOBODY], "add:ok@n1", None),
        ("add:ok reset:ok", [], "add:ok@n3", 2),
        ("add:ok reset:ok", seen("-"), "add:ok@n3", None),
        ("add:ok reset:ok", [NOBODY], "add:ok@n3", None),
        ("add:ok reset:ok", seen("a/-"), "add:ok@n3", 3),
        ("add:ok", seen("-"), "reset:ok add:ok@n3", 3),
    ],
)
def test_knows_the_state_after_a_gap_no_more(
    before: str, gap: list[Observation], after: str, violation: int | None, *, fresh: bool
) -> None:
    judgement = judged(counter(), [*seen(before), *gap, *seen(after)], fresh=fresh)

    assert violation == first_in(judgement)
    assert len({each.entity for each in [*seen(before), *gap] if each.entity}) >= judgement.entities > 0


@pytest.mark.parametrize(("gap", "violation"), [([], 0), (seen("-"), None), ([NOBODY], None), (seen("a/-"), 1)])
def test_a_gap_may_be_before_anything_is_known(gap: list[Observation], violation: int | None) -> None:
    """An unseen entity may have been created in the gap, even if nothing existed before."""
    assert violation == first_in(judged(counter(), [*gap, *seen("add:ok@n3")], fresh=True))


def test_nothing_is_remembered_of_the_many_that_a_gap_concerns() -> None:
    monitor = Monitor(counter(), fresh=True)
    trace = [msgspec.structs.replace(seen("add:ok")[0], entity=f"e{number}") for number in range(50)]
    monitor.feed([*trace, NOBODY], range(51))
    assert [] == remembered(monitor, ALIVE)
    monitor.feed(trace, range(50))

    assert 50 == monitor.judgement().entities


MOVED = edited(
    JOB,
    'moves      = { starting = "waiting", checking = "ended", running = "ended" }',
    'moves      = { absent = "ended", starting = "waiting", checking = "ended", running = "ended" }',
)


@pytest.mark.parametrize(
    ("before", "after", "violation"),
    [
        ("", "@ENDED", None),  # the entity existed
        ("", "@absent", None),  # the entity did not exist
        ("", "@WAITING", 1),
        ("exit% @absent", "@ENDED", None),
        ("exit% @absent", "@RUNNING", 3),
        ("make:ok", "@ENDED", 2),
    ],
)
def test_what_happens_to_everybody_happens_to_strangers(before: str, after: str, violation: int | None) -> None:
    trace = [*seen(before), Observation(event="crash"), *seen(after)]

    assert violation == first_in(judged(machine_of(MOVED), trace, fresh=True))


# -- each kind of violation, with its evidence ------------------------------------------


def test_a_wrong_reply() -> None:
    (found,) = violations(judged(door(), seen("push:ok push:NOT_FOUND"), fresh=True))

    assert (Cause.REPLY, 2, ("open",)) == (found.cause, found.line, found.before)
    assert [("open", ("ok",))] == [(each.state, each.what) for each in found.permitted]
    assert ("push-opens", "MUST") == (found.clause.name, found.clause.level)
    assert (Repair.REPLY, "ok") == edit(found.edits[0])
    assert (Repair.REPEATED, "") in map(edit, found.edits)
    assert (Repair.MISSING, "remove") in map(edit, found.edits)


def test_a_wrong_state() -> None:
    (found,) = violations(judged(door(), seen("push:ok@gone"), fresh=True))

    assert (Cause.STATE, ("gone",)) == (found.cause, (found.observation.shows,))
    assert {"OPEN"} == {what for each in found.permitted for what in each.what}
    assert (Repair.MISSING, "remove") in map(edit, found.edits)


def test_a_wrong_sight_alone() -> None:
    (found,) = violations(judged(door(), seen("push:ok @gone"), fresh=True))

    assert (Cause.STATE, ("open",)) == (found.cause, found.before)
    assert [(Repair.MISSING, "remove")] == list(map(edit, found.edits))


def test_an_event_that_cannot_be() -> None:
    (found,) = violations(judged(door(), seen("remove:ok slam"), fresh=True))

    assert (Cause.EVENT, ("gone",), "observed") == (found.cause, found.before, found.clause.level)
    assert [("gone", ())] == [(each.state, each.what) for each in found.permitted]
    assert [(Repair.EXTRA, "")] == list(map(edit, found.edits))


def test_a_wrong_output() -> None:
    """No run leads to ``n3`` without another tick, so this state is not among the possible ones."""
    trace = [Observation(entity="e", output=output) for output in ("tick", "tick", "tock", "tick")]
    (found,) = violations(judged(counter(), trace, fresh=True, outputs=True))

    assert (Cause.OUTPUT, 3) == (found.cause, found.line)
    assert {"n0": ("tick",), "n1": ("tick",), "n2": ("tick",)} == {each.state: each.what for each in found.permitted}


PAIR = """\
[machine]
name = "pair"
title = "A pair of bells"
about = "One pull rings both, or one bell and then the other."
source = "none"
initial = "still"
[states]
still = { about = "Silent." }
half = { about = "One has rung." }
[event.pull]
kind = "signal"
about = "Both ring."
moves = { still = { to = "still", emits = ["ding", "dong"] } }
cannot = ["*"]
[event.swing]
kind = "signal"
about = "The first rings."
moves = { still = { to = "half", emits = ["ding"] } }
cannot = ["*"]
[event.back]
kind = "signal"
about = "The second rings."
moves = { half = { to = "still", emits = ["dong"] } }
cannot = ["*"]
"""


@pytest.mark.parametrize(("model", "met"), [(PAIR, []), (PAIR.replace(', "dong"]', "]"), [("back", "half")])])
def test_an_output_that_may_have_been_waiting_covers_no_cell(model: str, met: list[tuple[str, str]]) -> None:
    """An output covers no cell if it may be the second of two outputs of one event, which leaves its cause unknown.

    If no event emits two outputs, the cause is certain.
    """
    trace = [Observation(entity="e", output=output) for output in ("ding", "dong")]
    cells = judged(machine_of(model), trace, fresh=True, signals=frozenset(), outputs=True).covered.cells

    assert met == [cell for cell, count in cells.items() if count and cell[0] != "pull"]


@pytest.mark.parametrize("word", ["stop:NOT_FOUND&absent", "stop? stop=NOT_FOUND&absent", "stop+NOT_FOUND&absent"])
def test_what_a_call_met_is_what_its_reply_is_judged_by(word: str) -> None:
    """Any state is possible before the call, but the reply reports the state in which the call acted.

    In the reported state, the reply is certain to break a MUST.
    """
    (found,) = violations(judged(load("cri-container"), seen(word)))

    not_there = ("absent", "lost-created", "lost-running", "lost-exited")
    assert (Cause.REPLY, "NOT_FOUND", not_there) == (found.cause, found.illegal, found.before)
    assert [(each, ("ok",)) for each in not_there] == [(each.state, each.what) for each in found.permitted]
    assert ("stop-is-idempotent", "MUST") == (found.clause.name, found.clause.level)
    assert (Repair.REPLY, "ok") == edit(found.edits[0])
    assert {"stop-of-removed"} == {each.name for each in found.resembles}


def test_a_log_may_begin_with_what_is_not_found(tmp_path: Path) -> None:
    file = tmp_path / "containerd.log"
    file.write_bytes(b"".join(content("containerd-1.6.20.log").splitlines(keepends=True)[12:14]))
    (found,) = violations(judge(str(file)).judgements[0])

    assert ("absent", "skipped-created", "skipped-running", "skipped-exited") == found.before
    assert ("stop-is-idempotent", "MUST") == (found.clause.name, found.clause.level)


@pytest.mark.parametrize(
    ("name", "trace", "shown", "clause", "resembles"),
    [
        # The pod had left the shown state before the status: by a call in the first trace, by an exit in the second.
        ("cri-pod", "run:ok stop:ok status:ok&SANDBOX_READY", "SANDBOX_READY", "stop-ends-it", "ready-until-the-exit-is-handled"),
        ("cri-pod", "run:ok exit status? status=ok&SANDBOX_READY", "SANDBOX_READY", "not-ready-for-good", "ready-again"),
        # A different state was observed before, and no hidden event leads from there to the state that is shown now.
        ("cri-pod", "run:ok stop:ok status:ok&SANDBOX_NOTREADY status:ok&SANDBOX_READY", "SANDBOX_READY", "not-ready-for-good", ""),
        ("cri-pod", "run:ok stop:ok @SANDBOX_NOTREADY @SANDBOX_READY", "SANDBOX_READY", "not-ready-for-good", ""),
        ("cri-container", "create:ok start:ok exit status:ok&CONTAINER_EXITED status:ok&CONTAINER_RUNNING", "CONTAINER_RUNNING", "exited-is-final", ""),
        # A status that does not show the state reveals nothing.
        ("cri-container", "create:ok start:ok status:ok status:ok&CONTAINER_CREATED", "CONTAINER_CREATED", "start-runs", ""),
        # An effect of the call itself would have been observed.
        ("cri-container", "create:ok start:ok@CONTAINER_CREATED", "CONTAINER_CREATED", "start-runs", ""),
    ],
)  # fmt: skip
def test_what_was_shown_or_met_and_cannot_be(name: str, trace: str, shown: str, clause: str, resembles: str) -> None:
    """If the state is wrong but the reply is not, the broken clause belongs to an event that contradicts the state."""
    (found,) = violations(judged(load(name), seen(trace), fresh=True))

    assert (Cause.STATE, shown) == (found.cause, found.illegal)
    assert (clause, "MUST") == (found.clause.name, found.clause.level)
    assert shown not in {what for each in found.permitted for what in each.what}
    assert {resembles} - {""} == {each.name for each in found.resembles}


def test_goes_on_from_the_state_that_was_met() -> None:
    trace = "make:ok start? start=UNKNOWN make:EXISTS&ENDED make:EXISTS&ENDED"

    assert [4] == [each.line for each in violations(judged(job(), seen(trace), fresh=True))]


def test_another_reply_is_tried_in_the_state_that_was_met() -> None:
    (found,) = violations(judged(counter(to=1), seen("add? add=FULL&n0")))

    assert [(Repair.REPLY, "ok"), (Repair.EXTRA, "")] == list(map(edit, found.edits))


@pytest.mark.parametrize(
    ("trace", "said", "what"),
    [
        ("push:ok>Bang", "Bang", {"Creak"}),
        ("push:ok push:ok>Creak", "Creak", {""}),
        ("push:ok slam>Creak", "Creak", {"Bang"}),
    ],
)
def test_outputs_that_do_not_go_with_the_event(trace: str, said: str, what: set[str]) -> None:
    (found,) = violations(judged(door(), seen(trace), fresh=True))

    assert (Cause.OUTPUT, said) == (found.cause, found.illegal)
    assert what == {output for each in found.permitted for output in each.what}


def test_the_clause_is_the_weakest_that_may_be_broken() -> None:
    """If the reply breaks a MUST in one possible state and a SHOULD in another, only a SHOULD is certainly broken."""
    (known,) = violations(judged(door(), seen("push:ok push:WEIRD"), fresh=True))
    (unknown,) = violations(judged(door(), seen("push:WEIRD")))

    assert ("MUST", "SHOULD") == (known.clause.level, unknown.clause.level)
    assert ("shut", "open", "ajar", "gone") == unknown.before


def edit(of: Edit) -> tuple[Repair, str]:
    return of.repair, of.instead


@pytest.mark.parametrize(
    ("trace", "line", "expected"),
    [
        ("push:ok push:STUCK push:ok", 2, (Repair.REPLY, "ok")),
        ("push?  push=WEIRD", 2, (Repair.REPLY, "ok")),
        ("remove:ok remove:NOT_FOUND", 2, (Repair.REPLY, "ok")),
        ("push:ok slam slam", None, None),
        ("push:ok push:NOT_FOUND remove:ok", 2, (Repair.SWAPPED, "remove")),
        ("push:ok @gone", 2, (Repair.MISSING, "remove")),
        ("remove:ok slam", 2, (Repair.EXTRA, "")),
    ],
)
def test_the_smallest_edit_comes_first(trace: str, line: int | None, expected: tuple[Repair, str] | None) -> None:
    found = violations(judged(door(), seen(trace), fresh=True))

    assert ([] if line is None else [line]) == [each.line for each in found]
    assert ([] if expected is None else [expected]) == [edit(each.edits[0]) for each in found]


@pytest.mark.parametrize(
    ("trace", "repair"),
    [
        ("push:ok push:WEIRD", Repair.REPEATED),
        ("push? push=ok push? push=WEIRD", Repair.REPEATED),
        ("push:WEIRD", Repair.EXTRA),
        ("push? push=WEIRD", Repair.EXTRA),
        ("push:ok knock? push=WEIRD", Repair.REPEATED),
    ],
)
def test_repeated_is_what_ended_just_before(trace: str, repair: Repair) -> None:
    """A call can repeat only a call that has ended, not a call in progress or its own request."""
    (found,) = violations(judged(door(), seen(trace), fresh=True))

    assert repair in {each.repair for each in found.edits}
    assert not {Repair.REPEATED, Repair.EXTRA} - {repair} & {each.repair for each in found.edits}


def test_what_follows_decides_between_edits() -> None:
    machine = machine_of(edited(DOOR, 'reply = "STUCK"', 'reply = ["STUCK", "JAMMED"]'))
    (opened,) = violations(judged(machine, seen("push:WEIRD@CLOSED @CLOSED"), fresh=True))
    (closed,) = violations(judged(machine, seen("push:WEIRD slam>Bang"), fresh=True))

    assert (Repair.REPLY, "STUCK") == edit(opened.edits[0])
    assert (Repair.REPLY, "ok") == edit(closed.edits[0])


def test_goes_on_from_an_edit_that_mends_it() -> None:
    trace = seen("push:ok push:WEIRD push:ok @gone remove:ok push:NOT_FOUND push:ok")

    assert [2, 4, 7] == [each.line for each in violations(judged(door(), trace, fresh=True))]


def test_a_mended_call_is_not_in_progress() -> None:
    trace = seen("make:WEIRD @WAITING make:ok")

    assert [1, 3] == [each.line for each in violations(judged(job(), trace, fresh=True))]


def test_reports_every_violation_of_an_entity() -> None:
    trace = seen("push:WEIRD push?@gone")

    assert [1, 2] == [each.line for each in violations(judged(door(), trace, fresh=True))]


# -- many violations ----------------------------------------------------------------------


def test_folds_what_has_one_cause() -> None:
    trace = [each for number in range(10) for each in seen(f"e{number}/push:ok e{number}/push:WEIRD") * 2]
    judgement = judged(door(), trace, fresh=True)

    assert isinstance(judgement.verdict, Illegal)
    assert [(3, 20, 10)] == [(len(each.first), each.count, each.entities) for each in judgement.verdict.findings]


@pytest.mark.parametrize(
    "life", ["push:ok push:NOT_FOUND remove:ok push:NOT_FOUND", "push:ok push:STUCK push:ok push:ok"]
)
def test_the_same_life_has_the_same_violation(life: str) -> None:
    trace = [msgspec.structs.replace(each, entity=f"e{number}") for number in range(100) for each in seen(life)]
    judgement = judged(door(), trace, fresh=True)

    assert isinstance(judgement.verdict, Illegal)
    assert [100] == [each.count for each in judgement.verdict.findings]


def test_counts_what_causes_differ_in() -> None:
    trace = seen("a/push:ok a/push:WEIRD b/push:ok b/push:OTHER c/push:ok c/push:WEIRD")
    judgement = judged(door(), trace, fresh=True)

    assert isinstance(judgement.verdict, Illegal)
    assert [("WEIRD", 2), ("OTHER", 1)] == [
        (each.first[0].observation.reply, each.count) for each in judgement.verdict.findings
    ]


def test_counts_causes_beyond_those_that_are_told_apart_by_level(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(grouping, "CAUSES", 2)
    trace = seen("push:A push:B push:C push:D push:C push:A remove:ok push:E push:F push:A")
    judgement = judged(machine_of(DOOR.replace("SHOULD", "MAY")), trace, fresh=True)

    assert isinstance(judgement.verdict, Illegal)
    assert [("A", False, 2, "MUST"), ("B", False, 1, "MUST"), ("C", True, 3, "MUST"), ("E", True, 3, "MAY")] == [
        (each.first[0].illegal, each.others, each.count, each.first[0].clause.level)
        for each in judgement.verdict.findings
    ]


# -- deviations ------------------------------------------------------------------------------


def test_a_violation_tells_which_deviation_it_resembles() -> None:
    (found,) = violations(judged(door(), seen("remove:ok push:ok"), fresh=True))

    assert () == found.resembles
    machine = machine_of(
        DOOR
        + '\n[profile.new]\nabout = "New doors."\n[profile.new.cell.gone-is-fine]\nevent = "push"\n'
        + 'about = "Opens what is gone."\ndeviates = "gone-is-gone"\nignores = ["gone"]\n'
    )
    (found,) = violations(judged(machine, seen("remove:ok push:ok"), fresh=True))

    assert [("new", "gone-is-fine")] == [(each.profile, each.name) for each in found.resembles]


@pytest.mark.parametrize(
    ("trace", "tolerated"),
    [
        ("push:ok", 0),  # the door may have opened
        ("push:ok push:STUCK", 1),  # an open door is never stuck
        ("push:ok push:ok", 0),
        ("push:ok push:STUCK push:ok push:STUCK", 2),
        ("push? push=ok push? push=STUCK", 1),
    ],
)
def test_tolerates_a_deviation_only_when_it_is_certain(trace: str, tolerated: int) -> None:
    """A deviation is reported only if nothing else explains the observations."""
    machine = machine_of(edited(DOOR, '[event.warp]\nkind   = "hidden"', '[event.warp]\nkind   = "signal"'))
    judgement = judged(machine, seen(trace), fresh=True, profile="old")

    assert Holds() == judgement.verdict
    assert ([("lock-jams", tolerated)] if tolerated else []) == [
        (each.first.deviation.name, each.count) for each in judgement.tolerated
    ]


ANOTHER = """
[profile.old.cell.bolt-jams]
event    = "push"
about    = "The bolt jams, and not the lock."
deviates = "push-opens"
moves    = { WHERE = { to = "shut" } }
"""


@pytest.mark.parametrize(
    ("where", "trace", "tolerated"),
    [
        ("shut", "push:ok push:STUCK", [("lock-jams", "bolt-jams")]),
        ("ajar", "warp% push:ok push:STUCK", [("lock-jams", "bolt-jams")]),  # it depends on the position of the door
        ("ajar", "push:ok push:STUCK", [("lock-jams",)]),
        ("shut", "push:ok push:STUCK push:ok push:STUCK", [("lock-jams", "bolt-jams")] * 2),
    ],
)
def test_tolerates_one_of_several_deviations(where: str, trace: str, tolerated: list[tuple[str, ...]]) -> None:
    old = edited(DOOR, '[event.warp]\nkind   = "hidden"', '[event.warp]\nkind   = "signal"')
    old = edited(old, 'moves = { ajar = { to = "open", emits = ["Creak"] } }', 'moves = { open = { to = "open" } }')
    judgement = judged(machine_of(old + ANOTHER.replace("WHERE", where)), seen(trace), fresh=True, profile="old")

    assert Holds() == judgement.verdict
    assert tolerated == [
        (each.first.deviation.name, *(other.name for other in each.first.others))
        for each in judgement.tolerated
        for _ in range(each.count)
    ]


@pytest.mark.parametrize(
    ("trace", "tolerated"),
    [
        ("remove:ok stop+NOT_FOUND", []),  # the stop may have failed before
        ("remove:ok stop+ok", []),
        ("start+UNKNOWN stop+UNAVAILABLE", []),
        ("remove:ok stop+NOT_FOUND&absent stop:NOT_FOUND", ["stop-of-removed"] * 2),
        ("stop+NOT_FOUND", []),
        ("stop+NOT_FOUND&absent", ["stop-of-removed"]),
    ],
)
def test_tolerates_what_an_answer_deviates_in(trace: str, tolerated: list[str]) -> None:
    judgement = judged(load("container-status"), seen(trace), profile="containerd-1.6")

    assert not violations(judgement)
    assert tolerated == [each.first.deviation.name for each in judgement.tolerated for _ in range(each.count)]


def test_a_deviation_that_need_not_be_keeps_nobody_alive() -> None:
    """An entity is forgotten even if a deviation is possible, as long as the state is the same without the deviation.

    The door is shut in either case: the lock may have jammed, or the wind may have shut the door again.
    """
    monitor = Monitor(door(), fresh=True, profile="old")
    monitor.feed(seen("push:ok"), range(1))
    assert ["e"] == remembered(monitor, ALIVE)
    monitor.feed(seen("slam%  @CLOSED"), range(2))

    assert [] == remembered(monitor, ALIVE)
    assert () == monitor.judgement().tolerated


# -- calls that overlap, are abandoned, or are interrupted ----------------------------------------


@pytest.mark.parametrize("order", ["start=ok start=UNKNOWN", "start=UNKNOWN start=ok"])
@pytest.mark.parametrize("middle", ["@WAITING", "@RUNNING", ""])
def test_calls_that_overlap_act_in_any_order(order: str, middle: str) -> None:
    """Exactly one of two starts succeeds, whichever reply comes first."""
    before = f"make:ok start? start? {middle}"

    assert first_violation(job(), seen(f"{before} {order} @RUNNING"), fresh=True) is None
    assert first_violation(job(), seen(f"{before} start=ok start=ok"), fresh=True) is not None


@pytest.mark.parametrize(
    ("trace", "violation"),
    [
        ("add? add? add? add=ok add=ok add=ok @n3", None),
        ("add? add? add? add=ok add=ok @n1", 5),
        ("add? add? reset? add=ok add=ok reset=ok @n2", None),
        ("add? add? reset? add=ok add=ok reset=ok @n0", None),
        ("add? reset=ok", None),  # the request for this reply was not recorded
        ("add? @n1 reset:ok add=ok @n1", 4),
        ("add? @n1 add=FULL", 2),
        ("add? add=ok&n0", None),
        ("add? add=ok&n1", 1),
        ("add:ok>tick", None),
        ("add:ok>tock", 0),
        ("add:", None),
        ("add? add= @n0", None),  # the reply is unknown: the call may have failed
    ],
)
def test_a_call_acts_between_its_request_and_its_reply(trace: str, violation: int | None) -> None:
    assert violation == first_violation(counter(), seen(trace), fresh=True)


@pytest.mark.parametrize(
    ("trace", "violation"),
    [
        ("add? add! @n0 @n1", None),
        ("add? add! @n0 @n0", None),
        ("add? add! add:ok @n0", 3),
    ],
)
def test_a_call_that_was_given_up_may_act_later_or_never(trace: str, violation: int | None) -> None:
    """An abandoned call stays in progress and may still act, although nobody waits for its reply."""
    assert violation == first_violation(counter(), seen(trace), fresh=True)


@pytest.mark.parametrize(
    ("trace", "violation"),
    [
        ("make:ok start? crash @WAITING @RUNNING", 4),
        ("make:ok start? @WAITING @RUNNING", None),
        ("make:ok start? @RUNNING crash @ENDED", None),
        ("make:ok start? crash start:ok @RUNNING", None),
        ("make:ok start? crash% @WAITING @RUNNING", None),
        ("make:ok start! crash @WAITING @RUNNING", 4),
    ],
)
def test_an_interruption_ends_the_calls_in_progress(trace: str, violation: int | None) -> None:
    assert violation == first_violation(job(), seen(trace), fresh=True)


@pytest.mark.parametrize(
    ("trace", "violation"),
    [
        ("make:ok start? @RUNNING exit start=GONE @ENDED", None),
        ("make:ok start? @RUNNING exit start=ok @ENDED", None),  # the call ended before the exit
        ("make:ok start? @RUNNING exit start=WEIRD", 4),
        ("make:ok start? @RUNNING start=GONE", 3),  # the exit was not observed
    ],
)
def test_a_call_that_others_moved_ends_as_its_new_state_has_it(trace: str, violation: int | None) -> None:
    """If another event has changed the state of the entity, the call ends as defined for the new state."""
    machine = machine_of(edited(JOB, STARTED, f'{STARTED}ended = {{ stays = true, reply = "GONE" }}\n'))

    assert violation == first_violation(machine, seen(trace), fresh=True)
    assert first_violation(job(), seen("make:ok start? @RUNNING exit start=WEIRD"), fresh=True) is None


def test_a_reply_after_an_interruption_is_noted() -> None:
    """An interruption ends a call. A later reply to it is noted, and violates nothing."""
    judgement = judged(job(), seen("make:ok start? crash start=ok"), fresh=True)

    assert (Holds(), {"reply without request": 1}) == (judgement.verdict, dict(judgement.notes))


@pytest.mark.parametrize(
    ("trace", "violation"),
    [
        ("add+FULL", 0),
        ("add:ok add:ok add:ok add+FULL", None),
        ("add:ok add+ok&n1", None),
        ("add:ok add+ok&n0", 1),
        ("add:ok add+ok&n2", 1),
    ],
)
def test_an_answer_may_have_met_any_state_of_the_life(trace: str, violation: int | None) -> None:
    assert violation == first_violation(counter(), seen(trace), fresh=True)


@given(machines(), st.integers(0, 10_000), st.randoms(use_true_random=False))
def test_never_fails_an_answer_whose_request_was_not_recorded(
    machine: Machine, seed: int, chance: random.Random
) -> None:
    """A legal trace is still legal if the requests of some of its calls are removed."""
    whole = list(simulate(machine, seed=seed, length=12))
    trace: list[Observation] = []
    for each in whole:
        asked = trace and trace[-1].phase == "request" and trace[-1].event == each.event
        if asked and each.phase == "reply" and chance.random() < 0.7:
            trace[-1] = msgspec.structs.replace(each, phase="answered", emits=None)
        elif asked and each.phase == "reply" and chance.random() < 0.5:
            trace[-1] = msgspec.structs.replace(each, phase="")
        else:
            trace.append(each)

    assert not trace or first_violation(machine, trace, fresh=True) is None


@pytest.mark.parametrize(
    ("trace", "violation"),
    [
        ("add+ok @n1", None),  # the call acted after all observed events
        ("add:ok add+ok @n1", None),  # or before all of them
        ("add:ok add+ok @n3", 2),
        ("add:ok add+ok@n3", 1),
        ("add+", None),  # the reply is unknown
        ("add:ok add+&n2", 1),
    ],
)
def test_an_answer_says_what_is_so_after_it(trace: str, violation: int | None) -> None:
    assert violation == first_violation(counter(), seen(trace), fresh=True)


def test_an_answer_may_have_met_what_a_whole_call_passed_through() -> None:
    machine = machine_of(
        edited(JOB, 'refuses = { "*" = ["EXISTS", "BUSY"] }', 'refuses = { checking = "CHECKED", "*" = "EXISTS" }')
    )

    assert first_violation(machine, seen("make:ok start:ok make+CHECKED"), fresh=True) is None
    assert 1 == first_violation(machine, seen("make:ok make+CHECKED"), fresh=True)


@pytest.mark.parametrize(
    ("trace", "violation"),
    [("add% @n1", None), ("add% @n0", None), ("add~ @n1 @n0", 2), ("add? add% add=ok @n2", None), ("add% @n1 add=FULL", None)],
)  # fmt: skip
def test_a_call_may_have_been_made(trace: str, violation: int | None) -> None:
    assert violation == first_violation(counter(), seen(trace), fresh=True)


# -- what is remembered, what is noted ---------------------------------------------------------------


@pytest.mark.slow
def test_forgets_the_dead(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fsm.monitor, "REMEMBERED", 1_000)
    monitor = Monitor(counter(), fresh=True)
    add, reset = seen("add:ok reset:ok")
    for number in range(200_000):
        name = f"e{number}"
        pair = [msgspec.structs.replace(add, entity=name), msgspec.structs.replace(reset, entity=name)]
        monitor.feed(pair, (2 * number + 1, 2 * number + 2))
    judgement = monitor.judgement()

    assert (Holds(), 200_000) == (judgement.verdict, judgement.entities)
    assert [] == remembered(monitor, ALIVE)
    assert 1_000 == len(remembered(monitor, RESTING))
    assert len(monitor._entities.slots) < 4_000  # noqa: SLF001


def test_forgets_the_dead_whose_calls_were_given_up() -> None:
    """An entity in its initial state is forgotten, even if an abandoned call may still act on it."""
    monitor = Monitor(counter(), fresh=True)
    trace = [each for number in range(50) for each in seen("add:ok reset? reset! reset:ok")]
    trace = [msgspec.structs.replace(each, entity=f"e{index // 4}") for index, each in enumerate(trace)]
    monitor.feed(trace, range(len(trace)))

    assert [] == remembered(monitor, ALIVE)


@pytest.mark.parametrize("fresh", [False, True])
def test_counts_an_entity_once(fresh: bool) -> None:  # noqa: FBT001  (a table's column)
    trace = seen("a/unheard a/unheard a/add:ok a/reset:ok a/add:ok a/reset:ok b/reset:ok b/reset:ok")

    assert 2 == judged(counter(), trace, fresh=fresh).entities


def test_notes_events_that_it_does_not_know() -> None:
    judgement = judged(counter(), seen("add:ok subtract:ok divide@n0"), fresh=True)

    assert (Holds(), {"unknown event": 2}) == (judgement.verdict, dict(judgement.notes))


def test_says_nothing_of_an_empty_trace() -> None:
    assert Unknown(why="nothing in the trace concerns this machine") == judged(counter(), []).verdict


def test_gives_up_and_says_so_when_too_many_calls_overlap(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(unobserved, "LIMIT", 50)
    judgement = judged(counter(to=9), seen("add? reset? " * 9), fresh=True)

    assert Unknown(why="too many calls overlap to try every order of them") == judgement.verdict


@pytest.mark.parametrize(("tried", "gives_up"), [(0, True), (100_000, False)])
def test_gives_up_where_all_steps_together_are_too_much_work(
    tried: int,
    gives_up: bool,  # noqa: FBT001  (a column of the table)
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The monitor gives up if all steps together are too much work, even if no single step is.

    The state becomes known again once fewer calls overlap.
    """
    monkeypatch.setattr(stepping, "TRIED", tried)
    monkeypatch.setattr(stepping, "FEW", 10)
    monkeypatch.setattr(stepping, "EACH", 1)
    overlapping = "add? reset? " * 6 + "add=ok reset=ok " * 6
    judgement = judged(counter(to=9), seen(overlapping + "reset:ok@n0 add:ok@n5"), fresh=True)

    assert gives_up == gave_up(judgement)
    assert 1 == len(violations(judgement))


@pytest.mark.parametrize(("calls", "gives_up"), [(4, True), (1_000, False)])
def test_calls_that_are_not_answered_are_work_too(
    calls: int,
    gives_up: bool,  # noqa: FBT001  (a column of the table)
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Unanswered calls count as work, because a large number of them makes every comparison slow."""
    monkeypatch.setattr(stepping, "TRIED", 100)
    monkeypatch.setattr(stepping, "FEW", 10)
    monkeypatch.setattr(stepping, "EACH", 1)
    monkeypatch.setattr(stepping, "CALLS", calls)
    judgement = judged(counter(to=1), seen("add? " * 40), fresh=True)

    assert gives_up == gave_up(judgement)


@pytest.mark.parametrize("limit", [*range(7, 40), 60, 100])
def test_explains_near_the_limit(limit: int, monkeypatch: pytest.MonkeyPatch) -> None:
    trace = seen("make:ok start? start=WEIRD start=WEIRD start? make:WEIRD")
    every = {each.line for each in violations(judged(job(), trace, fresh=True))}
    monkeypatch.setattr(unobserved, "LIMIT", limit)
    judgement = judged(job(), trace, fresh=True)

    assert every == {6}
    assert gave_up(judgement) or every == {each.line for each in violations(judgement)}


def test_counts_the_cells_that_were_certainly_met() -> None:
    covered = judged(counter(to=1), seen("add:ok add:FULL add:FULL reset:ok"), fresh=True).covered.cells

    assert {("add", "n0"): 1, ("add", "n1"): 2, ("reset", "n0"): 0, ("reset", "n1"): 1} == covered


def test_counts_the_same_when_it_has_to_make_room(monkeypatch: pytest.MonkeyPatch) -> None:
    trace = list(simulate(job(), seed=3, length=300, entities=4, overlap=2))
    expected = judged(job(), trace, fresh=True).covered.cells
    monkeypatch.setattr(stepping, "INTERNED", 5)

    assert expected == judged(job(), trace, fresh=True).covered.cells


def test_what_is_said_in_many_ways_is_not_remembered_for_ever(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stepping, "INTERNED", 50)
    monkeypatch.setattr(beliefs, "KEPT", 50)
    machine = job()
    monitor = Monitor(machine, fresh=True)
    trace = seen("make:ok " + " ".join(f"start:E{n}@WAITING make:W{n} unheard{n}" for n in range(300)))
    monitor.feed(trace, range(len(trace)))
    entities = monitor._entities  # noqa: SLF001  (memory is what is tested)
    held = {*map(entities.belief, entities.listed(ALIVE))}

    assert 300 == monitor.judgement().notes["unknown event"]
    assert max(len(each.next) for each in held) < 100
    remembered = shared(machine, None, None, outputs=False)
    assert max(len(remembered._kept), len(remembered._explained)) <= 50  # noqa: SLF001


def test_monitors_that_share_a_machine_judge_as_if_each_had_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    """Monitors that share a machine do not share results if their profiles differ or one observes less."""
    ways: list[dict[str, Any]] = [
        {"fresh": fresh, "profile": profile, "signals": signals, "outputs": outputs}
        for fresh in (True, False)
        for profile in (None, "old")
        for signals in (None, frozenset[str]())
        for outputs in (False, True)
    ]
    traces = [[*simulate(door(), seed=seed, length=40, entities=2)] for seed in range(3)]
    traces += [each[::-1] for each in traces]
    alone = [judged(door(), trace, **how) for how in ways for trace in traces]
    machine = door()
    together = [judged(machine, trace, **how) for how in ways for trace in traces]
    again = [judged(machine, trace, **how) for how in ways for trace in traces]
    monkeypatch.setattr(beliefs, "KEPT", 20)
    forgetful = [judged(machine, trace, **how) for how in ways for trace in traces]

    assert alone == together == again == forgetful
    assert len({str(each.verdict) for each in alone[: len(traces)]}) > 1


def test_a_machine_may_have_more_states_than_there_may_be_possibilities(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(unobserved, "LIMIT", 3)

    assert 1 == first_violation(counter(to=9), seen("@n7 @n8"))


def test_feeding_in_parts_changes_nothing() -> None:
    trace = list(simulate(door(), seed=4, length=100, entities=3))[::-1]
    parts = Monitor(door(), fresh=True)
    for index, each in enumerate(trace):
        parts.feed([each], [index + 1])

    assert judged(door(), trace, fresh=True) == parts.judgement()


def test_an_observation_of_nobody_is_of_everybody() -> None:
    everybody = Observation(event="crash")
    trace = [*seen("a/make:ok b/make:ok a/start? b/start?"), everybody, *seen("a/@RUNNING b/@WAITING")]

    assert [6] == [each.line for each in violations(judged(job(), trace, fresh=True))]


# -- one by one ----------------------------------------------------------------


@pytest.mark.parametrize("seed", range(20))
def test_observed_one_by_one_it_is_the_same_as_fed(seed: int) -> None:
    machine = job()
    trace = list(simulate(machine, seed=seed, length=30, entities=2, overlap=2))
    del trace[seed % len(trace)]
    trace.insert(seed * 7 % len(trace), trace[seed * 5 % len(trace)])
    whole, single = Monitor(machine, fresh=True), Monitor(machine, fresh=True)

    whole.feed(trace, range(1, len(trace) + 1))
    at_once = [each for seen in trace for each in single.observe(seen)]

    verdict = whole.judgement().verdict
    assert verdict == single.judgement().verdict
    findings = verdict.findings if isinstance(verdict, Illegal) else ()
    assert sum(each.count for each in findings) == len(at_once)
    kept = {(one.line, one.cause, one.illegal) for each in findings for one in each.first}
    assert kept <= {(each.line, each.cause, each.illegal) for each in at_once}


def test_an_observation_of_all_may_violate_several() -> None:
    monitor = Monitor(door(), fresh=True)
    for entity in ("a", "b"):
        assert () == monitor.observe(Observation(entity=entity, event="push", reply="ok"))

    found = monitor.observe(Observation(shows="nothing"))

    assert ["a", "b"] == [each.observation.entity for each in found]


def test_an_event_that_is_not_there_is_refused_at_once() -> None:
    """An unknown event is an error if a program passes it. In a recording, it may be unrelated to the machine."""
    with pytest.raises(ValueError, match="door has no event 'pusch'; it has push, remove, knock, slam, warp"):
        Monitor(door()).observe(Observation(entity="a", event="pusch", reply="ok"))


def test_a_reply_that_meets_a_state_the_machine_does_not_have_is_a_violation() -> None:
    """A reply with an unknown state is a violation, unless it uses the machine's word for an absent entity."""
    (violation,) = violations(judged(job(), seen("make:ok start:error&PAUSED"), fresh=True))

    assert (Cause.STATE, "PAUSED") == (violation.cause, violation.illegal)
    assert [] == violations(judged(door(), seen("push:ok push:ok&absent")))


def test_what_is_shared_lasts_while_it_is_used() -> None:
    used, unused = load("cri-pod"), replace(load("cri-pod"))
    first, other = (shared(each, None, None, outputs=False) for each in (used, unused))
    between = [replace(used) for _ in range(MACHINES)]
    for each in between:
        shared(each, None, None, outputs=False)
        assert shared(used, None, None, outputs=False) is first

    assert shared(unused, None, None, outputs=False) is not other


def test_observing_calls_the_callback_of_the_folder_too() -> None:
    """The callback is called once for each violation, and stays set."""
    monitor, called = Monitor(door(), fresh=True), list[object]()
    monitor.folder.found = called.append
    for _ in range(2):
        assert monitor.observe(Observation(entity="a", event="push", reply="GONE")) == (called[-1],)
    assert len(called) == 2
