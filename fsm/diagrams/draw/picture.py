"""Choose the contents of a machine's picture. An edge represents all moves from one node to another.

A picture shows each change of state once. Some things are drawn only on request: outcomes that do not change the state,
events that interrupt every state (such as a restart), and states that only a profile reaches. Outcomes that fail or
take a short cut are left out if another outcome leads to the same state. Deviations of a profile are always drawn.

An event that does the same in every state is one arrow from *any state*. If no other edge leads out of the initial
state or back to it, it is also drawn from one particular state, to show the lifecycle. Similar states become one node.
"""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Final, Literal, TypeAlias

from fsm.machine import Event, Ignores, Kind, Machine, Moves, Outcome, Refuses, Silent, StateKind
from fsm.machine.timers import duration
from fsm.machine.traversal import closure


def only_under(machine: Machine) -> Mapping[str, tuple[str, ...]]:
    """Map the states that only profiles reach to these profiles. States that nothing reaches are left out.

    >>> from fsm.language.library import load
    >>> only_under(load("examples/models/washer.toml"))
    {'frozen': ('acme-2.2',)}
    """
    known = _states_reached(machine, deviations=False)
    if len(known) == len(machine.states):
        return {}
    under = {name: machine.under(name) for name in (machine.profiles if not machine.profile else (machine.profile,))}
    reached = {name: _states_reached(each, deviations=True) for name, each in under.items()}
    found = {
        state: tuple(name for name, those in reached.items() if state in those)
        for state in machine.states
        if state not in known
    }
    return {state: names for state, names in found.items() if names}


def _states_reached(machine: Machine, *, deviations: bool) -> frozenset[str]:
    def following(state: str) -> list[str]:
        ways = (machine.step(state, event, ends=ends) for event in machine.events for ends in (False, True))
        return [way.to for each in ways for way in each or () if deviations or way.deviation is None]

    return frozenset(closure([machine.initial], following))


ANY: Final = "*"  # source of edges that lead out of every state
ELSEWHERE: Final = "…"  # source of edges to a state that is reached only by events that are not drawn
Extra: TypeAlias = Literal["outcomes", "stays", "ignores", "refuses", "silent", "interrupts", "profiles"]


@dataclass(frozen=True, slots=True, kw_only=True)
class PictureNode:
    name: str  # the first of these states
    states: tuple[str, ...]
    shows: str = ""
    about: str = ""
    kind: StateKind | None = None
    only: tuple[str, ...] = ()  # profiles that reach the state if the machine itself does not reach it
    passing: bool = False  # a call is in progress
    marked: bool = False  # a run visited this state
    failed: bool = False  # the run failed in this state
    count: int | None = None  # number of visits
    above: tuple[str, ...] = ()  # the parents, from the inside out


@dataclass(frozen=True, slots=True, kw_only=True)
class EdgeLabel:
    event: str
    kind: Kind
    outcome: str = ""
    error: str = ""
    emits: tuple[str, ...] = ()
    ends: bool = False
    deviates: bool = False
    cell: Literal["moves", "ignores", "refuses", "silent"] = "moves"
    guard: str = ""
    effect: str = ""  # the updates of data


@dataclass(frozen=True, slots=True, kw_only=True)
class Count:
    """The number of times that a recording uses a cell.

    Recordings do not show which outcome occurred, so only one arrow of a cell shows the number. A call is counted when
    it begins, so an arrow for the end of a call shows no number.
    """

    met: int
    told: bool = True  # this arrow shows the number
    shared: bool = False  # the cell has several arrows


@dataclass(frozen=True, slots=True, kw_only=True)
class PictureEdge:
    """All moves from one node to another. The source may also be :data:`ANY` or :data:`ELSEWHERE`."""

    source: str
    target: str
    labels: tuple[EdgeLabel, ...]
    marked: bool = False
    failed: bool = False  # The edge was observed but is not allowed.
    counts: tuple[Count, ...] = ()  # a count for each label, or empty if there are no recordings


