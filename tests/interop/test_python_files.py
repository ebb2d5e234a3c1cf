"""Machines in Python files are read as their libraries run them, and no file runs unless the user trusts it."""

from __future__ import annotations

import re
import shlex
import sys
import time
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from commands import fsm
from library_machines import (
    HEAD,
    differences,
    guards,
    module_of,
    random_chart,
    random_machine,
    replay_chart,
    replay_transitions,
)

from fsm.errors import InputError
from fsm.interop.draft import machine_of
from fsm.interop.python_files import python_machine
from fsm.machine import Moves

if TYPE_CHECKING:
    from fsm.interop.draft import Draft

SM = f"from statemachine import Event, HistoryState, State, StateChart, StateMachine\n{HEAD}"
CHARTS = {
    "a cycle": f"""{SM}
class M(StateMachine):
    green = State(initial=True)
    yellow = State()
    red = State("Stop!", value=3)
    cycle = green.to(yellow) | yellow.to(red) | red.to(green)
    halt = red.from_(green, yellow, cond="ga")
    alias = halt | cycle
{guards()}
""",
    "guards": f"""{SM}
class M(StateMachine):
    new = State(initial=True)
    paid, void = State(), State(final=True)
    again = new.to.itself(cond="ga", unless="gb") | new.to(paid, cond="gb")
    pay = new.to(paid, cond="ga and not gb") | new.to(void, unless=["ga"])
    move = Event(paid.to(new, internal=False) | new.to(new, internal=True), name="Move it")
    drop = void.from_.any(cond="ga ^ gb")
{guards()}
    @pay.on
    def notify(self): assert GUARDS
    def on_enter_paid(self): assert GUARDS
""".replace("paid, void = State(), State(final=True)", "paid = State()\n    void = State(final=True)"),
    "decorators": f"""{SM}
class M(StateChart):
    a = State(initial=True)
    b = State()
    go = a.to(b) | b.to(a)
    @go.cond
    def ga(self) -> bool: return GUARDS["ga"]
    @(a.to(a) | b.to(b))
    def stay(self): pass
    @go.validators
    def gb(self):
        if not GUARDS["gb"]: raise ArithmeticError
""",
    "an enumeration": f"""{SM}
from enum import Enum
from statemachine.states import States
class At(Enum):
    OFF = 1
    ON = 2
class M(StateMachine):
    _ = States.from_enum(At, initial=At.OFF, final=At.ON)
    press = _.OFF.to(_.ON)
""",
    "inheritance": f"""{SM}
class Base(StateMachine):
    a = State(initial=True)
    b = State()
    go = a.to(b) | b.to(a)
class M(Base):
    back = Base.b.to.itself() | Base.a.to.itself()
""",
    "compound": f"""{SM}
class M(StateChart):
    class on(State.Compound):
        class low(State.Compound):
            l1 = State(initial=True)
            l2 = State()
            up = l1.to(l2, cond="ga")
        high = State()
        up = low.to(high, cond="gb") | high.to.itself()
        down = high.to(low)
        past = HistoryState(type="deep")
    off = State()
    toggle = on.to(off) | off.to(on.past)
    reset = on.to(on) | off.to(on)
    past_default = on.past.to(on.low)
{guards()}
""".replace("    past_default = on.past.to(on.low)\n", ""),
    "parallel": f"""{SM}
class M(StateChart):
    class work(State.Parallel):
        class left(State.Compound):
            l1 = State(initial=True)
            l2 = State(final=True)
            step = l1.to(l2, cond="ga")
            both = l1.to(l2)
        class right(State.Compound):
            r1 = State(initial=True)
            r2 = State(final=True)
            step = r1.to(r2, cond="gb")
            both = r1.to(r2)
    rest = State()
    done_state_work = work.to(rest)
    again = rest.to(work)
    leave = work.to(rest)
{guards()}
""",
    "without events": f"""{SM}
class M(StateChart):
    a = State(initial=True)
    b = State()
    c = State(final=True)
    go = a.to(b)
    b.to(c, cond="ga")
    poke = b.to.itself()
    error_execution = a.to(c) | b.to(c)
{guards()}
""",
}
TM = f"from transitions import Machine, State\nfrom transitions.extensions import *\nfrom enum import Enum\n{HEAD}"
TM = TM.replace("import *", "import AsyncMachine, HierarchicalAsyncMachine, HierarchicalMachine")
MACHINES = {
    "its own model": f"""{TM}
class M(Machine):
    STATES = ["a", State("b", ignore_invalid_triggers=True), {{"name": "c", "on_enter": "boo"}}]
    def __init__(self):
        super().__init__(states=M.STATES, initial="a")
        self.add_transition("go", "a", "b", conditions="ga")
        self.add_transition("go", ["b", "c"], "=", unless=["ga", "gb"])
        self.add_transition("go", "*", "c")
        self.add_transition("poke", "*", None)
    def boo(self): assert GUARDS
{guards()}
""",
    "an enumeration": f"""{TM}
class At(Enum):
    OFF, ON = 1, 2
class M:
    moves = [{{"trigger": "press", "source": At.OFF, "dest": At.ON, "conditions": lambda: GUARDS["ga"]}}]
    def __init__(self, size=1):
        self.size = size
        self.machine = Machine(model=self, states=At, initial=At.OFF, transitions=self.moves + [["off", At.ON, At.OFF]])
        self.machine.add_ordered_transitions()
{guards()}
""".replace("OFF, ON = 1, 2", "OFF = 1\n    ON = 2").replace('lambda: GUARDS["ga"]', '"ga"'),
    "children": f"""{TM}
class M:
    def __init__(self):
        sub = {{"name": "c", "initial": "x", "children": ["x", "y"], "transitions": [["go", "x", "y"]]}}
        self.machine = HierarchicalMachine(self, states=["a", "b", sub], initial="a")
        for state in ["a", "b"]:
            self.machine.add_transition("enter", state, "c", conditions=self.ga)
        moves = []
        moves.append(["go", "c", "b", None, "gb"])
        self.machine.add_transitions(moves)
        self.machine.add_transition("leave", "c_y", "a")
{guards()}
""",
    "parallel": f"""{TM}
class M:
    def __init__(self):
        parts = [{{"name": n, "children": ["1", "2"], "initial": "1", "transitions": [["step", "1", "2", "g" + n]]}} for n in ["a", "b"]]
        states = ["off", {{"name": "on", "parallel": parts}}]
        self.machine = HierarchicalAsyncMachine(self, states=states, initial="off", ignore_invalid_triggers=True)
        self.machine.add_transitions([["start", "off", "on"], ["stop", "on", "off"]])
{guards()}
""",
    "asynchronous": f"""{TM}
class M:
    def __init__(self):
        self.machine = AsyncMachine(self, states=["a", "b"], initial="a", transitions=[["go", "a", "b", "ga"], ["go", "b", "a"]])
    async def ga(self): return GUARDS["ga"]
""",
}


