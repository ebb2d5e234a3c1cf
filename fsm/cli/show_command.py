"""``fsm show``: print a model in readable form."""

import click

from fsm.cli.options import (
    complete_events,
    complete_models_and_systems,
    complete_states,
    format_option,
    layout,
    name_option,
    require,
    under,
    unknown,
)
from fsm.command_options import profile_option
from fsm.language.library import is_system, load, load_system
from fsm.machine.graph import explore
from fsm.machine.product.flatten import flatten
from fsm.machine.table import tabulate
from fsm.report import machine_report


@click.command("show")
@click.argument("name", metavar="MODEL", shell_complete=complete_models_and_systems)
@name_option("event", "e", "Show only this event, by its name or its name on the wire.", complete_events)
@name_option("state", "s", "Show only this state.", complete_states)
@click.option(
    "--outcomes", is_flag=True, help="For events with several outcomes, list the outcomes, which a test may arrange."
)
@profile_option("Apply this profile to the model.")
@format_option
def command(name: str, event: str | None, state: str | None, profile: str | None, form: str, *, outcomes: bool) -> int:
    """Show what each event of a model does in each state, and why.

    MODEL is a name from 'fsm list' or the path of a model file. For a system, shows its parts and their joint events.

    \b
    fsm show models/door.toml
    fsm show models/door.toml --event PushDoor --profile acme-1.6
    fsm show models/door.toml --state open
    """
    if is_system(name) and state is None and form == "text" and not outcomes:
        system = under(load_system(name), profile)
        words = [word for joint in system.events.values() for word in (joint.family, joint.rpc) if word]
        require([] if event is None else [event], words, of="events", hint="--event")
        click.echo(machine_report.system_text(system, layout(), event=event), nl=False)
        return 0
    machine = flatten(under(load_system(name), profile)) if outcomes and is_system(name) else under(load(name), profile)
    events = {known.name for known in machine.events.values() if event is None or event in known.words}
    if not events:
        raise unknown(str(event), machine.events, of="events", hint="--event")
    require([] if state is None else [state], machine.states, of="states", hint="--state")
    states = set(machine.states) if state is None else {state}
    if outcomes:
        listed = machine_report.outcomes_json if form == "json" else machine_report.outcomes_text
        shown = listed(tabulate(machine), events, states)
    elif form == "json":
        shown = machine_report.json(machine, events=events, states=states)
    else:
        graph = None if event or state else explore(tabulate(machine))
        shown = machine_report.text(machine, graph, layout(), events=events, states=states)
    click.echo(shown, nl=False)
    return 0
