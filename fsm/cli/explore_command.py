"""``fsm explore``: write an HTML page about a model or a recording."""

import sys
from functools import partial
from pathlib import Path

import click

from fsm.checker import examine
from fsm.cli import options
from fsm.cli.check_command import search_ending
from fsm.cli.options import refuse
from fsm.cli.output import drawing, judge_with_stories, progress, put, read_again, same
from fsm.command_options import profile_option
from fsm.errors import UNDECIDED, is_file
from fsm.interruption import INTERRUPTION
from fsm.language.library import load_any, names_a_model
from fsm.machine import Machine
from fsm.machine.evidence import Examined
from fsm.machine.product.system import System
from fsm.monitor.judgement import judge
from fsm.recordings.line_reader import STDIN
from fsm.report import Report
from fsm.report.page import html, model_page


@click.command("explore")
@click.argument("name", metavar="MODEL|FILE", shell_complete=options.complete_models_and_systems)
@options.page_option("Page to write, completely or not at all. Optional if standard output is not a terminal.")
@profile_option(
    "Show this profile first, for a model; its page has all profiles. For a recording, judge under this profile."
)
@click.option(
    "--properties/--no-properties",
    default=True,
    help="Whether to check the properties of a model, which takes most of the time.",
)
def command(name: str, profile: str | None, output: Path | None, *, properties: bool) -> int:
    """Write a page about a model or a recording, as a self-contained HTML file for any browser.

    MODEL is a machine or a system from 'fsm list'. FILE is a model file, or a recording that 'fsm judge' can read. The
    page of a model shows its state chart, every event in every state with its clause and the changes of each profile, a
    step-by-step walk, and the properties with runs that prove or refute them. The page of a recording shows the
    findings, and the history of its entities. The address of the page always leads back to the current view.

    \b
    fsm explore models/door.toml -o door.html
    fsm explore doors.jsonl -o what-happened.html
    """
    refuse(
        output is None and sys.stdout.isatty(),
        "a terminal cannot show a page; write the page to a file with -o PAGE.html, or to a pipe",
    )
    refuse(is_file(name) and same(name, output), "the page would overwrite the input; name another file", "--output")
    is_model = names_a_model(name) or not (name == STDIN or Path(name).exists() or "/" in name or "." in name)
    with drawing():  # An unknown name is an error that suggests similar names.
        written, code = _model(name, profile, properties=properties) if is_model else (_recording(name, profile), 0)
    put(written.encode("utf-8", "replace"), output)
    return code


def _recording(name: str, profile: str | None) -> str:
    with read_again((name,)) as rewind, progress("judging", 2 * options.sizes((name,))) as bar:
        judge_again = partial(judge, name, profile=profile, advanced=bar.advance)
        return html(Report(judged=(judge_with_stories(judge_again(), rewind, judge_again),)))


def _model(name: str, profile: str | None, *, properties: bool) -> tuple[str, int]:
    """Return the page and the exit code. The code is 3 if a limit was reached before all properties were checked."""
    model = load_any(name)
    options.require_profiles([profile], [model.profiles])
    model.under(profile)  # Contradictory profiles are an error.
    examined, code = _examine_model(model, profile) if properties else ([], 0)
    return model_page(model, examined, profile=profile), code


def _examine_model(model: Machine | System, profile: str | None) -> tuple[list[Examined], int]:
    stated = options.claims_or_none(model.path)
    if stated is None:
        return [], 0
    profiles = dict.fromkeys((None, *model.profiles, profile))
    with INTERRUPTION.soft_limits() as excess, progress("checking", len(profiles) * len(stated.properties)) as bar:
        ending = search_ending(bar, excess)
        found = [examine(stated, own, ending=ending, advanced=bar.advance) for own in profiles]
        if over := excess():
            click.echo(over, err=True)
    return found, UNDECIDED if over else 0