def draft_of(path: Path, text: str, *, trust: bool = False) -> Draft:
    path.write_text(text, encoding="utf-8")
    return python_machine(str(path), "M", "", None, trust=trust).draft


@pytest.mark.parametrize("case", [*CHARTS, *MACHINES, "not there"][:-1])
def test_the_model_is_what_the_library_does(case: str, tmp_path: Path) -> None:
    """In every state that runs reach, every event has the same result for all results of the guards."""
    for number, cases in enumerate((CHARTS, MACHINES)):
        if case in cases:
            path = tmp_path / f"m{number}.py"
            machine = machine_of(draft_of(path, cases[case]), file="m.py", outcomes=False)
            replay = replay_chart if cases is CHARTS else replay_transitions

            found, reached = differences(machine, module_of(path), replay)

            assert [] == found
            assert set(machine.states) == reached


LOSSES = {
    "chart": f"""{SM}
class M(StateChart):
    off = State(initial=True)
    class on(State.Compound):
        past = HistoryState(type="shallow")
        low = State(initial=True)
        high = State()
        up = low.to(high, on="count")
        past.to(low)
    power = Event(off.to(on.past) | on.to(off), delay=5)
    stay = off.to.itself()
    def on_enter_off(self): pass
    @stay.after
    def log(self): pass
    def count(self): pass
    def on_enter_other(self): pass
""",
    "machine": f"""{TM}
class M:
    def __init__(self):
        states = ["off", {{"name": "on", "children": ["low", "high"], "initial": "low", "on_exit": "log"}}]
        ways = [["power", "off", "on"], {{"trigger": "up", "source": "on_low", "dest": "on_high", "after": "count"}}]
        self.machine = HierarchicalMachine(self, states, transitions=ways, initial="off", auto_transitions=False)
    def log(self): pass
    def count(self): pass
""",
}


