"""Each code has an example that raises it and a corrected example that is accepted."""

from __future__ import annotations

import gzip
import json
import re
import shlex
import subprocess
import sys
import tempfile
import time
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from commands import RECORDINGS, fsm
from door_project import CLAIM, PROPERTIES
from foreign_packages import EXAMPLE, declare, importable
from machines import DOOR, JOB, LEASE, SAFE, edited
from toy_systems import OFFICE

from fsm.language.codes import RULES

if TYPE_CHECKING:
    from collections.abc import Iterator

LAMP = """\
states: [off, on]
initial: off
transitions:
  - {trigger: press, source: off, dest: on}
"""
CRASH = """\
[event.crash]
kind  = "signal"
about = "All jobs are lost."
steps = ["reset every job", "door.slam"]
"""
BANK = """\
[system]
name   = "bank"
title  = "A bank"
about  = "Opens both locks with the same code."
source = "handbook of the bank"

[part.safe]
machine = "safe"

[part.vault]
machine = "vault"

[event.enter]
kind  = "call"
about = "Enter the code."
MUST  = "handbook of the bank"
steps = ["safe.enter"]
"""
DEVIATES = (
    'deviates = "push-opens"\nsince    = "1920"\nlink     = "https://example.org/doors#jam"\n'
    'moves    = { shut = { to = "shut" } }'
)
ENDS = """\
starting = [
  { name = "checks", begins = "checking" },
  { name = "failed", to = "waiting", reply = "error" },
]
checking = { to = "running", emits = ["started"] }"""
KNOCK = '[event.knock]\nkind   = "call"\nabout  = "Ask whether anybody is there; the handbook does not say what happens."\nsilent = ["*"]'
REFUSES = 'clauses = { gone-is-gone = { refuses = { gone = "NOT_FOUND" } } }'
SHUTTERS = """\
from transitions import Machine
shutter = Machine(states=["up", "down"], initial="up", transitions=[["pull", "up", "down"]])
"""
LATCH = """\
from transitions import Machine
def moves():
    return [["pull", "open", "shut"]]
latch = Machine(states=["open", "shut"], initial="open", transitions=moves())
"""
LANE = """\
{0}class {1}(State{2}):
{0}    free{3} = State(initial=True)
{0}    busy{3} = State()
{0}    enter{3} = free{3}.to(busy{3})
{0}    leave{3} = busy{3}.to(free{3})
"""
STATES = "from statemachine import State, StateChart\n"
ASYNC_DOORS = """\
class Nameless:
    async def push(self): ...

class Door(Nameless):
    state = "CLOSED"
    def shows(self): return self.state

class Slow(Nameless):
    async def shows(self): return "CLOSED"

class Handmade(Door):
    def begin(self, event): ...
    def end(self, event): ...
"""
APART = 'cannot  = ["ajar", "gone"]'
WARP = 'moves  = { shut = "ajar" }'
PLACES = {
    "FSM003": 'title   = "A door"',
    "FSM109": WARP,
    "FSM112": WARP,
    "FSM115": DEVIATES,
    "FSM121": 'rpc     = "RemoveDoor"',
    "FSM122": ENDS,
    "FSM126": REFUSES,
    "FSM127": KNOCK,
    "FSM128": APART,
    "FSM129": APART,
    "FSM130": APART,
    "FSM134": 'open = { about = "Open.", shows = "OPEN" }',
    "FSM160": 'open = { about = "Open.", shows = "OPEN" }',
    "FSM301": CLAIM,
    "FSM302": CLAIM,
    "FSM304": CLAIM,
    "FSM146": 'moves   = { open = "locked" }',
    "FSM503": "states: [off, on]",
    "FSM703": "count   = 2",
    "FSM508": "  - {trigger: press, source: off, dest: on}",
}
"""For each code, the text that the example replaces, unless the file contains the corrected example."""

BEFORE = dict.fromkeys(["FSM123", "FSM124", "FSM125", "FSM132", "FSM133"], "[profile.old]") | {
    "FSM709": "[event.crash]"
}
"""For each code, the text before which the example is inserted."""


READERS: dict[str, tuple[str, str, tuple[str, ...]]] = {
    "FSM0": ("example.toml", "show example.toml", (DOOR,)),
    "FSM1": ("example.toml", "show example.toml", (DOOR, JOB, SAFE, LEASE)),
    "FSM2": ("history.edn", "judge --model cri-container history.edn", ()),
    "FSM24": ("forms/example.toml", "judge --form example --model door.toml door.log", ()),
    "FSM3": ("properties/door.toml", "check properties/door.toml --profile none", (PROPERTIES,)),
    "FSM4": ("drawing.txt", "diff door.toml drawing.txt", ()),
    "FSM5": ("lamp.txt", "import lamp.txt", (LAMP,)),
    "FSM7": ("systems/office.toml", "show systems/office.toml", (OFFICE + CRASH, BANK)),
}
"""For each family of codes, or part of a family, the file name of an example, the command to run, and possible surrounding texts."""


