"""The model checker SPIN, asked about many exported machines at once.

A verifier is a C program, and compiling one takes longer than all else.  So
many exported texts become one: their names are told apart by a number, and
the one whose number is asked for runs while the others stand still.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import pytest

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

SPIN = shutil.which("spin") or ""
GCC = shutil.which("gcc") or ""
STEPS = 1_500
"""In one verifier: with twice as many, compiling takes thrice the time."""
MOST = 100
"""Processes in one verifier, of which SPIN allows 255."""

CHOSEN = r"""
c_decl {
\#include <stdlib.h>
static int chosen;
__attribute__((constructor)) static void choose(void) { chosen = atoi(getenv("CHOSEN")); }
}
"""


def needed() -> None:
    """Skips the test that asks where SPIN or a compiler is missing."""
    if SPIN and GCC and Path("/usr/include/stdlib.h").exists():
        return
    message = "SPIN, or what compiles its verifiers, is missing: apt-get install spin gcc libc6-dev"
    if os.environ.get("FSM_FORBID_SKIPS") == "1":
        pytest.fail(message)
    pytest.skip(message)


class Part(NamedTuple):
    """An exported text, and the part of its claim that is asked for."""

    text: str
    case: int = 1


class Answer(NamedTuple):
    """What SPIN says: whether it found an error, at which depth, and how much it searched."""

    error: bool
    at: int
    states: int
    transitions: int
    depth: int


def together(parts: Sequence[Part], *, safety: bool) -> str:
    """One text of them all."""
    texts = ["#define SAFETY"] if safety else []
    texts.append(CHOSEN)
    for number, part in enumerate(parts):
        text = re.sub(r"/\*.*?\*/", "", part.text, flags=re.DOTALL)
        text = re.sub(r' printf\(".*?"\)', " skip", text)
        names = {*re.findall(r"^#define (\w+)", text, re.MULTILINE), "machine"} - {"CASE"}
        names |= {*re.findall(r"^(?:byte|short|int|bool) (\w+)", text, re.MULTILINE)}
        text = re.sub(rf"\b({'|'.join(names)})\b", rf"\1_{number}", text)
        text = text.replace(f"machine_{number}()", f"machine_{number}() provided (c_expr {{ chosen == {number} }})")
        texts += ["#undef CASE", f"#define CASE {part.case}", text]
    return "\n".join(texts)


def compiled(text: str, folder: Path, *, safety: bool, options: Sequence[str] = ()) -> Path:
    """The verifier of *text*: breadth first for finite runs, by acceptance cycles for endless ones."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "model.pml").write_text(text, encoding="utf-8")
    made = subprocess.run([SPIN, *options, "-a", "model.pml"], cwd=folder, capture_output=True, text=True, check=False)
    assert made.returncode == 0, made.stdout + made.stderr
    how = ["-DNOREDUCE", "-DVECTORSZ=8192", *(["-DSAFETY", "-DBFS"] if safety else [])]
    subprocess.run([GCC, "-w", "-O0", *how, "-o", "pan", "pan.c"], cwd=folder, capture_output=True, check=True)
    return folder / "pan"


def asked(pan: Path, *, safety: bool, chosen: int = 0, depth: int = 100_000) -> Answer:
    """What the verifier says of the part that is *chosen*."""
    done = subprocess.run(
        [pan, "-w12", *([] if safety else ["-a", f"-m{depth}"])],
        cwd=pan.parent,
        env={**os.environ, "CHOSEN": str(chosen)},
        capture_output=True,
        text=True,
        check=False,
    )
    said = done.stdout

    def number(pattern: str) -> int:
        found = re.search(pattern, said)
        assert found is not None, said
        return int(float(found[1]))

    failed = re.search(r"assertion violated.*\(at depth (\d+)\)", said)
    errors = number(r"errors: (\d+)")
    assert errors == 0 or failed or "acceptance cycle" in said, said
    assert "max search depth too small" not in said, said
    return Answer(
        error=errors > 0,
        at=int(failed[1]) if failed else -1,
        states=number(r"([\d.e+]+) states, stored"),
        transitions=number(r"([\d.e+]+) transitions"),
        depth=number(r"depth reached (\d+)"),
    )


def answers(parts: Sequence[Part], folder: Path, *, safety: bool) -> list[Answer]:
    """What SPIN says of each of *parts*."""
    found: list[Answer] = []
    for number, batch in enumerate(_batches(parts)):
        pan = compiled(together(batch, safety=safety), folder / str(number), safety=safety)
        found += [asked(pan, safety=safety, chosen=chosen) for chosen in range(len(batch))]
    return found


def _batches(parts: Sequence[Part]) -> Iterator[list[Part]]:
    """*parts* in order, as many at a time as a compiler can take without growing slow."""
    batch: list[Part] = []
    room = STEPS
    for part in parts:
        needs = part.text.count(" d_step ")
        if batch and (needs > room or len(batch) == MOST):
            yield batch
            batch, room = [], STEPS
        batch.append(part)
        room -= needs
    if batch:
        yield batch
