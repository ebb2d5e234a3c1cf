"""Observable equivalence of two machines as text and as JSON."""

from collections.abc import Iterable, Iterator
from typing import Final, assert_never

from fsm.checker.equivalence.comparison import Branching, Distinguished, EquivalenceResult, Equivalent, Observable, Side
from fsm.report import ExitCode
from fsm.report.json_report import Json, dumped
from fsm.report.layout import COLOURS, Layout
from fsm.report.runs import data, steps
from fsm.report.words import either
from fsm.verdict import Fails, Unknown

_EVIDENCE: Final = ("only", "trace", "run", "states", "instead", "start", "rounds", "option", "every_trace", "why")
_WORDS: Final = {ExitCode.HOLDS: "equal", ExitCode.FAILS: "different", ExitCode.UNKNOWN: "unknown"}


def answer(found: EquivalenceResult) -> ExitCode:
    """Return the exit code.  Machines that differ fail."""
    if isinstance(found, Unknown):
        return ExitCode.UNKNOWN
    return ExitCode.FAILS if isinstance(found, Fails) else ExitCode.HOLDS


def text(found: EquivalenceResult, names: tuple[str, str], layout: Layout) -> str:
    """Describe whether the machines called *names* behave alike and, if not, the evidence."""
    first, second = names if names[0] != names[1] else (f"{names[0]} (1)", f"{names[1]} (2)")
    total = answer(found)
    word = layout.style(_WORDS[total], COLOURS[total])
    head = f"{layout.style(first, 'bold')} and {layout.style(second, 'bold')}: {word}"
    lines: Iterable[str]
    match found:
        case Equivalent():
            lines = ["they are equivalent: no observation distinguishes them"]
        case Distinguished():
            lines = _distinguished(found, (first, second))
        case Branching():
            lines = _branching(found, (first, second))
        case Unknown(why=why):
            lines = [why]
        case _:
            assert_never(found)
    # Keep indented lines as they are, because wrapping would break the columns of a run's steps.
    indented = ([f"  {each}"] if each.startswith(" ") else layout.kept(each) for each in lines)
    return "\n".join([head, *(line for several in indented for line in several)]) + "\n"


def _distinguished(found: Distinguished, names: tuple[str, str]) -> Iterator[str]:
    owner, other = names[found.owner.value], names[found.owner.other.value]
    yield f"a shortest trace that only {owner} has:"
    yield from steps(found.run, indent=2)
    last = found.trace[-1]
    if last.shows:
        yield f"and {last.shows} is shown"
    where = either([state or "any state" for state in found.states])
    lacks = f"{last.event or 'that'}{' go on' if last.ends else ''}"
    can = f"can only have {_alternatives(found.instead)}" if found.instead else f"cannot have {lacks}"
    yield f"{other}, then in {where}, {can}"


def _alternatives(these: tuple[Observable, ...]) -> str:
    replies: dict[Observable, list[str]] = {}
    for each in these:
        replies.setdefault(each._replace(reply=""), []).append(each.reply)
    return either([_seen(each, tuple(sorted(those, key="error".__eq__))) for each, those in replies.items()])


def _branching(found: Branching, names: tuple[str, str]) -> Iterator[str]:
    yield (
        "they have the same traces, and choose at different moments:"
        if found.every_trace
        else "they can be distinguished, though no trace that does so was found within the limit:"
    )
    for side, state in zip(names, found.start, strict=True):
        yield f"  {side} starts {state}"
    for number, each in enumerate(found.rounds, 1):
        what = "something unobservable" if each.seen is None else _seen(each.seen)
        places = f"{names[0]} is in {each.first or 'any state'}, {names[1]} in {each.second or 'any state'}"
        yield f"  {number:2} {what}: {places}"
    owner, other = names[found.owner.value], names[found.owner.other.value]
    yield f"now {owner} can have {_seen(found.option)}, and {other} cannot"


def _seen(each: Observable, replies: tuple[str, ...] = ()) -> str:
    replies = tuple(filter(None, replies or (each.reply,)))
    if each.shows:
        return f"{each.shows} shown"
    event = each.event or "something hidden"
    if each.silent:
        return f"{event}, {'whose end' if each.ends else 'which'} is not specified"
    words = [event]
    if each.begins:
        words.append("going on" if each.ends else "begun")
    if replies:
        words.append(f"replying {either(['any other error' if reply == 'error' else reply for reply in replies])}")
    if each.emits:
        words.append(f"emitting {', '.join(each.emits)}")
    return " ".join(words)


def json(found: EquivalenceResult, names: tuple[str, str]) -> str:
    """Return the report as one JSON document, ending in a newline.  Anything that does not apply is ``null``."""
    document: dict[str, Json] = {
        "verdict": _WORDS[answer(found)],
        "first": names[0],
        "second": names[1],
        **dict.fromkeys(_EVIDENCE),
    }
    match found:
        case Equivalent():
            pass
        case Distinguished():
            document |= {
                "only": _side(found.owner),
                "trace": [_data(each) for each in found.trace],
                "run": data(found.run),
                "states": [state or None for state in found.states],
                "instead": [_data(each) for each in found.instead],
            }
        case Branching():
            document |= {
                "only": _side(found.owner),
                "start": [*found.start],
                "rounds": [
                    {"seen": each.seen and _data(each.seen), "first": each.first or None, "second": each.second or None}
                    for each in found.rounds
                ],
                "option": _data(found.option),
                "every_trace": found.every_trace,
            }
        case Unknown(why=why):
            document["why"] = why
        case _:
            assert_never(found)
    return dumped(document)


def _side(side: Side) -> str:
    return side.name.lower()


def _data(each: Observable) -> Json:
    return {name: None if value == "" else value for name, value in each._asdict().items()}
