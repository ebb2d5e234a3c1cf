"""Watch whether the steps of an implementation violate a property.

Several runs of the machine may explain the same observations. A property is *violated* only if all of these runs break
it. An implementation that conforms to the machine therefore never violates a property that the checker has proved. If
no run of the machine explains a step of an implementation, the implementation may be in any state that shows the value
that the test has read.

No test sees an infinite run. To test that a target is reached eventually, a test takes only fair steps, in turn
(:meth:`Watch.due`). The target must be reached while a fair step is still possible, and within the number of steps that
a machine with the property may need.
"""

import itertools
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import lru_cache
from math import factorial
from typing import Final, NamedTuple, TypeAlias

from fsm.checker.instants import InstantStep
from fsm.checker.safety import DONE
from fsm.machine import Machine
from fsm.machine.calls import HELD
from fsm.machine.calls.belief import Dynamics, dynamics, stepped
from fsm.machine.calls.configuration import Configuration, Configurations, Pending
from fsm.machine.claims import Always, Fair, Follows, LeadsTo, MatchesDiagram, Never, Property, Reachable, Refines
from fsm.machine.conditions import SilentOn, atoms
from fsm.machine.evidence import Run
from fsm.machine.guards import has_data
from fsm.machine.table import Way, tabulate
from fsm.machine.terms import Variable
from fsm.machine.traversal import BreadthFirst, Numbering
from fsm.monitor.property_watch.automata import Broken, Owing, ValuedSteps, parts, steps_of, watched_table
from fsm.monitor.property_watch.property_product import PropertyProduct, RunPlace
from fsm.sut import Response, Stimulus, StimulusStage

REMEMBERED: Final = 20_000

AIMS: Final = 20_000

