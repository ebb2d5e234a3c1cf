"""The method ``copied`` copies a container's record completely, while handwritten copying has errors."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from fsm.runtimes.reference.container.record import (
    CpuGroupAffinity,
    HugepageLimit,
    LinuxResources,
    Record,
    Resources,
    Status,
    WindowsResources,
)

FULL = Status(
    pid=1,
    created_at=2,
    started_at=3,
    finished_at=4,
    exit_code=-5,
    reason="Error",
    message="it failed",
    resources=Resources(
        linux=LinuxResources(
            cpu_period=1,
            cpu_quota=2,
            cpu_shares=3,
            memory_limit_in_bytes=4,
            oom_score_adj=5,
            cpuset_cpus="0-1",
            cpuset_mems="0",
            hugepage_limits=[HugepageLimit(page_size="2MB", limit=6), HugepageLimit(page_size="1GB", limit=7)],
            unified={"memory.high": "8"},
            memory_swap_limit_in_bytes=9,
        ),
        windows=WindowsResources(
            cpu_shares=1,
            cpu_count=2,
            cpu_maximum=3,
            memory_limit_in_bytes=4,
            rootfs_size_in_bytes=5,
            affinity_cpus=[CpuGroupAffinity(cpu_mask=6, cpu_group=7)],
        ),
    ),
    restore=True,
    starting=True,
    removing=True,
    unknown=True,
)


def by_hand(status: Status) -> Status:
    """Copy a record field by field, with common mistakes.

    The list of huge-page limits already has its old length when the limits are appended, a map is shared, the
    resources are created again for each operating system, and a newer field is missing.
    """
    resources = status.resources and Resources()
    if status.resources and status.resources.linux:
        linux = status.resources.linux
        limits: list[HugepageLimit | None] = [None] * len(linux.hugepage_limits)
        limits += [HugepageLimit(page_size=each.page_size, limit=each.limit) for each in linux.hugepage_limits if each]
        resources = Resources.model_construct(linux=linux.model_copy(update={"hugepage_limits": limits}))
    if status.resources and status.resources.windows:
        windows = status.resources.windows.model_copy(update={"affinity_cpus": []})
        resources = Resources.model_construct(windows=windows)
    return status.model_copy(update={"resources": resources})


def only(linux: LinuxResources | None = None, windows: WindowsResources | None = None) -> Status:
    return Status(resources=Resources(linux=linux, windows=windows))


LIMITS = only(linux=LinuxResources(hugepage_limits=[HugepageLimit(page_size="2MB", limit=1), HugepageLimit()]))
UNIFIED = only(linux=LinuxResources(unified={"memory.high": "1"}))
BOTH = only(linux=LinuxResources(cpu_shares=1), windows=WindowsResources(cpu_shares=2))
AFFINITY = only(windows=WindowsResources(affinity_cpus=[CpuGroupAffinity(cpu_mask=1)]))


def shares(one: object, other: object) -> bool:
    if isinstance(one, Record | list | dict) and one is other:
        return True
    match one, other:
        case Record(), Record():
            return any(shares(mine, getattr(other, name)) for name, mine in one)
        case list(), list():
            return any(shares(mine, theirs) for mine, theirs in zip(one, other, strict=False))
        case dict(), dict():
            return any(shares(one[key], other[key]) for key in one.keys() & other.keys())
        case _:
            return False


@pytest.mark.parametrize("status", [Status(), LIMITS, UNIFIED, BOTH, AFFINITY, FULL], ids=range(6))
def test_a_copy_is_equal_and_shares_nothing(status: Status) -> None:
    assert status == status.copied()
    assert not shares(status, status.copied())


@pytest.mark.parametrize("status", [LIMITS, BOTH, AFFINITY], ids=["huge pages", "two systems", "newer field"])
def test_a_copy_made_by_hand_loses_something(status: Status) -> None:
    assert status != by_hand(status)


def test_a_copy_made_by_hand_shares_its_map() -> None:
    assert shares(UNIFIED, by_hand(UNIFIED))


def test_a_copy_made_by_hand_doubles_the_huge_pages() -> None:
    """A copy made by hand has four huge-page limits instead of two, and two of them are null."""
    resources = by_hand(LIMITS).resources

    assert resources is not None
    assert resources.linux is not None
    assert [None, None, HugepageLimit(page_size="2MB", limit=1), HugepageLimit()] == resources.linux.hugepage_limits


def test_no_field_of_the_full_record_is_empty() -> None:
    """If a field of the full record were empty, the other tests would not notice a copy without it."""
    found = set()

    def look(record: Record) -> None:
        found.add(type(record))
        for name, value in record:
            assert value, f"{type(record).__name__}.{name}"
            for each in value if isinstance(value, list) else [value]:
                if isinstance(each, Record):
                    look(each)

    look(FULL)

    assert set(Record.__subclasses__()) == found


TIMES = st.sampled_from([0, 0, 1, -1, 2**63 - 1])


@given(TIMES, TIMES, TIMES, st.booleans())
def test_the_state_follows_from_the_times(created: int, started: int, finished: int, unknown: bool) -> None:  # noqa: FBT001
    """The state agrees with a chain of conditions on the times, in which a time before 1970 counts as set."""
    status = Status(created_at=created, started_at=started, finished_at=finished, unknown=unknown)
    if unknown or not (created or started or finished):
        expected = "CONTAINER_UNKNOWN"
    elif finished:
        expected = "CONTAINER_EXITED"
    else:
        expected = "CONTAINER_RUNNING" if started else "CONTAINER_CREATED"

    assert expected == status.state().value


@pytest.mark.parametrize(
    ("field", "value"),
    [("pid", -1), ("pid", 2**32), ("exit_code", 2**31), ("created_at", 2**63), ("pid", "1"), ("pid", True), ("id", 1)],
)
def test_a_value_that_does_not_fit_is_refused_when_it_is_set(field: str, value: object) -> None:
    with pytest.raises(ValidationError, match=field):
        setattr(Status(), field, value)


def test_a_value_in_a_map_is_checked_later() -> None:
    linux = LinuxResources()
    linux.unified["memory.high"] = 1  # type: ignore[assignment]  # the mistake

    with pytest.raises(ValidationError, match=r"unified\..memory"):
        only(linux).copied()
