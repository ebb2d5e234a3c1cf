"""Generate ``codes.md``, ``commands.md`` and ``models.md`` of ``docs/reference``, and the figures of ``README.md``.

Everything is generated from the package. ``python tests/support/reference_pages.py --write`` writes the pages.
"""

from __future__ import annotations

import re
import sys
import textwrap
import tomllib
from pathlib import Path
from typing import TYPE_CHECKING, Final

import click
from commands import RECORDINGS

from fsm.cli import add_to_help, group
from fsm.language.codes import FAMILIES, RULES
from fsm.language.library import load, load_system, names, roles, systems
from fsm.machine.product.system import System

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from fsm.errors import Rule

ROOT: Final = Path(__file__).resolve().parent.parent.parent
README: Final = ROOT / "README.md"
REFERENCE: Final = ROOT / "docs" / "reference"
_EXIT_CODES: Final = (
    "| 0 | it holds; breaches of clauses weaker than `--fail-on` are reported as surprises |",
    "| 1 | it fails |",
    "| 2 | the input is wrong |",
    "| 3 | it is unknown: a limit was reached, a part of the input is missing, or nothing in it concerns the model |",
    "| 70 | an internal error of fsm: one line, and the traceback with `fsm --debug` |",
    "| 74 | the output could not be written |",
    "| 130 | interrupted: nothing was printed that could be taken for a verdict |",
)
_URL: Final = re.compile(r"https://container-fsm\.readthedocs\.io/en/latest/([\w/-]+)\.html")


def codes() -> Iterator[str]:
    yield from (
        "# Codes of mistakes",
        "",
        "A mistake in an input is reported with its place, what is wrong, a code, and the way out. All mistakes of a file are",
        "reported at once. `fsm explain CODE` shows offline what is said here.",
    )
    for family, about in FAMILIES.items():
        yield from ("", f"## {about}")
        for code, rule in RULES.items():
            if code.startswith(family):
                yield from _code(code, rule)


def _code(code: str, rule: Rule) -> Iterator[str]:
    yield from ("", f"### {code}", "", f"**{_marked(rule.finds)}**: {_marked(rule.why)}.")
    for label, part in (("Wrong", rule.wrong), ("Right", rule.right)):
        yield from ("", f"{label}:", "", "```text", *part.split("\n"), "```")


def _marked(text: str) -> str:
    return re.sub(r"([*`<>\[\]\\|])", r"\\\1", text)


def commands() -> Iterator[str]:
    context = click.Context(group, info_name="fsm", **group.context_settings)
    yield from (
        "# Commands",
        "",
        "What `fsm COMMAND --help` shows.",
        "",
        "| exit code | means |",
        "|---|---|",
        *_EXIT_CODES,
    )
    add_to_help(group)
    yield from _command(context, "fsm")
    for name in group.list_commands(context):
        command = group.get_command(context, name)
        assert command is not None
        yield from _command(click.Context(command, info_name=name, parent=context), f"fsm {name}")


def _command(context: click.Context, name: str) -> Iterator[str]:
    command = context.command
    usage = " ".join([name, *command.collect_usage_pieces(context)])
    yield from ("", f"## {name}", "", "```text", usage, "```", "", *_paragraphs(command.help or ""))
    records = (each.get_help_record(context) for each in command.get_params(context))
    options = [record for record in records if record and record[1]]
    if options:
        yield from ("", "| option | |", "|---|---|")
        yield from (f"| {_names(names)} | {_linked(_marked(' '.join(about.split())))} |" for names, about in options)
    yield from ("", *_paragraphs(command.epilog or "")) if command.epilog else ()


def _names(names: str) -> str:
    return f"`{names}`".replace("|", "\\|")


def _paragraphs(text: str) -> Iterable[str]:
    lines: list[str] = []
    for paragraph in re.split(r"\n\s*\n", text.strip()):
        kept = paragraph.lstrip().startswith("\b")
        body = textwrap.dedent(paragraph.replace("\b", "")).strip("\n").splitlines()
        lines += ["", "```text", *body, "```"] if kept else ["", _linked(_marked(" ".join(" ".join(body).split())))]
    return lines[1:]


def _linked(text: str) -> str:
    return _URL.sub(lambda page: f"[{page[1].rpartition('/')[2]}]({_relative(page[1])}.md)", text)


def _relative(page: str) -> str:
    return page.removeprefix("reference/") if page.startswith("reference/") else f"../{page}"


def figures() -> str:
    machines = {name: load(name) for name in names()}
    clauses = sum(len(machine.clauses) for machine in machines.values())
    files = sorted((ROOT / "properties").rglob("*.toml"))
    properties = sum(len(tomllib.loads(file.read_text(encoding="utf-8"))["property"]) for file in files)
    recordings = sum(bool(re.search(r"\.(log|jsonl)(\.gz)?$", file.name)) for file in RECORDINGS.iterdir())
    found = (ROOT / "docs" / "findings" / "README.md").read_text(encoding="utf-8").count("\n| [")
    power = (REFERENCE / "power.md").read_text(encoding="utf-8")
    (cells,) = re.findall(r"^\| \*\*all recordings\*\* \|(.*)\|$", power, re.MULTILINE)
    _, _, illegal, *_, noticed, alarms, _ = (cell.strip() for cell in cells.split("|"))
    return (
        f"- {len(machines)} machines and {len(systems())} systems of machines cite {clauses:,} clauses, each with its source.\n"
        f"- {properties:,} properties are proved, or refuted if the model says that they fail; "
        f"a shortest run demonstrates each of the [{found} findings](docs/findings/README.md).\n"
        f"- The tests judge {recordings} recordings of real runtimes, with {alarms} false alarms.\n"
        f"- Of {illegal} recordings with a planted violation, the judge [notices {noticed}](docs/reference/power.md).\n"
    )


FIGURES: Final = re.compile(
    r"(?<=<!-- figures: python tests/support/reference_pages.py --write -->\n).*?(?=<!-- end of figures -->)", re.DOTALL
)

_ROLES: Final = {
    "contract": "Contracts of interfaces",
    "implementation": "Implementations, or intended behaviour",
    "system": "Systems of machines",
    "part": "Parts of systems",
}


def models() -> Iterator[str]:
    yield from (
        "# Models",
        "",
        "These models are shipped; `fsm list` lists them too. A system has the behaviour of containerd, defects included; its",
        "profile `mended` is the correct behaviour. `fsm show NAME` shows a model, and `fsm draw NAME` draws it.",
    )
    for role, title in _ROLES.items():
        yield from ("", f"## {title}", "", "| model | is | size | profiles |", "|---|---|---|---|")
        for name in (each for each, its in roles().items() if its == role):
            model = load_system(name) if role == "system" else load(name)
            size = (
                ", ".join(f"{len(part.copies)} {part.name}" for part in model.parts.values())
                if isinstance(model, System)
                else f"{len(model.states)} states, {len(model.events)} events"
            )
            yield f"| `{name}` | {model.title} | {size} | {', '.join(model.profiles)} |"


PAGES: Final = {"codes.md": codes, "commands.md": commands, "models.md": models}


def page(name: str) -> str:
    return "\n".join(PAGES[name]()) + "\n"


if __name__ == "__main__":
    if "--write" in sys.argv[1:]:
        README.write_text(FIGURES.sub(lambda _: figures(), README.read_text(encoding="utf-8")), encoding="utf-8")
    for each in PAGES:
        if "--write" in sys.argv[1:]:
            (REFERENCE / each).write_text(page(each), encoding="utf-8")
        else:
            sys.stdout.write(page(each))
