"""``fsm draw``: draw models as pictures or tables."""

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping
from functools import partial
from itertools import zip_longest
from pathlib import Path
from typing import Final

import click

from fsm.cli import options
from fsm.cli.options import refuse
from fsm.cli.output import put, remove_on_failure
from fsm.command_options import profile_option
from fsm.diagrams.draw.ascii import ascii_drawing
from fsm.diagrams.draw.dot import HOW_TO_GET_DOT, DotFailedError, NoDotError, dot, png, svg
from fsm.diagrams.draw.markdown_table import markdown
from fsm.diagrams.draw.picture import Extra, Marks, Picture, picture
from fsm.diagrams.draw.regions import system_markdown, system_picture
from fsm.diagrams.draw.sequence import mermaid as mermaid_chart
from fsm.diagrams.draw.sequence_svg import svg as svg_chart
from fsm.diagrams.draw.text_pictures import mermaid, plantuml
from fsm.diagrams.recorded_chart import recorded_chart
from fsm.diagrams.recorded_steps import chosen_steps
from fsm.diagrams.track import read_marks
from fsm.errors import WRONG_INPUT, InputError, is_file, nearest, refused
from fsm.language.library import load_any, names
from fsm.machine import Machine
from fsm.machine.product.system import System
from fsm.monitor.judgement import Judged, judge
from fsm.report.lanes import marks as chart_marks

SUFFIXES: Final[Mapping[str, str]] = {
    "svg": "svg",
    "png": "png",
    "dot": "dot",
    "mermaid": "mmd",
    "plantuml": "puml",
    "markdown": "md",
    "ascii": "txt",
}


def formats(forms: tuple[str, ...], output: Path | None, known: Iterable[str], *, pictures: int) -> tuple[str, ...]:
    """Return *forms*, or the default formats for *output* if *forms* is empty.

    The default is SVG for standard output, all *known* formats for a folder, and the format of the suffix for a file.
    """
    several = pictures > 1 or len(forms) > 1
    if output is None:
        refuse(several, "several pictures cannot be written to standard output; use --output FOLDER")
        return forms or ("svg",)
    if _is_folder(output):
        return forms or tuple(known)
    if several:
        raise click.UsageError(f"'{output}' is one file, but there are several pictures; use --output {output.stem}/")
    by_suffix = {f".{SUFFIXES[form]}": form for form in known}
    if not forms and output.suffix not in by_suffix:
        hint = nearest(output.suffix, by_suffix, of="suffixes")
        raise click.UsageError(f"the suffix of '{output}' is not that of a format; {hint}; or use --format")
    return forms or (by_suffix[output.suffix],)


def picture_file(output: Path | None, name: str, suffix: str) -> Path | None:
    """Return the path of a picture: *output*, or a file called *name* in it if *output* is a folder.

    ``None`` means standard output.
    """
    return output / f"{name}.{suffix}" if output is not None and _is_folder(output) else output


def _is_folder(output: Path) -> bool:
    return output.is_dir() or not output.suffix


CHART_FORMS: Final = ("svg", "mermaid")


def _check_chart(recordings: Iterable[str], forms: tuple[str, ...], first: int | None, last: int | None) -> None:
    if wrong := [form for form in forms if form not in CHART_FORMS]:
        raise click.UsageError(f"a sequence chart can be written as svg or mermaid, but not as {wrong[0]}")
    refuse(first and last and last < first, f"the line {last} of --to is before the line {first} of --from")
    for file in recordings:
        if file == "-" or (Path(file).exists() and not is_file(file) and not Path(file).is_dir()):
            what = "the recording can be read only once, but must be read twice"
            raise refused(file, "FSM204", what, "save the recording in a file first")


def _judge_together(recordings: list[str], models: tuple[str, ...], profile: str | None) -> list[Judged] | None:
    """Judge the first recording together with the second, and then the second alone.

    Return ``None`` if neither names a machine. Raise :class:`InputError` if none of their machines has *profile*.
    """
    found, problems = [], []
    for file, other in zip_longest(recordings, recordings[1:], fillvalue=""):
        try:
            found.append(judge(file, calls=other, models=models, profile=profile, every=True))
        except InputError as error:
            problems.append(error)
    harmless = "FSM203" if found else "FSM202"
    for problem in problems:
        if {one.code for one in problem.problems} != {harmless}:
            raise problem
    return found or None