JOB_LOG = {"fsm.recordings": "job-log = fsm_jobs.job_log:JOB_LOG"}
PACKAGES: dict[str, dict[str, dict[str, str]]] = {
    RULES["FSM220"].right: {"fsm-jobs": JOB_LOG},
    RULES["FSM221"].wrong: {"fsm-jobs": JOB_LOG, "other-jobs": JOB_LOG},
    RULES["FSM221"].right: {"fsm-jobs": JOB_LOG},
    RULES["FSM223"].wrong: {"fsm-jobs": {"fsm.commands": "jobs = atempts:COMMAND"}},
    RULES["FSM223"].right: {"fsm-jobs": JOB_LOG | {"fsm.commands": "jobs = fsm_jobs:COMMAND"}},
}
"""For each example, the packages to install, with their entry points and the code of ``examples/domain``."""

ATEMPTS = """from fsm.entry_points import DomainCommand
COMMAND = DomainCommand(about="Count.", target="fsm_jobs.atempts:command")
"""


def reader(code: str) -> tuple[str, str, tuple[str, ...]]:
    return READERS.get(code[:5]) or READERS[code[:4]]


def text_of(code: str, snippet: str) -> str:
    """Return *snippet* as a complete file."""
    place = PLACES.get(code) or BEFORE.get(code) or RULES[code].right
    text = next((each for each in reader(code)[2] if each.count(place) == 1), "")
    return edited(text, place, f"{snippet}\n{place}" if code in BEFORE else snippet) if text else snippet


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    folder = tmp_path_factory.mktemp("examples")
    for name in ("forms", "logs", "models", "properties", "systems"):
        (folder / name).mkdir()
    recording = (RECORDINGS / "containerd-1.7.24.log").read_bytes()
    call = "{:type :invoke, :f :start, :process 0}\n"
    drawing = RULES["FSM402"].right
    states = "".join(f'shut{number} = {{ about = "" }}\n' for number in range(1_000))
    events = "".join(f'[event.e{number}]\nkind = "call"\nabout = ""\nsilent = ["*"]\n' for number in range(1_001))
    triggers = [[f"t{number}", "*", "s1"] for number in range(2_000)]
    files: dict[str, str | bytes] = {
        "door.toml": DOOR,
        "queue.log": (EXAMPLE / "queue.log").read_bytes(),
        "lonely.toml": DOOR,
        "models/door.toml": DOOR,
        "job.toml": JOB,
        "safe.toml": SAFE,
        "lease.toml": LEASE,
        "vault.toml": edited(SAFE, "to = 3, scope = true", "to = 9, scope = true"),
        "properties/door.toml": PROPERTIES,
        "register.toml": f"{DOOR.partition('[states]')[0]}[states]\n{states}{events}",
        "today.log": recording + b"\n" * (2 << 20),
        "logs/today.log": recording + b"\n" * (4 << 20),
        "cri-calls.jsonl": (RECORDINGS / "cri-calls-with-nri-2.1.9.jsonl").read_bytes(),
        "nri-events.jsonl": (RECORDINGS / "nri-events-2.1.9.jsonl").read_bytes(),
        "doors.jsonl": '{"trace": 1, "machine": "door.toml"}\n{"entity": "d1", "event": "push", "reply": "ok"}\n',
        "trace.jsonl": '{"entity": "c1", "event": "stop", "reply": "ok"}\n',
        "whole-day.jsonl": '{"entity": "c1", "event": "stop", "reply": "ok"}\n' * 500,
        "enters.edn": "{:type :invoke, :f :enter, :process 0}\n{:type :ok, :f :enter, :process 0}\n",
        "enters.jsonl": '{"entity": "s1", "event": "enter", "args": {"code": 2}, "reply": "ok"}\n',
        "elsewhere.jsonl": '{"trace": 1, "machine": "../door.toml"}\n',
        "all-runs.edn.gz": gzip.compress(call.encode() + b" " * (65 << 20), compresslevel=1),
        "one-run.edn": call,
        "status.go": drawing,
        "door.txt": drawing,
        "door.log": "26/11/2026 12:00:00 push d1\n",
        "wiki.txt": f"{'+------+   ' * 9}\n{'| shut |   ' * 9}\n{'+------+   ' * 9}\n\n" * 1_250,
        "states.md": 2 * "```mermaid\nstateDiagram-v2\n  shut --> open: kick\n```\n",
        "containers/c1/status": '{"Version":"v1","Cr',
        "containers/c2/status": '{"Version":"v1","CreatedAt":1}',
        "report.json": '{"verdict": "holds"}',
        "node-7.json": (RECORDINGS.parent / "fleet" / "node-7.json").read_bytes(),
        "lamp.json": '{"states": ["off", "on"], "initial": "off"}',
        "shuter.py": "(",
        "async_doors.py": ASYNC_DOORS,
        "shutter.py": SHUTTERS,
        "shutters.py": SHUTTERS
        + "awning = Machine(states=['in', 'out'], initial='in', transitions=[['roll', 'in', 'out']])\n",
        "latch.py": LATCH,
        "board.py": STATES
        + LANE.format("", "Lane", "Chart", "")
        + "class Board(StateChart):\n    class lanes(State.Parallel):\n"
        + "".join(LANE.format("        ", f"lane{number}", ".Compound", number) for number in range(8)),
        "blind.py": STATES + LANE.format("", "Blind", "Chart", "") + "import os\nos._exit(3)\n",
        "hatch.dot": "digraph { shut -> open [label=push] }",
        "hatch-unlabelled.dot": "digraph { shut -> open }",
        "sweep.json": json.dumps({"states": [f"s{number}" for number in range(2_000)], "transitions": triggers}),
    }
    for name, content in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(content.encode() if isinstance(content, str) else content)
    with _listening(folder):
        yield folder


