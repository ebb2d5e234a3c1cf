"""``fsm judge``: judge recordings."""

from __future__ import annotations

import importlib
from contextlib import nullcontext
from functools import partial
from typing import TYPE_CHECKING, Any, Final

import click

from fsm.cli.options import (
    CASE_FORMATS,
    at_least_option,
    case_report,
    engine,
    layout,
    line,
    listening,
    model_option,
    moment,
    output_option,
    profile_option,
    progress,
    property_option,
    restart_options,
    sizes,
    text_option,
)
from fsm.cli.output import put, same
from fsm.cli.pages import drawing, read_again
from fsm.command_options import fail_on_option
from fsm.errors import InputError, is_file
from fsm.monitor.judgement import judge
from fsm.monitor.judgement.coverage import merged
from fsm.monitor.judgement.part import Part
from fsm.monitor.judgement.stories import Telling, up_to, with_stories
from fsm.recordings import is_table, matching
from fsm.recordings.form import foreign_forms, own_forms
from fsm.recordings.restarts import Restarts
from fsm.recordings.rotated import Rotated
from fsm.report import ExitCode, Report
from fsm.report.cases import cases
from fsm.report.text import text
from fsm.report.words import plural

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from pathlib import Path

    from fsm.errors import Problem
    from fsm.machine import Level
    from fsm.monitor.judgement import Judged
    from fsm.recordings.restarts import Assume
    from fsm.trace import Line

FORMATS: Final[Mapping[str, str]] = {
    "json": "fsm.report.json_report",
    "summary": "fsm.fleet.summary",
    "html": "fsm.report.page.document",
}
"""Maps each format of this command only to its module, which is loaded on demand."""


def rows(*, foreign: bool) -> dict[str, str]:
    """Return what a TRACE may be, with a line about each. Forms of other packages are included on demand."""
    forms = [*own_forms(), *(foreign_forms() if foreign else ())]
    table = "observations in Parquet or Arrow, a folder of them, or s3://..."
    return {each.title: each.about for each in forms if each.about} | {"table": table}


