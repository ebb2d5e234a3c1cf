"""Modes of ``fsm judge``: follow a recording while it is being written, and judge recordings on a cluster."""

from __future__ import annotations

import signal
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any, Final

import click

from fsm.cli import options
from fsm.cli.options import refuse
from fsm.cli.output import put, put_text
from fsm.errors import WRONG_INPUT, of_extra, reason, visible
from fsm.interruption import INTERRUPTION
from fsm.machine import Level
from fsm.machine.findings import Violation
from fsm.monitor.judgement import Judging
from fsm.monitor.judgement.detection import AUTO, name_of, read_ahead
from fsm.monitor.judgement.part import Part
from fsm.recordings import is_table, matching, open_recording
from fsm.recordings.sources import Followed
from fsm.recordings.time_order import Restarts
from fsm.report import ExitCode, Report, json_report, worst
from fsm.report.text import text, violation_text
from fsm.trace import Batch

if TYPE_CHECKING:
    from fsm.report.metrics import Metrics

_BETWEEN: Final = 1_000  # number of batches between clean-ups of data that is no longer needed


@dataclass(slots=True, kw_only=True)
class _Following:
    """Prints violations as they are found. With the profile ``auto``, begins a new judgement at each new version."""

    begin: Callable[..., Judging]
    auto: bool
    fail_on: Level
    json: bool
    coverage: bool
    counted: Metrics | None
    judging: Judging = field(init=False)
    before: list[ExitCode] = field(default_factory=list)
    causes: set[tuple[object, ...]] = field(default_factory=set)

    def start(self, *, fresh: bool) -> None:
        self.judging = judging = self.begin(fresh=fresh)
        if judging.detected:
            click.echo(visible(judging.detected), err=True)
        if self.counted:
            self.counted.begin(judging)
        judging.tell(self.violation, *([self.counted.violation] if self.counted else []))

    def take(self, batch: Batch) -> None:
        if self.auto and name_of(self.judging.recording.version()) != name_of(self.judging.shown):
            self.before.append(self.summary(over=True))
            self.start(fresh=False)
        self.judging.take(batch)
        if self.counted:
            self.counted.taken(self.judging, batch)

    def violation(self, violation: Violation) -> None:
        report = Report(judged=(), fail_on=self.fail_on)
        if self.json:
            click.echo(json_report.violation_line(report, violation).encode("utf-8", "replace"), nl=False)
            return
        cause = (violation.machine, violation.cause, violation.clause.name, violation.observation.event)
        machines = (monitor.machine for monitor in self.judging.monitors)
        entity = next(machine.entity for machine in machines if machine.name == violation.machine)
        known = cause in self.causes
        click.echo(violation_text(violation, entity, report, options.layout(), known=known), nl=False)
        self.causes.add(cause)

    def summary(self, *, over: bool) -> ExitCode:
        report = Report(judged=(self.judging.judged(over=over),), fail_on=self.fail_on)
        if self.json:
            click.echo(json_report.json(report, indent=None).encode("utf-8", "replace"), nl=False)
        else:
            click.echo(text(report, options.layout(), coverage=self.coverage), nl=False)
        return report.total()


