"""``fsm show``: a model as people read it."""

from __future__ import annotations

import click

from fsm.cli import completion
from fsm.cli.options import choices, machine_under, style, system_under, width
from fsm.library import is_system
from fsm.machine.graph import explore
from fsm.machine.table import tabulate
from fsm.report import machine_report, system_report


@click.command("show")
@click.argument("name", metavar="MODEL", shell_complete=completion.models_and_systems)
@click.option(
    "--event",
    "-e",
    metavar="NAME",
    shell_complete=completion.events,
    help="Only this event, by its name or its name on the wire.",
)
@click.option("--state", "-s", metavar="NAME", shell_complete=completion.states, help="Only this state.")
@click.option(
    "--profile",
    "-p",
    metavar="NAME",
    shell_complete=completion.profiles,
    help="Show the machine as this profile has it.",
)
@click.option(
    "--format", "form", type=click.Choice(["text", "json"]), default="text", show_default=True, help="How to write it."
)
@click.pass_context
def command(ctx: click.Context, name: str, event: str | None, state: str | None, profile: str | None, form: str) -> int:
    """Show a model: what each event does in each state, and why.

    MODEL is a name from 'fsm list' or the path of a model file. Of a system
    the parts are shown, and what they do together.

    \b
    fsm show container-status
    fsm show container-status --event StopContainer --profile containerd-1.6
    fsm show pod-sandbox --state unknown
    """
    if is_system(name) and state is None and form == "text":
        return _system(ctx, name, event, profile)
    machine = machine_under(name, profile)
    events = {each.name for each in machine.events.values() if event in {None, each.name, each.rpc or None}}
    if not events:
        raise click.BadParameter(choices(str(event), machine.events, of="events"), param_hint="--event")
    if state is not None and state not in machine.states:
        raise click.BadParameter(choices(state, machine.states, of="states"), param_hint="--state")
    states = set(machine.states) if state is None else {state}
    if form == "json":
        click.echo(machine_report.json(machine, events=events, states=states), nl=False)
        return 0
    graph = None if event or state else explore(tabulate(machine))
    written = machine_report.text(machine, graph, events=events, states=states, width=width(), style=style)
    click.echo(written, nl=False, color=ctx.color)
    return 0


def _system(ctx: click.Context, name: str, event: str | None, profile: str | None) -> int:
    shown = system_under(name, profile)
    known = dict.fromkeys(word for joint in shown.events.values() for word in (joint.family, joint.rpc) if word)
    if event is not None and event not in known:
        raise click.BadParameter(choices(event, known, of="events"), param_hint="--event")
    click.echo(system_report.text(shown, event=event, width=width(), style=style), nl=False, color=ctx.color)
    return 0
