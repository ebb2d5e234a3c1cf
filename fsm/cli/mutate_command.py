"""``fsm mutate``: find errors in models or recordings that would not be detected."""

from collections.abc import Callable, Iterable
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Final

import click
from click.core import ParameterSource

from fsm.checker import as_known
from fsm.cli import options
from fsm.cli.options import refuse
from fsm.cli.output import progress, put
from fsm.command_options import profile_option
from fsm.language.library import claims, composition, load, single, specified, systems
from fsm.machine import Machine
from fsm.machine.claims import Specification, is_of
from fsm.machine.product.system import System
from fsm.machine.versions import within
from fsm.mutation import JointMutant, Mutant, joint_mutants, mutants
from fsm.mutation.outcomes import MutationOutcome, joint_mutation_outcomes, mutation_outcomes
from fsm.mutation.power import power_over
from fsm.mutation.suggestions import suggested
from fsm.recordings.time_order import Assume
from fsm.report import ExitCode
from fsm.report import mutation_report as report

# If a system has more copies than this, its mutants are first tried with a single copy of each part.
FEW: Final = 8


@click.command("mutate")
@click.argument("names", metavar="[MODEL|FILE]...", nargs=-1, shell_complete=options.complete_models_and_systems)
@profile_option("Apply this profile to the models. Default: no profile.")
@options.property_option("Try only this property; may be repeated.")
@click.option(
    "--list",
    "listed",
    type=click.Choice(["survivors", "equivalent", "all"]),
    default="survivors",
    help="survivors: list them by cell; equivalent: also list each equivalent mutant; all: list each mutant.",
)
@options.flag(
    "--suggest",
    "Write properties, as TOML, that would kill the survivors of one machine, which need not have a property file yet.",
)
@options.output_option
@click.option(
    "--recording",
    "-r",
    "recordings",
    multiple=True,
    metavar="FILE",
    type=click.Path(exists=True, dir_okay=False),
    help="Edit this recording instead, and report which illegal edits 'fsm judge' notices; may be repeated.",
)
@options.recording_option(
    "With --recording: another recording of the same run, such as the calls that belong to events."
)
@options.restarts_option(
    "With --recording: when to assume a restart of the runtime that no line shows, as in 'fsm judge'."
)
@options.int_option("--limit", 300, "With --recording: number of edits to try; 0 for all.")
@click.option(
    "--seed", type=int, default=0, help="With --recording: seed for the choice of edits, if not all are tried."
)
@options.format_option
@click.pass_context
def command(
    ctx: click.Context,
    names: tuple[str, ...],
    profile: str | None,
    only: tuple[str, ...],
    listed: str,
    recordings: tuple[str, ...],
    calls: str,
    restarts: Assume,
    limit: int,
    seed: int,
    form: str,
    output: Path | None,
    *,
    suggest: bool,
) -> int:
    """Find errors in a model that its properties would miss, or errors in a recording that its judge would miss.

    MODEL is a name from 'fsm list'. FILE is a property file or a model file. Without either, all shipped models are
    mutated. A mutant of a machine changes one cell, which is an event in a state. The mutant changes the target, the
    reply or the kind of the cell, or drops, adds or swaps an output, or drops an alternative. With data, it negates a
    comparison or moves it by one, drops a part of a condition, reads another argument, or drops or changes an update.
    Mutants that fsm would reject as models are left out. A mutant of a system changes one joint event. The mutant
    drops, repeats or swaps a step, drops or negates a condition, or removes or adds a way or an outcome.

    A property kills a mutant if the result of the property on the mutant is not as stated. If no property kills a
    mutant, the mutant is either equivalent to the model, or it survives, which means that a property is missing. A
    property whose result on the model itself is not as stated kills nothing.

    Properties that compare with another machine are tried only on mutants that all other properties let pass. For a
    system, only the first property that kills a mutant is listed. If standard error is not a terminal, progress is
    reported there every ten seconds. The exit code is 1 if a mutant survives, or if the result of a property on the
    model itself is not as stated.

    With --suggest, fsm prints properties that would kill the survivors, starting with the one that kills most. All are
    proved for the model. Each is followed by the mutants that it has been checked to kill, grouped by cell. Mutants
    that no property can kill, because they are equivalent to the model, are listed as well. Only --suggest allows
    --output. The exit code is 1 if nothing is suggested for some survivor.

    With --recording, fsm edits recorded lines instead: it changes replies, states, times or ids, or drops, repeats or
    moves lines. Edits that are certainly illegal are judged (docs/reference/power.md). The exit code is 1 if the judge
    misses such an edit, or if it reports a violation in the unedited recording.

    \b
    fsm mutate models/door.toml
    fsm mutate models/door.toml --property push-is-idempotent --list all
    fsm mutate models/door.toml --suggest >> properties/door.toml
    fsm mutate --recording doors.jsonl --profile acme-2.1
    """
    unused = {"names", "only", "listed", "suggest", "output"} if recordings else {"calls", "restarts", "limit", "seed"}
    for parameter in ctx.command.params:
        given = ctx.get_parameter_source(parameter.name or "") is ParameterSource.COMMANDLINE
        if parameter.name in unused and given and ctx.params[parameter.name] not in ((), False):
            name = parameter.opts[0].replace("names", "MODEL")
            why = "cannot be combined with --recording, which uses the contracts of interfaces"
            raise click.UsageError(f"{name} {why if recordings else 'has no meaning without --recording'}")
    if recordings:
        return _measure_power(recordings, calls, profile, restarts, limit, seed, form)
    if suggest:
        return _suggest(names, profile, only, listed, form, output)
    refuse(output, "--output has no meaning without --suggest")
    found = [claims(name) for name in dict.fromkeys(names or (*specified(), *systems()))]
    options.require_properties(only, found)
    options.require_profiles([profile], [stated.machine.profiles for stated in found])
    under = [(stated, within(profile, stated.machine.profiles)) for stated in found]
    work = [(as_known(stated, own), own) for stated, own in under if own or profile is None]
    size = sum(1 for stated, own in work for _ in _mutants(stated, own))
    with progress("mutating", size) as bar:
        mutated = tuple(_mutate(stated, own, only, bar.advance) for stated, own in work)
    shown = partial(report.text, mutated, listed=listed)
    options.print_report(form, text=shown, json=partial(report.json, mutated))
    return report.answer(mutated).value


