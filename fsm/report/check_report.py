"""Report the results of ``fsm check`` as text or JSON."""

from collections.abc import Iterator, Sequence
from enum import Enum
from itertools import groupby
from typing import Final, assert_never

from fsm.machine import Clause, Machine, Moves, evidence
from fsm.machine.claims import Counts, LeadsTo, Property
from fsm.machine.conditions import All, At, Condition, Not, Some
from fsm.machine.evidence import UsedCell, used_cells
from fsm.machine.product.system import System
from fsm.report import ExitCode, worst
from fsm.report.cases import Case, Cases, CaseStatus, near
from fsm.report.json_report import Json, dumped, picked, record
from fsm.report.layout import PLAIN, Layout, joined
from fsm.report.machine_report import data, steps
from fsm.report.text import clause_texts, used
from fsm.report.words import either, plural, tally
from fsm.verdict import Unknown


class PropertyStatus(Enum):
    """The result for a property, with its exit code (``None`` if not tested) and the status of its test case."""

    HOLDS = "holds", ExitCode.HOLDS, "passed"
    KNOWN = "known", ExitCode.HOLDS, "known"
    FAILS = "FAILS", ExitCode.FAILS, "failed"
    MENDED = "MENDED", ExitCode.FAILS, "failed"
    SURPRISE = "surprise", ExitCode.HOLDS, "surprise"
    VACUOUS = "vacuous", ExitCode.UNKNOWN
    UNKNOWN = "unknown", ExitCode.UNKNOWN
    UNDECIDED = "undecided", None
    UNEXERCISED = "not exercised", None
    UNWATCHABLE = "not watched", None

    def __init__(self, word: str, answer: ExitCode | None, case: CaseStatus = "skipped") -> None:
        self.word, self.answer, self.case = word, answer, case


_LABEL: Final = 9
_INDENT: Final = " " * (_LABEL + 4)


def status(checked: evidence.Checked) -> PropertyStatus:
    match checked.verdict:
        case evidence.Refuted():
            return PropertyStatus.FAILS if checked.unexpected else PropertyStatus.KNOWN
        case evidence.Vacuous():
            return PropertyStatus.VACUOUS
        case evidence.Undecided():
            return PropertyStatus.UNDECIDED
        case Unknown():
            return PropertyStatus.UNKNOWN
        case evidence.Proved():
            return PropertyStatus.MENDED if checked.expected else PropertyStatus.HOLDS
        case _:
            assert_never(checked.verdict)


def answer(examined: Sequence[evidence.Examined]) -> ExitCode:
    answers = [status(one).answer for each in examined for one in each.checked]
    return worst([*answers, ExitCode.FAILS if any(each.resized for each in examined) else None])


@joined
def text(
    examined: Sequence[evidence.Examined], layout: Layout = PLAIN, *, runs: bool = False, why: int = 0
) -> Iterator[str]:
    """Return the verdict, and the results of the properties under each profile.

    If *runs* is true, repeated results, witnesses and the runs of known failures are included. If *why* is not 0, the
    step with this number is explained for each counterexample.
    """
    checked = [one for examination in examined for one in examination.checked]
    number = len({(each.machine.name, one.of.name) for each in examined for one in each.checked})
    of = f"{plural(number, 'property')}, {plural(len(checked), 'result')}: " if number < len(checked) else ""
    tallied = tally([status(one).word for one in checked], "" if of else "property")
    resized = sum(each.resized for each in examined)
    others = f", {plural(resized, 'machine')} of another size" if resized else ""
    yield f"{layout.verdict(answer(examined))}: {of}{tallied}{others}"
    for (name, title), those in groupby(examined, lambda each: (each.machine.name, each.machine.title)):
        yield from ("", layout.style(name, "bold") + f": {title}")
        alike: dict[str, tuple[object, ...]] = {}
        for each in those:
            yield from _profile_lines(each, alike, layout, runs=runs, step=why)


