"""In a real browser, a page of a recording shows violations and coverage, and its slider and printing work."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest
from browser import SCREENS, made, planted, shown
from commands import FAILING, fsm

from fsm.diagrams.draw.text_pictures import TIMES

if TYPE_CHECKING:
    from pathlib import Path

    from browser import Pages, Scheme
    from playwright.sync_api import Browser, Page

pytestmark = pytest.mark.slow

HOSTILE = "<script>window.foreign = 1</script><img src=x onerror='window.foreign = 1'> </script><!-- ]]> ${x} &lt; é"


@pytest.fixture(scope="module")
def failing(folder: Path) -> Path:
    path = folder / "failing.html"
    ran = fsm("judge", "--format", "html", FAILING, "-o", str(path))
    assert ran.returncode == 1, ran.stderr
    return path


@pytest.fixture(scope="module")
def still(failing: Path, folder: Path) -> Path:
    return planted(
        failing,
        folder / "still.html",
        ("input: () => go(", "nothing: () => go("),
        ("chart.shade(story.steps.slice(0, step)", "chart.shade(story.steps"),
        (" ${heatOf(count)}`", "`"),
        ("@media print {", "@media none {"),
        ("\\u2717 stop", "stop"),
    )


def test_the_first_violation_is_a_click_away(pages: Pages, failing: Path) -> None:
    found = pages.at(failing)
    page = found.page
    page.locator(".first").get_by_role("button").click()
    told = page.locator(".told")
    told.get_by_text("Why these states").click()
    for text in (
        "absent: StopContainer would reply ok",
        "StopContainer replied NOT_FOUND",
        "containerd-1.6.20.log:14",
        "absent",
        "ok",
        "stop-is-idempotent",
        "MUST",
    ):
        assert text in told.inner_text()
    assert page.locator(".observation[aria-current]").inner_text().startswith("violation")
    assert page.locator("#stories .node.broken").count() > 0
    assert (found.requests, found.complaints) == ([], [])


def charted(page: Page) -> None:
    texts = page.locator(".told svg > g[role=img] > text:last-child").all_text_contents()
    marked = [each.startswith("✗ stop-is-idempotent (MUST)") for each in texts]
    assert marked == [False] * 7 + [True, False, True]
    assert page.locator(".told svg rect.violation").count() == 2


def test_a_violation_is_marked_in_a_sequence_chart(pages: Pages, failing: Path) -> None:
    charted(pages.at(failing).page)


def test_a_violation_that_is_not_marked_is_noticed(pages: Pages, still: Path) -> None:
    with pytest.raises(AssertionError):
        charted(pages.at(still).page)


def slid(page: Page) -> None:
    page.get_by_label("Observation", exact=True).focus()
    page.keyboard.press("Home")
    assert "created" in page.locator(".told").inner_text()
    assert page.locator("#stories .node.possible").count() == 1
    page.keyboard.press("ArrowRight")
    assert page.locator("#stories .node.possible").count() > 1


def test_a_slider_goes_through_what_was_observed(pages: Pages, failing: Path) -> None:
    page = pages.at(failing).page
    slid(page)
    page.get_by_role("button", name="Next violation").click()
    assert "NOT_FOUND" in page.locator(".told").inner_text()
    page.get_by_role("button", name="Next", exact=True).click()
    page.go_back()
    assert "NOT_FOUND" in page.locator(".told").inner_text()


def test_a_slider_that_moves_nothing_is_noticed(pages: Pages, still: Path) -> None:
    with pytest.raises(AssertionError):
        slid(pages.at(still, "entity=0&step=9").page)


def on_paper(page: Page) -> None:
    color = "getComputedStyle(document.body).backgroundColor"
    cut = """() => [...document.querySelectorAll(".panel, .picture, .wide, .drawing, .matrix")].filter(
      (each) => each.checkVisibility() && (each.scrollHeight > each.clientHeight + 1 || each.scrollWidth > each.clientWidth + 1)).length"""
    wide = page.viewport_size
    page.set_viewport_size({"width": 720, "height": 1000})
    page.emulate_media(media="screen", color_scheme="dark")
    try:
        assert page.evaluate(color) != "rgb(255, 255, 255)"
        assert page.locator("#profile").is_visible()
        assert page.evaluate(cut) > 0
        page.emulate_media(media="print", color_scheme="dark")
        assert page.evaluate(color) == "rgb(255, 255, 255)"
        assert not page.locator("#profile").is_visible()
        assert page.evaluate(cut) == 0
    finally:
        page.emulate_media(media="screen", color_scheme="light")
        if wide:
            page.set_viewport_size(wide)


def test_paper_is_white(pages: Pages, failing: Path) -> None:
    on_paper(pages.at(failing, "entity=0&step=9&cell=create/absent").page)


def test_what_is_printed_as_on_the_screen_is_noticed(pages: Pages, still: Path) -> None:
    with pytest.raises(AssertionError):
        on_paper(pages.at(still).page)


def shaded_cells(page: Page) -> None:
    assert "heat" in str(page.locator('[data-cell="create/absent"]').get_attribute("class"))
    assert "unmet" in str(page.locator('[data-cell="stop/exited"]').get_attribute("class"))


COUNTS = """within => {
  const svg = document.querySelector(`${within} .drawing`).shadowRoot.querySelector("svg");
  const named = (all, name) => Object.fromEntries([...all].map((each) => [name(each), each]));
  const nodes = named(svg.querySelectorAll(".node[data-states]"), (each) => each.dataset.states);
  const edges = named(svg.querySelectorAll(".edge[data-from]"), (each) => `${each.dataset.from} ${each.dataset.to}`);
  const told = (each) => [
    [...each.classList].find((name) => name.startsWith("heat")) ?? "",
    each.querySelector(".count")?.textContent ?? "",
    each.querySelector(":scope > title").textContent.split(" — ").at(-1),
  ];
  return Object.fromEntries(Object.entries({ ...nodes, ...edges }).map(([name, each]) => [name, told(each)]));
}"""


def shaded_over_time(page: Page) -> None:
    slider = page.get_by_label("Observation", exact=True)
    slider.focus()
    page.keyboard.press("Home")
    first = page.evaluate(COUNTS, "#stories")
    assert first["absent"] == ["heat1", f"1{TIMES}", "met 1 time"]
    assert first["absent created"] == ["heat1", "", "met 1 time"]
    assert first["created"] == ["", "", "never met"]
    page.keyboard.press("End")
    last = page.evaluate(COUNTS, "#stories")
    assert last["absent"] == ["heat2", f"16{TIMES}", "met 16 times"]
    assert last["created"][0] == "heat1"
    page.keyboard.press("Home")
    assert page.evaluate(COUNTS, "#stories") == first


def test_what_was_met_is_shaded(pages: Pages, failing: Path) -> None:
    page = pages.at(failing).page
    shaded_cells(page)
    shaded_over_time(page)


def test_the_whole_recording_shades_the_specification(pages: Pages, failing: Path) -> None:
    page = pages.at(failing).page
    told = page.evaluate(COUNTS, ".walk")
    cells = page.locator('.machine:not([hidden]) [data-cell$="/absent"] .count').all_inner_texts()
    assert sum(int(each.strip(f" {TIMES}")) for each in cells) == 42
    assert told["absent"] == ["heat2", f"42{TIMES}", "met 42 times"]
    assert told["absent created"] == ["heat1", "", "met 6 times"]
    assert told["starting running"] == ["heat1", "", "met 3 times, whichever way it went"]
    assert told["running exited"] == ["", "", "never met"]


def test_shades_that_are_missing_or_stay_are_noticed(pages: Pages, still: Path) -> None:
    page = pages.at(still).page
    with pytest.raises(AssertionError):
        shaded_cells(page)
    with pytest.raises(AssertionError):
        shaded_over_time(page)


@pytest.mark.parametrize(("width", "scheme"), SCREENS)
def test_nobody_is_kept_from_a_recording(width: int, scheme: Scheme, pages: Pages, failing: Path) -> None:
    found = pages.at(failing, width=width, scheme=scheme)
    assert found.serious() == []
    assert not found.too_wide()


def test_text_of_a_recording_stays_text(browser: Browser, tmp_path: Path) -> None:
    path = tmp_path / "hostile.jsonl"
    head = {"trace": 1, "machine": "cri-container", "fresh": True}
    seen = {
        "entity": HOSTILE,
        "of": "container",
        "event": "start",
        "reply": HOSTILE,
        "detail": f"{HOSTILE}\u2028\u202e",
    }
    path.write_text(f"{json.dumps(head)}\n{json.dumps(seen)}\n", encoding="utf-8")
    page = made(tmp_path, str(path))
    with shown(browser, page) as found:
        text = found.page.locator("main").inner_text()
        assert HOSTILE in text
        assert "\u2028" not in text
        assert found.page.locator("img").count() == 0
        assert found.page.evaluate("window.foreign === undefined")
        assert (found.requests, found.complaints) == ([], [])
