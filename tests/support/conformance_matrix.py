"""Test real daemons, and write the clauses that each version keeps to ``docs/reference/conformance-matrix.md``.

    python tests/support/conformance_matrix.py [--write]

Without ``--write``, the page is not changed; differences in its tables are printed and count as failures. In either
case, behaviour that contradicts the profile of a version is a failure. Each version is tested under its own profile,
and no test may fail under this profile. The cells that the profile changes are also tested without a profile, to find
the behaviour that the profile tolerates.

A flaky test may pass in one run, although the page proves that it can fail. Therefore, ``--write`` repeats each flaky
test on the page to find a shorter one, and keeps the old test if it does not fail again. Without ``--write``, a
missing flaky test does not count as a difference. At the end, ``.venv/containerd`` contains the page that the run
would have written.
"""

from __future__ import annotations

import os
import re
import sys
import time
from concurrent.futures import ProcessPoolExecutor
from dataclasses import replace
from functools import cache
from itertools import product, zip_longest
from pathlib import Path
from typing import TYPE_CHECKING, Final, NamedTuple, TypeAlias, assert_never

from containerds import Containerd, lacks
from matrix_cells import Cell, Column, Holds, NotCovered, Violated, changed, clauses, column, meets
from matrix_relays import RELAYING, TOLD, relayed
from packages_of_debian import CACHE, VERSIONS

from fsm.conformance.executor import Execution
from fsm.conformance.failure import FailedError, Failure
from fsm.conformance.lookup import find
from fsm.conformance.oracle import oracle
from fsm.conformance.plan import steps as read_steps
from fsm.conformance.stateful import REPEATS
from fsm.conformance.suite import conform
from fsm.language.library import load
from fsm.runtimes.live.workload import WORKLOAD
from fsm.runtimes.node_model import NODE, node
from fsm.scratch import ScratchFolder
from fsm.sut import SUT, Detailed, Stimulus

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from fsm.machine import Machine

PAGE: Final = Path(__file__).resolve().parent.parent.parent / "docs" / "reference" / "conformance-matrix.md"

MACHINES: Final = ("cri-container", "cri-pod", "container-status", "pod-sandbox")

EXAMPLES: Final = 1
"""The number of random tests that follow the targeted tests."""

REPETITIONS: Final = 60
"""The number of times that a flaky test is repeated.

With 60 repetitions, a test that fails in one of ten runs is missed only once in 500 cases.
"""

AT_TIMES: Final = "at times otherwise"

_HEAD: Final = """\
# What versions of containerd keep

This page lists each clause of a machine with the results of testing real daemons: containerd {versions}, as Debian
packages them. The tests are generated. They aim at every step of the machine, and tests in random order follow.
`bash .ci/live` repeats the tests, and fails if the results differ from this page.
`python tests/support/conformance_matrix.py --write` writes this page.

- **holds**: tests reached every cell of the clause, or the stated number of its cells, and all results were legal.
- **tolerated**: tests fail without a profile. Under the profile of the version, they pass, and the named deviation occurs.
- **differs**: tests fail without a profile, and pass under the profile of the version, which describes this cell differently.
- **at times otherwise**: a test failed, but not in every repetition, for example because two calls overlapped. A single
  failure is enough.
- **violated**: tests also fail under the profile of the version; `.ci/live` then fails.
- **not covered**: no test reached the cells of the clause. The reason is below the table.

Tests do not cover events that a client of CRI cannot cause, such as damage to a checkpoint while the runtime is down. Versions
that support plugins are also tested with a plugin of fsm. The steps of `node` are taken once, and each machine about plugins
judges the events that the plugin received. A machine counts a cell only if these events show the state of the container or pod.
"""


Steps: TypeAlias = tuple[Stimulus, ...]


class Seldom(NamedTuple):
    """A flaky test that ``conformance-matrix.md`` lists."""

    clause: str
    steps: Steps
    trace: str


def measured(name: str, version: str, seldom: Sequence[Seldom] = ()) -> Column:
    began = time.monotonic()
    machine, profile = load(name), f"containerd-{version}"
    places = changed(machine, profile)
    with ScratchFolder() as folder:
        daemon = Containerd(version=version, folder=Path(folder))
        daemon.open()
        try:
            runtime = {"image": WORKLOAD, "restart_command": daemon.restart_command}
            sut = find(f"cri:unix://{daemon.endpoint}", machine, options=runtime)
            profiled = conform(machine, sut, profile=profile, examples=EXAMPLES)
            plain = conform(machine, sut, examples=0, aimed=lambda edge: meets(edge, machine, places))
            again = filter(None, (failed_again(machine.under(profile), sut, each.steps) for each in seldom))
            plain = replace(plain, failures=(*plain.failures, *again))
            fields = _shows_fields(sut)
        finally:
            daemon.close()
    found = column(machine, version, plain, profiled, fields=fields, seconds=time.monotonic() - began)
    kept = {
        each.clause: Violated(traces=(each.trace,), tolerated=(), known=True, always=False)
        for each in seldom
        if isinstance(found.cells.get(each.clause), Holds)
    }
    return replace(found, cells={**found.cells, **kept})


