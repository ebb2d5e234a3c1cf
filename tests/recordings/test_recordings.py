"""Recordings of real containerd have the expected verdicts, and planted edits are found."""

from __future__ import annotations

import json
import re
from collections import Counter
from itertools import pairwise
from typing import TYPE_CHECKING, NamedTuple

import pytest
from judged import CALLS, EVENTS, LOGS, Found, content, every_violation, judged, profile, undecided, violations

from fsm.machine.findings import NOTHING_MET
from fsm.verdict import Holds, Unknown

if TYPE_CHECKING:
    from collections.abc import Collection
    from pathlib import Path

__all__ = ["every_violation"]

NOT_IDEMPOTENT = {
    "1.6.20-contexts.calls.jsonl.gz": (1, 0),
    "1.6.20-contexts.log.gz": (1, 0),
    "1.6.20-corrupt-checkpoints.calls.jsonl.gz": (9, 0),
    "1.6.20-corrupt-checkpoints.log.gz": (9, 0),
    "1.6.20-jsonlog.calls.jsonl.gz": (10, 0),
    "1.6.20-jsonlog.log.gz": (10, 0),
    "1.6.20-killed-containers.calls.jsonl.gz": (1, 0),
    "1.6.20-killed-containers.log.gz": (1, 0),
    "1.6.20-orphan.calls.jsonl.gz": (0, 2),
    "1.6.20-orphan.log.gz": (0, 2),
    "1.6.20-random.calls.jsonl.gz": (17, 8),
    "1.6.20-random.log.gz": (17, 8),
    "1.6.20-restart-graceful.calls.jsonl.gz": (6, 1),
    "1.6.20-restart-graceful.log.gz": (6, 1),
    "1.6.20-restart-kill9.calls.jsonl.gz": (35, 1),
    "1.6.20-restart-kill9.log.gz": (35, 1),
    "containerd-1.6.20.log": (27, 1),
    "cri-calls-1.6.20.jsonl": (27, 1),
}
"""The numbers of stops of removed containers and pods that 1.6 answers with NOT_FOUND, by recording."""

STARTED_AFTER_STOP = {
    "1.7.24-forgotten.nri.jsonl.gz": 1,
    "1.7.24-nri.nri.jsonl.gz": 1,
    "2.1.9-forgotten.nri.jsonl.gz": 1,
    "2.1.9-nri.nri.jsonl.gz": 3,
    "nri-events-2.1.9.jsonl": 1,
}
"""The number of containers that were started after a stop, in each recording of a plugin."""


CROWDED = re.compile(r"^1\..*-contexts\.")
"""The recordings that take longest to judge.

Their tests are marked as slow, except for the newest version.
"""


def recordings(*names: str, installed: Collection[str] = ()) -> list[object]:
    marks = {
        name: [
            *([pytest.mark.installed] if name in installed else []),
            *([pytest.mark.slow] if CROWDED.search(name) else []),
        ]
        for name in names
    }
    return [pytest.param(name, marks=found) for name, found in marks.items()]


EACH_FORM = ("containerd-2.1.9.log", "cri-calls-2.1.9.jsonl", "nri-events-2.1.9.jsonl")


@pytest.mark.parametrize("name", recordings(*LOGS, *CALLS, *EVENTS, installed=EACH_FORM))
def test_gives_the_expected_verdict(name: str, tmp_path: Path) -> None:
    """The recordings of 1.6 break a MUST, because 1.6 refuses to stop removed entities.

    Some recordings of plugins have starts after a stop. There are no other violations.
    """
    found = judged(content(name), tmp_path)

    stops = Counter(each.event for each in violations(found))
    assert NOT_IDEMPOTENT.get(name, (0, 0)) == (stops.pop("StopContainer", 0), stops.pop("StopPodSandbox", 0))
    assert STARTED_AFTER_STOP.get(name, 0) == stops.pop("StartContainer", 0)
    assert Counter() == stops
    assert {"NOT_FOUND"} >= {each.reply for each in violations(found) if each.cause == "reply"}
    assert {"stop-is-idempotent"} >= {each.clause for each in violations(found) if each.level == "MUST"}
    assert {"no-start-after-stop"} >= {each.clause for each in violations(found) if each.event == "StartContainer"}
    assert [] == undecided(found)


