"""The containers of a node, each driven by :class:`~fsm.runtimes.reference.container.Container`."""

import asyncio
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, suppress
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from secrets import token_hex
from signal import SIGKILL, SIGTERM
from typing import Final

from fsm.machine.driver import CannotHappenError
from fsm.runtimes.names import CREATED, RUNNING
from fsm.runtimes.reference.clock import Tasks
from fsm.runtimes.reference.container import Container
from fsm.runtimes.reference.container.record import LinuxResources, Resources, Status
from fsm.runtimes.reference.driven import ABSENT, CallError, WorldError
from fsm.runtimes.reference.node.error_words import full_id, use_containerd_errors
from fsm.runtimes.reference.node.records import Records
from fsm.runtimes.reference.node.relays import Relays
from fsm.runtimes.reference.node.workloads import (
    Command,
    ContainerRecord,
    ContainerWorld,
    Executed,
    Limits,
    Workload,
    adjust,
    limits,
)
from fsm.runtimes.reference.nri import messages
from fsm.runtimes.reference.pods.surroundings import Containers
from fsm.runtimes.sockets import cri_pb2 as cri

MAY_RUN: Final = frozenset({RUNNING, "CONTAINER_UNKNOWN"})
NOBODY: Final = ContainerRecord(request=cri.CreateContainerRequest())
STATES: Final = {state.value: state for state in messages.ContainerState} | {
    "CONTAINER_EXITED": messages.ContainerState.STOPPED
}


class NodeContainer(Container):
    """A container on a node, which may be absent from the store.

    ``watch`` is the task that waits until the container's workload exits.
    """

    world: ContainerWorld
    watch: asyncio.Task[None] | None = None

    @property
    def id(self) -> str:
        return self.root.name

    @cached_property
    def pod(self) -> messages.Pod:
        request = self.world.record.request
        return plugin_pod(request.pod_sandbox_id, request.sandbox_config)

    @property
    def config(self) -> cri.ContainerConfig:
        return self.world.record.request.config

    @property
    def command(self) -> Command:
        return Command.requested(self.world.record.request)

    def snapshot(self) -> Status:
        """Return the container's record, or an empty record if there is none. The result must not be changed."""
        return self.peek() or Status()

    def created_at(self) -> int:
        return self.snapshot().created_at or self.world.record.made_at

    def limits(self) -> dict[str, int | str]:
        return limits_of(self.snapshot())

    def for_plugins(self) -> messages.Container:
        state = STATES.get(self.shows, messages.ContainerState.UNKNOWN)
        return messages.Container(id=self.id, pod_id=self.pod.id, name=self.config.metadata.name, state=state)


def plugin_pod(identity: str, config: cri.PodSandboxConfig) -> messages.Pod:
    return messages.Pod(id=identity, name=config.metadata.name, namespace=config.metadata.namespace)


def limits_of(status: Status) -> dict[str, int | str]:
    linux = status.resources and status.resources.linux
    return {name: value for name, value in linux if isinstance(value, int | str) and value} if linux else {}