PARTS: Final[Mapping[Extra, str]] = {
    "outcomes": "every outcome, including errors and short cuts if another outcome leads to the same state",
    "stays": "outcomes that stay in the same state",
    "ignores": "events that a state ignores",
    "refuses": "events that a state answers with an error",
    "silent": "events that are not specified in a state",
    "interrupts": "events that interrupt every state, such as a restart",
    "profiles": "states that only a profile reaches",
}

_APART: Final = (
    "--with, --from and --to need --sequence, which cannot be combined with --event, --show, --highlight or --coverage"
)

_REGIONS: Final = (
    "a system is drawn as regions of its parts; leave out --highlight and --coverage, and the format ascii"
)

_WRITERS: Final[Mapping[str, Callable[[Picture], str | bytes]]] = {
    "svg": svg,
    "png": png,
    "dot": dot,
    "mermaid": mermaid,
    "plantuml": plantuml,
}


@click.command("draw")
@click.argument("models", metavar="[MODEL|FILE]...", nargs=-1, shell_complete=options.complete_models_and_systems)
@click.option(
    "--format",
    "-f",
    "forms",
    multiple=True,
    type=click.Choice(list(SUFFIXES)),
    help="Output format; may be repeated. Default: that of the suffix of --output, all formats for a folder, else svg.",
)
@click.option(
    "--output",
    "-o",
    type=click.Path(allow_dash=True, path_type=Path),
    callback=options.standard_output_if_dash,
    help="Write to this file, or to NAME.svg and so on in this folder. Default: standard output.",
)
@profile_option("Apply this profile to the models.")
@options.name_option(
    "event", "e", "Draw only this event; may be repeated.", options.complete_events, to="events", several=True
)
@click.option(
    "--show",
    "-s",
    multiple=True,
    type=click.Choice([*PARTS, "all"]),
    help="Also draw " + ", ".join(f"{part} ({about})" for part, about in PARTS.items()) + "; may be repeated.",
)
@click.option(
    "--highlight",
    metavar="TRACE",
    type=click.Path(),
    help="Mark the path that a recording took, or the first counterexample in the output of 'fsm check --format json'.",
)
@options.text_option(
    "--entity",
    metavar="NAME",
    help="With --highlight: the entity whose path to mark; default: the first. With --sequence: the beginning of the "
    "id of the entity whose calls to draw, with those of the entities in it; default: all entities.",
)
@click.option(
    "--coverage",
    multiple=True,
    metavar="TRACE",
    type=click.Path(),
    help="Shade each (event, state) pair by how often recordings exercise it; may be repeated.",
)
@click.option(
    "--sequence",
    metavar="RECORDING",
    type=click.Path(readable=False),
    help="Draw a recording instead, as a sequence chart of calls, replies and events, with verdicts.",
)
@options.recording_option(
    "With --sequence: another recording of the same run, such as the calls that belong to events."
)
@click.option(
    "--from", "first", metavar="LINE", type=click.IntRange(1), help="With --sequence: first line of RECORDING to draw."
)
@click.option(
    "--to", "last", metavar="LINE", type=click.IntRange(1), help="With --sequence: last line of RECORDING to draw."
)
def command(
    models: tuple[str, ...],
    forms: tuple[str, ...],
    output: Path | None,
    profile: str | None,
    events: tuple[str, ...],
    show: tuple[str, ...],
    highlight: str | None,
    entity: str,
    coverage: tuple[str, ...],
    sequence: str | None,
    calls: str,
    first: int | None,
    last: int | None,
) -> int:
    """Draw models or a recording, or write models as tables.

    MODEL is a name from 'fsm list' or the path of a model file. With --output and no MODEL, all shipped models are
    drawn. A system is drawn with a region for each part. A picture shows the events that change the state; all other
    events are listed below the picture, or drawn with --show. A table (markdown) shows every event in every state.

    \b
    dashed state     a call is in progress; other calls may come meanwhile
    two states       in one box if they do not differ in anything drawn
    slanted event    happens by itself; all others are called
    event ✗ REPLY    the reply is an error; dashed if only errors lead there
    event / output   the output is emitted; ↗ is an output with the event's name
    violet           deviation of the --profile

    \b
    fsm draw models/door.toml > door.svg
    fsm draw models/door.toml --event push --show all -o push.svg
    fsm draw models/door.toml --format mermaid
    fsm draw models/door.toml --highlight failing.jsonl -o failure.png
    fsm draw models/door.toml --format ascii
    fsm draw models/door.toml --coverage doors.jsonl -o covered.svg
    fsm draw --output pictures/
    fsm draw --sequence doors.jsonl --entity 3f1b -o calls.svg
    """
    if sequence is not None or calls or first or last:
        if sequence is None or events or show or highlight or coverage:
            raise click.UsageError(_APART)
        recordings = [*filter(None, (sequence, calls))]
        _check_chart(recordings, forms, first, last)
        forms = formats(forms, output, CHART_FORMS, pictures=1)
        steps = chosen_steps(sequence, calls, entity=entity, first=first, last=last)
        judged = _judge_together(recordings, models, profile)
        chart = recorded_chart(steps, None if judged is None else chart_marks(judged))
        stem = Path(sequence).name.removesuffix(".gz").rpartition(".")[0] or "sequence"
        writers: dict[str, Callable[[], str | bytes]]
        writers = {"svg": partial(svg_chart, chart), "mermaid": partial(mermaid_chart, chart)}
        with remove_on_failure() as begin:
            for form in forms:
                put(writers[form](), picture_file(output, stem, SUFFIXES[form]), begin)
        return 0
    machines = [load_any(name) for name in models or (names() if output else ())]
    refuse(not machines, "name a model to draw, or use --output FOLDER to draw all models")
    regions = any(isinstance(each, System) for each in machines)
    known = [form for form in SUFFIXES if not (regions and form == "ascii")]
    refuse(regions and ("ascii" in forms or highlight or coverage), _REGIONS)
    forms = formats(forms, output, known, pictures=len(machines))
    lifecycle = "an ASCII drawing shows only the lifecycle; leave out --show, --event, --highlight and --coverage"
    refuse("ascii" in forms and (show or events or highlight or coverage), lifecycle)
    parts: Collection[Extra] = tuple(part for part in PARTS if part in show or "all" in show)
    without: dict[str, None] = {}
    with remove_on_failure() as begin:
        for machine in machines:
            drawn = options.under(machine, profile)
            named = _events(drawn, events)
            pictures: dict[str, Callable[[], str | bytes]]
            if isinstance(drawn, System):
                drawing = system_picture(drawn, show=parts, chosen=named)
                pictures = {"markdown": partial(system_markdown, drawn, chosen=named)}
            else:
                marks = _marks(drawn, highlight, entity, coverage, profile)
                drawing = picture(drawn, show=parts, events=named, marks=marks)
                table = partial(markdown, drawn, events=named, marks=marks)
                pictures = {"ascii": partial(ascii_drawing, drawn), "markdown": table}
            pictures |= {form: partial(writer, drawing) for form, writer in _WRITERS.items()}
            for form in forms:
                try:
                    made = pictures[form]()
                except DotFailedError as error:
                    raise click.ClickException(str(error)) from error
                except NoDotError:
                    without[form] = None
                else:
                    put(made, picture_file(output, machine.name, SUFFIXES[form]), begin)
    return _report_missing_dot(without, forms) if without else 0


