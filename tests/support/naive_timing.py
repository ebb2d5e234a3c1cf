"""A second opinion on timers and time limits of machines with data, and random machines and recordings for it.

It follows the text of the language's reference and uses nothing of the engines: every run is tried, second by second.
All times are whole seconds and all bounds are inclusive, so a run exists if and only if one exists on this grid.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

from fsm.trace import Observation

if TYPE_CHECKING:
    import random
    from collections.abc import Iterator

SECOND = 10**9
STATES = ("s0", "s1", "s2", "s3")
HIGH = 2


class Way(NamedTuple):
    """An outcome that is possible if the variable ``n`` equals ``when``, or always if ``when`` is -1."""

    to: str
    when: int = -1
    otherwise: bool = False
    adds: int = 0
    within: int = 0
    reply: str = ""

    def possible(self, n: int) -> bool:
        return self.when < 0 or (n == self.when) != self.otherwise

    def text(self, number: int) -> str:
        when = f', when = "{"otherwise" if self.otherwise else f"n == {self.when}"}"' if self.when >= 0 else ""
        adds = f', set = {{ n = "n + {self.adds}" }}' if self.adds else ""
        within = f", within = {self.within}" if self.within else ""
        reply = f', reply = "{self.reply}"' if self.reply else ""
        return f'{{ name = "w{number}", to = "{self.to}"{when}{adds}{within}{reply} }}'


@dataclass(slots=True)
class Timer:
    inside: frozenset[str]
    event: str
    after: int
    tolerance: int
    restarts: str


@dataclass(slots=True)
class Timed:
    """A machine with the variable ``n``.  An event that is missing in a state cannot happen, or is refused."""

    kinds: dict[str, str]
    ways: dict[tuple[str, str], tuple[Way, ...]]
    timers: tuple[Timer, ...]
    data: bool

    def model(self) -> str:
        lines = ["[machine]", 'name = "timed"', 'title = "T"', 'about = "Random."', 'source = "a test"']
        lines += ['initial = "s0"', "[states]", *(f'{state} = {{ about = "" }}' for state in STATES)]
        lines += ["[data]", f"n = {{ from = 0, to = {HIGH}, saturates = true }}"] if self.data else []
        for event, kind in self.kinds.items():
            lines += [f"[event.{event}]", f'kind = "{kind}"', 'about = ""']
            for state in STATES:
                if ways := self.ways.get((event, state)):
                    lines.append(f"moves.{state} = [{', '.join(way.text(at) for at, way in enumerate(ways))}]")
            rest = [state for state in STATES if (event, state) not in self.ways]
            refused = ", ".join(f'{state} = "NO"' for state in rest)
            if rest:
                lines.append(f"refuses = {{ {refused} }}" if kind == "call" else f"cannot = {rest}".replace("'", '"'))
        for number, timer in enumerate(self.timers):
            lines += [f"[timer.t{number}]", f"in = {sorted(timer.inside)}".replace("'", '"')]
            lines += [f'event = "{timer.event}"', f'after = "{timer.after} s"', f'tolerance = "{timer.tolerance} s"']
            lines += [f'restarts = ["{timer.restarts}"]'] if timer.restarts else []
        return "\n".join(lines) + "\n"

    @property
    def exact(self) -> bool:
        """Whether observations determine what happened and when.

        Otherwise, the monitor may miss violations: it keeps the earliest and the latest start of each timer, but not
        that a call must have acted before another timer was late.
        """
        return {*self.kinds.values()} == {"signal"} and all(
            len(ways) == 1 or ways[0].when >= 0 for ways in self.ways.values()
        )


def random_timed(chance: random.Random, *, calls: bool = False) -> Timed:
    """Return a random machine, which has many calls if *calls* is true."""
    data = chance.random() < 0.7
    others: tuple[str, ...] = ("signal",) if chance.random() < 0.5 else ("call", "hidden", "signal")
    others = ("call", "call", "call", "hidden") if calls else others
    kinds = {"a": "signal", "b": "signal", "c": chance.choice(others), "d": chance.choice(others)}
    ways = {}
    for event, kind in kinds.items():
        for state in STATES:
            if chance.random() < 0.7:
                ways[event, state] = _ways(chance, kind, state, data=data)
    timers = []
    for number in range(chance.choice((0, 1, 1, 2))):
        inside = frozenset(chance.sample(STATES, chance.randint(1, 2)))
        event = f"fire{number}"
        kinds[event] = "hidden" if "hidden" in others and chance.random() < 0.2 else "signal"
        ways |= {(event, state): _ways(chance, "signal", state, data=data) for state in inside}
        able = [each for each in "abcd" if any(way.to in inside for at in inside for way in ways.get((each, at), ()))]
        after, restarts = chance.randint(2, 8), chance.choice(["", *able])
        timers.append(Timer(inside, event, after, chance.randint(0, min(2, after - 1)), restarts))
    return Timed(kinds, ways, tuple(timers), data)


def _ways(chance: random.Random, kind: str, state: str, *, data: bool) -> tuple[Way, ...]:
    def way(when: int = -1, *, otherwise: bool = False) -> Way:
        return Way(
            chance.choice((state, state, *STATES)),
            when,
            otherwise,
            adds=chance.choice((0, 1)) if data else 0,
            within=chance.randint(1, 6) if chance.random() < 0.3 else 0,
            reply=chance.choice(("ok", "ok", "BUSY")) if kind == "call" else "",
        )

    if data and chance.random() < 0.4:
        when = chance.randint(0, HIGH)
        return way(when), way(when, otherwise=True)
    return (way(), way()) if chance.random() < 0.15 else (way(),)


class Situation(NamedTuple):
    """A state with the value of the variable, the start of each timer that runs, and the running time limit, if any.

    ``asked`` is the call in progress, and ``reply`` its reply if it has taken effect.
    """

    state: str
    n: int
    starts: tuple[int | None, ...]
    limit: int | None = None
    asked: str = ""
    reply: str = ""


def steps(of: Timed, here: Situation, event: str, now: int) -> Iterator[Situation]:
    """Yield each situation after *event* has taken effect at *now*."""
    if (event, here.state) not in of.ways:
        if of.kinds[event] == "call":
            yield here._replace(reply="NO")
        return
    for timer, start in zip(of.timers, here.starts, strict=True):
        if timer.event == event and start is not None and now - start < timer.after - timer.tolerance:
            return
    for way in of.ways[event, here.state]:
        if way.possible(here.n):
            stays = way.to == here.state
            limit = here.limit if stays else None
            starts = tuple(
                _start(timer, start, here.state, way, event, now)
                for timer, start in zip(of.timers, here.starts, strict=True)
            )
            if way.within:
                limit = now + way.within if limit is None else min(limit, now + way.within)
            yield Situation(way.to, min(HIGH, here.n + way.adds), starts, limit, here.asked, way.reply)


def _start(timer: Timer, start: int | None, state: str, way: Way, event: str, now: int) -> int | None:
    if way.to not in timer.inside:
        return None
    restarted = event == timer.event or (event == timer.restarts and way.reply != "BUSY")
    return now if state not in timer.inside or restarted else start


def quietly(of: Timed, those: set[Situation], now: int) -> set[Situation]:
    """Return all situations that hidden events and calls in progress may lead to at *now*."""
    found, todo = set(those), list(those)
    while todo:
        here = todo.pop()
        unseen = [event for event, kind in of.kinds.items() if kind == "hidden"]
        after = [each for event in unseen for each in steps(of, here, event, now)]
        after = [each._replace(reply=here.reply) for each in after]
        if here.asked and not here.reply:
            after += steps(of, here, here.asked, now)
        new = set(after) - found
        found |= new
        todo += new
    return found


def in_time(of: Timed, here: Situation, now: int, *, limits: bool = True) -> bool:
    timely = all(
        start is None or now - start <= timer.after + timer.tolerance
        for timer, start in zip(of.timers, here.starts, strict=True)
    )
    return timely and not (limits and here.limit is not None and now > here.limit)


def beginning(of: Timed, now: int) -> set[Situation]:
    """Return the situations of an entity that is first seen at *now*.  Its timers may have started at any time."""
    spans = [
        range(now - timer.after - timer.tolerance, now + 1) if "s0" in timer.inside else (None,) for timer in of.timers
    ]
    found: set[Situation] = {Situation("s0", 0, ())}
    for span in spans:
        found = {here._replace(starts=(*here.starts, start)) for here in found for start in span}
    return quietly(of, found, now)


def first_illegal(of: Timed, seen: list[Observation], end: int) -> int | None:
    """Return the index of the first observation that no run explains, or their number if a timer is late at *end*."""
    now = 0
    those: set[Situation] = set()
    for index, each in enumerate(seen):
        at = int(each.at or 0) // SECOND
        if not index:
            now, those = at, beginning(of, at)
        while now < at:
            now += 1
            those = quietly(of, {here for here in those if in_time(of, here, now)}, now)
        if each.phase == "request":
            those = {here._replace(asked=each.event, reply="") for here in those}
        elif each.phase == "reply":
            those = {here._replace(asked="", reply="") for here in those if here.reply == each.reply}
        elif each.event:
            moved = {after._replace(reply=here.reply) for here in those for after in steps(of, here, each.event, now)}
            those = moved
        those = quietly(of, {here for here in those if each.shows in {"", here.state}}, now)
        if not those:
            return index
    # A time limit is only judged at observations of its entity.
    while now < end:
        now += 1
        those = quietly(of, {here for here in those if in_time(of, here, now, limits=False)}, now)
    return None if those else len(seen)


def random_recording(of: Timed, chance: random.Random) -> list[Observation]:
    """Return the observations of a random run, which obeys timers and limits as far as it can, and then some changes."""
    now = chance.randint(20, 30)
    here, found = chance.choice(sorted(beginning(of, now), key=repr)), list[Observation]()

    def see(event: str, phase: str = "", reply: str = "") -> None:
        shows = here.state if chance.random() < 0.5 and phase != "request" else ""
        about = {"event": event, "phase": phase, "reply": reply, "shows": shows, "at": now * SECOND}
        found.append(Observation(entity="e", of="timed", **about))  # type: ignore[arg-type]

    see("")
    for _ in range(chance.randint(2, 9)):
        for _ in range(chance.choice((0, 1, 1, 2, 3, 5))):
            if in_time(of, here, now + 1):
                now += 1
                here = chance.choice([here, *sorted(quietly(of, {here}, now), key=repr)])
        event = chance.choice([each for each, kind in of.kinds.items() if kind != "hidden"])
        if of.kinds[event] == "call" and not here.asked:
            here = here._replace(asked=event, reply="")
            see(event, "request")
        elif here.asked and here.reply:
            asked, reply, here = here.asked, here.reply, here._replace(asked="", reply="")
            see(asked, "reply", reply)
        elif after := [*steps(of, here, event, now)] if of.kinds[event] != "call" else []:
            here = chance.choice(after)._replace(reply=here.reply)
            see(event)
    return found
