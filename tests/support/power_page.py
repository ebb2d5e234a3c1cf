"""Write ``docs/reference/power.md``, which shows how many illegal edits of the shipped recordings are detected.

``python tests/support/power_page.py --write`` measures everything and writes the page.
"""

from __future__ import annotations

import sys
from collections import Counter
from concurrent.futures import ProcessPoolExecutor
from typing import TYPE_CHECKING, Final

from judged import CALLS, EVENTS, LOGS, RECORDINGS, VERSIONS, profile

from fsm.mutation.power import ANSWERS, Power, power_over
from fsm.report.mutation_report import noticed, power_tables

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from fsm.mutation.power import EditAnswer
    from fsm.recordings.time_order import Assume

PAGE: Final = RECORDINGS.parent.parent / "docs" / "reference" / "power.md"
LIMIT: Final = 30
"""The number of edits that are made to each recording.

Recordings that take seconds to judge have fewer edits.
"""

CONCURRENT: Final = tuple(
    f"concurrent/{version}-{run}" for version in VERSIONS[1:] for run in ("six-clients", "six-clients-deadlines")
)
"""The prefixes of the names of recordings with six concurrent clients that sometimes abandon calls."""

CROWDED: Final = ("contexts", "random", "kill9")
RESTARTED: Final = ("restart", "checkpoints", "nri.calls", "forgotten", "orphan", "jsonlog", "debuglevel")
"""Words in the names of recordings that contain a restart of containerd, so that ``--restarts none`` rejects them."""

MEASURED: Final = "\n## In all\n"
"""The start of the generated tables. The text before it is written by hand."""
HEAD: Final = (
    "| recording | profile | edits | illegal | caught | surprise | missed | noticed | false alarms | surprises |"
)
RULE: Final = "|---|---|--:|--:|--:|--:|--:|--:|--:|--:|"


def measured(name: str, calls: str = "", *, under: str | None = None, assume: Assume = "maybe") -> Power:
    return power_over(
        str(RECORDINGS / name),
        calls=str(RECORDINGS / calls) if calls else "",
        profile=under,
        assume=assume,
        limit=LIMIT // 5 if any(each in name for each in CROWDED) else LIMIT,
    )


def row(label: str, under: str | None, powers: Iterable[Power]) -> str:
    those = tuple(powers)
    numbers = [
        sum(each.tried for each in those),
        sum(len(each.planted) for each in those),
        *(sum(each.counts()[answer] for each in those) for answer in ANSWERS),
    ]
    ends = [noticed(those) or "-", sum(each.alarms for each in those), sum(each.surprises for each in those)]
    return " | ".join(["| " + label, under or "none", *map(str, numbers), *map(str, ends)]) + " |"


def sources() -> Iterator[tuple[str, str]]:
    yield from ((name, "") for name in (*CALLS, *LOGS, *EVENTS))
    for name in EVENTS:
        calls = name.replace(".nri.", ".calls.") if ".nri." in name else "cri-calls-with-nri-2.1.9.jsonl"
        yield name, calls


def concurrent() -> Iterator[tuple[str, str]]:
    for run in CONCURRENT:
        yield from ((f"{run}.{kind}.gz", "") for kind in ("calls.jsonl", "log", "nri.jsonl"))
        yield f"{run}.nri.jsonl.gz", f"{run}.calls.jsonl.gz"


def label(name: str, calls: str, assume: Assume = "maybe") -> str:
    return f"`{name}`" + (" `--with` calls" if calls else "") + (f" `--restarts {assume}`" if assume != "maybe" else "")


def line(chosen: tuple[str, str, Assume]) -> tuple[str, Power]:
    name, calls, assume = chosen
    power = measured(name, calls, under=profile(name), assume=assume)
    return row(label(name, calls, assume), profile(name), [power]), power


def page() -> str:
    quiet = [name for name in CALLS if not any(each in name for each in RESTARTED)]
    with ProcessPoolExecutor(2) as pool:
        each = list(pool.map(line, [(name, calls, "maybe") for name, calls in sources()]))
        strict = list(pool.map(line, [(name, "", "none") for name in quiet]))
        together = list(pool.map(line, [(name, calls, "maybe") for name, calls in concurrent()]))
    powers = [power for _, power in each]
    bare = [name for name, calls in sources() if name.startswith(("cri-calls", "containerd-", "nri-")) and not calls]
    plain = [row(label(name, ""), None, [measured(name)]) for name in bare]
    kinds: dict[str, Counter[EditAnswer]] = {}
    models: dict[str, Counter[EditAnswer]] = {}
    for power in powers:
        by_kind, by_cell = power_tables(power)
        for kind, counted in by_kind.items():
            kinds.setdefault(kind, Counter()).update(counted)
        for cell, counted in by_cell.items():
            models.setdefault(cell.partition(":")[0], Counter()).update(counted)
    totals = [
        row("**all recordings**", "its own", powers),
        row("**`--restarts none`**", "its own", (p for _, p in strict)),
        row("**six concurrent clients**", "its own", (p for _, p in together)),
    ]
    return "\n".join(
        [
            PAGE.read_text(encoding="utf-8").partition(MEASURED)[0] + MEASURED,
            *(HEAD, RULE, *totals, ""),
            *_table("kind of edit", kinds),
            *_table("model", models),
            *("## Each recording", "", HEAD, RULE, *(text for text, _ in each), ""),
            *("## Six concurrent clients", "", HEAD, RULE, *(text for text, _ in together), ""),
            *("## Without a restart that no line shows", "", HEAD, RULE, *(text for text, _ in strict), ""),
            *("## Without a profile", "", HEAD, RULE, *plain, ""),
        ]
    )


def _table(title: str, counted: dict[str, Counter[EditAnswer]]) -> list[str]:
    lines = [f"| {title} | " + " | ".join(ANSWERS) + " |", "|---|--:|--:|--:|"]
    for name, answers in sorted(counted.items()):
        lines.append(f"| {name} | " + " | ".join(str(answers[each]) for each in ANSWERS) + " |")
    return [*lines, ""]


if __name__ == "__main__":
    written = page()
    if "--write" in sys.argv[1:]:
        PAGE.write_text(written, encoding="utf-8")
    else:
        sys.stdout.write(written)
