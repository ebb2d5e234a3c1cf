"""The calls that passed a proxy, as lines of a recording of CRI calls.

A line has the request to the runtime and its answer.  If a client got something else, it is in ``injected``.  A call
that never reached the runtime is a line whose ``op`` is ``fault``.  A connection that found no runtime, or lost it, is
a line whose ``op`` is ``connect``.  Neither counts as a call in a lifecycle.
"""

from __future__ import annotations

from typing import Any, Final

from google.protobuf.message import DecodeError

from fsm.runtimes.live.call_recording import lines, named
from fsm.runtimes.live.cri_client import CallAnswer
from fsm.runtimes.live.cri_methods import METHODS, Method
from fsm.runtimes.live.cri_pb2 import ContainerEventResponse, ContainerEventType
from fsm.runtimes.live.passing_calls import PassedCall
from fsm.runtimes.recordings.container_events import EVENT
from fsm.runtimes.recordings.pod_calls import CONTAINER_CALLS, POD_CALLS

_SERVICES: Final = frozenset(
    f"/runtime.{version}.{service}" for version in ("v1", "v1alpha2") for service in ("RuntimeService", "ImageService")
)


def known(path: str) -> Method | None:
    """Return the CRI method at *path*, in v1 or v1alpha2, which have the same messages."""
    service, _, name = path.rpartition("/")
    return METHODS.get(name) if service in _SERVICES else None


def of_lifecycle(path: str) -> bool:
    """Check whether calls at *path* act on a pod or container, or ask for the version, so their messages are kept.

    >>> of_lifecycle("/runtime.v1.RuntimeService/StopContainer"), of_lifecycle("/runtime.v1.ImageService/ListImages")
    (True, False)
    """
    method = known(path)
    return method is not None and method.name in POD_CALLS | CONTAINER_CALLS | {"Version"}


def of_events(path: str) -> bool:
    """Check whether calls at *path* are answered with container events."""
    method = known(path)
    return method is not None and method.name == "GetContainerEvents"


def identity(path: str, request: bytes) -> str:
    """Return the id of the container or pod in *request* to *path*, or an empty string if it has none."""
    method = known(path)
    try:
        asked: Any = method.request.FromString(request) if method else None
    except DecodeError:
        return ""
    return getattr(asked, "container_id", "") or getattr(asked, "pod_sandbox_id", "")


def recorded(call: PassedCall) -> list[dict[str, int | str]]:
    """Return the lines of *call*.  Calls of other services, and streams other than events, have no lines.

    Raise ``DecodeError`` if its messages are not CRI messages.
    """
    times: dict[str, int | str] = {"start": call.start, "end": call.end}
    if not call.method:
        return [{"op": "connect", **times, "code": call.code, "detail": call.detail}]
    method = known(call.method)
    if of_events(call.method):
        return [_event(call)]
    if method is None or method.streams:
        return []
    if not call.reached:
        on = identity(call.method, call.request or b"")
        # Like a cancelled call, it does not show whether the runtime was there.
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


def _event(call: PassedCall) -> dict[str, int | str]:
    if call.code:
        return end_of_events(call.start, call.end, call.code, call.detail)
    if call.reply is None:
        raise DecodeError
    return event_line(call.start, call.end, ContainerEventResponse.FromString(call.reply))


def end_of_events(stream: int, end: int, code: str, detail: str) -> dict[str, int | str]:
    """Return the line for the end of the event stream that began at *stream*."""
    return {"op": EVENT, "stream": stream, "start": end, "code": code, "detail": detail}


def event_line(stream: int, came: int, event: Any) -> dict[str, int | str]:  # noqa: ANN401  (a message of protobuf)
    """Return the line for an *event* that *came* on the stream that began at *stream*."""
    return {
        "op": EVENT,
        "stream": stream,
        "start": came,
        "id": event.container_id,
        "pod": event.pod_sandbox_status.id,
        "type": named(ContainerEventType, event.container_event_type),
        "created_at": event.created_at,
    }
