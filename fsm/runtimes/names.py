"""Names of CRI's states and NRI's events, and NRI's time limits, which several parts of this package use."""

from typing import Final

from fsm.runtimes.recordings.nri_events import EVENTS

CREATED: Final = "CONTAINER_CREATED"
RUNNING: Final = "CONTAINER_RUNNING"
READY: Final = "SANDBOX_READY"
NOT_READY: Final = "SANDBOX_NOTREADY"

POD_EVENTS: Final = frozenset(name for name in EVENTS if name.endswith("PodSandbox"))

REQUESTS: Final = (*EVENTS, "ValidateContainerAdjustment")
"""All requests that a plugin may subscribe to, in the order of their bits."""

REGISTRATION: Final = 5.0
REQUEST: Final = 2.0
"""Number of seconds that a plugin has by default to register, and to answer a request."""
