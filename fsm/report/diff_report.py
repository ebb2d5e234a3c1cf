"""Differences between two lifecycles as text, as JSON and as a picture."""

from collections.abc import Iterator
from html import escape
from typing import Final

import graphviz

from fsm.diagrams.compare import ComparedMove, Comparison, Where, Why
from fsm.diagrams.draw.dot import DIM, FONT, INK, LINE
from fsm.diagrams.read import Location
from fsm.errors import harmless, visible
from fsm.report import ExitCode
from fsm.report.json_report import Json, dumped, record
from fsm.report.layout import Layout
from fsm.report.words import plural

_FIRST: Final = "#cf222e"
_SECOND: Final = "#1a7f37"
_COLOURS: Final = {Where.BOTH: LINE, Where.FIRST: _FIRST, Where.SECOND: _SECOND, Where.UNDRAWN: LINE}
"""Colours in a picture: grey for parts of both lifecycles, and one colour each for parts of only one."""


def answer(found: Comparison) -> ExitCode:
    """Return the exit code.  Any difference fails."""
    return ExitCode.HOLDS if found.equal else ExitCode.FAILS


def json(found: Comparison, remarks: tuple[str, ...] = ()) -> str:
    """Return *found* as one JSON document, ending in a newline."""
    document: Json = {
        "equal": found.equal,
        "first": found.first,
        "second": found.second,
        "remarks": list(remarks),
        "states": [{"in": each.where.value, **record(each, "where")} for each in found.states],
        "moves": [
            {
                "in": each.where.value,
                "near": record(near) if (near := found.near(each)) else None,
                **record(each, "where"),
            }
            for each in found.moves
        ],
    }
    return dumped(document)


def text(found: Comparison, layout: Layout, remarks: tuple[str, ...] = ()) -> str:
    """Describe all differences, and what may be left undrawn, in text ending in a newline."""
    style = layout.style
    lines = [visible(remark) for remark in remarks]
    word = style("equal", "green") if found.equal else style("different", "red")
    lines.append(f"{style(visible(found.first), 'bold')} and {style(visible(found.second), 'bold')}: {word}")
    both = sum(each.where is Where.BOTH for each in found.moves)
    states = sum(each.where is Where.BOTH for each in found.states)
    lines.append(f"  in both: {plural(states, 'state')}, {plural(both, 'move')}")
    for head, those in (
        (style(f"only in {visible(found.first)}", "red"), _differences(found, Where.FIRST)),
        (style(f"only in {visible(found.second)}", "green"), _differences(found, Where.SECOND)),
        ("not drawn, which is no difference", _undrawn(found)),
    ):
        if listed := [line for each in those for line in layout.kept(visible(each), "  ", "      ")]:
            lines += ["", head, *listed]
    return "\n".join(lines) + "\n"


def _differences(found: Comparison, where: Where) -> Iterator[str]:
    leads = {move.target: move for move in reversed(found.moves) if move.where is where}
    for state in found.states:
        if state.where is where:
            why = f": no state of {_other(found, where)} has this name" if state.why is Why.STATE else ""
            leading = leads.get(state.name)
            place = state.place or (found.near(leading) if leading else None)
            yield f"{_at(place)}state {state.name}{why}"
    for move in found.moves:
        if move.where is where:
            yield f"{_at(found.near(move))}{_move(move)}{_why(found, move)}"


def _other(found: Comparison, where: Where) -> str:
    return found.second if where is Where.FIRST else found.first


_WHY: Final = {
    Why.EVENT: ": no event of {other} has the name '{label}'",
    Why.STATE: ": {other} has no such state",
    Why.UNLABELLED: ": the arrow has no label",
    Why.OUTCOME: ": in {other} '{label}' does not lead there",
    Why.INITIAL: ": in {other} lives begin in {initial}",
}


def _why(found: Comparison, move: ComparedMove) -> str:
    if move.why is not None:
        return _WHY[move.why].format(other=_other(found, move.where), label=move.label, initial=found.initial)
    named = ", ".join(move.outcomes)
    return f" ({named})" if named and named != "done" and not move.silent else ""


