"""Pods of the CRI service, driven by the machine ``pod-sandbox``.

A pod has a unique name, metadata in a file, an address, a pause process and containers. A run creates it in stages.
"""

import asyncio
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import asdict
from pathlib import Path
from secrets import token_hex
from typing import Final

from fsm.machine.driver import Position
from fsm.runtimes.names import NOT_READY, READY
from fsm.runtimes.reference.clock import Clock, Tasks, perform
from fsm.runtimes.reference.container.world import Exit
from fsm.runtimes.reference.driven import ABSENT, UNKNOWN, CallError, WorldError, driver, first_of, raise_reply
from fsm.runtimes.reference.events import Backoff, HandlerError
from fsm.runtimes.reference.pods.sandbox_controller import Controller, SandboxRecord
from fsm.runtimes.reference.pods.surroundings import (
    FAILURES,
    MAKING,
    Containers,
    Leases,
    MakeError,
    Metadata,
    MetadataError,
    MetadataStore,
    Pod,
    PodObserver,
    PodStatus,
    Stage,
    make,
    unmake,
)

MACHINE: Final = "pod-sandbox"

STOPPED: Final[Mapping[str, tuple[str, ...]]] = {
    "held": ("not-stopped", "failed", "unmonitored"),
    **dict.fromkeys(("ended", "freed"), ("half-stopped", "failed", "unmonitored")),
    "gone": ("stopped",),
}
REMOVED: Final[Mapping[str, tuple[str, ...]]] = {
    "held": ("failed",),
    "ended": ("half-stopped", "failed"),
    "freed": ("stopped-only", "failed"),
    "gone": ("removed",),
}
"""The possible outcomes of a stop or a removal, by the stage that it reaches. The first that is offered is taken."""


