"""Pages of ``fsm explore`` in a real browser: what is clicked, what is kept, and that nothing is asked for."""

from __future__ import annotations

import json
import random
import re
from collections import Counter
from typing import TYPE_CHECKING, Literal

import pytest
from browser import NARROW, WIDE, chromium, shown
from commands import FAILING, fsm

from fsm.library import load, load_system
from fsm.machine.calls.rules import BEGUN, Rules
from fsm.machine.table import tabulate
from fsm.product import SystemTable

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from playwright.sync_api import Browser, Locator, Page

    from fsm.machine import Machine
    from fsm.product.system import System

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    """One for all tests."""
    with chromium() as found:
        yield found


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where the pages are."""
    return tmp_path_factory.mktemp("pages")


@pytest.fixture(scope="module")
def container(folder: Path) -> Path:
    """The page of containerd's record of a container."""
    return made(folder, "container-status")


def made(folder: Path, *arguments: str) -> Path:
    """The page that the command makes."""
    path = folder / f"{re.sub('[^a-z0-9-]', '_', arguments[0])}.html"
    ran = fsm("explore", *arguments, "-o", str(path))
    assert ran.returncode == 0, ran.stderr
    return path


def walk(page: Page) -> Locator:
    """The part of the page in which one walks."""
    return page.locator(".walk:visible").first


def state(page: Page) -> str:
    """The state in which the walk is."""
    return walk(page).locator(".now strong").inner_text()


def click(page: Page, step: str) -> None:
    """Take the step, ``ROW/KEY``, in the panel."""
    walk(page).locator(f'[data-step="{step}"]').click()


def test_a_walk_goes_on_by_clicks_and_back_by_the_browser(browser: Browser, container: Path) -> None:
    with shown(browser, container) as found:
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

    with shown(browser, container, at=kept.partition("#")[2]) as found:
        assert state(found.page) == "starting"
        assert (found.requests, found.complaints) == ([], [])


def test_a_link_to_what_is_not_possible_says_so(browser: Browser, container: Path) -> None:
    """Also where the step is possible without the profile, and to a call that is not in progress."""
    with shown(browser, container) as found:
        for steps in ("start/begins", "create/created …start/started", "nonsense", "create/created __proto__/x"):
            found.page.evaluate("steps => { location.hash = new URLSearchParams({ walk: steps }) }", steps)
            assert "is not possible" in found.page.get_by_role("alert").inner_text()
            found.page.evaluate("location.hash = ''")
            assert found.page.get_by_role("alert").count() == 0
        assert found.complaints == []


def test_a_state_is_chosen_by_mouse_and_by_key(browser: Browser, container: Path) -> None:
    with shown(browser, container) as found:
        page = found.page
        page.get_by_role("button", name="exited CONTAINER_EXITED: ", exact=False).first.click()
        assert state(page) == "exited"
        page.get_by_role("button", name="running CONTAINER_RUNNING: ", exact=False).first.focus()
        page.keyboard.press("Enter")
        assert state(page) == "running"


def test_all_is_reached_by_keyboard_and_it_is_seen_where_one_is(browser: Browser, container: Path) -> None:
    """The profile, the sections, the states in the chart, what happens next, the table."""
    focused = """() => {
      let each = document.activeElement;
      while (each.shadowRoot?.activeElement) each = each.shadowRoot.activeElement;
      return [each.id || each.getAttribute("class") || each.tagName, getComputedStyle(each).outlineStyle !== "none"];
    }"""
    with shown(browser, container) as found:
        page, reached, unseen = found.page, dict[str, int](), list[str]()
        for _ in range(80):
            page.keyboard.press("Tab")
            name, seen = page.evaluate(focused)
            reached[name.partition(" ")[0]] = reached.get(name.partition(" ")[0], 0) + 1
            unseen += [] if seen else [name]
            if name.startswith("cell"):
                break
        drawn = page.locator("g.node[tabindex]").count()

    assert unseen == []
    assert {"profile", "linked", "node", "way", "wide", "cell"} <= reached.keys()
    assert reached["node"] == drawn > 8


