"""The simulation of any number of copies can take every step that two, three or four copies can take."""

from __future__ import annotations

import random
from typing import TYPE_CHECKING

import pytest
from hypothesis import given, reject, settings
from hypothesis import strategies as st
from machines import counter, door, job
from random_systems import is_small, random_claim_text, random_text, system_of
from thorough import amount
from toy_systems import OFFICE, specification_of

from fsm.checker import examine
from fsm.checker.any_number import examine_any
from fsm.errors import InputError
from fsm.language.library import claims, composed, load_system
from fsm.machine.claims import Specification, is_of
from fsm.machine.evidence import Proved, Refuted, Vacuous
from fsm.machine.graph import explore
from fsm.machine.product import SystemTable
from fsm.machine.product.crowd import SOME, Crowd, NoCrowdError
from fsm.machine.product.system import System
from fsm.verdict import Unknown

if TYPE_CHECKING:
    from collections.abc import Callable

    from fsm.machine import Machine
    from fsm.machine.table import Way

LARGEST = 400
"""The maximum number of states of a random system."""


def numbers(text: str, machines: dict[str, Machine]) -> Callable[[int], System]:
    return lambda count: system_of(text.replace("count = 2", f"count = {count}"), machines)


def random_crowd(chance: random.Random) -> tuple[Callable[[int], System], str, Crowd]:
    for _ in range(60):
        text, machines = random_text(chance)
        if text.count("count = 2") == 1:
            part = text[: text.index("count = 2")].rpartition("[part.")[2].partition("]")[0]
            numbered = numbers(text, machines)
            try:
                return numbered, part, Crowd(numbered(3), numbered(2), part)
            except NoCrowdError:
                continue
    return reject()


def forgetful(patch: pytest.MonkeyPatch) -> None:
    """Make the simulation forget that other copies may stay in a state when a copy leaves the state."""
    one_does = vars(Crowd)["_ways_of_member"]
    patch.setattr(
        Crowd,
        "_ways_of_member",
        lambda self, *of: [way for way in one_does(self, *of) if not way.steps or way.steps[-1].event != "fills"],
    )


def called(name: str, part: System, of: str) -> str:
    for copy in part.parts[of].copies[2:]:
        name = f"{name.removesuffix(copy.suffix)}.2" if name.endswith(copy.suffix) else name
    return name


def not_simulated(system: System, crowd: Crowd, part: str) -> str:
    """Return a step of *system* that *crowd* cannot take, or an empty string if there is none."""
    table, more = SystemTable(system), SystemTable(crowd.system, mentioned=crowd.system.events)
    crowded = {copy.digit for copy in system.parts[part].copies[1:]}
    named = table.table_of(part).named
    kept = [copy.digit for copy in system.copies if copy.digit not in crowded]
    counters = [copy for copy in crowd.system.copies if copy.part.startswith(f"some {part} is ")]

    def image(state: int) -> int:
        locals_ = table.locals(state)
        there = {f"some {part} is {named(locals_[digit])}" for digit in crowded}
        found = list(more.locals(more.initial))
        found[: len(kept)] = [locals_[digit] for digit in kept]
        for copy in counters:
            found[copy.digit] = more.table_of(copy.part).states.index(SOME if copy.part in there else "none")
        return more.number(tuple(found))

    def shown(way: Way, to: int) -> object:
        return to, way.reply, tuple(called(output, system, part) for output in way.emits)

    for state in explore(table).depth:
        for row in table.rows:
            other = more.row[called(row.event.name, system, part)]
            expected = {shown(way, image(way.to)) for way in table.step(state, row.index)}
            missing = expected - {shown(way, way.to) for way in more.step(image(state), other)}
            if missing:
                return f"{row.event.name} in {table.states[state]}"
    return ""


@pytest.mark.slow
@settings(max_examples=amount(40, night=5_000))
@given(st.integers(0, 1 << 32).map(random.Random))
def test_steps_of_random_systems_are_simulated(chance: random.Random) -> None:
    numbered, part, crowd = random_crowd(chance)
    for system in map(numbered, (2, 3, 4)):
        if not is_small(system, LARGEST):
            return
        assert not not_simulated(system, crowd, part)


