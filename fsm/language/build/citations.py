"""Read clauses, and the level and source of anything that has them."""

from collections.abc import Collection, Iterable, Iterator, Mapping

from fsm.language.build.problems import Problems
from fsm.language.machine_file import Cited, Header, WrittenClause, WrittenEvent, WrittenRest
from fsm.language.read import F
from fsm.language.read.toml import Keys
from fsm.language.system_file import SystemHeader, WrittenJoint
from fsm.machine import LEVELS, Clause, Level


def citation(problems: Problems[F], written: Cited, *at: str | int) -> tuple[Level, str] | None:
    """Return the level and source of *written* at the path *at*, or ``None`` if it has neither."""
    sources = zip(reversed(LEVELS), (written.MUST, written.SHOULD, written.MAY, written.observed), strict=True)
    given = [(level, source) for level, source in sources if source is not None]
    if len(given) > 1:
        what = f"[{'.'.join(map(str, at))}] is {' and '.join(level for level, _ in given)} at once"
        problems.say("FSM131", what, "keep the level that is meant", *at, given[-1][0])
    return given[0] if given else None


def cited(problems: Problems[F], written: Cited, *at: str | int) -> tuple[Level, str]:
    """Return the level and source of *written* at the path *at*.  Report an error if it has neither."""
    found = citation(problems, written, *at)
    if found is None:
        what = f"[{'.'.join(map(str, at))}] has no level and no source"
        problems.say("FSM011", what, "add one of MUST, SHOULD, MAY and observed: MUST = …, with the source", *at)
    return found or ("MUST", "")


def implied(
    problems: Problems[F], header: Header | SystemHeader, name: str, about: str, written: WrittenEvent | WrittenJoint
) -> Clause:
    """Return the implied clause of event *name*.  It says *about*, with the level of *written* or of the file."""
    given = citation(problems, written, "event", name) if written.clause is None else None
    level, source = given or (header.level, header.source)
    return Clause(name=name, says=about, level=level, source=source)


def clauses_of(
    problems: Problems[F], alone: Mapping[str, WrittenClause], events: Mapping[str, WrittenEvent | WrittenJoint]
) -> dict[str, Clause]:
    """Return every clause by name, whether it is defined alone or with an event that rests on it."""
    found: dict[str, Clause] = {}
    for name, each in alone.items():
        level, source = cited(problems, each, "clause", name)
        found[name] = Clause(name=name, says=each.says, level=level, source=source, link=each.link)
    for event, written in events.items():
        words = [word for word in ("says", "link") if word in written.model_fields_set]
        if written.clause is None and words:
            what = f"'clause' is missing from [event.{event}], which has '{words[0]}'"
            problems.say("FSM011", what, "add: clause = …, the name of what it says", "event", event, words[0])
    for at, name, other in _with_events(events):
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


def check_used(problems: Problems[F], clauses: Iterable[str], used: Collection[str | None], what: str, by: str) -> None:
    """Report the *clauses* that are not in *used*.  *what* and *by* are words of the message."""
    for name in clauses:
        if name not in used:
            problems.say("FSM119", f"{what} rests on clause '{name}'", f"name it in {by}, or drop it", "clause", name)


def _with_events(
    events: Mapping[str, WrittenEvent | WrittenJoint],
) -> Iterator[tuple[Keys, str, WrittenRest | WrittenEvent | WrittenJoint]]:
    """Yield each place where *events* name a clause, with its name and the table that may define it."""
    for event, each in events.items():
        if each.clause is not None:
            yield ("event", event), each.clause, each
        for name, rest in each.clauses.items() if isinstance(each, WrittenEvent) else ():
            yield ("event", event, "clauses", name), name, rest
