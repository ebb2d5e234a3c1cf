"""Decide claims by breadth-first search.

The search visits configurations, each paired with what the claim has to remember about the run so far. A model may
leave the end of a call unspecified, so there are two searches, without and with such ends. If only the second search
breaks the claim, the verdict is unknown.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Iterator
from dataclasses import dataclass, field
from typing import Literal, TypeAlias, TypeVar

from brute_force.conditions import Test, codes_named, test_of
from brute_force.steps import Configuration, Instant, MachineModel, Model, Runs, Step
from fsm.machine.claims import (
    Always,
    Claim,
    Fair,
    Follows,
    Idempotent,
    LeadsTo,
    Never,
    Reachable,
    conditions_of,
)
from fsm.machine.conditions import All, Condition, Not, Sequence, WrittenCondition

Verdict: TypeAlias = Literal["holds", "fails", "unknown", "vacuous"]
Run: TypeAlias = tuple[Step, ...]

MOST = 50_000
"""The maximum number of configurations that a search may visit."""

T = TypeVar("T", bound=Hashable)
Levels: TypeAlias = frozenset[int]


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """The verdict on a claim. If a finite run breaks the claim, the answer includes the run and its length.

    ``witnesses`` contains the lengths of the runs that an existential claim asks for. ``cut`` is true if the search
    did not follow every call that could have begun.
    """

    verdict: Verdict
    length: int | None = None
    run: Run = ()
    witnesses: tuple[int, ...] = ()
    cut: bool = False


@dataclass(slots=True)
class Decider:
    """Decides claims about a model, whose runs are enumerated only once for each set of error codes."""

    model: Model
    _runs: dict[frozenset[str], Runs] = field(default_factory=dict)

    def runs(self, codes: frozenset[str] = frozenset()) -> Runs:
        if codes not in self._runs:
            self._runs[codes] = Runs(self.model, codes)
        return self._runs[codes]

    def decide(self, claim: Claim) -> Answer:
        """Return the answer to *claim*.

        If only runs with unspecified ends break the claim, or only such runs exercise it, the verdict is unknown.
        """
        runs = self.runs(codes_named([each.means for each in conditions_of(claim)]))
        cut = bool(self.runs().cut)
        written, every = Search(runs, unwritten=False), Search(runs, unwritten=True)
        if isinstance(claim, Reachable):
            return _reachable(claim, written, every, cut=cut)
        run = broken(written, claim)
        if run is not None:
            finite = not isinstance(claim, LeadsTo)
            return Answer(verdict="fails", length=len(run) if finite else None, run=run, cut=cut)
        if broken(every, claim) is not None:
            return Answer(verdict="unknown", cut=cut)
        if not vacuous(every, claim) and vacuous(written, claim):
            return Answer(verdict="unknown", cut=cut)
        return Answer(verdict="vacuous" if vacuous(every, claim) else "holds", cut=cut)

    def size(self) -> tuple[int, int, int]:
        """Return the number of states, the number of outcomes in them, and the distance of the farthest state."""
        runs = self.runs()
        depth: dict[tuple[str, ...], int] = {}
        outcomes: set[Hashable] = set()
        for here, steps in runs.depth.items():
            depth.setdefault(_states(here), steps)
            outcomes |= {
                (
                    _states(here),
                    step.event,
                    step.stage in {"ends", "continues"},
                    step.outcome,
                    step.among,
                    step.emits,
                    _states(step.target),
                )
                for step in runs.steps[here]
                if not step.unwritten
            }
        return len(depth), len(outcomes), max(depth.values())


def _states(here: Configuration) -> tuple[str, ...]:
    return tuple(state for state, _ in here if isinstance(state, str))  # without the values of variables


@dataclass(frozen=True, slots=True)
class Search:
    """A search through the runs of a model, with or without the ends that the model leaves unspecified."""

    runs: Runs
    unwritten: bool

    def test(self, written: WrittenCondition | None, *, missing: bool = False) -> Test:
        """Compile a condition into a test of an instant.

        The test for ``None`` always returns *missing*.
        """
        return (lambda _: missing) if written is None else test_of(written.means, self.runs.model)

    def steps(self, here: Configuration) -> Iterator[Step]:
        return (step for step in self.runs.steps[here] if self.unwritten or not step.unwritten)

    def shortest(self, first: T, after: Callable[[T, Step], T], bad: Callable[[T], bool]) -> Run | None:
        """Return the shortest run whose final record is *bad*, or ``None``.

        A record is what the search remembers about a run. The initial record is *first*, and *after*
        computes the next record at each step.
        """
        for run, _, seen in self.explored(first, after):
            if bad(seen):
                return run
        return None

    def explored(self, first: T, after: Callable[[T, Step], T]) -> Iterator[tuple[Run, Configuration, T]]:
        """Yield a shortest run to each reachable pair of configuration and record, with the pair, shortest first."""
        start = (self.runs.model.initial, first)
        came: dict[tuple[Configuration, T], tuple[tuple[Configuration, T], Step] | None] = {start: None}
        going = [start]
        for place in going:  # the list grows during the loop
            yield _run_to(place, came), *place
            for step in self.steps(place[0]):
                there = (step.target, after(place[1], step))
                if there not in came:
                    came[there] = (place, step)
                    going.append(there)
            if len(came) > MOST:
                raise OverflowError

    def instants(self) -> Iterator[Instant]:
        yield Instant(self.runs.model.initial)
        for _, here, _ in self.explored(None, lambda _, __: None):
            for step in self.steps(here):
                yield from step.instants

    def met(self, condition: Condition) -> bool:
        test = test_of(condition, self.runs.model)
        return any(test(at) for at in self.instants())


def _run_to(
    place: tuple[Configuration, T], came: dict[tuple[Configuration, T], tuple[tuple[Configuration, T], Step] | None]
) -> Run:
    steps: list[Step] = []
    while (before := came[place]) is not None:
        place, step = before
        steps.append(step)
    return tuple(reversed(steps))


def broken(search: Search, claim: Claim) -> Run | None:
    match claim:
        case Always():
            return _shortest(_not_always(search, claim, each) for each in claim.conditions)
        case Never(sequences=sequences, until=until):
            return _shortest(through(search, each, until) for each in sequences)
        case Idempotent():
            return _not_idempotent(search, claim)
        case LeadsTo():
            return _leads_nowhere(search, claim)
        case Follows():
            other = Followed(claim)
            return search.shortest(other.first, other.after, lambda others: not others)
        case _:
            raise TypeError(f"{claim} is decided elsewhere")


def _shortest(runs: Iterable[Run | None]) -> Run | None:
    return min((run for run in runs if run is not None), key=len, default=None)


def _not_always(search: Search, claim: Always, condition: WrittenCondition) -> Run | None:
    asked, right = search.test(claim.when, missing=True), search.test(condition)

    def wrong(at: Instant) -> bool:
        return asked(at) and not right(at)

    first = wrong(Instant(search.runs.model.initial))
    return search.shortest(first, lambda _, step: any(map(wrong, step.instants)), bool)


def through(search: Search, sequence: Sequence, until: WrittenCondition | None) -> Run | None:
    last = len(sequence)
    conditions = [search.test(each) for each in sequence]
    cancels = search.test(until)

    def at_instant(levels: Levels, at: Instant) -> Levels:
        now = [condition(at) for condition in conditions]
        if last in levels or (now[-1] and (last == 1 or last - 1 in levels)):
            return frozenset({last})
        if cancels(at):
            levels = frozenset()
        middle = {level + 1 for level in levels if level + 1 < last and now[level]}
        return levels | middle | ({1} if now[0] else set())

    def after(levels: Levels, step: Step) -> Levels:
        for at in step.instants:
            levels = at_instant(levels, at)
        return levels

    first = at_instant(frozenset(), Instant(search.runs.model.initial))
    return search.shortest(first, after, lambda levels: last in levels)


# -- a call, and the same call again -------------------------------------------------------


def _first_call(search: Search, claim: Idempotent) -> Callable[[Step], bool]:
    once = search.test(claim.once, missing=True)

    def replies_ok(step: Step) -> bool:
        rests = not any(calls for _, calls in step.target)
        return step.event == claim.event and step.reply == "ok" and rests and once(step.instants[-1])

    return replies_ok


def _not_idempotent(search: Search, claim: Idempotent) -> Run | None:
    first = _first_call(search, claim)
    return _shortest(
        (*run, step, *second)
        for run, here, _ in search.explored(None, lambda _, __: None)
        for step in search.steps(here)
        if first(step) and (second := _second_call_breaks(search, step)) is not None
    )


def _second_call_breaks(search: Search, first: Step) -> Run | None:
    event, place = first.event, first.target
    if search.runs.model.silent(place, event):
        return (Step(event=event, stage="acts", source=place, target=place, unspecified=True),)
    going: list[Run] = [()]
    known = {place}
    for run in going:  # the list grows during the loop
        stages = {"ends", "continues"} if run else {"acts", "begins"}
        for step in search.steps(run[-1].target if run else place):
            if (step.event, step.given) != (event, first.given) or step.stage not in stages:
                continue
            over = step.stage in {"acts", "ends"}
            if step.emits or (over and (step.reply != "ok" or step.target != place)):
                return (*run, step)
            if not over and step.target not in known:
                known.add(step.target)
                going.append((*run, step))
    return None


# -- outputs that are events of another machine ---------------------------------------------

Others: TypeAlias = frozenset[Configuration]


@dataclass(frozen=True, slots=True)
class Followed:
    """The other machine of a :class:`Follows` claim, which takes the observations of a run as its events.

    Once its model is silent about an event, anything may follow.
    """

    claim: Follows

    def seen(self, step: Step) -> list[str]:
        """Return the events of the other machine that happen at *step*."""
        events = self.claim.other.events.values()
        named = {name: event.name for event in events for name in (event.name, event.rpc) if name}
        seen = [each for each, digit in step.emitted if each in named and digit in (self.claim.of or {digit})]
        signals = {event.name for event in events if event.kind == "signal"}
        shared = [step.event] if step.signal and step.event in signals else []
        return [*shared, *(named[output] for output in seen)]

    @property
    def first(self) -> Others:
        return self._settled(frozenset({MachineModel(self.claim.other).initial}))

    def after(self, others: Others, step: Step) -> Others:
        """Return the possible states of the other machine after *step*, or nothing if it forbids the step."""
        for event in self.seen(step):
            others = self._settled(self._on(others, event))
        return others

    def _on(self, others: Others, event: str) -> Others:
        other = MachineModel(self.claim.other)
        if any(other.silent(here, event) for here in others):
            return frozenset(((state, ()),) for state in self.claim.other.states)
        return frozenset(step.target for here in others for step in other.steps(here) if step.event == event)

    def _settled(self, others: Others) -> Others:
        hidden = [event.name for event in self.claim.other.events.values() if event.kind == "hidden"]
        while True:
            more = others.union(*(self._on(others, event) for event in hidden))
            if more == others:
                return others
            others = more


# -- sooner or later -------------------------------------------------------------------------


def _leads_nowhere(search: Search, claim: LeadsTo) -> Run | None:
    """Return the start of a fair run in which the source holds and the target never holds afterwards."""
    source, target = search.test(claim.source), search.test(claim.target)

    def after(waits: bool, instants: Iterable[Instant]) -> bool:  # noqa: FBT001  (what was seen so far)
        for at in instants:
            waits = not target(at) and (waits or source(at))
        return waits

    first = after(False, [Instant(search.runs.model.initial)])  # noqa: FBT003  (the same)
    explored = search.explored(first, lambda waits, step: after(waits, step.instants))
    begun = {here: run for run, here, waits in explored if waits}
    # After the source has held, follow all steps in which the target does not hold.
    going = list(begun)
    for here in going:  # the list grows during the loop
        for step in search.steps(here):
            if step.target not in begun and not any(map(target, step.instants)):
                begun[step.target] = (*begun[here], step)
                going.append(step.target)
    for here, run in begun.items():
        if not any(enabled(search, each, here) for each in claim.fair):
            return run
    edges = {here: [step for step in search.steps(here) if not any(map(target, step.instants))] for here in begun}
    fair = fair_places(search, claim, edges, frozenset(begun))
    return next((run for here, run in begun.items() if here in fair), None)


def enabled(search: Search, fair: Fair, here: Configuration) -> bool:
    """Check whether the *fair* event can happen here.

    Unspecified ends of the event, and calls that the search did not follow, also count.
    """
    if any(takes(step, fair) for step in search.runs.steps[here]):
        return True
    cut = search.runs.cut.get(here, ())
    return any((event, ends) == (fair.event, fair.ends) and fair.outcome in {"", name} for event, ends, name in cut)


def takes(step: Step, fair: Fair) -> bool:
    ends = step.stage in {"ends", "continues"}
    return step.event == fair.event and ends == fair.ends and fair.outcome in {"", step.outcome}


def fair_places(
    search: Search, claim: LeadsTo, edges: dict[Configuration, list[Step]], places: frozenset[Configuration]
) -> frozenset[Configuration]:
    within = {here: [step for step in edges[here] if step.target in places] for here in places}
    found: set[Configuration] = set()
    for component in components(within):
        inside = [step for here in component for step in within[here] if step.target in component]
        if not inside:
            continue
        untaken = [fair for fair in claim.fair if not any(takes(step, fair) for step in inside)]
        if any(not fair.strongly and all(enabled(search, fair, here) for here in component) for fair in untaken):
            continue
        starved = {here for here in component for fair in untaken if fair.strongly and enabled(search, fair, here)}
        found |= fair_places(search, claim, edges, component - starved) if starved else component
    return frozenset(found)


def components(edges: dict[Configuration, list[Step]]) -> list[frozenset[Configuration]]:
    reach = {here: _closure(edges, here) for here in edges}
    found: list[frozenset[Configuration]] = []
    done: set[Configuration] = set()
    for here in edges:
        if here not in done:
            component = frozenset({here} | {there for there in reach[here] if here in reach[there]})
            done |= component
            found.append(component)
    return found


def _closure(edges: dict[Configuration, list[Step]], start: Configuration) -> set[Configuration]:
    found: set[Configuration] = set()
    going = [start]
    while going:
        for step in edges[going.pop()]:
            if step.target not in found:
                found.add(step.target)
                going.append(step.target)
    return found


# -- reachable and vacuous claims --------------------------------------------


def _reachable(claim: Reachable, written: Search, every: Search, *, cut: bool) -> Answer:
    runs = [through(written, each, None) for each in claim.sequences]
    if all(run is not None for run in runs):
        return Answer(verdict="holds", witnesses=tuple(len(run) for run in runs if run is not None), cut=cut)
    unwritten = [through(every, each, None) for each in claim.sequences]
    if None in unwritten:
        return Answer(verdict="fails", length=0, cut=cut)
    return Answer(verdict="unknown", cut=cut)


def vacuous(search: Search, claim: Claim) -> bool:
    match claim:
        case Always(when=when):
            return when is not None and not search.met(when.means)
        case Never(sequences=sequences):
            return not all(search.met(each) for sequence in sequences for each in _asked(sequence))
        case Idempotent():
            first = _first_call(search, claim)
            places = search.explored(None, lambda _, __: None)
            return not any(first(step) for _, here, _ in places for step in search.steps(here))
        case LeadsTo(source=source):
            return not search.met(source.means)
        case Follows():
            other = Followed(claim)
            return not any(other.seen(step) for steps in search.runs.steps.values() for step in steps)
        case _:
            return False


def _asked(sequence: Sequence) -> list[Condition]:
    if len(sequence) == 1:
        only = sequence[0].means
        return list(only.of) if isinstance(only, All) else []
    last = sequence[-1].means
    if isinstance(last, All):
        asked = tuple(part for part in last.of if not isinstance(part, Not))
        last = All(of=asked) if asked else last
    return [*(each.means for each in sequence[:-1]), last]
