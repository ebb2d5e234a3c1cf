"""What to draw of a machine: nodes, and edges that bundle all that leads from one to the other.

A whole table drawn is a ball of wool.  A picture shows what moves the machine
on; what is ignored or refused, what stays where it is, and what interrupts
everything, as a restart does, is left out unless it is asked for, and named
below the picture.  An event that does the same in every state is drawn once,
from *any state*.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal, TypeAlias

from fsm.machine import Ignores, Moves, Refuses, Silent

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Mapping

    from fsm.machine import Cell, Event, Machine, Outcome
    from fsm.model import Kind

ANY = "*"
"""The node that stands for every state."""

Part: TypeAlias = Literal["failures", "stays", "ignores", "refuses", "silent", "interrupts"]
"""What is drawn on request only: moves that reply an error beside some that do not, and so on."""

Moved: TypeAlias = "tuple[str, str, str]"
"""Event, source and target of a step."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Node:
    """A state, with what it shows; in ``passing`` ones a call is in progress.

    ``count`` says how often it was met, ``marked`` that a run came through it,
    ``failed`` that there it did what is not allowed.
    """

    name: str
    shows: str = ""
    about: str = ""
    initial: bool = False
    passing: bool = False
    marked: bool = False
    failed: bool = False
    count: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Label:
    """One event on an edge: how it ends where it may end in several ways, its error reply, its outputs."""

    event: str
    kind: Kind
    outcome: str = ""
    error: str = ""
    emits: tuple[str, ...] = ()
    ends: bool = False
    deviates: bool = False
    cell: Literal["moves", "ignores", "refuses", "silent"] = "moves"


@dataclass(frozen=True, slots=True, kw_only=True)
class Edge:
    """All that leads from one node to another."""

    source: str
    target: str
    labels: tuple[Label, ...]
    marked: bool = False
    count: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Picture:
    """What is drawn, and the events that are only named."""

    name: str
    title: str
    initial: str
    nodes: tuple[Node, ...]
    edges: tuple[Edge, ...]
    left_out: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Marks:
    """What a run or some recordings add to a picture.

    The steps and states it came through, the states in which it failed; how
    often each cell was met.
    """

    steps: frozenset[Moved] = frozenset()
    states: frozenset[str] = frozenset()
    failed: frozenset[str] = frozenset()
    counts: Mapping[tuple[str, str], int] = field(default_factory=dict)


def picture(
    machine: Machine,
    *,
    show: Collection[Part] = (),
    events: Collection[str] | None = None,
    marks: Marks | None = None,
) -> Picture:
    """What to draw of *machine*: its moves, and what *show* asks for, of all *events* or of those named.

    >>> from fsm.library import load
    >>> [(each.source, each.target) for each in picture(load("cri-pod")).edges][0]
    ('absent', 'ready')
    """
    marks = marks or Marks()
    drawing = _Drawing(machine=machine, show=frozenset(show), marks=marks)
    for event in machine.events.values():
        if events is None or event.name in events:
            drawing.event(event, asked=events is not None)
    return drawing.picture()


