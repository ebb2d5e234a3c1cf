"""What tests have found, in words and as JSON: the shortest test, why it fails, what was covered."""

import shlex
from collections.abc import Iterator, Sized
from typing import Final

from fsm.conformance.failure import Failure
from fsm.conformance.race_runs import Race, RaceSearch
from fsm.conformance.tested import Tested
from fsm.errors import visible
from fsm.machine import Level
from fsm.report import ExitCode, counts, words
from fsm.report.failures import lines, trace_data
from fsm.report.json_report import Json, dumped, record, violation_data
from fsm.report.lanes import raced
from fsm.report.layout import PLAIN, Layout

_MISSED: Final = 5
"""Lines that the cells missed may take."""


def fails(found: Failure | Race, least: Level) -> bool:
    """Whether what was *found* breaks a clause of level *least* or a stronger one; where it is not known which, it fails."""
    return found.violation is None or counts(found.violation.clause.level, least)


def _races(tested: Tested) -> tuple[Race, ...]:
    return tested.races.found if tested.races else ()


def _every(tested: Tested) -> tuple[Failure | Race, ...]:
    return (*tested.failures, *_races(tested))


def answer(tested: Tested, least: Level) -> ExitCode:
    """What all of it comes to; where nothing could be tested it is not known."""
    if any(fails(each, least) for each in _every(tested)):
        return ExitCode.FAILS
    return ExitCode.HOLDS if tested.cover.cells else ExitCode.UNKNOWN


def text(tested: Tested, layout: Layout = PLAIN, *, again: str = "", least: Level = "observed") -> str:
    """The whole report, ending in a newline; *again* is the command that has run the test."""
    machine = tested.oracle.plan.table.machine
    by = f", tested by {tested.judge or machine.name}" if tested.sut else ""
    found = [f"{layout.style(visible(tested.sut or machine.name), 'bold')}{by}"]
    for failure in tested.failures:
        word, how = ("violation", "red") if fails(failure, least) else ("surprise", "yellow")
        found += ["", *lines(failure, layout, word, how, again)]
    for race in _races(tested):
        word, how = ("violation", "red") if fails(race, least) else ("surprise", "yellow")
        what = "is not linearizable" if race.witness is None else "is not legal"
        found += ["", f"  {layout.style(word, how)}: what several threads see at once {what}"]
        found += (f"    {line}".rstrip() for line in raced(race))
        if race.repeated is not None:
            found.append("    seen in {:,} of {:,} repetitions".format(*race.repeated))
    return "\n".join([*found, "", *_summary(tested, layout, least)]) + "\n"


def _summary(tested: Tested, layout: Layout, least: Level) -> Iterator[str]:
    violations = sum(fails(each, least) for each in _every(tested))
    surprises = len(_every(tested)) - violations
    tally = [words.plural(violations, "violation")] if violations else []
    tally += [words.plural(surprises, "surprise")] if surprises else []
    tally.append(words.plural(tested.cover.steps, "step"))
    if tested.cover.unspecified:
        tally.append(f"{tested.cover.unspecified:,} of them unspecified")
    tally += [f"tolerated deviation {name} ({count:,})" for name, count in sorted(tested.cover.deviations.items())]
    yield from layout.wrapped(", ".join(tally))
    met, closed = len(tested.reachable) - len(tested.missed), tested.closed
    behind = tuple(each for each in closed if not _left_out(tested, *each))
    rest = f"; {words.plural(len(closed), 'cell')} not met by any way that the SUT has" if closed else ""
    rest += "; the test stopped after so many failures, and has not tested the rest" if tested.stopped else ""
    cells = words.plural(len(tested.reachable), "reachable cell")
    yield from layout.wrapped(f"{met:,} of {cells} covered{rest}")
    if (search := tested.races) is not None:
        ran = f"{words.plural(search.programmes, 'programme')} of threads ran {words.plural(search.runs, 'time')}"
        late = "; there was no time for more" if search.cut else ""
        late = "; then the SUT did not answer any more" if search.gone else late
        yield from layout.wrapped(f"{ran}, with {words.plural(search.events, 'event')}{late}")
    if tested.told:
        yield from layout.wrapped(f"{words.plural(tested.told, 'container event')} held to the calls")
    yield from _cells(
        tested,
        layout,
        "missed",
        tuple(each for each in tested.missed if each not in closed and not _left_out(tested, *each)),
    )
    yield from _cells(tested, layout, "behind what is not supported or never came", behind)
    if tested.judge:
        yield from _judged(tested, layout)
    yield from _cells(
        tested,
        layout,
        "only faults lead there" if tested.never else "need a call in progress (begin and end)",
        tested.beyond,
    )
    if unseen := tested.unseen:
        yield from _few(layout.wrapped(f"never came: {_by_outcome(tested, unseen)}", "    "), unseen, "outcome")
    if never := [f"{event}={outcome}" if outcome else event for event, outcome in tested.never]:
        yield from _few(layout.wrapped(f"left to faults: {'; '.join(never)}", "    "), never, "outcome")
    for left in tested.left_out:
        what = left.event if left.stage == "do" else f"{left.stage} {left.event}"
        what += f" in {', '.join(left.states)}" if left.states else ""
        what += f" ({left.why})" if left.why else ""
        yield from layout.wrapped(f"not supported by the SUT: {what}", "    ")
    unarranged = ", ".join(f"{event}={outcome}" for event, outcome in tested.unarranged)
    if unarranged:
        yield from layout.wrapped(f"could not be arranged: {unarranged}", "    ")
    came = answer(tested, least)
    why = ", since nothing could be tested" if came is ExitCode.UNKNOWN else ""
    yield f"  verdict: {layout.verdict(came)}{why}"


