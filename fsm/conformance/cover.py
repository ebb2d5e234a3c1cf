"""What the tests of one SUT have met, and what they cannot meet."""

from collections import Counter
from dataclasses import dataclass, field

from fsm.conformance.crash import Ended
from fsm.conformance.plan import Doing, Edge, Plan, Point
from fsm.machine.traversal import BreadthFirst
from fsm.sut import Stimulus, StimulusStage


@dataclass(kw_only=True)
class Cover:
    """What tests have met: cells by (row, state), and the ways that they went there.

    ``unsupported`` are the events that the SUT does not have or cannot be made to take, and why, by where that was;
    ``supported`` are those that it takes somewhere, by name and stage; ``unarranged`` the outcomes that it cannot
    arrange; ``whole`` has what it was after the last event of a test, if it died only then.
    """

    cells: Counter[tuple[int, int]] = field(default_factory=Counter)
    ways: Counter[int] = field(default_factory=Counter)
    steps: int = 0
    unsupported: dict[Doing, str] = field(default_factory=dict)
    supported: set[tuple[str, StimulusStage]] = field(default_factory=set)
    unarranged: set[tuple[str, str]] = field(default_factory=set)
    deviations: Counter[str] = field(default_factory=Counter)
    unspecified: int = 0
    whole: dict[tuple[Stimulus, ...], Ended] = field(default_factory=dict)
    hopeless: set[tuple[Point, Stimulus]] = field(default_factory=set)
    _came: set[tuple[Point, Stimulus]] = field(default_factory=set)

    def give_up(self, edge: Edge) -> None:
        """Count no more on *edge*, which did not come although it was tried again and again; unless it has come before."""
        if (edge.source, edge.step) not in self._came:
            self.hopeless.add((edge.source, edge.step))

    def took(self, edge: Edge) -> bool:
        """Whether some test went by *edge*."""
        return (edge.source, edge.step) in self._came

    def avoided(self, edge: Edge) -> bool:
        """Whether no path is to take *edge*."""
        return edge.doing in self.unsupported or (edge.source, edge.step) in self.hopeless

    def closed(self, plan: Plan) -> frozenset[tuple[int, int]]:
        """The cells to which no way leads but by what the SUT does not support, or what never came."""
        search: BreadthFirst[Point, Edge] = BreadthFirst(
            [plan.start], lambda point: (edge for edge in plan.onward(point) if not self.avoided(edge))
        )
        points = search.exhausted().depth
        met = {
            cell for point in points for edge in plan.leaving(point) if not self.avoided(edge) for cell in edge.cells
        }
        return frozenset(cell for edge in plan.edges for cell in edge.cells if not self.cells[cell]) - met

    def add(self, edge: Edge) -> None:
        self._came.add((edge.source, edge.step))
        self.hopeless.discard((edge.source, edge.step))
        self.cells.update(edge.cells)
        self.ways.update(way.index for way in edge.ways)
        self.deviations.update(way.deviation.name for way in edge.ways if way.deviation)
        self.unspecified += edge.to is None
