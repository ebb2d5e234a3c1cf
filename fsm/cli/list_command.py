"""``fsm list``: list the bundled models and systems."""

from collections.abc import Mapping
from typing import Final

import click

from fsm.cli.options import format_option, layout
from fsm.language.library import Role, foreign_models, load_any, roles
from fsm.machine import Machine
from fsm.machine.product.system import System
from fsm.report.json_report import Json, dumped
from fsm.report.words import plural

ABOUT: Final[Mapping[Role, str]] = {
    "contract": "Contracts of interfaces",
    "implementation": "Implementations",
    "system": "Systems of machines",
    "part": "Parts of systems",
}
"""Maps the roles of models to their headings, most useful roles first."""


@click.command("list")
@format_option
def command(form: str) -> int:
    """List the shipped models and systems with their profiles, grouped by purpose."""
    found: list[tuple[Role | None, Machine | System]]
    found = [(role, load_any(name)) for name, role in roles().items()]
    found += [(None, load_any(name)) for name in foreign_models()]
    if form == "json":
        click.echo(dumped([{"role": role, **_data(model)} for role, model in found]), nl=False)
        return 0
    formatter = click.HelpFormatter(width=layout().width)
    titles: list[tuple[Role | None, str]] = [*ABOUT.items(), (None, "Models of other packages")]
    for role, about in titles:
        if not (listed := [(model.name, _line(model)) for own, model in found if own == role]):
            continue
        formatter.write(f"\n{about}\n" if formatter.buffer else f"{about}\n")
        with formatter.indentation():
            formatter.write_dl(listed)
    click.echo(formatter.getvalue(), nl=False)
    return 0


def _line(model: Machine | System) -> str:
    if isinstance(model, System):
        size = ", ".join(f"{len(part.copies)} {part.name}" for part in model.parts.values())
    else:
        size = f"{plural(len(model.states), 'state')}, {plural(len(model.events), 'event')}"
    profiles = f" Profiles: {', '.join(model.profiles)}." if model.profiles else ""
    return f"{model.title}: {size}.{profiles}"


def _data(model: Machine | System) -> dict[str, Json]:
    data: dict[str, Json] = {"name": model.name, "title": model.title, "profiles": list(model.profiles)}
    if isinstance(model, System):
        data["parts"] = {part.name: len(part.copies) for part in model.parts.values()}
        data["events"] = list(dict.fromkeys(joint.family for joint in model.events.values()))
    else:
        data |= {"entity": model.entity, "states": list(model.states), "events": list(model.events)}
    return data
