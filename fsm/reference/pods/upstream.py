"""Pods as containerd has them, where that is not what is meant to be.

The machine's profiles for versions of containerd allow what clients can see of
it, but for three things that no contract can: that what failed or was removed
is there after a restart, that a name stays reserved for nobody, and that a run
which failed leaves a pod that is ready.
"""

from __future__ import annotations

from contextlib import suppress
from dataclasses import replace
from typing import TYPE_CHECKING, Final

from fsm.reference.driven import ABSENT, UNKNOWN, CallError
from fsm.reference.pods.metadata import MetadataError, MetadataStore
from fsm.reference.pods.pod import Pod
from fsm.reference.pods.service import NOT_READY, READY, Pods
from fsm.reference.pods.stages import FAULTS, Stage, unmake

if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Self

    from fsm.reference.pods.metadata import Metadata
    from fsm.reference.pods.pod import Status
    from fsm.reference.pods.stages import BackwardsError

NAME_AND_METADATA: Final = 2
"""Stages of a run: if they are all that is left it is too late to put the pod into the store."""

FOUND: Final[Mapping[str, str]] = {READY: "ready", NOT_READY: "notready"}
"""The state in which a restart finds a pod, by what its controller says; else it is unknown."""


class AsWritten(Pods):
    """Two records: that of a list, which the end of a pod reaches later, and the controller's, which its status is.

    No state is written down.  As ``shim``, the sandboxers of pods are shims,
    so that they have no pause container by which a restart would find them.
    """

    profile = "containerd-2.1"
    shim = False

    def status(self, id: str) -> Status:  # noqa: A002  (what it is)
        """As the other, but the state is what the controller says."""
        status = super().status(id)
        with suppress(CallError):
            return replace(status, state=READY if self.controller.status(id).state == READY else NOT_READY)
        return replace(status, state=NOT_READY)

    async def run(self, name: str, limits: Mapping[str, int] | None = None) -> str:
        """As the other; but the pod is in the store before anybody waits for its end."""
        id_ = await super().run(name, limits)
        pod = self._store[id_]
        try:
            await self._watched(pod)
        except CallError as error:
            await unmake(super()._stages(pod)[:3])
            event = "run"
            raise CallError(event, UNKNOWN, str(error)) from error
        return id_

    def _stages(self, pod: Pod) -> tuple[Stage, ...]:
        """In the same order; but what failed to start is not shut down."""
        name, metadata, network, entry, start, *_ = super()._stages(pod)
        return name, metadata, network, Stage(entry.make), start, Stage(lambda: self._contained(pod), entry.unmake)

    def _contained(self, pod: Pod) -> None:
        """There is a pause container, by which a restart will find it."""
        if not self.shim:
            self._paused.create(pod.metadata("none"))

    async def _failed(self, pod: Pod, error: BackwardsError) -> None:
        """As the other; but what cannot be deleted last is kept, and nobody has it."""
        if error.kept == NAME_AND_METADATA:
            self._take(pod, "run", "undone", str(error))
        await super()._failed(pod, error)

    async def stop(self, id: str) -> None:  # noqa: A002  (what it is)
        """As the other; but the record of what is ready is left to who waits for the end of the pod."""
        pod = self._of(id)
        if pod.position.state == ABSENT:
            self._take(pod, "stop", pod.called("stop", ("stop-of-removed", "ignored")))
            return
        reached, why = await self._ended(pod)
        wanted: tuple[str, ...] = ("not-stopped", "failed", "network-freed-again")
        if reached == "freed":
            wanted = ("ready-until-the-exit-is-handled", "unmonitored", "stopped", "ignored")
        self._take(pod, "stop", pod.called("stop", wanted), why)

    async def remove(self, id: str) -> None:  # noqa: A002  (what it is)
        """As the other; but the pod is taken out of the store before its metadata are deleted."""
        pod = self._of(id)
        if pod.idle("remove"):
            self._take(pod, "remove")
            return
        reached, why = await self._ended(pod)
        if reached != "freed":
            self._take(pod, "remove", "failed", why)
        try:
            self.containers.remove(id)
            await self.controller.shutdown(id)
            self._paused.delete(id)
        except FAULTS as error:
            self._take(pod, "remove", "failed", str(error))
        self._take(pod, "remove", "removed")
        try:
            self.metadata.delete(id)
        except OSError as error:
            event = "remove"
            raise CallError(event, UNKNOWN, str(error)) from error
        self.names.release(id)

    def _write(self, pod: Pod, state: str = "") -> None:
        """No state is written down, but limits are."""
        del state
        super()._write(pod, "none")

    # -- restart -----------------------------------------------------------

    async def recover(self) -> Self:
        """First those that are found by their pause containers, and then those that are found by their metadata."""
        for store in (self._paused, self.metadata):
            for id_ in store.ids():
                with suppress(MetadataError):
                    await self._recovered(store.load(id_))
        return self

    async def _recovered(self, found: Metadata) -> None:
        """The pod that is *found* is there again, whatever became of it; by its metadata alone without its name."""
        if found.id in self._store:
            return
        asked = self.controller.recover(found.id)
        pod = Pod.read(found, self._at(FOUND.get(asked.state, "unknown")))
        pod.exit = asked.exit
        self._store[pod.id] = pod
        if found.id in self._paused.ids():
            self.names.reserve(pod.name, pod.id)
        if asked.state != NOT_READY:
            await self._watched(pod)

    @property
    def _paused(self) -> MetadataStore:
        """Pause containers as containerd keeps them, each with a copy of its pod's metadata."""
        return MetadataStore(self.metadata.root.with_name("containers"))
