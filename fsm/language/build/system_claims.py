"""Claims of a system: of the copies of parts that are meant, and what belongs to them."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from fsm.language.build.claims import Claiming
from fsm.language.build.definitions import Definitions
from fsm.language.build.grammar import ConditionError
from fsm.language.build.machine_conditions import outputs
from fsm.language.build.problems import Problems
from fsm.language.build.system_conditions import Scope, scope, sequence
from fsm.language.property_file import Stated, WrittenProperty
from fsm.machine import Machine
from fsm.machine.conditions import Sequence
from fsm.product.system import Copy, System
from fsm.property.claims import Claim, Fair, Follows, Idempotent, Reachable


def of_system(
    problems: Problems[Stated],
    system: System,
    find: Callable[[str], Machine | System],
    name: str,
    written: WrittenProperty,
    define: Definitions,
    number: int = 0,
) -> Claiming:
    """What makes the claim of the property *name* of *system*, with the names of the file.

    Where it is meant for each copy of a part, it is made of the one of that *number*.
    """
    part = written.for_
    if part is not None and part not in system.parts:
        problems.unknown("FSM303", "unknown part", part, system.parts, "property", name, "for")
    copy = system.parts[part].copies[number] if part in system.parts and part else None
    within = scope(system, copy, define)
    return _OfSystem(
        problems=problems, system=system, copy=copy, scope=within, find=find, name=name, written=written, define=define
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class _OfSystem(Claiming):
    """Of a system, or of one *copy* in it."""

    system: System
    copy: Copy | None
    scope: Scope

    def makers(self) -> Mapping[str, Callable[[], Claim]]:
        return {
            "idempotent": self._idempotent,
            "always": self.always,
            "never": self.never,
            "reachable": self._reachable,
            "leads-to": self.leads_to,
            "follows": self._follows,
            "refines": lambda: self._only_machines("refines"),
            "matches-diagram": lambda: self._only_machines("matches-diagram"),
        }

    def sequence(self, text: str) -> Sequence:
        """The conditions in *text*."""
        return sequence(text, self.scope)

    def fair(self, text: str, at: str, *, strongly: bool) -> tuple[Fair, ...]:
        """``stop`` or ``stop/stopped``: those of every copy, whichever the claim is about."""
        name, _, outcome = text.partition("/")
        events = [joint for joint in self.system.events.values() if name in {joint.family, joint.rpc}]
        if not events:
            self.problems.unknown("FSM303", "unknown event", name, self.scope.events, "property", self.name, at)
        known = {way.name for joint in events for way in joint.ways}
        if outcome and events and outcome not in known:
            self.problems.unknown("FSM303", "unknown way", outcome, sorted(known), "property", self.name, at)
        return tuple(Fair(event=joint.name, outcome=outcome, strongly=strongly) for joint in events)

    def _idempotent(self) -> Idempotent:
        event = self._event(str(self.written.idempotent), "idempotent")
        if self.system.events[event].kind != "call":
            what = f"{self.system.events[event].kind} '{event}' is no call"
            self.say("FSM303", what, "only calls are repeated", "idempotent")
        return Idempotent(event=event, once=self.optional(self.written.once, "once"))

    def _reachable(self) -> Reachable:
        if self.written.from_each:
            self.say(
                "FSM302", "'from-each' says nothing of a system", "say 'PART was STATE and …' instead", "from-each"
            )
        return Reachable(sequences=self.sequences(self.written.reachable, "reachable"))

    def _follows(self) -> Follows:
        emitted = [each for part in self.system.parts.values() for each in outputs(part.machine)]
        of = frozenset(copy.digit for copies in self.scope.meant.values() for copy in copies)
        return Follows(other=self.followed(self.system.name, emitted), of=of)

    def _event(self, name: str, at: str) -> str:
        """The one joint event that *name* means."""
        names = self.scope.events.get(name, ())
        if len(names) == 1:
            return names[0]
        if not names:
            self.problems.unknown("FSM303", "unknown event", name, self.scope.events, "property", self.name, at)
        else:
            self.say("FSM303", f"'{name}' means {len(names)} events", "say for which part: for = …", at)
        raise ConditionError(name, "")

    def _only_machines(self, kind: str) -> Claim:
        self.say("FSM302", f"'{kind}' is claimed of machines only", "claim it of the part's machine", kind)
        raise ConditionError(kind, "")
