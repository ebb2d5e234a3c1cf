"""``fsm check`` and ``fsm findings``: check properties of models, and list known defects."""

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Final

import click

from fsm.checker import examine
from fsm.checker.alike import Alike
from fsm.checker.any_number import examine_any
from fsm.checker.breadth_first import LIMIT
from fsm.checker.known_defects import known_defects
from fsm.cli import options
from fsm.cli.options import refuse
from fsm.cli.output import CommandProgress, progress, put, remove_on_failure
from fsm.diagrams.draw import sequence, sequence_svg
from fsm.interruption import INTERRUPTION, OUT_OF_MEMORY, OUT_OF_TIME
from fsm.language.library import claims, composed, specifications_of_copies, specified, systems
from fsm.machine import Machine, Profile
from fsm.machine.claims import Specification, is_of
from fsm.machine.evidence import Examined, Refuted
from fsm.machine.product.system import System
from fsm.machine.traversal import Explored
from fsm.machine.versions import within
from fsm.report import check_report
from fsm.report import findings_report as report

PAIR: Final = 2
# Maximum number of copies to search directly. For more copies, a proof for any number of copies is tried first.
FEW: Final = 9

_WHY: Final = {"": "", OUT_OF_TIME: "out of time", OUT_OF_MEMORY: "out of memory"}


@click.command("check")
@click.argument("names", metavar="[MODEL|FILE]...", nargs=-1, shell_complete=options.complete_models_and_systems)
@options.profiles_option(
    "Check only under this profile; A+B combines profiles, 'none' means no profile; may be repeated. Default: none, "
    "and each profile of the model."
)
@options.property_option("Check only this property; may be repeated.")
@options.flag("--runs", "Also show the runs of witnesses and of known failures.")
@click.option(
    "--why",
    type=click.IntRange(min=0),
    metavar="STEP",
    default=0,
    show_default=False,
    help="Explain this step of each counterexample: the cells, clauses and conditions that make it possible. Implies "
    "--runs.",
)
@options.int_option("--limit", LIMIT, "Maximum states of one search; beyond it the result is unknown.", least=1)
@options.int_option(
    "--overlap",
    1,
    "Maximum calls of one event that an entity may have in progress. Runs in which one more begins are cut off.",
    least=1,
    most=8,
)
@options.parts_option(
    "Copies of the parts of a system, such as door=3,alarm=2, or door=any. Default: those in its file.", any_number=True
)
@options.flag("--unbounded", "Decide 'always' and 'never' for all integers, with the solver Z3 (the extra 'smt').")
@options.flag("--each-copy", "Check every copy of a part, not only the first.")
@options.cases_format_option
def command(
    names: tuple[str, ...],
    profiles: tuple[str, ...],
    only: tuple[str, ...],
    parts: dict[str, int],
    form: str,
    *,
    runs: bool,
    why: int,
    each_copy: bool,
    unbounded: bool,
    limit: int,
    overlap: int,
) -> int:
    """Prove or refute the properties of models.

    MODEL is a name from 'fsm list', FILE a property file or a model file. Without either, all shipped models are
    checked. Each property is decided by searching everything that the machine can reach, and each failure comes with a
    shortest run that shows it. A property that is stated as a known failure must fail, in the stated number of steps.

    \b
    holds      proved
    FAILS      refuted by a run
    known      fails, as stated
    MENDED     holds, but is stated as a known failure
    vacuous    nothing puts the property to the test
    unknown    a limit stopped the search
    undecided  concerns fields, which no run shows

    A property is also unknown if it depends on how a call ends in a state for which the model has no 'ends'. Results
    marked (overlap 1) assume at most one call of an event in progress; --overlap allows more.

    If time or memory runs out ('fsm --seconds N --memory MIB check'), check reports the properties decided so far, and
    how much was searched for the others.

    A property of a part of a system is checked for the first copy of that part. Copies can differ if a call handles
    them one after the other: --each-copy checks them all, and reports those with a different result. With
    --parts door=any, properties with always or never are checked for any number of doors: one proof for all
    numbers, if possible.

    \b
    fsm check
    fsm check properties/door.toml --property push-is-idempotent
    fsm check properties/door.toml --profile acme-1.6 --runs
    fsm check systems/house.toml --parts door=3 --each-copy
    fsm check systems/house.toml --parts door=any
    """
    many = next((name for name, count in parts.items() if count == options.ANY_NUMBER or count > FEW), "")
    too_many = f"can be used with at most {FEW} copies of a part, but --parts asks for more of '{many}'"
    refuse(many and each_copy, f"--each-copy {too_many}")
    refuse(many and overlap > 1, f"--overlap {too_many}")
    searched = {**parts, many: PAIR} if many else parts
    stated = [_claims(name, searched) for name in dict.fromkeys(names or (*specified(), *systems()))]
    options.require_properties(only, stated)
    bare = Profile(name="none", about="", overrides=())
    options.require_profiles(profiles, [{"none": bare}, *(one.machine.profiles for one in stated)])
    work = [
        (specification, own)
        for specification in stated
        for name in dict.fromkeys(profiles) or ("none", *specification.machine.profiles)
        if (own := within(name, specification.machine.profiles)) or name == "none"
    ]
    examined: list[Examined] = []
    alike = Alike()
    size = sum(1 for one, _ in work for claim in one.properties if not only or claim.name in only)
    with INTERRUPTION.soft_limits() as excess, progress("checking", size) as bar:
        ending = search_ending(bar, excess)
        examine_each = partial(
            examine,
            only=only or None,
            limit=limit,
            ending=ending,
            advanced=bar.advance,
            overlap=overlap,
            alike=alike,
            unbounded=unbounded,
        )
        any_number = partial(examine_any, only=only or None, limit=limit, ending=ending, advanced=bar.advance)
        for specification, profile in work:
            if many and is_of(specification, System):
                numbered = partial(_with_copies, specification, parts, many)
                count = None if parts[many] == options.ANY_NUMBER else parts[many]
                found = any_number(numbered, many, profile, count=count)
            else:
                copies = specifications_of_copies(specification) if each_copy and is_of(specification, System) else ()
                found = examine_each(specification, profile, copies=copies)
            examined.append(found)
        over = excess()
    examined = [found for found in examined if found.checked]
    verdicts = (checked.verdict for found in examined for checked in found.checked)
    longest = max((verdict.length for verdict in verdicts if isinstance(verdict, Refuted)), default=0)
    refuse(why > longest, f"no counterexample has a step {why}; the longest one has {longest} steps", "--why")
    options.print_report(
        form,
        text=partial(check_report.text, examined, runs=runs or why > 0, why=why),
        json=partial(check_report.json, examined, why=why),
        cases=partial(check_report.cases, examined),
    )
    if over:
        click.echo(over, err=True)
    return check_report.answer(examined).value