@pytest.mark.parametrize("trust", [False, True])
@pytest.mark.parametrize(
    ("case", "lost"),
    [
        ("chart", ["Actions are left out: on_enter_off, log, count.", "Delays of events are left out: power."]),
        ("machine", ["Actions are left out: log, count."]),
    ],
)
def test_the_model_names_what_is_lost(case: str, lost: list[str], tmp_path: Path, *, trust: bool) -> None:
    about = draft_of(tmp_path / "m.py", LOSSES[case], trust=trust).about

    for sentence in [*lost, "These states have only leaves: on."]:
        assert sentence in about


def test_nothing_is_said_to_be_lost_without_a_loss(tmp_path: Path) -> None:
    for cases, case in ((CHARTS, "inheritance"), (MACHINES, "an enumeration")):
        about = draft_of(tmp_path / "m.py", cases[case]).about

        assert "left out" not in about
        assert "leaves" not in about


ORDERED = {
    "m.py, an AsyncMachine of transitions": f"""{TM}
class Own(AsyncMachine):
    pass
class M:
    def __init__(self):
        self.machine = Own(self, states=["z", "a", "b"], initial="b", auto_transitions=False)
        self.machine.add_transition("go", "b", "a")
        self.machine.add_transition("go", "a", "z")
""",
    "m.py, a HierarchicalMachine of transitions": f"""{TM}
class M:
    def __init__(self):
        outer = {{"name": "y", "initial": "c", "children": ["d", "c"]}}
        self.machine = HierarchicalMachine(self, states=["z", outer, "b"], initial="b", auto_transitions=False)
        self.machine.add_transition("go", "b", "y")
        self.machine.add_transition("go", "y_c", "y_d")
        self.machine.add_transition("stop", "y", "z")
""",
    "m.py, a class of python-statemachine": f"""{SM}
class M(StateChart):
    z = State(final=True)
    class y(State.Compound):
        d = State()
        c = State(initial=True)
        go = c.to(d)
    b = State(initial=True)
    go = b.to(y)
    stop = y.to(z)
""",
}


@pytest.mark.parametrize("form", ORDERED)
def test_states_keep_their_order(form: str, tmp_path: Path) -> None:
    """The initial state is not moved to the front. The class of the library is named."""
    draft = draft_of(tmp_path / "m.py", ORDERED[form])
    nested = {"an": "zab", "a": "zdcb"}[form.split()[1]]

    assert list(nested) == [each.name[-1] for each in draft.states]
    assert f"Imported from {form}. " in draft.about
    assert "b" == draft.initial


@pytest.mark.slow
@pytest.mark.parametrize("case", [*CHARTS, *MACHINES])
def test_the_syntax_says_what_python_says(case: str, tmp_path: Path) -> None:
    for cases in (CHARTS, MACHINES):
        if case in cases:
            path = tmp_path / "m.py"

            assert draft_of(path, cases[case]) == draft_of(path, cases[case], trust=True)


def compared(seed: int, folder: Path, *, chart: bool) -> list[str]:
    path = folder / f"m{seed}.py"
    try:
        draft = draft_of(path, (random_chart if chart else random_machine)(seed))
    except InputError as error:
        accepted = ("has no transitions", "no state is active", "more than 200")
        return [] if any(each in str(error) for each in accepted) else [str(error)]
    machine = machine_of(draft, file="m.py", outcomes=False)
    return differences(machine, module_of(path), replay_chart if chart else replay_transitions)[0]


