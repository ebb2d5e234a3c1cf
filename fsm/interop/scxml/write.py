"""A machine as a state chart in SCXML, the W3C's notation, for tools that run or draw those.

Each outcome is an event of its own, as in :mod:`fsm.interop.outcome_events`.  An outcome that does not change the
state is a transition without a target; cells that refuse, cannot happen or are silent have no transition.  SCXML
cannot express replies, what a state shows, clauses and profiles.
"""

from typing import Final
from xml.etree.ElementTree import Element, SubElement, indent, tostring

from fsm.interop.outcome_events import outcome_events
from fsm.language.names import distinct, identifiers
from fsm.machine import Machine

SCXML: Final = "http://www.w3.org/2005/07/scxml"
PARENT: Final = "#_parent"
"""The target of outputs: the parent session."""


def scxml(machine: Machine) -> str:
    """*machine* as an SCXML document, ending in a newline.

    >>> from fsm.library import load
    >>> print("\\n".join(scxml(load("nri-pod")).splitlines()[2:5]))
      <state id="absent">
        <transition event="run-pod-sandbox.ok" target="running">
          <send event="RunPodSandbox" target="#_parent" />
    """
    ids = {
        name: f"_{word}" if word[0] in "0123456789-" else word
        for name, word in identifiers("", machine.states, also="-").items()
    }
    head = {"version": "1.0", "datamodel": "null", "name": machine.name, "initial": ids[machine.initial]}
    root = Element("scxml", {"xmlns": SCXML, **head})
    states = {name: SubElement(root, "state", {"id": word}) for name, word in ids.items()}
    for each in outcome_events(machine):
        target = {"target": ids[each.to]} if each.to else {}
        transition = SubElement(states[each.source], "transition", {"event": each.event, **target})
        for output in each.emits:
            SubElement(transition, "send", {"event": distinct(output, (), also="-"), "target": PARENT})
    indent(root)
    return f'<?xml version="1.0" encoding="UTF-8"?>\n{tostring(root, encoding="unicode")}\n'
