"""Report illegal events from GetContainerEvents as violations of the container and pod machines."""

from collections.abc import Collection, Iterator, Sequence
from typing import Final

from msgspec import structs

from fsm.machine import Clause
from fsm.machine.findings import Cause, Violation
from fsm.monitor import Monitor
from fsm.runtimes.recordings.container_events import DISORDERED, KINDS, MISSING, UNCAUSED
from fsm.trace import Batch, Line, Observation

_SOURCE: Final = (
    "containerd v2.1, internal/cri/server: sandbox_run.go, sandbox_remove.go, container_create.go, container_start.go, "
    "container_remove.go, events.go; integration/container_event_test.go"
)

CLAUSES: Final = {
    name: Clause(name=name, says=says, level="SHOULD", source=_SOURCE)
    for name, says in {
        UNCAUSED: "Each event reports a creation, a start or a removal that succeeds, or the end of what was started, "
        "and is sent once.",
        MISSING: "Each creation, start and removal that succeeds is reported, "
        "and so is the end of a container before its removal.",
        DISORDERED: "The events of one call are sent before those of a later call.",
    }.items()
}


class EventFindings:
    def __init__(self, monitors: Sequence[Monitor], file: str) -> None:
        self._monitors = {monitor.machine.entity: monitor for monitor in monitors}
        self._file = file

    def pieces(self, batch: Batch) -> Iterator[Batch]:
        yield batch
        for seen, line in zip(batch.observations, batch.lines, strict=True):
            if monitor := self._monitors.get(KINDS.get(seen.of, "")):
                place = Line.of(line, self._file)
                monitor.folder.fold(violation_of(seen, monitor.machine.name, place, monitor.states(seen.entity)))


def violation_of(seen: Observation, machine: str, place: Line, before: Collection[str] = ()) -> Violation:
    return Violation(
        machine=machine,
        cause=Cause.EVENT,
        observation=structs.replace(seen, of=KINDS[seen.of]),
        file=place.file,
        line=place.number,
        before=tuple(sorted(before)),
        clause=CLAUSES[seen.event],
        illegal=seen.output,
    )
