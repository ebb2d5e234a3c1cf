"""The steps of ``--replay``, checked against the model."""

import click

from fsm.cli.options import require
from fsm.conformance.plan import steps as read_steps
from fsm.machine import Machine
from fsm.machine.table import tabulate
from fsm.sut import Stimulus


def replayed(text: str, machine: Machine) -> tuple[Stimulus, ...]:
    """Return the steps in *text*; refuse events, stages and outcomes that *machine* does not have."""
    try:
        found = read_steps(text)
    except ValueError as error:
        raise click.BadParameter(str(error), param_hint="--replay") from error
    table = tabulate(machine)
    ways = tuple(zip(table.ways, table.origin, strict=True))
    for step in found:
        require([step.event], machine.events, of="events", hint="--replay")
        if step.stage in {"begin", "end"} and table.row[step.event] not in table.end:
            message = f"{step.event} takes no time: it does not begin and end, leave out '{step.stage}'"
            raise click.BadParameter(message, param_hint="--replay")
        outcomes = [way.name for way, (row, _) in ways if table.rows[row].event.name == step.event]
        # The last expected outcome of a crash is that of the restart.
        expected = step.expected[:-1] if step.stage == "crash" else step.expected
        require(expected, filter(None, outcomes), of=f"outcomes of {step.event}", hint="--replay")
    return found
