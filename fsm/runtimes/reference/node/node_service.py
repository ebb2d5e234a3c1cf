"""The calls on a node: its pods, their containers, its images, and the events of all pods and containers."""

import asyncio
import time
from collections import deque
from collections.abc import Callable, Coroutine, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from ipaddress import IPv4Network
from itertools import count
from pathlib import Path
from typing import Any, Final, Self, TypeVar

from fsm.machine.versions import Bounded, unknown_profile
from fsm.runtimes.names import CREATED, READY, RUNNING
from fsm.runtimes.reference.clock import Clock
from fsm.runtimes.reference.container.container import MACHINE as CONTAINERS
from fsm.runtimes.reference.container.record import Status
from fsm.runtimes.reference.driven import ABSENT, UNKNOWN, CallError, WorldError, driver, is_noop, raise_reply, refusal
from fsm.runtimes.reference.events.queue import EventQueue
from fsm.runtimes.reference.node.child_processes import ChildProcess
from fsm.runtimes.reference.node.command import ContainerRecord, Limits
from fsm.runtimes.reference.node.error_words import AmbiguousIdError, full_id, of_pod
from fsm.runtimes.reference.node.images import Images
from fsm.runtimes.reference.node.node_containers import NodeContainer, NodeContainers
from fsm.runtimes.reference.node.records import Records
from fsm.runtimes.reference.node.relays import PluginSender, Relays
from fsm.runtimes.reference.node.simulated_processes import resumed, simulated
from fsm.runtimes.reference.node.workloads import SimulatedPause
from fsm.runtimes.reference.nri import messages
from fsm.runtimes.reference.pods.metadata import Metadata, PodStatus
from fsm.runtimes.reference.pods.service import MACHINE as PODS
from fsm.runtimes.reference.pods.service import Pods
from fsm.runtimes.reference.pods.surroundings import Leases, PodObserver
from fsm.runtimes.reference.sandbox.controller import MACHINE as CONTROLLER
from fsm.runtimes.reference.sandbox.controller import Controller
from fsm.runtimes.reference.sandbox.processes import Processes
from fsm.runtimes.reference.sandbox.upstream import UpstreamController
from fsm.runtimes.sockets import cri_pb2 as cri

T = TypeVar("T")

NETWORK: Final = IPv4Network("10.88.0.0/16")
FIRST_PID: Final = 1_000
HANDLERS: Final = frozenset({"", "runc"})
"""Runtime handlers that a pod may request. They do not differ."""


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeEvent:
    """A container or pod was ``created``, ``started``, ``stopped`` or ``deleted``.

    ``pod`` is its pod at that time, or ``None`` if the pod did not exist or had no status. ``containers`` are the pod's
    containers.
    """

    id: str
    what: str
    at: int
    pod: tuple[cri.RunPodSandboxRequest, PodStatus] | None
    containers: tuple[tuple[NodeContainer, Status], ...]


