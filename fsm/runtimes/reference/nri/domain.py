"""Domains, each with the pods and containers of one namespace, and the table of all domains."""

import logging
import threading
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass, field
from typing import TypeVar

from fsm.runtimes.reference.nri.messages import ChangesFailedError, Container, Eviction, NRIError, Pod, Update

_log = logging.getLogger(__name__)

_Change = TypeVar("_Change", "Update", "Eviction")


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

    def list_pod_sandboxes(self) -> Sequence[Pod]:
        return self.pods

    def list_containers(self) -> Sequence[Container]:
        return self.containers

    def get_container(self, container_id: str) -> Container | None:
        return next((each for each in self.containers if each.id == container_id), None)

    def update_container(self, update: Update | Eviction) -> None:
        """Make *update*. May raise any exception."""
        if update.container_id in self.stubborn:
            raise OSError(f"container {update.container_id} cannot be changed")
        self.done.append(update)

    def evict_container(self, eviction: Eviction) -> None:
        """Make *eviction*, like :meth:`update_container`."""
        self.update_container(eviction)


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
        return tuple(pod for domain in self._all() for pod in domain.list_pod_sandboxes())

    def containers(self) -> tuple[Container, ...]:
        return tuple(container for domain in self._all() for container in domain.list_containers())

    def update_containers(self, updates: Iterable[Update]) -> None:
        """Make *updates*, each in the domain that has the container. Unknown containers are skipped.

        After all were tried, raise :class:`ChangesFailedError` with those that failed without ``ignore_failure``.
        """
        self._change(updates, lambda domain, update: domain.update_container(update))

    def evict_containers(self, evictions: Iterable[Eviction]) -> None:
        """Make *evictions*, like :meth:`update_containers`."""
        self._change(evictions, lambda domain, eviction: domain.evict_container(eviction))

    def _change(self, changes: Iterable[_Change], make: Callable[[Domain, _Change], None]) -> None:
        failed = []
        for change in changes:
            domain = next((each for each in self._all() if each.get_container(change.container_id) is not None), None)
            if domain is None:
                continue
            try:
                make(domain, change)
            except Exception:  # noqa: BLE001  (a domain may raise anything)
                _log.exception("%s failed", change)
                if not (isinstance(change, Update) and change.ignore_failure):
                    failed.append(change)
        if failed:
            raise ChangesFailedError(failed)

    def _all(self) -> tuple[Domain, ...]:
        with self._lock:
            return tuple(self._domains.values())