@dataclass(kw_only=True, eq=False)
class NodeContainers(Containers):
    """All containers of a node. Their checkpoints are below the directory ``root``.

    Calls continue even if their caller gives up, except for a stop during its grace period. ``launch`` starts the
    workload of a container, or raises :class:`~fsm.runtimes.reference.driven.WorldError`. ``ready`` tells whether a pod
    is ready, and ``deviates`` decides whether to refuse a call that ``profile`` allows to be refused. ``notice`` is
    called with a container and its change, which is ``created``, ``started``, ``stopped`` or ``deleted``.

    After a restart, the containers are recovered from ``kept``; if ``resumes`` is true, ``launch`` then continues the
    processes that were still running. ``making`` holds the containers that are being created, ``store`` holds all other
    containers, and ``names`` maps reserved names to ids.
    """

    root: Path
    launch: Callable[[ContainerRecord], Workload]
    resumes: bool
    kept: Records[ContainerRecord]
    ready: Callable[[str], bool]
    notice: Callable[[NodeContainer, str], object]
    relays: Relays
    profile: str
    deviates: Callable[[], bool]
    store: dict[str, NodeContainer] = field(default_factory=dict, init=False)
    making: dict[str, NodeContainer] = field(default_factory=dict, init=False)
    names: dict[str, str] = field(default_factory=dict, init=False)
    tasks: Tasks = field(default_factory=Tasks, init=False)
    exits: Tasks = field(default_factory=Tasks, init=False)  # tasks that relay exits, even of removed containers

    async def close(self) -> None:
        workloads = [container.world.workload for container in self.store.values() if container.world.workload]
        await self.tasks.cancel()
        for workload in workloads:
            workload.signal(SIGKILL)
        await asyncio.gather(*(workload.ended() for workload in workloads))

    def find(self, given: str, event: str) -> NodeContainer:
        identity = full_id(given, self.store, event, "container")
        return self.store.get(identity) or self._new(identity, NOBODY)

    def known(self, identity: str) -> NodeContainer | None:
        return self.store.get(identity) or self.making.get(identity)

    def of(self, pod: str) -> Iterator[NodeContainer]:
        yield from [container for container in self.store.values() if container.pod.id == pod]

    async def make(self, record: ContainerRecord) -> str:
        name, config = record.reserved, record.request.config
        if holder := self.names.get(name):
            raise WorldError(f'failed to reserve container name "{name}": name "{name}" is reserved for "{holder}"')
        container = self._new(token_hex(32), record)
        pod = container.pod
        self.names[name] = container.id
        self.making[container.id] = container
        created = replace(container.for_plugins(), state=messages.ContainerState.CREATED)
        try:
            adjust(config, await self.relays.ask("create-container", pod, created, limits(config.linux.resources)))
            self._call(container, "create", container.id, _resources(limits(config.linux.resources)))
        except (WorldError, CallError):
            del self.names[name]
            await self.relays.notify("stop-container", pod, created)
            await self.relays.notify("remove-container", pod, created)
            raise
        finally:
            del self.making[container.id]
        self.store[container.id] = container
        self.notice(container, "created")
        await self.relays.notify("post-create-container", pod, container.for_plugins())
        return container.id

    async def start(self, given: str) -> None:
        await self.tasks.shielded(self._start(given))

    async def halt(self, given: str, grace: float) -> None:
        container = self.find(given, "stop")
        async with self.relays.blocking():
            workload = container.world.workload
            if container.shows == RUNNING and grace > 0 and workload and container.watch:
                workload.signal(SIGTERM)
                await asyncio.wait([container.watch], timeout=grace)
            await self.tasks.shielded(self._stop(container, given))

    async def discard(self, given: str) -> None:
        await self.tasks.shielded(self._remove(given))

    async def update(self, given: str, wanted: Limits) -> None:
        await self.tasks.shielded(self._update(given, wanted))

    def change(self, identity: str, wanted: Mapping[str, object]) -> None:
        """Change the limits of a container for a plugin. This may be called from any thread."""
        container = self.store[identity]
        container.call("update-resources", _resources({**container.limits(), **_simple_limits(wanted)}))

    def status(self, given: str) -> tuple[NodeContainer, Status]:
        container = self.find(given, "status")
        with self._with_containerd_errors(container, "status", given):
            return container, container.status()

    def use(self, event: str, given: str, refusal: str = "") -> NodeContainer:
        """Make the call *event*, which does not change the container.

        If *refusal* is not empty, the call fails for that reason.
        """
        container = self.find(given, event)
        container.world.refusal = refusal
        try:
            self._call(container, event, given)
        finally:
            container.world.refusal = ""
        return container

    def reopen_log(self, given: str) -> None:
        container, refusal = self.find(given, "reopen-log"), ""
        if container.shows == RUNNING:
            try:
                container.command.begin_log()
            except WorldError as error:
                refusal = f"failed to reopen container log: {error}"
        self.use("reopen-log", given, refusal)

    async def execute(self, given: str, words: tuple[str, ...], limit: float) -> Executed:
        """Run a command in a container for at most *limit* seconds. 0 means no limit."""
        if not words:
            raise CallError("exec-sync", "INVALID_ARGUMENT", "cmd must not be empty")
        container = self.find(given, "exec-sync")
        workload = container.world.workload
        executed = Executed()
        if container.is_noop("exec-sync") or workload is None:
            self.use("exec-sync", given)
            return executed
        try:
            async with asyncio.timeout(limit or None):
                executed.code = await workload.execute(replace(container.command, words=words), executed)
        except TimeoutError:
            why = f"failed to exec in container: timeout {limit:g}s exceeded: context deadline exceeded"
            with suppress(CallError):
                self.use("exec-sync", container.id, why)
            raise CallError("exec-sync", "DEADLINE_EXCEEDED", why) from None
        except WorldError as error:
            self.use("exec-sync", container.id, f"failed to exec in container: failed to start exec: {error}")
            raise
        if container.watch and workload.exit:  # the command has killed the container's main process
            await asyncio.wait([container.watch])
        else:
            self.use("exec-sync", container.id)
        return executed

    async def stop(self, _pod: str) -> None:
        for container in self.of(_pod):
            if container.shows in MAY_RUN:
                self._call(container, "stop", container.id)
                await self._await_exit(container)

    async def remove(self, _pod: str) -> None:
        for container in self.of(_pod):
            await self._remove(container.id)

    async def _start(self, given: str) -> None:
        container = self.find(given, "start")
        with self._with_containerd_errors(container, "start", given):
            in_progress = container.begin("start")
        world = container.world
        if not self.ready(container.pod.id):
            world.refusal = f'sandbox container "{container.pod.id}" is not running'
        async with self.relays.blocking():
            relayed = not world.refusal
            try:
                if relayed:
                    await self.relays.ask("start-container", container.pod, container.for_plugins())
            except WorldError as error:
                world.refusal = f"NRI container start failed: {error}"
            try:
                while in_progress:
                    in_progress = container.end("start")
            except CallError:
                if relayed:
                    await self.relays.notify("stop-container", container.pod, container.for_plugins())
                raise
            finally:
                world.refusal = ""
            self._start_watch(container)
            self.notice(container, "started")
            await self.relays.notify("post-start-container", container.pod, container.for_plugins())

    async def _stop(self, container: NodeContainer, given: str) -> None:
        known = container.shows != ABSENT
        self._call(container, "stop", given)
        await self._await_exit(container)
        # A plugin must never see a start after a stop, but a created container can be started even after a stop.
        # The stop of a created container is therefore relayed only under a profile of containerd, which relays it.
        if known and (self.relays.release or container.shows != CREATED):
            await self.relays.notify("stop-container", container.pod, container.for_plugins())

    async def _remove(self, given: str) -> None:
        container = self.find(given, "remove")
        async with self.relays.blocking():
            with self._with_containerd_errors(container, "remove", given):
                in_progress = container.begin("remove")
            await self._await_exit(container)
            if in_progress:
                await self.relays.notify("remove-container", container.pod, container.for_plugins())
            while in_progress:
                in_progress = container.end("remove")
            if self.store.pop(container.id, None):
                self.names.pop(container.world.record.reserved, None)
                self.notice(container, "deleted")

    async def _update(self, given: str, wanted: Limits) -> None:
        container = self.find(given, "update-resources")
        async with self.relays.blocking():
            if container.shows != ABSENT:
                answer = await self.relays.ask("update-container", container.pod, container.for_plugins(), wanted)
                wanted = {**wanted, **_simple_limits(answer)}
            self._call(container, "update-resources", given, _resources({**container.limits(), **wanted}))
            await self.relays.notify("post-update-container", container.pod, container.for_plugins())

    def _start_watch(self, container: NodeContainer) -> None:
        if container.world.workload:
            container.watch = self.tasks.start(self._watch(container, container.world.workload))

    async def _watch(self, container: NodeContainer, workload: Workload) -> None:
        ended = await workload.ended()
        with suppress(OSError):
            container.world.drop()
        # The exit is relayed in a separate task. Other calls may be relayed before or after it.
        self.exits.start(self.relays.notify("notify-exit", container.pod, container.for_plugins()))
        with suppress(CannotHappenError):
            container.exited(ended)
        self.notice(container, "stopped")

    async def _await_exit(self, container: NodeContainer) -> None:
        if container.watch and container.shows != RUNNING:
            await asyncio.wait([container.watch])

    def _call(self, container: NodeContainer, event: str, given: str, resources: Resources | None = None) -> None:
        with self._with_containerd_errors(container, event, given):
            container.call(event, resources)

    def _with_containerd_errors(self, container: NodeContainer, event: str, given: str) -> AbstractContextManager[None]:
        return use_containerd_errors("container", container, event, given, deviates=self.deviates())

    def _new(self, identity: str, record: ContainerRecord) -> NodeContainer:
        world = self._world(identity, record)
        return NodeContainer(world.root, world, self.profile)

    def _world(self, identity: str, record: ContainerRecord) -> ContainerWorld:
        return ContainerWorld(self.root / identity, record=record, launch=self.launch, kept=self.kept)

    def recover(self) -> None:
        kept = self.kept.load()
        for identity in {*kept, *(folder.name for folder in self.root.glob("*"))}:
            record = kept.get(identity, NOBODY)
            world = self._world(identity, record)
            world.known = identity in kept
            if record.pid and self.resumes:
                world.resume()
            container = NodeContainer.recovered(world.root, world, self.profile)
            if container.shows == ABSENT:
                self.kept.delete(identity)
                continue
            self.store[identity] = container
            self.names[record.reserved] = identity
            if world.process:
                self._start_watch(container)


def _simple_limits(wanted: Mapping[str, object]) -> Limits:
    return {name: value for name, value in wanted.items() if isinstance(value, int | str)}


def _resources(wanted: Limits) -> Resources:
    known = {name: value for name, value in wanted.items() if name in LinuxResources.model_fields}
    return Resources(linux=LinuxResources.model_validate(known))
