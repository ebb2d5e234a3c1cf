"""Containers of a node's pods, each driven by :class:`~fsm.runtimes.reference.container.container.Container`."""

import asyncio
from collections.abc import Awaitable, Callable, Iterator, Mapping
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from secrets import token_hex
from signal import SIGTERM
from typing import Final, TypeVar

from fsm.machine.driver import CannotHappenError
from fsm.runtimes.names import CREATED, RUNNING
from fsm.runtimes.reference.clock import Tasks
from fsm.runtimes.reference.container.container import Container
from fsm.runtimes.reference.container.record import LinuxResources, Resources, Status
from fsm.runtimes.reference.driven import ABSENT, UNKNOWN, CallError, WorldError, is_noop, raise_reply, refusal
from fsm.runtimes.reference.node.command import Command, ContainerRecord, Limits, adjust, limits
from fsm.runtimes.reference.node.error_words import NO_RECORD, AmbiguousIdError, full_id, of_container
from fsm.runtimes.reference.node.records import Records
from fsm.runtimes.reference.node.relays import Relays
from fsm.runtimes.reference.node.workloads import ContainerWorld, Executed, Heard, Workload
from fsm.runtimes.reference.nri import messages
from fsm.runtimes.reference.pods.surroundings import Containers
from fsm.runtimes.sockets import cri_pb2 as cri

T = TypeVar("T")

MAY_RUN: Final = frozenset({RUNNING, "CONTAINER_UNKNOWN"})
NOBODY: Final = ContainerRecord(request=cri.CreateContainerRequest())
"""The record of a container that does not exist."""
LISTED: Final = {"CONTAINER_EXITED": messages.ContainerState.STOPPED}


class NodeContainer:
    """A container of the pod ``pod``, whether or not it is in the store.

    ``record`` has the request that made it. ``watch`` is the task that waits for its workload to exit.
    """

    def __init__(
        self, identity: str, pod: messages.Pod, record: ContainerRecord, reference: Container, world: ContainerWorld
    ) -> None:
        self.id = identity
        self.pod = pod
        self.record = record
        self.reference = reference
        self.world = world
        self.watch: asyncio.Task[None] | None = None

    @property
    def config(self) -> cri.ContainerConfig:
        return self.record.request.config

    @property
    def command(self) -> Command:
        return Command.requested(self.record.request)

    @property
    def shows(self) -> str:
        return self.reference.shows

    def status(self) -> Status:
        """Return its record, which must not be changed, or an empty record if it has none."""
        return self.reference.peek() or Status()

    def created_at(self) -> int:
        """Return its creation time or, without a checkpoint, the time at which its own record was made."""
        return self.status().created_at or self.world.made_at

    def limits(self) -> dict[str, int | str]:
        """Return the limits that are set, by field name."""
        return limits_of(self.status())

    def told(self) -> messages.Container:
        """Return the container as plugins receive it."""
        try:
            state = messages.ContainerState(self.shows)
        except ValueError:
            state = LISTED.get(self.shows, messages.ContainerState.UNKNOWN)
        return messages.Container(id=self.id, pod_id=self.pod.id, name=self.config.metadata.name, state=state)


def limits_of(status: Status) -> dict[str, int | str]:
    """Return the limits that are set in a record, by field name."""
    linux = status.resources and status.resources.linux
    return {name: value for name, value in linux if isinstance(value, int | str) and value} if linux else {}


