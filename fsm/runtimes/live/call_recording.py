"""Record CRI calls as JSON lines that :mod:`fsm.runtimes.recordings.cri_calls` reads.

A call is written as one line when it has ended. A successful ContainerStatus call has a second line with the status.

If a call passed through a proxy, the line shows the request that reached the runtime and the runtime's answer, and
``injected`` describes what the client received instead. A call that never reached the runtime has the ``op``
``fault``, and a connection that failed or was lost has the ``op`` ``connect``. Such lines do not count as calls.
"""

from __future__ import annotations

import gzip
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import AbstractContextManager
from pathlib import Path
from queue import SimpleQueue
from threading import Lock, Thread
from typing import Any, BinaryIO, Final, Generic, TypeVar

import msgspec
from google.protobuf.message import DecodeError

from fsm.runtimes.live.passing_calls import PassedCall, id_in, identity, known, of_events, of_lifecycle
from fsm.runtimes.names import MAKES
from fsm.runtimes.recordings.container_events import EVENT
from fsm.runtimes.sockets.cri_client import CallAnswer
from fsm.runtimes.sockets.cri_pb2 import ContainerEventResponse, ContainerEventType, ContainerState, PodSandboxState

T = TypeVar("T")

MOST: Final = 65_536  # maximum number of waiting items. Further items are dropped.


class Outbox(Generic[T]):
    """A queue whose items are passed to *take* in order, on a background thread.

    *idle* is called whenever the queue becomes empty. The queue is limited to *most* waiting items, and drops all
    further items. If *take* raises an error, all later items are dropped, and *failed* is called with the text of the
    error. ``error`` holds the error, ``failure`` its text, and ``dropped`` the number of dropped items.
    """

    def __init__(
        self,
        take: Callable[[T], object],
        *,
        idle: Callable[[], None] = lambda: None,
        failed: Callable[[str], None] = lambda _: None,
        most: int = MOST,
    ) -> None:
        self.dropped = 0
        self.failure = ""
        self.error: OSError | ValueError | None = None
        self._put = self._done = 0
        self._take, self._idle, self._failed, self._most = take, idle, failed, most
        self._waiting: SimpleQueue[T | None] = SimpleQueue()
        self._thread = Thread(target=self._run, daemon=True)
        self._thread.start()

    @property
    def waiting(self) -> int:
        return self._put - self._done

    def put(self, thing: T) -> bool:
        if self.failure or self.waiting >= self._most:
            self.dropped += 1
            return False
        self._put += 1
        self._waiting.put(thing)
        return True

    def close(self, seconds: float | None = None) -> None:
        """Wait until the queue is empty, but no longer than *seconds* if given. Then drop all remaining items."""
        self._waiting.put(None)
        self._thread.join(seconds)
        if self._thread.is_alive():
            self.failure = self.failure or "it takes too long"
            self.dropped += max(0, self._waiting.qsize() - 1)

    def _run(self) -> None:
        while (thing := self._waiting.get()) is not None:
            try:
                if not self.failure:
                    self._take(thing)
                    if self._waiting.empty():
                        self._idle()
                else:
                    self.dropped += 1
            except (OSError, ValueError) as error:
                self.error = error
                self.failure = (getattr(error, "strerror", None) or str(error)).lower()
                self.dropped += 1
                self._failed(self.failure)
            self._done += 1


_ENCODER: Final = msgspec.json.Encoder()
_STATUS: Final = ("exit_code", "created_at", "started_at", "finished_at", "reason", "message")