@pytest.mark.parametrize("chart", [True, False])
@pytest.mark.parametrize("seed", range(25))
def test_random_classes(seed: int, tmp_path: Path, *, chart: bool) -> None:
    assert [] == compared(seed, tmp_path, chart=chart)


@pytest.mark.parametrize(("cases", "case"), [(CHARTS, "parallel"), (CHARTS, "guards"), (MACHINES, "children")])
def test_the_comparison_notices_each_wrong_outcome(cases: dict[str, str], case: str, tmp_path: Path) -> None:
    path = tmp_path / "m.py"
    machine = machine_of(draft_of(path, cases[case]), file="m.py", outcomes=False)
    module, replay = module_of(path), replay_chart if cases is CHARTS else replay_transitions
    made = 0
    for event in machine.events.values():
        for state, cell in event.cells.items():
            if not isinstance(cell, Moves):
                continue
            for number, way in enumerate(cell.outcomes):
                other = next(
                    each.name for each in machine.states.values() if each.shows != machine.states[way.to].shows
                )
                ways = (*cell.outcomes[:number], replace(way, to=other), *cell.outcomes[number + 1 :])
                cells = {**event.cells, state: replace(cell, outcomes=ways)}
                wrong = replace(machine, events={**machine.events, event.name: replace(event, cells=cells)})

                assert differences(wrong, module, replay)[0]
                made += 1
    assert made > 4


ACTS = """
class Listener:
    def __init__(self): open('ran', 'w')
    def on_enter_state(self): open('ran', 'w')
class X(StateMachine):
    listeners = [Listener]
    a = State(initial=True, enter="act", invoke="act")
    b = State(final=True, exit="act")
    go = a.to(b, cond="act", before="act", on="act", after="act", validators="act")
    def __init__(self): open('ran', 'w')
    def act(self): open('ran', 'w')
    def prepare_event(self): open('ran', 'w')
"""


@pytest.mark.slow
@pytest.mark.parametrize("trust", [[], ["--trust"]])
def test_no_object_of_the_class_acts(trust: list[str], tmp_path: Path) -> None:
    (tmp_path / "m.py").write_text(f"from statemachine import State, StateMachine\n{ACTS}", encoding="utf-8")

    assert 0 == fsm("import", "m.py", *trust, cwd=tmp_path).returncode
    assert not (tmp_path / "ran").exists()


HARMFUL = {
    "at the beginning": "open('ran', 'w').close()\n{}",
    "at the end": "{}\nopen('ran', 'w').close()",
    "in the class": "{}\n    open('ran', 'w').close()",
    "as a default": "{}\n    def f(self, x=open('ran', 'w')): pass",
    "as a decorator": "{}\n    @open('ran', 'w')\n    def f(self): pass",
    "as a guard": "{}\n    go2 = a.to(b, cond=[open('ran', 'w')])",
    "in a comprehension": "[open('ran', 'w') for _ in [1]]\n{}",
    "by its attributes": "{}\n    x = ().__class__.__base__.__subclasses__()\n    y = State.__init__.__globals__['os'].mkdir('ran')",
    "by the library": "import transitions.core as core\ncore.inspect.os.mkdir('ran')\n{}",
    "by a metaclass": "class Meta(type):\n    def __new__(*a): open('ran', 'w')\nclass X(metaclass=Meta): pass\n{}",
    "by a base": "class X:\n    def __init_subclass__(cls): open('ran', 'w')\nclass Y(X): pass\n{}",
    "by its docstring": '{}\n    """{{statechart:svg}}"""',
    "by an object": "{}\n    def on_enter_a(self): open('ran', 'w')\nX()",
    "by the name of a callback": "from transitions import Machine\nm = Machine(states=['a'], initial='a', before_state_change='os.getcwd')\n{}",
}
CLASS = "from statemachine import State, StateMachine\nclass X(StateMachine):\n    a = State(initial=True)\n    b = State(final=True)\n    go = a.to(b)"


