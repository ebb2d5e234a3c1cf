"""Requirements on fields agree with rules written by hand, and every operator is tested."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from machines import DOOR, machine_of

from fsm.conformance.suite import conform
from fsm.language.library import load
from fsm.monitor import Monitor
from fsm.monitor.extra_rules import demanded
from fsm.trace import Observation

if TYPE_CHECKING:
    from collections.abc import Mapping

GO_ZERO = -6795364578871345152
TIMES = st.sampled_from([0, 5, 1_000_000_000, 1_000_000_005, 3_000_000_000, GO_ZERO])
STATUSES = st.fixed_dictionaries(
    {},
    optional={
        "created": TIMES,
        "started": TIMES,
        "finished": TIMES,
        "exit-code": st.sampled_from([0, 1, 128, 255]),
        "reason": st.sampled_from(["", "Completed", "Error", "OOMKilled", "StartError", "Unknown"]),
    },
)
SHOWN = ("CONTAINER_CREATED", "CONTAINER_RUNNING", "CONTAINER_EXITED", "CONTAINER_UNKNOWN", "absent")


def broken(machine: str, shown: str, status: Mapping[str, int | str]) -> set[str]:
    found = demanded(load(machine), shown, status)
    return {clause.clause.name for clause, those in found if not all(each.holds for each in those)}


def by_hand(shown: str, status: Mapping[str, int | str]) -> set[str]:
    created, started, finished = (status.get(name) for name in ("created", "started", "finished"))
    code, reason = status.get("exit-code"), status.get("reason")

    def before(later: object, first: object, slack: int = 0) -> bool:
        return isinstance(later, int) and isinstance(first, int) and bool(later and first) and later + slack < first

    found = {"creation-is-dated"} if created == 0 and shown != "absent" else set()
    if shown == "CONTAINER_CREATED" and (started or finished):
        found.add("not-started-has-no-start")
    if shown == "CONTAINER_RUNNING" and (started == 0 or finished or before(started, created)):
        found.add("running-has-a-start")
    if shown == "CONTAINER_EXITED":
        if finished == 0 or before(finished, created) or before(started, created):
            found.add("exited-has-an-end")
        if finished != GO_ZERO and reason not in {None, "StartError"} and before(finished, started, 1_000_000_000):
            found.add("ends-after-the-start")
        if reason in {"", "Completed", "Error"} and code is not None and (code == 0) != (reason == "Completed"):
            found.add("completed-is-zero")
        if reason == "StartError" and code not in {None, 128}:
            found.add("start-error-is-128")
    return found


@example(
    shown="CONTAINER_EXITED", status={"created": 0, "started": 5, "finished": GO_ZERO, "exit-code": 0, "reason": ""}
)
@given(shown=st.sampled_from(SHOWN), status=STATUSES)
def test_the_contract_requires_what_a_person_would_write(shown: str, status: Mapping[str, int | str]) -> None:
    """``cri-container`` and the checks in ``by_hand`` find the same broken clauses; unobserved fields break none."""
    assert by_hand(shown, status) == broken("cri-container", shown, status)


RUNS = {"created": 5, "started": 7, "finished": 0, "exit-code": 0, "reason": ""}
ENDED = {"created": 5, "started": 7, "finished": 9, "exit-code": 0, "reason": ""}
LATE = {"created": 5, "started": 7_000_000_000, "finished": 9, "exit-code": 128, "reason": "StartError"}


@pytest.mark.parametrize(
    ("shown", "status", "clauses"),
    [
        ("CONTAINER_RUNNING", RUNS, set()),
        ("CONTAINER_RUNNING", RUNS | {"reason": "OOMKilled"}, set()),
        ("CONTAINER_CREATED", RUNS, {"created-has-no-start"}),
        ("CONTAINER_CREATED", RUNS | {"started": 0, "exit-code": 255, "reason": "Unknown"}, set()),
        ("CONTAINER_EXITED", RUNS, {"exited-has-an-end"}),
        ("CONTAINER_EXITED", ENDED, set()),
        ("CONTAINER_EXITED", ENDED | {"reason": "OOMKilled"}, set()),
        ("CONTAINER_EXITED", ENDED | {"started": 0, "exit-code": 255, "reason": "Unknown"}, set()),
        ("CONTAINER_EXITED", ENDED | {"started": 2_000_000_000}, {"ends-after-the-start"}),
        ("CONTAINER_EXITED", ENDED | {"finished": -6795364578871345152}, set()),
        ("CONTAINER_EXITED", ENDED | {"finished": -1}, {"exited-has-an-end"}),
        ("CONTAINER_EXITED", LATE, set()),
        ("CONTAINER_EXITED", LATE | {"exit-code": 1}, {"start-error-is-128"}),
        ("CONTAINER_UNKNOWN", RUNS | {"created": 0}, set()),
    ],
)
def test_containerd_keeps_its_records_so(shown: str, status: Mapping[str, int | str], clauses: set[str]) -> None:
    """Containerd's own records meet the requirements, with a few exceptions.

    The exceptions are an out-of-memory kill, an unknown state, a failed start, and an exit without a time.
    """
    assert clauses == broken("container-status", shown, status)


REQUIRES = """\
[fields]
time = ["opened", "shut"]
text = ["by"]

