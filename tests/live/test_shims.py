"""Shims that a runtime has left running can be found."""

from __future__ import annotations

import subprocess
import time

from fsm.runtimes.live.runtime_session import left, shims


def test_a_shim_that_was_started_meanwhile_is_found() -> None:
    before = shims()
    script = "exec -a /usr/bin/containerd-shim-runc-v2 bash -c 'read -r; true' -namespace k8s.io -id abc end"
    command = ["/bin/bash", "-c", script]
    # The shell itself waits, because a new child has the same command line until it executes another program.
    with subprocess.Popen(command, stdin=subprocess.PIPE) as shim, subprocess.Popen(["/bin/sleep", "60"]) as other:
        try:
            deadline = time.monotonic() + 20
            while shim.pid not in shims() and time.monotonic() < deadline:
                time.sleep(0.05)

            assert "abc" == shims()[shim.pid]
            assert left(before) == f"kill {shim.pid}"
            assert left(shims()) == ""
        finally:
            shim.kill()
            other.kill()