def _suggest(
    names: tuple[str, ...], profile: str | None, only: tuple[str, ...], listed: str, form: str, output: Path | None
) -> int:
    refuse(len(names) != 1, "--suggest needs the name of one machine")
    refuse(
        form != "text" or listed != "survivors",
        "--suggest writes TOML about all survivors; leave out --format and --list",
    )
    found = options.claims_or_none(names[0]) or Specification(machine=load(names[0]), properties=())
    if not is_of(found, Machine):
        raise click.UsageError(f"--suggest can be used only with a machine, but {names[0]} is a system")
    options.require_properties(only, [found])
    options.require_profiles([profile], [found.machine.profiles])
    with progress("mutating", sum(1 for _ in _mutants(found, profile))) as bar:
        mutated = _mutate(found, profile, only, bar.advance, whole=False)
    with progress("suggesting", len(mutated.survivors)) as bar:
        survivors = [survivor.mutant.name for survivor in mutated.survivors]
        taken = [stated.name for stated in found.properties]
        made = suggested(found.machine, survivors, profile=profile, taken=taken, advanced=bar.advance)
    put(report.suggestions(made, mutated), output)
    answer: ExitCode = ExitCode.FAILS if made.left else ExitCode.HOLDS
    return answer.value


def _measure_power(
    recordings: tuple[str, ...], calls: str, profile: str | None, restarts: Assume, limit: int, seed: int, form: str
) -> int:
    with progress("mutating", limit * len({*recordings})) as bar:
        edited = partial(
            power_over, calls=calls, profile=profile, assume=restarts, seed=seed, limit=limit, advanced=bar.advance
        )
        powers = tuple(map(edited, dict.fromkeys(recordings)))
    shown = partial(report.power_text, powers, profiled=bool(profile))
    options.print_report(form, text=shown, json=partial(report.power_json, powers))
    return report.power_answer(powers).value


def _mutants(of: Specification[Machine | System], profile: str | None) -> Iterable[Mutant | JointMutant]:
    if isinstance(of.machine, System):
        return joint_mutants(of.machine.under(profile), composition(of.machine), profile)
    return mutants(of.machine.under(profile))


def _mutate(
    of: Specification[Machine | System],
    profile: str | None,
    only: tuple[str, ...],
    advanced: Callable[[], None],
    *,
    whole: bool = True,
) -> report.Mutated:
    stated = replace(of, properties=tuple(claim for claim in of.properties if not only or claim.name in only))
    outcomes: Iterable[MutationOutcome[Mutant | JointMutant]] = ()
    unsound: list[str] = []
    if isinstance(of.machine, Machine):
        outcomes = mutation_outcomes(
            of.machine, stated.properties, profile=profile, whole=whole, advanced=advanced, unsound=unsound.extend
        )
    elif is_of(stated, System):
        smaller = single(stated) if len(of.machine.copies) > FEW else None
        if smaller is not None:
            names = {claim.name for claim in stated.properties}
            smaller = replace(smaller, properties=tuple(claim for claim in smaller.properties if claim.name in names))
        made = joint_mutants(of.machine.under(profile), composition(of.machine), profile)
        outcomes = joint_mutation_outcomes(
            stated, made, smaller=smaller, profile=profile, whole=False, advanced=advanced, unsound=unsound.extend
        )
    found = tuple(outcomes)  # Unsound properties are collected while the outcomes are computed.
    return report.Mutated(specification=stated, outcomes=found, unsound=tuple(unsound))
