"""A slow second opinion on refinement.

The runs of one machine are enumerated step by step from its cells. For each run, :mod:`naive` reads the observations
and keeps the possible situations of the other machine. The checker and the monitor share no code with this module.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple, TypeAlias

import naive

from fsm.trace import Observation

if TYPE_CHECKING:
    from collections.abc import Iterator

    from fsm.machine import Machine

ANY = frozenset({"ok", "error"})
"""The replies that are tried if the specification is silent."""


class Going(NamedTuple):
    """A call in progress. It may not have acted yet, or may have ended with one of several possible replies."""

    event: str
    stage: str
    replies: frozenset[str] = frozenset()


class Here(NamedTuple):
    """The state of a machine and its calls in progress, in no particular order."""

    state: str
    calls: tuple[Going, ...] = ()

    def at(self, state: str, old: Going | None = None, new: Going | None = None) -> Here:
        left = list(self.calls)
        if old is not None:
            left.remove(old)
        if new is not None:
            left.append(new)
        return Here(state, tuple(sorted(left, key=repr)))


Next: TypeAlias = tuple[Here, tuple[Observation, ...]]


class Refining:
    """Checks whether *other* explains all runs of *machine* with up to *overlap* calls in progress."""

    def __init__(self, machine: Machine, other: Machine, overlap: int) -> None:
        self.machine = machine
        self.overlap = overlap
        own = {name for event in machine.events.values() if event.kind == "signal" for name in (event.name, event.rpc)}
        signals = [event for event in other.events.values() if event.kind == "signal"]
        self.asking = naive.Asking(
            other, frozenset(event.name for event in signals if own & ({event.name, event.rpc} - {""})), once=False
        )
        known = [event for event in other.events.values() if event.kind != "hidden"]
        self.names = {name for event in known for name in (event.name, event.rpc) if name}
        codes = {code for code in _codes(other) if code not in {"ok", "error", *other.indefinite}}
        self.codes = frozenset(codes)

    def shortest(self, *, most: int) -> tuple[int | None, int]:
        """Return the length of the shortest unexplained run, if any, and the explored depth.

        The search stops after *most* distinct situations of both machines.
        """
        start = Here(self.machine.initial), frozenset(self.asking.later([naive.Situation(self.asking.machine.initial)]))
        layer, met, far = [start], {start}, 0
        while layer and len(met) < most:
            following = []
            for here, now in layer:
                for to, seen in self.steps(here):
                    explained = frozenset(self._told(now, seen))
                    if not explained:
                        return far + 1, far
                    if (to, explained) not in met:
                        met.add((to, explained))
                        following.append((to, explained))
            layer = following
            far += 1
        return None, far if layer else 1_000_000

    def _told(self, now: frozenset[naive.Situation], seen: tuple[Observation, ...]) -> set[naive.Situation]:
        found = set(now)
        for each in seen:
            if not each.event or each.event in self.names:
                found = self.asking.explains(found, each) if found else found
        return found

    # -- steps of the machine -------------------------------------------------

    def steps(self, here: Here) -> Iterator[Next]:
        yield here, (Observation(shows=self.machine.states[here.state].shows),)
        if self.overlap or not here.calls:
            for event in self.machine.events.values():
                if event.kind != "call":
                    yield from self._happens(here, event.name)
                elif len(here.calls) < max(1, self.overlap):
                    yield here.at(here.state, None, Going(event.name, "asked")), (self._seen(event.name, "request"),)
        for call in dict.fromkeys(here.calls):
            yield from self._goes_on(here, call)

    def _happens(self, here: Here, name: str) -> Iterator[Next]:
        event = self.machine.events[name]
        seen = [self._seen(name)] if event.kind == "signal" else []
        over = [call for call in here.calls if event.interrupts and (event.kind == "signal" or call.stage == "begun")]
        left = tuple(call for call in here.calls if call not in over)
        for state in self._leads(here.state, name):
            yield Here(state, left), (*seen, *(self._seen(call.event, "lost") for call in over))

    def _leads(self, state: str, name: str) -> list[str]:
        ways = naive.ways(self.machine, state, name)
        return [*self.machine.states] if ways is None else [way.to for way in ways]

    def _goes_on(self, here: Here, call: Going) -> Iterator[Next]:
        if call.stage == "ended":
            for reply in sorted(call.replies | (self.codes if "error" in call.replies else frozenset())):
                yield here.at(here.state, call), (self._seen(call.event, "reply", reply),)
            return
        find = naive.ways if call.stage == "asked" else naive.ends
        ways = find(self.machine, here.state, call.event)
        if ways is None:
            takes_time = call.stage == "asked" and self.machine.events[call.event].ends
            for state in self.machine.states:
                yield here.at(state, call, Going(call.event, "ended", ANY)), ()
                if takes_time:
                    yield here.at(state, call, Going(call.event, "begun")), ()
        elif not ways:
            yield here.at(here.state, call, Going(call.event, "ended", ANY)), ()
        for way in ways or ():
            new = Going(call.event, "begun") if way.begins else Going(call.event, "ended", way.replies)
            yield here.at(way.to, call, new), ()

    def _seen(self, name: str, phase: str = "", reply: str = "") -> Observation:
        rpc = self.machine.events[name].rpc
        return Observation(event=rpc if rpc in self.names else name, phase=phase, reply=reply)  # type: ignore[arg-type]


def _codes(machine: Machine) -> Iterator[str]:
    for name in machine.events:
        for state in machine.states:
            for way in (naive.ways(machine, state, name) or set()) | naive.ends(machine, state, name):
                yield from way.replies
