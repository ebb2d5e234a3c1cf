"""Domains: who knows the pods and containers of one namespace, and can change them; and the table of all of them."""

from __future__ import annotations

import logging
import threading
from typing import TYPE_CHECKING, Protocol

from fsm.reference.nri.nri_errors import (
    DuplicateDomainError,
    EvictionsFailedError,
    UnknownDomainError,
    UpdatesFailedError,
)

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from fsm.reference.nri.messages import Container, Eviction, Pod, Update

_log = logging.getLogger(__name__)


class Domain(Protocol):
    """The pods and containers of one namespace.

    It is asked while the layer is locked, so it must not ask the layer.
    """

    @property
    def name(self) -> str:
        """The namespace."""

    def list_pod_sandboxes(self) -> Sequence[Pod]:
        """All pods, for a plugin that joins."""

    def list_containers(self) -> Sequence[Container]:
        """All containers, for a plugin that joins."""

    def get_pod_sandbox(self, pod_id: str) -> Pod | None:
        """The pod, if it is here."""

    def get_container(self, container_id: str) -> Container | None:
        """The container, if it is here."""

    def update_container(self, update: Update) -> None:
        """Make *update*; any exception says that it cannot be made."""

    def evict_container(self, eviction: Eviction) -> None:
        """Make *eviction*; any exception says that it cannot be made."""


class Domains:
    """The table of domains, safe to use from many threads.

    >>> domains = Domains()
    >>> domains.names(), domains.containers()
    ((), ())
    >>> domains.domain("moby")
    Traceback (most recent call last):
        ...
    fsm.reference.nri.nri_errors.UnknownDomainError: no domain is called 'moby'; none is registered
    """

    def __init__(self, domains: Iterable[Domain] = ()) -> None:
        """A table of *domains*."""
        self._lock = threading.Lock()
        self._domains: dict[str, Domain] = {}
        for domain in domains:
            self.register(domain)

    def register(self, domain: Domain) -> None:
        """Add *domain*; raises :class:`DuplicateDomainError` if there is one of its name."""
        with self._lock:
            if domain.name in self._domains:
                message = f"failed to register namespace {domain.name!r} with NRI: there is one already"
                raise DuplicateDomainError(message)
            self._domains[domain.name] = domain

    def names(self) -> tuple[str, ...]:
        """The names of all domains, in the order in which they were registered."""
        return tuple(domain.name for domain in self._all())

    def domain(self, name: str) -> Domain:
        """The domain called *name*; raises :class:`UnknownDomainError` if there is none."""
        with self._lock:
            if name in self._domains:
                return self._domains[name]
            known = f"there are {', '.join(self._domains)}" if self._domains else "none is registered"
        message = f"no domain is called {name!r}; {known}"
        raise UnknownDomainError(message)

    def pods(self) -> tuple[Pod, ...]:
        """The pods of all domains."""
        return tuple(pod for domain in self._all() for pod in domain.list_pod_sandboxes())

    def containers(self) -> tuple[Container, ...]:
        """The containers of all domains."""
        return tuple(container for domain in self._all() for container in domain.list_containers())

    def update_containers(self, updates: Iterable[Update]) -> None:
        """Make *updates*, each in the domain that has the container.

        Those of containers that nobody has are skipped.  One that fails
        keeps none of the others from being made; afterwards
        :class:`UpdatesFailedError` names those that failed and may not.
        """
        failed = []
        for update in updates:
            domain = self._holding(update.container_id)
            if domain is None:
                continue
            try:
                domain.update_container(update)
            except Exception:  # noqa: BLE001  # whatever it raises says that it cannot
                _log.exception("update of container %s failed", update.container_id)
                if not update.ignore_failure:
                    failed.append(update)
        if failed:
            raise UpdatesFailedError(failed)

    def evict_containers(self, evictions: Iterable[Eviction]) -> None:
        """Make *evictions* as :meth:`update_containers` makes updates; raises :class:`EvictionsFailedError`."""
        failed = []
        for eviction in evictions:
            domain = self._holding(eviction.container_id)
            if domain is None:
                continue
            try:
                domain.evict_container(eviction)
            except Exception:  # noqa: BLE001  # whatever it raises says that it cannot
                _log.exception("eviction of container %s failed", eviction.container_id)
                failed.append(eviction)
        if failed:
            raise EvictionsFailedError(failed)

    def _all(self) -> tuple[Domain, ...]:
        with self._lock:
            return tuple(self._domains.values())

    def _holding(self, container_id: str) -> Domain | None:
        return next((domain for domain in self._all() if domain.get_container(container_id) is not None), None)
