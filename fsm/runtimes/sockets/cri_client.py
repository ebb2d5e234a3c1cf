"""A CRI client on a Unix socket, and a table of the CRI methods.

A failed call does not raise an exception. Its :class:`CallAnswer` has the status code and the text of the failure.
"""

import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Any, Final

import grpc
from google.protobuf.message import DecodeError, Message
from google.protobuf.message_factory import GetMessageClass

from fsm.errors import InputError, refused
from fsm.runtimes.recordings.containerd_texts import capitals
from fsm.runtimes.sockets.cri_pb2 import DESCRIPTOR, VersionRequest, VersionResponse
from fsm.runtimes.sockets.unix_sockets import CHANNEL_OPTIONS, reached, target

OLDER: Final = "/runtime.v1alpha2.RuntimeService/Version"


@dataclass(frozen=True, slots=True, kw_only=True)
class Method:
    name: str
    path: str
    request: type[Message]
    response: type[Message]
    streams: bool


_SERVICES: Final[Any] = DESCRIPTOR.services_by_name
METHODS: Final[Mapping[str, Method]] = {
    method.name: Method(
        name=method.name,
        path=f"/{service.full_name}/{method.name}",
        request=GetMessageClass(method.input_type),
        response=GetMessageClass(method.output_type),
        streams=bool(method.server_streaming),
    )
    for service in _SERVICES.values()
    for method in service.methods
}
"""Maps method names to methods. The two services have no name in common."""

CODE: Final = "FSM604"
TIMEOUT: Final = 10.0  # default timeout of a call in seconds


@dataclass(frozen=True, slots=True, kw_only=True)
class CallAnswer:
    """The result of calling the method *op*.

    ``code`` is the gRPC code in capitals. If it is ``OK``, there is a ``message``. Times are in nanoseconds since the
    epoch.
    """

    op: str
    request: Message
    start: int
    end: int
    code: str = "OK"
    detail: str = ""
    message: Any = None

    @property
    def reply(self) -> str:
        return "ok" if self.code == "OK" else self.code


class CriClient(AbstractContextManager["CriClient"]):
    """A connection to the runtime at *address*, with a limit of *timeout* seconds for each call.

    *seen* is called with the answer to each unary call. Threads may share a client.
    """

    def __init__(
        self, address: str, *, timeout: float = TIMEOUT, seen: Callable[[CallAnswer], object] | None = None
    ) -> None:
        self.address, self.timeout, self.seen = address, timeout, seen
        self._channel = grpc.insecure_channel(target(address), options=CHANNEL_OPTIONS)
        self._calls: dict[str, Callable[..., Any]] = {
            each.name: (self._channel.unary_stream if each.streams else self._channel.unary_unary)(
                each.path,
                request_serializer=each.request.SerializeToString,
                response_deserializer=each.response.FromString,
            )
            for each in METHODS.values()
        }

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        self._channel.close()

    def call(self, op: str, request: Message | None = None, *, timeout: float | None = None) -> CallAnswer:
        """Call *op* and return the answer, even if it is a gRPC error. By default, the request is empty."""
        asked = METHODS[op].request() if request is None else request
        start = time.time_ns()
        code, detail, message = "OK", "", None
        try:
            message = self._calls[op](asked, timeout=self.timeout if timeout is None else timeout)
        except grpc.RpcError as error:
            code, detail = _status(error)
        except ValueError as error:  # raised by gRPC for a closed channel
            code, detail = "CANCELED", str(error)
        end = time.time_ns()
        answer = CallAnswer(op=op, request=asked, start=start, end=end, code=code, detail=detail, message=message)
        if self.seen is not None:
            self.seen(answer)
        return answer

    def events(self, *, timeout: float) -> "EventStream":
        name = "GetContainerEvents"
        return EventStream(self._calls[name](METHODS[name].request(), timeout=timeout))

    def version(self) -> VersionResponse:
        answer = self.call("Version", VersionRequest(version="v1"))
        if answer.code == "OK" and isinstance(answer.message, VersionResponse) and answer.message.runtime_name:
            return answer.message
        raise self._foreign_server_error(answer)

    def _foreign_server_error(self, answer: CallAnswer) -> InputError:
        what = f"the server is not a CRI runtime: it answered Version with {answer.code}: {answer.detail}"
        hint = "name the socket of a CRI runtime, such as unix:///run/containerd/containerd.sock"
        if answer.code == "UNIMPLEMENTED" and self._has_older_api():
            what = "the runtime supports only runtime.v1alpha2, an older API than runtime.v1"
            hint = "use a newer runtime: containerd supports runtime.v1 since 1.6, and CRI-O since 1.23"
        elif answer.code == "UNIMPLEMENTED":
            what = f"the server is not a CRI runtime: it has no Version ({answer.detail})"
        elif answer.code == "OK":
            what = "the server is not a CRI runtime: its Version has no runtime name"
        elif answer.code == "DEADLINE_EXCEEDED":
            what = f"the server has not answered Version within {self.timeout:g} s"
            hint = f"the runtime hangs, or the server does not speak gRPC; {hint}"
        return refused(self.address, CODE, what, hint)

    def _has_older_api(self) -> bool:
        raw: Callable[..., Any] = self._channel.unary_unary(OLDER, request_serializer=None, response_deserializer=None)
        try:
            raw(b"", timeout=self.timeout)
        except grpc.RpcError:
            return False
        return True


class EventStream:
    """Iterates over container events. Once it has ended, ``code`` and ``detail`` hold the status of the stream."""

    def __init__(self, stream: Any) -> None:  # noqa: ANN401  (a call of gRPC)
        self._stream = stream
        self.code = ""
        self.detail = ""

    def __iter__(self) -> Iterator[Any]:
        try:
            yield from self._stream
        except grpc.RpcError as error:
            self.code, self.detail = _status(error)
        else:
            self.code = "OK"

    def close(self) -> None:
        self._stream.cancel()


def connected(
    address: str, *, timeout: float = TIMEOUT, seen: Callable[[CallAnswer], object] | None = None
) -> tuple[CriClient, VersionResponse]:
    """Return a client of the runtime at *address*, and the answer to Version.

    Raise :class:`InputError` if nothing listens at *address*, or if the listener does not support CRI v1.
    """
    reached(address)
    client = CriClient(address, timeout=timeout, seen=seen)
    try:
        return client, client.version()
    except BaseException:
        client.close()
        raise


def _status(error: Any) -> tuple[str, str]:  # noqa: ANN401  (an RpcError that is also a call)
    if isinstance(error, DecodeError):
        return "INTERNAL", str(error)
    return capitals(error.code().name), error.details() or ""
