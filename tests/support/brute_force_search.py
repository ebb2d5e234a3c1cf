"""Compare the engines with a brute-force search on random properties, and report each disagreement.

``python tests/support/brute_force_search.py COUNT SEED`` tries COUNT random properties. Without SEED, a random seed
is chosen and printed. Each disagreement has a seed of its own, and can be reproduced with a command such as ``python
tests/support/brute_force_search.py 1 machine/SEED/17``.
"""

from __future__ import annotations

import random
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Final, TypeAlias

import naive
import naive_linearizability
import pytest
import random_claims
import random_data
import random_machines
import random_systems
from brute_force.claims import Answer, Decider, Search
from brute_force.conditions import codes_named
from brute_force.data import DataModel, texts
from brute_force.replay import replayed
from brute_force.steps import MachineModel, Runs, SystemModel
from machines import machine_of
from naive_refinement import Refining
from random_histories import random_history
from toy_systems import stated_of

from fsm.checker import decide, instants, packing, stepping_of
from fsm.checker.breadth_first import Limit
from fsm.checker.cones import Cones
from fsm.checker.refinement import check_refines
from fsm.errors import InputError
from fsm.linearizability import linearize
from fsm.machine import Machine
from fsm.machine.claims import Counts, Follows, Property, conditions_of
from fsm.machine.evidence import Checked, Conclusion, Proved, Refuted, Run, Vacuous
from fsm.machine.findings import Illegal
from fsm.machine.in_progress import InProgress, in_progress
from fsm.machine.product import SystemTable
from fsm.machine.product.reduction import Influence
from fsm.machine.product.system import System
from fsm.machine.table import tabulate
from fsm.machine.traversal import LimitError, closure
from fsm.monitor import Monitor
from fsm.mutation import mutants
from fsm.verdict import Holds

if TYPE_CHECKING:
    from brute_force.steps import Model

LARGEST: Final = 150

TOGETHER: Final = 20

Subject: TypeAlias = Machine | System


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    origin: str
    subject: Subject
    overlap: int
    stated: tuple[Property, ...]

    @property
    def model(self) -> Model:
        if isinstance(self.subject, Machine) and self.subject.data:
            return DataModel(self.subject, self.overlap)
        if isinstance(self.subject, Machine):
            return MachineModel(self.subject, self.overlap)
        return SystemModel(self.subject, self.overlap)


@dataclass(frozen=True, slots=True, kw_only=True)
class Tried:
    count: int
    disagreements: tuple[str, ...] = ()


