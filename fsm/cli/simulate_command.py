"""``fsm simulate``: write a trace that a model could have produced."""

from itertools import chain, islice
from typing import Final

import click
import msgspec

from fsm.cli.options import complete_models, under
from fsm.command_options import profile_option
from fsm.language.library import load
from fsm.machine.simulation import simulate

_TOGETHER: Final = 1_000
"""Number of lines per write. With one system call per line, these calls would take most of the time."""


@click.command("simulate")
@click.argument("model", shell_complete=complete_models)
@click.option("--seed", type=int, default=0, help="Random seed. The same seed generates the same trace.")
@click.option("--length", type=click.IntRange(min=0), default=20, help="Number of observations.")
@click.option(
    "--entities", type=click.IntRange(min=1), default=1, help="Number of entities, whose observations are interleaved."
)
@click.option(
    "--calls",
    type=click.IntRange(min=1, max=8),
    default=1,
    help="Maximum calls of an entity in progress at the same time.",
)
@profile_option("Apply this profile to the model.")
def command(model: str, seed: int, length: int, entities: int, calls: int, profile: str | None) -> int:
    """Generate a random legal trace of MODEL, as JSON lines.

    MODEL is a name from 'fsm list' or the path of a model file. The trace is in fsm's own format, and 'fsm judge' finds
    it legal:

    \b
    fsm simulate models/door.toml --length 1000 --calls 2 | fsm judge -
    """
    machine = under(load(model), profile)
    trace = simulate(machine, seed=seed, length=length, entities=entities, overlap=calls)
    lines = chain([msgspec.json.encode({"trace": 1, "machine": model, "fresh": True})], map(msgspec.json.encode, trace))
    while together := tuple(islice(lines, _TOGETHER)):
        click.echo(b"\n".join(together))
    return 0
