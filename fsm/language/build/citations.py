"""Clauses, and the level and source of whatever has them."""

from collections.abc import Mapping
from typing import TypeAlias

from fsm.language.build.problems import Problems
from fsm.language.machine_file import Cited, WrittenClause, WrittenEvent, WrittenRest
from fsm.language.read import F
from fsm.language.system_file import WrittenJoint
from fsm.machine import Clause, Level

Place: TypeAlias = tuple[str | int, ...]


def citation(problems: Problems[F], written: Cited, *at: str | int) -> tuple[Level, str] | None:
    """The level and the source of what is *written* at the path *at*; ``None`` where it has neither."""
    by: dict[Level, str | None] = {
        "MUST": written.MUST,
        "SHOULD": written.SHOULD,
        "MAY": written.MAY,
        "observed": written.observed,
    }
    given = [(level, source) for level, source in by.items() if source is not None]
    if len(given) > 1:
        what = f"[{'.'.join(map(str, at))}] is {' and '.join(level for level, _ in given)} at once"
        problems.say("FSM131", what, "keep the level that is meant", *at, given[-1][0])
    return given[0] if given else None


def cited(problems: Problems[F], written: Cited, *at: str | int) -> tuple[Level, str]:
    """The level and the source of what is *written* at the path *at*, which must have them."""
    found = citation(problems, written, *at)
    if found is None:
        what = f"[{'.'.join(map(str, at))}] has no level and no source"
        problems.say("FSM011", what, "add one of MUST, SHOULD, MAY and observed: MUST = …, with the source", *at)
    return found or ("MUST", "")


def clauses_of(
    problems: Problems[F],
    alone: Mapping[str, WrittenClause],
    with_others: Mapping[Place, tuple[str, WrittenRest | WrittenEvent | WrittenJoint]],
) -> dict[str, Clause]:
    """Every clause by name: those that stand *alone*, and those that stand *with others*, by their places."""
    found: dict[str, Clause] = {}
    for name, each in alone.items():
        level, source = cited(problems, each, "clause", name)
        found[name] = Clause(name=name, says=each.says, level=level, source=source, link=each.link)
    for at, (name, other) in with_others.items():
        given = citation(problems, other, *at)
        if other.says is None:
            if given or "link" in other.model_fields_set:
                what = f"'says' is missing from [{'.'.join(map(str, at))}], which has the source of clause '{name}'"
                problems.say("FSM011", what, "add: says = …, or name only the clause", *at)
                found.setdefault(name, Clause(name=name, says="", level="MUST", source=""))
            continue
        if name in found:
            what = f"clause '{name}' is defined in two places"
            problems.say("FSM126", what, "define it in one of them; elsewhere its name is enough", *at, "says")
        level, source = cited(problems, other, *at)
        found[name] = Clause(name=name, says=other.says, level=level, source=source, link=other.link)
    return found


def check_says(problems: Problems[F], written: WrittenEvent | WrittenJoint, *at: str | int) -> None:
    """Note that the event at the path *at* has the sentence of a clause, and not its name."""
    words = [word for word in ("says", "link") if word in written.model_fields_set]
    if written.clause is None and words:
        what = f"'clause' is missing from [{'.'.join(map(str, at))}], which has '{words[0]}'"
        problems.say("FSM011", what, "add: clause = …, the name of what it says", *at, words[0])
