"""Data for the page of a machine, with a table for each profile."""

import json
import re
from collections import Counter
from collections.abc import Collection, Iterator, Mapping
from heapq import heappop, heappush
from itertools import chain, count, repeat
from typing import Final, NamedTuple, TypeAlias

from fsm.diagrams.draw.dot import FONT, svg
from fsm.diagrams.draw.picture import picture
from fsm.machine import Clause, Event, Machine, Moves, Outcome, Override, Profile
from fsm.machine.calls import BEGUN, ENDED, FREE, CallInstant, Rules
from fsm.machine.conditions import All, At, Condition, Not, Some
from fsm.machine.product import SystemTable
from fsm.machine.product.system import JointMove, System
from fsm.machine.table import UNSPECIFIED, tabulate
from fsm.machine.versions import within
from fsm.report.json_report import Json, picked

OTHERWISE: Final = "otherwise"
AT_ONCE: Final = 2  # maximum number of overlapping calls in a suggested walk
UNUSUAL: Final = 8  # cost of a step that is hidden or interrupts everything; other steps cost 1


class Choice(NamedTuple):
    key: str  # unique within the cell
    instant: CallInstant
    call: str  # "begins", "on", "ends" or "unspecified"; "interrupts" if all calls end; "" if the event takes no time

    def data(self, outcome: Outcome | None) -> Json:
        way, deviation = self.instant.way, self.instant.way and self.instant.way.deviation
        found: dict[str, Json] = {
            "call": self.call,
            "reply": [*way.reply] if way else [],
            "emits": [*self.instant.emits],
            "within": way.within if way else 0,
            "about": _about(outcome) if outcome else "",
            "deviation": deviation.name if deviation else "",
        }
        return {"key": self.key, "to": self.instant.to, **{name: value for name, value in found.items() if value}}


def _about(outcome: Outcome) -> str:
    """Return the description of *outcome* with its condition and updates, which the page does not compute."""
    when = f"Only if {outcome.when.text}." if outcome.when and outcome.when.text != OTHERWISE else ""
    when = "Only if no other outcome applies." if outcome.when and not when else when
    updates = ", ".join(f"{each.variable} := {each.text}" for each in outcome.updates)
    return " ".join(filter(None, (outcome.about, when, updates and f"Sets {updates}.")))


def choices(rules: Rules, state: int, row: int) -> Iterator[Choice]:
    table = rules.table
    ends = table.rows[row].ends
    instants = rules.instants(state, row - 1, BEGUN) if ends else rules.instants(state, row)
    known: Counter[str] = Counter()
    for instant in instants:
        name = instant.way.name if instant.way else f"{UNSPECIFIED}-{table.states[instant.to]}"
        known[name] += 1
        key = name if known[name] == 1 else f"{name}.{known[name]}"
        yield Choice(key, instant, _call(rules, instant, row, ends=ends))


def _call(rules: Rules, instant: CallInstant, row: int, *, ends: bool) -> str:
    if rules.interrupts(row):
        return "interrupts"
    if instant.stage == BEGUN:
        return "on" if ends else "begins"
    if instant.stage in {FREE, ENDED} and ends:
        return "unspecified"
    return "ends" if ends else ""


# A state, and the sorted rows of the calls in progress.
_Place: TypeAlias = tuple[int, tuple[int, ...]]


def walks(rules: Rules) -> Mapping[str, Json]:
    """Return a short walk to each reachable state, as a list of steps of the form ``ROW/KEY``.

    Walks contain no unspecified steps. They avoid steps that are hidden or interrupt everything, unless the
    alternative is much longer.
    """
    table = rules.table
    shortest: dict[int, tuple[str, ...]] = {}
    seen: set[_Place] = set()
    order = count()  # breaks ties in order of insertion
    going: list[tuple[int, int, _Place, tuple[str, ...]]] = [(0, next(order), (table.initial, ()), ())]
    while going:
        cost, _, at, steps = heappop(going)
        if at in seen:
            continue
        seen.add(at)
        shortest.setdefault(at[0], steps)
        for row, each in _next(rules, at):
            to = _place_after(at, row, each)
            if to not in seen and len(to[1]) <= AT_ONCE:
                event = table.rows[row].event
                more = UNUSUAL if event.interrupts or event.kind == "hidden" else 1
                heappush(going, (cost + more, next(order), to, (*steps, f"{table.rows[row].name}/{each.key}")))
    return {table.states[state]: [*steps] for state, steps in shortest.items()}


