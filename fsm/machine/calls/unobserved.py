"""Unobserved instants: calls in progress act, and events that a trace does not show happen.

Two calls whose intervals overlap are thereby tried in every order that is consistent with time (linearizability:
Herlihy and Wing, 1990).  Most outcomes leave the state as it is: such a call carries the set of states that the entity
passed through while it was in progress, and only outcomes that move the entity are tried one by one; a configuration
that another one covers is dropped.  Without this, eight threads at one container make millions of configurations; with
it, hundreds.
"""

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Final

from fsm.machine.calls.configuration import (
    FRESH,
    NOW,
    Configuration,
    Configurations,
    Due,
    Pending,
    interrupted,
    late,
    passing,
    plus,
)
from fsm.machine.calls.covering import ConfigurationSet, Covering
from fsm.machine.calls.rules import ASKED, BEGUN, HELD, LOST, LOST_BEGUN, CallInstant, Rules
from fsm.machine.table import Table, Way

ASSUMED: Final = "assumed "
"""Prefix that marks, among a configuration's deviations, an event that is assumed to have happened."""

_ASKED: Final = frozenset({ASKED, LOST})

_REMEMBERED: Final = 10_000
"""Maximum number of configurations whose successors are cached."""

LIMIT = 20_000
"""Maximum number of configurations of one entity beyond its states; with more, the search gives up and says so."""


class TooManyError(Exception):
    """The configurations outgrew :data:`LIMIT`."""


def tried(find: Callable[[], Configurations]) -> Configurations:
    """Return what *find* returns, or an empty set if that is too much to try."""
    try:
        return find()
    except TooManyError:
        return frozenset()


