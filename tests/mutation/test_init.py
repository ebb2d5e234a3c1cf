"""The files that ``fsm init`` writes can be run at once, and their tests can fail. No file is overwritten."""

from __future__ import annotations

import importlib.util
import shlex
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest
from commands import fsm, left_as_it_was

from fsm.checker import decide
from fsm.checker.instants import StepCache
from fsm.language.library import load, specification
from fsm.machine.table import tabulate
from fsm.mutation import mutants
from fsm.mutation.outcomes import as_stated

if TYPE_CHECKING:
    from pathlib import Path

LAMP = """\
import enum

from transitions import Machine


class At(enum.Enum):
    OFF = 1
    ON = 2
    BROKEN = 3


class Lamp:
    def __init__(self, watts=40):
        self.watts = watts
        self.presses = 0
        moves = [
            {"trigger": "press", "source": At.OFF, "dest": At.BROKEN, "unless": "is_good"},
            {"trigger": "press", "source": At.OFF, "dest": At.ON},
            {"trigger": "press", "source": At.ON, "dest": At.OFF},
            {"trigger": "drop", "source": "*", "dest": At.BROKEN, "after": lambda: None},
        ]
        self.rules = Machine(self, states=At, initial=At.OFF, transitions=moves)

    def is_good(self):
        self.presses += 1
        return self.presses % 3 > 0
"""
MATTER = """\
from transitions import Machine

class Matter:
    def shine(self): pass

print("imported")
lump = Matter()
machine = Machine(
    lump, states=["solid", "red hot", {"name": "gas", "on_enter": "shine"}], initial="red hot", ignore_invalid_triggers=True,
    transitions=[["cool", "red hot", "solid"], ["warm", "solid", "red hot"], ["blow up!", "*", "gas"], ["rest", "gas", None]],
)
"""
NEST = """\
from transitions.extensions import HierarchicalAsyncMachine

class Nest:
    def __init__(self):
        on = {"name": "on", "parallel": [{"name": n, "children": ["1", "2"], "initial": "1"} for n in ["a", "b"]]}
        self.machine = HierarchicalAsyncMachine(self, states=["off", on], initial="off")
        self.machine.add_transition("start", "off", "on")
        self.machine.add_transition("turn", "on_a_1", "on_a_2")
        self.machine.add_transition("turn", "on_b_1", "on_b_2")
        self.machine.add_transition("stop", "on", "off")
"""
GATE = """\
from statemachine import HistoryState, State, StateMachine

class Gate(StateMachine):
    shut = State("Shut!", initial=True)
    class open(State.Compound):
        wide = State(initial=True)
        ajar = State()
        past = HistoryState()
        past.to(wide)
        turn = wide.to(ajar) | ajar.to(wide)
    gone = State(final=True)
    push = shut.to(open, cond="is_light")
    kick = shut.to(open.past)
    shove = open.to(shut)
    take = shut.to(gone)

    def is_light(self):
        return True
"""
ORDER = """\
# Orders

```mermaid
stateDiagram-v2
    [*] --> new
    new --> paid: pay by card
    new --> cancelled: cancel
    paid --> shipped: ship v1.2
    paid --> cancelled: cancel
    shipped --> delivered: arrive
    shipped --> lost: arrive
    lost --> lost: ask
    delivered --> [*]
```
"""
BOXES = """\
        |
   +----v----+
   | CREATED |
   +----+----+
        | Start
   +----v----+
   | RUNNING |
   +----+----+
        | Stop
        v
     DELETED
"""
DOT = 'digraph { start [shape=point]; start -> shut [label="make"]; shut -> open [label="push"]; open -> shut [label="pull"] }\n'
SOURCES = {
    "new": ("", "", ""),
    "class": ("lamp.py", LAMP, "--from-transitions"),
    "object": ("matter.py", MATTER, "--from-transitions"),
    "nested": ("nest.py", NEST, "--from-transitions"),
    "chart": ("gate.py", GATE, "--from-python-statemachine"),
    "mermaid": ("docs/order.md", ORDER, "--from-drawing"),
    "boxes": ("state.go", BOXES, "--from-drawing"),
    "dot": ("door.dot", DOT, "--from-drawing"),
}


def begun(folder: Path, kind: str) -> subprocess.CompletedProcess[str]:
    file, text, option = SOURCES[kind]
    if file:
        (folder / file).parent.mkdir(parents=True, exist_ok=True)
        (folder / file).write_text(text, encoding="utf-8")
    return fsm("init", "thing", *([option, file] if option else []), cwd=folder)


