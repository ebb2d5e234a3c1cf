"""Read exported documents with a slow, independent reader."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from fsm.machine import (
    Cannot,
    Cell,
    Clause,
    Deviation,
    Event,
    Ignores,
    Machine,
    Moves,
    Omission,
    Outcome,
    Override,
    Profile,
    Refuses,
    Silent,
    State,
)
from fsm.machine.fields import Exemption, Requirement

if TYPE_CHECKING:
    from collections.abc import Mapping

SCXML = "{http://www.w3.org/2005/07/scxml}"
PLAIN: dict[str, type[Ignores | Cannot | Silent]] = {"ignores": Ignores, "cannot": Cannot, "silent": Silent}


def bare(machine: Machine) -> Machine:
    """Return the machine without its positions in a file and without the name of its profile."""
    return replace(
        machine,
        path="",
        profile="",
        events={
            name: replace(event, cells=_bare(event.cells), ends=_bare(event.ends))
            for name, event in machine.events.items()
        },
        profiles={
            name: replace(
                profile,
                overrides=tuple(
                    replace(each, line=0, cells=_bare(each.cells), ends=_bare(each.ends)) for each in profile.overrides
                ),
            )
            for name, profile in machine.profiles.items()
        },
    )


def _bare(cells: Mapping[str, Any]) -> dict[str, Any]:
    return {state: replace(cell, line=0) for state, cell in cells.items()}


# -- JSON ----------------------------------------------------------------------


def from_json(document: dict[str, Any]) -> Machine:
    return Machine(
        **{name: document[name] for name in ("name", "title", "about", "source", "initial", "entity")},
        indefinite=tuple(document["indefinite"]),
        fields=document["fields"],
        exemptions=tuple(map(_exemption, document["exemptions"])),
        requires={name: _requirement(each) for name, each in document["requires"].items()},
        states={
            name: State(
                name=name, about=each["about"], shows=each["shows"], aliases=tuple(each["aliases"]), kind=each["kind"]
            )
            for name, each in document["states"].items()
        },
        events={
            name: Event(
                name=name,
                kind=each["kind"],
                about=each["about"],
                rpc=each["rpc"] or "",
                aliases=tuple(each["aliases"]),
                interrupts=each["interrupts"],
                cells=_cells(each["cells"]),
                ends=_cells(each["ends"]),
            )
            for name, each in document["events"].items()
        },
        clauses={name: _clause(each) for name, each in document["clauses"].items()},
        profiles={
            name: Profile(
                name=name,
                about=each["about"],
                extends=each["extends"] or "",
                since=each["since"] or "",
                until=each["until"] or "",
                overrides=tuple(_override(one) for one in each["overrides"]),
                exemptions=tuple(map(_exemption, each["exemptions"])),
            )
            for name, each in document["profiles"].items()
        },
        omits=None
        if document["omits"] is None
        else {
            name: Omission(states=frozenset(each["states"]), outcomes=frozenset(each["outcomes"]))
            for name, each in document["omits"].items()
        },
    )


def _cells(cells: dict[str, Any]) -> dict[str, Any]:
    return {state: _cell(each) for state, each in cells.items()}


def _cell(each: dict[str, Any]) -> Cell:
    clause = _clause(each["clause"])
    match each["is"]:
        case "moves":
            return Moves(outcomes=tuple(_outcome(way) for way in each["outcomes"]), clause=clause)
        case "refuses":
            return Refuses(codes=tuple(each["codes"]), clause=clause)
        case kind:
            return PLAIN[kind](clause=clause)


def _outcome(way: dict[str, Any]) -> Outcome:
    return Outcome(
        name=way["name"],
        to=way["begins"] if "begins" in way else way["to"],
        begins="begins" in way,
        reply=tuple(way["reply"]),
        emits=tuple(way["emits"]),
        within=way["within"],
        about=way["about"] or "",
        aliases=tuple(way["aliases"]),
        deviation=_deviation(way["deviation"]),
    )


def _requirement(each: dict[str, Any]) -> Requirement:
    return Requirement(
        clause=_clause(each["clause"]),
        states=frozenset(each["states"]),
        set=tuple(each["set"]),
        unset=tuple(each["unset"]),
        not_before=each["not_before"],
        slack=each["slack"],
        values=_values(each["values"]),
        iff=_values(each["iff"]),
        keeps=tuple(each["keeps"]),
        when=_values(each["when"]),
        unless=_values(each["unless"]),
    )


def _exemption(each: dict[str, Any]) -> Exemption:
    deviation = _deviation(each["deviation"])
    assert deviation is not None
    when = _values(each["when"])
    return Exemption(deviation=deviation, when=when, since=each["since"] or "", until=each["until"] or "")


def _values(fields: dict[str, Any]) -> dict[str, Any]:
    return {name: tuple(values) for name, values in fields.items()}


def _clause(each: dict[str, Any]) -> Clause:
    return Clause(**{**each, "link": each["link"] or ""})


def _deviation(each: dict[str, Any] | None) -> Deviation | None:
    if each is None:
        return None
    texts = {name: value or "" for name, value in each.items() if name != "clause"}
    return Deviation(**texts, clause=_clause(each["clause"]))


def _override(each: dict[str, Any]) -> Override:
    return Override(
        name=each["name"],
        event=each["event"],
        about=each["about"],
        deviation=_deviation(each["deviation"]),
        cells=_cells(each["cells"]),
        ends=_cells(each["ends"]),
        since=each["since"] or "",
        until=each["until"] or "",
    )
