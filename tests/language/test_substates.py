"""A machine with substates is flattened as a naive interpreter, which keeps the tree and a memory, understands it."""

from __future__ import annotations

import random
import re
from pathlib import Path

import pytest
from commands import fsm
from machines import edited, machine_of, problems_of
from naive_hierarchy import Naive, Tree, random_tree, text_of
from toy_systems import stated_of

from fsm.diagrams.draw.dot import dot
from fsm.diagrams.draw.picture import picture
from fsm.diagrams.draw.text_pictures import mermaid, plantuml
from fsm.language.build.systems import build_system
from fsm.language.read import parse
from fsm.language.vocabularies import WrittenSystem
from fsm.language.write import toml
from fsm.machine import Cannot, Ignores, Machine, Moves, Silent
from fsm.machine.claims import Never, Reachable
from fsm.machine.conditions import All, In, atoms
from fsm.report.machine_report import json

PAGE = Path(__file__).resolve().parent.parent.parent / "docs" / "reference" / "substates.md"
WORDS = {Ignores: "ignores", Cannot: "cannot", Silent: "silent"}


def _differences(machine: Machine, tree: Tree, *, forgets: bool = False, outer: bool = False) -> list[str]:
    """Compare every cell in every situation that any sequence of events reaches."""
    found = []
    plain = {state: machine.hierarchy.inside.get(state, "") for state in machine.states}
    plain = {state: name if name in tree.leaves else state for state, name in plain.items()}
    start = Naive(tree, tree.entered(tree.initial), forgets=forgets, outer=outer)
    todo = [(start, machine.initial)]
    met = {(start.key, machine.initial)}
    for naive, state in todo:
        if plain[state] != naive.leaf or machine.states[state].shows != tree.shown(naive.leaf):
            found.append(f"{naive.key} is {state}")
            continue
        for event in tree.cells:
            expected, cell = naive.cell(event), machine.events[event].cells[state]
            if isinstance(expected, str) or not isinstance(cell, Moves):
                if expected != WORDS.get(type(cell)):
                    found.append(f"{event} in {naive.key}: {cell}")
                continue
            if len(expected) != len(cell.outcomes):
                found.append(f"{event} in {naive.key}: {cell}")
                continue
            for target, way in zip(expected, cell.outcomes, strict=True):
                after = naive.moved(target)
                if (after.key, way.to) not in met:
                    met.add((after.key, way.to))
                    todo.append((after, way.to))
    silent = any(isinstance(cell, Silent) for each in machine.events.values() for cell in each.cells.values())
    reached = {state for _, state in met}
    # An unreachable state leads to situations that are as unreachable, and a silent cell leads to all of them.
    if not silent and {plain[state] for state in reached} == {*tree.leaves}:
        found += [f"{state} is superfluous" for state in machine.states if state not in reached]
    return found


@pytest.mark.parametrize("seed", range(300))
def test_every_cell_is_that_of_the_tree_in_every_situation(seed: int) -> None:
    tree = random_tree(random.Random(seed), silent=seed % 3 == 0)

    assert [] == _differences(machine_of(text_of(tree)), tree)


@pytest.mark.parametrize("mistake", ["forgets", "outer"])
def test_an_interpreter_with_a_mistake_is_noticed(mistake: str) -> None:
    trees = [random_tree(random.Random(seed)) for seed in range(100)]

    noticed = [
        tree
        for tree in trees
        if _differences(machine_of(text_of(tree)), tree, forgets=mistake == "forgets", outer=mistake == "outer")
    ]

    assert len(noticed) > 10


@pytest.mark.parametrize("seed", range(100))
def test_a_machine_that_is_written_and_read_again_is_the_same(seed: int) -> None:
    machine = machine_of(text_of(random_tree(random.Random(seed), silent=seed % 3 == 0)))

    assert json(machine) == json(machine_of(toml(machine)))


