"""The ``fsm`` command-line interface.

Each command is a separate module that is loaded on demand, so that ``fsm --help`` does not load the engines.
"""

import errno
import gc
import importlib
import io
import math
import os
import signal
import sys
import warnings
from collections import Counter
from collections.abc import Callable, Mapping
from contextlib import suppress
from copy import copy
from functools import partial
from inspect import cleandoc
from typing import Final, NoReturn

import click

from fsm import entry_points
from fsm.errors import UNDECIDED, WRONG_INPUT, InputError, linked, nearest, printable, reason, visible
from fsm.interruption import INTERNAL_ERROR, INTERRUPTION, OUT_OF_MEMORY, discard, internal

GROUPS: Final[Mapping[str, Mapping[str, str]]] = {
    "Judge recordings": {
        "judge": "Judge logs and recordings against the specification.",
        "cover": "Show which (event, state) pairs recordings cover, and how to cover the others.",
        "explore": "Write a page that walks through a model, or shows where a recording breaks it.",
        "convert": "Convert recordings to tables, which are judged faster.",
        "merge": "Combine the results of many nodes.",
    },
    "Test an implementation": {
        "init": "Create a model, its properties and a test.",
        "test": "Test an implementation against a model: a class, a process or a server.",
    },
    "Models": {
        "list": "List the models.",
        "show": "Show what each event of a model does in each state, and why.",
        "check": "Prove or refute the properties of models.",
        "findings": "List the known failures of the specification, and prove them again.",
        "mutate": "Find the errors in models and recordings that would not be noticed.",
        "simulate": "Generate a random legal trace.",
        "draw": "Draw models and recordings, or write models as tables.",
        "diff": "Compare two lifecycles: models, or drawings in comments and documents.",
        "export": "Write a model for SPIN, Graphviz, SCXML, transitions or python-statemachine.",
        "import": "Convert a machine of transitions, python-statemachine or SCXML to a model.",
        "schema": "Print the JSON Schema of model, system, property and fault files.",
    },
    "Help": {
        "explain": "Explain an error code such as FSM104, with an example.",
        "help": "Show the help of a command.",
    },
}
GENERIC: Final = frozenset(name for group in GROUPS.values() for name in group)

# Modules that several commands share. Every other command has its own module.
SHARED: Final[Mapping[str, str]] = {
    **dict.fromkeys(("list", "show", "schema", "simulate"), "model_commands"),
    **dict.fromkeys(("cover", "convert", "merge"), "recording_commands"),
    **dict.fromkeys(("export", "import", "init"), "exchange_commands"),
    **dict.fromkeys(("explain", "help"), "help_commands"),
    "findings": "check_command",
}

# Exit code for I/O errors such as a full disk, as in ``sysexits.h`` (``EX_IOERR``). There is no verdict.
CANNOT_WRITE: Final = 74

SECONDS: Final = 300  # default CPU time limit of a command, in seconds
# Default CPU time limits of commands that may take longer.
LONG: Final[Mapping[str, int]] = {
    **dict.fromkeys(("judge", "convert", "cover", "explore"), 86_400),
    **dict.fromkeys(("test", "mutate"), 3_600),
}
MEMORY: Final = 4_096  # default memory limit of a command, in MiB

WORDS: Final = "fsm.words"  # the key in :attr:`click.Context.meta` for the command's arguments

# Number of new objects that triggers a garbage collection. Reference cycles are rare, so the number can be large.
RARELY: Final = 100_000


def groups(*, foreign: bool = False) -> dict[str, dict[str, str]]:
    declared = [*entry_points.own_objects(entry_points.COMMANDS, entry_points.DomainCommand)]
    if foreign:
        declared += entry_points.foreign_objects(entry_points.COMMANDS, entry_points.DomainCommand)
    *before, (last, helping) = GROUPS.items()
    found = {heading: dict(own) for heading, own in before}
    for name, command in declared:
        if name not in GENERIC:
            found.setdefault(command.heading, {})[name] = command.about
    return found | {last: dict(helping)}


def _domain_command(name: str) -> entry_points.DomainCommand | None:
    return None if name in GENERIC else entry_points.find(entry_points.COMMANDS, name, entry_points.DomainCommand)


def commands(*, foreign: bool = False) -> dict[str, str]:
    return {name: about for group in groups(foreign=foreign).values() for name, about in group.items()}


