"""Outcomes of the mutants of a machine or a system as text and as JSON."""

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass

from fsm.machine import Machine
from fsm.machine.product.system import System
from fsm.machine.property.claims import Specification
from fsm.mutation.cell_mutants import Mutant
from fsm.mutation.outcomes import MutationOutcome
from fsm.mutation.system_mutants import JointMutant
from fsm.report import ExitCode
from fsm.report.json_report import Json, dumped
from fsm.report.layout import COLOURS, Layout
from fsm.report.words import plural


@dataclass(frozen=True, slots=True, kw_only=True)
class Mutated:
    """The mutants of one machine or system, and their outcomes.  In a system, each mutant has at most one killer.

    The properties in ``unsound`` already fail on the original and are not used.
    """

    specification: Specification[Machine | System]
    outcomes: tuple[MutationOutcome[Mutant | JointMutant], ...]
    unsound: tuple[str, ...] = ()

    @property
    def survivors(self) -> tuple[MutationOutcome[Mutant | JointMutant], ...]:
        """Mutants that are not equivalent and break no property."""
        return tuple(each for each in self.outcomes if each.survives)

    @property
    def equivalent(self) -> tuple[MutationOutcome[Mutant | JointMutant], ...]:
        return tuple(each for each in self.outcomes if each.equivalent)

    @property
    def score(self) -> float:
        """Share of killed mutants among those that are not equivalent."""
        able = len(self.outcomes) - len(self.equivalent)
        return 1 - len(self.survivors) / able if able else 1.0

    def kills(self) -> dict[str, int]:
        """Map each property, in the order of the file, to the number of mutants that it kills."""
        counted = Counter(name for each in self.outcomes for name in each.killers)
        return {each.name: counted[each.name] for each in self.specification.properties}

    def asked(self, name: str) -> int:
        """Return the number of mutants on which the property *name* was checked."""
        return sum(name in each.asked for each in self.outcomes)


def answer(mutated: tuple[Mutated, ...]) -> ExitCode:
    """Return the exit code: failure if a mutant survives or a property is not as stated for the original."""
    return ExitCode.FAILS if any(each.survivors or each.unsound for each in mutated) else ExitCode.HOLDS


def text(mutated: tuple[Mutated, ...], layout: Layout, *, listed: str = "survivors") -> str:
    """Return the text report, ending in a newline.  *listed* selects the mutants that are listed one by one."""
    return "\n\n".join("\n".join(_lines(each, layout, listed)) for each in mutated) + "\n"


def _lines(mutated: Mutated, layout: Layout, listed: str) -> Iterator[str]:
    machine = mutated.specification.machine
    kills = mutated.kills()
    yield layout.style(machine.name, "bold") + f": {machine.title}"
    digits = len(f"{max(kills.values(), default=0):,}")
    joint = isinstance(machine, System)
    for name, count in kills.items():
        if name in mutated.unsound:
            how = f"kills nothing, as it does not come out as stated without a mutation: {name}"
            yield from layout.wrapped(how, "  ", "    ", marked="kills nothing", how="red")
            continue
        if joint and not count:
            continue  # the property may kill mutants, but is never the first to do so
        if not joint and not mutated.asked(name):
            yield f"  {'not asked':>{digits + 6}}  {name}"  # other properties decide all mutants
            continue
        verb = "first to kill" if joint else "kills"
        how = f"{verb} {count:>{digits},}" if count else f"{verb} {'no':>{digits}}"
        yield f"  {how if count else layout.style(how, 'yellow')}  {name}"
    for each in mutated.outcomes:
        if listed == "all" or (listed == "equivalent" and each.equivalent):
            yield from _mutant(each, machine.path, layout)
    if listed != "all":
        yield from _survivors(mutated, layout)
    word_for = "system" if joint else "machine"
    dead = sum(bool(each.killers) for each in mutated.outcomes)
    total = answer((mutated,))
    word = total.name.lower()
    what = (
        f"{word}: {plural(len(mutated.outcomes), 'mutant')}, {dead:,} killed, "
        f"{len(mutated.equivalent):,} equivalent to the {word_for}, {plural(len(mutated.survivors), 'survivor')}"
        + (f", score {mutated.score:.1%}" if mutated.survivors else "")
    )
    yield from layout.wrapped(what, "", "  ", marked=word, how=COLOURS[total])


def _survivors(mutated: Mutated, layout: Layout) -> Iterator[str]:
    cells: dict[int, dict[str, list[str]]] = {}
    for each in mutated.survivors:
        where, _, change = each.mutant.name.partition(": ")
        cells.setdefault(each.mutant.line, {}).setdefault(where, []).append(change)
    for line, changes in cells.items():
        lead = "  survives  "
        for where, those in changes.items():
            what = f"{where}: {', '.join(those)}"
            yield from layout.kept(what, lead, " " * 12, marked=lead.strip(), how="red")
            lead = " " * 12
        place = _place(mutated.specification.machine.path, line)
        yield from layout.kept(f"{place}: no property breaks", " " * 12)


def _mutant(outcome: MutationOutcome[Mutant | JointMutant], path: str, layout: Layout) -> Iterator[str]:
    if outcome.killers:
        word, colour, more = "killed", "green", f"by {', '.join(outcome.killers)}"
    elif outcome.equivalent:
        word, colour, more = "equal", "blue", "it is equivalent to the original"
    else:
        word, colour, more = "survives", "red", "no property breaks"
    yield f"  {layout.style(f'{word:<8}', colour)}  {outcome.mutant.name}"
    yield from layout.kept(f"{_place(path, outcome.mutant.line)}: {more}", " " * 12)


def _place(path: str, line: int) -> str:
    return f"{path}:{line}" if line else path


def json(mutated: tuple[Mutated, ...]) -> str:
    """Return the report as one JSON document that lists every mutant, ending in a newline."""
    machines: list[Json] = [
        {
            "machine": each.specification.machine.name,
            "mutants": len(each.outcomes),
            "survivors": len(each.survivors),
            "equivalent": len(each.equivalent),
            "score": round(each.score, 4),
            "kills": dict(each.kills()),
            "unsound": list(each.unsound),
            "outcomes": [_outcome_data(outcome) for outcome in each.outcomes],
        }
        for each in mutated
    ]
    return dumped({"verdict": answer(mutated).name.lower(), "machines": machines})


def _outcome_data(outcome: MutationOutcome[Mutant | JointMutant]) -> Json:
    mutant = outcome.mutant
    where: dict[str, Json] = {"state": mutant.state} if isinstance(mutant, Mutant) else {"way": mutant.way or None}
    return {
        "mutant": mutant.name,
        "event": mutant.event,
        **where,
        "line": mutant.line or None,
        "killers": list(outcome.killers),
        "equivalent": outcome.equivalent,
    }
