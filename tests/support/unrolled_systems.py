"""A second opinion on systems whose parts have data: the same system without data.

Each state of a part is written once for all values (:mod:`naive_data`), each joint event once for all arguments, and
a comparison is the list of the values for which it holds.  Other second opinions then interpret the result.  This
shares no code with :mod:`fsm.machine.product.composition`, :mod:`fsm.machine.guards` and :mod:`fsm.machine.terms`.
"""

from __future__ import annotations

from dataclasses import replace
from itertools import product
from operator import add, eq, ge, gt, le, lt, ne, sub
from typing import TYPE_CHECKING, Any, TypeAlias

from naive_data import Unrolled, combinations, written
from naive_systems import NaiveJudge
from random_data_machines import random_data_machine
from random_systems import random_text, system_of

from fsm.errors import InputError
from fsm.machine.conditions import All, At, Compare, Condition, Some, mapped
from fsm.trace import Observation, shown_text

if TYPE_CHECKING:
    import random
    from collections.abc import Callable, Iterable, Iterator, Mapping

    from brute_force.steps import Configuration
    from naive_systems import Seen

    from fsm.machine import Machine
    from fsm.machine.product.system import JointEvent, JointWay, PartStep, System

Term: TypeAlias = Any
"""A term of :mod:`fsm.machine.terms`, of which only the fields are read."""

OPERATIONS: dict[str, Callable[[Any, Any], Any]] = {
    "==": eq,
    "!=": ne,
    "<": lt,
    "<=": le,
    ">": gt,
    ">=": ge,
    "+": add,
    "-": sub,
    "min": min,
    "max": max,
}


def calculated(term: Term, values: Mapping[str, int]) -> int:
    if hasattr(term, "value"):
        return int(term.value)
    if hasattr(term, "name"):
        return values[term.name]
    return int(OPERATIONS[term.operator](calculated(term.left, values), calculated(term.right, values)))


class UnrolledSystem:
    """The system ``plain`` without data."""

    def __init__(self, system: System) -> None:
        self.system = system
        self.parts = {name: Unrolled(part.machine) for name, part in system.parts.items()}
        parts = {}
        for name, part in system.parts.items():
            machine = part.machine
            begun = written(part.initial, {each: of.written(of.initial) for each, of in machine.data.items()})
            heard = self.condition(part.heard, {}) if part.heard else None
            parts[name] = replace(part, machine=self.parts[name].plain, initial=begun, heard=heard)
        joints = [
            self._joint(joint, given) for joint in system.events.values() for given in combinations(joint.arguments)
        ]
        self.plain = replace(system, parts=parts, events={each.name: each for each in joints})

    def _joint(self, joint: JointEvent, given: Mapping[str, Any]) -> JointEvent:
        codes = {name: of.encoded(given[name]) for name, of in joint.arguments.items()}

        def told(condition: Condition | None) -> Condition | None:
            return self.condition(condition, codes) if condition else None

        def step(of: PartStep) -> PartStep:
            event = self.system.parts[of.copy.part].machine.events.get(of.event)
            own = {name: given[name] for name in event.arguments} if event else {}
            return replace(of, event=written(of.event, own) if event else "", when=told(of.when))

        def way(of: JointWay) -> JointWay:
            return replace(of, when=told(of.when), steps=tuple(map(step, of.steps)))

        name, ways = written(joint.name, given), tuple(map(way, joint.ways))
        return replace(joint, name=name, when=told(joint.when), ways=ways, arguments={})

    def condition(self, condition: Condition, given: Mapping[str, int]) -> Condition:
        return mapped(condition, lambda atom: self._atom(atom, given))

    def _atom(self, atom: Condition, given: Mapping[str, int]) -> Condition:
        if isinstance(atom, At):
            states = self.parts[atom.part].values
            return replace(atom, states=frozenset(each for each in states if each.partition("(")[0] in atom.states))
        assert isinstance(atom, Compare)
        copies = [copy for copy in self.system.copies if copy.digit in atom.copies]
        found = []
        texts = [dict.fromkeys(written("", each) for each in self.parts[of.part].values.values()) for of in copies]
        for combination in product(*texts):
            values = dict(given)
            there = []
            for copy, text in zip(copies, combination, strict=True):
                data = self.system.parts[copy.part].machine.data
                same = {state: of for state, of in self.parts[copy.part].values.items() if written("", of) == text}
                values |= {
                    f"{copy.name}.{name}": data[name].encoded(of) for name, of in next(iter(same.values())).items()
                }
                there.append(At(part=copy.part, copies=(copy.digit,), states=frozenset(same)))
            if OPERATIONS[atom.comparison](calculated(atom.left, values), calculated(atom.right, values)):
                found.append(All(of=tuple(there)))
        return Some(of=tuple(found))