def search_ending(bar: CommandProgress, excess: Callable[[], str]) -> Callable[[Explored], str]:
    """Return a callback for searches, which updates *bar* and returns a reason to stop or an empty string."""

    def ending(covered: Explored) -> str:
        bar.searched(covered)
        return _WHY[excess()]

    return ending


def _claims(name: str, parts: dict[str, int]) -> Specification[Machine | System]:
    found = claims(name)
    if not parts:
        return found
    if not is_of(found, System):
        raise click.BadParameter(f"'{name}' is a machine, which has no parts", param_hint="--parts")
    return composed(found, parts)


def _with_copies(stated: Specification[System], parts: dict[str, int], part: str, count: int) -> Specification[System]:
    return composed(stated, {**parts, part: count})


@click.command("findings")
@click.argument("names", metavar="[MODEL|FILE]...", nargs=-1, shell_complete=options.complete_models_and_systems)
@options.format_option
@click.option(
    "--output",
    "-o",
    type=click.Path(path_type=Path, file_okay=False),
    help="Write pages in Markdown, with sequence charts in SVG, to this folder instead.",
)
def findings_command(names: tuple[str, ...], form: str, output: Path | None) -> int:
    """List the known failures of the specification, each with its shortest run, and prove them again.

    MODEL is a name from 'fsm list', FILE a property file or a model file. Without either, all shipped models and
    systems are included. A finding is a property that fails as stated, and holds once a defect is fixed: either a
    system fails as it is and holds under its profile 'mended', or a machine fails under its profile 'upstream', which
    has the defects of the source, and holds without it.

    Exits with 1 if a finding no longer reproduces or its fix no longer holds.

    \b
    fsm findings node
    fsm findings -o docs/findings
    """
    found = list(known_defects(*names))
    if output is not None:
        with remove_on_failure() as begin:
            for name, text in report.pages(found).items():
                put(text, output / name, begin)
            for finding in found:
                if finding.run is not None and isinstance(finding.of.machine, System):
                    drawn = sequence_svg.svg(sequence.chart(finding.run, finding.of.machine, finding.stated))
                    put(drawn, output / report.picture(finding), begin)
    else:
        options.print_report(form, text=partial(report.text, found), json=partial(report.json, found))
    return report.answer(found).value
