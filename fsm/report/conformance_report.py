"""Report the results of ``fsm test`` as text or JSON."""

import math
import shlex
import textwrap
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sized
from functools import partial
from typing import Final

from fsm.conformance.failure import Failure
from fsm.conformance.race_runs import Race
from fsm.conformance.tested import Obstacle, Tested
from fsm.errors import visible
from fsm.machine import Clause, Level, Machine
from fsm.machine.graph import reachable_pairs
from fsm.machine.table import Table
from fsm.report import ExitCode, counts, severity, words
from fsm.report.cases import Case, Cases, near
from fsm.report.json_report import Json, dumped, picked, record, violation_data
from fsm.report.lanes import raced
from fsm.report.layout import COLOURS, LABEL, PLAIN, Layout, joined
from fsm.report.test_steps import response_text, trace_data


def failure_text(failure: Failure, layout: Layout = PLAIN) -> str:
    return "\n".join(failure_lines(failure, layout, "violation"))


def failure_lines(failure: Failure, layout: Layout, word: str, again: str = "") -> Iterator[str]:
    violation, breaks = failure.violation, failure.breaks
    what = words.what(violation) if violation else failure.broken
    if breaks:
        what = f"it breaks {breaks.of.name} ({breaks.of.level}): {breaks.of.says}"
    what += f" — in {words.plural(len(failure.also) + 1, 'state')}" if failure.also else ""
    yield from layout.wrapped(f"{word}: {what}", marked=word)
    yield from evidence(failure, layout, again)


def evidence(failure: Failure, layout: Layout, again: str = "") -> Iterator[str]:
    violation, breaks = failure.violation, failure.breaks
    if failure.repeated:
        label = "flaky" if failure.repeated[0] < failure.repeated[1] else "certain"
        yield from layout.rows((label, "fails in {:,} of {:,} repetitions".format(*failure.repeated)))
    taken = [(f"{number}. {each.step}", response_text(each)) for number, each in enumerate(failure.trace, 1)]
    longest = max((len(step) for step, _ in taken), default=0)
    for step, response in taken:
        yield f"    {'test' if step == taken[0][0] else '':<{LABEL}}{step:<{longest}}  {response}".rstrip()
    if violation:
        yield from layout.reasons(violation, edits=False)
    mark = "; " if any("," in state for states in failure.also for state in states) else ", "
    yield from layout.rows(("also in", mark.join(map(words.either, failure.also))), ("hint", failure.hint))
    if failure.clause:
        yield from layout.clause(failure.clause)
    if breaks:
        numbers = words.either(str(number) for number in breaks.steps).replace(" or ", " and ")
        where = f", in {numbers}" if breaks.steps else ""
        yield from layout.rows(
            ("broken by", f"{breaks.text}{where}"), ("source", breaks.of.source), ("", breaks.of.link)
        )
    if again and failure.trace:
        yield f"    {'again':<{LABEL}}{again} --replay {shlex.quote('; '.join(map(str, failure.steps)))}"


TIMED: Final = ("early", "fired", "stopped")  # the tests of a timer
_MISSED: Final = 5  # maximum length of a list of pairs
# Reasons why a pair was not reached.
_UNREACHED: Final[Mapping[Obstacle, str]] = {
    Obstacle.NONE: "missed, although the SUT could have reached them",
    Obstacle.CHOICE: "needs a choice of the environment",
    Obstacle.AMBIGUITY: "ambiguous, because another state was also possible",
    Obstacle.SUPPORT: "needs an event that the SUT does not support",
    Obstacle.OVERLAP: "needs the methods begin and end",
    Obstacle.CALLS: "needs several calls in progress",
    Obstacle.TIME: "never came in time, because another timer fires first",
    Obstacle.DATA: "not found with the values that the plan tries",
}


