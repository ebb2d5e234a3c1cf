"""Check a recording of pods and their containers against the conditions of a system on its parts.

Each entity is judged by its own machine.  This module checks a signal of one entity against the other entities.  The
condition of its joint event must be possible in the states that the monitors believe the entities to be in.  Each
entity's states are considered separately, and the recording may not show all containers.  Every finding is therefore
certain, but some violations are missed.
"""

from collections import OrderedDict
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import NamedTuple

from fsm.machine import Deviation
from fsm.machine.conditions import All, At, Condition, Not, Some
from fsm.machine.findings import Cause, Violation
from fsm.machine.product.system import JointEvent, System
from fsm.machine.versions import meant
from fsm.monitor import REMEMBERED, Monitor
from fsm.recordings.pod_calls import CONTAINER, POD
from fsm.trace import Batch, Line, Observation


class _May(NamedTuple):
    hold: bool
    fail: bool


class _Those(NamedTuple):
    """The copy's digit, the entity and the pod that a joint event is about, and the pod's known containers."""

    digit: int
    entity: str
    pod: str
    containers: Collection[str]


class JointWatch:
    """Checks the signals of *system* against the states that *monitors* believe its parts to be in.

    Each monitor judges a different kind of entity.  *pods* maps each container read so far to its pod.
    """

    def __init__(
        self, system: System, monitors: Sequence[Monitor], pods: Mapping[str, str], *, profile: str | None, file: str
    ) -> None:
        self._system = system
        self._file = file
        self._own = {*meant(profile, system.profiles).values()}
        self._pods = pods
        self._within: OrderedDict[str, dict[str, None]] = OrderedDict()
        self._monitors = {each.machine.entity: each for each in monitors}
        self._events: dict[tuple[str, str], JointEvent] = {}
        signals = [each for each in system.events.values() if each.kind == "signal" and each.when is not None]
        for joint in signals:
            for step in (step for way in joint.ways for step in way.steps if step.copy == joint.of):
                machine = system.parts[step.copy.part].machine
                event = machine.events[step.event]
                for name in {event.name, event.rpc} - {""}:
                    self._events.setdefault((machine.entity, name), joint)

    def pieces(self, batch: Batch) -> Iterator[Batch]:
        """Yield *batch* in pieces.  Each signal is checked after the monitors have processed the piece before it."""
        start = 0
        for index, (seen, line) in enumerate(zip(batch.observations, batch.lines, strict=True)):
            pod = seen.entity if seen.of == POD else self._pods.get(seen.entity, "")
            if seen.of == CONTAINER and pod:
                self._within.setdefault(pod, {})[seen.entity] = None
                if len(self._within) > REMEMBERED:  # containers of a forgotten pod are treated as unknown
                    self._within.popitem(last=False)
            joint = self._events.get((seen.of, seen.event or seen.output))
            if joint is None or joint.of is None or seen.phase or not pod:
                continue
            yield Batch(batch.observations[start:index], batch.lines[start:index])
            start = index
            of = _Those(joint.of.digit, seen.entity, pod, self._within.get(pod, ()))
            if not self._may(joint.when, of).hold:
                self._broken(joint, of, seen, Line.of(line, self._file))
            if "RemovePodSandbox" in {seen.event, seen.output}:
                self._within.pop(pod, None)
        yield Batch(batch.observations[start:], batch.lines[start:])

    def _broken(self, joint: JointEvent, of: _Those, seen: Observation, line: Line) -> None:
        monitor = self._monitors[seen.of]
        known = {each.profile: each for each in self._deviations(joint, of)}
        if own := [each for name, each in known.items() if name in self._own]:
            monitor.folder.tolerate(monitor.machine.name, own, seen, line)
            return
        kind, others = (CONTAINER, of.containers) if seen.of == POD else (POD, (of.pod,))
        states = (state for each in others for state in sorted(self._monitors[kind].states(each)))
        monitor.folder.fold(
            Violation(
                machine=monitor.machine.name,
                cause=Cause.EVENT,
                observation=seen,
                file=line.file,
                line=line.number,
                before=tuple(dict.fromkeys(f"{kind} {state}" for state in states)),
                clause=joint.clause,
                illegal=seen.event or seen.output,
                resembles=tuple(known.values()),
            )
        )

    def _deviations(self, joint: JointEvent, of: _Those) -> Iterator[Deviation]:
        """Yield the deviations of profiles that allow *joint* even though its condition fails."""
        for profile in self._system.profiles.values():
            otherwise = profile.events.get(joint.name)
            if otherwise and self._may(otherwise.when, of).hold:
                yield Deviation(
                    name=joint.family,
                    event=joint.family,
                    clause=joint.clause,
                    about=otherwise.about,
                    profile=profile.name,
                    since=profile.since,
                    until=profile.until,
                    link=joint.clause.link,
                )

    def _may(self, condition: Condition | None, of: _Those) -> _May:
        match condition:
            case Not(of=inner):
                may = self._may(inner, of)
                return _May(may.fail, may.hold)
            case All(of=parts):
                each = [self._may(part, of) for part in parts]
                return _May(all(may.hold for may in each), any(may.fail for may in each))
            case Some(of=parts):
                each = [self._may(part, of) for part in parts]
                return _May(any(may.hold for may in each), all(may.fail for may in each))
            case At(part=part, copies=copies, states=states, every=every):
                kind = self._system.parts[part].machine.entity
                alone = kind == POD or copies == (of.digit,)
                entities = of.containers if not alone else (of.pod,) if kind == POD else (of.entity,)
                possible = [self._monitors[kind].states(each) for each in entities]
                hold = [not states.isdisjoint(each) for each in possible]
                fail = [not states.issuperset(each) for each in possible]
                if every:
                    return _May(all(hold), not alone or any(fail))
                return _May(not alone or any(hold), all(fail))
            case None:
                return _May(hold=True, fail=False)
            case _:
                return _May(hold=True, fail=True)