class Pods:
    """All pods of a CRI service, with their metadata in the directory *root*. They belong to one event loop.

    If *profile* is not empty, the machine behaves as under that profile. *clock* times the retries of failed writes.
    *observer* is notified of changes. ``names`` maps each reserved name to the id of its pod. Calls on the same pod are
    serialised.

    >>> import tempfile
    >>> from fsm.runtimes.reference.container.world import Processes
    >>> async def example(folder: Path) -> None:
    ...     async with Controller(lambda pod: Processes(folder / pod)) as controller:
    ...         pods = Pods(folder / "pods", controller, Leases(folder / "network"))
    ...         pod = await pods.run("web")
    ...         print(pods.status(pod).state, pods.status(pod).addresses)
    ...         await pods.stop(pod)
    ...         print(pods.status(pod).state, pods.status(pod).addresses)
    ...         await pods.remove(pod)
    ...         print(pods.list())
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     asyncio.run(example(Path(folder)))
    SANDBOX_READY ('10.88.0.1',)
    SANDBOX_NOTREADY ()
    {}
    """

    def __init__(
        self,
        root: Path,
        controller: Controller,
        network: Leases,
        containers: Containers | None = None,
        clock: Clock | None = None,
        *,
        profile: str = "",
        observer: PodObserver | None = None,
    ) -> None:
        self.profile = profile
        self.observer = observer or PodObserver()
        self.names: dict[str, str] = {}
        self.metadata = MetadataStore(root)
        self.controller = controller
        self.network = network
        self.containers = containers or Containers()
        self.retries: Backoff[tuple[Pod, Exit]] = Backoff(self._retry, clock)
        self._store: dict[str, Pod] = {}
        self._tasks = Tasks()

    async def close(self) -> None:
        """Stop waiting for exits. Processes keep running."""
        self.retries.stop()
        await self._tasks.cancel()

    def list(self) -> dict[str, str]:
        return {pod.id: pod.shows for pod in self._store.values()}

    def listed(self) -> tuple[Metadata, ...]:
        return tuple(pod.metadata(pod.shows) for pod in self._store.values())

    def find(self, id: str) -> Pod:  # noqa: A002  (the field's name)
        return self._store.get(id) or Pod(Metadata(id=id, name=""), self._position())

    def status(self, id: str) -> PodStatus:  # noqa: A002  (the field's name)
        pod = self._find_existing(id, "status")
        self._perform(pod, "status", "read", lambda: self.network.addresses(id))
        kept = asdict(pod.metadata(pod.shows))
        return PodStatus(**kept, pid=self._sandbox_record(pod).pid, addresses=self.network.addresses(id))

    async def create_container(self, id: str, create: Callable[[], object] | None = None) -> None:  # noqa: A002
        """Create a container in the pod *id*, by calling *create* if it is given.

        The contract leaves open whether a pod accepts containers when it is not ready. Without a profile, it does not.
        """
        pod = self.find(id)
        async with pod.lock:
            pod = self._find_existing(id, "create-container")
            if pod.shows != READY and not self.profile:
                self._take(pod, "create-container", "failed", "the pod is not ready", "NOT_FOUND")
            try:
                await perform(create or (lambda: self.containers.create(id)))
            except FAILURES as error:
                self._take(pod, "create-container", "failed", str(error))
            self._take(pod, "create-container", "created")

    def port_forward(self, id: str) -> None:  # noqa: A002  (the field's name)
        pod = self._find_existing(id, "port-forward", "the pod is not ready")
        self._perform(pod, "port-forward", "prepared", lambda: self.network.forward(id))

    def update_resources(self, id: str, limits: Mapping[str, int]) -> None:  # noqa: A002  (the field's name)
        pod = self._find_existing(id, "update-resources")
        before, pod.limits = pod.limits, dict(limits)
        try:
            self._perform(pod, "update-resources", "updated", lambda: self._write(pod))
        except CallError:
            pod.limits = before
            raise

    async def run(self, name: str, limits: Mapping[str, int] | None = None) -> str:
        if known := self._store.get(self.names.get(name, "")):
            self._take(known, "run", why=f'there is a pod of the name "{name}"')
        pod = Pod(Metadata(id=token_hex(32), name=name, limits=dict(limits or {})), self._position())
        try:
            await make(self._stages(pod))
        except MakeError as error:
            await self._fail_run(pod, error)
        self._store[pod.id] = pod
        self._take(pod, "run", "ready")
        return pod.id

    async def stop(self, id: str) -> None:  # noqa: A002  (the field's name)
        await self._end(id, "stop", STOPPED, lambda pod: self._write(pod, "stopped"))

    async def remove(self, id: str) -> None:  # noqa: A002  (the field's name)
        await self._end(id, "remove", REMOVED, self._delete)

    def exited(self, pod: Pod, ended: Exit) -> None:
        (way,) = pod.position.outcomes("exit")
        if way.to != pod.state:
            before, pod.exit = pod.exit, pod.exit or ended
            try:
                self._write(pod, way.to)
            except OSError:
                pod.exit = before
                raise
        self._take(pod, "exit")

    async def _retry(self, event: tuple[Pod, Exit]) -> None:
        try:
            self.exited(*event)
        except OSError as error:
            raise HandlerError from error

    async def _start_watch(self, pod: Pod) -> None:
        waiting = self._tasks.start(self.controller.wait(pod.id))
        await asyncio.sleep(0)
        if waiting.done():
            await waiting
        pod.watch = self._tasks.start(self._watch(pod, waiting))

    async def _watch(self, pod: Pod, waiting: asyncio.Task[Exit]) -> None:
        ended = await waiting
        try:
            self.exited(pod, ended)
        except OSError:
            self.retries.defer(pod.id, (pod, ended))

    async def recover(self) -> None:
        for id_ in self.metadata.ids():
            metadata = None
            with suppress(MetadataError):
                metadata = self.metadata.load(id_)
            if metadata is None or metadata.state not in {MAKING, *driver(MACHINE).machine.states}:
                await self._clear(id_)
            elif metadata.state == MAKING:
                self.controller.recover(metadata.id)
                pod = Pod(metadata, self._position())
                self._reserve(pod)
                if left := await unmake(self._stages(pod)):
                    with suppress(CallError):
                        await self._fail_run(pod, MakeError("the run was not complete", left))
            else:
                await self._recover(metadata)

    async def _clear(self, id_: str) -> None:
        self.controller.recover(id_)
        await unmake([*self._stages(self.find(id_)), Stage(bool, lambda: self.containers.remove(id_))])

    async def _recover(self, metadata: Metadata) -> None:
        record = self.controller.recover(metadata.id)
        pod = Pod(metadata, self._position(metadata.state))
        outcomes = {READY: ("ready", "unknown"), NOT_READY: ("notready",)}.get(record.state, ("unknown",))
        before = pod.state
        self._take(pod, "restart", first_of(pod.offered("restart"), *outcomes))
        if pod.state != before:
            pod.exit = pod.exit or record.exit
            with suppress(OSError):
                self._write(pod)
        self._store[pod.id] = pod
        self._reserve(pod)
        if record.state != NOT_READY:
            await self._start_watch(pod)

    def _stages(self, pod: Pod) -> tuple[Stage, ...]:
        return (
            Stage(lambda: self._reserve(pod), lambda: self._release(pod)),
            Stage(lambda: self.metadata.create(pod.metadata(MAKING)), lambda: self.metadata.delete(pod.id)),
            Stage(lambda: self.network.setup(pod.id), lambda: self.network.teardown(pod.id)),
            Stage(lambda: self.controller.create(pod.id), lambda: self.controller.shutdown(pod.id)),
            Stage(lambda: self._start_process(pod)),
            Stage(lambda: self._start_watch(pod), lambda: self._stop_watch(pod)),
            Stage(lambda: self.observer.runs(pod.id), lambda: self.observer.removed(pod.id)),
            Stage(lambda: self._write(pod, "ready")),
        )

    def _reserve(self, pod: Pod) -> None:
        holder = self.names.setdefault(pod.name, pod.id)
        if holder != pod.id:
            raise WorldError(f'name "{pod.name}" is reserved for "{holder}"')

    def _release(self, pod: Pod) -> None:
        if self.names.get(pod.name) == pod.id:
            del self.names[pod.name]

    def _start_process(self, pod: Pod) -> None:
        self.controller.start(pod.id)
        pod.created_at = self.controller.status(pod.id).created_at

    async def _fail_run(self, pod: Pod, error: MakeError) -> None:
        if error.left:
            self._store[pod.id] = pod
            with suppress(OSError):
                self._write(pod, "unknown")
            with suppress(CallError):
                await self._start_watch(pod)
        self._take(pod, "run", "left-over" if error.left else "undone", str(error))

    async def _end(
        self, id_: str, event: str, outcomes: Mapping[str, tuple[str, ...]], then: Callable[[Pod], object]
    ) -> None:
        """Stop a pod for the call *event*. To complete the call, *then* is called with the pod."""
        pod = self.find(id_)
        async with pod.lock:
            if pod.is_noop(event):
                self._take(pod, event)
                return
            reached, why = await self._tear_down(pod)
            if reached == "freed":
                try:
                    await perform(lambda: then(pod))
                    reached = "gone"
                except FAILURES as error:
                    why = str(error)
                if reached == "gone" and event == "remove":
                    self._stop_watch(pod)
                    self._release(pod)
                    await perform(lambda: self.observer.removed(pod.id))
            outcome = first_of(pod.offered(event), *outcomes[reached])
            to = next(way.to for way in pod.position.outcomes(event) if way.name == outcome or not outcome)
            if to not in {ABSENT, "stopped", pod.state}:
                with suppress(OSError):
                    self._write(pod, to)
            self._take(pod, event, outcome, why)

    async def _tear_down(self, pod: Pod) -> tuple[str, str]:
        reached = "held"
        try:
            await perform(lambda: self.containers.stop(pod.id))
            try:
                await self.controller.stop(pod.id)
            except CallError as error:
                if error.code != "NOT_FOUND":
                    raise
            reached = "ended"
            pod.exit = pod.exit or self._sandbox_record(pod).exit
            await perform(lambda: self.observer.stopped(pod.id))
            self.network.teardown(pod.id)
        except FAILURES as error:
            if reached == "held" and self._sandbox_record(pod).exit:
                reached = "ended"  # the failure came after the exit
            return reached, str(error)
        return "freed", ""

    async def _delete(self, pod: Pod) -> None:
        await perform(lambda: self.containers.remove(pod.id))
        await self.controller.shutdown(pod.id)
        self.metadata.delete(pod.id)

    def _sandbox_record(self, pod: Pod) -> SandboxRecord:
        with suppress(CallError):
            return self.controller.status(pod.id)
        return SandboxRecord()

    def _stop_watch(self, pod: Pod) -> None:
        if pod.watch:
            pod.watch.cancel()

    def _write(self, pod: Pod, state: str = "") -> None:
        self.metadata.save(pod.metadata(state or pod.state))

    def _position(self, state: str = "") -> Position:
        return driver(MACHINE, self.profile).position(state)

    def _find_existing(self, id_: str, event: str, why: str = "no such pod") -> Pod:
        pod = self.find(id_)
        if pod.is_noop(event):
            self._take(pod, event, why=why)
        return pod

    def _perform(self, pod: Pod, event: str, success: str, act: Callable[[], object]) -> None:
        try:
            act()
        except FAILURES as error:
            self._take(pod, event, "failed", str(error))
        self._take(pod, event, success)

    def _take(self, pod: Pod, event: str, outcome: str = "", why: str = "no such pod", code: str = UNKNOWN) -> None:
        way = pod.take(event, outcome)
        if pod.state == ABSENT:
            self._store.pop(pod.id, None)
        raise_reply(event, way, why, code)
