"""Abstraction of systems with any number of copies of a part.

The abstraction is a system of fixed size.  It keeps one copy.  The other copies form a *crowd*, and only the set of
states that its members occupy is known.  This is a counter abstraction whose counters have only the values none and
some (Pnueli, Xu and Zuck, *Liveness with (0, 1, ∞)-counter abstraction*, 2002).

Conditions only require that every copy, or some copy, is in a state, so they have the same meaning for the crowd.
When a member moves, its old state may or may not remain occupied.  Every step of a system with two or more copies is
therefore a step of the abstraction, with the same outputs and reply.  What is impossible in the abstraction is thus
impossible in every such system.  The converse does not hold.

The abstraction checks that all further copies behave in the same way.  The system with three copies must do the same
as the system with two, it must treat the third copy like the second, and the order of these two must not matter.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import combinations, groupby
from typing import TYPE_CHECKING, Final

from fsm.machine import Cannot, Cell, Clause, Event, Machine, Moves, Outcome, State
from fsm.machine.conditions import All, At, Atom, Condition, Happens, Not, Replies, Some, mapped
from fsm.machine.product import SystemTable
from fsm.machine.product.reduction import Symmetry, commute, same
from fsm.machine.product.system import Copy, JointEvent, JointWay, Part, PartStep, System

if TYPE_CHECKING:
    from fsm.machine.product import JointPath, JointRow
    from fsm.machine.product.system import JointMove

NONE, SOME = "none", "some"
FILL, MAY_FILL, DRAIN = "fills", "may-fill", "drains"
"""Events of a counter.  The states of a counter are :data:`NONE` and :data:`SOME`."""
FAILS: Final = "fails"

SHOWN: Final = 3  # number of copies in the analysed system: the copy that is kept, and two copies that form the crowd

NOBODY: Final = Clause(
    name="crowd", says="Only the occupied states of these copies are known.", level="MAY", source="none"
)


class NoCrowdError(Exception):
    """Raised if the crowd abstraction cannot be applied.  The message is the reason."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Course:
    """The course that a joint event may take for one member of the crowd.

    The ``steps`` move the member to the state ``local`` if the conditions in ``holding`` hold at the time.  ``error``
    is set if an error reply ended the event.  ``others`` tells whether other members are in the state that the member
    has moved to.
    """

    steps: tuple[PartStep, ...] = ()
    holding: tuple[Condition, ...] = ()
    local: int
    others: bool | None = None
    error: tuple[str, ...] = ()


