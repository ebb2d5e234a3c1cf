"""Check whether a recording violates the properties of a machine. The machine itself is not checked here."""

from collections import Counter, OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import chain
from typing import Final

from msgspec import structs

from fsm.checker import as_known
from fsm.errors import InputError, Problem, nearest
from fsm.language.library import specification
from fsm.machine import Deviation, Machine, findings
from fsm.machine.calls.belief import Dynamics
from fsm.machine.calls.unobserved import TooManyError
from fsm.machine.claims import KnownFailure, Property, Requires
from fsm.machine.versions import within
from fsm.monitor.extra_rules import requirement_checker
from fsm.monitor.grouping import WHOLE, Folder
from fsm.monitor.property_watch.automata import parts, steps_of
from fsm.monitor.property_watch.property_product import PropertyProduct
from fsm.monitor.property_watch.recording_watch import ENTITIES, ClaimWatch, unwatchable
from fsm.monitor.unknown_words import understood
from fsm.trace import Line, Observation

WINDOW: Final = 64
"""Maximum number of observations per entity to keep for replay when no run explains a line."""
TOO_MANY: Final = "too many calls overlap to follow all of them"
UNDECIDED: Final = "values that decide the property are unknown"
UNEXERCISED: Final = "nothing in the recording puts a property to the test"


def stated(
    machines: Sequence[Machine], only: Sequence[str], file: str, profile: str | None
) -> list[tuple[Property, ...]]:
    """Return, for each machine, the properties that *file* is judged against.

    If *only* is not empty, return only the properties that it names. Raise :class:`InputError` if no machine has a
    property named in *only*, or if a machine has no properties.
    """
    own = [specification(machine.path or machine.name) for machine in machines]
    found = [as_known(each, within(profile, each.machine.profiles)).properties for each in own]
    known = dict.fromkeys(stated.name for properties in found for stated in properties)
    of = " and ".join(machine.name for machine in machines)
    if unknown := {name: nearest(name, known, of="properties") for name in only if name not in known}:
        problem = partial(Problem, path=file, line=0, code="FSM211")
        raise InputError(problem(what=f"no property '{name}' of {of}", hint=hint) for name, hint in unknown.items())
    return [tuple(stated for stated in properties if not only or stated.name in only) for properties in found]


@dataclass(slots=True)
class _Window:
    """The latest observations of an entity, without calls that changed nothing.

    ``begins`` is true if the window starts with the entity's first observation. ``open`` is false while a call whose
    request is not in the window is in progress. ``late`` is true if the window contains calls that may act at any
    later time. ``advanced`` contains the claims that later observations may test.
    """

    begins: bool
    open: bool = True
    late: bool = False
    assumptions: int = 0
    seen: list[tuple[Observation, Line]] = field(default_factory=list)
    advanced: set[ClaimWatch] = field(default_factory=set)

    def add(self, seen: Observation, line: Line, *, moves: bool) -> None:
        if not moves and seen.phase in {"", "reply", "answered"}:
            asked = (pair for pair in self.seen if pair[0].phase == "request" and pair[0].event == seen.event)
            if seen.phase == "reply" and (request := next(asked, None)):
                self.seen.remove(request)
            return
        if seen.phase == "answered":
            self.cut(over=self.settled())  # The call took effect at some earlier instant.
            return
        if seen.phase == "assumed" and self.seen and self.seen[-1][0] == seen:
            return  # An assumed event may happen any number of times.
        self.seen.append((seen, line))
        if len(self.seen) > WINDOW:
            self.cut(over=False)

    def settled(self, *last: Observation) -> bool:
        phases = Counter(seen.phase for seen in chain((seen for seen, _ in self.seen), last))
        return phases["request"] == phases["reply"] + phases["lost"] and not self.late

    def cut(self, *, over: bool) -> None:
        lost = {seen.event: (seen, line) for seen, line in self.seen if over and seen.phase == "lost"}
        self.begins, self.open, self.late = False, over, False
        self.seen = [
            (structs.replace(seen, phase=phase), line) for seen, line in lost.values() for phase in ("request", "lost")
        ]


