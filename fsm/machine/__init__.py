"""Machines: states, events, and what each event does in each state.

A machine is a complete table, with a cell for every event in every state.  :mod:`fsm.language.build` checks machines.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Final, Literal, TypeAlias, TypeVar, assert_never

from fsm.errors import InputError
from fsm.machine.clauses import LEVELS as LEVELS
from fsm.machine.clauses import Clause as Clause
from fsm.machine.clauses import Level as Level
from fsm.machine.conditions import WrittenCondition
from fsm.machine.fields import Exemption, FieldKind, Requirement
from fsm.machine.hierarchy import FLAT, Hierarchy
from fsm.machine.terms import DataUpdate, Variable
from fsm.machine.timers import Timer
from fsm.machine.versions import conflict, has, meant, parted, within

Kind: TypeAlias = Literal["call", "signal", "hidden"]
StateKind: TypeAlias = Literal["initial", "active", "final", "error", "pending"]
ANY_ERROR = "error"  # wildcard that matches any error reply


def fits(reply: str, allowed: Collection[str]) -> bool:
    """Check whether *reply* is one of the replies in *allowed*, where ``error`` matches any error.

    >>> fits("JAMMED", ("ok", "error")), fits("ok", ("error",))
    (True, False)
    """
    return reply in allowed or (ANY_ERROR in allowed and reply not in {"", "ok"})


@dataclass(frozen=True, slots=True, kw_only=True)
class State:
    """A state, the value that it ``shows`` to observers, and its ``kind``, which is its role in the lifecycle."""

    name: str
    about: str
    shows: str
    aliases: tuple[str, ...] = ()
    kind: StateKind | None = None
    parts: Mapping[str, str] = field(default_factory=dict)  # in a joint state of a system: what each part shows


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """A possible outcome of an event in a state.

    ``reply`` lists the allowed replies, where ``error`` means any error.  It is empty for signals, and for an outcome
    with which a call only *begins*.  Such a call moves the entity to ``to``, and other events may happen there before
    the call ends.  If ``within`` is not 0, the entity must leave ``to`` for good within that many seconds.  The data
    must satisfy ``when``, and ``updates`` change them.  Only *chosen* outcomes may be possible at the same time.  If
    the event is ``impossible`` while ``when`` holds, this is no outcome: a joint condition of a system does not hold.
    """

    name: str
    to: str
    reply: tuple[str, ...] = ()
    emits: tuple[str, ...] = ()
    begins: bool = False
    within: int = 0
    about: str = ""
    aliases: tuple[str, ...] = ()
    deviation: Deviation | None = None
    when: WrittenCondition | None = None
    updates: tuple[DataUpdate, ...] = ()
    chosen: bool = False
    impossible: bool = False

    def replies(self, reply: str) -> bool:
        return fits(reply, self.reply)

    def covers(self, other: Outcome) -> bool:
        """Check whether this outcome allows everything that *other* allows.

        >>> failed = Outcome(name="failed", to="open", reply=("error",))
        >>> failed.covers(Outcome(name="jammed", to="open", reply=("JAMMED",)))
        True
        """
        same = (self.to, self.begins, self.emits, self.when, self.updates)
        return same == (other.to, other.begins, other.emits, other.when, other.updates) and all(
            self.replies(reply) if reply != ANY_ERROR else ANY_ERROR in self.reply for reply in other.reply
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class _Stated:
    clause: Clause
    line: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Moves(_Stated):
    """The event takes effect.  The environment chooses one of the outcomes."""

    outcomes: tuple[Outcome, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Ignores(_Stated):
    """The event has no effect and emits nothing.  A call replies ``ok``."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Refuses(_Stated):
    """The call replies with one of the error ``codes``.  It has no effect and emits nothing."""

    codes: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Cannot(_Stated):
    """The event cannot happen in this state."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Silent(_Stated):
    """The specification does not say what the event does in this state."""


Cell: TypeAlias = Moves | Ignores | Refuses | Cannot | Silent


@dataclass(frozen=True, slots=True, kw_only=True)
class Event:
    """An event with a cell for every state, and ``arguments`` that its cells may read.

    For a call that takes time, ``ends`` maps states to its possible ends there; without an entry, they are unspecified.
    """

    name: str
    kind: Kind
    about: str
    cells: Mapping[str, Cell]
    ends: Mapping[str, Moves] = field(default_factory=dict)
    rpc: str = ""
    aliases: tuple[str, ...] = ()
    interrupts: bool = False
    arguments: Mapping[str, Variable] = field(default_factory=dict)

    @property
    def words(self) -> tuple[str, ...]:
        return (self.name, self.rpc) if self.rpc else (self.name,)

    def outcomes(self) -> Iterator[Outcome]:
        for cell in (*self.cells.values(), *self.ends.values()):
            if isinstance(cell, Moves):
                yield from cell.outcomes


@dataclass(frozen=True, slots=True, kw_only=True)
class Deviation:
    """Behaviour that a profile allows although it breaks a clause of the machine."""

    name: str
    event: str
    clause: Clause
    about: str
    profile: str
    since: str = ""
    until: str = ""
    link: str = ""


UNNAMED: Final = frozenset({"done", "ignored", "refused"})
"""Default names of outcomes that the model leaves unnamed.  An override with a deviation uses its own name."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Override:
    """Cells of a profile, which replace those of an event.  If there is a ``deviation``, outcomes are added instead."""

    name: str
    event: str
    cells: Mapping[str, Cell]
    ends: Mapping[str, Moves]
    about: str
    deviation: Deviation | None
    since: str = ""
    until: str = ""
    line: int = 0

    def applied(self, event: Event) -> Event:
        if self.deviation is None:
            return replace(event, cells={**event.cells, **self.cells}, ends={**event.ends, **self.ends})
        cells = {
            state: self._extended(state, event.kind, event.cells[state], cell) for state, cell in self.cells.items()
        }
        ends = {
            state: self._extended(state, event.kind, event.ends.get(state), end) for state, end in self.ends.items()
        }
        return replace(event, cells={**event.cells, **cells}, ends={**event.ends, **ends})

    def _extended(self, state: str, kind: Kind, own: Cell | None, more: Cell) -> Moves:
        before = (outcomes(own, state, kind) or ()) if own else ()
        undeviating = [each for each in before if each.deviation is None]
        extra = [
            replace(each, deviation=self.deviation, name=self.name if each.name in UNNAMED else each.name)
            for each in outcomes(more, state, kind) or ()
            if not any(allowed.covers(each) for allowed in undeviating)
        ]
        return Moves(outcomes=(*before, *extra), clause=(own or more).clause, line=more.line)


