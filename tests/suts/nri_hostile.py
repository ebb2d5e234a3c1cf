"""NRI plugins that break the protocol, or do not end: ``nri_hostile.py WAY``.

``garbage``, ``nonsense``, ``huge`` and ``twice`` are wrong answers to an event, and ``deaf`` is no answer. ``wants``
requests an update during synchronisation, and ``asks`` requests updates endlessly after an event. ``registers-twice``
registers a second time. ``forks`` leaves a child process behind. ``babbles`` writes to its standard output and error.
``stays`` ignores every signal.
"""

from __future__ import annotations

import asyncio
import os
import signal
import socket
import struct
import subprocess
import sys
import time
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING

from fsm.runtimes.sockets import nri_pb2 as nri
from fsm.runtimes.sockets.nri_link import CONNECTIONS, PLUGIN, RUNTIME, Multiplexer
from fsm.runtimes.sockets.ttrpc import Client, MessageDecoder, MessageKind, RpcError, encoded
from fsm.runtimes.sockets.ttrpc_pb2 import Request, Response, Status

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

WAY = sys.argv[-1]
NOBODYS = nri.SynchronizeResponse(update=[nri.ContainerUpdate(container_id="nobody's")])
TOLD = asyncio.Event()


async def answer(send: Callable[[bytes], Awaitable[None]], stream: int, data: bytes) -> None:
    asked = Request.FromString(data).method
    payload = NOBODYS.SerializeToString() if asked == "Synchronize" and WAY == "wants" else b""
    reply = encoded(stream, MessageKind.RESPONSE, Response(status=Status(), payload=payload).SerializeToString())
    if asked in {"Configure", "Synchronize"}:
        await send(reply)
    elif WAY == "garbage":
        await send(b"\xff" * 64)
    elif WAY == "nonsense":
        await send(encoded(stream, MessageKind.RESPONSE, b"\xff" * 64))
    elif WAY == "huge":
        await send(struct.pack(">IIBB", 5 << 20, stream, MessageKind.RESPONSE, 0))
        await send(b"x" * (5 << 20))
    elif WAY == "deaf":
        time.sleep(1000)  # noqa: ASYNC251  (nothing is read meanwhile)
    else:
        await send(reply)
        TOLD.set()
        if WAY == "twice":
            await send(reply)


async def main() -> None:
    mux = Multiplexer(*await asyncio.open_unix_connection(sock=socket.socket(fileno=3)))
    decoder = MessageDecoder()

    async def asked(data: bytes) -> None:
        for message in decoder.messages(data):
            await answer(send, message.stream, message.data or b"")

    send = partial(mux.send, CONNECTIONS[PLUGIN])
    client = Client(partial(mux.send, CONNECTIONS[RUNTIME]))
    mux.takers = {CONNECTIONS[PLUGIN]: asked, CONNECTIONS[RUNTIME]: client.received}
    running = asyncio.create_task(mux.run())
    request = nri.RegisterPluginRequest(plugin_name="hostile", plugin_idx="10")
    await client.call(RUNTIME, "RegisterPlugin", request, nri.Empty, 5)
    if WAY == "registers-twice":
        with suppress(RpcError):
            await client.call(RUNTIME, "RegisterPlugin", request, nri.Empty, 5)
    while WAY == "asks" and not running.done():
        await TOLD.wait()
        update = nri.UpdateContainersRequest(update=NOBODYS.update)
        with suppress(RpcError):
            await client.call(RUNTIME, "UpdateContainers", update, nri.UpdateContainersResponse, 5)
    await running


if __name__ == "__main__":
    if WAY == "forks":
        subprocess.Popen(["sleep", "1234"], start_new_session=True)  # noqa: S607
    if WAY == "babbles" and not os.fork():
        while True:
            os.write(1, b"babble " * 1000)
            os.write(2, b"babble\n" * 1000)
    if WAY == "stays":
        for each in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
            signal.signal(each, signal.SIG_IGN)
    asyncio.run(main())
    while WAY == "stays":
        time.sleep(1)
