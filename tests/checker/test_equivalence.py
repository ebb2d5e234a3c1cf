"""A comparison of two machines has the same result as a naive comparison."""

from __future__ import annotations

from dataclasses import replace
from random import Random
from typing import TYPE_CHECKING, TypeVar

import naive
import naive_equivalence
import naive_oracle
import pytest
from hypothesis import given
from hypothesis import strategies as st
from machines import DOOR, JOB, counter, door, edited, job, machine_of
from naive_equivalence import Watched, follows, shortest, shows
from nearly_alike import EARLY, LATE, NO_WARP, TOSS, undecided
from random_machines import random_machine, random_trace
from random_tests import changed, random_test
from thorough import TIMES

from fsm.checker.equivalence import bisimilar, compare
from fsm.checker.equivalence.moments import refine
from fsm.language.library import load, names
from fsm.machine import Moves, Silent
from fsm.machine.evidence import Branching, Distinguished, Equivalent, Observable, Side
from fsm.machine.graph import explore
from fsm.machine.table import tabulate
from fsm.mutation import mutants
from fsm.verdict import Unknown

if TYPE_CHECKING:
    import random
    from collections.abc import Callable

    from fsm.machine import Cell, Event, Machine, Outcome
    from fsm.machine.evidence import EquivalenceResult

Kind = TypeVar("Kind", bound="Cell")

MOST_SITUATIONS = 30
"""The maximum number of situations of both machines together.

The limit is low because the naive comparison repeatedly visits all pairs of situations.
"""


def compared(first: Machine, second: Machine) -> EquivalenceResult:
    return compare(tabulate(first), tabulate(second))


# -- two opinions --------------------------------------------------------------


def agree(first: Machine, second: Machine) -> EquivalenceResult | None:
    """Return the engine's comparison after a naive algorithm has confirmed it.

    Return ``None`` if the machines are too large for the naive algorithm.
    """
    watched = Watched(first, second), Watched(second, first)
    if sum(len(each.all()) for each in watched) > MOST_SITUATIONS:
        return None
    found = compared(first, second)
    alike = naive_equivalence.bisimilar(*watched)

    assert isinstance(found, Equivalent) == alike
    assert bisimilar(tabulate(first), tabulate(second)) == alike
    match found:
        case Distinguished():
            assert shortest(*watched) == len(found.trace)
            confirm(found, watched)
        case Branching():
            assert found.every_trace
            assert shortest(*watched) is None
            replay(found, watched)
    return found


def confirm(found: Distinguished, watched: tuple[Watched, Watched]) -> None:
    """Assert that one machine allows the trace, and that the other rejects its last observation."""
    owner, other = watched[found.owner.value], watched[found.owner.other.value]
    before = follows(other, found.trace[:-1])
    last = found.trace[-1]
    instead = [each for each in other.visible(before) if (each.event, each.ends) == (last.event, last.ends)]
    certain = [each for each in instead if each.reply not in other.machine.indefinite]

    assert follows(owner, found.trace)
    assert shows(owner, found.run, found.trace)
    assert before
    assert not follows(other, found.trace)
    assert {now.state for now in before} == {state or "?" for state in found.states}
    assert plain(certain, found.instead) <= {*found.instead} <= plain(instead, found.instead)


def plain(these: list[Observable], listed: tuple[Observable, ...]) -> set[Observable]:
    return {each if each in listed or each.reply in {"", "ok"} else each._replace(reply="error") for each in these}


def replay(found: Branching, watched: tuple[Watched, Watched]) -> None:
    now = [{each.start} for each in watched]
    assert found.start == tuple(each.start.state for each in watched)
    for each in found.rounds:
        for side, state in enumerate((each.first, each.second)):
            now[side] = {at for at in watched[side].after(now[side], each.seen) if at.state == (state or "?")}

            assert now[side]
    owner, other = found.owner.value, found.owner.other.value

    assert any(watched[owner].after({at}, found.option) for at in now[owner])
    assert not all(watched[other].after({at}, found.option) for at in now[other])


