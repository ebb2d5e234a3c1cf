"""``fsm init``: create a model, its properties and a test to start with."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from pathlib import Path

import click

from fsm.cli.options import file_and_line
from fsm.cli.output import failed, whole_or_nothing
from fsm.diagrams import read
from fsm.errors import InputError, Problem
from fsm.interop.draft import machine_of
from fsm.interop.transitions_object import FoundMachine, draft_of, found
from fsm.machine import Machine
from fsm.mutation.starter import drawn_machine, starter
from fsm.report.words import plural

NAME = re.compile(r"[A-Za-z][A-Za-z0-9_-]*")


@click.command("init")
@click.argument("name")
@click.option(
    "--from-transitions",
    "code",
    metavar="FILE[:NAME]",
    help="Start from a Machine of transitions in this Python file, which is run. NAME selects one of several: an "
    "object, a class, or a call such as 'Door(\"oak\")'.",
)
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
def command(name: str, code: str | None, drawing: str | None, folder: Path) -> int:
    """Create a model, properties that hold for it, and a test that runs.

    Writes models/NAME.toml, properties/NAME.toml and tests/test_NAME.py, each with comments on what to change. By
    default, the model is of something that starts, works and stops. If one of the files exists already, nothing is
    written.

    \b
    fsm init door
    fsm init lamp --from-transitions src/lamp.py
    fsm init order --from-drawing docs/order.md:40
    """
    if not NAME.fullmatch(name):
        raise click.BadParameter(
            f"'{name}' is not a name: use letters, digits, - and _, beginning with a letter", param_hint="NAME"
        )
    if code and drawing:
        raise click.UsageError("leave out --from-transitions or --from-drawing: a machine has one source")
    driven: FoundMachine | None = None
    source: Machine | None = None
    if code:
        path, _, expression = code.partition(".py:")
        path = f"{path}.py" if expression else code
        driven = found(Path(path), expression)
        source = machine_of(draft_of(driven.machine, name, path), file=Path(path).name, outcomes=False)
    elif drawing:
        source = drawn_machine(_drawing(drawing), name)
    made = starter(name, source, driven=driven, folder=folder)
    _write(folder, made.files)
    for path in made.files:
        click.echo(folder / path)
    sizes = plural(len(made.machine.states), "state"), plural(len(made.machine.events), "event")
    model = folder / next(iter(made.files))
    click.echo(f"\n{' and '.join(sizes)}. Next:\n  fsm check {model}\n  python -m pytest {folder / 'tests'}")
    return 0


def _drawing(name: str) -> read.Drawing:
    path, line = file_and_line(name)
    drawings = read.at(read.find(path), path, line)
    if len(drawings) > 1:
        places = ", ".join(drawing.place for drawing in drawings)
        raise click.BadParameter(
            f"{path} has {len(drawings)} drawings: name one of {places}", param_hint="--from-drawing"
        )
    return drawings[0]


def _write(folder: Path, files: Mapping[str, str]) -> None:
    if existing := [folder / path for path in files if os.path.lexists(folder / path)]:
        hint = "choose another name or folder, or remove it; nothing was written"
        raise InputError(
            Problem(path=str(path), line=0, code="FSM520", what="exists already", hint=hint) for path in existing
        )
    target = folder
    try:
        with whole_or_nothing() as begin:
            for path, text in files.items():
                target = folder / path
                begin(target)
                with target.open("x", encoding="utf-8") as file:
                    file.write(text)
    except OSError as error:
        raise failed(target, error) from error
