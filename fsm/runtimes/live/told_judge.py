"""A pod, its container and a plugin, where one machine plans the test and another machine judges it.

After each step, the judge checks the recording of the events relayed to the plugin, as ``fsm judge`` does.
"""

from collections import Counter
from collections.abc import Callable

from fsm.machine.findings import Covered, Violation
from fsm.monitor.judgement import Judged
from fsm.runtimes.live.cri_client import CallAnswer
from fsm.runtimes.live.node_sut import RuntimeNodeSUT, illegal
from fsm.runtimes.live.runtime_session import RuntimeSession


class ToldNodeSUT(RuntimeNodeSUT):
    """A pod and its container.  *model*, under *profile*, judges the events relayed to the plugin."""

    def __init__(
        self,
        session: RuntimeSession,
        nri: str,
        restart: Callable[[], None] | None = None,
        damage: Callable[[str], None] | None = None,
        *,
        model: str,
        profile: str | None,
        seen: Callable[[CallAnswer], object] | None = None,
    ) -> None:
        self.model = model
        self._last: Judged | None = None
        self._met: dict[str, Counter[tuple[str, str]]] = {}
        super().__init__(session, nri, restart, damage, model=model, profile=profile, seen=seen)

    def reset(self) -> None:
        self._count()
        super().reset()

    def violation(self) -> Violation | None:
        """Return the first violation in the recording of this test so far, or ``None``."""
        self._last = self.judged() or self._last
        return next(illegal(self._last), None)

    def covered(self) -> tuple[Covered, ...]:
        self._count()
        return tuple(Covered(machine=name, cells=dict(cells)) for name, cells in self._met.items())

    def _count(self) -> None:
        for each in self._last.judgements if self._last else ():
            self._met.setdefault(each.machine.name, Counter()).update(each.covered.cells)
        self._last = None
