"""Effects of calls in progress and of events that the trace does not show.

Overlapping calls are tried in every order that is consistent with real time (linearizability; Herlihy and Wing,
1990).  Two optimisations reduce the number of configurations for eight threads on one entity from millions to
hundreds.  First, a call records the states that the entity has had since the request, so that only outcomes that move
the entity are tried separately.  Second, covered configurations are dropped.
"""

from collections.abc import Callable, Collection, Iterable, Iterator
from dataclasses import dataclass, field
from typing import Final

from fsm.machine.calls import ASKED, BEGUN, HELD, LOST, LOST_BEGUN, CallInstant, Rules
from fsm.machine.calls.clocks import FRESH, NOW, RunningTimers
from fsm.machine.calls.configuration import (
    Configuration,
    Configurations,
    ConfigurationSet,
    Covering,
    Pending,
    each_with_rest,
    interrupted,
    late,
    passing,
    plus,
)
from fsm.machine.table import Table, Way

ASSUMED: Final = "assumed "  # prefix of an entry in deviations that names an assumed event

_ASKED: Final = frozenset({ASKED, LOST})

_REMEMBERED: Final = 10_000

LIMIT = 20_000  # default maximum number of configurations of an entity, not counting the states of its machine


class TooManyError(Exception):
    """Raised if there are more configurations than the limit allows."""


def tried(find: Callable[[], Configurations]) -> Configurations:
    try:
        return find()
    except TooManyError:
        return frozenset()


