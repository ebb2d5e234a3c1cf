"""The models with which a container runtime is tested together with the events that it sends to NRI plugins."""

from __future__ import annotations

from typing import Final

from fsm.language.library import load_system
from fsm.machine import Machine
from fsm.machine.product.flatten import flatten

NODE: Final = "node"
"""The system against which a runtime is tested if the events that it sends to plugins are tested too."""
RELAYED: Final = ("nri-container", "nri-pod", "plugin-container", "plugin-pod", "nri-plugin-contract")
"""The models of the events that plugins receive. They can judge tests planned with :data:`NODE`."""
ONE_POD: Final = {"pod": 1, "container": 1}
"""Number of copies of each part of :data:`NODE` in the test of a runtime. A client can read the state of each."""
DAMAGED: Final = "{container}"
"""Placeholder in a damage command for the id of the container whose checkpoint is to be damaged."""


def node(profile: str | None) -> Machine:
    """Return :data:`NODE` with one pod and one container, flattened to a machine that shows what clients can read."""
    return flatten(load_system(NODE, ONE_POD).partly_under(profile), visible=tuple(ONE_POD))