@contextmanager
def _listening(folder: Path) -> Iterator[None]:
    """Run a runtime at ``cri.sock`` and another server at ``other.sock`` in *folder*.

    Both servers are separate processes, because other tests fork this process, which should have no threads.
    """
    other = (
        "import socketserver\n"
        "class Greets(socketserver.BaseRequestHandler):\n"
        "    def handle(self): self.request.sendall(b'220 welcome\\r\\n')\n"
        "socketserver.ThreadingUnixStreamServer('other.sock', Greets).serve_forever()\n"
    )
    commands = ["-m", "fsm", "serve", "--cri", "unix:cri.sock"], ["-c", other]
    started = [subprocess.Popen([sys.executable, *each], cwd=folder, stderr=subprocess.DEVNULL) for each in commands]
    try:
        while not all((folder / name).exists() for name in ("cri.sock", "other.sock")):
            assert all(each.poll() is None for each in started)
            time.sleep(0.05)
        yield
    finally:
        for each in started:
            each.terminate()
            each.wait()


def codes(code: str, example: str, folder: Path) -> tuple[int, set[str]]:
    command, overwritten = example, {}
    if not example.startswith("fsm "):
        name, command, _ = reader(code)
        overwritten = {each: each.read_bytes() for each in [folder / name] if each.exists()}
        text = text_of(code, example) + "\n" + ('{"entity": "c1", "event": "stop"}' if code == "FSM205" else "")
        # An escape such as \x1b in an example stands for that byte.
        (folder / name).write_bytes(re.sub(rb"\\x(..)", lambda byte: bytes.fromhex(byte[1].decode()), text.encode()))
        command = f"fsm {command}"
    with tempfile.TemporaryDirectory() as site, importable(Path(site)):
        for name, groups in PACKAGES.get(example, {}).items():
            declare(Path(site), name, {"fsm.domains": "jobs = fsm_jobs:DOMAIN"} | groups)
        (Path(site) / "fsm_jobs").symlink_to(EXAMPLE / "fsm_jobs")
        (Path(site) / "atempts.py").write_text(ATEMPTS, encoding="utf-8")
        ran = fsm(*shlex.split(command, comments=True)[1:], cwd=folder)
    for path, content in overwritten.items():  # the next example may read this file
        path.write_bytes(content)
    return ran.returncode, set(re.findall(r"\[(FSM\d+)\]", ran.stderr))


@pytest.mark.slow
@pytest.mark.parametrize("code", [code for code in RULES if code != "FSM606"])  # this runtime has every image
def test_an_example_raises_its_code(code: str, folder: Path) -> None:
    assert (2, {code}) == codes(code, RULES[code].wrong, folder)


@pytest.mark.slow
@pytest.mark.parametrize("code", [code for code in RULES if code != "FSM607"])  # a server does not end by itself
def test_the_mended_example_is_accepted(code: str, folder: Path) -> None:
    status, found = codes(code, RULES[code].right, folder)

    assert set() == found
    assert status in {0, 1, 3}
