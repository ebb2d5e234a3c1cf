"""Convert flat state charts, as in SCXML and python-statemachine, to drafts.

Events are signals, which are sent and have no reply.  A state without a transition for an event ignores it, as the
SCXML recommendation requires (https://www.w3.org/TR/scxml, section 3.13).  The library python-statemachine does the
same.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from typing import Final

from fsm.interop.draft import Draft, DraftState, DraftTransition
from fsm.interop.source_text import SourceProblems

ANY: Final = "*"
DATA_NOTE: Final = "Its data are left out; what depends on them is a choice of the environment."
CHOOSING: Final = ("raise", "if", "foreach")  # actions that cause another step or send an event conditionally


@dataclass(frozen=True, slots=True, kw_only=True)
class ChartState:
    """A state, the events sent on entry and exit, and its transitions, whose ``event`` lists event descriptors."""

    name: str
    line: int
    transitions: tuple[DraftTransition, ...]
    enters: tuple[str, ...] = ()
    leaves: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    final: bool = False


def draft_of(
    states: Iterable[ChartState],
    problems: SourceProblems,
    *,
    name: str,
    form: str,
    initial: str,
    initial_line: int = 0,
    about: str = "",
    notes: tuple[str, ...] = (),
) -> Draft:
    """Return the draft of a state chart.  The first state is initial unless *initial* names another one."""
    places: dict[str, ChartState] = {}
    triggers = 0
    for state in states:
        if places.setdefault(state.name, state) is not state:
            problems.add("FSM513", state.line, f"state '{state.name}' occurs twice", "keep one of them")
        triggers += sum(len(transition.event.split()) for transition in state.transitions)
    if initial and initial not in places:
        problems.unknown(initial_line, "initial is", initial, places)
    problems.check_size(initial_line, max(len(places), triggers), triggers)
    for state in places.values():
        _check(state, places, problems)
    return Draft(
        name=name,
        form=form,
        kind="signal",
        initial=initial or next(iter(places), ""),
        about=about,
        states=tuple(
            DraftState(name=name, ignores=True, final=at.final, notes=at.notes) for name, at in places.items()
        ),
        transitions=tuple(_arrows(places)),
        notes=("An event is a signal: it has no reply. A state without a transition for it ignores it.", *notes),
    )


def _check(state: ChartState, states: dict[str, ChartState], problems: SourceProblems) -> None:
    if state.final and state.transitions:
        what = f"final state '{state.name}' has transitions"
        problems.add("FSM512", state.transitions[0].line, what, "nothing is taken there: drop them, or final")
    for transition in state.transitions:
        if not transition.event.split():
            what = f"state '{state.name}' has a transition without an event: it is taken at once"
            hint = "a machine takes a step when an event happens: name the event, or remove the transition"
            problems.add("FSM512", transition.line, what, hint)
        if transition.to and transition.to not in states:
            what = f"a transition of state '{state.name}' leads to"
            problems.unknown(transition.line, what, transition.to, states)


def _arrows(states: dict[str, ChartState]) -> Iterator[DraftTransition]:
    """Yield the transitions of all states for each event that any state names, in order."""
    arrows = [(state, arrow, arrow.event.split()) for state in states.values() for arrow in state.transitions]
    written = [descriptor for _, _, descriptors in arrows for descriptor in descriptors]
    for event in dict.fromkeys(_event_of(each) for each in written if each != ANY) or dict.fromkeys(written):
        for state, arrow, descriptors in arrows:
            # `*` matches all events.  Other descriptors match the events that begin with their words.
            if any(each == ANY or f"{event}.".startswith(f"{_event_of(each)}.") for each in descriptors):
                into = states.get(arrow.to)
                emits = (*state.leaves, *arrow.emits, *into.enters) if into else arrow.emits
                yield replace(arrow, event=event, to="" if arrow.to == state.name else arrow.to, emits=emits)


def _event_of(descriptor: str) -> str:
    """Return the event that *descriptor* names, which is ``error`` for ``error.*`` and ``error.``."""
    return descriptor.removesuffix("*").removesuffix(".") or descriptor
