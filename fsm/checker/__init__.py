"""Decide whether a machine has a property.

The verdict is proved, refuted with a shortest counterexample, or unknown.  Every claim is decided by an exhaustive
search of the reachable states.  The verdict is unknown if a search would exceed its limit.
"""

from collections.abc import Callable, Collection
from dataclasses import replace
from typing import TypeVar, assert_never

from fsm.checker.alike import Alike, conclusion_key
from fsm.checker.breadth_first import LIMIT, UNLIMITED, Ending, Limit, StoppedError, on
from fsm.checker.cones import Cones, JointListener, of_whole
from fsm.checker.drawn import check_matches
from fsm.checker.instants import StepCache, machine_table
from fsm.checker.liveness import check_leads_to
from fsm.checker.refinement import OutputListener, check_follows, check_refines
from fsm.checker.safety import check_idempotent, check_none, check_reachable, needed, proved_or_vacuous
from fsm.errors import of_extra
from fsm.language import library
from fsm.machine import Machine, Silent, claims
from fsm.machine.calls.unobserved import TooManyError
from fsm.machine.evidence import (
    Checked,
    Conclusion,
    Examined,
    Proved,
    Refuted,
    Undecided,
    Unwritten,
    Vacuous,
)
from fsm.machine.guards import has_data
from fsm.machine.in_progress import InProgress, in_progress
from fsm.machine.product import SystemTable, tables_of
from fsm.machine.product.system import System
from fsm.machine.table import UNSPECIFIED, Done, Table, tabulate
from fsm.machine.traversal import Explored, LimitError
from fsm.machine.versions import meant
from fsm.verdict import Unknown


def washed_out(machine: Machine, unobserved: Collection[str] | None = None) -> tuple[tuple[str, str, str], ...]:
    """Find events that may become unspecified because of an event that the caller cannot observe.

    Each result is an event, a state in which the model is silent about the event, and a cause.  The cause is the last
    of one or more unobserved events that lead to this state from a state in which the event is specified.  An
    unobserved event may be its own cause.  *unobserved* defaults to the hidden events.  Clauses of level MAY are
    skipped, because they are left open on purpose.

    >>> from fsm.language.library import load
    >>> washed_out(load("event-monitor")), washed_out(load("event-monitor"), ["stop"])
    ((), (('subscribe', 'closed', 'stop'),))
    """
    if unobserved is None:
        unobserved = [event.name for event in machine.events.values() if event.kind == "hidden"]
    moves = [
        (name, state, way.to)
        for name in unobserved
        for state in machine.states
        for way in machine.step(state, name) or ()
    ]
    found: dict[tuple[str, str], str] = {}
    for event in machine.events:
        cells = machine.events[event].cells
        silent = [state for state, cell in cells.items() if isinstance(cell, Silent) and cell.clause.level != "MAY"]
        found |= {(event, state): event for state in silent if event in unobserved}
        reached = {state for state in machine.states if state not in silent}
        while more := {to: name for name, state, to in moves if state in reached and to not in reached}:
            reached |= more.keys()
            found |= {(event, to): name for to, name in more.items()}
    return tuple((event, state, name) for (event, state), name in found.items())


M = TypeVar("M", bound=Machine | System)


def check(
    machine: Machine | System, *names: str, profile: str | None = None, limit: int = LIMIT, overlap: int = 1
) -> Examined:
    """Check the properties of *machine* listed in *names*, or all of its properties if no names are given.

    The properties are read from the file named after the machine in the ``properties`` folder, which is next to the
    folder of the model file.  If a search exceeds *limit* states, the verdict is unknown.  Up to *overlap* calls of
    each event may be in progress in one entity.  Raise :class:`InputError` if the property file is missing or
    malformed, and ``ValueError`` if the machine has no property with one of these names.

    >>> from fsm.language.library import load
    >>> (gone_for_good,) = check(load("examples/models/door.toml"), "gone-for-good").checked
    >>> gone_for_good.verdict
    Proved(witnesses=(), any_number='')
    """
    stated = library.claims(machine.path or machine.name)
    known = [each.name for each in stated.properties]
    for name in names:
        if name not in known:
            raise ValueError(f"{machine.name} has no property {name!r}; it has {', '.join(known)}")
    return examine(
        stated, profile or machine.profile or None, machine=machine, only=names or None, limit=limit, overlap=overlap
    )