@pytest.mark.slow
@given(st.randoms(use_true_random=False))
def test_two_opinions_on_machines_that_are_nearly_alike(chance: random.Random) -> None:
    """The two machines differ by duplicated states, exchanged cells or changed outcomes."""
    machine = random_machine(chance)
    other = machine
    for _ in range(chance.choice((1, 1, 2))):
        other = chance.choice((doubled, exchanged, redirected))(chance, other)
    agree(*chance.sample((machine, other), 2))


@pytest.mark.slow
@given(st.randoms(use_true_random=False))
def test_two_opinions_on_mutants(chance: random.Random) -> None:
    """The two machines differ in one cell."""
    machine = random_machine(chance)
    agree(machine, chance.choice([each.machine for each in mutants(machine)]))


@pytest.mark.slow
@given(st.randoms(use_true_random=False))
def test_two_opinions_on_machines_that_choose_earlier(chance: random.Random) -> None:
    """In one machine, a state is split in two, so that the machine chooses between two outcomes one step earlier."""
    machine = random_machine(chance)
    agree(*chance.sample((machine, torn(chance, machine)), 2))


@pytest.mark.slow
@given(st.randoms(use_true_random=False))
def test_two_opinions_on_any_two_machines(chance: random.Random) -> None:
    """The two machines are generated independently, but some of their events have the same names."""
    agree(random_machine(chance), random_machine(chance))


@given(st.randoms(use_true_random=False))
def test_a_state_and_its_copy_are_equivalent(chance: random.Random) -> None:
    """A state and its copy are equivalent, regardless of which of the two an outcome leads to."""
    machine = random_machine(chance)
    found = compared(machine, doubled(chance, machine))

    assert isinstance(found, Equivalent), found


def test_what_is_legal_for_one_is_legal_for_its_equivalent(record_property: Callable[[str, object], None]) -> None:
    equivalent = noticed = distinguished = 0
    for number in range(100 * TIMES):
        chance = Random(number)
        machine = random_machine(chance)
        copied = chance.random() < 0.5
        other = doubled(chance, machine) if copied else chance.choice([*mutants(machine)]).machine
        found = compared(machine, other)
        same = []
        for of in (machine, other):
            test = changed(chance, of, random_test(chance, of))
            trace = random_trace(chance, of, lost=True)
            tests = {naive_oracle.first_illegal(each, test) for each in (machine, other)}
            traces = {naive.first_unexplained(each, trace, fresh=True) for each in (machine, other)}
            same += [len(tests) == 1, len(traces) == 1]
        match found:
            case Equivalent() if copied or (met(machine) and met(other)):
                equivalent += len(same)
                assert all(same)
            case Distinguished():
                distinguished += 1
                noticed += not all(same)
                watched = Watched(machine, other), Watched(other, machine)
                assert [bool(follows(each, found.trace)) for each in watched].count(True) == 1
            case _:
                pass
    record_property("random examples", equivalent + distinguished)

    assert noticed, "random tests distinguish some that are not equivalent"


def met(machine: Machine) -> bool:
    """Return whether every cell is reachable and none is silent.

    A trace that does not start in the initial state may visit states that are unreachable from there.
    """
    cells = (cell for event in machine.events.values() for cell in event.cells.values())
    return not any(isinstance(cell, Silent) for cell in cells) and not explore(tabulate(machine)).unreachable()


# -- similar machines ----------------------------------------------------------


def doubled(chance: random.Random, machine: Machine) -> Machine:
    state = chance.choice([*machine.states])
    double = f"{state}-too"
    events = {}
    for name, event in machine.events.items():
        cells = dict(event.cells)
        cells[double] = cells[state]
        ends = dict(event.ends) | ({double: event.ends[state]} if state in event.ends else {})
        turn = {at: _turned(chance, cell, state, double) for at, cell in cells.items()}
        events[name] = replace(
            event, cells=turn, ends={at: _turned(chance, end, state, double) for at, end in ends.items()}
        )
    states = {**machine.states, double: replace(machine.states[state], name=double)}
    return replace(machine, states=states, events=events)