def _next(rules: Rules, at: _Place) -> Iterator[tuple[int, Choice]]:
    state, calls = at
    own = [row for row in rules.table.rows if not row.ends]
    own.sort(key=lambda row: row.event.kind != "call")
    for row in (*(row + 1 for row in dict.fromkeys(calls)), *(row.index for row in own)):
        yield from ((row, choice) for choice in choices(rules, state, row) if choice.instant.way is not None)


def _place_after(at: _Place, row: int, taken: Choice) -> _Place:
    calls = [*at[1]]
    match taken.call:
        case "begins":
            calls = sorted([*calls, row])
        case "ends" | "unspecified":
            calls.remove(row - 1)
        case "interrupts":
            calls = []
    return taken.instant.to, tuple(calls)


def cell_data(rules: Rules) -> list[Json]:
    table = rules.table
    found: list[Json] = []
    for row in table.rows:
        for state in range(len(table.states)):
            cell = table.cell(state, row.index)
            outcomes = chain(cell.outcomes if isinstance(cell, Moves) else (), repeat(None))
            ways = zip(choices(rules, state, row.index), outcomes, strict=False)
            found.append(
                {
                    "is": type(cell).__name__.lower() if cell is not None else "",
                    "clause": cell.clause.name if cell is not None else "",
                    "ways": [each.data(outcome) for each, outcome in ways],
                }
            )
    return found


# Matches ids and fonts, which are removed from the SVG. The page sets the font itself.
_REPEATED: Final = re.compile(rf' (?:id="[^"]*"|font-family="{FONT}")')


def machine_data(
    machine: Machine, *, profile: str | None = None, also: Collection[str] = (), only: Collection[str] | None = None
) -> dict[str, Json]:
    """Return the data for the page of *machine*, which initially shows *profile*.

    The page has the profiles in *only*, or all profiles of the machine if *only* is ``None``, and those in *also*.
    Raise :class:`~fsm.diagrams.draw.dot.NoDotError` if Graphviz is not installed.
    """
    own = within(profile, machine.profiles)
    own_names = [each for each in machine.profiles if only is None or each in only]
    names = [*dict.fromkeys(("", *own_names, own or "", *also))]
    machines = {name: machine.under(name or None) for name in names}
    rules = {name: Rules(tabulate(each)) for name, each in machines.items()}
    cells = {name: cell_data(each) for name, each in rules.items()}
    drawings = {name: picture(each) for name, each in machines.items()}
    pictures = [*dict.fromkeys(drawings.values())]
    svgs = (_REPEATED.sub("", svg(each).decode()) for each in pictures)
    table = rules[""].table
    return {
        **picked(machine, "name", "title", "about", "source", "entity"),
        "initial": table.initial,
        "states": [
            {
                **picked(state, "name", "about"),
                "shows": state.shows if state.shows != state.name else "",
                "kind": state.kind or "",
            }
            for state in machine.states.values()
        ],
        "rows": [
            {
                **picked(row, "name", "ends", event="event.name"),
                **picked(row.event, "kind", "about", "rpc", "interrupts"),
            }
            for row in table.rows
        ],
        "clauses": dict(_clauses(machine)),
        "profile": own or "",
        "profiles": [
            {
                "name": name,
                **_profile_data(machine.profiled(name) if name else None),
                **({"others": _changed(cells[name], cells[""])} if name else {"cells": cells[name]}),
                "walks": dict(walks(rules[name])),
                "picture": pictures.index(drawings[name]),
            }
            for name in names
        ],
        "pictures": [drawn[drawn.index("<svg") :] for drawn in svgs],
    }


def _clauses(machine: Machine) -> Iterator[tuple[str, Json]]:
    profiles = machine.profiles.values()
    overrides = [override for profile in profiles for override in profile.overrides]
    deviations = [each.deviation for each in overrides]
    deviations += (exemption.deviation for profile in profiles for exemption in profile.exemptions)
    broken = (each.clause for each in deviations if each)
    rows: tuple[Event | Override, ...] = (*machine.events.values(), *overrides)
    used = (cell.clause for row in rows for cell in (*row.cells.values(), *row.ends.values()))
    for clause in (*machine.clauses.values(), *used, *broken):
        yield clause.name, clause_data(clause)


