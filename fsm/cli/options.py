"""Arguments and options shared by several commands."""

from __future__ import annotations

import os
import re
import shutil
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Final, TypeVar

import click
from click.decorators import FC

from fsm import cli
from fsm.command_options import Completer, complete_profiles, completer, named_models
from fsm.errors import InputError, Problem, is_file, nearest
from fsm.language.library import claims, load, names, systems
from fsm.machine import Machine
from fsm.machine.claims import Specification
from fsm.machine.product.system import System
from fsm.machine.versions import Bounded, unknown_profile
from fsm.report.layout import Layout, plain
from fsm.trace import FRACTION, Line

if TYPE_CHECKING:
    from fsm.report.cases import Cases

complete_commands: Final = completer(lambda _: cli.commands())
complete_models: Final = completer(lambda _: names(), files=True)
complete_models_and_systems: Final = completer(lambda _: (*names(), *systems()), files=True)


@completer
def complete_events(ctx: click.Context) -> Iterator[str]:
    for model in named_models(ctx):
        yield from (joint.family for joint in model.events.values()) if isinstance(model, System) else model.events


@completer
def complete_states(ctx: click.Context) -> Iterator[str]:
    for model in named_models(ctx):
        if not isinstance(model, System):
            yield from model.states


@completer
def complete_properties(ctx: click.Context) -> Iterator[str]:
    for model in tuple(named_models(ctx)) or map(load, names()):
        try:
            yield from (stated.name for stated in claims(model.path).properties)
        except InputError:
            continue


@completer
def complete_codes(_: click.Context) -> Iterable[str]:
    from fsm.language.codes import RULES  # noqa: PLC0415  (loading them takes longer than everything else here)

    return RULES


@completer
def complete_suts(_: click.Context) -> Iterable[str]:
    from fsm.conformance.lookup import forms  # noqa: PLC0415  (only for --against)

    return (f"{form.partition(':')[0]}:" if ":" in form else form for form in forms())


WIDEST = 100

_NUMBER: Final = re.compile("[0-9]{1,9}")
_Model = TypeVar("_Model", Machine, System, Machine | System)
_Read = TypeVar("_Read")

text_option = partial(click.option, default="", show_default=False)


def choice_option(choices: Iterable[str], about: str = "Output format.") -> Callable[[FC], FC]:
    """Return an option ``--format``, which is passed as ``form``. The first of *choices* is the default."""
    names = [*choices]
    return click.option("--format", "form", type=click.Choice(names), default=names[0], help=about)


def flag(name: str, about: str, *, to: str = "") -> Callable[[FC], FC]:
    return click.option(name, *filter(None, [to]), is_flag=True, help=about)


def int_option(name: str, default: int, about: str, *, least: int = 0, most: int | None = None) -> Callable[[FC], FC]:
    return click.option(name, type=click.IntRange(least, most), default=default, help=about)


def file_option(name: str, about: str) -> Callable[[FC], FC]:
    return click.option(name, type=click.Path(dir_okay=False), metavar="FILE", help=about)


format_option: Final = choice_option(["text", "json"])

CASE_FORMATS: Final = ("junit", "sarif", "github")

cases_format_option: Final = choice_option(
    ["text", "json", *CASE_FORMATS],
    "Output format: text for people, JSON, JUnit XML, SARIF, or GitHub commands that annotate a pull request.",
)


def print_report(
    form: str, *, text: Callable[[Layout], str], json: Callable[[], str], cases: Callable[[], Cases] | None = None
) -> None:
    """Print a report in the format *form*. Only the function for this format is called."""
    if cases and form in CASE_FORMATS:
        report = case_report(form, cases())
    else:
        report = json() if form == "json" else text(layout())
    click.echo(report, nl=False)


def case_report(form: str, cases: Cases) -> str:
    writer: Callable[[Cases], str] = getattr(import_module("fsm.report.cases"), form)
    return writer(cases)


rotated_option: Final = flag(
    "--rotated", "Treat all TRACEs as one rotated recording, such as doors.jsonl*, in the order of their times."
)

at_least_option: Final = click.option(
    "--at-least",
    type=click.FloatRange(0, 100),
    default=0,
    metavar="PERCENT",
    help="Fail if less than PERCENT of a model's reachable (event, state) pairs are exercised.",
)


