"""Decide whether a machine matches a drawing."""

from fsm.diagrams.compare import Comparison, Where, choose
from fsm.diagrams.read import find
from fsm.machine import Machine
from fsm.machine.claims import Counts, MatchesDiagram
from fsm.machine.evidence import Conclusion, DrawnItem, Misdrawn, Proved, Refuted


def check_matches(claim: MatchesDiagram, machine: Machine) -> tuple[Conclusion, Counts]:
    found = choose(machine, find(claim.path))
    searched = Counts(states=len(found.states), transitions=len(found.moves), depth=0)
    if found.equal:
        return Proved(), searched
    misdrawn = Misdrawn(
        place=found.second, lacks=_items_only_in(found, Where.FIRST), adds=_items_only_in(found, Where.SECOND)
    )
    return Refuted(evidence=misdrawn), searched


def _items_only_in(found: Comparison, where: Where) -> tuple[DrawnItem, ...]:
    items = [DrawnItem(target=state.name) for state in found.states if state.where is where]
    for move in found.moves:
        if move.where is where:
            place, event = move.places[1], move.label or move.event
            line, column = (place.line, place.column) if place else (0, 0)
            items.append(DrawnItem(target=move.target, source=move.source, event=event, line=line, column=column))
    return tuple(items)