def default_level(machine: Machine) -> Level:
    """Return the default level for failures: MUST if the machine has clauses of this level, otherwise observed."""
    cells = (cell for event in machine.events.values() for cell in (*event.cells.values(), *event.ends.values()))
    return "MUST" if any(each.clause.level == "MUST" for each in (*cells, *machine.requires.values())) else "observed"


def fails(found: Failure | Race, least: Level) -> bool:
    """Check whether *found* makes the test fail. Violations of clauses below the level *least* do not."""
    return found.violation is None or counts(found.violation.clause.level, least)


def _failures_and_races(tested: Tested) -> tuple[Failure | Race, ...]:
    return (*tested.failures, *(tested.races.found if tested.races else ()))


def answer(tested: Tested, least: Level, at_least: float = 0) -> ExitCode:
    if any(fails(failed, least) for failed in _failures_and_races(tested)) or tested.share < at_least:
        return ExitCode.FAILS
    return ExitCode.UNKNOWN if tested.unknown else ExitCode.HOLDS


@joined
def text(
    tested: Tested, layout: Layout = PLAIN, *, again: str = "", least: Level = "observed", at_least: float = 0
) -> Iterator[str]:
    plan = tested.oracle.plan
    by = f", tested by {tested.judge or plan.table.machine.name}" if tested.sut else ""
    yield f"{layout.style(visible(tested.sut or plan.table.machine.name), 'bold')}{by}"
    found = [(failed, severity(fails=fails(failed, least))) for failed in _failures_and_races(tested)]
    for failed, word in found:
        yield ""
        if isinstance(failed, Failure):
            yield from failure_lines(failed, layout, word, again)
            continue
        what = "not linearizable" if failed.witness is None else "not legal"
        yield f"  {layout.style(word, COLOURS[word])}: the results of calls from several threads are {what}"
        yield from (f"    {line}".rstrip() for line in raced(failed))
        if failed.repeated is not None:
            yield "    seen in {:,} of {:,} repetitions".format(*failed.repeated)
    yield ""
    tally = words.tally_of([(word, 1) for _, word in found], {"step": tested.cover.steps}, {})
    tally += [f"{tested.cover.unspecified:,} of them unspecified"] if tested.cover.unspecified else []
    tally += [f"tolerated deviation {name} ({count:,})" for name, count in sorted(tested.cover.deviations.items())]
    yield from layout.notes(", ".join(tally), *_omissions(tested, least))
    yield from coverage(tested.reached, tested.reachable, layout, at_least)
    if (search := tested.races) is not None:
        ran = f"{words.plural(search.programmes, 'programme')} of threads ran {words.plural(search.runs, 'time')}"
        late = "; then the time for the search was over" if search.cut else ""
        late = "; then the SUT no longer answered" if search.gone else late
        yield from layout.wrapped(f"{ran}, with {words.plural(search.events, 'event')}{late}")
    told = f"{words.plural(tested.told, 'event')} checked against the calls" if tested.told else ""
    waited = f"not reproducible: the SUT waited for {tested.waited} in real time" if tested.waited else ""
    yield from layout.notes(*filter(None, [waited, told]))
    yield from _unreached_lines(tested, layout)
    yield from _side_lines(tested, layout)
    yield from _timer_lines(tested, layout)
    never = [f"{event}={outcome}" if outcome else event for event, outcome in plan.never]
    for label, outcomes, named in (
        ("never occurred", tested.unseen, _list_outcomes(tested, tested.unseen)),
        ("left to faults", never, "; ".join(never)),
    ):
        if outcomes:
            yield from _first_lines(layout.wrapped(f"{label}: {named}", "    "), outcomes, "outcome")
    for left in tested.left_out:
        what = left.event if left.stage == "do" else f"{left.stage} {left.event}"
        what += f" in {', '.join(left.states)}" if left.states else ""
        what += f" ({left.why})" if left.why else ""
        yield from layout.wrapped(f"not supported by the SUT: {what}", "    ")
    if unarranged := ", ".join(f"{event}={outcome}" for event, outcome in tested.unarranged):
        yield from layout.wrapped(f"could not be arranged: {unarranged}", "    ")
    came = answer(tested, least, at_least)
    why = f", because {tested.unknown}" if came is ExitCode.UNKNOWN else ""
    yield f"  verdict: {layout.verdict(came)}{why}"


