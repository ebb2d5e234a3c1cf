"""The script that ``fsm cover`` proposes covers the missing cells of a served runtime.

``crictl`` and ``grpcurl`` are replaced by simulations that make the same calls.
"""

from __future__ import annotations

import json
import os
import subprocess
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, Final

import pytest
from commands import fsm
from google.protobuf import json_format
from served import ServedClient, served

from fsm.runtimes.sockets import cri_pb2 as cri
from fsm.runtimes.sockets.cri_client import CallAnswer

PROGRAM: Final = """\
#!/bin/sh
printf '%s\\n' "$PWD" "${0##*/}" "$@" > "$PIPES/asked"
exec 3< "$PIPES/answered"
read -r code <&3
cat <&3
exit "$code"
"""
"""A program that forwards its arguments through a pipe and prints the answer."""

BY_ID: Final = {
    "start": ("StartContainer", "container_id"),
    "stop": ("StopContainer", "container_id"),
    "inspect": ("ContainerStatus", "container_id"),
    "update": ("UpdateContainerResources", "container_id"),
    "attach": ("Attach", "container_id"),
    "logs": ("ReopenContainerLog", "container_id"),
    "checkpoint": ("CheckpointContainer", "container_id"),
    "stopp": ("StopPodSandbox", "pod_sandbox_id"),
    "inspectp": ("PodSandboxStatus", "pod_sandbox_id"),
}


class PlayedTools:
    """Simulates the ``crictl`` and ``grpcurl`` commands that the script uses."""

    def __init__(self, client: ServedClient) -> None:
        self._call: Callable[..., CallAnswer] = client.call

    def run(self, folder: Path, *words: str) -> CallAnswer:
        call = self._call
        match words:
            case "grpcurl", *_, "-d", fields, _, method:
                return call(method.rpartition("/")[2], **json.loads(fields))
            case "crictl", "runp", path:
                return call("RunPodSandbox", config=_read(folder / path, cri.PodSandboxConfig()))
            case "crictl", "create", pod, path, _:
                config = _read(folder / path, cri.ContainerConfig())
                return call("CreateContainer", pod_sandbox_id=pod, config=config)
            case "crictl", "rm", identity:
                return self._removed("Container", "container_id", identity, cri.CONTAINER_RUNNING)
            case "crictl", "rmp", *options, identity:
                return self._removed("PodSandbox", "pod_sandbox_id", identity, cri.SANDBOX_READY, force=bool(options))
            case "crictl", "exec", "--sync", identity, *command:
                return call("ExecSync", container_id=identity, cmd=command)
            case "crictl", "exec", identity, *command:
                return call("Exec", container_id=identity, cmd=command, stdout=True)
            case "crictl", "port-forward", identity, _:
                return call("PortForward", pod_sandbox_id=identity)
            case "crictl", command, *_, identity:
                method, field = BY_ID[command]
                return call(method, **{field: identity})
            case _:
                raise AssertionError(words)

    def _removed(self, of: str, field: str, identity: str, up: int, *, force: bool = False) -> CallAnswer:
        """Remove an entity as crictl does: query its status first, and stop it only with *force*."""
        looked = self._call(f"{of}Status", **{field: identity})
        if looked.code != "OK" or (looked.message.status.state == up and not force):
            return looked
        if looked.message.status.state == up:
            self._call(f"Stop{of}", **{field: identity})
        return self._call(f"Remove{of}", **{field: identity})


def _read(path: Path, message: Any) -> Any:  # noqa: ANN401  (of protobuf)
    return json_format.Parse(path.read_text(encoding="utf-8"), message)


@contextmanager
def played(folder: Path, tools: PlayedTools) -> Iterator[dict[str, str]]:
    for name in ("crictl", "grpcurl"):
        (folder / name).write_text(PROGRAM, encoding="utf-8")
        (folder / name).chmod(0o755)
    asked, answered = folder / "asked", folder / "answered"
    os.mkfifo(asked)
    os.mkfifo(answered)

    def serve() -> None:
        while lines := asked.read_text(encoding="utf-8").splitlines():
            found = tools.run(Path(lines[0]), *lines[1:])
            made = getattr(found.message, "container_id", "") or getattr(found.message, "pod_sandbox_id", "")
            answered.write_text(f"{int(found.code != 'OK')}\n{made}\n", encoding="utf-8")

    thread = threading.Thread(target=serve, name="tools", daemon=True)
    thread.start()
    try:
        yield {"PATH": f"{folder}:{os.environ['PATH']}", "PIPES": str(folder), "TMPDIR": str(folder)}
    finally:
        with suppress(OSError):  # nobody reads the pipe if the thread has failed
            os.close(os.open(asked, os.O_WRONLY | os.O_NONBLOCK))
        thread.join(10)


def covered(*names: Path) -> tuple[set[tuple[str, str, str]], list[str]]:
    document = json.loads(fsm("cover", "--format", "json", *map(str, names)).stdout)
    missing = {
        (each["machine"], row["event"], row["state"])
        for each in document["machines"]
        for row in each["rows"]
        if row["standing"] == "not covered"
    }
    return missing, [each["verdict"] for each in document["recordings"]]


@pytest.mark.parametrize("only", [pytest.param("", marks=pytest.mark.slow), "cri-pod: status in ready"])
def test_the_proposed_calls_cover_what_is_missing(only: str, tmp_path: Path) -> None:
    """After the script has run, the recording is legal and no cell is missing.

    If only the lines for one cell are run, the other cells are still missing.
    """
    before, after = tmp_path / "before.jsonl", tmp_path / "after.jsonl"
    with served(tmp_path) as address:
        with ServedClient(address, before) as client:
            client.container(client.pod(), "true")
        preamble, *blocks = fsm("cover", "--format", "sh", str(before)).stdout.split("\n\n")
        script = "\n".join([preamble, *(each for each in blocks if f"# {only}" in each)])
        with ServedClient(address, after) as client, played(tmp_path, PlayedTools(client)) as environment:
            subprocess.run(["sh", "-u"], input=script, env=environment, text=True, check=False, timeout=120)  # noqa: S607

    missing, _ = covered(before)
    assert len(missing) == len(blocks) > 40
    # The command that removes the pod also queries the status of the pod and stops it.
    ran = missing - {("cri-pod", "status", "ready"), ("cri-pod", "remove", "stopped")} if only else set()
    assert covered(before, after) == (ran, ["holds", "holds"])
