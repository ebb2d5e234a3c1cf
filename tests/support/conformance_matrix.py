"""``docs/conformance-matrix.md``: what versions of containerd keep of each clause, found by tests of the real ones.

    python tests/support/conformance_matrix.py [--write]

Without ``--write`` the page stays as it is, and what differs from it in the tables is printed and is a failure.  What is
not as the profile of a version says is a failure in both cases.  Each version is tested without a profile, so that
violations are found, and with its own, under which nothing may fail.
"""

from __future__ import annotations

import os
import re
import sys
import time
from concurrent.futures import ProcessPoolExecutor
from itertools import product
from pathlib import Path
from typing import TYPE_CHECKING, Final, assert_never

from containerds import Containerd, lacks
from matrix_cells import Cell, Column, Holds, NotCovered, Violated, clauses, column
from packages_of_debian import VERSIONS

from fsm.conformance.lookup import RuntimeOptions, find
from fsm.conformance.suite import conform
from fsm.library import load
from fsm.live.workload import WORKLOAD
from fsm.scratch import ScratchFolder
from fsm.sut import SUT, Detailed

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

PAGE: Final = Path(__file__).resolve().parent.parent.parent / "docs" / "conformance-matrix.md"

MACHINES: Final = ("cri-container", "cri-pod", "container-status", "pod-sandbox")

EXAMPLES: Final = 1
"""Tests in random order, after every step was aimed at."""

AT_TIMES: Final = "at times otherwise"

_HEAD: Final = """\
# What versions of containerd keep

Each clause of a machine, and what tests of real daemons have found: Debian's containerd {versions}, as they are packaged. The
tests are generated: every step of the machine is aimed at, and tests in random order follow. `bash .ci/live` tests
again, and fails where this page differs; `python tests/support/conformance_matrix.py --write` writes it.

- **holds**: in every cell of the clause a test was, or in as many as are named, and all of it was legal.
- **tolerated**: tests fail without a profile. Under the profile of the version they pass, and the deviation that is named occurs.
- **differs**: tests fail without a profile, and pass under that of the version, which describes this cell otherwise.
- **at times otherwise**: a test failed, and not in every repetition of it, as where two things are done at once.
- **violated**: tests fail under the profile too; then `.ci/live` fails.
- **not covered**: no test was there; why is said below the table.

What a client of CRI cannot bring about, as a checkpoint that is damaged while the runtime is down, is not covered.
"""


def measured(machine: str, version: str) -> Column:
    """What tests of *version* by *machine* find, in a daemon of their own."""
    began = time.monotonic()
    with ScratchFolder() as folder:
        daemon = Containerd(version=version, folder=Path(folder))
        daemon.open()
        try:
            runtime = RuntimeOptions(image=WORKLOAD, restart_command=daemon.restart_command)
            sut = find(f"cri:unix://{daemon.endpoint}", load(machine), runtime=runtime)
            plain = conform(load(machine), sut, examples=EXAMPLES)
            profiled = conform(load(machine), sut, profile=f"containerd-{version}", examples=EXAMPLES)
            fields = _shows_fields(sut)
        finally:
            daemon.close()
    return column(load(machine), version, plain, profiled, fields=fields, seconds=time.monotonic() - began)


def _shows_fields(factory: Callable[[], SUT]) -> bool:
    sut = factory()
    try:
        return isinstance(sut, Detailed)
    finally:
        sut.close()


def page(columns: Iterable[Column]) -> str:
    """The whole page."""
    found = list(columns)
    names = dict.fromkeys(each.machine for each in found)
    tables = ("\n".join(_table(name, [each for each in found if each.machine == name])) for name in names)
    parts = [_HEAD.format(versions=", ".join(VERSIONS)), *tables]
    traces = list(_traces(found))
    if traces:
        parts.append(
            "\n".join(["## Traces", "", "Each is the shortest that the tests have found of its kind.", "", *traces])
        )
    return "\n".join(parts)


def rows(text: str) -> list[str]:
    """What matters of a page: its tables, without links, and without numbers of cells.

    >>> rows("| `a` | MUST | holds in 3 of 5 | tolerated: `b` ([trace](#c)) |\\n\\nwords")
    ['| `a` | MUST | holds | tolerated: `b` |']
    """
    lines = [line for line in text.splitlines() if line.startswith("| ")]
    return [re.sub(r" in \d+ of \d+(?= \|)| \(\[trace\]\([^)]*\)\)", "", line) for line in lines]


