"""What of a system a claim is decided on: its cone, as :mod:`fsm.product` has it, and the outputs of parts."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from fsm.checker.instants import StepCache
from fsm.checker.refinement import Listener, believing
from fsm.machine.conditions import All, Emits, EmitsOnly, Happens, Not, Replies, Some, StepEmits
from fsm.machine.graph import explore
from fsm.machine.table import tabulate
from fsm.product import SystemTable, cone, read
from fsm.property.claims import Always, Counts, Follows, Idempotent, LeadsTo, Never, Reachable

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from fsm.checker.instants import InstantStep
    from fsm.machine import Machine
    from fsm.machine.conditions import Condition
    from fsm.product.system import System
    from fsm.property.claims import Claim


@dataclass(frozen=True, slots=True, kw_only=True)
class Cones:
    """The cones of *system* that were looked at, each with its steps, which are made once."""

    system: System
    _known: dict[tuple[frozenset[int], frozenset[str]], StepCache] = field(default_factory=dict)

    def stepping(self, claim: Claim) -> StepCache:
        """The steps of what *claim* is about, and of all that has a say in it."""
        found, aside = self._cone(claim)
        if (found, aside) not in self._known:
            self._known[found, aside] = StepCache(SystemTable(self.system, cone=found, asked=aside))
        return self._known[found, aside]

    def largest(self, claims: Iterable[Claim]) -> frozenset[int]:
        """The largest of the cones that *claims* are decided on, the first of several; all if there is no claim."""
        every = frozenset(range(len(self.system.copies)))
        return max((self._cone(claim)[0] for claim in claims), key=len, default=every)

    def _cone(self, claim: Claim) -> tuple[frozenset[int], frozenset[str]]:
        """The copies that have a say in *claim*, and the events that it asks for though they touch none of them."""
        conditions = list(_conditions(claim))
        asked = {each for condition in conditions for each in _events(condition)}
        digits = {digit for condition in conditions for digit in read(condition)}
        outputs = {digit for condition in conditions for digit in self._emitters(condition)}
        if isinstance(claim, Idempotent):
            asked.add(claim.event)
            steps = [step for way in self.system.events[claim.event].ways for step in way.steps]
            digits |= {step.copy.digit for step in steps}
            outputs |= {step.copy.digit for step in steps}
        if isinstance(claim, LeadsTo):
            asked |= {each.event for each in claim.fair}
        if isinstance(claim, Follows):
            outputs |= set(self._heard(claim))
        found = cone(self.system, digits, asked=asked, outputs=outputs)
        # Events that touch nothing in the cone are there for those only who ask for them.
        return found, frozenset(name for name in asked if not self._touches(name, found))

    def _touches(self, event: str, digits: frozenset[int]) -> bool:
        return any(step.copy.digit in digits for way in self.system.events[event].ways for step in way.steps)

    def counts(self) -> Counts:
        """The size of the largest cone that was looked at."""
        if not self._known:
            return Counts(states=0, transitions=0, depth=0)
        largest = max(self._known, key=lambda each: len(each[0]))
        graph = explore(self._known[largest].table)
        return Counts(states=len(graph.depth), transitions=len(graph.transitions), depth=max(graph.depth.values()))

    def _emitters(self, condition: Condition) -> Iterator[int]:
        """The copies that may emit what *condition* speaks of."""
        for output in _outputs(condition):
            for copy in self.system.copies:
                bare = output.removesuffix(copy.suffix) if copy.suffix else output
                if (bare != output or not copy.suffix) and bare in _emitted(self.system.parts[copy.part].machine):
                    yield copy.digit

    def _heard(self, claim: Follows) -> Iterator[int]:
        """Of the copies that *claim* is about, those that tell the other machine something."""
        known = {name for event in claim.other.events.values() for name in (event.name, event.rpc)}
        for digit in claim.of:
            machine = self.system.parts[self.system.copies[digit].part].machine
            signals = {event.name for event in machine.events.values() if event.kind == "signal"}
            if known & (signals | set(_emitted(machine))):
                yield digit


def families(system: System, claim: Claim) -> frozenset[str]:
    """The families of joint events of *system* that *claim* speaks of."""
    names = {each for condition in _conditions(claim) for each in _events(condition)}
    return frozenset(system.events[name].family for name in names)


def _emitted(machine: Machine) -> frozenset[str]:
    return frozenset(
        output
        for event in machine.events.values()
        for row in (event.cells, event.ends)
        for cell in row.values()
        for way in getattr(cell, "outcomes", ())
        for output in way.emits
    )


def _conditions(claim: Claim) -> Iterator[Condition]:
    match claim:
        case Idempotent(once=once):
            said = [once]
        case Always(conditions=conditions, when=when):
            said = [*conditions, when]
        case Never(sequences=sequences, until=until):
            said = [*(each for sequence in sequences for each in sequence), until]
        case Reachable(sequences=sequences):
            said = [each for sequence in sequences for each in sequence]
        case LeadsTo(source=source, target=target):
            said = [source, target]
        case _:
            said = []
    yield from (each.means for each in said if each is not None)


def _parts(condition: Condition) -> Iterator[Condition]:
    match condition:
        case Not(of=inner):
            yield from _parts(inner)
        case All(of=parts) | Some(of=parts):
            for part in parts:
                yield from _parts(part)
        case _:
            yield condition


def _events(condition: Condition) -> set[str]:
    return {part.event for part in _parts(condition) if isinstance(part, Happens | Replies)}


def _outputs(condition: Condition) -> set[str]:
    found: set[str] = set()
    for part in _parts(condition):
        match part:
            case Emits(output=output) | StepEmits(output=output):
                found.add(output)
            case EmitsOnly(outputs=outputs):
                found |= set(outputs)
    return found - {""}


@dataclass(frozen=True, slots=True, kw_only=True)
class JointListener(Listener):
    """The other machine, which hears the signals and the outputs of some copies, as they do them."""

    of: frozenset[int]
    known: frozenset[str]
    suffixes: dict[int, str]

    def heard(self, step: InstantStep) -> tuple[str, ...]:
        """What the copies tell the other machine in *step*, in order; it may not know all of it."""
        found: list[str] = []
        for done in step.way.done:
            if done.digit in self.of:
                if done.event in self.known:
                    found.append(done.event)
                found += [output.removesuffix(self.suffixes[done.digit]) for output in done.emits]
        return tuple(found)


def joint_listener(system: System, claim: Follows, other: Machine) -> JointListener:
    """What *other* makes of what the copies do that *claim* is about."""
    table = tabulate(other)
    return JointListener(
        believing=believing(table, table, whole=True),
        shared={},
        of=claim.of,
        known=frozenset(event.name for event in other.events.values() if event.kind == "signal"),
        suffixes={copy.digit: copy.suffix for copy in system.copies},
    )