WORKER = """\
[machine]
name    = "worker"
title   = "A worker"
about   = "Sleeps, works, and stops in the end."
source  = "handbook"
initial = "alive"

[states]
alive    = { about = "There.", initial = "sleep", history = true, shows = "ALIVE" }
sleep    = { about = "Idle.", in = "alive" }
work     = { about = "At work.", in = "alive", initial = "fast" }
fast     = { about = "In a hurry.", in = "work", shows = "FAST" }
slow     = { about = "At leisure.", in = "work" }
stopping = { about = "A stop is in progress.", shows = "STOPPING" }
dead     = { about = "Gone.", shows = "DEAD" }

[define]
late = ["work", "dead"]

[fields]
int = ["code"]

[requires.coded]
says   = "There is a code."
MUST   = "handbook"
in     = ["late", "stopping"]
values = { code = [1] }

[event.stop]
kind    = "call"
about   = "Stop."
moves   = { alive = { begins = "stopping" } }
ignores = ["stopping", "dead"]
ends    = { alive = { stays = true, reply = "error" }, stopping = [
  { name = "stopped", to = "dead" },
  { name = "failed", to = "alive.history", reply = "error" },
] }

[event.cancel]
about  = "Somebody cancels the stop."
moves  = { stopping = "alive.history", work = "alive.history" }
cannot = ["*"]

[event.wake]
about  = "Work, or change the pace."
moves  = { alive = "work", slow = "fast", fast = "slow" }
cannot = ["*"]

[clause.no-death]
says = "Nobody dies of work."
MUST = "handbook"

[event.rest]
about  = "Fall asleep."
clause = "no-death"
moves  = { alive = "alive" }
cannot = ["*"]

[profile.old]
about = "Old workers."

[profile.old.cell.never-cancelled]
event  = "cancel"
about  = "Nobody cancels anything at work."
cannot = ["work"]

[profile.old.cell.dies]
event    = "rest"
about    = "Old workers may die."
deviates = "no-death"
moves    = { alive = "dead", slow = "stopping" }

[drawing.omits.wake]
states = ["work"]
"""


def _targets(machine: Machine, event: str, *, ends: bool = False) -> dict[str, str]:
    steps = {state: machine.step(state, event, ends=ends) for state in machine.states}
    return {state: " ".join(way.to for way in ways) for state, ways in steps.items() if ways}


def test_what_is_remembered_is_in_the_name_of_a_state() -> None:
    assert {
        "sleep": "ALIVE",
        "fast": "FAST",
        "slow": "ALIVE",
        "stopping(sleep)": "STOPPING",
        "stopping(fast)": "STOPPING",
        "stopping(slow)": "STOPPING",
        "dead": "DEAD",
    } == {state.name: state.shows for state in machine_of(WORKER).states.values()}


@pytest.mark.parametrize(("cell", "variants"), [("ignores", ["stopping"]), ("silent", ["fast", "sleep", "slow"])])
def test_after_a_silent_cell_anything_may_be_remembered(cell: str, variants: list[str]) -> None:
    text = edited(WORKER.partition("[profile.old]")[0], "moves   = { alive = {", "moves   = { sleep = {")
    text = edited(
        text,
        'ignores = ["stopping", "dead"]',
        f'ignores = ["stopping", "work"]\n{cell} = ["dead"]'.replace('"]\nignores = ["', '", "'),
    )
    text = edited(text, "ends    = { alive =", "ends    = { sleep =")

    stopping = [state for state in machine_of(text).states if state.startswith("stopping")]

    assert variants == sorted(re.sub(r"stopping\((\w+)\)", r"\1", state) for state in stopping)


def test_a_call_that_takes_time_ends_where_it_began() -> None:
    machine = machine_of(WORKER)

    assert {
        "sleep": "sleep",
        "fast": "fast",
        "slow": "slow",
        "stopping(sleep)": "dead sleep",
        "stopping(fast)": "dead fast",
        "stopping(slow)": "dead slow",
    } == _targets(machine, "stop", ends=True)
    assert {"fast": "slow", "slow": "fast", "sleep": "fast"} == _targets(machine, "wake")


LAMP = """\
[machine]
name = "lamp"
title = "A lamp"
about = "Is switched off slowly, if it is bright."
source = "handbook"
initial = "on"
[states]
on = { about = "Lit.", initial = "dim", history = true }
dim = { about = "Low.", in = "on" }
bright = { about = "High.", in = "on" }
off = { about = "Dark." }
[event.switch]
kind = "call"
about = "Off or on."
moves = { dim = "off", bright = { begins = "off" }, off = "on.history" }
ends.off = "off"
[event.turn]
about = "More light."
moves = { dim = "bright" }
cannot = ["*"]
"""