@pytest.mark.parametrize("case", HARMFUL)
def test_nothing_runs_without_trust(case: str, tmp_path: Path) -> None:
    (tmp_path / "m.py").write_text(HARMFUL[case].format(CLASS), encoding="utf-8")

    ran = fsm("import", "m.py:X", cwd=tmp_path)

    assert ran.returncode in {0, 2}
    assert "Traceback" not in ran.stderr
    assert [tmp_path / "m.py"] == list(tmp_path.iterdir())


def test_a_trusted_file_runs(tmp_path: Path) -> None:
    """The test above can fail."""
    (tmp_path / "m.py").write_text(HARMFUL["at the end"].format(CLASS), encoding="utf-8")

    assert 0 == fsm("import", "m.py:X", "--trust", cwd=tmp_path).returncode
    assert (tmp_path / "ran").exists()


MADE = "from transitions import Machine\n{}m = Machine(states=['a'], initial='a', transitions=moves)"
UNKNOWN = {
    "a list that is changed": (MADE.format("moves = []\nmoves[:] = [['go', 'a', 'a']]\n"), "'moves' is not known", 4),
    "a list that a function gets": (MADE.format("moves = []\nchange(moves)\n"), "'moves' is not known", 4),
    "a list with another name": (MADE.format("x = []\nmoves = x\nif m: x.append(1)\n"), "'moves' is not known", 5),
    "a list that a function changes": (
        MADE.format("moves = []\ndef change():\n    if x: moves.append(1)\nchange()\n"),
        "'moves' is not known",
        6,
    ),
    "a part of a list": (MADE.format("move = dict()\nmoves = [move]\nmove['x'] = y\n"), "'moves' is not known", 5),
    "a list from elsewhere": (MADE.format("moves = []\nfrom x import *\n"), "'moves' is not known", 4),
    "an attribute that is changed": (
        (
            "from transitions import Machine\nclass A:\n    moves = []\n    def __init__(self):\n        self.moves = make()\n"
            "        Machine(self, states=['a'], initial='a', transitions=self.moves)"
        ),
        "'make' is not known",
        6,
    ),
    "a call": ("{}\n    more = make(a, b)", "'make' is not known", 6),
    "a computed state": ("{}\n    c = State(name=str(3))", "'str'", 6),
    "an imported base": ("from x import Base\n{}\nclass Y(Base, StateMachine): pass", "'Base' is imported", 7),
    "an imported list": (
        "from x import MOVES\nfrom transitions import Machine\nm = Machine(states=['a'], initial='a', transitions=MOVES)",
        "'MOVES' is imported",
        3,
    ),
    "a method that adds": (
        (
            "from transitions import Machine\nclass A:\n    def __init__(self):\n        self.m = Machine(self, states=['a'], initial='a')\n"
            "        self.more()\n    def more(self):\n        self.m.add_transition('go', 'a', 'a')"
        ),
        "'more' is called",
        5,
    ),
    "a function that returns states": ("def f(): return State()\n{}\n    c = f()", "'f' is called", 7),
    "a function that returns transitions": (
        "from transitions import Machine\ndef f(): return [['go', 'a', 'a']]\nm = Machine(states=['a'], initial='a', transitions=f())",
        "'f' is called",
        3,
    ),
    "a class that runs when it is derived": (
        "class X:\n    def __init_subclass__(cls): pass\nclass Machine(X): pass",
        "'__init_subclass__' is called",
        2,
    ),
    "a loop": (
        "from transitions import Machine\nm = Machine(states=['a'], initial='a')\nwhile input():\n    m.add_transition('b', 'a', 'a')",
        "'while' depends",
        3,
    ),
    "a function that gets the machine": (
        "from transitions import Machine\nm = Machine(states=['a'], initial='a')\nsetup(m)",
        "'setup'",
        3,
    ),
    "too deep": ("x = " + "[" * 90 + "]" * 90 + "\nclass Machine1: x = " + "-" * 2000 + "1", "too deep", 0),
}