def _omissions(tested: Tested, least: Level) -> list[str]:
    observed = least == default_level(tested.oracle.plan.table.machine) == "observed" and not tested.judge
    notes = {
        "no clause of the model is a MUST, so breaking an observed clause fails the test (--fail-on)": observed,
        "the test stopped at the maximum number of failures; the rest of the plan was not tested": tested.stopped,
        "random tests were not run, because the planned tests found a failure": tested.skipped,
        "only a part of the plan was requested; leave out --replay to run all of it": tested.shortened,
    }
    return [note for note, applies in notes.items() if applies]


def _unreached_lines(tested: Tested, layout: Layout) -> Iterator[str]:
    table = tested.oracle.plan.table
    for obstacle, pairs in tested.unreached.items() if not tested.shortened else ():
        method = " (method arrange)" if obstacle is Obstacle.CHOICE and "arrange" in tested.methods else ""
        yield from listed(table, layout, f"{_UNREACHED[obstacle]}{method}", pairs)
    for of in tested.covered:
        missed = [cell for cell, count in of.cells.items() if not count]
        yield from coverage(range(len(of.cells) - len(missed)), of.cells, layout, of=of.machine)
        yield from _listed_pairs("not reached", missed, layout)
    yield from layout.notes(*uncompared(tested.methods, tested.misnamed), first="    ")
    yield from listed(table, layout, "outputs not seen", tested.uncompared)


def _side_lines(tested: Tested, layout: Layout) -> Iterator[str]:
    sides, plan = tested.sides, tested.oracle.plan
    if sides and plan.boundaries:
        met = sum(not why for why in sides.values())
        yield from layout.wrapped(f"exercised {met:,} of {words.plural(len(sides), 'side')} of comparisons in guards")
    for why in dict.fromkeys(filter(None, sides.values())) if not tested.shortened else ():
        of = [
            (plan.boundaries.text(side), _pair(plan.table, *side[:2]))
            for side in sides
            if plan.boundaries and sides[side] == why
        ]
        named = [f"{text} ({', '.join(where)})" for text, where in words.grouped(of).items()]
        yield from _first_lines(layout.wrapped(f"{why}: {'; '.join(named)}", "    "), of, "side")
    taken, configurations = tested.configurations
    if configurations:
        known = words.plural(configurations, "configuration")
        yield from layout.wrapped(f"tested every event in {taken:,} of {known} within the scopes")


def _timer_lines(tested: Tested, layout: Layout) -> Iterator[str]:
    for timer in tested.oracle.plan.table.machine.timers if "advance" not in tested.methods else ():
        early, fired, stopped = (f"{tested.cover.timed[timer, each]:,}" for each in TIMED)
        tests = f"not too early ({early}), not too late ({fired}), not after it had stopped ({stopped})"
        yield from layout.wrapped(f"timer {timer} tested: {tests}")


def _pair(table: Table, row: int, state: int) -> str:
    return f"{table.rows[row].name} in {table.states[state]}"


def uncompared(methods: Collection[str], misnamed: Mapping[str, str]) -> Iterator[str]:
    if "advance" in methods:
        yield "times were not tested, although the model has timers; add the method advance"
    for name in ("outputs", "fields"):
        if name in methods:
            yield f"{name} were not compared, although the model has {name}; add the method {name}"
    for name, meant in misnamed.items():
        yield f"the SUT has a method {visible(name)}, which nothing calls; did you mean {meant}?"


def covered(table: Table, met: Mapping[tuple[int, int], int], layout: Layout, at_least: float = 0) -> Iterator[str]:
    pairs = reachable_pairs(table)
    yield from coverage([pair for pair in pairs if met.get(pair)], pairs, layout, at_least)
    yield from listed(table, layout, "not reached", [pair for pair in pairs if not met.get(pair)])