def run_tests(folder: Path) -> None:
    """Call the tests in *folder* as pytest would."""
    file = folder / "tests" / "test_thing.py"
    spec = importlib.util.spec_from_file_location("test_thing", file)
    assert spec
    assert spec.loader
    module = importlib.util.module_from_spec(spec)
    with left_as_it_was(folder):
        spec.loader.exec_module(module)
        tests = [value for name, value in vars(module).items() if name.startswith("test_")]
        assert len(tests) == 2
        for each in tests:
            each()


@pytest.mark.parametrize(
    ("label", "about"),
    [("when it pays!", "When it pays!"), ("is it over?", "Is it over?"), ("pay.", "Pay."), ("pay", "Pay.")],
)
def test_a_label_is_a_sentence_with_one_mark_at_its_end(label: str, about: str, tmp_path: Path) -> None:
    drawing = f'digraph {{ start [shape=point]; start -> a; a -> b [label="{label}"]; b -> a [label="back"] }}'
    (tmp_path / "a.dot").write_text(drawing, encoding="utf-8")

    assert 0 == fsm("init", "thing", "--from-drawing", "a.dot", cwd=tmp_path).returncode
    assert f'about = "{about}"' in (tmp_path / "models" / "thing.toml").read_text(encoding="utf-8")


@pytest.mark.parametrize("kind", [pytest.param(kind, marks=[pytest.mark.slow] * (kind != "new")) for kind in SOURCES])
def test_what_is_written_runs(kind: str, tmp_path: Path) -> None:
    ran = begun(tmp_path, kind)

    assert (0, ["models/thing.toml", "properties/thing.toml", "tests/test_thing.py"]) == (
        ran.returncode,
        ran.stdout.splitlines()[:3],
    ), ran.stderr
    checked = fsm("check", "models/thing.toml", cwd=tmp_path)
    assert checked.returncode == 0, checked.stdout
    assert checked.stdout.count("  holds  ") >= 5
    run_tests(tmp_path)


@pytest.mark.parametrize("kind", SOURCES)
def test_each_property_can_fail(kind: str, tmp_path: Path) -> None:
    begun(tmp_path, kind)
    stated = specification(str(tmp_path / "properties" / "thing.toml"))
    made = {each.name: each for each in mutants(stated.machine)}

    assert all(each.catches for each in stated.properties)
    for each in stated.properties:
        for name in each.catches:
            assert not as_stated(decide(each, tabulate(made[name].machine))), (each.name, name)
        assert as_stated(decide(each, StepCache(tabulate(stated.machine))))


@pytest.mark.parametrize(
    ("kind", "file", "mistake", "instead"),
    [
        (
            "new",
            "tests/test_thing.py",
            '("stop", "running"): ("ok", "stopped")',
            '("stop", "running"): ("ok", "running")',
        ),
        ("class", "lamp.py", '"source": At.ON, "dest": At.OFF', '"source": At.ON, "dest": At.ON'),
        ("object", "matter.py", '["warm", "solid", "red hot"]', '["warm", "solid", "gas"]'),
        ("nested", "nest.py", '("turn", "on_b_1", "on_b_2")', '("turn", "on_b_1", "on_b_1")'),
        ("chart", "gate.py", "ajar.to(wide)", "ajar.to(ajar)"),
        (
            "mermaid",
            "tests/test_thing.py",
            '("cancel", "paid"): ("ok", "cancelled")',
            '("cancel", "paid"): ("ok", "paid")',
        ),
    ],
)
def test_the_test_finds_a_mistake(kind: str, file: str, mistake: str, instead: str, tmp_path: Path) -> None:
    begun(tmp_path, kind)
    text = (tmp_path / file).read_text(encoding="utf-8")
    assert text.count(mistake) == 1
    (tmp_path / file).write_text(text.replace(mistake, instead), encoding="utf-8")

    with pytest.raises(AssertionError, match="violation") as raised:
        run_tests(tmp_path)
    assert "Nonconforming(" not in str(raised.value)
    again = shlex.split(str(raised.value).rpartition("\nagain: ")[2])
    ran = fsm(*again[1:], cwd=tmp_path)
    assert (ran.returncode, " --replay " in ran.stdout) == (1, True), ran.stderr


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["new", "class", "mermaid"])
def test_pytest_passes(kind: str, tmp_path: Path) -> None:
    begun(tmp_path, kind)

    ran = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "--fsm", "-p", "no:cacheprovider", "tests", "models", "properties"],
        cwd=tmp_path,
        check=False,
        capture_output=True,
        text=True,
    )

    assert ran.returncode == 0, ran.stdout
    assert " passed" in ran.stdout


