"""Domains, each with the pods and containers of one namespace, and the table of all domains."""

import logging
import threading
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, field
from typing import TypeAlias

from fsm.runtimes.reference.nri.messages import ChangesFailedError, Container, Eviction, NRIError, Pod, Update

_log = logging.getLogger(__name__)

ContainerChange: TypeAlias = Update | Eviction


@dataclass(kw_only=True)
class Domain:
    """Pods and containers of one namespace. A domain called by the NRI layer must not call the layer, which is locked.

    Updates and evictions are kept in ``done``. They fail for ``stubborn`` containers.
    """

    name: str = "k8s.io"
    pods: Sequence[Pod] = ()
    containers: Sequence[Container] = ()
    stubborn: Collection[str] = ()
    done: list[object] = field(default_factory=list)

    def has(self, container_id: str) -> bool:
        return any(container.id == container_id for container in self.containers)

    def change(self, change: ContainerChange) -> None:
        """Make *change*. May raise any exception."""
        if change.container_id in self.stubborn:
            raise OSError(f"container {change.container_id} cannot be changed")
        self.done.append(change)


class Domains:
    """The table of domains. Thread-safe.

    >>> domains = Domains()
    >>> domains.pods(), domains.containers()
    ((), ())
    """

    def __init__(self, domains: Iterable[Domain] = ()) -> None:
        self._lock = threading.Lock()
        self._domains: dict[str, Domain] = {}
        for domain in domains:
            self.register(domain)

    def register(self, domain: Domain) -> None:
        """Add *domain*. Raise :class:`NRIError` if its name is already registered."""
        with self._lock:
            if domain.name in self._domains:
                message = f"failed to register namespace {domain.name!r} with NRI: there is one already"
                raise NRIError(message, code="ALREADY_EXISTS")
            self._domains[domain.name] = domain

    def pods(self) -> tuple[Pod, ...]:
        return tuple(pod for domain in self._all() for pod in domain.pods)

    def containers(self) -> tuple[Container, ...]:
        return tuple(container for domain in self._all() for container in domain.containers)

    def change(self, changes: Iterable[ContainerChange]) -> None:
        """Make *changes*, each in the domain that has the container. Unknown containers are skipped.

        After all were tried, raise :class:`ChangesFailedError` with those that failed without ``ignore_failure``.
        """
        failed = []
        for change in changes:
            owner = next((domain for domain in self._all() if domain.has(change.container_id)), None)
            try:
                if owner:
                    owner.change(change)
            except Exception:  # noqa: BLE001  (a domain may raise anything)
                _log.exception("%s failed", change)
                if not (isinstance(change, Update) and change.ignore_failure):
                    failed.append(change)
        if failed:
            raise ChangesFailedError(failed)

    def _all(self) -> tuple[Domain, ...]:
        with self._lock:
            return tuple(self._domains.values())