@click.command("judge", epilog="Exit codes: 0 every recording holds, 1 a recording fails, 2 wrong input, 3 unknown.")
@click.argument("traces", metavar="TRACE...", nargs=-1, required=True, type=click.Path(readable=False))
@click.option(
    "--with",
    "-w",
    "calls",
    metavar="FILE",
    type=click.Path(readable=False),
    help="Judge TRACE together with FILE, another recording of the same run; see above.",
)
@text_option("--form", "recorded", metavar="NAME", help="Form of the recording, such as trace. Default: recognised.")
@model_option("Judge against this model; may be repeated. Default: the models for this kind of recording.")
@profile_option(
    "Tolerate and report the declared deviations of a real version, such as acme-1.6 or acme-1.6.20; "
    "auto selects the version that the recording shows."
)
@fail_on_option
@click.option(
    "--format",
    "form",
    type=click.Choice(["text", "json", *CASE_FORMATS, "summary", "html"]),
    default="text",
    help="Format of the report.",
)
@click.option(
    "--fresh",
    is_flag=True,
    help="Assume that nothing existed before the recording began. By default it may begin at any point of a lifecycle.",
)
@restart_options
@click.option(
    "--lenient",
    is_flag=True,
    help="If lines of a trace cannot be read, count them and report unknown. By default they are an error.",
)
@click.option("--properties", is_flag=True, help="Also check every property of the models.")
@property_option("Also check this property; may be repeated.")
@click.option(
    "--all",
    "every",
    is_flag=True,
    help="Report every violation. By default only the first three of each cause are reported, or only the first in the "
    "github format.",
)
@click.option(
    "--follow",
    is_flag=True,
    help="Judge TRACE while it is being written, until a signal or the end of the pipe; see docs/how-to/following.md.",
)
@click.option(
    "--settle",
    type=click.FloatRange(0, 600),
    metavar="SECONDS",
    default=30,
    help="With --follow: judge each recorded call this long after it began. This must exceed the duration of the "
    "longest call.",
)
@click.option(
    "--metrics",
    callback=listening,
    metavar="[ADDRESS:]PORT",
    help="With --follow: serve metrics for Prometheus over HTTP at this port. ADDRESS defaults to 127.0.0.1, for this "
    "machine only.",
)
@click.option(
    "--rotated",
    is_flag=True,
    help="Treat all TRACEs as one rotated recording, such as doors.jsonl*, in the order of their times. They may be "
    "compressed.",
)
@click.option(
    "--since",
    callback=moment,
    metavar="TIME",
    help="Report nothing before this time, such as 2026-11-23T14:05:00Z, or 10m for ten minutes ago. Earlier lines are "
    "still read, to know the states at that time.",
)
@click.option("--until", callback=moment, metavar="TIME", help="Judge nothing after this time.")
@click.option(
    "--entity",
    metavar="ID|NAME",
    help="Judge one entity and print its whole history. Give the beginning of its id, or its name in the recording.",
)
@click.option(
    "--why",
    callback=line,
    metavar="[FILE:]LINE",
    help="With --entity: explain the belief about it up to this line, observation by observation: the possible states, "
    "what permitted them, and what was ruled out.",
)
@at_least_option
@click.option(
    "--coverage", is_flag=True, help="List every (event, state) pair with the number of times it was exercised."
)
@click.option(
    "--engine",
    "master",
    callback=engine,
    metavar="spark[://HOST:PORT]",
    help="Judge each TRACE in a Spark task, on the cluster at HOST:PORT or on this machine; see docs/how-to/fleet.md.",
)
@output_option
@click.pass_context
def command(
    ctx: click.Context,
    traces: tuple[str, ...],
    calls: str | None,
    recorded: str,
    models: tuple[str, ...],
    profile: str | None,
    fail_on: Level,
    form: str,
    only: tuple[str, ...],
    *,
    fresh: bool,
    restarts: Assume,
    shortest_restart: int,
    lenient: bool,
    properties: bool,
    every: bool,
    follow: bool,
    settle: float,
    metrics: tuple[str, int] | None,
    rotated: bool,
    since: int | None,
    until: int | None,
    entity: str | None,
    why: Line | None,
    coverage: bool,
    at_least: float,
    master: str,
    output: Path | None,
) -> int:
    """Judge recordings against the specification.

    Prints the violations, each with the clause that it breaks. TRACE is one of:

    {rows}

    Text may be plain or compressed with gzip or zstd; - is standard input. Each TRACE is judged separately, except with
    --rotated.

    \b
    fsm judge doors.jsonl
    fsm judge --format sarif -o report.sarif doors.jsonl
    fsm judge --format html -o report.html doors.jsonl
    fsm judge --properties --profile acme-1.6 doors.jsonl
    fsm judge --rotated doors.jsonl*
    fsm judge --entity 30b8b5f516d7 --since 2h doors.jsonl
    fsm judge --entity 30b8b5f516d7 --why 1207 doors.jsonl
    fsm judge --follow doors.jsonl
    """
    part = Part(since=since, until=until, entity=entity or "")
    _check(part, ctx.params, metrics=metrics is not None and not follow, properties=bool(properties or only))
    if master:
        from fsm.cli.judge_fleet import on_cluster  # noqa: PLC0415  (slow to import, and rarely needed)

        return on_cluster(ctx.params, master)
    if follow:
        return _followed(ctx, part, settle=round(settle * 1e9))
    judged: dict[str, Judged] = {}
    problems: dict[str, tuple[Problem, ...]] = {}
    traces = tuple(dict.fromkeys(each for name in traces for each in matching(name)))
    source = Rotated(names=traces) if rotated else None
    size = sizes((*traces, calls) if calls else traces)
    traces = (", ".join(traces),) if rotated else traces
    twice = form == "html"
    with read_again(traces * twice) as again, progress("judging", size * (1 + twice)) as bar:
        how = partial(
            judge,
            calls=calls or "",
            form=recorded,
            models=tuple(dict.fromkeys(models)),
            profile=profile,
            fresh=fresh,
            restarts=restarts,
            shortest_restart=shortest_restart / 1000,
            every=every,
            part=part,
            lenient=lenient,
            source=source,
            advanced=bar.update,
        )
        for trace in traces:
            try:
                judged[trace] = how(trace, properties=tuple(dict.fromkeys(only)) if properties or only else None)
            except InputError as error:
                problems[trace] = error.problems
        for trace in traces:
            # The property is not one of this recording's machines but of another's, so judge this one without it.
            if judged and trace != "-" and {each.code for each in problems.get(trace, ())} == {"FSM211"}:
                del problems[trace]
                again()
                judged[trace] = how(trace)
        judged = _told(form, judged, how, again, why)
    mistakes = dict.fromkeys(each for those in problems.values() for each in those)
    if mistakes and not judged and form == "text":
        raise InputError(mistakes)
    found = tuple(judged[each] for each in traces if each in judged)
    report = Report(judged=found, fail_on=fail_on, problems=tuple(mistakes), every=every)
    if form == "text" and output is None:
        click.echo(text(report, layout(), coverage=coverage), nl=False, color=ctx.color)
    else:
        # Use UTF-8 regardless of the terminal's encoding, as in files.
        put(_written(report, form, coverage=coverage).encode("utf-8", "replace"), output)
    if mistakes:
        click.echo(str(InputError(mistakes)), err=True)
    return _code(report, at_least)


