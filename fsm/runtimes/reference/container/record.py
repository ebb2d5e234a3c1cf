"""The record that containerd keeps of a container, and the state that follows from it.

The fields have the same types and bounds as in containerd, and are checked whenever they are set. Since records are
mutable, callers get copies.
"""

import json
import re
from enum import StrEnum
from typing import Annotated, Final, Self, TypeAlias

from pydantic import BaseModel, ConfigDict, Field, ValidationError, ValidationInfo, field_validator, model_validator
from pydantic.alias_generators import to_pascal
from pydantic_core.core_schema import ValidatorFunctionWrapHandler

Int32: TypeAlias = Annotated[int, Field(ge=-(2**31), lt=2**31)]
Int64: TypeAlias = Annotated[int, Field(ge=-(2**63), lt=2**63)]
Uint32: TypeAlias = Annotated[int, Field(ge=0, lt=2**32)]
Uint64: TypeAlias = Annotated[int, Field(ge=0, lt=2**64)]

FLAGS: Final = frozenset({"starting", "removing", "unknown"})


def folded(key: str) -> str:
    """Fold the case of *key* letter by letter, as Go does to compare keys.

    >>> folded("CPUPeriod")
    'cpuperiod'
    """
    return "".join(letter.casefold() if len(letter.casefold()) == 1 else letter for letter in key)


class ContainerState(StrEnum):
    CREATED = "CONTAINER_CREATED"
    RUNNING = "CONTAINER_RUNNING"
    EXITED = "CONTAINER_EXITED"
    UNKNOWN = "CONTAINER_UNKNOWN"


class Record(BaseModel):
    model_config = ConfigDict(strict=True, extra="forbid", validate_assignment=True, revalidate_instances="always")

    @model_validator(mode="before")
    @classmethod
    def _read_like_go(cls, data: object, info: ValidationInfo) -> object:
        """Match keys to fields as Go does: ignore case, unknown keys, and keys whose value is ``null``.

        Do this only if there is a validation context, which is set when a file is read.
        """
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
    page_size: str = ""
    limit: Uint64 = 0


class LinuxResources(Record):
    """Limits on Linux. A limit that is 0 or empty is not set.

    Because of a copying bug in containerd, ``hugepage_limits`` may contain ``None``, which is preserved.
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
        if info.context is not None and isinstance(data, dict):
            data = {key: "" if value is None else value for key, value in data.items()}
        valid: dict[str, str] = validate(data)
        return dict(sorted(valid.items()))


class CpuGroupAffinity(Record):
    cpu_mask: Uint64 = 0
    cpu_group: Uint32 = 0


class WindowsResources(Record):
    cpu_shares: Int64 = 0
    cpu_count: Int64 = 0
    cpu_maximum: Int64 = 0
    memory_limit_in_bytes: Int64 = 0
    rootfs_size_in_bytes: Int64 = 0
    affinity_cpus: list[CpuGroupAffinity | None] = []


class Resources(Record):
    linux: LinuxResources | None = None
    windows: WindowsResources | None = None


class Status(Record):
    """A container's record. Times are in nanoseconds since the epoch, or 0 if unset.

    The ``FLAGS`` exist only in memory. ``restore`` is ``None`` in the records of containerd before 2.1.

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
        times = (
            (self.finished_at, ContainerState.EXITED),
            (self.started_at, ContainerState.RUNNING),
            (self.created_at, ContainerState.CREATED),
        )
        return next((state for time, state in times if time and not self.unknown), ContainerState.UNKNOWN)


Json: TypeAlias = "str | int | float | bool | list[Json] | dict[str, Json] | None"

VERSION: Final = "v1"

_KEYS: Final = {name: to_pascal(name) for name in Status.model_fields if name not in FLAGS}


class CheckpointError(ValueError):
    def __init__(self, path: str, why: str) -> None:
        super().__init__(f"{path}: {why}" if path else why)


def encode(status: Status) -> bytes:
    r"""Return the file content for *status*.

    If ``restore`` is ``None``, the format is that of containerd before 2.1. Raise :class:`ValueError` if a part of
    *status* has the wrong type.

    >>> encode(Status(created_at=7, message="exit > 0"))  # doctest: +ELLIPSIS
    b'{"Version":"v1","Pid":0,"CreatedAt":7,...,"ExitCode":0,"Reason":"","Message":"exit \\u003e 0","Resources":null}'
    """
    status = status.copied()
    fields = {key: getattr(status, name) for name, key in _KEYS.items()}
    if status.restore is None:
        del fields[_KEYS["restore"]]
    if status.resources is not None:
        fields[_KEYS["resources"]] = status.resources.model_dump(exclude_defaults=True)
    text = json.dumps({"Version": VERSION} | fields, ensure_ascii=False, separators=(",", ":"))
    # Match a backslash together with the character after it, so that the end of "\\b" is not treated as "\b".
    return re.sub(
        r"\\.|[<>&\u2028\u2029\ud800-\udfff]", lambda match: _escape(match[0], old=status.restore is None), text
    ).encode()


