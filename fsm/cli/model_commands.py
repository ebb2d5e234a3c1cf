"""``fsm list``, ``fsm show``, ``fsm schema`` and ``fsm simulate``."""

import warnings
from collections.abc import Mapping
from itertools import chain, islice
from typing import Final

import click
import msgspec

from fsm.cli import options
from fsm.command_options import profile_option
from fsm.entry_points import PluginWarning
from fsm.errors import InputError
from fsm.language.form_file import WrittenLogForm
from fsm.language.library import Role, foreign_models, is_system, load, load_any, load_system, roles
from fsm.language.machine_file import Form, Written
from fsm.language.vocabularies import Stated, WrittenFaults, WrittenSystem, schema
from fsm.machine import Machine
from fsm.machine.graph import explore
from fsm.machine.product.flatten import flatten
from fsm.machine.product.system import System
from fsm.machine.simulation import simulate
from fsm.machine.table import tabulate
from fsm.report import machine_report
from fsm.report.json_report import Json, dumped
from fsm.report.words import grouped, plural

ABOUT: Final[Mapping[Role | None, str]] = {
    "contract": "Contracts of interfaces",
    "implementation": "Implementations",
    "system": "Systems of machines",
    "part": "Parts of systems",
    None: "Models of other packages",
}


@click.command("list")
@options.format_option
def list_command(form: str) -> int:
    """List the shipped models and systems with their profiles, grouped by purpose."""
    found: list[tuple[Role | None, Machine | System]] = [(role, load_any(name)) for name, role in roles().items()]
    for name in foreign_models():
        try:
            found.append((None, load_any(name)))
        except InputError as error:
            warnings.warn(str(error), PluginWarning, stacklevel=1)
    if form == "json":
        click.echo(dumped([{"role": role, **_data(model)} for role, model in found]), nl=False)
        return 0
    formatter = click.HelpFormatter(width=options.layout().width)
    by_role = grouped(found)
    for about, models in ((about, by_role[role]) for role, about in ABOUT.items() if role in by_role):
        formatter.write(f"\n{about}\n" if formatter.buffer else f"{about}\n")
        with formatter.indentation():
            formatter.write_dl([(model.name, _line(model)) for model in models])
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
        return data | {"events": list(dict.fromkeys(joint.family for joint in model.events.values()))}
    return data | {"entity": model.entity, "states": list(model.states), "events": list(model.events)}


@click.command("show")
@click.argument("name", metavar="MODEL", shell_complete=options.complete_models_and_systems)
@options.name_option(
    "event", "e", "Show only this event, by its name or its name on the wire.", options.complete_events
)
@options.name_option("state", "s", "Show only this state.", options.complete_states)
@options.flag("--outcomes", "List the outcomes of each event that has several, because a test may arrange them.")
@profile_option("Apply this profile to the model.")
@options.format_option
def show_command(
    name: str, event: str | None, state: str | None, profile: str | None, form: str, *, outcomes: bool
) -> int:
    """Show what each event of a model does in each state, and why.

    MODEL is a name from 'fsm list' or the path of a model file. For a system, shows its parts and their joint events.

    \b
    fsm show models/door.toml
    fsm show models/door.toml --event PushDoor --profile acme-1.6
    fsm show models/door.toml --state open
    """
    if is_system(name) and state is None and form == "text" and not outcomes:
        system = options.under(load_system(name), profile)
        words = [word for joint in system.events.values() for word in (joint.family, joint.rpc) if word]
        options.require([] if event is None else [event], words, of="events", hint="--event")
        click.echo(machine_report.system_text(system, options.layout(), event=event), nl=False)
        return 0
    flat = outcomes and is_system(name)
    machine = flatten(options.under(load_system(name), profile)) if flat else options.under(load(name), profile)
    events = {known.name for known in machine.events.values() if event is None or event in known.words}
    if not events:
        raise options.unknown(str(event), machine.events, of="events", hint="--event")
    options.require([] if state is None else [state], machine.states, of="states", hint="--state")
    states = set(machine.states) if state is None else {state}
    if outcomes:
        listed = machine_report.outcomes_json if form == "json" else machine_report.outcomes_text
        shown = listed(tabulate(machine), events, states)
    elif form == "json":
        shown = machine_report.json(machine, events=events, states=states)
    else:
        graph = None if event or state else explore(tabulate(machine))
        shown = machine_report.text(machine, graph, options.layout(), events=events, states=states)
    click.echo(shown, nl=False)
    return 0


FORMS: Final[Mapping[str, type[Form]]] = {
    "models": Written,
    "systems": WrittenSystem,
    "properties": Stated,
    "faults": WrittenFaults,
    "forms": WrittenLogForm,
}


@click.command("schema")
@click.option("--of", "form", type=click.Choice(list(FORMS)), default="models", help="Kind of file.")
def schema_command(form: str) -> int:
    """Print the JSON Schema of model, system, property, fault or form files, for editors.

    \b
    fsm schema > fsm-models.schema.json
    fsm schema --of properties > fsm-properties.schema.json

    Then configure the TOML extension of your editor to use the schema for models/*.toml.
    """
    click.echo(dumped(schema(FORMS[form])), nl=False)
    return 0


_TOGETHER: Final = 1_000  # Number of lines to write at once. Writing each line separately would be slow.


@click.command("simulate")
@click.argument("model", shell_complete=options.complete_models_and_systems)
@click.option("--seed", type=int, default=0, help="Random seed. The same seed generates the same trace.")
@options.int_option("--length", 20, "Number of observations.")
@options.int_option("--entities", 1, "Number of entities, whose observations are interleaved.", least=1)
@options.int_option("--calls", 1, "Maximum calls of an entity in progress at the same time.", least=1, most=8)
@profile_option("Apply this profile to the model.")
def simulate_command(model: str, seed: int, length: int, entities: int, calls: int, profile: str | None) -> int:
    """Generate a random legal trace of MODEL, as JSON lines.

    MODEL is a name from 'fsm list' or the path of a model file. For a system, the trace has its joint events. The trace
    is in fsm's own format, and 'fsm judge' finds it legal:

    \b
    fsm simulate models/door.toml --length 1000 --calls 2 | fsm judge -
    """
    machine = options.under(load_any(model), profile)
    trace = simulate(machine, seed=seed, length=length, entities=entities, overlap=calls)
    lines = chain([msgspec.json.encode({"trace": 1, "machine": model, "fresh": True})], map(msgspec.json.encode, trace))
    while together := tuple(islice(lines, _TOGETHER)):
        click.echo(b"\n".join(together))
    return 0
