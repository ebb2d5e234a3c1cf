"""The reference container under test, in a real directory and a simulated environment that can produce any outcome."""

from collections.abc import Callable, Mapping
from functools import cache
from itertools import cycle
from typing import Any, Final

from fsm.machine.table import tabulate
from fsm.runtimes.names import status_fields
from fsm.runtimes.reference.container import MACHINE, Container
from fsm.runtimes.reference.container.record import FLAGS, LinuxResources, Record, Resources
from fsm.runtimes.reference.container.storage import NAME
from fsm.runtimes.reference.container.world import KILLED, Exit, SimulatedWorld, Task
from fsm.runtimes.reference.driven import ABSENT, DAMAGE, Damage, Faults, ReferenceSUT, damage, driver

FAULTS: Final[Mapping[tuple[str, str], str]] = {
    ("create", "failed"): "make",
    **dict.fromkeys([("start", "no-info"), ("remove", "no-info")], "look"),
    ("start", "failed"): "run",
    ("start", "not-recorded"): "disk",
    ("stop", "gone-already"): "no task",
    **dict.fromkeys([("stop", "cut-short"), ("stop", "failed"), ("remove", "not-killed")], "kill"),
    **dict.fromkeys([("stop", "stopped-late"), ("remove", "killed-only")], "late"),
    ("stop", "no-record"): "no record",
    ("remove", "no-record"): "gone",
    ("remove", "failed"): "forget",
}
"""The fault that causes each outcome of an event. Failures that are not listed are caused by the fault ``use``."""

CHECKPOINT_DAMAGE: Final[tuple[Damage, ...]] = (
    *DAMAGE,
    lambda data: data.replace(b'"v1"', b'"v2"'),
    lambda data: b"\0" * len(data),
)


class ContainerSUT(ReferenceSUT[Container]):
    """A :class:`~fsm.runtimes.reference.container.Container` under test. It conforms under every profile.

    >>> sut = ContainerSUT()
    >>> sut.do("create"), sut.arrange("start", "begins"), sut.arrange("start", "failed")
    ('ok', True, True)
    >>> sut.do("start"), sut.shows(), sut.record()["exit_code"]
    ('UNKNOWN', 'CONTAINER_EXITED', 128)
    >>> sut.arrange("restart", "unknown"), sut.do("restart"), sut.shows()
    (True, '', 'CONTAINER_UNKNOWN')
    >>> sut.close()
    """

    machine = MACHINE
    kinds = (Container,)

    def __init__(self, profile: str = "", kind: type[Container] | None = None) -> None:
        self._damage = cycle(CHECKPOINT_DAMAGE)
        super().__init__(profile, kind)

    def reset(self) -> None:
        super().reset()
        home = self._new_folder()
        self._root = home / "container"
        self.faults = Faults(home)
        self.world = SimulatedWorld(self._root, self.faults)
        self.container = self._kind(self._root, self.world)
        self._limits = 0
        self._file: bytes | None = None
        self._restart_to, self._begins = "", False

    def shows(self) -> str:
        return self.container.shows

    def record(self) -> dict[str, Any]:
        status = self.container.record()
        fields = _fields(status) if status else {}
        return {name: value for name, value in fields.items() if name not in {"reason", *FLAGS}}

    def fields(self) -> dict[str, int | str]:
        status = self.container.record()
        return status_fields(status) if status else {}

    def arrange(self, event: str, outcome: str) -> bool:
        if (event, outcome) not in _outcomes():
            return False
        if event == "restart":
            self._restart_to = outcome
            # An absent container can reappear only after a crash in the middle of its creation.
            return self.container.state != ABSENT or self._begins or outcome in self.container.offered(event)
        self._begins = True
        if fault := FAULTS.get((event, outcome), "use" if outcome == "failed" else ""):
            self.faults.add(fault)
        return True

    def begin(self, event: str) -> str | None:
        return self._stage(event, self.container.begin)

    def end(self, event: str) -> str | None:
        return self._stage(event, self.container.end)

    def crash(self, event: str, point: int) -> bool:
        restart_to = self._restart_to
        try:
            self._crash(event, point)
        finally:
            ended = self.world.ended
            self._clear_faults()
        self._restart_to, self.world.ended = restart_to, ended
        self.do("restart")
        return self.faults.crashed

    def _stage(self, event: str, stage: Callable[[str], bool]) -> str | None:
        in_progress: list[bool] = []
        code = self._reply(event, lambda: in_progress.append(stage(event)))
        return None if any(in_progress) else code

    def _happen(self, event: str) -> None:
        match event:
            case "create" | "update-resources":
                self._limits += 1
                limits = LinuxResources(cpu_shares=self._limits, unified={"memory.high": str(self._limits)})
                self.container.call(event, Resources(linux=limits))
            case "exit":
                self.world.process = None
                self.container.exited(Exit(0, self.world.now()))
            case "oom":
                self.container.oom()
            case "restart":
                self._restart()
            case _:
                self.container.call(event)

    def _clear_faults(self) -> None:
        self.world.end_event()
        self._restart_to, self._begins = "", False

    def _restart(self) -> None:
        file, to = self._root / NAME, self._restart_to
        unknown = self.container.shows == "CONTAINER_UNKNOWN"
        if to.startswith("unknown"):
            if unknown:
                self.faults.add("task")
            elif file.exists():
                self._file = file.read_bytes()
                damage(file, next(self._damage))
        elif self._file is not None and unknown:
            file.write_bytes(self._file)
        if to.startswith("skipped"):
            self.faults.add("look")
        elif to == "removed":
            self.world.known = False
        self._set_process(to)
        self.container = self._kind.recovered(self._root, self.world)

    def _set_process(self, to: str) -> None:
        match to:
            case "running" | "unknown-started" | "skipped-started" if not self.world.ended:
                self.world.process = self.world.process or Task(1)
            case "created":
                self.world.process = None
            case "exited":
                record = self.container.record()
                ran = record is not None and record.started_at
                self.world.process = None if ran else Task(1, exit=Exit(KILLED, self.world.now()))


def _fields(part: Record) -> dict[str, Any]:
    return {name: _fields(value) if isinstance(value, Record) else value for name, value in part}


@cache
def _outcomes() -> frozenset[tuple[str, str]]:
    table = tabulate(driver(MACHINE).machine)
    origins = zip(table.ways, table.origin, strict=True)
    return frozenset((table.rows[row].event.name, way.name) for way, (row, _) in origins)
