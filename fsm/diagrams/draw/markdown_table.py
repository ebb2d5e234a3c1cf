"""Write all cells of a machine as a Markdown table."""

import re
from collections.abc import Collection
from typing import assert_never

from fsm.diagrams.draw.picture import Marks
from fsm.errors import plural
from fsm.machine import Cannot, Cell, Ignores, Machine, Moves, Outcome, Refuses, Silent

LEGEND = (
    "`→` moves to, and replies `ok` unless another reply is given; `…` a call has begun and is in progress; "
    "`·` ok, nothing changes; `✗` an error, nothing changes; `—` does not happen; `?` not specified; "
    "`/` emits. Rows with `…` are the ends of a call that has begun."
)


def markdown(machine: Machine, *, events: Collection[str] | None = None, marks: Marks | None = None) -> str:
    """Return all cells of *machine* as a table with a row for each event.

    If *marks* is given, each cell shows how often it was used.

    >>> from fsm.language.library import load
    >>> markdown(load("examples/models/door.toml")).splitlines()[0]
    '# A door'
    """
    states = list(machine.states)
    lines = [f"# {_text(machine.title)}", "", _text(machine.about), "", LEGEND, ""]
    shown = [f"<br>{_text(each.shows)}" if each.shows != each.name else "" for each in machine.states.values()]
    lines.append(_row(["", *(f"**{name}**{shows}" for name, shows in zip(states, shown, strict=True))]))
    lines.append(_row(["---"] * (len(states) + 1)))
    counts = marks.counts if marks else {}
    for event in machine.events.values():
        if events is not None and event.name not in events:
            continue
        for name, cells in ((event.name, event.cells), (f"…{event.name}", event.ends)):
            row = []
            for state in states:
                count = counts.get((name, state), 0)
                met = f"<br>{plural(count, 'time')}" if count else ""
                row.append(f"{_cell(cells[state])}{met}" if state in cells else "")
            lines += [_row([f"**{name}**", *row])] if cells else []
    return "\n".join(lines) + "\n"


def _text(words: str) -> str:
    return re.sub(r"([\\`*\[\]<>&#|]|(?<!\w)_|_(?!\w))", r"\\\1", " ".join(words.split()))


def _row(cells: list[str]) -> str:
    return f"| {' | '.join(cells)} |"


def _cell(cell: Cell) -> str:
    match cell:
        case Moves(outcomes=ways):
            return "<br>".join(dict.fromkeys(_outcome_text(way) for way in ways if not way.impossible))
        case Ignores():
            return "·"
        case Refuses(codes=codes):
            return f"✗{_codes(codes)}"
        case Cannot():
            return "—"
        case Silent():
            return "?"
        case _:
            assert_never(cell)


def _outcome_text(way: Outcome) -> str:
    words = f"{'… ' if way.begins else '→ '}{way.to}"
    if way.reply and way.reply != ("ok",):
        words += f", ok or ✗{_codes(way.reply)}" if "ok" in way.reply else f", ✗{_codes(way.reply)}"
    words += f" [{_text(way.when.text)}]" if way.when else ""
    done = (*way.emits, *(_text(f"{each.variable} := {each.text}") for each in way.updates))
    words += f" / {', '.join(done)}" if done else ""
    return f"{words} (deviation)" if way.deviation else words


def _codes(codes: tuple[str, ...]) -> str:
    named = [code for code in codes if code not in {"error", "ok"}]
    return f" {' or '.join(named)}" if named else ""
