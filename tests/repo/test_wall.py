"""Modules outside ``fsm.runtimes`` mention no container runtime, and work without that package."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Final

import pytest
from commands import fsm as fsm_called

import fsm

if TYPE_CHECKING:
    from collections.abc import Iterator

PACKAGE: Final = Path(fsm.__file__).parent
ROOT: Final = PACKAGE.parent
GENERIC: Final = sorted(
    path
    for path in PACKAGE.rglob("*")
    if path.suffix in {".py", ".toml", ".js", ".css", ".properties"}
    and path.relative_to(PACKAGE).parts[0] != "runtimes"
)
RUNTIMES: Final = ["containerd", "crictl", "cri", "crio", "kubelet", "nri", "runc", "sandbox", "shim"]
NAMES: Final = {form for word in RUNTIMES for form in (word, f"{word}s", f"{word}es")}
WORD: Final = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|\d+")

WITHOUT: Final = """
import sys

class Wall:
    def find_spec(self, name, path=None, target=None):
        if (name + ".").startswith("fsm.runtimes."):
            raise ImportError(name)

sys.meta_path.insert(0, Wall())
"""

COMMANDS: Final = f"""{WITHOUT}
import contextlib, io, json, shlex
from fsm.cli import main

found = {{}}
for command in json.load(sys.stdin):
    sys.argv = ["fsm", *shlex.split(command)]
    written = io.TextIOWrapper(io.BytesIO())
    with contextlib.redirect_stdout(written), contextlib.redirect_stderr(written):
        try:
            main()
        except SystemExit as ended:
            written.flush()
            found[command] = [ended.code, written.buffer.getvalue().decode()]
print(json.dumps(found))
"""
"""A program that runs the commands on its standard input, and prints their exit codes and outputs."""

EVERY_MODULE: Final = f"""{WITHOUT}
import importlib, pkgutil, fsm

def walked(package):
    for each in pkgutil.iter_modules(package.__path__, package.__name__ + "."):
        if each.name not in ("fsm.runtimes", "fsm.__main__"):
            module = importlib.import_module(each.name)
            print(each.name)
            if each.ispkg:
                walked(module)

walked(fsm)
assert not [name for name in sys.modules if name.startswith("fsm.runtimes")]
"""
DOOR: Final = """
class Door:
    def reset(self):
        self.at, self.creaks = "SHUT", []

    def do(self, event):
        if event == "remove":
            self.at = "absent"
        elif self.at == "absent":
            return "NOT_FOUND"
        elif event == "pull":
            self.at = "SHUT"
        elif self.at == "SHUT":
            self.at, self.creaks = "OPEN", ["Creak"]
        return "ok"

    def outputs(self):
        out, self.creaks = self.creaks, []
        return out

    def shows(self):
        return self.at

    def close(self):
        pass


class Jammed(Door):
    def do(self, event):
        return "ok" if event == "push" else super().do(event)
