"""Shims that a runtime has left running can be found."""

from __future__ import annotations

import subprocess
import time

from fsm.runtimes.runtime_schemes import RUNTIME


def test_a_shim_that_was_started_meanwhile_is_found() -> None:
    script = "exec -a /usr/bin/containerd-shim-runc-v2 bash -c 'read -r; true' -namespace k8s.io -id abc end"
    command = ["/bin/bash", "-c", script]
    # The shell itself waits, because a new child has the same command line until it executes another program.
    with (
        RUNTIME.during() as remaining,
        subprocess.Popen(command, stdin=subprocess.PIPE) as shim,
        subprocess.Popen(["/bin/sleep", "60"]) as other,
    ):
        try:
            deadline = time.monotonic() + 20
            while not remaining() and time.monotonic() < deadline:
                time.sleep(0.05)

            assert remaining() == f"1 shims of the runtime were left running; to remove them: kill {shim.pid}"
            with RUNTIME.during() as later:
                assert later() == ""
        finally:
            shim.kill()
            other.kill()
