"""How well the judge notices illegal edits of recordings, as text and as JSON."""

from collections import Counter
from collections.abc import Iterable, Iterator
from itertools import islice
from typing import Final

from fsm.mutation.power import ANSWERS, EditAnswer, Planted, Power
from fsm.report import ExitCode
from fsm.report.json_report import Json, dumped
from fsm.report.layout import Layout
from fsm.report.words import plural, short

MISSED: Final = 5
"""Maximum number of missed edits explained per recording, those with the fewest acts first."""

Counts = dict[str, Counter[EditAnswer]]


def answer(powers: tuple[Power, ...]) -> ExitCode:
    """Return the exit code: failure for a missed edit or a false alarm, unknown if no edit was illegal."""
    if any(each.alarms or each.counts()["missed"] for each in powers):
        return ExitCode.FAILS
    return ExitCode.HOLDS if any(each.planted for each in powers) else ExitCode.UNKNOWN


def share(powers: tuple[Power, ...]) -> str:
    """Return the percentage of the illegal edits that are noticed, or an empty string if there are none."""
    illegal = sum(len(each.planted) for each in powers)
    missed = sum(each.counts()["missed"] for each in powers)
    return f"{1 - missed / illegal:.1%}" if illegal else ""


def tables(power: Power) -> tuple[Counts, Counts]:
    """Return the answers by kind of edit, and by cell."""
    kinds: Counts = {}
    cells: Counts = {}
    for each in power.planted:
        kinds.setdefault(each.edit.kind, Counter())[each.answer] += 1
        cells.setdefault(f"{each.illegality.machine}: {each.illegality.cell}", Counter())[each.answer] += 1
    return dict(sorted(kinds.items())), dict(sorted(cells.items()))


def missed(power: Power) -> list[Planted]:
    """Return the missed edits, those with the fewest acts first."""
    found = [each for each in power.planted if each.answer == "missed"]
    return sorted(found, key=lambda each: (len(each.illegality.acts), each.edit.line))


def text(powers: tuple[Power, ...], layout: Layout, *, profiled: bool) -> str:
    """Return the text report.  *profiled* says whether the recordings were judged under a profile."""
    lines = [line for each in powers for line in _lines(each, layout, profiled=profiled)]
    return "\n".join([*lines, f"verdict: {layout.verdict(answer(powers))}"]) + "\n"


def _lines(power: Power, layout: Layout, *, profiled: bool) -> Iterator[str]:
    yield layout.style(power.name, "bold") + f": {power.form.title}"
    planted = f"{power.tried:,} of {plural(power.edits, 'edit')} tried, {len(power.planted):,} illegal without doubt"
    alarms = f"{plural(power.alarms, 'false alarm')}, {plural(power.surprises, 'surprise')} without any edit"
    yield from layout.kept(f"{planted}{', noticed ' * bool(power.planted)}{share((power,))}; {alarms}")
    if power.alarms and not profiled:
        why = "without --profile, known deviations of the version that was recorded count as false alarms"
        yield from layout.kept(why)
    for title, table in zip(("kind", "cell"), tables(power) if power.planted else (), strict=False):
        rows: list[tuple[str, Iterable[str]]] = [(title, ANSWERS)]
        rows += [(name, [f"{counted[each]:,}" for each in ANSWERS]) for name, counted in table.items()]
        for name, cells in rows:
            lead = "  " + "".join(f"{each:>10}" for each in cells) + "  "
            yield from layout.kept(name, lead, " " * (len(lead) + 2))
    for each in islice(missed(power), MISSED):
        what = f"line {each.edit.line}, {each.edit.kind}: {each.edit.what}"
        yield from layout.kept(f"missed  {what}", "  ", " " * 10, marked="missed", how="red")
        yield from layout.kept(f"{each.illegality.machine}: {each.illegality.why}", " " * 10)
        if each.illegality.acts:
            acts = each.illegality.acts[-MISSED:]
            before = " → ".join(" ".join(filter(None, (act.event, act.reply, act.shows))) for act in acts)
            yield from layout.kept(short(f"{each.illegality.acts[0].entity}: {before}"), " " * 10)


def json(powers: tuple[Power, ...]) -> str:
    """Return the report as one JSON document that lists every illegal edit, ending in a newline."""
    recordings: list[Json] = [
        {
            "recording": each.name,
            "kind": each.form.title,
            "edits": each.edits,
            "tried": each.tried,
            "illegal": len(each.planted),
            "answers": dict(each.counts()),
            "alarms": each.alarms,
            "surprises": each.surprises,
            "planted": [
                {
                    "line": planted.edit.line,
                    "kind": planted.edit.kind,
                    "edit": planted.edit.what,
                    "machine": planted.illegality.machine,
                    "cell": planted.illegality.cell,
                    "why": planted.illegality.why,
                    "answer": planted.answer,
                }
                for planted in each.planted
            ],
        }
        for each in powers
    ]
    return dumped({"verdict": answer(powers).name.lower(), "recordings": recordings})