def _escape(text: str, *, old: bool) -> str:
    if len(text) > 1:
        return {r"\b": r"\u0008", r"\f": r"\u000c"}.get(text, text) if old else text
    # In Python, a lone surrogate represents a byte that is not UTF-8. Go replaces such a byte.
    return r"\ufffd" if "\ud800" <= text <= "\udfff" else f"\\u{ord(text):04x}"


def decode(data: bytes, path: str = "") -> Status:
    """Decode a record; the last of equal keys wins. Raise :class:`CheckpointError` with *path* if the data is invalid.

    >>> decode(b'{"version":"v1","PID":3,"CreatedAt":7,"Since":[1]} ').pid
    3
    >>> decode(b'{"Version":"v2"}', "/run/c1/status")  # doctest: +ELLIPSIS
    Traceback (most recent call last):
    fsm...CheckpointError: /run/c1/status: a record of version 'v2'; only 'v1' can be read
    >>> decode(b'{"Version":"v1","Pid":-1}', "/run/c1/status")  # doctest: +ELLIPSIS
    Traceback (most recent call last):
    fsm...CheckpointError: /run/c1/status: Pid is -1: input should be greater than or equal to 0
    """
    content = _parse_record(data, path)
    content = {} if content is None else content  # Go treats null as an empty object
    if not isinstance(content, dict):
        raise CheckpointError(path, f"an object was expected, and this is {_short_repr(content)}")
    versions = [value for key, value in content.items() if folded(key) == "version" and value is not None]
    version = versions[-1] if versions else ""
    if not isinstance(version, str):
        raise CheckpointError(path, f"Version is {_short_repr(version)}: text was expected")
    try:
        status = Status.model_validate(content, context=_KEYS)
    except ValidationError as error:
        raise CheckpointError(path, _first_problem(error)) from error
    if version != VERSION:
        what = f"of version {_short_repr(version)}" if version else "without a version"
        raise CheckpointError(path, f"a record {what}; only {VERSION!r} can be read")
    return status


def _parse_record(data: bytes, path: str) -> Json:
    if not data.strip():
        raise CheckpointError(path, f"{len(data)} bytes, and no record in them")
    # Decode a byte that is not UTF-8 to a lone surrogate. An escaped surrogate is decoded in the same way.
    text = data.decode(errors="surrogateescape")
    try:
        parsed: Json = json.loads(text, object_pairs_hook=_object, parse_int=_to_int, parse_constant=_reject_constant)
    except json.JSONDecodeError as error:
        at = len(text[: error.pos].encode(errors="surrogateescape"))
        raise CheckpointError(path, f"no JSON at byte {at} of {len(data)}: {error.msg}") from error
    except ValueError as error:
        raise CheckpointError(path, f"no JSON: {error}") from error
    except RecursionError as error:
        raise CheckpointError(path, "nested too deep") from error
    return parsed


def _object(pairs: list[tuple[str, Json]]) -> dict[str, Json]:
    members: dict[str, Json] = {}
    for name, value in pairs:
        key = _without_surrogates(name)
        members.pop(key, None)  # the last value wins and keeps its position
        members[key] = _without_surrogates(value) if isinstance(value, str) else value
    return members


def _to_int(digits: str) -> int | float:
    longest = 20  # no field can hold more digits, so a longer number need not be exact
    return int(digits) if len(digits) <= longest else float(digits)


def _reject_constant(word: str) -> None:
    raise ValueError(f"{word} is no number")


def _without_surrogates(text: str) -> str:
    return re.sub(r"[\ud800-\udfff]", "\ufffd", text)


def _first_problem(error: ValidationError) -> str:
    problem = error.errors(include_url=False)[0]
    (first, *inner), why = problem["loc"], problem["msg"]
    place = ".".join(map(str, (_KEYS.get(str(first), first), *inner)))
    return f"{place} is {_short_repr(problem['input'])}: {why[0].lower()}{why[1:]}"


def _short_repr(value: object) -> str:
    longest = 60
    text = repr(value)
    return text if len(text) <= longest else f"{text[:longest]}…"