@pytest.mark.parametrize("there", ["models/thing.toml", "properties/thing.toml", "tests/test_thing.py"])
def test_nothing_is_overwritten(there: str, tmp_path: Path) -> None:
    (tmp_path / there).parent.mkdir()
    (tmp_path / there).write_text("mine", encoding="utf-8")

    ran = begun(tmp_path, "new")

    assert (2, "") == (ran.returncode, ran.stdout)
    assert f"{there}: the file exists already [FSM520]" in ran.stderr
    assert [tmp_path / there] == [each for each in tmp_path.rglob("*") if each.is_file()]
    assert (tmp_path / there).read_text(encoding="utf-8") == "mine"


def test_nothing_is_half_written(tmp_path: Path) -> None:
    (tmp_path / "tests").write_text("no folder", encoding="utf-8")

    ran = begun(tmp_path, "new")

    assert (2, "") == (ran.returncode, ran.stdout)
    assert "tests" in ran.stderr
    assert [tmp_path / "tests"] == list(tmp_path.rglob("*"))


@pytest.mark.slow
def test_another_folder(tmp_path: Path) -> None:
    (tmp_path / "src").mkdir()
    (tmp_path / "src" / "lamp.py").write_text(LAMP, encoding="utf-8")

    ran = fsm("init", "thing", "--from-transitions", "src/lamp.py:Lamp(watts=60)", "-o", "spec/lamp", cwd=tmp_path)

    assert (0, "") == (ran.returncode, ran.stderr)
    text = (tmp_path / "spec" / "lamp" / "tests" / "test_thing.py").read_text(encoding="utf-8")
    assert "lamp.Lamp(watts=60)" in text
    run_tests(tmp_path / "spec" / "lamp")


@pytest.mark.slow
def test_a_module_of_a_package(tmp_path: Path) -> None:
    (tmp_path / "light").mkdir()
    (tmp_path / "light" / "__init__.py").touch()
    (tmp_path / "light" / "lamps.py").write_text(f"from . import __path__\n{LAMP}", encoding="utf-8")

    ran = fsm("init", "thing", "--from-transitions", "light/lamps.py", cwd=tmp_path)

    assert (0, "") == (ran.returncode, ran.stderr)
    run_tests(tmp_path)


def test_what_the_machine_is_made_of(tmp_path: Path) -> None:
    begun(tmp_path, "class")
    machine = load(str(tmp_path / "models" / "thing.toml"))

    assert (["OFF", "ON", "BROKEN"], ["press", "drop"]) == (list(machine.states), list(machine.events))
    assert {"BROKEN", "ON"} == {way.to for way in machine.step("OFF", "press") or ()}
    assert [("error",)] == [way.reply for way in machine.step("BROKEN", "press") or ()]


def test_a_machine_that_no_attribute_has(tmp_path: Path) -> None:
    kept = LAMP.replace("self.rules = Machine(", "Machine(")
    assert kept != LAMP
    (tmp_path / "lamp.py").write_text(kept, encoding="utf-8")

    ran = fsm("init", "thing", "--from-transitions", "lamp.py", cwd=tmp_path)

    assert (0, "") == (ran.returncode, ran.stderr)
    run_tests(tmp_path)


def test_what_the_drawing_shows(tmp_path: Path) -> None:
    begun(tmp_path, "mermaid")
    machine = load(str(tmp_path / "models" / "thing.toml"))

    assert ["pay-by-card", "cancel", "ship-v1-2", "arrive", "ask"] == list(machine.events)
    assert ["delivered", "lost"] == [way.to for way in machine.step("shipped", "arrive") or ()]
    assert [("error",)] == [way.reply for way in machine.step("new", "arrive") or ()]
    assert [("ok",)] == [way.reply for way in machine.step("lost", "ask") or ()]
    assert ["cancelled", "delivered", "lost"] == [each.name for each in machine.states.values() if each.kind == "final"]


