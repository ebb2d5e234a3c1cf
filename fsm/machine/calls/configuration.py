"""Configurations, which combine the state of an entity with its calls in progress."""

from collections.abc import Iterator
from functools import cache, lru_cache
from typing import Final, NamedTuple, TypeAlias

from fsm.machine.calls import ASKED, BEGUN, CUT, HELD, LOST, LOST_BEGUN, Rules
from fsm.machine.calls.clocks import RunningClocks, joined, outlast


class Pending(NamedTuple):
    """A call in progress.

    ``met`` is the bit set of the states in which the call may have taken effect.  Until the call takes effect,
    ``met`` collects the states of the entity since the request.
    """

    row: int
    stage: int
    met: int


class Configuration(NamedTuple):
    """The state of an entity and its calls in progress, in sorted order.

    ``queue`` contains outputs that have been emitted but not observed yet.  ``deviations`` names the deviations
    without which the entity could not have reached this configuration.  ``clocks`` are the running timers and time
    limits, in order.
    """

    state: int
    pending: tuple[Pending, ...] = ()
    queue: tuple[str, ...] = ()
    deviations: tuple[str, ...] = ()
    clocks: RunningClocks = ()


Configurations: TypeAlias = frozenset[Configuration]


def each_with_rest(calls: tuple[Pending, ...]) -> Iterator[tuple[Pending, tuple[Pending, ...]]]:
    """Yield each distinct call in *calls* together with the remaining calls."""
    for index, call in enumerate(calls):
        if not index or call != calls[index - 1]:
            yield call, calls[:index] + calls[index + 1 :]


def plus(calls: tuple[Pending, ...], call: Pending) -> tuple[Pending, ...]:
    return tuple(sorted((*calls, call))) if calls else (call,)


def late(calls: tuple[Pending, ...], row: int, stage: int) -> tuple[Pending, ...]:
    """Add a lost call to *calls*, unless they already contain the same call."""
    call = Pending(row, stage, 0)
    return calls if call in calls else plus(calls, call)


def passing(calls: tuple[Pending, ...], state: int) -> tuple[Pending, ...]:
    """Add *state* to the ``met`` states of each call in *calls* whose stage is ``ASKED``."""
    bit = 1 << state
    for call in calls:
        if call.stage == ASKED and not call.met & bit:
            after = [Pending(call.row, ASKED, call.met | bit) if call.stage == ASKED else call for call in calls]
            return tuple(sorted(after))
    return calls


def interrupted(calls: tuple[Pending, ...]) -> tuple[Pending, ...]:
    """Return *calls* after an interruption, which cuts off begun calls and removes lost calls."""
    left = [call for call in calls if call.stage > LOST]
    return tuple(sorted([Pending(call.row, CUT, 0) if call.stage in {BEGUN, HELD} else call for call in left]))


def numbers(those: int) -> list[int]:
    """Return the members of a bit set.

    >>> numbers(0b101)
    [0, 2]
    """
    found = []
    while those:
        bit = those & -those
        found.append(bit.bit_length() - 1)
        those ^= bit
    return found


def bits(configurations: Configurations) -> int:
    """Return the states of *configurations* as a bit set.

    >>> bits(frozenset({Configuration(0), Configuration(2)}))
    5
    """
    return sum(1 << state for state in {each.state for each in configurations})


_ENDS: Final = 64  # number of bits for the possible ends of a call; the first one means that the call was cut off
_ANY: Final = (1 << _ENDS) - 1
"""Bit set of a call that may still take effect, or may have ended in any way that changes nothing."""

_REMEMBERED: Final = 100_000

_Kind: TypeAlias = tuple[object, ...]


class _Open(NamedTuple):
    """The part of a configuration that may differ from the same part of a configuration that covers it.

    The bit set ``sets`` has a bit for each lost call.  For each call that awaits its reply, ``sets`` also has a bit for
    each state in ``Pending.met`` and for each possible end.
    """

    sets: int
    deviations: tuple[str, ...]
    clocks: RunningClocks