def listening(_context: click.Context, _option: click.Parameter, value: str | None) -> tuple[str, int] | None:
    """Parse an address and a port. The address defaults to 127.0.0.1."""
    if value is None:
        return None
    address, colon, port = value.rpartition(":")
    address = address.removeprefix("[").removesuffix("]") if colon else "127.0.0.1"
    if not (address and port.isascii() and port.isdecimal() and int(port) < 1 << 16):
        raise click.BadParameter(f"'{value}' is neither a port nor ADDRESS:PORT, such as 9090 or 0.0.0.0:9090")
    return address, int(port)


_AGO: Final = re.compile(r"(?=\d)(?:(\d{1,5})d)?(?:(\d{1,5})h)?(?:(\d{1,5})m)?(?:(\d{1,5})s)?")


def moment(_context: click.Context, _option: click.Parameter, value: str | None) -> int | None:
    """Parse a time, or a duration such as ``10m`` for ten minutes ago. Return nanoseconds since the epoch.

    A time without a UTC offset is a local time.
    """
    if value is None:
        return None
    if ago := _AGO.fullmatch(value):
        days, hours, minutes, seconds = (int(number or 0) for number in ago.groups())
        return time.time_ns() - (((days * 24 + hours) * 60 + minutes) * 60 + seconds) * 1_000_000_000
    fraction = FRACTION.search(value)
    try:
        whole = round(datetime.fromisoformat(FRACTION.sub("", value)).timestamp())
    except (ValueError, OverflowError, OSError) as error:
        what = f"'{value}' is not a time, such as 2026-11-23T14:05:00Z, '2026-11-23 14:05', or 10m, 2h or 1d12h ago"
        raise click.BadParameter(what) from error
    return whole * 1_000_000_000 + (int(fraction[1].ljust(9, "0")) if fraction else 0)


def line(_context: click.Context, _option: click.Parameter, value: str | None) -> Line | None:
    if value is None:
        return None
    file, _, number = value.rpartition(":")
    if not _NUMBER.fullmatch(number):
        raise click.BadParameter(f"'{value}' is not the number of a line, such as 14 or doors.jsonl:14")
    return Line("-" if file == "stdin" else file, int(number))


def file_and_line(name: str) -> tuple[str, int]:
    """Split FILE:LINE. The line is 0 if *name* has no line, or if a file called *name* exists."""
    path, _, number = name.rpartition(":")
    if not (path and number.isascii() and number.isdecimal()) or os.path.exists(name):  # noqa: PTH110  (never raises)
        return name, 0
    return path, int(number)


def engine(_context: click.Context, _option: click.Parameter, value: str | None) -> str:
    """Return the URL of the Spark master, or an empty string to judge without Spark.

    >>> engine(None, None, "spark"), engine(None, None, "spark[2]"), engine(None, None, "spark://head:7077")
    ('local[*]', 'local[2]', 'spark://head:7077')
    """
    if value is None:
        return ""
    scheme, _, rest = value.partition("://")
    if value.startswith("spark[") and value.endswith("]"):
        return f"local{value.removeprefix('spark')}"
    if rest or scheme == "spark":
        return value if rest else "local[*]"
    raise click.BadParameter(f"'{value}' is not an engine: use spark, spark[CORES] or spark://HOST:PORT")


def standard_output_if_dash(_context: click.Context, _option: click.Parameter, path: Path | None) -> Path | None:
    return None if path == Path("-") else path


def page_option(about: str) -> Callable[[FC], FC]:
    path = click.Path(dir_okay=False, allow_dash=True, path_type=Path)
    return click.option("--output", "-o", type=path, callback=standard_output_if_dash, help=about)


output_option: Final = page_option(
    "Write to FILE instead of standard output. FILE is written completely or not at all."
)


def name_option(
    option: str, letter: str, about: str, complete: Completer, *, to: str = "", several: bool = False
) -> Callable[[FC], FC]:
    flags = (f"--{option}", f"-{letter}", to or option)
    return click.option(*flags, multiple=several, metavar="NAME", shell_complete=complete, help=about)


def profiles_option(about: str) -> Callable[[FC], FC]:
    return name_option("profile", "p", about, complete_profiles, to="profiles", several=True)


def model_option(about: str) -> Callable[[FC], FC]:
    complete = complete_models_and_systems
    return click.option(
        *("--model", "-m", "models"), multiple=True, metavar="NAME|FILE", shell_complete=complete, help=about
    )


def recording_option(about: str) -> Callable[[FC], FC]:
    return text_option("--with", "-w", "calls", metavar="FILE", type=click.Path(readable=False), help=about)


def judge_option(parameter: str) -> str:
    """Return the option of ``fsm judge`` for *parameter*."""
    names = {"calls": "--with", "recorded": "--form", "only": "--property", "every": "--all"}
    return names.get(parameter, f"--{parameter}")