def _turned(chance: random.Random, cell: Kind, state: str, to: str) -> Kind:
    if not isinstance(cell, Moves):
        return cell
    ways = (replace(way, to=to) if way.to == state and chance.random() < 0.5 else way for way in cell.outcomes)
    return replace(cell, outcomes=tuple(ways))


def exchanged(chance: random.Random, machine: Machine) -> Machine:
    event = chance.choice([*machine.events.values()])
    one, two = chance.sample([*machine.states], 2)
    cells = {**event.cells, one: event.cells[two], two: event.cells[one]}
    return _with(machine, replace(event, cells=cells))


def redirected(chance: random.Random, machine: Machine) -> Machine:
    event = chance.choice([*machine.events.values()])
    cells = dict(event.ends if event.ends and chance.random() < 0.5 else event.cells)
    ends = cells.keys() == event.ends.keys() and cells == event.ends
    acting = [state for state, cell in cells.items() if isinstance(cell, Moves)]
    if not acting:
        return machine
    state = chance.choice(acting)
    cell = cells[state]
    assert isinstance(cell, Moves)
    ways = list(cell.outcomes)
    number = chance.randrange(len(ways))
    ways[number : number + 1] = _other(chance, machine, event, ways[number], alone=len(ways) == 1)
    cells[state] = replace(cell, outcomes=tuple(ways))
    return _with(machine, replace(event, ends=cells) if ends else replace(event, cells=cells))  # type: ignore[arg-type]


def _other(chance: random.Random, machine: Machine, event: Event, way: Outcome, *, alone: bool) -> list[Outcome]:
    if way.begins:
        return [replace(way, to=chance.choice([*event.ends]))]
    match chance.choice(("to", "to", "emits", "reply", "drop")):
        case "to":
            return [replace(way, to=chance.choice([*machine.states]))]
        case "emits":
            return [replace(way, emits=chance.choice(((), ("x",), ("x", "y"))))]
        case "reply" if event.kind == "call":
            return [replace(way, reply=chance.choice((("ok",), ("error",), ("ok", "BUSY"), ("CANCELED",))))]
        case "drop" if not alone:
            return []
    return [way]


def _with(machine: Machine, event: Event) -> Machine:
    return replace(machine, events={**machine.events, event.name: event})


def torn(chance: random.Random, machine: Machine) -> Machine:
    """Return *machine* with one state split into two halves that each lack one alternative.

    Outcomes that led to the original state may lead to either half.
    """
    found = [
        (event, state, cell)
        for event in machine.events.values()
        for state, cell in event.cells.items()
        if state != machine.initial and isinstance(cell, Moves) and len(cell.outcomes) > 1
    ]
    if not found:
        return machine
    event, state, cell = chance.choice(found)
    other = doubled(chance, machine)
    double = next(each for each in other.states if each not in machine.states)
    if double != f"{state}-too":
        return machine
    one, two = chance.sample(cell.outcomes, 2)
    events = {}
    for name, each in other.events.items():
        cells = {at: _either(here, state, double) for at, here in each.cells.items()}
        ends = {at: _either(here, state, double) for at, here in each.ends.items()}
        if name == event.name:
            for at, lost in ((state, one), (double, two)):
                left = cells[at]
                assert isinstance(left, Moves)
                kept = tuple(way for way in left.outcomes if way.name.removesuffix("-too") != lost.name)
                cells[at] = replace(left, outcomes=kept)
        events[name] = replace(each, cells=cells, ends=ends)
    return replace(other, events=events)


def _either(cell: Kind, state: str, double: str) -> Kind:
    if not isinstance(cell, Moves):
        return cell
    both = (
        (way, replace(way, to={state: double, double: state}[way.to], name=f"{way.name}-too"))
        if way.to in {state, double}
        else (way,)
        for way in cell.outcomes
    )
    return replace(cell, outcomes=tuple(way for ways in both for way in ways))


# -- particular differences ----------------------------------------------------

