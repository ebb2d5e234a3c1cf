"""Explain the steps that led to each possible state, and the observations that ruled out other states.

Database research calls this why-provenance (Buneman, Khanna and Tan, 2001). Derivations are as short as possible, and
use deviations and silent cells only if there is no other derivation.
"""

from collections.abc import Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Final, TypeAlias

from fsm.machine import Clause
from fsm.machine.calls import CallInstant
from fsm.machine.calls.configuration import Configuration, Configurations, bits, numbers
from fsm.machine.calls.unobserved import TooManyError
from fsm.machine.evidence import Sight, UsedCell, run_step, used_cell
from fsm.machine.findings import Cause, Permitted
from fsm.machine.table import UNSPECIFIED, Way
from fsm.monitor.diagnosis import Scene, likely, reasons
from fsm.monitor.stepping import TOO_MANY, BeliefMove

TRIED: Final = 20_000
"""Maximum number of configurations to search for derivations. States that are not found have no derivation."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Derivation:
    """The cells used to reach ``state``, or none if it was already possible before the observation."""

    state: str
    uses: tuple[UsedCell, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class RuledOut:
    """A state in which the entity cannot have been before an observation.

    ``cause`` says which part of the observation is illegal in this state, ``permitted`` are the legal alternatives,
    and ``clause`` is the clause that is broken. If the call whose reply was seen could not have ended yet, ``cause``
    is ``None``.
    """

    state: str
    cause: Cause | None
    permitted: tuple[Permitted, ...] = ()
    clause: Clause | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Provenance:
    """The reasons why the states ``after`` are possible after ``event`` was observed or assumed.

    At least one deviation or assumed event of each group in ``needed`` certainly occurred. ``note`` is the note on
    the step. If ``legal`` is false, nothing explains the observation, and the monitor simply continues from the states
    ``after``.
    """

    event: str
    after: tuple[str, ...]
    derivations: tuple[Derivation, ...]
    ruled_out: tuple[RuledOut, ...]
    needed: tuple[tuple[str, ...], ...]
    note: str
    legal: bool


def provenance(followed: BeliefMove, known: dict[object, Provenance] | None = None) -> Provenance:
    """Explain why the states after *followed* are possible. *known* caches explanations, because many steps recur."""
    at = (id(followed.scene.dynamics), followed.scene, followed.before, followed.step)
    known = {} if known is None else known
    if at in known:
        return known[at]
    scene, step = followed.scene, followed.step
    after, legal, gave_up = _states(step.to.configurations), step.explained is None, step.note == TOO_MANY
    ruled_out: tuple[RuledOut, ...] = ()
    with suppress(TooManyError):  # A part of a belief may have more possibilities than the whole belief.
        ruled_out = () if gave_up else tuple(_ruled_out_states(followed))
    known[at] = Provenance(
        event=scene.seen.event,
        after=tuple(map(scene.table.named, after)),
        derivations=tuple(_derivations(scene, after)) if legal and not gave_up else (),
        ruled_out=ruled_out,
        needed=step.tolerated,
        note=step.note,
        legal=legal,
    )
    return known[at]


def _ruled_out_states(followed: BeliefMove) -> Iterator[RuledOut]:
    scene, broken = followed.scene, followed.step.explained
    named, shows = scene.table.named, scene.seen.shows
    for state in _states(followed.before | scene.before):
        here = frozenset(each for each in scene.before if each.state == state)
        if scene.seen.output:
            here = scene.dynamics.closed(each for each in here if not each.queue)
        left = scene.dynamics.observed(here, scene.seen._replace(shows=""), scene.since).configurations
        # This part of the belief is not closed, because hidden events may lead out of it. The configurations after a
        # reply are not closed either.
        possible = any(not shows or scene.table.matches(each.state, shows) for each in scene.dynamics.closed(left))
        if possible and broken is None:
            continue
        if possible or not here:
            yield RuledOut(state=named(state), cause=Cause.TIME, clause=broken.clause if broken else None)
            continue
        fault, _, permitted, against = reasons(replace(scene, before=here))
        if scene.seen.phase == "reply" and not any(each.what for each in permitted):
            yield RuledOut(state=named(state), cause=None)
        else:
            # A look-up rules out the states that show another value, but breaks no clause.
            clause = against if broken or fault.cause is not Cause.STATE else None
            yield RuledOut(state=named(state), cause=fault.cause, permitted=permitted, clause=clause)


def _states(configurations: Configurations) -> list[int]:
    return sorted({each.state for each in likely(configurations)})


_Edge: TypeAlias = tuple[UsedCell | None, int, Configuration]
"""The cell used, the next stage, and the next configuration.

