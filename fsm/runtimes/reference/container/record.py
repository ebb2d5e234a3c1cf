"""The record that containerd keeps of a container, and the state that is derived from it.

Every field has containerd's type and bounds, which are checked when it is set. Records are mutable, so callers get
copies.
"""

from enum import StrEnum
from typing import Annotated, Final, Self, TypeAlias

from pydantic import BaseModel, ConfigDict, Field, ValidationInfo, field_validator, model_validator
from pydantic_core.core_schema import ValidatorFunctionWrapHandler

Int32: TypeAlias = Annotated[int, Field(ge=-(2**31), lt=2**31)]
Int64: TypeAlias = Annotated[int, Field(ge=-(2**63), lt=2**63)]
Uint32: TypeAlias = Annotated[int, Field(ge=0, lt=2**32)]
Uint64: TypeAlias = Annotated[int, Field(ge=0, lt=2**64)]

FLAGS: Final = frozenset({"starting", "removing", "unknown"})
"""Status fields that are never written."""


def folded(key: str) -> str:
    """Fold the case of *key* letter by letter, as Go does to compare keys.

    >>> folded("CPUPeriod")
    'cpuperiod'
    """
    return "".join(letter.casefold() if len(letter.casefold()) == 1 else letter for letter in key)


class ContainerState(StrEnum):
    """The states that a client can see."""

    CREATED = "CONTAINER_CREATED"
    RUNNING = "CONTAINER_RUNNING"
    EXITED = "CONTAINER_EXITED"
    UNKNOWN = "CONTAINER_UNKNOWN"


class Record(BaseModel):
    """The record of a container, or a part of it."""

    model_config = ConfigDict(strict=True, extra="forbid", validate_assignment=True, revalidate_instances="always")

    @model_validator(mode="before")
    @classmethod
    def _read_like_go(cls, data: object, info: ValidationInfo) -> object:
        """Replace keys with field names, ignoring case, if there is a context. Drop unknown keys and ``null``."""
        if info.context is None or not isinstance(data, dict):
            return data
        names = {folded(info.context.get(name, name)): name for name in cls.model_fields if name not in FLAGS}
        named = ((names.get(folded(key)), value) for key, value in data.items())
        return {name: value for name, value in named if name and value is not None}

    def copied(self) -> Self:
        """Return a deep copy. Raise :class:`ValueError` if a value in a list or map has the wrong type.

        >>> first = LinuxResources(unified={"memory.high": "1"})
        >>> second = first.copied()
        >>> second.unified["memory.high"] = "2"
        >>> first.unified
        {'memory.high': '1'}
        """
        return type(self).model_validate(self)  # equivalent to a deep copy, but four times as fast


class HugepageLimit(Record):
    """The limit for huge pages of one size."""

    page_size: str = ""
    limit: Uint64 = 0


class LinuxResources(Record):
    """Limits on Linux. A value that is 0 or empty means that the limit is not set.

    ``hugepage_limits`` may contain ``None``, which a copying bug in containerd produces. It is kept.
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

    @field_validator("unified", mode="wrap")
    @classmethod
    def _sort(cls, data: object, validate: ValidatorFunctionWrapHandler, info: ValidationInfo) -> dict[str, str]:
        """Sort *data* by key. When a file is read, ``null`` becomes an empty string, like in Go."""
        if info.context is not None and isinstance(data, dict):
            data = {key: "" if value is None else value for key, value in data.items()}
        valid: dict[str, str] = validate(data)
        return dict(sorted(valid.items()))


class CpuGroupAffinity(Record):
    """The usable processors of one group on Windows, as a bit mask."""

    cpu_mask: Uint64 = 0
    cpu_group: Uint32 = 0


class WindowsResources(Record):
    """Limits on Windows. A value that is 0 or empty means that the limit is not set."""

    cpu_shares: Int64 = 0
    cpu_count: Int64 = 0
    cpu_maximum: Int64 = 0
    memory_limit_in_bytes: Int64 = 0
    rootfs_size_in_bytes: Int64 = 0
    affinity_cpus: list[CpuGroupAffinity | None] = []


class Resources(Record):
    """The limits of a container, for Linux, Windows or both."""

    linux: LinuxResources | None = None
    windows: WindowsResources | None = None


class Status(Record):
    """A container's record. Times are in nanoseconds since the epoch, or 0 if unset.

    ``starting``, ``removing`` and ``unknown`` are never written. containerd before 2.1 does not have ``restore``, which
    is ``None`` in records written by these versions.

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
        """Return the state given by the last time that is set, or unknown if no time is set or ``unknown`` is."""
        times = (
            (self.finished_at, ContainerState.EXITED),
            (self.started_at, ContainerState.RUNNING),
            (self.created_at, ContainerState.CREATED),
        )
        return next((state for time, state in times if time and not self.unknown), ContainerState.UNKNOWN)
