"""Systems of machines that take steps together.

Each part of a system is a machine, of which there may be several copies.  A joint event is one step of the whole
system.  It happens in one of its *ways*, and a way is an ordered list of steps of parts.
:mod:`fsm.language.build.systems` builds systems and checks what the classes here take for granted.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import cache, partial
from typing import Final, TypeAlias

from msgspec import structs

from fsm.errors import InputError
from fsm.machine import Cell, Clause, Kind, Machine
from fsm.machine.conditions import All, At, Compare, Condition, Not, Some, compares_data, comparisons_over
from fsm.machine.guards import has_data
from fsm.machine.table import Done, Table, Way
from fsm.machine.terms import Constant, DataUpdate, Read, Term, Variable, substituted
from fsm.machine.versions import conflict, meant

BEGINNING: Final = "the beginning"  # name of the system state in which every copy is in its initial state


@dataclass(frozen=True, slots=True, kw_only=True)
class Copy:
    """A copy of a part.  ``index`` identifies it within the part, and ``digit`` is its number within the system.

    ``name`` is the name of the part followed by ``suffix``, which is empty if the part has only one copy.

    >>> Copy(part="door", index=(1, 2), digit=0).suffix
    '.1.2'
    """

    part: str
    index: tuple[int, ...]
    digit: int
    suffix: str = field(init=False, repr=False, compare=False)
    name: str = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "suffix", "".join(f".{each}" for each in self.index))
        object.__setattr__(self, "name", f"{self.part}{self.suffix}")


@dataclass(frozen=True, slots=True, kw_only=True)
class Part:
    """A part of a system, which consists of ``copies`` of a machine.

    The part ``root`` ultimately owns these copies.  Outcomes in ``without`` do not happen in this part, and its
    outputs are delivered only while ``heard`` holds.
    """

    name: str
    machine: Machine
    initial: str
    root: str
    copies: tuple[Copy, ...]
    about: str = ""
    without: frozenset[str] = frozenset()
    heard: Condition | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class PartStep:
    """A step of one ``copy`` of a part: an event, the end of a call or, without ``event``, a reset.

    If ``outcomes`` is not empty, the step can only have these outcomes.  The step is skipped unless ``when`` holds.
    An error reply ends the joint event, unless ``goes_on`` is true.
    """

    copy: Copy
    event: str = ""
    ends: bool = False
    outcomes: frozenset[str] = frozenset()
    when: Condition | None = None
    goes_on: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class JointWay:
    """A way in which a joint event may happen if all of its steps are enabled."""

    name: str
    steps: tuple[PartStep, ...]
    about: str = ""
    when: Condition | None = None
    reply: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class JointEvent:
    """An event in which parts take steps together.

    If each copy of a part has its own version of the event, ``of`` is the copy that this version belongs to, and all
    versions have the same ``family``.  The event has the ``arguments`` of its steps.
    """

    name: str
    family: str
    kind: Kind
    about: str
    clause: Clause
    ways: tuple[JointWay, ...]
    of: Copy | None = None
    rpc: str = ""
    when: Condition | None = None
    arguments: Mapping[str, Variable] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Variant:
    """A profile of a system, with the joint ``events`` that it changes."""

    name: str
    about: str
    events: Mapping[str, JointEvent]
    since: str = ""
    until: str = ""
    line: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class System:
    """A system of parts, with the joint events that move the parts.

    ``profile`` is the name of the applied profile, if any.
    """

    name: str
    title: str
    about: str
    source: str
    parts: Mapping[str, Part]
    events: Mapping[str, JointEvent]
    clauses: Mapping[str, Clause]
    profiles: Mapping[str, Variant] = field(default_factory=dict)
    path: str = ""
    profile: str = ""

    def under(self, profile: str | None) -> System:
        """Return the system with *profile* applied to it and to each part that has such a profile.

        See :meth:`Machine.under`.

        >>> from fsm.language.library import load_system
        >>> system = load_system("examples/models/systems/house.toml")
        >>> system.under(None) is system, system.under("deaf") is system
        (True, False)
        """
        if not profile or profile == self.profile:
            return self
        names = meant(profile, self.profiles).values()
        if not all(names):
            known = ", ".join(self.profiles) or "none"
            raise ValueError(f"system '{self.name}' has no profile {profile!r}; profiles: {known}")
        changed: dict[str, tuple[Variant, JointEvent]] = {}
        problems = {}
        for variant in map(self.profiles.__getitem__, names):
            for name, joint in variant.events.items():
                other, before = changed.setdefault(name, (variant, joint))
                if before != joint:
                    of, places = f"'{joint.family}'", [(each.name, each.line) for each in (variant, other)]
                    problems[joint.family] = conflict(self.path, of, *places)
        if problems:
            raise InputError(problems.values())
        return self._with_parts_under(profile, {**self.events, **{name: joint for name, (_, joint) in changed.items()}})

    def partly_under(self, profile: str | None) -> System:
        """Like :meth:`under`, but accept a *profile* that only parts of the system have.

        >>> from fsm.language.library import load_system
        >>> load_system("examples/models/systems/house.toml").partly_under("jammed").parts["door"].machine.profile
        'jammed'
        """
        if not profile or all(meant(profile, self.profiles).values()):
            return self.under(profile)
        return self._with_parts_under(profile, self.events)

    def _with_parts_under(self, profile: str, events: Mapping[str, JointEvent]) -> System:
        parts = {name: replace(part, machine=part.machine.partly_under(profile)) for name, part in self.parts.items()}
        return replace(self, parts=parts, events=events, profiles={}, profile=profile)

    @property
    def copies(self) -> tuple[Copy, ...]:
        return tuple(copy for part in self.parts.values() for copy in part.copies)

    @property
    def data(self) -> dict[str, Variable]:
        """The variables of all copies, such as ``till.1.cash``."""
        found = {}
        for copy in self.copies:
            for name, variable in self.parts[copy.part].machine.data.items():
                found[f"{copy.name}.{name}"] = replace(variable, name=f"{copy.name}.{name}")
        return found

    def shows(self, states: Mapping[str, str]) -> str:
        """Return the value that the system shows when it is treated as one machine.

        Copies that are missing in *states* are in their initial state.

        >>> from fsm.language.library import load_system
        >>> load_system("examples/models/systems/house.toml").shows({"alarm": "armed"})
        'alarm armed'
        """
        parts = self.parts.values()
        now = ((copy.name, states.get(copy.name), part.initial) for part in parts for copy in part.copies)
        return ", ".join(f"{name} {state}" for name, state, initial in now if state not in {None, initial}) or BEGINNING

    def text(self, condition: Condition, arguments: Mapping[str, Variable] = {}) -> str:
        """Return *condition* in words that conditions on systems have.

        >>> from fsm.language.library import load_system
        >>> system = load_system("examples/models/systems/house.toml")
        >>> system.text(system.events["arm"].when)
        'no door is open'
        """
        match condition:
            case Not(of=At(copies=copies, every=every) as at) if len(copies) == 1 or not every:
                return self._at_text(at, negated=True)
            case Not(of=inner):
                return f"not ({self.text(inner, arguments)})"
            case All(of=parts) | Some(of=parts):
                word = " and " if isinstance(condition, All) else " or "
                texts = [self.text(each, arguments) for each in parts]
                return word.join(
                    f"({text})" if isinstance(each, Some) else text for each, text in zip(parts, texts, strict=True)
                )
            case At():
                return self._at_text(condition)
            case Compare():
                return condition.text({**self.data, **arguments})
            case _:
                return str(condition)

    def _at_text(self, at: At, *, negated: bool = False) -> str:
        several, known = len(at.copies) > 1, self.parts[at.part].machine.states
        others = [state for state in known if state not in at.states]
        inverse = len(others) == 1 < len(at.states)
        named = " or ".join(others if inverse else [state for state in known if state in at.states])
        quantity = ("no " if negated else "every " if at.every else "some ") * several
        return f"{quantity}{at.part} is {'not ' * (inverse != (negated and not several))}{named}"

    def related_copies(self, part: str, copy: Copy | None) -> tuple[Copy, ...]:
        """Return the copies of *part* that own *copy*, are owned by it, or have an owner in common with it.

        If *copy* is ``None`` or the parts are unrelated, return all copies of *part*.
        """
        copies = self.parts[part].copies
        if copy is None or self.parts[copy.part].root != self.parts[part].root:
            return copies
        depth = len(copy.index)
        return tuple(each for each in copies if each.index[:depth] == copy.index[: len(each.index)])


Locals: TypeAlias = tuple[int, ...]
"""The state of each copy, indexed by digit.  Copies outside the cone stay in their initial states."""

Test: TypeAlias = "Callable[[Locals], bool | Condition]"
"""Tells whether a condition holds, or returns the part of it that depends on data."""


Option: TypeAlias = "tuple[int, tuple[str, ...], Done, Done, Condition | None, tuple[DataUpdate, ...]]"
"""A possible result of a move: the new state, the errors that end the event, the step with and without outputs, and
the condition that the data must satisfy and the updates that change them.
"""


class JointMove:
    """A step of a part as one move of a joint event.  In a *call*, an error reply may end the joint event.

    ``when`` tells whether the step is taken, given the states before it, and ``heard`` tells whether its outputs are
    delivered.  ``on_data`` is true if any of this, or its result, depends on data.  ``options`` returns the possible
    results in a local state, and ``blocked`` returns the results that the table leaves out.
    """

    def __init__(
        self, step: PartStep, table: Table, part: Part, test: Callable[[Condition | None], Test], *, call: bool
    ) -> None:
        row = table.row[step.event] if step.event else -1
        self.step = step
        self.part = part
        self.at = step.copy.digit
        self.when = test(step.when)
        self.heard = test(part.heard)
        conditions = [each for each in (step.when, part.heard) if each is not None]
        self.on_data = has_data(part.machine) or any(compares_data(each) for each in conditions)
        self.options = cache(self._options)
        self.blocked = cache(partial(self._options, blocked=True))
        self.emitted = cache(self._all_outputs)
        self.states = len(table.states)
        self._ends = call and not step.goes_on
        self._table = table
        self._row = table.end[row] if step.ends else row
        begun = tuple(
            DataUpdate(variable=name, term=Constant(value=each.initial), text=each.text(each.initial))
            for name, each in part.machine.data.items()
        )
        initial = table.states.index(part.initial)
        self._reset = Way(index=-1, name="", to=initial, reply=(), emits=(), updates=begun)

    def cell(self, local: int) -> Cell | None:
        """Return the cell that the move uses, or ``None`` if it is a reset or the end of a call is not specified."""
        return None if self._row < 0 else self._table.cell(self._table.bare(local), self._row)

    def unspecified(self, local: int) -> bool:
        """Check whether the machine is silent about the move, or the table leaves out a result of it."""
        return self._row >= 0 and (self._table.step(local, self._row) is None or bool(self.blocked(local)))

    def uncovered(self, local: int) -> Condition | None:
        """Return the condition on data under which the machine does not say what happens, if there may be one."""
        ways = (self._table.step(local, self._row) or ()) if self._row >= 0 else ()
        guards = tuple(way.when for way in ways if way.when)
        return Not(of=self._named(Some(of=guards))) if ways and len(guards) == len(ways) else None

    def _named(self, condition: Condition) -> Condition:
        """Return a condition on data of the part with the names that these have in the system."""
        return comparisons_over(condition, self._read, (self.at,))

    def _read(self, name: str) -> Term:
        return Read(name=self._variable(name) if name in self.part.machine.data else name)

    def _variable(self, name: str) -> str:
        return f"{self.step.copy.name}.{name}"

    @property
    def key(self) -> tuple[object, ...]:
        """A cache key for the move.  In one system table, moves with the same key have the same options."""
        return self.at, self.step.event, self.step.ends, self.step.outcomes, self._ends

    def _all_outputs(self) -> dict[tuple[str, ...], None]:
        options = (option for local in range(self.states) for option in self.options(local))
        return {done.emits: None for _, _, done, *_ in options if done.emits}

    def _options(self, local: int, *, blocked: bool = False) -> tuple[Option, ...]:
        step = self._table.blocked if blocked else self._table.step
        ways = (step(local, self._row) or ()) if self._row >= 0 else () if blocked else (self._reset,)
        possible = offered(ways, self.step.outcomes, self.part.without)
        return tuple(option for way in possible for option in self._options_of_way(local, way))

    def all_options(self, local: int) -> tuple[Option, ...]:
        """Return the possible results in a local state, including those that the table leaves out."""
        return (*self.options(local), *self.blocked(local))

    def _options_of_way(self, local: int, way: Way) -> Iterator[Option]:
        states, copy = self._table.states, self.step.copy
        done = Done(
            copy=copy.name,
            digit=copy.digit,
            event=self.step.event,
            ends=self.step.ends,
            outcome=way.name,
            source=states[local],
            target=states[way.to],
            emits=tuple(f"{output}{copy.suffix}" for output in way.emits),
            reply=way.reply,
        )
        silent = structs.replace(done, emits=())
        errors = tuple(reply for reply in way.reply if reply != "ok") if self._ends else ()
        when = self._named(way.when) if way.when else None
        updates = tuple(
            DataUpdate(variable=self._variable(each.variable), term=substituted(each.term, self._read), text=each.text)
            for each in way.updates
        )
        if len(errors) < len(way.reply) or not way.reply:
            yield way.to, (), done, silent, when, updates
        if errors:
            yield way.to, errors, done, silent, when, updates


def offered(ways: Iterable[Way], outcomes: frozenset[str], without: frozenset[str]) -> Iterator[Way]:
    for way in ways:
        if way.name not in without and (not outcomes or way.name in outcomes):
            yield way
