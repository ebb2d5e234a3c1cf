"""Names of CRI's calls and states and of NRI's events, and NRI's time limits, which all parts of this package use."""

import re
from typing import Final

CONTAINER: Final = "container"
POD: Final = "pod"

CREATED: Final = "CONTAINER_CREATED"
RUNNING: Final = "CONTAINER_RUNNING"
READY: Final = "SANDBOX_READY"
NOT_READY: Final = "SANDBOX_NOTREADY"

FULL: Final = 64
FULL_ID: Final = re.compile(rf"[0-9a-f]{{{FULL}}}")
"""Length and pattern of an id that is not shortened."""

MAKES: Final = frozenset({"RunPodSandbox", "CreateContainer"})
"""Calls that create an entity, which does not have an id yet. CreateContainer names the pod instead."""

POD_CALLS: Final = MAKES | {
    "StopPodSandbox",
    "RemovePodSandbox",
    "PodSandboxStatus",
    "PortForward",
    "UpdatePodSandboxResources",
}

CONTAINER_CALLS: Final = frozenset(
    {
        "StartContainer",
        "StopContainer",
        "RemoveContainer",
        "ContainerStatus",
        "UpdateContainerResources",
        "ReopenContainerLog",
        "ExecSync",
        "Exec",
        "Attach",
        "ContainerStats",
        "CheckpointContainer",
    }
)
INNER: Final = {"StopPodSandbox": ("StopContainer",), "RemovePodSandbox": ("StopContainer", "RemoveContainer")}
"""Maps each call on a pod that reaches its containers to the calls on each of them that it implies."""

EVENTS: Final = (
    "RunPodSandbox",
    "StopPodSandbox",
    "RemovePodSandbox",
    "CreateContainer",
    "PostCreateContainer",
    "StartContainer",
    "PostStartContainer",
    "UpdateContainer",
    "PostUpdateContainer",
    "StopContainer",
    "RemoveContainer",
    "UpdatePodSandbox",
    "PostUpdatePodSandbox",
)
"""Pod and container events, in the order of their bits in NRI's event mask."""

POD_EVENTS: Final = frozenset(name for name in EVENTS if name.endswith("PodSandbox"))


def _enum(name: str) -> str:
    """Return the NRI enum name of the event *name*.

    >>> _enum("PostStartContainer")
    'POST_START_CONTAINER'
    """
    return "".join(f"_{letter}" if letter.isupper() else letter.upper() for letter in name).lstrip("_")


EVENT_NAMES: Final = {form: name for name in EVENTS for form in (name, _enum(name))}

REQUESTS: Final = (*EVENTS, "ValidateContainerAdjustment")
"""All requests that a plugin may subscribe to, in the order of their bits."""

RELAYED: Final = {
    "RunPodSandbox": ("RunPodSandbox",),
    "CreateContainer": ("CreateContainer", "PostCreateContainer"),
    "StartContainer": ("StartContainer", "PostStartContainer"),
    "UpdateContainerResources": ("UpdateContainer", "PostUpdateContainer"),
}
"""Maps each call to the events that it relays to the plugin before it replies successfully."""

REGISTRATION: Final = 5.0
REQUEST: Final = 2.0
"""Number of seconds that a plugin has by default to register, and to answer a request."""
