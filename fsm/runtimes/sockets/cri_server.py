"""The reference node as a CRI server on a Unix socket, with all methods of both services that it can answer.

Errors have the gRPC code of the machines' replies, and containerd's messages.  Other methods are UNIMPLEMENTED.
"""

import json
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from importlib.metadata import version
from typing import TYPE_CHECKING, Any, Final

import grpc
from google.protobuf.message import DecodeError, Message

from fsm.runtimes.names import READY, RUNNING
from fsm.runtimes.recordings.error_texts import capitals
from fsm.runtimes.reference.driven import ABSENT, CallError
from fsm.runtimes.reference.events.queue import QueueShutError
from fsm.runtimes.reference.node.command import limits
from fsm.runtimes.reference.node.error_words import full_id, refusal_text
from fsm.runtimes.reference.node.node_service import HANDLERS, ServedNode
from fsm.runtimes.reference.pods.metadata import Metadata
from fsm.runtimes.sockets import cri_pb2 as cri
from fsm.runtimes.sockets import node_messages
from fsm.runtimes.sockets.cri_client import METHODS
from fsm.runtimes.sockets.unix_sockets import SERVER_OPTIONS, listening, target

if TYPE_CHECKING:
    from fsm.runtimes.sockets.node_streams import NodeStreams

NAME: Final = "fsm"
API: Final = "v1"
PULLING: Final = 0.02
"""Number of seconds that it takes to pull a missing image."""
GRACE: Final = 1.0
"""Number of seconds within which calls in progress may end when the server stops."""

CODES: Final[Mapping[str, grpc.StatusCode]] = {capitals(each.name): each for each in grpc.StatusCode}


