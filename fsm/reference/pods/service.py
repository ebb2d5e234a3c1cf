"""The calls on pods: the life of each is the machine ``pod-sandbox``, its data a file, a network and a pause process.

Whether a call may happen, what follows it and what is replied is the
machine's.  What is done in the world, and which of the machine's outcomes that
was, is what the methods here add.
"""

from __future__ import annotations

import asyncio
from contextlib import suppress
from typing import TYPE_CHECKING, Any, ClassVar, Final, TypeVar
from uuid import uuid4

from fsm.machine import ANY_ERROR
from fsm.reference.driven import ABSENT, UNKNOWN, CallError
from fsm.reference.events.backoff import EventMonitor, HandlerError
from fsm.reference.pods.containers import NoContainers
from fsm.reference.pods.metadata import MAKING, Metadata, MetadataError, MetadataStore
from fsm.reference.pods.names import Names
from fsm.reference.pods.pod import REMOVED, STOPPED, Pod, Status, driver
from fsm.reference.pods.stages import FAULTS, BackwardsError, Stage, make, unmake
from fsm.reference.sandbox.controller import Record

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from pathlib import Path
    from typing import Self

    from fsm.machine import Outcome
    from fsm.machine.driver import Position
    from fsm.reference.clock import Clock
    from fsm.reference.container.world import Exit
    from fsm.reference.pods.containers import Containers
    from fsm.reference.pods.network import Network
    from fsm.reference.sandbox.controller import Controller

T = TypeVar("T")

NOT_READY: Final = "SANDBOX_NOTREADY"
READY: Final = "SANDBOX_READY"