def add_to_help(command: click.Command, name: str = "", *, foreign: bool = False) -> None:
    """Add the examples of fsm's domains to the help of *command*, and if *foreign* is true, those of other packages.

    ``{rows}`` is replaced by a table of the rows that the function ``rows`` in the command's module returns.
    """
    lines = (line for domain in entry_points.domains(foreign=foreign) for line in domain.examples.get(name, ()))
    text: str = vars(command).setdefault("help as written", linked(cleandoc(command.help or "")))
    if "{rows}" in text:
        rows = importlib.import_module(f"fsm.cli.{name}_command").rows(foreign=foreign)
        widest = max(map(len, rows))
        table = "\n".join(["\b", *(f"{row:<{widest}}  {about}" for row, about in rows.items())])
        text = text.replace("{rows}", table)
    vars(command)["help"] = "\n".join([text, *lines])


def _call_and_print(callback: Callable[..., object], *arguments: object, **options: object) -> int:
    found = callback(*arguments, **options)
    if isinstance(found, int):
        return found
    if found is not None:
        click.echo(importlib.import_module("fsm.report.layout").data_text(found), nl=False)
    return 0


class _Commands(click.Group):
    def list_commands(self, ctx: click.Context) -> list[str]:
        del ctx
        return list(commands())

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        del ctx
        command: click.Command
        if cmd_name in GENERIC:
            module = SHARED.get(cmd_name, "")
            found = importlib.import_module(f"fsm.cli.{module or f'{cmd_name}_command'}")
            command = getattr(found, f"{cmd_name}_command" if module else "command")
        elif declared := _domain_command(cmd_name):
            command = copy(entry_points.loaded(declared.target))
            command.callback = partial(_call_and_print, command.callback or (lambda: 0))
        else:
            return None
        for parameter in command.params:
            if text := getattr(parameter, "help", None):
                vars(parameter)["help"] = linked(text)
        add_to_help(command, cmd_name)
        return command

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        if not args[0].startswith("-") and self.get_command(ctx, args[0]) is None:
            ctx.fail(f"no command '{args[0]}': {nearest(args[0], commands(foreign=True), of='commands')}")
        ctx.meta[WORDS] = tuple(args[1:])
        name, command, rest = super().resolve_command(ctx, args)
        if command is not None and {"-h", "--help"} & {*rest}:
            add_to_help(command, name or "", foreign=True)
        if command is not None and not ctx.resilient_parsing:
            own = click.Context(command, info_name=name, parent=ctx)
            _, _, given = command.make_parser(own).parse_args(list(rest))
            for option, times in Counter(given).items():
                if isinstance(option, click.Option) and times > 1 and not (option.multiple or option.is_flag):
                    own.fail(f"{option.opts[0]} is given {times} times, but accepts only one value; give it once")
        return name, command, rest

    def format_help_text(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        add_to_help(self, foreign=True)
        super().format_help_text(ctx, formatter)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        del ctx
        found = groups(foreign=True)
        widest = max(len(name) for group in found.values() for name in group)
        for title, group in found.items():
            with formatter.section(title):
                formatter.write_dl([(name.ljust(widest), about) for name, about in group.items()])


@click.group(
    cls=_Commands,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100, "show_default": True},
    epilog="Exit codes: 0 holds, 1 fails, 2 wrong input, 3 unknown, 70 internal error, 74 the output could not be "
    "written, 130 interrupted.\n\n"
    'Completion: eval "$(_FSM_COMPLETE=bash_source fsm)", or zsh_source, fish_source.',
)
@click.version_option(None, "-V", "--version", package_name="container-fsm", message="fsm %(version)s")
@click.option("--debug", is_flag=True, expose_value=False, help="Print the traceback of an error of fsm itself.")
@click.option(
    "--seconds",
    type=click.FloatRange(0.01),
    metavar="N",
    help=f"Stop with exit code 3 after N seconds of computing. Default: {SECONDS}, an hour for test and mutate, "
    "a day for judge, convert, cover and explore, no limit for commands that run until they are stopped.",
)
@click.option(
    "--memory",
    type=click.IntRange(64, 1 << 32),
    metavar="MIB",
    default=MEMORY,
    help="Stop with exit code 3 if the command needs more memory than this. Each process that it starts may use as "
    "much again.",
)
@click.option(
    "--no-plugins",
    is_flag=True,
    is_eager=True,
    expose_value=False,
    callback=lambda _context, _option, asked: os.environ.update({entry_points.OFF: "1"} if asked else {}),
    help=f"Leave out what other packages add. The same as setting {entry_points.OFF}.",
)
@click.pass_context
def group(ctx: click.Context, seconds: float | None, memory: int) -> None:
    """Executable lifecycle specifications: is this behaviour legal?

    A lifecycle is written once, as a table of states and events. fsm judges recordings against it, tests
    implementations, and proves properties. For each violation it prints the reason, what would have been legal, and
    the clause that it breaks.

    \b
    fsm judge doors.jsonl
    fsm show models/door.toml --event push
    """
    if os.environ.get("NO_COLOR") or os.environ.get("TERM") == "dumb":
        ctx.color = False
    command = ctx.invoked_subcommand or ""
    declared = _domain_command(command)
    most = seconds or (math.inf if declared and declared.endless else LONG.get(command, SECONDS))
    ctx.with_resource(INTERRUPTION.limited(most, memory << 20))