def _left_out(tested: Tested, row: int, state: int) -> bool:
    """Whether a cell is missed since the SUT does not support its event there."""
    table = tested.oracle.plan.table
    event = table.rows[row].event.name
    left = (each for each in tested.left_out if each.event == event and each.stage != "crash")
    return any(not each.states or table.states[state] in each.states for each in left)


def _cells(tested: Tested, layout: Layout, label: str, cells: tuple[tuple[int, int], ...]) -> Iterator[str]:
    if not cells:
        return
    table = tested.oracle.plan.table
    states: dict[str, list[str]] = {}
    for row, state in cells:
        states.setdefault(table.rows[row].name, []).append(table.states[state])
    each = [f"{event} in {', '.join(those)}" for event, those in states.items()]
    yield from _few(layout.wrapped(f"{label}: {'; '.join(each)}", "    "), cells, "cell")


def _by_outcome(tested: Tested, outcomes: tuple[tuple[int, int, str], ...]) -> str:
    """The *outcomes* that never came, each with the states where it did not, unless it came nowhere."""
    table = tested.oracle.plan.table
    came = {(row, table.ways[way].name) for way in tested.cover.ways for row, _ in [table.origin[way]]}
    states: dict[tuple[int, str], list[str]] = {}
    for row, state, outcome in outcomes:
        states.setdefault((row, outcome), []).append(table.states[state])
    return "; ".join(
        f"{table.rows[row].name}={outcome}" + (f" in {', '.join(those)}" if (row, outcome) in came else "")
        for (row, outcome), those in states.items()
    )


def _few(lines: list[str], of: Sized, what: str) -> Iterator[str]:
    """The first of *lines*, and how many there are *of*."""
    yield from lines[:_MISSED]
    if len(lines) > _MISSED:
        yield f"      … {words.plural(len(of), what)} in all"


def _judged(tested: Tested, layout: Layout) -> Iterator[str]:
    """What tests that another machine has planned have met of those that judge."""
    for of in tested.covered:
        states: dict[str, list[str]] = {}
        for event, state in (cell for cell, count in of.cells.items() if not count):
            states.setdefault(event, []).append(state)
        met = sum(1 for count in of.cells.values() if count)
        yield from layout.wrapped(f"{met:,} of {words.plural(len(of.cells), 'cell')} of {of.machine} met")
        missed = [cell for cell, count in of.cells.items() if not count]
        each = [f"{event} in {', '.join(those)}" for event, those in states.items()]
        if each:
            yield from _few(layout.wrapped(f"not met: {'; '.join(each)}", "    "), missed, "cell")


def json(tested: Tested, *, again: str = "", least: Level = "observed") -> str:
    """The same as one JSON document, ending in a newline."""
    table = tested.oracle.plan.table
    return dumped(
        {
            "machine": table.machine.name,
            "judge": tested.judge or None,
            "sut": tested.sut,
            "verdict": answer(tested, least).name.lower(),
            "steps": tested.cover.steps,
            "events": tested.told,
            "stopped": tested.stopped,
            "unspecified": tested.cover.unspecified,
            "failures": [_failure_data(each, again, least) for each in tested.failures],
            "race": "\n".join(raced(tested.race)) if tested.race else None,
            "races": _races_data(tested.races, least) if tested.races else None,
            "cells": [
                {"event": table.rows[row].name, "state": table.states[state], "met": tested.cover.cells[row, state]}
                for row, state in tested.reachable
            ],
            "closed": [{"event": table.rows[row].name, "state": table.states[state]} for row, state in tested.closed],
            "beyond": [{"event": table.rows[row].name, "state": table.states[state]} for row, state in tested.beyond],
            "unseen": [
                {"event": table.rows[row].name, "state": table.states[state], "outcome": outcome}
                for row, state, outcome in tested.unseen
            ],
            "never": [{"event": event, "outcome": outcome} for event, outcome in tested.never],
            "judged": [
                {
                    "machine": of.machine,
                    "cells": [
                        {"event": event, "state": state, "met": count} for (event, state), count in of.cells.items()
                    ],
                }
                for of in tested.covered
            ],
            "unsupported": [record(each) for each in tested.left_out],
            "unarranged": [{"event": event, "outcome": outcome} for event, outcome in tested.unarranged],
            "tolerated": dict(sorted(tested.cover.deviations.items())),
        }
    )


def _races_data(races: RaceSearch, least: Level) -> Json:
    return {
        "programmes": races.programmes,
        "runs": races.runs,
        "events": races.events,
        "cut": races.cut,
        "gone": races.gone,
        "repeated": _repeated_data(races.race.repeated if races.race else None),
        "found": [_race_data(each, least) for each in races.found],
    }


def _race_data(race: Race, least: Level) -> Json:
    programme = race.programme
    return {
        "fails": fails(race, least),
        "drawn": "\n".join(raced(race)),
        "broken": race.broken or None,
        "violation": violation_data(race.violation) if race.violation else None,
        "before": [*programme.before],
        "threads": [[*each] for each in programme.threads],
        "after": [*programme.after],
        "repeated": _repeated_data(race.repeated),
    }


def _repeated_data(repeated: tuple[int, int] | None) -> Json:
    return dict(zip(("failed", "of"), repeated, strict=True)) if repeated else None


def _failure_data(failure: Failure, again: str, least: Level) -> Json:
    steps = "; ".join(map(str, failure.steps))
    clause = failure.violation.clause if failure.violation else failure.clause
    return {
        "fails": fails(failure, least),
        "broken": failure.broken or None,
        "repeated": _repeated_data(failure.repeated),
        "violation": violation_data(failure.violation) if failure.violation else None,
        "clause": record(clause) if clause else None,
        "test": trace_data(failure),
        "replay": steps,
        "again": f"{again} --replay {shlex.quote(steps)}" if again else None,
    }