def _profile_lines(
    examination: evidence.Examined, alike: dict[str, tuple[object, ...]], layout: Layout, *, runs: bool, step: int
) -> Iterator[str]:
    name = examination.profile or "without a profile"
    simulating = f", simulating any number of '{examination.any_number}'" if examination.any_number else ""
    yield f"  {layout.style(name, 'bold')}: {sized(examination.counts)}{simulating}"
    if examination.expected is not None and examination.resized:
        yield from _item(layout, PropertyStatus.FAILS, f"the file expects {sized(examination.expected)}")
    for event, state, leads in examination.washed_out:
        unobserved = f"which {leads} may reach unobserved: anything may follow"
        yield from _indented(layout, f"nothing is specified about {event} in {state}, {unobserved}")
    for event, state, values in examination.uncovered:
        yield from _indented(layout, f"nothing is specified about {event} in {state} for {values}")
    left_out = overlap = 0
    scope: tuple[str, ...] = ()
    beyond = 0
    for checked in examination.checked:
        conclusion = (status(checked), checked.expected, getattr(checked.verdict, "length", 0), _overlap_limit(checked))
        if alike.get(checked.of.name) == conclusion and not runs:
            left_out += 1
            continue
        alike.setdefault(checked.of.name, conclusion)
        overlap = max(overlap, _overlap_limit(checked))
        scope, beyond = scope or checked.scope, max(beyond, checked.cut)
        yield from lines(checked, layout, runs=runs)
        yield from layout.rows(*_step_explanation(examination, checked, step))
        if fair := _fair_candidates(examination.machine, checked):
            why = "unless something is fair: it is not postponed for ever while it is possible. If that is meant, add:"
            yield from _indented(layout, f"a run may stop at any time, {why} fair = [{', '.join(fair)}]")
    calls = f"overlap {overlap}: with at most {plural(overlap, 'call')} of an event in progress"
    cut = f"{calls}; runs in which one more call begins were cut off (--overlap)"
    same = f"{plural(left_out, 'property')} with the same result as above"
    copies = f"{plural(examination.copies, 'claim')} about other copies were also decided"
    further = f"{plural(beyond, 'step')} beyond {'was' if beyond == 1 else 'were'} not followed"
    further = further if beyond else "no step beyond was found"
    ranges = f"scope: only for {', '.join(scope)}; {further}"
    for count, note in ((len(scope), ranges), (overlap, cut), (left_out, same), (examination.copies, copies)):
        yield from layout.wrapped(note, "    ", "    ") if count else ()


def lines(checked: evidence.Checked, layout: Layout, *, runs: bool = False) -> Iterator[str]:
    word = status(checked)
    stated = checked.of
    within = f", overlap {calls}" if (calls := _overlap_limit(checked)) else ""
    within += ", within scope" if checked.scope else ", all integers" if checked.unbounded else ""
    yield from _item(layout, word, f"{stated.name} ({stated.level}{within}): {stated.says}")
    match checked.verdict:
        case evidence.Refuted(evidence=against):
            yield from _refutation(checked, against, layout, runs=runs)
        case Unknown():
            yield from _indented(layout, reason(checked))
            if isinstance(checked.verdict, evidence.Unwritten):
                yield from steps(checked.verdict.run, indent=_LABEL + 4)
        case evidence.Proved(witnesses=witnesses, any_number=part):
            known = checked.expected
            yield from _indented(
                layout,
                f"the property holds for any number of copies of '{part}'" if part else "",
                f"it was known to fail: {known.about} Remove the entry from 'fails'." if known else "",
            )
            for run in witnesses if runs else ():
                yield from steps(run, indent=_LABEL + 4)


def reason(checked: evidence.Checked) -> str:
    match checked.verdict:
        case evidence.Vacuous(unmet=unmet):
            return f"nothing puts the property to the test, because {unmet} never holds"
        case Unknown(why=why):
            return why
        case evidence.Refuted(evidence=evidence.Unreached(text=sought)):
            return f"no run goes through: {sought}"
        case evidence.Refuted(evidence=evidence.Unexplained(other=other, states=states, shows=shows)):
            seen = f"{shows} is shown, which" if shows else "the last step of the run is one that"
            return f"{seen} {other} does not allow in {either(states)}"
        case evidence.Refuted(evidence=evidence.Misdrawn(place=place, lacks=lacks, adds=adds)):
            return f"{place} lacks {len(lacks)} arrows or states of the machine, and has {len(adds)} others"
    return ""


def _step_explanation(
    examination: evidence.Examined, checked: evidence.Checked, number: int
) -> Iterator[tuple[str, str]]:
    cells = _cells(examination, checked, number)
    yield from ((f"step {number}" if cell is cells[0] else "", used(cell)) for cell in cells)
    yield from (("if", _condition(one, examination.machine)) for cell in cells for one in cell.conditions)
    clauses = clause_texts(dict.fromkeys(cell.clause for cell in cells))
    yield from (("" if clause is not clauses[0] else "clauses", clause) for clause in clauses)


