"""``fsm list``: the shipped models."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from fsm.cli.options import width
from fsm.library import load, load_system, names, systems
from fsm.report.json_report import dumped
from fsm.report.words import plural

if TYPE_CHECKING:
    from collections.abc import Iterable

    from fsm.machine import Machine
    from fsm.product.system import System
    from fsm.report.json_report import Json


@click.command("list")
@click.option(
    "--format",
    "form",
    type=click.Choice(["text", "json"]),
    default="text",
    show_default=True,
    help="How to write the list.",
)
def command(form: str) -> int:
    """List the models, then the systems, with the profiles of each."""
    machines = [load(name) for name in names()]
    composed = [load_system(name) for name in systems()]
    if form == "json":
        click.echo(dumped([*map(_machine, machines), *map(_system, composed)]), nl=False)
        return 0
    formatter = click.HelpFormatter(width=width())
    rows = []
    for each in machines:
        size = f"{plural(len(each.states), 'state')}, {plural(len(each.events), 'event')}"
        rows.append((each.name, f"{each.title}: {size}.{_profiles(each.profiles)}"))
    for one in composed:
        parts = ", ".join(f"{len(part.copies)} {part.name}" for part in one.parts.values())
        rows.append((one.name, f"{one.title}: a system of {parts}.{_profiles(one.profiles)}"))
    formatter.write_dl(rows)
    click.echo(formatter.getvalue(), nl=False)
    return 0


def _profiles(names: Iterable[str]) -> str:
    said = ", ".join(names)
    return f" Profiles: {said}." if said else ""


def _machine(machine: Machine) -> Json:
    return {
        "name": machine.name,
        "title": machine.title,
        "entity": machine.entity,
        "states": list(machine.states),
        "events": list(machine.events),
        "profiles": list(machine.profiles),
    }


def _system(system: System) -> Json:
    return {
        "name": system.name,
        "title": system.title,
        "parts": {part.name: len(part.copies) for part in system.parts.values()},
        "events": list(dict.fromkeys(joint.family for joint in system.events.values())),
        "profiles": list(system.profiles),
    }