PAIRS = [
    # The text to change in the door, its replacement, and the trace that distinguishes the two doors.
    ('name = "opened"', 'name = "gives-way"', None),
    ('says = "A door that is pushed', 'says = "One', None),
    ('about = "Closed."', 'about = "Not open."', None),
    (
        'shows = "OPEN"',
        'shows = "OPENED"',
        [Observable(event="push", reply="ok", emits=("Creak",)), Observable(shows="OPEN")],
    ),
    (
        'gone = "NOT_FOUND"',
        'gone = "error"',
        [Observable(event="remove", reply="ok"), Observable(event="push", reply="STUCK")],
    ),
    (
        'emits = ["Bang"]',
        "emits = []",
        [Observable(event="push", reply="ok", emits=("Creak",)), Observable(event="slam")],
    ),
    ('silent = ["*"]', 'ignores = ["*"]', [Observable(event="knock", silent=True)]),
    ('ignores = ["shut"]\ncannot  = ["ajar", "gone"]', 'cannot = ["*"]', [Observable(event="slam")]),
    ('cannot = ["*"]', 'ignores = ["*"]', None),
    ('moves  = { shut = "ajar" }', 'moves  = { shut = "gone" }', [Observable(event="push", reply="NOT_FOUND")]),
]


@pytest.mark.parametrize(("old", "new", "trace"), PAIRS, ids=[each[1] for each in PAIRS])
def test_what_can_be_observed(old: str, new: str, trace: list[Observable] | None) -> None:
    found = agree(door(), machine_of(edited(DOOR, old, new)))

    if trace is None:
        assert isinstance(found, Equivalent)
    else:
        assert isinstance(found, Distinguished)
        assert tuple(trace) == found.trace


def test_a_choice_that_is_made_earlier() -> None:
    found = agree(door(), machine_of(NO_WARP))

    assert isinstance(found, Branching)
    assert (found.owner, found.option) == (Side.SECOND, Observable(event="slam"))
    assert [("ajar", "shut")] == [(each.first, each.second) for each in found.rounds]
    assert [None] == [each.seen for each in found.rounds]


CALLS = [
    # The text to change in the job, its replacement, and the trace that distinguishes the two jobs.
    ('emits = ["started"]', 'emits = ["began"]', ["make ok", "start begins", "…start begins", "…start ok started"]),
    (
        'to = "running", emits',
        'to = "ended", emits',
        ["make ok", "start begins", "…start begins", "…start ok started", "exit"],
    ),
    ("interrupts = true", "interrupts = false", ["make ok", "start begins", "crash", "…start silent"]),
    (
        'checking = { to = "running", emits',
        'checking = { to = "running", reply = "LATE", emits',
        ["make ok", "start begins", "…start begins", "…start ok started"],
    ),
    (
        'waiting = [\n  { name = "begins", begins = "starting" },',
        'waiting = [\n  { name = "begins", begins = "checking" },\n  { name = "slowly", begins = "starting" },',
        ["make ok", "start begins", "…start ok started"],
    ),
]


def word(seen: Observable) -> str:
    words = [f"{'…' if seen.ends else ''}{seen.event or 'look'}", seen.reply, *seen.emits, seen.shows]
    return " ".join(filter(None, [*words, "begins" * seen.begins, "silent" * seen.silent]))


def test_a_choice_that_is_made_earlier_and_observed() -> None:
    found = agree(machine_of(EARLY), machine_of(LATE))

    assert isinstance(found, Branching)
    assert [("toss", "one", "one")] == [(word(seen), one, two) for seen, one, two in found.rounds if seen]
    assert (Side.SECOND, "tail") == (found.owner, word(found.option))


def test_an_outcome_that_only_one_has() -> None:
    found = agree(machine_of(EARLY), machine_of(edited(EARLY, ', { name = "b", to = "two" }', "")))

    assert isinstance(found, Distinguished)
    assert ["toss", "tail"] == [word(seen) for seen in found.trace]


FALLS = """
[event.turn]
kind = "hidden"
about = "It turns over."
moves = { one = "two" }
cannot = ["*"]
"""


def test_a_hidden_event_after_an_event_adds_nothing() -> None:
    """A coin that may turn over after falling is equivalent to a coin that falls on either side."""
    found = agree(machine_of(EARLY + FALLS), machine_of(TOSS.replace("EARLY", '"one"').replace("LATE", "") + FALLS))

    assert isinstance(found, Equivalent)