def _code(report: Report, at_least: float) -> int:
    """Return the exit code. Machines that are not covered at all count for *at_least* only if none is covered."""
    covers = merged(report.judged) if at_least else ()
    below = [each for each in [one for one in covers if one.covered] or covers if each.share < at_least]
    for each in below:
        met = f"exercised {len(each.covered):,} of {plural(len(each.cells), '(event, state) pair')}"
        click.echo(f"fails: {each.machine.name} {met}, less than the {at_least:g} % of --at-least", err=True)
    return ExitCode.FAILS.value if below and not report.problems else report.code()


def _told(
    form: str, judged: dict[str, Judged], how: Callable[..., Judged], again: Callable[[], None], why: Line | None
) -> dict[str, Judged]:
    """Return *judged* with what is to be told of entities. For a page, judge each recording a second time."""
    if why is not None:
        judged = dict(zip(judged, up_to([*judged.values()], why), strict=True))
    if form != "html":
        return judged

    def told(telling: Telling, trace: str) -> Judged:
        again()
        return how(trace, telling=telling)

    return {trace: with_stories(each, partial(told, trace=trace)) for trace, each in judged.items()}


def _written(report: Report, form: str, *, coverage: bool) -> str:
    if form == "text":
        return text(report, layout(coloured=False), coverage=coverage)
    if form in CASE_FORMATS:
        return case_report(form, cases(report))
    writer: Callable[[Report], str] = getattr(importlib.import_module(FORMATS[form]), form)
    with drawing() if form == "html" else nullcontext():
        return writer(report)


def _check(part: Part, given: Mapping[str, Any], *, metrics: bool, properties: bool) -> None:
    """Raise an error if options contradict each other. *metrics* is true for --metrics without --follow."""
    if part.since is not None and part.until is not None and part.until < part.since:
        raise click.BadParameter("it is before --since", param_hint="--until")
    if metrics:
        raise click.BadParameter("metrics are of what is followed: add --follow", param_hint="--metrics")
    if part and properties:
        what = "a property is judged by the whole of a recording: leave out --since, --until and --entity"
        raise click.BadParameter(what, param_hint="--properties")
    if given["why"] and (not part.entity or given["follow"] or given["form"] not in {"text", "json", "html"}):
        what = "it explains one entity of a whole recording, as text, json or html: add --entity ID"
        raise click.BadParameter(what, param_hint="--why")
    if any(is_file(each) and same(each, given["output"]) for each in given["traces"]):
        raise click.BadParameter("it is a TRACE, which the report would replace", param_hint="--output")
    if given["at_least"] and (given["follow"] or given["master"]):
        raise click.BadParameter(
            "leave out --follow and --engine: coverage is of whole recordings", param_hint="--at-least"
        )
    if given["rotated"] and (given["follow"] or given["calls"]):
        raise click.BadParameter("what is rotated is judged by itself, and as a whole", param_hint="--rotated")


def _followed(ctx: click.Context, part: Part, *, settle: int) -> int:
    from fsm.cli.judge_follow import Printed, follow  # noqa: PLC0415  (slow to import, and rarely needed)

    given = ctx.params
    (name, *others) = dict.fromkeys(given["traces"])
    if others:
        raise click.BadParameter("one TRACE is followed; others need a command of their own", param_hint="--follow")
    if is_table(name):
        raise click.BadParameter("a table is complete: leave out --follow", param_hint="TRACE")
    if given["output"]:
        raise click.BadParameter("what is followed is printed as it comes: leave out --follow", param_hint="--output")
    for option in ("calls", "properties", "only"):
        if given[option]:
            flag = {"calls": "--with", "only": "--property"}.get(option, f"--{option}")
            raise click.BadParameter("cannot be judged before the end of the recording", param_hint=f"{flag} --follow")
    if given["form"] not in {"text", "json"}:
        raise click.BadParameter(f"{given['form']} is a report of a whole: text and json follow", param_hint="--format")
    printed = Printed(
        fail_on=given["fail_on"], json=given["form"] == "json", coverage=given["coverage"], color=ctx.color
    )
    return follow(
        name,
        printed,
        models=tuple(dict.fromkeys(given["models"])),
        profile=given["profile"],
        fresh=given["fresh"],
        restarts=Restarts(assume=given["restarts"], shortest=given["shortest_restart"] * 1_000_000),
        settle=settle,
        every=given["every"],
        part=part,
        metrics=given["metrics"],
    )
