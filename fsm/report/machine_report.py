"""A machine for people: its states, and for each event what it does in each state and why."""

import textwrap
from collections.abc import Collection, Iterator, Mapping
from dataclasses import replace
from typing import Final, assert_never

from fsm.machine import Cannot, Cell, Clause, Event, Ignores, Machine, Moves, Outcome, Override, Refuses, Silent
from fsm.machine.graph import Graph
from fsm.machine.table import Table
from fsm.report.json_report import Json, dumped, record
from fsm.report.layout import Layout
from fsm.report.words import plural

_COLOURS: Final = {Moves: "green", Ignores: "blue", Refuses: "yellow", Cannot: "red", Silent: "magenta"}


def text(
    machine: Machine, graph: Graph[Table] | None, layout: Layout, *, events: Collection[str], states: Collection[str]
) -> str:
    """*machine* with the *events* and *states* asked for, ending in a newline.

    With *graph* the head has what of it can be reached.
    """
    lines = [layout.style(machine.name, "bold") + f": {machine.title}", *layout.kept(machine.about)]
    if graph is not None:
        lines += [*layout.kept(f"Source: {machine.source}."), *layout.kept(_facts(machine, graph)), ""]
        lines += _states(machine, layout)
    used: dict[Clause, None] = {}
    for event in machine.events.values():
        if event.name in events:
            lines += ["", *_event(event, states, layout, used)]
    if graph is not None and machine.requires:
        lines += ["", *_requirements(machine, layout, used)]
    lines += ["", "clauses"]
    for clause in used:
        says = f"{clause.name} ({clause.level}): {clause.says} [{clause.source}] {clause.link}"
        lines += layout.kept(says, "  ", "      ")
    return "\n".join(lines) + "\n"


def _facts(machine: Machine, graph: Graph[Table]) -> str:
    facts = [
        plural(len(machine.states), "state"),
        plural(len(machine.events), "event"),
        plural(len(graph.transitions), "transition"),
        f"depth {max(graph.depth.values())}",
        f"starts {machine.initial}",
    ]
    if unreachable := graph.unreachable():
        facts.append(f"never reached: {', '.join(unreachable)}")
    if machine.profiles:
        facts.append(f"profiles: {', '.join(machine.profiles)}")
    return "; ".join(facts) + "."


def _states(machine: Machine, layout: Layout) -> Iterator[str]:
    longest = max(map(len, machine.states))
    yield "states"
    for state in machine.states.values():
        says = f"{state.name:<{longest}}  {state.about} Shows {state.shows}."
        yield from layout.kept(says, "  ", " " * (longest + 4))


def _requirements(machine: Machine, layout: Layout, used: dict[Clause, None]) -> Iterator[str]:
    """The fields of a status, and what states require of them."""
    fields = ", ".join(f"{name} ({kind})" for name, kind in machine.fields.items())
    yield from layout.kept(f"fields: {fields}", "", "    ")
    for name, each in machine.requires.items():
        used.setdefault(each.clause)
        states = ", ".join(state for state in machine.states if state in each.states)
        yield from layout.kept(f"{states}: {each}  [{name}]", "  ", "      ")


def _event(event: Event, states: Collection[str], layout: Layout, used: dict[Clause, None]) -> Iterator[str]:
    wire = f" ({event.rpc})" if event.rpc and event.rpc != event.name else ""
    yield from layout.kept(f"{event.kind} {event.name}{wire}: {event.about}", "", "    ")
    cells: list[tuple[str, Cell]] = [(name, cell) for name, cell in event.cells.items() if name in states]
    cells += [(f"… {name}", cell) for name, cell in event.ends.items() if name in states]
    longest = max((len(name) for name, _ in cells), default=0)
    for name, cell in cells:
        used.setdefault(cell.clause)
        first = f"  {name:<{longest}}  "
        what = f"{says(cell, event)}  [{cell.clause.name}]"
        rows = textwrap.wrap(what, max(layout.width - len(first), 20), break_long_words=False, break_on_hyphens=False)
        yield first + layout.style(rows[0], _COLOURS[type(cell)])
        yield from (" " * len(first) + layout.style(row, _COLOURS[type(cell)]) for row in rows[1:])


def says(cell: Cell, event: Event) -> str:
    """What *cell* of *event* does, in a line."""
    match cell:
        case Moves(outcomes=outcomes):
            return "; or ".join(_outcome(each, several=len(outcomes) > 1) for each in outcomes)
        case Ignores():
            return "ok, nothing changes" if event.kind == "call" else "nothing changes"
        case Refuses(codes=codes):
            return f"refused: {_replies(codes)}"
        case Cannot():
            return "cannot happen"
        case Silent():
            return "unspecified"
        case _:
            assert_never(cell)


def _outcome(way: Outcome, *, several: bool) -> str:
    name = f"{way.name}: " if several else ""
    verb = "begins, meanwhile" if way.begins else "→"
    reply = f", {_replies(way.reply)}" if way.reply and way.reply != ("ok",) else ""
    emits = f", emits {', '.join(way.emits)}" if way.emits else ""
    deviation = f" (deviation, {way.deviation.profile})" if way.deviation else ""
    return f"{name}{verb} {way.to}{reply}{emits}{deviation}"


def _replies(codes: tuple[str, ...]) -> str:
    return " or ".join("any error" if code == "error" else code for code in codes)


def json(machine: Machine, *, events: Collection[str], states: Collection[str]) -> str:
    """The same as one JSON document, ending in a newline.

    With all events and states it holds all that the machine does, but for the
    lines and the path of the file that it was read from.
    """
    return dumped(
        {
            **record(replace(machine, requires={}), "path", "profile"),
            "requires": {
                name: {**record(replace(each, states=frozenset())), "states": [*sorted(each.states)]}
                for name, each in machine.requires.items()
            },
            "states": {name: record(each, "name") for name, each in machine.states.items() if name in states},
            "events": {
                each.name: _row_data(each, states, "name") for each in machine.events.values() if each.name in events
            },
            "omits": _omits_data(machine),
            "profiles": {
                name: {
                    **record(each, "name"),
                    "overrides": [_row_data(one, states, "line") for one in each.overrides if one.event in events],
                }
                for name, each in machine.profiles.items()
            },
        }
    )


def _omits_data(machine: Machine) -> Json:
    if machine.omits is None:
        return None
    return {
        event: {"states": [*sorted(each.states)], "outcomes": [*sorted(each.outcomes)]}
        for event, each in machine.omits.items()
    }


def _row_data(row: Event | Override, states: Collection[str], without: str) -> Json:
    cells, ends = _cells_data(row.cells, states), _cells_data(row.ends, states)
    return {**record(row, without), "cells": cells, "ends": ends}


def _cells_data(cells: Mapping[str, Cell], states: Collection[str]) -> Json:
    return {
        state: {"is": type(cell).__name__.lower(), **_cell_data(cell), "clause": record(cell.clause)}
        for state, cell in cells.items()
        if state in states
    }


def _cell_data(cell: Cell) -> dict[str, Json]:
    match cell:
        case Moves(outcomes=outcomes):
            return {
                "outcomes": [
                    {"begins" if each.begins else "to": each.to, **record(each, "begins", "to")} for each in outcomes
                ]
            }
        case Refuses(codes=codes):
            return {"codes": list(codes)}
        case _:
            return {}