@pytest.mark.parametrize("case", UNKNOWN)
def test_what_only_running_would_tell(case: str, tmp_path: Path) -> None:
    text, why, line = UNKNOWN[case]
    (tmp_path / "m.py").write_text(str(text).format(CLASS), encoding="utf-8")

    ran = fsm("import", "m.py", cwd=tmp_path)

    assert (2, "") == (ran.returncode, ran.stdout)
    assert f"m.py:{line}: " in ran.stderr or not line
    assert str(why) in ran.stderr
    assert "[FSM530]\n    write it out; or add --trust" in ran.stderr


REFUSED: dict[str, tuple[str | bytes, str, str]] = {
    "a syntax error": ("class X(", "", "m.py:1: the file is not Python: '(' was never closed [FSM517]"),
    "no text": ("\0", "", "[FSM517]"),
    "bytes": (b"\xff\xfe", "", "the text is not UTF-8"),
    "too large": ("x = 1\n" * 200_000, "", "the file is larger than 1 MiB [FSM502]"),
    "no class": ("x = 1", "", "[FSM518]"),
    "two classes": (CLASS + "\nclass Y(X):\n    more = X.a.to(X.b)", "", "has 2 machines: X, Y [FSM518]"),
    "another class": (CLASS, ":Z", "has no class 'Z' with states [FSM518]"),
    "no model": (
        "from transitions import Machine\nm = Machine(None, states=['a'], initial='a')",
        "",
        "'m' is not a Machine of transitions with a model, and has none [FSM518]",
    ),
    "what the library refuses": (
        CLASS + "\n    d = State(initial=True)",
        "",
        "m.py:2: the library does not accept this",
    ),
    "too many states": (
        "from statemachine import *\n".replace("*", "State, StateChart")
        + "class X(StateChart):\n    class p(State.Parallel):\n"
        + "".join(
            f"        class r{n}(State.Compound):\n            a{n} = State(initial=True)\n            b{n} = State()\n            go{n} = a{n}.to(b{n})\n"
            for n in range(8)
        ),
        "",
        "'X' has more than 200 flat states or 50000 steps [FSM531]",
    ),
    "too many guards": (
        CLASS + "\n    x = " + " | ".join(f"a.to(b, cond='g{n}', unless='h{n}')" for n in range(9)),
        "",
        "[FSM531]",
    ),
    "no end": (
        (
            "from statemachine import State, StateChart\nclass X(StateChart):\n    a = State(initial=True)\n    b = State()\n    c = State()\n"
            "    go = a.to(b)\n    b.to(c)\n    c.to(b)"
        ),
        "",
        "steps without an end at event 'go' in state 'a' [FSM531]",
    ),
    "no end at the beginning": (
        "from statemachine import State, StateChart\nclass X(StateChart):\n    a = State(initial=True)\n    b = State()\n    a.to(b)\n    b.to(a)",
        "",
        "steps without an end at the beginning [FSM531]",
    ),
    "a beginning that depends on a guard": (
        "from statemachine import State, StateChart\nclass X(StateChart):\n    a = State(initial=True)\n    b = State()\n    a.to(b, cond='g')\n    go = b.to(a)",
        "",
        "where 'X' begins depends on conditions: g [FSM531]",
    ),
    "a history without a default": (
        (
            "from statemachine import HistoryState, State, StateChart\nclass X(StateChart):\n    a = State(initial=True)\n    class b(State.Compound):\n"
            "        c = State()\n        h = HistoryState()\n    go = a.to(b.h)"
        ),
        "",
        "after event 'go' in state 'a', no state is active [FSM518]",
    ),
}


@pytest.mark.parametrize("case", REFUSED)
def test_what_cannot_be_imported(case: str, tmp_path: Path) -> None:
    text, name, said = REFUSED[case]
    (tmp_path / "m.py").write_bytes(text if isinstance(text, bytes) else text.encode())

    ran = fsm("import", f"m.py{name}", cwd=tmp_path)

    assert (2, "") == (ran.returncode, ran.stdout)
    assert said in ran.stderr


