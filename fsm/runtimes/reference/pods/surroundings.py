"""The dependencies of pods: their containers, observers, network and metadata."""

import asyncio
import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, field
from functools import cached_property
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
    """The containers of all pods. This base class has no containers. A method fails if its step is in *faults*.

    Every method may be a coroutine function, and may raise :class:`WorldError`.
    """

    faults: Faults = field(default_factory=Faults)

    def create(self, _pod: str) -> object:
        return self._pass_point("create container")

    def stop(self, _pod: str) -> object:
        return self._pass_point("stop containers")

    def remove(self, _pod: str) -> object:
        return self._pass_point("remove containers")

    def _pass_point(self, point: str) -> bool:
        self.faults.point(point)
        return True


class PodObserver:
    """Base class of observers that are notified of changes to pods. Each method may be a coroutine function."""

    def runs(self, _pod: str) -> object:
        """Called when a pod's pause process has started, before the pod is ready. It may raise :class:`WorldError`."""

    def stopped(self, _pod: str) -> object:
        """Called when a pod is being stopped, after its pause process has ended."""

    def removed(self, _pod: str) -> object:
        """Called after a pod has been removed, or when its run is undone."""


FAILURES: Final = (WorldError, OSError, CallError)


class Stage(NamedTuple):
    """A stage of a run. ``unmake`` undoes ``make``, even if ``make`` was never called or failed halfway."""

    make: Callable[[], object]
    unmake: Callable[[], object] = bool


class MakeError(Exception):
    """A stage of a run has failed, and the first ``left`` stages could not be undone."""

    def __init__(self, why: str, left: int = 0) -> None:
        super().__init__(why)
        self.left = left


async def make(stages: Iterable[Stage]) -> None:
    """Make all stages in order. If a stage fails, undo it and all earlier stages in reverse order until an undo fails.

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
    for left in range(len(stages), 0, -1):
        try:
            await perform(stages[left - 1].unmake)
        except FAILURES:
            return left
    return 0


RANGE: Final = IPv4Network("10.88.0.0/28")


@dataclass(eq=False)
class Leases:
    """Leases of network addresses to pods, like the leases of CNI's host-local plugin.

    Each lease is recorded in a file in *root* that contains the id of the pod. The files are read once. Every method
    may raise :class:`OSError` and :class:`WorldError`. A method fails if its name is in *faults*.

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

    def setup(self, pod: str) -> None:
        self.root.mkdir(parents=True, exist_ok=True)
        # Link the finished draft, so that the file for an address appears with its content or not at all.
        draft = self.root / f".{pod}"
        draft.write_text(pod, encoding="utf-8")
        free = (address for address in map(str, self.network.hosts()) if address not in self._leases)
        for address in free:
            with suppress(FileExistsError):
                (self.root / address).hardlink_to(draft)
                self._leases[address] = pod
                break
        else:
            raise WorldError(f"no address is free in {self.network}")
        draft.unlink()
        self.faults.point("setup", effect=False)

    def teardown(self, pod: str) -> None:
        self.faults.point("teardown", effect=False)
        for address in self._addresses(pod):
            (self.root / address).unlink(missing_ok=True)
            del self._leases[address]
        (self.root / f".{pod}").unlink(missing_ok=True)

    def addresses(self, pod: str) -> tuple[str, ...]:
        self.faults.point("addresses", effect=False)
        return tuple(self._addresses(pod))

    def forward(self, pod: str) -> None:
        self.faults.point("forward", effect=False)
        if not self.addresses(pod):
            raise WorldError(f"{pod} has no network")

    def _addresses(self, pod: str) -> list[str]:
        return sorted(address for address, holder in self._leases.items() if holder == pod)

    @cached_property
    def _leases(self) -> dict[str, str]:
        files = self.root.iterdir() if self.root.is_dir() else ()
        return {file.name: file.read_text(encoding="utf-8") for file in files if file.name[0] != "."}


FILE: Final = "metadata.json"

MAKING: Final = "making"
"""Placeholder for the state of a pod in its metadata while the run is in progress."""


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
    pid: int = 0
    addresses: tuple[str, ...] = ()


class Pod(Driven):
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
        try:
            metadata = TypeAdapter(Metadata).validate_json(self.path(id).read_bytes(), strict=True)
        except (OSError, ValueError) as error:
            raise MetadataError(f"{self.path(id)}: cannot be read") from error
        if metadata.id != id:
            raise MetadataError(f"{self.path(id)}: not the metadata of pod {id}")
        return metadata

    def delete(self, id: str) -> None:  # noqa: A002  (the field's name)
        """Delete the metadata of the pod *id*. Do this last, because a restart cannot find a pod without metadata."""
        durable_files.remove(self.path(id))
        with suppress(FileNotFoundError):
            self.path(id).parent.rmdir()

    def ids(self) -> Iterator[str]:
        if self.root.is_dir():
            yield from sorted(folder.name for folder in self.root.iterdir() if folder.is_dir())

    def path(self, id: str) -> Path:  # noqa: A002  (the field's name)
        return self.root / id / FILE
