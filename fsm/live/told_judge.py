"""A pod, its container and a plugin, where another machine than the one that plans the test says what is legal.

It judges what the plugin is told as ``fsm judge`` does the recordings of it: those of one test, after each of its steps.
"""

from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from typing import Final

from fsm.errors import InputError
from fsm.judgement import Judged, judge
from fsm.live.call_recording import encoded
from fsm.live.cri_client import CallAnswer
from fsm.live.node_sut import RuntimeNodeSUT
from fsm.live.runtime_session import RuntimeSession
from fsm.verdict import Covered, Illegal, Violation

_LAYER: Final = ("nri-container", "nri-pod")
"""The machines of what is relayed, whoever calls: they judge it without the calls."""


class ToldNodeSUT(RuntimeNodeSUT):
    """A pod and its container; what the plugin is told of them is judged by the *model*, as *profile* has it."""

    def __init__(
        self,
        session: RuntimeSession,
        nri: str,
        restart: Callable[[], None] | None = None,
        *,
        model: str,
        profile: str | None,
        seen: Callable[[CallAnswer], object] | None = None,
    ) -> None:
        self.model = model
        self._profile = profile
        self._seen = seen
        self._calls: list[bytes] = []
        self._last: Judged | None = None
        self._met: dict[str, Counter[tuple[str, str]]] = {}
        session.record(self._called)
        super().__init__(session, nri, restart)

    def _called(self, answer: CallAnswer) -> None:
        self._calls.append(encoded(answer))
        if self._seen is not None:
            self._seen(answer)

    def reset(self) -> None:
        self._count()
        super().reset()
        self._calls.clear()

    def violation(self) -> Violation | None:
        """What is not legal in the recordings of the test so far, as their last event has it."""
        if not self.plugin.lines:
            return None
        folder = self._session.folder
        events, calls = folder / "events.jsonl", folder / "calls.jsonl"
        events.write_bytes(b"".join(line + b"\n" for line in self.plugin.lines))
        calls.write_bytes(b"".join(self._calls))
        with_calls = "" if self.model in _LAYER else str(calls)
        try:
            self._last = judge(str(events), calls=with_calls, models=[self.model], profile=self._profile)
        except InputError as error:
            if {each.code for each in error.problems} != {"FSM206"}:
                raise
            return None  # the plugin was told of no entity that a call has named
        found = [each.verdict for each in self._last.judgements if isinstance(each.verdict, Illegal)]
        illegal = [each for verdict in found for finding in verdict.findings for each in finding.first]
        return replace(illegal[0], file="", line=0) if illegal else None

    def covered(self) -> tuple[Covered, ...]:
        self._count()
        return tuple(Covered(machine=name, cells=dict(cells)) for name, cells in self._met.items())

    def _count(self) -> None:
        """Count what the test has met that is over."""
        for each in self._last.judgements if self._last else ():
            self._met.setdefault(each.machine.name, Counter()).update(each.covered.cells)
        self._last = None
