"""A CRI server on a Unix socket that answers calls with the reference node.

Errors have the codes of the models and the messages of containerd. Unsupported methods fail with ``UNIMPLEMENTED``.
"""

# ruff: noqa: N802  (methods have the same names as in CRI, as in every gRPC servicer)

import json
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Mapping
from contextlib import asynccontextmanager
from importlib.metadata import version
from typing import TYPE_CHECKING, Any, Final, TypeVar

import grpc
from google.protobuf.message import DecodeError, Message

from fsm.runtimes.names import READY, RUNNING
from fsm.runtimes.recordings.containerd_texts import capitals
from fsm.runtimes.reference.driven import ABSENT, CallError
from fsm.runtimes.reference.events.queue import QueueShutError
from fsm.runtimes.reference.node import HANDLERS, ServedNode
from fsm.runtimes.reference.node.error_words import full_id, refusal_text
from fsm.runtimes.reference.node.workloads import limits
from fsm.runtimes.reference.pods.surroundings import Metadata
from fsm.runtimes.sockets import cri_pb2 as cri
from fsm.runtimes.sockets import node_messages
from fsm.runtimes.sockets.cri_client import METHODS, Method
from fsm.runtimes.sockets.unix_sockets import SERVER_OPTIONS, listening, target

if TYPE_CHECKING:
    from fsm.runtimes.sockets.streaming import NodeStreams

Entry = TypeVar("Entry", cri.PodSandbox, cri.Container)

PULLING: Final = 0.02  # number of seconds that it takes to pull a missing image
GRACE: Final = 1.0  # number of seconds to wait for calls in progress when the server stops

CODES: Final[Mapping[str, grpc.StatusCode]] = {capitals(each.name): each for each in grpc.StatusCode}


