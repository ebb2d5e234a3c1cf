"""A chart of a run shows where the property breaks, which steps repeat, and which parts wait at the end."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from label_geometry import chart_drawn, touching, widths
from readers import participants_by_mermaid
from real_parts import program

from fsm.checker.known_defects import known_defects
from fsm.diagrams.draw.sequence import chart, mermaid
from fsm.diagrams.draw.sequence_svg import svg
from fsm.language.library import claims, load
from fsm.machine.evidence import Run, RunStep
from fsm.machine.product.system import System

if TYPE_CHECKING:
    from fsm.checker.known_defects import KnownDefect
    from fsm.diagrams.draw.sequence import SequenceChart

FINDINGS = Path(__file__).resolve().parent.parent.parent / "docs" / "findings"


def defect(model: str, name: str) -> KnownDefect:
    return next(each for each in known_defects(model) if each.stated.name == name)


def drawn(found: KnownDefect, *, broken: bool = True) -> SequenceChart:
    assert isinstance(found.of.machine, System)
    assert found.run is not None
    return chart(found.run, found.of.machine, found.stated if broken else None)


def texts(shown: SequenceChart, kind: str) -> list[str]:
    return [row.text for row in shown.rows if row.kind == kind]


def test_the_last_step_breaks_it() -> None:
    found = defect("late-updates", "nothing-after-the-removal")
    shown = drawn(found)
    steps = texts(shown, "step")

    assert [each.startswith("✗ ") for each in steps] == [False] * (len(steps) - 1) + [True]
    assert (shown.rows[-1].kind, shown.rows[-1].text) == ("violation", "nothing-after-the-removal is broken")
    assert shown.rows[-1].whole.endswith(found.stated.says)
    assert (texts(shown, "divider"), texts(shown, "waits")) == ([], [])


def test_a_run_that_breaks_nothing_has_no_mark() -> None:
    shown = drawn(defect("late-updates", "nothing-after-the-removal"), broken=False)

    assert texts(shown, "violation") == []
    assert not any(each.startswith("✗") for each in texts(shown, "step"))


def test_the_last_step_of_a_machine_breaks_it() -> None:
    machine = load("container-status")
    stated = next(each for each in claims("container-status").properties if each.name == "stop-is-idempotent")
    stops = RunStep(event="stop", source="absent", target="absent", outcome="ignored", reply="ok")
    run = Run(initial="absent", steps=(stops, stops))

    assert texts(chart(run, machine, stated), "step") == ["1. StopContainer", "✗ 2. StopContainer"]
    endless = Run(initial="absent", steps=(stops,), cycle=(stops,))
    for shown in (chart(endless, machine, stated), chart(run, machine)):
        assert texts(shown, "step") == ["1. StopContainer", "2. StopContainer"]


def test_a_deadlock_shows_who_waits_for_what() -> None:
    shown = drawn(defect("nri-locks", "calls-end"))
    waits = [(row.source, row.target, row.text) for row in shown.rows if row.kind == "waits"]

    assert waits == [("call", "update", "waits, to call-asks"), ("update", "call", "waits, to update-is-made")]
    assert texts(shown, "divider") == ["and then nothing more happens"]
    assert texts(shown, "violation") == ["calls-end is broken"]
    assert not any(each.startswith("✗") for each in texts(shown, "step"))
    assert participants_by_mermaid(mermaid(shown)) == list(shown.participants)


def test_what_goes_on_for_ever_begins_at_a_line() -> None:
    found = defect("nri-locks", "calls-end")
    assert isinstance(found.of.machine, System)
    assert found.run is not None
    first, second = found.run.steps
    shown = chart(Run(initial=found.run.initial, steps=(first,), cycle=(second,)), found.of.machine, found.stated)

    kinds = [(row.kind, row.text) for row in shown.rows if row.kind in {"step", "divider"}]
    assert kinds == [
        ("step", "1. call-begins"),
        ("divider", "from here on again and again"),
        ("step", "2. update-begins"),
    ]


# -- geometry ----------------------------------------------------------------------


@pytest.mark.slow
def test_no_text_of_a_chart_touches_a_line() -> None:
    program("dot")
    charts = {path.stem: chart_drawn(path.read_bytes()) for path in sorted(FINDINGS.glob("*.svg"))}
    wide = widths(style for each in charts.values() for style, _, _ in each.texts)

    assert charts
    assert [f"{name}: {each}" for name, shown in charts.items() for each in touching(shown, wide)] == []


@pytest.mark.parametrize("lower", [4, 8, 12])
def test_a_text_on_its_arrow_is_found(lower: int) -> None:
    program("dot")
    shown = chart_drawn(svg(drawn(defect("nri-locks", "calls-end"))))
    moved = shown._replace(texts=[(style, at._replace(y=at.y + lower), anchor) for style, at, anchor in shown.texts])
    wide = widths(style for style, _, _ in shown.texts)

    assert touching(shown, wide) == []
    assert any("waits, to call-asks" in each for each in touching(moved, wide))