D = TypeVar("D", Override, Exemption)


def of_profile(each: D, profile: str) -> D:
    return replace(each, deviation=each.deviation and replace(each.deviation, profile=profile))


@dataclass(frozen=True, slots=True, kw_only=True)
class Profile:
    """The differences between a real implementation and the machine."""

    name: str
    about: str
    overrides: tuple[Override, ...]
    exemptions: tuple[Exemption, ...] = ()
    extends: str = ""
    since: str = ""
    until: str = ""

    def of(self, name: str) -> Profile:
        """Restrict this profile to the overrides and exemptions that apply to *name*, which may include a version."""
        exact = name == self.name
        version = self.since.partition(",")[0] if exact else parted(name)[1]

        def kept(those: Iterable[D]) -> tuple[D, ...]:
            applying = (each for each in those if not version or (exact and each.deviation) or has(version, each))
            return tuple(each if exact else of_profile(each, name) for each in applying)

        return replace(self, overrides=kept(self.overrides), exemptions=kept(self.exemptions))


@dataclass(frozen=True, slots=True, kw_only=True)
class Omission:
    """The arrows that drawings leave out, which start at one of ``states`` or show one of ``outcomes``."""

    states: frozenset[str] = frozenset()
    outcomes: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True, kw_only=True)
class Machine:
    """A lifecycle as a complete table of states and events.

    ``data`` has the variables by name, ``timers`` the timers, ``fields`` the kinds of the fields of a status, and
    ``requires`` the requirements of clauses on these fields.  ``omits`` maps events to the arrows that drawings may
    leave out, and is ``None`` if the model does not mention drawings.  ``exemptions`` come from ``profile``, which is
    the profile that has been applied, if any.

    >>> from fsm.language.library import load
    >>> machine = load("examples/models/door.toml")
    >>> machine.initial, list(machine.states)
    ('shut', ['shut', 'open', 'gone'])
    >>> [outcome.to for outcome in machine.step("open", "pull")]
    ['shut']
    """

    name: str
    title: str
    about: str
    source: str
    initial: str
    entity: str
    states: Mapping[str, State]
    events: Mapping[str, Event]
    clauses: Mapping[str, Clause]
    profiles: Mapping[str, Profile] = field(default_factory=dict)
    indefinite: tuple[str, ...] = ()
    data: Mapping[str, Variable] = field(default_factory=dict)
    timers: Mapping[str, Timer] = field(default_factory=dict)
    fields: Mapping[str, FieldKind] = field(default_factory=dict)
    requires: Mapping[str, Requirement] = field(default_factory=dict)
    exemptions: tuple[Exemption, ...] = ()
    omits: Mapping[str, Omission] | None = None
    hierarchy: Hierarchy = FLAT
    path: str = ""
    profile: str = ""

    def step(self, state: str, event: str, *, ends: bool = False) -> tuple[Outcome, ...] | None:
        """Return the outcomes that *event*, or the end of this call, may have in *state*, in order.

        The result is empty if the event cannot happen, and ``None`` if the specification is silent.  Raise
        ``ValueError`` if a name is unknown.
        """
        for kind, name, known in (("state", state, self.states), ("event", event, self.events)):
            if name not in known:
                raise ValueError(f"{self.name} has no {kind} {name!r}; it has {', '.join(known)}")
        found = self.events[event]
        cell = found.ends.get(state) if ends else found.cells[state]
        return () if cell is None else outcomes(cell, state, found.kind)

    def words(self) -> dict[str, Event]:
        return {word: event for event in self.events.values() for word in event.words}

    def event(self, word: str) -> Event | None:
        """Return the event with the name or RPC name *word*, or ``None`` if there is no such event."""
        return self.words().get(word)

    def outputs(self) -> tuple[str, ...]:
        ways = (way for event in self.events.values() for way in event.outcomes())
        return tuple(dict.fromkeys(output for way in ways for output in way.emits))

    def under(self, profile: str | None) -> Machine:
        """Return the machine with *profile*, a name that :meth:`profiled` accepts, applied, or else itself.

        Deviations add outcomes, which are marked as deviating, and other overrides replace cells.  Raise ``ValueError``
        if the machine has no such profile.

        >>> from fsm.language.library import load
        >>> [outcome.reply for outcome in load("examples/models/washer.toml").under("acme-1.7").step("idle", "stop")]
        [('ok',), ('NOT_WASHING',)]
        """
        if not profile or profile == self.profile:
            return self
        found = self.profiled(profile)
        if found is None:
            known = ", ".join(self.profiles) or "none"
            raise ValueError(f"machine '{self.name}' has no profile {profile!r}; profiles: {known}")
        events = dict(self.events)
        for override in found.overrides:
            events[override.event] = override.applied(events[override.event])
        return replace(self, events=events, exemptions=found.exemptions, profiles={}, profile=profile)

    def partly_under(self, profile: str | None) -> Machine:
        """Like :meth:`under`, but ignore the names in *profile* that match no profile of the machine."""
        return self.under(within(profile, self.profiles))

    def lineage(self, profile: str) -> Iterator[str]:
        while profile:
            yield profile
            profile = self.profiles[profile].extends

    def profiled(self, profile: str | None) -> Profile | None:
        """Return the profile called *profile*, limited to the version in this name.

        If *profile* is the exact name of a profile, the result describes its first version, but has the deviations of
        all versions.  Names joined by ``+`` combine profiles.  Raise :class:`InputError` if two of them replace the
        same cell differently.  Return ``None`` if a name matches no profile, or several.

        >>> from fsm.language.library import load
        >>> machine = load("examples/models/washer.toml")
        >>> [machine.profiled(f"acme-{each}").name for each in ("1.7", "1.7.24", "2.2.6")]
        ['acme-1.7', 'acme-1.7', 'acme-2.2']
        >>> [way.reply for way in machine.under("acme-1.7.24").step("idle", "stop")]
        [('ok',)]
        """
        names = meant(profile, self.profiles)
        if not profile or not all(names.values()):
            return None
        parts = [self.profiles[name].of(each) for each, name in names.items()]
        return parts[0] if len(parts) == 1 else self._combine_profiles(profile, parts)

    def _combine_profiles(self, name: str, parts: list[Profile]) -> Profile:
        replaced: dict[tuple[str, str, bool], tuple[str, Cell]] = {}
        problems = []
        for part in parts:
            narrowed = [each for each in part.overrides if each.deviation is None]
            own = {(each.event, state, False): cell for each in narrowed for state, cell in each.cells.items()}
            own |= {(each.event, state, True): end for each in narrowed for state, end in each.ends.items()}
            for place, cell in own.items():
                other, before = replaced.setdefault(place, (part.name, cell))
                if replace(before, line=0) != replace(cell, line=0):
                    of, first = f"'{place[0]}' in '{place[1]}'", (other, before.line)
                    problems.append(conflict(self.path, of, (part.name, cell.line), first))
        if problems:
            raise InputError(problems)
        overrides = sorted((each for part in parts for each in part.overrides), key=lambda each: bool(each.deviation))
        known = {(each.name, each.event): of_profile(each, name) for each in overrides}
        exemptions = tuple(of_profile(each, name) for part in parts for each in part.exemptions)
        return replace(parts[0], name=name, overrides=tuple(known.values()), exemptions=exemptions)


def outcomes(cell: Cell, state: str, kind: Kind) -> tuple[Outcome, ...] | None:
    """Return the possible outcomes of *cell* in *state*, or ``None`` if the cell is silent.

    >>> clause = Clause(name="c", says="", level="MUST", source="")
    >>> [way.reply for way in outcomes(Refuses(codes=("NOT_FOUND",), clause=clause), "gone", "call")]
    [('NOT_FOUND',)]
    """
    match cell:
        case Moves(outcomes=ways):
            return ways
        case Ignores():
            return (Outcome(name="ignored", to=state, reply=("ok",) if kind == "call" else ()),)
        case Refuses(codes=codes):
            return (Outcome(name="refused", to=state, reply=codes),)
        case Cannot():
            return ()
        case Silent():
            return None
        case _:
            assert_never(cell)