"""
ILLEGAL: Final = """\
{"trace": 1, "machine": "models/door.toml", "fresh": true}
{"entity": "front", "event": "push", "reply": "ok"}
{"entity": "front", "shows": "SHUT"}
"""


CODES: Final = {
    "list": 0,
    "show models/washer.toml": 0,
    "show models/systems/house.toml": 0,
    "check properties/door.toml properties/washer.toml properties/systems/house.toml": 0,
    "check properties/systems/house.toml --parts door=any": 0,
    "mutate models/door.toml": 1,
    "draw models/door.toml --format mermaid": 0,
    "draw --sequence legal.jsonl -o legal.svg": 0,
    "diff models/door.toml models/door.toml": 0,
    "export models/door.toml --to scxml -o door.scxml": 0,
    "simulate models/washer.toml": 0,
    "judge legal.jsonl": 0,
    "judge illegal.jsonl --properties": 1,
    "convert legal.jsonl -o legal.parquet": 0,
    "judge legal.parquet": 0,
    "cover legal.jsonl": 0,
    "explore models/door.toml -o door.html": 0,
    "explain FSM104": 0,
    "test models/door.toml --against python:doors:Door --examples 5": 0,
    "test models/door.toml --against python:doors:Jammed --examples 5": 1,
    "test models/washer.toml --against model:models/washer.toml --examples 5": 0,
    "serve": 2,
}

HELPED: Final = ("", "judge", "test", "check", "cover", "draw", "mutate", "diff", "explore")


def named(text: str) -> Iterator[tuple[int, str]]:
    """Yield the lines, with their numbers, that mention a container runtime or one of its parts.

    Identifiers are split into words.
    """
    for number, line in enumerate(text.splitlines(), 1):
        words = [word.lower() for word in WORD.findall(line)]
        if NAMES & {*words}:
            yield number, line.strip()


def without_runtimes(code: str, given: str = "", cwd: Path = ROOT) -> str:
    return subprocess.run([sys.executable, "-c", code], input=given, cwd=cwd, stdout=-1, text=True, check=True).stdout


@pytest.fixture(scope="module")
def answers(tmp_path_factory: pytest.TempPathFactory) -> dict[str, tuple[int, str]]:
    folder = tmp_path_factory.mktemp("doors")
    for kind in ("models", "properties"):
        shutil.copytree(ROOT / "examples" / kind, folder / kind)
    (folder / "doors.py").write_text(DOOR)
    (folder / "illegal.jsonl").write_text(ILLEGAL)
    (folder / "legal.jsonl").write_text(fsm_called("simulate", "models/door.toml", cwd=folder).stdout)
    asked = [*CODES, *(f"{each} --help" for each in HELPED)]
    found: dict[str, tuple[int, str]] = json.loads(without_runtimes(COMMANDS, json.dumps(asked), folder))
    return found


@pytest.mark.parametrize("path", GENERIC, ids=lambda path: str(path.relative_to(PACKAGE)))
def test_no_container_runtime_is_named(path: Path) -> None:
    assert not list(named(path.read_text(encoding="utf-8")))


@pytest.mark.parametrize(
    "line",
    ["# as containerd does", "SANDBOX_READY", "loadCRIContainer", "nri_plugin = 1", "CRI-O's", "two shims", "`cri:x`"],
)
def test_a_name_is_found(line: str) -> None:
    assert [(1, line)] == list(named(line))


@pytest.mark.parametrize("line", ["container-fsm", "describe", "critical", "across", "scribe", "descriptor", "shimmer"])
def test_other_words_are_not_found(line: str) -> None:
    assert not list(named(line))


def test_only_the_entry_points_name_the_package() -> None:
    found = [path.name for path in GENERIC if "fsm.runtimes" in path.read_text(encoding="utf-8")]

    assert ["entry_points.py"] == found


def test_every_generic_module_can_be_imported_alone() -> None:
    found = without_runtimes(EVERY_MODULE)

    names = {".".join(path.relative_to(ROOT).with_suffix("").parts) for path in GENERIC if path.suffix == ".py"}
    assert {name.removesuffix(".__init__") for name in names} - {"fsm", "fsm.__main__"} == {*found.split()}


@pytest.mark.parametrize("command", CODES)
def test_doors_need_no_containers(command: str, answers: dict[str, tuple[int, str]]) -> None:
    """Every kind of command works on the examples without ``fsm.runtimes``."""
    code, output = answers[command]

    assert CODES[command] == code, output


@pytest.mark.parametrize("command", HELPED)
def test_the_help_is_the_domains(command: str, answers: dict[str, tuple[int, str]]) -> None:
    """With ``fsm.runtimes``, every tested help text names a container runtime. Without it, no help text does."""
    code, output = answers[f"{command} --help"]

    assert (0, []) == (code, list(named(output)))
    assert list(named(fsm_called(*command.split(), "--help").stdout))