@pytest.mark.slow
@pytest.mark.parametrize("name", recordings(*LOGS, *CALLS, *EVENTS))
def test_holds_with_the_profile_of_its_version(name: str, tmp_path: Path) -> None:
    found = judged(content(name), tmp_path, profile=profile(name))

    assert {Holds()} == {each.verdict for each in found.judgements}
    assert {"stop-of-removed", "started-after-stop"} >= {
        each.first.deviation.name for judgement in found.judgements for each in judgement.tolerated
    }


@pytest.mark.parametrize("name", [name for name in LOGS if "-random" in name])
def test_a_log_tells_its_version(name: str, tmp_path: Path) -> None:
    version = judged(content(name), tmp_path, profile=profile(name)).version

    assert f"containerd {name.partition('-')[0]}" == re.split("[+~]", version)[0]


# -- planted edits -----------------------------------------------------------

LOG = "2.1.9-killed-containers.log.gz"
CLIENT = "2.1.9-killed-containers.calls.jsonl.gz"
PLUGIN = "nri-events-2.1.9.jsonl"

RAN = "21c0d"
"""A container of the log.

It was created on line 123, started on 126, refused a start on 128, was stopped on 132 and removed on 134.
"""
EXITED = "6c046"
"""A container of the log.

It was started on line 96 and exited on line 97, so a second start is refused on line 100.
"""
POD = "a2b44"
REMOVED = "14288"
"""A pod that is removed on line 361 of the log."""
NEW = "0" * 64

CONTAINER_GONE = "NotFound desc = an error occurred when try to find container: not found"
POD_GONE = "NotFound desc = an error occurred when try to find sandbox: not found"
BROKEN = "Unknown desc = something broke"
WAS = "Unknown desc = failed to set starting state for container: container is in CONTAINER_%s state"


class Edit(NamedTuple):
    """An edit of a recording, with its expected finding.

    The edit replaces ``drop`` lines after line ``after`` with ``lines``. Ids are abbreviated. A JSON line takes the
    keys that it lacks from the line that it replaces.
    """

    name: str
    recording: str
    after: int
    lines: tuple[str, ...]
    finds: Found
    drop: int = 0
    fresh: bool = False


def info(message: str) -> str:
    return f'time="2026-11-21T03:12:52.9Z" level=info msg="{message}"'.replace("'", r"\"")


def failed(call: str, identity: str, error: str) -> tuple[str, str]:
    line = f'level=error msg="{call} for \\"{identity}\\" failed" error="rpc error: code = {error}"'
    return info(f"{call} for '{identity}'"), f'time="2026-11-21T03:12:52.9Z" {line}'


def went(call: str, identity: str) -> tuple[str, str]:
    return info(f"{call} for '{identity}'"), info(f"{call} for '{identity}' returns successfully")


def created(pod: str, container: str) -> tuple[str, str]:
    what = f"CreateContainer within sandbox '{pod}' for"
    metadata = "&ContainerMetadata{Name:c,Attempt:0,}"
    return info(f"{what} container {metadata}"), info(f"{what} {metadata} returns container id '{container}'")


def reply(line: int, event: str, said: str, clause: str, level: str, edit: str, of: str = "container-status") -> Found:
    return Found(line, of, "reply", event, said, clause, level, edit)


def met(line: int, event: str, said: str, clause: str, level: str, edit: str, of: str = "container-status") -> Found:
    """Return the finding that the shown state cannot be the state in which a call acted."""
    return Found(line, of, "state", event, said, clause, level, edit)


def output(line: int, event: str, clause: str, edit: str, level: str = "MUST", of: str = "plugin-container") -> Found:
    return Found(line, of, "output", event, "", clause, level, edit)


NOTHING = Found(0, "", "", "", "", "", "")

