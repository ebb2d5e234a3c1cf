"""The cone of influence (:mod:`fsm.machine.product`): the part of a system that is enough to decide a claim."""

from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Final

from fsm.checker.alike import Alike
from fsm.checker.breadth_first import Limit
from fsm.checker.instants import InstantStep, StepCache
from fsm.checker.refinement import OutputListener
from fsm.checker.safety import needed
from fsm.machine import Machine, conditions
from fsm.machine.conditions import All, Atom, Condition, Emits, Happens, Not, Replies, Some, atoms, left_at
from fsm.machine.product import SystemTable, read
from fsm.machine.product.influence import Influence
from fsm.machine.product.system import System
from fsm.machine.property.claims import Always, Claim, Counts, Follows, Idempotent, LeadsTo, Never, conditions_of
from fsm.machine.table import Table, tabulate

NOTHING: Final = Emits(output="")


@dataclass(frozen=True, kw_only=True)
class Cones:
    """The cones of *system* on which claims were decided, with a cache of the steps of each.

    *tables* maps the names of parts to their tables if these have already been built.  If *alike* is given, cones with
    the same behaviour share conclusions.
    """

    system: System
    tables: Mapping[str, Table] | None = None
    alike: Alike | None = None
    _known: dict[tuple[frozenset[int], frozenset[str]], StepCache] = field(default_factory=dict)
    _influence: Influence = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "_influence", Influence(self.system, self.tables))

    def stepping(self, claim: Claim, besides: Collection[int] = (), events: Collection[str] = ()) -> StepCache:
        """Return the steps of the cone of *claim*, enlarged by the copies in *besides*.

        Steps of the joint events in *events* are included even if they touch no copy in the cone.
        """
        found, untouched = self._cone(claim, besides)
        untouched = untouched.union(events)
        if (found, untouched) not in self._known:
            self._known[found, untouched] = self._steps(found, untouched)
        return self._known[found, untouched]

    @cached_property
    def whole(self) -> StepCache:
        """The steps of the whole system: all copies and all joint events."""
        return self._steps(None, self.system.events)

    def _steps(self, cone: Collection[int] | None, mentioned: Collection[str]) -> StepCache:
        table = SystemTable(self.system, cone=cone, mentioned=mentioned, tables=self._influence.tables)
        return StepCache(table, concluded=self.alike.of(table) if self.alike else None)

    def largest(self, claims: Iterable[Claim]) -> frozenset[int]:
        """Return the first of the largest cones of *claims*, or all copies if there are no claims."""
        every = frozenset(range(len(self.system.copies)))
        return max((self._cone(claim)[0] for claim in claims), key=len, default=every)

    def _cone(self, claim: Claim, besides: Collection[int] = ()) -> tuple[frozenset[int], frozenset[str]]:
        """Return the copies that affect *claim* or *besides*, and the mentioned events that touch none of them."""
        parts = [each.means for each in conditions_of(claim)]
        mentioned = {name for part in parts for name in events(part)}
        digits = {*besides, *(digit for part in parts for digit in read(part))}
        outputs = {digit for part in parts for digit in self._emitters(part)} | self._silent(claim)
        if isinstance(claim, Idempotent):
            mentioned.add(claim.event)
            digits |= self._copies(claim.event)
            outputs |= self._copies(claim.event)
        if isinstance(claim, LeadsTo):  # a step of any copy may make the source hold again
            mentioned.update(self.system.events)
            digits.update(range(len(self.system.copies)))
        if isinstance(claim, Follows):
            outputs |= set(self._observed(claim))
        found = self._influence.cone(digits, mentioned, outputs)
        # The cone's table includes events that touch no copy in the cone only if the claim mentions them.
        return found, frozenset(name for name in mentioned if not self._copies(name) & found)

    def _copies(self, event: str) -> set[int]:
        return {step.copy.digit for way in self.system.events[event].ways for step in way.steps}

    @property
    def decided(self) -> bool:
        return bool(self._known)

    def size(self, limit: Limit) -> Counts | None:
        """Return the size of the largest cone on which a claim was decided, or ``None`` if there is no such cone."""
        largest = max(self._known, key=lambda each: len(each[0]), default=None)
        return self._known[largest].size(limit) if largest else None

    def _emitters(self, condition: Condition) -> Iterator[int]:
        for output in _outputs(condition):
            for copy in self.system.copies:
                bare = output.removesuffix(copy.suffix) if copy.suffix else output
                if (bare != output or not copy.suffix) and bare in self.system.parts[copy.part].machine.outputs():
                    yield copy.digit

    def _silent(self, claim: Claim) -> set[int]:
        """Return the copies that may emit in a step that *claim* tests for emitting nothing."""
        found: set[int] = set()
        for condition in _at_once(claim):
            mentioned = events(condition)
            asking = {event for event in ("", *mentioned) if NOTHING in _left(condition, event)}
            found = found.union(*map(self._copies, self.system.events if "" in asking else asking))
        return {each for each in found if self.system.parts[self.system.copies[each].part].machine.outputs()}

    def _observed(self, claim: Follows) -> Iterator[int]:
        """Yield the copies in *claim* that have outputs or signals known to the other machine."""
        known = claim.other.words().keys()
        for digit in claim.of:
            machine = self.system.parts[self.system.copies[digit].part].machine
            signals = (event.name for event in machine.events.values() if event.kind == "signal")
            if not known.isdisjoint((*signals, *machine.outputs())):
                yield digit


