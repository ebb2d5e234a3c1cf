"""A drawing compared with a machine: what both have, what only one has, and what drawings may leave out.

An arrow without a source comes from the initial state, or, if its event interrupts, as
a restart does, from any state.  Without a label too, it marks the initial state.

If the model lists what drawings of it leave out, everything else must be drawn.  If it
does not, a drawing may be a sketch: only the states and events that it shows are
compared, and only outcomes that succeed.
"""

from dataclasses import dataclass, field, replace
from typing import Final

from fsm.diagrams.abstraction import Abstraction, Act, Move, abstract
from fsm.diagrams.abstraction.drawn_names import LabelMeanings, Meaning, groups, label_meanings, proposed
from fsm.diagrams.compare.difference import ComparedMove, ComparedState, Comparison, Where, Why
from fsm.diagrams.read.drawing import Arrow, ArrowLabel, Drawing
from fsm.machine import Machine

ANY: Final = "any state"
"""The name that ``fsm draw`` gives to the source of an arrow from every state."""


@dataclass(slots=True)
class Matching:
    """Compares one drawing; the machine is the first."""

    machine: Machine
    drawing: Drawing
    complete: bool
    found: dict[str, tuple[str, ...]] = field(init=False)
    known: LabelMeanings = field(init=False)
    abstraction: Abstraction = field(init=False)
    initial: str = field(init=False)
    moves: list[ComparedMove] = field(default_factory=list)
    drawn: dict[Move, set[str]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        below = {name: self.drawing.below.get(name, ()) for name in self.drawing.states}
        self.found = groups(self.machine, below)
        self.known = label_meanings(self.machine)
        self.drawing = self._without_words()
        nowhere = {
            event
            for arrow in self.drawing.arrows
            if arrow.source is None
            for event in self._events(arrow)
            if self.machine.events[event].interrupts
        }
        merged: dict[str, tuple[str, ...]] = {}
        for name, states in self.found.items():
            merged[self._same(name, merged)] = merged.get(self._same(name, merged), ()) + states
        drawn = {state for states in merged.values() for state in states}
        for name, states in proposed(self.machine).items():
            rest = tuple(state for state in states if state not in drawn)
            if rest and name not in merged:
                merged[name] = rest
        self.abstraction = abstract(self.machine, {name: states for name, states in merged.items() if states}, nowhere)
        self.initial = self.abstraction.shown[self.machine.initial]

    def _without_words(self) -> Drawing:
        """The drawing, where an arrow that begins at its own label is one without a source.

        ``fsm draw`` draws so the events it otherwise leaves out, where nothing else
        leads to a state.
        """
        written = {name: (name, *self.drawing.below.get(name, ())) for name in self.drawing.states}
        words = {
            name: lines
            for name, lines in written.items()
            if not self.found[name]
            and all(meaning for _, meaning in self.known.meant(lines))
            and all(
                name != arrow.target and (name != arrow.source or not arrow.labels) for arrow in self.drawing.arrows
            )
        }
        arrows = tuple(
            replace(arrow, source=None, steps=(ArrowLabel(names=words[arrow.source], place=arrow.place),))
            if arrow.source in words
            else arrow
            for arrow in self.drawing.arrows
        )
        states = {name: place for name, place in self.drawing.states.items() if name not in words}
        return replace(self.drawing, states=states, arrows=arrows)

    def _same(self, name: str, among: dict[str, tuple[str, ...]]) -> str:
        """The first of the drawn names that have a state in common with *name*."""
        return next((other for other in among if set(self.found[other]) & set(self.found[name])), name)

    def compare(self) -> Comparison:
        """All states and moves of both."""
        for arrow in self.drawing.arrows:
            self._arrow(arrow)
        for key, acts in self.abstraction.must.items():
            self._move(key, acts)
        return Comparison(
            first=self.machine.name,
            second=self.drawing.place,
            states=tuple(self._states()),
            moves=tuple(self.moves),
            initial=self.initial,
        )

    def _shown(self, name: str | None) -> str:
        """The name under which a drawn state is compared; without one, that of the initial state."""
        if name is None:
            return self.initial
        return next((self.abstraction.shown[state] for state in self.found[name]), name)

    def _arrow(self, arrow: Arrow) -> None:
        target = self._shown(arrow.target)
        unknown = [name for name in (arrow.source, arrow.target) if name not in {None, ANY} and not self.found[name]]
        if not arrow.labels:
            first = arrow.source is None
            if first and target == self.initial:
                return
            wrong = Why.STATE if unknown else Why.INITIAL if first else Why.UNLABELLED
            source = "" if first else self._shown(arrow.source)
            self._only_drawn(arrow, Move(source, "", target), "", wrong)
            return
        if arrow.source == ANY and not self.found[ANY]:
            self._from_any(arrow, target)
            return
        for label, meaning in self.known.meant(arrow.labels):
            interrupts = meaning is not None and self.machine.events[meaning.event].interrupts
            source = "" if arrow.source is None and interrupts else self._shown(arrow.source)
            event, outcome = meaning or Meaning(label)
            key = Move(source, event, target)
            if meaning is None or unknown:
                self._only_drawn(arrow, key, label, Why.EVENT if meaning is None else Why.STATE)
            elif not self.abstraction.allows(key, outcome):
                why = Why.OUTCOME if outcome and self.abstraction.allows(key, "") else None
                self._only_drawn(arrow, key, label, why)
            else:
                self._both(arrow, key, label, outcome)

    def _from_any(self, arrow: Arrow, target: str) -> None:
        """Treat an arrow from any state as one from each state in which the machine has the move."""
        for label, meaning in self.known.meant(arrow.labels):
            event, outcome = meaning or Meaning(label)
            keys = [Move(source, event, target) for source in dict.fromkeys(self.abstraction.shown.values())]
            keys = [key for key in keys if self.abstraction.allows(key, outcome)]
            for key in keys:
                self._both(arrow, key, label, outcome)
            if not keys:
                why = Why.EVENT if meaning is None else None
                self._only_drawn(arrow, Move(ANY, event, target), label, why)

    def _only_drawn(self, arrow: Arrow, key: Move, label: str, why: Why | None) -> None:
        # An arrowhead may be far from the label in question.
        wrong = [step.place for step in arrow.steps] if why in {Why.EVENT, Why.OUTCOME} else []
        places = (None, wrong[0] if len(wrong) == 1 else arrow.place)
        self.moves.append(ComparedMove(**key._asdict(), where=Where.SECOND, label=label, places=places, why=why))

    def _both(self, arrow: Arrow, key: Move, label: str, outcome: str) -> None:
        if outcome in self.drawn.setdefault(key, set()):
            return
        self.drawn[key].add(outcome)
        acts = (*self.abstraction.must.get(key, ()), *self.abstraction.may.get(key, ()))
        outcomes, places = tuple(dict.fromkeys(act.outcome for act in acts)), (None, arrow.place)
        self.moves.append(
            ComparedMove(**key._asdict(), where=Where.BOTH, label=label, outcomes=outcomes, places=places)
        )

    def _move(self, key: Move, acts: list[Act]) -> None:
        """Record a move of a full drawing that is missing, or that may be left out."""
        drawn = self.drawn.get(key)
        ends = self.abstraction.ends.get(key)
        if drawn is not None:
            # A label that names one outcome does not cover the others that have labels of their own.
            acts = [act for act in acts if act.named and not {"", act.outcome} & drawn]
        elif ends and self._whole(ends):
            return
        missing = [act for act in acts if not self._may_be_left_out(key, act)]
        if missing or (acts and drawn is None):
            where = Where.FIRST if missing else Where.UNDRAWN
            outcomes = tuple(dict.fromkeys(act.outcome for act in missing or acts))
            self.moves.append(ComparedMove(**key._asdict(), where=where, outcomes=outcomes))

    def _whole(self, ends: set[Move]) -> bool:
        """Whether the drawing shows where a call leads in the end, instead of where it begins."""
        seen = [end for end in ends if end.source != end.target]
        return all(end in self.drawn for end in seen) and any(end not in self.abstraction.must for end in seen)

    def _may_be_left_out(self, key: Move, act: Act) -> bool:
        if self._strict:
            return self.abstraction.omitted(act, key.event)
        events = {event for arrow in self.drawing.arrows for event in self._events(arrow)}
        states = {self._shown(name) for name in self.drawing.states}
        if any(arrow.source is None for arrow in self.drawing.arrows):
            states |= {self.initial, ""}
        return act.failed or key.event not in events or not {key.source, key.target} <= states

    def _events(self, arrow: Arrow) -> set[str]:
        return {meaning.event for _, meaning in self.known.meant(arrow.labels) if meaning is not None}

    @property
    def _strict(self) -> bool:
        return self.complete or self.machine.omits is not None

    def _states(self) -> list[ComparedState]:
        shown = self.abstraction.shown
        stands_for = {name: tuple(state for state in shown if shown[state] == name) for name in shown.values()}
        places = {self._shown(name): place for name, place in reversed(self.drawing.states.items())}
        nowhere = any(arrow.source is None for arrow in self.drawing.arrows)
        states = []
        for name, own in stands_for.items():
            drawn = name in places or (name == self.initial and nowhere)
            missing = Where.FIRST if self._strict else Where.UNDRAWN
            where = Where.BOTH if drawn else missing
            states.append(ComparedState(name=name, where=where, stands_for=own, place=places.get(name)))
        for name, place in self.drawing.states.items():
            if name != ANY and not self.found[name]:
                states.append(ComparedState(name=name, where=Where.SECOND, place=place, why=Why.STATE))
        return states


def compare_with_drawing(machine: Machine, drawing: Drawing, *, complete: bool = False) -> Comparison:
    """What *machine* and *drawing* have in common, and what only one of them has.

    With *complete*, all that the model does not list as left out must be drawn, even if
    the model does not mention drawings.
    """
    return Matching(machine=machine, drawing=drawing, complete=complete).compare()
