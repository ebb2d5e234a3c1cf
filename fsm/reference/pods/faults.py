"""The faults that lead to each outcome of a pod."""

from collections.abc import Mapping, Sequence
from typing import Final

from fsm.reference.fault_injection import DAMAGE, Damage

FAULTS: Final[Mapping[tuple[str, str], Sequence[tuple[str, ...]]]] = {
    **dict.fromkeys([("run", "ready"), ("stop", "stopped"), ("remove", "removed"), ("status", "read")], ((),)),
    **dict.fromkeys([("create-container", "created"), ("port-forward", "prepared"), ("restart", "ready")], ((),)),
    ("update-resources", "updated"): ((),),
    ("run", "undone"): [("setup",), ("read",), ("run",), ("describe",)],
    ("run", "left-over"): [("setup", "teardown"), ("read", "teardown"), ("run", "undo", "clear")],
    ("stop", "not-stopped"): [("stop containers",), ("kill",)],
    **dict.fromkeys([("stop", "half-stopped"), ("remove", "half-stopped")], (("teardown",),)),
    **dict.fromkeys([("stop", "failed"), ("stop", "unmonitored"), ("remove", "failed")], (("stop containers",),)),
    ("remove", "stopped-only"): [("remove containers",)],
    ("create-container", "failed"): [("create container",)],
    ("status", "failed"): [("addresses",)],
    ("port-forward", "failed"): [("forward",)],
    ("update-resources", "failed"): [("disk",)],
    ("restart", "notready"): [("dead",)],
    ("restart", "unknown"): [("task",)],
    ("restart", "skipped"): [("damage",)],
}
"""The faults that make an event end in an outcome; several sets are used in turn."""

METADATA_DAMAGE: Final[tuple[Damage, ...]] = (
    *DAMAGE,
    lambda _: b"[]",
    lambda data: data.replace(b'"state": "', b'"state": "un'),
    lambda data: data.replace(b'"id": "', b'"id": "0'),
)