The stage is 0 before the observation takes effect, 1 after that, and 2 after its look-up.
"""


def _derivations(scene: Scene, states: Iterable[int]) -> Iterator[Derivation]:
    wanted, dynamics, last = {*states}, scene.dynamics, 1 + bool(scene.seen.shows or scene.seen.args)
    if scene.seen.phase == "assumed":
        scene = replace(scene, dynamics=replace(dynamics, unseen=(*dynamics.unseen, scene.row), assumed=scene.row))
    for doubtful in (False, True):  # Try deviations and silent cells only if there are no other reasons.
        done: set[tuple[int, Configuration]] = set()
        queue: list[tuple[_Edge, tuple[UsedCell, ...]]] = [(edge, ()) for edge in _starts(scene) if wanted]
        for (used, stage, here), before in queue:  # The list grows.
            doubt = used is not None and (used.deviation is not None or used.step.outcome == UNSPECIFIED)
            if (doubt and not doubtful) or (stage, here) in done or len(done) > TRIED:
                continue
            done.add((stage, here))
            path = (*before, used) if used else before
            if stage == last and here.state in wanted and not here.queue:
                wanted.remove(here.state)
                # An effect that a reply confirms is redundant if the path contains the same effect as an observed one.
                uses = (use for use in path if use.known != "confirmed" or replace(use, known="observed") not in path)
                yield Derivation(state=dynamics.table.named(here.state), uses=tuple(uses))
            queue += [(edge, path) for edge in _edges_after(scene, stage, here) if wanted]


def _includes_request(scene: Scene) -> bool:
    return scene.dynamics.calls(scene.row) and scene.seen.phase in {"", "answered", "maybe", "noticed", "request"}


def _starts(scene: Scene) -> Iterator[_Edge]:
    seen, dynamics = scene.seen, scene.dynamics
    over = seen.phase in {"request", "assumed"} or not (seen.output or seen.event)
    answers = dynamics.answering(numbers(scene.since or bits(scene.before)), seen) if seen.phase == "answered" else ()
    already = [_confirmed_cell(scene, scene.row, state, way) for state, way in answers]
    for here in sorted(likely(scene.before)):
        yield from ((each, 1, here) for each in already)
        for asked in dynamics.requested([here], scene.row) if _includes_request(scene) else [here]:
            yield None, int(over), asked


def _edges_after(scene: Scene, stage: int, here: Configuration) -> Iterator[_Edge]:
    seen, dynamics = scene.seen, scene.dynamics
    mine = dynamics.table.rows[scene.row].event if scene.row >= 0 else None
    # A belief already includes events that may have happened unobserved, except before the first observation.
    if stage or _includes_request(scene) or seen.output:
        for instant, after in dynamics.unseen_instants(here):
            event = dynamics.table.rows[instant.row].event
            known: Sight = "in progress" if event.kind == "call" and not dynamics.outputs else "unobserved"
            own = not stage and (after.queue != here.queue if seen.output else event is mine)
            yield _used_cell(scene, here.state, instant, "observed" if own else known), stage, after
    if stage == 1 and (seen.shows or seen.args):
        yield from ((None, 2, each) for each in dynamics.showing([here], seen))
    if not stage:
        yield from ((used, 1, after) for used, after in _effects(scene, here))


def _effects(scene: Scene, here: Configuration) -> Iterator[tuple[UsedCell | None, Configuration]]:
    seen, row, dynamics = scene.seen, scene.row, scene.dynamics
    if seen.output:
        if here.queue[:1] == (seen.output,):
            yield None, here._replace(queue=here.queue[1:])
    elif not dynamics.calls(row):
        for occurred, after in dynamics.occurrences(here, row, seen.emits, seen.phase):
            yield _used_cell(scene, here.state, occurred, "observed") if occurred else None, after
    elif seen.phase in {"lost", "maybe", "noticed"}:
        yield from ((None, after) for after in dynamics.given_up(here, row))
    else:
        for fit, after in dynamics.ended(here, row, seen, {}):
            ends = sorted(fit.ways, key=lambda way: (way[2] is None or bool(way[2].deviation), way[1] != here.state))
            yield _confirmed_cell(scene, *ends[0]) if ends else None, after


def _confirmed_cell(scene: Scene, row: int, state: int, way: Way | None) -> UsedCell:
    row, state = scene.table.origin[way.index] if way else (row, state)
    return _used_cell(scene, state, CallInstant(row, way, way.to if way else state, 0), "confirmed")


def _used_cell(scene: Scene, state: int, by: CallInstant, known: Sight) -> UsedCell:
    return used_cell(scene.table.machine, run_step(scene.table, state, by.row, by.way, by.to), known)
