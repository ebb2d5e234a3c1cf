"""Lay out text reports with wrapped lines, colours and evidence."""

import textwrap
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import fields, is_dataclass
from functools import wraps
from typing import Final, ParamSpec

from fsm.errors import visible
from fsm.machine import Clause
from fsm.machine.findings import Violation
from fsm.report import ExitCode, words

LABEL: Final = 11  # width of the label column
_NARROWEST: Final = 40
# Colours of result words. Other marked words are bold.
COLOURS: Final[Mapping[str, str]] = {
    "holds": "green",
    "known": "blue",
    "fails": "red",
    "FAILS": "red",
    "MENDED": "red",
    "violation": "red",
    "surprise": "yellow",
    "tolerated deviation": "cyan",
    **dict.fromkeys(("unknown", "vacuous", "undecided", "not exercised", "not watched"), "yellow"),
    "equal": "green",
    "different": "red",
    **dict.fromkeys(("kills nothing", "survives", "missed"), "red"),
}


_Given = ParamSpec("_Given")


def joined(lines: Callable[_Given, Iterable[str]]) -> Callable[_Given, str]:
    """Decorate a function that yields lines, so that it returns them as a string that ends with a newline."""

    @wraps(lines)
    def text(*given: _Given.args, **named: _Given.kwargs) -> str:
        return "\n".join(lines(*given, **named)) + "\n"

    return text


def plain(text: str, _: str) -> str:
    return text


class Layout:
    """Formats text in lines of *width* columns. ``style(text, how)`` makes text bold or coloured."""

    def __init__(self, *, width: int = 100, style: Callable[[str, str], str] = plain) -> None:
        self.width = max(width, _NARROWEST)
        self.style = style

    def verdict(self, total: ExitCode, *, pad: int = 0) -> str:
        return self.style(f"{total.word:<{pad}}", COLOURS[total.word])

    def reasons(self, violation: Violation, *, edits: bool = True) -> Iterator[str]:
        yield from self.rows(
            ("in state", words.before(violation)),
            ("expected", words.allowed(violation)),
            ("lines", words.places(violation)),
        )
        yield from self.clause(violation.clause)
        yield from self.remedies(violation, edits=edits)

    def remedies(self, violation: Violation, *, edits: bool = True) -> Iterator[str]:
        links = dict.fromkeys(deviation.link for deviation in violation.resembles)
        yield from self.rows(
            ("legal if", words.edits(violation) if edits else ""),
            *(("known", known) for known in words.known(violation)),
            *(("", link) for link in links),
        )

    def clause(self, clause: Clause) -> Iterator[str]:
        yield from self.rows(("clause", words.clause(clause)), ("source", clause.source), ("", clause.link))

    def rows(self, *rows: tuple[str, str]) -> Iterator[str]:
        """Lay out labelled values. Empty values are left out."""
        for label, value in rows:
            lead = f"    {label:<{LABEL}}"
            yield from self.wrapped(value, lead, " " * len(lead)) if value else ()

    def wrapped(
        self, value: str, first: str = "  ", rest: str | None = None, *, marked: str = "", how: str = ""
    ) -> list[str]:
        """Wrap *value* as :meth:`kept` does, but collapse spaces. By default, *rest* is *first* and four blanks."""
        rest = f"{first}    " if rest is None else rest
        return self.kept(visible(" ".join(value.split())), first, rest, marked=marked, how=how)

    def notes(self, *texts: str, first: str = "  ") -> Iterator[str]:
        """Wrap each of *texts*, except empty texts."""
        for text in texts:
            yield from self.wrapped(text, first)

    def kept(
        self, text: str, first: str = "  ", rest: str | None = None, *, marked: str = "", how: str = ""
    ) -> list[str]:
        """Wrap *text* without collapsing spaces or splitting long words.

        The first line is prefixed with *first*, and all others with *rest*, which defaults to *first*. *marked* is a
        word to highlight in the first line, in the style *how*. By default, the style is the colour of the result that
        *marked* names, or bold if it names no result.

        >>> Layout(width=40).kept("nothing-is-left holds in all  of its states", "- ", "  ")
        ['- nothing-is-left holds in all  of its', '  states']
        """
        lines = textwrap.wrap(
            text,
            self.width,
            initial_indent=first,
            subsequent_indent=first if rest is None else rest,
            break_long_words=False,
            break_on_hyphens=False,
        )
        if lines and marked:
            how = how or COLOURS.get(marked.rstrip(), "bold")
            lines[0] = lines[0].replace(marked, self.style(marked, how), 1)
        return lines


PLAIN: Final = Layout()  # 100 columns, no colours


def data_text(data: object) -> str:
    """Format data for the terminal. A mapping or dataclass has one line per field.

    A sequence of mappings or dataclasses becomes a table.

    >>> print(data_text([{"job": "a", "state": "done"}, {"job": "b2", "state": "queued"}]), end="")
    job  state
    a    done
    b2   queued
    >>> print(data_text({"jobs": 2}), end="")
    jobs  2
    """
    if isinstance(data, Sequence) and not isinstance(data, str):
        records = [_record(each) for each in data]
        names = list(dict.fromkeys(name for named in records for name in named))
        return _table([names, *([each.get(name, "") for name in names] for each in records)]) if names else ""
    return _table([name, value] for name, value in _record(data).items())


def _record(data: object) -> dict[str, str]:
    if isinstance(data, Mapping):
        pairs = data.items()
    elif is_dataclass(data) and not isinstance(data, type):
        pairs = {field.name: getattr(data, field.name) for field in fields(data)}.items()
    else:
        pairs = {"": data}.items()
    return {str(name): visible(str(value)) for name, value in pairs}


def _table(rows: Iterable[Sequence[str]]) -> str:
    rows = list(rows)
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    lines = ("  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)) for row in rows)
    return "".join(f"{line.rstrip()}\n" for line in lines)
