"""Record CRI calls for :mod:`fsm.runtimes.recordings.cri_calls`: a JSON line for each call that has ended.

A successful ContainerStatus has a second line with the status.
"""

import gzip
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from threading import Lock
from typing import Any, BinaryIO, Final, Self

import msgspec

from fsm.runtimes.live.cri_client import CallAnswer
from fsm.runtimes.live.cri_pb2 import ContainerState, PodSandboxState

_ENCODER: Final = msgspec.json.Encoder()


def lines(answer: CallAnswer) -> Iterator[dict[str, int | str]]:
    """Yield the lines of the call with *answer* as dictionaries.

    >>> from fsm.runtimes.live.cri_pb2 import StopContainerRequest, StopContainerResponse
    >>> asked = StopContainerRequest(container_id="c1")
    >>> [line] = lines(CallAnswer(op="StopContainer", request=asked, message=StopContainerResponse(), start=1, end=2))
    >>> line
    {'op': 'StopContainer', 'id': 'c1', 'start': 1, 'end': 2, 'code': 'OK', 'detail': ''}
    """
    asked: Any = answer.request
    op, found = answer.op, answer.message
    line: dict[str, int | str] = {"op": op}
    match op:
        case "RunPodSandbox":
            line["id"] = found.pod_sandbox_id if found is not None else ""
        case "CreateContainer":
            line["id"] = found.container_id if found is not None else ""
            line["pod"] = asked.pod_sandbox_id
            line["command"] = " ".join((*asked.config.command, *asked.config.args))
        case _:
            identity = getattr(asked, "container_id", "") or getattr(asked, "pod_sandbox_id", "")
            if identity:
                line["id"] = identity
    if op == "Version" and found is not None:
        line["version"] = found.runtime_version
    line |= {"start": answer.start, "end": answer.end, "code": answer.code, "detail": answer.detail}
    if op == "PodSandboxStatus" and found is not None:
        line["state"] = named(PodSandboxState, found.status.state)
    yield line
    if op == "ContainerStatus" and found is not None:
        status = found.status
        yield {
            "op": "status",
            "id": status.id,
            "start": answer.end,
            "state": named(ContainerState, status.state),
            "exit_code": status.exit_code,
            "created_at": status.created_at,
            "started_at": status.started_at,
            "finished_at": status.finished_at,
            "reason": status.reason,
            "message": status.message,
        }


def encoded(answer: CallAnswer) -> bytes:
    """Return the lines of the call with *answer*, each with its newline."""
    return joined(lines(answer))


def joined(found: Iterable[Mapping[str, int | str]]) -> bytes:
    """Return the lines *found* as JSON, each with its newline."""
    return b"".join(_ENCODER.encode(line) + b"\n" for line in found)


def named(states: Any, number: int) -> str:  # noqa: ANN401  (an enum of protobuf)
    """Return the name of state *number*, or the number itself if a newer API has added it."""
    return states.Name(number) if number in states.values() else str(number)


class CallRecording:
    """Appends calls to a file at *path*, compressed if its name ends in ``.gz``.  Threads may share it.

    Each call is written immediately, so that a killed process loses at most the last one.
    """

    def __init__(self, path: Path | str) -> None:
        file = Path(path)
        self._file: BinaryIO | gzip.GzipFile = (
            gzip.GzipFile(filename=file, mode="wb") if file.suffix == ".gz" else file.open("wb")
        )
        self._lock = Lock()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def take(self, answer: CallAnswer) -> None:
        self.write(lines(answer))

    def write(self, found: Iterable[Mapping[str, int | str]]) -> None:
        """Write the lines of one call."""
        data = joined(found)
        with self._lock:
            if not self._file.closed:
                self._file.write(data)
                self._file.flush()

    def close(self) -> None:
        """Close the file.  May be called again."""
        with self._lock:
            self._file.close()
