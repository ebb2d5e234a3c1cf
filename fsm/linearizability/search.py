"""Every order in which the operations on one entity may have acted, stage by stage, as the machine has it.

:mod:`fsm.linearizability` says what is searched for, and after whom.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING, Final, NamedTuple, TypeAlias

from fsm.machine.calls.rules import ASKED, BEGUN, CUT, Rules

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from fsm.linearizability.history import Operation
    from fsm.machine.table import Table, Way

ACTED: Final = -8
"""The operation has acted, and is still to look."""
DONE: Final = -9
"""It is over.  The other stages are those of :mod:`fsm.machine.calls.rules`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """An instant of a linearization: what ``row`` of the machine did, for ``operation``.

    ``row`` is an event, or its name with ``…`` before it for a stage of a
    call that has begun; it is empty for a look, and ``operation`` is ``None``
    for what happened hidden.  ``outcome`` is empty where nothing is specified.
    """

    operation: Operation | None
    row: str
    before: str
    outcome: str
    after: str


class _Situation(NamedTuple):
    """The stage of each operation, the state, and the outputs so far if they are observed."""

    stages: tuple[int, ...]
    state: int
    came: tuple[str, ...] = ()


class LimitError(Exception):
    """There is more to look at than was asked for."""


_Taken: TypeAlias = "tuple[_Situation, int, int, Way | None]"
"""What came of an instant, the number of the operation or -1, the row or -1, and the way that it went."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Search:
    """One entity's ``operations``, in the order of their calls.

    ``outputs`` are all that came out, ``None`` where nobody looked.  With
    ``longer`` there may come out other ones, as many as there were and some more.
    With ``partly`` more of them may come later.
    """

    rules: Rules
    unseen: tuple[int, ...]
    limit: int
    operations: tuple[Operation, ...]
    outputs: tuple[str, ...] | None
    partly: bool = False
    longer: int | None = None

    @property
    def table(self) -> Table:
        """The machine's."""
        return self.rules.table

    # -- the search --------------------------------------------------------

    def goals(self) -> Iterator[tuple[Step, ...]]:
        """A way to each situation in which all is explained; each situation is looked at once."""
        for path in self._paths():
            yield tuple(self._step(*pair) for pair in pairwise(path))

    def sequences(self) -> Iterator[tuple[str, ...]]:
        """All that could have come out when all is explained."""
        for path in self._paths():
            yield path[-1][0].came

    def _paths(self) -> Iterator[list[_Taken]]:
        start = _Situation((ASKED,) * len(self.operations), self.table.initial)
        path: list[_Taken] = [(start, -1, -1, None)]
        met = {start}
        following = [self._following(start)]
        if self._explained(start):
            yield path
        while following:
            taken = next(following[-1], None)
            if taken is None:
                following.pop()
                path.pop()
                continue
            if taken[0] in met:
                continue
            if len(met) >= self.limit:
                raise LimitError
            met.add(taken[0])
            path.append(taken)
            following.append(self._following(taken[0]))
            if self._explained(taken[0]):
                yield path

    def _explained(self, here: _Situation) -> bool:
        over = all(
            stage == DONE or operation.returned is None
            for stage, operation in zip(here.stages, self.operations, strict=True)
        )
        whole = self.outputs is None or self.partly or self.longer is not None or here.came == self.outputs
        return over and whole

    def _step(self, before: _Taken, after: _Taken) -> Step:
        there, number, row, way = after
        return Step(
            operation=None if number < 0 else self.operations[number],
            row="" if row < 0 else self.table.rows[row].name,
            before=self.table.states[before[0].state],
            outcome=way.name if way else "",
            after=self.table.states[there.state],
        )

    # -- what may be next --------------------------------------------------

    def _following(self, here: _Situation) -> Iterator[_Taken]:
        for number in self._open(here):
            operation = self.operations[number]
            row = self.table.row[operation.event] if operation.event else -1
            stage = here.stages[number]
            if stage == ACTED or row < 0:
                if operation.shows == self.table.shows[here.state]:
                    yield self._at(here, number, DONE), number, -1, None
                continue
            yield from self._acts(here, number, row)
            if self._is_call(operation) and self.rules.fits(stage, operation.reply):
                yield self._acted(here, number), number, row, None  # it comes to nothing
        for row in self.unseen:
            yield from self._acts(here, -1, row)

    def _open(self, here: _Situation) -> list[int]:
        """The operations that may act now: no other one has to be over before they are called."""
        latest: int | None = None
        found = []
        for number, (stage, operation) in enumerate(zip(here.stages, self.operations, strict=True)):
            if latest is not None and operation.called > latest:
                break  # they are in the order of their calls
            if stage == DONE:
                continue
            found.append(number)
            if operation.returned is not None and (latest is None or operation.returned < latest):
                latest = operation.returned
        return [number for number in found if latest is None or self.operations[number].called <= latest]

    def _acts(self, here: _Situation, number: int, row: int) -> Iterator[_Taken]:
        """Every instant that may be next of operation *number*, or of the unobserved event of *row*."""
        left = self._interrupted(here, number) if self.rules.interrupts(row) else here
        for instant in self.rules.instants(here.state, row, here.stages[number] if number >= 0 else ASKED):
            there = left._replace(state=instant.to)
            if instant.way is None:
                for came in self._anything(here.came) if number >= 0 else (here.came,):
                    yield self._acted(there._replace(came=came), number), number, instant.row, None
                continue
            after = self._came(here.came, instant.emits)
            if after is None:
                continue
            there = there._replace(came=after)
            if instant.stage == BEGUN:
                yield (there if number < 0 else self._at(there, number, BEGUN)), number, instant.row, instant.way
            elif number < 0 or self._fits(self.operations[number], instant.stage):
                yield self._acted(there, number), number, instant.row, instant.way

    def _at(self, here: _Situation, number: int, stage: int) -> _Situation:
        return here._replace(stages=(*here.stages[:number], stage, *here.stages[number + 1 :]))

    def _acted(self, here: _Situation, number: int) -> _Situation:
        if number < 0:
            return here
        return self._at(here, number, ACTED if self.operations[number].shows else DONE)

    def _interrupted(self, here: _Situation, number: int) -> _Situation:
        """*here*, the calls that have begun cut off, but for operation *number*."""
        for other in self._open(here):
            if other != number and self._is_call(self.operations[other]) and here.stages[other] == BEGUN:
                here = self._at(here, other, CUT)
        return here

    def _is_call(self, operation: Operation) -> bool:
        return bool(operation.event) and self.table.machine.events[operation.event].kind == "call"

    def _fits(self, operation: Operation, stage: int) -> bool:
        """Whether what returned may have ended so."""
        unknown = operation.returned is None or not self._is_call(operation)
        return unknown or self.rules.fits(stage, operation.reply)

    # -- what comes out ----------------------------------------------------

    def _came(self, came: tuple[str, ...], emits: tuple[str, ...]) -> tuple[str, ...] | None:
        """*came* and then *emits*; ``None`` if that is not what came out."""
        if self.outputs is None or not emits:
            return came
        after = came + emits
        fits = self.outputs[: len(after)] == after if self.longer is None else len(after) <= self.longer
        return after if fits else None

    def _anything(self, came: tuple[str, ...]) -> Iterable[tuple[str, ...]]:
        """All that may have come out when nothing is specified of it."""
        if self.outputs is None or self.longer is not None:
            return (came,)
        return (self.outputs[:length] for length in range(len(came), len(self.outputs) + 1))
