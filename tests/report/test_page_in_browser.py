"""The pages of ``fsm explore`` work in a real browser, keep their state in the address, and make no requests."""

from __future__ import annotations

import json
import random
from collections import Counter
from typing import TYPE_CHECKING

import pytest
from browser import NARROW, SCREENS, SETTLED, made, planted, shown
from page_parts import offered, state, unfolded, walk

from fsm.language.library import load
from fsm.machine.calls import BEGUN, Rules
from fsm.machine.table import tabulate

if TYPE_CHECKING:
    from pathlib import Path

    from browser import Pages, Scheme
    from playwright.sync_api import Browser, Page

    from fsm.machine import Machine

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def container(folder: Path) -> Path:
    return made(folder, "container-status")


@pytest.fixture(scope="module")
def small(folder: Path) -> Path:
    return made(folder, "stats-collector", "--no-properties")


@pytest.fixture(scope="module")
def deaf(container: Path, folder: Path) -> Path:
    """Return a defective page that ignores keys and the slider, and that does not scroll the drawing."""
    return planted(
        container,
        folder / "deaf.html",
        ('node.addEventListener("keydown"', 'node.addEventListener("nothing"'),
        ("keydown: (event) => move(", "nothing: (event) => move("),
        ("input: () => to(Number(slider.value))", "nothing: () => 0"),
        ("host.scrollLeft += ", "host.scrollLeft += 0 * "),
    )


def click(page: Page, step: str) -> None:
    walk(page).locator(f'[data-step="{step}"]').click()


def test_a_walk_goes_on_by_clicks_and_back_by_the_browser(pages: Pages, container: Path) -> None:
    found = pages.at(container)
    page = found.page
    assert state(page) == "absent"
    for step, then in (("create/created", "created"), ("start/begins", "starting"), ("…start/started", "running")):
        click(page, step)
        assert state(page) == then

    page.go_back()
    assert state(page) == "starting"
    assert page.get_by_role("heading", name="Calls in progress").is_visible()
    page.go_back()
    assert state(page) == "created"
    page.go_forward()
    assert state(page) == "starting"
    kept = page.url

    with shown(pages.browser, container, at=kept.partition("#")[2]) as found:
        assert state(found.page) == "starting"
        assert (found.requests, found.complaints) == ([], [])


def test_a_link_to_what_is_not_possible_says_so(pages: Pages, container: Path) -> None:
    found = pages.at(container)
    for steps in ("start/begins", "create/created …start/started", "nonsense", "create/created __proto__/x"):
        found.page.evaluate("steps => { location.hash = new URLSearchParams({ walk: steps }) }", steps)
        assert "is not possible" in found.page.get_by_role("alert").inner_text()
        found.page.evaluate("location.hash = ''")
        assert found.page.get_by_role("alert").count() == 0
    assert found.complaints == []


def chosen_by_key(page: Page) -> None:
    for name, key in (("running CONTAINER_RUNNING: ", "Enter"), ("exited CONTAINER_EXITED: ", " ")):
        page.get_by_role("button", name=name, exact=False).first.focus()
        page.keyboard.press(key)
        assert state(page) == name.partition(" ")[0]


def test_a_state_is_chosen_by_mouse_and_by_key(pages: Pages, container: Path) -> None:
    page = pages.at(container).page
    page.get_by_role("button", name="exited CONTAINER_EXITED: ", exact=False).first.click()
    assert state(page) == "exited"
    chosen_by_key(page)


def test_a_state_that_no_key_chooses_is_noticed(pages: Pages, deaf: Path) -> None:
    with pytest.raises(AssertionError):
        chosen_by_key(pages.at(deaf).page)


_FOCUSED = """() => {
  let each = document.activeElement;
  while (each.shadowRoot?.activeElement) each = each.shadowRoot.activeElement;
  return [each.id || each.getAttribute("class") || each.tagName, getComputedStyle(each).outlineStyle !== "none"];
}"""


def tabbed(page: Page) -> None:
    reached, unseen = Counter[str](), list[str]()
    for _ in range(80):
        page.keyboard.press("Tab")
        name, seen = page.evaluate(_FOCUSED)
        reached[name.partition(" ")[0]] += 1
        unseen += [] if seen else [name]
        if name.startswith("cell"):
            break
    assert unseen == []
    assert {"profile", "linked", "node", "way", "wide", "cell"} <= reached.keys()
    assert reached["node"] == page.locator("g.node[data-states]").count() > 1
    page.keyboard.press("Tab")
    assert not page.evaluate(_FOCUSED)[0].startswith("cell")


def test_all_is_reached_by_keyboard_and_it_is_seen_where_one_is(browser: Browser, small: Path) -> None:
    with shown(browser, small) as found:
        tabbed(found.page)


