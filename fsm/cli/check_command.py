"""``fsm check``: what is claimed of the models, proved or refuted."""

import click

from fsm.checker import examine
from fsm.checker.breadth_first import LIMIT
from fsm.cli import completion
from fsm.cli.options import asked, format_option, layout, of_one, profile_option, progress, property_option
from fsm.library import claims, specified, systems
from fsm.machine import Profile
from fsm.machine.versions import within
from fsm.property.evidence import Examined
from fsm.report import check_report


@click.command("check")
@click.argument("names", metavar="[MODEL|FILE]...", nargs=-1, shell_complete=completion.models_and_systems)
@profile_option(
    "Only under this profile, or under A+B together; 'none' is without one. May be repeated. By default without one "
    "and under each.",
    several=True,
)
@property_option("Only this property; may be repeated.")
@click.option("--runs", is_flag=True, help="Show the runs of witnesses and of known failures too.")
@click.option(
    "--limit", type=click.IntRange(min=1), default=LIMIT, help="States of one search; beyond it the answer is unknown."
)
@format_option
def command(
    names: tuple[str, ...], profiles: tuple[str, ...], only: tuple[str, ...], form: str, *, runs: bool, limit: int
) -> int:
    """Prove or refute what is claimed of the models.

    MODEL is a name from 'fsm list', FILE a property file or a model file; all shipped models if there is none. Every
    property is decided by going through all that the machine can reach, and a failure comes with a shortest run that
    shows it. A property that is known to fail must fail, in as many steps as are stated: that is a fact like any
    other.

    \b
    holds    it is proved            known    it fails, as is stated
    FAILS    a run breaks it         MENDED   it holds, and was known to fail
    vacuous  it holds of nothing     unknown  a limit stopped the search
    undecided  it is about fields, which no run shows

    \b
    fsm check
    fsm check container-status --profile containerd-1.6 --runs
    fsm check properties/door.toml --property push-is-idempotent
    """
    found = [claims(name) for name in dict.fromkeys(names or (*specified(), *systems()))]
    asked(found, only)
    bare = Profile(name="none", about="", overrides=())
    of_one(profiles, [{"none": bare}, *(each.machine.profiles for each in found)])
    work = [
        (each, own)
        for each in found
        for name in dict.fromkeys(profiles) or ("none", *each.machine.profiles)
        if (own := within(name, each.machine.profiles)) or name == "none"
    ]
    examined: list[Examined] = []
    size = sum(1 for each, _ in work for one in each.properties if not only or one.name in only)
    with progress("checking", size) as bar:
        for each, profile in work:
            examined.append(examine(each, profile, only=only or None, limit=limit, advanced=lambda: bar.update(1)))
    examined = [each for each in examined if each.checked]
    report = check_report.json(examined) if form == "json" else check_report.text(examined, layout(), runs=runs)
    click.echo(report, nl=False)
    return check_report.answer(examined).value