@dataclass(frozen=True, slots=True, kw_only=True)
class Unobserved:
    """Computes the configurations that unobserved events and calls in progress may lead to.

    Events of the rows ``unseen`` may happen at any time.  So may the event of the row ``assumed``, but configurations
    that depend on it are marked with :data:`ASSUMED`.  If ``outputs`` is true, the trace shows outputs one by one.
    ``coming`` lists the outputs up to the next observation of outputs, if they are known in advance.  If ``silence``
    is false, no event or call takes effect in a silent cell.  ``timers`` are ``None`` unless timers and time limits are
    tracked.
    """

    rules: Rules
    covering: Covering
    unseen: tuple[int, ...]
    outputs: bool = False
    coming: tuple[str, ...] | None = None
    silence: bool = True
    assumed: int = -1
    timers: RunningTimers | None = None
    limit: int | None = None
    names: dict[str, int] = field(default_factory=dict)
    _known: dict[Configuration, tuple[tuple[CallInstant, Configuration], ...]] = field(
        default_factory=dict, init=False, repr=False, compare=False
    )

    @property
    def table(self) -> Table:
        return self.rules.table

    def everything(self) -> Configurations:
        return self.forgotten(self.closed(map(self.unknown, self.table.anywhere)))

    def beginning(self) -> Configurations:
        return self.forgotten(self.closed([self.unknown(self.table.initial)]))

    def unknown(self, state: int) -> Configuration:
        return Configuration(state, clocks=self.timers.unknown(state) if self.timers else ())

    def forgotten(self, those: Iterable[Configuration]) -> Configurations:
        """Return *those* without the times at which timers have started."""
        if self.timers is None:
            return frozenset(those)
        return frozenset(each._replace(clocks=self.timers.forgotten(each.state, each.clocks)) for each in those)

    def closed(self, configurations: Iterable[Configuration]) -> Configurations:
        """Add the configurations that may follow without an observation, and drop covered configurations."""
        found = ConfigurationSet(self.covering)
        most = (self.limit or LIMIT) + len(self.table.states)
        # Start with the configurations in which the fewest calls have taken effect, because many others follow from
        # them.
        for first in sorted(configurations, key=lambda each: sum(call.stage not in _ASKED for call in each.pending)):
            todo = [first] if found.add(first) else []
            while todo:
                here = todo.pop()
                if here not in found.covered:
                    todo += [after for _, after in self.unseen_instants(here) if found.add(after)]
                if found.size > most:
                    raise TooManyError
        return found.all()

    def without_a_call(self, left: Collection[Configuration]) -> Configurations:
        """Return the closure of *left*: a closed set, except that a call that has ended was removed from each member.

        The effects of the other calls are already included, with two exceptions: a call that is now the only one may
        set a time limit, and a call may take effect after a timer or a limit that starts now.
        """
        begins = self.timers is not None and any(
            self.alone(each) or any(clock.last == NOW for clock in each.clocks) for each in left
        )
        if self.coming is not None or begins:
            return self.closed(left)
        found = ConfigurationSet(self.covering)
        for each in left:
            found.add(each)
        return found.all()

    def unseen_instants(self, here: Configuration) -> tuple[tuple[CallInstant, Configuration], ...]:
        known = self._known.get(here)
        if known is None:
            if len(self._known) >= _REMEMBERED:
                self._known.clear()
            known = self._known[here] = tuple(self._unseen_instants(here))
        return known

    def _unseen_instants(self, here: Configuration) -> Iterator[tuple[CallInstant, Configuration]]:
        rules, state = self.rules, here.state
        for call, others in each_with_rest(here.pending):
            instants = rules.moving(state, call.row, call.stage)
            if (self.timers or self.coming is not None) and call.stage in _ASKED:
                staying = rules.special(state, call.row)
                apart = [each for each in staying if each.way is not None and self.apart(each.way, here)]
                instants = (*instants, *apart) if apart else instants
            for instant in instants:
                for after in self._after_call_instant(here, call, others, instant):
                    yield instant, after
        for row in self.unseen:
            for instant in rules.instants(state, row):
                for after in self.happens(here, row, instant):
                    yield instant, after

    def _after_call_instant(
        self, here: Configuration, call: Pending, others: tuple[Pending, ...], instant: CallInstant
    ) -> Iterable[Configuration]:
        way, stage = instant.way, instant.stage
        lost, asked = call.stage <= LOST, call.stage in _ASKED
        if way is None and ((asked and not self.silence) or (lost and not asked)):
            return ()
        if lost:
            after = late(here.pending, call.row, LOST_BEGUN) if stage == BEGUN else here.pending
        else:
            met = 1 << here.state if asked else call.met
            met = (1 << self.table.size) - 1 if way is None and not asked else met
            after = plus(others, Pending(call.row, stage, met))
        if way is None:
            return self._unspecified_successors(here, after, instant)
        return self._after_way(here, self.table.loosened(way) if lost or call.stage == stage else way, after)

    def advanced(self, here: Configuration, call: Pending, others: tuple[Pending, ...]) -> Iterator[Configuration]:
        for instant in self.rules.instants(here.state, call.row, call.stage):
            held = plus(others, call._replace(stage=HELD))
            if instant.way is None:
                yield from self._unspecified_successors(here, held, instant)
            elif instant.stage == BEGUN:
                yield from self._after_way(here, instant.way, held)

    def happens(self, here: Configuration, row: int, instant: CallInstant) -> Iterable[Configuration]:
        """Return the configurations after the event of *row*. The event must not be a call in progress."""
        pending = interrupted(here.pending) if self.rules.interrupts(row) else here.pending
        if instant.way is None:
            if not self.silence:
                return ()
            moved = self._unspecified(here, instant.to, pending)
            return (moved,) if row in self.unseen else self._with_any_outputs(moved)
        if row == self.assumed:
            here = with_deviation(here, f"{ASSUMED}{self.table.rows[row].name}")
        interrupts = row in self.unseen and self.rules.interrupts(row)
        way = self.table.loosened(instant.way) if row in self.unseen else instant.way
        return self._after_way(here, way, pending, interrupts=interrupts)

    def _after_way(
        self, here: Configuration, way: Way, pending: tuple[Pending, ...], *, interrupts: bool = False
    ) -> tuple[Configuration, ...]:
        queue = self._extend_queue(here.queue, way.emits)
        if queue is None:
            return ()
        deviations, clocks, to = here.deviations, here.clocks, way.to
        if way.deviation is not None:
            deviations = tuple(sorted({*deviations, way.deviation.name}))
        if self.timers is not None:
            clocks = self.timers.moved(clocks, here.state, way, interrupts=interrupts)
        return (Configuration(to, passing(pending, to), queue, deviations, clocks),)

    def _extend_queue(self, queue: tuple[str, ...], emits: tuple[str, ...]) -> tuple[str, ...] | None:
        """Add *emits* to *queue*, or return ``None`` if they contradict the trace or must wait for *queue*."""
        if not emits or (self.coming is None and not self.outputs):
            return queue
        if self.coming is None:
            return None if queue else emits
        after = queue + emits
        return after if self.coming[: len(after)] == after else None

    def _with_any_outputs(self, here: Configuration) -> Iterable[Configuration]:
        coming = self.coming
        if not coming:
            return (here,)
        return [here._replace(queue=coming[:end]) for end in range(len(here.queue), len(coming) + 1)]

    def _unspecified_successors(
        self, here: Configuration, pending: tuple[Pending, ...], by: CallInstant
    ) -> Iterable[Configuration]:
        if self.table.step(here.state, by.row) is not None:
            return (here._replace(pending=pending),)
        return self._with_any_outputs(self._unspecified(here, by.to, pending))

    def _unspecified(self, here: Configuration, to: int, pending: tuple[Pending, ...]) -> Configuration:
        return self.unknown(to)._replace(pending=passing(pending, to), queue=here.queue, deviations=here.deviations)

    def started(self, those: Iterable[Configuration]) -> Configurations:
        """Return *those* as they are at the next observation, until which all new timers and time limits start."""
        if self.timers is None:
            return frozenset(those)

        def started(each: Configuration) -> Configuration:
            clocks = tuple(clock._replace(last=NOW) if clock.last == FRESH else clock for clock in each.clocks)
            return each._replace(clocks=clocks)

        return frozenset(started(each) if each.clocks else each for each in those)

    def apart(self, way: Way, here: Configuration) -> bool:
        """Check whether *way* must be tried separately, because it emits outputs, starts a timer or sets a time limit.

        To save time, a limit is tried only if no other call in progress may move the entity.
        """
        if self.timers and way.to == here.state and (starts := self.timers.starts(way.index)):
            return bool(self.timers[starts[0]].event) or self.alone(here)
        return self.coming is not None and bool(way.emits)

    def alone(self, here: Configuration) -> bool:
        """Check whether exactly one call in progress may move the entity, not counting lost calls."""
        return sum(stage > LOST and self.rules.moves(row) for row, stage, _ in here.pending) == 1


def with_deviation(each: Configuration, deviation: str) -> Configuration:
    return each._replace(deviations=tuple(sorted({*each.deviations, deviation}))) if deviation else each
