"""Execute tests. Take steps on a SUT, judge each step, and record the coverage."""

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Final

from fsm.conformance.crash import RecordSnapshot, crashed, crashed_edge
from fsm.conformance.failure import Cover, FailedError, Failure, Taken, describe_error, listed
from fsm.conformance.oracle import Oracle, SelfJudging, point
from fsm.conformance.plan import IDLE, Edge, Point
from fsm.conformance.virtual_time import VirtualTimers
from fsm.machine.calls.configuration import Configurations
from fsm.monitor.property_watch import Watch
from fsm.sut import (
    SUT,
    BrokenError,
    Crashing,
    Detailed,
    Emitting,
    Overlapping,
    Remembering,
    Response,
    Retracting,
    Stimulus,
    Tidy,
    UnsupportedError,
    UntimelyError,
    arranger,
)
from fsm.trace import shown_text

PATIENCE: Final = 3  # number of attempts at a step if its outcome cannot be arranged


class Execution:
    """Takes steps on a SUT, and judges them by *oracle* or, if *watch* is given, only by its property.

    >>> from fsm.language.library import load
    >>> from fsm.conformance.oracle import oracle
    >>> from fsm.conformance.lookup import Simulated
    >>> door = load("examples/models/door.toml")
    >>> execution = Execution(oracle(door), Simulated(door))
    >>> execution.take(Stimulus("push", expected=("open",)))
    True
    >>> execution.trace[-1].seen.shows, len(execution.cover.cells)
    ('OPEN', 1)
    """

    def __init__(self, oracle: Oracle, sut: SUT, cover: Cover | None = None, watch: Watch | None = None) -> None:
        self.oracle, self.sut = oracle, sut
        self.cover = cover or Cover()
        self.watch = watch
        self.trace: list[Taken] = []
        self._failed_attempts: Counter[tuple[Point, Stimulus]] = Counter()
        self._uncertain: dict[tuple[Point, Stimulus, bool, bool], bool] = {}
        self.memory = RecordSnapshot(sut if isinstance(sut, Remembering) else None)
        # An isinstance() check against a protocol takes longer than a step, so each check is done only once.
        self._emitting = sut if isinstance(sut, Emitting) else None
        self._detailed = sut if isinstance(sut, Detailed) else None
        self._arrange = arranger(sut)
        self._overlapping = sut if isinstance(sut, Overlapping) else None
        self._judging = sut if isinstance(sut, SelfJudging) else None
        self.clock = VirtualTimers(oracle.plan, sut)
        self._retracting = sut if isinstance(sut, Retracting) else None
        self._tidy = sut if isinstance(sut, Tidy) else None
        self.died = False
        self._begin()

    def _begin(self) -> None:
        self.point: Point | None = self.oracle.plan.start
        self.belief = self.oracle.start
        self.trace.clear()
        self.clock.restart()
        self.failed = False
        if self.watch is not None:
            self.watch.reset()

    def restart(self) -> None:
        self._failed_attempts.clear()
        self.reset()

    def reset(self) -> None:
        self._begin()
        self.oracle.fields.kept.clear()
        try:
            self.sut.reset()
            shows = shown_text(self.sut.shows())
            self.cover.shown |= bool(shows)
            if self._emitting is not None:
                self._emitting.outputs()
            self.memory.look()
            self.clock.began()
        except (Exception, SystemExit) as error:
            raise FailedError(Failure(broken=f"the SUT cannot be reset: {describe_error(error)}")) from error
        table = self.oracle.plan.valued
        if shows and not table.matches(table.initial, shows):
            wrong = f"after a reset the SUT shows {shows}, but the initial state shows {table.shows[table.initial]}"
            raise FailedError(Failure(broken=wrong))

    def take(self, step: Stimulus) -> bool:
        """Take *step* if it applies and is supported. Return whether it was taken.

        Raise :class:`FailedError` if the response is not legal, and :class:`InputError` for an unknown field. If the
        time that passes prevents a judgement, begin a new test.
        """
        doing = (self.point, step.event, step.stage) if self.point is not None else None
        try:
            return self._take(step)
        except UntimelyError:
            self.cover.untimely.update([doing] if doing and step.stage != "wait" else [])
            self.reset()
            return False

    def _take(self, step: Stimulus) -> bool:
        if step.stage in {"crash", "wait"}:
            return self._crash(step) if step.stage == "crash" else self._wait(step.event)
        if self._is_inapplicable(step):
            return False
        over = self._wait_before(step)
        plan, here = self.oracle.plan, self.point
        known = plan.alternatives(here, step.event, step.stage, step.args) if here else ()
        wanted = plan.wanted(here, step) if here else None
        try:
            arranged = self._arrange_outcomes(step, wanted)
            seen = self._perform(step, over)
            arranged = arranged and (self._retracting is None or self._retracting.arranged())
            if arranged and wanted is not None:
                self.cover.arranged.add((wanted.source, wanted.step))
            fields = self._detailed.fields() if self._detailed is not None else None
        except UnsupportedError as error:
            return self._leave_out(step, error)
        except (Exception, SystemExit) as error:
            raise self._no_answer_error(step, error) from error
        self.cover.steps += 1
        self.cover.heard |= seen.outputs is not None
        self.cover.supported.add((step.event, step.stage))
        self.trace.append(Taken(step=step, seen=seen, point=self.point, passed=over))
        if (failed := self._other_fault(step, seen, fields)) is not None:
            raise failed
        after = self._legal(step, seen, fields or {})
        fit = [edge for edge in (*filter(None, [wanted]), *known) if after and self.oracle.fits(edge, seen)]
        self._count(step, fit[:1] if arranged and fit and fit[0] is wanted else fit, seen)
        if after:
            self._update(after, fit, seen, wanted=wanted, arranged=arranged)
        elif self.watch is not None or self._judging is not None:
            self.belief = self.oracle.anywhere(self.belief, step, seen)
            self.point = min(map(point, self.belief), default=None)
            self.clock.took(None)
        else:
            violation = self.oracle.violation(self.belief, step, seen, number=len(self.trace))
            hint = self.oracle.forgotten(step, seen, self.clock.fired(step, here))
            raise self._failure_error(Failure(violation=violation, hint=hint))
        if wrong := self.oracle.wrong_fields(step, seen, fields, after=after, number=len(self.trace)):
            raise self._failure_error(Failure(violation=wrong[0]))
        return True

    def _wait_before(self, step: Stimulus) -> int:
        """If a timer fires the event of *step*, wait as long as it may not fire, and return the time that is left."""
        if (timer := self.clock.fired(step, self.point)) is None:
            return 0
        self._wait(step.event)
        self.cover.timed[timer.name, "fired"] += 1
        return self.clock.over(timer)

    def _wait(self, event: str) -> bool:
        """Let time pass in which no timer may fire.  Return whether this was possible."""
        if (time := self.clock.room(event, self.point)) <= 0:
            return False
        step = Stimulus(event, "wait")
        try:
            seen = self._perform(step, time)
        except (Exception, SystemExit) as error:
            raise self._no_answer_error(step, error) from error
        self.trace.append(Taken(step=step, seen=seen, point=self.point, passed=time))
        tested, wrong = self.clock.waited(event, self.point, time)
        if not (after := self.oracle.quiet(self.belief, seen)) and self.watch is None:
            raise self._failure_error(wrong)
        self.belief = after or self.belief
        self.cover.timed.update(tested if seen.shows or seen.outputs else ())
        return True

    def _other_fault(self, step: Stimulus, seen: Response, fields: Mapping[str, object] | None) -> FailedError | None:
        if self.watch is not None and (violated := self.watch.step(step, seen, fields)) is not None:
            return self._failure_error(Failure(breaks=violated))
        if self._judging is not None and (illegal := self._judging.violation()) is not None:
            return self._failure_error(Failure(violation=illegal))
        self.oracle.refuse_unknown(fields or ())
        return None

    def _legal(self, step: Stimulus, seen: Response, fields: Mapping[str, int | str]) -> Configurations:
        after, valued = self.oracle.legal(self.belief, step, seen), self.oracle.plan.valued
        try:
            left = self.oracle.showing(after, fields)
        except ValueError as error:
            raise self._failure_error(Failure(broken=f"the SUT shows a wrong value: {error}")) from error
        if after and not left and self.watch is None:
            shown = ", ".join(f"{name} = {value}" for name, value in fields.items() if name in valued.machine.data)
            legal = " or ".join(sorted({valued.named(each.state) for each in after}))
            raise self._failure_error(Failure(broken=f"the SUT shows {shown}, but legal would be: {legal}"))
        return left

    def _failure_error(self, why: Failure) -> FailedError:
        self.failed = True
        return FailedError(replace(why, trace=(*self.trace, *why.trace)))

    def _leave_out(self, step: Stimulus, error: UnsupportedError) -> bool:
        if self.point is not None:
            self.cover.leave_out((self.point, step.event, step.stage), str(error))
        return False

    def _no_answer_error(self, step: Stimulus, error: BaseException) -> FailedError:
        trace = (Taken(step=step, seen=None, point=self.point),)
        return self._failure_error(Failure(trace=trace, broken=describe_error(error)))

    def _count(self, step: Stimulus, fit: Iterable[Edge], seen: Response) -> None:
        plan = self.oracle.plan
        table, points = plan.table, {plan.bare(point(each)) for each in self.belief}
        row = table.row[step.event]
        states = {each.state for each in points}
        first = [(table.end[row] if step.stage == "end" else row, state) for state in sorted(states)]
        if len(states) > 1 or (step.stage == "end" and {each.call for each in points} != {row}):
            self.cover.ambiguous.update(pair for pair in first if table.step(pair[1], pair[0]) != ())
            return
        certain = [frozenset(edge.cells) for edge in fit]
        pairs = {*first, *(frozenset.intersection(*certain) if certain else ())}
        self.cover.cells.update(pairs)
        if seen.outputs is not None:
            self.cover.compared.update(pairs)

    def _update(
        self, after: Configurations, fit: list[Edge], seen: Response, *, wanted: Edge | None, arranged: bool
    ) -> None:
        """Update the belief and the point after a legal step. *fit* has the edges that explain it, best first."""
        went = fit[0] if fit else None
        self.clock.took(went)
        if arranged and went is wanted and self.watch is None and not self.oracle.dynamics.unseen:
            # The SUT promised this outcome. Rule out the configurations that result from other outcomes.
            after = frozenset(each for each in after if wanted is not None and point(each) == wanted.to) or after
        self.belief = after
        if wanted is not None and went is not wanted:
            if arranged and wanted.to is not None and self.watch is None:
                ends = {",".join(way.name for way in edge.ways) for edge in fit}
                instead = f"as {ends.pop()}" if len(ends) == 1 else "with a different outcome"
                arranging = getattr(self.sut, "arranging", "SUT promised")
                what = f"{arranging} the outcome {wanted.step}, but the event ended {instead}"
                row, state = next(cell for cell, chosen in zip(wanted.cells, wanted.choice, strict=True) if chosen)
                cell = self.oracle.plan.table.cell(state, row)
                raise self._failure_error(Failure(broken=what, clause=cell.clause if cell else None))
            self._failed_attempts[wanted.source, wanted.step] += 1
            if len({edge.step for edge in fit}) == 1:
                self.trace[-1] = replace(self.trace[-1], came=fit[0].step)
            # Property tests never give up a step, because behaviour that contradicts the model may break the property.
            often = self._failed_attempts[wanted.source, wanted.step] == PATIENCE or self.oracle.overtaken(wanted)
            if self.watch is None and often:
                self.cover.give_up(wanted)
        if went is not None:
            self.cover.add(went, self.oracle.plan)
        if self.watch is None:
            try:
                fault = self.memory.fault(self.oracle.plan.table, went, seen)
            except (Exception, SystemExit) as error:
                raise self._failure_error(Failure(broken=describe_error(error))) from error
            if fault:
                raise self._failure_error(Failure(broken=fault))
        first, *others = {point(each) for each in after}
        self.point = (went.to if went else None) or (None if others else first)

    def finish(self) -> None:
        """End the test. If there is a property, first take the steps that fairness requires, and then check it."""
        if self.watch is None:
            if self._tidy is not None and (left := self._tidy.leftovers()) and not self.failed:
                raise self._failure_error(Failure(broken=f"after the test, {left}", at_end=True))
            return
        for _ in range(self.watch.patience + 1):
            if (due := self.watch.due()) is None:
                break
            if not self.take(due):
                return  # The SUT does not support the fair event.
        if (violated := self.watch.finish()) is not None:
            raise self._failure_error(Failure(breaks=violated))

    def _crash(self, step: Stimulus) -> bool:
        edge = crashed_edge(self.oracle.plan.leaving(self.point), step) if self.point else None
        if edge is None or not isinstance(self.sut, Crashing):
            return False
        path = tuple(taken.step for taken in self.trace)
        event = (*path, step._replace(point=0))
        whole = self.cover.whole.get(event)
        try:
            self.died, shows, fault, self.cover.whole[event] = crashed(
                self.oracle.plan, self.sut, edge, step, lambda: Execution(self.oracle, self.sut).replay(path), whole
            )
        except UnsupportedError as error:
            self.died = False
            return self._leave_out(step, error)
        except FailedError:
            raise
        except (Exception, SystemExit) as error:
            raise self._no_answer_error(step, error) from error
        self.cover.steps += 1
        self.trace.append(Taken(step=step, seen=Response(shows=shows), point=self.point))
        self.point = None
        self.clock.took(None)
        if fault:
            raise self._failure_error(Failure(broken=fault))
        return True

    def _is_inapplicable(self, step: Stimulus) -> bool:
        plan = self.oracle.plan
        if step.event not in plan.table.row or (self.point, step.event, step.stage) in self.cover.unsupported:
            return True
        going = {plan.bare(point(each)).call for each in self.belief}
        if (timer := self.clock.fired(step, self.point)) is not None and not self.clock.possible(timer, self.point):
            self.cover.untimely.update(self.clock.untimely(timer, self.point))
            return True
        if step.stage == "do":
            return all(plan.valued.step(each.state, plan.row(step)) == () for each in self.belief)
        if self._overlapping is None:
            return True
        return plan.table.row[step.event] not in going if step.stage == "end" else going != {IDLE}

    def _arrange_outcomes(self, step: Stimulus, wanted: Edge | None) -> bool:
        if self._arrange is None:
            return False
        chosen = wanted.choice if wanted else (True,) * len(step.expected)
        arranged = any(chosen)
        for number, (outcome, choice) in enumerate(zip(step.expected, chosen, strict=False)):
            if choice and not self._arrange(step.event, outcome, self.oracle.plan.stage(step, number)):
                self.cover.unarranged.add((step.event, outcome))
                arranged = False
        return arranged

    def _perform(self, step: Stimulus, time: int) -> Response:
        """Perform *step*, or let *time* pass if it is not 0."""
        tested = self._overlapping if step.stage in {"begin", "end"} else self.sut
        if tested is None:
            raise UnsupportedError(step.event)
        reply = self.clock.pass_time(time) if time else getattr(tested, step.stage)(step.event, **dict(step.args))
        self.clock.note_time(step, self.point, time)
        shows = shown_text(self.sut.shows())
        outputs = self._emitting.outputs() if self._emitting is not None else None
        if not (reply is None or isinstance(reply, str)):
            raise BrokenError(f"the SUT replied {reply!r} to {step.event}, but a reply must be text")
        table, row = self.oracle.plan.valued, self.oracle.plan.row(step)
        kind = table.machine.events[step.event].kind
        if kind == "call" and reply == "" and any(table.step(each.state, row) is not None for each in self.belief):
            raise BrokenError(f"the SUT gave no reply to {step.event}, but a call must reply ok or an error code")
        if shows and not table.is_known(shows):
            known = listed(shows, (shown_text(each.parts) or each.shows for each in table.machine.states.values()))
            raise BrokenError(f"the SUT shows {shows!r}, which no state shows; the states show {known}")
        emitted = None if outputs is None else tuple(outputs)
        return Response(reply="" if kind != "call" else reply, shows=shows, outputs=emitted)

    def aim(self, edge: Edge) -> bool:
        """Go to the source of *edge*, and take *edge*. Return whether it had the expected outcome."""
        astray: Counter[tuple[Point | None, Stimulus]] = Counter()
        plan = self.oracle.plan
        longest = len(plan.path(plan.start, edge.source) or ()) if plan.boundaries else 0
        for _ in range(PATIENCE * max(len(plan.table.states), longest + 1)):
            if self.cover.avoided(edge):
                return False
            path = self._path(self.point, edge.source) if self.point else None
            if self.point is None or path is None:
                if not self.trace:
                    return False
                self.reset()
                continue
            here, following = self.point, (*path, edge)[0]
            if not self.take(following.step):
                if following is edge or not self.cover.avoided(following):
                    return False
            elif following is edge and self._failed_attempts[here, edge.step] not in range(1, PATIENCE):
                return self._failed_attempts[here, edge.step] == 0
            elif following.to not in {None, self.point}:
                astray[here, following.step] += 1
                if astray[here, following.step] > PATIENCE:  # The step worked before, so give_up() does not apply.
                    return False
        return False

    def _path(self, here: Point, target: Point) -> tuple[Edge, ...] | None:
        path = self.oracle.plan.path
        sure = path(here, target, without=lambda edge: self.cover.avoided(edge) or self._is_uncertain(edge))
        return path(here, target, without=self.cover.avoided) if sure is None else sure

    def _is_uncertain(self, edge: Edge) -> bool:
        arranged = not any(edge.choice) or (edge.source, edge.step) in self.cover.arranged
        if (arranged and not self.oracle.dynamics.unseen) or not self.cover.took(edge):
            return False
        at = (edge.source, edge.step, self.cover.shown, self.cover.heard)
        if at not in self._uncertain:  # Searches for paths ask about the same edges many times.
            seen = self.oracle.expected_response(edge, shown=self.cover.shown, emitted=self.cover.heard)
            self._uncertain[at] = not self.oracle.leads(edge, seen)
        return self._uncertain[at]

    def replay(self, steps: Iterable[Stimulus]) -> None:
        self.reset()
        for step in steps:
            self.take(step)
        self.finish()