def follow(given: Mapping[str, Any], part: Part) -> int:
    """Judge a recording until a signal arrives or the pipe ends, and return the exit code.

    *given* contains the parameters of ``fsm judge``. Each recorded call is judged ``settle`` seconds after it began,
    so that earlier calls have time to be recorded.
    """
    (name, *others) = dict.fromkeys(given["traces"])
    whole = next((parameter for parameter in ("calls", "properties", "only") if given[parameter]), "")
    refuse(others, "only one TRACE can be followed; use a separate command for each of the others", "--follow")
    refuse(is_table(name), "a table is complete, so it cannot be followed; leave out --follow", "TRACE")
    refuse(
        given["output"],
        "--follow prints violations to standard output as they occur; leave out --follow or --output",
        "--output",
    )
    refuse(
        whole,
        "these options need the whole recording, but --follow judges it before its end; leave out one of the two",
        f"{options.judge_option(whole)} --follow",
    )
    refuse(given["form"] not in {"text", "json"}, f"--follow prints text or json, not {given['form']}", "--format")
    profile, assume = given["profile"], given["restarts"]
    signalled: set[str] = set()
    absent = False

    def missing() -> None:
        nonlocal absent
        if not absent:
            click.echo(f"{click.format_filename(name)}: the file does not exist yet; waiting for it", err=True)
        absent = True

    with ExitStack() as stack:
        stack.enter_context(INTERRUPTION.ends(lambda: signalled.add("end")))
        before = signal.signal(signal.SIGUSR1, lambda *_: signalled.add("summary"))
        stack.callback(signal.signal, signal.SIGUSR1, before)
        if click.get_current_context().find_root().params.get("seconds") is None:
            INTERRUPTION.without_end()
        listening = given["metrics"]
        counted = stack.enter_context(_serve_metrics(listening, given["fail_on"])) if listening else None
        restarts = Restarts(assume=assume, shortest=given["shortest_restart"] * 1_000_000)
        source = Followed(name=name, over=lambda: "end" in signalled, missing=missing)
        settle = round(given["settle"] * 1e9)
        recording = open_recording(name, form=given["recorded"], restarts=restarts, source=source, settle=settle)
        if profile == AUTO:
            recording = read_ahead(recording, followed=True)
        models = tuple(dict.fromkeys(given["models"]))
        how = {"models": models, "profile": profile, "restarts": assume, "every": given["every"], "part": part}
        judge = partial(Judging, recording, **how)
        following = _Following(
            begin=judge,
            auto=profile == AUTO,
            fail_on=given["fail_on"],
            json=given["form"] == "json",
            coverage=given["coverage"],
            counted=counted,
        )
        following.start(fresh=given["fresh"])
        for number, batch in enumerate(recording.batches):
            following.take(batch)
            absent = absent and not batch.observations
            if number % _BETWEEN == 0:
                following.judging.shed()
            if "summary" in signalled:
                signalled.discard("summary")
                following.summary(over=False)
        code = worst([*following.before, following.summary(over=True)]).value
        INTERRUPTION.settle(code)  # Later signals do not change the code.
        return code


@contextmanager
def _serve_metrics(listening: tuple[str, int], fail_on: Level) -> Iterator[Metrics]:
    address, port = listening
    module = of_extra("fsm.report.metrics", "--metrics")
    counted: Metrics = module.Metrics(Report(judged=(), fail_on=fail_on))
    with ExitStack() as stack:
        try:
            own = stack.enter_context(module.serving(counted, address, port))
        except OSError as error:
            what = f"fsm cannot listen on {address}:{port}: {reason(error)}"
            raise click.BadParameter(what, param_hint="--metrics") from error
        click.echo(f"metrics at http://{f'[{address}]' if ':' in address else address}:{own}/metrics", err=True)
        yield counted


# Options that do not work on a cluster, because they need a whole recording in one place or report more than a summary.
_WHOLE: Final = (
    *("calls", "recorded", "properties", "only", "every", "follow", "metrics", "rotated"),
    *("since", "until", "entity", "coverage"),
)


def judge_on_cluster(given: Mapping[str, Any], master: str) -> int:
    for parameter in _WHOLE:
        refuse(
            given[parameter],
            "this option cannot be combined with --engine; leave out one of the two",
            options.judge_option(parameter),
        )
    refuse(given["form"] not in {"text", "summary"}, "with --engine, the format must be text or summary", "--format")
    refuse("-" in given["traces"], "the workers of --engine cannot read standard input; give files", "TRACE")
    from fsm.fleet import text as summary_text  # noqa: PLC0415  (only this engine needs it)
    from fsm.fleet import written  # noqa: PLC0415  (see above)

    spark = of_extra("fsm.fleet.spark", "--engine spark", extra="spark")
    session = spark.session(master)
    try:
        found, problems = spark.judge_files(
            session,
            spark.named(file for trace in given["traces"] for file in matching(trace)),
            models=tuple(dict.fromkeys(given["models"])),
            profile=given["profile"],
            fresh=given["fresh"],
            restarts=given["restarts"],
            shortest_restart=given["shortest_restart"] / 1000,
        ).summary()
    finally:
        session.stop()
    output, least = given["output"], given["fail_on"]
    if given["form"] == "summary":
        put(written(found).encode(), output)
    else:
        put_text(lambda layout: summary_text(found, layout, least=least), output)
    for problem in problems:
        click.echo(problem, err=True)
    return WRONG_INPUT if problems else found.answer(least).value