class CriServer:
    """Answers CRI calls by calling *node*. If a method returns ``None``, the answer is empty."""

    def __init__(self, node: ServedNode) -> None:
        self.node = node
        self._streams: NodeStreams | None = None

    def handlers(self) -> list[grpc.GenericRpcHandler]:
        services: dict[str, dict[str, grpc.RpcMethodHandler[Any, Any]]] = {}
        for method in METHODS.values():
            if (answer := getattr(self, method.name, None)) is None:
                continue
            serialize, handlers = method.response.SerializeToString, services.setdefault(method.path.split("/")[1], {})
            if method.streams:
                handler = grpc.unary_stream_rpc_method_handler(answer, method.request.FromString, serialize)
            else:
                answered = _make_handler(method, answer)
                handler = grpc.unary_unary_rpc_method_handler(answered, response_serializer=serialize)
            handlers[method.name] = handler
        return [grpc.method_handlers_generic_handler(*each) for each in services.items()]

    async def close(self) -> None:
        if self._streams:
            await self._streams.close()

    def _get_streams(self) -> "NodeStreams":
        if self._streams is None:
            from fsm.runtimes.sockets.streaming import NodeStreams  # noqa: PLC0415  (often not needed)

            self._streams = NodeStreams(self.node)
        return self._streams

    async def Version(self, _: cri.VersionRequest) -> cri.VersionResponse:
        own = version("container-fsm")
        return cri.VersionResponse(version="0.1.0", runtime_name="fsm", runtime_version=own, runtime_api_version="v1")

    async def Status(self, request: cri.StatusRequest) -> cri.StatusResponse:
        ready = [cri.RuntimeCondition(type=name, status=True) for name in ("RuntimeReady", "NetworkReady")]
        config = json.dumps({"profile": self.node.profile, "processes": self.node.processes})
        return cri.StatusResponse(
            status=cri.RuntimeStatus(conditions=ready),
            info={"config": config} if request.verbose else {},
            runtime_handlers=[cri.RuntimeHandler(name=name) for name in sorted(HANDLERS)],
        )

    async def RuntimeConfig(self, _: cri.RuntimeConfigRequest) -> cri.RuntimeConfigResponse:
        return cri.RuntimeConfigResponse(linux=cri.LinuxRuntimeConfiguration(cgroup_driver=cri.CGROUPFS))

    async def UpdateRuntimeConfig(self, _: cri.UpdateRuntimeConfigRequest) -> None: ...

    async def GetContainerEvents(
        self, _: cri.GetEventsRequest, context: grpc.aio.ServicerContext[Any, Any]
    ) -> AsyncIterator[cri.ContainerEventResponse]:
        try:
            subscription = self.node.events.subscribe()
        except QueueShutError as error:
            await context.abort(grpc.StatusCode.UNAVAILABLE, str(error))
        try:
            await context.send_initial_metadata(())  # tells the caller that it will receive all events from now on
            async for event in subscription:
                yield node_messages.event(event)
        finally:
            subscription.close()

    async def RunPodSandbox(self, request: cri.RunPodSandboxRequest) -> cri.RunPodSandboxResponse:
        if not request.config.HasField("metadata"):
            raise CallError("run", "UNKNOWN", "sandbox config must include metadata")
        return cri.RunPodSandboxResponse(pod_sandbox_id=await self.node.run_pod(request))

    async def StopPodSandbox(self, request: cri.StopPodSandboxRequest) -> None:
        await self.node.stop_pod(request.pod_sandbox_id)

    async def RemovePodSandbox(self, request: cri.RemovePodSandboxRequest) -> None:
        await self.node.remove_pod(request.pod_sandbox_id)

    async def PodSandboxStatus(self, request: cri.PodSandboxStatusRequest) -> cri.PodSandboxStatusResponse:
        plan, status = self.node.pod_status(request.pod_sandbox_id)
        return cri.PodSandboxStatusResponse(
            status=node_messages.pod_status(plan, status),
            info=self._verbose_info(status.pid) if request.verbose else {},
            containers_statuses=[
                node_messages.container_status(each, each.snapshot()) for each in self.node.containers.of(status.id)
            ],
            timestamp=time.time_ns(),
        )

    async def ListPodSandbox(self, request: cri.ListPodSandboxRequest) -> cri.ListPodSandboxResponse:
        pods = [node_messages.listed_pod(*each) for each in self.node.listed_pods()]
        return cri.ListPodSandboxResponse(items=self._filter_entries(pods, request.filter, self.node.pods()))

    async def UpdatePodSandboxResources(self, request: cri.UpdatePodSandboxResourcesRequest) -> None:
        await self.node.update_pod(request.pod_sandbox_id, limits(request.resources))

    async def PortForward(self, request: cri.PortForwardRequest) -> cri.PortForwardResponse:
        self.node.forward(request.pod_sandbox_id)
        return cri.PortForwardResponse(url=self._get_streams().ports())

    async def CreateContainer(self, request: cri.CreateContainerRequest) -> cri.CreateContainerResponse:
        if not request.config.HasField("metadata"):
            raise CallError("create", "UNKNOWN", "container config must include metadata")
        return cri.CreateContainerResponse(container_id=await self.node.create_container(request))

    async def StartContainer(self, request: cri.StartContainerRequest) -> None:
        await self.node.containers.start(request.container_id)

    async def StopContainer(self, request: cri.StopContainerRequest) -> None:
        await self.node.containers.halt(request.container_id, request.timeout)

    async def RemoveContainer(self, request: cri.RemoveContainerRequest) -> None:
        await self.node.containers.discard(request.container_id)

    async def ListContainers(self, request: cri.ListContainersRequest) -> cri.ListContainersResponse:
        store = self.node.containers.store
        entries = [node_messages.listed_container(each) for each in store.values()]
        return cri.ListContainersResponse(containers=self._filter_entries(entries, request.filter, store))

    async def ContainerStatus(self, request: cri.ContainerStatusRequest) -> cri.ContainerStatusResponse:
        found, status = self.node.containers.status(request.container_id)
        return cri.ContainerStatusResponse(
            status=node_messages.container_status(found, status),
            info=self._verbose_info(status.pid, sandboxID=found.pod.id, state=found.state) if request.verbose else {},
        )

    def _verbose_info(self, pid: int, **more: str) -> dict[str, str]:
        return {"info": json.dumps({**({"pid": pid} if pid and self.node.processes else {}), **more})}

    async def PodSandboxStats(self, request: cri.PodSandboxStatsRequest) -> cri.PodSandboxStatsResponse:
        identity = self.node.find_pod(request.pod_sandbox_id, "status")
        for plan, status in self.node.listed_pods():
            if status.id == identity:
                return cri.PodSandboxStatsResponse(stats=self._pod_stats(plan, status))
        raise CallError("stats", "NOT_FOUND", refusal_text("pod", "status", request.pod_sandbox_id, ABSENT))

    async def ListPodSandboxStats(self, request: cri.ListPodSandboxStatsRequest) -> cri.ListPodSandboxStatsResponse:
        pods = {status.id: (plan, status) for plan, status in self.node.listed_pods() if status.state == READY}
        entries = [node_messages.listed_pod(*pod) for pod in pods.values()]
        found = self._filter_entries(entries, request.filter, self.node.pods())
        return cri.ListPodSandboxStatsResponse(stats=[self._pod_stats(*pods[each.id]) for each in found])

    def _pod_stats(self, plan: cri.RunPodSandboxRequest, status: Metadata) -> cri.PodSandboxStats:
        running = [each for each in self.node.containers.of(status.id) if each.shows == RUNNING]
        return node_messages.pod_stats(plan, status, running, time.time_ns())

    async def ContainerStats(self, request: cri.ContainerStatsRequest) -> cri.ContainerStatsResponse:
        found = self.node.containers.use("stats", request.container_id)
        return cri.ContainerStatsResponse(stats=node_messages.stats(found, time.time_ns()))

    async def ListContainerStats(self, request: cri.ListContainerStatsRequest) -> cri.ListContainerStatsResponse:
        store, now = self.node.containers.store, time.time_ns()
        entries = [node_messages.listed_container(each) for each in store.values() if each.shows == RUNNING]
        found = self._filter_entries(entries, request.filter, store)
        return cri.ListContainerStatsResponse(stats=[node_messages.stats(store[each.id], now) for each in found])

    async def UpdateContainerResources(self, request: cri.UpdateContainerResourcesRequest) -> None:
        await self.node.containers.update(request.container_id, limits(request.linux))

    async def ReopenContainerLog(self, request: cri.ReopenContainerLogRequest) -> None:
        self.node.containers.reopen_log(request.container_id)

    async def ExecSync(self, request: cri.ExecSyncRequest) -> cri.ExecSyncResponse:
        done = await self.node.containers.execute(request.container_id, tuple(request.cmd), request.timeout)
        return cri.ExecSyncResponse(stdout=bytes(done.output), stderr=bytes(done.errors), exit_code=done.code)

    async def Exec(self, request: cri.ExecRequest) -> cri.ExecResponse:
        return cri.ExecResponse(url=self._command_url("exec", request))

    async def Attach(self, request: cri.AttachRequest) -> cri.AttachResponse:
        return cri.AttachResponse(url=self._command_url("attach", request))

    def _command_url(self, use: str, request: cri.ExecRequest | cri.AttachRequest) -> str:
        any_stream = request.stdin or request.stdout or request.stderr
        why = "" if any_stream else "one of stdin, stdout, or stderr must be set"
        found = self.node.containers.use(use, request.container_id, why)
        return self._get_streams().command(found.id, request)

    async def CheckpointContainer(self, request: cri.CheckpointContainerRequest) -> None:
        self.node.containers.use("checkpoint", request.container_id, "there is no CRIU here")

    def _filter_entries(self, entries: Iterable[Entry], asked: Message, known: Mapping[str, object]) -> list[Entry]:
        wanted = {field.name: value for field, value in asked.ListFields()}
        if "id" in wanted:
            wanted["id"] = _expand_id(wanted["id"], known)
        if "pod_sandbox_id" in wanted:
            wanted["pod_sandbox_id"] = _expand_id(wanted["pod_sandbox_id"], self.node.pods())
        if "state" in wanted:
            wanted["state"] = wanted["state"].state
        labels = dict(wanted.pop("label_selector", {}))
        return [
            entry
            for entry in entries
            if all(getattr(entry, name) == value for name, value in wanted.items())
            and labels.items() <= dict(entry.labels).items()
        ]

    async def ListImages(self, request: cri.ListImagesRequest) -> cri.ListImagesResponse:
        wanted = request.filter.image.image
        found = self.node.images.find(wanted) if wanted else None
        stored = ([found] if found else []) if wanted else self.node.images.list()
        return cri.ListImagesResponse(images=map(node_messages.image, stored))

    async def ImageStatus(self, request: cri.ImageStatusRequest) -> cri.ImageStatusResponse:
        found = self.node.images.find(request.image.image)
        info = {"info": json.dumps({"simulated": True})} if request.verbose and found else {}
        return cri.ImageStatusResponse(image=node_messages.image(found) if found else None, info=info)

    async def PullImage(self, request: cri.PullImageRequest) -> cri.PullImageResponse:
        if not request.image.image:
            raise CallError("pull", "INVALID_ARGUMENT", "no image is named")
        if self.node.images.find(request.image.image) is None:
            await self.node.clock.sleep(PULLING)
        return cri.PullImageResponse(image_ref=self.node.images.pull(request.image.image).id)

    async def RemoveImage(self, request: cri.RemoveImageRequest) -> None:
        self.node.images.remove(request.image.image)

    async def ImageFsInfo(self, _: cri.ImageFsInfoRequest) -> cri.ImageFsInfoResponse:
        stored = self.node.images.list()
        usage = node_messages.disk_usage(sum(each.size for each in stored), len(stored), time.time_ns())
        return cri.ImageFsInfoResponse(image_filesystems=[usage], container_filesystems=[usage])


