"""Machines read back from what was exported: slowly, and straight from the documents."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any
from xml.etree import ElementTree as ET

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

if TYPE_CHECKING:
    from collections.abc import Mapping
    from xml.etree.ElementTree import Element

SCXML = "{http://www.w3.org/2005/07/scxml}"
PLAIN: dict[str, type[Ignores | Cannot | Silent]] = {"ignores": Ignores, "cannot": Cannot, "silent": Silent}
OURS = "{urn:container-fsm:scxml}"


def bare(machine: Machine) -> Machine:
    """*machine* without the path and the lines of its file, and without the name of its profile."""
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
    """The machine that the JSON *document* is of."""
    return Machine(
        **{name: document[name] for name in ("name", "title", "about", "source", "initial", "entity")},
        indefinite=tuple(document["indefinite"]),
        states={
            name: State(name=name, about=each["about"], shows=each["shows"], aliases=tuple(each["aliases"]))
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
                since=each["since"] or "",
                until=each["until"] or "",
                overrides=tuple(_override(one) for one in each["overrides"]),
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
        about=way["about"] or "",
        aliases=tuple(way["aliases"]),
        deviation=_deviation(way["deviation"]),
    )


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
    )


# -- SCXML ---------------------------------------------------------------------


def from_scxml(text: str) -> Machine:
    """The machine that the state chart is of."""
    return _Chart(ET.fromstring(text)).machine()  # noqa: S314  (we wrote it)


class _Chart:
    """A document of ours."""

    def __init__(self, root: Element) -> None:
        self.root = root
        self.states = {each.attrib["id"]: each.attrib[f"{OURS}called"] for each in root.iter(f"{SCXML}state")}
        self.clauses = {
            each.attrib["key"]: Clause(
                name=each.get("name", ""),
                says=each.get("says", ""),
                level=each.attrib["level"],  # type: ignore[arg-type]
                source=each.get("source", ""),
                link=each.get("link", ""),
            )
            for each in root.iter(f"{OURS}clause")
        }
        self.listed = {each.attrib["key"] for each in root.iter(f"{OURS}clause") if "listed" in each.attrib}
        self.deviations = {
            each.attrib["name"]: self._deviation(
                each, each.attrib["call"], each.attrib["clause"], each.get("profile", "")
            )
            for each in root.iter(f"{OURS}deviation")
        }

    def _deviation(self, told: Element, event: str, clause: str, profile: str) -> Deviation:
        return Deviation(
            name=told.attrib["name"],
            event=event,
            clause=self.clauses[clause],
            profile=profile,
            about=told.get("about", ""),
            since=told.get("since", ""),
            until=told.get("until", ""),
            link=told.get("link", ""),
        )

    def machine(self) -> Machine:
        head = self.root.find(f"{OURS}machine")
        assert head is not None
        cells: dict[tuple[str, bool], dict[str, Cell]] = {}
        for each in self.root.iter(f"{SCXML}state"):
            for key, cell in self._state(each).items():
                cells.setdefault(key, {})[each.attrib[f"{OURS}called"]] = cell
        omits = self.root.find(f"{OURS}omits")
        named = {key: clause for key, clause in self.clauses.items() if key in self.listed}
        return Machine(
            name=head.attrib["called"],
            title=head.get("title", ""),
            about=head.get("about", ""),
            source=head.get("source", ""),
            entity=head.attrib["entity"],
            indefinite=tuple(head.get("indefinite", "").split()),
            initial=self.states[self.root.attrib["initial"]],
            states={
                each.attrib[f"{OURS}called"]: State(
                    name=each.attrib[f"{OURS}called"],
                    about=each.get(f"{OURS}about", ""),
                    shows=each.get(f"{OURS}shows", ""),
                    aliases=_names(each, "aliases"),
                )
                for each in self.root.iter(f"{SCXML}state")
            },
            events={
                each.attrib["name"]: Event(
                    name=each.attrib["name"],
                    kind=each.attrib["kind"],  # type: ignore[arg-type]
                    about=each.get("about", ""),
                    rpc=each.get("rpc", ""),
                    interrupts=each.get("interrupts") == "true",
                    aliases=_names(each, "aliases"),
                    cells=cells.get((each.attrib["name"], False), {}),
                    ends=cells.get((each.attrib["name"], True), {}),  # type: ignore[arg-type]
                )
                for each in self.root.iter(f"{OURS}event")
            },
            clauses=named,
            profiles={each.attrib["name"]: self._profile(each) for each in self.root.iter(f"{OURS}profile")},
            omits=None
            if omits is None
            else {
                each.attrib["row"]: Omission(
                    states=frozenset(_names(each, "states")), outcomes=frozenset(_names(each, "outcomes"))
                )
                for each in omits
            },
        )

    def _state(self, state: Element) -> dict[tuple[str, bool], Cell]:
        """The cells of one state, by event and whether it ends."""
        found: dict[tuple[str, bool], Any] = {}
        for each in state:
            told = {name.removeprefix(OURS): value for name, value in each.attrib.items()}
            if "row" not in told:
                continue
            key = told["row"], "ends" in told
            clause = self.clauses[told["clause"]]
            match told.get("is") or each.tag.removeprefix(OURS):
                case "refuses":
                    found[key] = Refuses(codes=tuple(told["reply"].split()), clause=clause)
                case "moves":
                    ways = found[key].outcomes if key in found else ()
                    emits = tuple(one.attrib[f"{OURS}output"] for one in each.iter(f"{SCXML}send"))
                    way = self._way(told, self.states[told["target"]], emits)
                    found[key] = Moves(outcomes=(*ways, way), clause=clause)
                case kind:
                    found[key] = PLAIN[kind](clause=clause)
        return found

    def _way(self, told: Mapping[str, str], to: str, emits: tuple[str, ...]) -> Outcome:
        return Outcome(
            name=told["outcome"],
            to=to,
            reply=tuple(told.get("reply", "").split()),
            emits=emits,
            begins=told.get("begins") == "true",
            about=told.get("about", ""),
            aliases=tuple(told.get("aliases", "").splitlines()),
            deviation=self.deviations.get(told.get("deviation", "")),
        )

    def _profile(self, element: Element) -> Profile:
        told = dict(element.attrib)
        return Profile(
            name=told["name"],
            about=told.get("about", ""),
            since=told.get("since", ""),
            until=told.get("until", ""),
            overrides=tuple(self._override(each, told["name"]) for each in element),
        )

    def _override(self, element: Element, profile: str) -> Override:
        told = element.attrib
        broken = told.get("deviates")
        deviation = self._deviation(element, told["row"], broken, profile) if broken else None
        cells: dict[bool, dict[str, Any]] = {False: {}, True: {}}
        for each in element:
            clause = self.clauses[each.attrib["clause"]]
            ways = tuple(self._way(way.attrib, way.attrib["to"], _names(way, "emits")) for way in each)
            match each.attrib["is"]:
                case "moves":
                    cell: Any = Moves(outcomes=ways, clause=clause)
                case "refuses":
                    cell = Refuses(codes=tuple(each.attrib["reply"].split()), clause=clause)
                case kind:
                    cell = PLAIN[kind](clause=clause)
            cells[each.get("ends") == "true"][each.attrib["in"]] = cell
        return Override(
            name=told["name"],
            event=told["row"],
            about=told.get("about", ""),
            deviation=deviation,
            cells=cells[False],
            ends=cells[True],
        )


def _names(parent: Element, name: str) -> tuple[str, ...]:
    return tuple(each.attrib["name"] for each in parent.findall(f"{OURS}{name}"))
