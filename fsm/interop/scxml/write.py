"""A machine as a state chart in SCXML, the W3C's notation, for tools that run or draw those.

Each outcome is an event of its own, as :mod:`fsm.interop.outcome_events` names
them; what is refused is one too.  Where an event does nothing but reply, its
transition has no target; where it cannot happen, or where the specification is
silent, there is none.

What SCXML has no word for stands in attributes and elements of our own
namespace, so that nothing is lost: replies, clauses, what a state shows,
cells without a transition, profiles; :mod:`fsm.interop.scxml.lossless` reads it.  No two namespaces use one word for two
things on the same element, since some readers drop the prefixes.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final
from xml.etree.ElementTree import Element, SubElement, indent, tostring

from fsm.interop.outcome_events import rows, words
from fsm.language.names import distinct, identifiers
from fsm.machine import Cannot, Moves, Refuses, Silent, outcomes

if TYPE_CHECKING:
    from collections.abc import Mapping

    from fsm.machine import Cell, Clause, Deviation, Event, Machine, Outcome, Profile

SCXML: Final = "http://www.w3.org/2005/07/scxml"
OURS: Final = "urn:container-fsm:scxml"
PARENT: Final = "#_parent"
"""Whoever runs the chart gets what is emitted."""


def scxml(machine: Machine) -> str:
    """*machine* as an SCXML document, ending in a newline.

    >>> from fsm.library import load
    >>> scxml(load("nri-pod")).splitlines()[0]
    '<?xml version="1.0" encoding="UTF-8"?>'
    """
    return _Chart(machine).document()


class _Chart:
    """The document of one machine, and the names in it."""

    def __init__(self, machine: Machine) -> None:
        self.machine = machine
        self.ids = {
            name: f"_{word}" if word[0] in "0123456789-" else word
            for name, word in identifiers("", machine.states, also="-").items()
        }
        self.rows = rows(machine)
        self.clauses: dict[Clause, str] = {}
        self.deviations: dict[str, Deviation] = {}

    def document(self) -> str:
        machine = self.machine
        root = Element(
            "scxml",
            {
                "xmlns": SCXML,
                "xmlns:fsm": OURS,
                "version": "1.0",
                "datamodel": "null",
                "name": machine.name,
                "initial": self.ids[machine.initial],
            },
        )
        head = {"called": machine.name, "title": machine.title, "about": machine.about, "source": machine.source}
        _ours(root, "machine", head | {"entity": machine.entity, "indefinite": " ".join(machine.indefinite)})
        for name, clause in machine.clauses.items():
            self.clauses[clause] = name
        for event in machine.events.values():
            told = {"name": event.name, "kind": event.kind, "rpc": event.rpc, "about": event.about}
            _ours(root, "event", told | {"interrupts": "true" if event.interrupts else ""}, aliases=event.aliases)
        for state in machine.states.values():
            told = {"fsm:called": state.name, "fsm:shows": state.shows, "fsm:about": state.about}
            element = SubElement(root, "state", {"id": self.ids[state.name], **told})
            _named(element, "aliases", state.aliases)
            for event in machine.events.values():
                self._cells(element, event, state.name)
        if machine.omits is not None:
            omits = _ours(root, "omits", {})
            for name, each in machine.omits.items():
                left_out = {"states": tuple(sorted(each.states)), "outcomes": tuple(sorted(each.outcomes))}
                _ours(omits, "omission", {"row": name}, **left_out)
        for profile in machine.profiles.values():
            self._profile(root, profile)
        self._references(root)
        indent(root)
        return f'<?xml version="1.0" encoding="UTF-8"?>\n{tostring(root, encoding="unicode")}\n'

    def _references(self, root: Element) -> None:
        """The clauses and deviations that cells refer to, behind all else; the machine lists those with a name."""
        listed = frozenset(self.machine.clauses.values())
        for deviation in self.deviations.values():
            self._clause(deviation.clause)
        for clause, key in self.clauses.items():
            told = {"key": key, "name": clause.name, "says": clause.says, "level": clause.level}
            told |= {"source": clause.source, "link": clause.link}
            _ours(root, "clause", told | {"listed": "true" if clause in listed else ""})
        for deviation in self.deviations.values():
            told = {"name": deviation.name, "call": deviation.event, "clause": self._clause(deviation.clause)}
            told |= {"about": deviation.about, "profile": deviation.profile, "since": deviation.since}
            _ours(root, "deviation", told | {"until": deviation.until, "link": deviation.link})

    def _clause(self, clause: Clause) -> str:
        """What *clause* is referred to by: its name, if there is no other of that name."""
        if clause not in self.clauses:
            self.clauses[clause] = distinct(clause.name or "clause", self.clauses.values(), also=".-")
        return self.clauses[clause]

    # -- cells -------------------------------------------------------------

    def _cells(self, element: Element, event: Event, state: str) -> None:
        """What *event*, and its ends, do in *state*."""
        for ends, cells in ((False, event.cells), (True, event.ends)):
            cell = cells.get(state)
            match cell:
                case None:
                    continue
                case Cannot() | Silent():
                    told = {"row": event.name, "clause": self._clause(cell.clause)}
                    _ours(element, type(cell).__name__.lower(), told)
                case _:
                    self._transitions(element, event, state, cell, ends=ends)

    def _transitions(self, element: Element, event: Event, state: str, cell: Cell, *, ends: bool) -> None:
        row = self.rows[f"{event.name}-ends" if ends else event.name]
        ways = outcomes(cell, state, event.kind) or ()
        for way, word in zip(ways, words(ways), strict=True):
            attributes = {"event": f"{row}.{word}"}
            if isinstance(cell, Moves):
                attributes["target"] = self.ids[way.to]
            attributes |= {"fsm:row": event.name, "fsm:is": type(cell).__name__.lower()}
            attributes |= {f"fsm:{name}": value for name, value in self._way(way).items() if value}
            attributes |= {"fsm:ends": "true"} if ends else {}
            attributes["fsm:clause"] = self._clause(cell.clause)
            transition = SubElement(element, "transition", attributes)
            for output in way.emits:
                name = distinct(output, (), also="-")
                SubElement(transition, "send", {"event": name, "target": PARENT, "fsm:output": output})

    def _way(self, way: Outcome) -> dict[str, str]:
        if way.deviation is not None:
            self.deviations[way.deviation.name] = way.deviation
        return {
            "outcome": way.name,
            "reply": " ".join(way.reply),
            "begins": "true" if way.begins else "",
            "about": way.about,
            "aliases": "\n".join(way.aliases),
            "deviation": way.deviation.name if way.deviation else "",
        }

    # -- profiles ----------------------------------------------------------

    def _profile(self, root: Element, profile: Profile) -> None:
        """What *profile* overrides: for our own tools, since SCXML has no word for it."""
        told = {"name": profile.name, "about": profile.about, "since": profile.since, "until": profile.until}
        element = _ours(root, "profile", told)
        for override in profile.overrides:
            told = {"name": override.name, "row": override.event, "about": override.about}
            if override.deviation:
                told["deviates"] = self._clause(override.deviation.clause)
                told |= {"since": override.deviation.since, "until": override.deviation.until}
                told["link"] = override.deviation.link
            inner = _ours(element, "override", told)
            self._overridden(inner, override.cells, ends=False)
            self._overridden(inner, override.ends, ends=True)

    def _overridden(self, element: Element, cells: Mapping[str, Cell], *, ends: bool) -> None:
        for state, cell in cells.items():
            told = {"in": state, "is": type(cell).__name__.lower(), "clause": self._clause(cell.clause)}
            told |= {"ends": "true"} if ends else {}
            told |= {"reply": " ".join(cell.codes)} if isinstance(cell, Refuses) else {}
            inner = _ours(element, "cell", told)
            for way in cell.outcomes if isinstance(cell, Moves) else ():
                _ours(inner, "way", {"to": way.to, **self._way(way)}, emits=way.emits)


def _ours(parent: Element, name: str, attributes: Mapping[str, str], **lists: tuple[str, ...]) -> Element:
    """An element of our own namespace in *parent*; what is empty is left out, of *lists* each item is an element."""
    element = SubElement(parent, f"fsm:{name}", {key: value for key, value in attributes.items() if value})
    for key, values in lists.items():
        _named(element, key, values)
    return element


def _named(parent: Element, name: str, values: tuple[str, ...]) -> None:
    """An element of our own namespace in *parent* for each of *values*."""
    for value in values:
        SubElement(parent, f"fsm:{name}", {"name": value})
