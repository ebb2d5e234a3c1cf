"""``fsm mutate``: errors in a model that its properties would notice, or in a recording that its judge would."""

from collections.abc import Callable, Iterable
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Final

import click
from click.core import ParameterSource

from fsm.checker import as_known
from fsm.cli import completion
from fsm.cli.options import (
    asked,
    format_option,
    layout,
    of_one,
    output_option,
    profile_option,
    progress,
    property_option,
)
from fsm.cli.output import put
from fsm.errors import InputError
from fsm.language.library import claims, composition, load, single, specified, systems
from fsm.machine import Machine
from fsm.machine.product.system import System
from fsm.machine.property.claims import Specification, is_of
from fsm.machine.versions import within
from fsm.mutation.cell_mutants import Mutant, mutants
from fsm.mutation.outcomes import MutationOutcome, joint_mutation_outcomes, mutation_outcomes
from fsm.mutation.power import CONTRACTS, power_over
from fsm.mutation.suggestions import suggested
from fsm.mutation.system_mutants import JointMutant, joint_mutants
from fsm.recordings import open_recording
from fsm.recordings.restarts import Assume
from fsm.report import mutation_report as report
from fsm.report import power_report, suggestion_report

FEW: Final = 8
"""The most copies of parts in a system that is mutated directly, without trying one copy of each part first."""


@click.command("mutate")
@click.argument("names", metavar="[MODEL|FILE]...", nargs=-1, shell_complete=completion.models_and_systems)
@profile_option("Of the machines as they are under this profile; by default without one.")
@property_option("Only by this property; may be repeated.")
@click.option(
    "--list",
    "listed",
    type=click.Choice(["survivors", "equivalent", "all"]),
    default="survivors",
    help="The mutants to list one by one; otherwise survivors are listed cell by cell.",
)
@click.option(
    "--suggest",
    is_flag=True,
    help="Write properties, as TOML, that would kill the survivors of one machine; the file of its properties need not "
    "be there.",
)
@output_option
@click.option(
    "--recording",
    "-r",
    "recordings",
    multiple=True,
    metavar="FILE",
    type=click.Path(exists=True, dir_okay=False),
    help="Edit this recording instead, and find out which illegal edits 'fsm judge' accuses; may be repeated.",
)
@click.option(
    "--with",
    "-w",
    "calls",
    metavar="FILE",
    type=click.Path(exists=True, dir_okay=False),
    help="The CRI calls of the run in which a plugin received the NRI events in the recording.",
)
@click.option(
    "--restarts",
    type=click.Choice(["none", "seen", "maybe"]),
    default="maybe",
    help="Where to assume a restart of the runtime that no line of a recording shows, as 'fsm judge' has it.",
)
@click.option("--limit", type=click.IntRange(0), default=300, help="Edits to try; 0 for all.")
@click.option("--seed", type=int, default=0, help="Which edits to try, if not all.")
@format_option
@click.pass_context
def command(
    ctx: click.Context,
    names: tuple[str, ...],
    profile: str | None,
    only: tuple[str, ...],
    listed: str,
    recordings: tuple[str, ...],
    calls: str | None,
    restarts: Assume,
    limit: int,
    seed: int,
    form: str,
    output: Path | None,
    *,
    suggest: bool,
) -> int:
    """Find out which mistakes in a model its properties would notice, or in a recording its judge.

    MODEL is a name from 'fsm list', FILE a property file or a model file; all shipped models if there is none. A
    mutant is the model with one cell changed: another target or reply, another kind of cell, an output dropped, added
    or swapped, an alternative dropped. Of a system it is one with one thing changed in a joint event: a step dropped,
    repeated or swapped, a condition dropped or turned round, a way or an outcome less or more. A property kills it if
    it no longer comes out as stated. One that no property kills is either equivalent to the model, or survives:
    something is not stated. A property that does not come out as stated of the model itself kills nothing.

    Properties that compare with another machine are asked only about mutants that the others let pass, and of a
    system the first property that kills a mutant is listed. The exit code is 1 if any survives, or if a property does
    not come out as stated of the model itself. Where standard error is no terminal, it has a line every ten seconds.

    With --suggest survivors become properties, the one that kills most of them first, each with the mutants that it
    was checked to kill, cell by cell. All of them are proved of the model; what nothing can kill, since it is equivalent
    to the model, is said too. The exit code is 1 if there is a survivor for which nothing is suggested.

    With --recording the edits are of recorded lines: replies, states, times, ids, lines less, twice or moved. Those
    that are illegal without doubt are judged (docs/reference/power.md). The exit code is 1 if any is missed, or if the
    recording is accused without an edit.

    \b
    fsm mutate cri-pod
    fsm mutate container-status --property stop-is-idempotent --list all
    fsm mutate plugin-sync
    fsm mutate models/door.toml --suggest >> properties/door.toml
    fsm mutate --recording cri-calls.jsonl --profile containerd-2.1
    """
    idle = {"names", "only", "listed", "suggest", "output"} if recordings else {"calls", "restarts", "limit", "seed"}
    why = "{} is for recordings: give these with --recording"
    why = "--recording is judged by contracts: leave out {}" if recordings else why
    for each in ctx.command.params:
        given = each.name in idle and ctx.get_parameter_source(each.name) is ParameterSource.COMMANDLINE
        if given and ctx.params[each.name] not in ((), False):
            raise click.UsageError(why.format(each.opts[0].replace("names", "MODEL")))
    if recordings:
        return _power(recordings, calls or "", profile, restarts, limit, seed, form)
    if suggest:
        return _suggest(names, profile, only, listed, form, output)
    if output:
        raise click.UsageError("--output is for what --suggest writes")
    found = [claims(name) for name in dict.fromkeys(names or (*specified(), *systems()))]
    asked(found, only)
    of_one([profile], [each.machine.profiles for each in found])
    under = [(each, within(profile, each.machine.profiles)) for each in found]
    work = [(as_known(each, own), own) for each, own in under if own or profile is None]
    size = sum(1 for each, own in work for _ in _mutants(each, own))
    with progress("mutating", size) as bar:
        mutated = tuple(_mutated(each, own, only, partial(bar.update, 1)) for each, own in work)
    click.echo(report.json(mutated) if form == "json" else report.text(mutated, layout(), listed=listed), nl=False)
    return report.answer(mutated).value


