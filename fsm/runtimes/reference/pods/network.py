"""The pod network: an address for each pod, leased in a file, as CNI's host-local plugin does."""

from contextlib import suppress
from ipaddress import IPv4Network
from pathlib import Path
from typing import Final

from fsm.runtimes.reference.driven import WorldError
from fsm.runtimes.reference.fault_injection import Faults

RANGE: Final = IPv4Network("10.88.0.0/28")


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

    def __init__(self, root: Path, network: IPv4Network = RANGE, faults: Faults | None = None) -> None:
        self.root = root
        self.network = network
        self.faults = Faults() if faults is None else faults
        self._known: dict[str, str] | None = None

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
        for each in self._of(pod):
            (self.root / each).unlink(missing_ok=True)
            del self._leased()[each]
        (self.root / f".{pod}").unlink(missing_ok=True)

    def addresses(self, pod: str) -> tuple[str, ...]:
        self.faults.point("addresses", effect=False)
        return tuple(self._of(pod))

    def forward(self, pod: str) -> None:
        """Prepare a stream to ports of *pod*, which needs an address."""
        self.faults.point("forward", effect=False)
        if not self.addresses(pod):
            raise WorldError(f"{pod} has no network")

    def _of(self, pod: str) -> list[str]:
        return sorted(address for address, holder in self._leased().items() if holder == pod)

    def _leased(self) -> dict[str, str]:
        if self._known is None:
            files = self.root.iterdir() if self.root.is_dir() else ()
            self._known = {each.name: each.read_text(encoding="utf-8") for each in files if each.name[0] != "."}
        return self._known
