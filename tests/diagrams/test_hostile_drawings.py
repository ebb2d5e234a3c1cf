"""Any text is read or refused in time proportional to its length."""

from __future__ import annotations

import sys
import tomllib
from pathlib import Path
from typing import TYPE_CHECKING
from unittest.mock import patch

import pytest
from drawn import CONTAINER, POD
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from fsm.diagrams import read
from fsm.diagrams.compare import compare
from fsm.diagrams.read import Drawing, find, parse
from fsm.errors import InputError, Problem
from fsm.language.codes import RULES
from fsm.language.library import load

if TYPE_CHECKING:
    from collections.abc import Iterable

HERE = Path(__file__)
PICTURES = HERE.parents[2] / "diagrams"

OFFENDERS = {
    name: each.get("before", "") + each.get("piece", "") * each.get("times", 1) + each.get("after", "")
    for name, each in tomllib.loads(HERE.with_name("offenders.toml").read_text()).items()
}

SMALL = [
    "+---+  go  +---+\n| A +------> B |\n+---+      +---+\n",
    "┌───┐  go  ╭───╮\n│ A ├─────►│ B │\n└─┬─┘      ╰─▲─╯\n  │  again   │\n  └──────────┘\n",
    "+---+\n| A |\n+-+-+\n  | go\n  |------> B\n  v\n+---+\n| C |\n+---+\n",
    "        +---+  go\nGONE <--+ A <----- *\n        +---+\n",
    'stateDiagram-v2\n  state "a: x" as A\n  [*] --> A : go #35;1\n  A --> B : x<br/>y\n  B --> [*]\n',
    'digraph "a b" { node [shape=box]; s [shape=point]; s -> A [label="x\\ny"]; A -> {B; C} -> D:n }\n',
    "strict digraph {\n  subgraph x { a -> b [label=<<b>l</b>>] }\n  a -> c; /* } */ // x\n}\n",
]
SHIPPED = [(PICTURES / f"{name}").read_text() for name in ("cri-pod.dot", "cri-pod.mmd", "sync-reader.mmd")]
SEEDS = [*SMALL, *SMALL, CONTAINER, POD, *SHIPPED]
PIECES = [*"+-|<>^v.'*\t \0\x1b\x0b\r\u2028\u202e\ufeff停\u0301{}[]\";\\", "-->", "->", "--", "/*", "/", "#", "subgraph {", "\n\n", "```", "% ", "// ", "note left of A\n"]  # fmt: skip

WORK = 400
"""The maximum number of function calls for each character of a text.

Typical drawings need half as many.
"""


@st.composite
def damaged(draw: st.DrawFn) -> str:  # noqa: C901  (one case for each kind of damage)
    lines = draw(st.sampled_from(SEEDS)).split("\n")

    def at() -> int:
        return draw(st.integers(0, len(lines) - 1))

    def column(line: str) -> int:
        return draw(st.integers(0, len(line)))

    for _ in range(draw(st.integers(0, 5))):
        lines = lines or [""]
        one, other = sorted((at(), at()))
        line = lines[one]
        match draw(st.integers(0, 9)):
            case 0:
                del lines[one : other + 1]
            case 1:
                lines[one:one] = lines[one : min(other, one + 9) + 1] * draw(st.integers(1, 3))
            case 2:
                lines[one], lines[other] = lines[other], line
            case 3:
                words, others = line.split(" "), lines[other].split(" ")
                words[-1], others[0] = others[0], words[-1]
                lines[one], lines[other] = " ".join(words), " ".join(others)
            case 4:
                here = column(line)
                lines[one] = line[:here] + draw(st.sampled_from(PIECES)) * draw(st.integers(1, 3)) + line[here:]
            case 5:
                here = column(line)
                lines[one] = line[:here] + draw(st.sampled_from(PIECES)) + line[here + 1 :]
            case 6:
                here = column(line)
                lines[one] = line[:here] + line[here + 1 :]
            case 7:
                lines[one:one] = draw(st.sampled_from(SMALL)).split("\n")
            case 8:
                beside, wide = draw(st.sampled_from(SMALL)).split("\n"), max(map(len, lines))
                rows = max(len(lines), len(beside))
                left, right = ([*those, *[""] * (rows - len(those))] for those in (lines, beside))
                lines = [each.ljust(wide) + other for each, other in zip(left, right, strict=True)]
            case _:
                inner, wide = lines[one : other + 1], max(map(len, lines))
                border = f"+{'-' * wide}+"
                boxed = [border, *(f"|{each.ljust(wide)}|" for each in inner), border]
                lines[one : other + 1] = draw(st.sampled_from([boxed, ["subgraph {", *inner, "}"], inner * 2]))
    return "\n".join(lines)


