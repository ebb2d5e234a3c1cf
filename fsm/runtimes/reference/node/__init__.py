"""A node with its pods and containers, as a CRI client sees it.

The machines of :class:`~fsm.runtimes.reference.pods.Pods` and :class:`~fsm.runtimes.reference.container.Container`
decide which events may happen. This package combines the machines and adds names, shortened ids, images, events and
error messages. Containers run either simulated ``commands`` or processes of this machine.
"""

import time
from collections.abc import Callable, Coroutine, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import KW_ONLY, dataclass
from ipaddress import IPv4Network
from itertools import count
from pathlib import Path
from typing import Any, Final, Self

from fsm.machine.versions import Bounded, unknown_profile
from fsm.runtimes.names import CREATED, READY, RUNNING
from fsm.runtimes.reference.clock import Clock
from fsm.runtimes.reference.container import MACHINE as CONTAINERS
from fsm.runtimes.reference.container.record import Status
from fsm.runtimes.reference.container.world import Processes
from fsm.runtimes.reference.driven import UNKNOWN, CallError, WorldError, driver
from fsm.runtimes.reference.events.queue import EventQueue
from fsm.runtimes.reference.node.error_words import full_id, use_containerd_errors
from fsm.runtimes.reference.node.node_containers import NodeContainer, NodeContainers, plugin_pod
from fsm.runtimes.reference.node.records import Images, Records
from fsm.runtimes.reference.node.relays import Relays
from fsm.runtimes.reference.node.workload_processes import ChildProcess, simulated
from fsm.runtimes.reference.node.workloads import ContainerRecord, Limits, SimulatedPause
from fsm.runtimes.reference.nri import messages
from fsm.runtimes.reference.nri.connection import finish
from fsm.runtimes.reference.nri.lifecycle import SendRequest
from fsm.runtimes.reference.pods import MACHINE as PODS
from fsm.runtimes.reference.pods import Pods
from fsm.runtimes.reference.pods.sandbox_controller import MACHINE as CONTROLLER
from fsm.runtimes.reference.pods.sandbox_controller import Controller, UpstreamController
from fsm.runtimes.reference.pods.surroundings import Leases, Metadata, PodObserver, PodStatus
from fsm.runtimes.sockets import cri_pb2 as cri

NETWORK: Final = IPv4Network("10.88.0.0/16")
FIRST_PID: Final = 1_000
HANDLERS: Final = frozenset({"", "runc"})
"""Runtime handlers that a pod may request. All of them behave the same."""


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeEvent:
    """A change of a container or pod, which was ``created``, ``started``, ``stopped`` or ``deleted``.

    ``pod`` describes the pod at that time, or is ``None`` if the pod did not exist or had no status. ``containers`` are
    the containers of the pod.
    """

    id: str
    what: str
    at: int
    pod: tuple[cri.RunPodSandboxRequest, PodStatus] | None
    containers: tuple[tuple[NodeContainer, Status], ...]


