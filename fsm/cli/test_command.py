"""``fsm test``: test an implementation against a machine."""

import shlex
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Final

import click
from hypothesis import configuration

from fsm.checker import as_known
from fsm.cli import completion
from fsm.cli.options import (
    asked,
    at_least_option,
    cases_format_option,
    layout,
    of_one,
    parts_option,
    profile_option,
    progress,
    property_option,
    shims_told,
    text_option,
    told,
    under,
)
from fsm.cli.output import put
from fsm.cli.replay import replayed
from fsm.conformance import suite
from fsm.conformance.concurrency import repeated
from fsm.conformance.lookup import DAMAGED, NODE, ONE_POD, RELAYED, RuntimeOptions, find, node
from fsm.conformance.property_tests import PropertyTestResult, run_property_test
from fsm.conformance.race_runs import Pace
from fsm.language.library import is_system, load, load_system, specification
from fsm.machine import LEVELS, Level, Machine
from fsm.machine.product.flatten import flatten
from fsm.machine.property.claims import Property
from fsm.recordings.pod_calls import POD
from fsm.report import conformance_report, crictl, words
from fsm.report.cases import of_property_tests, of_test
from fsm.report.history_lines import written
from fsm.report.property_report import PropertyTestReport
from fsm.scratch import ScratchFolder
from fsm.sut import SUT

if TYPE_CHECKING:
    from fsm.conformance.tested import Tested  # at run time, pytest would collect this class as a test

_DELAY: Final = 0.05
"""Maximum random delay, in seconds, of a thread before it calls a runtime. Most calls take about as long."""