def _report_missing_dot(without: Collection[str], forms: Collection[str]) -> int:
    lacking = " and ".join(without)
    what = f"Graphviz's program 'dot' is not installed, so {lacking} cannot be written: {HOW_TO_GET_DOT}"
    written = ", ".join(form for form in forms if form not in without)
    others = "the formats ascii, dot, mermaid, plantuml and markdown do not need 'dot'"
    click.echo(f"{what}; {f'written: {written}' if written else others}", err=True)
    return WRONG_INPUT


def _events(model: Machine | System, events: tuple[str, ...]) -> set[str] | None:
    if isinstance(model, System):
        joint = model.events.values()
        known = {word: each.family for each in joint for word in (each.rpc, each.family) if word}
    else:
        known = {word: event.name for word, event in model.words().items()}
    if wrong := next((name for name in events if name not in known), ""):
        raise options.unknown(wrong, dict.fromkeys(known.values()), of="events", hint="--event")
    return {known[name] for name in events} or None


def _marks(
    machine: Machine, highlight: str | None, entity: str, coverage: tuple[str, ...], profile: str | None
) -> Marks | None:
    refuse(
        highlight is not None and coverage,
        "--highlight and --coverage make different pictures; leave out one of the two options",
    )
    if highlight is not None:
        return read_marks(machine, highlight, entity)
    if not coverage:
        return None
    counts: Counter[tuple[str, str]] = Counter()
    for trace in coverage:
        for judgement in judge(trace, models=(machine.path,), profile=profile).judgements:
            counts.update(judgement.covered.cells)
    if not any(counts.values()):
        what = f"the recordings have no event of {machine.name}"
        hint = f"give recordings of any {machine.entity}, or traces of {machine.name}"
        raise refused(", ".join(coverage), "FSM204", what, hint)
    return Marks(counts=counts)
