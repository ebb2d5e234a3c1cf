"""Report which cells of the specification are covered by recordings, and how to cover the rest.

A cell is a reachable (event, state) pair. It is *covered* if a recording certainly exercised it. Any other cell
belongs to *calls* if a client can cover it by calls alone, to *open* if calls alone exercise it but a recording
cannot prove this, and otherwise to *beyond*.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from enum import Enum
from typing import Final

from fsm.conformance.client_paths import ClientPath, EvidentPaths, Need, client_paths
from fsm.conformance.plan import Plan
from fsm.conformance.scheme import NOBODY, ClientRun, DomainClient, client_of, script
from fsm.errors import visible
from fsm.machine.table import tabulate
from fsm.monitor.judgement import Judged
from fsm.monitor.judgement.coverage import CellName, MachineCoverage, merged
from fsm.report import Report, words
from fsm.report.json_report import Json, dumped, picked

# What a client may need in addition to its own calls.
NEEDS: Final[Mapping[Need, str]] = {
    Need.FAILURE: "a start that fails because its command does not exist",
    Need.OVERLAP: "calls that overlap",
    Need.SAME_ID: "an id that is used twice (a refused creation has no id)",
    Need.RESTART: "a restart of the runtime",
    Need.FAULT: "an event or a failure that no call causes",
    Need.HIDDEN: "an event that nobody observes",
    Need.NEVER: "several calls in progress",
}


class Standing(Enum):
    COVERED = "covered"
    CALLS = "not covered"
    OPEN = "not shown"
    BEYOND = "beyond calls"


# Descriptions of uncovered cells that a client can exercise with calls alone.
MISSING: Final[Mapping[Standing, str]] = {
    Standing.CALLS: "although a client can cover the pair by calls alone",
    Standing.OPEN: "because the recording does not prove that a client's calls exercised this state",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class CoverRow:
    cell: CellName
    counts: Mapping[str, int]
    others: Mapping[str, int]
    path: ClientPath
    lines: tuple[str, ...]  # shell commands for the path; empty if there are none
    unseen: bool  # Recordings of the compared kinds never show the event.
    evident: bool  # A recording of the path would prove that the cell was exercised.

    @property
    def by_calls(self) -> bool:
        return self.path.alone and not self.unseen and self.evident

    @property
    def name(self) -> str:
        return " in ".join(self.cell)

    @property
    def steps(self) -> str:
        """The steps that exercise the cell, as an argument for ``fsm test --replay``."""
        return "; ".join(map(str, self.path.steps))

    @property
    def standing(self) -> Standing:
        if self.counts:
            return Standing.COVERED
        if not self.path.alone or self.unseen:
            return Standing.BEYOND
        return Standing.CALLS if self.evident else Standing.OPEN

    @property
    def why(self) -> str:
        if self.unseen:
            return "recordings of calls do not show this event"
        needs = " and ".join(NEEDS[need] for need in self.path.needs)
        return needs and f"needs {needs}"


@dataclass(frozen=True, slots=True, kw_only=True)
class CoveredMachine:
    coverage: MachineCoverage
    rows: tuple[CoverRow, ...]
    plan: Plan
    compared: bool

    @property
    def name(self) -> str:
        return self.coverage.machine.name

    def standing(self, *kinds: Standing) -> tuple[CoverRow, ...]:
        return tuple(row for row in self.rows if row.standing in kinds)

    def missing(self) -> Iterator[tuple[Standing, str, tuple[CoverRow, ...]]]:
        for standing, about in MISSING.items():
            if rows := self.standing(standing):
                yield standing, about, rows

    def summary(self) -> str:
        covered, missing = (len(self.standing(standing)) for standing in (Standing.COVERED, Standing.CALLS))
        pairs = words.plural(len(self.rows), "(event, state) pair")
        rest = f", {missing} missing (calls below)" if missing else ""
        by_calls = sum(row.by_calls for row in self.rows)
        return f"{covered} of {pairs} covered; clients can cover {by_calls} by calls alone{rest}"

    def beyond(self) -> dict[str, list[CoverRow]]:
        rows = sorted(self.standing(Standing.BEYOND), key=lambda row: (row.unseen, row.path.needs[::-1]))
        return words.grouped((row.why, row) for row in rows)

    def sides(self) -> dict[str, list[CoverRow]]:
        names = {
            "only in the first set": (True, False),
            "only in the second set": (False, True),
            "in both": (True, True),
        }
        return {
            side: [row for row in self.rows if (bool(row.counts), bool(row.others)) == both]
            for side, both in names.items()
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class CoveringRecording:
    judged: Judged
    number: str
    side: str
    name: str
    kind: str
    verdict: str


class CoverReport:
    """The coverage by *recordings*, optionally compared with the coverage by other recordings (*against*)."""

    def __init__(self, recordings: tuple[Judged, ...], against: tuple[Judged, ...] = ()) -> None:
        self.recordings, self.against = recordings, against
        first, second = merged(recordings), merged(against)
        # Also add machines that were judged only in the second set. The first set covers none of their cells.
        unmatched = (each for each in second if not any(map(each.same, first)))
        empty = (replace(each, cells={cell: {} for cell in each.cells}) for each in unmatched)
        self.machines = tuple(self._machine(each, second) for each in (*first, *empty))

    @property
    def client(self) -> DomainClient:
        """The client for the shell commands, whose preamble must be run first."""
        clients = (client_of(each.coverage.machine) for each in self.machines if any(row.lines for row in each.rows))
        return next(clients, NOBODY)

    def _machine(self, coverage: MachineCoverage, second: tuple[MachineCoverage, ...]) -> CoveredMachine:
        others = next((each.cells for each in second if each.same(coverage)), {})
        paths = client_paths(coverage.machine)
        plan = Plan(tabulate(coverage.machine))
        client = client_of(coverage.machine)
        shell = client.takes(coverage.machine)
        evidence = EvidentPaths(coverage.machine, seen=coverage.seen, unseen=coverage.unseen)

        def row(cell: CellName, counts: Mapping[str, int]) -> CoverRow:
            path, unseen = paths[cell], cell[0] in coverage.unseen
            steps = path.steps
            if shell and path.alone and not unseen:
                steps = evidence.of(cell, steps)
            path = replace(path, steps=steps or path.steps)
            lines = client.lines(plan, path.steps) if shell and path.steps else ()
            own = others.get(cell, {})
            return CoverRow(
                cell=cell, counts=counts, others=own, path=path, lines=lines, unseen=unseen, evident=bool(steps)
            )

        rows = tuple(row(cell, counts) for cell, counts in coverage.cells.items())
        return CoveredMachine(coverage=coverage, rows=rows, plan=plan, compared=bool(self.against))

    def listed(self) -> Iterator[CoveringRecording]:
        report = Report(judged=(*self.recordings, *self.against))
        for number, judged in enumerate(report.judged, start=1):
            of = f" of {judged.version}" if judged.version else ""
            yield CoveringRecording(
                judged=judged,
                number=str(number),
                side="first" if number <= len(self.recordings) else "second",
                name=visible(words.file(judged.name)),
                kind=visible(f"{judged.form.title}{of}"),
                verdict=report.of(judged).word,
            )

    @property
    def shell(self) -> bool:
        return any(row.lines for machine in self.machines for row in machine.standing(*MISSING))

    def numbers(self) -> dict[str, str]:
        """The number of each recording. A recording in both sets keeps its first number."""
        return {each.judged.name: each.number for each in reversed([*self.listed()])}


def sh(cover: CoverReport) -> str:
    missing = ((machine, row) for machine in cover.machines for row in machine.standing(Standing.CALLS) if row.lines)
    runs = (ClientRun(f"{each.name}: {row.name}", each.plan, row.path.steps) for each, row in missing)
    return script(cover.client, runs)


def json(cover: CoverReport) -> str:
    about = {"file": "judged.name", "set": "side", "kind": "judged.form.title", "version": "judged.version?"}
    return dumped(
        {
            "recordings": [picked(each, **about, verdict="verdict") for each in cover.listed()],
            "machines": [_machine(machine) for machine in cover.machines],
            "preamble": cover.client.preamble,
        }
    )


def _machine(machine: CoveredMachine) -> Json:
    alone = [row for row in machine.rows if row.by_calls]
    return {
        "machine": machine.name,
        "cells": len(machine.rows),
        "covered": len(machine.coverage.covered),
        "by_calls": len(alone),
        "covered_by_calls": sum(1 for row in alone if row.counts),
        "rows": [
            {
                **dict(zip(("event", "state"), row.cell, strict=True)),
                **picked(row, standing="standing.value", recordings="counts"),
                "against": dict(row.others) if machine.compared else None,
                "needs": [need.name.lower().replace("_", "-") for need in row.path.needs],
                "steps": [*map(str, row.path.steps)],
                "lines": [*row.lines],
            }
            for row in machine.rows
        ],
    }