def test_a_cell_shows_its_clause_and_what_profiles_change(browser: Browser, container: Path) -> None:
    """StopContainer in *absent*: it must succeed, by the CRI, and 1.6 did not."""
    with shown(browser, container) as found:
        page = found.page
        page.locator('[data-cell="stop/absent"]').click()
        detail = page.locator(".table .detail")
        for text in ("replies ok", "MUST", "stop-is-idempotent", "CRI api.proto", "containerd-1.6"):
            assert text in detail.inner_text()
        page.keyboard.press("ArrowDown")
        assert page.evaluate("document.activeElement.dataset.cell") == "remove/absent"
        page.locator("#profile").select_option("containerd-1.6")
        assert "NOT_FOUND" in detail.inner_text()
        assert "profile=containerd-1.6" in page.url


def test_a_run_is_replayed_step_by_step(browser: Browser, container: Path) -> None:
    with shown(browser, container, at="profile=containerd-1.6") as found:
        page = found.page
        stated = page.locator('[data-property="stop-is-idempotent"]')
        stated.locator("summary").first.click()
        stated.get_by_role("button", name="Next").first.click()
        assert "Step 1 of" in stated.get_by_role("status").first.inner_text()
        assert stated.locator(".step.now").count() == 1
        stated.get_by_role("button", name="Previous").first.click()
        assert "It starts absent" in stated.get_by_role("status").first.inner_text()
        assert found.complaints == []


def offered(page: Page) -> list[str]:
    """What the walk may do next, by the page."""
    steps: list[str] = walk(page).locator("[data-step]").evaluate_all("all => all.map(each => each.dataset.step)")
    return sorted(steps)


def wander(page: Page, machine: Machine, *, steps: int, seed: int) -> None:
    """Walk at random: what is offered has to be what the rules of calls allow there, with those calls in progress."""
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
        button.evaluate("each => each.click()")  # it may be folded away
        calls = [] if rules.interrupts(row) else calls
        if taken.stage == BEGUN and not rows[row].ends:
            calls = [*calls, row]
        elif rows[row].ends and taken.stage != BEGUN:
            calls.remove(row - 1)
        at = taken.to
        assert state(page) == rules.table.states[at]


@pytest.mark.parametrize("profile", ["", "containerd-1.6"])
def test_the_script_offers_what_the_table_allows(profile: str, browser: Browser, container: Path) -> None:
    with shown(browser, container, at=f"profile={profile or 'none'}") as found:
        wander(found.page, load("container-status").under(profile or None), steps=30, seed=7)


def test_what_is_not_in_the_table_is_noticed(browser: Browser, container: Path, tmp_path: Path) -> None:
    """A page in which a call that begins is not in progress then."""
    planted = tmp_path / "planted.html"
    text = container.read_text(encoding="utf-8")
    planted.write_text(text.replace('"call":"begins"', '"call":""'), encoding="utf-8")
    with shown(browser, planted) as found, pytest.raises(AssertionError):
        wander(found.page, load("container-status"), steps=30, seed=7)


def wander_jointly(page: Page, system: System, *, steps: int, seed: int) -> None:
    """Walk at random: what is offered has to be what the product allows, and what it leads to what it leads to there."""
    table, chance = SystemTable(system), random.Random(seed)
    at = table.initial
    for _ in range(steps):
        allowed = {}
        for row in table.rows:
            names = Counter[str]()
            for way in table.step(at, row.index):
                names[way.name] += 1
                allowed[f"{row.name}/{way.name}{f'.{names[way.name]}' if names[way.name] > 1 else ''}"] = way
        assert offered(page) == sorted(allowed)
        if not allowed:
            break
        taken = chance.choice(sorted(allowed))
        walk(page).locator(f'[data-step="{taken}"]').evaluate("each => each.click()")
        at = allowed[taken].to
        assert state(page) == table.states[at].replace("the beginning", "at the beginning")


