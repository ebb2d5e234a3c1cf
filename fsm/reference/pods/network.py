"""The networks of pods: an address for each, leased in a file, as CNI's host-local does."""

from __future__ import annotations

import os
from ipaddress import IPv4Network
from typing import TYPE_CHECKING, Final, Protocol

from fsm.reference.container.world import WorldError

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

RANGE: Final = IPv4Network("10.88.0.0/28")


class Network(Protocol):
    """What sets up the networks of pods; every method may raise :class:`~fsm.reference.container.world.WorldError`."""

    def setup(self, pod: str) -> None:
        """Set up the network of *pod*; what a failure leaves is for :meth:`teardown`."""

    def teardown(self, pod: str) -> None:
        """Take it down, and be content if there is none."""

    def addresses(self, pod: str) -> tuple[str, ...]:
        """Where *pod* can be reached; nothing, if it has no network."""

    def forward(self, pod: str) -> None:
        """Prepare a stream to ports of *pod*."""


class Leases:
    """Addresses of *network*, each leased by a file in *root* that names the pod.

    >>> import tempfile
    >>> from pathlib import Path
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     leases = Leases(Path(folder))
    ...     leases.setup("a")
    ...     leases.setup("b")
    ...     leases.teardown("a")
    ...     leases.setup("c")
    ...     print(leases.addresses("a"), leases.addresses("b"), leases.addresses("c"))
    () ('10.88.0.2',) ('10.88.0.1',)
    """

    def __init__(self, root: Path, network: IPv4Network = RANGE) -> None:
        self.root = root
        self.network = network

    def setup(self, pod: str) -> None:
        """Lease the first address that is free."""
        try:
            self.root.mkdir(parents=True, exist_ok=True)
            for address in self.network.hosts():
                if self._leased(self.root / str(address), pod):
                    return
        except OSError as error:
            raise WorldError(str(error)) from error
        message = f"no address is free in {self.network}"
        raise WorldError(message)

    def teardown(self, pod: str) -> None:
        """Give back all that is leased to *pod*."""
        try:
            for each in self._of(pod):
                each.unlink(missing_ok=True)
        except OSError as error:
            raise WorldError(str(error)) from error

    def addresses(self, pod: str) -> tuple[str, ...]:
        """The addresses that are leased to *pod*."""
        try:
            return tuple(each.name for each in self._of(pod))
        except OSError as error:
            raise WorldError(str(error)) from error

    def forward(self, pod: str) -> None:
        """There is an address."""
        if not self.addresses(pod):
            message = f"{pod} has no network"
            raise WorldError(message)

    def _leased(self, path: Path, pod: str) -> bool:
        """Lease what *path* names to *pod*; false if another has it."""
        if path.exists():
            return False
        # It is there with the name in it, or not at all.
        draft = self.root / f".{pod}"
        draft.write_text(pod, encoding="utf-8")
        try:
            os.link(draft, path)
        except FileExistsError:
            return False
        finally:
            draft.unlink()
        return True

    def _of(self, pod: str) -> Iterator[Path]:
        if self.root.is_dir():
            files = sorted(self.root.iterdir())
            yield from (each for each in files if each.name == f".{pod}" or each.read_text(encoding="utf-8") == pod)