def same(row: str, other: str) -> bool:
    """Whether two rows agree; what happens at times may not have happened in one of the runs.

    >>> same("| `a` | MUST | at times otherwise |", "| `a` | MUST | holds |"), same("| `a` | MUST |", "| `b` | MUST |")
    (True, False)
    """
    cells = [each.split(" | ") for each in (row.strip("| "), other.strip("| "))]
    return len(cells[0]) == len(cells[1]) and all(
        one == another or {one, another} == {AT_TIMES, "holds"} for one, another in zip(*cells, strict=True)
    )


def _table(name: str, columns: list[Column]) -> Iterator[str]:
    machine = load(name)
    versions = [each.version for each in columns]
    yield from (f"## {machine.title}", "", f"`fsm show {name}` shows the machine, `fsm test {name}` is the test.", "")
    yield f"| clause | level | {' | '.join(versions)} |"
    yield f"|---|---|{'---|' * len(versions)}"
    missing: dict[tuple[str, str], list[str]] = {}
    for clause in clauses(machine).values():
        cells = [each.cells[clause.name] for each in columns]
        shown = [
            _shown(cell, _anchor(name, clause.name, version)) for cell, version in zip(cells, versions, strict=True)
        ]
        yield f"| `{clause.name}` | {clause.level} | {' | '.join(shown)} |"
        for cell, version in zip(cells, versions, strict=True):
            if isinstance(cell, NotCovered | Holds) and cell.missed:
                missing.setdefault((clause.name, "; ".join(cell.missed)), []).append(version)
    yield ""
    if missing:
        yield from ("Not covered:", "")
        for (clause_name, why), where in missing.items():
            of = "" if where == versions else f" ({', '.join(where)})"
            yield f"- `{clause_name}`{of}: {why}"
        yield ""


def _shown(cell: Cell, anchor: str) -> str:
    match cell:
        case Holds(met=met, cells=cells):
            return "holds" if met == cells else f"holds in {met} of {cells}"
        case Violated(always=False, traces=traces) if not cell.tolerated:
            return f"{AT_TIMES} ([trace](#{anchor}))"
        case Violated(tolerated=tolerated, known=known, traces=traces):
            word = "**violated**" if not known else "tolerated" if tolerated else "differs"
            names = ": " + ", ".join(f"`{each}`" for each in tolerated) if tolerated else ""
            return f"{word}{names}" + (f" ([trace](#{anchor}))" if traces else "")
        case NotCovered():
            return "not covered"
        case _:
            assert_never(cell)


def _anchor(machine: str, clause: str, version: str) -> str:
    """As a page has it that shows the heading."""
    return f"{machine}-{clause}-{version.replace('.', '')}"


def _traces(columns: list[Column]) -> Iterator[str]:
    for each in columns:
        for clause, cell in each.cells.items():
            if isinstance(cell, Violated) and cell.traces:
                yield from (f"### {each.machine} {clause} {each.version}", "")
                for trace in cell.traces:
                    yield from ("```text", trace, "```", "")


def main(*, write: bool) -> int:
    if why := lacks():
        sys.stderr.write(f"{why}\n")
        return 2
    # A daemon works while a test waits for it.  Pods take longest, and go first.
    with ProcessPoolExecutor(2 * (os.cpu_count() or 1)) as pool:
        jobs = {each: pool.submit(measured, *each) for each in reversed(list(product(MACHINES, VERSIONS)))}
        columns = [jobs[each].result() for each in product(MACHINES, VERSIONS)]
    text = page(columns)
    for each in columns:
        sys.stdout.write(f"{each.machine} {each.version}: {each.steps} steps, {each.seconds:.0f} s\n")
    status = 0
    for each in columns:
        for difference in each.differences:
            status = 1
            sys.stderr.write(f"{each.machine} {each.version} is not as its profile says:\n{difference}\n")
    if write:
        PAGE.write_text(text, encoding="utf-8")
        return status
    kept = rows(PAGE.read_text(encoding="utf-8"))
    for line in (line for line in rows(text) if not any(same(line, each) for each in kept)):
        status = 1
        sys.stderr.write(f"{PAGE.name} has not: {line}\n")
    return status


if __name__ == "__main__":
    sys.exit(main(write="--write" in sys.argv[1:]))
