"""The reference container under test: in a real folder, in a world in which everything can be arranged.

A restart throws the container away and makes another from what is on the
disk; where it is not to be recovered its checkpoint is damaged there.
"""

from __future__ import annotations

import shutil
import tempfile
from contextlib import suppress
from itertools import cycle
from os import W_OK, access
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from fsm.library import load
from fsm.machine import outcomes
from fsm.machine.driver import NoWayError
from fsm.reference.container.container import Container
from fsm.reference.container.effects import Effects
from fsm.reference.container.record import LinuxResources, Record, Resources
from fsm.reference.container.storage import NAME
from fsm.reference.container.world import Exit, LateError, NoRecordError, NoTaskError, Task
from fsm.reference.driven import CallError
from fsm.reference.fault_injection import MEMORY, DeadError, Death, Faults
from fsm.sut import UnsupportedError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from fsm.machine import Event

SIGNALS: Final = ("exit", "oom", "restart")
KILLED: Final = 137

FAULTS: Final[Mapping[tuple[str, str], str]] = {
    ("create", "failed"): "make",
    ("start", "no-info"): "look",
    ("start", "failed"): "run",
    ("start", "not-recorded"): "disk",
    ("stop", "gone-already"): "no task",
    ("stop", "cut-short"): "kill",
    ("stop", "failed"): "kill",
    ("stop", "stopped-late"): "late",
    ("stop", "no-record"): "no record",
    ("remove", "no-info"): "look",
    ("remove", "no-record"): "gone",
    ("remove", "not-killed"): "kill",
    ("remove", "killed-only"): "late",
    ("remove", "failed"): "forget",
    **{(event, "failed"): "use" for event in ("status", "exec", "exec-sync", "attach", "reopen-log")},
    **{(event, "failed"): "use" for event in ("stats", "checkpoint", "update-resources")},
}
"""What has to go wrong for an event to end in an outcome; nothing, for any other."""