def coverage(reached: Sized, reachable: Sized, layout: Layout, at_least: float = 0, *, of: str = "") -> Iterator[str]:
    pairs = words.plural(len(reachable), "reachable (event, state) pair")
    yield from layout.wrapped(f"reached {len(reached):,} of {pairs}{of and f' of {of}'}")
    share = 100 * len(reached) / max(len(reachable), 1)
    if share < at_least:
        below = f"{math.floor(share * 10) / 10:g} % is less than the {at_least:g} % that --at-least requires"
        yield from layout.wrapped(below, marked=below, how="red")


def listed(table: Table, layout: Layout, label: str, pairs: Iterable[tuple[int, int]]) -> Iterator[str]:
    return _listed_pairs(label, [(table.rows[row].name, table.states[state]) for row, state in pairs], layout)


def _listed_pairs(label: str, pairs: Collection[tuple[str, str]], layout: Layout) -> Iterator[str]:
    if events := [f"{event} in {', '.join(states)}" for event, states in words.grouped(pairs).items()]:
        yield from _first_lines(layout.wrapped(f"{label}: {'; '.join(events)}", "    "), pairs, "pair")


def _list_outcomes(tested: Tested, outcomes: tuple[tuple[int, int, str], ...]) -> str:
    table = tested.oracle.plan.table
    came = {(row, table.ways[way].name) for way in tested.cover.ways for row, _ in [table.origin[way]]}
    states = words.grouped(((row, outcome), table.states[state]) for row, state, outcome in outcomes)
    return "; ".join(
        f"{table.rows[row].name}={outcome}" + (f" in {', '.join(those)}" if (row, outcome) in came else "")
        for (row, outcome), those in states.items()
    )


def _first_lines(lines: list[str], of: Sized, what: str) -> Iterator[str]:
    yield from lines[:_MISSED]
    if len(lines) > _MISSED:
        yield f"      … {words.plural(len(of), what)} in all"


def cases(tested: Tested, least: Level, at_least: float = 0) -> Cases:
    table = tested.oracle.plan.table
    case = partial(Case, suite=tested.sut or table.machine.name, name=table.machine.name)
    broken = [_failed_case(case, failed, table.machine, least) for failed in _failures_and_races(tested)]
    named = {each.clause for each in broken}
    clauses: dict[Clause, tuple[int, bool]] = {}
    for row, state in tested.reachable:
        event = table.rows[row]
        cell = (event.event.ends if event.ends else event.event.cells)[table.states[state]]
        line, before = clauses.get(cell.clause, (cell.line, False))
        clauses[cell.clause] = (line, before or tested.cover.cells[row, state] > 0)
    untested = "not exercised: no test reached a cell of the clause"
    left = ((clause, near(table.machine.path, line), met) for clause, (line, met) in clauses.items())
    kept = [
        case(clause=clause, at=at, status="passed" if met else "skipped", what="" if met else untested)
        for clause, at, met in left
        if clause not in named
    ]
    return Cases(command="test", found=(*broken, *kept), answer=answer(tested, least, at_least))


def _failed_case(case: Callable[..., Case], found: Failure | Race, machine: Machine, least: Level) -> Case:
    violation, line = found.violation, 1
    clause = found.clause if isinstance(found, Failure) else None
    if isinstance(found, Race):
        what, detail = "the results of calls from several threads are not legal", "\n".join(raced(found))
    else:
        what, detail = words.what(violation) if violation else found.broken, textwrap.dedent(failure_text(found))
    if violation:
        event, clause = machine.events.get(violation.observation.event), violation.clause
        cells = event.cells if event else {}
        line = next((cells[state].line for state in violation.before if state in cells), 1)
    says = "The SUT answers in a way that can be judged."
    return case(
        clause=clause or Clause(name="answers", says=says, level="MUST", source=machine.source),
        at=near(machine.path, line),
        status="failed" if fails(found, least) else "surprise",
        what=what,
        detail=detail,
    )