def _cells(examination: evidence.Examined, checked: evidence.Checked, number: int) -> tuple[UsedCell, ...]:
    run = checked.verdict.run if isinstance(checked.verdict, evidence.Refuted) and number else None
    taken = (*run.steps, *run.cycle)[number - 1 : number] if run else ()
    return used_cells(examination.machine.partly_under(examination.profile), *taken) if taken else ()


def _condition(condition: Condition, machine: Machine | System) -> str:
    match condition:
        case Not(of=inner):
            return f"not ({_condition(inner, machine)})"
        case All(of=parts) | Some(of=parts):
            return (" and " if isinstance(condition, All) else " or ").join(_condition(each, machine) for each in parts)
        case At(part=name, copies=copies, states=states, every=every) if isinstance(machine, System):
            part = machine.parts[name]
            which = [copy.name for copy in part.copies if copy.digit in copies]
            quantity = ("every one of " if every else "one of ") if which[1:] else ""
            return f"{quantity}{', '.join(which)} in {either(each for each in part.machine.states if each in states)}"
        case _:
            return str(condition)


def _overlap_limit(checked: evidence.Checked) -> int:
    told = isinstance(checked.verdict, evidence.Proved | evidence.Vacuous | evidence.Refuted)
    return checked.overlap if told else 0


def _fair_candidates(machine: Machine | System, checked: evidence.Checked) -> list[str]:
    """Suggest ``fair`` events for a ``leads-to`` property that unexpectedly fails because a run stops.

    The list is empty if the property already has ``fair`` events.
    """
    match checked.of.claim, checked.verdict:
        case LeadsTo(fair=()), evidence.Refuted(evidence=evidence.Run(stopped=True) as run) if checked.unexpected:
            state = run.steps[-1].target if run.steps else run.initial
        case _:
            return []
    if isinstance(machine, System):
        return ['"EVENT"']
    ends = [f'"{name}.ends"' for name, event in machine.events.items() if state in event.ends]
    return ends or [f'"{name}"' for name, event in machine.events.items() if isinstance(event.cells.get(state), Moves)]


def _refutation(checked: evidence.Checked, against: evidence.Evidence, layout: Layout, *, runs: bool) -> Iterator[str]:
    known = checked.expected
    if known is not None:
        shown = "" if runs or checked.unexpected else " (--runs shows them)"
        how = f"known failure, {plural(known.length, 'step')}{shown}: {known.about} {known.link}"
        yield from _indented(layout, how)
        if shown:
            return
    else:
        yield from _indented(layout, f"source: {checked.of.source} {checked.of.link}")
    match against:
        case evidence.Run():
            yield from steps(against, indent=_LABEL + 4)
        case evidence.Unexplained():
            yield from steps(against.run, indent=_LABEL + 4)
            yield from _indented(layout, reason(checked))
        case evidence.Unreached():
            yield from _indented(layout, reason(checked))
        case evidence.Misdrawn(place=place, lacks=lacks, adds=adds):
            yield from _indented(layout, *(f"{place} lacks {_arrow(arrow)}" for arrow in lacks))
            for arrow in adds:
                at = f"{place.rpartition(':')[0]}:{arrow.line}:{arrow.column}" if arrow.line else place
                yield from _indented(layout, f"{at} has {_arrow(arrow)}, which the machine does not have")
        case _:
            assert_never(against)


def _item(layout: Layout, word: PropertyStatus, what: str) -> list[str]:
    label = f"{word.word} ".ljust(_LABEL)
    return layout.wrapped(what, f"    {label}", _INDENT, marked=label)


def _indented(layout: Layout, *texts: str) -> Iterator[str]:
    for text in texts:
        yield from layout.wrapped(text, _INDENT, _INDENT)


def sized(counts: Counts | None) -> str:
    if counts is None:
        return "more states than the search visited"
    several = counts.configurations not in {None, counts.states}
    configurations = f" ({plural(counts.configurations or 0, 'configuration')})" if several else ""
    fewer = counts.representatives
    representatives = "" if fewer is None else f"; {plural(fewer, 'representative')}"
    moves = f"{plural(counts.transitions, 'transition')}, depth {counts.depth}"
    return f"{plural(counts.states, 'state')}{configurations}, {moves}{representatives}"