PLANTED = (
    Edit(
        name="a running container starts",
        recording=LOG,
        after=126,
        lines=went("StartContainer", RAN),
        finds=reply(128, "StartContainer", "ok", "start-only-created", "MUST", "reply changed error"),
        drop=2,
    ),
    Edit(
        name="an exited container starts",
        recording=LOG,
        after=103,
        lines=went("StartContainer", EXITED),
        finds=reply(105, "StartContainer", "ok", "start-only-created", "MUST", "reply changed error"),
    ),
    Edit(
        name="a removed container starts",
        recording=LOG,
        after=134,
        lines=went("StartContainer", RAN),
        finds=reply(136, "StartContainer", "ok", "absent-is-not-found", "MUST", "reply changed NOT_FOUND"),
    ),
    Edit(
        name="a first start is refused for a state that the container cannot be in",
        recording=LOG,
        after=123,
        lines=failed("StartContainer", RAN, WAS % "EXITED"),
        finds=met(125, "StartContainer", "UNKNOWN", "start-runs-or-fails", "observed", "reply changed ok"),
        drop=3,
    ),
    Edit(
        name="a second start is refused as if there had been no first",
        recording=LOG,
        after=126,
        lines=failed("StartContainer", RAN, WAS % "CREATED"),
        finds=met(128, "StartContainer", "UNKNOWN", "start-only-created", "MUST", "extra"),
        drop=2,
    ),
    Edit(
        name="stopping an exited container fails",
        recording=LOG,
        after=100,
        lines=failed("StopContainer", EXITED, BROKEN),
        finds=reply(102, "StopContainer", "UNKNOWN", "stop-is-idempotent", "MUST", "reply changed ok"),
    ),
    Edit(
        name="stopping a removed container fails",
        recording=LOG,
        after=134,
        lines=failed("StopContainer", RAN, CONTAINER_GONE),
        finds=reply(136, "StopContainer", "NOT_FOUND", "stop-is-idempotent", "MUST", "reply changed ok"),
    ),
    Edit(
        name="stopping a running container finds none",
        recording=LOG,
        after=128,
        lines=failed("StopContainer", RAN, CONTAINER_GONE),
        finds=met(130, "StopContainer", "NOT_FOUND", "stop-kills", "MUST", "reply changed ok"),
    ),
    Edit(
        name="removing a removed container fails",
        recording=LOG,
        after=134,
        lines=failed("RemoveContainer", RAN, BROKEN),
        finds=reply(136, "RemoveContainer", "UNKNOWN", "remove-is-idempotent", "MUST", "reply changed ok"),
    ),
    Edit(
        name="updating a removed container succeeds",
        recording=LOG,
        after=134,
        lines=went("UpdateContainerResources", RAN),
        finds=reply(136, "UpdateContainerResources", "ok", "absent-is-not-found", "MUST", "reply changed NOT_FOUND"),
    ),
    Edit(
        name="a running container has no status",
        recording=LOG,
        after=126,
        lines=failed("ContainerStatus", RAN, CONTAINER_GONE)[1:],
        finds=reply(127, "ContainerStatus", "NOT_FOUND", "status-reads", "MUST", "reply changed ok"),
    ),
    Edit(
        name="a command in a running container finds none",
        recording=LOG,
        after=126,
        lines=failed("ExecSync", RAN, CONTAINER_GONE)[1:],
        finds=met(127, "ExecSync", "NOT_FOUND", "only-running", "observed", "reply changed UNKNOWN"),
    ),
    Edit(
        name="a container that was never started exits",
        recording=LOG,
        after=123,
        lines=(info(f"received container exit event container_id:'{RAN}'  id:'{RAN}'  pid:1"),),
        finds=Found(
            124, "container-status", "event", "exit", "", "no-process-no-exit", "observed", "swapped StartContainer"
        ),
    ),
    Edit(
        name="a container's id is given twice",
        recording=LOG,
        after=126,
        lines=created(POD, RAN),
        finds=reply(128, "CreateContainer", "ok", "fresh-id", "observed", "reply changed error"),
    ),
    Edit(
        name="a pod's id is given twice",
        recording=LOG,
        after=126,
        lines=(info(f"RunPodSandbox for &PodSandboxMetadata{{Name:p,Attempt:0,}} returns sandbox id '{POD}'"),),
        finds=reply(127, "RunPodSandbox", "ok", "fresh-id", "observed", "reply changed error", of="pod-sandbox"),
    ),
    Edit(
        name="stopping a removed pod fails",
        recording=LOG,
        after=361,
        lines=failed("StopPodSandbox", REMOVED, POD_GONE),
        finds=reply(
            363, "StopPodSandbox", "NOT_FOUND", "stop-is-idempotent", "MUST", "reply changed ok", of="pod-sandbox"
        ),
    ),
    Edit(
        name="removing a removed pod fails",
        recording=LOG,
        after=361,
        lines=failed("RemovePodSandbox", REMOVED, BROKEN),
        finds=reply(
            363, "RemovePodSandbox", "UNKNOWN", "remove-is-idempotent", "MUST", "reply changed ok", of="pod-sandbox"
        ),
    ),
    Edit(
        name="a ready pod has no status",
        recording=LOG,
        after=124,
        lines=failed("PodSandboxStatus", POD, POD_GONE)[1:],
        finds=reply(125, "PodSandboxStatus", "NOT_FOUND", "status-reads", "MUST", "reply changed ok", of="pod-sandbox"),
    ),
    Edit(
        name="a container is created in a removed pod",
        recording=LOG,
        after=361,
        lines=created(REMOVED, NEW),
        finds=reply(
            363, "CreateContainer", "ok", "absent-is-not-found", "MUST", "reply changed NOT_FOUND", of="pod-sandbox"
        ),
    ),
    Edit(
        name="a running container is shown as created",
        recording=CLIENT,
        after=22,
        lines=('{"state": "CONTAINER_CREATED"}',),
        finds=met(23, "ContainerStatus", "ok", "start-runs", "MUST", "extra", of="cri-container"),
        drop=1,
    ),
    Edit(
        name="a running container is shown in a state that no model has",
        recording=CLIENT,
        after=22,
        lines=('{"state": "CONTAINER_PAUSED"}',),
        finds=met(23, "ContainerStatus", "ok", "start-runs", "MUST", "extra", of="cri-container"),
        drop=1,
    ),
    Edit(
        name="an exited container is refused for a state that no model has",
        recording=LOG,
        after=99,
        lines=failed("StartContainer", EXITED, WAS % "PAUSED"),
        finds=met(101, "StartContainer", "UNKNOWN", "start-only-created", "MUST", "extra"),
        drop=2,
    ),
    *(
        Edit(
            name=f"{name} of a {state.lower()} container",
            recording=CLIENT,
            after=line - 1,
            lines=(fields,),
            finds=Found(line, "cri-container", "fields", "ContainerStatus", "ok", clause, level),
            drop=1,
        )
        for name, state, line, fields, clause, level in (
            ("the end", "RUNNING", 23, '{"finished_at": 1795230772449010156}', "running-has-a-start", "MUST"),
            ("no start", "RUNNING", 23, '{"started_at": 0}', "running-has-a-start", "MUST"),
            ("no end", "EXITED", 5, '{"finished_at": 0}', "exited-has-an-end", "MUST"),
            ("an early end", "EXITED", 5, '{"finished_at": 1795230771547114254}', "exited-has-an-end", "MUST"),
            ("no creation", "EXITED", 5, '{"created_at": 0}', "creation-is-dated", "MUST"),
            ("the reason", "EXITED", 5, '{"reason": "Completed"}', "completed-is-zero", "observed"),
            ("the code", "EXITED", 5, '{"exit_code": 0}', "completed-is-zero", "observed"),
            ("a start that failed", "EXITED", 5, '{"reason": "StartError"}', "start-error-is-128", "observed"),
        )
    ),
    Edit(
        name="a client's second start succeeds",
        recording=CLIENT,
        after=24,
        lines=('{"code": "OK", "detail": ""}',),
        finds=reply(25, "StartContainer", "ok", "start-only-created", "MUST", "", of="cri-container"),
        drop=1,
    ),
    Edit(
        name="a plugin is told of a creation twice",
        recording=PLUGIN,
        after=8,
        lines=('{"event": "CreateContainer", "container": "635a3", "ts": 1}',),
        finds=output(9, "CreateContainer", "created-first", ""),
    ),
    Edit(
        name="a plugin is told of a start twice",
        recording=PLUGIN,
        after=24,
        lines=('{"event": "START_CONTAINER", "container": "df6e0", "ts": 1}',),
        finds=output(25, "StartContainer", "started-once", ""),
    ),
    Edit(
        name="a plugin is told of a start and not of the creation",
        recording=PLUGIN,
        after=4,
        lines=(f'{{"event": "START_CONTAINER", "container": "{NEW}", "ts": 1}}',),
        finds=output(5, "StartContainer", "started-once", ""),
        fresh=True,
    ),
    Edit(
        name="a plugin is told after the fact of what it was not told before",
        recording=PLUGIN,
        after=8,
        lines=('{"event": "POST_START_CONTAINER", "container": "635a3", "ts": 1}',),
        finds=output(9, "PostStartContainer", "relayed-after-the-fact", "", "SHOULD"),
    ),
    Edit(
        name="a plugin is told of a stop twice",
        recording=PLUGIN,
        after=26,
        lines=('{"event": "StopContainer", "container": "df6e0", "ts": 1}',),
        finds=output(27, "StopContainer", "stopped-once", ""),
    ),
    Edit(
        name="a plugin is told of a removal twice",
        recording=PLUGIN,
        after=16,
        lines=('{"event": "REMOVE_CONTAINER", "container": "635a3", "ts": 1}',),
        finds=output(17, "RemoveContainer", "removed-last", ""),
    ),
    Edit(
        name="a plugin is told of a removal and not of the stop",
        recording=PLUGIN,
        after=25,
        lines=(),
        finds=output(26, "RemoveContainer", "removed-last", ""),
        drop=1,
    ),
    Edit(
        name="a plugin is told of a removal and not of the creation",
        recording=PLUGIN,
        after=4,
        lines=(f'{{"event": "REMOVE_CONTAINER", "container": "{NEW}", "ts": 1}}',),
        finds=output(5, "RemoveContainer", "removed-last", ""),
        fresh=True,
    ),
    Edit(
        name="a plugin is told of an update and not of the creation",
        recording=PLUGIN,
        after=4,
        lines=(f'{{"event": "UpdateContainer", "container": "{NEW}", "ts": 1}}',),
        finds=output(5, "UpdateContainer", "created-first", ""),
        fresh=True,
    ),
    Edit(
        name="a plugin is told of a pod's removal twice",
        recording=PLUGIN,
        after=17,
        lines=('{"event": "REMOVE_POD_SANDBOX", "pod": "b661f", "ts": 1}',),
        finds=output(18, "RemovePodSandbox", "removed-last", "missing listed", of="plugin-pod"),
    ),
)