class ServedNode(PodObserver):
    """A node with its state in *folder*, under *profile* if one is named.

    Its containers are simulated unless *processes* is true. If the profile allows refusing a call, *deviates()* decides
    whether the call is refused. If *kept*, the node restores the pods and containers that an earlier node left in the
    directory, and leaves its own there. Simulated containers have kept running in between, but processes have ended. It
    belongs to one event loop.

    >>> import tempfile
    >>> async def example(folder: str) -> None:
    ...     async with ServedNode(Path(folder)) as node:
    ...         pod = await node.run_pod(cri.RunPodSandboxRequest())
    ...         config = cri.ContainerConfig(image=cri.ImageSpec(image="busybox"), command=["sh", "-c", "exit 3"])
    ...         container = await node.create_container(cri.CreateContainerRequest(pod_sandbox_id=pod, config=config))
    ...         await node.containers.start(container[:8])
    ...         await node.containers.halt(container, 10)
    ...         print(node.containers.status(container)[1].exit_code)
    ...         await node.remove_pod(pod)
    ...         print(node.pods(), node.containers.store)
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     asyncio.run(example(folder))
    3
    {} {}
    """

    def __init__(
        self,
        folder: Path,
        *,
        profile: str = "",
        processes: bool = False,
        kept: bool = False,
        deviates: Callable[[], bool] = bool,
        plugins: PluginSender | None = None,
        clock: Clock | None = None,
    ) -> None:
        self.profile = profile
        self.processes = processes
        self.clock = clock or Clock()
        records = folder / "records" if kept else None
        self.kept = kept
        self._deviates = deviates
        self.images = Images(kept=Records(records and records / "images", list[str]))
        self._kept_pods = Records(records and records / "pods", cri.RunPodSandboxRequest)
        self.events: EventQueue[NodeEvent] = EventQueue(bool, clock=self.clock)
        self.plans: dict[str, cri.RunPodSandboxRequest] = {}
        self.relays = Relays(plugins, applicable(profile, "nri-container"))
        self._running: dict[str, cri.RunPodSandboxRequest] = {}
        self._unsent: deque[NodeEvent] = deque()
        self.containers = NodeContainers(
            folder / "containers",
            launch=ChildProcess if processes else simulated(count(FIRST_PID).__next__, self.clock),
            resume=None if processes else lambda record: resumed(record, self.clock),
            kept=Records(records and records / "containers", ContainerRecord),
            ready=lambda pod: self.pods().get(pod) == READY,
            notice=self._container_notice,
            relays=self.relays,
            profile=applicable(profile, CONTAINERS),
            deviates=deviates,
        )
        pause = Processes if processes else SimulatedPause
        controller = UpstreamController if applicable(profile, CONTROLLER) else Controller
        self._folder = folder
        self._controller = controller(lambda pod: pause(folder / "pauses" / pod), self.clock, on_exit=self._pod_exited)
        self._pods = Pods(
            folder / "pods",
            self._controller,
            Leases(folder / "network", NETWORK),
            self.containers,
            self.clock,
            profile=applicable(profile, PODS),
            observer=self,
        )

    async def __aenter__(self) -> Self:
        (self._folder / "pauses").mkdir(parents=True, exist_ok=True)
        await self._controller.__aenter__()
        self.containers.tasks.start(self.events.run())
        if self.kept:
            self.plans.update(self._kept_pods.load())
            await self._pods.recover()
            for each in self.plans.keys() - self.pods().keys():
                await self.removed(each)
            self.containers.recover(self._told)
            if not self.relays.release:
                self._remember()
        return self

    async def __aexit__(self, *_: object) -> None:
        """End everything that runs. The kept records do not show that."""
        self.events.shutdown()
        await self.containers.close()
        for pod in () if self.kept else self.pods():
            with suppress(CallError):
                await self._pods.stop(pod)
        await self._pods.close()
        await self._controller.close()
        await self.relays.close()

    def _remember(self) -> None:
        """Restore the relays' states, so that plugins learn when pods and containers end, unlike in containerd."""
        for pod, shows in self.pods().items():
            self.relays.pods.take(pod, "run-pod-sandbox", "ok")
            if shows != READY:
                self.relays.pods.take(pod, "stop-pod-sandbox", "ok")
        self.relays.synchronise(each.told() for each in self.containers.store.values())

    def pods(self) -> dict[str, str]:
        """Map the id of each pod to the state that it shows."""
        return self._pods.list()

    def find_pod(self, given: str, event: str) -> str:
        """Return the id of the pod that *given* stands for, or *given* if there is none. *event* is the call."""
        try:
            return full_id(given, self.pods())
        except AmbiguousIdError as error:
            raise CallError(event, UNKNOWN, f'an error occurred when try to find sandbox "{given}": {error}') from None

    async def run_pod(self, plan: cri.RunPodSandboxRequest) -> str:
        async def run() -> str:
            async with self.relays.blocking():
                pod = await self._pods.run(name)
            await self._notice(pod, pod, "created")
            await self._notice(pod, pod, "started")
            return pod

        name = _full_name(plan.config.metadata)
        known = self._pods.names.get(name)
        if known or name in self._running:
            why = f'name "{name}" is reserved for "{known or ""}"'
            raise CallError("run", UNKNOWN, f'failed to reserve sandbox name "{name}": {why}')
        self._running[name] = plan
        try:
            return await self._call("run", "", run())
        finally:
            del self._running[name]

    async def stop_pod(self, given: str) -> None:
        pod = self.find_pod(given, "stop")
        async with self.relays.blocking():
            await self._call("stop", given, self._pods.stop(pod))

    async def remove_pod(self, given: str) -> None:
        pod = self.find_pod(given, "remove")
        async with self.relays.blocking():
            await self._call("remove", given, self._pods.remove(pod))

    def listed_pods(self) -> tuple[tuple[cri.RunPodSandboxRequest, Metadata], ...]:
        """Return all pods, without querying their worlds."""
        return tuple((self.plans[each.id], each) for each in self._pods.listed() if each.id in self.plans)

    def pod_status(self, given: str) -> tuple[cri.RunPodSandboxRequest, PodStatus]:
        pod = self.find_pod(given, "status")
        found = self._checked("status", given, lambda: self._pods.status(pod))
        return self.plans[pod], found

    def forward(self, given: str) -> None:
        """Prepare a stream to ports of a pod."""
        pod = self.find_pod(given, "port-forward")
        self._checked("port-forward", given, lambda: self._pods.port_forward(pod))

    async def update_pod(self, given: str, limits: Limits) -> None:
        pod = self.find_pod(given, "update-resources")
        numbers = {name: each for name, each in limits.items() if isinstance(each, int)}
        self._checked("update-resources", given, lambda: self._pods.update_resources(pod, numbers))

    async def create_container(self, request: cri.CreateContainerRequest) -> str:
        """Create a container as in *request*, but with the configuration that its pod has. Return its id."""
        given, config = request.pod_sandbox_id, request.config
        pod = self.find_pod(given, "create-container")
        around, made = self.plans.get(pod, cri.RunPodSandboxRequest()).config, list[str]()
        request.pod_sandbox_id = pod
        request.sandbox_config.CopyFrom(around)

        async def create() -> None:
            image = self.images.find(config.image.image)
            if image is None:
                raise WorldError(f'failed to resolve image "{config.image.image}": not found')
            reserved = f"{config.metadata.name}_{_full_name(around.metadata)}_{config.metadata.attempt}"
            record = ContainerRecord(request=request, reserved=reserved, image=image)
            async with self.relays.blocking():
                made.append(await self.containers.make(self._told(pod), record))

        await self._call("create-container", given, self._pods.create_container(pod, create))
        return made[0]

    async def runs(self, _pod: str) -> None:
        plan = self._plan_of(_pod)
        if plan.runtime_handler not in HANDLERS:
            raise WorldError(f'failed to get sandbox runtime: no runtime for "{plan.runtime_handler}" is configured')
        self.plans[_pod] = plan
        self._kept_pods.save(_pod, plan)
        try:
            await self.relays.tell("run-pod-sandbox", self._told(_pod))
        except WorldError as error:
            await self.relays.mention("stop-pod-sandbox", self._told(_pod))
            raise WorldError(f"NRI RunPodSandbox failed: {error}") from error

    async def stopped(self, _pod: str) -> None:
        await self.relays.mention("stop-pod-sandbox", self._told(_pod))

    async def removed(self, _pod: str) -> None:
        if _pod in self.plans:
            if _pod in self.pods():  # not left over from a failed run
                await self._notice(_pod, _pod, "deleted")
            await self.relays.mention("remove-pod-sandbox", self._told(_pod))
            del self.plans[_pod]
            self._kept_pods.delete(_pod)

    def told_pods(self) -> Sequence[messages.Pod]:
        """Return the pods as joining plugins receive them."""
        return [self._told(each) for each in [*self.pods()]]

    def told_containers(self) -> Sequence[messages.Container]:
        """Return the containers that are created or running, as joining plugins receive them."""
        return [each.told() for each in [*self.containers.store.values()] if each.shows in {CREATED, RUNNING}]

    def _plan_of(self, pod: str) -> cri.RunPodSandboxRequest:
        name = next(name for name, holder in self._pods.names.items() if holder == pod)
        return self._running[name]

    def _told(self, pod: str) -> messages.Pod:
        metadata = self.plans.get(pod, cri.RunPodSandboxRequest()).config.metadata
        return messages.Pod(id=pod, name=metadata.name, namespace=metadata.namespace)

    def _pod_exited(self, pod: str) -> None:
        if pod in self.plans:
            self._happened(pod, pod, "stopped")
            self.containers.tasks.start(self._send())

    async def _container_notice(self, container: NodeContainer, what: str) -> None:
        await self._notice(container.id, container.pod.id, what)

    async def _notice(self, identity: str, pod: str, what: str) -> None:
        self._happened(identity, pod, what)
        await self._send()

    def _happened(self, identity: str, pod: str, what: str) -> None:
        status = None
        if pod in self.plans and pod in self.pods():
            with suppress(CallError):
                status = self.plans[pod], self._pods.status(pod)
        containers = tuple((each, each.status()) for each in self.containers.of(pod))
        self._unsent.append(NodeEvent(id=identity, what=what, at=time.time_ns(), pod=status, containers=containers))

    async def _send(self) -> None:
        while self._unsent:
            await self.events.send(self._unsent.popleft())

    async def _call(self, event: str, given: str, call: Coroutine[Any, Any, T]) -> T:
        pod = self.find_pod(given, event) if given else ""
        try:
            self._deviate(pod, event)
        except CallError:
            call.close()
            raise
        shows, refused = self._shows(pod), self._refuses(pod, event)
        try:
            return await asyncio.shield(self.containers.tasks.start(call))
        except CallError as error:
            raise self._worded(error, event, given, shows, refused=refused) from None

    def _checked(self, event: str, given: str, act: Callable[[], T]) -> T:
        pod = self.find_pod(given, event)
        self._deviate(pod, event)
        shows, refused = self._shows(pod), self._refuses(pod, event)
        try:
            return act()
        except CallError as error:
            raise self._worded(error, event, given, shows, refused=refused) from None

    def _deviate(self, pod: str, event: str) -> None:
        position = self._pods.position(pod)
        if self._deviates() and (way := refusal(position, event)):
            position.take(event, way.name)
            raise_reply(event, way, f"failed to destroy network for sandbox {pod!r}: not released")

    def _worded(self, error: CallError, event: str, given: str, shows: str, *, refused: bool) -> CallError:
        return CallError(event, error.code, of_pod(event, given, shows) if refused else error.why)

    def _shows(self, pod: str) -> str:
        return self.pods().get(pod, ABSENT)

    def _refuses(self, pod: str, event: str) -> bool:
        position = self._pods.position(pod)
        return event != "run" and is_noop(position, event)


def _full_name(pod: cri.PodSandboxMetadata) -> str:
    return f"{pod.name}_{pod.namespace}_{pod.uid}_{pod.attempt}"


def applicable(profile: str, machine: str) -> str:
    """Return the names in *profile*, joined by ``+``, that are profiles of *machine* or versions of one.

    >>> applicable("upstream+containerd-1.6", "container-status")
    'containerd-1.6'
    """
    profiles: list[Mapping[str, Bounded]] = [driver(machine).machine.profiles]
    return "+".join(each for each in filter(None, profile.split("+")) if unknown_profile(each, profiles) is None)
