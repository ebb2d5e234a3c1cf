"""``fsm judge``: judge recordings."""

import importlib
from collections.abc import Callable, Mapping
from contextlib import nullcontext
from functools import partial
from pathlib import Path
from typing import Any, Final

import click

from fsm.cli import options
from fsm.cli.options import refuse
from fsm.cli.output import drawing, judge_with_stories, progress, put, read_again, same
from fsm.command_options import fail_on_option, profile_option
from fsm.errors import InputError, Problem, is_file
from fsm.machine import Level
from fsm.monitor.judgement import Judged, judge
from fsm.monitor.judgement.coverage import merged
from fsm.monitor.judgement.part import Part, shorten_to
from fsm.recordings import matching
from fsm.recordings.form import foreign_forms, own_forms
from fsm.recordings.line_reader import STDIN
from fsm.recordings.sources import Rotated
from fsm.recordings.time_order import Assume
from fsm.report import ExitCode, Report
from fsm.report.text import text
from fsm.report.words import exercised as exercised_of
from fsm.trace import Line

FORMATS: Final[Mapping[str, str]] = {
    "json": "fsm.report.json_report",
    "summary": "fsm.fleet",
    "html": "fsm.report.page",
}


def rows(*, foreign: bool) -> dict[str, str]:
    forms = [*own_forms(), *(foreign_forms() if foreign else ())]
    table = "observations in Parquet or Arrow, a folder of them, or s3://..."
    return {form.title: form.about for form in forms if form.about} | {"table": table}


