"""Properties of machines with data are watched on recordings and in tests, with values that may be unknown."""

from __future__ import annotations

import random
import re
from collections import Counter
from typing import TYPE_CHECKING

import naive_data
import pytest
from machines import machine_of
from msgspec.structs import replace
from naive_data_properties import first_breach
from random_claims import random_property, stated
from random_data_machines import random_data_machine, random_data_trace
from test_data_in_recordings import ASK_1, ASK_2, LIFT, NO, OK, Step, going, lift, shown
from thorough import TIMES

from fsm.checker import decide
from fsm.errors import InputError
from fsm.machine.calls.belief import dynamics
from fsm.machine.calls.valued import ValuedTable, with_data
from fsm.machine.evidence import Proved
from fsm.machine.findings import Illegal
from fsm.machine.guards import DataEffects
from fsm.machine.simulation import simulate
from fsm.machine.table import tabulate
from fsm.monitor import Monitor
from fsm.monitor.judgement.properties import UNDECIDED, PropertyWatch
from fsm.monitor.property_watch import automata

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from fsm.machine import Machine
    from fsm.machine.claims import Property
    from fsm.machine.conditions import Condition
    from fsm.machine.findings import Judgement
    from fsm.machine.terms import Values
    from fsm.trace import Observation


def judged(machine: Machine, of: Property, trace: Sequence[Observation], *, fresh: bool = True) -> Judgement:
    watch = PropertyWatch([of], dynamics(with_data(tabulate(machine))), profile=None, fresh=fresh, file="trace")
    monitor = Monitor(machine, fresh=fresh, file="trace")
    monitor.violated = watch.violated
    for each in (monitor, watch):
        each.feed(trace, range(1, len(trace) + 1))
    return watch.added_to(Monitor(machine).judgement())


def breach(machine: Machine, of: Property, trace: Sequence[Observation]) -> int | None:
    """Return the index of the first observation that breaks the property."""
    verdict = judged(machine, of, trace).verdict
    return min(each.first[0].line for each in verdict.findings) - 1 if isinstance(verdict, Illegal) else None


def random_state_condition(chance: random.Random, machine: Machine) -> str:
    """Return a condition on the state and the data that both the grammar and, after :func:`in_python`, Python read."""
    parts = []
    for _ in range(chance.choice((1, 1, 2))):
        name = chance.choice([*machine.data, "state"])
        match name:
            case "state":
                part = f"is {chance.choice([*machine.states])}"
            case "p":
                part = f"p == {chance.choice(('true', 'false'))}"
            case "m":
                part = f"m {chance.choice(('==', '!='))} {chance.choice(('red', 'blue'))}"
            case _:
                others = [each for each in machine.data if each in {"n", "t"} and each != name]
                part = f"{name} {chance.choice(('==', '!=', '<', '<=', '>', '>='))} {chance.choice([*others, '0', '1', '2'])}"
        parts.append(f"not ({part})" if chance.random() < 0.2 else part)
    return chance.choice((" and ", " or ")).join(parts)


def in_python(condition: str) -> str:
    return re.sub(r"is (s\d)", r"at == '\1'", condition)


def compared(seeds: range, *, vague: bool) -> Counter[str]:
    """Count how often the watch and the naive interpreter find the same first breach in random traces."""
    found = Counter[str]()
    for seed in seeds:
        chance = random.Random(f"breach {seed}")
        machine = random_data_machine(chance, vague=vague)
        trace = random_data_trace(chance, machine, vague=vague)
        if vague:  # many values are unknown
            trace = [replace(each, args=None) if chance.random() < 0.4 else each for each in trace]
        sequence = [random_state_condition(chance, machine) for _ in range(chance.choice((1, 1, 2, 2, 3)))]
        until = random_state_condition(chance, machine) if len(sequence) > 1 and chance.random() < 0.5 else ""
        claim = f'never = "{" then ".join(f"({each})" for each in sequence)}"' + (
            f'\nuntil = "{until}"' if until else ""
        )
        if len(sequence) == 1 and chance.random() < 0.5:
            claim = f'always = "not ({sequence[0]})"'
        try:
            expected, legal = first_breach(machine, [*map(in_python, sequence)], in_python(until), trace)
        except naive_data.TooWideError:
            continue
        index = breach(machine, stated(machine, claim), trace[:legal])
        found[naive_data.agreement(index, expected)] += 1
        found["broken"] += expected is not None
    return found


@pytest.mark.slow
def test_known_values_are_watched_like_a_naive_interpreter_watches_them() -> None:
    """Without missing arguments, hidden events and silent cells, every breach is found at the same observation."""
    found = compared(range(100 * TIMES), vague=False)

    print(dict(found))  # noqa: T201  (the figures show how much was compared)
    assert (0, 0) == (found["missed"], found["false"])
    assert found["broken"] >= 25 * TIMES
    assert found["same"] - found["broken"] >= 25 * TIMES


@pytest.mark.slow
def test_unknown_values_cause_no_false_breach() -> None:
    """A breach is missed only if values are unknown, and this is rare."""
    found = compared(range(1_000, 1_000 + 100 * TIMES), vague=True)

    print(dict(found))  # noqa: T201
    assert found["false"] == 0
    assert found["missed"] * 10 <= found["broken"]
    assert found["broken"] >= 25 * TIMES


