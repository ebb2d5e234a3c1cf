"""Pods that behave like containerd, even where containerd differs from the machine.

Three kinds of behaviour are not in any profile, because no contract can allow them: a pod that failed or was removed
exists again after a restart, a name stays reserved without a pod, and a failed run leaves a ready pod.
"""

from collections.abc import Mapping
from contextlib import suppress
from dataclasses import replace
from typing import Final

from fsm.machine.driver import Position
from fsm.runtimes.names import NOT_READY, READY
from fsm.runtimes.reference.driven import ABSENT, UNKNOWN, CallError, driver, first_of
from fsm.runtimes.reference.pods import MACHINE, Pods
from fsm.runtimes.reference.pods.sandbox_controller import UpstreamController
from fsm.runtimes.reference.pods.surroundings import (
    FAILURES,
    MakeError,
    Metadata,
    MetadataError,
    MetadataStore,
    Pod,
    PodStatus,
    Stage,
    unmake,
)
from fsm.runtimes.reference.pods.sut import PodsSUT

NAME_AND_METADATA: Final = 2
"""The number of stages that remain when only the name and the metadata are left."""

FOUND: Final[Mapping[str, str]] = {READY: "ready", NOT_READY: "notready"}
"""The state that a restart assigns to a pod, by its state at the controller; other states become unknown."""


def offered(position: Position, event: str) -> set[str]:
    """Return the names of the outcomes of *event*, including containerd's deviations."""
    return {way.name for way in position.outcomes(event)}


class UpstreamPods(Pods):
    """Pods with two records: the list's record, which an exit changes later, and the controller's record.

    The status shows the controller's record. No state is written. If ``shim`` is true, pods have no pause container
    from which a restart could recover them.
    """

    shim = False

    def _position(self, state: str = "") -> Position:
        return driver(MACHINE, "containerd-2.1").position(state)

    def status(self, id: str) -> PodStatus:  # noqa: A002  (the field's name)
        """Return the status of a pod, with the state that the controller reports."""
        status = super().status(id)
        with suppress(CallError):
            return replace(status, state=READY if self.controller.status(id).state == READY else NOT_READY)
        return replace(status, state=NOT_READY)

    async def run(self, name: str, limits: Mapping[str, int] | None = None) -> str:
        """Run a pod; the pod is added to the store before it is watched."""
        id_ = await super().run(name, limits)
        pod = self._store[id_]
        try:
            await self._start_watch(pod)
        except CallError as error:
            await unmake(super()._stages(pod)[:3])
            raise CallError("run", UNKNOWN, str(error)) from error
        return id_

    def _stages(self, pod: Pod) -> tuple[Stage, ...]:
        """Return the stages of the base class, with one change: a sandbox that failed to start is not shut down."""
        name, metadata, network, entry, start, *_ = super()._stages(pod)
        return name, metadata, network, Stage(entry.make), start, Stage(lambda: self._pause(pod), entry.unmake)

    def _pause(self, pod: Pod) -> None:
        """Create the pause container, from which a restart recovers the pod."""
        if not self.shim:
            self._pauses.create(pod.metadata("none"))

    async def _fail_run(self, pod: Pod, error: MakeError) -> None:
        """Fail; if the name and the metadata cannot be deleted, leave them behind without a pod."""
        if error.left == NAME_AND_METADATA:
            self._take(pod, "run", "undone", str(error))
        await super()._fail_run(pod, error)

    async def stop(self, id: str) -> None:  # noqa: A002  (the field's name)
        """Stop the pod; the watch, not this call, changes the record of a ready pod."""
        pod = self.find(id)
        wanted: tuple[str, ...] = ("stop-of-removed", "ignored")
        why = "no such pod"
        if pod.state != ABSENT:
            reached, why = await self._tear_down(pod)
            wanted = ("not-stopped", "failed", "not-freed")
            if reached == "freed":
                wanted = ("record-follows", "unmonitored", "stopped", "ignored")
        self._take(pod, "stop", first_of(offered(pod.position, "stop"), *wanted), why)

    async def remove(self, id: str) -> None:  # noqa: A002  (the field's name)
        """Remove the pod from the store, and then delete its metadata."""
        pod = self.find(id)
        if pod.is_noop("remove"):
            self._take(pod, "remove")
            return
        reached, why = await self._tear_down(pod)
        if reached != "freed":
            self._take(pod, "remove", "failed", why)
        try:
            self.containers.remove(id)
            await self.controller.shutdown(id)
            self._pauses.delete(id)
        except FAILURES as error:
            self._take(pod, "remove", "failed", str(error))
        self._take(pod, "remove", "removed")
        try:
            self.metadata.delete(id)
        except OSError as error:
            raise CallError("remove", UNKNOWN, str(error)) from error
        self._release(pod)

    def _write(self, pod: Pod, state: str = "") -> None:
        """Write the limits of the pod, but not its state."""
        del state
        super()._write(pod, "none")

    async def recover(self) -> None:
        """Recover pods from their pause containers, and then the remaining pods from their metadata."""
        for store in (self._pauses, self.metadata):
            for id_ in store.ids():
                with suppress(MetadataError):
                    await self._recover(store.load(id_))

    async def _recover(self, found: Metadata) -> None:
        """Add the pod *found*, whatever its state; reserve its name only if it has a pause container."""
        if found.id in self._store:
            return
        record = self.controller.recover(found.id)
        pod = Pod(found, self._position(FOUND.get(record.state, "unknown")))
        pod.exit = record.exit
        self._store[pod.id] = pod
        if found.id in self._pauses.ids():
            self._reserve(pod)
        if record.state != NOT_READY:
            await self._start_watch(pod)

    @property
    def _pauses(self) -> MetadataStore:
        """Pause containers as containerd stores them, each with a copy of its pod's metadata."""
        return MetadataStore(self.metadata.root.with_name("containers"))


class UpstreamPodsSUT(PodsSUT):
    """The SUT for :class:`UpstreamPods`, which uses containerd's sandbox controller."""

    kinds = (UpstreamPods,)
    controller_kind = UpstreamController
