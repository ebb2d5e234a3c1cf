"""Build the machine that a drawing shows, with defaults for what drawings do not express."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Final

from fsm.diagrams.read import Arrow, Drawing
from fsm.diagrams.read.mermaid import NOWHERE
from fsm.errors import InputError, Problem, refused
from fsm.interop.draft import Draft, DraftState, DraftTransition, machine_of
from fsm.machine import Machine

BEFORE: Final = "absent"  # the source state of an arrow that has a label but no source


def drawn_machine(drawing: Drawing, name: str) -> Machine:
    """Return the machine called *name* that *drawing* shows. Each label becomes a call.

    A call replies with an error in states that no arrow with its label leaves. Raise :class:`InputError` if the drawing
    cannot be read, or if it does not show where a run begins or what an arrow means.
    """
    problems = [*drawing.problems, *_unlabelled(drawing)]
    if problems:
        raise InputError(problems)
    left_out = {NOWHERE} if not any(arrow.labels for arrow in _into(drawing, NOWHERE)) else set[str]()
    states = dict.fromkeys((_initial(drawing), *(state for state in drawing.states if state not in left_out)))
    initial = _initial(drawing)
    left = {each.source or initial for each in drawing.arrows if each.target not in {each.source, NOWHERE}}
    draft = Draft(
        name=name,
        form="a drawing",
        kind="call",
        initial=initial,
        states=tuple(DraftState(name=state, ignores=False, final=state not in left) for state in states),
        transitions=tuple(_arrows(drawing, initial)),
    )
    return machine_of(draft, file=drawing.path, outcomes=True)


def _into(drawing: Drawing, state: str) -> list[Arrow]:
    return [each for each in drawing.arrows if each.target == state]


def _unlabelled(drawing: Drawing) -> Iterator[Problem]:
    for each in drawing.arrows:
        if each.source is not None and each.target != NOWHERE and not each.labels:
            what = f"column {each.place.column}: the arrow from '{each.source}' to '{each.target}' has no label"
            hint = "write the event that leads there"
            yield Problem(path=drawing.path, line=each.place.line, code="FSM519", what=what, hint=hint)


def _initial(drawing: Drawing) -> str:
    """Return the state marked by an arrow from nowhere, :data:`BEFORE`, or the only state that nothing leads to."""
    marked = [each.target for each in drawing.arrows if each.source is None and not each.labels]
    if marked:
        return marked[0]
    if any(each.source is None for each in drawing.arrows):
        return BEFORE
    left = {each.source for each in drawing.arrows}
    first = [
        state
        for state in drawing.states
        if state in left and all(each.source == state for each in _into(drawing, state))
    ]
    if len(first) != 1:
        what = "does not show where a run begins"
        hint = "draw an arrow from nowhere: [*] --> STATE, or from a point"
        raise refused(drawing.path, "FSM519", what, hint, line=drawing.line)
    return first[0]


def _arrows(drawing: Drawing, initial: str) -> Iterator[DraftTransition]:
    """Yield a transition for each label of each arrow. Outcomes are named if a label leads to several states."""
    drawn = [
        DraftTransition(
            event=label.replace(".", "-"),
            source=each.source or initial,
            line=each.place.line,
            to="" if each.source == each.target else each.target,
        )
        for each in drawing.arrows
        for label in each.labels
    ]
    for each in dict.fromkeys(replace(one, line=0) for one in drawn):
        several = {one.to for one in drawn if (one.event, one.source) == (each.event, each.source)}
        part = (each.to or each.source).replace(".", "-")
        yield replace(each, event=f"{each.event}.{part}") if len(several) > 1 else each
