"""One event on an edge, as plain text."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from fsm.rendering.picture import Label


def labelled(label: Label) -> str:
    """*label* in a few words.

    >>> from fsm.rendering.picture import Label
    >>> labelled(Label(event="stop", kind="call", emits=("StopContainer",)))
    'stop / StopContainer'
    >>> labelled(Label(event="start", kind="call", ends=True, outcome="failed", error="error"))
    'start failed ✗'
    """
    words = label.event
    if label.ends and label.outcome:
        words += f" {label.outcome}"
    elif label.ends and not label.error:
        words += " ends"
    if label.cell == "silent":
        words += " ?"
    if label.cell == "ignores":
        words = f"({words})"
    if label.error:
        words += " ✗" if label.error == "error" else f" ✗ {label.error}"
    if label.emits:
        words += f" / {', '.join(label.emits)}"
    return f"{words} (deviation)" if label.deviates else words