@dataclass(eq=False)
class ServedNode(PodObserver):
    """A node that keeps its state in the directory ``folder``. It belongs to one event loop.

    Containers are simulated unless ``processes`` is true. If ``profile`` allows a call to be refused, ``deviates``
    decides whether to refuse the call. If ``kept`` is true, pods and containers stay in ``folder`` until another node
    restores them. Simulated containers count as running in the meantime, whereas real processes end with their node.

    >>> import asyncio, tempfile
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

    folder: Path
    _: KW_ONLY
    profile: str = ""
    processes: bool = False
    kept: bool = False
    deviates: Callable[[], bool] = bool
    send: SendRequest | None = None

    def __post_init__(self) -> None:
        self.clock = Clock()
        records = self.folder / "records" if self.kept else None
        self.images = Images(records and records / "images")
        self._kept_pods = Records(records and records / "pods", cri.RunPodSandboxRequest)
        self.events: EventQueue[NodeEvent] = EventQueue(bool, clock=self.clock)
        self.plans: dict[str, cri.RunPodSandboxRequest] = {}
        self.relays = Relays(self.send, applicable(self.profile, "nri-container"))
        self._running: dict[str, cri.RunPodSandboxRequest] = {}
        self.containers = NodeContainers(
            root=self.folder / "containers",
            launch=ChildProcess if self.processes else simulated(count(FIRST_PID).__next__, self.clock),
            resumes=not self.processes,
            kept=Records(records and records / "containers", ContainerRecord),
            ready=lambda pod: self.pods().get(pod) == READY,
            notice=lambda container, what: self._send_node_event(container.id, container.pod.id, what),
            relays=self.relays,
            profile=applicable(self.profile, CONTAINERS),
            deviates=self.deviates,
        )
        pause = Processes if self.processes else SimulatedPause
        controller = UpstreamController if applicable(self.profile, CONTROLLER) else Controller
        pauses = self.folder / "pauses"
        self._controller = controller(lambda pod: pause(pauses / pod), self.clock, on_exit=self._report_pod_exit)
        self._pods = Pods(
            self.folder / "pods",
            self._controller,
            Leases(self.folder / "network", NETWORK),
            self.containers,
            self.clock,
            profile=applicable(self.profile, PODS),
            observer=self,
        )

    async def __aenter__(self) -> Self:
        (self.folder / "pauses").mkdir(parents=True, exist_ok=True)
        await self._controller.__aenter__()
        self.containers.tasks.start(self.events.run())
        if self.kept:
            self.plans.update(self._kept_pods.load())
            await self._pods.recover()
            for pod in self.plans.keys() - self.pods().keys():
                await self.removed(pod)
            self.containers.recover()
            if not self.relays.release:
                self._restore_relays()
        return self

    async def __aexit__(self, *_: object) -> None:
        """Stop everything, but leave the kept records as they are."""
        self.events.shutdown()
        await self.containers.close()
        for pod in () if self.kept else self.pods():
            with suppress(CallError):
                await self._pods.stop(pod)
        await self._pods.close()
        await self._controller.close()
        await self.containers.exits.cancel()

    def _restore_relays(self) -> None:
        """Restore the states of the relays, so that plugins are notified when restored pods and containers end.

        containerd does not do this.
        """
        for pod, shows in self.pods().items():
            self.relays.pods.take(pod, "run-pod-sandbox", "ok")
            if shows != READY:
                self.relays.pods.take(pod, "stop-pod-sandbox", "ok")
        self.relays.containers.synchronise(container.for_plugins() for container in self.containers.store.values())

    def pods(self) -> dict[str, str]:
        return self._pods.list()

    def find_pod(self, given: str, event: str) -> str:
        return full_id(given, self.pods(), event, "sandbox")

    async def run_pod(self, plan: cri.RunPodSandboxRequest) -> str:
        async def run() -> str:
            async with self.relays.blocking():
                pod = await self._pods.run(name)
            self._send_node_event(pod, pod, "created")
            self._send_node_event(pod, pod, "started")
            return pod

        name = _full_name(plan.config.metadata)
        known = self._pods.names.get(name)
        if known or name in self._running:
            why = f'name "{name}" is reserved for "{known or ""}"'
            raise CallError("run", UNKNOWN, f'failed to reserve sandbox name "{name}": {why}')
        self._running[name] = plan
        try:
            with use_containerd_errors("pod", self._pods.find(""), "run", "", deviates=self.deviates()):
                return await self.containers.tasks.shielded(run())
        finally:
            del self._running[name]

    async def stop_pod(self, given: str) -> None:
        async with self.relays.blocking():
            await self._call("stop", given, self._pods.stop)

    async def remove_pod(self, given: str) -> None:
        async with self.relays.blocking():
            await self._call("remove", given, self._pods.remove)

    def listed_pods(self) -> tuple[tuple[cri.RunPodSandboxRequest, Metadata], ...]:
        return tuple((self.plans[pod.id], pod) for pod in self._pods.listed() if pod.id in self.plans)

    def pod_status(self, given: str) -> tuple[cri.RunPodSandboxRequest, PodStatus]:
        with self._pod_with_containerd_errors("status", given) as pod:
            status = self._pods.status(pod)
        return self.plans[pod], status

    def forward(self, given: str) -> None:
        with self._pod_with_containerd_errors("port-forward", given) as pod:
            self._pods.port_forward(pod)

    async def update_pod(self, given: str, limits: Limits) -> None:
        numbers = {name: value for name, value in limits.items() if isinstance(value, int)}
        with self._pod_with_containerd_errors("update-resources", given) as pod:
            self._pods.update_resources(pod, numbers)

    async def create_container(self, request: cri.CreateContainerRequest) -> str:
        """Create the container that *request* describes, and return its id.

        The pod configuration in *request* is replaced with the actual configuration of the pod.
        """
        given, config = request.pod_sandbox_id, request.config
        pod = self.find_pod(given, "create-container")
        pod_config, created = self.plans.get(pod, cri.RunPodSandboxRequest()).config, list[str]()
        request.pod_sandbox_id = pod
        request.sandbox_config.CopyFrom(pod_config)

        async def create() -> None:
            image = self.images.find(config.image.image)
            if image is None:
                raise WorldError(f'failed to resolve image "{config.image.image}": not found')
            reserved = f"{config.metadata.name}_{_full_name(pod_config.metadata)}_{config.metadata.attempt}"
            record = ContainerRecord(request=request, reserved=reserved, image=image)
            async with self.relays.blocking():
                created.append(await self.containers.make(record))

        await self._call("create-container", given, lambda pod: self._pods.create_container(pod, create))
        return created[0]

    async def runs(self, _pod: str) -> None:
        name = next(name for name, holder in self._pods.names.items() if holder == _pod)
        plan = self._running[name]
        if plan.runtime_handler not in HANDLERS:
            raise WorldError(f'failed to get sandbox runtime: no runtime for "{plan.runtime_handler}" is configured')
        self.plans[_pod] = plan
        self._kept_pods.save(_pod, plan)
        try:
            await self.relays.ask("run-pod-sandbox", self._plugin_pod(_pod))
        except WorldError as error:
            await self.relays.notify("stop-pod-sandbox", self._plugin_pod(_pod))
            raise WorldError(f"NRI RunPodSandbox failed: {error}") from error

    async def stopped(self, _pod: str) -> None:
        await self.relays.notify("stop-pod-sandbox", self._plugin_pod(_pod))

    async def removed(self, _pod: str) -> None:
        if _pod in self.plans:
            if _pod in self.pods():  # otherwise, the pod is left over from a failed run
                self._send_node_event(_pod, _pod, "deleted")
            await self.relays.notify("remove-pod-sandbox", self._plugin_pod(_pod))
            del self.plans[_pod]
            self._kept_pods.delete(_pod)

    def pods_for_plugins(self) -> Sequence[messages.Pod]:
        return [self._plugin_pod(pod) for pod in self.pods()]

    def containers_for_plugins(self) -> Sequence[messages.Container]:
        containers = self.containers.store.values()
        return [container.for_plugins() for container in containers if container.shows in {CREATED, RUNNING}]

    def _plugin_pod(self, pod: str) -> messages.Pod:
        return plugin_pod(pod, self.plans.get(pod, cri.RunPodSandboxRequest()).config)

    def _report_pod_exit(self, pod: str) -> None:
        if pod in self.plans:
            self._send_node_event(pod, pod, "stopped")

    def _send_node_event(self, identity: str, pod: str, what: str) -> None:
        status = None
        if pod in self.plans and pod in self.pods():
            with suppress(CallError):
                status = self.plans[pod], self._pods.status(pod)
        containers = tuple((container, container.snapshot()) for container in self.containers.of(pod))
        event = NodeEvent(id=identity, what=what, at=time.time_ns(), pod=status, containers=containers)
        finish(self.events.send(event))  # the queue never waits for its subscribers

    async def _call(self, event: str, given: str, call: Callable[[str], Coroutine[Any, Any, object]]) -> None:
        with self._pod_with_containerd_errors(event, given) as pod:
            await self.containers.tasks.shielded(call(pod))

    @contextmanager
    def _pod_with_containerd_errors(self, event: str, given: str) -> Iterator[str]:
        pod = self.find_pod(given, event)
        with use_containerd_errors("pod", self._pods.find(pod), event, given, deviates=self.deviates()):
            yield pod


def _full_name(pod: cri.PodSandboxMetadata) -> str:
    return f"{pod.name}_{pod.namespace}_{pod.uid}_{pod.attempt}"


def applicable(profile: str, machine: str) -> str:
    """Return the part of *profile* that applies to *machine*.

    *profile* consists of names joined by ``+``. A name applies if it is a profile of *machine*, or a version to which
    such a profile applies.

    >>> applicable("upstream+containerd-1.6", "container-status")
    'containerd-1.6'
    """
    profiles: list[Mapping[str, Bounded]] = [driver(machine).machine.profiles]
    return "+".join(name for name in filter(None, profile.split("+")) if unknown_profile(name, profiles) is None)
