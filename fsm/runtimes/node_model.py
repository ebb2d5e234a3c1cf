"""Models for testing a container runtime together with the events that it sends to NRI plugins."""

from __future__ import annotations

from typing import Final

from fsm.language.library import load_system
from fsm.machine import Machine
from fsm.machine.product.flatten import flatten

NODE: Final = "node"
"""Name of the system model for testing a runtime together with the events that it sends to plugins."""
RELAYED: Final = ("nri-container", "nri-pod", "plugin-container", "plugin-pod", "nri-plugin-contract")
"""Names of the models for the events that plugins receive. They can judge tests planned with :data:`NODE`."""
ONE_POD: Final = {"pod": 1, "container": 1}
"""Number of pods and containers in :data:`NODE` when a runtime is tested. Clients can read their states."""
DAMAGED: Final = "{container}"
"""Placeholder in a damage command for the id of the container whose checkpoint is to be damaged."""


def node(profile: str | None) -> Machine:
    """Flatten :data:`NODE` with one pod and one container to a machine that shows the states of both."""
    return flatten(load_system(NODE, ONE_POD).partly_under(profile), visible=tuple(ONE_POD))
