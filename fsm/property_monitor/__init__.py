"""A property, watched on what an implementation does, step by step.

What is seen of an implementation is not its state: several runs of the
machine may look alike.  A property is *violated* only if none of them has it,
so what the checker has proved is never violated by an implementation that
keeps to the machine.  One that does not has left it: then any state that
shows what was read may be the one it is in.

No test sees a run without an end.  Of what comes about sooner or later this
is tested: once a test lets nothing happen but what is fair, in turn
(:meth:`Watch.due`), the target comes within as many steps as a machine that
has the property may need, and before nothing fair can happen any more.
"""

from collections.abc import Collection, Iterator
from dataclasses import dataclass
from math import factorial
from typing import Final, NamedTuple

from fsm.checker.instants import InstantStep, StepCache
from fsm.checker.safety import DONE
from fsm.machine import Machine
from fsm.machine.conditions import SilentOn, atoms
from fsm.machine.table import tabulate
from fsm.machine.traversal import BreadthFirst
from fsm.property.claims import Always, Fair, LeadsTo, MatchesDiagram, Never, Property, Reachable
from fsm.property.evidence import Run
from fsm.property_monitor.automata import Broken, Owing, Progress, PropertyMemory, memory, parts
from fsm.property_monitor.run_tracking import RunPlace, RunTrail, TestStep, Trails, run_tracker, widened
from fsm.sut import Response, Stimulus, StimulusStage

REMEMBERED: Final = 20_000
"""Steps whose effect is remembered."""

