"""Defects that are planted in the engines one at a time, and that the brute force must find.

A defect replaces a function of an engine with a wrong function, whose name describes the error.
"""

from __future__ import annotations

import copy
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from msgspec import structs

from fsm import checker
from fsm.checker import cones, refinement, safety
from fsm.checker.cones import Cones
from fsm.checker.instants import StepCache, Successors
from fsm.checker.liveness import LeadsToGraph
from fsm.checker.packed import leading, programs, sequences
from fsm.checker.packed.expansion import REJECTED
from fsm.checker.packed.packed_graph import PackedGraph
from fsm.checker.safety import IdempotenceAutomaton, SequenceAutomaton
from fsm.linearizability import moves
from fsm.linearizability.frontier import Frontier
from fsm.linearizability.moves import Moves
from fsm.machine.calls import ASKED, BEGUN, LOST_BEGUN, Rules, belief, unobserved
from fsm.machine.evidence import Proved
from fsm.machine.guards import DataEffects
from fsm.machine.in_progress import InProgress
from fsm.machine.product import reduction
from fsm.machine.product.composition import Composition
from fsm.machine.product.reduction import Influence, Orbits, Symmetry
from fsm.machine.product.system import JointMove
from fsm.machine.table import UNSPECIFIED
from fsm.machine.terms import Variable

if TYPE_CHECKING:
    from collections.abc import Callable

    import pytest

    from fsm.machine.table import Way

Plant: TypeAlias = "Callable[[pytest.MonkeyPatch], None]"
Call: TypeAlias = "Callable[..., Any]"


def wrapped(owner: object, name: str, wrong: Callable[[Call], Call]) -> Plant:
    def plant(patch: pytest.MonkeyPatch) -> None:
        patch.setattr(owner, name, wrong(getattr(owner, name)))

    return plant


def returning(owner: object, name: str, value: object = None) -> Plant:
    return wrapped(owner, name, lambda _: lambda *_, **__: value)


# -- calls in progress -----------------------------------------------------------------


def _ends_without_a_begin(right: Call) -> Call:
    def step(self: InProgress, number: int, row: int) -> object:
        state, calls, values, given = self.numbers.listed[number]
        if row not in calls and self.rows[row].ends:
            number = self.number(state, tuple(sorted((*calls, row))), values, (*given, ()))
        return right(self, number, row)

    return step


def _begins_once_more(right: Call) -> Call:
    return lambda self, *args: right(replace(self, overlap=self.overlap + 1), *args)


def _keeping_calls(self: InProgress, number: int, ways: tuple[Any, ...]) -> tuple[Any, ...]:
    _, calls, values, given = self.numbers.listed[number]
    return tuple(structs.replace(way, to=self.number(self.bare(way.to), calls, values, given)) for way in ways)


def _keeps_the_calls(right: Call) -> Call:
    def step(self: InProgress, number: int, row: int) -> object:
        ways, blocked = right(self, number, row)
        return _keeping_calls(self, number, ways) if ways and self.rows[row].event.interrupts else ways, blocked

    return step


def _never_over(right: Call) -> Call:
    def step(self: InProgress, number: int, row: int) -> object:
        ways, blocked = right(self, number, row)
        return _keeping_calls(self, number, ways) if ways and self.rows[row].ends else ways, blocked

    return step


def _unwritten_ends_are_ok(right: Call) -> Call:
    def step(self: InProgress, *args: object) -> object:
        ways, blocked = right(self, *args)
        if ways:
            ways = tuple(structs.replace(way, reply=("ok",)) if way.name == UNSPECIFIED else way for way in ways)
        return ways, blocked

    return step


# -- replies and instants ----------------------------------------------------------------


def _one_reply_less(right: Call) -> Call:
    def replies(self: Successors, way: object) -> object:
        found = right(self, way)
        return found[:-1] if len(found) > 1 else found

    return replies


def _instants_of(change: Callable[[Any], Any]) -> Callable[[Call], Call]:
    def wrong(right: Call) -> Call:
        return lambda *args: structs.replace(step := right(*args), instants=change(step))

    return wrong


def _end_happens(step: Any) -> Any:  # noqa: ANN401  (an engine's own)
    return tuple(structs.replace(each, event=step.taken.event) for each in step.instants)


def _until_comes_first(self: SequenceAutomaton, held: int, at_: Any) -> int:  # noqa: ANN401  (an engine's own)
    last = len(self.conditions) - 1
    for at in at_:
        if self.until is not None and held and self.until(at):
            held = 0
        if held == last and self.conditions[last](at):
            return safety.DONE
        if held < last and self.conditions[held](at):
            held += 1
    return held


