"""The record that containerd keeps of one container, and the state that is derived from it.

Every field has the type, and the bounds, that it has there: what would not
fit into the file is refused where it is set.  Records are changed in place;
whoever hands one out hands out a copy.  How they are written is
:mod:`fsm.reference.container.checkpoint`'s concern.
"""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated, Self, TypeAlias

from pydantic import BaseModel, ConfigDict, Field

Int32: TypeAlias = Annotated[int, Field(ge=-(2**31), lt=2**31)]
Int64: TypeAlias = Annotated[int, Field(ge=-(2**63), lt=2**63)]
Uint32: TypeAlias = Annotated[int, Field(ge=0, lt=2**32)]
Uint64: TypeAlias = Annotated[int, Field(ge=0, lt=2**64)]


class ContainerState(StrEnum):
    """What a client is told."""

    CREATED = "CONTAINER_CREATED"
    RUNNING = "CONTAINER_RUNNING"
    EXITED = "CONTAINER_EXITED"
    UNKNOWN = "CONTAINER_UNKNOWN"


class Record(BaseModel):
    """Something that is kept of a container, or a part of it."""

    model_config = ConfigDict(strict=True, extra="forbid", validate_assignment=True, revalidate_instances="always")

    def copied(self) -> Self:
        """A copy that shares nothing with this, however deep.

        >>> first = LinuxResources(unified={"memory.high": "1"})
        >>> second = first.copied()
        >>> second.unified["memory.high"] = "2"
        >>> first.unified
        {'memory.high': '1'}
        """
        return self.model_copy(deep=True)

    def checked(self) -> Self:
        """As :meth:`copied`, and every part is known to have its type.

        Raises :class:`ValueError` where lists or maps were given something
        else: what is put into them is looked at here only.
        """
        return type(self).model_validate(self)  # which makes every part anew


class HugepageLimit(Record):
    """How much of the huge pages of one size may be used."""

    page_size: str = ""
    limit: Uint64 = 0


class LinuxResources(Record):
    """Limits on Linux; 0 and nothing mean that none is set.

    A missing limit among ``hugepage_limits`` is what containerd wrote while
    its copies were wrong; it is kept as it was found.
    """

    cpu_period: Int64 = 0
    cpu_quota: Int64 = 0
    cpu_shares: Int64 = 0
    memory_limit_in_bytes: Int64 = 0
    oom_score_adj: Int64 = 0
    cpuset_cpus: str = ""
    cpuset_mems: str = ""
    hugepage_limits: list[HugepageLimit | None] = []
    unified: dict[str, str] = {}
    memory_swap_limit_in_bytes: Int64 = 0


class CpuGroupAffinity(Record):
    """Processors of one group that may be used on Windows, a bit for each."""

    cpu_mask: Uint64 = 0
    cpu_group: Uint32 = 0


class WindowsResources(Record):
    """Limits on Windows; 0 and nothing mean that none is set."""

    cpu_shares: Int64 = 0
    cpu_count: Int64 = 0
    cpu_maximum: Int64 = 0
    memory_limit_in_bytes: Int64 = 0
    rootfs_size_in_bytes: Int64 = 0
    affinity_cpus: list[CpuGroupAffinity | None] = []


class Resources(Record):
    """The limits of a container, for either system or both."""

    linux: LinuxResources | None = None
    windows: WindowsResources | None = None


class Status(Record):
    """What is known of a container; times are nanoseconds since 1970, and 0 where there is none.

    ``starting``, ``removing`` and ``unknown`` are never written.  ``restore``
    is not known to containerd before 2.1, and ``None`` in what that wrote.

    >>> status = Status(created_at=1)
    >>> status.state().value
    'CONTAINER_CREATED'
    >>> status.started_at = 2
    >>> status.state().value
    'CONTAINER_RUNNING'
    """

    pid: Uint32 = 0
    created_at: Int64 = 0
    started_at: Int64 = 0
    finished_at: Int64 = 0
    exit_code: Int32 = 0
    reason: str = ""
    message: str = ""
    resources: Resources | None = None
    restore: bool | None = None
    starting: bool = False
    removing: bool = False
    unknown: bool = False

    def state(self) -> ContainerState:
        """The first of unknown, exited, running and created that the record has; else unknown."""
        having = (
            (self.unknown, ContainerState.UNKNOWN),
            (self.finished_at != 0, ContainerState.EXITED),
            (self.started_at != 0, ContainerState.RUNNING),
            (self.created_at != 0, ContainerState.CREATED),
        )
        return next((state for has, state in having if has), ContainerState.UNKNOWN)
