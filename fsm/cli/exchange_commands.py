"""``fsm export``, ``fsm import`` and ``fsm init``: convert models and create new ones."""

import os
import re
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Final

import click

from fsm.cli import options
from fsm.cli.options import refuse
from fsm.cli.output import failed, put, remove_on_failure
from fsm.command_options import profile_option
from fsm.diagrams import read
from fsm.errors import InputError, Problem, contents
from fsm.interop.charts import python_statemachine, scxml
from fsm.interop.draft import machine_of
from fsm.interop.formats import FORMS, ToolFormat, dot, imported, model_file
from fsm.interop.promela import promela
from fsm.interop.promela.vocabulary import CannotExportError
from fsm.interop.python_files import Library, PythonMachine, python_machine
from fsm.interop.transitions import transitions
from fsm.interop.yaml_nodes import LARGEST
from fsm.language.library import load, specification
from fsm.machine import Machine
from fsm.machine.claims import Property
from fsm.mutation.starter import drawn_machine, starter
from fsm.report import machine_report
from fsm.report.words import plural

_WRITERS: Final[Mapping[str, Callable[[Machine], str]]] = {
    "dot": dot,
    "json": machine_report.json,
    "scxml": scxml,
    "transitions": transitions,
    "python-statemachine": python_statemachine,
}


@click.command("export")
@click.argument("name", metavar="MODEL|FILE", shell_complete=options.complete_models)
@click.option(
    "--to", "-t", "form", type=click.Choice(["promela", *_WRITERS]), required=True, help="Language to write; see above."
)
@profile_option("Apply this profile to the model.")
@options.name_option(
    "property", "P", "With --to promela: also export this property.", options.complete_properties, to="wanted"
)
@options.output_option
def export_command(name: str, form: str, profile: str | None, wanted: str | None, output: Path | None) -> int:
    """Write a model in the language of another tool.

    MODEL is a name from 'fsm list', FILE a model file; with --property, FILE may also be a property file. The text for
    SPIN begins with a comment on its purpose and the commands to run.

    \b
    promela              for the model checker SPIN, as a second opinion
    dot                  for Graphviz; every outcome is an edge
    json                 everything that the model states, as data
    scxml                a state chart of the W3C; each outcome is an event
    transitions          for this Python library; each outcome is an event
    python-statemachine  the same for this Python library

    \b
    fsm export models/door.toml --to promela -o door.pml
    fsm export models/door.toml --to promela --property gone-is-gone -o gone.pml
    fsm export models/door.toml --to scxml
    fsm export models/door.toml --to transitions -o door.json
    """
    stated: Property | None = None
    if wanted is None:
        machine = load(name)
    elif form != "promela":
        raise click.UsageError(f"--property has no meaning with --to {form}; leave out --property, or use --to promela")
    else:
        found = specification(name)
        named = {each.name: each for each in found.properties}
        options.require([wanted], named, of="properties", hint="--property")
        machine, stated = found.machine, named[wanted]
    machine = options.under(machine, profile)
    file = output.name if output else f"{machine.name}.pml"
    if lost := _lost(machine, form):
        click.echo(f"note: {form} has no {' and no '.join(lost)}; they are left out", err=True)
    try:
        put(promela(machine, stated, file=file) if form == "promela" else _WRITERS[form](machine), output)
    except CannotExportError as error:
        raise click.UsageError(str(error)) from error
    return 0


def _lost(machine: Machine, form: str) -> list[str]:
    """Return words for the parts of *machine* that the language *form* does not have."""
    if form in {"promela", "json"}:
        return []
    ways = [way for event in machine.events.values() for way in event.outcomes()]
    words = {
        "conditions on data": any(way.when for way in ways),
        "updates of data": any(way.updates for way in ways),
        "timers": machine.timers,
    }
    kept = () if form in {"transitions", "python-statemachine"} else ("conditions on data", "updates of data")
    return [word for word, has in words.items() if has and word not in kept]


_trust = options.flag("--trust", "Import the Python file, in a process of its own, instead of reading its syntax.")


def _from_python(file: str, library: Library | None, name: str = "", *, trust: bool) -> PythonMachine:
    path, _, made = file.partition(".py:")
    path = f"{path}.py" if made else file
    return python_machine(path, made, name, library, trust=trust)