MACHINE = "from transitions import Machine\n"
WRONG = {
    "a name": ("", "", ["init", "a/b"], "'a/b' cannot be the name of a model"),
    "two sources": (
        "",
        "",
        ["init", "a", "--from-drawing", "b", "--from-transitions", "c"],
        "a model has only one source",
    ),
    "a colon without a name": ("lamp.py", LAMP, ["init", "a", "--from-transitions", "lamp.py:"], "[FSM517]"),
    "no file": (
        "",
        "",
        ["init", "a", "--from-transitions", "lamp.py"],
        "lamp.py: the file cannot be opened: no such file or directory [FSM501]",
    ),
    "no Python": (
        "lamp.js",
        "",
        ["init", "a", "--from-transitions", "lamp.js"],
        "this is not the path of a Python file that can be imported [FSM517]",
    ),
    "a syntax error": (
        "lamp.py",
        "(",
        ["init", "a", "--from-transitions", "lamp.py"],
        "lamp.py:1: the file is not Python: '(' was never closed [FSM517]",
    ),
    "an exit": (
        "lamp.py",
        "exit(3)",
        ["init", "a", "--from-transitions", "lamp.py", "--trust"],
        "fails when it is run: SystemExit: 3",
    ),
    "a name that is taken": (
        "enum.py",
        "",
        ["init", "a", "--from-transitions", "enum.py", "--trust"],
        "has the same name as another module",
    ),
    "no machine": (
        "lamp.py",
        "x = 1",
        ["init", "a", "--from-transitions", "lamp.py"],
        "the file has no Machine of transitions [FSM518]",
    ),
    "several": (
        "lamp.py",
        MACHINE + "a = Machine(states=['x'], initial='x')\nb = Machine(states=['x'], initial='x')",
        ["init", "a", "--from-transitions", "lamp.py"],
        "has 2 machines: a, b [FSM518]",
    ),
    "no such name": (
        "lamp.py",
        LAMP,
        ["init", "a", "--from-transitions", "lamp.py:Lump"],
        "has no 'Lump' [FSM518]\n    did you mean 'Lamp'?",
    ),
    "code": (
        "lamp.py",
        LAMP,
        ["init", "a", "--from-transitions", "lamp.py:Lamp(open('x'))"],
        "is not the name of a machine [FSM518]",
    ),
    "what is none": ("lamp.py", LAMP, ["init", "a", "--from-transitions", "lamp.py:At"], "'At' cannot be created"),
    "an argument that is missing": (
        "lamp.py",
        LAMP.replace("watts=40", "watts"),
        ["init", "a", "--from-transitions", "lamp.py", "--trust"],
        "missing 1 required positional argument: 'watts' [FSM518]\n    pass the arguments that it needs: lamp.py:'Lamp(\"oak\", 3)'",
    ),
    "an argument that is missing in the syntax": (
        "lamp.py",
        LAMP.replace("watts=40", "watts"),
        ["init", "a", "--from-transitions", "lamp.py"],
        "missing the arguments watts [FSM518]\n    pass the arguments that it needs: lamp.py:'Lamp(\"oak\", 3)'",
    ),
    "no transitions": (
        "lamp.py",
        MACHINE + "a = Machine(states=['x'], initial='x')",
        ["init", "a", "--from-transitions", "lamp.py"],
        "has no transitions [FSM509]",
    ),
    "no initial state": (
        "lamp.py",
        MACHINE + "a = Machine(None, states=['x'], initial=None)\nclass B: pass\na.add_model(B(), 'x')",
        ["init", "a", "--from-transitions", "lamp.py"],
        "has no initial state [FSM509]",
    ),
    "no drawing": (
        "a.md",
        "text",
        ["init", "a", "--from-drawing", "a.md"],
        "the text contains no drawing of states [FSM402]",
    ),
    "an arrow without a label": (
        "a.dot",
        "digraph {\n a -> b }",
        ["init", "a", "--from-drawing", "a.dot"],
        "a.dot:2: column 4: the arrow from 'a' to 'b' has no label [FSM519]",
    ),
    "no beginning": (
        "a.dot",
        "digraph { a -> b [label=x]; b -> a [label=y] }",
        ["init", "a", "--from-drawing", "a.dot"],
        "a.dot:1: the drawing does not show where a run begins [FSM519]",
    ),
    "two drawings": (
        "a.dot",
        "digraph { a -> b }\n" * 2,
        ["init", "a", "--from-drawing", "a.dot"],
        "has 2 drawings; select one of them with one of a.dot:1, a.dot:2",
    ),
    "a line without one": (
        "a.dot",
        "digraph { a -> b }",
        ["init", "a", "--from-drawing", "a.dot:7"],
        "no drawing includes this line [FSM402]",
    ),
    "a drawing that is broken": ("a.dot", "digraph { a -> }", ["init", "a", "--from-drawing", "a.dot"], "[FSM409]"),
    "a name that a terminal would obey": (
        "a.dot",
        'digraph { a -> b [label="x\x1b[31m"] }',
        ["init", "a", "--from-drawing", "a.dot"],
        "FSM",
    ),
}


@pytest.mark.parametrize("case", WRONG)
def test_what_cannot_be_used(case: str, tmp_path: Path) -> None:
    file, text, arguments, said = WRONG[case]
    if file:
        (tmp_path / file).write_text(text, encoding="utf-8")

    ran = fsm(*arguments, cwd=tmp_path)

    assert (2, "") == (ran.returncode, ran.stdout)
    assert said in ran.stderr
    assert "Traceback" not in ran.stderr
    assert [file] * bool(file) == [each.name for each in tmp_path.iterdir() if each.name != "__pycache__"]
