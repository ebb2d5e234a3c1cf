"""A slow second opinion on equivalence that applies the definition to the cells.

Every error code that one of the machines mentions is distinguished everywhere, and indefinite replies are possible
everywhere. Bisimilarity is computed by removing pairs of situations until nothing changes. Traces are followed
through sets of situations.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple, TypeAlias

import naive

from fsm.machine.evidence import Observable

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from fsm.machine import Event, Machine
    from fsm.machine.evidence import Run

MOST_CALLS = 2
GONE = "?"
"""The state after unspecified behaviour, from which anything may follow."""


class Now(NamedTuple):
    state: str
    calls: tuple[str, ...] = ()


Step: TypeAlias = tuple[Observable | None, Now]
"""An observation and the situation after it. A hidden step has no observation."""


class Watched:
    def __init__(self, machine: Machine, other: Machine) -> None:
        self.machine = machine
        self.codes = {"error"}
        for each in (machine, other):
            self.codes |= set(each.indefinite)
            for event in each.events:
                for state in each.states:
                    for way in {*(naive.ways(each, state, event) or ()), *naive.ends(each, state, event)}:
                        self.codes |= way.replies
        self.codes -= {"ok"}
        self.start = Now(machine.initial)

    def steps(self, now: Now) -> Iterator[Step]:
        if now.state == GONE:
            return
        yield Observable(shows=self.machine.states[now.state].shows), now
        for event in self.machine.events.values():
            yield from self._first(now, event)
        for name in set(now.calls):
            left = list(now.calls)
            left.remove(name)
            yield from self._end(now, name, tuple(left))

    def _first(self, now: Now, event: Event) -> Iterator[Step]:
        hidden = event.kind == "hidden"
        ways = naive.ways(self.machine, now.state, event.name)
        name = "" if hidden else event.name
        if ways is None:
            yield Observable(event=name, silent=True), Now(GONE)
            return
        calls = () if event.interrupts else now.calls
        for way in ways:
            if way.begins and len(calls) < MOST_CALLS:
                yield Observable(event=name, begins=True), Now(way.to, tuple(sorted((*calls, name))))
            elif event.kind == "call" and not way.begins:
                for reply in self._replies(way):
                    yield Observable(event=name, reply=reply, emits=way.emits), Now(way.to, calls)
            elif event.kind != "call":
                yield (
                    (None if hidden and not way.emits else Observable(event=name, emits=way.emits)),
                    Now(way.to, calls),
                )
        if event.kind == "call":
            yield from ((Observable(event=name, reply=reply), now) for reply in self.machine.indefinite)

    def _end(self, now: Now, name: str, left: tuple[str, ...]) -> Iterator[Step]:
        ways = naive.ends(self.machine, now.state, name)
        if not ways:
            yield Observable(event=name, ends=True, silent=True), Now(now.state, left)
        for way in ways:
            if way.begins:
                yield Observable(event=name, ends=True, begins=True), Now(way.to, now.calls)
            else:
                for reply in self._replies(way):
                    yield Observable(event=name, reply=reply, emits=way.emits, ends=True), Now(way.to, left)

    def _replies(self, way: naive.Way) -> set[str]:
        return set(way.replies) | set(self.machine.indefinite) | (self.codes if "error" in way.replies else set())

    # -- observations, regardless of hidden steps ---------------------------------------------------------------

    def quietly(self, these: set[Now]) -> set[Now]:
        found = set(these)
        while more := {to for now in found for seen, to in self.steps(now) if seen is None} - found:
            found |= more
        return found

    def after(self, these: set[Now], seen: Observable | None) -> set[Now]:
        before = self.quietly(these)
        return before if seen is None else self.quietly({to for n in before for s, to in self.steps(n) if s == seen})

    def visible(self, these: set[Now]) -> set[Observable]:
        return {seen for now in self.quietly(these) for seen, _ in self.steps(now) if seen is not None}

    def all(self) -> list[Now]:
        found = [self.start]
        for now in found:
            found += [to for to in dict.fromkeys(to for _, to in self.steps(now)) if to not in found]
        return found


def bisimilar(first: Watched, second: Watched) -> bool:
    """Check weak bisimilarity by computing the greatest bisimulation."""
    related = {(one, two) for one in first.all() for two in second.all()}
    weak: dict[tuple[bool, Now, Observable | None], set[Now]] = {}

    def matched(one: Now, two: Now) -> bool:
        return all(
            any((to, answer) in related for answer in after(second, two, seen)) for seen, to in first.steps(one)
        ) and all(any((answer, to) in related for answer in after(first, one, seen)) for seen, to in second.steps(two))

    def after(watched: Watched, now: Now, seen: Observable | None) -> set[Now]:
        key = (watched is second, now, seen)
        if key not in weak:
            weak[key] = watched.after({now}, seen)
        return weak[key]

    while wrong := {pair for pair in related if not matched(*pair)}:
        related -= wrong
    return (first.start, second.start) in related


def shortest(first: Watched, second: Watched) -> int | None:
    """Return the length of the shortest trace that only one machine has, or ``None`` if their traces are equal."""
    now = {(frozenset(first.quietly({first.start})), frozenset(second.quietly({second.start})))}
    met = set(now)
    length = 0
    while now:
        length += 1
        following = set()
        for one, two in now:
            seen = first.visible(set(one))
            if seen != second.visible(set(two)):
                return length
            following |= {
                (frozenset(first.after(set(one), each)), frozenset(second.after(set(two), each))) for each in seen
            }
        now = following - met
        met |= now
    return None


def follows(watched: Watched, trace: Sequence[Observable]) -> set[Now]:
    now = {watched.start}
    for seen in trace:
        now = watched.after(now, seen)
    return watched.quietly(now)


def shows(watched: Watched, run: Run, trace: Sequence[Observable]) -> bool:
    now = {(watched.start, 0)}
    for taken in run.steps:
        found = set()
        for here, length in now:
            for seen, to in watched.steps(here):
                ended = taken.target if to.state != GONE else to.state
                if here.state == taken.source and to.state == ended and (seen is None or seen in trace[length:][:1]):
                    fits = seen is None or seen.event in {taken.event, ""}
                    fits = fits and (
                        seen is None or (seen.reply, seen.emits) == (taken.reply, taken.emits) or seen.shows != ""
                    )
                    found |= {(to, length + (seen is not None))} if fits else set()
        now = found
    return any(length == len(trace) for _, length in now)
