"""Report the results of ``fsm mutate`` as text, JSON or TOML."""

from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import islice
from textwrap import wrap
from typing import Final

import tomlkit

from fsm.machine import Machine
from fsm.machine.claims import Specification
from fsm.machine.product.system import System
from fsm.mutation import JointMutant, Mutant
from fsm.mutation.outcomes import MutationOutcome
from fsm.mutation.power import ANSWERS, EditAnswer, Planted, Power
from fsm.mutation.suggestions import CATCHES, Suggested, Suggestion, table_of
from fsm.report import ExitCode
from fsm.report.json_report import Json, dumped, picked
from fsm.report.layout import Layout, joined
from fsm.report.words import grouped, plural, short


@dataclass(frozen=True, slots=True, kw_only=True)
class Mutated:
    """The outcomes for all mutants of a machine or system. A mutant of a system has at most one killer."""

    specification: Specification[Machine | System]
    outcomes: tuple[MutationOutcome[Mutant | JointMutant], ...]
    unsound: tuple[str, ...] = ()  # properties that fail on the original and are therefore not used

    @property
    def survivors(self) -> tuple[MutationOutcome[Mutant | JointMutant], ...]:
        return tuple(outcome for outcome in self.outcomes if outcome.survives)

    @property
    def equivalent(self) -> tuple[MutationOutcome[Mutant | JointMutant], ...]:
        return tuple(outcome for outcome in self.outcomes if outcome.equivalent)

    @property
    def score(self) -> float:
        able = len(self.outcomes) - len(self.equivalent)
        return 1 - len(self.survivors) / able if able else 1.0

    def kills(self) -> dict[str, int]:
        counted = Counter(name for outcome in self.outcomes for name in outcome.killers)
        return {prop.name: counted[prop.name] for prop in self.specification.properties}


def answer(mutated: tuple[Mutated, ...]) -> ExitCode:
    return ExitCode.FAILS if any(mutation.survivors or mutation.unsound for mutation in mutated) else ExitCode.HOLDS


@joined
def text(mutated: tuple[Mutated, ...], layout: Layout, *, listed: str = "survivors") -> Iterator[str]:
    for number, each in enumerate(mutated):
        if number:
            yield ""
        yield from _lines(each, layout, listed)


def _lines(mutated: Mutated, layout: Layout, listed: str) -> Iterator[str]:
    machine, kills = mutated.specification.machine, mutated.kills()
    joint, word = isinstance(machine, System), answer((mutated,)).word
    yield layout.style(machine.name, "bold") + f": {machine.title}"
    what = (
        f"{word}: {plural(len(mutated.outcomes), 'mutant')}, "
        f"{sum(bool(each.killers) for each in mutated.outcomes):,} killed, {len(mutated.equivalent):,} equivalent "
        f"to the {'system' if joint else 'machine'}, {plural(len(mutated.survivors), 'survivor')}"
        + (f", score {mutated.score:.1%}" if mutated.survivors else "")
    )
    yield from layout.wrapped(what, "  ", "    ", marked=word)
    digits = len(f"{max(kills.values(), default=0):,}")
    for name, count in kills.items():
        if name in mutated.unsound:
            how = f"kills nothing, because even without a mutation its result is not the stated one: {name}"
            yield from layout.wrapped(how, "  ", "    ", marked="kills nothing")
        elif not joint and not any(name in outcome.asked for outcome in mutated.outcomes):
            yield f"  {'not needed':>{digits + 6}}  {name}"  # tried only on mutants that survive all other properties
        elif count or not joint:  # A property may kill mutants without ever being the first to do so.
            verb = "first to kill" if joint else "kills"
            how = f"{verb} {count:>{digits},}" if count else layout.style(f"{verb} {'no':>{digits}}", "yellow")
            yield f"  {how}  {name}"
    for outcome in mutated.outcomes:
        if listed == "all" or (listed == "equivalent" and outcome.equivalent):
            yield from _mutant(outcome, machine.path, layout)
    if listed != "all":
        yield from _survivor_lines(mutated, layout)


