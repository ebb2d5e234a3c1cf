"""A machine as a definition for the library `python-statemachine`, version 3, in JSON.

``statemachine.io.load(path)`` makes a class of it.  Cells that refuse, cannot happen or
are silent have no transition: the library ignores the event.  An outcome that does not
change the state is a transition without a target.  Outputs are sent to the parent, as
in SCXML.  The library cannot express replies and what a state shows.
"""

from typing import Any, Final

import msgspec

from fsm.interop.outcome_events import OutcomeEvent, outcome_events
from fsm.interop.scxml.write import PARENT
from fsm.language.names import distinct
from fsm.machine import Machine

TAKEN: Final = frozenset(
    {
        *("configuration", "current_state_value", "history_values", "model", "prepare", "send"),
        *("start_configuration_values", "state_field", "states", "states_map"),
    }
)
"""Attributes of the library's machines; states become attributes too, so a state of such a name gets another id."""


def python_statemachine(machine: Machine) -> str:
    """*machine* as a definition in JSON, ending in a newline.

    >>> from fsm.library import load
    >>> msgspec.json.decode(python_statemachine(load("nri-pod")))["name"]
    'nri-pod'
    """
    ids: dict[str, str] = {}
    for state in machine.states:
        public = f"state{state}" if state.startswith("_") else state
        ids[state] = distinct(public, (*TAKEN, *ids.values()), also="-.")
    states: dict[str, dict[str, Any]] = {
        ids[state]: {"initial": True} if state == machine.initial else {} for state in machine.states
    }
    for each in outcome_events(machine):
        states[ids[each.source]].setdefault("transitions", []).append(_transition(each, ids))
    definition = {"name": machine.name, "description": machine.about, "states": states}
    return msgspec.json.format(msgspec.json.encode(definition), indent=2).decode() + "\n"


def _transition(each: OutcomeEvent, ids: dict[str, str]) -> dict[str, Any]:
    written: dict[str, Any] = {"event": each.event}
    if each.to:
        written["target"] = ids[each.to]
    if each.emits:
        written["on"] = [{"send": {"event": output, "target": PARENT}} for output in each.emits]
    return written
