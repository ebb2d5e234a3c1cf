"""A machine as a configuration of the library `transitions`: the dictionary of its markup form, as JSON.

``MarkupMachine(markup=json.load(file))`` runs it.  Cells that refuse, cannot happen or
are silent have no transition: the library raises.  An outcome that does not change the
state is an internal transition.  The library cannot express replies, outputs, and what
a state shows.
"""

import msgspec

from fsm.interop.outcome_events import outcome_events
from fsm.machine import Machine


def transitions(machine: Machine) -> str:
    """*machine* as a markup dictionary in JSON, ending in a newline.

    >>> from fsm.library import load
    >>> msgspec.json.decode(transitions(load("nri-pod")))["initial"]
    'absent'
    """
    markup = {
        "name": machine.name,
        "initial": machine.initial,
        "states": [{"name": state} for state in machine.states],
        "transitions": [
            {"trigger": each.event, "source": each.source, "dest": each.to or None} for each in outcome_events(machine)
        ],
        "auto_transitions": False,
        "ignore_invalid_triggers": False,
        "send_event": False,
        "queued": False,
        "models": [{"name": machine.name, "class-name": "self", "state": machine.initial}],
    }
    return msgspec.json.format(msgspec.json.encode(markup), indent=2).decode() + "\n"