def _survivor_lines(mutated: Mutated, layout: Layout) -> Iterator[str]:
    lines = grouped((outcome.mutant.line, outcome.mutant.name.partition(": ")) for outcome in mutated.survivors)
    for line, names in lines.items():
        lead = "  survives  "
        for where, changes in grouped((where, change) for where, _, change in names).items():
            yield from layout.kept(f"{where}: {', '.join(changes)}", lead, " " * 12, marked=lead.strip(), how="red")
            lead = " " * 12
        place = _place(mutated.specification.machine.path, line)
        yield from layout.kept(f"{place}: no property breaks", " " * 12)


def _mutant(outcome: MutationOutcome[Mutant | JointMutant], path: str, layout: Layout) -> Iterator[str]:
    word, colour, more = "survives", "red", "no property breaks"
    if outcome.killers:
        word, colour, more = "killed", "green", f"by {', '.join(outcome.killers)}"
    elif outcome.equivalent:
        word, colour, more = "equal", "blue", "the mutant is equivalent to the original"
    yield f"  {layout.style(f'{word:<8}', colour)}  {outcome.mutant.name}"
    yield from layout.kept(f"{_place(path, outcome.mutant.line)}: {more}", " " * 12)


def _place(path: str, line: int) -> str:
    return f"{path}:{line}" if line else path


def json(mutated: tuple[Mutated, ...]) -> str:
    machines: list[Json] = [
        {
            "machine": mutation.specification.machine.name,
            "mutants": len(mutation.outcomes),
            "survivors": len(mutation.survivors),
            "equivalent": len(mutation.equivalent),
            "score": round(mutation.score, 4),
            "kills": {**mutation.kills()},
            **picked(mutation, "unsound"),
            "outcomes": [
                {
                    **picked(outcome, mutant="mutant.name", event="mutant.event"),
                    **picked(outcome.mutant, "state" if isinstance(outcome.mutant, Mutant) else "way?", "line?"),
                    **picked(outcome, "killers", "equivalent"),
                }
                for outcome in mutation.outcomes
            ],
        }
        for mutation in mutated
    ]
    return dumped({"verdict": answer(mutated).word, "machines": machines})


MISSED: Final = 5  # maximum number of missed edits to explain per recording
Counts = dict[str, Counter[EditAnswer]]


def power_answer(powers: tuple[Power, ...]) -> ExitCode:
    if any(power.alarms or power.counts()["missed"] for power in powers):
        return ExitCode.FAILS
    return ExitCode.HOLDS if any(each.planted for each in powers) else ExitCode.UNKNOWN


def noticed(powers: tuple[Power, ...]) -> str:
    """Return the percentage of illegal edits that the judge detects, or an empty string if there are none."""
    illegal = sum(len(power.planted) for power in powers)
    missed = sum(each.counts()["missed"] for each in powers)
    return f"{1 - missed / illegal:.1%}" if illegal else ""


def power_tables(power: Power) -> tuple[Counts, Counts]:
    kinds = grouped((planted.edit.kind, planted.answer) for planted in power.planted)
    places = ((each.illegality, each.answer) for each in power.planted)
    cells = grouped((f"{place.machine}: {place.cell}", answer) for place, answer in places)
    kind_counts, cell_counts = ({name: Counter(found[name]) for name in sorted(found)} for found in (kinds, cells))
    return kind_counts, cell_counts


def missed(power: Power) -> list[Planted]:
    found = [planted for planted in power.planted if planted.answer == "missed"]
    return sorted(found, key=lambda each: (len(each.illegality.acts), each.edit.line))


@joined
def power_text(powers: tuple[Power, ...], layout: Layout, *, profiled: bool) -> Iterator[str]:
    yield f"verdict: {layout.verdict(power_answer(powers))}"
    for power in powers:
        yield from _power_lines(power, layout, profiled=profiled)