def test_the_end_of_a_call_holds_for_all_variants_even_if_the_call_is_in_progress_in_one_only() -> None:
    assert {"off(dim)": "off(dim)", "off(bright)": "off(bright)"} == _targets(machine_of(LAMP), "switch", ends=True)
    assert ["FSM111"] == [each.code for each in problems_of(edited(LAMP, "ends.off", 'ends.dim = "on"\nends.off'))]


def test_to_a_parent_is_to_its_initial_state_and_to_its_history_from_inside_is_to_stay() -> None:
    machine = machine_of(WORKER)

    assert dict.fromkeys(["sleep", "fast", "slow"], "sleep") == _targets(machine, "rest")
    assert {"fast": "fast", "slow": "slow"}.items() <= _targets(machine, "cancel").items()


def test_a_profile_may_name_parents_and_override_them_in_a_substate() -> None:
    machine = machine_of(WORKER).under("old")

    assert {"stopping(sleep)", "stopping(fast)", "stopping(slow)"} == {*_targets(machine, "cancel")}
    assert {"sleep": "sleep dead", "fast": "sleep dead", "slow": "sleep stopping(slow)"} == _targets(machine, "rest")


def test_clauses_and_drawings_may_name_parents_and_states_with_variants() -> None:
    machine = machine_of(WORKER)

    assert machine.omits is not None
    assert {"fast", "slow"} == machine.omits["wake"].states
    variants = {"stopping(sleep)", "stopping(fast)", "stopping(slow)"}
    assert {"fast", "slow", "dead"} | variants == machine.requires["coded"].states


@pytest.mark.parametrize(
    ("condition", "states"),
    [
        ("is alive", "sleep fast slow"),
        ("alive", "sleep fast slow"),
        ("is work", "fast slow"),
        ("stopping", "stopping(sleep) stopping(fast) stopping(slow)"),
        ("is both", "fast slow dead stopping(sleep) stopping(fast) stopping(slow)"),
    ],
)
def test_a_condition_may_name_parents_and_states_with_variants(condition: str, states: str) -> None:
    defines = '[define]\nboth = ["work", "dead", "stopping"]\n' if "both" in condition else ""
    claim = stated_of(machine_of(WORKER), f'never = "{condition}"\n{defines}').claim  # type: ignore[arg-type]

    assert isinstance(claim, Never)
    assert In(states=frozenset(states.split())) == claim.sequences[0][0].means


def test_from_each_names_each_state_of_a_parent() -> None:
    claim = stated_of(machine_of(WORKER), 'reachable = "dead"\nfrom-each = ["work"]').claim  # type: ignore[arg-type]

    assert isinstance(claim, Reachable)
    assert ["was fast and dead", "was slow and dead"] == [each[0].text for each in claim.sequences]


PAIR = """\
[system]
name   = "pair"
title  = "A pair"
about  = "Two workers."
source = "handbook"

[define]
away = ["work", "stopping"]

[part.one]
machine = "worker"

[part.two]
machine = "worker"
initial = "work"

[event.wake]
about = "Both wake up."
when  = "two is away and one is not alive"
steps = ["one.wake"]
"""


def test_a_system_may_name_parents_and_states_with_variants() -> None:
    machine = machine_of(WORKER)

    system = build_system(parse(PAIR.encode(), WrittenSystem, path="pair.toml"), lambda _: machine)

    (joint,) = system.events.values()
    when = joint.when
    assert "fast" == system.parts["two"].initial
    assert isinstance(when, All)
    away = frozenset({"fast", "slow", "stopping(sleep)", "stopping(fast)", "stopping(slow)"})
    assert [away, frozenset(machine.states) - {"sleep", "fast", "slow"}] == [each.states for each in atoms(when)]  # type: ignore[union-attr]