@dataclass(frozen=True, slots=True, kw_only=True)
class Picture:
    """A picture of a machine or, if there are ``regions``, of a system."""

    name: str
    title: str
    initial: str  # empty if the initial state is not drawn
    nodes: tuple[PictureNode, ...]
    edges: tuple[PictureEdge, ...]
    left_out: tuple[str, ...] = ()  # events that are not drawn
    profiles: tuple[str, ...] = ()  # profiles whose deviations are included
    timers: tuple[str, ...] = ()
    unreached: tuple[tuple[str, tuple[str, ...]], ...] = ()  # states left out because only these profiles reach them
    regions: tuple[Picture, ...] = ()  # the pictures of the parts of a system; their nodes and edges are also here
    region: str = ""  # prefix of the names in such a picture

    def within(self, whole: str) -> Picture:
        """Return this picture as a region of the picture *whole*."""
        prefix = f"{self.name} "
        edges = (
            replace(
                edge,
                source=edge.source if edge.source in {ANY, ELSEWHERE} else prefix + edge.source,
                target=prefix + edge.target,
            )
            for edge in self.edges
        )
        nodes = (replace(node, name=prefix + node.name) for node in self.nodes)
        name, initial = f"{whole}.{self.name}", self.initial and prefix + self.initial
        return replace(self, name=name, initial=initial, nodes=tuple(nodes), edges=tuple(edges), region=prefix)


@dataclass(frozen=True, slots=True, kw_only=True)
class Marks:
    steps: frozenset[tuple[str, str, str]] = frozenset()  # steps of the run, by event, source and target
    states: frozenset[str] = frozenset()  # states that the run visited
    failed: frozenset[str] = frozenset()  # states in which the run may have failed
    seen: EdgeLabel | None = None  # the observation at which the run failed
    counts: Mapping[tuple[str, str], int] = field(default_factory=dict)  # number of uses of each cell


def picture(
    machine: Machine, *, show: Collection[Extra] = (), events: Collection[str] | None = None, marks: Marks | None = None
) -> Picture:
    """Return the picture of *machine* with the extras in *show*. If *events* is given, only these events are drawn.

    >>> from fsm.language.library import load
    >>> [(each.source, each.target) for each in picture(load("examples/models/door.toml")).edges][0]
    ('shut', 'open')
    """
    drawing = _PictureBuilder(machine=machine, show=frozenset(show), marks=marks or Marks(), only=only_under(machine))
    for event in machine.events.values():
        if events is None or event.name in events:
            drawing.event(event, asked=events is not None)
    drawing.connect_lifecycle()
    drawn = drawing.picture()
    return _merge_alike(drawn if events is None else _without_isolated_states(drawn))


_Arrow: TypeAlias = "tuple[str, str, EdgeLabel]"