[requires.open-is-signed]
says = "Who opened it is written down, but at night."
MUST = "handbook"
in = ["open"]
set = ["by"]
when = { opened = [3, 4] }

[profile.old]"""


def test_a_state_that_shows_the_same_as_another_is_held_to_what_both_require() -> None:
    """If several states show the same word, only their common requirements are checked.

    A time may be a number, a text in the format of RFC 3339, or Go's zero time.
    """
    door = machine_of(DOOR.replace("[profile.old]", REQUIRES.replace('["open"]', '["shut"]')))
    assert [] == list(demanded(door, "CLOSED", {"opened": 3, "by": ""}))

    door = machine_of(DOOR.replace("[profile.old]", REQUIRES))
    for opened, number in ((3, 1), (5, 0), ("1970-01-01T00:00:00.000000Z", 0), ("yesterday", 0)):
        found = list(demanded(door, "OPEN", {"opened": opened, "by": ""}))
        assert number == len(found), opened


DATED = (
    DOOR
    + """
[fields]
int = ["draught"]
[requires.ajar-lets-air-in]
says = "A door that stands ajar lets air in."
MUST = "handbook, section 2"
in = ["ajar"]
values = { draught = [1] }
"""
)


@pytest.mark.parametrize(
    ("events", "known", "found"),
    [
        # A door that was opened and slammed is shut or ajar, and both of these states show CLOSED.
        (["push", "slam"], (), []),
        (["push", "slam", "warp"], ("warp",), ["ajar-lets-air-in"]),
    ],
)
def test_a_state_that_is_certain_is_held_to_what_it_requires(
    events: list[str], known: tuple[str, ...], found: list[str]
) -> None:
    """If an event that is usually hidden was observed, the state is certain and its requirement applies."""
    monitor = Monitor(machine_of(DATED), fresh=True, seen=frozenset({"slam", *known}))
    for event in events:
        assert () == monitor.observe(Observation(entity="d", event=event, reply="ok" if event == "push" else ""))
    violations = monitor.observe(Observation(entity="d", shows="CLOSED", fields={"draught": 0}))

    assert found == [each.clause.name for each in violations]


@pytest.mark.parametrize(("draught", "fails"), [(0, True), (1, False)])
def test_the_kit_holds_a_certain_state_to_what_it_requires(draught: int, *, fails: bool) -> None:
    text = DATED.replace('kind   = "hidden"', 'kind   = "signal"')

    class Ajar:
        def reset(self) -> None:
            self.state = "shut"

        def do(self, event: str) -> str:
            if event == "warp":
                self.state = "ajar"
            elif self.state == "gone":
                return {"push": "NOT_FOUND", "knock": "ok", "remove": "ok"}.get(event, "")
            elif event in {"push", "remove", "slam"}:
                self.state = {"push": "open", "remove": "gone", "slam": "shut"}[event]
            return "" if event in {"warp", "slam"} else "ok"

        def shows(self) -> str:
            return {"open": "OPEN", "gone": "gone"}.get(self.state, "CLOSED")

        def outputs(self) -> None:
            return None

        def fields(self) -> dict[str, int | str]:
            return {"draught": draught}

        def close(self) -> None:
            pass

    failures = conform(machine_of(text), Ajar, examples=0).failures
    assert fails == ("ajar-lets-air-in" in {each.violation.clause.name for each in failures if each.violation})
