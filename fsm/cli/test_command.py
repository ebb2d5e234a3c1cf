"""``fsm test``: test an implementation against a machine."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Final

import click
from hypothesis import configuration

from fsm import cli
from fsm.checker import as_known
from fsm.cli import options
from fsm.cli.options import refuse
from fsm.cli.output import progress, put
from fsm.command_options import profile_option
from fsm.conformance import lookup, suite
from fsm.conformance import scheme as schemes
from fsm.conformance.concurrency import repeated
from fsm.conformance.plan import steps as read_steps
from fsm.conformance.plan import with_arguments
from fsm.conformance.race_runs import Pace
from fsm.conformance.scheme import PlanRequest, Scheme, SutRequest
from fsm.entry_points import SUTS, foreign_names, warn_left_out
from fsm.errors import linked
from fsm.language.library import is_system, load, load_system, specification
from fsm.machine import LEVELS, Level, Machine
from fsm.machine.claims import Property
from fsm.machine.product.flatten import flatten
from fsm.machine.table import tabulate
from fsm.recordings import either
from fsm.report import conformance_report, words
from fsm.report.lanes import history_lines
from fsm.report.property_report import PropertyTestReport
from fsm.scratch import ScratchFolder
from fsm.sut import SUT, Stimulus

rows = lookup.forms  # for the help of the command


def replayed(text: str, machine: Machine) -> tuple[Stimulus, ...]:
    try:
        found = read_steps(text)
    except ValueError as error:
        raise click.BadParameter(str(error), param_hint="--replay") from error
    table = tabulate(machine)
    ways = tuple(zip(table.ways, table.origin, strict=True))
    for step in found:
        options.require([step.event], machine.events, of="events", hint="--replay")
        if step.stage in {"begin", "end"} and table.row[step.event] not in table.end:
            message = f"{step.event} takes no time, so it has no separate begin and end; leave out '{step.stage}'"
            raise click.BadParameter(message, param_hint="--replay")
        outcomes = [way.name for way, (row, _) in ways if table.rows[row].event.name == step.event]
        # After a crash, the last expected outcome is the outcome of the restart.
        expected = step.expected[:-1] if step.stage == "crash" else step.expected
        options.require(expected, filter(None, outcomes), of=f"outcomes of {step.event}", hint="--replay")
    try:
        return tuple(with_arguments(step, machine.events[step.event]) for step in found)
    except ValueError as error:
        raise click.BadParameter(str(error), param_hint="--replay") from error


if TYPE_CHECKING:
    from fsm.conformance.tested import Tested  # at run time, pytest would collect this class as a test

_FOREIGN: Final = "fsm.foreign schemes"

_DELAY: Final = 0.05  # maximum random delay in seconds before a call; most calls take about that long


class _TestCommand(click.Command):
    def get_params(self, ctx: click.Context) -> list[click.Parameter]:
        params = super().get_params(ctx)
        known = {name: "fsm test" for param in params for name in param.opts}
        own = []
        for scheme in (*schemes.own_schemes(), *_foreign_schemes(ctx)):
            for each in scheme.options:
                if (other := known.setdefault(each.name, scheme.form)) != scheme.form:
                    warn_left_out(SUTS, scheme.name, ValueError(f"{other} already has an option {each.name}"))
                else:
                    about = linked(each.help)
                    own.append(
                        click.Option([each.name], metavar=each.metavar, default="", show_default=False, help=about)
                    )
        return [*params, *own]


def _foreign_schemes(ctx: click.Context) -> tuple[Scheme, ...]:
    if _FOREIGN not in ctx.meta:
        words = ctx.meta.get(cli.WORDS, ())
        named = (name for name in foreign_names(SUTS) if any(f"{name}:" in word for word in words))
        helped = bool({"-h", "--help"} & {*words})
        found = schemes.foreign_schemes() if helped else (schemes.scheme_of(f"{name}:x") for name in named)
        ctx.meta[_FOREIGN] = tuple(filter(None, found))
    foreign: tuple[Scheme, ...] = ctx.meta[_FOREIGN]
    return foreign


@click.command("test", cls=_TestCommand)
@click.argument("model", shell_complete=options.complete_models_and_systems)
@click.option(
    "--against",
    "-a",
    "sut",
    required=True,
    metavar="SUT",
    shell_complete=options.complete_suts,
    help=f"Implementation to test: {either([*rows()])}; see above.",
)
@profile_option("Tolerate the declared deviations of this profile.")
@click.option("--examples", "-n", type=click.IntRange(min=0), default=100, help="Number of tests with random steps.")
@options.int_option("--steps", 50, "Maximum steps of each random test.", least=1)
@click.option("--seed", type=int, default=0, help="Seed of the random tests.")
@options.int_option(
    "--threads", 1, "Also call SUT from up to this many threads concurrently, to find races.", least=1, most=8
)
@click.option(
    "--race-seconds",
    type=click.FloatRange(min=1),
    default=60,
    metavar="SECONDS",
    help="Search this long for races of a real system.",
)
@click.option(
    "--timeout",
    type=click.FloatRange(min=0.001),
    metavar="SECONDS",
    help="Time limit for each answer of SUT. Default: 5 for a process, none for Python code; others have their own.",
)
@click.option("--replay", "again", metavar="STEPS", help="Take only these steps, as printed with a failure.")
@options.flag("--properties", "Test each property of MODEL instead, like the pytest plugin.")
@options.property_option("Test this property instead; may be repeated.")
@options.parts_option("Copies of the parts of a system, such as door=1,alarm=1. Default: those in its file.")
@options.file_option(
    "--record", "Repeat the failed tests of a real system, and write their calls to FILE, for 'fsm judge'."
)
@options.file_option("--script", "Write the failed tests of a real system to FILE, as a shell script for a client.")
@click.option(
    "--fail-on",
    type=click.Choice(LEVELS[::-1]),
    help="Weakest level of a clause whose breach counts as a violation. Default: MUST, or observed if no clause is a "
    "MUST.",
)
@options.at_least_option
@options.cases_format_option
def command(
    model: str,
    sut: str,
    profile: str | None,
    examples: int,
    steps: int,
    seed: int,
    threads: int,
    race_seconds: float,
    timeout: float | None,
    again: str | None,
    parts: dict[str, int],
    record: str | None,
    script: str | None,
    fail_on: Level | None,
    at_least: float,
    form: str,
    only: tuple[str, ...],
    *,
    properties: bool,
    **given: str,
) -> int:
    """Test an implementation, called SUT (system under test), against a model.

    MODEL is a name from 'fsm list' or the path of a model file. A system is tested as the one machine that its parts
    form together. The test aims at every step of the machine in every state, whether legal, ignored, refused or
    unspecified, and the steps that follow show whether SUT is in the right state. If all these tests pass, tests with
    random steps follow. A failure is shrunk, and the report says what would have been legal. SUT is one of:

    {rows}

    How to write one: docs/how-to/conformance.md, docs/reference/exec-protocol.md.

    \b
    fsm test models/door.toml --against python:doors:make
    fsm test models/door.toml --against exec:./door.sh --profile acme-1.7
    fsm test models/door.toml --against model:models/new-door.toml --properties
    """
    click.get_current_context().with_resource(_temporary_hypothesis_home())
    scheme = schemes.scheme_of(sut)
    real = scheme is not None and scheme.slow
    by_property = properties or bool(only)
    settings = _options(scheme, given)
    if scheme is not None:
        click.get_current_context().with_resource(_scheme_context(scheme))
    refuse(
        not real and (record or script),
        "--record and --script can be used only with a real system, whose failures may not recur",
    )
    refuse(by_property and (record or script), "--record and --script do not apply to tests of properties")
    refuse(
        by_property and (again is not None or threads > 1), "--replay and --threads do not apply to tests of properties"
    )
    refuse(threads > 1 and not examples, "--threads looks for races in random tests, but -n 0 asks for no random tests")
    request = PlanRequest(
        model=model, profile=profile, parts=parts, options=settings, properties=by_property, script=bool(script)
    )
    machine, tolerated = _planning_machine(scheme, request)
    pace = Pace(delay=_DELAY, seconds=race_seconds)
    rest = sut.partition(":")[2]
    asked_for = SutRequest(
        rest=rest, machine=machine, model=model, profile=profile, timeout=timeout, options=settings, record=record
    )
    factory = lookup.factory_of(sut, asked_for, parts)
    least = fail_on or conformance_report.default_level(machine)
    if by_property:
        run = partial(
            suite.run_property_test, factory=factory, profile=profile, examples=examples, steps=steps, chance=seed
        )
        results = _property_tests(model, only, profile, run)
        of = machine.under(tolerated)
        report = PropertyTestReport(results=results, of=of, sut=sut, profile=profile, least=least, at_least=at_least)
        tests = partial(report.cases, specification(model).path)
        options.print_report(form, text=report.text, json=report.json, cases=tests)
        return report.answer().value
    if again is not None:
        tested = suite.replay(machine, factory, replayed(again, machine.under(tolerated)), profile=tolerated, name=sut)
    else:
        with progress("testing", 1) as bar:
            tested = suite.conform(
                machine,
                factory,
                profile=tolerated,
                name=sut,
                examples=examples,
                steps=steps,
                seed=seed,
                threads=threads,
                pace=pace if real else None,
                advanced=bar.reach,
            )
    if scheme and real and not (tested.races and tested.races.gone):
        _write_script(tested, script)
        tested = scheme.repeated(asked_for, tested)
    if real:
        tested = _repeat_races(tested, factory, pace, model, record)
    counts = ",".join(f"{name}={count}" for name, count in parts.items())
    flags = {f"--{key.replace('_', '-')}": value for key, value in settings.items()}
    flags |= {"--parts": counts, "--profile": profile or ""}
    repeated_options = [word for option, value in flags.items() if value for word in (option, value)]
    command = shlex.join(["fsm", "test", model, "--against", sut, *repeated_options])
    options.print_report(
        form,
        text=partial(conformance_report.text, tested, again=command, least=least, at_least=at_least),
        json=partial(conformance_report.json, tested, again=command, least=least, at_least=at_least),
        cases=partial(conformance_report.cases, tested, least, at_least),
    )
    return conformance_report.answer(tested, least, at_least).value


def _write_script(tested: Tested, script: str | None) -> None:
    if script is not None:
        plan = tested.oracle.plan
        failures = (each for each in tested.failures if each.trace)
        named = ((words.what(each.violation) if each.violation else each.broken, each.steps) for each in failures)
        runs = [schemes.ClientRun(title=title, plan=plan, steps=steps) for title, steps in named]
        with click.open_file(script, "w", encoding="utf-8", lazy=False) as file:
            file.write(schemes.script(schemes.client_of(plan.table.machine), runs))


def _repeat_races(tested: Tested, factory: Callable[[], SUT], pace: Pace, model: str, record: str | None) -> Tested:
    if tested.races is None or not tested.races.found:
        return tested
    machine = tested.oracle.plan.table.machine
    races = tested.races.found
    if not tested.races.gone:
        races = tuple(repeated(machine, factory, race, pace) for race in races)
    for number, race in enumerate(races if record is not None else (), 1):
        if race.witness is None:
            put(history_lines(model, race.history, machine.entity), Path(str(record)))
        for end, content in race.witness.files.items() if race.witness else ():
            put(content, Path(f"{record}.race-{number}{end}"))
    return replace(tested, races=replace(tested.races, found=races))


def _property_tests(
    model: str, only: tuple[str, ...], profile: str | None, run: Callable[[Machine, Property], suite.PropertyTestResult]
) -> tuple[suite.PropertyTestResult, ...]:
    stated = as_known(specification(model), profile)
    options.require_properties(only, [stated])
    chosen = [each for each in stated.properties if not only or each.name in only]
    results = []
    with progress("testing", len(chosen)) as bar:
        for each in chosen:
            results.append(run(stated.machine, each))
            bar.advance()
    return tuple(results)


def _options(scheme: Scheme | None, given: Mapping[str, str]) -> dict[str, str]:
    values = {key: value for key, value in given.items() if value}
    own = {option.key for option in scheme.options} if scheme else set()
    for other in schemes.own_schemes():
        if wrong := next((each.name for each in other.options if each.key in values.keys() - own), ""):
            raise click.UsageError(f"{wrong} can be used only with --against {other.form}")
    return values


def _planning_machine(scheme: Scheme | None, request: PlanRequest) -> tuple[Machine, str | None]:
    """Return the machine for planning tests, and the profile to tolerate if the machine does not include it already."""
    name, profile, parts = request.model, request.profile, dict(request.parts)
    try:
        machine = scheme.machine(request) if scheme else None
    except ValueError as error:
        raise click.UsageError(str(error)) from error
    if machine:
        return machine, None
    if is_system(name):
        return flatten(options.under(load_system(name, parts), profile)), None
    if parts:
        raise click.UsageError(f"--parts can be used only with a system, but {name} is a machine")
    machine = load(name)
    options.under(machine, profile)  # An unknown profile is an error.
    return machine, profile


@contextmanager
def _scheme_context(scheme: Scheme) -> Iterator[None]:
    with scheme.during() as remaining:
        yield
        if message := remaining():
            click.echo(message, err=True)


@contextmanager
def _temporary_hypothesis_home() -> Iterator[None]:
    """Make Hypothesis store its examples in a temporary folder instead of the current folder."""
    with ScratchFolder() as folder:
        configuration.set_hypothesis_home_dir(folder)
        try:
            yield
        finally:
            configuration.set_hypothesis_home_dir(None)