def _make_handler(
    method: Method, answer: Callable[[Any], Awaitable[Message | None]]
) -> Callable[[Any, grpc.aio.ServicerContext[Any, Any]], Awaitable[Message]]:
    async def answered(request: bytes, context: grpc.aio.ServicerContext[Any, Any]) -> Message:
        try:
            return await answer(method.request.FromString(request)) or method.response()
        except DecodeError as error:
            await context.abort(grpc.StatusCode.INTERNAL, f"grpc: error unmarshalling request: {error}")
        except CallError as error:
            await context.abort(CODES.get(error.code, grpc.StatusCode.UNKNOWN), error.why)

    return answered


def _expand_id(given: str, known: Mapping[str, object]) -> str:
    try:
        return full_id(given, known, "list", "object")
    except CallError:
        return given


@asynccontextmanager
async def serving(address: str, node: ServedNode) -> AsyncIterator[None]:
    """Serve *node* at the socket *address* within the context. At the end, stop everything on the node.

    :func:`~fsm.runtimes.sockets.unix_sockets.listening` describes who may use the socket, and the possible errors.
    """
    server = grpc.aio.server(options=SERVER_OPTIONS)
    service = CriServer(node)
    server.add_generic_rpc_handlers(service.handlers())
    with listening(address, lambda: server.add_insecure_port(target(address))):
        async with node:
            await server.start()
            try:
                yield
            finally:
                node.events.shutdown()
                await service.close()
                await server.stop(GRACE)
