"""Exec, Attach and PortForward streams of the served node: the standard streams of its processes, for their clients."""

import asyncio
from collections.abc import Callable
from dataclasses import replace
from functools import partial

from fsm.runtimes.names import RUNNING
from fsm.runtimes.reference.node.node_containers import NodeContainers
from fsm.runtimes.reference.node.node_service import ServedNode
from fsm.runtimes.reference.node.workloads import Workload, Write
from fsm.runtimes.sockets import cri_pb2 as cri
from fsm.runtimes.sockets.stream_channels import BUFFER, connected
from fsm.runtimes.sockets.streaming import OfferedCommand, OfferedPorts, StreamServer


async def run_in(
    containers: NodeContainers, identity: str, words: tuple[str, ...], write: Write, given: asyncio.StreamReader | None
) -> int:
    """Run a command in the container *identity* with its standard streams. Return its exit code.

    Raise :class:`~fsm.runtimes.reference.driven.CallError` if the container is not running, or
    :class:`~fsm.runtimes.reference.driven.WorldError` if there is no such command.
    """
    found = containers.find(identity, "exec")
    if found.world.workload is None or found.shows != RUNNING:
        containers.use("exec", identity)
        return 0
    return await found.world.workload.execute(replace(found.command, words=words), write, given)


async def attach(containers: NodeContainers, identity: str, write: Write, given: asyncio.StreamReader | None) -> int:
    """Connect the standard streams of the first process of the container *identity* until it exits. Return 0.

    The end of the client's input ends the process's input only if that was made for a single client. Raise the same
    errors as :func:`run_in`.
    """
    found = containers.find(identity, "attach")
    workload = found.world.workload
    if workload is None or found.shows != RUNNING:
        containers.use("attach", identity)
        return 0
    workload.readers.add(write)
    feeding = asyncio.create_task(_feed(workload, given, ends=found.config.stdin_once))
    try:
        await workload.ended()
    finally:
        workload.readers.discard(write)
        feeding.cancel()
    return 0


async def _feed(workload: Workload, given: asyncio.StreamReader | None, *, ends: bool) -> None:
    while given and (data := await given.read(BUFFER)):
        workload.feed(data)
    if given and ends:
        workload.feed(b"")


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

        It connects to ports of this machine if the node runs real processes. Otherwise, every connection is refused.
        """
        return await self.offer("portforward", OfferedPorts(connect=connected if self._node.processes else _refused))


async def _refused(_port: int, _given: asyncio.StreamReader, _send: Callable[[bytes], None]) -> None:
    raise ConnectionRefusedError("connection refused: nothing listens in a simulated pod")
