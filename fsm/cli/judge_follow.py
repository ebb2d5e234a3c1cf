"""``fsm judge --follow``: one recording, judged while it is written."""

from __future__ import annotations

import signal
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

import click

from fsm.cli.options import layout
from fsm.errors import of_extra
from fsm.interruption import INTERRUPTION
from fsm.judgement import begin
from fsm.recordings import open_recording
from fsm.recordings.following import Followed
from fsm.report import Report, json_report
from fsm.report.text import text, told

if TYPE_CHECKING:
    from collections.abc import Iterator

    from fsm.judgement import Judging
    from fsm.judgement.part import Part
    from fsm.machine import Level
    from fsm.recordings.restarts import Restarts
    from fsm.report.metrics import Metrics
    from fsm.verdict import Violation

_BETWEEN: Final = 1_000
"""Batches after which it is looked for what need not be remembered."""


@dataclass(slots=True, kw_only=True)
class Printed:
    """Prints what is found, each cause in full when it is first met; a line of JSON each with ``json``."""

    fail_on: Level
    json: bool
    coverage: bool
    color: bool | None
    entities: dict[str, str] = field(default_factory=dict)
    _causes: set[tuple[object, ...]] = field(default_factory=set)

    def violation(self, violation: Violation) -> None:
        """A *violation* was found just now."""
        report = Report(judged=(), fail_on=self.fail_on)
        if self.json:
            self._print(json_report.told(report, violation))
            return
        cause = (violation.machine, violation.cause, violation.clause.name, violation.observation.event)
        entity = self.entities.get(violation.machine, "entity")
        self._print(told(violation, entity, report, layout(), known=cause in self._causes))
        self._causes.add(cause)

    def summary(self, judging: Judging, *, over: bool) -> int:
        """All that was found; gives the exit code."""
        report = Report(judged=(judging.judged(over=over),), fail_on=self.fail_on)
        self._print(json_report.summary(report) if self.json else text(report, layout(), coverage=self.coverage))
        return report.code()

    def _print(self, what: str) -> None:
        click.echo(what.encode("utf-8", "replace") if self.json else what, nl=False, color=self.color)


def follow(
    name: str,
    printed: Printed,
    *,
    models: tuple[str, ...],
    profile: str | None,
    fresh: bool,
    restarts: Restarts,
    settle: int,
    every: bool,
    metrics: tuple[str, int] | None = None,
    part: Part,
) -> int:
    """Judge the recording *name* until a signal or the end of the pipe, and give the exit code of the verdict.

    Lines are in order *settle* nanoseconds after the calls that they tell of began.
    """
    asked: set[str] = set()
    absent = False

    def missing() -> None:
        nonlocal absent
        if not absent:
            click.echo(f"{click.format_filename(name)}: no such file; waiting for it", err=True)
        absent = True

    with ExitStack() as stack:
        stack.enter_context(INTERRUPTION.ends(lambda: asked.add("end")))
        stack.callback(signal.signal, signal.SIGUSR1, signal.signal(signal.SIGUSR1, lambda *_: asked.add("summary")))
        if click.get_current_context().find_root().params.get("seconds") is None:
            INTERRUPTION.without_end()
        counted = stack.enter_context(_counted(*metrics, printed.fail_on)) if metrics else None
        source = Followed(name=name, over=lambda: "end" in asked, missing=missing)
        recording = open_recording(name, restarts=restarts, source=source, settle=settle)
        judging = begin(
            recording,
            models=models,
            profile=profile,
            fresh=fresh,
            restarts=restarts.assume,
            every=every,
            part=part,
        )
        printed.entities.update({each.machine.name: each.machine.entity for each in judging.monitors})
        if counted:
            counted.begin(judging)
        judging.tell(printed.violation, *([counted.violation] if counted else []))
        for number, batch in enumerate(recording.batches):
            judging.take(batch)
            if counted:
                counted.taken(judging, batch)
            absent = absent and not batch.observations
            if number % _BETWEEN == 0:
                judging.shed()
            if "summary" in asked:
                asked.discard("summary")
                printed.summary(judging, over=False)
        return printed.summary(judging, over=True)


@contextmanager
def _counted(address: str, port: int, fail_on: Level) -> Iterator[Metrics]:
    """Metrics that are served there, and of which a line says where."""
    module = of_extra("fsm.report.metrics", "--metrics")
    counted: Metrics = module.Metrics(Report(judged=(), fail_on=fail_on))
    with ExitStack() as stack:
        try:
            own = stack.enter_context(module.serving(counted, address, port))
        except OSError as error:
            what = f"{address}:{port} cannot be listened on: {(error.strerror or str(error)).lower()}"
            raise click.BadParameter(what, param_hint="--metrics") from error
        click.echo(f"metrics at http://{f'[{address}]' if ':' in address else address}:{own}/metrics", err=True)
        yield counted