@pytest.mark.parametrize(
    "mistake",
    [
        ('node.setAttribute("tabindex", "0")', ""),
        ("outline: 3px solid", "outline: 0 none"),
        ('each === to ? "0" : "-1"', '"0"'),
    ],
    ids=["states", "where", "table"],
)
def test_what_no_key_reaches_is_noticed(
    mistake: tuple[str, str], browser: Browser, small: Path, tmp_path: Path
) -> None:
    """A page fails the test if Tab skips states, if the focus is invisible, or if every cell is a tab stop."""
    with shown(browser, planted(small, tmp_path / "planted.html", mistake)) as found, pytest.raises(AssertionError):
        tabbed(found.page)


def test_a_cell_shows_its_clause_and_what_profiles_change(pages: Pages, container: Path) -> None:
    """A cell shows its clause and what a profile changes.

    The CRI requires that StopContainer succeeds in *absent*, but containerd 1.6 refuses it.
    """
    page = pages.at(container).page
    page.locator('[data-cell="stop/absent"]').click()
    detail = page.locator(".table .detail")
    for text in ("replies ok", "MUST", "stop-is-idempotent", "CRI api.proto", "containerd-1.6"):
        assert text in detail.inner_text()
    page.locator("#profile").select_option("containerd-1.6")
    assert "NOT_FOUND" in detail.inner_text()
    assert "profile=containerd-1.6" in page.url


def moved_by_arrows(page: Page) -> None:
    page.locator('[data-cell="stop/absent"]').focus()
    for key, cell in (("ArrowDown", "remove/absent"), ("ArrowRight", "remove/created"), ("Home", "remove/absent")):
        page.keyboard.press(key)
        assert page.evaluate("document.activeElement.dataset.cell") == cell


def test_arrow_keys_go_from_cell_to_cell(pages: Pages, container: Path) -> None:
    moved_by_arrows(pages.at(container).page)


def test_arrow_keys_that_do_nothing_are_noticed(pages: Pages, deaf: Path) -> None:
    with pytest.raises(AssertionError):
        moved_by_arrows(pages.at(deaf).page)


def replayed(page: Page) -> None:
    stated = unfolded(page, "stop-is-idempotent")
    told = stated.get_by_role("status").first
    stated.get_by_role("button", name="Next").first.click()
    assert "Step 1 of" in told.inner_text()
    assert stated.locator(".step.now").count() == 1
    stated.get_by_role("button", name="Previous").first.click()
    assert "It starts in absent" in told.inner_text()
    stated.get_by_role("slider").first.focus()
    page.keyboard.press("End")
    assert "this breaks it" in told.inner_text()
    assert str(stated.locator(".step.now").text_content()).startswith("✗ ")
    assert "✗ breaks it" in stated.locator(".run li").last.inner_text()
    assert "✗" not in stated.locator(".run li").first.inner_text()


def test_a_run_is_replayed_step_by_step(pages: Pages, container: Path) -> None:
    found = pages.at(container, "profile=containerd-1.6")
    replayed(found.page)
    assert found.complaints == []


def test_a_slider_that_moves_nothing_is_noticed(pages: Pages, deaf: Path) -> None:
    with pytest.raises(AssertionError):
        replayed(pages.at(deaf, "profile=containerd-1.6").page)


STEPS = 14


def wander(page: Page, machine: Machine, *, steps: int, seed: int) -> None:
    rules, chance = Rules(tabulate(machine)), random.Random(seed)
    rows = rules.table.rows
    at, calls = rules.table.initial, list[int]()
    for _ in range(steps):
        allowed = [
            (row, each)
            for row in range(len(rows))
            if not rows[row].ends or row - 1 in calls
            for each in (rules.instants(at, row - 1, BEGUN) if rows[row].ends else rules.instants(at, row))
        ]
        shown_rows = sorted(each.partition("/")[0] for each in offered(page))
        assert shown_rows == sorted(rows[row].name for row, _ in allowed)
        leading = [(of, each) for of, each in allowed if each.to != at]
        row, taken = chance.choice(leading if leading and chance.random() < 0.8 else allowed)
        nth = [each for of, each in allowed if of == row].index(taken)
        button = walk(page).locator(f'[data-event="{rows[row].name}"] [data-step]').nth(nth)
        button.evaluate("each => each.click()")  # the section may be folded
        calls = [] if rules.interrupts(row) else calls
        if taken.stage == BEGUN and not rows[row].ends:
            calls = [*calls, row]
        elif rows[row].ends and taken.stage != BEGUN:
            calls.remove(row - 1)
        at = taken.to
        assert state(page) == rules.table.states[at]


@pytest.mark.parametrize("profile", ["", "containerd-1.6"])
def test_the_script_offers_what_the_table_allows(profile: str, pages: Pages, container: Path) -> None:
    found = pages.at(container, f"profile={profile or 'none'}")
    wander(found.page, load("container-status").under(profile or None), steps=STEPS, seed=7)


