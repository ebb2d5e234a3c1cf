"""Support for container runtimes (CRI, NRI and containerd): recordings, a reference implementation and live tests."""

from collections.abc import Mapping
from typing import Final

ENTRY_POINTS: Final[Mapping[str, Mapping[str, str]]] = {
    "fsm.domains": {"containers": "fsm.runtimes.containers:DOMAIN"},
    "fsm.recordings": {
        "containerd-log": "fsm.runtimes.recordings.runtime_forms:LOG",
        "cri-calls": "fsm.runtimes.recordings.runtime_forms:CALLS",
        "nri-events": "fsm.runtimes.recordings.runtime_forms:EVENTS",
        "nri-events-and-calls": "fsm.runtimes.recordings.runtime_forms:COMBINED",
        "checkpoints": "fsm.runtimes.recordings.runtime_forms:CHECKPOINTS",
    },
    "fsm.suts": {"cri": "fsm.runtimes.runtime_schemes:RUNTIME", "nri-plugin": "fsm.runtimes.runtime_schemes:PLUGIN"},
    "fsm.commands": {
        "record": "fsm.runtimes.live_commands:RECORD",
        "proxy": "fsm.runtimes.live_commands:PROXY",
        "serve": "fsm.runtimes.live_commands:SERVE",
    },
}
"""The entry points that fsm itself registers, by group. Recording forms are tried in this order."""
