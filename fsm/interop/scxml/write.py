"""A machine as a state chart in SCXML, the W3C's notation, for tools that run or draw those.

Each outcome is an event of its own, as in :mod:`fsm.interop.outcome_events`; refusals
are events too.  An event that does nothing but reply has a transition without a target;
cells that cannot happen or are silent have no transition.

What SCXML cannot express is in attributes and elements of our own namespace, so that
nothing is lost: replies, clauses, what a state shows, cells without a transition,
profiles; :mod:`fsm.interop.scxml.lossless` reads them.  On one element no two
namespaces use one name for two things, since some readers drop the prefixes.
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
"""The target of outputs: the parent session."""


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
            given = {"name": event.name, "kind": event.kind, "rpc": event.rpc, "about": event.about}
            _ours(root, "event", given | {"interrupts": "true" if event.interrupts else ""}, aliases=event.aliases)
        for state in machine.states.values():
            given = {"fsm:called": state.name, "fsm:shows": state.shows, "fsm:about": state.about}
            element = SubElement(root, "state", {"id": self.ids[state.name], **given})
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
        """Add the clauses and deviations that cells refer to; ``listed`` ones are those of the machine's own list."""
        listed = frozenset(self.machine.clauses.values())
        for deviation in self.deviations.values():
            self._clause(deviation.clause)
        for clause, key in self.clauses.items():
            given = {"key": key, "name": clause.name, "says": clause.says, "level": clause.level}
            given |= {"source": clause.source, "link": clause.link}
            _ours(root, "clause", given | {"listed": "true" if clause in listed else ""})
        for deviation in self.deviations.values():
            given = {"name": deviation.name, "call": deviation.event, "clause": self._clause(deviation.clause)}
            given |= {"about": deviation.about, "profile": deviation.profile, "since": deviation.since}
            _ours(root, "deviation", given | {"until": deviation.until, "link": deviation.link})

    def _clause(self, clause: Clause) -> str:
        """The key of *clause*: its name, if no other clause has it."""
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
                    given = {"row": event.name, "clause": self._clause(cell.clause)}
                    _ours(element, type(cell).__name__.lower(), given)
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
        """Add what *profile* overrides, in our own namespace only, since SCXML has no profiles."""
        given = {"name": profile.name, "about": profile.about, "since": profile.since, "until": profile.until}
        element = _ours(root, "profile", given)
        for override in profile.overrides:
            given = {"name": override.name, "row": override.event, "about": override.about}
            if override.deviation:
                given["deviates"] = self._clause(override.deviation.clause)
                given |= {"since": override.deviation.since, "until": override.deviation.until}
                given["link"] = override.deviation.link
            inner = _ours(element, "override", given)
            self._overridden(inner, override.cells, ends=False)
            self._overridden(inner, override.ends, ends=True)

    def _overridden(self, element: Element, cells: Mapping[str, Cell], *, ends: bool) -> None:
        for state, cell in cells.items():
            given = {"in": state, "is": type(cell).__name__.lower(), "clause": self._clause(cell.clause)}
            given |= {"ends": "true"} if ends else {}
            given |= {"reply": " ".join(cell.codes)} if isinstance(cell, Refuses) else {}
            inner = _ours(element, "cell", given)
            for way in cell.outcomes if isinstance(cell, Moves) else ():
                _ours(inner, "way", {"to": way.to, **self._way(way)}, emits=way.emits)


def _ours(parent: Element, name: str, attributes: Mapping[str, str], **lists: tuple[str, ...]) -> Element:
    """An element of our own namespace in *parent*, without empty attributes; each item of *lists* is an element."""
    element = SubElement(parent, f"fsm:{name}", {key: value for key, value in attributes.items() if value})
    for key, values in lists.items():
        _named(element, key, values)
    return element


def _named(parent: Element, name: str, values: tuple[str, ...]) -> None:
    """An element of our own namespace in *parent* for each of *values*."""
    for value in values:
        SubElement(parent, f"fsm:{name}", {"name": value})