def json(tested: Tested, *, again: str = "", least: Level = "observed", at_least: float = 0) -> str:
    table = tested.oracle.plan.table

    def pairs_data(pairs: Iterable[tuple[int, int]]) -> list[Json]:
        return [_pair_data(table, *pair) for pair in pairs]

    return dumped(
        {
            "machine": table.machine.name,
            **picked(tested, "judge?", "sut"),
            "verdict": answer(tested, least, at_least).word,
            "why": tested.unknown or None,
            "fail_on": least,
            **picked(tested, steps="cover.steps", events="told", stopped="stopped", unspecified="cover.unspecified"),
            "waited": tested.waited or None,
            "failures": [_failure_data(failure, again, least) for failure in tested.failures],
            "race": "\n".join(raced(tested.race)) if tested.race else None,
            "races": None
            if tested.races is None
            else {
                **picked(tested.races, "programmes", "runs", "events", "cut", "gone"),
                "repeated": _repeated_data(tested.race),
                "found": [_race_data(each, least) for each in tested.races.found],
            },
            "cells": [{**_pair_data(table, *pair), "met": tested.cover.cells[pair]} for pair in tested.reachable],
            "unreached": {why.name.lower(): pairs_data(pairs) for why, pairs in tested.unreached.items()},
            "uncompared": pairs_data(tested.uncompared),
            "sides": [
                {
                    **_pair_data(table, *side[:2]),
                    "side": of.text(side),
                    "met": tested.cover.sides[side],
                    "why": why or None,
                }
                for side, why in tested.sides.items()
                if (of := tested.oracle.plan.boundaries)
            ],
            "configurations": _as_object("tested all", *tested.configurations),
            "timers": {
                timer: {each: tested.cover.timed[timer, each] for each in TIMED} for timer in table.machine.timers
            },
            "methods": [*tested.methods],
            "misnamed": dict(tested.misnamed),
            "unseen": [{**_pair_data(table, *pair), "outcome": outcome} for *pair, outcome in tested.unseen],
            "never": [_as_object("event outcome", *each) for each in tested.oracle.plan.never],
            "judged": [
                {
                    "machine": of.machine,
                    "cells": [_as_object("event state met", *pair, count) for pair, count in of.cells.items()],
                }
                for of in tested.covered
            ],
            "unsupported": [record(omission) for omission in tested.left_out],
            "unarranged": [_as_object("event outcome", *each) for each in tested.unarranged],
            "tolerated": dict(sorted(tested.cover.deviations.items())),
        }
    )


def _as_object(keys: str, *values: Json) -> dict[str, Json]:
    return dict(zip(keys.split(), values, strict=True))


def _pair_data(table: Table, row: int, state: int) -> dict[str, Json]:
    return _as_object("event state", table.rows[row].name, table.states[state])


def _race_data(race: Race, least: Level) -> Json:
    return {
        "fails": fails(race, least),
        "drawn": "\n".join(raced(race)),
        **picked(race, "broken?"),
        "violation": violation_data(race.violation) if race.violation else None,
        **picked(race.programme, "before", "threads", "after"),
        "repeated": _repeated_data(race),
    }


def _repeated_data(found: Failure | Race | None) -> Json:
    return _as_object("failed of", *found.repeated) if found and found.repeated else None


def _failure_data(failure: Failure, again: str, least: Level) -> Json:
    steps = "; ".join(map(str, failure.steps))
    clause = failure.violation.clause if failure.violation else failure.clause
    return {
        "fails": fails(failure, least),
        **picked(failure, "broken?"),
        "repeated": _repeated_data(failure),
        "also": [[*states] for states in failure.also],
        "violation": violation_data(failure.violation) if failure.violation else None,
        "clause": record(clause) if clause else None,
        "test": trace_data(failure),
        "replay": steps,
        "again": f"{again} --replay {shlex.quote(steps)}" if again else None,
    }
