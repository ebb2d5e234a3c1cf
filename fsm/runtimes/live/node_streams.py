"""Exec, Attach and PortForward streams of the served node."""

import asyncio
from collections.abc import Callable
from functools import partial

from fsm.runtimes.live import cri_pb2 as cri
from fsm.runtimes.live.stream_channels import connected
from fsm.runtimes.live.streaming import OfferedCommand, OfferedPorts, StreamServer
from fsm.runtimes.reference.node.container_streams import attach, run_in
from fsm.runtimes.reference.node.node_service import ServedNode


class NodeStreams(StreamServer):
    """Serves the streams of the containers and pods of *node*."""

    def __init__(self, node: ServedNode) -> None:
        super().__init__()
        self._node = node

    async def command(self, container: str, request: cri.ExecRequest | cri.AttachRequest) -> str:
        """Return the URL of the streams for *request*."""
        kind, run = "attach", partial(attach, self._node.containers, container)
        if isinstance(request, cri.ExecRequest):
            kind, run = "exec", partial(run_in, self._node.containers, container, tuple(request.cmd))
        offered = OfferedCommand(
            run=run, input=request.stdin, output=request.stdout, errors=request.stderr, terminal=request.tty
        )
        return await self.offer(kind, offered)

    async def ports(self) -> str:
        """Return the URL of a port-forward stream.

        It connects to ports of this machine if the node runs real processes.  Otherwise, every connection is refused.
        """
        return await self.offer("portforward", OfferedPorts(connect=connected if self._node.processes else _refused))


async def _refused(_port: int, _given: asyncio.StreamReader, _send: Callable[[bytes], None]) -> None:
    raise ConnectionRefusedError("connection refused: nothing listens in a simulated pod")
