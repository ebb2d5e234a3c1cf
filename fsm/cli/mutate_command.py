"""``fsm mutate``: which mistakes in a model its properties would notice."""

from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import Final

import click

from fsm.cli import completion
from fsm.cli.options import asked, format_option, layout, profile_option, progress, property_option, unknown
from fsm.library import claims, composition, single, specified, systems
from fsm.mutation import (
    JointMutant,
    Mutant,
    MutationOutcome,
    joint_mutants,
    joint_mutation_outcomes,
    mutants,
    mutation_outcomes,
)
from fsm.property.claims import JointSpecification, Specification
from fsm.report import mutation_report as report

FEW: Final = 8
"""Copies of parts of a system that is small enough to be looked at as it is, and not with one copy of each first."""


@click.command("mutate")
@click.argument("names", metavar="[MODEL|FILE]...", nargs=-1, shell_complete=completion.models_and_systems)
@profile_option("Of the machines as they are under this profile; by default without one.")
@property_option("Only by this property; may be repeated.")
@click.option(
    "--list",
    "listed",
    type=click.Choice(["survivors", "equivalent", "all"]),
    default="survivors",
    show_default=True,
    help="The mutants to list one by one; survivors always are.",
)
@format_option
def command(names: tuple[str, ...], profile: str | None, only: tuple[str, ...], listed: str, form: str) -> int:
    """Find out which mistakes in a model its properties would notice.

    MODEL is a name from 'fsm list', FILE a property file or a model file;
    all shipped models if there is none. A mutant is the model with one cell
    changed: another target or reply, another kind of cell, an output dropped,
    added or swapped, an alternative dropped. Of a system it is one with one
    thing changed in a joint event: a step dropped, repeated or swapped, a
    condition dropped or turned round, a way or an outcome less or more. A
    property kills it if it no longer comes out as stated. One that no
    property kills is either equivalent to the model, or survives:
    something is not stated.

    Properties that compare with another machine are asked only about mutants
    that the others let pass, and of a system the first property that kills a
    mutant is listed. The exit code is 1 if any survives.

    \b
    fsm mutate cri-pod
    fsm mutate container-status --property stop-is-idempotent --list all
    fsm mutate plugin-sync
    """
    found = [claims(name) for name in dict.fromkeys(names or (*specified(), *systems()))]
    asked(found, only)
    if profile is not None:
        profiles = dict.fromkeys(name for each in found for name in each.machine.profiles)
        if profile not in profiles:
            raise unknown(profile, profiles, of="profiles", hint="--profile")
        found = [each for each in found if profile in each.machine.profiles]
    size = sum(1 for each in found for _ in _mutants(each, profile))
    with progress("mutating", size) as advanced:
        mutated = tuple(_mutated(each, profile, only, advanced) for each in found)
    click.echo(report.json(mutated) if form == "json" else report.text(mutated, layout(), listed=listed), nl=False)
    return report.answer(mutated).value


def _mutants(of: Specification | JointSpecification, profile: str | None) -> Iterable[Mutant | JointMutant]:
    if isinstance(of, JointSpecification):
        system = of.machine.under(profile)
        return joint_mutants(system, composition(of.machine), profile)
    return mutants(of.machine.under(profile))


def _mutated(
    of: Specification | JointSpecification, profile: str | None, only: tuple[str, ...], advanced: Callable[[], None]
) -> report.Mutated:
    asked = tuple(each for each in of.properties if not only or each.name in only)
    found: Iterable[MutationOutcome[Mutant | JointMutant]]
    if isinstance(of, JointSpecification):
        smaller = single(of) if len(of.machine.copies) > FEW else None
        if smaller is not None:
            names = {each.name for each in asked}
            smaller = replace(smaller, properties=tuple(each for each in smaller.properties if each.name in names))
        stated = replace(of, properties=asked)
        made = joint_mutants(of.machine.under(profile), composition(of.machine), profile)
        found = joint_mutation_outcomes(stated, made, smaller=smaller, profile=profile, whole=False, advanced=advanced)
        return report.Mutated(specification=stated, outcomes=tuple(found))
    found = mutation_outcomes(of.machine, asked, profile=profile, advanced=advanced)
    return report.Mutated(specification=replace(of, properties=asked), outcomes=tuple(found))
