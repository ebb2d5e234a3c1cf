"""The checker's conclusions for a page: each property under each profile, with the runs that show them."""

import re
from collections.abc import Iterable, Sequence
from itertools import islice
from typing import Any, Final, NamedTuple

from fsm.diagrams.draw import sequence_svg
from fsm.diagrams.draw.sequence import breaks_at, chart
from fsm.machine import Machine
from fsm.machine.findings import WatchedProperty
from fsm.machine.product.system import System
from fsm.machine.property import evidence
from fsm.machine.property.claims import Property
from fsm.machine.property.evidence import Checked, Examined, Run
from fsm.report.check_report import reason, status
from fsm.report.json_report import Json, picked
from fsm.report.page.machine_data import clause_data
from fsm.report.runs import happens, parts

# The style element of a chart, which is the same in all charts.
_STYLE: Final = re.compile("<style>(.*?)</style>", re.DOTALL)

WITNESSES: Final = 2  # maximum number of witnesses kept for a property that asks for possible runs


class _Shown(NamedTuple):
    """A run, and the name of the property that it breaks, or an empty string if it breaks none."""

    run: Run
    broken: str


def property_data(examined: Sequence[Examined]) -> dict[str, Json]:
    """Return the properties in order, each with its verdicts, and the runs without duplicates."""
    runs: dict[_Shown, int] = {}
    found: dict[str, dict[str, Json]] = {}
    verdicts: dict[str, dict[str, Json]] = {}
    for examination in examined:
        for checked in examination.checked:
            found.setdefault(checked.of.name, clause_data(checked.of.clause))
            verdicts.setdefault(checked.of.name, {})[examination.profile or ""] = _verdict(checked, runs)
    stated = {checked.of.name: checked.of for each in examined for checked in each.checked}
    shown = [_run(run.run, examined[0].machine, stated.get(run.broken)) for run in runs]
    style = next((_STYLE.findall(each["chart"])[0] for each in shown), "")
    return {
        "list": [{**each, "verdicts": verdicts[name]} for name, each in found.items()],
        "runs": [{**each, "chart": _STYLE.sub("", each["chart"])} for each in shown],
        "style": style,
    }


def _verdict(checked: Checked, runs: dict[_Shown, int]) -> Json:
    known = picked(checked.expected, known="about", link="link") if checked.expected else {"known": "", "link": ""}
    broken = checked.of.name if isinstance(checked.verdict, evidence.Refuted) else ""
    shown = (runs.setdefault(_Shown(run, broken), len(runs)) for run in _shown(checked))
    return {
        "status": status(checked).word,
        "why": reason(checked),
        **known,
        "runs": [*shown],
    }


def _shown(checked: Checked) -> Iterable[Run]:
    match checked.verdict:
        case evidence.Refuted() as refuted:
            return [refuted.run] if refuted.run else []
        case evidence.Proved(witnesses=witnesses):
            return islice(witnesses, WITNESSES)
        case _:
            return []


def _run(run: Run, of: Machine | System, broken: Property | None) -> dict[str, Any]:
    drawn = chart(run, of, broken)
    return {
        "initial": run.initial,
        "steps": [
            {
                "what": happens(each),
                **picked(each, "source", "target"),
                "parts": [*parts(each)],
                "moved": {done.copy: done.target for done in each.done if done.source != done.target},
            }
            for each in (*run.steps, *run.cycle)
        ],
        "cycle": len(run.steps) if run.cycle else -1,
        "stopped": run.stopped,
        "breaks": breaks_at(run) if broken is not None else 0,
        "waits": [
            f"{row.source} waits for {row.target}{row.text.removeprefix(row.kind)}"
            for row in drawn.rows
            if row.kind == "waits"
        ],
        "chart": sequence_svg.svg(drawn).decode(),
    }


def watched_data(watched: Sequence[WatchedProperty]) -> dict[str, Json]:
    """Return the results of the properties against which a recording was checked."""
    return {
        "list": [
            {
                **clause_data(each.clause),
                "verdicts": {"": {"status": each.status, "why": each.why, "known": "", "link": "", "runs": []}},
            }
            for each in watched
        ],
        "runs": [],
    }
