"""Report the differences between two lifecycles or their behaviour as text, JSON or a picture."""

from collections.abc import Iterable, Iterator
from html import escape
from typing import Final, assert_never

import graphviz

from fsm.diagrams.compare import ComparedMove, Comparison, Where, Why
from fsm.diagrams.draw.dot import DIM, FONT, INK, LINE
from fsm.diagrams.read import Location
from fsm.errors import harmless, visible
from fsm.machine.evidence import Branching, Distinguished, EquivalenceResult, Equivalent, Observable
from fsm.report import ExitCode
from fsm.report.json_report import Json, dumped, picked, record
from fsm.report.layout import COLOURS, Layout, joined
from fsm.report.machine_report import data, steps
from fsm.report.words import either, grouped, plural
from fsm.report.words import reply as replied
from fsm.verdict import Fails, Unknown

_FIRST: Final = "#cf222e"
_SECOND: Final = "#1a7f37"
# Parts of both lifecycles are grey. Parts of only the first are red, and parts of only the second are green.
_COLOURS: Final = {Where.BOTH: LINE, Where.FIRST: _FIRST, Where.SECOND: _SECOND, Where.UNDRAWN: LINE}


def answer(found: Comparison) -> ExitCode:
    return ExitCode.HOLDS if found.equal else ExitCode.FAILS


def json(found: Comparison, remarks: tuple[str, ...] = ()) -> str:
    return dumped(
        {
            **picked(found, "equal", "first", "second"),
            "remarks": list(remarks),
            "states": [{"in": state.where.value, **record(state, "where")} for state in found.states],
            "moves": [
                {
                    "in": move.where.value,
                    "near": record(near) if (near := found.near(move)) else None,
                    **record(move, "where"),
                }
                for move in found.moves
            ],
        }
    )


@joined
def text(found: Comparison, layout: Layout, remarks: tuple[str, ...] = ()) -> Iterator[str]:
    word = "equal" if found.equal else "different"
    yield from (*map(visible, remarks), _head(found.first, found.second, word, layout))
    yield from layout.kept("; ".join(_counts(found)), "  ", "    ")
    for head, those in (
        (layout.style(f"only in {visible(found.first)}", "red"), _differences(found, Where.FIRST)),
        (layout.style(f"only in {visible(found.second)}", "green"), _differences(found, Where.SECOND)),
        ("not drawn, which does not count as a difference", _undrawn_lines(found)),
    ):
        if listed := [line for each in those for line in layout.kept(visible(each), "  ", "      ")]:
            yield from ("", head, *listed)


def _head(first: str, second: str, word: str, layout: Layout) -> str:
    names = (layout.style(visible(each), "bold") for each in (first, second))
    return f"{' and '.join(names)}: {layout.style(word, COLOURS[word])}"


def _differences(found: Comparison, where: Where) -> Iterator[str]:
    other = found.second if where is Where.FIRST else found.first
    leads = {move.target: move for move in reversed(found.moves) if move.where is where}
    for state in found.states:
        if state.where is where:
            why = f": no state of {other} has this name" if state.why is Why.STATE else ""
            leading = leads.get(state.name)
            place = state.place or (found.near(leading) if leading else None)
            yield f"{_position_text(place)}state {state.name}{why}"
    moves = (move for move in found.moves if move.where is where)
    # Arrows that differ only in their states share a line.
    alike = grouped(
        (f"{_position_text(found.near(move))}{_move(move)}{_move_note(found, move)}", move) for move in moves
    )
    for text, those in alike.items():
        arrows = (one.source if one.silent else f"{one.source or 'nowhere'} → {one.target}" for one in those)
        yield text.replace("\0", ", ".join(arrows))


def _counts(found: Comparison) -> Iterator[str]:
    names = {Where.BOTH: "in common", Where.FIRST: f"only in {found.first}", Where.SECOND: f"only in {found.second}"}
    for where, name in names.items():
        states, moves = (sum(each.where is where for each in those) for those in (found.states, found.moves))
        counted = ", ".join(plural(count, noun) for count, noun in ((states, "state"), (moves, "move")) if count)
        if counted or where is Where.BOTH:
            yield f"{visible(name)}: {counted or 'nothing'}"


_WHY: Final = {
    Why.EVENT: ": no event of {other} has the name '{label}'",
    Why.STATE: ": {other} has no such state",
    Why.UNLABELLED: ": the arrow has no label",
    Why.OUTCOME: ": in {other} '{label}' does not lead there",
    Why.INITIAL: ": in {other} lives begin in {initial}",
}


def _move_note(found: Comparison, move: ComparedMove) -> str:
    if move.why is not None:
        other = found.second if move.where is Where.FIRST else found.first
        return _WHY[move.why].format(other=other, label=move.label, initial=found.initial)
    named = ", ".join(move.outcomes)
    return f" ({named})" if named and named != "done" and not move.silent else ""


def _move(move: ComparedMove) -> str:
    event = move.label or move.event
    if move.silent:
        return f"{event} in \0: not specified"
    continues = ", and the call continues" if move.begins else ""
    reply = f", replying {replied(move.reply)}" if move.reply else ""
    emits = f", emitting {', '.join(move.emits)}" if move.emits else ""
    return f"{f'{event}: ' if event else ''}\0{continues}{reply}{emits}"


def _position_text(place: Location | None) -> str:
    return f":{place.line}:{place.column}: " if place else ""


def _undrawn_lines(found: Comparison) -> Iterator[str]:
    states = [state.name for state in found.states if state.where is Where.UNDRAWN]
    if states:
        yield f"states: {', '.join(states)}"
    moves = (move for move in found.moves if move.where is Where.UNDRAWN)
    for event, arrows in grouped((move.event, f"{move.source or 'nowhere'} → {move.target}") for move in moves).items():
        yield f"{event}: {', '.join(dict.fromkeys(arrows))}"