DAMAGE: Final[tuple[Callable[[bytes], bytes | None], ...]] = (
    lambda data: data[: len(data) // 2],
    lambda _: None,
    lambda _: b"",
    lambda data: data.replace(b'"v1"', b'"v2"'),
    lambda data: b"\0" * len(data),
)
"""What may become of a checkpoint; ``None`` if it is gone."""


class SimulatedWorld:
    """The world of one container, on a disk at *root*; ``faults`` are what goes wrong, until they are cleared."""

    def __init__(self, root: Path, death: Death | None = None) -> None:
        self.root = root
        self.death = death or Death(root.parent)
        self.faults = Faults(self.death)
        self.known = False
        self.process: Task | None = None
        self.ended = False
        self._time = 1_000
        self._pid = 100

    def now(self) -> int:
        """A time that was never before."""
        self._time += 1
        return self._time

    def make(self) -> None:
        """The record is there."""
        self.faults.meet("make")
        self.known = True

    def look(self) -> None:
        """Whether the record is there, and can be read."""
        self.faults.meet("look", effect=False)
        if "gone" in self.faults:
            self.known = False
        if not self.known or "no record" in self.faults:
            message = "no such container"
            raise NoRecordError(message)

    def forget(self) -> None:
        """The record is gone."""
        self.faults.meet("forget")
        self.known = False

    def run(self) -> int:
        """A process with a new id."""
        self.faults.meet("run")
        self._pid += 1
        self.process = Task(self._pid)
        if "disk" in self.faults:
            self.root.rename(self.root.with_name("away"))
        return self._pid

    def kill(self) -> Exit:
        """The process is gone."""
        self.faults.meet("kill", effect=False)
        if "no task" in self.faults or (self.process is None and "late" not in self.faults):
            message = "no such process"
            raise NoTaskError(message)
        self.death.effect()
        self.process, self.ended = None, True
        ended = Exit(KILLED, self.now())
        if "late" in self.faults:
            raise LateError(ended)
        return ended

    def task(self) -> Task | None:
        """The process as it is."""
        self.faults.meet("task", effect=False)
        return self.process

    def drop(self) -> None:
        """Nothing is left of the process."""
        self.faults.meet("drop")
        self.process = None

    def use(self, event: str, resources: Resources | None = None) -> None:
        """As if it were done."""
        del event, resources
        self.faults.meet("use")

    def mend(self) -> None:
        """Nothing goes wrong any more, and the event is over in which a process may have ended."""
        self.faults.clear()
        self.ended = False
        away = self.root.with_name("away")
        if away.exists():
            away.rename(self.root)


class ContainerSUT:
    """A :class:`~fsm.reference.container.container.Container` under test; of other classes for those who try what is noticed.

    >>> sut = ContainerSUT()
    >>> sut.do("create"), sut.arrange("start", "begins"), sut.arrange("start", "failed")
    ('ok', True, True)
    >>> sut.do("start"), sut.shows(), sut.record()["exit_code"]
    ('UNKNOWN', 'CONTAINER_EXITED', 128)
    >>> sut.arrange("restart", "unknown"), sut.do("restart"), sut.shows()
    (True, '', 'CONTAINER_UNKNOWN')
    >>> sut.close()
    """

    def __init__(
        self, profile: str = "", *, kind: type[Container] = Container, effects: type[Effects] = Effects
    ) -> None:
        del profile  # none forbids what the machine says
        self._kind, self._effects = kind, effects
        self._home = Path(tempfile.mkdtemp(prefix="fsm-", dir=MEMORY if access(MEMORY, W_OK) else None))
        self._death = Death(self._home)
        self._damage = cycle(DAMAGE)
        self._known = {
            (event.name, name) for event in load("container-status").events.values() for name in _names(event)
        }
        self.reset()

    def reset(self) -> None:
        """A new world, and nothing on the disk."""
        self.close()
        self._home.mkdir()
        self._root = self._home / "container"
        self.world = SimulatedWorld(self._root, self._death)
        self.container = self._kind(self._root, self.world, effects=self._effects)
        self._limits = 0
        self._file: bytes | None = None
        self._hoped = ""

    def close(self) -> None:
        """Nothing is left on the disk."""
        shutil.rmtree(self._home, ignore_errors=True)

    def shows(self) -> str:
        """What a client is told."""
        return self.container.shows

    def record(self) -> dict[str, Any]:
        """What is remembered: all that is written down but the reason, which a kill for want of memory changes anywhere."""
        status = self.container.record()
        left_out = {"reason", "starting", "removing", "unknown"}
        return {name: value for name, value in _opened(status).items() if name not in left_out} if status else {}

    def arrange(self, event: str, outcome: str) -> bool:
        """What goes wrong, or what a restart is to find."""
        if (event, outcome) not in self._known:
            return False
        if event == "restart":
            self._hoped = outcome
        elif fault := FAULTS.get((event, outcome)):
            self.world.faults.add(fault)
        return True

    def do(self, event: str) -> str:
        """*event*, from beginning to end."""
        return self._answered(event, lambda: self._happens(event))

    def begin(self, event: str) -> str | None:
        """*event* begins."""
        going: list[bool] = []
        reply = self._answered(event, lambda: going.append(self.container.begin(event)))
        return None if any(going) else reply

    def end(self, event: str) -> str | None:
        """*event* goes on by one stage."""
        going: list[bool] = []
        reply = self._answered(event, lambda: going.append(self.container.end(event)))
        return None if any(going) else reply

    def crash(self, event: str, point: int) -> bool:
        """*event* happens as far as its effect number *point*, and then a restart."""
        hoped, died = self._hoped, False
        try:
            with self._death.at(point), suppress(CallError):
                self._happens(event)
        except DeadError:
            died = True
        except NoWayError as error:
            raise UnsupportedError(str(error)) from error
        finally:
            ended = self.world.ended
            self._mend()
        self._hoped, self.world.ended = hoped, ended
        self._answered("restart", self._restart)
        return died

    # -- what happens ------------------------------------------------------

    def _answered(self, event: str, act: Callable[[], object]) -> str:
        try:
            act()
        except CallError as error:
            return error.code
        except NoWayError as error:
            raise UnsupportedError(str(error)) from error
        finally:
            self._mend()
        return "" if event in SIGNALS else "ok"

    def _happens(self, event: str) -> None:
        match event:
            case "create":
                self.container.create(self._resources())
            case "update-resources":
                self.container.update_resources(self._resources())
            case "exit":
                self.world.process = None
                self.container.exited(Exit(0, self.world.now()))
            case "oom":
                self.container.oom()
            case "restart":
                self._restart()
            case _:
                self.container.call(event)

    def _resources(self) -> Resources:
        """Limits that were never before."""
        self._limits += 1
        return Resources(linux=LinuxResources(cpu_shares=self._limits, unified={"memory.high": str(self._limits)}))

    def _mend(self) -> None:
        self.world.mend()
        self._hoped = ""

    # -- restarts ----------------------------------------------------------

    def _restart(self) -> None:
        self.container.detach()
        hoped = self._hoped
        file = self._root / NAME
        if hoped in {"skipped", "removed"}:
            self.world.known = False
        elif hoped.startswith("unknown"):
            self._spoil(file)
        elif self._file is not None and self.container.shows == "CONTAINER_UNKNOWN":
            file.write_bytes(self._file)
        self._find(hoped)
        self.container = self._kind.recovered(self._root, self.world, effects=self._effects)

    def _spoil(self, file: Path) -> None:
        """See to it that the container cannot be recovered."""
        if self.container.shows == "CONTAINER_UNKNOWN":
            self.world.faults.add("task")
        if self.container.shows == "CONTAINER_UNKNOWN" or not file.exists():
            return
        self._file = file.read_bytes()
        damaged = next(self._damage)(self._file)
        if damaged is None:
            file.unlink()
        else:
            file.write_bytes(damaged)

    def _find(self, hoped: str) -> None:
        """See to it that the process is found as is *hoped*."""
        process = self.world.process
        match hoped:
            case "running" | "unknown-started" if not self.world.ended:
                self.world.process = process or Task(1)
            case "created":
                self.world.process = None
            case "exited":
                written = self.container.record()
                ran = written is not None and written.started_at
                self.world.process = None if ran else Task(1, exit=Exit(KILLED, self.world.now()))
            case _:
                pass


def _opened(part: Record) -> dict[str, Any]:
    """The fields of *part*, and theirs; lists and maps are those that were given."""
    return {name: _opened(value) if isinstance(value, Record) else value for name, value in part}


def _names(event: Event) -> Iterator[str]:
    """Every outcome of *event*."""
    for cells in (event.cells, event.ends):
        for state, cell in cells.items():
            yield from (way.name for way in outcomes(cell, state, event.kind) or ())
