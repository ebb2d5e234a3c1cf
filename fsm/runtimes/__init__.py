"""Container runtimes: CRI, NRI and containerd, as machines see them, imitated, and on real sockets."""

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
"""Contributions of this package, as in the entry points of ``pyproject.toml``. Forms are tried in this order."""
