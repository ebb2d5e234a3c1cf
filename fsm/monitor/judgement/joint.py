"""Check a recording of nested entities against the conditions of a system.

Whenever a signal is recorded, the condition of its joint event must be possible in the states that the monitors
consider possible. The states of each entity are considered separately, and the recording may not show all inner
entities. Therefore, every finding is certain, but some violations are missed.
"""

from collections import OrderedDict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple, Protocol

from fsm.machine import Deviation
from fsm.machine.conditions import All, At, Condition, Not, Some
from fsm.machine.findings import Cause, Violation
from fsm.machine.product.system import JointEvent, System
from fsm.machine.versions import meant
from fsm.monitor import REMEMBERED, Monitor
from fsm.recordings.form import Recording
from fsm.trace import Batch, Line, Observation


class _Those(NamedTuple):
    digit: int
    entity: str
    outer: str
    inner: Collection[str]


class JudgeOfForm(Protocol):
    """Checks the rules that a form of recording adds to the rules of the machines.

    The constructor takes the monitors and the name of the recording.
    """

    def pieces(self, batch: Batch) -> Iterable[Batch]:
        """Yield *batch* in pieces, and add findings to the monitors between the pieces."""


def nested(system: System) -> tuple[str, str] | None:
    """Return the kinds of inner and outer entities if *system* has exactly one such pair, and ``None`` otherwise."""
    parts = (each for each in system.parts.values() if each.root != each.name)
    pairs = {(each.machine.entity, system.parts[each.root].machine.entity) for each in parts}
    return pairs.pop() if len(pairs) == 1 else None


class JointWatch:
    """Checks each recorded signal against the states in which the parts of *system* may be.

    The *monitors*, one for each kind of entity, know these states. *recording* maps each inner entity to its outer
    entity. *kinds* are the kinds of inner and outer entities, as returned by :func:`nested`.
    """

    def __init__(
        self,
        system: System,
        monitors: Sequence[Monitor],
        recording: Recording,
        *,
        kinds: tuple[str, str],
        profile: str | None,
    ) -> None:
        self._system = system
        self._file = recording.name
        self._own = {*meant(profile, system.profiles).values()}
        self._outer_of: Mapping[str, str] = {} if recording.within is None else recording.within
        self._inner, self._outer = kinds
        self._within: OrderedDict[str, dict[str, None]] = OrderedDict()
        self._monitors = {each.machine.entity: each for each in monitors}
        self._events: dict[tuple[str, str], JointEvent] = {}
        self._ends: set[tuple[str, str]] = set()
        """Events after which an entity no longer exists."""
        signals = [each for each in system.events.values() if each.kind == "signal" and each.when is not None]
        for joint in signals:
            for step in (step for way in joint.ways for step in way.steps if step.copy == joint.of):
                machine = system.parts[step.copy.part].machine
                event = machine.events[step.event]
                for name in event.words:
                    self._events.setdefault((machine.entity, name), joint)
                    if all(outcome.to == machine.initial for outcome in event.outcomes()):
                        self._ends.add((machine.entity, name))

    def pieces(self, batch: Batch) -> Iterator[Batch]:
        start = 0
        for index, (seen, line) in enumerate(zip(batch.observations, batch.lines, strict=True)):
            outer = seen.entity if seen.of == self._outer else self._outer_of.get(seen.entity, "")
            if seen.of == self._inner and outer:
                self._within.setdefault(outer, {})[seen.entity] = None
                if len(self._within) > REMEMBERED:  # The inner entities of a forgotten entity become unknown.
                    self._within.popitem(last=False)
            joint = self._events.get((seen.of, seen.event or seen.output))
            if joint is None or joint.of is None or seen.phase or not outer:
                continue
            yield Batch(batch.observations[start:index], batch.lines[start:index])
            start = index
            of = _Those(joint.of.digit, seen.entity, outer, self._within.get(outer, ()))
            if not self._can_have_value(joint.when, of, hold=True):
                self._report_broken(joint, of, seen, Line.of(line, self._file))
            if seen.of == self._outer and (seen.of, seen.event or seen.output) in self._ends:
                self._within.pop(outer, None)
        yield Batch(batch.observations[start:], batch.lines[start:])

    def _report_broken(self, joint: JointEvent, of: _Those, seen: Observation, line: Line) -> None:
        monitor = self._monitors[seen.of]
        known = {each.profile: each for each in self._deviations(joint, of)}
        if own := [each for name, each in known.items() if name in self._own]:
            monitor.folder.tolerate(monitor.machine.name, own, seen, line)
            return
        kind, others = (self._inner, of.inner) if seen.of == self._outer else (self._outer, (of.outer,))
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
        for profile in self._system.profiles.values():
            changed = profile.events.get(joint.name)
            if changed and self._can_have_value(changed.when, of, hold=True):
                yield Deviation(
                    name=joint.family,
                    event=joint.family,
                    clause=joint.clause,
                    about=changed.about,
                    profile=profile.name,
                    since=profile.since,
                    until=profile.until,
                    link=joint.clause.link,
                )

    def _can_have_value(self, condition: Condition | None, of: _Those, *, hold: bool) -> bool:
        """Check whether *condition* can have the truth value *hold*."""
        match condition:
            case Not(of=inner):
                return self._can_have_value(inner, of, hold=not hold)
            case All(of=parts) | Some(of=parts):
                combine = all if isinstance(condition, All) is hold else any
                return combine(self._can_have_value(part, of, hold=hold) for part in parts)
            case At(part=part, copies=copies, states=states, every=every):
                kind = self._system.parts[part].machine.entity
                alone = kind == self._outer or copies == (of.digit,)
                entities = of.inner if not alone else (of.outer,) if kind == self._outer else (of.entity,)
                possible = (self._monitors[kind].states(entity) for entity in entities)
                found = [not (states.isdisjoint(known) if hold else states.issuperset(known)) for known in possible]
                return all(found) if every is hold else not alone or any(found)
            case None:
                return hold
            case _:
                return True
