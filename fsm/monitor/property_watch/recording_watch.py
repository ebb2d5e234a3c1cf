"""Watch a property on a recording with many entities, overlapping calls, and unseen events.

Several runs may explain the observations of an entity. A belief about the product of machine and property follows all
of these runs, and the property is violated once every run has broken the property. Therefore, a property that the
checker has proved can be violated only on a line that no run explains. On such a line, the watch assumes that the event
happened once, with the recorded reply, and may have led to any reachable state. It assumes no unseen event right before
the line, because unseen events would not explain the line.

After a gap, a violation, or a reply whose request was not recorded, the entity may be in any state, and the watch of
the property begins again.
"""

from collections import OrderedDict, deque
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import cache
from typing import Final, NamedTuple

from fsm.machine import Clause
from fsm.machine.calls import ASKED, BEGUN
from fsm.machine.calls.belief import Dynamics
from fsm.machine.calls.configuration import Configuration, Configurations, Pending, each_with_rest, interrupted, passing
from fsm.machine.calls.unobserved import TooManyError
from fsm.machine.claims import LeadsTo, Property, Reachable, Refines
from fsm.machine.findings import Cause, Violation
from fsm.monitor.grouping import FindingGroup
from fsm.monitor.property_watch import untestable
from fsm.monitor.property_watch.automata import Broken
from fsm.monitor.property_watch.property_product import PropertyProduct
from fsm.trace import Key, Line, Observation

ENTITIES: Final = 65_536
"""Maximum number of entities to remember. Older entities are treated as unknown."""
KEPT: Final = 20_000
"""Maximum number of configurations in cached steps."""
LIMIT: Final = 400
"""Maximum number of configurations per entity, not counting its places. Larger beliefs are forgotten."""
WINDOW: Final = 24
"""Number of recent observations of an entity to search for the instant at which an unexplained call acted."""
MATTERING: Final = 6


def unwatchable(stated: Property) -> str:
    """Return the reason why no recording can break *stated*, or an empty string if a recording can."""
    match stated.claim:
        case LeadsTo():
            return "a finite recording cannot decide the property"
        case Reachable():
            return "something that is possible need not happen in a recording"
        case Refines(other=other):
            return f"judge the recording against the other machine, with --model {other.name}"
        case _:
            return untestable(stated)


class _Step(NamedTuple):
    """The effect of an observation on a belief and on the claim.

    ``broken`` is true if all runs have broken the claim. ``begins`` is true if no run has made progress towards
    breaking it. ``changes`` is true if the progress has changed. ``whole`` is false if the observation is incomplete,
    such as a reply without its request. ``doubtful`` is true if unknown values decide whether the claim is broken.
    """

    to: Configurations
    broken: bool
    begins: bool
    changes: bool
    whole: bool
    doubtful: bool


@dataclass(slots=True)
class _Life:
    configurations: Configurations
    lines: tuple[Line, ...] = ()
    window: deque[tuple[Configurations, Key]] = field(default_factory=lambda: deque(maxlen=WINDOW))


