"""Beliefs, each once, and where each observation leads from them.

Most observations of a trace lead from beliefs that many entities had before:
then judging one is a look-up.  What is not needed any more is forgotten.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Final

from fsm.machine.calls.belief import Dynamics
from fsm.machine.calls.configuration import FRESH, NOW, Configuration, Configurations
from fsm.machine.calls.rules import CUT, LOST
from fsm.machine.calls.unobserved import TooManyError
from fsm.machine.findings import Assumed
from fsm.machine.table import Table
from fsm.monitor.diagnosis import Explained
from fsm.monitor.time_limits import Late, Start
from fsm.trace import LATEST, Key, Line, Observation, nanoseconds

INTERNED: Final = 200_000
"""Configurations and steps, in all, that are remembered beyond those that are needed."""

FEW: Final = 64
"""Configurations of a belief, beyond the states, from which each step is found, whatever was done for others."""

TRIED: Final = 56_000
"""Configurations of larger ones that steps may begin with in all, beyond :data:`EACH` for every step that is found."""

EACH: Final = 25
"""Configurations that every step adds to those."""

CALLS: Final = 4
"""Calls in progress of a configuration that take as long as another configuration."""


@dataclass(slots=True, eq=False)
class Belief:
    """Interned configurations, and where each observation leads from here.

    ``since`` is the set, as bits, of the states that the entity may have been in since it was created: the states in
    which a call whose request was not recorded may have acted.  An entity *rests* of which nothing is known, or that is
    in the initial state, or one that it does not leave, with no reply awaited.  It is
    ``timed`` if it may be in a state that it leaves in time.
    """

    configurations: Configurations
    since: int
    rests: bool = False
    next: dict[Key, BeliefStep] = field(default_factory=dict)
    timed: bool = field(init=False)

    def __post_init__(self) -> None:
        self.timed = any(each.due for each in self.configurations)

    def states(self, table: Table) -> frozenset[str]:
        """The states that are possible, by the outputs that have been seen."""
        quiet = [each for each in self.configurations if not each.queue]
        return frozenset(table.states[each.state] for each in quiet or self.configurations)


@dataclass(slots=True, eq=False)
class BeliefStep:
    """Where an observation leads, the cells that explain it, how often it was taken.

    A ``plain`` step has nothing to report and leaves the entity alive; one that ``leads`` is of what may move entities,
    or shows where they are.  Of each of the ``tolerated`` groups of deviations one was certainly met.  ``starts`` has, for
    each start of ``to``, its number in the belief before, or that it is now.
    """

    to: Belief
    plain: bool = False
    leads: bool = False
    cells: frozenset[tuple[int, int]] = frozenset()
    explained: Explained | None = None
    tolerated: tuple[tuple[str, ...], ...] = ()
    note: str = ""
    starts: tuple[int, ...] = ()
    taken: int = 0


class Beliefs:
    """All beliefs that entities have, or may come to again; *initial* is that of one in the initial state.

    An entity has so many *states*, and does not leave those that are *ended*.
    """

    def __init__(self, initial: Configurations, ended: frozenset[int], states: int) -> None:
        self.covered: Counter[tuple[int, int]] = Counter()
        self._initial = initial
        self._ended = ended
        self._known: dict[tuple[Configurations, int], Belief] = {}
        self._size = 0
        self._room = INTERNED
        self._few = FEW + states
        self._tried = -TRIED

    def belief(self, configurations: Configurations, since: int, *, rests: bool = False) -> Belief:
        """The one belief in *configurations* that were so *since*; it *rests* also where that is not to be seen."""
        known = self._known.get((configurations, since))
        if known is None:
            known = self._known[configurations, since] = Belief(configurations, since, self._rests(configurations))
            self._size += len(configurations)
        known.rests = known.rests or rests
        return known

    def remember(self, before: Belief, seen: Key, step: BeliefStep) -> None:
        """*seen* leads from *before* by *step*."""
        before.next[seen] = step
        self._size += 1

    def charge(self, before: Belief) -> None:
        """Count the work of a step from *before*; raises :class:`TooManyError` where too much was done for others."""
        tried = sum(1 + len(each.pending) // CALLS for each in before.configurations)
        self._tried += (tried if tried > self._few else 0) - EACH
        if self._tried > 0 and tried > self._few:
            raise TooManyError

    def full(self) -> bool:
        """Whether there is more than needs to be remembered."""
        return self._size > self._room

    def forget(self, held: Iterable[Belief]) -> None:
        """Forget all but the beliefs *held*, and where any of them leads."""
        self.count()
        for belief in self._known.values():
            belief.next.clear()
        self._known = {(belief.configurations, belief.since): belief for belief in held}
        self._size = sum(len(configurations) for configurations, _ in self._known)
        self._room = self._size + INTERNED

    def count(self) -> None:
        """Add what was met so far to ``covered``."""
        for belief in self._known.values():
            for step in belief.next.values():
                for cell in step.cells:
                    self.covered[cell] += step.taken
                step.taken = 0

    def _rests(self, configurations: Configurations) -> bool:
        settled = (
            each._replace(pending=tuple(call for call in each.pending if call.stage > LOST and call.stage != CUT))
            for each in configurations
        )
        ended = self._ended
        return all(
            each in self._initial or (each.state in ended and not (each.pending or each.due)) for each in settled
        )


def certain(configurations: Configurations) -> tuple[tuple[tuple[str, ...], ...], Configurations]:
    """The deviations that were certainly met, and what is possible then.

    Each is a group of which one was met: a deviation on which everything
    possible rests, or several where everything rests on one or another.
    """
    everywhere = frozenset.intersection(*(frozenset(each.deviations) for each in configurations))
    certain: list[tuple[str, ...]] = [(name,) for name in sorted(everywhere)]
    left = _without(configurations, everywhere)
    if all(each.deviations for each in left):
        anywhere = frozenset(name for each in left for name in each.deviations)
        certain.append(tuple(sorted(anywhere)))
        left = _without(left, anywhere)
    return tuple(certain), left


def _without(configurations: Configurations, names: frozenset[str]) -> Configurations:
    """*configurations*, resting on none of the deviations *names* any more."""
    if not names:
        return configurations
    return frozenset(
        each._replace(deviations=tuple(name for name in each.deviations if name not in names))
        for each in configurations
    )


def numbered(configurations: Configurations) -> tuple[Configurations, tuple[int, ...]]:
    """*configurations* with their starts renumbered from 0, and the old number of each start."""
    starts = tuple(sorted({each.due.start for each in configurations if each.due} - {FRESH}))
    number = {start: at for at, start in enumerate(starts)} | {FRESH: FRESH}
    return frozenset(
        each._replace(due=each.due._replace(start=number[each.due.start])) if each.due else each
        for each in configurations
    ), starts


def limit(belief: Belief, dynamics: Dynamics) -> int | None:
    """The seconds after its first start by which something possible is to be left; ``None`` if there is no start."""
    ways = dynamics.table.ways
    found = (ways[each.due.way].within for each in belief.configurations if each.due and not each.due.start)
    return min(found, default=None)


@dataclass(slots=True, eq=False)
class Life:
    """An entity that is alive: its belief, and what was last seen of it, requests aside: at all, and of where it is.

    Of what may have happened to all entities, the belief takes the first ``assumed`` into
    account; it may rest on those from number ``rested`` on, and on its ``own``.  ``starts`` are those of the belief.
    """

    belief: Belief
    last: Observation | None = None
    led: Observation | None = None
    assumed: int = 0
    rested: int = 0
    own: tuple[Assumed, ...] = ()
    starts: tuple[Start, ...] = ()
    late: tuple[Late, ...] = ()

    def moves(self, step: BeliefStep, seen: Observation, line: int | Line) -> None:
        """Take *step*, which explains what was *seen* on *line*."""
        self.belief = step.to
        if step.starts or self.starts:
            now = Start(nanoseconds(seen.at), line) if NOW in step.starts else None
            self.starts = tuple(self.starts[each] if each < NOW or now is None else now for each in step.starts)

    def plain(self) -> bool:
        """Whether its belief, last observations and one start say everything, so that compiled code can have it."""
        known = all(0 <= (each.at or 0) <= LATEST for each in self.starts)
        return known and not (self.starts[1:] or self.late or self.own or self.assumed)

    def passes(self, dynamics: Dynamics, seen: Observation) -> Configurations:
        """The configurations whose time limits are kept when *seen* is seen; the others are ``late`` from now on."""
        now = nanoseconds(seen.at) if self.starts else None
        late = defaultdict[tuple[int, Start], set[Configuration]](set)
        for each in self.belief.configurations if now is not None else ():
            if each.due and each.due.start < NOW and each.state == dynamics.table.ways[each.due.way].to:
                start = self.starts[each.due.start]
                limit = dynamics.table.ways[each.due.way].within * 1_000_000_000
                if now is not None and start.at is not None and now - start.at > limit:
                    late[each.due.way, start].add(each)
        found = [Late(*at, frozenset(each._replace(due=None) for each in those)) for at, those in late.items()]
        self.late = (*self.late, *found)
        return self.belief.configurations.difference(*late.values())
