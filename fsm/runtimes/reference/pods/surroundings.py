"""The environment of pods: containers, an observer, the network, metadata, and the stages of a run.

The containers and the observer do nothing by default. Like CNI's host-local plugin, the network leases an address to
each pod, and records the lease in a file.
"""

import asyncio
import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, field
from ipaddress import IPv4Network
from pathlib import Path
from typing import Final, NamedTuple

from pydantic import TypeAdapter

from fsm.machine.driver import Position
from fsm.runtimes.reference.clock import perform
from fsm.runtimes.reference.container import durable_files
from fsm.runtimes.reference.container.world import Exit
from fsm.runtimes.reference.driven import CallError, Driven, Faults, WorldError


@dataclass(eq=False)
class Containers:
    """The containers of all pods. This base class has no containers.

    Every method may be a coroutine function, and may raise :class:`~fsm.runtimes.reference.driven.WorldError`. A
    method fails if its point is in *faults*.
    """

    faults: Faults = field(default_factory=Faults)

    def create(self, _pod: str) -> object:
        return self._passes("create container")

    def stop(self, _pod: str) -> object:
        """Stop the containers of a pod one after the other. If one cannot be stopped, leave the rest."""
        return self._passes("stop containers")

    def remove(self, _pod: str) -> object:
        """Remove all containers of a pod, in any state. Can be repeated."""
        return self._passes("remove containers")

    def _passes(self, point: str) -> bool:
        self.faults.point(point)
        return True


class PodObserver:
    """An observer that is notified of changes to pods. Each method may be a coroutine function."""

    def runs(self, _pod: str) -> object:
        """Handle the start of the pause process of a pod. The pod is not ready yet.

        May raise :class:`~fsm.runtimes.reference.driven.WorldError`.
        """

    def stopped(self, _pod: str) -> object:
        """Handle the end of the pause process of a pod after it was stopped."""

    def removed(self, _pod: str) -> object:
        """Handle the removal of a pod, or the undoing of its run."""


FAILURES: Final = (WorldError, OSError, CallError)
"""Errors of the environment, of the disk, and of calls to other components."""


class Stage(NamedTuple):
    """A stage of a run: a function that makes something, and a function that undoes it.

    The second function must work even if the first function was not called, or has failed halfway.
    """

    make: Callable[[], object]
    unmake: Callable[[], object] = bool


class MakeError(Exception):
    """A stage of a run has failed. The first ``left`` stages of the run could not be undone."""

    def __init__(self, why: str, left: int = 0) -> None:
        super().__init__(why)
        self.left = left


async def make(stages: Iterable[Stage]) -> None:
    """Make all stages in order.

    If a stage fails, undo it and all earlier stages in reverse order, until a stage cannot be undone. Then raise
    :class:`MakeError`.

    >>> import asyncio
    >>> def fail() -> None:
    ...     raise WorldError("no")
    >>> done = []
    >>> stages = [Stage(lambda: done.append("made"), lambda: done.append("unmade")), Stage(fail)]
    >>> try:
    ...     asyncio.run(make(stages))
    ... except MakeError as error:
    ...     print(error, done)
    no ['made', 'unmade']
    """
    begun: list[Stage] = []
    for stage in stages:
        begun.append(stage)
        try:
            await perform(stage.make)
        except FAILURES as error:
            raise MakeError(str(error), await unmake(begun)) from error


async def unmake(stages: Sequence[Stage]) -> int:
    """Undo *stages* in reverse order, until a stage cannot be undone. Return the number of stages that are left."""
    for left in range(len(stages), 0, -1):
        try:
            await perform(stages[left - 1].unmake)
        except FAILURES:
            return left
    return 0


RANGE: Final = IPv4Network("10.88.0.0/28")