def planted(edit: Edit) -> bytes:
    data = content(edit.recording)
    lines = data.splitlines()
    ids = {each[:5]: each for each in re.findall(r"\b[0-9a-f]{64}\b", data.decode())}
    put = [re.sub(r"\b[0-9a-f]{5}\b", lambda short: ids.get(short[0], short[0]), line) for line in edit.lines]
    if put and edit.drop and put[0].startswith("{"):
        put[0] = json.dumps(json.loads(lines[edit.after]) | json.loads(put[0]))
    lines[edit.after : edit.after + edit.drop] = [line.encode() for line in put]
    return b"\n".join(lines)


@pytest.mark.parametrize("edit", PLANTED, ids=[edit.name.replace(" ", "-") for edit in PLANTED])
def test_a_planted_edit_is_found(edit: Edit, tmp_path: Path) -> None:
    known = "no-start-after-stop"  # the unchanged recording breaks it too
    (found,) = (each for each in violations(judged(planted(edit), tmp_path, fresh=edit.fresh)) if each.clause != known)

    assert edit.finds == found._replace(edit=found.edit if edit.finds.edit else "")


NO_RECORD = "NotFound desc = get container info: container not found"


@pytest.mark.parametrize(
    ("after", "container", "tolerated"),
    [(100, EXITED, "stop-without-record"), (123, RAN, "stop-of-created-without-record")],
)
def test_a_stop_that_finds_no_record_afterwards_is_known(
    after: int, container: str, tolerated: str, tmp_path: Path
) -> None:
    """A stop that returns NOT_FOUND because the record was deleted in the meantime is a known deviation."""
    edit = Edit(name="", recording=LOG, after=after, lines=failed("StopContainer", container, NO_RECORD), finds=NOTHING)

    found = judged(planted(edit), tmp_path, profile=profile(LOG))

    assert {Holds()} == {each.verdict for each in found.judgements}
    assert [tolerated] == [each.first.deviation.name for of in found.judgements for each in of.tolerated]
    assert ["NOT_FOUND"] == [each.reply for each in violations(judged(planted(edit), tmp_path))]