@click.command("test")
@click.argument("model", shell_complete=completion.models_and_systems)
@click.option(
    "--against",
    "-a",
    "sut",
    required=True,
    metavar="SUT",
    shell_complete=completion.suts,
    help="Implementation to test: reference, python:MODULE:FACTORY, exec:COMMAND, cri:ADDRESS, nri-plugin:COMMAND, or "
    "model:MODEL; see above.",
)
@profile_option("Tolerate the declared deviations of this profile.")
@click.option("--examples", "-n", type=click.IntRange(min=0), default=100, help="Number of tests with random steps.")
@click.option("--steps", type=click.IntRange(min=1), default=50, help="Maximum steps of each random test.")
@click.option("--seed", type=int, default=0, help="Seed of the random tests.")
@click.option(
    "--threads",
    type=click.IntRange(min=1, max=8),
    default=1,
    help="Also call SUT from up to this many threads concurrently, to find races; with --nri, races in the events sent "
    "to a plugin.",
)
@click.option(
    "--race-seconds",
    type=click.FloatRange(min=1),
    default=60,
    metavar="SECONDS",
    help="Search this long for races of a runtime.",
)
@click.option(
    "--timeout",
    type=click.FloatRange(min=0.001),
    metavar="SECONDS",
    help="Time limit for each answer of SUT. Default: 5 for a process, 10 for a container runtime, 2 for an NRI "
    "plugin, none for Python code.",
)
@click.option("--replay", "again", metavar="STEPS", help="Take only these steps, as printed with a failure.")
@click.option("--properties", is_flag=True, help="Test each property of MODEL instead, like the pytest plugin.")
@property_option("Test this property instead; may be repeated.")
@parts_option("Copies of the parts of a system, such as pod=1,container=1. Default: those in its file.")
@text_option(
    "--nri",
    metavar="ADDRESS",
    help="Socket where the runtime accepts NRI plugins: connect a plugin, and judge the events that it receives. For "
    "node, tested with one pod and one container, and for nri-container, nri-pod, plugin-container, plugin-pod and "
    "nri-plugin-contract.",
)
@text_option(
    "--answers",
    metavar="python:MODULE:CLASS",
    help="Class that judges the answers of an NRI plugin; see docs/how-to/nri.md.",
)
@text_option(
    "--image",
    help="Image for the containers of a runtime; it needs sh. Default: busybox, which fsm makes from the host's static "
    "/bin/busybox if containerd lacks it, and removes afterwards.",
)
@text_option(
    "--restart-command",
    metavar="COMMAND",
    help="Command that restarts the runtime. Without it or --kill-command, restarts are not tested.",
)
@text_option(
    "--kill-command",
    metavar="COMMAND",
    help="Command that kills the runtime and starts it again, to cut calls off after 3 ms, 18 ms, 33 ms and so on.",
)
@text_option(
    "--damage-command",
    metavar="COMMAND",
    help="Command that stops the runtime, damages what it keeps of a container, and starts it again. {container} "
    "stands for the container's id.",
)
@click.option(
    "--record",
    type=click.Path(dir_okay=False),
    metavar="FILE",
    help="Repeat the failed tests of a runtime, and write their calls to FILE, for 'fsm judge'.",
)
@click.option(
    "--script",
    type=click.Path(dir_okay=False),
    metavar="FILE",
    help="Write the failed tests of a runtime to FILE, as a shell script for crictl.",
)
@click.option(
    "--fail-on",
    type=click.Choice(LEVELS[::-1]),
    help="Weakest level of a clause whose breach counts as a violation. Default: MUST, or observed if no clause is a "
    "MUST.",
)
@at_least_option
@cases_format_option
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
    nri: str,
    answers: str,
    image: str,
    restart_command: str,
    kill_command: str,
    damage_command: str,
    record: str | None,
    script: str | None,
    fail_on: Level | None,
    at_least: float,
    form: str,
    only: tuple[str, ...],
    *,
    properties: bool,
) -> int:
    """Test an implementation, called SUT (system under test), against a model.

    MODEL is a name from 'fsm list' or the path of a model file. A system is tested as the one machine that its parts
    form together. The test aims at every step of the machine in every state, whether legal, ignored, refused or
    unspecified, and the steps that follow show whether SUT is in the right state. If all of that is legal, tests with
    random steps follow. A failure is shrunk, and reported with what would have been legal. SUT is one of:

    \b
    reference              the reference implementation
    python:MODULE:FACTORY  what FACTORY() returns, see docs/how-to/conformance.md
    exec:COMMAND           a process that speaks the protocol of docs/reference/exec-protocol.md
    cri:ADDRESS            a container runtime at a Unix socket; example below
    nri-plugin:COMMAND     an NRI plugin, see docs/how-to/nri.md
    nri-plugin:unix:///SOCKET
                           an NRI plugin that connects to SOCKET
    model:MODEL            another machine, simulated

    \b
    fsm test container-status --against reference
    fsm test models/door.toml --against exec:./door.sh
    fsm test cri-container --against model:container-status
    fsm test cri-container --against cri:unix:///run/containerd/containerd.sock --profile containerd-1.7
    fsm test nri-plugin-contract --against cri:unix:///run/containerd/containerd.sock --nri unix:///var/run/nri/nri.sock
    fsm test cri-pod --against model:pod-sandbox --properties
    """
    click.get_current_context().with_resource(_hypothesis_elsewhere())
    real = sut.startswith("cri:")
    if real:
        click.get_current_context().with_resource(shims_told())
    if not real and (image or restart_command or kill_command or damage_command or record or script or nri):
        names = "--image, --nri, --restart-command, --kill-command, --damage-command, --record and --script"
        raise click.UsageError(f"{names} are for real runtimes: --against cri:…")
    if answers and not sut.startswith("nri-plugin:"):
        raise click.UsageError("--answers is for plugins: --against nri-plugin:…")
    idle = threads > 1 and not examples
    _refuse(nri, kill=kill_command, script=script, record=record, properties=properties or bool(only), idle=idle)
    machine, tolerated = _relayed(model, profile, parts) if nri else _tested(model, profile, parts)
    _refuse_damage(damage_command, machine, restarts=bool(restart_command or kill_command))
    commands = {"restart_command": restart_command, "kill_command": kill_command, "damage_command": damage_command}
    runtime = RuntimeOptions(image=image, nri=nri, judge=model if nri else "", profile=profile, **commands)
    pace = Pace(delay=_DELAY, seconds=race_seconds)
    factory = find(sut, machine, profile=profile, timeout=timeout, runtime=runtime, counts=parts, answers=answers)
    least = fail_on or conformance_report.default_level(machine)
    if properties or only:
        if again is not None or threads > 1:
            raise click.UsageError("--replay and --threads are for the test of the machine, not of its properties")
        run = partial(run_property_test, factory=factory, profile=profile, examples=examples, steps=steps, chance=seed)
        results = _property_tests(model, only, profile, run)
        of = machine.under(tolerated)
        report = PropertyTestReport(results=results, of=of, sut=sut, profile=profile, least=least, at_least=at_least)
        tests = partial(of_property_tests, report, specification(model).path)
        told(form, text=lambda: report.text(layout()), json=report.json, cases=tests)
        return report.answer().value
    counts = ",".join(f"{name}={count}" for name, count in parts.items())
    options = {"--answers": answers, "--nri": nri, "--image": image, "--parts": counts, "--profile": profile}
    options |= {f"--{name.replace('_', '-')}": value for name, value in commands.items()}
    given = [word for option, value in options.items() if value for word in (option, value)]
    command = shlex.join(["fsm", "test", model, "--against", sut, *given])
    if again is not None:
        tested = suite.replay(machine, factory, replayed(again, machine.under(tolerated)), profile=tolerated, name=sut)
    else:
        with progress("testing", 1) as bar:

            def advanced(done: int, whole: int) -> None:
                bar.length = whole
                bar.update(done - bar.pos)

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
                advanced=advanced,
            )
    if real and not (tested.races and tested.races.gone):
        tested = _written(tested, sut.removeprefix("cri:"), runtime, timeout=timeout, record=record, script=script)
    if real:
        tested = _raced(tested, factory, pace, model, record)
    told(
        form,
        text=lambda: conformance_report.text(tested, layout(), again=command, least=least, at_least=at_least),
        json=lambda: conformance_report.json(tested, again=command, least=least, at_least=at_least),
        cases=lambda: of_test(tested, least, at_least),
    )
    return conformance_report.answer(tested, least, at_least).value