AIMS: Final = 20_000
"""Places that are looked through for aims."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Violated:
    """That an implementation does not have a property.

    ``run`` is one way to see what it did, in the machine's states, as the
    checker shows a counterexample; ``steps`` are the numbers, from 1, of the
    steps of the test that matter; ``said`` is what the run went through.
    ``left`` says that no run of the machine explains all that was seen.
    """

    of: Property
    run: Run
    steps: tuple[int, ...]
    said: str
    left: bool = False


def untestable(stated: Property) -> str:
    """Why no implementation can be held to *stated*; empty if one can.

    >>> from fsm.library import specification
    >>> [each.name for each in specification("container-status").properties if untestable(each)]
    ['nothing-is-left-open', 'as-it-is-drawn']
    """
    match stated.claim:
        case MatchesDiagram():
            return "it compares the machine with a drawing, and an implementation draws nothing"
        case Always(conditions=said):
            means = [each.means for each in said]
        case Never(sequences=sequences) | Reachable(sequences=sequences):
            means = [each.means for sequence in sequences for each in sequence]
        case _:
            return ""
    if all(isinstance(part, SilentOn) for each in means for part in atoms(each)):
        return "it is about what the machine says, not about what an implementation does"
    return ""


class _Next(NamedTuple):
    """What a step leads to: places, whether the machine explains it, what it has put to the test, what fair it was."""

    places: frozenset[RunPlace]
    explained: bool
    asked: bool
    fair: frozenset[int]


class Watch:
    """Watches *stated* of *machine*, which is as *profile* has it.

    Where what is seen cannot be explained otherwise, events in *unseen* may
    have happened between the steps of a test without being asked for; unless
    it is given, those that the machine calls hidden.
    Raises :class:`ValueError` for what is :func:`untestable`.

    >>> from fsm.library import specification
    >>> from fsm.sut import Response
    >>> of = specification("container-status")
    >>> stated = next(each for each in of.properties if each.name == "stop-is-idempotent")
    >>> watch = Watch(of.machine, stated)
    >>> for event, reply in (("create", "ok"), ("stop", "ok"), ("stop", "NOT_FOUND")):
    ...     violated = watch.step(Stimulus(event), Response(reply=reply, shows="CONTAINER_CREATED"))
    >>> violated.steps, violated.said
    ((2, 3), 'stop then stop')
    """

    def __init__(
        self, machine: Machine, stated: Property, *, profile: str | None = None, unseen: Collection[str] | None = None
    ) -> None:
        if why := untestable(stated):
            raise ValueError(f"{stated.name} cannot be tested: {why}")
        self.of = stated
        self._table = widened(tabulate(machine.under(profile)))
        if unseen is None:
            unseen = [row.event.name for row in self._table.rows if row.event.kind == "hidden"]
        self._stepping = StepCache(self._table)
        self._profile = profile
        self._memory = memory(stated.claim, self._stepping, profile)
        rows = tuple(row.index for row in self._table.rows if not row.ends and row.event.name in unseen)
        self._runs = run_tracker(self._stepping.steps(), self._memory, rows)
        self._fair: tuple[Fair, ...] = stated.claim.fair if isinstance(stated.claim, LeadsTo) else ()
        self._known: dict[tuple[frozenset[RunPlace], Stimulus, Response, bool], _Next] = {}
        self._beginning = frozenset(self._runs.beginning())
        self._due = list(range(len(self._memory.texts)))
        self.tried = False
        self.reset()

    def reset(self) -> None:
        """Start a new test; what other tests have met or tried is not forgotten."""
        self._places = self._beginning
        self._test: list[TestStep] = []
        self._going: set[str] = set()
        self._violated: Violated | None = None
        self._turns = list(range(len(self._fair)))
        self._waited = 0
        self._left = False
        self._asked_for = self._turn() if self._owed() else None

    def step(self, step: Stimulus, seen: Response) -> Violated | None:
        """Take one more *step* of a test, and what was *seen*; that the property is violated, once it is."""
        if self._violated is not None:
            return self._violated
        if self._table.machine.events[step.event].interrupts:
            self._going.clear()
        self._going = self._going | {step.event} if seen.reply is None else self._going - {step.event}
        busy = bool(self._going)
        self._test.append((step, seen, busy))
        # What was expected for is no evidence.
        known = (self._places, step._replace(expected=()) if step.expected else step, seen, busy)
        found = self._known.get(known)
        if found is None:
            if len(self._known) >= REMEMBERED:
                self._known.clear()
            found = self._known[known] = self._next(known[1], seen, busy=busy)
        if not found.explained and not self._left and (trails := self._runs.explaining(self._test)):
            found = self._met(trails, explained=True)
        self._places = found.places
        self._left = self._left or not found.explained
        self.tried = self.tried or found.asked
        if self._fair:
            self._wait(found.fair)
        if isinstance(self.of.claim, Reachable):
            self._meet()
        elif self._broken():
            self._violated = self._evidence()
        return self._violated

    def finish(self) -> Violated | None:
        """The test ends here: whether the target that is due comes no more, or the beginning was wrong already."""
        if self._violated is None and self._broken():
            self._violated = self._evidence()
        if self._violated is None and self._owed() and (self.due() is None or self._waited >= self.patience):
            self._violated = self._evidence(stopped=True)
        return self._violated

    def _broken(self) -> bool:
        """Whether every run that explains the test breaks the property."""
        return all(isinstance(place.progress, Broken) for place in self._places)

    def _next(self, step: Stimulus, seen: Response, *, busy: bool) -> _Next:
        return self._met(*self._runs.after(dict.fromkeys(self._places), step, seen, 1, busy=busy))

    def _met(self, trails: Trails, explained: bool) -> _Next:  # noqa: FBT001  (as the runs have it)
        moves = [each for trail in trails.values() for each in _trail(trail)]
        asked = any(
            isinstance(each.source.progress, tuple) and self._memory.asks(each.source.progress, each.moved)
            for each in moves
        )
        fair = frozenset(
            index
            for index, one in enumerate(self._fair)
            if isinstance(self._memory, Owing) and any(self._memory.waiting.takes(one, each.moved) for each in moves)
        )
        return _Next(frozenset(trails), explained, asked, fair)

    def _meet(self) -> None:
        rows = [place.progress for place in self._places if isinstance(place.progress, tuple)]
        if len(rows) == len(self._places):
            self._due = [index for index in self._due if any(row[index] != DONE for row in rows)]

    @property
    def unmet(self) -> tuple[str, ...]:
        """What should be reachable, and no test so far has certainly gone through; nothing for other claims."""
        if not isinstance(self.of.claim, Reachable):
            return ()
        return tuple(self._memory.texts[index] for index in self._due)

    def _owed(self) -> bool:
        """Whether the target is certainly due."""
        return isinstance(self._memory, Owing) and all(place.progress == (1,) for place in self._places)

    @property
    def patience(self) -> int:
        """As many fair steps in turn as may pass before the target comes, in a machine that has the property."""
        return len(self._table.states) * factorial(len(self._fair))

    def due(self) -> Stimulus | None:
        """What should happen next, to be fair, while the target is due: what can and had its turn longest ago.

        ``None`` if nothing is due, or if nothing that is fair can happen.
        """
        if not self._owed():
            return None
        index = self._turn()
        if index is None:
            return None
        fair = self._fair[index]
        stage: StimulusStage = "end" if fair.ends else "begin" if self._table.machine.events[fair.event].ends else "do"
        return Stimulus(fair.event, stage, (fair.outcome,) if fair.outcome else ())

    def _turn(self) -> int | None:
        if not isinstance(self._memory, Owing):
            return None
        waiting, states = self._memory.waiting, {place.state for place in self._places}
        return next(
            (each for each in self._turns if any(waiting.possible(self._fair[each], at) for at in states)), None
        )

    def _wait(self, taken: frozenset[int]) -> None:
        """Count the steps in which what had its turn was taken; who was taken waits for the others."""
        self._waited = self._waited + 1 if self._asked_for in taken else 0
        self._turns = [each for each in self._turns if each not in taken] + sorted(taken)
        self._asked_for = self._turn() if self._owed() else None

    def _evidence(self, *, stopped: bool = False) -> Violated:
        """What breaks the property: the test once more, remembering how each place was come to."""
        trails, _ = self._runs.along(self._test)
        place, trail = next(iter(trails.items()))
        moves = [] if isinstance(self._memory.start, Broken) else list(_trail(trail))
        initial = self._table.states[self._table.initial]
        taken = tuple(each.moved.taken for each in moves)
        which = place.progress.which if isinstance(place.progress, Broken) else 0
        last = next((index for index, each in enumerate(moves) if isinstance(each.to.progress, Broken)), len(moves) - 1)
        return Violated(
            of=self.of,
            run=Run(initial=initial, steps=taken[: last + 1], stopped=stopped),
            steps=_mattering(moves[: last + 1], self._memory.start),
            said=self._memory.texts[which],
            left=self._left,
        )

    def aims(self) -> tuple[Run, ...]:
        """Runs of the machine whose last steps put the property to the test; the shortest come first.

        Each goes by a way of its own, or through a history of its own.  Of a
        call that takes time each stage is a step.
        """
        found: dict[Run, None] = {}
        for claim in parts(self.of.claim):
            found.update(dict.fromkeys(self._asking(memory(claim, self._stepping, self._profile))))
        return tuple(sorted(found, key=lambda run: run.length))

    def _asking(self, remembered: PropertyMemory) -> Iterator[Run]:
        """The shortest runs to the steps that *remembered* asks about."""

        def following(place: RunPlace) -> Iterator[_Aim]:
            if isinstance(place.progress, tuple):
                for moved in self._runs.steps.after(place.state):
                    yield _Aim(moved, RunPlace(moved.way.to, remembered.after(place.progress, moved, "")))

        start = RunPlace(self._table.initial, remembered.start)
        search: BreadthFirst[RunPlace, _Aim] = BreadthFirst([start], following)
        asked: set[tuple[RunPlace, int]] = set()
        for edge in search:
            if len(search.depth) > AIMS:
                return
            place, index = search.node, edge.moved.way.index
            progress = place.progress
            if isinstance(progress, tuple) and (place, index) not in asked and remembered.asks(progress, edge.moved):
                asked.add((place, index))
                steps = tuple(each.moved.taken for each in search.path(edge))
                yield Run(initial=self._table.states[start.state], steps=steps)


class _Aim(NamedTuple):
    """A step of the machine, with what a property remembers afterwards."""

    moved: InstantStep
    to: RunPlace


def _trail(trail: RunTrail | None) -> Iterator[RunTrail]:
    """The steps of a run, the first one first."""
    steps = []
    while trail is not None:
        steps.append(trail)
        trail = trail.before
    yield from reversed(steps)


def _mattering(moves: list[RunTrail], start: Progress | Broken) -> tuple[int, ...]:
    """The steps of the test in which the run came nearer to its last progress, since it was last at its *start*."""
    numbers: list[int] = []
    for move in reversed(moves):
        if move.to.progress != move.source.progress:
            numbers.append(move.number)
        if move.source.progress == start:
            break
    return tuple(sorted(set(numbers)))