class Pods:
    """All pods, written down in *root*; *clock* says when what could not be written down is tried again.

    Methods for calls raise :class:`~fsm.reference.driven.CallError` for an
    error reply.  For one event loop; calls on one pod are made one after the
    other.

    >>> import tempfile
    >>> from pathlib import Path
    >>> from fsm.reference.pods.network import Leases
    >>> from fsm.reference.sandbox.controller import Controller
    >>> from fsm.reference.sandbox.processes import Processes
    >>> async def life(folder: Path) -> None:
    ...     async with Controller(lambda pod: Processes(folder / pod)) as controller:
    ...         pods = Pods(folder / "pods", controller, Leases(folder / "network"))
    ...         pod = await pods.run("web")
    ...         print(pods.status(pod).state, pods.status(pod).addresses)
    ...         await pods.stop(pod)
    ...         print(pods.status(pod).state, pods.status(pod).addresses)
    ...         await pods.remove(pod)
    ...         print(pods.list())
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     asyncio.run(life(Path(folder)))
    SANDBOX_READY ('10.88.0.1',)
    SANDBOX_NOTREADY ()
    {}
    """

    profile: ClassVar[str] = ""
    """That of the machine, if any."""

    def __init__(
        self,
        root: Path,
        controller: Controller,
        network: Network,
        containers: Containers | None = None,
        clock: Clock | None = None,
    ) -> None:
        self.names = Names()
        self.metadata = MetadataStore(root)
        self.controller = controller
        self.network = network
        self.containers = containers or NoContainers()
        self.monitor: EventMonitor[tuple[Pod, Exit]] = EventMonitor(self._retried, clock)
        self._store: dict[str, Pod] = {}
        self._tasks: set[asyncio.Task[Any]] = set()

    async def close(self) -> None:
        """Nobody waits for anything any more; what runs goes on."""
        self.monitor.stop()
        for each in self._tasks:
            each.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    # -- calls that change nothing -----------------------------------------

    def list(self) -> dict[str, str]:
        """What each pod shows, by its id."""
        return {id_: pod.position.shows for id_, pod in self._store.items()}

    def status(self, id: str) -> Status:  # noqa: A002  (what it is)
        """What is known of a pod."""
        pod, asked = self._of(id), Record()
        if pod.idle("status"):
            self._take(pod, "status")
        with suppress(CallError):
            asked = self.controller.status(id)
        self._asked(pod, "status", "read", lambda: self.network.addresses(id))
        return Status(
            id=id,
            name=pod.name,
            state=pod.position.shows,
            pid=asked.pid,
            created_at=pod.created_at,
            exit=pod.exit,
            addresses=self.network.addresses(id),
            limits=dict(pod.limits),
        )

    def create_container(self, id: str) -> None:  # noqa: A002  (what it is)
        """Make a container in a pod, which has to be ready."""
        pod = self._of(id)
        if pod.idle("create-container"):
            self._take(pod, "create-container")
        if pod.position.shows != READY:
            self._take(pod, "create-container", "failed", "the pod is not ready", "NOT_FOUND")
        self._asked(pod, "create-container", "created", lambda: self.containers.create(id))

    def port_forward(self, id: str) -> None:  # noqa: A002  (what it is)
        """Prepare a stream to ports of a pod."""
        pod = self._of(id)
        if pod.idle("port-forward"):
            self._take(pod, "port-forward", why="the pod is not ready")
        self._asked(pod, "port-forward", "prepared", lambda: self.network.forward(id))

    def update_resources(self, id: str, limits: Mapping[str, int]) -> None:  # noqa: A002  (what it is)
        """Change the limits of a pod to *limits*."""
        pod = self._of(id)
        if pod.idle("update-resources"):
            self._take(pod, "update-resources")
        before, pod.limits = pod.limits, dict(limits)
        try:
            self._asked(pod, "update-resources", "updated", lambda: self._write(pod))
        except CallError:
            pod.limits = before
            raise

    # -- calls that change something ---------------------------------------

    async def run(self, name: str, limits: Mapping[str, int] | None = None) -> str:
        """Make a pod and start its pause process; its id."""
        known = self._store.get(self.names.holder(name))
        if known:
            self._take(known, "run", why=f'there is a pod of the name "{name}"')
        pod = Pod(uuid4().hex, self._at(), name)
        pod.limits = dict(limits or {})
        try:
            await make(self._stages(pod))
        except BackwardsError as error:
            await self._failed(pod, error)
        self._store[pod.id] = pod
        self._take(pod, "run", "ready")
        return pod.id

    async def stop(self, id: str) -> None:  # noqa: A002  (what it is)
        """End every process of a pod, and free its network."""
        pod = self._of(id)
        async with pod.lock:
            if pod.idle("stop"):
                self._take(pod, "stop")
                return
            reached, why = await self._ended(pod)
            if reached == "freed":
                try:
                    self._write(pod, "stopped")
                except OSError as error:
                    reached, why = "ended", str(error)
            self._so(pod, "stop", STOPPED[reached], why)

    async def remove(self, id: str) -> None:  # noqa: A002  (what it is)
        """Stop a pod, remove its containers, and delete it."""
        pod = self._of(id)
        async with pod.lock:
            if pod.idle("remove"):
                self._take(pod, "remove")
                return
            reached, why = await self._ended(pod)
            if reached == "freed":
                reached, why = await self._deleted(pod)
            self._so(pod, "remove", REMOVED[reached], why)

    # -- what happens ------------------------------------------------------

    def exited(self, pod: Pod, ended: Exit) -> None:
        """The pause process of *pod* has *ended*; raises :class:`OSError` if that cannot be written down, and is to be told again."""
        (way,) = pod.position.ways("exit")
        if way.to != pod.position.state:
            before, pod.exit = pod.exit, pod.exit or ended
            try:
                self._write(pod, way.to)
            except OSError:
                pod.exit = before
                raise
        self._take(pod, "exit")

    async def _retried(self, event: tuple[Pod, Exit]) -> None:
        try:
            self.exited(*event)
        except OSError as error:
            raise HandlerError from error

    async def _watched(self, pod: Pod) -> None:
        """Begin to wait for the end of *pod*; raises :class:`CallError` if its controller does not let us."""
        waiting = self._kept(asyncio.create_task(self.controller.wait(pod.id)))
        await asyncio.sleep(0)
        if waiting.done():
            await waiting
        pod.watch = self._kept(asyncio.create_task(self._watch(pod, waiting)))

    async def _watch(self, pod: Pod, waiting: asyncio.Task[Exit]) -> None:
        ended = await waiting
        try:
            self.exited(pod, ended)
        except OSError:
            self.monitor.backoff(pod.id, (pod, ended))

    def _kept(self, task: asyncio.Task[T]) -> asyncio.Task[T]:
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task

    # -- restart -----------------------------------------------------------

    async def recover(self) -> Self:
        """What a restart finds, written down and in the world."""
        for id_ in self.metadata.ids():
            try:
                found = self.metadata.load(id_)
            except MetadataError:
                await self._passed_over(id_)
                continue
            if found.state == MAKING:
                await self._undone(found)
            elif found.state in driver().machine.states:
                await self._recovered(found)
            else:
                await self._passed_over(id_)
        return self

    async def _passed_over(self, id_: str) -> None:
        """Of what cannot be read nothing is to be left; if it is, there is another restart."""
        self.controller.recover(id_)
        stages = self._stages(Pod(id_, self._at()))
        await unmake([*stages, Stage(bool, lambda: self.containers.remove(id_))])

    async def _undone(self, found: Metadata) -> None:
        """The run of the pod that is *found* was never over: it has failed."""
        self.controller.recover(found.id)
        pod = Pod.read(found, self._at())
        self.names.reserve(pod.name, pod.id)
        kept = await unmake(self._stages(pod))
        if kept:
            with suppress(CallError):
                await self._failed(pod, BackwardsError("the run was not over", kept))

    async def _recovered(self, found: Metadata) -> None:
        """The pod that is *found* is there again."""
        asked = self.controller.recover(found.id)
        pod = Pod.read(found, self._at(found.state))
        wanted = {READY: ("ready", "unknown"), NOT_READY: ("notready",)}.get(asked.state, ("unknown",))
        before = pod.position.state
        self._take(pod, "restart", pod.called("restart", wanted))
        if pod.position.state != before:
            pod.exit = pod.exit or asked.exit
            with suppress(OSError):
                self._write(pod)
        self._store[pod.id] = pod
        self.names.reserve(pod.name, pod.id)
        if asked.state != NOT_READY:
            await self._watched(pod)

    # -- effects -----------------------------------------------------------

    def _stages(self, pod: Pod) -> tuple[Stage, ...]:
        """All that a run of *pod* makes; metadata comes first of what a restart would find."""
        return (
            Stage(lambda: self.names.reserve(pod.name, pod.id), lambda: self.names.release(pod.id)),
            Stage(lambda: self.metadata.create(pod.metadata(MAKING)), lambda: self.metadata.delete(pod.id)),
            Stage(lambda: self.network.setup(pod.id), lambda: self.network.teardown(pod.id)),
            Stage(lambda: self.controller.create(pod.id), lambda: self.controller.shutdown(pod.id)),
            Stage(lambda: self._started(pod)),
            Stage(lambda: self._watched(pod), lambda: self._unwatched(pod)),
            Stage(lambda: self._write(pod, "ready")),
        )

    def _started(self, pod: Pod) -> None:
        """Start its pause process."""
        self.controller.start(pod.id)
        pod.created_at = self.controller.status(pod.id).created_at

    async def _failed(self, pod: Pod, error: BackwardsError) -> None:
        """Say that the run of *pod* failed; what is left of it is there to be removed."""
        if error.kept:
            self._store[pod.id] = pod
            with suppress(OSError):
                self._write(pod, "unknown")
            with suppress(CallError):
                await self._watched(pod)
        self._take(pod, "run", "left-over" if error.kept else "undone", str(error))

    async def _ended(self, pod: Pod) -> tuple[str, str]:
        """Stop *pod*: how far that went, and why not farther."""
        reached = "held"
        try:
            self.containers.stop(pod.id)
            try:
                await self.controller.stop(pod.id)
            except CallError as error:
                if error.code != "NOT_FOUND":
                    raise
            reached = "ended"
            pod.exit = pod.exit or self._exit(pod)
            self.network.teardown(pod.id)
        except FAULTS as error:
            if reached == "held" and self._exit(pod):
                reached = "ended"  # what failed came after it
            return reached, str(error)
        return "freed", ""

    async def _deleted(self, pod: Pod) -> tuple[str, str]:
        """Delete what is left of *pod*, which was stopped: how far that went, and why not farther."""
        try:
            self.containers.remove(pod.id)
            await self.controller.shutdown(pod.id)
            self.metadata.delete(pod.id)
        except FAULTS as error:
            return "freed", str(error)
        self._unwatched(pod)
        self.names.release(pod.id)
        return "gone", ""

    def _exit(self, pod: Pod) -> Exit | None:
        """How the pause process of *pod* has ended, as far as its controller knows."""
        with suppress(CallError):
            return self.controller.status(pod.id).exit
        return None

    def _unwatched(self, pod: Pod) -> None:
        if pod.watch:
            pod.watch.cancel()

    def _write(self, pod: Pod, state: str = "") -> None:
        """Write *pod* down, in *state* or in that which it is in."""
        self.metadata.save(pod.metadata(state or pod.position.state))

    # -- the machine -------------------------------------------------------

    def _at(self, state: str = "") -> Position:
        """Where a pod stands that is in *state*, or not there."""
        return driver(self.profile).position(state)

    def _of(self, id_: str) -> Pod:
        """The pod with this id; one that is not there, if none is."""
        return self._store.get(id_) or Pod(id_, self._at())

    def _so(self, pod: Pod, event: str, wanted: tuple[str, ...], why: str) -> None:
        """Go the first way of *wanted* that there is, and write down where it leads if that is of use after a restart."""
        outcome = pod.called(event, wanted)
        to = next(way.to for way in pod.position.ways(event) if way.name == outcome or not outcome)
        if to not in {ABSENT, "stopped", pod.position.state}:
            with suppress(OSError):
                self._write(pod, to)
        self._take(pod, event, outcome, why)

    def _asked(self, pod: Pod, event: str, well: str, act: Callable[[], object]) -> None:
        """Have the world do what *event* is for."""
        try:
            act()
        except FAULTS as error:
            self._take(pod, event, "failed", str(error))
        self._take(pod, event, well)

    def _take(self, pod: Pod, event: str, outcome: str = "", why: str = "no such pod", code: str = UNKNOWN) -> Outcome:
        """Go the way that *outcome* names, and raise what it replies if that is an error, *code* if it says no more."""
        way = pod.position.take(event, outcome)
        if pod.position.state == ABSENT:
            self._store.pop(pod.id, None)
        if way.reply and not way.replies("ok"):
            raise CallError(event, code if way.reply[0] == ANY_ERROR else way.reply[0], why)
        return way