@pytest.mark.parametrize("name", ["cri-service", "node", "two-plugins"])
def test_the_script_joins_the_steps_of_parts_as_the_product_does(name: str, browser: Browser, folder: Path) -> None:
    system = load_system(name)
    path = made(folder, name, "--no-properties")
    for profile in ("", *system.profiles):
        with shown(browser, path, at=f"profile={profile or 'none'}") as found:
            wander_jointly(found.page, system.under(profile or None), steps=12, seed=5)
            assert (found.requests, found.complaints) == ([], [])


def test_a_condition_that_is_not_kept_is_noticed(browser: Browser, folder: Path, tmp_path: Path) -> None:
    """A page of a system in which events are not held to when they may be."""
    text = made(folder, "node", "--no-properties").read_text(encoding="utf-8")
    planted = tmp_path / "planted.html"
    planted.write_text(re.sub(r'"when":\["at"', '"when":["not",["all"],"at"', text), encoding="utf-8")
    assert planted.read_text(encoding="utf-8") != text
    with shown(browser, planted) as found, pytest.raises(AssertionError):
        wander_jointly(found.page, load_system("node"), steps=12, seed=5)


SCREENS = [(WIDE, "light"), (NARROW, "dark")]


@pytest.mark.parametrize(("width", "scheme"), SCREENS)
def test_nobody_is_kept_out(width: int, scheme: Literal["light", "dark"], browser: Browser, container: Path) -> None:
    """By axe-core; and nothing has to be scrolled sideways."""
    at = "profile=containerd-1.6&walk=create/created+start/begins&cell=stop/absent"
    with shown(browser, container, at=at, width=width, scheme=scheme) as found:
        found.page.locator('[data-property="stop-is-idempotent"] summary').first.click()
        assert found.serious() == []
        assert not found.too_wide()
        assert (found.requests, found.complaints) == ([], [])


def test_an_unlabelled_button_and_a_faint_text_are_found(browser: Browser, container: Path, tmp_path: Path) -> None:
    """So that what axe-core does not find is not there."""
    text = container.read_text(encoding="utf-8")
    planted = tmp_path / "planted.html"
    planted.write_text(
        text.replace("<body>", '<body><button></button><p style="color:#ccc;background:#fff">faint</p>'),
        encoding="utf-8",
    )
    with shown(browser, planted) as found:
        names = " ".join(found.serious("body > button, body > p"))
        assert "button-name" in names
        assert "color-contrast" in names


def test_a_request_is_refused_by_the_page_and_found(browser: Browser, container: Path, tmp_path: Path) -> None:
    """The policy in the page forbids it; whether or not, it is seen that something was asked for."""
    text = container.read_text(encoding="utf-8")
    planted = text.replace("</body>", '<img alt="" src="http://127.0.0.1:9/x.png"></body>')
    for name, content in (("kept", planted), ("dropped", re.sub(r"<meta http-equiv[^>]*>", "", planted))):
        path = tmp_path / f"{name}.html"
        path.write_text(content, encoding="utf-8")
        with shown(browser, path) as found:
            assert found.complaints  # by the policy, or since nobody answers
            assert any("Content Security Policy" in each for each in found.complaints) is (name == "kept")
            assert found.requests == ["http://127.0.0.1:9/x.png"]


def test_what_is_foreign_in_a_script_is_not_run(browser: Browser, container: Path, tmp_path: Path) -> None:
    """The policy allows the one script of the page, by its digest."""
    planted = tmp_path / "planted.html"
    text = container.read_text(encoding="utf-8")
    planted.write_text(text.replace("</body>", "<script>window.foreign = 1</script></body>"), encoding="utf-8")
    with shown(browser, planted) as found:
        assert found.page.evaluate("window.foreign === undefined")
        assert found.complaints


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