def failed_again(machine: Machine, factory: Callable[[], SUT], steps: Steps) -> Failure | None:
    """Repeat a test and shorten it while it still fails.

    Return ``None`` if it never fails.
    """
    judge = oracle(machine, overlaps=False)
    sut = factory()

    def tried(steps: Steps) -> Failure | None:
        failures: list[Failure] = []
        for number in range(1, REPETITIONS + 1):
            try:
                Execution(judge, sut).replay(steps)
            except FailedError as error:
                failures.append(error.failure)
            if failures and number >= REPEATS:
                return replace(failures[-1], repeated=(len(failures), number))
        return None

    try:
        found, shorter = None, tried(steps)
        while shorter:
            found, steps = shorter, shorter.steps
            fewer = (tried((*steps[:index], *steps[index + 1 :])) for index in range(len(steps) - 1))
            shorter = next((each for each in fewer if each and each.kind == found.kind), None)
        return found
    finally:
        sut.close()


def _shows_fields(factory: Callable[[], SUT]) -> bool:
    sut = factory()
    try:
        return isinstance(sut, Detailed)
    finally:
        sut.close()


def page(columns: Iterable[Column]) -> str:
    found = list(columns)
    names = dict.fromkeys(each.machine for each in found)
    tables = ("\n".join(_table(name, [each for each in found if each.machine == name])) for name in names)
    parts = [_HEAD.format(versions=", ".join(VERSIONS)), *tables]
    traces = list(_traces(found))
    if traces:
        parts.append(
            "\n".join(
                [
                    "## Traces",
                    "",
                    "Each trace is the shortest trace of its kind that the tests have found.",
                    "",
                    *traces,
                ]
            )
        )
    return "\n".join(parts)


def rows(text: str) -> dict[tuple[str, str], tuple[str, ...]]:
    r"""Map sections and clauses to the table cells on a page, without links and without the numbers of cells.

    >>> rows("## A pod\n\n| `a` | MUST | holds in 3 of 5 | tolerated: `b` ([trace](#c)) |\n\nwords")
    {('A pod', '`a`'): ('MUST', 'holds', 'tolerated: `b`')}
    """
    found = {}
    for section in f"\n{text}".split("\n## ")[1:]:
        title = section.partition("\n")[0]
        for line in re.findall(r"^\| (.*) \|$", section, re.MULTILINE):
            name, *cells = re.sub(r" in \d+ of \d+(?= \||$)| \(\[trace\]\([^)]*\)\)", "", line).split(" | ")
            found[title, name] = tuple(cells)
    return found


def differences(text: str, kept: str) -> Iterator[tuple[str, bool]]:
    """Yield each difference between a new page and the old one, with a flag for differences that may be accidental.

    A flaky failure that is missing from the new page is not a difference, since a single run may not show it. The
    coverage of plugin events may differ accidentally, because an event shows the state of a container only if the end
    of the container was relayed in time.
    """
    old = rows(kept)
    for (title, clause), cells in rows(text).items():
        before = old.get((title, clause), ())
        for now, then in zip_longest(cells, before, fillvalue="nothing"):
            if now != then and (then, now) != (AT_TIMES, "holds"):
                seen = title in _told_of() and {then, now} == {"holds", "not covered"}
                by_chance = seen or (then, now) == ("holds", AT_TIMES)
                yield f"{title}: {clause} has '{now}', and the page has '{then}'", by_chance


@cache
def _told_of() -> frozenset[str]:
    return frozenset(machine_of(name).title for name in (NODE, *TOLD))


def failing_at_times(text: str) -> dict[tuple[str, str], list[Seldom]]:
    found: dict[tuple[str, str], list[Seldom]] = {}
    sections = re.findall(r"^### (\S+) (\S+) (\S+)\n(.*?)(?=^#|\Z)", text, re.MULTILINE | re.DOTALL)
    for machine, clause, version, traces in sections:
        for trace in re.findall(r"^```text\n(.*?)\n```", traces, re.MULTILINE | re.DOTALL):
            if re.search(r"^ *flaky ", trace, re.MULTILINE):
                steps = re.findall(r"^ +(?:test +)?\d+\. (\S+(?: \S+)*)", trace, re.MULTILINE)
                one = Seldom(clause=clause, steps=read_steps("; ".join(steps)), trace=trace)
                found.setdefault((machine, version), []).append(one)
    return found


def machine_of(name: str) -> Machine:
    return node(None) if name == NODE else load(name)


def _table(name: str, columns: list[Column]) -> Iterator[str]:
    machine = machine_of(name)
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
    kept = PAGE.read_text(encoding="utf-8")
    seldom = failing_at_times(kept) if write else {}
    # While a test waits, its daemon is busy, so more tests run than there are cores.  The tests of pods take longest,
    # so they start first.
    with ProcessPoolExecutor(2 * (os.cpu_count() or 1)) as pool:
        told = {version: pool.submit(relayed, version) for version in RELAYING}
        jobs = {
            each: pool.submit(measured, *each, seldom.get(each, ()))
            for each in reversed(list(product(MACHINES, VERSIONS)))
        }
        columns = [jobs[each].result() for each in product(MACHINES, VERSIONS)]
        columns += sorted(
            (each for version in told.values() for each in version.result()), key=lambda each: each.machine != NODE
        )
    text = page(columns)
    for each in columns:
        sys.stdout.write(f"{each.machine} {each.version}: {each.steps} steps, {each.seconds:.0f} s\n")
    status = 0
    for each in columns:
        for difference in each.differences:
            status = 1
            sys.stderr.write(f"{each.machine} {each.version} is not as its profile says:\n{difference}\n")
    new = PAGE if write else CACHE / PAGE.name
    new.write_text(text, encoding="utf-8")
    for line, by_chance in () if write else differences(text, kept):
        status = status if by_chance else 1
        sys.stderr.write(f"{line}{'; it is so at times' if by_chance else ''}; {new} has the trace\n")
    return status


if __name__ == "__main__":
    sys.exit(main(write="--write" in sys.argv[1:]))