class Crowd:
    """The crowd abstraction for *part* of *system*, which has three copies of this part.

    *fewer* is the same system with two copies.  ``system`` is the abstract system, which simulates every system with
    two or more copies.  Raise :class:`NoCrowdError` if the abstraction cannot be applied.
    """

    def __init__(self, system: System, fewer: System, part: str) -> None:
        self._part = system.parts[part]
        self._table = SystemTable(system, mentioned=system.events)
        if self._table.data is not None:
            raise NoCrowdError("parts have data")
        if len(self._part.copies) != SHOWN:
            raise NoCrowdError(f"'{part}' belongs to a part that itself has several copies")
        _, one, other = self._part.copies
        self._one, self._other = one, other
        self._check(SystemTable(fewer, mentioned=fewer.events))
        kept = [copy for copy in system.copies if copy not in {one, other}]
        self._digits = {copy.digit: place for place, copy in enumerate(kept)}
        self._names = self._table.table_of(part).states
        self._parts: dict[str, Part] = {}
        named = [self._table.table_of(part).named(local) for local in range(len(self._names))]
        begun = [SOME if name == self._part.initial else NONE for name in named]
        self._bits = [self._add(f"some {part} is {name}", _COUNTER, at) for name, at in zip(named, begun, strict=True)]
        self._next = [self._add(f"some {part} will be {name}", _COUNTER) for name in named]
        self._never = self._add("what is impossible", _machine((NONE,), {FAILS: {NONE: Cannot(clause=NOBODY)}}))
        moves = (move for row in self._table.joint for path in row.paths for move in path.moves)
        emitted = (emits for move in moves if move.at == one.digit for emits in move.emitted())
        self._said = {emits: f"says {', '.join(emits)}" for emits in emitted}
        spoken = {
            name: {NONE: _moves_to(NONE, emits=tuple(output.removesuffix(one.suffix) for output in emits))}
            for emits, name in self._said.items()
        }
        self._voice = self._add(f"one {part}", _machine((NONE,), spoken))
        self.system = self._make_system(system)

    def condition(self, condition: Condition) -> Condition:
        """Translate *condition*.  Raise :class:`NoCrowdError` if it distinguishes copies of the crowd."""
        if not same(condition, condition, self._exchange):
            raise NoCrowdError(f"the property distinguishes copies of '{self._part.name}' other than the first")
        return self._translate(condition, None)

    def image(self, cone: Collection[int]) -> frozenset[int]:
        crowd = {self._one.digit, self._other.digit}.intersection(cone)
        added = {copy.digit for part in self._parts.values() for copy in part.copies}
        return frozenset({self._digits[digit] for digit in cone if digit in self._digits} | (added if crowd else set()))

    # -- check that further copies behave alike -----------------------------------------

    def _check(self, fewer: SystemTable) -> None:
        system, part, to = self._table.system, self._part, {self._one.digit: self._other.digit}
        if any(each.root == part.root and each is not part and len(each.copies) > 1 for each in system.parts.values()):
            raise NoCrowdError(f"another part that belongs with '{part.name}' also has several copies")
        exchanges = Symmetry(self._table).exchanges
        exchange = next((each for each in exchanges if to.items() <= each.digits.items()), None)
        if exchange is None:
            raise NoCrowdError(f"the behaviour of a '{part.name}' may depend on the order of the copies")
        self._exchange = exchange
        digits = {copy.name: copy.digit for copy in fewer.system.copies}
        less = {copy.digit: digits[copy.name] for copy in system.copies if copy is not self._other}
        heard = [(_map_digits(each.heard, less), fewer.system.parts[name].heard) for name, each in system.parts.items()]
        if any(one != two for one, two in heard):
            raise NoCrowdError("the conditions under which outputs are delivered differ between two and three copies")
        for row in fewer.joint:
            if not self._behaves_like(self._table.joint[self._table.row[row.joint.name]], row, less):
                event = row.joint.family
                raise NoCrowdError(f"event '{event}' does not treat every '{part.name}' like the first two copies")

    def _behaves_like(self, row: JointRow, fewer: JointRow, less: Mapping[int, int]) -> bool:
        """Check that *row* treats each of the crowd's two members as *fewer* treats its only member."""
        if _map_digits(row.joint.when, less) != fewer.joint.when or len(row.paths) != len(fewer.paths):
            return False
        shared = row.joint.of not in {self._one, self._other}

        def alike(path: JointPath, before: JointPath) -> bool:
            those = [_map_step(move.step, less) for move in path.moves if move.at != self._other.digit]
            crowd = [move for move in path.moves if move.at in {self._one.digit, self._other.digit}]
            return (
                those == [move.step for move in before.moves]
                and (path.reply, _map_digits(path.way.when, less)) == (before.reply, before.way.when)
                and all(commute(one, two) for one, two in combinations(crowd, 2) if one.at != two.at)
                and not (shared and any(move.emitted() for move in crowd))
            )

        return all(map(alike, row.paths, fewer.paths))

    # -- build the abstract system -----------------------------------------------------

    def _make_system(self, system: System) -> System:
        own = {self._one, self._other}
        parts = {
            name: replace(
                part,
                copies=tuple(replace(copy, digit=self._digits[copy.digit]) for copy in part.copies if copy not in own),
                heard=self._translate_optional(part.heard),
            )
            for name, part in system.parts.items()
        }
        joints = (row for row in self._table.joint if row.joint.of != self._other)
        return replace(
            system,
            parts=parts | self._parts,
            events={row.joint.name: self._translate_event(row) for row in joints},
            profiles={},
        )

    def _translate_event(self, row: JointRow) -> JointEvent:
        joint = row.joint
        if joint.of == self._one:
            ways = tuple(way for path in row.paths for way in self._ways_of_member(joint, path))
            return replace(joint, of=None, ways=ways, when=None)
        of = replace(joint.of, digit=self._digits[joint.of.digit]) if joint.of else None
        return replace(
            joint, of=of, when=self._translate_optional(joint.when), ways=tuple(self._way(path) for path in row.paths)
        )

    def _ways_of_member(self, joint: JointEvent, path: JointPath) -> Iterator[JointWay]:
        for local in range(len(self._names)):
            before = [self._translate(each, local) for each in (joint.when, path.way.when) if each is not None]
            when = All(of=(self._counter_condition(self._bits[local]), *before))
            for course in self._courses(path.moves, local, counted=True):
                reply = course.error or path.way.reply
                yield JointWay(name=path.way.name, when=when, steps=course.steps, reply=reply)

    def _courses(self, moves: Sequence[JointMove], local: int, *, counted: bool = False) -> Iterator[_Course]:
        going = [_Course(local=local)]
        for place, move in enumerate(moves):
            last = all(later.at != self._one.digit for later in moves[place + 1 :])
            further: list[_Course] = []
            for each in going:
                if each.error:
                    further.append(each)
                elif move.at != self._one.digit:
                    further.append(replace(each, steps=(*each.steps, self._translate_step(move.step, each.local))))
                elif moved := list(self._courses_after(move, each)):
                    for one in moved:
                        further += self._update_counters(each, one, last=last) if counted else [one]
                elif counted and each.steps:  # an error of another copy may end the event before this step
                    never = replace(self._step(self._bits[local], DRAIN), outcomes=frozenset({"impossible"}))
                    further.append(replace(each, steps=(*each.steps, never), error=("error",)))
            going = further
        yield from going

    def _update_counters(self, before: _Course, course: _Course, *, last: bool) -> Iterator[_Course]:
        if course.local == before.local:
            yield course
            return
        here = self._bits[course.local]
        left = (*course.steps, self._step(self._bits[before.local], DRAIN))
        for stay in (True, False) if before.others is None else (before.others,):
            moved = course if stay else replace(course, steps=left)
            # Later steps of the event may depend on the states of members or may end the event.
            for others in (None,) if last else (True, False):
                further = replace(moved, others=others)
                if others is not None:
                    there = self._counter_condition(here)
                    further = self._with_requirement(further, there if others else Not(of=there))
                yield replace(further, steps=(*further.steps, self._step(here, FILL)))

    def _courses_after(self, move: JointMove, course: _Course) -> Iterator[_Course]:
        if (when := self._translate_optional(move.step.when, course.local)) is not None:
            yield self._with_requirement(course, Not(of=when))
            course = self._with_requirement(course, when)
        heard = self._translate_optional(move.part.heard, course.local)
        for to, error, done, *_ in move.options(course.local):
            moved = unheard = replace(course, local=to, error=error)
            if done.emits:
                moved = moved if heard is None else self._with_requirement(moved, heard)
                moved = replace(moved, steps=(*moved.steps, self._step(self._voice, self._said[done.emits])))
            yield moved
            if done.emits and heard is not None:
                yield self._with_requirement(unheard, Not(of=heard))

    def _with_requirement(self, course: _Course, condition: Condition) -> _Course:
        impossible = self._step(self._never, FAILS, when=Not(of=condition))
        return replace(course, steps=(*course.steps, impossible), holding=(*course.holding, condition))

    def _way(self, path: JointPath) -> JointWay:
        steps: list[PartStep] = []
        moves = [move for move in path.moves if move.at != self._other.digit]
        for crowded, those in groupby(moves, lambda move: move.at == self._one.digit):
            if crowded:
                steps += self._apply_to_all(list(those))
            else:
                steps += [self._translate_step(move.step, None) for move in those]
        return replace(path.way, when=self._translate_optional(path.way.when), steps=tuple(steps))

    def _apply_to_all(self, moves: Sequence[JointMove]) -> Iterator[PartStep]:
        """Yield steps that apply *moves* to all members at once.

        All new counters are set before the old counters change.
        """
        for local, here in enumerate(map(self._counter_condition, self._bits)):
            courses = list(self._courses(moves, local))
            certain = len(courses) == 1 and not courses[0].holding
            led = []
            for course in courses:
                then = self._next[course.local]
                yield self._step(then, FILL if certain else MAY_FILL, when=All(of=(here, *course.holding)))
                led.append(All(of=(self._counter_condition(then), *course.holding)))
            if not certain:  # at least one course must be possible for the members in this state
                yield self._step(self._never, FAILS, when=All(of=(here, Not(of=Some(of=tuple(led))))))
        for bit, following in zip(self._bits, self._next, strict=True):
            yield self._step(bit, DRAIN)
            yield self._step(bit, FILL, when=self._counter_condition(following))
            yield self._step(following, DRAIN)

    def _translate_step(self, step: PartStep, local: int | None) -> PartStep:
        copy = replace(step.copy, digit=self._digits[step.copy.digit])
        return replace(step, copy=copy, when=self._translate_optional(step.when, local))

    # -- conditions and counters ---------------------------------------------------------

    def _translate_optional(self, condition: Condition | None, local: int | None = None) -> Condition | None:
        return None if condition is None else self._translate(condition, local)

    def _translate(self, condition: Condition, local: int | None) -> Condition:
        return mapped(condition, lambda atom: self._translate_atom(atom, local))

    def _translate_atom(self, atom: Atom, local: int | None) -> Condition:
        match atom:
            case Happens(event=event) | Replies(event=event) if self._table.system.events[event].of == self._other:
                return Some(of=())
            case At(copies=copies, states=states, every=every):
                found: list[Condition] = []
                if kept := tuple(self._digits[copy] for copy in copies if copy in self._digits):
                    found.append(replace(atom, copies=kept))
                if {self._one.digit, self._other.digit} <= set(copies):
                    named = zip(self._names, self._bits, strict=True)
                    those = [bit for name, bit in named if (name in states) != every]
                    some = [self._counter_condition(bit, before=atom.before) for bit in those]
                    found += [Not(of=each) for each in some] if every else [Some(of=tuple(some))]
                elif self._one.digit in copies:
                    if local is None:
                        raise NoCrowdError(f"the property mentions a copy of '{self._part.name}' other than the first")
                    found.append(All(of=()) if self._names[local] in states else Some(of=()))
                return All(of=tuple(found)) if every else Some(of=tuple(found))
            case _:
                return atom

    def _counter_condition(self, counter: Copy, *, before: bool = False) -> Condition:
        return At(part=counter.part, copies=(counter.digit,), states=frozenset({SOME}), before=before)

    def _step(self, copy: Copy, event: str, when: Condition | None = None) -> PartStep:
        return PartStep(copy=copy, event=event, when=when, goes_on=True)

    def _add(self, name: str, machine: Machine, initial: str = NONE) -> Copy:
        copy = Copy(part=name, index=self._one.index, digit=len(self._digits) + len(self._parts))
        self._parts[name] = Part(name=name, machine=machine, initial=initial, root=name, copies=(copy,))
        return copy


