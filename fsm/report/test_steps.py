"""Describe the steps of a test as text or JSON."""

from fsm.conformance.failure import Failure, Taken
from fsm.errors import visible
from fsm.report.json_report import Json, picked


def trace_data(failure: Failure) -> list[Json]:
    return [
        {
            "step": str(taken.step),
            "came": str(taken.came) if taken.came else None,
            "passed": taken.passed / 10**9 if taken.passed else None,
            **dict.fromkeys(("reply", "shows", "emits")),
            **(picked(taken.seen, "reply", "shows", emits="outputs") if taken.seen else {}),
        }
        for taken in failure.trace
    ]


def response_text(taken: Taken) -> str:
    """Describe the response to a step.

    >>> from fsm.sut import Response, Stimulus
    >>> waited = Taken(step=Stimulus("expire", "wait"), seen=Response(reply="", shows="held"), passed=2588399999000000)
    >>> response_text(waited)
    'after 2588399.999 s; shows held'
    """
    seen = taken.seen
    if seen is None:
        return "no answer"
    reply = "in progress" if seen.reply is None else seen.reply
    parts = (
        f"after {taken.passed / 10**9:.15g} s" if taken.passed else "",
        f"came as {taken.came}" if taken.came else "",
        visible(reply),
        f"emits {', '.join(map(visible, seen.outputs))}" if seen.outputs else "",
        f"shows {visible(seen.shows)}" if seen.shows else "",
    )
    return "; ".join(filter(None, parts))