class Covering:
    """Decides whether one configuration covers another, so that the other need not be explored."""

    def __init__(self, rules: Rules) -> None:
        self._rules = rules
        self._split = lru_cache(_REMEMBERED)(self._split_calls)
        self._waited = cache(self._split_call)
        self._first: dict[_Kind, int] = {}
        self._ends: dict[tuple[int, int], int] = {}
        self._width = 0

    def split(self, each: Configuration) -> tuple[_Kind, _Open]:
        state, pending, queue, deviations, clocks = each
        kind, sets = self._split(pending)
        return (state, kind, queue), _Open(sets, deviations, clocks)

    def within(self, less: Configurations, more: Configurations) -> bool:
        known: dict[_Kind, list[_Open]] = {}
        for each in more:
            shape, mine = self.split(each)
            known.setdefault(shape, []).append(mine)
        return all(any(covers(other, mine) for other in known.get(shape, ())) for shape, mine in map(self.split, less))

    def _split_calls(self, pending: tuple[Pending, ...]) -> tuple[_Kind, int]:
        if self._width < _ENDS + len(self._rules.table.states):  # some tables add states when they are needed
            self._width = _ENDS + 2 * len(self._rules.table.states)
        sets, width = 0, self._width
        for call in pending:
            if call.stage <= LOST:  # A lost call need not take effect, so each lost call only adds possibilities.
                sets |= 1 << (2 * call.row + (call.stage == LOST_BEGUN))
        waited = sorted(self._waited(call) for call in pending if call.stage > LOST)
        for _, left in waited:
            sets = sets << width | left
        return (width, *(kind for kind, _ in waited)), sets

    def _split_call(self, call: Pending) -> tuple[tuple[int, int], int]:
        stage, met = call.stage, call.met << _ENDS
        if stage in {ASKED, CUT}:
            return (call.row, ASKED), met | (_ANY if stage == ASKED else 1)
        if stage >= 0 and (end := self._end(call)):
            return (call.row, ASKED), met | 1 << end
        return (call.row, self._representative_way(stage) if stage >= 0 else stage), met

    def _representative_way(self, stage: int) -> int:
        way = self._rules.table.ways[stage]
        return self._first.setdefault((self._rules.table.origin[stage], way.reply, way.emits), stage)

    def _end(self, call: Pending) -> int:
        """Return the number of the bit for the end of *call*, or 0 if it has no bit.

        The end has a bit only if an end with the same reply has no effect in any of the states in ``call.met``.
        """
        table = self._rules.table
        ended = table.ways[call.stage]

        def may_end(state: int) -> bool:
            return any(
                way.to == state
                and way.reply == ended.reply
                and not (way.begins or way.emits or ended.emits or way.deviation or self._rules.timed(call.row, way))
                for way in table.step(state, call.row) or ()
            )

        if not all(map(may_end, numbers(call.met))):
            return 0
        number = self._ends.setdefault((call.row, self._representative_way(call.stage)), len(self._ends) + 1)
        return number if number < _ENDS else 0


class ConfigurationSet:
    """A set of configurations in which no configuration covers another one.

    Configurations that differ only in the times at which their timers started become one that allows all these times.
    Otherwise, a timer that may restart unobserved would add a configuration with each observation.
    """

    def __init__(self, covering: Covering) -> None:
        self._split = covering.split
        self._known: dict[_Kind, list[tuple[_Open, Configuration]]] = {}
        self._met: set[Configuration] = set()
        self.covered: set[Configuration] = set()
        self.size = 0

    def add(self, new: Configuration) -> bool:
        if new in self._met:  # this is common, because calls are tried in every order
            return False
        self._met.add(new)
        shape, mine = self._split(new)
        known = self._known.setdefault(shape, [])
        sets = mine.sets
        for other, _ in known:
            if other.sets | sets == other.sets and covers(other, mine):
                return False
        for at, (other, old) in enumerate(known if mine.clocks else ()):
            same = (other.sets, other.deviations) == (sets, mine.deviations)
            if same and (clocks := joined(other.clocks, mine.clocks)) is not None:
                known[at] = other._replace(clocks=clocks), old._replace(clocks=clocks)
                return True
        self.size += 1
        less = [each for each in known if each[0].sets | sets == sets and covers(mine, each[0])]
        if less:
            self.covered.update(each for _, each in less)
            self.size -= len(less)
            known[:] = [each for each in known if each not in less]
        known.append((mine, new))
        return True

    def all(self) -> Configurations:
        return frozenset(each for known in self._known.values() for _, each in known)


def covers(more: _Open, less: _Open) -> bool:
    """Check whether *more* covers *less*, given two configurations that differ only in these parts."""
    if more.sets | less.sets != more.sets:
        return False
    if more.clocks and not outlast(more.clocks, less.clocks):
        return False
    return not more.deviations or set(more.deviations) <= set(less.deviations)
