"""Find contradictions between a machine and the recorded events of an entity, by a simple reading of the cells.

This is a second opinion on the judge. It uses the same dataclasses for machines, but none of the engines. It tries
every possible order of the recorded acts, and enumerates the situations in which the entity could be.
"""

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from typing import Final, TypeAlias

from fsm.machine import Cannot, Cell, Ignores, Machine, Moves, Refuses, Silent

FOREVER: Final = 1 << 63  # the ``end`` of an act that may happen arbitrarily late
TOO_MANY: Final = 2_000  # maximum number of situations; if there are more, contradiction() returns None

_Calls: TypeAlias = frozenset[tuple[int, bool]]  # for each act in progress, its index and whether it has begun
_Situation: TypeAlias = tuple[str, _Calls]
# The next state, the replies that fit (empty if any reply fits), and whether the call has only begun.
_Way: TypeAlias = tuple[str, tuple[str, ...], bool]


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordedAct:
    """A recorded call or event, which happened at one instant between ``start`` and ``end``."""

    entity: str
    of: str
    event: str
    start: int
    end: int
    line: int = 0
    reply: str = ""  # empty if unknown
    shows: str = ""  # empty if unknown
    certain: bool = True  # if false, the act may not have happened at all


@dataclass(frozen=True, slots=True, kw_only=True)
class Room:
    """An interval in which the runtime restarted. If it is not ``certain``, there may have been no restart."""

    start: int
    end: int
    certain: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Contradiction:
    """An act that no order of the acts explains."""

    act: RecordedAct
    states: tuple[str, ...]  # the states that were possible when ``act`` ended
    before: tuple[RecordedAct, ...]  # the acts that started no later than ``act``, including ``act`` itself


def contradiction(
    machine: Machine,
    acts: Sequence[RecordedAct],
    rooms: Sequence[Room],
    *,
    initial: Collection[str],
    unseen: Collection[str],
) -> Contradiction | None:
    """Return the first act that no order of *acts* explains.

    The entity starts in one of the states *initial*. The signals in *unseen* may happen at any time. Hidden events
    happen only in the intervals *rooms*, in which the runtime restarted or may have restarted.

    >>> from fsm.language.library import load
    >>> acts = [RecordedAct(entity="w", of="", event="empty", start=at, end=at, reply="ok") for at in (1, 2)]
    >>> contradiction(load("examples/models/washer.toml"), acts, [], initial=["done"], unseen=["finish"]).states
    ('idle',)
    """
    reading = _Reading(machine, acts, unseen)
    now = reading.unseen_closure({(state, _Calls()) for state in initial})
    ends = ((act.end, True, number) for number, act in enumerate(reading.acts))
    left = list(rooms)
    for at, over, number in sorted([*((act.start, False, each) for each, act in enumerate(reading.acts)), *ends]):
        if at == FOREVER or len(now) > TOO_MANY:
            break
        now = reading.restarted(now, left, at)
        if not over:
            now = reading.unseen_closure({(state, calls | {(number, False)}) for state, calls in now})
            continue
        act, own = reading.acts[number], {(number, False), (number, True)}
        after = {(state, calls - own) for state, calls in now if not (act.certain and calls & own)}
        if not after:
            before = sorted((each for each in acts if each.start <= act.start), key=lambda each: each.start)
            return Contradiction(act=act, states=tuple(sorted({state for state, _ in now})), before=tuple(before))
        now = after
    return None


class _Reading:
    def __init__(self, machine: Machine, acts: Sequence[RecordedAct], unseen: Collection[str]) -> None:
        self.machine = machine
        events = {name: event for event in machine.events.values() for name in (event.name, event.rpc) if name}
        self.first = {
            (name, state): self._ways(cell, state) for name, of in events.items() for state, cell in of.cells.items()
        }
        self.then = {
            (name, state): self._ways(cell, state) for name, of in events.items() for state, cell in of.ends.items()
        }
        self.acts = [act for act in acts if act.event in events and not self._is_irrelevant(act)]
        self.unseen = unseen
        self.hidden = [each.name for each in machine.events.values() if each.kind == "hidden"]

    def _ways(self, cell: Cell, state: str) -> list[_Way]:
        match cell:
            case Silent():
                return [(each, (), False) for each in self.machine.states]
            case Cannot():
                return []
            case Ignores():
                return [(state, ("ok",), False)]
            case Refuses():
                return [(state, cell.codes, False)]
            case Moves():
                return [(each.to, each.reply, each.begins) for each in cell.outcomes]

    def _is_irrelevant(self, act: RecordedAct) -> bool:
        return all(
            any(self._is_consistent(act, *way) for way in ways)
            and all(to == state and not begins for to, _, begins in ways)
            for state in self.machine.states
            for ways in [self.first[act.event, state]]
        )

    def _is_consistent(self, act: RecordedAct, to: str, replies: tuple[str, ...], begins: bool) -> bool:  # noqa: FBT001
        shown = act.shows in {"", self.machine.states[to].shows}
        error = "error" in replies and act.reply != "ok"
        return begins or (shown and (not act.reply or not replies or act.reply in replies or error))

    def restarted(self, now: set[_Situation], left: list[Room], at: int) -> set[_Situation]:
        maybe = False
        while left and left[0].start < at:
            maybe |= not left[0].certain
            if left[0].certain:
                now = self.unseen_closure(self._after_hidden_event(now))
            if left[0].end > at:
                break
            del left[0]
        while maybe and (more := self.unseen_closure(self._after_hidden_event(now)) - now):
            now |= more
        return now

    def _after_hidden_event(self, now: set[_Situation]) -> set[_Situation]:
        return {
            (to, frozenset(each for each in calls if not each[1]))
            for state, calls in now
            for name in self.hidden
            for to, _, _ in self.first[name, state]
        }

    def unseen_closure(self, now: set[_Situation]) -> set[_Situation]:
        found, todo = set(now), list(now)
        while todo and len(found) <= TOO_MANY:
            fresh = set(self._next(*todo.pop())) - found
            found |= fresh
            todo += fresh
        return found

    def _next(self, state: str, calls: _Calls) -> Iterator[_Situation]:
        for name in self.unseen:
            for to, _, _ in self.first[name, state]:
                yield to, calls
        for number, begun in calls:
            act, rest = self.acts[number], calls - {(number, begun)}
            # The state may have changed since the call began. If the model has no end for the call in the new state,
            # any end is accepted.
            ways = self.then.get((act.event, state), [(state, (), False)]) if begun else self.first[act.event, state]
            for way in ways:
                if self._is_consistent(act, *way):
                    yield way[0], rest | {(number, True)} if way[2] else rest