def test_the_page_says_how_its_example_is_flattened() -> None:
    text = PAGE.read_text(encoding="utf-8")
    machine = machine_of(text.split("```toml\n")[1].partition("```")[0])

    assert ["off", "idle", "reading", "writing", "lost(idle)", "lost(reading)", "lost(writing)"] == [*machine.states]
    assert {"idle": "reading", "reading": "writing", "writing": "writing"} == _targets(machine, "work")
    assert all(f"`{state}`" in text for state in machine.states)


TRACE = """\
{"entity": "w", "event": "wake", "shows": "FAST"}
{"entity": "w", "event": "wake", "shows": "ALIVE"}
{"entity": "w", "event": "stop", "phase": "request"}
{"entity": "w", "event": "cancel", "shows": "ALIVE"}
{"entity": "w", "event": "wake", "shows": "FAST"}
"""


@pytest.mark.parametrize(("cancelled", "code"), [("ALIVE", 0), ("FAST", 1)])
def test_a_recording_is_judged_by_what_is_remembered(cancelled: str, code: int, tmp_path: Path) -> None:
    (tmp_path / "worker.toml").write_text(WORKER)
    trace = TRACE.replace('"cancel", "shows": "ALIVE"', f'"cancel", "shows": "{cancelled}"')
    (tmp_path / "trace.jsonl").write_text(trace)

    ran = fsm("judge", "--model", str(tmp_path / "worker.toml"), str(tmp_path / "trace.jsonl"))

    assert code == ran.returncode, ran.stdout + ran.stderr


def test_pictures_draw_parents_around_their_substates() -> None:
    drawn = picture(machine_of(WORKER))
    nested = """\
    state "alive" as alive {
        state "sleep<br>ALIVE" as sleep
        state "work" as work {
            state "fast<br>FAST" as fast
            state "slow<br>ALIVE" as slow
        }
    }
"""

    assert nested in mermaid(drawn)
    assert 'state "work" as work {\n        state "fast" as fast' in plantuml(drawn)
    assert ["cluster_alive", "cluster_work", "cluster_stopping"] == re.findall(r"subgraph (\w+)", dot(drawn))


def test_a_dot_picture_of_a_machine_with_substates_is_equal_to_it(tmp_path: Path) -> None:
    (tmp_path / "worker.toml").write_text(WORKER.partition("[drawing")[0])
    (tmp_path / "worker.dot").write_text(dot(picture(machine_of(WORKER), show=["stays"])))
    (tmp_path / "less.dot").write_text(dot(picture(machine_of(WORKER), show=["stays"])).replace("wake", "rest"))

    ran = [fsm("diff", str(tmp_path / "worker.toml"), str(tmp_path / name)) for name in ("worker.dot", "less.dot")]

    assert [0, 1] == [each.returncode for each in ran], ran[0].stdout


def test_show_lists_the_tree(tmp_path: Path) -> None:
    (tmp_path / "worker.toml").write_text(WORKER)

    lines = fsm("show", str(tmp_path / "worker.toml")).stdout.splitlines()

    assert [
        "  alive            There. Begins in sleep.",
        "    sleep          Idle. Shows ALIVE.",
        "    work           At work. Begins in fast.",
        "      fast         In a hurry. Shows FAST.",
        "      slow         At leisure. Shows ALIVE.",
    ] == lines[6:11]


def test_too_many_variants_are_refused() -> None:
    leaves = [f"{parent}{number}" for parent in "abc" for number in range(100)]
    states = "".join(f'{leaf} = {{ about = "", in = "{leaf[0]}" }}\n' for leaf in leaves)
    states += "".join(f'{parent} = {{ about = "", initial = "{parent}0", history = true }}\n' for parent in "abc")
    events = "".join(
        f'[event.to-{parent}]\nabout = ""\ncannot = ["*"]\nmoves = {{ out = "{parent}.history", a = "out" }}\n'
        for parent in "abc"
    )
    head = WORKER.partition("[machine]")[2].partition('"alive"')[0]

    (problem,) = problems_of(f'[machine]{head}"out"\n[states]\nout = {{ about = "" }}\n{states}{events}')

    assert "FSM120" == problem.code
    assert "the states can have more than 500000 variants to remember substates" == problem.what