def _until_comes_last(self: SequenceAutomaton, held: int, at_: Any) -> int:  # noqa: ANN401  (an engine's own)
    last = len(self.conditions) - 1
    for at in at_:
        if held == last and self.conditions[last](at):
            return safety.DONE
        if held < last and self.conditions[held](at):
            held += 1
        if self.until is not None and held and self.until(at):
            held = 0
    return held


def _several_at_one_instant(self: SequenceAutomaton, held: int, at_: Any) -> int:  # noqa: ANN401  (an engine's own)
    last = len(self.conditions) - 1
    for at in at_:
        if self.until is not None and held and held < last and self.until(at):
            held = 0
        while held <= last and self.conditions[held](at):
            if held == last:
                return safety.DONE
            held += 1
    return held


def _without_once(right: Call) -> Call:
    def init(self: IdempotenceAutomaton, *args: object) -> None:
        right(self, *args)
        self.once = None

    return init


def _weakly(right: Call) -> Call:
    def init(self: LeadsToGraph, claim: Any, *args: object) -> None:  # noqa: ANN401  (an engine's own)
        right(self, replace(claim, fair=tuple(replace(each, strongly=False) for each in claim.fair)), *args)

    return init


def _silence_passes(right: Call) -> Call:
    def following(self: IdempotenceAutomaton, node: object) -> object:
        return (edge for edge in right(self, node) if edge.taken.outcome != UNSPECIFIED)

    return following


CHECKER: Final[dict[str, Plant]] = {
    "a call ends that has not begun": wrapped(InProgress, "_step", _ends_without_a_begin),
    "a begin is not cut off": wrapped(InProgress, "_step", _begins_once_more),
    "an interrupt is lost": wrapped(InProgress, "_step", _keeps_the_calls),
    "a call that has ended is still in progress": wrapped(InProgress, "_step", _never_over),
    "an end that is not written replies ok only": wrapped(InProgress, "_step", _unwritten_ends_are_ok),
    "ends that are not written are left out": lambda patch: patch.setattr(StepCache, "left_out", (False, False)),
    "a reply is dropped": wrapped(Successors, "replies", _one_reply_less),
    "the first output alone is an instant": wrapped(
        Successors, "step", _instants_of(lambda step: step.instants[:1])
    ),
    "the outputs come in the other order": wrapped(
        Successors, "step", _instants_of(lambda step: step.instants[::-1])
    ),
    "an end is its event once more": wrapped(Successors, "step", _instants_of(_end_happens)),
    "until is asked before the last condition": wrapped(SequenceAutomaton, "advance", lambda _: _until_comes_first),
    "until is asked after the first condition": wrapped(SequenceAutomaton, "advance", lambda _: _until_comes_last),
    "two conditions hold at one instant": wrapped(SequenceAutomaton, "advance", lambda _: _several_at_one_instant),
    "a repeated call is asked while others are in progress": returning(InProgress, "idle", value=True),
    "once is not asked": wrapped(IdempotenceAutomaton, "__init__", _without_once),
    "a silent second call is passed": wrapped(IdempotenceAutomaton, "following", _silence_passes),
    "strong fairness is weak": wrapped(LeadsToGraph, "__init__", _weakly),
    "what is cut off is not possible": returning(InProgress, "blocked", value=()),
    "a run does not stop": returning(LeadsToGraph, "stops"),
    "a cycle is never fair": returning(LeadsToGraph, "circles"),
    "nothing is vacuous": returning(safety, "proved_or_vacuous", Proved()),
    "the first run is taken for the shortest": lambda patch: patch.setattr(
        safety, "min", lambda runs, **_: next(iter(runs), None), raising=False
    ),
}  # fmt: skip


# -- systems -----------------------------------------------------------------------------


def _ending(*, ends: bool) -> Callable[[Call], Call]:
    def wrong(right: Call) -> Call:
        def init(self: JointMove, *args: object, **named: object) -> None:
            right(self, *args, **named)
            self._ends = ends

        return init

    return wrong


def _errors_of_lists_dropped(right: Call) -> Call:
    def each(self: JointMove, local: int, way: Any) -> object:  # noqa: ANN401  (an engine's own)
        return right(self, local, structs.replace(way, reply=("ok",)) if "ok" in way.reply else way)

    return each


def _asked_at_the_beginning(word: str) -> Callable[[Call], Call]:
    def wrong(right: Call) -> Call:
        def runs(of: Any, moves_: Any, *starts: Any, **named: Any) -> object:  # noqa: ANN401  (an engine's own)
            early = []
            for each in moves_:
                move = copy.copy(each)
                value = getattr(move, word)(starts[0][0])
                setattr(move, word, partial(lambda value, _: value, value))
                early.append(move)
            return right(of, tuple(early), *starts, **named)

        return runs

    return wrong