@click.command("import")
@click.argument("file", metavar="FILE[:CLASS]", type=click.Path(path_type=Path, allow_dash=True))
@click.option(
    "--from", "-f", "form", type=click.Choice(FORMS), help="Format of FILE. Default: recognised from its text."
)
@options.flag("--outcomes", "Read EVENT.OUTCOME as an outcome of EVENT, as 'fsm export' writes it.")
@_trust
@options.output_option
def import_command(file: Path, form: ToolFormat | None, *, outcomes: bool, trust: bool, output: Path | None) -> int:
    """Convert a machine of another tool to a model.

    FILE is a configuration of the Python library transitions (the dictionary of its markup, as JSON or YAML), a
    definition of python-statemachine (JSON or YAML), a state chart in SCXML, or a Python file with a machine of one of
    these libraries, which is not run unless --trust is given; - is standard input. Everything that FILE leaves out is
    filled in according to the behaviour of that library, and the model says so. A state chart that 'fsm export' wrote
    keeps its steps and outputs, but has no replies, clauses or profiles.

    \b
    fsm import door.json -o models/door.toml
    fsm import src/door.py:Door -o models/door.toml
    fsm export models/door.toml --to transitions | fsm import - --outcomes
    """
    if ".py" in {file.suffix, file.suffix.partition(":")[0]} and form != "scxml":
        python = _from_python(str(file), form, trust=trust)
        put(model_file(python.draft, path=python.path), output)
        return 0
    refuse(trust, "--trust is only for Python files; other files are never run")
    data = contents(str(file), most=LARGEST, code="FSM501", hint="give the path of a file", dash=True)
    path = "stdin" if str(file) == "-" else str(file)
    put(imported(data, path=path, form=form, outcomes=outcomes), output)
    return 0


NAME = re.compile(r"[A-Za-z][A-Za-z0-9_-]*")


@click.command("init")
@click.argument("name")
@click.option(
    "--from-transitions",
    "code",
    metavar="FILE[:NAME]",
    help="Start from a Machine of the transitions library in this Python file. NAME selects one of several: an "
    "object, a class, or a call such as 'Door(\"oak\")'.",
)
@click.option(
    "--from-python-statemachine",
    "chart",
    metavar="FILE[:CLASS]",
    help="Start from a class of python-statemachine in this Python file. CLASS selects one of several.",
)
@_trust
@click.option(
    "--from-drawing",
    "drawing",
    metavar="FILE[:LINE]",
    help="Start from a drawing in this file: a state diagram of Mermaid or PlantUML, a DOT graph, or boxes and arrows. "
    "LINE is a line of the drawing, to select one of several.",
)
@click.option(
    "--output",
    "-o",
    "folder",
    type=click.Path(file_okay=False, path_type=Path),
    default=Path(),
    show_default="here",
    help="Folder to write to.",
)
def init_command(
    name: str, code: str | None, chart: str | None, drawing: str | None, folder: Path, *, trust: bool
) -> int:
    """Create a model, properties that hold for it, and a test that runs.

    Writes models/NAME.toml, properties/NAME.toml and tests/test_NAME.py, each with comments on what to change. By
    default, the model is of something that starts, works and stops. If one of the files exists already, nothing is
    written.

    \b
    fsm init door
    fsm init lamp --from-transitions src/lamp.py
    fsm init lamp --from-python-statemachine src/lamp.py:Lamp
    fsm init order --from-drawing docs/order.md:40
    """
    if not NAME.fullmatch(name):
        what = "cannot be the name of a model; use letters, digits, - and _, and begin with a letter"
        raise click.BadParameter(f"'{name}' {what}", param_hint="NAME")
    refuse(
        len(list(filter(None, (code, chart, drawing)))) > 1,
        "a model has only one source; keep only one of the options --from-...",
    )
    refuse(trust and not (code or chart), "--trust is only for Python files; other files are never run")
    driven: PythonMachine | None = None
    source: Machine | None = None
    if python := code or chart:
        driven = _from_python(python, "transitions" if code else "python-statemachine", name, trust=trust)
        source = machine_of(driven.draft, file=Path(driven.path).name, outcomes=False)
    elif drawing:
        path, line = options.file_and_line(drawing)
        drawings = read.at(read.find(path), path, line)
        if len(drawings) > 1:
            places = ", ".join(each.place for each in drawings)
            what = f"{path} has {len(drawings)} drawings; select one of them with one of {places}"
            raise click.BadParameter(what, param_hint="--from-drawing")
        source = drawn_machine(drawings[0], name)
    made = starter(name, source, driven=driven, folder=folder)
    _write(folder, made.files)
    for path in made.files:
        click.echo(folder / path)
    sizes = plural(len(made.machine.states), "state"), plural(len(made.machine.events), "event")
    model = folder / next(iter(made.files))
    click.echo(f"\n{' and '.join(sizes)}. Next:\n  fsm check {model}\n  python -m pytest {folder / 'tests'}")
    return 0


def _write(folder: Path, files: Mapping[str, str]) -> None:
    if existing := [str(folder / path) for path in files if os.path.lexists(folder / path)]:
        what = "the file exists already"
        hint = "choose another name or folder, or remove the file; nothing was written"
        raise InputError(Problem(path=path, line=0, code="FSM520", what=what, hint=hint) for path in existing)
    target = folder
    try:
        with remove_on_failure() as begin:
            for path, text in files.items():
                target = folder / path
                begin(target)
                with target.open("x", encoding="utf-8") as file:
                    file.write(text)
    except OSError as error:
        raise failed(target, error) from error