@pytest.mark.parametrize(
    ("name", "part"), [("plugin-sync", "call"), ("nri-plugin-contract", "container"), ("cri-service", "syncer")]
)
def test_steps_of_shipped_systems_are_simulated(name: str, part: str) -> None:
    system = load_system(name)
    for profile in (None, *system.profiles):
        three, two = (load_system(name, {part: count}).under(profile) for count in (3, 2))
        crowd = Crowd(three, two, part)

        assert not not_simulated(two, crowd, part)


def test_a_step_that_is_not_simulated_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    forgetful(monkeypatch)
    three, two = (load_system("plugin-sync", {"call": count}) for count in (3, 2))

    assert not_simulated(three, Crowd(three, two, "call"), "call") != ""


def worked(do: str, *, heard: str = "", named: str = "door") -> Callable[[int], System]:
    work = f'[event.work]\nkind = "call"\nof = "job"\nabout = "W"\nsteps = [{do}]\n'
    text = OFFICE.replace("count   = 2", "count = 2").replace('heard   = "door is open"', "") + work
    text = text.replace('machine = "door"', f'machine = "door"\n{heard}').replace("part.door", f"part.{named}")
    return numbers(text.replace("door.push", f"{named}.push"), JOBS)


@pytest.mark.parametrize(
    ("do", "heard"),
    [
        ('"job.make", "door.push/stuck"', ""),
        ('"job.make", "door.push"', 'heard = "some job is waiting"'),
    ],
)
def test_what_follows_a_move_is_simulated(do: str, heard: str) -> None:
    numbered = worked(do, heard=heard)
    crowd = Crowd(numbered(3), numbered(2), "job")

    assert [not_simulated(numbered(count), crowd, "job") for count in (2, 3)] == ["", ""]


def test_a_part_may_be_called_impossible() -> None:
    numbered = worked('"job.make", "impossible.push"', named="impossible")

    assert not not_simulated(numbered(3), Crowd(numbered(3), numbered(2), "job"), "job")


# -- systems without a simulation --------------------------------------------------------

JOBS = {"door": door(), "job": job()}


def event(steps: str, kind: str = "call") -> str:
    return f'[event.clear]\nkind = "{kind}"\nabout = "C"\nsteps = [{steps}]\n'


@pytest.mark.parametrize(
    ("more", "why"),
    [
        (event('"every job.make"'), "may depend on the order of the copies"),
        (event('{ each = "job", steps = ["job.make", "door.push"] }'), "may depend on the order of the copies"),
        ('[part.lamp]\nmachine = "door"\ncount = 2\nper = "job"\n', "another part that belongs with"),
    ],
)
def test_copies_that_differ_are_no_crowd(more: str, why: str) -> None:
    """An event that treats the copies one after another is refused, because more copies may behave differently."""
    numbered = numbers(OFFICE.replace("count   = 2", "count = 2") + more, JOBS)
    with pytest.raises(NoCrowdError, match=why):
        Crowd(numbered(3), numbered(2), "job")


def test_what_belongs_to_several_is_no_crowd() -> None:
    three, two = (load_system("node", {"container": count}) for count in (3, 2))
    with pytest.raises(NoCrowdError, match="'container' belongs to a part that itself has several copies"):
        Crowd(three, two, "container")


# -- claims ------------------------------------------------------------------------------


def stated_for(name: str, part: str) -> Callable[[int], Specification[System]]:
    found = claims(name)
    assert is_of(found, System)
    return lambda count: composed(found, {part: count})


def test_what_holds_of_any_number() -> None:
    found = examine_any(stated_for("plugin-sync", "call"), "call")
    verdicts = {each.of.name: each.verdict for each in found.checked}

    assert verdicts["a-synchronisation-is-exclusive"] == Proved(any_number="call")
    assert isinstance(verdicts["calls-wait-for-no-other-call"], Refuted)
    assert isinstance(verdicts["calls-share"], Unknown)


@settings(max_examples=amount(15, night=5_000))
@given(st.integers(0, 1 << 32).map(random.Random))
def test_what_holds_of_any_number_holds_of_four(chance: random.Random) -> None:
    """A claim that is proved for any number of copies is not refuted for four copies."""
    numbered, part, _ = random_crowd(chance)
    for _ in range(6):  # most are refuted of two
        text = random_claim_text(numbered(2), chance)
        try:
            stated = {count: specification_of(numbered(count), text) for count in (1, 2, 3, 4)}
        except InputError:
            continue
        [found] = examine_any(stated.__getitem__, part, limit=LARGEST).checked
        if found.verdict == Proved(any_number=part):
            four = examine(stated[4], limit=LARGEST).checked[0]
            assert not isinstance(four.verdict, Refuted)
            return