def random_machine_of_part(chance: random.Random) -> Machine:
    """Return a random machine whose calls that take time have no arguments."""
    while True:
        machine = random_data_machine(chance)
        if not any(event.ends and event.arguments for event in machine.events.values()):
            return machine


def random_system_with_data(chance: random.Random) -> System | None:
    """Return a random system of parts with data, or ``None`` if what chance wrote makes no sense."""
    text, machines = random_text(chance, made=random_machine_of_part)
    lines = [_with_arguments(chance, line, machines) for line in text.split("\n")]
    try:
        system = system_of("\n".join(lines), machines)
    except InputError:
        return None
    return system if any(part.machine.data for part in system.parts.values()) else None


def _with_arguments(chance: random.Random, line: str, machines: Mapping[str, Machine]) -> str:
    """Give a way a condition on an argument of one of its steps."""
    known = {
        (name, limit)
        for part, machine in machines.items()
        for event in machine.events.values()
        for name, limit in {"a": "a < 2", "b": "b == 1", "c": "not c"}.items()
        if name in event.arguments and f"{part}.{event.name}" in line
    }
    if not line.startswith("ways.") or "] }" not in line[-3:] or not known or chance.random() < 0.5:
        return line
    return f'{line.removesuffix(" }")}, when = "{chance.choice(sorted(known))[1]}" }}'


class DataJudge(NaiveJudge):
    """Judges traces of the system without data.  ``shown`` also has the variables that observers see."""

    def __init__(self, unrolled: UnrolledSystem) -> None:
        super().__init__(unrolled.plain)
        self._unrolled = unrolled

    def shown(self, here: Configuration) -> dict[str, str]:
        found = super().shown(here)
        for copy, (state, _) in zip(self.system.copies, here, strict=True):
            data = self._unrolled.system.parts[copy.part].machine.data
            values = self._unrolled.parts[copy.part].values[state]
            found |= {f"{copy.name}.{name}": str(values[name]) for name, each in data.items() if each.shown}
        return found

    def specified(self, trace: Iterable[Seen]) -> Iterator[Seen]:
        """Yield *trace* up to the first line that may be unspecified, after which values could be any values."""
        belief = self.start()
        for seen in trace:
            yield seen
            if any(self.unspecified(here, seen.event) for here in belief):
                return
            belief = self.after(belief, seen)

    def told(self, seen: Seen, entity: str) -> Observation:
        """Return *seen* as an observation of the system with data."""
        name, _, given = seen.event.removesuffix(")").partition("(")
        pairs = (each.split("=") for each in given.split(", ") if each)
        data = self._unrolled.system.data
        return Observation(
            entity=entity,
            event=name,
            reply=seen.reply,
            shows=shown_text({part: shows for part, shows in seen.shows.items() if part not in data}),
            emits=seen.emits,
            args={each: value == "True" if value in {"True", "False"} else int(value) for each, value in pairs},
            fields={each: int(value) for each, value in seen.shows.items() if each in data},
        )