def _written(
    tested: "Tested",
    address: str,
    runtime: RuntimeOptions,
    *,
    timeout: float | None,
    record: str | None,
    script: str | None,
) -> "Tested":
    """Repeat the failures of the runtime at *address* to count how often each recurs. Write *record* and *script*."""
    live = import_module("fsm.runtimes.live.runtime_sut")
    plan, machine = tested.oracle.plan, tested.oracle.plan.table.machine
    if script is not None:
        runs = [
            crictl.ClientRun(
                title=words.what(each.violation) if each.violation else each.broken, plan=plan, steps=each.steps
            )
            for each in tested.failures
            if each.trace
        ]
        with click.open_file(script, "w", encoding="utf-8", lazy=False) as file:
            file.write(crictl.script(runs))

    def make(seen: Callable[..., object] | None) -> SUT:
        made: SUT = live.factory(address, machine, runtime, timeout=timeout, seen=seen)()
        return made

    return replace(tested, failures=live.confirmed(make, machine, tested.failures, record=record))


def _raced(tested: "Tested", factory: Callable[[], SUT], pace: Pace, model: str, record: str | None) -> "Tested":
    """Repeat each race in *tested* to count how often it recurs. Write races to *record*, or to files next to it."""
    if tested.races is None or not tested.races.found:
        return tested
    machine = tested.oracle.plan.table.machine
    races = tested.races.found
    if not tested.races.gone:
        races = tuple(repeated(machine, factory, each, pace) for each in races)
    for number, race in enumerate(races if record is not None else (), 1):
        if race.witness is None:
            put(written(model, race.history, machine.entity), Path(str(record)))
        for end, content in race.witness.files.items() if race.witness else ():
            put(content, Path(f"{record}.race-{number}{end}"))
    return replace(tested, races=replace(tested.races, found=races))


def _property_tests(
    model: str, only: tuple[str, ...], profile: str | None, run: Callable[[Machine, Property], PropertyTestResult]
) -> tuple[PropertyTestResult, ...]:
    stated = as_known(specification(model), profile)
    asked([stated], only)
    chosen = [each for each in stated.properties if not only or each.name in only]
    results = []
    with progress("testing", len(chosen)) as bar:
        for each in chosen:
            results.append(run(stated.machine, each))
            bar.update(1)
    return tuple(results)


def _refuse(nri: str, *, kill: str, script: str | None, record: str | None, properties: bool, idle: bool) -> None:
    if nri and (script or properties or kill):
        raise click.UsageError("--nri is for whole calls: leave out --script, --kill-command, --properties, --property")
    if (record or script) and properties:
        raise click.UsageError("--record and --script are for the test of the machine, not of its properties")
    if idle and not properties:  # with properties, --threads is refused anyway
        raise click.UsageError("--threads looks for races in tests in random order, of which -n 0 asks for none")


def _refuse_damage(command: str, machine: Machine, *, restarts: bool) -> None:
    if not command:
        return
    if machine.entity == POD:
        raise click.UsageError(
            f"--damage-command is for what a runtime keeps of containers, and {machine.name} is of pods"
        )
    if DAMAGED not in command:
        raise click.BadParameter(f"has no {DAMAGED}, for the id of the container", param_hint="--damage-command")
    if not restarts:
        raise click.UsageError("--damage-command is for some restarts: say --restart-command for the others")


def _relayed(name: str, profile: str | None, parts: dict[str, int]) -> tuple[Machine, None]:
    """Check *name*, the model that judges, and *profile*. Return the machine that plans the test with a plugin."""
    if name != NODE and name not in RELAYED:
        raise click.UsageError(f"--nri is for {NODE}, {', '.join(RELAYED)}: leave it out, or name one of these")
    if parts and ONE_POD | parts != ONE_POD:
        raise click.UsageError("a runtime is tested with --parts pod=1,container=1")
    if name == NODE:
        system = load_system(name)
        machines = (part.machine.profiles for part in system.parts.values())
        of_one([profile], [system.profiles, *machines])
    elif is_system(name):
        under(load_system(name), profile)
    else:
        under(load(name), profile)
    return node(profile), None


def _tested(name: str, profile: str | None, parts: dict[str, int]) -> tuple[Machine, str | None]:
    if is_system(name):
        return flatten(under(load_system(name, parts), profile)), None
    if parts:
        raise click.UsageError(f"--parts is for systems, and {name} is a machine")
    machine = load(name)
    under(machine, profile)  # refuses an unknown profile
    return machine, profile


@contextmanager
def _hypothesis_elsewhere() -> Iterator[None]:
    with ScratchFolder() as folder:
        configuration.set_hypothesis_home_dir(folder)
        try:
            yield
        finally:
            configuration.set_hypothesis_home_dir(None)
