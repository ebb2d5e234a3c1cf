"""Pods that behave like containerd's pods, even where these differ from the machine.

Three kinds of behaviour are in no profile, because no contract can allow them. A pod that failed or was removed may
exist again after a restart, a name may stay reserved without a pod, and a failed run may leave a ready pod.
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
"""The number of stages left to undo when only the name and the metadata remain."""

FOUND: Final[Mapping[str, str]] = {READY: "ready", NOT_READY: "notready"}
"""The state of a pod after a restart, by its state at the controller.

All other states become unknown.
"""


def offered(position: Position, event: str) -> set[str]:
    return {way.name for way in position.outcomes(event)}


class UpstreamPods(Pods):
    """Pods with two records of their state, as in containerd: one in the list and one at the controller.

    The status shows the controller's record, and an exit reaches the list's record only later. No state is written to
    disk. With ``shim``, pods have no pause container from which a restart could recover them.
    """

    shim = False

    def _position(self, state: str = "") -> Position:
        return driver(MACHINE, "containerd-2.1").position(state)

    def status(self, id: str) -> PodStatus:  # noqa: A002  (the field's name)
        status = super().status(id)
        with suppress(CallError):
            return replace(status, state=READY if self.controller.status(id).state == READY else NOT_READY)
        return replace(status, state=NOT_READY)

    async def run(self, name: str, limits: Mapping[str, int] | None = None) -> str:
        """Run a pod, and put it into the store before the watch on it starts."""
        id_ = await super().run(name, limits)
        pod = self._store[id_]
        try:
            await self._start_watch(pod)
        except CallError as error:
            await unmake(super()._stages(pod)[:3])
            raise CallError("run", UNKNOWN, str(error)) from error
        return id_

    def _stages(self, pod: Pod) -> tuple[Stage, ...]:
        """Return the stages of the base class, but do not shut down a sandbox that fails to start."""
        name, metadata, network, entry, start, *_ = super()._stages(pod)
        return name, metadata, network, Stage(entry.make), start, Stage(lambda: self._pause(pod), entry.unmake)

    def _pause(self, pod: Pod) -> None:
        if not self.shim:
            self._pauses.create(pod.metadata("none"))

    async def _fail_run(self, pod: Pod, error: MakeError) -> None:
        """Fail the run. If the metadata cannot be deleted, it is left behind with the name, but without a pod."""
        if error.left == NAME_AND_METADATA:
            self._take(pod, "run", "undone", str(error))
        await super()._fail_run(pod, error)

    async def stop(self, id: str) -> None:  # noqa: A002  (the field's name)
        """Stop the pod. The record of a ready pod changes later, when the watch notices the exit."""
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
        for store in (self._pauses, self.metadata):
            for id_ in store.ids():
                with suppress(MetadataError):
                    await self._recover(store.load(id_))

    async def _recover(self, found: Metadata) -> None:
        """Add a recovered pod, whatever its state. Reserve its name only if it has a pause container."""
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
        """Return the store of pause containers, each with a copy of its pod's metadata."""
        return MetadataStore(self.metadata.root.with_name("containers"))


class UpstreamPodsSUT(PodsSUT):
    kinds = (UpstreamPods,)
    controller_kind = UpstreamController
