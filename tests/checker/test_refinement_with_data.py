"""Comparisons of machines with data agree with a second opinion on the unrolled machines."""

from __future__ import annotations

import random
from collections import Counter
from dataclasses import replace
from typing import TYPE_CHECKING, Final

import msgspec
import naive_data
import naive_equivalence
import pytest
from data_pairs import DataPair, changed, random_data_pair, second_opinion, shown_by, unrolled
from machines import SAFE, edited, machine_of
from naive_equivalence import Watched, shortest
from random_claims import stated
from random_data_machines import random_data_text
from test_data import COUNT, HEAD, KEEP, TAKEN
from thorough import TIMES

from fsm.checker import decide, enumerated, examine, refinement
from fsm.checker.breadth_first import Limit
from fsm.checker.equivalence import bisimilar, compare
from fsm.checker.refinement import check_refines
from fsm.errors import InputError
from fsm.machine.calls.unobserved import TooManyError
from fsm.machine.claims import Follows, Refines, Specification
from fsm.machine.evidence import Branching, Distinguished, Equivalent, Proved, Refuted, Unexplained
from fsm.machine.table import tabulate
from fsm.machine.traversal import LimitError
from fsm.report.check_report import text
from fsm.report.layout import Layout
from fsm.trace import Observation
from fsm.verdict import Unknown

if TYPE_CHECKING:
    from fsm.machine import Machine
    from fsm.machine.claims import Property
    from fsm.machine.evidence import Checked, Conclusion, EquivalenceResult, Run

LIMIT = Limit(states=3_000)
MOST_SITUATIONS = 50


def refined(pair: DataPair, limit: Limit = LIMIT) -> Conclusion:
    return check_refines(tabulate(pair.machine), tabulate(pair.other), pair.overlap, limit)[0]


def agreed(pair: DataPair, *, most: int) -> str:
    """Return the answer.  Fail if the second opinion disagrees, also about the length of the counterexample."""
    conclusion = refined(pair)
    if isinstance(conclusion, Unknown) and not {*shown_by(pair.other)} <= {*shown_by(pair.machine)}:
        return "unknown"
    length, far = second_opinion(pair).shortest(most=most)
    if not isinstance(conclusion, Refuted):
        assert length is None
        return "refines"
    assert length == conclusion.length or (length is None and far < conclusion.length)
    assert isinstance(conclusion.evidence, Unexplained)
    trace = counterexample(pair, conclusion.evidence.run)
    if trace is not None:
        try:
            assert naive_data.first_unexplained(pair.machine, trace) is None
            assert naive_data.first_unexplained(pair.other, trace) == len(trace) - 1
        except naive_data.TooWideError:
            return "fails"
    return "fails"


def counterexample(pair: DataPair, run: Run) -> list[Observation] | None:
    """Return what is observed of *run*, or ``None`` if it interrupts calls, which cannot be observed."""
    found, shown = [], shown_by(pair.other)
    for each in run.steps:
        event = pair.machine.events.get(each.event)
        data = (text.split(" = ") for text in each.data)
        if event is None:
            fields = {name: pair.machine.data[name].read(value) for name, value in data if name in shown}
            found.append(Observation(shows=pair.machine.states[each.target].shows, fields=fields or None))
        elif event.interrupts:
            return None
        elif each.phase or event.kind == "signal":
            given = dict(text.split(" = ") for text in each.given)
            args = {name: event.arguments[name].read(value) for name, value in given.items()}
            args = args if each.phase != "reply" else {}
            found.append(Observation(event=event.name, phase=each.phase, reply=each.reply, args=args or None))
    return [msgspec.structs.replace(each, entity="e") for each in found]


@pytest.mark.slow
@pytest.mark.parametrize("first", range(0, 60, 10))
def test_random_machines_with_data_refine_alike(first: int) -> None:
    found: Counter[str] = Counter()
    for seed in range(first * TIMES, (first + 10) * TIMES):
        try:
            found[agreed(random_data_pair(random.Random(seed)), most=100)] += 1
        except (LimitError, TooManyError):  # for which ``decide`` returns Unknown
            found["too large"] += 1

    assert min(found["refines"], found["fails"]) >= 1


