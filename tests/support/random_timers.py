"""Random machines with one or two timers, and runs with one timer in real time, worked out step by step.

The runs follow the text of the language's reference and use nothing of the engines: the state, the time at which the
timer started, and for each call the time at which it was asked, acted and replied.
"""

from __future__ import annotations

import random
from dataclasses import dataclass, field

from fsm.trace import Observation

SECOND = 10**9
STATES = ("s0", "s1", "s2", "s3")


@dataclass(slots=True)
class TimedMachine:
    """A machine in which timers run in ``inside``, and signals and calls move between ``STATES``.

    If ``second`` is not 0, another timer fires ``late`` after this number of seconds, without a tolerance.
    """

    moves: dict[str, dict[str, str]]  # by event and state; an event that is missing in a state cannot happen
    calls: frozenset[str]
    inside: frozenset[str]
    fires: dict[str, str]
    restarts: str
    after: int
    tolerance: int
    second: int = 0

    def model(self) -> str:
        lines = ["[machine]", 'name = "timed"', 'title = "Timed"', 'about = "Random."', 'source = "a test"']
        lines += ['initial = "s0"', "", "[states]", *(f'{state} = {{ about = "" }}' for state in STATES)]
        fired = {"fire": self.fires, **({"late": self.fires} if self.second else {})}
        for event, moves in {**self.moves, **fired}.items():
            call = event in self.calls
            lines += ["", f"[event.{event}]", f'kind = "{"call" if call else "signal"}"', 'about = ""']
            written = (
                f'{state} = "{to}"' if to != state else f"{state} = {{ stays = true }}" for state, to in moves.items()
            )
            lines.append(f"moves = {{ {', '.join(written)} }}")
            rest = [state for state in STATES if state not in moves]
            refused = ", ".join(f'{state} = "NO"' for state in rest)
            lines.append(f"refuses = {{ {refused} }}" if call else f"cannot = {rest}".replace("'", '"'))
        lines += ["", "[timer.clock]", f"in = {sorted(self.inside)}".replace("'", '"'), 'event = "fire"']
        lines += [f'after = "{self.after} s"', f'tolerance = "{self.tolerance} s"']
        lines += [f'restarts = ["{self.restarts}"]'] if self.restarts else []
        if self.second:
            lines += ["", "[timer.second]", f"in = {sorted(self.inside)}".replace("'", '"'), 'event = "late"']
            lines += [f'after = "{self.second} s"', 'tolerance = "0 s"']
            lines += [f'restarts = ["{self.restarts}"]'] if self.restarts else []
        return "\n".join(lines) + "\n"


def machine(chance: random.Random) -> TimedMachine:
    inside = frozenset(chance.sample(STATES[1:], chance.randint(1, 2)))
    moves = {
        event: {state: chance.choice(STATES) for state in STATES if chance.random() < 0.7}
        for event in ("a", "b", "call-c", "call-d")
    }
    moves["a"]["s0"] = chance.choice(sorted(inside))  # the timer can start
    able = [
        event for event, each in moves.items() if any(state in inside and to in inside for state, to in each.items())
    ]
    return TimedMachine(
        moves=moves,
        calls=frozenset(("call-c", "call-d")),
        inside=inside,
        fires={state: chance.choice(STATES) for state in sorted(inside)},
        restarts=chance.choice(["", *able]),
        after=chance.randint(3, 20),
        tolerance=chance.randint(0, 2),
    )


@dataclass(slots=True)
class Firing:
    """A firing of the timer at ``at``, which had started between ``earliest`` and ``latest``."""

    index: int  # of its observation
    at: int
    earliest: int
    latest: int


@dataclass(slots=True)
class TimedRun:
    observations: list[Observation] = field(default_factory=list)
    firings: list[Firing] = field(default_factory=list)


def run(of: TimedMachine, chance: random.Random, length: int = 12) -> TimedRun:
    """Return a legal run of one entity.  Calls are recorded with their request and their reply."""
    state, now, started = "s0", 100 * SECOND, (0, 0)
    found = TimedRun()

    def see(at: int, **about: object) -> None:
        found.observations.append(Observation(entity="e", of="timed", at=at, **about))  # type: ignore[arg-type]

    for _ in range(length):
        deadline = started[1] + (of.after + of.tolerance) * SECOND
        soonest = started[1] + (of.after - of.tolerance) * SECOND
        running = state in of.inside
        step = chance.randint(1, 6) * SECOND
        if running and (now + step > deadline - 2 * SECOND or chance.random() < 0.3):
            at = max(now + 1, chance.randint(soonest, deadline))
            if at > deadline:
                return found
            now = at
            found.firings.append(Firing(len(found.observations), at, *started))
            state = of.fires[state]
            see(now, event="fire", shows=state)
            started = (now, now)
            continue
        now += step
        event = chance.choice([event for event, moves in of.moves.items() if state in moves or event in of.calls])
        to = of.moves[event].get(state)
        acted = (now, now)
        if event in of.calls:
            see(now, event=event, phase="request")
            asked, now = now, now + chance.randint(0, SECOND)
            acted = (asked, now)
            see(now, event=event, phase="reply", reply="NO" if to is None else "ok", shows=to or state)
        else:
            see(now, event=event, shows=to or state)
        if to is not None:
            enters = to in of.inside and (not running or event == of.restarts)
            started = acted if enters else started
            state = to
    return found