@dataclass(eq=False)
class Leases:
    """Leases of the addresses of *network*. For each lease, a file in *root* contains the id of the pod.

    The files are read once and then remembered. Every method may raise :class:`OSError` and
    :class:`~fsm.runtimes.reference.driven.WorldError`. A method fails if its name is in *faults*.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     leases = Leases(Path(folder))
    ...     leases.setup("a")
    ...     leases.setup("b")
    ...     leases.teardown("a")
    ...     leases.setup("c")
    ...     print(leases.addresses("a"), leases.addresses("b"), leases.addresses("c"))
    () ('10.88.0.2',) ('10.88.0.1',)
    """

    root: Path
    network: IPv4Network = RANGE
    faults: Faults = field(default_factory=Faults)
    _known: dict[str, str] | None = None

    def setup(self, pod: str) -> None:
        """Lease the first free address. After a failure, :meth:`teardown` releases the lease."""
        self.root.mkdir(parents=True, exist_ok=True)
        # Link the finished draft, so that the file of an address appears with its content or not at all.
        draft = self.root / f".{pod}"
        draft.write_text(pod, encoding="utf-8")
        leased = self._leased()
        for address in map(str, self.network.hosts()):
            if address in leased:
                continue
            with suppress(FileExistsError):
                (self.root / address).hardlink_to(draft)
                leased[address] = pod
                break
        else:
            raise WorldError(f"no address is free in {self.network}")
        draft.unlink()
        self.faults.point("setup", effect=False)

    def teardown(self, pod: str) -> None:
        self.faults.point("teardown", effect=False)
        for address in self._addresses(pod):
            (self.root / address).unlink(missing_ok=True)
            del self._leased()[address]
        (self.root / f".{pod}").unlink(missing_ok=True)

    def addresses(self, pod: str) -> tuple[str, ...]:
        self.faults.point("addresses", effect=False)
        return tuple(self._addresses(pod))

    def forward(self, pod: str) -> None:
        """Prepare a stream to the ports of *pod*. The pod must have an address."""
        self.faults.point("forward", effect=False)
        if not self.addresses(pod):
            raise WorldError(f"{pod} has no network")

    def _addresses(self, pod: str) -> list[str]:
        return sorted(address for address, holder in self._leased().items() if holder == pod)

    def _leased(self) -> dict[str, str]:
        if self._known is None:
            files = self.root.iterdir() if self.root.is_dir() else ()
            self._known = {file.name: file.read_text(encoding="utf-8") for file in files if file.name[0] != "."}
        return self._known


FILE: Final = "metadata.json"

MAKING: Final = "making"
"""The value that is written as the state of a pod while its run is in progress."""


class MetadataError(Exception):
    """A metadata file cannot be read."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Metadata:
    """A pod's metadata and its last known ``state``. Times are in nanoseconds since the epoch, or 0 if unset."""

    id: str
    name: str
    state: str = MAKING
    created_at: int = 0
    exit: Exit | None = None
    limits: Mapping[str, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class PodStatus(Metadata):
    """The status of a pod as clients see it. ``state`` is the state that the machine shows."""

    pid: int = 0
    addresses: tuple[str, ...] = ()


class Pod(Driven):
    """A pod. It may be absent from the store. ``watch`` is the task that waits for its exit."""

    def __init__(self, metadata: Metadata, position: Position) -> None:
        super().__init__(position)
        self.id, self.name, self.limits = metadata.id, metadata.name, metadata.limits
        self.created_at, self.exit = metadata.created_at, metadata.exit
        self.watch: asyncio.Task[None] | None = None
        self.lock = asyncio.Lock()

    def metadata(self, state: str) -> Metadata:
        return Metadata(
            id=self.id, name=self.name, state=state, created_at=self.created_at, exit=self.exit, limits=self.limits
        )


@dataclass(eq=False)
class MetadataStore:
    """The metadata of all pods, in directories below *root*. Every method may raise :class:`OSError`.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     store = MetadataStore(Path(folder))
    ...     store.create(Metadata(id="1", name="web", state="ready"))
    ...     print(list(store.ids()), store.load("1").state)
    ...     store.delete("1")
    ...     print(list(store.ids()))
    ['1'] ready
    []
    """

    root: Path

    def create(self, metadata: Metadata) -> None:
        durable_files.make_folder(self.path(metadata.id).parent)
        self.save(metadata)

    def save(self, metadata: Metadata) -> None:
        durable_files.write(self.path(metadata.id), json.dumps(asdict(metadata), sort_keys=True).encode())

    def load(self, id: str) -> Metadata:  # noqa: A002  (the field's name)
        """Return the metadata of the pod *id*. Raise :class:`MetadataError` if it is not valid."""
        try:
            metadata = TypeAdapter(Metadata).validate_json(self.path(id).read_bytes(), strict=True)
        except (OSError, ValueError) as error:
            raise MetadataError(f"{self.path(id)}: cannot be read") from error
        if metadata.id != id:
            raise MetadataError(f"{self.path(id)}: not the metadata of pod {id}")
        return metadata

    def delete(self, id: str) -> None:  # noqa: A002  (the field's name)
        """Delete the metadata of the pod *id*. Do this last, because afterwards a restart cannot find the pod."""
        durable_files.remove(self.path(id))
        with suppress(FileNotFoundError):
            self.path(id).parent.rmdir()

    def ids(self) -> Iterator[str]:
        if self.root.is_dir():
            yield from sorted(folder.name for folder in self.root.iterdir() if folder.is_dir())

    def path(self, id: str) -> Path:  # noqa: A002  (the field's name)
        return self.root / id / FILE