def _move(move: ComparedMove) -> str:
    event = move.label or move.event
    if move.silent:
        return f"{event} in {move.source}: not specified"
    source = move.source or "nowhere"
    words = f"{event}: {source} → {move.target}" if event else f"{source} → {move.target}"
    if move.begins:
        words += ", and the call goes on"
    if move.reply:
        words += f", replying {'any error' if move.reply == 'error' else move.reply}"
    if move.emits:
        words += f", emitting {', '.join(move.emits)}"
    return words


def _at(place: Location | None) -> str:
    return f":{place.line}:{place.column}: " if place else ""


def _undrawn(found: Comparison) -> Iterator[str]:
    states = [state.name for state in found.states if state.where is Where.UNDRAWN]
    if states:
        yield f"states: {', '.join(states)}"
    events: dict[str, dict[str, None]] = {}
    for move in found.moves:
        if move.where is Where.UNDRAWN:
            events.setdefault(move.event, {})[f"{move.source or 'nowhere'} → {move.target}"] = None
    for event, moves in events.items():
        yield f"{event}: {', '.join(moves)}"


def dot(found: Comparison) -> str:
    """Return *found* as a DOT digraph with undrawn parts dotted.  The text is the same on every run.

    >>> from fsm.diagrams.compare import compare
    >>> from fsm.language.library import load
    >>> dot(compare(load("cri-pod"), load("cri-pod"))).splitlines()[0]
    'digraph difference {'
    """
    graph = graphviz.Digraph("difference")
    legend = (
        f'<<font color="{_FIRST}">only {escape(visible(found.first))}</font>   '
        f'<font color="{_SECOND}">only {escape(visible(found.second))}</font>   '
        f'<font color="{DIM}">both; dotted: not drawn</font>>'
    )
    graph.attr(
        "graph", rankdir="TB", nodesep="0.35", ranksep="0.5", fontname=FONT, fontsize="10", bgcolor="transparent"
    )
    graph.attr("graph", label=legend, labelloc="b")
    graph.attr("node", shape="box", style="rounded", fontname=FONT, fontsize="12", margin="0.16,0.08")
    graph.attr("edge", fontname=FONT, fontsize="10", arrowsize="0.7")
    for state in found.states:
        style = "rounded,dotted" if state.where is Where.UNDRAWN else "rounded"
        colour = _COLOURS[state.where]
        font = INK if state.where is Where.BOTH else colour
        graph.node(
            f"={state.name}", label=graphviz.escape(visible(state.name)), style=style, color=colour, fontcolor=font
        )
    bundles: dict[tuple[str, str, Where], dict[str, None]] = {}
    for move in found.moves:
        # An event that leaves the state unchanged on both sides is not drawn as an arrow.
        if move.where is not Where.BOTH or move.source != move.target or any(move.places):
            bundles.setdefault((move.source, move.target, move.where), {})[_label(move)] = None
    if any(not source for source, _, _ in bundles):
        graph.node("nowhere", label="", shape="circle", width="0.14", style="filled", fillcolor=INK, color=INK)
    for (source, target, where), labels in bundles.items():
        colour = _COLOURS[where]
        graph.edge(
            f"={source}" if source else "nowhere",
            f"={target}",
            label="\n".join(graphviz.escape(visible(label)) for label in labels),
            color=colour,
            fontcolor=DIM if colour == LINE else colour,
            style="dotted" if where is Where.UNDRAWN else "solid",
            penwidth="1.2" if colour == LINE else "2",
        )
    text: str = graph.source
    return harmless(text.replace("\t", "  "))


def _label(move: ComparedMove) -> str:
    words = move.label or move.event or "?"
    if move.silent:
        words += " ?"
    if move.reply not in {"", "ok"}:
        words += f" ✗ {move.reply}"
    if move.emits:
        words += f" / {', '.join(move.emits)}"
    return words
