"""Test one version of containerd with a plugin, and return the results as columns of the matrix.

The steps of the system ``node`` are performed once, while the calls and the plugin's events are recorded. Each
machine for plugins judges this recording without a profile and under the profile of the version. If the recording
fails without a profile, further runs search for the shortest test that shows each failure.
"""

from __future__ import annotations

import re
import time
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Final

from containerds import Containerd
from matrix_cells import Cell, Column, Holds, NotCovered, Violated, cells_of, clauses, column, text_of
from packages_of_debian import VERSIONS

from fsm.conformance.scheme import SutRequest
from fsm.conformance.suite import conform
from fsm.language.library import load
from fsm.machine.findings import Illegal
from fsm.monitor.judgement import judge
from fsm.runtimes.live.call_recording import encoded
from fsm.runtimes.live.node_sut import RuntimeNodeSUT
from fsm.runtimes.live.runtime_sut import factory
from fsm.runtimes.live.workload import WORKLOAD
from fsm.runtimes.node_model import NODE, node
from fsm.scratch import ScratchFolder

if TYPE_CHECKING:
    from collections.abc import Sequence

    from fsm.conformance.failure import Failure
    from fsm.machine import Machine
    from fsm.machine.findings import Judgement, Violation
    from fsm.sut import SUT

TOLD: Final = {"nri-container": False, "nri-pod": False, "plugin-container": True, "plugin-pod": True}
"""The machines that judge the events of plugins, and whether they also need the calls."""

RELAYING: Final = tuple(each for each in VERSIONS if not each.startswith("1.6."))
"""The versions that support plugins."""

UNMET: Final = "no test of `node` has certainly met one of its cells, by what the plugin was told"
UNTRIED: Final = "no step that a client can cause without a fault or a restart reached its other cells"


def relayed(version: str) -> list[Column]:
    began = time.monotonic()
    profile = f"containerd-{version}"
    with ScratchFolder() as folder:
        daemon = Containerd(version=version, folder=Path(folder))
        daemon.open()
        try:
            address = f"unix://{daemon.endpoint}"
            options = {"image": WORKLOAD, "nri": f"unix://{daemon.nri}"}
            asked = SutRequest(rest=address, machine=node(profile), model=NODE, options=options)
            calls: list[bytes] = []
            suts: list[SUT] = []
            make = factory(asked, seen=lambda answer: calls.append(encoded(answer)))

            def kept() -> SUT:
                suts.append(make())
                return suts[-1]

            tested = conform(node(profile), kept, examples=0)
            events = [line for sut in suts if isinstance(sut, RuntimeNodeSUT) for line in sut.plugin.recording]
            (daemon.folder / "events.jsonl").write_bytes(b"".join(line + b"\n" for line in events))
            (daemon.folder / "calls.jsonl").write_bytes(b"".join(calls))
            seconds = time.monotonic() - began
            found = column(node(profile), version, tested, tested, fields=False, seconds=seconds)
            # There are hundreds of joint states. A reason for each state that was not reached would fill most of the
            # page.
            cells: dict[str, Cell] = {
                name: replace(cell, missed=(UNTRIED,)) if isinstance(cell, Holds | NotCovered) else cell
                for name, cell in found.cells.items()
            }
            columns = [replace(found, cells=cells, steps=tested.cover.steps)]  # a single test counts for both
            for name, with_calls in TOLD.items():
                began = time.monotonic()
                judged = partial(
                    judge,
                    str(daemon.folder / "events.jsonl"),
                    calls=str(daemon.folder / "calls.jsonl") if with_calls else "",
                    models=[name],
                )
                plain = judged().judgements
                failures: Sequence[Failure] = ()
                if broken := _broken(plain):
                    sut = factory(replace(asked, model=name))
                    events_of = {_step(each.observation.event) for each in broken}
                    failures = conform(
                        node(profile),
                        sut,
                        examples=0,
                        most=len({each.clause.name for each in broken}),
                        aimed=lambda edge, events_of=events_of: edge.step.event in events_of,  # type: ignore[misc]
                    ).failures
                found = told(load(name), version, plain, judged(profile=profile).judgements, failures)
                columns.append(replace(found, seconds=time.monotonic() - began))
        finally:
            daemon.close()
    return columns


def told(
    machine: Machine,
    version: str,
    plain: Sequence[Judgement],
    profiled: Sequence[Judgement],
    failures: Sequence[Failure] = (),
) -> Column:
    places = {place: cell.clause.name for place, cell in cells_of(machine).items()}
    mine = [each for each in (*plain, *profiled) if each.machine.name == machine.name]
    met = {place for each in mine for place, count in each.covered.cells.items() if count}
    broken, remain = ({each.clause.name for each in _broken(judgements)} for judgements in (plain, profiled))
    deviations = [found.first.deviation for judgement in profiled for found in judgement.tolerated]
    cells: dict[str, Cell] = {}
    for name in clauses(machine):
        own = [place for place, clause in places.items() if clause == name]
        missed = (UNMET,) if any(each not in met for each in own) else ()
        tolerated = tuple(sorted({each.name for each in deviations if each.clause.name == name}))
        if name in broken or name in remain or tolerated:
            traces = [
                text_of(each) for each in failures if each.violation is not None and each.violation.clause.name == name
            ]
            cells[name] = Violated(traces=tuple(dict.fromkeys(traces)), tolerated=tolerated, known=name not in remain)
        elif any(each in met for each in own):
            cells[name] = Holds(met=sum(each in met for each in own), cells=len(own), missed=missed)
        else:
            cells[name] = NotCovered(missed=missed)
    differences = tuple(f"{each.clause.name}: {each.observation}" for each in _broken(profiled))
    steps = sum(each.observations for each in plain)
    return Column(machine=machine.name, version=version, cells=cells, differences=differences, steps=steps)


def _broken(judgements: Sequence[Judgement]) -> list[Violation]:
    illegal = [each.verdict for each in judgements if isinstance(each.verdict, Illegal)]
    return [finding.first[0] for verdict in illegal for finding in verdict.findings]


def _step(event: str) -> str:
    """Return the step of ``node`` in which a plugin is notified of *event*.

    >>> _step("StartContainer"), _step("RunPodSandbox")
    ('start-container', 'run-pod')
    """
    return re.sub(r"(?<!^)(?=[A-Z])", "-", event).lower().removesuffix("-sandbox")
