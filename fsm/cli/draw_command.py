"""``fsm draw``: models as pictures and tables."""

from collections import Counter
from collections.abc import Callable, Collection, Mapping
from pathlib import Path
from typing import Final

import click

from fsm.cli import completion
from fsm.cli.options import name_option, profile_option, under, unknown
from fsm.cli.output import put
from fsm.diagrams.draw.ascii import ascii_drawing
from fsm.diagrams.draw.dot import dot
from fsm.diagrams.draw.image import HOW_TO_GET_DOT, DotFailedError, NoDotError, png, svg
from fsm.diagrams.draw.markdown import markdown
from fsm.diagrams.draw.mermaid import mermaid
from fsm.diagrams.draw.picture import Extra, Marks, Picture, picture
from fsm.diagrams.draw.plantuml import plantuml
from fsm.diagrams.track import highlighted
from fsm.errors import WRONG_INPUT, nearest, refused
from fsm.judgement import judge
from fsm.library import load, names
from fsm.machine import Machine

SUFFIXES: Final[Mapping[str, str]] = {
    "svg": "svg",
    "png": "png",
    "dot": "dot",
    "mermaid": "mmd",
    "plantuml": "puml",
    "markdown": "md",
    "ascii": "txt",
}
"""The formats, each with the suffix of its files."""

PARTS: Final[Mapping[Extra, str]] = {
    "outcomes": "every outcome, also errors and short cuts where another one leads the same way",
    "stays": "outcomes that lead nowhere else",
    "ignores": "what changes nothing",
    "refuses": "what is answered with an error",
    "silent": "what is not specified",
    "interrupts": "what interrupts everything, such as a restart",
}

_WRITERS: Final[Mapping[str, Callable[[Picture], str | bytes]]] = {
    "svg": svg,
    "png": png,
    "dot": dot,
    "mermaid": mermaid,
    "plantuml": plantuml,
}


@click.command("draw")
@click.argument("models", metavar="[MODEL|FILE]...", nargs=-1, shell_complete=completion.models)
@click.option(
    "--format",
    "-f",
    "forms",
    multiple=True,
    type=click.Choice(list(SUFFIXES)),
    help="The format; may be repeated. By default that of the output's suffix, all of them in a folder, "
    "and svg otherwise.",
)
@click.option(
    "--output",
    "-o",
    type=click.Path(path_type=Path),
    help="The file to write, or a folder for NAME.svg and the like. By default standard output.",
)
@profile_option("As this profile has it.")
@name_option("event", "e", "Only this event; may be repeated.", completion.events, to="events", several=True)
@click.option(
    "--show",
    "-s",
    multiple=True,
    type=click.Choice([*PARTS, "all"]),
    help="Draw this too: " + "; ".join(f"{part}: {about}" for part, about in PARTS.items()) + ".",
)
@click.option(
    "--highlight",
    metavar="TRACE",
    type=click.Path(),
    help="Mark the way that a recording took, or the first counterexample in what 'fsm check --format json' wrote.",
)
@click.option(
    "--entity",
    metavar="NAME",
    default="",
    show_default=False,
    help="With --highlight: whose way; by default the first one's.",
)
@click.option(
    "--coverage", multiple=True, metavar="TRACE", type=click.Path(), help="Shade by how often recordings met each cell."
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
) -> int:
    """Draw models, or write them as tables.

    MODEL is a name from 'fsm list' or the path of a model file; with --output and none given, all shipped models. A
    picture shows what moves a machine on; the rest is named below it, or drawn if --show asks for it. The table
    (markdown) has every cell.

    \b
    dashed state     a call is in progress, and others meet it there
    two states       in one box, if they differ in nothing that is drawn
    slanted event    it happens; all others are called
    event ✗ REPLY    the reply is an error; dashed where nothing else leads
    event / output   what is emitted; ↗ is an output of the event's name
    violet           deviations of the --profile

    \b
    fsm draw container-status > container-status.svg
    fsm draw container-status --event stop --show all -o stop.svg
    fsm draw cri-pod --format mermaid
    fsm draw container-status --highlight failing.log -o failure.png
    fsm draw container-status --format ascii
    fsm draw container-status --coverage containerd.log -o covered.svg
    fsm draw --output pictures/
    """
    machines = [load(name) for name in models or (names() if output else ())]
    forms = _forms(forms, output, machines)
    if "ascii" in forms and (show or events or highlight or coverage):
        raise click.UsageError("an ASCII drawing shows the lifecycle as 'fsm diff' expects it, and nothing else")
    parts: Collection[Extra] = tuple(part for part in PARTS if part in show or "all" in show)
    without: dict[str, None] = {}
    for machine in machines:
        drawn = under(machine, profile)
        named = _events(drawn, events)
        marks = _marks(drawn, highlight, entity, coverage, profile)
        drawing = picture(drawn, show=parts, events=named, marks=marks)
        for form in forms:
            try:
                if form == "ascii":
                    made: str | bytes = ascii_drawing(drawn)
                elif form == "markdown":
                    made = markdown(drawn, events=named, marks=marks)
                else:
                    made = _WRITERS[form](drawing)
            except DotFailedError as error:
                raise click.ClickException(str(error)) from error
            except NoDotError:
                without[form] = None
            else:
                put(made, _path(output, machine, form), folders=True)
    if without:
        what = f"Graphviz's program 'dot' is not there, so there is no {' and no '.join(without)}: {HOW_TO_GET_DOT}"
        others = [form for form in forms if form not in without]
        rest = f"written: {', '.join(others)}" if others else "dot, mermaid, plantuml and markdown can do without"
        click.echo(f"{what}; {rest}", err=True)
        return WRONG_INPUT
    return 0