@dataclass(frozen=True, slots=True, kw_only=True)
class _PictureBuilder:
    machine: Machine
    show: frozenset[str]
    marks: Marks
    only: Mapping[str, tuple[str, ...]]
    labels: dict[tuple[str, str], dict[EdgeLabel, None]] = field(default_factory=dict)
    left_out: dict[str, None] = field(default_factory=dict)
    profiles: dict[str, None] = field(default_factory=dict)

    @property
    def states(self) -> list[str]:
        kept = self.marks.states | self.marks.failed | {state for (_, state), met in self.marks.counts.items() if met}
        every = bool(self.machine.profile) or "profiles" in self.show
        return [state for state in self.machine.states if every or state not in self.only or state in kept]

    def event(self, event: Event, *, asked: bool) -> None:
        left = event.interrupts and not asked and "interrupts" not in self.show
        states = self.states
        arrows = [arrow for state in states if not left for arrow in self._arrows(event, state) if arrow[1] in states]
        everywhere = self._from_any_state(arrows)
        timers = [timer for timer in self.machine.timers.values() if event.name in timer.restarts]
        self.left_out[event.name] = None
        for source, target, label in arrows:
            start = ANY if (target, label) in everywhere else source
            restarts = not label.error and any(source in timer.states for timer in timers)
            changes = source != target or bool(label.effect) or restarts
            if start == ANY or changes or label.deviates or label.cell != "moves" or "stays" in self.show:
                self.labels.setdefault((start, target), {})[label] = None
                self.left_out.pop(event.name, None)

    def _from_any_state(self, arrows: list[_Arrow]) -> set[tuple[str, EdgeLabel]]:
        """Return each target and label with arrows from every other state, if there are at least two other states."""
        sources: dict[tuple[str, EdgeLabel], set[str]] = {}
        for source, target, label in arrows:
            if label.cell == "moves":
                sources.setdefault((target, label), {target}).add(source)
        crowd = len(self.states)
        return {each for each, those in sources.items() if len(those) == crowd > 2}  # noqa: PLR2004  (two are none)

    def _arrows(self, event: Event, state: str) -> Iterator[_Arrow]:
        label = EdgeLabel(event=event.name, kind=event.kind)
        for ends, cell in ((False, event.cells[state]), (True, event.ends.get(state))):
            match cell:
                case Moves(outcomes=ways):
                    yield from self._outcome_arrows(event, ways, state, replace(label, ends=ends))
                case Ignores() if "ignores" in self.show:
                    yield state, state, replace(label, cell="ignores")
                case Refuses(codes=codes) if "refuses" in self.show:
                    yield state, state, replace(label, cell="refuses", error=" or ".join(codes))
                case Silent() if "silent" in self.show:
                    yield state, state, replace(label, cell="silent")

    def _outcome_arrows(self, event: Event, ways: Iterable[Outcome], state: str, label: EdgeLabel) -> Iterator[_Arrow]:
        several = len({(way.to, _error(way)) for way in ways}) > 1
        named = label.ends or "outcomes" in self.show
        reached = {} if named else _states_at_call_end(event, ways, state)
        for way in ways:
            error, deviates = _error(way), way.deviation is not None
            if not deviates and not way.begins and bool(error) in reached.get(way.to, ()):
                continue
            if way.deviation is not None:
                self.profiles[way.deviation.profile] = None
            outcome = way.name if several and named and way.name != way.to else ""
            shown = replace(label, outcome=outcome, error=error, emits=way.emits, deviates=deviates)
            effect = ", ".join(f"{each.variable} := {each.text}" for each in way.updates)
            yield state, way.to, replace(shown, guard=way.when.text if way.when else "", effect=effect)

    def connect_lifecycle(self) -> None:
        """Draw some edges from "any state" a second time, from a single state, to make the lifecycle visible.

        If no edge leads out of the initial state, edges are repeated from the states listed just before their targets.
        If no edge leads back to the initial state, the one from "any state" is repeated from the last final state.
        """
        initial, states = self.machine.initial, self.states
        final = [state for state in states if self.machine.states[state].kind == "final"]
        begins = any(source == initial != target for source, target in self.labels)
        steps = [] if begins else list(itertools.pairwise(states))
        for source, target in [*steps, *((state, initial) for state in final[-1:])]:
            arrives = any(each == target and start not in {ANY, target} for start, each in self.labels)
            labels = [label for label in self.labels.get((ANY, target), ()) if label.kind == "call"]
            if labels and not arrives:
                self.labels[source, target] = dict.fromkeys(labels)

    def picture(self) -> Picture:
        passing = {way.to for event in self.machine.events.values() for way in event.outcomes() if way.begins}
        seen = (self.marks.seen,) if self.marks.seen else ()
        failed = [state for state in self.machine.states if seen and state in self.marks.failed]
        met = Counter[str]()
        for (_, state), count in self.marks.counts.items():
            met[state] += count
        nodes = tuple(
            PictureNode(
                name=state.name,
                states=(state.name,),
                shows=state.shows if state.shows != state.name else "",
                about=state.about,
                kind=state.kind,
                only=self.only.get(state.name, ()),
                passing=state.name in passing,
                marked=state.name in self.marks.states,
                failed=state.name in self.marks.failed,
                count=met[state.name] if self.marks.counts else None,
                above=tuple(self.machine.hierarchy.above(state.name)),
            )
            for state in map(self.machine.states.__getitem__, self.states)
        )
        return Picture(
            name=self.machine.name,
            title=self.machine.title,
            initial=self.machine.initial,
            nodes=nodes,
            edges=(
                *_show_counts_once([self._edge(*pair, tuple(labels)) for pair, labels in self.labels.items()]),
                *self._edges_from_elsewhere(),
                *(PictureEdge(source=each, target=each, labels=seen, failed=True) for each in failed),
            ),
            left_out=tuple(self.left_out),
            profiles=tuple(self.profiles),
            timers=tuple(
                f"{timer.event}: {duration(timer.after)} after the entry"
                + "".join(f", or after {event}" for event in sorted(timer.restarts))
                for timer in self.machine.timers.values()
            ),
            unreached=tuple((state, names) for state, names in self.only.items() if state not in self.states),
        )

    def _edges_from_elsewhere(self) -> Iterator[PictureEdge]:
        # The edges start from the name of an event. Readers must not mistake it for a state of the same name.
        named = {name for each in self.machine.states.values() for name in (each.name, each.shows, *each.aliases)}
        events = self.machine.events
        reached = {self.machine.initial, *(target for source, target in self.labels if source != target)}
        for state in self.states:
            if state not in reached and state not in self.only:
                others = {*self.states} - {state}
                labels = [
                    EdgeLabel(event=event, kind=events[event].kind, outcome=ELSEWHERE if event in named else "")
                    for event in self.left_out
                    if any(way.to == state for source in others for way in self.machine.step(source, event) or ())
                ]
                if labels:
                    yield self._edge(ELSEWHERE, state, tuple(labels))

    def _edge(self, source: str, target: str, labels: tuple[EdgeLabel, ...]) -> PictureEdge:
        kept = labels if "outcomes" in self.show else _events_once(labels)
        sources = {*self.states} if source in {ANY, ELSEWHERE} else {source}
        marked = any((label.event, each, target) in self.marks.steps for label in labels for each in sources)
        cells = (f"{'…' if label.ends else ''}{label.event}" for label in kept if self.marks.counts)
        met = (sum(self.marks.counts.get((cell, each), 0) for each in sources) for cell in cells)
        counts = tuple(Count(met=each) for each in met)
        return PictureEdge(source=source, target=target, labels=kept, marked=marked, counts=counts)


