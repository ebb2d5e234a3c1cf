"""Read clauses, and the levels and sources of statements."""

from collections.abc import Collection, Iterable, Iterator, Mapping

from fsm.language.build.problems import Problems
from fsm.language.machine_file import Cited, Happening, Header, WrittenClause, WrittenEvent, WrittenRest
from fsm.language.read import F
from fsm.language.read.toml import Keys
from fsm.language.system_file import SystemHeader
from fsm.machine import LEVELS, Clause, Level


def citation(problems: Problems[F], written: Cited) -> tuple[Level, str] | None:
    """Return the level and source of *written*, or ``None`` if it has neither."""
    sources = zip(reversed(LEVELS), (written.MUST, written.SHOULD, written.MAY, written.observed), strict=True)
    given = [(level, source) for level, source in sources if source is not None]
    if len(given) > 1:
        what = f"{problems.table} is {' and '.join(level for level, _ in given)} at once"
        problems.say("FSM131", what, "keep the level that is meant", given[-1][0])
    return given[0] if given else None


def clause_of(problems: Problems[F], name: str, written: Cited, says: str, link: str) -> Clause:
    """Return the clause *name* with the level and source of *written*.  Report an error if it has neither."""
    found = citation(problems, written)
    if found is None:
        hint = "add one of MUST, SHOULD, MAY and observed: MUST = …, with the source"
        problems.say("FSM011", f"{problems.table} has no level and no source", hint)
    level, source = found or ("MUST", "")
    return Clause(name=name, says=says, level=level, source=source, link=link)


def implied(problems: Problems[F], header: Header | SystemHeader, name: str, about: str, written: Happening) -> Clause:
    """Return the implied clause of event *name*.  It says *about*, with the level of *written* or of the file."""
    given = citation(problems.below("event", name), written) if written.clause is None else None
    level, source = given or (header.level, header.source)
    return Clause(name=name, says=about, level=level, source=source)


def clauses_of(
    problems: Problems[F], separate: Mapping[str, WrittenClause], events: Mapping[str, Happening]
) -> dict[str, Clause]:
    """Return every clause by name, whether it is defined separately or with an event that rests on it."""
    found = {
        name: clause_of(problems.below("clause", name), name, clause, clause.says, clause.link)
        for name, clause in separate.items()
    }
    for event, written in events.items():
        words = [word for word in ("says", "link") if word in written.model_fields_set]
        if written.clause is None and words:
            what = f"'clause' is missing from [event.{event}], which has '{words[0]}'"
            problems.say("FSM011", what, "add: clause = …, the name of what it says", "event", event, words[0])
    for at, name, other in _with_events(events):
        here = problems.below(*at)
        if other.says is None:
            if citation(here, other) or "link" in other.model_fields_set:
                what = f"'says' is missing from {here.table}, which has the source of clause '{name}'"
                here.say("FSM011", what, "add: says = …, or name only the clause")
                found.setdefault(name, Clause(name=name, says="", level="MUST", source=""))
            continue
        if name in found:
            what = f"clause '{name}' is defined in two places"
            here.say("FSM126", what, "define it in one of them; elsewhere its name is enough", "says")
        found[name] = clause_of(here, name, other, other.says, other.link)
    return found


def check_used(problems: Problems[F], clauses: Iterable[str], used: Collection[str | None], what: str, by: str) -> None:
    """Report the *clauses* that are not in *used*.  *what* and *by* are words of the message."""
    for name in clauses:
        if name not in used:
            problems.say("FSM119", f"{what} rests on clause '{name}'", f"name it in {by}, or drop it", "clause", name)


def _with_events(events: Mapping[str, Happening]) -> Iterator[tuple[Keys, str, WrittenRest | Happening]]:
    """Yield each place where *events* name a clause, with its name and the table that may define it."""
    for event, written in events.items():
        if written.clause is not None:
            yield ("event", event), written.clause, written
        for name, rest in written.clauses.items() if isinstance(written, WrittenEvent) else ():
            yield ("event", event, "clauses", name), name, rest
