"""Two drawings with typical flaws of drawings in comments, and functions that change a drawing.

The flaws are taken from containerd's own drawings: a missing corner, labels beside and below lines, stacked labels, a
trunk that branches and crosses another trunk, lines that join, and a target without a box.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

from fsm.diagrams.read import parse

if TYPE_CHECKING:
    from collections.abc import Iterator

    from fsm.diagrams.read import Arrow, Drawing

CONTAINER = """\
# What becomes of a container's record. One corner is missing on purpose.
#
#                     +                     +
#               Load  |                     |  Create
#                     |                     |
#                     |               +-----v-----+
#       +-------------+--------------->  CREATED  |
#       |             |               +-----+-----
#       |             |                     |
#       |             |               Start |
#       |             |                     |
#       |             |               +-----v-----+
#       |             |               |           +--------+  LogReopen
#       |             +--------------->  RUNNING  |        |    Exec
#       |             |               |           <--------+   Attach
#       |             |               +-----+-----+
#       |             |                     |
#       |             |                     | Exit/Stop
#       |             |                     |
# +-----v-----+       |               +-----v-----+
# |           |       +--------------->           |
# |  UNKNOWN  |                       |  EXITED   |
# |           +----------------------->           |
# +-----------+        Stop           +-----+-----+
#                                           |
#                                    Remove |
#                                           v
#                                        DELETED

x = 1  # no drawing: x <- y, a -> b, c | d
"""

POD = """\
package pods

/*
 * What becomes of a pod's record:
 *
 *                       +                +
 *                       |                |
 *                  Load |                | Create(Run)
 *          Start        |                |
 * (failed and not       |                |                     Start
 *        cleaned)       |                |              (failed but cleaned)
 *   +-------------------|----------------+----------------------------+
 *   |                   |                |                            |
 *   |   +---------------|                | Start(Run)                 |
 *   |   |               |                |                            |
 *   |   |               |           +----v-----+                      |
 *   |   |               |           |          +------+               |
 *   |   |               +----------->  READY   |      | PortForward   |
 *   |   |               |           |          <------+               |
 *   |   |               |           +----+-----+                      |
 *   |   |               |                |                            |
 *   |   |               |                | Stop/Exit                  |
 *   |   |               |                |                            |
 * +-v---v---+           |           +----v-----+                      |
 * |         |           +----------->          |                      |
 * | UNKNOWN |                       | NOTREADY |                      |
 * |         +----------------------->          |                      |
 * +---------+         Stop          +----+-----+                      |
 *                                        |                            |
 *                                        | Remove                     |
 *                                        v                            |
 *                                     DELETED <-----------------------+
 */

func nothing() { ch <- 1 }
"""


def drawing_of(text: str, path: str = "drawing.txt") -> Drawing:
    (found,) = parse(text, path)
    assert not found.problems
    return found


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """A changed drawing, with a description of the change and the changed range of lines."""

    what: str
    line: int
    text: str
    first: int | None = None

    @property
    def lines(self) -> range:
        ends = (self.line, self.line if self.first is None else self.first)
        return range(min(ends), max(ends) + 1)


def changes(text: str, names: tuple[str, ...]) -> Iterator[Change]:
    """Yield variants of a drawing, each with one change.

    In a variant, a label, a state name or an arrowhead is different, or a line with its arrowhead is missing. New
    labels are taken from *names*.
    """
    drawing = drawing_of(text)
    for arrow in drawing.arrows:
        yield _without_head(text, arrow)
        yield _without_line(text, arrow)
    for place in dict.fromkeys(step.place for arrow in drawing.arrows for step in arrow.steps):
        yield from _relabelled(text, place.line, place.column, names)
    for state, place in drawing.states.items():
        for other in ("HUH", *drawing.states):
            if other != state and len(other) <= len(state) + 1:
                yield _written(text, place.line, place.column, state, other.ljust(len(state)), f"{state} is {other}")


def _without_head(text: str, arrow: Arrow) -> Change:
    lines = text.split("\n")
    line = lines[arrow.place.line - 1]
    at = arrow.place.column - 1
    border = line[at - 1] == "-" if line[at] == "v" else lines[arrow.place.line - 2][at : at + 1] in {"|", "+"}
    stroke = "|" if (line[at] == "v") != border else "-"
    lines[arrow.place.line - 1] = line[:at] + stroke + line[at + 1 :]
    return Change(what=f"no head into {arrow.target}", line=arrow.place.line, text="\n".join(lines))


def _without_line(text: str, arrow: Arrow) -> Change:
    """Remove an arrowhead and its line back to the last turn or branch, but keep crossing lines."""
    lines = _without_head(text, arrow).text.split("\n")
    head = text.split("\n")[arrow.place.line - 1][arrow.place.column - 1]
    down, right = {"v": (-1, 0), "<": (0, 1), ">": (0, -1)}[head]
    row, column = arrow.place.line - 1, arrow.place.column - 1
    if lines[row][column] == {"v": "|"}.get(head, "-"):
        lines[row] = lines[row][:column] + " " + lines[row][column + 1 :]
    while True:
        row, column = row + down, column + right
        if lines[row][column] != ("|" if down else "-"):
            break
        lines[row] = lines[row][:column] + " " + lines[row][column + 1 :]
    border = "-" if down else "|"
    if lines[row][column] == "+" and _on_border(lines, row, column, border):
        lines[row] = lines[row][:column] + border + lines[row][column + 1 :]
    return Change(what=f"no line into {arrow.target}", line=arrow.place.line, text="\n".join(lines), first=row + 1)


def _on_border(lines: list[str], row: int, column: int, border: str) -> bool:
    if border == "-":
        return lines[row][column - 1] == lines[row][column + 1 : column + 2] == "-"
    return all(lines[row + off][column : column + 1] in {"|", "+"} for off in (-1, 1))


def _relabelled(text: str, line: int, column: int, names: tuple[str, ...]) -> Iterator[Change]:
    found = re.compile(r"\S+").match(text.split("\n")[line - 1], column - 1)
    assert found is not None
    old = found.group()
    for new in ("", "Huh", *names):
        if new != old and _fits(text.split("\n")[line - 1], column - 1, old, new):
            yield _written(text, line, column, old, new, f"{old} is {new or 'nothing'}")


def _fits(row: str, at: int, old: str, new: str) -> bool:
    rest = row[at + len(old) :]
    return not rest.strip() or len(new) <= len(old) + len(rest) - len(rest.lstrip(" "))


def _written(text: str, line: int, column: int, old: str, new: str, what: str) -> Change:
    lines = text.split("\n")
    row = lines[line - 1]
    assert row.startswith(old, column - 1)
    rest = row[column - 1 + len(old) :]
    room = len(old) + len(rest) - len(rest.lstrip(" ")) if rest.strip() else len(new)
    before, after = row[: column - 1], row[column - 1 + room :] if rest.strip() else ""
    lines[line - 1] = f"{before}{new.ljust(room)}{after}".rstrip()
    return Change(what=what, line=line, text="\n".join(lines))