@pytest.mark.parametrize("name", EVENTS)
@pytest.mark.parametrize("with_profile", [False, True])
def test_what_a_plugin_was_told_is_what_the_layer_relays(name: str, tmp_path: Path, *, with_profile: bool) -> None:
    """Every recording of a plugin conforms to the models of the NRI layer, which may be called in any order."""
    version = profile(name) if with_profile else None
    found = judged(content(name), tmp_path, models=("nri-container", "nri-pod"), profile=version)

    # Two pods have no event except their run, and nothing shows that the pods are new, so no cell is certainly
    # covered.
    few = {Unknown(why=NOTHING_MET)} if "forgotten" in name else set()
    assert {Holds()} | few == {each.verdict for each in found.judgements}


EITHER_WAY = {"PostStartContainer", "StopContainer"}
"""Events that may come in either order, as a short-lived container may exit before its start is relayed."""


def test_no_two_events_of_a_container_can_be_told_in_the_other_order(tmp_path: Path) -> None:
    lines = content(PLUGIN).splitlines()
    told = [(json.loads(line).get("container"), number) for number, line in enumerate(lines)]
    whole = [each._replace(line=0) for each in violations(judged(content(PLUGIN), tmp_path))]
    missed = []
    swapped = 0
    for container in {each for each, _ in told if each}:
        numbers = [number for each, number in told if each == container]
        for one, other in pairwise(numbers):
            names = {json.loads(lines[each])["event"].title().replace("_", "") for each in (one, other)}
            names = {name if name.endswith("Container") else name.replace("container", "Container") for name in names}
            changed = list(lines)
            changed[one], changed[other] = changed[other], changed[one]
            found = [each._replace(line=0) for each in violations(judged(b"\n".join(changed), tmp_path))]
            swapped += 1
            if found == whole and names != EITHER_WAY:
                missed.append(names)
    assert swapped > 10
    assert [] == missed