class ClaimWatch:
    """Watches whether entities break the claim of *product*, and collects the ``violations`` of *clause*.

    ``undecided`` counts how often unknown values of data decide whether the claim is broken. If *fresh* is true,
    entities are in the initial state when they are first seen.
    """

    def __init__(self, product: PropertyProduct, clause: Clause, dynamics: Dynamics, *, fresh: bool) -> None:
        self.product, self.violations, self.incomplete = product, FindingGroup[Violation](), False
        self.undecided = 0
        self._clause = clause
        self._dynamics = replace(product.dynamics(dynamics), limit=LIMIT)
        self._bare = replace(self._dynamics, unseen=())
        self._unknown = self._dynamics.closed(map(Configuration, product.unknown))
        self._beginning = self._dynamics.beginning()
        self._not_yet_seen = self._beginning if fresh else self._unknown
        self._lives: OrderedDict[str, _Life] = OrderedDict()
        self._steps: dict[tuple[Configurations, Key], _Step] = {}
        self._size = 0

    def apply_to_all(self, seen: Observation) -> None:
        self._not_yet_seen |= self._step(self._not_yet_seen, self._dynamics.key(seen)).to

    def replay(self, observations: Iterable[tuple[Observation, Line]], *, begins: bool) -> None:
        self._lives.clear()
        self._not_yet_seen = self._beginning if begins else self._unknown
        for seen, line in observations:
            self.take(seen, line)

    def take(self, observation: Observation, line: Line) -> None:
        entity, seen = observation.entity, self._dynamics.key(observation)
        life = self._lives.pop(entity, None) or _Life(self._not_yet_seen)
        step = self._step(life.configurations, seen)
        if not step.to:
            step = self._step_to(life.configurations, self._after_unexplained(life, seen), seen)
            life.window.clear()
        elif step.to is self._unknown:
            life.window.clear()
        elif step.whole:
            life.window.append((life.configurations, seen))
        life.configurations = step.to
        if step.changes:
            life.lines = (*life.lines, line)[-MATTERING:]
        self.undecided += step.doubtful
        if step.broken:
            violation = Violation(
                machine=self.product.machine.machine.name,
                cause=Cause.PROPERTY,
                observation=observation,
                file=line.file,
                line=line.number,
                clause=self._clause,
                illegal=self.product.memory.texts[0],
                lines=tuple(dict.fromkeys((*life.lines, line))),
            )
            self.violations.add(violation, entity)
            life = _Life(self._unknown)
        elif step.begins:
            life.lines = ()
        self._lives[entity] = life
        if len(self._lives) > ENTITIES:
            self._lives.popitem(last=False)
            self._not_yet_seen = self._unknown

    def _step(self, before: Configurations, seen: Key) -> _Step:
        found = self._steps.get((before, seen))
        if found is None:
            found = self._find_step(before, seen)
            self._size += len(before) + len(found.to)
            if self._size > KEPT:
                self._steps.clear()
                self._size = 0
            self._steps[before, seen] = found
        return found

    def _find_step(self, before: Configurations, seen: Key) -> _Step:
        to = self._unknown
        try:
            if self._is_complete(before, seen) and seen.phase != "gap":
                to = self._dynamics.observed(before, seen).configurations
            elif seen.phase != "gap" and not self._dynamics.rules.moves(self._dynamics.row(seen.event)):
                to = self._restrict_to_shown(before, seen)
        except TooManyError:
            self.incomplete = True
        return self._step_to(before, to, seen)

    def _is_complete(self, before: Configurations, seen: Key) -> bool:
        return seen.phase != "answered" and not self._dynamics.unasked(before, seen)

    def _step_to(self, before: Configurations, to: Configurations, seen: Key) -> _Step:
        memory = self.product.memory
        earlier, now = map(self.product.progress_of, (before, to))
        broken, may_break = bool(now) and all(isinstance(each, Broken) for each in now), self.product.may_break
        return _Step(
            to,
            broken=broken,
            begins=now <= {memory.restarted, memory.start, None},
            changes=now != earlier,
            whole=self._is_complete(before, seen),
            doubtful=not broken and may_break(to) and not may_break(before),
        )

    def _after_unexplained(self, life: _Life, seen: Key) -> Configurations:
        try:
            after = self._after_unspecified(life, seen) or self._restrict_to_shown(self._unknown, seen)
        except TooManyError:
            self.incomplete, after = True, self._unknown
        return after or self._unknown

    def _restrict_to_shown(self, configurations: Configurations, seen: Key) -> Configurations:
        shown = Key(shows=seen.shows, args=seen.args)
        return configurations if shown == Key() else self._dynamics.observed(configurations, shown).configurations

    def _after_unspecified(self, life: _Life, seen: Key) -> Configurations:
        row, window = self._dynamics.place(seen), [*life.window]
        if seen.phase not in {"", "reply"} or not (seen.event or seen.output):
            return frozenset()
        if not seen.phase:
            here = self._after_window(window) if window else life.configurations
            return self._restrict_to_shown(self._after_any_outcome(here, seen), seen)
        found = frozenset[Configuration]()
        if not window or self._dynamics.waits(window[0][0], row):
            return found  # The call may have taken effect before the window.
        for last in range(len(window), 0, -1):
            here = self._after_window(window[:last])
            if not self._dynamics.waits(here, row):
                break
            after = self._after_any_outcome(here, seen)
            for _, later in window[last:]:
                after = self._dynamics.observed(after, later).configurations
            found |= self._restrict_to_shown(after, seen)
        return found

    def _after_window(self, window: Sequence[tuple[Configurations, Key]]) -> Configurations:
        last = max((index for index, (_, seen) in enumerate(window) if seen.phase != "request"), default=0)
        before = window[last][0]
        for _, seen in window[last:]:
            before = self._bare.observed(before, seen).configurations
        return before

    def _after_any_outcome(self, before: Configurations, seen: Key) -> Configurations:
        row, product = self._dynamics.place(seen), self.product
        if seen.phase == "" and self._dynamics.calls(row):
            before = self._bare.asked(before, row)
        given = cache(lambda at: tuple(self._replies_and_outputs(at, seen)))
        moved = (
            Configuration(to, passing(pending, to), (), each.deviations)
            for each in before
            for at, pending in self._possible_rows(each, row)
            for reply, emits in given(at)
            for to in product.anywhere(each.state, at, reply, emits)
        )
        return self._dynamics.closed(dict.fromkeys(moved))

    def _possible_rows(self, each: Configuration, row: int) -> Iterator[tuple[int, tuple[Pending, ...]]]:
        """Yield the rows in which the event of *row* may happen, and the calls in progress afterwards.

        If *row* is -1, any event may happen.
        """
        table = self._dynamics.table
        if row < 0:
            yield from ((other.index, each.pending) for other in table.rows)
        elif not self._dynamics.calls(row):
            yield row, interrupted(each.pending) if self._dynamics.rules.interrupts(row) else each.pending
        for call, others in each_with_rest(each.pending):
            if table.agree(call.row, row) and call.stage in {ASKED, BEGUN}:
                yield table.end[call.row] if call.stage == BEGUN else call.row, others

    def _replies_and_outputs(self, row: int, seen: Key) -> Iterable[tuple[str, tuple[str, ...]]]:
        if not seen.output:
            return ((seen.reply, emits) for emits in self.product.outputs(row, seen.emits))
        machine = self.product.machine
        ways = [way for state in machine.anywhere for way in machine.step(state, row) or ()]
        replies = [reply for way in ways if seen.output in way.emits for reply in self.product.steps.replies(way)]
        return dict.fromkeys((reply, (seen.output,)) for reply in replies)