ANY_NUMBER: Final = -1


def parts_option(about: str, *, any_number: bool = False) -> Callable[[FC], FC]:
    counts = partial(_counts, any_number=any_number)
    return text_option("--parts", callback=counts, metavar="PART=COUNT,...", help=about)


def _counts(_context: click.Context, _option: click.Parameter, text: str, *, any_number: bool) -> dict[str, int]:
    found: dict[str, int] = {}
    for pair in filter(None, map(str.strip, text.split(","))):
        name, _, number = map(str.strip, pair.partition("="))
        if any_number and name and number == "any":
            if ANY_NUMBER in found.values() or name in found:
                what = "asks for any number of copies, but only one part can have any number"
                raise click.BadParameter(f"'{pair}' {what}")
            found[name] = ANY_NUMBER
        elif not (name and _NUMBER.fullmatch(number)):
            raise click.BadParameter(f"'{pair}' is not PART=COUNT, such as door=1")
        elif found.setdefault(name, int(number)) != int(number):
            raise click.BadParameter(f"the part '{name}' is given two numbers of copies")
    return found


def property_option(about: str) -> Callable[[FC], FC]:
    return name_option("property", "P", about, complete_properties, to="only", several=True)


def restarts_option(about: str) -> Callable[[FC], FC]:
    return click.option("--restarts", type=click.Choice(["none", "seen", "maybe"]), default="maybe", help=about)


def restart_options(command: FC) -> FC:
    assumed = restarts_option(
        "When to assume a restart of the runtime that no line shows: never (none), when calls found no runtime (seen), "
        "or also in every pause between calls that is long enough (maybe)."
    )
    shortest = click.option(
        "--shortest-restart",
        type=click.IntRange(0, 86_400_000),
        metavar="MILLISECONDS",
        default=50,
        help="Minimum pause between calls in which a restart is assumed.",
    )
    return assumed(shortest(command))


def layout(*, coloured: bool = True) -> Layout:
    def style(value: str, how: str) -> str:
        return click.style(value, bold=True) if how == "bold" else click.style(value, fg=how, bold=how == "red")

    columns = min(shutil.get_terminal_size((WIDEST, 24)).columns, WIDEST)
    return Layout(width=columns, style=style if coloured else plain)


def sizes(names: Iterable[str]) -> int:
    """Return the total size of the files in bytes, or 0 if they are too small for a progress bar."""
    size = sum(os.path.getsize(name) for name in names if is_file(name))  # noqa: PTH202
    return size if size >= 1 << 22 else 0


def refuse(wrong: object, what: str, option: str = "") -> None:
    """If *wrong* is true, raise an error that says *what* is wrong with *option*, or with the options together."""
    if wrong:
        raise click.BadParameter(what, param_hint=option) if option else click.UsageError(what)


def read_each(names: Iterable[str], read: Callable[[str], _Read]) -> dict[str, _Read]:
    """Map each name to the result of *read*. If *read* fails, raise one :class:`InputError` with all problems."""
    found: dict[str, _Read] = {}
    problems: list[Problem] = []
    for name in dict.fromkeys(names):
        try:
            found[name] = read(name)
        except InputError as error:
            problems += error.problems
    if problems:
        raise InputError(dict.fromkeys(problems))
    return found


def claims_or_none(name: str) -> Specification[Machine | System] | None:
    """Return the properties of a model with its machine or system, or ``None`` if the model has no property file."""
    try:
        return claims(name)
    except InputError as error:
        if {problem.code for problem in error.problems} != {"FSM306"}:
            raise
        return None


def require(words: Iterable[str], known: Iterable[str], *, of: str, hint: str) -> None:
    names = dict.fromkeys(known)
    for word in words:
        if word not in names:
            raise unknown(word, names, of=of, hint=hint)


def unknown(word: str, known: Iterable[str], *, of: str, hint: str) -> click.BadParameter:
    return click.BadParameter(f"'{word}': {nearest(word, known, of=of)}", param_hint=hint)


def under(model: _Model, profile: str | None) -> _Model:
    require_profiles([profile], [model.profiles])
    return model.under(profile)


def require_profiles(profiles: Iterable[str | None], groups: Sequence[Mapping[str, Bounded]]) -> None:
    for profile in profiles:
        if wrong := unknown_profile(profile, groups):
            raise click.BadParameter(f"'{wrong[0]}': {wrong[1]}", param_hint="--profile")


def require_properties(only: Iterable[str], stated: Iterable[Specification[Machine | System]]) -> None:
    require(only, (one.name for each in stated for one in each.properties), of="properties", hint="--property")