def decide(
    stated: claims.Property,
    machine: Table | StepCache | Cones,
    *,
    profile: str | None = None,
    limit: int = LIMIT,
    ending: Ending = on,
) -> Checked:
    """Decide whether *machine*, which is already under *profile*, has the property *stated*.

    The verdict is unknown if *ending* returns a reason to stop.  To check many properties of one machine, pass the same
    :class:`StepCache` or :class:`Cones` each time, so that each step is computed only once.

    >>> from fsm.language.library import load, specification
    >>> from fsm.machine.table import tabulate
    >>> stated = specification("examples/models/door.toml").properties[0]
    >>> type(decide(stated, tabulate(load("examples/models/door.toml"))).verdict).__name__
    'Proved'
    """
    claim, overlap, covered = stated.claim, 0, Explored(0, 0, 0)
    scope, cut = tuple[str, ...](), 0
    searched = claims.Counts(states=0, transitions=0, depth=0)

    def looking(now: Explored) -> str:
        nonlocal covered
        covered = now
        return ending(now)

    within = Limit(states=min(limit, UNLIMITED), ending=looking)
    try:
        within.watch(covered)
        if isinstance(machine, Table):
            machine = StepCache(machine)
        cone = stepping = machine.stepping(claim) if isinstance(machine, Cones) else machine
        conclusion, searched = _cached_conclusion(claim, stepping, profile, within)
        if isinstance(machine, Cones):
            of_cone = conclusion, cone, machine, lambda other: _cached_conclusion(other, cone, profile, within)[0]
            if (of_all := of_whole(claim, *of_cone, within)) is None:
                stepping = machine.whole
                of_all, searched = _cached_conclusion(claim, stepping, profile, within)
            conclusion = of_all
        if _could_change(claim, conclusion) and stepping.left_out[0]:
            overlap = stepping.overlap
        scope, cut = _scope(claim, conclusion, stepping)
    except LimitError as error:
        conclusion = Unknown(why=f"the search has more than {error.limit:,} states")
    except StoppedError as error:
        conclusion = Unknown(why=_stop_reason(error.why, error.covered))
    except MemoryError:  # a single large allocation may fail even if other memory is free
        conclusion = Unknown(why=_stop_reason("out of memory", covered))
    except TooManyError:
        conclusion = Unknown(why="too many calls overlap, or too many values are possible, to try them all")
    return Checked(
        of=stated,
        profile=profile,
        verdict=conclusion,
        expected=stated.expected(profile),
        searched=searched,
        overlap=overlap,
        scope=scope,
        cut=cut,
    )


def _decide_unbounded(
    stated: claims.Property,
    stepping: StepCache | Cones,
    *,
    profile: str | None,
    limit: int,
    ending: Ending,
) -> Checked:
    """Like :func:`decide`, but let a solver decide claims about data for all integers."""
    if not isinstance(stepping, StepCache) or not isinstance(stepping.table, InProgress):
        return decide(stated, stepping, profile=profile, limit=limit, ending=ending)
    engine = of_extra("fsm.checker.unbounded", "--unbounded", extra="smt")
    machine, overlap = machine_table(stepping.table).machine, stepping.overlap
    conclusion: Conclusion = engine.Unbounded(machine=machine, overlap=overlap).decide(stated.claim)
    if isinstance(conclusion, Proved) and isinstance(stated.claim, claims.Always | claims.Never):
        conclusion = proved_or_vacuous(stepping, Limit(states=limit, ending=ending), needed(stated.claim))
    return Checked(
        of=stated,
        profile=profile,
        verdict=conclusion,
        expected=stated.expected(profile),
        searched=claims.Counts(states=0, transitions=0, depth=0),
        overlap=overlap if isinstance(conclusion, Proved) and stepping.left_out[0] else 0,
        unbounded=True,
    )


def _uncovered(machine: Machine) -> tuple[tuple[str, str, str], ...]:
    return tuple(of_extra("fsm.checker.unbounded", "--unbounded", extra="smt").Unbounded(machine=machine).uncovered())


def _stop_reason(why: str, covered: Explored) -> str:
    if not covered.nodes:
        return f"{why} before the search began"
    return f"{why} after {covered.nodes:,} states, with a frontier of {covered.frontier:,} at depth {covered.depth}"