def _power_lines(power: Power, layout: Layout, *, profiled: bool) -> Iterator[str]:
    yield layout.style(power.name, "bold") + f": {power.form.title}"
    planted = f"{power.tried:,} of {plural(power.edits, 'edit')} tried, {len(power.planted):,} certainly illegal"
    alarms = f"{plural(power.alarms, 'false alarm')}, {plural(power.surprises, 'surprise')} without any edit"
    yield from layout.kept(f"{planted}{', noticed ' * bool(power.planted)}{noticed((power,))}; {alarms}")
    if power.alarms and not profiled:
        yield from layout.kept("without --profile, known deviations of the recorded version count as false alarms")
    for title, table in zip(("kind", "cell"), power_tables(power) if power.planted else (), strict=False):
        rows: list[tuple[str, Iterable[str]]] = [(title, ANSWERS)]
        rows += [(name, [f"{counted[each]:,}" for each in ANSWERS]) for name, counted in table.items()]
        for name, cells in rows:
            lead = "  " + "".join(f"{cell:>10}" for cell in cells) + "  "
            yield from layout.kept(name, lead, " " * (len(lead) + 2))
    for each in islice(missed(power), MISSED):
        what = f"line {each.edit.line}, {each.edit.kind}: {each.edit.what}"
        yield from layout.kept(f"missed  {what}", "  ", " " * 10, marked="missed")
        yield from layout.kept(f"{each.illegality.machine}: {each.illegality.why}", " " * 10)
        if each.illegality.acts:
            acts = each.illegality.acts[-MISSED:]
            before = " → ".join(" ".join(filter(None, (act.event, act.reply, act.shows))) for act in acts)
            yield from layout.kept(short(f"{each.illegality.acts[0].entity}: {before}"), " " * 10)


def power_json(powers: tuple[Power, ...]) -> str:
    recordings: list[Json] = [
        {
            **picked(power, recording="name", kind="form.title", edits="edits", tried="tried"),
            "illegal": len(power.planted),
            "answers": dict(power.counts()),
            **picked(power, "alarms", "surprises"),
            "planted": [
                {
                    **picked(planted.edit, "line", "kind", edit="what"),
                    **picked(planted.illegality, "machine", "cell", "why"),
                    "answer": planted.answer,
                }
                for planted in power.planted
            ],
        }
        for power in powers
    ]
    return dumped({"verdict": power_answer(powers).word, "recordings": recordings})


WIDEST = 116


def suggestions(suggested: Suggested, mutated: Mutated) -> str:
    machine, survivors = mutated.specification.machine.name, len(mutated.survivors)
    head = f"{plural(len(mutated.outcomes), 'mutant')} of {machine}, {plural(survivors, 'survivor')}."
    if suggested.suggestions:
        head += (
            f" {plural(len(suggested.suggestions), 'property')} would kill {survivors - len(suggested.left):,} of them;"
            " each is proved for the model. Keep a property, in your own words, or delete it."
        )
    lines = [*_comment(head), "", *([] if mutated.specification.path else [f'machine = "{machine}"', ""])]
    for suggestion in suggested.suggestions:
        lines += _property(suggestion)
    equal = [outcome.mutant.name for outcome in mutated.equivalent]
    left = f"For {plural(len(suggested.left), 'survivor')} there is no suggestion: state the intended behaviour."
    same = f"{plural(len(equal), 'mutant')} need no property: no observation distinguishes them from the model."
    for mutants, about in ((suggested.left, left), (equal, same)):
        lines += [*_comment(about), *_cells(mutants), ""] if mutants else []
    return "\n".join(lines[:-1]) + "\n"


def _property(suggestion: Suggestion) -> Iterator[str]:
    yield from _comment(f"kills {plural(len(suggestion.kills), 'survivor')}:")
    yield from _cells(suggestion.kills)
    table = table_of(suggestion.candidate, suggestion.kills[:CATCHES], suggestion.fails)
    yield from tomlkit.dumps({"property": {suggestion.candidate.name: table}}).splitlines()
    yield ""


def _cells(mutants: Iterable[str]) -> Iterator[str]:
    cells = grouped((where, change) for where, _, change in (mutant.partition(": ") for mutant in mutants))
    places = ((where.rpartition(" in "), tuple(changes)) for where, changes in cells.items())
    alike = grouped(((event, changes), state) for (event, _, state), changes in places)
    for (event, what), states in alike.items():
        yield from _comment(f"  {event} in {', '.join(states)}: {', '.join(what)}")


def _comment(text: str) -> list[str]:
    indent = " " * (len(text) - len(text.lstrip()))
    lines = wrap(text, WIDEST, initial_indent=indent, subsequent_indent=f"{indent}    " if indent else "")
    return [f"# {line}" for line in lines]