def _map_digits(condition: Condition | None, to: Mapping[int, int]) -> Condition | None:
    def of_atom(atom: Atom) -> Condition:
        if not isinstance(atom, At):
            return atom
        return replace(atom, copies=tuple(to[copy] for copy in atom.copies if copy in to))

    return None if condition is None else mapped(condition, of_atom)


def _map_step(step: PartStep, to: Mapping[int, int]) -> PartStep:
    return replace(step, copy=replace(step.copy, digit=to[step.copy.digit]), when=_map_digits(step.when, to))


def _moves_to(*to: str, emits: tuple[str, ...] = ()) -> Moves:
    return Moves(outcomes=tuple(Outcome(name=each, to=each, emits=emits) for each in to), clause=NOBODY)


def _machine(states: Sequence[str], events: Mapping[str, Mapping[str, Cell]]) -> Machine:
    return Machine(
        name="counter",
        title="Whether some copy is in a state",
        about="Whether some copy is in a state.",
        source="none",
        initial=states[0],
        entity="counter",
        states={name: State(name=name, about=name, shows=name) for name in states},
        events={name: Event(name=name, kind="hidden", about=name, cells=cells) for name, cells in events.items()},
        clauses={},
    )


_COUNTER: Final = _machine(
    (NONE, SOME),
    {
        FILL: {NONE: _moves_to(SOME), SOME: _moves_to(SOME)},
        MAY_FILL: {NONE: _moves_to(SOME, NONE), SOME: _moves_to(SOME)},
        DRAIN: {NONE: _moves_to(NONE), SOME: _moves_to(NONE)},
    },
)
