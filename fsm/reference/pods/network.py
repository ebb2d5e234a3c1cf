"""The networks of pods: an address for each, leased in a file, as CNI's host-local plugin does."""

from collections.abc import Iterator
from contextlib import suppress
from ipaddress import IPv4Network
from pathlib import Path
from typing import Final

from fsm.reference.driven import WorldError
from fsm.reference.fault_injection import Faults

RANGE: Final = IPv4Network("10.88.0.0/28")


class Leases:
    """Addresses of *network*, each leased by a file in *root* that holds the pod's id.

    Every method may raise :class:`OSError` and :class:`~fsm.reference.driven.WorldError`, and has a point in
    *faults*.

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

    def __init__(self, root: Path, network: IPv4Network = RANGE, faults: Faults | None = None) -> None:
        self.root = root
        self.network = network
        self.faults = Faults() if faults is None else faults

    def setup(self, pod: str) -> None:
        """Lease the first free address; :meth:`teardown` releases what a failure leaves."""
        self.root.mkdir(parents=True, exist_ok=True)
        # The file of an address appears with its content, or not at all.
        draft = self.root / f".{pod}"
        draft.write_text(pod, encoding="utf-8")
        for address in self.network.hosts():
            with suppress(FileExistsError):
                (self.root / str(address)).hardlink_to(draft)
                break
        else:
            raise WorldError(f"no address is free in {self.network}")
        draft.unlink()
        self.faults.point("setup", effect=False)

    def teardown(self, pod: str) -> None:
        self.faults.point("teardown", effect=False)
        for each in self._of(pod):
            each.unlink(missing_ok=True)

    def addresses(self, pod: str) -> tuple[str, ...]:
        self.faults.point("addresses", effect=False)
        return tuple(each.name for each in self._of(pod))

    def forward(self, pod: str) -> None:
        """Prepare a stream to ports of *pod*, which needs an address."""
        self.faults.point("forward", effect=False)
        if not self.addresses(pod):
            raise WorldError(f"{pod} has no network")

    def _of(self, pod: str) -> Iterator[Path]:
        if self.root.is_dir():
            files = sorted(self.root.iterdir())
            yield from (each for each in files if each.name == f".{pod}" or each.read_text(encoding="utf-8") == pod)
