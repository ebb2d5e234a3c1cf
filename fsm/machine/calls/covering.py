"""Sets of configurations without those that add nothing, since another one covers them.

One covers another if whatever is legal after the other is legal after it, and no deviation and no cell is certain for
the other alone.  So the two differ only in that

- its calls may have met more states, or one of them was not interrupted;
- one of its calls has not acted, and has met the state in which that of the other ended without moving anything: it
  may give the same reply, by an outcome of that state, or do more;
- more of its calls are lost;
- it has no time limit, or has it since later, or rests on fewer deviations.

Calls that ended in one cell with the same replies are alike.
"""

from typing import Final, NamedTuple, TypeAlias

from fsm.machine.calls.configuration import Configuration, Configurations, Due, Pending, numbers
from fsm.machine.calls.rules import ASKED, CUT, LOST, LOST_BEGUN, Rules

_ENDS: Final = 64
"""Bits for what a call that may act could have ended by: the first is that it was cut off, the others are kinds of ends."""

_ANY: Final = (1 << _ENDS) - 1
"""It may act yet, or have ended in any way that moves nothing."""

_Kind: TypeAlias = tuple[object, ...]


class _Open(NamedTuple):
    """What a configuration leaves open: as bits, late calls and what each call has met and may be; what it rests on; its limit."""

    sets: int
    deviations: tuple[str, ...]
    due: Due | None


class Covering:
    """Which configurations of an entity cover which, by its *rules*.

    >>> from fsm.language.library import load
    >>> from fsm.machine.table import tabulate
    >>> rules = Rules(tabulate(load("cri-container")))
    >>> exited, row = rules.table.states.index("exited"), rules.table.row["remove"]
    >>> removing = rules.table.states.index("exited-removing")
    >>> failed = next(way for way in rules.table.step(removing, row + 1) if way.name == "failed")
    >>> asked = Configuration(exited, (Pending(row, ASKED, 1 << exited),))
    >>> ended = Configuration(exited, (Pending(row, failed.index, 1 << exited),))
    >>> covering = Covering(rules)
    >>> covering.within(frozenset({ended}), frozenset({asked})), covering.within(frozenset({asked}), frozenset({ended}))
    (True, False)
    """

    def __init__(self, rules: Rules) -> None:
        self._rules = rules
        self._calls: dict[tuple[Pending, ...], tuple[_Kind, int]] = {}
        self._call: dict[Pending, tuple[tuple[int, int], int]] = {}
        self._first: dict[_Kind, int] = {}
        self._ends: dict[tuple[int, int], int] = {}
        self._width = 0

    def split(self, each: Configuration) -> tuple[_Kind, _Open]:
        """What must be the same in two configurations for one to cover the other, and what may be more open."""
        state, pending, queue, deviations, due = each
        known = self._calls.get(pending)
        if known is None:
            if len(self._calls) > _REMEMBERED:
                self._calls.clear()
            known = self._calls[pending] = self._split(pending)
        return (state, known[0], queue), _Open(known[1], deviations, due)

    def within(self, less: Configurations, more: Configurations) -> bool:
        """Whether whatever is legal after *less* is legal after *more*, since some of *more* covers each of *less*."""
        known: dict[_Kind, list[_Open]] = {}
        for each in more:
            shape, mine = self.split(each)
            known.setdefault(shape, []).append(mine)
        return all(any(covers(other, mine) for other in known.get(shape, ())) for shape, mine in map(self.split, less))

    def _split(self, pending: tuple[Pending, ...]) -> tuple[_Kind, int]:
        if self._width < _ENDS + len(self._rules.table.states):  # places of a product are added as they are met
            self._width = _ENDS + 2 * len(self._rules.table.states)
        late, width = 0, self._width
        waited: list[tuple[tuple[int, int], int]] = []
        for call in pending:
            if call.stage > LOST:
                found = self._call.get(call)
                if found is None:
                    found = self._call[call] = self._waited(call)
                waited.append(found)
            else:  # it may act or not, so the more of them there are the more is legal
                late |= 1 << (2 * call.row + (call.stage == LOST_BEGUN))
        waited.sort()
        sets = late
        for _, left in waited:
            sets = sets << width | left
        return (width, *(kind for kind, _ in waited)), sets

    def _waited(self, call: Pending) -> tuple[tuple[int, int], int]:
        """The kind of a call whose reply is awaited, and what it leaves open, as bits."""
        met = call.met << _ENDS
        match call.stage:
            case stage if stage >= 0:
                end = self._end(call)
                return ((call.row, ASKED), met | 1 << end) if end else ((call.row, self._alike(stage)), met)
            case stage if stage == ASKED:
                return (call.row, ASKED), met | _ANY
            case stage if stage == CUT:
                return (call.row, ASKED), met | 1
            case stage:
                return (call.row, stage), met

    def _alike(self, stage: int) -> int:
        """The first way that was met, of those of one cell that are told apart by nothing that follows."""
        way = self._rules.table.ways[stage]
        return self._first.setdefault((self._rules.table.origin[stage], way.reply, way.emits), stage)

    def _end(self, call: Pending) -> int:
        """The number of how *call* ended, if one that has not acted may give its reply as well; else 0."""
        table = self._rules.table
        ended = table.ways[call.stage]
        for state in numbers(call.met):
            if not any(
                way.to == state
                and way.reply == ended.reply
                and not (way.begins or way.emits or way.within or ended.emits or way.deviation)
                for way in table.step(state, call.row) or ()
            ):
                return 0
        number = self._ends.setdefault((call.row, self._alike(call.stage)), len(self._ends) + 1)
        return number if number < _ENDS else 0


_REMEMBERED: Final = 100_000
"""Bags of calls of which it is remembered what they leave open."""


class ConfigurationSet:
    """Configurations, without those that another one of them covers."""

    def __init__(self, covering: Covering) -> None:
        self._split = covering.split
        self._known: dict[_Kind, list[tuple[_Open, Configuration]]] = {}
        self._met: set[Configuration] = set()
        self.covered: set[Configuration] = set()
        self.size = 0

    def add(self, new: Configuration) -> bool:
        """Take *new*; whether it says anything that was not known."""
        if new in self._met:  # most are, as calls act in every order; what is covered stays covered
            return False
        self._met.add(new)
        shape, mine = self._split(new)
        known = self._known.setdefault(shape, [])
        sets = mine.sets
        for other, _ in known:
            if other.sets | sets == other.sets and covers(other, mine):
                return False
        self.size += 1
        less = [each for each in known if each[0].sets | sets == sets and covers(mine, each[0])]
        if less:
            self.covered.update(each for _, each in less)
            self.size -= len(less)
            known[:] = [each for each in known if each not in less]
        known.append((mine, new))
        return True

    def all(self) -> Configurations:
        """What is left."""
        return frozenset(each for known in self._known.values() for _, each in known)


def covers(more: _Open, less: _Open) -> bool:
    """Whether what leaves *more* open covers what leaves *less*, where both are of one kind."""
    if more.sets | less.sets != more.sets:
        return False
    if more.due and (not less.due or more.due.way != less.due.way or more.due.start < less.due.start):
        return False
    return not more.deviations or set(more.deviations) <= set(less.deviations)