THREE = """\
[system]
name = "three"
title = "T"
about = "T"
source = "none"
[part.door]
machine = "door"
[part.it]
machine = "counter"
count = 2
[event.add]
kind = "call"
of = "it"
about = "A"
steps = ["it.add"]
[event.meet]
kind = "signal"
about = "One is at each of three."
when = "some it is n1 and some it is n2 and some it is n3"
steps = ["door.push/opened"]
"""


def of_three() -> Unknown | Proved | Refuted:
    numbered = numbers(THREE, {"door": door(), "counter": counter(to=3)})
    [found] = examine_any(lambda count: specification_of(numbered(count), 'never = "meet"'), "it").checked
    return found.verdict


def test_what_three_break_is_not_proved_of_any_number() -> None:
    found = of_three()

    assert isinstance(found, Unknown)
    assert "an abstraction of more copies breaks the property" in found.why


def test_it_would_be_if_others_went_with_each_that_goes(monkeypatch: pytest.MonkeyPatch) -> None:
    forgetful(monkeypatch)

    assert of_three() == Proved(any_number="it")


STEP = """\
[system]
name = "step"
title = "S"
about = "S"
source = "none"
[part.door]
machine = "door"
[part.full]
machine = "door"
[part.it]
machine = "counter"
count = 2
[event.add]
kind = "call"
of = "it"
about = "A"
when = "door is shut"
steps = ["it.add"]
[event.open]
kind = "signal"
about = "There is one at the beginning."
when = "some it is n0 and full is shut"
steps = ["door.warp"]
[event.fill]
kind = "signal"
about = "One is at each of three."
when = "door is shut and some it is n0 and some it is n1 and some it is n2"
steps = ["full.warp"]
[event.open-again]
kind = "signal"
about = "It opens for three."
when = "full is ajar"
steps = ["door.warp"]
[event.pass]
kind = "signal"
of = "it"
about = "One does something that leads nowhere."
when = "full is ajar and door is ajar"
steps = ["it.add/refused"]
"""


def test_a_step_that_leads_nowhere_is_an_instant() -> None:
    numbered = numbers(STEP, {"door": door(), "counter": counter(to=2)})
    twice = 'for = "it"\nnever = "(door is ajar and it is n0) then (door is ajar and it is n0)"'
    stated = {count: specification_of(numbered(count), twice) for count in (1, 2, 3)}
    [found] = examine_any(stated.__getitem__, "it").checked

    assert [type(examine(each).checked[0].verdict) for each in stated.values()] == [Proved, Proved, Refuted]
    assert isinstance(found.verdict, Unknown)


def test_what_only_three_put_to_the_test_is_unknown() -> None:
    numbered = numbers(THREE, {"door": door(), "counter": counter(to=3)})
    found = examine_any(lambda count: specification_of(numbered(count), 'never = "meet then some it is n1"'), "it")
    [checked] = found.checked

    assert isinstance(checked.verdict, Unknown)
    assert not isinstance(checked.verdict, Vacuous)
    assert "with two copies of 'it' nothing tests the property, because meet never holds" in checked.verdict.why


def test_what_one_breaks_and_two_do_not_is_unknown_of_many() -> None:
    """The door lets in only one copy, so all copies can be inside only if there is a single copy."""
    text = THREE.replace('steps = ["it.add"]', 'steps = ["door.warp", "it.add"]')
    numbered = numbers(text, {"door": door(), "counter": counter(to=3)})

    def stated(count: int) -> Specification[System]:
        return specification_of(numbered(count), 'never = "every it is n1 or (add and every it is n1)"')

    [alone], [many] = examine_any(stated, "it").checked, examine_any(stated, "it", count=12).checked

    assert isinstance(alone.verdict, Refuted)
    assert many.verdict == Unknown(why="this number of copies cannot be searched; for two copies, it holds")


def test_counts_are_of_two_where_nothing_simulates_more() -> None:
    numbered = numbers(OFFICE.replace("count   = 2", "count = 2") + event('"every job.make"'), JOBS)
    found = examine_any(lambda count: specification_of(numbered(count), 'never = "door is gone"'), "job")

    assert found.counts == examine(specification_of(numbered(2), 'never = "door is gone"')).counts
    assert found.any_number == ""
