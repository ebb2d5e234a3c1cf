"""Split the steps of a machine into instants, and test conditions on instants."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable
from functools import cache, cached_property, partial
from typing import TYPE_CHECKING, TypeAlias, assert_never

from msgspec import Struct

from fsm.checker.alike import Conclusions
from fsm.checker.breadth_first import WITHIN, Limit, SearchEdge, reachable_size, size_of_states
from fsm.checker.packing import ArraySearch, is_foldable, packed, valuations
from fsm.machine import ANY_ERROR, conditions
from fsm.machine.calls.valued import ValuedTable
from fsm.machine.claims import Counts
from fsm.machine.conditions import Atom, Condition, Sequence, WrittenCondition, atoms, predicate
from fsm.machine.evidence import Run, RunStep, run_step
from fsm.machine.graph import steps
from fsm.machine.in_progress import InProgress, in_progress
from fsm.machine.product import SystemTable, TransitionSystem
from fsm.machine.product.reduction import Orbits, Symmetry
from fsm.machine.table import Table, Way
from fsm.machine.traversal import closure

if TYPE_CHECKING:
    from fsm.checker.packed.packed_graph import PackedGraph

SequenceNode: TypeAlias = tuple[int, int]
"""A state, and the number of conditions of a sequence that have held so far."""


class Instant(Struct, gc=False, frozen=True, kw_only=True):
    """An instant of a run, which consists of a state and the step that led to it.

    The first instant of a run has no step.
    """

    state: int
    source: int = -1
    event: str = ""
    reply: str = ""
    output: str = ""
    outputs: tuple[str, ...] = ()
    moved: bool = False

    @property
    def first(self) -> bool:
        return self.source < 0


class InstantStep(Struct, gc=False, frozen=True, kw_only=True):
    row: int
    way: Way
    taken: RunStep
    instants: tuple[Instant, ...]


class SequenceTests(Struct, frozen=True, kw_only=True):
    codes: tuple[str, ...]
    conditions: tuple[Callable[[Instant], bool], ...]
    until: Callable[[Instant], bool] | None
    edges: dict[SequenceNode, tuple[SearchEdge[SequenceNode], ...]] | None


class StepCache:
    """A cache of the steps of *table* for each set of error codes that a property distinguishes.

    *like* is the cache of a similar machine, such as the original of a mutant.  The two machines differ only
    in the steps from the state number *but*, so all other steps are shared.  *concluded* holds the conclusions of
    earlier searches, so that a table with the same behaviour as an earlier table needs no new search.
    """

    def __init__(
        self,
        table: TransitionSystem,
        *,
        like: StepCache | None = None,
        but: int = -1,
        concluded: Conclusions | None = None,
    ) -> None:
        self.table: TransitionSystem = table
        if isinstance(table, Table):
            known = like.table if like and isinstance(like.table, Table) else None
            self.table = in_progress(table, like=known)
        self.concluded = concluded
        self.like = like
        self.but = but
        self.witnesses: dict[Sequence, Run | None] = {}
        self.distinguishing = cache(self._make_successors)
        self.known: dict[tuple[str, ...], object] = {}
        """Data that searches derive from the steps, by distinguished error codes."""
        self._tests: dict[tuple[Sequence, WrittenCondition | None], SequenceTests] = {}
        self._folded = cache(lambda orbits: StepCache(system_table(self.table).folded(orbits)))

    @cached_property
    def reached(self) -> tuple[int, ...]:
        return closure([self.table.initial], lambda state: [each.to for each in steps(self.table, state)])

    @cached_property
    def bare(self) -> tuple[frozenset[int], frozenset[int]]:
        """The reachable states without data and calls in progress, and those in which calls may be in progress."""
        bare, idle = self.table.bare, self.table.idle
        return frozenset(map(bare, self.reached)), frozenset(bare(each) for each in self.reached if not idle(each))

    @cached_property
    def packed(self) -> PackedGraph | None:
        return packed(self.table)

    @cached_property
    def valuations(self) -> ArraySearch | None:
        return valuations(self.table) if self.like is None else None

    @cached_property
    def _symmetry(self) -> Symmetry | None:
        return Symmetry(self.table) if self.like is None and is_foldable(self.table) else None

    @property
    def overlap(self) -> int:
        """Maximum number of calls of one event in progress at the same time, or 0 if no call takes time."""
        timed = self.table.timed.values() if isinstance(self.table, SystemTable) else [self.table]
        return max((each.overlap for each in timed if isinstance(each, InProgress)), default=0)

    @cached_property
    def left_out(self) -> tuple[bool, bool]:
        """Whether searches leave out beginnings of calls, and whether they leave out unspecified ends of calls."""
        if self.valuations is not None:
            return False, False
        if isinstance(table := self.table, InProgress):
            blocked = [way for state in self.reached for row in table.rows for way in table.blocked(state, row.index)]
            return any(way.begins for way in blocked), any(way.index < 0 for way in blocked)
        ends = table.left_out(self.locals_of) if isinstance(table, SystemTable) else set()
        return False in ends, True in ends  # a call that has begun may always begin its next stage

    @cached_property
    def scope(self) -> tuple[tuple[str, ...], int]:
        """The ranges to which searches restrict data, and the number of steps that lead out of these ranges."""
        if not isinstance(table := self.table, InProgress | SystemTable) or table.data is None:
            return (), 0
        if self.valuations is not None:
            return table.data.scope, self.valuations.size(self.steps(), WITHIN)[1]
        beyond = (table.beyond_scope.get((state, row.index), 0) for state in self.reached for row in table.rows)
        return table.data.scope, sum(beyond)

    @cached_property
    def _has_calls_between_steps(self) -> bool:
        if not isinstance(self.table, SystemTable) or not self.table.timed:
            return False
        timed = self.table.timed.items()
        return any(not part.idle(local) for digit, part in timed for local in self.locals_of(digit))

    def locals_of(self, digit: int) -> Collection[int]:
        if (folded := self.folded()) is not None:
            return folded.locals_of(digit)
        if self.packed is not None:
            return self.packed.locals_of(digit)
        table = system_table(self.table)
        return {table.locals(state)[digit] for state in self.reached}

    @cached_property
    def beyond(self) -> StepCache:
        if not isinstance(self.table, InProgress | SystemTable):
            return self
        return StepCache(self.table.beyond(), like=self.like.beyond if self.like else None, but=self.but)

    def folded(self, asked: Iterable[Condition] = ()) -> StepCache | None:
        """Return the steps with interchangeable copies folded, or ``None`` if no copies can be folded.

        Copies that *asked* distinguishes are not folded.
        """
        orbits = self._symmetry.orbits(asked) if self._symmetry else Orbits()
        return self._folded(orbits) if orbits.groups else None

    def size(self, limit: Limit) -> Counts:
        if self.valuations is not None:
            return self.valuations.size(self.steps(), limit)[0]
        if (folded := self.folded()) is not None:
            found = folded.size(limit)
        else:
            found = reachable_size(self.table, limit) if self.packed is None else self.packed.counts(limit)
        return size_of_states(self.table, limit) if self._has_calls_between_steps or self.left_out[1] else found

    def steps(self, asked: Iterable[Condition] = ()) -> Successors:
        return self.distinguishing(codes(asked))

    def _make_successors(self, distinguished: tuple[str, ...]) -> Successors:
        like = self.like.distinguishing(distinguished) if self.like else None
        plain = self.distinguishing(()) if distinguished else None
        return Successors(self.table, distinguished, like=like, but=self.but, plain=plain)

    def tests(self, sequence: Sequence, until: WrittenCondition | None) -> SequenceTests:
        if self.like is not None and (shared := self.like.tests(sequence, until)).edges is not None:
            return shared
        found = self._tests.get((sequence, until))
        if found is None:
            every = [each.means for each in (*sequence, *([until] if until else []))]
            # `SilentOn` tests the target state of a step, so steps from unchanged states may differ, too.
            silent = any(isinstance(part, conditions.SilentOn) for each in every for part in atoms(each))
            found = self._tests[sequence, until] = SequenceTests(
                codes=codes(every),
                conditions=tuple(holds(each.means, self.table) for each in sequence),
                until=holds(until.means, self.table) if until else None,
                edges=None if silent else {},
            )
        return found


class Successors:
    """The steps of *table* from each state, computed on demand.

    *codes* are the error codes that the property distinguishes, and the reply ``error`` may be any of them.  *plain*
    contains the steps for a property that distinguishes no codes.  If it is given, only the further steps are computed.
    """

    def __init__(
        self,
        table: TransitionSystem,
        codes: tuple[str, ...] = (),
        *,
        like: Successors | None = None,
        but: int = -1,
        plain: Successors | None = None,
    ) -> None:
        self.table = table
        self.codes = codes
        self.like = like
        self.but = but
        self.beginning = Instant(state=table.initial)
        self.after = cache(self._steps_after)
        self._plain = plain

    def _steps_after(self, state: int) -> tuple[InstantStep, ...]:
        if self.like is not None and self.table.bare(state) != self.but:
            return self.like.after(state)
        if self._plain is None:
            return tuple(
                self.step(state, each.row, each.way, reply)
                for each in steps(self.table, state)
                for reply in self.replies(each.way)
            )
        found: list[InstantStep] = []
        for step in self._plain.after(state):
            found.append(step)
            way = step.way
            if way.reply and step.taken.reply == way.reply[-1] and ANY_ERROR in way.reply:
                further = (code for code in self.codes if code not in way.reply)
                found += [self.step(state, step.row, way, code) for code in further]
        return tuple(found)

    def replies(self, way: Way) -> tuple[str, ...]:
        if not way.reply:
            return ("",)
        if ANY_ERROR not in way.reply:
            return way.reply
        return tuple(dict.fromkeys((*way.reply, *self.codes)))

    def step(self, state: int, row: int, way: Way, reply: str) -> InstantStep:
        table = self.table
        event = table.rows[row].event.name
        taken = run_step(table, state, row, way, way.to, reply)
        # The end of a call is only a reply.  It does not count as another occurrence of the event.
        happens = "" if table.rows[row].ends else event
        moved = table.states[state] != table.states[way.to]
        instants = tuple(
            Instant(
                state=way.to,
                source=state,
                event=happens,
                reply=f"{event} {reply}" if reply else "",
                output=output,
                outputs=way.emits,
                moved=moved,
            )
            for output in way.emits or ("",)
        )
        return InstantStep(row=row, way=way, taken=taken, instants=instants)


def holds(condition: Condition, table: TransitionSystem) -> Callable[[Instant], bool]:
    return predicate(condition, partial(_atom_test, table))


def _atom_test(  # noqa: C901  (one case for each kind of atom)
    table: TransitionSystem, condition: Atom
) -> Callable[[Instant], bool]:
    match condition:
        case conditions.In(states=names, before=before):
            states = table.states  # the list grows while configurations are discovered
            return (
                (lambda at: not at.first and states[at.source] in names)
                if before
                else (lambda at: states[at.state] in names)
            )
        case conditions.Emits(output=output):
            return lambda at: at.output == output
        case conditions.EmitsOnly(outputs=wanted, among=among):
            return lambda at: (
                tuple(each for each in at.outputs if among is None or each in among) == wanted and not at.first
            )
        case conditions.Happens(event=event):
            return lambda at: at.event == event
        case conditions.Replies(event=event, reply=reply):
            exact, ok, any_ = f"{event} {reply}", f"{event} ok", f"{event} "
            error = reply == ANY_ERROR
            return lambda at: (at.reply.startswith(any_) and at.reply != ok) if error else at.reply == exact
        case conditions.StateChanges():
            return lambda at: at.moved
        case conditions.SilentOn(event=event):
            row, of = table.row[event], machine_table(table) if isinstance(table, Table) else table
            return lambda at: of.step(table.bare(at.state), row) is None
        case conditions.At(before=before):
            there = system_table(table).test(condition)
            return (lambda at: not at.first and there(at.source)) if before else (lambda at: there(at.state))
        case conditions.StepEmits(output=output):
            return lambda at: output in at.outputs
        case conditions.Compare():
            if not isinstance(table, Table | SystemTable) or table.data is None:
                raise TypeError("the machine has no data")
            test, values = table.data.test(condition), table.values
            return lambda at: bool(test(values(at.state)))  # a comparison with an unknown value does not hold
        case _:
            assert_never(condition)


def machine_table(table: TransitionSystem) -> Table:
    if not isinstance(table, Table):
        raise TypeError("this is defined for a machine, not for a system")
    return table.of if isinstance(table, InProgress | ValuedTable) else table


def system_table(table: TransitionSystem) -> SystemTable:
    if not isinstance(table, SystemTable):
        raise TypeError("this is defined for a system, not for a machine")
    return table


def codes(asked: Iterable[Condition]) -> tuple[str, ...]:
    replies = {part.reply for each in asked for part in atoms(each) if isinstance(part, conditions.Replies)}
    return tuple(sorted(replies - {"ok", ANY_ERROR}))