class CriServer:
    """Answers CRI calls by calling *node*."""

    def __init__(self, node: ServedNode) -> None:
        self.node = node
        self._streams: NodeStreams | None = None
        self.answers: Mapping[str, Callable[[Any], Awaitable[Message]]] = {
            "Version": self._version,
            "Status": self._status,
            "RuntimeConfig": self._runtime_config,
            "UpdateRuntimeConfig": self._update_runtime_config,
            "RunPodSandbox": self._run_pod,
            "StopPodSandbox": self._stop_pod,
            "RemovePodSandbox": self._remove_pod,
            "PodSandboxStatus": self._pod_status,
            "ListPodSandbox": self._list_pods,
            "UpdatePodSandboxResources": self._update_pod,
            "PortForward": self._port_forward,
            "CreateContainer": self._create_container,
            "StartContainer": self._start_container,
            "StopContainer": self._stop_container,
            "RemoveContainer": self._remove_container,
            "ListContainers": self._list_containers,
            "ContainerStatus": self._container_status,
            "PodSandboxStats": self._pod_stats,
            "ListPodSandboxStats": self._list_pod_stats,
            "ContainerStats": self._container_stats,
            "ListContainerStats": self._list_stats,
            "UpdateContainerResources": self._update_container,
            "ReopenContainerLog": self._reopen_log,
            "ExecSync": self._exec_sync,
            "Exec": self._exec,
            "Attach": self._attach,
            "CheckpointContainer": self._checkpoint,
            "ListImages": self._list_images,
            "ImageStatus": self._image_status,
            "PullImage": self._pull_image,
            "RemoveImage": self._remove_image,
            "ImageFsInfo": self._image_fs_info,
        }

    def handlers(self) -> list[grpc.GenericRpcHandler]:
        """Return the handlers of both services, for a server on the event loop."""
        services: dict[str, dict[str, grpc.RpcMethodHandler[Any, Any]]] = {}
        for method in METHODS.values():
            handlers = services.setdefault(method.path.split("/")[1], {})
            if method.name == "GetContainerEvents":
                handlers[method.name] = grpc.unary_stream_rpc_method_handler(
                    self._events,
                    request_deserializer=method.request.FromString,
                    response_serializer=method.response.SerializeToString,
                )
            elif method.name in self.answers:
                handlers[method.name] = grpc.unary_unary_rpc_method_handler(
                    _answering(self.answers[method.name], method.request.FromString),
                    response_serializer=method.response.SerializeToString,
                )
        return [grpc.method_handlers_generic_handler(*each) for each in services.items()]

    async def close(self) -> None:
        """Close the streams of commands and ports."""
        if self._streams:
            await self._streams.close()

    def _streaming(self) -> "NodeStreams":
        if self._streams is None:
            from fsm.runtimes.sockets.node_streams import NodeStreams  # noqa: PLC0415  (often not needed)

            self._streams = NodeStreams(self.node)
        return self._streams

    # -- the runtime ---------------------------------------------------------

    async def _version(self, _request: cri.VersionRequest) -> cri.VersionResponse:
        own = version("container-fsm")
        return cri.VersionResponse(version="0.1.0", runtime_name=NAME, runtime_version=own, runtime_api_version=API)

    async def _status(self, request: cri.StatusRequest) -> cri.StatusResponse:
        ready = [cri.RuntimeCondition(type=each, status=True) for each in ("RuntimeReady", "NetworkReady")]
        told = json.dumps({"profile": self.node.profile, "processes": self.node.processes})
        return cri.StatusResponse(
            status=cri.RuntimeStatus(conditions=ready),
            info={"config": told} if request.verbose else {},
            runtime_handlers=[cri.RuntimeHandler(name=each) for each in sorted(HANDLERS)],
        )

    async def _runtime_config(self, _request: cri.RuntimeConfigRequest) -> cri.RuntimeConfigResponse:
        return cri.RuntimeConfigResponse(linux=cri.LinuxRuntimeConfiguration(cgroup_driver=cri.CGROUPFS))

    async def _update_runtime_config(self, _request: cri.UpdateRuntimeConfigRequest) -> cri.UpdateRuntimeConfigResponse:
        return cri.UpdateRuntimeConfigResponse()

    async def _events(
        self, _request: cri.GetEventsRequest, context: grpc.aio.ServicerContext[Any, Any]
    ) -> AsyncIterator[cri.ContainerEventResponse]:
        try:
            subscription = self.node.events.subscribe()
        except QueueShutError as error:
            await context.abort(grpc.StatusCode.UNAVAILABLE, str(error))
        try:
            await context.send_initial_metadata(())  # from here on, the caller misses no event
            async for each in subscription:
                yield node_messages.event(each)
        finally:
            subscription.close()

    # -- pods ----------------------------------------------------------------

    async def _run_pod(self, request: cri.RunPodSandboxRequest) -> cri.RunPodSandboxResponse:
        if not request.config.HasField("metadata"):
            raise CallError("run", "UNKNOWN", "sandbox config must include metadata")
        return cri.RunPodSandboxResponse(pod_sandbox_id=await self.node.run_pod(request))

    async def _stop_pod(self, request: cri.StopPodSandboxRequest) -> cri.StopPodSandboxResponse:
        await self.node.stop_pod(request.pod_sandbox_id)
        return cri.StopPodSandboxResponse()

    async def _remove_pod(self, request: cri.RemovePodSandboxRequest) -> cri.RemovePodSandboxResponse:
        await self.node.remove_pod(request.pod_sandbox_id)
        return cri.RemovePodSandboxResponse()

    async def _pod_status(self, request: cri.PodSandboxStatusRequest) -> cri.PodSandboxStatusResponse:
        plan, status = self.node.pod_status(request.pod_sandbox_id)
        return cri.PodSandboxStatusResponse(
            status=node_messages.pod_status(plan, status),
            info=self._info(status.pid) if request.verbose else {},
            containers_statuses=[
                node_messages.container_status(each, each.status()) for each in self.node.containers.of(status.id)
            ],
            timestamp=time.time_ns(),
        )

    async def _list_pods(self, request: cri.ListPodSandboxRequest) -> cri.ListPodSandboxResponse:
        wanted = request.filter
        identity = _whole(wanted.id, self.node.pods())
        found = [node_messages.listed_pod(*each) for each in self.node.listed_pods()]
        return cri.ListPodSandboxResponse(
            items=[
                each
                for each in found
                if (not identity or each.id == identity)
                and (not wanted.HasField("state") or each.state == wanted.state.state)
                and node_messages.selected(each.labels, wanted.label_selector)
            ]
        )

    async def _update_pod(self, request: cri.UpdatePodSandboxResourcesRequest) -> cri.UpdatePodSandboxResourcesResponse:
        await self.node.update_pod(request.pod_sandbox_id, limits(request.resources))
        return cri.UpdatePodSandboxResourcesResponse()

    async def _port_forward(self, request: cri.PortForwardRequest) -> cri.PortForwardResponse:
        self.node.forward(request.pod_sandbox_id)
        return cri.PortForwardResponse(url=await self._streaming().ports())

    # -- containers ----------------------------------------------------------

    async def _create_container(self, request: cri.CreateContainerRequest) -> cri.CreateContainerResponse:
        if not request.config.HasField("metadata"):
            raise CallError("create", "UNKNOWN", "container config must include metadata")
        return cri.CreateContainerResponse(container_id=await self.node.create_container(request))

    async def _start_container(self, request: cri.StartContainerRequest) -> cri.StartContainerResponse:
        await self.node.containers.start(request.container_id)
        return cri.StartContainerResponse()

    async def _stop_container(self, request: cri.StopContainerRequest) -> cri.StopContainerResponse:
        await self.node.containers.halt(request.container_id, request.timeout)
        return cri.StopContainerResponse()

    async def _remove_container(self, request: cri.RemoveContainerRequest) -> cri.RemoveContainerResponse:
        await self.node.containers.discard(request.container_id)
        return cri.RemoveContainerResponse()

    async def _list_containers(self, request: cri.ListContainersRequest) -> cri.ListContainersResponse:
        wanted = request.filter
        identity = _whole(wanted.id, self.node.containers.store)
        pod = _whole(wanted.pod_sandbox_id, self.node.pods())
        found = [node_messages.listed_container(each) for each in self.node.containers.store.values()]
        return cri.ListContainersResponse(
            containers=[
                each
                for each in found
                if (not identity or each.id == identity)
                and (not pod or each.pod_sandbox_id == pod)
                and (not wanted.HasField("state") or each.state == wanted.state.state)
                and node_messages.selected(each.labels, wanted.label_selector)
            ]
        )

    async def _container_status(self, request: cri.ContainerStatusRequest) -> cri.ContainerStatusResponse:
        found, status = self.node.containers.status(request.container_id)
        return cri.ContainerStatusResponse(
            status=node_messages.container_status(found, status),
            info=self._info(status.pid, sandboxID=found.pod.id, state=found.reference.state) if request.verbose else {},
        )

    def _info(self, pid: int, **more: str) -> dict[str, str]:
        return {"info": json.dumps({**({"pid": pid} if pid and self.node.processes else {}), **more})}

    async def _pod_stats(self, request: cri.PodSandboxStatsRequest) -> cri.PodSandboxStatsResponse:
        identity = self.node.find_pod(request.pod_sandbox_id, "status")
        found = [each for each in self.node.listed_pods() if each[1].id == identity]
        if not found:
            raise CallError("stats", "NOT_FOUND", refusal_text("pod", "status", request.pod_sandbox_id, ABSENT))
        return cri.PodSandboxStatsResponse(stats=self._stats_of(*found[0]))

    async def _list_pod_stats(self, request: cri.ListPodSandboxStatsRequest) -> cri.ListPodSandboxStatsResponse:
        identity = _whole(request.filter.id, self.node.pods())
        return cri.ListPodSandboxStatsResponse(
            stats=[
                self._stats_of(plan, each)
                for plan, each in self.node.listed_pods()
                if each.state == READY
                and (not identity or each.id == identity)
                and node_messages.selected(plan.config.labels, request.filter.label_selector)
            ]
        )

    def _stats_of(self, plan: cri.RunPodSandboxRequest, status: Metadata) -> cri.PodSandboxStats:
        running = [each for each in self.node.containers.of(status.id) if each.shows == RUNNING]
        return node_messages.pod_stats(plan, status, running, time.time_ns())

    async def _container_stats(self, request: cri.ContainerStatsRequest) -> cri.ContainerStatsResponse:
        found = self.node.containers.use("stats", request.container_id)
        return cri.ContainerStatsResponse(stats=node_messages.stats(found, time.time_ns()))

    async def _list_stats(self, request: cri.ListContainerStatsRequest) -> cri.ListContainerStatsResponse:
        wanted = request.filter
        identity = _whole(wanted.id, self.node.containers.store)
        pod = _whole(wanted.pod_sandbox_id, self.node.pods())
        return cri.ListContainerStatsResponse(
            stats=[
                node_messages.stats(each, time.time_ns())
                for each in self.node.containers.store.values()
                if each.shows == RUNNING
                and (not identity or each.id == identity)
                and (not pod or each.pod.id == pod)
                and node_messages.selected(each.config.labels, wanted.label_selector)
            ]
        )

    async def _update_container(
        self, request: cri.UpdateContainerResourcesRequest
    ) -> cri.UpdateContainerResourcesResponse:
        await self.node.containers.update(request.container_id, limits(request.linux))
        return cri.UpdateContainerResourcesResponse()

    async def _reopen_log(self, request: cri.ReopenContainerLogRequest) -> cri.ReopenContainerLogResponse:
        self.node.containers.reopen_log(request.container_id)
        return cri.ReopenContainerLogResponse()

    async def _exec_sync(self, request: cri.ExecSyncRequest) -> cri.ExecSyncResponse:
        done = await self.node.containers.execute(request.container_id, tuple(request.cmd), request.timeout)
        return cri.ExecSyncResponse(stdout=done.output, stderr=done.errors, exit_code=done.code)

    async def _exec(self, request: cri.ExecRequest) -> cri.ExecResponse:
        found = self.node.containers.use("exec", request.container_id, _unusable(request))
        return cri.ExecResponse(url=await self._streaming().command(found.id, request))

    async def _attach(self, request: cri.AttachRequest) -> cri.AttachResponse:
        found = self.node.containers.use("attach", request.container_id, _unusable(request))
        return cri.AttachResponse(url=await self._streaming().command(found.id, request))

    async def _checkpoint(self, request: cri.CheckpointContainerRequest) -> cri.CheckpointContainerResponse:
        self.node.containers.use("checkpoint", request.container_id, "there is no CRIU here")
        return cri.CheckpointContainerResponse()

    # -- images --------------------------------------------------------------

    async def _list_images(self, request: cri.ListImagesRequest) -> cri.ListImagesResponse:
        wanted = request.filter.image.image
        found = self.node.images.find(wanted) if wanted else None
        stored = ([found] if found else []) if wanted else self.node.images.list()
        return cri.ListImagesResponse(images=map(node_messages.image, stored))

    async def _image_status(self, request: cri.ImageStatusRequest) -> cri.ImageStatusResponse:
        found = self.node.images.find(request.image.image)
        info = {"info": json.dumps({"simulated": True})} if request.verbose and found else {}
        return cri.ImageStatusResponse(image=node_messages.image(found) if found else None, info=info)

    async def _pull_image(self, request: cri.PullImageRequest) -> cri.PullImageResponse:
        if not request.image.image:
            raise CallError("pull", "INVALID_ARGUMENT", "no image is named")
        if self.node.images.find(request.image.image) is None:
            await self.node.clock.sleep(PULLING)
        return cri.PullImageResponse(image_ref=self.node.images.pull(request.image.image).id)

    async def _remove_image(self, request: cri.RemoveImageRequest) -> cri.RemoveImageResponse:
        self.node.images.remove(request.image.image)
        return cri.RemoveImageResponse()

    async def _image_fs_info(self, _request: cri.ImageFsInfoRequest) -> cri.ImageFsInfoResponse:
        stored = self.node.images.list()
        usage = cri.FilesystemUsage(
            timestamp=time.time_ns(),
            fs_id=cri.FilesystemIdentifier(mountpoint="/"),
            used_bytes=cri.UInt64Value(value=sum(each.size for each in stored)),
            inodes_used=cri.UInt64Value(value=len(stored)),
        )
        return cri.ImageFsInfoResponse(image_filesystems=[usage], container_filesystems=[usage])


