"""Standard streams of processes in containers, for the clients that are connected to them."""

import asyncio
from dataclasses import replace
from typing import Final

from fsm.runtimes.reference.node.node_containers import RUNNING, NodeContainers
from fsm.runtimes.reference.node.workloads import Workload, Write

BUFFER: Final = 1 << 16


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
    return await found.world.workload.execute(replace(found.plan.command, words=words), write, given)


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
    feeding = asyncio.create_task(_feed(workload, given, ends=found.plan.command.once))
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
