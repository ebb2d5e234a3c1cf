"""``fsm diff``: compare two lifecycles, which may be models or drawings."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Final, NamedTuple

import click

from fsm.checker.equivalence import compare as compare_behaviour
from fsm.cli import options
from fsm.cli.options import refuse
from fsm.cli.output import drawing, put, put_text
from fsm.diagrams.compare import Comparison, choose
from fsm.diagrams.draw.dot import image
from fsm.diagrams.read import Drawing, at, find
from fsm.errors import nearest, refused
from fsm.language.library import load, names, names_a_model
from fsm.machine import Machine
from fsm.machine.table import tabulate
from fsm.report import diff_report

FORMATS: Final[Mapping[str, str]] = {"text": "txt", "json": "json", "dot": "dot", "svg": "svg", "png": "png"}
_SUFFIXES: Final = {f".{suffix}": form for form, suffix in FORMATS.items()}


@click.command("diff", epilog="Exit codes: 0 no difference, 1 different, 2 wrong input.")
@click.argument("first", metavar="A", shell_complete=options.complete_models)
@click.argument("second", metavar="[B]", required=False, shell_complete=options.complete_models)
@options.profiles_option("Apply this profile to the models. If given twice, the first is for A and the second for B.")
@options.flag(
    "--behaviour", "Compare the observable behaviour of two models, and show a shortest trace that distinguishes them."
)
@options.flag(
    "--complete", "Report everything that a drawing lacks, even if the model does not state what drawings leave out."
)
@click.option(
    "--format",
    "-f",
    "form",
    type=click.Choice(list(FORMATS)),
    help="Output format. Default: that of the suffix of --output, else text.",
)
@options.output_option
def command(
    first: str,
    second: str | None,
    profiles: tuple[str, ...],
    form: str | None,
    output: Path | None,
    *,
    behaviour: bool,
    complete: bool,
) -> int:
    """Compare two lifecycles.

    A and B are models, by name or file, or drawings: boxes and arrows in any text or source file, a state diagram in
    Mermaid or PlantUML, or a DOT graph; - is standard input. If a file has several drawings, FILE:LINE selects one.
    Without B, compare A with itself under one or two profiles. A drawing may use the model's own names, the names on
    the wire, the values that states show, and the aliases that the model declares.

    \b
    fsm diff models/door.toml src/door.go
    fsm diff models/door.toml --profile acme-1.6 --profile acme-2.1
    fsm diff models/door.toml docs/states.md:40 -o difference.svg
    fsm diff --behaviour old.toml new.toml
    """
    form = form or _SUFFIXES.get(output.suffix if output else "", "text")
    sides = _sides(first, second, profiles)
    if behaviour:
        return _behaviour(sides, form, output)
    found, remarks = _comparison(sides, complete=complete)
    match form:
        case "json":
            put(diff_report.json(found, remarks), output)
        case "text":
            put_text(lambda layout: diff_report.text(found, layout, remarks), output)
        case "dot":
            put(diff_report.dot(found), output)
        case _:
            with drawing(form, "; or use --format dot"):
                put(image(diff_report.dot(found), form), output)
    return diff_report.answer(found).value


def _behaviour(sides: tuple[_Side, _Side], form: str, output: Path | None) -> int:
    (name, first), (other, second) = sides
    if not (isinstance(first, Machine) and isinstance(second, Machine)):
        raise click.UsageError("--behaviour compares two models, but one of the arguments is a drawing")
    if form not in {"text", "json"}:
        wrong = f"the result of --behaviour cannot be written as {form}; use --format text or --format json"
        raise click.UsageError(wrong)
    found = compare_behaviour(tabulate(first), tabulate(second))
    if form == "json":
        put(diff_report.behaviour_json(found, (name, other)), output)
    else:
        put_text(lambda layout: diff_report.behaviour_text(found, (name, other), layout), output)
    return diff_report.behaviour_answer(found).value


class _Side(NamedTuple):
    name: str
    of: Machine | tuple[Drawing, ...]


def _sides(first: str, second: str | None, profiles: tuple[str, ...]) -> tuple[_Side, _Side]:
    other = first if second is None else second
    no_model = "a profile can be applied only to a model, and neither argument is a model"
    refuse(second is None and not profiles, "name two things to compare, or one model and one or two profiles")
    refuse(len(profiles) > 2, "at most two profiles can be compared")  # noqa: PLR2004  (there are two sides)
    refuse(profiles and not (names_a_model(first) or names_a_model(other)), no_model, "--profile")
    if len(profiles) < 2:  # noqa: PLR2004  (one profile is for both models, or for B if that is A again)
        only = "".join(profiles)
        profiles = ("" if second is None else only, only)
    return _side(first, profiles[0]), _side(other, profiles[1])


def _side(name: str, profile: str) -> _Side:
    if names_a_model(name):
        machine = options.under(load(name), profile or None)
        return _Side(f"{machine.name} as {profile}" if profile else machine.name, machine)
    path, line = options.file_and_line(name)
    if path != "-" and not os.path.exists(path):  # noqa: PTH110  (pathlib may raise)
        hint = f"{nearest(name, names(), of='models')}; or give the path of a file with a drawing"
        raise refused(name, "FSM401", "this is neither the name of a model nor an existing file", hint)
    return _Side(name if line else path, at(find(path), path, line))


def _comparison(sides: tuple[_Side, _Side], *, complete: bool) -> tuple[Comparison, tuple[str, ...]]:
    found = choose(sides[0].of, sides[1].of, complete=complete)
    pairs = list(zip(sides, (found.first, found.second), strict=True))
    first, second = (side.name if isinstance(side.of, Machine) else place for side, place in pairs)
    remarks = [
        f"{side.name} has {len(side.of)} drawings; the drawing at {place} is compared"
        for side, place in pairs
        if isinstance(side.of, tuple) and len(side.of) > 1
    ]
    return replace(found, first=first, second=second), tuple(remarks)
