"""Data for the page of a machine, with a table for each profile."""

import json
import re
from collections.abc import Collection, Iterator, Mapping
from heapq import heappop, heappush
from itertools import count
from typing import Final, NamedTuple

from fsm.diagrams.draw.dot import FONT, svg
from fsm.diagrams.draw.picture import Picture, picture
from fsm.machine import Cell, Clause, Event, Machine, Moves, Outcome, Override, Profile
from fsm.machine.calls import BEGUN, ENDED, FREE, CallInstant, Rules
from fsm.machine.conditions import All, At, Condition, Not, Some
from fsm.machine.product import JointPath, SystemTable
from fsm.machine.product.system import JointMove, System
from fsm.machine.table import UNSPECIFIED, Table, tabulate
from fsm.machine.versions import within
from fsm.report.json_report import Json, picked

AT_ONCE: Final = 2  # maximum number of overlapping calls in a suggested walk
UNUSUAL: Final = 8  # cost of a step that is hidden or interrupts everything; other steps cost 1


class Choice(NamedTuple):
    key: str  # unique within the cell
    instant: CallInstant
    call: str  # begins, on, ends or unspecified; interrupts: ends all calls; empty: takes no time

    def data(self, outcome: Outcome | None) -> Json:
        way = self.instant.way
        found: dict[str, Json] = {
            "key": self.key,
            "to": self.instant.to,
            "call": self.call,
            "reply": [*way.reply] if way else [],
            "emits": [*self.instant.emits],
            "within": way.within if way else 0,
            "about": outcome.about if outcome else "",
            "deviation": way.deviation.name if way and way.deviation else "",
        }
        return {name: value for name, value in found.items() if name in {"key", "to"} or value}


def choices(rules: Rules, state: int, row: int) -> Iterator[Choice]:
    table = rules.table
    ends = table.rows[row].ends
    instants = rules.instants(state, row - 1, BEGUN) if ends else rules.instants(state, row)
    known: dict[str, int] = {}
    for instant in instants:
        name = instant.way.name if instant.way else f"{UNSPECIFIED}-{table.states[instant.to]}"
        known[name] = known.get(name, 0) + 1
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


def outcome_of(cell: Cell | None, way: int) -> Outcome | None:
    return cell.outcomes[way] if isinstance(cell, Moves) and way < len(cell.outcomes) else None


class _Place(NamedTuple):
    """A state, and the rows of the calls in progress in sorted order."""

    state: int
    calls: tuple[int, ...]


def walks(rules: Rules) -> Mapping[str, Json]:
    """Return a short walk to each reachable state, with steps of the form ``ROW/KEY``. None of them is unspecified.

    Walks avoid steps that are hidden or interrupt everything, unless the alternative is much longer.
    """
    table = rules.table
    shortest: dict[int, tuple[str, ...]] = {}
    seen: set[_Place] = set()
    order = count()  # breaks ties in order of insertion
    going: list[tuple[int, int, _Place, tuple[str, ...]]] = [(0, next(order), _Place(table.initial, ()), ())]
    while going:
        cost, _, at, steps = heappop(going)
        if at in seen:
            continue
        seen.add(at)
        shortest.setdefault(at.state, steps)
        for row, each in _next(rules, at):
            to = _place_after(at, row, each)
            if to not in seen and len(to.calls) <= AT_ONCE:
                event = table.rows[row].event
                more = UNUSUAL if event.interrupts or event.kind == "hidden" else 1
                heappush(going, (cost + more, next(order), to, (*steps, f"{table.rows[row].name}/{each.key}")))
    return {table.states[state]: [*steps] for state, steps in shortest.items()}


def _next(rules: Rules, at: _Place) -> Iterator[tuple[int, Choice]]:
    table = rules.table
    own = [row.index for row in table.rows if not row.ends]
    own.sort(key=lambda row: table.rows[row].event.kind != "call")
    for row in (*(row + 1 for row in dict.fromkeys(at.calls)), *own):
        for choice in choices(rules, at.state, row):
            if choice.instant.way is not None:
                yield row, choice


def _place_after(at: _Place, row: int, taken: Choice) -> _Place:
    calls = [*at.calls]
    match taken.call:
        case "begins":
            calls = sorted([*calls, row])
        case "ends" | "unspecified":
            calls.remove(row - 1)
        case "interrupts":
            calls = []
    return _Place(taken.instant.to, tuple(calls))


def cell_data(table: Table, rules: Rules) -> list[Json]:
    found: list[Json] = []
    for row in table.rows:
        for state in range(len(table.states)):
            cell = table.cell(state, row.index)
            ways = [each.data(outcome_of(cell, number)) for number, each in enumerate(choices(rules, state, row.index))]
            found.append(
                {
                    "is": type(cell).__name__.lower() if cell is not None else "",
                    "clause": cell.clause.name if cell is not None else "",
                    "ways": ways,
                }
            )
    return found


# Parts of the SVG to remove: the ids, and the font, which is set by the page.
_REPEATED: Final = re.compile(rf' (?:id="[^"]*"|font-family="{FONT}")')


