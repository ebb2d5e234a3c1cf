"""Suggested properties, as TOML to append to a property file."""

from collections.abc import Iterable, Iterator
from textwrap import wrap

import tomlkit

from fsm.mutation.suggestions import CATCHES, Suggested, Suggestion, table_of
from fsm.report import ExitCode
from fsm.report.mutation_report import Mutated
from fsm.report.words import plural

WIDEST = 116


def answer(suggested: Suggested) -> ExitCode:
    """Return the exit code, which is a failure if any survivor is left."""
    return ExitCode.FAILS if suggested.left else ExitCode.HOLDS


def toml(suggested: Suggested, mutated: Mutated) -> str:
    """Return the suggestions as TOML, best first, or a complete property file if the machine has none yet."""
    machine = mutated.specification.machine.name
    survivors = len(mutated.survivors)
    head = [f"{plural(len(mutated.outcomes), 'mutant')} of {machine}, {plural(survivors, 'survivor')}."]
    if suggested.suggestions:
        head.append(
            f"{plural(len(suggested.suggestions), 'property')} would kill {survivors - len(suggested.left):,} of them; "
            "each is proved of the model. Accept one in your own words, or delete it."
        )
    lines = [*_comment(" ".join(head)), ""]
    if not mutated.specification.path:
        lines += [f'machine = "{machine}"', ""]
    for each in suggested.suggestions:
        lines += _property(each)
    if suggested.left:
        lines += [
            *_comment(
                f"For {plural(len(suggested.left), 'survivor')} there is no suggestion: say what is meant there."
            ),
            *_cells(suggested.left),
            "",
        ]
    if equal := [each.mutant.name for each in mutated.equivalent]:
        lines += _comment(
            f"{plural(len(equal), 'mutant')} need no property: no observation distinguishes them from the model."
        )
        lines += [*_cells(equal), ""]
    return "\n".join(lines[:-1]) + "\n"


def _property(suggestion: Suggestion) -> Iterator[str]:
    yield from _comment(f"kills {plural(len(suggestion.kills), 'survivor')}:")
    yield from _cells(suggestion.kills)
    table = table_of(suggestion.candidate, suggestion.kills[:CATCHES], suggestion.fails)
    yield from tomlkit.dumps({"property": {suggestion.candidate.name: table}}).splitlines()
    yield ""


def _cells(mutants: Iterable[str]) -> Iterator[str]:
    """Yield the changes of *mutants*, grouped by cell.  Cells of an event with the same changes share a line."""
    cells: dict[str, list[str]] = {}
    for each in mutants:
        where, _, change = each.partition(": ")
        cells.setdefault(where, []).append(change)
    alike: dict[tuple[str, tuple[str, ...]], list[str]] = {}
    for where, changes in cells.items():
        event, _, state = where.rpartition(" in ")
        alike.setdefault((event, tuple(changes)), []).append(state)
    for (event, what), states in alike.items():
        yield from _comment(f"  {event} in {', '.join(states)}: {', '.join(what)}")


def _comment(text: str) -> list[str]:
    """Return *text* as comments.  Continuation lines of an indented text are indented by four more spaces."""
    indent = " " * (len(text) - len(text.lstrip()))
    lines = wrap(text, WIDEST, initial_indent=indent, subsequent_indent=f"{indent}    " if indent else "")
    return [f"# {line}" for line in lines]