def held(text: str, found: Iterable[Drawing | Problem]) -> None:
    machine = load("cri-pod")
    for each in found:
        problems = [each] if isinstance(each, Problem) else each.problems
        for problem in problems:
            assert problem.code in RULES
            assert problem.hint
            assert 0 <= problem.line <= text.count("\n") + 1
            assert all(line.isprintable() for line in str(problem).split("\n"))
        if isinstance(each, Drawing) and not problems:
            assert 1 <= each.line <= each.last <= text.count("\n") + 1
            assert {arrow.target for arrow in each.arrows} | {arrow.source for arrow in each.arrows} <= {
                *each.states,
                None,
            }
            assert compare(each, each).equal
            compare(machine, each)


def answered(text: str) -> None:
    calls = 0

    def counted(_frame: object, event: str, _of: object) -> None:
        nonlocal calls
        calls += event.endswith("call")

    held("", [])  # Load and cache everything first, so that the calls for loading are not counted.
    before = sys.getprofile()
    # The search for a missing space reads the text repeatedly, so the search has its own limit.
    with patch.object(read, "_MOST", len(text)):
        sys.setprofile(counted)
        try:
            found: tuple[Drawing | Problem, ...] = parse(text, "x.txt")
        except InputError as error:
            found = error.problems
        finally:
            sys.setprofile(before)
    assert found
    assert calls <= WORK * (len(text) + 500)
    held(text, found)


@pytest.mark.slow
@settings(suppress_health_check=[HealthCheck.too_slow])
@given(damaged())
def test_damaged_drawings_are_read_or_refused(text: str) -> None:
    """Reading takes work proportional to the drawing's length, and raises nothing except InputError."""
    answered(text)


@given(
    st.text()
    | st.text("+-|<>^v AB\n\t.'")
    | st.text('digraph{}[]<>"\\->=;:,/*#AB \n')
    | st.text("stateDgrm-v2\n>[*]:A ")
)
def test_any_text_is_read_or_refused(text: str) -> None:
    answered(text)


@pytest.mark.slow
@pytest.mark.parametrize("name", OFFENDERS)
def test_offenders_are_read_or_refused(name: str) -> None:
    """Drawings that once took minutes or raised an exception are read or refused."""
    answered(OFFENDERS[name])


@given(st.binary())
@example(b"+---+\n|\xff|\n")
def test_any_bytes_are_read_or_refused(tmp_path_factory: pytest.TempPathFactory, data: bytes) -> None:
    """Bytes that are not text are refused, and the error names the line of the first such byte."""
    path = tmp_path_factory.getbasetemp() / "drawing"
    path.write_bytes(data)
    with pytest.raises(InputError) as caught:
        find(str(path))

    (problem,) = caught.value.problems
    if "UTF-8" in problem.what:
        lines = data.split(b"\n")
        assert b"\n".join(lines[: problem.line - 1]).decode() is not None
        with pytest.raises(UnicodeDecodeError):
            b"\n".join(lines[: problem.line]).decode()


@pytest.mark.parametrize(
    "text",
    [
        pytest.param(
            ("+---+ " * 100 + "\n" + "| A | " * 100 + "\n" + "+---+ " * 100 + "\n\n") * 56, marks=pytest.mark.slow
        ),
        "+---+\n| A |\n+-+-+\n" + "  |\n" * 30_000 + "  +-->B\n" * 40,
        OFFENDERS["choices-of-labels"],
    ],
    ids=["characters", "arrows", "labels"],
)
def test_drawings_of_characters_have_limits(text: str) -> None:
    assert "FSM411" in {problem.code for each in parse(text, "x.txt") for problem in each.problems}
