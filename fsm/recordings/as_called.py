"""Calls as they were made: without what they mean for other entities than those that they name."""

from __future__ import annotations

from msgspec import structs

from fsm.recordings.pod_calls import CONTAINER, POD, POD_CALLS, Joiner
from fsm.trace import Observation, Phase


class AsCalled(Joiner):
    """Gives calls by the ids in them; a creation is of its pod until it has succeeded, a run of nothing."""

    __slots__ = ()

    def kind(self, identity: str) -> str:  # noqa: ARG002
        return CONTAINER  # whichever it is, exits are not calls

    def observations(self, call: Observation) -> list[Observation]:
        if not call.entity or (call.event == "CreateContainer" and call.reply == "ok"):
            return []  # what was created is an observation of its own
        return [structs.replace(call, of=POD if call.event in POD_CALLS else CONTAINER)]

    def pod(self, identity: str) -> str:
        return identity

    def created(
        self, container: str, pod: str, *, start: int | None = None, at: int | str | None = None
    ) -> list[Observation]:
        what = Observation(of=CONTAINER, event="CreateContainer", phase="reply", reply="ok")
        return [structs.replace(what, entity=container, detail=pod, start=start, at=at)]

    def runs(self, phase: Phase, *, at: int | str | None = None) -> list[Observation]:
        return [Observation(of=POD, event="RunPodSandbox", phase=phase, at=at)]

    def anew(self) -> AsCalled:
        return self

    def ran(self, pod: str, *, start: int | None = None, at: int | str | None = None) -> list[Observation]:
        what = Observation(of=POD, event="RunPodSandbox", phase="reply", reply="ok")
        return [structs.replace(what, entity=pod, start=start, at=at)]

    def restarted(self, *, at: int | str | None = None) -> list[Observation]:
        return [Observation(event="restart", at=at)]