@pytest.mark.parametrize(
    "number", [line for line, text in enumerate(content(PLUGIN).splitlines()) if b'"CreateContainer"' in text]
)
def test_what_a_plugin_was_not_told_the_creation_of_is_found(number: int, tmp_path: Path) -> None:
    """A container whose creation was not relayed is found, unless the run of its pod was not relayed either.

    In that case, the plugin may have connected later.
    """
    lines = content(PLUGIN).splitlines()
    pod = json.loads(lines[number])["pod"]
    lacking = [line for index, line in enumerate(lines) if index != number]
    unknown = [line for line in lacking if not (b"RUN_POD" in line and pod.encode() in line)]
    whole, found, doubtful = (violations(judged(b"\n".join(each), tmp_path)) for each in (lines, lacking, unknown))

    assert len(found) == len(whole) + 1
    assert len(doubtful) <= len(whole)


@pytest.mark.parametrize(
    ("name", "value", "clause"),
    [
        ("created_at", 9, "happens-once"),
        ("started_at", 25, "happens-once"),
        ("finished_at", 40, "happens-once"),
        ("exit_code", 9, "exit-code-stays"),
    ],
)
@pytest.mark.parametrize("pause", [0, 60_000_000])
def test_a_time_that_changes_is_a_surprise(name: str, value: int, clause: str, pause: int, tmp_path: Path) -> None:
    """A changed time or exit code is a violation, unless a restart may have recreated an unreadable record."""
    call = {"op": "ContainerStatus", "id": "c" * 64, "code": "OK"}
    shown = {"op": "status", "id": "c" * 64, "state": "CONTAINER_EXITED", "created_at": 1, "started_at": 20}
    shown |= {"finished_at": 30, "exit_code": 0}
    other = shown | {name: value}
    for second, found in ((shown, []), (other, [] if pause else [clause])):
        lines = [call | {"start": 10, "end": 20}, shown | {"start": 21}]
        lines += [call | {"start": 30 + pause, "end": 40 + pause}, second | {"start": 41 + pause}]
        data = "\n".join(map(json.dumps, lines)).encode()

        assert found == [each.clause for each in violations(judged(data, tmp_path))]


def test_the_fresh_twin_holds(tmp_path: Path) -> None:
    """The recording is also legal when judged as fresh, because the plugin connected before the first event."""
    found = judged(content(PLUGIN), tmp_path, fresh=True, profile=profile(PLUGIN))
    assert {Holds()} == {each.verdict for each in found.judgements}