def _suggest(
    names: tuple[str, ...], profile: str | None, only: tuple[str, ...], listed: str, form: str, output: Path | None
) -> int:
    if len(names) != 1:
        raise click.UsageError("--suggest is of one machine: name it")
    if form != "text" or listed != "survivors":
        raise click.UsageError("--suggest writes TOML, with all survivors: leave out --format and --list")
    found = _stated(names[0])
    if not is_of(found, Machine):
        raise click.UsageError(f"--suggest is of machines: {names[0]} is a system")
    asked([found], only)
    of_one([profile], [found.machine.profiles])
    with progress("mutating", sum(1 for _ in _mutants(found, profile))) as bar:
        mutated = _mutated(found, profile, only, partial(bar.update, 1), whole=False)
    with progress("suggesting", len(mutated.survivors)) as bar:
        survivors = [each.mutant.name for each in mutated.survivors]
        taken = [each.name for each in found.properties]
        made = suggested(found.machine, survivors, profile=profile, taken=taken, advanced=partial(bar.update, 1))
    put(suggestion_report.toml(made, mutated), output)
    return suggestion_report.answer(made).value


def _stated(name: str) -> Specification[Machine | System]:
    try:
        return claims(name)
    except InputError as error:
        if [each.code for each in error.problems] != ["FSM306"]:
            raise
        return Specification(machine=load(name), properties=())


def _power(
    recordings: tuple[str, ...], calls: str, profile: str | None, restarts: Assume, limit: int, seed: int, form: str
) -> int:
    kinds = {name: open_recording(name).kind for name in recordings}
    for name, kind in kinds.items():
        if kind not in CONTRACTS:
            what = f"{name} holds {kind.value}; give containerd logs, CRI calls or NRI events"
            raise click.BadParameter(what, param_hint="--recording")
    with progress("mutating", limit * len(kinds)) as bar:
        advanced = partial(bar.update, 1)
        powers = tuple(
            power_over(name, calls=calls, profile=profile, assume=restarts, seed=seed, limit=limit, advanced=advanced)
            for name in kinds
        )
    text = power_report.json(powers) if form == "json" else power_report.text(powers, layout(), profiled=bool(profile))
    click.echo(text, nl=False)
    return power_report.answer(powers).value


def _mutants(of: Specification[Machine | System], profile: str | None) -> Iterable[Mutant | JointMutant]:
    if isinstance(of.machine, System):
        return joint_mutants(of.machine.under(profile), composition(of.machine), profile)
    return mutants(of.machine.under(profile))


def _mutated(
    of: Specification[Machine | System],
    profile: str | None,
    only: tuple[str, ...],
    advanced: Callable[[], None],
    *,
    whole: bool = True,
) -> report.Mutated:
    asked = tuple(each for each in of.properties if not only or each.name in only)
    stated = replace(of, properties=asked)
    found: Iterable[MutationOutcome[Mutant | JointMutant]] = ()
    unsound: list[str] = []
    if isinstance(of.machine, Machine):
        found = mutation_outcomes(
            of.machine, asked, profile=profile, whole=whole, advanced=advanced, unsound=unsound.extend
        )
    elif is_of(stated, System):
        smaller = single(stated) if len(of.machine.copies) > FEW else None
        if smaller is not None:
            names = {each.name for each in asked}
            smaller = replace(smaller, properties=tuple(each for each in smaller.properties if each.name in names))
        made = joint_mutants(of.machine.under(profile), composition(of.machine), profile)
        found = joint_mutation_outcomes(
            stated, made, smaller=smaller, profile=profile, whole=False, advanced=advanced, unsound=unsound.extend
        )
    outcomes = tuple(found)
    return report.Mutated(specification=stated, outcomes=outcomes, unsound=tuple(unsound))