def dot(found: Comparison) -> str:
    """Return a DOT graph of the differences. Parts that a drawing may omit are dotted.

    >>> from fsm.diagrams.compare import compare
    >>> from fsm.language.library import load
    >>> dot(compare(load("examples/models/door.toml"), load("examples/models/door.toml"))).splitlines()[0]
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
        # Do not draw an event that leaves the state unchanged on both sides.
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
    reply = f" ✗ {move.reply}" if move.reply not in {"", "ok"} else ""
    emits = f" / {', '.join(move.emits)}" if move.emits else ""
    return f"{move.label or move.event or '?'}{' ?' if move.silent else ''}{reply}{emits}"


_EVIDENCE: Final = ("only", "trace", "run", "states", "instead", "start", "rounds", "option", "every_trace", "why")
_WORDS: Final = {ExitCode.HOLDS: "equal", ExitCode.FAILS: "different", ExitCode.UNKNOWN: "unknown"}


def behaviour_answer(found: EquivalenceResult) -> ExitCode:
    if isinstance(found, Unknown):
        return ExitCode.UNKNOWN
    return ExitCode.FAILS if isinstance(found, Fails) else ExitCode.HOLDS


@joined
def behaviour_text(found: EquivalenceResult, names: tuple[str, str], layout: Layout) -> Iterator[str]:
    first, second = names if names[0] != names[1] else (f"{names[0]} (1)", f"{names[1]} (2)")
    yield _head(first, second, _WORDS[behaviour_answer(found)], layout)
    lines: Iterable[str]
    match found:
        case Equivalent(scope=scope):
            within = f" for {', '.join(scope)}" if scope else ""
            lines = [f"the two machines are equivalent: no observation distinguishes them{within}"]
        case Distinguished():
            lines = _distinguishing_trace(found, (first, second))
        case Branching():
            lines = _branching_lines(found, (first, second))
        case Unknown(why=why):
            lines = [why]
        case _:
            assert_never(found)
    for each in lines:
        # Do not wrap indented lines, because that would break the columns of the steps.
        yield from [f"  {each}"] if each.startswith(" ") else layout.kept(each)


def _distinguishing_trace(found: Distinguished, names: tuple[str, str]) -> Iterator[str]:
    owner, other = names[found.owner.value], names[found.owner.other.value]
    yield f"a shortest trace that only {owner} has:"
    yield from steps(found.run, indent=2)
    last = found.trace[-1]
    yield from [f"and {last.shows} is shown"] if last.shows else []
    where = either([state or "any state" for state in found.states])
    lacks = f"{last.event or 'that'}{' continue' if last.ends else ''}"
    can = f"can only have {_alternatives(found.instead)}" if found.instead else f"cannot have {lacks}"
    yield f"{other}, then in {where}, {can}"


def _alternatives(these: tuple[Observable, ...]) -> str:
    replies = grouped((each._replace(reply=""), each.reply) for each in these)
    return either([_observable_text(each, tuple(sorted(those, key="error".__eq__))) for each, those in replies.items()])


def _branching_lines(found: Branching, names: tuple[str, str]) -> Iterator[str]:
    same = "the two machines have the same traces, but choose at different moments:"
    cut = "the two machines can be distinguished, but no trace that does so was found within the limit:"
    yield same if found.every_trace else cut
    for side, state in zip(names, found.start, strict=True):
        yield f"  {side} starts {state}"
    for number, each in enumerate(found.rounds, 1):
        what = "something unobservable" if each.seen is None else _observable_text(each.seen)
        places = f"{names[0]} is in {each.first or 'any state'}, {names[1]} in {each.second or 'any state'}"
        yield f"  {number:2} {what}: {places}"
    owner, other = names[found.owner.value], names[found.owner.other.value]
    yield f"now {owner} can have {_observable_text(found.option)}, and {other} cannot"


def _observable_text(observable: Observable, replies: tuple[str, ...] = ()) -> str:
    if observable.shows:
        return f"{observable.shows} shown"
    event = observable.event or "something hidden"
    if observable.silent:
        return f"{event}, {'whose end' if observable.ends else 'which'} is not specified"
    texts = ["any other error" if reply == "error" else reply for reply in replies or (observable.reply,) if reply]
    words = [
        event,
        ("continuing" if observable.ends else "begun") if observable.begins else "",
        f"replying {either(texts)}" if texts else "",
        f"emitting {', '.join(observable.emits)}" if observable.emits else "",
    ]
    return " ".join(filter(None, words))


def behaviour_json(found: EquivalenceResult, names: tuple[str, str]) -> str:
    first, second = names
    document: dict[str, Json] = {"verdict": _WORDS[behaviour_answer(found)], "first": first, "second": second}
    document |= dict.fromkeys(_EVIDENCE)
    match found:
        case Equivalent(scope=scope):
            document |= {"scope": list(scope)} if scope else {}
        case Distinguished():
            document |= {
                "only": found.owner.name.lower(),
                "trace": [_observable(observation) for observation in found.trace],
                "run": data(found.run),
                "states": [state or None for state in found.states],
                "instead": [_observable(each) for each in found.instead],
            }
        case Branching():
            document |= {
                "only": found.owner.name.lower(),
                "start": [*found.start],
                "rounds": [
                    {"seen": round_.seen and _observable(round_.seen), **picked(round_, "first?", "second?")}
                    for round_ in found.rounds
                ],
                "option": _observable(found.option),
                "every_trace": found.every_trace,
            }
        case Unknown(why=why):
            document["why"] = why
        case _:
            assert_never(found)
    return dumped(document)


def _observable(observable: Observable) -> Json:
    return {name: None if value == "" else value for name, value in observable._asdict().items()}