def unknown_as_true(self: DataEffects, condition: Condition) -> Callable[[Values], bool | None]:
    test = TEST(self, condition)
    return lambda values: test(values) is not False


def without_arguments(_: ValuedTable, row: int, given: object) -> int:  # noqa: ARG001
    return row


TEST = DataEffects.test


@pytest.mark.slow
@pytest.mark.parametrize(
    ("owner", "name", "defect", "vague"),
    [(DataEffects, "test", unknown_as_true, True), (ValuedTable, "placed", without_arguments, False)],
)
def test_the_comparison_finds_planted_defects(
    owner: type, name: str, defect: Callable[..., object], monkeypatch: pytest.MonkeyPatch, *, vague: bool
) -> None:
    """Unknown comparisons that count as true, and lost arguments are found."""
    monkeypatch.setattr(owner, name, defect)
    assert compared(range(1_000, 1_100), vague=vague)["false" if vague else "missed"]


@pytest.mark.slow
def test_what_is_proved_is_never_broken_by_what_the_machine_does() -> None:
    """Simulated traces break no proved property of any kind, and many of the properties that are not proved."""
    kinds = Counter[str]()
    for seed in range(80 * TIMES):
        chance = random.Random(f"proved {seed}")
        machine = random_data_machine(chance)
        try:
            of = random_property(chance, machine, ("idempotent", "always", "never", "never"))
        except InputError:  # words are compared with numbers
            continue
        verdict, table = decide(of, tabulate(machine)).verdict, tabulate(machine)
        scope = table.data and table.data.scope  # the simulator also tries values beyond it
        for number in range(2):
            overlap, fresh = chance.randint(1, 2), bool(number)
            trace = [*simulate(machine, seed=seed + number, length=8, overlap=overlap)]
            broken = isinstance(judged(machine, of, trace, fresh=fresh).verdict, Illegal)
            kinds[f"proved {isinstance(verdict, Proved)}, broken {broken}"] += 1
            assert not (isinstance(verdict, Proved) and broken and not scope), (seed, of)

    print(dict(kinds))  # noqa: T201
    assert kinds["proved False, broken True"] >= 10 * TIMES


UNKNOWN: Step = ("go", {"reply": "ok"})
NOT_AT_2 = 'always = "floor != 2"'


@pytest.mark.parametrize(
    ("claim", "steps", "answer"),
    [
        (NOT_AT_2, [ASK_2, OK], (2, "violated")),
        (NOT_AT_2, [ASK_1, OK], (None, "holds")),
        (NOT_AT_2, [UNKNOWN], (None, "unknown")),
        (NOT_AT_2, [UNKNOWN, shown(2)], (2, "violated")),
        ('always = "not (floor == 2)"', [UNKNOWN], (None, "unknown")),
        ('always = "floor >= 0 or floor < 0"', [UNKNOWN], (None, "unknown")),
        ('always = "full == true or full == false"', [UNKNOWN], (None, "holds")),
        ('never = "floor == 1 then floor == 2"', [going(1), going(2)], (2, "violated")),
        ('never = "floor == 1 then floor == 2"', [going(2), going(1)], (None, "not exercised")),
        ('never = "floor == 1 then floor == 2"', [going(1), going(3)], (None, "holds")),
        ('never = "floor == 1 then floor == 2"\nuntil = "floor == 3"', [going(1), going(3), going(2)], (None, "holds")),
        ('never = "floor == 1 then floor == 2"', [going(1), UNKNOWN], (None, "unknown")),
        ('never = "is moving"', [ASK_2, ("", {"shows": "moving"})], (2, "violated")),
        ('idempotent = "go"', [going(1), ASK_1, NO], (None, "unknown")),  # perhaps somebody left in between
        ('idempotent = "go"', [going(1), ASK_2, OK], (None, "not exercised")),
    ],
)
def test_properties_of_a_lift(claim: str, steps: list[Step], answer: tuple[int | None, str]) -> None:
    """Values are compared after each step, and a property is unknown if a missing argument decides it."""
    machine = machine_of(LIFT)
    found = judged(machine, stated(machine, claim), lift(*steps))
    lines = [each.first[0].line for each in found.verdict.findings] if isinstance(found.verdict, Illegal) else [None]
    assert (lines, found.properties[0].status) == ([answer[0]], answer[1])
    assert (found.properties[0].why == UNDECIDED) == (answer[1] == "unknown")


@pytest.mark.parametrize(
    ("owner", "name", "defect", "claim", "steps"),
    [
        (automata, "certainly", lambda condition: condition, 'always = "floor == 0 or full == true"', [UNKNOWN]),
        (automata.Passing, "at_state", lambda _, progress, __: progress, NOT_AT_2, [UNKNOWN, shown(2)]),
    ],
)
def test_defects_change_the_answer(
    owner: object, name: str, defect: object, claim: str, steps: list[Step], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A negated comparison of an unknown value does not hold, and values that become known decide a claim."""
    machine = machine_of(LIFT)
    of = stated(machine, claim)
    before = breach(machine, of, lift(*steps))
    monkeypatch.setattr(owner, name, defect)
    assert before != breach(machine, of, lift(*steps))