def _no_influence(_: Call) -> Call:
    return lambda _, digits, __, outputs: frozenset({*digits, *outputs})


def _no_step_elsewhere(right: Call) -> Call:
    return lambda condition, of_atom: False if of_atom is cones._left_at_idle_step else right(condition, of_atom)  # noqa: SLF001  (an engine's own)


def _a_step_each(right: Call) -> Call:
    return lambda self, sequence: (each for each in right(self, sequence) if len(each) == len(sequence))


def _reset_keeps_calls(right: Call) -> Call:
    def options(self: JointMove, local: int, *, blocked: bool = False) -> object:
        table = self._table
        if self._row >= 0 or not isinstance(table, InProgress):
            return right(self, local, blocked=blocked)
        to = table.numbers[table.bare(self._reset.to), *table.numbers.listed[local][1:]]
        known = to if to < len(table.states) else self._reset.to
        return tuple(self._options_of_way(local, structs.replace(self._reset, to=known)))

    return options


# -- data ------------------------------------------------------------------------------------


def _one_after_another(_: Call) -> Call:
    def after(self: DataEffects, way: Way, row: int, frame: tuple[Any, ...]) -> object:
        guard, updates = self._compiled(way.when, way.updates, row)
        if guard is not None and guard(frame) is False:
            return None
        here = list(frame)
        for place, evaluate in updates:
            here[place] = self.variables[place].kept(evaluate(tuple(here)))
        return tuple(here[: len(self.variables)])

    return after


def _of_the_last_call(right: Call) -> Call:
    def arguments(self: InProgress, ways: object, row: int, state: int, calls: Any, given: Any) -> object:  # noqa: ANN401
        found = list(right(self, ways, row, state, calls, given))
        return [(place, found[-1][1]) for place, _ in found] if self.rows[row].ends else found

    return arguments


def _never_beyond(right: Call) -> Call:
    return lambda self, value: right(replace(self, beyond="saturates") if self.beyond == "scope" else self, value)


of_the_last_call: Final[Plant] = wrapped(InProgress, "_arguments", _of_the_last_call)

DATA: Final[dict[str, Plant]] = {
    "conditions of outcomes are ignored": wrapped(DataEffects, "_compile", lambda right: lambda *args: (lambda _: True, right(*args)[1])),
    "updates are made one after another": wrapped(DataEffects, "_after", _one_after_another),
    "no value is updated": wrapped(DataEffects, "_compile", lambda right: lambda *args: (right(*args)[0], ())),
    "no value is beyond a scope": wrapped(Variable, "kept", _never_beyond),
    "no value saturates": wrapped(Variable, "kept", lambda _: lambda _self, value: value),
    "what leads beyond a scope is impossible": wrapped(
        InProgress, "blocked", lambda right: lambda *args: tuple(way for way in right(*args) if way.begins or way.index < 0)
    ),
    "the second call may have other arguments": returning(safety, "may_agree", value=True),
    "arguments have only their first values": wrapped(DataEffects, "combinations", lambda right: lambda *args: right(*args)[:1]),
}  # fmt: skip

SYSTEM: Final[dict[str, Plant]] = {
    "an error does not end a joint call": wrapped(JointMove, "__init__", _ending(ends=False)),
    "an error ends what goes on, and a joint signal": wrapped(JointMove, "__init__", _ending(ends=True)),
    "the errors of a list are dropped": wrapped(JointMove, "_options_of_way", _errors_of_lists_dropped),
    "when is asked too early": wrapped(Composition, "runs", _asked_at_the_beginning("when")),
    "heard is asked too early": wrapped(Composition, "runs", _asked_at_the_beginning("heard")),
    "a reset leaves calls in progress": wrapped(JointMove, "_options", _reset_keeps_calls),
}  # fmt: skip

CONES: Final[dict[str, Plant]] = {
    "the cone has no influence": wrapped(Influence, "_cone", _no_influence),
    "what is true of the cone is true of the whole": wrapped(checker, "of_whole", lambda _: lambda _, found, *__: found),
    "no claim is relaxed": returning(cones, "relaxed"),
    "no run is taken again": wrapped(cones, "_replay_on_whole", lambda _: lambda run, *_: run),
    "nothing steps elsewhere": wrapped(cones, "with_atoms", _no_step_elsewhere),
    "conditions hold in a step each": wrapped(cones._Elsewhere, "relaxed", _a_step_each),  # noqa: SLF001  (an engine's own)
    "silence is not looked for": returning(Cones, "_copies_that_may_emit", frozenset()),
}  # fmt: skip

FOLDED: Final[dict[str, Plant]] = {
    "all neighbours can be exchanged": returning(reduction, "keeps", value=True),
    "no claim tells copies apart": wrapped(Symmetry, "orbits", lambda right: lambda self, _: right(self, [])),
    "an orbit is one state": returning(Orbits, "size", value=1),
    "steps that are exchanged may be in any order": returning(reduction, "commute", value=True),
}  # fmt: skip