@pytest.mark.slow
@pytest.mark.parametrize("first", range(0, 120, 40))
def test_random_machines_with_data_are_equivalent_alike(first: int) -> None:
    found: Counter[bool] = Counter()
    for seed in range(first * TIMES, (first + 40) * TIMES):
        pair = random_data_pair(random.Random(seed))
        plain = [unrolled(each, shown_by(each)) for each in (pair.machine, pair.other)]
        watched = Watched(plain[0], plain[1]), Watched(plain[1], plain[0])
        if sum(len(each.all()) for each in watched) > MOST_SITUATIONS:
            continue
        result = compared(pair.machine, pair.other)
        alike = naive_equivalence.bisimilar(*watched)
        found[alike] += 1

        assert isinstance(result, Equivalent) == alike
        assert bisimilar(tabulate(pair.machine), tabulate(pair.other)) == alike
        if isinstance(result, Distinguished | Branching):
            assert shortest(*watched) == (len(result.trace) if isinstance(result, Distinguished) else None)

    assert len(found) == 2


def compared(one: Machine, other: Machine) -> EquivalenceResult:
    return compare(tabulate(one), tabulate(other))


# -- worked out by hand ----------------------------------------------------------

LOUD = edited(KEEP, "n = { from = 0, to = 2 }", "n = { from = 0, to = 2, shown = true }")
"""A machine that shows the number that it keeps."""
QUICK = edited(COUNT, "scope = true }", "scope = true, shown = true }")
"""A counter with a scope, which is shown."""
PLANTED = {
    "guard": (SAFE, edited(SAFE, "failures < 2", "failures < 1"), 6),
    "update": (LOUD, edited(LOUD, 'n = "x"', 'n = "max(x, 1)"'), 3),
    "initial value": (LOUD, edited(LOUD, "shown = true", "shown = true, initial = 1"), 1),
    "stored argument": (TAKEN, edited(TAKEN, "x == 2 and n == 1", "x == 1 and n == 1"), 8),
    "counter": (QUICK, edited(QUICK, "n + 1", "max(n + 1, 2)"), 2),
}
"""A machine, a machine with an error, and the length of the shortest run that shows the error."""
MANY = """moves = { on = [
  { name = "last", to = "off", when = "n > 4" },
  { name = "more", stays = true, when = "otherwise", set = { n = "n + 1" } },
] }"""


def _scoped(text: str, high: int) -> Machine:
    return machine_of(text.replace("to = 2, scope", f"to = {high}, scope"))


OFF = f"""{HEAD}
[event.tick]
about = "May turn it off."
moves = {{ on = [{{ name = "last", to = "off" }}, {{ name = "more", to = "on" }}] }}
ignores = ["off"]
"""
HIDDEN = f"""{HEAD}
[data]
n = {{ from = 0, to = 2, scope = true }}
[event.tune]
kind = "hidden"
about = "Keeps a number."
arguments = {{ x = {{ from = 0, to = 2, scope = true }} }}
moves = {{ on = {{ stays = true, set = {{ n = "x" }} }} }}
cannot = ["off"]
"""
TIMED = f"""{HEAD}
[event.late]
about = "It took too long."
moves = {{ on = "off" }}
cannot = ["off"]
[timer.wait]
about = "Waits."
in = ["on"]
event = "late"
after = "1 min"
tolerance = "1 s"
"""
LEVELS = f"""{HEAD}
[data]
n = {{ from = 0, to = 2 }}
[event.level]
about = "Rises, or the level is off."
arguments = {{ x = {{ from = 0, to = 2 }} }}
moves.on = [
  {{ name = "high", stays = true, when = "x > n", set = {{ n = "x" }} }},
  {{ name = "none", to = "off", when = "otherwise" }},
]
cannot = ["off"]
"""


@pytest.mark.parametrize("name", PLANTED)
def test_a_planted_error_is_found(name: str) -> None:
    *texts, length = PLANTED[name]
    right, wrong = (machine_of(str(each)) for each in texts)
    found = refined(DataPair(wrong, right, 1))

    assert isinstance(refined(DataPair(right, right, 1)), Proved)
    assert isinstance(refined(DataPair(wrong, wrong, 1)), Proved)
    assert isinstance(found, Refuted)
    assert found.length == length