def clause_data(clause: Clause) -> dict[str, Json]:
    return picked(clause, "name", "says", "level", "source", "link")


def _profile_data(profile: Profile | None) -> dict[str, Json]:
    if profile is None:
        return {"about": "", "changes": []}
    changes: list[Json] = [
        {
            **picked(override, "name", "event", "about", "since", "until"),
            "states": [*dict.fromkeys((*override.cells, *override.ends))],
            "clause": override.deviation.clause.name if override.deviation else "",
            "link": override.deviation.link if override.deviation else "",
        }
        for override in profile.overrides
    ]
    return {"about": profile.about, "changes": changes}


def _changed(cells: list[Json], base: list[Json]) -> Json:
    pairs = enumerate(zip(cells, base, strict=True))
    return {str(number): cell for number, (cell, before) in pairs if cell != before}


def system_data(system: System, profile: str | None = None) -> dict[str, Json]:
    options: dict[str, int] = {}
    names = [*dict.fromkeys(("", *system.profiles, profile or ""))]
    tables = {name: SystemTable(system.partly_under(name or None)) for name in names}
    variants = {name: _events(table, options) for name, table in tables.items()}
    base = variants[""]
    machines = [*dict.fromkeys(part.machine.name for part in system.parts.values())]
    copies = [(copy.name, system.parts[copy.part]) for copy in system.copies]
    return {
        "name": system.name,
        "profiles": [*names],
        "copies": [
            {
                "name": name,
                "machine": machines.index(part.machine.name),
                "about": part.about,
                "initial": [*part.machine.states].index(part.initial),
            }
            for name, part in copies
        ],
        "clauses": {clause.name: clause_data(clause) for clause in system.clauses.values()},
        "events": [
            {**picked(each, "name", "family", "kind", "rpc", "about", clause="clause.name")}
            for each in system.events.values()
        ],
        "steps": {
            name: {
                event: found.get(event) for event in system.events if not name or found.get(event) != base.get(event)
            }
            for name, found in variants.items()
        },
        "states": {name: _states(table) for name, table in tables.items()},
        "options": [json.loads(option) for option in options],
    }


def _states(table: SystemTable) -> Json:
    parts = (table.table_of(copy.part) for copy in table.system.copies)
    return [[part.bare(state) for state in range(len(part.states))] for part in parts]


def _events(table: SystemTable, options: dict[str, int]) -> dict[str, Json]:
    return {
        row.joint.name: {
            "when": _condition(row.joint.when, table),
            "ways": [
                {
                    **picked(path.way, "name", "about"),
                    "when": _condition(path.way.when, table),
                    "reply": [*path.reply],
                    "moves": [_move(move, table, options) for move in path.moves],
                }
                for path in row.paths
            ],
        }
        for row in table.joint
    }


def _move(move: JointMove, table: SystemTable, options: dict[str, int]) -> Json:
    offered = [
        [
            {
                "to": to,
                "error": [*error],
                "outcome": done.outcome,
                "emits": [output.removesuffix(move.step.copy.suffix) for output in done.emits],
            }
            for to, error, done, *_ in move.options(local)
        ]
        for local in range(move.states)
    ]
    text = json.dumps(offered, sort_keys=True)
    return {
        **picked(move, copy="at", event="step.event", ends="step.ends"),
        "when": _condition(move.step.when, table),
        "heard": _condition(move.part.heard, table),
        "options": options.setdefault(text, len(options)),
    }


def _condition(condition: Condition | None, table: SystemTable) -> Json:
    """Encode *condition* as nested lists. A simple condition is ``["at", copies, states, every]``."""
    match condition:
        case None:
            return None
        case Not(of=inner):
            return ["not", _condition(inner, table)]
        case All(of=parts) | Some(of=parts):
            return ["all" if isinstance(condition, All) else "some", *(_condition(each, table) for each in parts)]
        case At(part=part, copies=copies, states=states, every=every):
            numbers = (number for number, state in enumerate(table.table_of(part).states) if state in states)
            return ["at", [*copies], [*numbers], every or len(copies) == 1]
        case _:
            raise TypeError(f"{condition} is not about the states of parts")