def machine_data(
    machine: Machine, *, profile: str | None = None, also: Collection[str] = (), only: Collection[str] | None = None
) -> dict[str, Json]:
    """Return the data of *machine*, with *profile* first: all profiles or those in *only*, and those in *also*.

    Raise :class:`~fsm.diagrams.draw.dot.NoDotError` if Graphviz is not installed.
    """
    own = within(profile, machine.profiles)
    own_names = [each for each in machine.profiles if only is None or each in only]
    names = [*dict.fromkeys(("", *own_names, own or "", *also))]
    pictures: dict[Picture, int] = {}
    variants = [_Variant(machine.under(name or None), pictures) for name in names]
    base = variants[0]
    table = base.table
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
            {"name": name, **_profile_data(machine.profiled(name) if name else None), **variant.data(base)}
            for name, variant in zip(names, variants, strict=True)
        ],
        "pictures": [
            drawn[drawn.index("<svg") :] for drawn in (_REPEATED.sub("", svg(each).decode()) for each in pictures)
        ],
    }


def _clauses(machine: Machine) -> Iterator[tuple[str, Json]]:
    profiles = machine.profiles.values()
    deviations = (
        *(each.deviation for profile in profiles for each in profile.overrides),
        *(exemption.deviation for profile in profiles for exemption in profile.exemptions),
    )
    broken = (each.clause for each in deviations if each)
    overrides = (override for profile in profiles for override in profile.overrides)
    rows: tuple[Event | Override, ...] = (*machine.events.values(), *overrides)
    used = (cell.clause for row in rows for cell in (*row.cells.values(), *row.ends.values()))
    for clause in (*machine.clauses.values(), *used, *broken):
        yield clause.name, clause_data(clause)


def clause_data(clause: Clause) -> dict[str, Json]:
    return picked(clause, "name", "says", "level", "source", "link")


def _profile_data(profile: Profile | None) -> dict[str, Json]:
    if profile is None:
        return {"about": "", "changes": []}
    return {"about": profile.about, "changes": [_change(override) for override in profile.overrides]}


def _change(override: Override) -> Json:
    return {
        **picked(override, "name", "event", "about", "since", "until"),
        "states": [*dict.fromkeys((*override.cells, *override.ends))],
        **(
            picked(override.deviation, clause="clause.name", link="link")
            if override.deviation
            else {"clause": "", "link": ""}
        ),
    }


class _Variant:
    def __init__(self, machine: Machine, pictures: dict[Picture, int]) -> None:
        self.table = tabulate(machine)
        rules = Rules(self.table)
        self.cells = cell_data(self.table, rules)
        self._walks = walks(rules)
        drawn = picture(machine)
        self._picture = pictures.setdefault(drawn, len(pictures))

    def data(self, base: "_Variant") -> dict[str, Json]:
        found: dict[str, Json] = {"cells": self.cells}
        if self is not base:
            pairs = enumerate(zip(self.cells, base.cells, strict=True))
            found = {"others": {str(number): cell for number, (cell, before) in pairs if cell != before}}
        return {**found, "walks": dict(self._walks), "picture": self._picture}


def system_data(system: System, profile: str | None = None) -> dict[str, Json]:
    options: dict[str, int] = {}
    names = [*dict.fromkeys(("", *system.profiles, profile or ""))]
    tables = {name: SystemTable(system.partly_under(name or None)) for name in names}
    variants = {name: _events(table, options) for name, table in tables.items()}
    base = variants[""]
    machines = [*dict.fromkeys(part.machine.name for part in system.parts.values())]
    return {
        "name": system.name,
        "profiles": [*names],
        "copies": [
            {
                "name": copy.name,
                "machine": machines.index(system.parts[copy.part].machine.name),
                "about": system.parts[copy.part].about,
                "initial": [*system.parts[copy.part].machine.states].index(system.parts[copy.part].initial),
            }
            for copy in system.copies
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
    by_part = {copy.part: table.table_of(copy.part) for copy in table.system.copies}
    return [
        [by_part[copy.part].bare(state) for state in range(len(by_part[copy.part].states))]
        for copy in table.system.copies
    ]


def _events(table: SystemTable, options: dict[str, int]) -> dict[str, Json]:
    return {
        row.joint.name: {
            "when": _condition(row.joint.when, table),
            "ways": [_way_data(path, table, options) for path in row.paths],
        }
        for row in table.joint
    }


def _way_data(path: JointPath, table: SystemTable, options: dict[str, int]) -> Json:
    return {
        **picked(path.way, "name", "about"),
        "when": _condition(path.way.when, table),
        "reply": [*path.reply],
        "moves": [_move(move, table, options) for move in path.moves],
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
            for to, error, done, _ in move.options(local)
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
        case All(of=parts):
            return ["all", *(_condition(each, table) for each in parts)]
        case Some(of=parts):
            return ["some", *(_condition(each, table) for each in parts)]
        case At(part=part, copies=copies, states=states, every=every):
            numbers: list[Json] = [
                number for number, state in enumerate(table.table_of(part).states) if state in states
            ]
            return ["at", [*copies], numbers, every or len(copies) == 1]
        case _:
            raise TypeError(f"{condition} is not about the states of parts")