@dataclass(frozen=True, slots=True, kw_only=True)
class _Drawing:
    machine: Machine
    show: frozenset[str]
    marks: Marks
    labels: dict[tuple[str, str], dict[Label, None]] = field(default_factory=dict)
    left_out: dict[str, None] = field(default_factory=dict)

    def event(self, event: Event, *, asked: bool) -> None:
        """Draw *event*, or note that it is left out."""
        if event.interrupts and not asked and "interrupts" not in self.show:
            self.left_out[event.name] = None
            return
        arrows = [arrow for state in self.machine.states for arrow in self._arrows(event, state)]
        everywhere = {
            (target, label)
            for _, target, label in arrows
            if label.cell == "moves"
            and len(self.machine.states) > 2  # noqa: PLR2004  (of two states, both are no crowd)
            and {source for source, to, same in arrows if (to, same) == (target, label)} >= set(self._others(target))
        }
        drawn = False
        for source, target, label in arrows:
            start = ANY if (target, label) in everywhere else source
            if start == ANY or source != target or label.cell != "moves" or "stays" in self.show:
                self.labels.setdefault((start, target), {})[label] = None
                drawn = True
        if not drawn:
            self.left_out[event.name] = None

    def _others(self, target: str) -> Iterator[str]:
        """The states from which an arrow to *target* would go somewhere; those where calls pass through aside."""
        passing = self._passing()
        return (state for state in self.machine.states if state != target and state not in passing)

    def _passing(self) -> set[str]:
        return {state for event in self.machine.events.values() for state in event.ends}

    def _arrows(self, event: Event, state: str) -> Iterator[tuple[str, str, Label]]:
        for ends, cell in ((False, event.cells[state]), (True, event.ends.get(state))):
            if cell is not None:
                for target, label in self._labels(event, cell, state, ends=ends):
                    yield state, target, label

    def _labels(self, event: Event, cell: Cell, state: str, *, ends: bool) -> Iterator[tuple[str, Label]]:
        match cell:
            case Moves(outcomes=ways):
                told = {(way.to, _error(way), way.emits) for way in ways}
                for way in ways:
                    several = sum(to == way.to for to, _, _ in told) < len(told)
                    yield (
                        way.to,
                        Label(
                            event=event.name,
                            kind=event.kind,
                            outcome=way.name if ends and several and way.name != way.to else "",
                            error=_error(way),
                            emits=way.emits,
                            ends=ends,
                            deviates=way.deviation is not None,
                        ),
                    )
            case Ignores() if "ignores" in self.show:
                yield state, Label(event=event.name, kind=event.kind, cell="ignores")
            case Refuses(codes=codes) if "refuses" in self.show:
                yield state, Label(event=event.name, kind=event.kind, error=_codes(codes), cell="refuses")
            case Silent() if "silent" in self.show:
                yield state, Label(event=event.name, kind=event.kind, cell="silent")
            case _:
                return

    # -- the whole ---------------------------------------------------------

    def picture(self) -> Picture:
        passing = self._passing()
        nodes = [
            Node(
                name=state.name,
                shows=state.shows if state.shows != state.name else "",
                about=state.about,
                initial=state.name == self.machine.initial,
                passing=state.name in passing,
                marked=state.name in self.marks.states,
                failed=state.name in self.marks.failed,
                count=self._met(state.name),
            )
            for state in self.machine.states.values()
        ]
        edges = tuple(self._edge(source, target, labels) for (source, target), labels in self.labels.items())
        if any(edge.source == ANY for edge in edges):
            nodes.append(Node(name=ANY))
        return Picture(
            name=self.machine.name,
            title=self.machine.title,
            initial=self.machine.initial,
            nodes=tuple(nodes),
            edges=edges,
            left_out=tuple(self.left_out),
        )

    def _met(self, state: str) -> int | None:
        if not self.marks.counts:
            return None
        return sum(count for (_, where), count in self.marks.counts.items() if where == state)

    def _edge(self, source: str, target: str, labels: dict[Label, None]) -> Edge:
        """The bundle; errors are left out where something leads the same way without one."""
        fine = {(label.event, label.ends) for label in labels if not label.error}
        kept = tuple(
            label
            for label in labels
            if not label.error
            or label.cell != "moves"
            or not fine
            or ("failures" in self.show and (label.event, label.ends) not in fine)
        )
        sources = set(self.machine.states) if source == ANY else {source}
        marked = any((label.event, each, target) in self.marks.steps for label in labels for each in sources)
        counts = [
            self.marks.counts.get((f"{'…' if label.ends else ''}{label.event}", each), 0)
            for label in kept
            for each in sources
        ]
        return Edge(
            source=source,
            target=target,
            labels=kept,
            marked=marked,
            count=sum(counts) if self.marks.counts else None,
        )


def _error(way: Outcome) -> str:
    """The error of an outcome that never replies ok; empty for all others."""
    return "" if not way.reply or "ok" in way.reply else _codes(way.reply)


def _codes(codes: tuple[str, ...]) -> str:
    return " or ".join("error" if code == "error" else code for code in codes)