def _states_at_call_end(event: Event, ways: Iterable[Outcome], state: str) -> dict[str, set[bool]]:
    found: dict[str, set[bool]] = {}
    first = [way.to for way in ways if way.begins] or [state]
    for between in closure(first, lambda at: [way.to for way in _ends(event, at) if way.begins]):
        for way in _ends(event, between):
            if not way.begins:
                found.setdefault(way.to, set()).add(bool(_error(way)))
    return found


def _ends(event: Event, between: str) -> tuple[Outcome, ...]:
    return event.ends[between].outcomes if between in event.ends else ()


def _events_once(labels: tuple[EdgeLabel, ...]) -> tuple[EdgeLabel, ...]:
    """Return *labels* with each event only once, and without errors if any of the labels is a success.

    Labels that change variables, deviate, ignore, refuse or do not specify the event are also kept.
    """
    fine = any(not label.error and label.cell == "moves" for label in labels)
    kept: dict[tuple[str, bool, str, str, str], EdgeLabel] = {}
    for label in labels:
        if label.effect or label.deviates or label.cell != "moves" or not (label.error and fine):
            kept.setdefault((label.event, label.deviates, label.cell, label.guard, label.effect), label)
    return tuple(kept.values())


def _show_counts_once(edges: list[PictureEdge]) -> Iterator[PictureEdge]:
    cells = [(edge.source, label.event, label.ends) for edge in edges for label in edge.labels if edge.counts]
    several = {cell for cell, number in Counter(cells).items() if number > 1}
    told: set[tuple[str, str, bool]] = set()
    for edge in edges:
        counts = []
        for label, count in zip(edge.labels, edge.counts, strict=False):
            cell = (edge.source, label.event, label.ends)
            counts.append(replace(count, told=not label.ends and cell not in told, shared=cell in several))
            told.add(cell)
        yield replace(edge, counts=tuple(counts))


def _without_isolated_states(drawn: Picture) -> Picture:
    touched = {name for edge in drawn.edges for name in (edge.source, edge.target)}
    nodes = tuple(node for node in drawn.nodes if node.name in touched) or drawn.nodes
    initial = drawn.initial if any(node.name == drawn.initial for node in nodes) else ""
    return replace(drawn, nodes=nodes, initial=initial)


def _merge_alike(drawn: Picture) -> Picture:
    leads: dict[str, set[tuple[object, ...]]] = {node.name: set() for node in drawn.nodes}
    for edge in drawn.edges:
        rest = (edge.labels, edge.marked, edge.failed, edge.counts)
        if edge.source == edge.target:
            leads[edge.source].add(rest)
            continue
        if edge.source in leads:
            leads[edge.source].add(("to", edge.target, *rest))
        leads[edge.target].add(("from", edge.source, *rest))
    groups: dict[object, list[PictureNode]] = {}
    for node in drawn.nodes:
        look = (node.shows, node.kind, node.only, node.above, node.passing, node.marked, node.failed)
        alike = (look, frozenset(leads[node.name]))
        alone = node.count or not node.shows or node.name == drawn.initial
        groups.setdefault(node.name if alone else alike, []).append(node)
    first = {node.name: those[0].name for those in groups.values() for node in those}
    nodes = tuple(
        replace(those[0], states=tuple(node.name for node in those), about="\n".join(node.about for node in those))
        for those in groups.values()
    )
    new = (replace(edge, source=first.get(edge.source, edge.source), target=first[edge.target]) for edge in drawn.edges)
    return replace(drawn, nodes=nodes, edges=tuple({(edge.source, edge.target): edge for edge in new}.values()))


def _error(way: Outcome) -> str:
    return "" if "ok" in way.reply else " or ".join(way.reply)