AIMS_WITH_DATA: Final = 300
"""Maximum number of runs of a machine with data to test. They differ in values, and shorter runs come first."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Violated:
    """A violation of a property by an implementation.

    ``steps`` are the numbers of the test steps that matter, starting at 1, and ``text`` describes their sequence.
    ``stopped`` is true if the target was due but not reached. ``left`` is true if no run of the machine explains the
    observations.
    """

    of: Property
    steps: tuple[int, ...]
    text: str
    stopped: bool = False
    left: bool = False


def untestable(stated: Property, machine: Machine | None = None) -> str:
    """Return the reason why no test can decide *stated*, or an empty string if a test can.

    If the *machine* is given, the reason may be its data.

    >>> from fsm.language.library import specification
    >>> [each.name for each in specification("examples/models/washer.toml").properties if untestable(each)]
    ['nothing-is-left-open']
    """
    data = machine is not None and has_data(machine)
    match stated.claim:
        case Follows(other=other) | Refines(other=other) if has_data(other):
            return f"{other.name} has data, and recordings are not compared with machines that have data"
        case LeadsTo() if data:
            return "the machine has data, so the number of steps to the target has no limit"
        case MatchesDiagram():
            return "the property compares the machine with a drawing, which an implementation does not have"
        case Always(conditions=conditions):
            means = [each.means for each in conditions]
        case Never(sequences=sequences) | Reachable(sequences=sequences):
            means = [each.means for sequence in sequences for each in sequence]
        case _:
            return ""
    if all(isinstance(part, SilentOn) for each in means for part in atoms(each)):
        return "the property is about the text of the model, not about the behaviour of an implementation"
    return ""


_PossibleStep: TypeAlias = tuple[RunPlace, InstantStep]


class _AimPlace(NamedTuple):
    """A node in the search for runs that test the property.

    ``number`` is the number of a place in the product. ``by`` is the index of the way that most recently changed the
    progress of the property, or -1 if no way has changed it.
    """

    number: int
    by: int = -1


class _AimMove(NamedTuple):
    to: _AimPlace
    way: Way


class _Next(NamedTuple):
    """The configurations ``after`` a step, and the effect of the step on the property.

    ``moves`` is the :class:`Dynamics` object that explains the step, or ``None``. ``asked`` is true if the step tested
    the property. ``fair`` contains the indices of the fair steps that may have been taken.
    """

    after: Configurations
    moves: Dynamics | None = None
    asked: bool = False
    fair: frozenset[int] = frozenset()


def _fits(variable: Variable, value: object) -> bool:
    try:
        variable.encoded(value)
    except ValueError:
        return False
    return True


class Watch:
    """Watches whether a tested implementation violates *stated*, a property of *machine* under *profile*.

    If nothing else explains an observation, the events in *unseen* may have happened between the steps of a test. By
    default, these are the machine's hidden events. Raise :class:`ValueError` if the property is :func:`untestable`.

    >>> from fsm.language.library import specification
    >>> from fsm.sut import Response
    >>> of = specification("examples/models/door.toml")
    >>> stated = next(each for each in of.properties if each.name == "pull-is-idempotent")
    >>> watch = Watch(of.machine, stated)
    >>> for event, reply in (("push", "ok"), ("pull", "ok"), ("pull", "NOT_FOUND")):
    ...     violated = watch.step(Stimulus(event), Response(reply=reply, shows="SHUT"))
    >>> violated.steps, violated.text
    ((2, 3), 'pull then pull')
    """

    def __init__(
        self, machine: Machine, stated: Property, *, profile: str | None = None, unseen: Collection[str] | None = None
    ) -> None:
        if why := untestable(stated, machine):
            raise ValueError(f"{stated.name} cannot be tested: {why}")
        self.of, self._profile = stated, profile
        table = tabulate(machine.under(profile))
        self._stepping = steps_of(table)
        self._table = watched_table(self._stepping)
        if unseen is None:
            unseen = [row.event.name for row in self._table.rows if row.event.kind == "hidden"]
        self._product = PropertyProduct(self._stepping, stated.claim, profile)
        self._memory = self._product.memory
        rows = tuple(row.index for row in self._table.rows if not row.ends and row.event.name in unseen)
        bare = replace(self._product.dynamics(dynamics(self._table)), unseen=())
        self._moves = (bare, replace(bare, unseen=rows)) if rows else (bare,)
        begins = [(table.origin[way.index][0], way.to) for way in table.ways if way.begins]
        self._begun = frozenset((self._table.end.get(row, row), state) for row, state in begins)
        self._fair: tuple[Fair, ...] = stated.claim.fair if isinstance(stated.claim, LeadsTo) else ()
        self._next = lru_cache(REMEMBERED)(self._effect)
        self._due = list(range(len(self._memory.texts)))
        self.tried = False
        self.reset()

    def reset(self) -> None:
        """Start a new test, but keep the results of earlier tests (``tried`` and ``unmet``)."""
        self._belief = frozenset([Configuration(0)])
        self._violated: Violated | None = None
        self._test: list[tuple[Stimulus, Response, _Next]] = []
        self._turns, self._waited = list(range(len(self._fair))), 0
        self.left = False
        """Whether no run of the machine explains the observations."""
        self._asked_for = self._next_fair_step()

    def step(self, step: Stimulus, seen: Response, fields: Mapping[str, object] | None = None) -> Violated | None:
        """Process the next *step* of a test and its response *seen*. Return the violation if there is one.

        *fields* may contain the values of shown variables.
        """
        if self._violated is not None:
            return self._violated
        data = self._table.machine.data
        known = ((data[name], value) for name, value in (fields or {}).items() if name in data)
        shown = {each.name: each.written(each.encoded(value)) for each, value in known if _fits(each, value)}
        # The expectations of a test are not evidence.
        step = step._replace(expected=(), args=tuple(sorted((dict(step.args) | shown).items())))
        found = self._next(self._belief, step, seen)
        self._test.append((step, seen, found))
        if found.moves is None and not self.left:
            found = self._explained_by_unseen_events() or found
        self._belief = found.after
        self.left = self.left or found.moves is None
        self.tried = self.tried or found.asked
        if self._fair:
            # Move the fair steps that were taken to the end of the queue.
            self._waited = self._waited + 1 if self._asked_for in found.fair else 0
            self._turns = [each for each in self._turns if each not in found.fair] + sorted(found.fair)
            self._asked_for = self._next_fair_step()
        if isinstance(self.of.claim, Reachable):
            places = self._product.progress_of(self._belief)
            rows = [progress for progress in places if isinstance(progress, tuple)]
            if len(rows) == len(places):
                self._due = [index for index in self._due if any(row[index] != DONE for row in rows)]
        elif self._is_broken():
            self._violated = self._evidence()
        return self._violated

    def finish(self) -> Violated | None:
        """End the test. Return a violation if a due target was not reached or if the initial state is wrong."""
        if self._violated is None:
            broken, waited = self._is_broken(), self.due() is None or self._waited >= self.patience
            if broken or (self._is_target_due() and waited):
                self._violated = self._evidence(stopped=not broken)
        return self._violated

    def _is_broken(self) -> bool:
        return all(isinstance(progress, Broken) for progress in self._product.progress_of(self._belief))

    def _effect(self, before: Configurations, step: Stimulus, seen: Response) -> _Next:
        for moves in self._moves:
            if after := stepped(moves, before, step, seen):
                return self._with_evidence(_Next(after, moves), self._possible_steps(before, step, seen, after))
        left = [each for here in sorted(before) for each in self._unspecified_steps(here, step, seen)]
        return self._with_evidence(_Next(frozenset(to for to, _ in left)), [moved for _, moved in left])

    def _explained_by_unseen_events(self) -> _Next | None:
        moves, after = self._moves[-1], frozenset([Configuration(0)])
        steps = []
        for step, seen, _ in self._test:
            before, after = after, stepped(moves, after, step, seen)
            steps.append((step, seen, _Next(after, moves)))
        if not after:
            return None
        self._test = steps
        return self._with_evidence(_Next(after, moves), self._possible_steps(before, step, seen, after))

    def _with_evidence(self, found: _Next, taken: Iterable[_PossibleStep]) -> _Next:
        moves, fair = [*taken], frozenset[int]()
        asked = any(isinstance(at.progress, tuple) and self._memory.asks(at.progress, moved) for at, moved in moves)
        if isinstance(self._memory, Owing):
            takes = self._memory.waiting.takes
            fair = frozenset(at for at, one in enumerate(self._fair) if any(takes(one, moved) for _, moved in moves))
        return found._replace(asked=asked, fair=fair)

    def _possible_steps(
        self, before: Configurations, step: Stimulus, seen: Response, after: Configurations
    ) -> Iterator[_PossibleStep]:
        row, reached = self._row(step), {each.state for each in after}
        end = self._table.end.get(row, row)
        stages = Numbering((each.state, at) for each in before for at in self._rows_of(each, step))
        for number, at in stages.listed:  # The list grows during the loop.
            for way in self._product.step(number, at) or ():
                moved = self._product.places[number], self._product.taken[way.index]
                if way.begins and step.stage == "do":
                    yield moved
                    stages[way.to, end]  # A look-up adds the stage.
                fits = way.begins == (seen.reply is None) and (not way.reply or way.replies(seen.reply or ""))
                if fits and way.to in reached:
                    yield moved

    def _unspecified_steps(
        self, here: Configuration, step: Stimulus, seen: Response
    ) -> Iterator[tuple[Configuration, _PossibleStep]]:
        table, product = self._table, self._product
        row = self._row(step)
        end = table.end.get(row, row)
        pending = (Pending(row, HELD, 0),) if seen.reply is None else () if step.stage == "end" else here.pending
        pending = () if table.rows[row].event.interrupts else pending
        showing = table.showing(seen.shows) if seen.shows else table.anywhere
        reached = [state for state in showing or table.anywhere if state in product.reached]
        begins, likely = seen.reply is None, reached
        if begins:
            likely = [state for state in reached if (table.rows[end].index, state) in self._begun]
        elif not pending:
            busy = {state for _, state in self._begun}
            likely = [state for state in reached if state not in busy]
        reply = (seen.reply or "") if table.rows[row].event.kind == "call" else ""
        starts = {(here.state, at) for at in self._rows_of(here, step)}
        if step.stage == "do":
            starts |= {(way.to, end) for way in product.step(here.state, row) or () if way.begins}
        targets = itertools.product(sorted(starts), product.outputs(row, seen.outputs), likely or reached or showing)
        for (number, at), emits, bare in targets:
            place, state = product.places[number], table.learned(bare, dict(step.args))
            to, moved = product.unspecified(place, at, state, reply=reply, emits=emits, begins=begins)
            yield Configuration(product.number(to), pending), (place, moved)

    def _row(self, step: Stimulus) -> int:
        return self._table.placed(self._table.row[step.event], dict(step.args))

    def _rows_of(self, here: Configuration, step: Stimulus) -> set[int]:
        """Return the rows in which *step* may act. The end of a call has the arguments of its beginning."""
        table, row = self._table, self._row(step)
        if step.stage != "end":
            return {row}
        going = {call.row for call in here.pending if table.agree(call.row, row)} or {row}
        return {table.end.get(each, each) for each in going}

    @property
    def unmet(self) -> tuple[str, ...]:
        """The sequences of a reachable claim that no test has certainly completed. Other claims have no sequences."""
        if not isinstance(self.of.claim, Reachable):
            return ()
        return tuple(self._memory.texts[index] for index in self._due)

    def _is_target_due(self) -> bool:
        return isinstance(self._memory, Owing) and self._product.progress_of(self._belief) == {(1,)}

    @property
    def patience(self) -> int:
        """Maximum number of fair steps that a machine with the property needs to reach the target."""
        return len(self._table.states) * factorial(len(self._fair))

    def due(self) -> Stimulus | None:
        """Return a possible fair step, the least recently taken, or ``None`` if there is none or no target is due."""
        if (index := self._next_fair_step()) is None:
            return None
        fair = self._fair[index]
        stage: StimulusStage = "end" if fair.ends else "begin" if self._table.machine.events[fair.event].ends else "do"
        return Stimulus(fair.event, stage, (fair.outcome,) if fair.outcome else ())

    def _next_fair_step(self) -> int | None:
        possible = (each for each in self._turns if any(self._is_possible(self._fair[each], at) for at in self._belief))
        return next(possible, None) if self._is_target_due() else None

    def _is_possible(self, fair: Fair, here: Configuration) -> bool:
        """Check whether *fair* is possible. A call in progress can end even if no cell specifies its end."""
        machine, row = self._product.machine, self._table.row[fair.event]
        if fair.ends and all(call.row != row for call in here.pending):
            return False
        ways = machine.step(self._product.places[here.state].state, machine.end[row] if fair.ends else row) or ()
        return any(fair.outcome in {"", way.name} for way in ways) or (fair.ends and not (ways or fair.outcome))

    def _evidence(self, *, stopped: bool = False) -> Violated:
        runs = {Configuration(0): [0]}
        for step, seen, found in self._test:
            after: dict[Configuration, list[int]] = {}
            for here, run in runs.items():
                if found.moves is None:
                    left = frozenset(to for to, _ in self._unspecified_steps(here, step, seen))
                else:
                    left = stepped(found.moves, frozenset([here]), step, seen)
                for to in sorted(left):
                    after.setdefault(to, [*run, to.state])
            runs = after
        passed = [self._product.places[number].progress for number in next(iter(runs.values()))]
        last = next((at for at, progress in enumerate(passed) if isinstance(progress, Broken)), len(passed) - 1)
        first = max((at for at in range(last) if passed[at] == self._memory.start), default=0)
        steps = tuple(at for at in range(first + 1, last + 1) if passed[at] != passed[at - 1])
        ended = passed[last]
        text = self._memory.texts[ended.which if isinstance(ended, Broken) else 0]
        return Violated(of=self.of, steps=steps, text=text, stopped=stopped, left=self.left)

    def aims(self) -> tuple[Run, ...]:
        """Return runs of the machine whose last steps test the property, with shorter runs first.

        Runs that have the same last step differ in the progress of the property before that step. Each stage of a call
        that takes time counts as a step.
        """
        found: dict[Run, None] = {}
        data = self._table.data
        stepping = ValuedSteps(self._table, declared=True) if data else self._stepping
        for claim in parts(self.of.claim):
            found.update(dict.fromkeys(self._testing_runs(PropertyProduct(stepping, claim, self._profile))))
        return tuple(sorted(found, key=lambda run: run.length))[: AIMS_WITH_DATA if data else None]

    def _testing_runs(self, product: PropertyProduct) -> Iterator[Run]:
        def following(here: _AimPlace) -> Iterator[_AimMove]:
            place = product.places[here.number]
            if not isinstance(place.progress, tuple):
                return
            for row in self._table.rows:
                for way in product.step(here.number, row.index) or ():
                    changed = product.places[way.to].progress != place.progress
                    yield _AimMove(_AimPlace(way.to, product.taken[way.index].way.index if changed else here.by), way)

        search: BreadthFirst[_AimPlace, _AimMove] = BreadthFirst([_AimPlace(0)], following)
        asked: set[tuple[_AimPlace, int]] = set()
        for leading in search:
            if len(search.depth) > AIMS or (product.machine.data and len(asked) > AIMS_WITH_DATA):
                return
            step, progress = product.taken[leading.way.index], product.places[search.node.number].progress
            which = (search.node, step.way.index)
            if isinstance(progress, tuple) and which not in asked and product.memory.asks(progress, step):
                asked.add(which)
                steps = tuple(product.taken[each.way.index].taken for each in search.path(leading))
                yield Run(initial=self._table.states[self._table.initial], steps=steps)
