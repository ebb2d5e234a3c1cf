"""Run the reference implementation as a CRI server, with a client that records its calls."""

from __future__ import annotations

import asyncio
import random
import threading
from collections.abc import Callable, Iterator
from contextlib import AsyncExitStack, contextmanager
from pathlib import Path
from typing import Any, Self

from fsm.runtimes.live.call_recording import CallRecording
from fsm.runtimes.reference.node import ServedNode
from fsm.runtimes.sockets import cri_pb2 as cri
from fsm.runtimes.sockets.cri_client import METHODS, CallAnswer, CriClient
from fsm.runtimes.sockets.cri_server import serving
from fsm.runtimes.sockets.nri_relays import NodePlugins, with_plugins

CALLS = (
    "StartContainer",
    "StopContainer",
    "RemoveContainer",
    "ContainerStatus",
    "ExecSync",
    "Exec",
    "Attach",
    "ReopenContainerLog",
    "UpdateContainerResources",
    "ContainerStats",
    "CheckpointContainer",
)
POD_CALLS = ("StopPodSandbox", "RemovePodSandbox", "PodSandboxStatus", "PortForward", "UpdatePodSandboxResources")
COMMANDS = (("sleep", "60"), ("true",), ("exit", "3"), ("no-such-command",), ("sleep", "0.01"))


@contextmanager
def served(
    folder: Path,
    *,
    profile: str = "",
    processes: bool = False,
    plugins: NodePlugins | None = None,
    kept: bool = False,
    deviates: Callable[[], bool] = bool,
) -> Iterator[str]:
    """Run a server in a thread, and yield its address.

    With *plugins*, NRI plugins may connect to ``nri.sock``. With *kept*, the state is kept in *folder*, and the next
    server in the same folder restores it.
    """
    address = f"unix://{folder / 'cri.sock'}"
    up, ends = threading.Event(), list[tuple[asyncio.AbstractEventLoop, asyncio.Event]]()

    async def serve() -> None:
        send = plugins.send if plugins else None
        node = ServedNode(
            folder / "node", profile=profile, processes=processes, kept=kept, deviates=deviates, send=send
        )
        async with AsyncExitStack() as stack:
            await stack.enter_async_context(serving(address, node))
            if plugins is not None:
                await stack.enter_async_context(with_plugins(f"unix://{folder / 'nri.sock'}", plugins, node))
            over = asyncio.Event()
            ends.append((asyncio.get_running_loop(), over))
            up.set()
            await over.wait()

    thread = threading.Thread(target=lambda: asyncio.run(serve()), name="server")
    thread.start()
    try:
        assert up.wait(20)
        yield address
    finally:
        loop, over = ends[0]
        loop.call_soon_threadsafe(over.set)
        thread.join()


class ServedClient:
    def __init__(self, address: str, record: Path | None = None) -> None:
        self.recording = CallRecording(record) if record else None
        self.client = CriClient(address, timeout=20, seen=self._seen)
        self._names = 0

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.client.close()
        if self.recording:
            self.recording.close()

    def _seen(self, answer: CallAnswer) -> None:
        if self.recording:
            self.recording.take(answer)

    def call(self, op: str, *, give_up: float | None = None, **fields: Any) -> CallAnswer:  # noqa: ANN401  (of any message)
        return self.client.call(op, METHODS[op].request(**fields), timeout=give_up)

    def codes(self, *calls: tuple[str, dict[str, Any]]) -> list[str]:
        return [self.call(op, **fields).code for op, fields in calls]

    def run(self, name: str = "", **fields: Any) -> CallAnswer:  # noqa: ANN401
        self._names += 1
        metadata = cri.PodSandboxMetadata(name=name or f"pod-{id(self)}-{self._names}", uid="u", namespace="n")
        return self.call("RunPodSandbox", config=cri.PodSandboxConfig(metadata=metadata, **fields))

    def pod(self, name: str = "", **fields: Any) -> str:  # noqa: ANN401
        answer = self.run(name, **fields)
        return str(answer.message.pod_sandbox_id)

    def create(self, pod: str, *command: str, name: str = "", image: str = "busybox", **fields: Any) -> CallAnswer:  # noqa: ANN401
        self._names += 1
        config = cri.ContainerConfig(
            metadata=cri.ContainerMetadata(name=name or f"container-{id(self)}-{self._names}"),
            image=cri.ImageSpec(image=image),
            command=command,
            **fields,
        )
        return self.call("CreateContainer", pod_sandbox_id=pod, config=config)

    def container(self, pod: str, *command: str, started: bool = False, **fields: Any) -> str:  # noqa: ANN401
        identity = str(self.create(pod, *command, **fields).message.container_id)
        if started:
            assert self.call("StartContainer", container_id=identity).code == "OK"
        return identity

    def status(self, container: str) -> Any:  # noqa: ANN401
        return self.call("ContainerStatus", container_id=container).message.status

    def state(self, container: str) -> str:
        answer = self.call("ContainerStatus", container_id=container)
        return cri.ContainerState.Name(answer.message.status.state) if answer.code == "OK" else answer.code

    def exited(self, container: str) -> Any:  # noqa: ANN401
        for _ in range(2_000):
            status = self.status(container)
            if status.state == cri.CONTAINER_EXITED:
                return status
            threading.Event().wait(0.005)
        raise AssertionError("it has not ended")

    def wander(self, steps: int, seed: int, pods: list[str], containers: list[str]) -> None:
        """Make random calls on pods and containers, and add new ones to the lists.

        Some of the calls are followed by a status call.
        """
        chance = random.Random(seed)
        for _ in range(steps):
            kind = chance.random()
            if kind < 0.05 or not pods:
                pods.append(self.pod())
            elif kind < 0.25 or not containers:
                made = self.create(chance.choice(pods), *chance.choice(COMMANDS))
                containers += [made.message.container_id] if made.code == "OK" else []
            elif kind < 0.4:
                self.call(chance.choice(POD_CALLS), pod_sandbox_id=chance.choice(pods))
            else:
                # The newest containers are chosen, because more calls are possible on them.
                one = chance.choice(containers[-4:])
                op = chance.choice(CALLS)
                fields: dict[str, Any] = {"cmd": ["true"]} if op in {"ExecSync", "Exec"} else {}
                fields |= {"stdout": True} if op in {"Exec", "Attach"} else {}
                self.call(op, container_id=one, **fields)
                if chance.random() < 0.5:
                    self.call("ContainerStatus", container_id=one)
