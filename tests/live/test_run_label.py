"""The label of a leftover tells whether the run that owns it has ended."""

from __future__ import annotations

import subprocess
import sys

from fsm.runtimes.live.runtime_session import ended, own, read


def test_this_run_goes_on() -> None:
    assert read(str(own())) == own()
    assert not ended(own())
    assert len(str(own())) <= 63


def test_a_run_whose_process_is_gone_has_ended() -> None:
    """The process is gone, its id was reused, or it was started before the machine was booted."""
    script = "import sys; from fsm.runtimes.live.runtime_session import own; sys.stdout.write(str(own()))"
    gone = read(subprocess.run([sys.executable, "-c", script], check=True, capture_output=True, text=True).stdout)

    assert gone is not None
    assert ended(gone)
    assert ended(own()._replace(started=own().started + 1))
    assert ended(own()._replace(boot="0"))


def test_a_run_elsewhere_is_left_alone() -> None:
    """The id of the process belongs to a different process in another PID namespace."""
    assert not ended(own()._replace(namespace="0", started=0))


def test_other_labels_are_no_runs() -> None:
    assert [read(text) for text in ("", "a.b.c", "a.b.1.x", "a.b.1.2.3")] == [None] * 4