def examine(
    specification: claims.Specification[Machine | System],
    profile: str | None = None,
    *,
    machine: Machine | System | None = None,
    only: Collection[str] | None = None,
    limit: int = LIMIT,
    overlap: int = 1,
    unbounded: bool = False,
    ending: Ending = on,
    advanced: Callable[[], None] = lambda: None,
    copies: Collection[claims.Specification[System]] = (),
    alike: Alike | None = None,
) -> Examined:
    """Check the properties in *specification* under *profile*.

    *machine* replaces the machine of the specification.  If *only* is given, only the properties with these names
    are checked, and the expected size of a system is not compared, because it depends on all of its properties.
    *advanced* is called after each property.  *copies* holds the same properties restated for other copies, which
    are reported only if their outcome differs.  If *unbounded* is true, a solver decides claims about data.
    Profiles that behave alike share their conclusions through *alike*.
    """
    described = machine or specification.machine
    specification = as_known(specification, profile, limit, ending)
    machine = described.under(profile)
    joint = isinstance(machine, System)
    stepping = stepping_of(machine, alike, overlap)
    checked = []
    for stated in specification.properties:
        if only is None or stated.name in only:
            engine = _decide_unbounded if unbounded else decide
            checked.append(engine(stated, stepping, profile=profile, limit=limit, ending=ending))
            advanced()
    first = {each.of.name: _outcome(each) for each in checked}
    others = [
        (number, decide(as_other, stepping, profile=profile, limit=limit, ending=ending))
        for number, other in enumerate(copies, 2)
        for as_other in other.properties
        if as_other.name in first
    ]
    for number, each in others:
        if _outcome(each) != first[each.of.name]:
            checked.append(replace(each, of=replace(each.of, name=f"{each.of.name}, copy {number}")))
    return Examined(
        machine=described,
        profile=profile,
        counts=size_within(stepping, Limit(states=limit, ending=ending)),
        expected=None if joint and only is not None else specification.expect.get(profile or claims.NO_PROFILE),
        checked=tuple(checked),
        copies=len(others),
        washed_out=() if isinstance(machine, System) else washed_out(machine),
        uncovered=_uncovered(machine) if unbounded and isinstance(machine, Machine) else (),
        path=specification.path,
    )


def size_within(stepping: StepCache | Cones, limit: Limit) -> claims.Counts | None:
    try:
        return stepping.size(limit)
    except (LimitError, StoppedError, MemoryError):
        return None


def _outcome(checked: Checked) -> tuple[type[Conclusion], int]:
    return type(checked.verdict), checked.verdict.length if isinstance(checked.verdict, Refuted) else 0


def as_known(
    of: claims.Specification[M], profile: str | None, limit: int = LIMIT, ending: Ending = on
) -> claims.Specification[M]:
    """Return *of*, a specification, with the failures that are expected under *profile*.

    *profile* may be a version or a set of versions.  A property is expected to fail if it is a known failure of a
    profile covered by *profile* and its verdict is ``Refuted`` or ``Undecided``.

    >>> from fsm.language.library import specification
    >>> of = as_known(specification("examples/models/washer.toml"), "acme-1.7.24")
    >>> old, new = "acme-1.7", "acme-1.7.24"
    >>> [each.name for each in of.properties if each.expected(old) and not each.expected(new)]
    ['stop-is-idempotent', 'stop-of-the-idle-succeeds']
    """
    names = meant(profile, of.machine.profiles)
    if profile is None or profile in names.values() or not all(names.values()):
        return of
    stepping = stepping_of(of.machine.under(profile))
    properties = []
    for each in of.properties:
        known = next((each.fails[name] for name in names.values() if name in each.fails), None)
        if known:
            verdict = decide(each, stepping, profile=profile, limit=limit, ending=ending).verdict
            length = verdict.length if isinstance(verdict, Refuted) else 0
            known = replace(known, length=length) if isinstance(verdict, Refuted | Undecided) else None
        properties.append(replace(each, fails={**each.fails, profile: known}) if known else each)
    return replace(of, properties=tuple(properties))


def stepping_of(machine: Machine | System, alike: Alike | None = None, overlap: int = 1) -> StepCache | Cones:
    if isinstance(machine, System):
        return Cones(system=machine, alike=alike, tables=tables_of(machine, overlap))
    table = in_progress(tabulate(machine), overlap)
    return StepCache(table, concluded=alike.of(table) if alike else None)


def _cached_conclusion(
    claim: claims.Claim, stepping: StepCache, profile: str | None, limit: Limit
) -> tuple[Conclusion, claims.Counts]:
    if stepping.concluded is None or (key := conclusion_key(claim, profile, limit.states)) is None:
        return _conclude(claim, stepping, profile, limit)
    if key not in stepping.concluded:
        stepping.concluded[key] = _conclude(claim, stepping, profile, limit)
    return stepping.concluded[key]