def decided(claim: Refines | Follows, text: str) -> Checked:
    machine = machine_of(text)
    return decide(replace(stated(machine, 'always = "stays"'), claim=claim), tabulate(machine))


def refines(machine: Machine, other: str) -> Property:
    return replace(stated(machine, 'always = "stays"'), claim=Refines(other=machine_of(other)))


@pytest.mark.parametrize(
    ("text", "other", "why"),
    [
        (KEEP, LOUD, "toy shows 'n', which toy does not declare as shown"),
        (edited(LOUD, "from = 0, to = 2, shown", 'type = "bool", shown').replace("from = 0, to = 2", 'type = "bool"'),
         LOUD, "'n' is true or false in toy, but an integer from 0 to 2 in toy"),
        (KEEP, edited(KEEP, "x =", "y =").replace('"x"', '"y"'),
         "toy reads the argument 'y' of 'keep', which toy does not have"),
        (edited(HIDDEN, "hidden", "signal"), HIDDEN,
         "the argument 'x' of 'tune' in toy is unobserved and may be beyond its scope"),
        (TIMED, KEEP, "toy has timers, and machines are compared without times"),
        (KEEP, TIMED, "toy has timers, and machines are compared without times"),
    ],
)  # fmt: skip
def test_the_reason_is_given_if_machines_cannot_be_compared(text: str, other: str, why: str) -> None:
    verdict = decided(Refines(other=machine_of(other)), text).verdict

    assert (verdict.why if isinstance(verdict, Unknown) else "") == why


def test_the_report_shows_arguments_and_values() -> None:
    right, wrong, _ = PLANTED["update"]
    machine = machine_of(str(wrong))
    asked = Specification(machine=machine, properties=(refines(machine, str(right)),))

    said = " ".join(text([examine(asked)], Layout(width=100)).split())

    assert "1 keep (x = 0) is asked on, n = 0 2 keep (x = 0) (done) on, n = 1 3 state observed on, n = 1" in said
    assert "on, n = 1 is shown, which toy does not allow in on, n = 0" in said


def test_a_variable_that_only_the_machine_shows_is_ignored() -> None:
    assert isinstance(decided(Refines(other=machine_of(KEEP)), LOUD).verdict, Proved)


def test_a_scope_is_part_of_the_answer() -> None:
    """A single step of the counter leads from 2 to 3."""
    found = decided(Refines(other=machine_of(QUICK)), QUICK)

    assert isinstance(found.verdict, Proved)
    assert found.scope == ("n from 0 to 2",)
    assert found.cut == 1


def test_a_scope_of_the_other_machine_is_part_of_the_answer() -> None:
    """Without data, the machine may tick for ever, and the counter leaves its scope at the third tick."""
    idle = edited(edited(COUNT, "[data]\nn = { from = 0, to = 2, scope = true }\n", ""), MANY, 'moves = { on = "on" }')
    found = decided(Refines(other=machine_of(COUNT)), idle)

    assert isinstance(found.verdict, Proved)
    assert (found.scope, found.cut) == (("n from 0 to 2",), 1)
    assert isinstance(decided(Refines(other=machine_of(edited(COUNT, "n > 4", "n > 1"))), OFF).verdict, Refuted)


@pytest.mark.slow
@pytest.mark.parametrize("first", range(0, 40, 20))
def test_a_wider_scope_finds_no_fewer_errors(first: int) -> None:
    found: Counter[bool] = Counter()
    for seed in range(first * TIMES, (first + 20) * TIMES):
        text = random_data_text(random.Random(seed))
        other = changed(random.Random(seed), text)
        try:
            answers = [refined(DataPair(_scoped(text, high), _scoped(other, high), 1)) for high in (1, 2)]
        except (InputError, LimitError, ValueError):
            continue
        if isinstance(answers[0], Refuted):
            assert isinstance(answers[1], Refuted)
            assert answers[1].length <= answers[0].length
        found[isinstance(answers[0], Refuted)] += 1

    assert len(found) == 2