def test_what_is_not_in_the_table_is_noticed(browser: Browser, container: Path, tmp_path: Path) -> None:
    path = planted(container, tmp_path / "planted.html", ('"call":"begins"', '"call":""'))
    with shown(browser, path) as found, pytest.raises(AssertionError):
        wander(found.page, load("container-status"), steps=STEPS, seed=7)


@pytest.mark.parametrize(("width", "scheme"), SCREENS)
def test_nobody_is_kept_out(width: int, scheme: Scheme, pages: Pages, container: Path) -> None:
    at = "profile=containerd-1.6&walk=create/created+start/begins&cell=stop/absent"
    found = pages.at(container, at, width=width, scheme=scheme)
    unfolded(found.page, "stop-is-idempotent")
    assert found.serious() == []
    assert not found.too_wide()
    assert (found.requests, found.complaints) == ([], [])


def test_an_unlabelled_button_a_faint_text_and_a_wide_one_are_found(
    browser: Browser, small: Path, tmp_path: Path
) -> None:
    faint = '<body><button></button><p style="color:#ccc;background:#fff;width:9000px">faint</p>'
    with shown(browser, planted(small, tmp_path / "planted.html", ("<body>", faint))) as found:
        names = " ".join(found.serious("body > button, body > p"))
        assert "button-name" in names
        assert "color-contrast" in names
        assert found.too_wide()


def test_a_request_is_refused_by_the_page_and_found(browser: Browser, small: Path, tmp_path: Path) -> None:
    asks = ("</body>", '<img alt="" src="http://127.0.0.1:9/x.png"></body>')
    for name, mistakes in (("kept", [asks]), ("dropped", [asks, ("<meta http-equiv", "<meta name")])):
        with shown(browser, planted(small, tmp_path / f"{name}.html", *mistakes)) as found:
            assert found.complaints  # the policy blocked the request, or there was no answer
            assert any("Content Security Policy" in each for each in found.complaints) is (name == "kept")
            assert found.requests == ["http://127.0.0.1:9/x.png"]


def test_what_is_foreign_in_a_script_is_not_run(browser: Browser, small: Path, tmp_path: Path) -> None:
    path = tmp_path / "planted.html"
    text = small.read_text(encoding="utf-8")
    path.write_text(text.replace("</body>", "<script>window.foreign = 1</script></body>"), encoding="utf-8")
    with shown(browser, path) as found:
        assert found.page.evaluate("window.foreign === undefined")
        assert found.complaints


def in_view(page: Page) -> None:
    """Check that the current state is visible although the drawing is wider than the screen.

    If the user scrolls away, the next step must scroll back.
    """
    inside = """() => {
      const host = [...document.querySelectorAll(".walk .drawing")][0], box = host.getBoundingClientRect();
      const at = host.shadowRoot.querySelector(".node.current").getBoundingClientRect();
      return host.scrollWidth > host.clientWidth && at.left >= box.left - 1 && at.right <= box.right + 1;
    }"""
    page.evaluate(SETTLED)
    assert page.evaluate(inside)
    page.evaluate("document.querySelector('.walk .drawing').scrollLeft = 0")
    assert not page.evaluate(inside)
    click(page, "…remove/failed")
    page.evaluate(SETTLED)
    assert page.evaluate(inside)


AT = "walk=create/created+remove/begins"


def test_on_a_narrow_screen_the_state_is_in_view(pages: Pages, container: Path) -> None:
    in_view(pages.at(container, AT, width=NARROW, scheme="dark").page)


def test_a_state_that_is_not_in_view_is_noticed(pages: Pages, deaf: Path) -> None:
    page = pages.at(deaf, AT).page
    page.set_viewport_size({"width": NARROW, "height": 900})
    with pytest.raises(AssertionError):
        in_view(page)


HOSTILE = "<script>window.foreign = 1</script><img src=x onerror='window.foreign = 1'> </script><!-- ]]> ${x} &lt; é"


def test_text_of_a_model_stays_text(browser: Browser, tmp_path: Path) -> None:
    path = tmp_path / "hostile.toml"
    text = json.dumps(HOSTILE, ensure_ascii=False)
    path.write_text(
        f'[machine]\nname = "hostile"\ntitle = {text}\nabout = {text}\nsource = {text}\ninitial = "off"\n'
        f'[states]\noff = {{ about = {text} }}\nend = {{ about = "" }}\n'
        f'[clause.class]\nsays = {text}\nMUST = {text}\nlink = "javascript:window.foreign=1"\n'
        f'[event.note]\nkind = "call"\nabout = {text}\nclause = "class"\nmoves.off = "end"\nrefuses.end = "NOT_FOUND"\n',
        encoding="utf-8",
    )
    page = made(tmp_path, str(path))
    with shown(browser, page) as found:
        assert HOSTILE in found.page.locator("h1").inner_text()
        assert HOSTILE in found.page.locator(".clause").first.inner_text()
        assert found.page.locator("img, a[href^=javascript]").count() == 0
        assert found.page.evaluate("window.foreign === undefined")
        assert (found.requests, found.complaints) == ([], [])
