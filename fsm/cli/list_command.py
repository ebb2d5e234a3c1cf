"""``fsm list``: the shipped models and systems."""

from collections.abc import Iterable, Mapping
from typing import Final

import click

from fsm.cli.options import format_option, layout
from fsm.library import Role, is_system, load, load_system, roles
from fsm.machine import Machine
from fsm.product.system import System
from fsm.report.json_report import Json, dumped
from fsm.report.words import plural

ABOUT: Final[Mapping[Role, str]] = {
    "contract": "Contracts of interfaces",
    "implementation": "Implementations in containerd",
    "system": "Systems of machines",
    "part": "Parts of systems",
}
"""What the models of a role are, most wanted first."""


@click.command("list")
@format_option
def command(form: str) -> int:
    """List the shipped models and systems, with their profiles, by what they are for."""
    found = roles()
    if form == "json":
        click.echo(dumped([_data(name, role) for name, role in found.items()]), nl=False)
        return 0
    formatter = click.HelpFormatter(width=layout().width)
    for role, about in ABOUT.items():
        formatter.write(f"\n{about}\n" if formatter.buffer else f"{about}\n")
        with formatter.indentation():
            formatter.write_dl([(name, _line(name)) for name, each in found.items() if each == role])
    click.echo(formatter.getvalue(), nl=False)
    return 0


def _line(name: str) -> str:
    if is_system(name):
        system = load_system(name)
        parts = ", ".join(f"{len(part.copies)} {part.name}" for part in system.parts.values())
        return f"{system.title}: {parts}.{_profiles(system.profiles)}"
    machine = load(name)
    size = f"{plural(len(machine.states), 'state')}, {plural(len(machine.events), 'event')}"
    return f"{machine.title}: {size}.{_profiles(machine.profiles)}"


def _profiles(names: Iterable[str]) -> str:
    listed = ", ".join(names)
    return f" Profiles: {listed}." if listed else ""


def _data(name: str, role: Role) -> Json:
    data = _system(load_system(name)) if is_system(name) else _machine(load(name))
    return {"name": name, "role": role, **data}


def _machine(machine: Machine) -> dict[str, Json]:
    return {
        "title": machine.title,
        "entity": machine.entity,
        "states": list(machine.states),
        "events": list(machine.events),
        "profiles": list(machine.profiles),
    }


def _system(system: System) -> dict[str, Json]:
    return {
        "title": system.title,
        "parts": {part.name: len(part.copies) for part in system.parts.values()},
        "events": list(dict.fromkeys(joint.family for joint in system.events.values())),
        "profiles": list(system.profiles),
    }