Kind: TypeAlias = Callable[[str], Tried]
"""A function that generates some properties from a seed, and compares both verdicts on each of them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Engine:
    """The options with which the checker is called.

    A *folded* engine treats copies as interchangeable. An engine with *cones* searches the parts on which a claim
    depends before it searches the whole system.
    """

    folded: bool = False
    compiled: bool = False
    cones: bool = False

    @contextmanager
    def asked(self, subject: Subject, overlap: int) -> Iterator[Asked]:
        with self._chosen():
            stepping = stepping_of(subject, overlap=overlap)
            if isinstance(stepping, Cones):
                yield Asked(stepping, instants.StepCache(SystemTable(stepping.system, tables=stepping.tables)))
            else:
                yield Asked(stepping, stepping)

    @contextmanager
    def _chosen(self) -> Iterator[None]:
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(packing, "FEW", 0 if self.folded else 10**9)
            patch.setattr(packing, "SMALL", 0)
            patch.setattr(packing, "UNCOMPILED", 0)
            if not self.cones:
                patch.setattr(Influence, "_cone", lambda self, *_: frozenset(range(len(self._system.copies))))
            if not self.compiled:
                patch.setattr(instants, "packed", lambda _: None)
            yield


@dataclass(frozen=True, slots=True)
class Asked:
    stepping: Cones | instants.StepCache
    whole: instants.StepCache

    def checked(self, stated: Property) -> Checked:
        return decide(stated, self.stepping)

    def size(self) -> Counts:
        return self.whole.size(Limit(states=10**6))


PLAIN: Final = Engine()
ENGINES: Final[Mapping[str, Engine]] = {
    "plain": PLAIN,
    "folded": Engine(folded=True),
    "compiled": Engine(compiled=True),
    "folded and compiled": Engine(folded=True, compiled=True),
    "cones": Engine(cones=True),
}


def lively_machine(chance: random.Random) -> Machine:
    """Return a random machine, usually one that can have many calls in progress."""
    found = [random_machines.random_machine(chance) for _ in range(3)]
    return max(found, key=_liveliness) if chance.random() < 0.8 else found[0]


def _liveliness(machine: Machine) -> int:
    runs = Runs(MachineModel(machine))
    return sum(1 + 2 * len(calls) for here in runs.steps for _, calls in here)


def machine_case(origin: str) -> Case:
    chance = random.Random(origin)
    machine = lively_machine(chance)
    texts = [machine_claim(chance, machine) for _ in range(TOGETHER)]
    stated = tuple(random_claims.stated(machine, text) for text in texts)
    return Case(origin=origin, subject=machine, overlap=chance.choice((1, 1, 2)), stated=stated)


def data_case(origin: str) -> Case | None:
    """Generate a random machine with data and claims about it, or return ``None`` if it is too large."""
    chance = random.Random(origin)
    machine = random_data.random_data_machine(chance)
    case = Case(origin=origin, subject=machine, overlap=chance.choice((1, 2, 2)), stated=())
    try:
        found = Runs(case.model, most=LARGEST).steps
    except OverflowError:
        return None
    if len(found) < 4 and chance.random() < 0.9:
        return None
    claims = [machine_claim(chance, machine) for _ in range(TOGETHER)]
    return replace(case, stated=tuple(random_claims.stated(machine, text) for text in claims))


def machine_claim(chance: random.Random, machine: Machine) -> str:
    text = random_claims.random_claim(chance, machine)
    if text.startswith("always") and chance.random() < 0.3:
        other = random_claims.random_claim(chance, machine, ("always",))
        first, second = (each.partition("\n")[0].removeprefix("always = ") for each in (text, other))
        text = text.replace(first, f"[{first}, {second}]", 1)
    if text.startswith("reachable") and chance.random() < 0.3:
        states = [*machine.states, "*"]
        text += f"\nfrom-each = {chance.sample(states, chance.randint(1, 2))}"
    return text


SYSTEM_CLAIMS: Final = ("idempotent", "always", "never", "never", "reachable", "leads-to")


def system_case(origin: str, kinds: tuple[str, ...] = SYSTEM_CLAIMS) -> Case | None:
    """Generate a random system and claims about it, or return ``None`` if the system is too large."""
    chance = random.Random(origin)
    copies, apart = chance.choice((2, 2, 3)), chance.choice((0, 0.7))
    text, machines = random_systems.random_text(chance, copies, lively_machine, apart=apart)
    if chance.random() < 0.6:
        text = random_systems.with_more_words(chance, text, machines)
    try:
        system = random_systems.system_of(text, machines)
    except InputError:  # the claim makes no sense
        return None
    case = Case(origin=origin, subject=system, overlap=chance.choice((1, 1, 2)), stated=())
    try:
        found = Runs(case.model, most=LARGEST).steps
    except OverflowError:
        return None
    if len(found) < 3 and chance.random() < 0.8:
        return None
    stated = []
    for _ in range(TOGETHER):
        try:
            stated.append(stated_of(system, system_claim(chance, system, kinds)))
        except InputError:  # the claim makes no sense
            continue
    return replace(case, stated=tuple(stated))


def system_claim(chance: random.Random, system: System, kinds: tuple[str, ...]) -> str:
    text = random_systems.random_claim_text(system, chance, kinds)
    if chance.random() < 0.2:
        text = text.partition("\n")[2]  # claims without 'for'
    if chance.random() < 0.2:
        text = text.replace("emits x", "tells x").replace("emits y", "tells y")
    return text


def verdict_of(conclusion: Conclusion) -> str:
    match conclusion:
        case Proved():
            return "holds"
        case Refuted():
            return "fails"
        case Vacuous():
            return "vacuous"
        case _:
            return "unknown"


def disagreement(answer: Answer, checked: Checked, runs: Runs, stated: Property) -> str:
    found = verdict_of(checked.verdict)
    if found != answer.verdict:
        return f"{found}, and by brute force {answer.verdict}"
    match checked.verdict:
        case Refuted(evidence=Run() as run):
            if answer.length is not None and run.length != answer.length:
                return f"fails in {run.length} steps, and by brute force in {answer.length}"
            return replayed(runs, stated.claim, run)
        case Proved(witnesses=witnesses) if answer.witnesses:
            lengths = tuple(run.length for run in witnesses)
            return (
                "" if lengths == answer.witnesses else f"witnesses of {lengths}, by brute force of {answer.witnesses}"
            )
        case _:
            return ""


def disagreements(case: Case, engines: Mapping[str, Engine]) -> Iterator[str]:
    decider = Decider(case.model)
    answers = list(_answers(decider, case))
    for name, engine in engines.items():
        with engine.asked(case.subject, case.overlap) as asked:
            counts = asked.size()
            if (counts.states, counts.transitions, counts.depth) != decider.size():
                yield f"{case.origin}, {name}: counts {counts}, and by brute force {decider.size()}"
            for number, stated, answer, runs in answers:
                if found := disagreement(answer, asked.checked(stated), runs, stated):
                    where = f"{case.origin}, claim {number}, overlap {case.overlap}, {name}"
                    yield f"{where}: {found}: {stated.claim}"


def _answers(decider: Decider, case: Case) -> Iterator[tuple[int, Property, Answer, Runs]]:
    for number, stated in enumerate(case.stated):
        try:
            answer = decider.decide(stated.claim)
        except OverflowError:
            continue
        codes = codes_named([each.means for each in conditions_of(stated.claim)])
        yield number, stated, answer, decider.runs(codes)


def claims_agree(make: Callable[[str], Case | None], engines: Mapping[str, Engine]) -> Kind:
    def tried(origin: str) -> Tried:
        case = make(origin)
        if case is None:
            return Tried(count=0)
        return Tried(count=len(case.stated), disagreements=tuple(disagreements(case, engines)))

    return tried


def raised(kind: Kind) -> Kind:
    """Wrap *kind* so that an exception counts as a disagreement."""

    def tried(origin: str) -> Tried:
        try:
            return kind(origin)
        except Exception as error:  # noqa: BLE001  (whatever it is)
            return Tried(count=1, disagreements=(f"{origin}, raised: {error!r}",))

    return tried


def data_agree(origin: str) -> Tried:
    """Compare the possible steps of a random machine with data, and then the verdicts on claims about it."""
    case = data_case(origin)
    if case is None or not isinstance(case.subject, Machine):
        return Tried(count=0)
    table = in_progress(tabulate(case.subject), case.overlap)
    assert isinstance(table, InProgress)
    assert table.data is not None

    def engine(state: int) -> tuple[object, ...]:
        calls = (table.rows[row].event.name for row in table.calls(state))
        return table.states[state], tuple(sorted(calls)), table.data.texts(table.values(state))  # type: ignore[union-attr]

    def naively(here: Any) -> tuple[object, ...]:  # noqa: ANN401  (a configuration with data)
        (state, calls), (values, _) = here
        return state, calls, texts(table.machine, values)

    reached = closure(
        [table.initial], lambda state: [way.to for row in table.rows for way in table.step(state, row.index) or ()]
    )
    seen = {
        (engine(state), row.event.name, row.ends, way.name, engine(way.to))
        for state in reached
        for row in table.rows
        for way in table.step(state, row.index) or ()
    }
    runs = Search(Runs(case.model), unwritten=False)
    expected = {
        (naively(here), step.event, step.stage in {"ends", "continues"}, step.outcome, naively(step.target))
        for _, here, _ in runs.explored(None, lambda _, __: None)
        for step in runs.steps(here)
    }
    if differ := seen ^ expected:
        return Tried(count=1, disagreements=(f"{origin}: {len(differ)} steps differ: {min(differ, key=str)}",))
    return Tried(count=len(case.stated), disagreements=tuple(disagreements(case, {"plain": PLAIN})))


def follows_agree(origin: str) -> Tried:
    """Compare verdicts on whether a second machine can take the outputs of a random machine as events."""
    chance = random.Random(origin)
    machine = random_machines.random_machine(chance, time=False)
    text = random_machines.random_text(chance, time=False).replace('name = "random"', 'name = "other"')
    for name, output in (("c0", "x"), ("c1", "y"), ("s1", "y"), ("h1", "y")):
        text = text.replace(f"[event.{name}]", f"[event.{output}]")
    other = machine_of(text)
    if {"x", "y"}.isdisjoint(machine.outputs()):
        return Tried(count=0)
    claim = Follows(other=other)
    stated = Property(name="it", says="", level="MUST", source="", claim=claim)
    decider = Decider(MachineModel(machine))
    with PLAIN.asked(machine, 1) as asked:
        found = disagreement(decider.decide(claim), asked.checked(stated), decider.runs(), stated)
    return Tried(count=1, disagreements=(f"{origin}: {found}",) if found else ())


def refines_agree(origin: str) -> Tried:
    """Compare verdicts on whether a random machine refines one of its mutants."""
    chance = random.Random(origin)
    machine = random_machines.random_machine(chance)
    changed = [each.machine for each in mutants(machine)] or [machine]
    other, overlap = chance.choice([machine, *chance.choices(changed, k=5)]), chance.choice((0, 1, 1, 2))
    try:
        conclusion, _ = check_refines(tabulate(machine), tabulate(other), overlap, Limit(states=5_000))
    except LimitError:
        return Tried(count=0)
    length, far = Refining(machine, other, overlap).shortest(most=150)
    shown = conclusion.length if isinstance(conclusion, Refuted) else None
    agree = length == shown or (length is None and shown is not None and far < shown)
    return Tried(count=1, disagreements=() if agree else (f"{origin}: {shown} steps, by brute force {length}",))


def traces_agree(origin: str) -> Tried:
    """Compare the first illegal observation of a random trace with the one that :mod:`naive` finds."""
    chance = random.Random(origin)
    machine = random_machines.random_machine(chance)
    found = []
    for _ in range(TOGETHER):
        trace = random_machines.random_trace(chance, machine, lost=chance.random() < 0.5)
        seen, fresh = random_machines.random_seen(chance, machine), chance.random() < 0.7
        monitor = Monitor(machine, fresh=fresh, seen=seen)
        monitor.feed(trace, range(1, len(trace) + 1))
        judgement = monitor.judgement()
        if "too many possibilities" in judgement.notes:
            continue
        lines = (
            [each.line for finding in judgement.verdict.findings for each in finding.first]
            if isinstance(judgement.verdict, Illegal)
            else []
        )
        first = min(lines) - 1 if lines else None
        expected = naive.first_unexplained(machine, trace, fresh=fresh, seen=seen)
        if first != expected:
            found.append(f"{origin}: violation at {first}, by brute force at {expected}: {trace}")
    return Tried(count=TOGETHER, disagreements=tuple(found))


def histories_agree(origin: str) -> Tried:
    chance = random.Random(origin)
    machine = random_machines.random_machine(chance)
    found = []
    for _ in range(TOGETHER):
        history = random_history(chance, machine)
        legal = isinstance(linearize(machine, history), Holds)
        if legal != naive_linearizability.linearizable(machine, history):
            found.append(f"{origin}: linearizable is {legal}, and not by brute force: {history}")
    return Tried(count=TOGETHER, disagreements=tuple(found))


KINDS: Final[Mapping[str, Kind]] = {
    "machine": claims_agree(machine_case, {"plain": PLAIN}),
    "data": data_agree,
    "system": claims_agree(system_case, ENGINES),
    "follows": follows_agree,
    "refines": refines_agree,
    "trace": traces_agree,
    "history": histories_agree,
}
SHARES: Final = {"machine": 60, "data": 10, "system": 15, "follows": 2, "refines": 1, "trace": 6, "history": 6}
"""The percentage of each kind of property."""


def search(kind: str, count: int, seed: str) -> Iterator[str]:
    number = 0
    while count > 0:
        tried = raised(KINDS[kind])(f"{kind}/{seed}/{number}")
        yield from tried.disagreements
        count -= tried.count
        number += 1


def main(count: int, seed: str) -> int:
    if seed.partition("/")[0] in KINDS:
        found = list(KINDS[seed.partition("/")[0]](seed).disagreements)
    else:
        found = [each for kind, share in SHARES.items() for each in search(kind, max(1, count * share // 100), seed)]
    for each in found:
        print(each)  # noqa: T201  (a command)
    print(f"{count} properties, seed {seed}: {len(found)} disagreements")  # noqa: T201  (the same)
    return len(found)


if __name__ == "__main__":
    sys.exit(min(1, main(int(sys.argv[1]), sys.argv[2] if len(sys.argv) > 2 else str(random.randrange(1 << 32)))))