HOSTILE = {
    "forever": ("while True: pass", "takes longer than 1 s [FSM532]"),
    "deaf": (
        "import signal, time\nfor n in range(1, 32):\n  try: signal.signal(n, signal.SIG_IGN)\n  except OSError: pass\ntime.sleep(9)",
        "takes longer",
    ),
    "exits": ("raise SystemExit(3)", "fails when it is run: SystemExit: 3 [FSM517]"),
    "ends": ("import os\nos._exit(7)", "ended early, with exit code 7 [FSM532]"),
    "kills itself": ("import os\nos.kill(os.getpid(), 9)", "[FSM532]"),
    "imports what is missing": ("import nowhere", "ModuleNotFoundError: No module named 'nowhere' [FSM517]"),
    "raises": ("raise BaseException('x')", "fails when it is run: BaseException: x [FSM517]"),
    "is taken": ("", "has the same name as another module"),
}


@pytest.mark.slow
@pytest.mark.parametrize("case", HOSTILE)
def test_a_trusted_file_cannot_hang_the_command(case: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("fsm.interop.python_files.SECONDS", 1 if case in {"forever", "deaf"} else 20)
    text, said = HOSTILE[case]
    file = "enum.py" if case == "is taken" else "m.py"
    (tmp_path / file).write_text(f"{CLASS}\n{text}", encoding="utf-8")

    ran = fsm("import", file, "--trust", cwd=tmp_path)

    assert (2, "") == (ran.returncode, ran.stdout)
    assert said in ran.stderr


@pytest.mark.slow
@pytest.mark.parametrize(
    "text",
    [
        "print('hello' * 10_000_000)",
        "import os\nos.fork()",
        "import os, time\nif not os.fork(): time.sleep(60)",
        "input()",
    ],
)
def test_what_a_trusted_file_does_besides(text: str, tmp_path: Path) -> None:
    text = text.replace("input()", "import sys\nassert not sys.stdin.read()")
    (tmp_path / "m.py").write_text(f"{CLASS}\n{text}", encoding="utf-8")
    begun = time.monotonic()

    ran = fsm("import", "m.py", "--trust", cwd=tmp_path)

    assert (0, "") == (ran.returncode, ran.stderr)
    assert ran.stdout.startswith("# Imported from m.py, a class of python-statemachine.")
    assert time.monotonic() - begun < 20


@pytest.mark.parametrize("arguments", [["import", "lamp.json", "--trust"], ["init", "lamp", "--trust"]])
def test_trust_is_for_python_files(arguments: list[str], tmp_path: Path) -> None:
    ran = fsm(*arguments, cwd=tmp_path)

    assert (2, "") == (ran.returncode, ran.stdout)
    assert "--trust is only for Python files" in ran.stderr


HOW_TO = Path(__file__).resolve().parent.parent.parent / "docs" / "how-to"


@pytest.mark.slow
@pytest.mark.parametrize(("page", "file"), [("from-transitions", "lamp.py"), ("from-python-statemachine", "gate.py")])
def test_the_page_can_be_followed(page: str, file: str, tmp_path: Path) -> None:
    text = (HOW_TO / f"{page}.md").read_text(encoding="utf-8")
    code, commands = (re.findall(rf"```{kind}\n(.*?)```", text, re.DOTALL)[0] for kind in ("python", "sh"))
    for number, command in enumerate(commands.splitlines()):
        folder = tmp_path / str(number)
        (folder / "models").mkdir(parents=True)
        (folder / file).write_text(code, encoding="utf-8")

        ran = fsm(*shlex.split(command, comments=True)[1:], cwd=folder)

        assert (0, "") == (ran.returncode, ran.stderr)
        assert 1 == len(list((folder / "models").iterdir()))


def test_a_library_that_is_not_installed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "statemachine", None)
    (tmp_path / "m.py").write_text(CLASS, encoding="utf-8")

    ran = fsm("import", "m.py", cwd=tmp_path)

    assert (2, "") == (ran.returncode, ran.stdout)
    assert "m.py:1: the file imports 'statemachine'" in ran.stderr
    assert "[FSM517]\n    pip install --upgrade python-statemachine" in ran.stderr