@pytest.mark.parametrize(
    ("text", "other", "length"),
    [
        (LEVELS, LEVELS, None),
        (edited(LEVELS, "x > n", "x >= n"), LEVELS, 2),
        (edited(LEVELS, '"x"', "0"), LEVELS, 3),
    ],
)  # fmt: skip
def test_outputs_and_signals_follow_a_machine_with_data(text: str, other: str, length: int | None) -> None:
    verdict = decided(Follows(other=machine_of(other)), text).verdict

    assert (verdict.length if isinstance(verdict, Refuted) else None) == length
    assert isinstance(verdict, Refuted if length else Proved)


@pytest.mark.parametrize(
    ("one", "other"), [(right, wrong) for right, wrong, _ in PLANTED.values() if right is not QUICK]
)
def test_a_planted_error_distinguishes_machines(one: str, other: str) -> None:
    first, second = machine_of(one), machine_of(other)

    assert isinstance(compared(first, first), Equivalent)
    assert isinstance(compared(first, second), Distinguished)
    assert not bisimilar(tabulate(first), tabulate(second))


def test_machines_are_not_equivalent_only_within_a_scope_of_a_variable() -> None:
    found = compared(machine_of(QUICK), machine_of(QUICK))

    assert isinstance(found, Unknown)
    assert found.why == "a step leads out of a scope: n from 0 to 2"


def test_equivalence_within_a_scope_of_an_argument_says_so() -> None:
    found = compared(machine_of(SAFE), machine_of(SAFE))

    assert isinstance(found, Equivalent)
    assert found.scope == ("code from 0 to 3",)


DEFECTS: Final[dict[str, tuple[object, str, object]]] = {
    "shown values are not compared": (enumerated.EnumeratedTable, "visible", lambda *_: {}),
    "arguments are not observed": (refinement.BeliefTable, "arguments", lambda *_: frozenset()),
    "no value is beyond a scope": (enumerated.EnumeratedTable, "within", lambda *_: True),
    "all values are beyond a scope": (enumerated.EnumeratedTable, "within", lambda *_: False),
}


@pytest.mark.parametrize("name", DEFECTS)
def test_a_defect_of_the_engine_changes_an_answer(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    def answers() -> list[object]:
        refinement._beliefs.cache_clear()  # noqa: SLF001
        pairs = [(wrong, right) for right, wrong, _ in PLANTED.values()] + [(QUICK, QUICK)]
        found = [decided(Refines(other=machine_of(other)), text) for text, other in pairs]
        return [(type(each.verdict), getattr(each.verdict, "length", 0), each.cut) for each in found]

    right = answers()
    monkeypatch.setattr(*DEFECTS[name])

    assert answers() != right
    monkeypatch.undo()
    assert answers() == right


WIDE = f"""{HEAD}
[data]
n = {{ from = 0, to = 30000 }}
[event.put]
kind = "call"
about = "Keeps a truth value, or whatever it likes."
arguments = {{ x = {{ type = "bool" }} }}
moves.on = [
  {{ name = "one", stays = true, when = "x", set = {{ n = 1 }} }},
  {{ name = "none", stays = true, when = "otherwise", set = {{ n = 0 }} }},
]
GROUP = ["off"]
[event.shut]
about = "It is turned off, and calls are lost."
interrupts = true
moves = {{ on = "off" }}
cannot = ["off"]
"""


def test_many_values_after_silence_are_unknown() -> None:
    """Equivalence does not need the values after unspecified behaviour."""
    silent, certain = WIDE.replace("GROUP", "silent"), WIDE.replace("GROUP", "ignores")
    verdict = decided(Refines(other=machine_of(silent)), silent).verdict

    assert isinstance(verdict, Unknown)
    assert verdict.why == "too many calls overlap, or too many values are possible, to try them all"
    assert isinstance(decided(Refines(other=machine_of(certain)), certain).verdict, Proved)
    assert isinstance(compared(machine_of(silent), machine_of(silent)), Equivalent)
    assert isinstance(compared(machine_of(silent), machine_of(certain)), Distinguished)