# -- compiled code: wrong programs ------------------------------------------


def _some_for_every(right: Call) -> Call:
    return lambda self, condition, *rest: right(self, replace(condition, every=not condition.every), *rest)


def _one_option_less(right: Call) -> Call:
    def options_of(self: programs.Writing, move: JointMove) -> object:
        fewer = copy.copy(move)
        fewer.options = lambda local: move.options(local)[:1]  # type: ignore[assignment]  # as a defect has it
        return right(self, fewer)

    return options_of


def _condition_dropped(right: Call) -> Call:
    return lambda self, _: right(self, None)


COMPILED: Final[dict[str, Plant]] = {
    "every is some": wrapped(programs.Tests, "atom", _some_for_every),
    "a step has one option": wrapped(programs.Writing, "_options_of", _one_option_less),
    "conditions of steps are dropped": wrapped(programs.Tests, "of", _condition_dropped),
    "before is after": lambda patch: patch.setattr(sequences, "is_at", lambda atom, *, before: False),  # noqa: ARG005  (as it is)
    "what is busy is at rest": returning(programs.Tests, "busy", REJECTED),
    "a copy is in one state only": returning(PackedGraph, "locals_of", frozenset()),
}  # fmt: skip

LEADING: Final[dict[str, Plant]] = {
    "nothing stays due": returning(leading, "can_stay_due", value=False),
    "everything fair is taken": returning(leading, "_fair_matches", value=True),
}  # fmt: skip


# -- monitor and histories ---------------------------------------------------------------------


def _fits_no_list(right: Call) -> Call:
    def fits(self: Rules, stage: int, reply: str) -> bool:
        if stage >= 0 and len(self.table.ways[stage].reply) > 1:
            return reply == self.table.ways[stage].reply[0]
        return bool(right(self, stage, reply))

    return fits


def _ends_nowhere_else(right: Call) -> Call:
    def found(self: Rules, state: int, row: int, stage: int = ASKED) -> object:
        instants_ = right(self, state, row, stage)
        begun = stage in {BEGUN, LOST_BEGUN}
        return () if begun and any(each.way is None for each in instants_) else instants_

    return found


RULES: Final[dict[str, Plant]] = {
    "one reply of a list fits": wrapped(Rules, "fits", _fits_no_list),
    "an end that is not written is none": wrapped(Rules, "_instants", _ends_nowhere_else),
}  # fmt: skip

MONITOR: Final[dict[str, Plant]] = {
    **RULES,
    "nothing interrupts": returning(Rules, "interrupts", value=False),
    "nothing happens unseen": returning(unobserved.Unobserved, "unseen_instants", ()),
    "a call that was given up is over": wrapped(belief.Dynamics, "_after_lost_call", lambda _: lambda self, before, _: self.closed(before)),
}  # fmt: skip


def _counted(right: Call) -> Call:
    return lambda self, came, emits: (
        right(self, came, self._seen[came : came + len(emits)]) if len(emits) <= len(self._seen) - came else None
    )


HISTORY: Final[dict[str, Plant]] = {
    **RULES,
    "nothing acts late": returning(Moves, "_late_effects", ()),
    "outputs are counted and not compared": wrapped(moves.Seen, "after", _counted),
    "an operation may return before it acts": returning(Frontier, "returned", value=True),
    "all that is called acts at once": returning(Moves, "_gains_nothing", value=True),
}  # fmt: skip

REFINES: Final[dict[str, Plant]] = {
    "the other machine is known to be in one state": wrapped(
        refinement.BeliefTable, "least", lambda _: lambda _self, found, beside: beside[0] if beside else beside.append(found) or found
    ),
    "no call continues": returning(refinement._Product, "_continue_call", ()),  # noqa: SLF001
}  # fmt: skip

FOLLOWS: Final[dict[str, Plant]] = {
    "the first output is not followed": wrapped(
        refinement.BeliefTable, "after", lambda right: lambda self, found, seen: found if found == self.initial else right(self, found, seen)
    ),
    "nothing is refused": wrapped(
        refinement.BeliefTable, "after", lambda right: lambda self, found, seen: max(found, right(self, found, seen)) if found >= 0 else found
    ),
}  # fmt: skip

PLANTED: Final[dict[str, dict[str, Plant]]] = {
    "machine": CHECKER,
    "data": DATA,
    "system": SYSTEM,
    "cones": CONES,
    "folded": FOLDED,
    "compiled": COMPILED,
    "leading": LEADING,
    "refines": REFINES,
    "follows": FOLLOWS,
    "trace": MONITOR,
    "history": HISTORY,
}