def cases(examined: Sequence[evidence.Examined]) -> Cases:
    found = []
    for each in examined:
        machine, file = each.machine.name, each.path or each.machine.path
        suite = f"{machine}, {each.profile}" if each.profile else machine
        if each.resized and each.expected is not None:
            what = f"the file expects {sized(each.expected)}, but the model has {sized(each.counts)}"
            at, says = near(file, 1), "The model has the size that its property file expects."
            clause = Clause(name="expect", says=says, level="MUST", source=at.file)
            found.append(Case(suite=suite, name=machine, clause=clause, at=at, status="failed", what=what))
        for one in each.checked:
            detail = "\n".join(line.removeprefix("    ") for line in lines(one, PLAIN))
            found.append(property_case(one.of, suite, machine, file, status(one), detail))
    return Cases(command="check", found=tuple(found), answer=answer(examined))


def property_case(stated: Property, suite: str, machine: str, file: str, status: PropertyStatus, detail: str) -> Case:
    passed = status is PropertyStatus.HOLDS
    return Case(
        suite=suite,
        name=machine,
        clause=stated.clause,
        at=near(file, stated.line),
        status=status.case,
        what="" if passed else f"{status.word.lower()}: {stated.says}",
        detail="" if passed else detail,
    )


def json(examined: Sequence[evidence.Examined], *, why: int = 0) -> str:
    machines: list[Json] = [
        {
            **picked(each, machine="machine.name", profile="profile"),
            "reachable": record(each.counts) if each.counts else None,
            "expected": record(each.expected) if each.expected else None,
            **picked(each, "copies", "any_number?"),
            "washed_out": [dict(zip(("event", "state", "leads"), cell, strict=True)) for cell in each.washed_out],
            **({"uncovered": [list(cell) for cell in each.uncovered]} if each.uncovered else {}),
            "properties": [_checked_data(each, checked, why) for checked in each.checked],
        }
        for each in examined
    ]
    return dumped({"verdict": answer(examined).word, "machines": machines})


def _checked_data(examination: evidence.Examined, checked: evidence.Checked, why: int) -> Json:
    return {
        **record(checked.of.clause),
        "status": status(checked).word.lower(),
        "searched": record(checked.searched),
        "overlap": _overlap_limit(checked) or None,
        **({"unbounded": True} if checked.unbounded else {}),
        **({"scope": list(checked.scope), "cut": checked.cut} if checked.scope else {}),
        "known": record(checked.expected) if checked.expected else None,
        **_conclusion_data(checked),
        "why_step": [
            record(cell, "known", "conditions")
            | {"conditions": [_condition(one, examination.machine) for one in cell.conditions]}
            for cell in _cells(examination, checked, why)
        ],
    }


def _arrow(arrow: evidence.DrawnItem) -> str:
    if not arrow.source and not arrow.event:
        return f"state {arrow.target}"
    return f"{arrow.event or 'an arrow without a label'}: {arrow.source or 'nowhere'} → {arrow.target}"


def _conclusion_data(checked: evidence.Checked) -> dict[str, Json]:
    found: dict[str, Json] = dict.fromkeys(("why", "counterexample", "witnesses", "any_number", "unwritten"))
    match checked.verdict:
        case evidence.Proved(witnesses=witnesses, any_number=part):
            found |= {"witnesses": [data(witness) for witness in witnesses], "any_number": part or None}
        case evidence.Unwritten(why=why, run=run) as each:
            found |= {"why": why, "unwritten": {**record(each, "why", "run"), "run": data(run)}}
        case evidence.Vacuous(unmet=why) | Unknown(why=why) | evidence.Refuted(evidence=evidence.Unreached(text=why)):
            found["why"] = why
        case evidence.Refuted(evidence=evidence.Run() as run):
            found["counterexample"] = data(run)
        case evidence.Refuted(evidence=evidence.Unexplained(run=run) as each):
            found |= {"counterexample": data(run), "why": record(each, "run")}
        case evidence.Refuted(evidence=evidence.Misdrawn(place=place) as drawn):
            arrows: dict[str, Json] = {
                name: [{**record(arrow), **picked(arrow, "line?", "column?")} for arrow in those]
                for name, those in (("lacks", drawn.lacks), ("adds", drawn.adds))
            }
            found["why"] = {"drawing": place, **arrows}
        case _:
            raise AssertionError(checked)
    return found