def _warn(
    message: Warning | str, category: type[Warning], filename: str, lineno: int, *_: object, **__: object
) -> None:
    """Print a warning. Warnings about plugins have no location, because users did not write that code."""
    plain = issubclass(category, entry_points.PluginWarning)
    _report(f"warning: {visible(str(message))}" if plain else f"{filename}:{lineno}: {category.__name__}: {message}")


def main() -> None:
    warnings.showwarning = _warn
    # Let SIGPIPE end this process if the reader is gone, as with "| head".
    with suppress(AttributeError):  # Windows has no SIGPIPE
        signal.signal(signal.SIGPIPE, signal.SIG_DFL)
    gc.set_threshold(RARELY)
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout = _add_buffer(sys.stdout)
        sys.stdout.reconfigure(errors="replace")  # File names and terminals may not use UTF-8.
    try:
        answer = group.main(standalone_mode=False)
        if sys.stdout is not None:  # The stream is None if the caller closed it.
            sys.stdout.flush()
        INTERRUPTION.settle(answer if isinstance(answer, int) else 0)
    except click.Abort as error:  # click raises this for an interrupt.
        raise KeyboardInterrupt from error
    except Exception as error:  # noqa: BLE001  (an error in fsm must not look like a verdict)
        _exit_with_error(error)
    sys.exit(answer if isinstance(answer, int) else 0)


def _add_buffer(stream: io.TextIOWrapper) -> io.TextIOWrapper:
    """Add a buffer to *stream* if PYTHONUNBUFFERED removed it. A raw file loses data when the disk is full."""
    if not isinstance(stream.buffer, io.RawIOBase):
        return stream
    whole = open(stream.fileno(), "wb", closefd=False)  # noqa: SIM115  (it stays open to the end)
    return io.TextIOWrapper(whole, stream.encoding, line_buffering=True)


def _text_with_links(error: InputError) -> str:
    text, links = str(error), {problem.code: problem.link for problem in error.problems}
    for code, link in links.items():
        text = text.replace(f"[{code}]", f"[\x1b]8;;{link}\x1b\\{code}\x1b]8;;\x1b\\]")
    return f"{text}\nmore about it: fsm explain {' '.join(links)}"


def _exit_with_error(error: Exception) -> NoReturn:
    for each in (error, error.__cause__):  # The cause of an InputError may be a lack of memory.
        if isinstance(each, MemoryError) or getattr(each, "errno", None) == errno.ENOMEM:
            _fail(OUT_OF_MEMORY, UNDECIDED)
    match error:
        case InputError():
            plain = os.environ.get("NO_COLOR") or os.environ.get("TERM", "dumb") in {"dumb", "linux"}
            links = not plain and sys.stderr is not None and sys.stderr.isatty()
            _report(_text_with_links(error) if links else str(error))
        case click.ClickException():
            # The message of NoArgsIsHelpError is the help. Older versions of click do not have this exception.
            if type(error).__name__ != "NoArgsIsHelpError":
                vars(error).update(message=printable(error.message))  # The message may quote user input.
            _report(error.show)
        case OSError(errno=int()):  # Other OSErrors come from a library that cannot be loaded.
            _fail(f"could not write: {reason(error)}", CANNOT_WRITE)
        case _:
            _fail(internal(error), INTERNAL_ERROR)
    sys.exit(WRONG_INPUT)


def _fail(message: str, code: int) -> NoReturn:
    _report(message)
    discard(sys.stdout)
    sys.exit(code)


def _report(message: str | Callable[[], None]) -> None:
    try:
        if isinstance(message, str):
            click.echo(message, err=True)
        else:
            message()
    except OSError:
        discard(sys.stderr)
