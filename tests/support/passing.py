"""Run a proxy in a thread, in front of a gRPC server that echoes each message."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import grpc

from fsm.runtimes.live.faults import FaultRules
from fsm.runtimes.live.passing_calls import PassedCall
from fsm.runtimes.live.proxy import Proxy
from fsm.runtimes.sockets.unix_sockets import listening

OPTIONS = (
    ("grpc.enable_http_proxy", 0),
    ("grpc.default_authority", "localhost"),
    ("grpc.use_local_subchannel_pool", 1),
    ("grpc.max_receive_message_length", -1),
    ("grpc.max_send_message_length", -1),
    ("grpc.max_metadata_size", 1 << 20),
    ("grpc.absolute_max_metadata_size", 1 << 20),
)


class Echo(grpc.GenericRpcHandler):
    """A server that echoes all messages of any method, and the caller's metadata at both ends of the call.

    The metadata keys ``code`` and ``text-bin`` set the status of the call. The received messages are kept.
    """

    def __init__(self) -> None:
        self.methods: list[str] = []
        self.canceled: list[bytes] = []
        self.asked: list[bytes] = []
        self.deadlines: list[float | None] = []

    def service(self, call: grpc.HandlerCallDetails) -> grpc.RpcMethodHandler[Any, Any]:
        self.methods.append(call.method)
        return grpc.stream_stream_rpc_method_handler(self._wait if call.method.endswith("Wait") else self._echo)

    def _echo(self, messages: Iterator[bytes], context: grpc.ServicerContext) -> Iterator[bytes]:
        sent = tuple(each for each in context.invocation_metadata() if each[0].startswith("x-"))
        self.deadlines.append(context.time_remaining())
        context.send_initial_metadata(sent)
        for each in messages:
            self.asked.append(each)
            yield each
        status: dict[str, Any] = dict(context.invocation_metadata())
        context.set_trailing_metadata((("x-end", "yes"), *sent))
        if "code" in status:
            context.set_code(next(each for each in grpc.StatusCode if each.name == status["code"]))
            context.set_details(status.get("text-bin", b"").decode())

    def _wait(self, messages: Iterator[bytes], context: grpc.ServicerContext) -> Iterator[bytes]:
        over = threading.Event()
        context.add_callback(over.set)
        asked = next(messages)
        self.asked.append(asked)
        yield b"begun"
        over.wait(5)
        if not context.is_active():
            self.canceled.append(asked)


@contextmanager
def echoing(path: Path) -> Iterator[Echo]:
    echo = Echo()
    with ThreadPoolExecutor(max_workers=8) as threads:
        server = grpc.server(threads, handlers=[echo], options=OPTIONS)
        server.add_insecure_port(f"unix:{path}")
        server.start()
        try:
            yield echo
        finally:
            server.stop(grace=0).wait(5)


@dataclass(slots=True, kw_only=True)
class Passing:
    proxy: Proxy
    calls: list[PassedCall] = field(default_factory=list)
    said: list[str] = field(default_factory=list)
    end: Callable[[], None] = lambda: None

    def until(self, number: int) -> list[PassedCall]:
        wait_for(lambda: len(self.calls) >= number)
        return self.calls


def wait_for(what: Callable[[], bool], met: Sequence[object] = ()) -> None:
    """Wait until a condition holds, but at most for a minute.

    If the condition does not hold by then, the error message contains the last two values in *met*.
    """
    ends = time.monotonic() + 60
    while not what():
        assert time.monotonic() < ends, f"it did not happen; the last met: {met[-2:]}"
        time.sleep(0.001)


@contextmanager
def passing(listen: Path, to: Path, rules: FaultRules | None = None, *, grace: float = 0) -> Iterator[Passing]:
    calls: list[PassedCall] = []
    said: list[str] = []
    stop = asyncio.Event()

    with listening(f"unix:{listen}") as listener, asyncio.Runner() as runner:
        listener.listen()
        proxy = Proxy(listener, str(to), ended=calls.append, rules=rules, say=said.append)
        loop = runner.get_loop()
        thread = threading.Thread(target=runner.run, args=(proxy.run(stop, grace=grace),))
        thread.start()

        def end() -> None:
            if thread.is_alive():
                loop.call_soon_threadsafe(stop.set)
                thread.join(10)

        try:
            yield Passing(proxy=proxy, calls=calls, said=said, end=end)
        finally:
            end()


def channel(path: Path) -> grpc.Channel:
    return grpc.insecure_channel(f"unix:{path}", options=OPTIONS)