class NodeContainers(Containers):
    """All containers of a node, with their checkpoints in *root*, under *profile* if one is named.

    A call continues if its caller gives up, except a stop in its grace period. *launch* starts the workload of a
    container, or raises :class:`~fsm.runtimes.reference.driven.WorldError`. *ready(pod)* says whether the pod is ready.
    *notice* is called with a container and ``created``, ``started``, ``stopped`` or ``deleted``. *deviates()* says
    whether to refuse a call that the profile allows refusing. After a restart, containers are recovered from *kept*,
    and *resume* returns workloads that are still running.
    """

    def __init__(
        self,
        root: Path,
        *,
        launch: Callable[[Command], Workload],
        ready: Callable[[str], bool],
        notice: Callable[[NodeContainer, str], Awaitable[None]],
        relays: Relays,
        kept: Records[ContainerRecord],
        resume: Callable[[ContainerRecord], Workload] | None = None,
        profile: str = "",
        deviates: Callable[[], bool] = bool,
    ) -> None:
        super().__init__()
        self.store: dict[str, NodeContainer] = {}
        self.names: dict[str, str] = {}
        self._making: dict[str, NodeContainer] = {}
        self.tasks = Tasks()
        self._root = root
        self._launch, self._ready, self._notice = launch, ready, notice
        self._relays = relays
        self._kept, self._resume = kept, resume
        self._profile = profile
        self._deviates = deviates

    async def close(self) -> None:
        """Kill all workloads. Their exits are no longer recorded."""
        workloads = [each.world.workload for each in self.store.values() if each.world.workload]
        await self.tasks.cancel()
        for each in workloads:
            each.signal(9)
        await asyncio.gather(*(each.ended() for each in workloads))

    def find(self, given: str, event: str) -> NodeContainer:
        """Return the container that *given* stands for, or an absent one. *event* is the call."""
        try:
            identity = full_id(given, self.store)
        except AmbiguousIdError as error:
            why = f"an error occurred when try to find container {given!r}: {error}".replace("'", '"', 2)
            raise CallError(event, UNKNOWN, why) from None
        return self.store.get(identity) or self._made(identity, messages.Pod(id=""), NOBODY)

    def known(self, identity: str) -> NodeContainer | None:
        """Return the container *identity*, even while it is being created."""
        return self.store.get(identity) or self._making.get(identity)

    def of(self, pod: str) -> Iterator[NodeContainer]:
        yield from [each for each in self.store.values() if each.pod.id == pod]

    async def make(self, pod: messages.Pod, record: ContainerRecord) -> str:
        """Create a container in *pod* with the request and the full name of *record*. Return its id."""
        reserved, config = record.reserved, record.request.config
        holder = self.names.get(reserved)
        if holder:
            raise WorldError(
                f'failed to reserve container name "{reserved}": name "{reserved}" is reserved for "{holder}"'
            )
        made = self._made(token_hex(32), pod, record)
        self.names[reserved] = made.id
        self._making[made.id] = made
        told = replace(made.told(), state=messages.ContainerState.CREATED)
        try:
            adjust(config, await self._relays.tell("create-container", pod, told, limits(config.linux.resources)))
            whole = _resources(limits(config.linux.resources))
            self._do(made, "create", made.id, lambda: made.reference.call("create", whole))
        except (WorldError, CallError):
            del self.names[reserved]
            await self._relays.mention("stop-container", pod, told)
            await self._relays.mention("remove-container", pod, told)
            raise
        finally:
            del self._making[made.id]
        self.store[made.id] = made
        await self._notice(made, "created")
        await self._relays.mention("post-create-container", pod, made.told())
        return made.id

    async def start(self, given: str) -> None:
        await self._whole(self._start(given))

    async def halt(self, given: str, grace: float) -> None:
        """Stop a container with SIGTERM, and after *grace* seconds with SIGKILL."""
        found = self.find(given, "stop")
        async with self._relays.blocking():
            workload = found.world.workload
            if found.shows == RUNNING and grace > 0 and workload and found.watch:
                workload.signal(SIGTERM)
                await asyncio.wait([found.watch], timeout=grace)
            await self._whole(self._stop(found, given))

    async def discard(self, given: str) -> None:
        """Remove a container, killing it first if it is running."""
        await self._whole(self._remove(given))

    async def update(self, given: str, wanted: Limits) -> None:
        """Change the limits of a container to *wanted*. Plugins may replace them."""
        await self._whole(self._update(given, wanted))

    def change(self, identity: str, wanted: Mapping[str, object]) -> None:
        """Change the limits of the container *identity* as a plugin requests. Can be called from any thread."""
        given = {name: value for name, value in wanted.items() if isinstance(value, int | str)}
        found = self.store[identity]
        found.reference.call("update-resources", _resources({**found.limits(), **given}))

    def status(self, given: str) -> tuple[NodeContainer, Status]:
        found = self.find(given, "status")
        return found, self._do(found, "status", given, found.reference.status)

    def use(self, event: str, given: str, refusal: str = "") -> NodeContainer:
        """Make the call *event*, which changes nothing, on a container. The call fails if there is a *refusal*."""
        found = self.find(given, event)
        found.world.refusal = refusal
        try:
            self._do(found, event, given, lambda: found.reference.call(event))
        finally:
            found.world.refusal = ""
        return found

    def reopen_log(self, given: str) -> None:
        """Continue the log in a new file at the same path."""
        found, refusal = self.find(given, "reopen-log"), ""
        if found.shows == RUNNING:
            try:
                found.command.begin_log()
            except WorldError as error:
                refusal = f"failed to reopen container log: {error}"
        self.use("reopen-log", given, refusal)

    async def execute(self, given: str, words: tuple[str, ...], limit: float) -> Executed:
        """Run a command in a container and wait for it, at most *limit* seconds. 0 means no limit."""
        if not words:
            raise CallError("exec-sync", "INVALID_ARGUMENT", "cmd must not be empty")
        found = self.find(given, "exec-sync")
        if is_noop(found.reference.position, "exec-sync") or found.world.workload is None:
            self.use("exec-sync", given)
            return Executed(code=0)
        command = replace(found.command, words=words)
        try:
            async with asyncio.timeout(limit or None):
                heard = Heard()
                done = heard.executed(await found.world.workload.execute(command, heard))
        except TimeoutError:
            why = f"failed to exec in container: timeout {limit:g}s exceeded: context deadline exceeded"
            with suppress(CallError):
                self.use("exec-sync", found.id, why)
            raise CallError("exec-sync", "DEADLINE_EXCEEDED", why) from None
        except WorldError as error:
            self.use("exec-sync", found.id, f"failed to exec in container: failed to start exec: {error}")
            raise
        if found.watch and found.world.workload.exit:  # the command has ended the container
            await asyncio.wait([found.watch])
            return done
        self.use("exec-sync", found.id)
        return done

    async def stop(self, _pod: str) -> None:
        for each in self.of(_pod):
            if each.shows in MAY_RUN:
                self._do(each, "stop", each.id, lambda each=each: each.reference.call("stop"))  # type: ignore[misc]
                await self._watched(each)

    async def remove(self, _pod: str) -> None:
        for each in self.of(_pod):
            await self._remove(each.id)

    async def _start(self, given: str) -> None:
        found = self.find(given, "start")
        in_progress = self._do(found, "start", given, lambda: found.reference.begin("start"))
        world, told = found.world, False
        world.refusal = "" if self._ready(found.pod.id) else f'sandbox container "{found.pod.id}" is not running'
        async with self._relays.blocking():
            if not world.refusal:
                try:
                    told = True
                    await self._relays.tell("start-container", found.pod, found.told())
                except WorldError as error:
                    world.refusal = f"NRI container start failed: {error}"
            try:
                while in_progress:
                    in_progress = found.reference.end("start")
            except CallError:
                if told:
                    await self._relays.mention("stop-container", found.pod, found.told())
                raise
            finally:
                world.refusal = ""
            if world.workload:
                found.watch = self.tasks.start(self._watch(found, world.workload))
            await self._notice(found, "started")
            await self._relays.mention("post-start-container", found.pod, found.told())

    async def _stop(self, found: NodeContainer, given: str) -> None:
        known = found.shows != ABSENT
        self._do(found, "stop", given, lambda: found.reference.call("stop"))
        await self._watched(found)
        # A plugin must never see a start after a stop, and a created container may yet start. So its stop is relayed
        # only under a profile, as containerd does.
        if known and (self._relays.release or found.shows != CREATED):
            await self._relays.mention("stop-container", found.pod, found.told())

    async def _remove(self, given: str) -> None:
        found = self.find(given, "remove")
        async with self._relays.blocking():
            in_progress = self._do(found, "remove", given, lambda: found.reference.begin("remove"))
            await self._watched(found)
            if in_progress:
                await self._relays.mention("remove-container", found.pod, found.told())
            while in_progress:
                in_progress = found.reference.end("remove")
            if self.store.pop(found.id, None):
                self.names.pop(found.record.reserved, None)
                await self._notice(found, "deleted")

    async def _update(self, given: str, wanted: Limits) -> None:
        found = self.find(given, "update-resources")
        async with self._relays.blocking():
            if found.shows != ABSENT:
                told = await self._relays.tell("update-container", found.pod, found.told(), wanted)
                wanted = {**wanted, **{name: each for name, each in told.items() if isinstance(each, int | str)}}
            whole = _resources({**found.limits(), **wanted})
            self._do(found, "update-resources", given, lambda: found.reference.call("update-resources", whole))
            await self._relays.mention("post-update-container", found.pod, found.told())

    async def _watch(self, found: NodeContainer, workload: Workload) -> None:
        ended = await workload.ended()
        with suppress(OSError):
            found.world.drop()
        self._relays.exited(found.pod, found.told())
        with suppress(CannotHappenError):
            found.reference.exited(ended)
        await self._notice(found, "stopped")

    async def _watched(self, found: NodeContainer) -> None:
        if found.watch and found.shows != RUNNING:
            await asyncio.wait([found.watch])

    async def _whole(self, call: Awaitable[T]) -> T:
        async def waited() -> T:
            return await call

        return await asyncio.shield(self.tasks.start(waited()))

    def _do(self, found: NodeContainer, event: str, given: str, act: Callable[[], T]) -> T:
        if self._deviates() and (way := refusal(found.reference.position, event)):
            found.reference.position.take(event, way.name)
            raise_reply(event, way, NO_RECORD.format(id=found.id))
        state, shows = found.reference.state, found.shows
        refused = is_noop(found.reference.position, event)
        try:
            return act()
        except CallError as error:
            why = of_container(event, given, state, shows) if refused else error.why
            raise CallError(event, error.code, why) from None

    def _made(self, identity: str, pod: messages.Pod, record: ContainerRecord) -> NodeContainer:
        world = self._world(identity, record)
        return NodeContainer(identity, pod, record, Container(world.root, world, self._profile), world)

    def _world(self, identity: str, record: ContainerRecord) -> ContainerWorld:
        """Return the world of a container, which is kept as long as containerd would have a record of the container."""

        def changed(world: ContainerWorld) -> None:
            if not world.known:
                self._kept.delete(identity)
                return
            pid = world.process.pid if world.process else 0
            now = replace(record, pid=pid, made_at=world.made_at, started_at=world.started_at)
            self._kept.save(identity, now)

        return ContainerWorld(self._root / identity, lambda: self._launch(Command.requested(record.request)), changed)

    def recover(self, told: Callable[[str], messages.Pod]) -> None:
        """Restore the kept containers. *told(id)* returns their pods. Remove directories without a record."""
        kept = self._kept.load()
        for identity in {*kept, *(each.name for each in self._root.glob("*"))}:
            record = kept.get(identity, NOBODY)
            pod = told(record.request.pod_sandbox_id)
            world = self._world(identity, record)
            world.known, world.made_at = identity in kept, record.made_at
            if record.pid and self._resume:
                world.resume(self._resume(record), record.started_at)
            reference = Container.recovered(world.root, world, self._profile)
            if reference.shows == ABSENT:
                self._kept.delete(identity)
                continue
            found = NodeContainer(identity, pod, record, reference, world)
            self.store[identity] = found
            self.names[record.reserved] = identity
            if world.workload and world.process:
                found.watch = self.tasks.start(self._watch(found, world.workload))


def _resources(wanted: Limits) -> Resources:
    known = {name: value for name, value in wanted.items() if name in LinuxResources.model_fields}
    return Resources(linux=LinuxResources.model_validate(known))
