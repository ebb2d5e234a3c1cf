"""Beliefs about an entity, that is, sets of configurations that it may be in.

An observation removes the configurations that do not explain it, and adds every configuration that unobserved steps
can reach from the others (:mod:`~fsm.machine.calls.unobserved`).
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass, replace

from msgspec import structs

from fsm.machine.calls import ASKED, BEGUN, CUT, ENDED, FREE, HELD, LOST, LOST_BEGUN, CallInstant, Rules, finals
from fsm.machine.calls.clocks import RunningTimers
from fsm.machine.calls.configuration import (
    Configuration,
    Configurations,
    Covering,
    Pending,
    bits,
    each_with_rest,
    late,
    numbers,
    plus,
)
from fsm.machine.calls.unobserved import Unobserved, tried, with_deviation
from fsm.machine.table import Table, Way
from fsm.sut import Response, Stimulus
from fsm.trace import ABSENT, Key, Observation, key


@dataclass(frozen=True, slots=True, kw_only=True)
class Remainder:
    """The configurations that remain possible after an observation.

    ``cells`` are the (row, state) cells that the observation must have used.  ``unspecified`` is true if the
    observation is legal only because the specification is silent.  After a whole call, ``passed`` is the bit set of
    the states that the entity may have been in during the call.
    """

    configurations: Configurations
    cells: frozenset[tuple[int, int]] = frozenset()
    unspecified: bool = False
    passed: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Dynamics(Unobserved):
    def observed(self, before: Configurations, seen: Key, since: int = 0) -> Remainder:
        """Return the configurations that remain possible after the observation *seen*.

        *before* must be closed, and so is the result.  *since* is the bit set of states in which a call whose request
        was not recorded may have taken effect.  By default, these are the states of *before*.
        """
        row, phase, shows, output = self.place(seen), seen.phase, seen.shows, seen.output
        before = self.started(before)
        kept = Remainder(configurations=before)
        if output:
            kept = self._after_output(before, output)
            before = self.closed(kept.configurations)
        elif self.calls(row):
            match phase:
                case "request":
                    before = self.asked(before, row)
                case "lost":
                    before = self._after_lost_call(before, row)
                case "maybe" | "noticed":
                    before = self._after_lost_call(self.asked(before, row), row)
                case "answered":
                    ways = (way for _, way in self.answering(numbers(since or bits(before)), seen))
                    answers = _required_deviations(ways)
                    # The call took effect either before the last observation or after it.
                    acted = self._after_reply(self.asked(before, row), row, seen).configurations
                    already = {with_deviation(each, deviation) for each in before for deviation in answers}
                    before = self.closed(self.started(already | acted)) if answers else frozenset()
                case "":
                    asked = self.asked(before, row)
                    kept = replace(self._after_reply(asked, row, seen), passed=self.bits(asked))
                    before = self.without_a_call(self.started(kept.configurations))
                case _:
                    kept = self._after_reply(before, row, seen)
                    before = self.without_a_call(kept.configurations)
        elif row >= 0:
            kept = self._after_event(before, row, seen.emits, phase)
            before = self.closed(self.started(kept.configurations))
        else:  # timers may start after this observation, too
            before = self.closed(before) if self.timers else before
        if shows or seen.args:
            before = self.closed(self.started(self.showing(before, seen)))
        return replace(kept, configurations=before)

    def _after_output(self, before: Configurations, output: str) -> Remainder:
        cells = frozenset(
            (row, each.state)
            for each in before
            if not each.queue
            for row in self.unseen
            for instant in self.rules.instants(each.state, row)
            if instant.way is None or instant.emits[:1] == (output,)
        )
        # If a way emits *output* after another output, *output* may come from an event that happened earlier.
        certain = len(cells) == 1 and not any(output in way.emits[1:] for way in self.table.ways)
        left = frozenset(each._replace(queue=each.queue[1:]) for each in before if each.queue[:1] == (output,))
        return Remainder(configurations=left, cells=cells if certain else frozenset())

    def row(self, event: str) -> int:
        return self.names.get(event, -1)

    def key(self, seen: Observation) -> Key:
        """Return the fields of *seen* that affect legality, including the shown values of variables."""
        if seen.fields and (data := self.table.machine.data):
            shown = {name: value for name, value in seen.fields.items() if name in data}
            seen = structs.replace(seen, args={**(seen.args or {}), **shown})
        return key(seen)

    def place(self, seen: Key) -> int:
        """Return the row of the event of *seen* with its arguments, or -1 if it is not an event of the machine."""
        row = self.row(seen.event)
        return self.table.placed(row, dict(seen.args)) if seen.args and row >= 0 else row

    def showing(self, those: Iterable[Configuration], seen: Key) -> Iterator[Configuration]:
        """Yield the configurations that may show the state and the values in *seen*, with these values."""
        table, shows, given = self.table, seen.shows, dict(seen.args)
        for each in those:
            if (not shows or table.matches(each.state, shows)) and (state := table.learned(each.state, given)) >= 0:
                yield each if state == each.state else each._replace(state=state)

    def bits(self, configurations: Configurations) -> int:
        """Return the states of *configurations* as a bit set, ignoring the values of variables."""
        if self.table.data is None:
            return bits(configurations)
        return sum(1 << state for state in {self.table.bare(each.state) for each in configurations})

    def calls(self, row: int) -> bool:
        return row >= 0 and self.table.rows[row].event.kind == "call"

    def understood(self, met: str) -> str:
        """Return *met*, or an empty string if *met* is :data:`ABSENT` and no state of the machine shows that value."""
        return "" if met == ABSENT and not self.table.showing(met) else met

    def asked(self, before: Configurations, row: int) -> Configurations:
        return self.closed(self.requested(before, row))

    def requested(self, before: Iterable[Configuration], row: int) -> Iterator[Configuration]:
        for state, pending, queue, deviations, clocks in before:
            yield Configuration(state, plus(pending, Pending(row, ASKED, 1 << state)), queue, deviations, clocks)

    def waits(self, before: Iterable[Configuration], row: int) -> bool:
        agree = self.table.agree
        return any(call.stage > LOST and agree(call.row, row) for each in before for call in each.pending)

    def released(self, before: Iterable[Configuration], row: int) -> Iterator[Configuration]:
        """Let a held call of the event of *row* continue."""
        for here in before:
            rests = each_with_rest(here.pending)
            held = ((call, rest) for call, rest in rests if call.stage == HELD and self.table.agree(call.row, row))
            call, rest = next(held, (None, ()))
            yield here._replace(pending=plus(rest, call._replace(stage=BEGUN))) if call else here

    def unasked(self, before: Configurations, seen: Key) -> bool:
        row = self.place(seen)
        return seen.phase in {"reply", "lost"} and self.calls(row) and not self.waits(before, row)

    def _after_reply(self, before: Configurations, row: int, seen: Key) -> Remainder:
        known: dict[tuple[Pending, int, bool], Fit | None] = {}
        found = [ended for each in before for ended in self.ended(each, row, seen, known)]
        cells = {fit.cells for fit, _ in found}
        certain = frozenset.intersection(*cells) if cells and seen.reply else frozenset()
        unspecified = bool(found) and all(fit.unspecified for fit, _ in found)
        return Remainder(configurations=frozenset(left for _, left in found), cells=certain, unspecified=unspecified)

    def ended(
        self, here: Configuration, row: int, seen: Key, known: dict[tuple[Pending, int, bool], Fit | None]
    ) -> Iterator[tuple[Fit, Configuration]]:
        """Yield each explanation of the response *seen*, with the configuration after the call.

        *known* is a cache of explanations.
        """
        alone = self.timers is not None and self.alone(here)
        state, pending, queue, deviations, clocks = here
        for call, others in each_with_rest(pending):
            if not self.table.agree(call.row, row):
                continue
            at = (call, state, alone)
            if at not in known:
                known[at] = self._fit_response(here, call, seen)
            if (fit := known[at]) is not None:
                left = Configuration(state, others, queue, deviations, clocks)
                for deviation in fit.deviations:
                    yield fit, with_deviation(left, deviation)

    def _fit_response(self, here: Configuration, call: Pending, seen: Key) -> Fit | None:
        """Return the explanation of *seen* as the response to *call*, or ``None`` if there is none."""
        reply, met, emits = seen.reply, self.understood(seen.met), seen.emits
        # A call with an indefinite reply need not have taken effect. If no reply was recorded, a call recorded as a
        # whole, that is, on a line without a phase, has taken effect.
        vague = self.rules.indefinite(reply) and bool(reply or seen.phase)
        table = self.table
        indefinite = vague or (call.stage == CUT and self.rules.indefinite(reply))
        states = [state for state in numbers(call.met) if not met or table.matches(state, met)]
        if call.stage >= 0:
            way = table.ways[call.stage]
            fits = self.rules.fits(call.stage, reply) and emits in {None, way.emits}
            cells = frozenset({(call.row, state) for state in states} | {table.origin[call.stage]})
            return Fit(cells=cells, ways=((*table.origin[call.stage], way),)) if fits and states else None
        if call.stage in {FREE, ENDED}:
            silent = [state for state in states if call.met == 1 << state]  # all states if the end is unspecified
            free = Fit(unspecified=True, ways=tuple((call.row, state, None) for state in silent))
            return free if states and not (call.stage == ENDED and emits) else None
        if call.stage not in {ASKED, CUT}:
            return None
        if indefinite and not emits and (states or not (met or call.met)):
            return Fit()
        found = [(state, each) for state in states for each in self.rules.instants(state, call.row)]
        silent = [state for state, each in found if each.way is None and self.silence]
        stays = [
            (state, each.way)
            for state, each in found
            if each.to == state and each.way is not None and not self.apart(each.way, here)
            if self.rules.fits(each.stage, reply) and emits in {None, each.emits}
        ]
        ways = tuple((call.row, state, way) for state, way in (*stays, *((state, None) for state in silent)))
        if not stays:
            return Fit(unspecified=True, ways=ways) if silent else None
        cells = frozenset((row, state) for row, state, _ in ways)
        certain = cells if len(cells) == 1 else frozenset()
        return Fit(cells=certain, deviations=_required_deviations(way for _, way in stays), ways=ways)

    def _after_lost_call(self, before: Configurations, row: int) -> Configurations:
        return self.closed(left for each in self.closed(before) for left in self.given_up(each, row))

    def given_up(self, here: Configuration, row: int) -> Iterator[Configuration]:
        if not self.waits([here], row):
            yield here  # an interruption has already ended the call
        for call, others in each_with_rest(here.pending):
            if call.stage <= LOST or not self.table.agree(call.row, row):
                continue
            lost = call.stage in {BEGUN, HELD} or (call.stage == ASKED and self.rules.moves(row))
            left = late(others, call.row, LOST if call.stage == ASKED else LOST_BEGUN) if lost else others
            yield here._replace(pending=left)

    def _after_event(self, before: Configurations, row: int, emits: tuple[str, ...] | None, phase: str) -> Remainder:
        if phase == "assumed":  # the event may have happened once or repeatedly, without being observed
            assuming = replace(self, unseen=(*self.unseen, row), assumed=row)
            return Remainder(configurations=assuming.closed(before))
        found = [(each.state, *after) for each in before for after in self.occurrences(each, row, emits, phase)]
        kept = frozenset(after for _, _, after in found)
        cells = frozenset((row, state) for state, instant, _ in found if instant)
        specified = any(instant and instant.way for _, instant, _ in found)
        certain = cells if len(cells) == 1 and not phase else frozenset()
        return Remainder(configurations=kept, cells=certain, unspecified=bool(kept) and not specified)

    def occurrences(
        self, here: Configuration, row: int, emits: tuple[str, ...] | None, phase: str
    ) -> Iterator[tuple[CallInstant | None, Configuration]]:
        """Yield each instant at which an observed event may have happened, with the configuration that follows.

        The instant is ``None`` if the event has no effect here.
        """
        apart = self.coming is not None
        instants = self.rules.instants(here.state, row)
        if phase == "maybe":
            yield None, here
        elif phase == "noticed":
            for deviation in _required_deviations(each.way for each in instants):
                yield None, with_deviation(here, deviation)
        for instant in instants:
            if instant.way is not None and emits not in {None, instant.way.emits}:
                continue
            left = here._replace(pending=()) if self.rules.interrupts(row) and not phase else here
            for after in self.happens(left if apart else left._replace(queue=()), row, instant):
                # The outputs of the event were observed with it, so don't add them to the queue.
                yield instant, after if apart else after._replace(queue=here.queue)

    def after(self, before: Configurations, seen: Key) -> Configurations:
        """Return the configurations that remain possible after the observation *seen*, or none if there are too many.

        If *seen* is a reply whose request was not observed, the call is assumed to have been made just before.
        """

        def left() -> Configurations:
            start = self.asked(before, self.place(seen)) if self.unasked(before, seen) else before
            return self.observed(start, seen).configurations

        return tried(left)

    def answering(self, states: Iterable[int], seen: Key) -> Iterator[tuple[int, Way | None]]:
        """Yield each state in which a call with the reply in *seen* may have acted, and the outcome of the call.

        Only the states in *states* are considered.  The outcome is ``None`` if the reply or the specification leaves
        the outcome open.
        """
        row, reply, met = self.place(seen), seen.reply, self.understood(seen.met)
        for state in states:
            if met and not self.table.matches(state, met):
                continue
            ways = finals(self.table, state, row, displaced=True)
            if ways is None or self.rules.indefinite(reply):
                yield state, None
            else:
                yield from ((state, way) for way in ways if way.replies(reply))


@dataclass(frozen=True, slots=True, kw_only=True)
class Fit:
    """An explanation of a reply.

    ``cells`` are the cells that must have been used.  Unless ``deviations`` contains an empty name, one of them is
    needed as well.  ``unspecified`` is true if the reply is legal only because the specification is silent.  ``ways``
    lists the possible ends of the call as (row, state, way), where the way is ``None`` in a silent cell.
    """

    cells: frozenset[tuple[int, int]] = frozenset()
    deviations: tuple[str, ...] = ("",)
    unspecified: bool = False
    ways: tuple[tuple[int, int, Way | None], ...] = ()


def _required_deviations(ways: Iterable[Way | None]) -> tuple[str, ...]:
    names = {way.deviation.name if way and way.deviation else "" for way in ways}
    return ("",) if "" in names else tuple(sorted(names))


def dynamics(
    table: Table, *, shown: Collection[str] | None = None, outputs: bool = False, timed: bool = False
) -> Dynamics:
    """Return the :class:`Dynamics` of *table* for traces in which some events are not recorded.

    The traces show the signals and hidden events in *shown*, or all signals if *shown* is ``None``.  If *outputs* is
    true, the traces show outputs one by one, and do not show calls.  If *timed* is true, timers and time limits are
    tracked.
    """
    events = table.machine.events.values()
    seen = [event.name for event in events if event.kind == "signal"] if shown is None else shown
    unseen = [
        table.row[event.name] for event in events if (outputs if event.kind == "call" else event.name not in seen)
    ]
    names = {word: table.row[event.name] for word, event in table.machine.words().items()}
    timed = timed and (bool(table.machine.timers) or any(way.within for event in events for way in event.outcomes()))
    rules = Rules(table)
    return Dynamics(
        rules=rules,
        covering=Covering(rules),
        unseen=tuple(unseen),
        outputs=outputs,
        timers=RunningTimers(table) if timed else None,
        names=names,
    )


def stepped(dynamics: Dynamics, before: Configurations, step: Stimulus, seen: Response) -> Configurations:
    """Return the configurations that are possible after a test step and the response *seen*.

    There are none if the response is illegal.  The state of the SUT is read before its outputs, so hidden events may
    have emitted some of the outputs in between.
    """
    moves = replace(dynamics, coming=seen.outputs)
    before = moves.closed(before)
    row = moves.table.row[step.event]
    if seen.reply is None:
        found = moves.closed(_hold_call(moves, before, step))
    elif step.stage == "end":
        before = moves.closed(moves.released(before, row))
        found = moves.observed(before, Key(event=step.event, phase="reply", reply=seen.reply)).configurations
    else:
        args = tuple(sorted(step.args))
        found = moves.observed(before, Key(event=step.event, reply=seen.reply, args=args)).configurations
        if moves.rules.interrupts(row):
            # The test itself caused the interruption, so the test waits for no further replies.
            found = frozenset(each._replace(pending=()) for each in found)
    return shown(moves, moves.showing(found, Key(args=step.args)), seen)


def _hold_call(moves: Dynamics, before: Configurations, step: Stimulus) -> Iterator[Configuration]:
    row = moves.table.placed(moves.table.row[step.event], dict(step.args))
    for here in before:
        if step.stage == "begin":
            yield from moves.advanced(here, Pending(row, ASKED, 1 << here.state), here.pending)
        for call, others in each_with_rest(here.pending if step.stage == "end" else ()):
            if call.stage == HELD and moves.table.agree(call.row, row):
                yield from moves.advanced(here, call._replace(stage=BEGUN), others)


def shown(moves: Dynamics, found: Iterable[Configuration], seen: Response) -> Configurations:
    left = moves.closed(each for each in found if not seen.shows or moves.table.matches(each.state, seen.shows))
    return frozenset(each._replace(queue=()) for each in left if seen.outputs in {None, each.queue})