def families(system: System, claim: Claim) -> frozenset[str]:
    """Return the families of the joint events of *system* that *claim* mentions."""
    names = {each for condition in conditions_of(claim) for each in events(condition.means)}
    return frozenset(system.events[name].family for name in names)


def events(condition: Condition) -> set[str]:
    """Return the joint events that *condition* mentions."""
    return {part.event for part in atoms(condition) if isinstance(part, Happens | Replies)}


def _at_once(claim: Claim) -> list[Condition]:
    """Return the single-instant conditions that decide whether *claim* holds and whether it is vacuous."""
    if isinstance(claim, Always):
        held = All(of=tuple(each.means for each in claim.conditions))
        return [Some(of=(Not(of=claim.when.means), held)), claim.when.means] if claim.when else [held]
    parts = [each.means for each in needed(claim)] if isinstance(claim, Never) else []
    return [*parts, *(each.means for each in conditions_of(claim))]


def _left(condition: Condition, event: str) -> list[Atom]:
    left = left_at(condition, event)
    return [] if isinstance(left, bool) else list(atoms(left))


def _outputs(condition: Condition) -> set[str]:
    found: set[str] = set()
    for part in atoms(condition):
        match part:
            case Emits(output=output) | conditions.StepEmits(output=output):
                found.add(output)
            case conditions.EmitsOnly(outputs=outputs, among=among):
                found |= among or set(outputs)
    return found - {""}


class JointListener(OutputListener):
    """An :class:`OutputListener` for systems.  It observes the signals and outputs of the copies in *claim*."""

    def __init__(self, system: System, claim: Follows, other: Machine) -> None:
        table = tabulate(other)
        super().__init__(table, table)
        self._of = claim.of
        self._known = {event.name for event in other.events.values() if event.kind == "signal"}
        self._suffixes = {copy.digit: copy.suffix for copy in system.copies}

    def observed(self, step: InstantStep) -> tuple[str, ...]:
        """Return the signals and outputs of these copies in *step*, in order, even those the other machine lacks."""
        found: list[str] = []
        for done in step.way.done:
            if done.digit in self._of:
                if done.event in self._known:
                    found.append(done.event)
                found += [output.removesuffix(self._suffixes[done.digit]) for output in done.emits]
        return tuple(found)
