"""The environment of pods: their containers, an observer, the network, and stages that are made and undone in order.

Containers and observer do nothing by default. The network leases an address for each pod in a file, as CNI's host-local
plugin does.
"""

from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from ipaddress import IPv4Network
from pathlib import Path
from typing import Final, NamedTuple

from fsm.runtimes.reference.clock import perform
from fsm.runtimes.reference.driven import CallError, WorldError
from fsm.runtimes.reference.fault_injection import Faults


@dataclass(eq=False)
class Containers:
    """The containers of all pods. This class keeps no containers.

    Every method may be a coroutine function, may raise :class:`~fsm.runtimes.reference.driven.WorldError`, and has a
    point in *faults*.
    """

    faults: Faults = field(default_factory=Faults)

    def create(self, _pod: str) -> object:
        return self._passes("create container")

    def stop(self, _pod: str) -> object:
        """Stop the containers of a pod one after the other, up to the first that cannot be stopped."""
        return self._passes("stop containers")

    def remove(self, _pod: str) -> object:
        """Remove all containers of a pod, in any state. Can be repeated."""
        return self._passes("remove containers")

    def _passes(self, point: str) -> bool:
        self.faults.point(point)
        return True


class PodObserver:
    """Is notified of what happens to pods. Each method may be a coroutine function."""

    def runs(self, _pod: str) -> object:
        """Note that the pause process of a pod is running, and that the pod is not ready yet.

        May raise :class:`~fsm.runtimes.reference.driven.WorldError`.
        """

    def stopped(self, _pod: str) -> object:
        """Note that the pause process of a pod was stopped."""

    def removed(self, _pod: str) -> object:
        """Note that a pod was removed, or that its run was undone."""


FAILURES: Final = (WorldError, OSError, CallError)
"""Errors of the world, of the disk, and of calls to other components."""


class Stage(NamedTuple):
    """A function that makes something, and one that unmakes it even if it was made only partly or not at all."""

    make: Callable[[], object]
    unmake: Callable[[], object] = bool


class MakeError(Exception):
    """A stage could not be made, and the first ``left`` stages could not be unmade."""

    def __init__(self, why: str, left: int = 0) -> None:
        super().__init__(why)
        self.left = left


async def make(stages: Iterable[Stage]) -> None:
    """Make all stages. If one fails, unmake it and those before it, up to the first that cannot be unmade.

    Raise :class:`MakeError` if a stage fails.

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
    """Unmake *stages* in reverse order until one fails. Return the number of stages that are left."""
    for left in range(len(stages), 0, -1):
        try:
            await perform(stages[left - 1].unmake)
        except FAILURES:
            return left
    return 0


RANGE: Final = IPv4Network("10.88.0.0/28")


@dataclass(eq=False)
class Leases:
    """Addresses of *network*, each leased by a file in *root* that contains the pod's id.

    The files are read once and remembered. Every method may raise :class:`OSError` and
    :class:`~fsm.runtimes.reference.driven.WorldError`, and has a point in *faults*.

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
        """Lease the first free address. After a failure, :meth:`teardown` releases what was leased."""
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
        """Prepare a stream to ports of *pod*, which needs an address."""
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
