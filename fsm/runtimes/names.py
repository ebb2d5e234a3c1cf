"""Names of CRI calls, CRI states and NRI events, and the time limits of NRI."""

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
MAKES: Final = frozenset({"RunPodSandbox", "CreateContainer"})
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
"""Maps each pod call to the calls that it implies for every container of the pod."""

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
"""Names of all pod and container events, in the order of their bits in NRI's event mask."""

POD_EVENTS: Final = frozenset(name for name in EVENTS if name.endswith("PodSandbox"))
EVENT_NAMES: Final = {form: name for name in EVENTS for form in (name, re.sub(r"\B([A-Z])", r"_\1", name).upper())}
"""Maps both spellings of each event, such as ``PostStartContainer`` and ``POST_START_CONTAINER``, to the first."""

REQUESTS: Final = (*EVENTS, "ValidateContainerAdjustment")
"""Names of the requests that a plugin may subscribe to, in the order of their bits in NRI's event mask."""

RELAYED: Final = {
    "RunPodSandbox": ("RunPodSandbox",),
    "CreateContainer": ("CreateContainer", "PostCreateContainer"),
    "StartContainer": ("StartContainer", "PostStartContainer"),
    "UpdateContainerResources": ("UpdateContainer", "PostUpdateContainer"),
}
"""Maps each call to the events that plugins receive before the call succeeds."""

REGISTRATION: Final = 5.0  # default limit in seconds for registering a plugin
REQUEST: Final = 2.0  # default limit in seconds for answering a request

_STATUS_FIELDS: Final = {"created": "created_at", "started": "started_at", "finished": "finished_at"} | {
    "exit-code": "exit_code",
    **{name: name for name in ("reason", "message")},
}


def status_fields(status: object) -> dict[str, int | str]:
    """Return the fields of a container's *status*, with the names that they have in models."""
    return {name: getattr(status, field) for name, field in _STATUS_FIELDS.items()}
