"""Test coverage of one system under test."""

from collections import Counter
from dataclasses import dataclass, field

from fsm.conformance.crash import Ended
from fsm.conformance.plan import Doing, Edge, Point
from fsm.sut import Stimulus, StimulusStage


@dataclass(kw_only=True)
class Cover:
    """The (row, state) pairs that tests have exercised, and the outcomes that have occurred.

    ``cells`` counts, for each pair, how often the event was applied while the state was the only possible one;
    ``ambiguous``, how often other states were possible too; and ``compared``, how often the outputs were seen.
    ``shown`` and ``heard`` are true once the SUT has shown a state or returned outputs. ``arranged`` holds the steps
    whose outcome the SUT has promised, and ``unarranged`` the outcomes that it cannot arrange. ``unsupported`` maps an
    event at a point to the reason why the SUT cannot take it there, and ``supported`` holds the events and stages that
    it takes somewhere. ``hopeless`` holds the steps that never occurred despite repeated attempts. ``whole`` maps a
    test that ends in a crash to the state and record of the SUT if the last event is completed before the restart.
    """

    cells: Counter[tuple[int, int]] = field(default_factory=Counter)
    ambiguous: Counter[tuple[int, int]] = field(default_factory=Counter)
    compared: Counter[tuple[int, int]] = field(default_factory=Counter)
    arranged: set[tuple[Point, Stimulus]] = field(default_factory=set)
    ways: Counter[int] = field(default_factory=Counter)
    steps: int = 0
    shown: bool = False
    heard: bool = False
    unsupported: dict[Doing, str] = field(default_factory=dict)
    supported: set[tuple[str, StimulusStage]] = field(default_factory=set)
    unarranged: set[tuple[str, str]] = field(default_factory=set)
    deviations: Counter[str] = field(default_factory=Counter)
    unspecified: int = 0
    whole: dict[tuple[Stimulus, ...], Ended] = field(default_factory=dict)
    hopeless: set[tuple[Point, Stimulus]] = field(default_factory=set)
    _taken: set[tuple[Point, Stimulus]] = field(default_factory=set)

    def give_up(self, edge: Edge) -> None:
        """Mark *edge* as hopeless after repeated failed attempts, unless a test has taken it before."""
        if (edge.source, edge.step) not in self._taken:
            self.hopeless.add((edge.source, edge.step))

    def took(self, edge: Edge) -> bool:
        """Check whether any test has taken *edge*."""
        return (edge.source, edge.step) in self._taken

    def avoided(self, edge: Edge) -> bool:
        """Check whether paths must avoid *edge*."""
        return edge.doing in self.unsupported or (edge.source, edge.step) in self.hopeless

    def add(self, edge: Edge) -> None:
        self._taken.add((edge.source, edge.step))
        self.hopeless.discard((edge.source, edge.step))
        self.ways.update(way.index for way in edge.ways)
        self.deviations.update(way.deviation.name for way in edge.ways if way.deviation)
        self.unspecified += edge.to is None
