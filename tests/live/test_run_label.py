"""The label of a leftover shows whether the run that created it has ended."""

from __future__ import annotations

import subprocess
import sys

from fsm.runtimes.live.runtime_session import ended, own


def test_this_run_goes_on() -> None:
    assert not ended(own())
    assert len(own()) <= 63


def test_a_run_whose_process_is_gone_has_ended() -> None:
    """A run has ended if its process is gone, if the id was reused, or if the machine was rebooted."""
    script = "import sys; from fsm.runtimes.live.runtime_session import own; sys.stdout.write(own())"
    gone = subprocess.run([sys.executable, "-c", script], check=True, capture_output=True, text=True).stdout

    assert ended(gone)
    assert ended(f"{own()}1")
    assert ended(f"0{own()}")


def test_a_run_elsewhere_is_left_alone() -> None:
    """A run in another PID namespace is left alone, since its process id belongs to a different process here."""
    boot, _, process, started = own().split(".")

    assert not ended(f"{boot}.0.{process}.{started}1")


def test_other_labels_are_no_runs() -> None:
    assert not any(ended(text) for text in ("", "a.b.c", "a.b.1.x", "a.b.1.2.3"))