class PropertyWatch:
    """Watches *properties* of a machine's entities under *profile*. *dynamics* determines how beliefs change.

    If *fresh* is true, every entity is in the initial state when it is first seen. If the machine itself cannot break a
    claim, the claim is checked only on lines that the machine does not allow (see :meth:`violated`).

    >>> from fsm.language.library import load, specification
    >>> from fsm.machine.calls.belief import dynamics
    >>> from fsm.machine.table import tabulate
    >>> from fsm.monitor import Monitor
    >>> of = specification("examples/models/washer.toml")
    >>> watch = PropertyWatch(of.properties, dynamics(tabulate(of.machine)), profile=None, fresh=True, file="x")
    >>> stops = [Observation(entity="w1", event="stop", reply=reply) for reply in ("ok", "NOT_WASHING")]
    >>> watch.violated("w1", Line("x", 2))
    >>> watch.feed(stops, [1, 2])
    >>> verdict = watch.added_to(Monitor(of.machine).judgement()).verdict
    >>> [(each.first[0].clause.name, [line.number for line in each.first[0].lines]) for each in verdict.findings]
    [('stop-is-idempotent', [1, 2]), ('stop-of-the-idle-succeeds', [2])]
    """

    def __init__(
        self, properties: Sequence[Property], dynamics: Dynamics, *, profile: str | None, fresh: bool, file: str
    ) -> None:
        self.machine = dynamics.table.machine
        self._dynamics, self._profile, self._fresh, self._file = dynamics, profile, fresh, file
        self._watches: list[tuple[Property, list[ClaimWatch], str]] = []
        shown = [each.claim.requirement for each in properties if isinstance(each.claim, Requires)]
        self._folder = Folder()
        self._fields = requirement_checker(shown, self.machine, self._folder)
        self._shown = {name: each for name, each in self.machine.data.items() if each.shown}
        stepping = steps_of(dynamics.table)
        for stated in properties:
            why, watched = unwatchable(stated), not isinstance(stated.claim, Requires)
            claims = parts(stated.claim) if watched and not why else ()
            products = [PropertyProduct(stepping, claim, profile) for claim in claims]
            try:
                for product in products:
                    product.explore()
            except TooManyError:
                products, why = [], "too many states to be followed"
            claim_watches = [ClaimWatch(product, stated.clause, dynamics, fresh=fresh) for product in products]
            self._watches.append((stated, claim_watches, why))
        watches = [watch for _, those, _ in self._watches for watch in those]
        self._proved = [watch for watch in watches if watch.product.proved]
        self._others = [watch for watch in watches if not watch.product.proved]
        self._unexercised = dict.fromkeys(watches)
        self._violated: set[tuple[str, Line]] = set()
        self._assumed: dict[str, tuple[Observation, Line]] = {}
        self._assumptions = 0
        self._windows: OrderedDict[str, _Window] = OrderedDict()

    def feed(self, observations: Sequence[Observation], lines: Sequence[int | Line]) -> None:
        places = [Line.of(line, self._file) for line in lines]
        for observation, line in zip(observations, places, strict=True):
            seen = observation
            if seen.event and self._dynamics.row(seen.event) < 0:
                continue
            if seen.args or (seen.fields and self._shown):
                seen = understood(seen, self.machine, self._shown)[0]
            self._fields.notice(seen)
            if (seen.entity, line) not in self._violated:  # After a violation, the state is unknown.
                self._fields.hold(seen, line)
            if seen.entity:
                self._take(seen, line)
            elif seen.phase == "assumed":  # Entities take the event into account when they are next observed.
                self._assumed[seen.event] = seen, line
                self._assumptions += 1
            else:
                for entity in tuple(self._windows):
                    self._take(structs.replace(seen, entity=entity), line)
                for watch in self._others:
                    watch.apply_to_all(seen)
                self._fresh = self._fresh and seen.phase != "gap"

    def violated(self, entity: str, line: Line) -> None:
        """Record that no run explains the observation of *entity* on *line*. Call this before feeding the line."""
        self._violated.add((entity, line))

    def _take(self, seen: Observation, line: Line) -> None:
        window = self._windows.pop(seen.entity, None) or _Window(begins=self._fresh)
        self._windows[seen.entity] = window
        if len(self._windows) > ENTITIES:
            self._windows.popitem(last=False)
            self._fresh = False
        if window.assumptions < self._assumptions:
            window.assumptions = self._assumptions
            for assumed, place in self._assumed.values():
                self._take(structs.replace(assumed, entity=seen.entity), place)
        for watch in self._others:
            watch.take(seen, line)
        self._exercise(window, seen)
        if (seen.entity, line) in self._violated:
            self._violated.remove((seen.entity, line))
            for watch in self._proved:
                if window.open:
                    watch.replay([*window.seen, (seen, line)], begins=window.begins)
                watch.incomplete = watch.incomplete or not window.open
            window.cut(over=window.settled(seen))
        elif seen.phase == "gap":
            window.cut(over=True)
        elif window.open:
            row = self._dynamics.row(seen.event)
            window.late = window.late or (seen.phase in {"maybe", "noticed"} and self._dynamics.calls(row))
            window.add(seen, line, moves=row < 0 or self._dynamics.rules.moves(row))

    def _exercise(self, window: _Window, seen: Observation) -> None:
        if seen.phase in {"request", "assumed"} or not self._unexercised:
            return
        row = self._dynamics.row(seen.event)
        event = self._dynamics.table.rows[row].event.name if row >= 0 else ""
        marks = {(event, seen.reply or seen.output), (event, "error" if seen.reply not in {"", "ok"} else "")}
        for watch in tuple(self._unexercised):
            product = watch.product
            if marks & product.asking or (watch in window.advanced and marks & product.asking_later):
                del self._unexercised[watch]
            elif marks & product.advancing:
                window.advanced.add(watch)

    def added_to(self, judgement: findings.Judgement) -> findings.Judgement:
        properties, tolerated, broken = [], [*judgement.tolerated], list[findings.Finding]()
        of_fields = self._folder.findings()
        for stated, watches, unwatched in self._watches:
            found = [finding for finding in of_fields if finding.first[0].clause.name == stated.name]
            groups = [watch.violations for watch in watches]
            if whole := [violation for group in groups for violation in group.whole]:
                count = sum(group.count for group in groups)
                entities = len(set[str]().union(*(group.entities for group in groups)))
                found = [findings.Finding(first=tuple(whole[:WHOLE]), count=count, entities=entities)]
            properties.append(self._watched_property(stated, watches, unwatched, broken=bool(found)))
            known = stated.expected(self._profile)
            if found and known is not None:
                tolerated.append(self._tolerated(found, known))
            else:
                broken += found
        answer = _with(judgement, properties, tuple(broken))
        undecided = {
            f"property {stated.name} not decided": sum(watch.undecided for watch in watches)
            for (stated, watches, _), prop in zip(self._watches, properties, strict=True)
            if prop.why == UNDECIDED
        }
        notes = {**judgement.notes, **undecided}
        return replace(judgement, verdict=answer, tolerated=tuple(tolerated), properties=tuple(properties), notes=notes)

    def _watched_property(
        self, stated: Property, watches: Sequence[ClaimWatch], unwatched: str, *, broken: bool
    ) -> findings.WatchedProperty:
        result, known = partial(findings.WatchedProperty, clause=stated.clause), stated.expected(self._profile)
        if unwatched:
            return result(status="not watched", why=unwatched)
        if broken:
            return result(status="known" if known else "violated")
        if any(watch.incomplete for watch in watches) and known is None:
            return result(status="unknown", why=TOO_MANY)
        if any(watch.undecided for watch in watches):
            return result(status="unknown", why=UNDECIDED)
        tested = self._fields.tested.get(stated.name, any(watch not in self._unexercised for watch in watches))
        return result(status="holds") if tested else result(status="not exercised", why=UNEXERCISED)

    def _tolerated(self, found: Sequence[findings.Finding], known: KnownFailure) -> findings.Deviated:
        first, profile = found[0].first[0], self._profile or self.machine.name
        name, clause = first.clause.name, first.clause
        deviation = Deviation(name=name, event="", clause=clause, about=known.about, profile=profile, link=known.link)
        seen, file, line = first.observation, first.file, first.line
        met = findings.Tolerated(machine=self.machine.name, deviation=deviation, observation=seen, file=file, line=line)
        return findings.Deviated(first=met, count=sum(finding.count for finding in found))


def _with(
    judgement: findings.Judgement, properties: Sequence[findings.WatchedProperty], broken: tuple[findings.Finding, ...]
) -> findings.Legality:
    states = {each.status for each in properties}
    incomplete = judgement.why or next((each.why for each in properties if each.status == "unknown"), "")
    found = (*judgement.findings, *broken)
    if not found and states and states.isdisjoint({"holds", "known"}):
        incomplete = incomplete or UNEXERCISED
    return findings.legality(found, incomplete)
