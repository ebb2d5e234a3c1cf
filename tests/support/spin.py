"""Run the model checker SPIN on many exported machines together, and store its answers.

A verifier is a C program, and compiling it takes longer than all other steps together. Therefore, many exported texts
are merged into one text. Each exported text has a number, which keeps its names distinct and selects it for a run.

The answers are stored in ``tests/interop/spin``, each under a digest of the text that SPIN reads. SPIN runs only
for texts without an answer. ``FSM_SPIN=store`` stores new answers, and ``FSM_SPIN=again`` runs SPIN on all texts.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import subprocess
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from real_parts import headers_of_c, program

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

ANSWERS = Path(__file__).resolve().parent.parent / "interop" / "spin"
MODE = os.environ.get("FSM_SPIN", "")
STEPS = 1_500
"""The maximum number of parts in one verifier.

If there are twice as many parts, the verifier takes three times as long to compile.
"""
MOST = 100
"""The maximum number of processes in one verifier, as limited by SPIN."""
ALIKE = 30
"""The maximum number of parts that share a process.

With more parts, the expressions that select a part would become too long.
"""
CHOSEN = 77_777
"""A placeholder in the source of the verifier for the number of the chosen part."""
UNSET = 1
"""A placeholder for the initial value of a variable, which must be a number in SPIN."""


def needed() -> None:
    program("spin")
    program("gcc")
    headers_of_c()


class Part(NamedTuple):
    """An exported text and the selected part of its claim."""

    text: str
    case: int = 1


class Answer(NamedTuple):
    error: bool
    at: int
    states: int
    transitions: int
    depth: int


def together(parts: Sequence[Part], *, safety: bool) -> str:
    texts = [f"int chosen = {CHOSEN};"]
    alike: dict[object, dict[int, _Pieces]] = {}
    for number, part in enumerate(parts):
        pieces = _pieces(part, safety=safety)
        alike.setdefault((pieces.words, *pieces.variables, pieces.process), {})[number] = pieces
    for group in alike.values():
        members = [*group.items()]
        for first in range(0, len(members), ALIKE):
            texts += _merged(dict(members[first : first + ALIKE]))
    return "\n".join(texts)


class _Pieces(NamedTuple):
    words: tuple[str, ...]
    macros: dict[str, tuple[str, str]]
    variables: dict[str, tuple[str, str]]
    process: str


def _pieces(part: Part, *, safety: bool) -> _Pieces:
    head, start, process = _processed(_bare(part.text), part.case, safety=safety).partition("active proctype")
    words: list[str] = []
    macros: dict[str, tuple[str, str]] = {}
    variables: dict[str, tuple[str, str]] = {}
    for line in filter(None, head.splitlines()):
        if found := re.fullmatch(r"#define (\w+)\(([^)]*)\) (.*)", line):
            macros[found[1]] = found[2], found[3]
        elif found := re.fullmatch(r"(byte|short|int|bool) (\w+) = (.*);", line):
            variables[found[2]] = found[1], found[3]
        else:
            words.append(line)
    return _Pieces(tuple(words), macros, variables, start + process)


def _bare(text: str) -> str:
    text = re.sub(r"/\*.*?\*/", "", text, flags=re.DOTALL)
    return re.sub(r'; printf\(".*?"\)', "", text)


def _processed(text: str, case: int, *, safety: bool) -> str:
    holds = {
        f"#if CASE == {case}": True,
        f"#elif CASE == {case}": True,
        "#ifdef SAFETY": safety,
        "#ifndef SAFETY": not safety,
    }
    kept: list[str] = []
    here = True
    for line in text.splitlines():
        if line == "#endif":
            here = True
        elif line == "#else":
            here = not here
        elif line.startswith(("#if", "#elif")):
            here = holds.get(line, False)
        elif here:
            kept.append(line)
    return "\n".join(kept)


def _merged(group: dict[int, _Pieces]) -> Iterator[str]:
    first, pieces = next(iter(group.items()))
    names = {*(line.split()[1] for line in pieces.words), *pieces.variables, "machine"}
    own = {name for each in group.values() for name in each.macros}

    def renamed(text: str, number: int) -> str:
        text = re.sub(rf"\b({'|'.join(names)})\b", rf"\1_{first}", text)
        return re.sub(rf"\b({'|'.join(own) or '-'})\b", rf"\1_{number}", text)

    def choice(texts: dict[int, str]) -> str:
        *rest, last = texts.items()
        return "".join(f"(chosen == {number} -> {text} : " for number, text in rest) + last[1] + ")" * len(rest)

    yield from (renamed(line, first) for line in pieces.words)
    for number, each in group.items():
        yield from (
            f"#define {name}_{number}({renamed(names_, number)}) {renamed(body, number)}"
            for name, (names_, body) in each.macros.items()
        )
    for name in sorted(own if len(group) > 1 else ()):
        if re.search(rf"\b{name}\b", pieces.process):
            names_ = renamed(pieces.macros[name][0], first)
            calls = {number: f"{name}_{number}({names_})" for number in group}
            yield f"#define {name}_any{first}({names_}) ({choice(calls)})"
    for name, (kind, _) in pieces.variables.items():
        for number, each in group.items():
            yield f"{kind} {name}_{first}_{number} = {renamed(each.variables[name][1], number)};"
        yield f"{kind} {name}_{first} = {UNSET};"
    process = renamed(pieces.process, first)
    if len(group) > 1:
        process = re.sub(rf"\b({'|'.join(own) or '-'})_{first}\b", rf"\1_any{first}", process)
    whose = " || ".join(f"chosen == {number}" for number in group)
    yield process.replace(f"machine_{first}()", f"machine_{first}() provided ({whose})")


def compiled(text: str, folder: Path, *, safety: bool) -> Path:
    """Compile a verifier for *text*.

    It searches either for finite runs, breadth first, or for acceptance cycles.
    """
    needed()
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "model.pml").write_text(text, encoding="utf-8")
    made = subprocess.run([program("spin"), "-a", "model.pml"], cwd=folder, capture_output=True, text=True, check=False)
    assert made.returncode == 0, made.stdout + made.stderr
    code = (folder / "pan.c").read_text(encoding="utf-8")
    # A variable that no process mentions becomes an ordinary C variable, which is not part of the state.
    asked = 'atoi(getenv("CHOSEN"))'
    code = code.replace(str(CHOSEN), asked)
    first: dict[str, str] = {}
    for name, number in re.findall(r"^(?:byte|short|int|bool) (\w+_\d+)_(\d+) = ", text, re.MULTILINE):
        first[name] = f"{asked} == {number} ? {name}_{number} : {first.get(name, '0')}"
    for name, value in first.items():
        code = code.replace(f"now.{name} = {UNSET};", f"now.{name} = {value};")
    (folder / "pan.c").write_text(code, encoding="utf-8")
    how = ["-DNOREDUCE", "-DVECTORSZ=8192", *(["-DSAFETY", "-DBFS"] if safety else [])]
    subprocess.run(
        [program("gcc"), "-w", "-O0", *how, "-o", "pan", "pan.c"], cwd=folder, capture_output=True, check=True
    )
    return folder / "pan"


def asked(pan: Path, *, safety: bool, chosen: int = 0, depth: int = 100_000) -> Answer:
    done = subprocess.run(
        [pan, "-w12", *([] if safety else ["-a", f"-m{depth}"])],
        cwd=pan.parent,
        env={**os.environ, "CHOSEN": str(chosen)},
        capture_output=True,
        text=True,
        check=False,
    )
    output = done.stdout

    def number(pattern: str) -> int:
        found = re.search(pattern, output)
        assert found is not None, output
        return int(float(found[1]))

    failed = re.search(r"assertion violated.*\(at depth (\d+)\)", output)
    errors = number(r"errors: (\d+)")
    assert errors == 0 or failed or "acceptance cycle" in output, output
    assert "max search depth too small" not in output, output
    return Answer(
        error=errors > 0,
        at=int(failed[1]) if failed else -1,
        states=number(r"([\d.e+]+) states, stored"),
        transitions=number(r"([\d.e+]+) transitions"),
        depth=number(r"depth reached (\d+)"),
    )


class Kept:
    def __init__(self, name: str) -> None:
        self.path = ANSWERS / f"{name}.json"
        read = json.loads(self.path.read_text(encoding="utf-8")) if self.path.exists() else {}
        self._before = {key: Answer(bool(error), *numbers) for key, (error, *numbers) in read.items()}
        self._now: dict[str, Answer] = {}

    def answers(self, parts: Sequence[Part], folder: Path, *, safety: bool) -> list[Answer]:
        keys = [key(part, safety=safety) for part in parts]
        new = {key: part for key, part in zip(keys, parts, strict=True) if MODE == "again" or key not in self._before}
        found = self._before | dict(zip(new, answers([*new.values()], folder, safety=safety), strict=True))
        self._now |= {key: found[key] for key in keys}
        return [found[key] for key in keys]

    def up_to_date(self) -> None:
        """Fail if stored answers are wrong, missing or unused. Under ``FSM_SPIN=store``, update them instead."""
        if MODE == "store":
            lines = [f'"{key}": {json.dumps([int(each) for each in self._now[key]])}' for key in sorted(self._now)]
            ANSWERS.mkdir(exist_ok=True)
            self.path.write_text("{\n" + ",\n".join(lines) + "\n}\n", encoding="utf-8")
            return
        changed = [key for key, answer in self._now.items() if self._before.get(key, answer) != answer]
        assert not changed, f"SPIN answers otherwise than {self.path} has it: {changed}"
        new, old = len(self._now.keys() - self._before.keys()), len(self._before.keys() - self._now.keys())
        assert (0, 0) == (new, old), (
            f"{self.path} lacks {new} texts and has {old} that no test exports: "
            "FSM_SPIN=store .venv/bin/python -m pytest tests/interop/test_spin.py"
        )


def key(part: Part, *, safety: bool) -> str:
    text = _processed(_bare(part.text), part.case, safety=safety)
    return hashlib.sha256(f"{safety}\n{text}".encode()).hexdigest()[:20]


def answers(parts: Sequence[Part], folder: Path, *, safety: bool) -> list[Answer]:
    found: list[Answer] = []
    for number, batch in enumerate(_batches(parts)):
        pan = compiled(together(batch, safety=safety), folder / str(number), safety=safety)
        found += [asked(pan, safety=safety, chosen=chosen) for chosen in range(len(batch))]
    return found


def _batches(parts: Sequence[Part]) -> Iterator[list[Part]]:
    batch: list[Part] = []
    sharing: dict[str, int] = {}
    room = STEPS
    for part in parts:
        process = part.text.partition("active proctype")[2]
        needs = 0 if sharing.get(process, 0) % ALIKE else part.text.count(" d_step ")
        if batch and (needs > room or len(batch) == MOST):
            yield batch
            batch, room, sharing = [], STEPS, {}
            needs = part.text.count(" d_step ")
        batch.append(part)
        sharing[process] = sharing.get(process, 0) + 1
        room -= needs
    if batch:
        yield batch
