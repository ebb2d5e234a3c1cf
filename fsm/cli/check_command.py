"""``fsm check``: properties of the models, proved or refuted."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Final

import click

from fsm.checker import examine
from fsm.checker.alike import Alike
from fsm.checker.any_number import examine_any
from fsm.checker.breadth_first import LIMIT
from fsm.cli import completion
from fsm.cli.options import (
    ANY_NUMBER,
    asked,
    cases_format_option,
    layout,
    of_one,
    parts_option,
    profile_option,
    progress,
    property_option,
    told,
)
from fsm.cli.search_progress import SearchProgress
from fsm.interruption import INTERRUPTION, OUT_OF_MEMORY, OUT_OF_TIME
from fsm.language.library import claims, composed, of_copies, specified, systems
from fsm.machine import Machine, Profile
from fsm.machine.product.system import System
from fsm.machine.property.claims import Specification, is_of
from fsm.machine.property.evidence import Examined
from fsm.machine.versions import within
from fsm.report import check_report

if TYPE_CHECKING:
    from fsm.report.cases import Cases

PAIR: Final = 2
FEW: Final = 9
"""The most copies of a part that are searched directly; for more, first check what holds for any number."""

WHY: Final = {"": "", OUT_OF_TIME: "out of time", OUT_OF_MEMORY: "out of memory"}


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
@click.option(
    "--overlap",
    type=click.IntRange(min=1, max=8),
    default=1,
    help="Calls of one event that an entity may have in progress; that a further one begins is cut off.",
)
@parts_option(
    "Copies of the parts of a system, such as pod=3,container=3, or container=any; else as many as its file has.",
    any_number=True,
)
@click.option(
    "--each-copy", is_flag=True, help="Decide of each copy of a part what is claimed of it, not of the first alone."
)
@cases_format_option
def command(
    names: tuple[str, ...],
    profiles: tuple[str, ...],
    only: tuple[str, ...],
    parts: dict[str, int],
    form: str,
    *,
    runs: bool,
    each_copy: bool,
    limit: int,
    overlap: int,
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

    A property is unknown too if it depends on how a call ends in a state for which no 'ends' is written. What is marked
    (overlap 1) is decided with at most one call of an event in progress; --overlap allows more.

    Out of time or memory ('fsm --seconds N --memory MIB check') what was decided is told, and of the rest how much of it
    was searched.

    What is claimed of a part of a system is decided of its first copy. Copies differ where a call takes one after the
    other; with --each-copy each is decided, and those that come out otherwise are told. With --parts container=any,
    what is claimed by always and never is decided of any number of containers: where it can be, once for all.

    \b
    fsm check
    fsm check node --parts pod=3,container=3 --each-copy
    fsm check nri-plugin-contract --parts container=any
    fsm check container-status --profile containerd-1.6 --runs
    fsm check properties/door.toml --property push-is-idempotent
    """
    many = next((name for name, count in parts.items() if count == ANY_NUMBER or count > FEW), "")
    if many and each_copy:
        raise click.UsageError(f"--each-copy goes with a few copies only, and not with --parts {many}=any")
    if many and overlap > 1:
        raise click.UsageError(f"--overlap goes with up to {FEW} copies of a part; --parts {many} asks for more")
    found = [
        _claims(name, {**parts, many: PAIR} if many else parts)
        for name in dict.fromkeys(names or (*specified(), *systems()))
    ]
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
    alike = Alike()
    size = sum(1 for each, _ in work for one in each.properties if not only or one.name in only)
    with INTERRUPTION.softly() as excess, progress("checking", size) as bar:
        ending = SearchProgress(bar, lambda: WHY[excess()])
        for each, profile in work:
            advanced = partial(bar.update, 1)
            if many and is_of(each, System):
                numbered = partial(_numbered, each, parts, many)
                count = None if parts[many] == ANY_NUMBER else parts[many]
                examined.append(
                    examine_any(
                        numbered,
                        many,
                        profile,
                        count=count,
                        only=only or None,
                        limit=limit,
                        ending=ending,
                        advanced=advanced,
                    )
                )
                continue
            copies = of_copies(each) if each_copy and is_of(each, System) else ()
            examined.append(
                examine(
                    each,
                    profile,
                    only=only or None,
                    limit=limit,
                    overlap=overlap,
                    ending=ending,
                    advanced=advanced,
                    copies=copies,
                    alike=alike,
                )
            )
        over = excess()
    examined = [each for each in examined if each.checked]
    told(
        form,
        text=lambda: check_report.text(examined, layout(), runs=runs),
        json=lambda: check_report.json(examined),
        cases=lambda: _cases(examined),
    )
    if over:
        click.echo(over, err=True)
    return check_report.answer(examined).value


def _cases(examined: list[Examined]) -> Cases:
    from fsm.report.cases import of_check  # noqa: PLC0415  (it also imports everything that tests need)

    return of_check(examined)


def _claims(name: str, parts: dict[str, int]) -> Specification[Machine | System]:
    found = claims(name)
    if not parts:
        return found
    if not is_of(found, System):
        raise click.BadParameter(f"'{name}' is a machine, which has no parts", param_hint="--parts")
    return composed(found, parts)


def _numbered(stated: Specification[System], parts: dict[str, int], part: str, count: int) -> Specification[System]:
    return composed(stated, {**parts, part: count})
