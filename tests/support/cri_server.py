"""A CRI server in this process, with a function for each method."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import grpc

from fsm.runtimes.sockets.cri_client import METHODS
from fsm.runtimes.sockets.cri_pb2 import VersionResponse

Answering = Callable[[Any, grpc.ServicerContext], Any]

VERSION: dict[str, Answering] = {
    "Version": lambda _request, _context: VersionResponse(
        version="0.1.0", runtime_name="fake", runtime_version="1.0", runtime_api_version="v1"
    )
}


class _Handlers(grpc.GenericRpcHandler):
    def __init__(self, answers: Mapping[str, Answering], older: bool) -> None:  # noqa: FBT001
        self.answers = answers
        self.older = older

    def service(self, call: grpc.HandlerCallDetails) -> grpc.RpcMethodHandler[Any, Any] | None:
        if self.older and call.method == "/runtime.v1alpha2.RuntimeService/Version":
            return grpc.unary_unary_rpc_method_handler(lambda _request, _context: b"")
        method = next((each for each in METHODS.values() if each.path == call.method), None)
        answer = self.answers.get(method.name) if method is not None else None
        if method is None or answer is None:
            return None
        kind = grpc.unary_stream_rpc_method_handler if method.streams else grpc.unary_unary_rpc_method_handler
        return kind(
            answer,
            request_deserializer=method.request.FromString,
            response_serializer=method.response.SerializeToString,
        )


@contextmanager
def serving(path: Path, answers: Mapping[str, Answering] = VERSION, *, older: bool = False) -> Iterator[grpc.Server]:
    with ThreadPoolExecutor(max_workers=8) as threads:
        server = grpc.server(threads, handlers=[_Handlers(answers, older)])
        server.add_insecure_port(f"unix:{path}")
        server.start()
        try:
            yield server
        finally:
            server.stop(grace=0).wait(5)