def _forms(forms: tuple[str, ...], output: Path | None, machines: list[Machine]) -> tuple[str, ...]:
    if not machines:
        raise click.UsageError("say which model to draw, or --output FOLDER for all of them")
    if output is None:
        if len(machines) > 1 or len(forms) > 1:
            raise click.UsageError("several pictures need --output FOLDER")
        return forms or ("svg",)
    if _is_folder(output):
        return forms or tuple(SUFFIXES)
    if len(machines) > 1 or len(forms) > 1:
        raise click.UsageError(f"'{output}' is one file: for several use --output {output.stem}/")
    known = {f".{suffix}": form for form, suffix in SUFFIXES.items()}
    if not forms and output.suffix not in known:
        hint = nearest(output.suffix, known, of="suffixes")
        raise click.UsageError(f"'{output}' does not say in which format: {hint}; or use --format")
    return forms or (known[output.suffix],)


def _is_folder(output: Path) -> bool:
    return output.is_dir() or not output.suffix


def _path(output: Path | None, machine: Machine, form: str) -> Path | None:
    if output is None or not _is_folder(output):
        return output
    return output / f"{machine.name}.{SUFFIXES[form]}"


def _events(machine: Machine, events: tuple[str, ...]) -> set[str] | None:
    known = {name: event.name for event in machine.events.values() for name in (event.name, event.rpc) if name}
    for name in events:
        if name not in known:
            raise unknown(name, machine.events, of="events", hint="--event")
    return {known[name] for name in events} or None


def _marks(
    machine: Machine, highlight: str | None, entity: str, coverage: tuple[str, ...], profile: str | None
) -> Marks | None:
    if highlight is not None and coverage:
        raise click.UsageError("--highlight and --coverage are two pictures: ask for one at a time")
    if highlight is not None:
        return highlighted(machine, highlight, entity)
    if not coverage:
        return None
    counts: Counter[tuple[str, str]] = Counter()
    for trace in coverage:
        for judgement in judge(trace, models=(machine.path,), profile=profile).judgements:
            counts.update(judgement.covered.cells)
    if not any(counts.values()):
        what = f"shows nothing of what {machine.name} does"
        hint = f"give recordings of any {machine.entity}, or traces of that machine"
        raise refused(", ".join(coverage), "FSM204", what, hint)
    return Marks(counts=counts)
