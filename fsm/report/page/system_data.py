"""Data of a system for a page: its copies, and each joint event as the steps of its parts.

There are too many joint states to list.  The data says what a step of a part does in each of that part's states.  The
page's script combines these steps, as :mod:`fsm.machine.product` does.
"""

import json

from fsm.machine.conditions import All, At, Condition, Not, Some
from fsm.machine.product import JointPath, SystemTable
from fsm.machine.product.joint_moves import JointMove
from fsm.machine.product.system import System
from fsm.report.json_report import Json, picked
from fsm.report.page.machine_data import clause_data


def system_data(system: System, profile: str | None = None) -> dict[str, Json]:
    """Return the page data of *system* without a profile, under each of its profiles, and under *profile*."""
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
            {
                **picked(each, "name", "family", "kind", "rpc", "about", clause="clause.name"),
            }
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
            "ways": [_way(path, table, options) for path in row.paths],
        }
        for row in table.joint
    }


def _way(path: JointPath, table: SystemTable, options: dict[str, int]) -> Json:
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
    """Encode *condition* on the states of copies: ``["at", copies, states, every]``, or a combination of conditions."""
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
