"""Models for testing a container runtime together with the events that it sends to NRI plugins."""

from __future__ import annotations

from typing import Final

from fsm.language.library import load_system
from fsm.machine import Machine
from fsm.machine.product.flatten import flatten

NODE: Final = "node"
RELAYED: Final = ("nri-container", "nri-pod", "plugin-container", "plugin-pod", "nri-plugin-contract")
"""Names of the models for the events that plugins receive. All of them can judge tests planned with :data:`NODE`."""
ONE_POD: Final = {"pod": 1, "container": 1}
"""The numbers of pods and containers in :data:`NODE` when it is used for testing a runtime."""
DAMAGED: Final = "{container}"  # placeholder for the id of a container in the command that damages its checkpoint


def node(profile: str | None) -> Machine:
    return flatten(load_system(NODE, ONE_POD).partly_under(profile), visible=tuple(ONE_POD))