@dataclass(frozen=True, slots=True, kw_only=True)
class Unobserved:
    """Moves sets of configurations by unobserved instants, given the rules and what else is known.

    Events of the rows ``unseen`` may happen without an observation; configurations that rest on an assumed event, of
    row ``assumed``, are marked (:data:`ASSUMED`).  With ``outputs``, the trace shows outputs on their own, one by one;
    ``coming`` has all of them until the next observation of outputs, if they are known beforehand.  Without
    ``silence``, nothing happens where the specification is silent.  With a clock, ``limits`` has the ways that lead to
    a state with a time limit, each with the states from which interruptions alone lead there.  ``limit`` is the maximum
    number of configurations beyond the states; ``None`` stands for :data:`LIMIT`.
    """

    rules: Rules
    covering: Covering
    unseen: tuple[int, ...]
    outputs: bool = False
    coming: tuple[str, ...] | None = None
    silence: bool = True
    assumed: int = -1
    limits: Mapping[int, frozenset[int]] = field(default_factory=dict)
    limit: int | None = None
    names: dict[str, int] = field(default_factory=dict)
    _known: dict[Configuration, tuple[Configuration, ...]] = field(
        default_factory=dict, init=False, repr=False, compare=False
    )

    @property
    def table(self) -> Table:
        return self.rules.table

    def everything(self) -> Configurations:
        """Return the belief if nothing is known: every state is possible."""
        return self.closed(Configuration(state) for state in range(len(self.table.states)))

    def beginning(self) -> Configurations:
        """Return the belief that the entity is in the machine's initial state."""
        return self.closed([Configuration(self.table.initial)])

    def closed(self, configurations: Iterable[Configuration]) -> Configurations:
        """Return *configurations* and everything reachable from them unobserved, without those that others cover."""
        found = ConfigurationSet(self.covering)
        most = (self.limit or LIMIT) + len(self.table.states)
        # Fewest acted calls first: much of what follows from the other configurations follows from these.
        for first in sorted(configurations, key=lambda each: sum(call.stage not in _ASKED for call in each.pending)):
            todo = [first] if found.add(first) else []
            while todo:
                here = todo.pop()
                if here not in found.covered:
                    todo += [each for each in self._next(here) if found.add(each)]
                if found.size > most:
                    raise TooManyError
        return found.all()

    def without_a_call(self, left: Collection[Configuration]) -> Configurations:
        """Return *left*, closed configurations from which a call that is over was removed, closed again.

        What the other calls may do was tried already, except if a single call remains that may now set a time limit, or
        that may act later than a limit which begins at this instant.
        """
        begins = self.limits and any(self.alone(each) or (each.due and each.due.start == NOW) for each in left)
        if self.coming is not None or begins:
            return self.closed(left)
        found = ConfigurationSet(self.covering)
        for each in left:
            found.add(each)
        return found.all()

    def _next(self, here: Configuration) -> tuple[Configuration, ...]:
        known = self._known.get(here)
        if known is None:
            if len(self._known) >= _REMEMBERED:
                self._known.clear()
            known = self._known[here] = tuple(self._unseen(here))
        return known

    def _unseen(self, here: Configuration) -> Iterator[Configuration]:
        rules, state, pending = self.rules, here.state, here.pending
        last = None
        for index, call in enumerate(pending):
            if call == last:  # equal calls: only the first
                continue
            last = call
            instants = rules.moving(state, call.row, call.stage)
            if (self.limits or self.coming is not None) and call.stage in _ASKED:
                staying = rules.special(state, call.row)
                apart = [each for each in staying if each.way is not None and self.apart(each.way, here)]
                instants = (*instants, *apart) if apart else instants
            if instants:
                others = pending[:index] + pending[index + 1 :]
                for instant in instants:
                    yield from self._acts(here, call, others, instant)
        for row in self.unseen:
            for instant in rules.instants(state, row):
                yield from self.happens(here, row, instant)

    def _acts(
        self, here: Configuration, call: Pending, others: tuple[Pending, ...], instant: CallInstant
    ) -> Iterable[Configuration]:
        _, way, _, stage = instant
        lost = call.stage <= LOST
        asked = call.stage in _ASKED
        if way is None and ((asked and not self.silence) or (lost and not asked)):
            return ()
        if lost:
            after = late(here.pending, call.row, LOST_BEGUN) if stage == BEGUN else here.pending
        else:
            met = 1 << here.state if asked else call.met
            met = (1 << len(self.table.states)) - 1 if way is None and not asked else met
            after = plus(others, Pending(call.row, stage, met))
        if way is None:
            return self._silently(here, after, instant)
        return self._went(here, instant, after)

    def advanced(self, here: Configuration, call: Pending, others: tuple[Pending, ...]) -> Iterator[Configuration]:
        """Yield *here* after *call*, in progress beside *others*, has advanced by one instant and is held there."""
        for instant in self.rules.instants(here.state, call.row, call.stage):
            held = plus(others, call._replace(stage=HELD))
            if instant.way is None:
                yield from self._silently(here, held, instant)
            elif instant.stage == BEGUN:
                yield from self._went(here, instant, held)

    def happens(self, here: Configuration, row: int, instant: CallInstant) -> Iterable[Configuration]:
        """Return *here* after an event of *row*, not a call in progress, has happened by *instant*."""
        pending = interrupted(here.pending) if self.rules.interrupts(row) else here.pending
        if instant.way is None:
            if not self.silence:
                return ()
            moved = here._replace(state=instant.to, pending=passing(pending, instant.to), due=None)
            return (moved,) if row in self.unseen else self._anything_emitted(moved)
        if row == self.assumed:
            here = resting_on(here, f"{ASSUMED}{self.table.rows[row].name}")
        return self._went(here, instant, pending, interrupts=row in self.unseen and self.rules.interrupts(row))

    def _went(
        self, here: Configuration, instant: CallInstant, pending: tuple[Pending, ...], *, interrupts: bool = False
    ) -> tuple[Configuration, ...]:
        queue = self._queued(here.queue, instant.way.emits if instant.way else ())
        if queue is None:
            return ()
        deviations = here.deviations
        if instant.way is not None and instant.way.deviation is not None:
            deviations = tuple(sorted({*deviations, instant.way.deviation.name}))
        due = here.due
        if due and instant.to != here.state and not (interrupts and instant.to in self.limits[due.way]):
            due = None
        away = due is None or self.table.ways[due.way].to != instant.to
        if away and instant.way is not None and instant.way.index in self.limits:
            due = Due(instant.way.index, FRESH)
        return (Configuration(instant.to, passing(pending, instant.to), queue, deviations, due),)

    def _queued(self, queue: tuple[str, ...], emits: tuple[str, ...]) -> tuple[str, ...] | None:
        """Return *queue* followed by *emits*; ``None`` if other outputs come, or earlier ones must be seen first."""
        if not emits or (self.coming is None and not self.outputs):
            return queue
        if self.coming is None:
            return None if queue else emits
        after = queue + emits
        return after if self.coming[: len(after)] == after else None

    def _anything_emitted(self, here: Configuration) -> Iterable[Configuration]:
        """Return *here* with each queue that unspecified outputs may have left."""
        coming = self.coming
        if not coming:
            return (here,)
        return [here._replace(queue=coming[:end]) for end in range(len(here.queue), len(coming) + 1)]

    def _silently(self, here: Configuration, pending: tuple[Pending, ...], by: CallInstant) -> Iterable[Configuration]:
        """Return *here* with the calls *pending* after an unspecified instant; an undefined end emits nothing."""
        if self.table.step(here.state, by.row) is not None:
            return (here._replace(pending=pending),)
        to = by.to
        return self._anything_emitted(Configuration(to, passing(pending, to), here.queue, here.deviations))

    def started(self, those: Iterable[Configuration]) -> Configurations:
        """Return *those* at an observation: time limits that wait for it (:data:`FRESH`) begin."""
        if not self.limits:
            return frozenset(those)
        return frozenset(
            each._replace(due=each.due._replace(start=NOW)) if each.due and each.due.start == FRESH else each
            for each in those
        )

    def apart(self, way: Way, here: Configuration) -> bool:
        """Check whether *way* needs a separate instant: for the order of outputs, or because a time limit begins.

        Limits are tried only for calls that overlap no other call that may move the entity: many would take too long.
        """
        if way.index in self.limits and way.to == here.state:
            return self.alone(here)
        return self.coming is not None and bool(way.emits)

    def alone(self, here: Configuration) -> bool:
        """Check whether exactly one awaited call may move the entity."""
        moves, found = self.rules.moves, 0
        for row, stage, _ in here.pending:
            if stage > LOST and moves(row):
                found += 1
                if found > 1:
                    return False
        return found == 1


def resting_on(each: Configuration, deviation: str) -> Configuration:
    """Return *each* resting on *deviation* too; an empty *deviation* adds nothing."""
    return each._replace(deviations=tuple(sorted({*each.deviations, deviation}))) if deviation else each