def lines(answer: CallAnswer) -> Iterator[dict[str, int | str]]:
    """Yield the lines for *answer* in the recording.

    >>> from fsm.runtimes.sockets.cri_pb2 import StopContainerRequest, StopContainerResponse
    >>> asked = StopContainerRequest(container_id="c1")
    >>> [line] = lines(CallAnswer(op="StopContainer", request=asked, message=StopContainerResponse(), start=1, end=2))
    >>> line
    {'op': 'StopContainer', 'id': 'c1', 'start': 1, 'end': 2, 'code': 'OK', 'detail': ''}
    """
    asked: Any = answer.request
    op, found = answer.op, answer.message
    line: dict[str, int | str] = {"op": op}
    if op in MAKES:
        line["id"] = id_in(found) if found is not None else ""
    elif named_id := id_in(asked):
        line["id"] = named_id
    if op == "CreateContainer":
        line["pod"] = asked.pod_sandbox_id
        line["command"] = " ".join((*asked.config.command, *asked.config.args))
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
            **{name: getattr(status, name) for name in _STATUS},
        }


def encoded(answer: CallAnswer) -> bytes:
    return joined(lines(answer))


def joined(found: Iterable[Mapping[str, int | str]]) -> bytes:
    return b"".join(_ENCODER.encode(line) + b"\n" for line in found)


def named(states: Any, number: int) -> str:  # noqa: ANN401  (an enum of protobuf)
    return states.Name(number) if number in states.values() else str(number)


class CallRecording(AbstractContextManager["CallRecording"]):
    """Writes each call to the file at *path* immediately.

    The file is compressed if its name ends in ``.gz``. Threads may share a recording.
    """

    def __init__(self, path: Path | str) -> None:
        file = Path(path)
        self._file: BinaryIO | gzip.GzipFile = (
            gzip.GzipFile(filename=file, mode="wb") if file.suffix == ".gz" else file.open("wb")
        )
        self._lock = Lock()

    def __exit__(self, *_: object) -> None:
        self.close()

    def take(self, answer: CallAnswer) -> None:
        self.write(lines(answer))

    def write(self, found: Iterable[Mapping[str, int | str]]) -> None:
        data = joined(found)
        with self._lock:
            if not self._file.closed:
                self._file.write(data)
                self._file.flush()

    def close(self) -> None:
        with self._lock:
            self._file.close()


def recorded(call: PassedCall) -> list[dict[str, int | str]]:
    """Return the lines for *call* in the recording.

    The list is empty if *call* is not a CRI call, or if it is a streaming call other than GetContainerEvents. Raise
    ``DecodeError`` if the messages of the call are not CRI messages.
    """
    times: dict[str, int | str] = {"start": call.start, "end": call.end}
    if not call.method:
        return [{"op": "connect", **times, "code": call.code, "detail": call.detail}]
    method = known(call.method)
    if of_events(call.method):
        if call.code:
            return [end_of_events(call.start, call.end, call.code, call.detail)]
        if call.reply is None:
            raise DecodeError
        return [event_line(call.start, call.end, ContainerEventResponse.FromString(call.reply))]
    if method is None or method.streams:
        return []
    if not call.reached:
        on = identity(call.method, call.request or b"")
        # The call does not show whether the runtime was running, so record CANCELED, whatever the code was.
        return [{"op": "fault", "call": method.name, "id": on, **times, "code": "CANCELED", "injected": call.injected}]
    answered = call.code == "OK" and (call.reply is not None or not of_lifecycle(call.method))
    answer = CallAnswer(
        op=method.name,
        request=method.request.FromString(call.request or b""),
        message=method.response.FromString(call.reply or b"") if answered else None,
        start=call.start,
        end=call.end,
        code=call.code,
        detail=call.detail,
    )
    found = list(lines(answer))
    if call.injected:
        found[0]["injected"] = call.injected
    return found


def end_of_events(stream: int, end: int, code: str, detail: str) -> dict[str, int | str]:
    return {"op": EVENT, "stream": stream, "start": end, "code": code, "detail": detail}


def event_line(stream: int, came: int, event: Any) -> dict[str, int | str]:  # noqa: ANN401  (a message of protobuf)
    return {
        "op": EVENT,
        "stream": stream,
        "start": came,
        "id": event.container_id,
        "pod": event.pod_sandbox_status.id,
        "type": named(ContainerEventType, event.container_event_type),
        "created_at": event.created_at,
    }