@pytest.fixture(scope="module")
def failing(folder: Path) -> Path:
    """The page of a log that breaks a clause."""
    path = folder / "failing.html"
    ran = fsm("judge", "--format", "html", FAILING, "-o", str(path))
    assert ran.returncode == 1, ran.stderr
    return path


def test_the_first_violation_is_a_click_away(browser: Browser, failing: Path) -> None:
    """What was possible, what would have been legal, who says so; and where the entity was."""
    with shown(browser, failing) as found:
        page = found.page
        page.locator(".first").get_by_role("button").click()
        told = page.locator(".told")
        for text in (
            "StopContainer replied NOT_FOUND",
            "containerd-1.6.20.log:14",
            "absent",
            "ok",
            "stop-is-idempotent",
            "MUST",
        ):
            assert text in told.inner_text()
        assert page.locator(".observation[aria-current]").inner_text().startswith("violation")
        assert page.locator(".node.broken").count() > 0
        assert (found.requests, found.complaints) == ([], [])


def test_a_slider_goes_through_what_was_observed(browser: Browser, failing: Path) -> None:
    """And the states that were possible are shaded: one after the creation, and more while a removal is in progress."""
    with shown(browser, failing) as found:
        page = found.page
        slider = page.get_by_label("Observation", exact=True)
        slider.focus()
        page.keyboard.press("Home")
        assert "created" in page.locator(".told").inner_text()
        assert page.locator("#stories .node.possible").count() == 1
        page.keyboard.press("ArrowRight")
        assert page.locator("#stories .node.possible").count() > 1
        page.get_by_role("button", name="Next violation").click()
        assert "NOT_FOUND" in page.locator(".told").inner_text()
        page.get_by_role("button", name="Next", exact=True).click()
        page.go_back()
        assert "NOT_FOUND" in page.locator(".told").inner_text()


def test_paper_is_white(browser: Browser, failing: Path) -> None:
    """Also where the screen is dark; and what only a screen needs is not printed."""
    with shown(browser, failing, scheme="dark") as found:
        color = "getComputedStyle(document.body).backgroundColor"
        assert found.page.evaluate(color) != "rgb(255, 255, 255)"
        assert found.page.locator("#profile").is_visible()
        found.page.emulate_media(media="print", color_scheme="dark")
        assert found.page.evaluate(color) == "rgb(255, 255, 255)"
        assert not found.page.locator("#profile").is_visible()


def test_on_a_narrow_screen_the_state_is_in_view(browser: Browser, container: Path) -> None:
    """Though the drawing is wider than the screen; where one scrolls it away, the next step brings the state back."""
    inside = """() => {
      const host = [...document.querySelectorAll(".walk .drawing")][0], box = host.getBoundingClientRect();
      const at = host.shadowRoot.querySelector(".node.current").getBoundingClientRect();
      return host.scrollWidth > host.clientWidth && at.left >= box.left - 1 && at.right <= box.right + 1;
    }"""
    with shown(browser, container, width=NARROW, at="walk=create/created+remove/begins") as found:
        found.page.wait_for_function(inside)
        found.page.evaluate("document.querySelector('.walk .drawing').scrollLeft = 0")
        assert not found.page.evaluate(inside)
        click(found.page, "…remove/failed")
        found.page.wait_for_function(inside)


def test_what_was_met_is_shaded(browser: Browser, failing: Path) -> None:
    with shown(browser, failing) as found:
        assert "heat" in str(found.page.locator('[data-cell="create/absent"]').get_attribute("class"))
        assert "unmet" in str(found.page.locator('[data-cell="stop/exited"]').get_attribute("class"))


@pytest.mark.parametrize(("width", "scheme"), SCREENS)
def test_nobody_is_kept_from_a_recording_or_a_system(
    width: int, scheme: Literal["light", "dark"], browser: Browser, failing: Path, folder: Path
) -> None:
    for path in (failing, made(folder, "cri-service", "--no-properties")):
        with shown(browser, path, width=width, scheme=scheme) as found:
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
