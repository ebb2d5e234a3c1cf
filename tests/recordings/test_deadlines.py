"""Plugin events are judged together with abandoned calls.

The README of the recordings lists the findings.
"""

from __future__ import annotations

from collections import defaultdict

import pytest
from judged import RECORDINGS, every_violation, profile

from fsm.machine.findings import Illegal
from fsm.monitor.judgement import judge

__all__ = ["every_violation"]

FOLDER = RECORDINGS / "deadlines"
HEAD = "| plugin | with | level | clause | what | lines |\n|---|---|---|---|---|---|"
LISTED = (FOLDER / "README.md").read_text(encoding="utf-8").splitlines()
PAIRS = [
    (path.name, f"{path.name.split('nri.')[0].removesuffix('fsm').removesuffix('two.')}{kind}.gz")
    for path in sorted(FOLDER.glob("*nri.jsonl.gz"))
    for kind in ("calls.jsonl", "log")
]


def rows(events: str, calls: str) -> list[str]:
    found = defaultdict(list)
    for judgement in judge(str(FOLDER / events), calls=str(FOLDER / calls)).judgements:
        for finding in judgement.verdict.findings if isinstance(judgement.verdict, Illegal) else ():
            for each in finding.first:
                of = each.machine.removeprefix("plugin-")
                what = each.observation.detail or f"{each.observation.event} was relayed"
                found[each.clause.level, each.clause.name, f"{of}: {what}"].append(each.line)
    start = f"| `{events}` | `{calls}` | "
    return [
        f"{start}{' | '.join(key)} | {', '.join(map(str, sorted(lines)))} |" for key, lines in sorted(found.items())
    ]


@pytest.mark.parametrize(("events", "calls"), PAIRS)
def test_what_is_found_is_listed(events: str, calls: str) -> None:
    assert rows(events, calls) == [each for each in LISTED if each.startswith(f"| `{events}` | `{calls}` |")]


@pytest.mark.parametrize(("events", "calls"), PAIRS)
def test_what_is_known_of_a_version_is_tolerated(events: str, calls: str) -> None:
    """The profile tolerates every violation of a MUST except a second stop event for a container that had run."""
    found = judge(str(FOLDER / events), calls=str(FOLDER / calls), profile=profile(events)).judgements
    findings = [each for of in found if isinstance(of.verdict, Illegal) for each in of.verdict.findings]
    broken = [(each.clause.name, each.line) for of in findings for each in of.first if each.clause.level == "MUST"]
    assert broken == [("stopped-once", 69)] * (events == "1.7.24-six-clients.two.nri.jsonl.gz")
