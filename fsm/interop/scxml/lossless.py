"""State charts in SCXML that :mod:`fsm.interop` wrote: nothing is lost.

All that SCXML has no word for stands in attributes and elements of our own
namespace, and is read from there.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, cast, get_args

from fsm.machine import (
    Cannot,
    Clause,
    Deviation,
    Event,
    Ignores,
    Kind,
    Level,
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

    from fsm.interop.source_text import Problems
    from fsm.interop.xml_elements import Element
    from fsm.machine import Cell

OURS: Final = "urn:container-fsm:scxml"
PLAIN: Final[Mapping[str, type[Ignores | Cannot | Silent]]] = {"ignores": Ignores, "cannot": Cannot, "silent": Silent}


def written_by_us(root: Element) -> bool:
    """Whether the document says itself what machine it is of."""
    return any(root.named("machine", OURS))


def read(root: Element, problems: Problems) -> Machine:
    """The machine that the document is of."""
    machine = _Reader(root, problems).machine()
    for event in machine.events.values():
        for state in machine.states.keys() - event.cells.keys():
            problems.add("FSM509", root.line, f"state '{state}' says nothing of event '{event.name}'", HINT)
    return machine


@dataclass(frozen=True, slots=True, kw_only=True)
class _Told:
    """What our attributes of an element say; a word may stand without its namespace in elements of ours."""

    element: Element
    words: Mapping[str, str]
    problems: Problems

    def __getitem__(self, word: str) -> str:
        if word not in self.words:
            self.problems.abort("FSM509", self.element.line, f"<{self.element.name}> lacks {word!r}", HINT)
        return self.words[word]

    def get(self, word: str) -> str:
        """The value of *word*; empty where there is none."""
        return self.words.get(word, "")

    def one_of(self, word: str, known: Mapping[str, object] | tuple[str, ...]) -> str:
        """The value of *word*, which is *known*."""
        value = self[word]
        if value not in known:
            what = f"<{self.element.name}> has {word} {value!r}, which is not there"
            self.problems.abort("FSM508", self.element.line, what, HINT)
        return value

    def names(self, word: str) -> tuple[str, ...]:
        """The items of a list."""
        return tuple(each.attributes.get("name", "") for each in self.element.named(word, OURS))


HINT: Final = "export the machine anew, or edit the model that it was exported from"


class _Reader:
    """Reads one document of ours."""

    def __init__(self, root: Element, problems: Problems) -> None:
        self.root = root
        self.problems = problems
        charted = [self._told(each) for each in root.named("state")]
        self.states = {told["id"]: told["called"] for told in charted}
        self.clauses = {told["key"]: self._clause(told) for told in self._all("clause")}
        self.deviations = {
            told["name"]: self._deviation(told, told["call"], told.one_of("clause", self.clauses), told.get("profile"))
            for told in self._all("deviation")
        }

    def _told(self, element: Element) -> _Told:
        words = {name.removeprefix(f"{OURS} "): value for name, value in element.attributes.items()}
        return _Told(element=element, words=words, problems=self.problems)

    def _all(self, name: str, of: Element | None = None) -> list[_Told]:
        return [self._told(each) for each in (of or self.root).named(name, OURS)]

    def machine(self) -> Machine:
        head = self._all("machine")[0]
        cells: dict[tuple[str, bool], dict[str, Cell]] = {}
        for element in self.root.named("state"):
            name = self._told(element)["called"]
            for key, cell in self._cells(element).items():
                cells.setdefault(key, {})[name] = cell
        omits = self._all("omits")
        return Machine(
            name=head["called"],
            title=head.get("title"),
            about=head.get("about"),
            source=head.get("source"),
            entity=head["entity"],
            indefinite=tuple(head.get("indefinite").split()),
            initial=self.states[self._told(self.root).one_of("initial", self.states)],
            states={told["called"]: self._state(told) for told in map(self._told, self.root.named("state"))},
            events={told["name"]: self._event(told, cells) for told in self._all("event")},
            clauses={told["key"]: self.clauses[told["key"]] for told in self._all("clause") if told.get("listed")},
            profiles={told["name"]: self._profile(told) for told in self._all("profile")},
            omits={
                told["row"]: Omission(
                    states=frozenset(told.names("states")), outcomes=frozenset(told.names("outcomes"))
                )
                for told in self._all("omission", omits[0].element)
            }
            if omits
            else None,
        )

    def _state(self, told: _Told) -> State:
        return State(
            name=told["called"], about=told.get("about"), shows=told.get("shows"), aliases=told.names("aliases")
        )

    def _event(self, told: _Told, cells: Mapping[tuple[str, bool], Mapping[str, Cell]]) -> Event:
        return Event(
            name=told["name"],
            kind=cast("Kind", told.one_of("kind", get_args(Kind))),
            about=told.get("about"),
            rpc=told.get("rpc"),
            aliases=told.names("aliases"),
            interrupts=told.get("interrupts") == "true",
            cells=cells.get((told["name"], False), {}),
            ends={
                state: cell for state, cell in cells.get((told["name"], True), {}).items() if isinstance(cell, Moves)
            },
        )

    def _clause(self, told: _Told) -> Clause:
        return Clause(
            name=told.get("name"),
            says=told.get("says"),
            level=cast("Level", told.one_of("level", get_args(Level))),
            source=told.get("source"),
            link=told.get("link"),
        )

    def _deviation(self, told: _Told, event: str, clause: str, profile: str) -> Deviation:
        return Deviation(
            name=told["name"],
            event=event,
            clause=self.clauses[clause],
            profile=profile,
            about=told.get("about"),
            since=told.get("since"),
            until=told.get("until"),
            link=told.get("link"),
        )

    # -- cells ---------------------------------------------------------------

    def _cells(self, state: Element) -> dict[tuple[str, bool], Cell]:
        """The cells of one state, by event and whether a call ends by them."""
        found: dict[tuple[str, bool], Cell] = {}
        for told in map(self._told, state.children):
            if not told.get("row"):
                continue
            key = told["row"], told.get("ends") == "true"
            kind = told.get("is") or told.element.name
            ways: tuple[Outcome, ...] = ()
            if kind == "moves":
                to = self.states[told.one_of("target", self.states)]
                sent = map(self._told, told.element.named("send"))
                before = found.get(key)
                ways = before.outcomes if isinstance(before, Moves) else ()
                ways = (*ways, self._way(told, to, tuple(each["output"] for each in sent)))
            found[key] = self._cell(told, kind, ways)
        return found

    def _cell(self, told: _Told, kind: str, ways: tuple[Outcome, ...]) -> Cell:
        clause = self.clauses[told.one_of("clause", self.clauses)]
        if kind == "moves":
            return Moves(outcomes=ways, clause=clause)
        if kind == "refuses":
            return Refuses(codes=tuple(told["reply"].split()), clause=clause)
        if kind not in PLAIN:
            self.problems.abort("FSM508", told.element.line, f"a cell is {kind!r}", HINT)
        return PLAIN[kind](clause=clause)

    def _way(self, told: _Told, to: str, emits: tuple[str, ...]) -> Outcome:
        return Outcome(
            name=told["outcome"],
            to=to,
            reply=tuple(told.get("reply").split()),
            emits=emits,
            begins=told.get("begins") == "true",
            about=told.get("about"),
            aliases=tuple(told.get("aliases").splitlines()),
            deviation=self.deviations.get(told.get("deviation")),
        )

    # -- profiles ------------------------------------------------------------

    def _profile(self, told: _Told) -> Profile:
        return Profile(
            name=told["name"],
            about=told.get("about"),
            since=told.get("since"),
            until=told.get("until"),
            overrides=tuple(self._override(each, told["name"]) for each in self._all("override", told.element)),
        )

    def _override(self, told: _Told, profile: str) -> Override:
        cells: dict[str, Cell] = {}
        ends: dict[str, Moves] = {}
        for each in self._all("cell", told.element):
            inner = self._all("way", each.element)
            cell = self._cell(each, each["is"], tuple(self._way(way, way["to"], way.names("emits")) for way in inner))
            if each.get("ends") == "true" and isinstance(cell, Moves):
                ends[each["in"]] = cell
            else:
                cells[each["in"]] = cell
        broken = told.get("deviates") and told.one_of("deviates", self.clauses)
        return Override(
            name=told["name"],
            event=told.one_of("row", {each["name"]: each for each in self._all("event")}),
            about=told.get("about"),
            deviation=self._deviation(told, told["row"], broken, profile) if broken else None,
            cells=cells,
            ends=ends,
        )