@pytest.mark.parametrize(("old", "new", "trace"), CALLS, ids=[each[1] for each in CALLS])
def test_calls_that_take_time(old: str, new: str, trace: list[str]) -> None:
    found = agree(job(), machine_of(edited(JOB, old, new)))

    assert isinstance(found, Distinguished)
    assert trace == [word(each) for each in found.trace]


@pytest.mark.parametrize("name", names())
def test_shipped_machines_are_what_they_are(name: str) -> None:
    machine = load(name)

    assert isinstance(compared(machine, machine), Equivalent)
    for profile in machine.profiles:
        other = machine.under(profile)
        found = compared(machine, other)
        if isinstance(found, Distinguished):
            confirm(found, (Watched(machine, other), Watched(other, machine)))


def test_lists_what_the_other_could_do_instead() -> None:
    old = door().under("old")
    found, turned = compared(door(), old), compared(old, door())

    assert isinstance(found, Distinguished)
    assert isinstance(turned, Distinguished)
    assert ("push ok", Side.SECOND, Side.FIRST) == (word(found.trace[-1]), found.owner, turned.owner)
    assert ("shut", "ajar") == found.states
    assert ["push ok Creak", "push STUCK"] == [word(each) for each in found.instead]
    assert ["lock-jams"] == [taken.outcome for taken in found.run.steps]


def test_a_long_distinguishing_trace() -> None:
    found = compared(counter(to=1_000), counter(to=999))

    assert isinstance(found, Distinguished)
    assert len(found.trace) == 1_000


ONE_MORE = (
    DOOR
    + """
[event.bell]
kind  = "call"
about = "Ring."
moves = { shut = { to = "open", emits = ["Ding"] } }
ignores = ["*"]

[event.night]
kind  = "signal"
about = "Nothing happens any more."
cannot = ["*"]
"""
)


def test_events_that_only_one_has() -> None:
    found = agree(door(), machine_of(ONE_MORE))

    assert isinstance(found, Distinguished)
    assert ("bell ok Ding", Side.SECOND) == (word(found.trace[0]), found.owner)


def test_events_have_the_same_name_here_or_on_the_wire() -> None:
    text = edited(edited(DOOR, "[event.push]", "[event.press]"), 'event    = "push"', 'event    = "press"')
    text = edited(edited(text, 'event = "push"', 'event = "press"'), "[event.knock]", "[event.RemoveDoors]")

    assert isinstance(compared(door(), machine_of(edited(text, "[event.RemoveDoors]", "[event.knock]"))), Equivalent)
    assert isinstance(compared(door(), machine_of(text)), Distinguished)


def test_indefinite_replies_are_observed() -> None:
    """The reply CANCELED is indefinite for only one of the machines, so it distinguishes them."""
    sure = machine_of(edited(JOB, 'indefinite = ["CANCELED"]\n', ""))
    found = agree(job(), sure)

    assert isinstance(found, Distinguished)
    assert ("make CANCELED", Side.FIRST) == (word(found.trace[0]), found.owner)


def test_stops_at_the_limit_and_says_so() -> None:
    table = tabulate(counter(to=30))

    assert Unknown(why="the machines have more than 40 moments") == compare(table, table, limit=40)


def test_a_search_for_a_trace_that_is_cut_short() -> None:
    """The search finds that the machines differ, but ends before it finds a distinguishing trace."""
    one, two = tabulate(machine_of(undecided(9))), tabulate(machine_of(undecided(10)))
    whole, short = compare(one, two), compare(one, two, limit=50)

    assert isinstance(whole, Distinguished)
    assert 10 == len(whole.trace)
    assert isinstance(short, Branching)
    assert not short.every_trace


def test_a_partition_keeps_only_what_changes() -> None:
    """In a chain, every round separates one more node, and only the history of this node becomes longer."""
    chain = [frozenset({(0, min(node + 1, 299))}) if node < 299 else frozenset() for node in range(300)]

    history = refine(chain).history

    assert len({steps[-1] for steps in history}) == 300
    assert max(map(len, history)) <= 3