def _answering(
    answer: Callable[[Any], Awaitable[Message]], read: Callable[[bytes], Message]
) -> Callable[[Any, grpc.aio.ServicerContext[Any, Any]], Awaitable[Message]]:
    async def answered(request: bytes, context: grpc.aio.ServicerContext[Any, Any]) -> Message:
        try:
            return await answer(read(request))
        except DecodeError as error:
            await context.abort(grpc.StatusCode.INTERNAL, f"grpc: error unmarshalling request: {error}")
        except CallError as error:
            await context.abort(CODES.get(error.code, grpc.StatusCode.UNKNOWN), error.why)

    return answered


def _unusable(request: cri.ExecRequest | cri.AttachRequest) -> str:
    return "" if request.stdin or request.stdout or request.stderr else "one of stdin, stdout, or stderr must be set"


def _whole(given: str, known: Mapping[str, object]) -> str:
    try:
        return full_id(given, known, "list", "object")
    except CallError:
        return given


@asynccontextmanager
async def serving(address: str, node: ServedNode) -> AsyncIterator[None]:
    """Serve *node* at *address*, on a socket that only this user may use.  At the end, stop everything on the node.

    Raise :class:`InputError` if the socket cannot be made.  See :func:`~fsm.runtimes.sockets.unix_sockets.listening`.
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