def _conclude(
    claim: claims.Claim, stepping: StepCache, profile: str | None, limit: Limit
) -> tuple[Conclusion, claims.Counts]:
    """Search without unspecified ends of calls, and repeat the search with them if the conclusion may change."""
    conclusion, counts = _search_claim(claim, stepping, profile, limit)
    if _could_change(claim, conclusion) and stepping.left_out[1]:
        beyond, _ = _search_claim(claim, stepping.beyond, profile, limit)
        if isinstance(conclusion, Vacuous) and isinstance(beyond, Proved):
            return _unwritten_test(claim, conclusion.unmet, stepping.beyond, limit), counts
        return (beyond if _could_change(claim, beyond) else _unwritten_end(beyond) or beyond), counts
    return conclusion, counts


def _unwritten_test(claim: claims.Claim, unmet: str, beyond: StepCache, limit: Limit) -> Unknown:
    parts = needed(claim) if isinstance(claim, claims.Always | claims.Never) else claims.conditions_of(claim)
    for part in (part for part in parts if part.text == unmet):
        tested, _ = check_reachable(claims.Reachable(sequences=((part,),)), beyond, limit)
        if found := _unwritten_end(tested):
            return found
    return Unknown(why=f"whether {unmet} ever holds depends on how a call ends in a state without `ends`")


def _could_change(claim: claims.Claim, conclusion: Conclusion) -> bool:
    if isinstance(claim, claims.Refines | claims.MatchesDiagram | claims.Requires):
        return False
    if isinstance(claim, claims.Reachable):
        return not isinstance(conclusion, Proved)
    return not isinstance(conclusion, Refuted)


def _scope(claim: claims.Claim, conclusion: Conclusion, stepping: StepCache | Cones) -> tuple[tuple[str, ...], int]:
    """Return the ranges beyond which values might change the conclusion, and the number of steps that lead there."""
    if isinstance(claim, claims.Refines | claims.Follows):
        return (conclusion.scope, conclusion.cut) if isinstance(conclusion, Proved) else ((), 0)
    open_ = not isinstance(conclusion, Unknown) and _could_change(claim, conclusion)
    return stepping.scope if open_ and isinstance(stepping, StepCache) else ((), 0)


def _unwritten_end(conclusion: Conclusion) -> Unwritten | None:
    runs = conclusion.witnesses if isinstance(conclusion, Proved) else ()
    if isinstance(conclusion, Refuted) and conclusion.run is not None:
        runs = (conclusion.run,)
    for run in runs:
        for done in (done for step in (*run.steps, *run.cycle) for done in step.done or (step,)):
            if done.ends and done.outcome == UNSPECIFIED:
                copy = done.copy if isinstance(done, Done) else ""
                of = f" of {copy}" if copy else ""
                why = f"the verdict depends on how '{done.event}'{of} ends in '{done.source}', which has no `ends`"
                return Unwritten(why=why, event=done.event, state=done.source, run=run, copy=copy)
    return None


def _search_claim(  # noqa: C901  (one case for each kind of claim)
    claim: claims.Claim, stepping: StepCache, profile: str | None, limit: Limit
) -> tuple[Conclusion, claims.Counts]:
    match claim:
        case claims.Idempotent():
            return check_idempotent(claim, stepping, limit)
        case claims.Always() | claims.Never():
            return check_none(claim, stepping, limit)
        case claims.Reachable():
            return check_reachable(claim, stepping, limit)
        case claims.LeadsTo():
            return check_leads_to(claim, stepping, limit)
        case claims.Follows():
            table, followed = stepping.table, claim.other.partly_under(profile)
            if isinstance(table, SystemTable):
                if has_data(followed):
                    why = "parts of systems are not compared with machines that have data"
                    return Unknown(why=why), claims.Counts(states=0, transitions=0, depth=0)
                return check_follows(table, JointListener(table.system, claim, followed), limit)
            return check_follows(table, OutputListener(machine_table(table), tabulate(followed), exact=True), limit)
        case claims.Refines(other=other, overlap=overlap):
            refined = tabulate(other.partly_under(profile))
            return check_refines(machine_table(stepping.table), refined, overlap, limit)
        case claims.MatchesDiagram():
            return check_matches(claim, machine_table(stepping.table).machine)
        case claims.Requires():
            return Undecided(), claims.Counts(states=0, transitions=0, depth=0)
        case _:
            assert_never(claim)
