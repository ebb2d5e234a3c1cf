"""Check that a machine and a drawing of it agree."""

from fsm.diagrams.compare import Comparison, Where, choose
from fsm.diagrams.read import find
from fsm.machine import Machine
from fsm.machine.property.claims import Counts, MatchesDiagram
from fsm.machine.property.evidence import Conclusion, DrawnItem, Misdrawn, Proved, Refuted


def check_matches(claim: MatchesDiagram, machine: Machine) -> tuple[Conclusion, Counts]:
    """Compare *machine* with the drawing.  Return the conclusion and the number of states and moves compared.

    Raise :class:`InputError` if the file has no readable drawing.
    """
    found = choose(machine, find(claim.path))
    searched = Counts(states=len(found.states), transitions=len(found.moves), depth=0)
    if found.equal:
        return Proved(), searched
    misdrawn = Misdrawn(place=found.second, lacks=_only(found, Where.FIRST), adds=_only(found, Where.SECOND))
    return Refuted(evidence=misdrawn), searched


def _only(found: Comparison, where: Where) -> tuple[DrawnItem, ...]:
    items = [DrawnItem(target=state.name) for state in found.states if state.where is where]
    for move in found.moves:
        if move.where is where:
            place, event = move.places[1], move.label or move.event
            line, column = (place.line, place.column) if place else (0, 0)
            items.append(DrawnItem(target=move.target, source=move.source, event=event, line=line, column=column))
    return tuple(items)
