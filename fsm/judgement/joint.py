"""The conditions of a system on what its parts do, held to a recording of pods and their containers.

Each entity is judged by its own machine.  A signal of one is judged here by
the others: the condition of its joint event must be possible in the states
that the monitors take the entities to be in.  Each state is taken for itself,
and there may be containers that the recording does not show, so what is
reported is certain, and some is missed.
"""

from collections import defaultdict
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple

from fsm.machine import Deviation
from fsm.machine.conditions import All, At, Condition, Not, Some
from fsm.machine.versions import of_version
from fsm.monitor import Monitor
from fsm.product.system import JointEvent, System, Variant
from fsm.recordings import Batch
from fsm.recordings.pod_calls import POD
from fsm.trace import Line, Observation
from fsm.verdict import Cause, Tolerated, Violation

_REMOVES: Final = "RemovePodSandbox"


class _May(NamedTuple):
    """Whether a condition may hold, and whether it may not."""

    hold: bool
    fail: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class _Those:
    """The entity that a joint event is of, its pod, and the containers of the pod as far as they are known."""

    of: str
    pod: str
    containers: Collection[str]


class JointWatch:
    """Watches the joint events of *system* on what *monitors* take, the parts' machines being theirs.

    *pods* has the pod of each container, as far as it was read.
    """

    def __init__(
        self, system: System, monitors: Sequence[Monitor], pods: Mapping[str, str], *, profile: str | None, file: str
    ) -> None:
        self._system = system
        self._file = file
        self._own = profile if profile in system.profiles else "".join(of_version(profile or "", system.profiles)[:1])
        self._pods = pods
        self._within: defaultdict[str, dict[str, None]] = defaultdict(dict)
        machines = {each.machine.name: each for each in monitors}
        self._monitors = {name: machines[part.machine.name] for name, part in system.parts.items()}
        self._parts = {self._monitors[name].machine.entity: name for name in system.parts}
        self._events: dict[tuple[str, str], JointEvent] = {}
        for joint in system.events.values():
            steps = [step for way in joint.ways for step in way.steps if step.copy == joint.of]
            for step in steps if joint.when is not None and joint.kind == "signal" else ():
                event = self._monitors[step.copy.part].machine.events[step.event]
                for name in {event.name, event.rpc} - {""}:
                    self._events.setdefault((step.copy.part, name), joint)

    def pieces(self, batch: Batch) -> Iterator[Batch]:
        """The parts of *batch*; what follows each is looked at when the monitors have taken it."""
        start = 0
        for index, (seen, line) in enumerate(zip(*batch, strict=True)):
            pod = self._pods.get(seen.entity, "")
            if pod:
                self._within[pod][seen.entity] = None
            joint = self._events.get((self._parts.get(seen.of, ""), seen.event or seen.output))
            if joint is None or seen.phase or not (pod or seen.of == POD):
                continue
            yield Batch(batch.observations[start:index], batch.lines[start:index])
            start = index
            pod = pod or seen.entity
            of = _Those(of=seen.entity, pod=pod, containers=self._within.get(pod, ()))
            if joint.when is not None and not self._may(joint.when, joint, of).hold:
                self._broken(joint, of, seen, line if isinstance(line, Line) else Line(self._file, line))
            if (seen.event or seen.output) == _REMOVES:
                self._within.pop(pod, None)
        yield Batch(batch.observations[start:], batch.lines[start:])

    def _broken(self, joint: JointEvent, of: _Those, seen: Observation, line: Line) -> None:
        monitor = self._monitors[self._parts[seen.of]]
        known = [
            self._deviation(each, joint) for each in self._system.profiles.values() if self._allows(each, joint, of)
        ]
        for deviation in known:
            if deviation.profile == self._own:
                monitor.folder.tolerate(
                    Tolerated(
                        machine=monitor.machine.name,
                        deviation=deviation,
                        observation=seen,
                        file=line.file,
                        line=line.number,
                    )
                )
                return
        part, others = ("container", of.containers) if of.of == of.pod else ("pod", (of.pod,))
        states = (state for each in others for state in sorted(self._monitors[part].states(each)))
        monitor.folder.fold(
            Violation(
                machine=monitor.machine.name,
                cause=Cause.EVENT,
                observation=seen,
                file=line.file,
                line=line.number,
                before=tuple(dict.fromkeys(f"{part} {state}" for state in states)),
                permitted=(),
                clause=joint.clause,
                edits=(),
                illegal=seen.event or seen.output,
                resembles=tuple(known),
            )
        )

    def _allows(self, profile: Variant, joint: JointEvent, of: _Those) -> bool:
        when = profile.system.events[joint.name].when
        return when is None or self._may(when, joint, of).hold

    def _deviation(self, profile: Variant, joint: JointEvent) -> Deviation:
        return Deviation(
            name=joint.family,
            event=joint.family,
            clause=joint.clause,
            about=profile.system.events[joint.name].about,
            profile=profile.name,
            since=profile.since,
            until=profile.until,
            link=joint.clause.link,
        )

    def _may(self, condition: Condition, joint: JointEvent, of: _Those) -> _May:
        match condition:
            case Not(of=inner):
                may = self._may(inner, joint, of)
                return _May(may.fail, may.hold)
            case All(of=parts):
                each = [self._may(part, joint, of) for part in parts]
                return _May(all(may.hold for may in each), any(may.fail for may in each))
            case Some(of=parts):
                each = [self._may(part, joint, of) for part in parts]
                return _May(any(may.hold for may in each), all(may.fail for may in each))
            case At(part=part, copies=copies, states=states, every=every):
                alone = joint.of is not None and copies == (joint.of.digit,)
                entities = (of.of,) if alone else (of.pod,) if part == "pod" else of.containers
                each = [self._is(part, entity, states) for entity in entities]
                more = not alone and part != "pod"
                if every:
                    return _May(all(may.hold for may in each), more or any(may.fail for may in each))
                return _May(more or any(may.hold for may in each), all(may.fail for may in each))
            case _:
                return _May(hold=True, fail=True)

    def _is(self, part: str, entity: str, states: frozenset[str]) -> _May:
        may = self._monitors[part].states(entity)
        return _May(not states.isdisjoint(may), not states.issuperset(may))