@click.command("judge", epilog="Exit codes: 0 every recording holds, 1 a recording fails, 2 wrong input, 3 unknown.")
@click.argument("traces", metavar="TRACE...", nargs=-1, required=True, type=click.Path(readable=False))
@options.recording_option("Judge TRACE together with FILE, another recording of the same run; see above.")
@options.text_option(
    "--form", "recorded", metavar="NAME", help="Form of the recording: a name, or a form file. Default: detected."
)
@options.model_option("Judge against this model; may be repeated. Default: the models for this kind of recording.")
@profile_option(
    "Tolerate and report the declared deviations of a real version, such as acme-1.6 or acme-1.6.20; "
    "auto selects the version that the recording shows."
)
@fail_on_option
@options.choice_option(["text", "json", *options.CASE_FORMATS, "summary", "html"], "Format of the report.")
@options.flag(
    "--fresh",
    "Assume that nothing existed before the recording began. By default it may begin at any point of a lifecycle.",
)
@options.restart_options
@options.flag(
    "--lenient", "If lines of a trace cannot be read, count them and report unknown. By default they are an error."
)
@options.flag("--properties", "Also check every property of the models.")
@options.property_option("Also check this property; may be repeated.")
@options.flag(
    "--all",
    "Report every violation. By default only the first three of each cause are reported, or only the first in the "
    "github format.",
    to="every",
)
@options.flag(
    "--follow",
    "Judge TRACE while it is being written, until a signal or the end of the pipe; see docs/how-to/following.md.",
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
    callback=options.listening,
    metavar="[ADDRESS:]PORT",
    help="With --follow: serve metrics for Prometheus over HTTP at this port. ADDRESS defaults to 127.0.0.1, for this "
    "machine only.",
)
@options.rotated_option
@click.option(
    "--since",
    callback=options.moment,
    metavar="TIME",
    help="Report nothing before this time, such as 2026-11-23T14:05:00Z, or 10m for ten minutes ago. Earlier lines are "
    "still read, to know the states at that time.",
)
@click.option("--until", callback=options.moment, metavar="TIME", help="Judge nothing after this time.")
@options.text_option(
    "--entity",
    metavar="ID|NAME",
    help="Judge one entity and print its whole history. Give the beginning of its id, or its name in the recording.",
)
@click.option(
    "--why",
    callback=options.line,
    metavar="[FILE:]LINE",
    help="With --entity: explain, observation by observation up to this line, which states are possible, what "
    "permitted them, and what was ruled out.",
)
@options.at_least_option
@options.flag("--coverage", "List every (event, state) pair with the number of times it was exercised.")
@click.option(
    "--engine",
    "master",
    callback=options.engine,
    metavar="spark[://HOST:PORT]",
    help="Judge each TRACE in a Spark task, on the cluster at HOST:PORT or on this machine; see docs/how-to/fleet.md.",
)
@options.output_option
@click.pass_context
def command(
    ctx: click.Context,
    /,
    traces: tuple[str, ...],
    calls: str,
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
    rotated: bool,
    since: int | None,
    until: int | None,
    entity: str,
    why: Line | None,
    coverage: bool,
    at_least: float,
    master: str,
    output: Path | None,
    **_: object,
) -> int:
    """Judge recordings against the specification.

    fsm prints the violations, each with the clause that it breaks. TRACE is one of:

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
    part = Part(since=since, until=until, entity=entity)
    _check(part, ctx.params)
    if master or follow:
        from fsm.cli import judge_modes  # noqa: PLC0415  (slow to import, and rarely needed)

        if master:
            return judge_modes.judge_on_cluster(ctx.params, master)
        return judge_modes.follow(ctx.params, part)
    traces = tuple(dict.fromkeys(file for name in traces for file in matching(name)))
    source = Rotated(names=traces, form=recorded) if rotated else None
    size = options.sizes((*traces, calls))
    traces = (", ".join(traces),) if rotated else traces
    twice = form == "html"
    with read_again(traces * twice) as rewind, progress("judging", size * (1 + twice)) as bar:
        judge_trace = partial(
            judge,
            calls=calls,
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
            advanced=bar.advance,
        )
        judged, problems = _judge_all(traces, judge_trace, tuple(dict.fromkeys(only)) if properties or only else None)
        if why is not None:
            judged = dict(zip(judged, shorten_to([*judged.values()], why), strict=True))
        if twice:
            judged = {trace: judge_with_stories(judged[trace], rewind, partial(judge_trace, trace)) for trace in judged}
    if problems and not judged and form == "text":
        raise InputError(problems)
    found = tuple(judged[trace] for trace in traces if trace in judged)
    report = Report(judged=found, fail_on=fail_on, problems=problems, every=every)
    put(_format_report(report, form, coloured=output is None, coverage=coverage), output)
    if problems:
        click.echo(str(InputError(problems)), err=True)
    return _code(report, at_least)


def _judge_all(
    traces: tuple[str, ...], judge_trace: Callable[..., Judged], properties: tuple[str, ...] | None
) -> tuple[dict[str, Judged], tuple[Problem, ...]]:
    judged: dict[str, Judged] = {}
    problems: dict[str, tuple[Problem, ...]] = {}
    for trace in traces:
        try:
            judged[trace] = judge_trace(trace, properties=properties)
        except InputError as error:
            problems[trace] = error.problems
    for trace in [name for name in problems if judged and name != STDIN]:
        # The property belongs to a machine of another recording, so do not check it for this recording.
        if {problem.code for problem in problems[trace]} == {"FSM211"}:
            del problems[trace]
            judged[trace] = judge_trace(trace)
    return judged, tuple(dict.fromkeys(problem for found in problems.values() for problem in found))


def _code(report: Report, at_least: float) -> int:
    covers = merged(report.judged) if at_least else ()
    below = [cover for cover in [one for one in covers if one.covered] or covers if cover.share < at_least]
    for cover in below:
        exercised = exercised_of([sum(counts.values()) for counts in cover.cells.values()])
        less = f"which is less than the {at_least:g} % that --at-least requires"
        click.echo(f"fails: {cover.machine.name} {exercised}, {less}", err=True)
    return ExitCode.FAILS.value if below and not report.problems else report.code()


def _format_report(report: Report, form: str, *, coloured: bool, coverage: bool) -> str | bytes:
    if form == "text":
        return text(report, options.layout(coloured=coloured), coverage=coverage)
    if form in options.CASE_FORMATS:
        from fsm.report.cases import cases  # noqa: PLC0415  (only for these formats)

        return options.case_report(form, cases(report)).encode("utf-8", "replace")
    writer: Callable[[Report], str] = getattr(importlib.import_module(FORMATS[form]), form)
    with drawing() if form == "html" else nullcontext():
        return writer(report).encode("utf-8", "replace")


def _check(part: Part, given: Mapping[str, Any]) -> None:
    follow, master = given["follow"], given["master"]
    explained = part.entity and not follow and given["form"] in {"text", "json", "html"}
    reversed_ = part.since is not None and part.until is not None and part.until < part.since
    overwritten = any(is_file(trace) and same(trace, given["output"]) for trace in given["traces"])
    refuse(reversed_, "the time of --until is before the time of --since", "--until")
    refuse(
        given["metrics"] and not follow,
        "metrics are served only while a recording is followed; add --follow",
        "--metrics",
    )
    refuse(
        part and (given["properties"] or given["only"]),
        "properties can be checked only against the whole recording; leave out --since, --until and --entity",
        "--properties",
    )
    refuse(
        given["why"] and not explained,
        "--why explains one entity of a complete recording, as text, json or html; add --entity ID",
        "--why",
    )
    refuse(overwritten, "the report would overwrite a TRACE; name another file", "--output")
    refuse(
        given["at_least"] and (follow or master),
        "coverage can be measured only for whole recordings in one process; leave out --follow and --engine",
        "--at-least",
    )
    refuse(
        given["rotated"] and (follow or given["calls"]),
        "a rotated recording is judged as a whole and without other recordings; leave out --follow and --with",
        "--rotated",
    )
