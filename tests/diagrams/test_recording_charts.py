"""Sequence charts of recordings draw each observation once and in order, with the judge's findings."""

from __future__ import annotations

import json
import re
import tempfile
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING
from xml.etree import ElementTree as ET

import pytest
from commands import RECORDINGS, fsm
from hypothesis import given
from hypothesis import strategies as st
from readers import read_by_mermaid

from fsm.diagrams.draw.sequence import MARKS, mermaid
from fsm.diagrams.draw.sequence_svg import svg, width
from fsm.diagrams.recorded_chart import recorded_chart
from fsm.diagrams.recorded_steps import LIFELINES, STEPS, chosen_steps
from fsm.errors import InputError
from fsm.machine.findings import Illegal
from fsm.monitor.judgement import judge
from fsm.recordings import open_recording
from fsm.recordings.time_order import Restarts
from fsm.report.lanes import marks

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from fsm.diagrams.draw.sequence import SequenceChart
    from fsm.diagrams.recorded_steps import ChosenSteps
    from fsm.monitor.judgement import Judged

SVG = "{http://www.w3.org/2000/svg}"
FILES = sorted(path for path in RECORDINGS.iterdir() if re.search(r"(log|jsonl)(\.gz)?$", path.name))
CALLS = RECORDINGS / "cri-calls-1.6.20.jsonl"
EVENTS = RECORDINGS / "2.1.9-forgotten.nri.jsonl.gz"
EVENTS_CALLS = str(RECORDINGS / "2.1.9-forgotten.calls.jsonl.gz")


def lines_of(chart: SequenceChart) -> list[int]:
    places = [
        found[1] for row in chart.rows if (found := re.match(r".+?, line (\d+(?: and \d+)*)(?: at|:)", row.whole))
    ]
    return [int(number) for each in places for number in each.split(" and ")]


def messages(chart: SequenceChart) -> list[str]:
    return [" ".join(filter(None, (row.clock, MARKS.get(row.kind), row.text))) for row in chart.rows]


def plain(text: object) -> str:
    """Return *text* with Mermaid's character codes replaced by the characters."""
    codes = re.sub("ﬂ°°(\\d+)¶ß", lambda code: chr(int(code[1])), str(text))
    return re.sub(r"#(\d+);", lambda code: chr(int(code[1])), codes)


def read(charts: list[SequenceChart]) -> None:
    for chart, found in zip(charts, read_by_mermaid([mermaid(each) for each in charts]), strict=True):
        assert [plain(each) for each in found["participants"]] == [
            " ".join(map(str.strip, chart.head(each))) for each in chart.participants
        ]
        assert [plain(each) for each in found["messages"] if each and isinstance(each, str)] == messages(chart)


RELATIVE = {"trace": 1, "clock": "relative"}


def trace(*lines: Mapping[str, object], folder: Path) -> str:
    path = folder / "trace.jsonl"
    path.write_text("".join(f"{json.dumps(each)}\n" for each in lines), encoding="utf-8")
    return str(path)


# -- every recording ---------------------------------------------------------------


@pytest.fixture(scope="module")
def windows() -> dict[str, SequenceChart]:
    return {path.name: recorded_chart(_window(path), None) for path in FILES}


def _window(path: Path) -> ChosenSteps:
    for last in (100, 30):
        try:
            return chosen_steps(str(path), last=last)
        except InputError as error:
            assert {"FSM216"} == {each.code for each in error.problems}  # noqa: PT017
    raise AssertionError(path)


@pytest.mark.slow
def test_every_recording_is_drawn_as_mermaid(windows: dict[str, SequenceChart]) -> None:
    """Every recording can be drawn, but only every fifth chart is read by Mermaid, which is slow."""
    assert len(windows) > 70
    read([*windows.values()][::5])
    for chart in windows.values():
        assert len(mermaid(chart).splitlines()) > len(chart.rows) + len(chart.participants)


@pytest.mark.slow
def test_every_recording_is_drawn_as_svg(windows: dict[str, SequenceChart]) -> None:
    for name, chart in windows.items():
        picture = svg(chart)
        root = ET.fromstring(picture)  # noqa: S314  (ours)
        titles = [each.findtext(f"{SVG}title") for each in root.iter(f"{SVG}g")]

        assert [row.whole for row in chart.rows] == titles
        assert name in str(root.findtext(f"{SVG}title"))
        assert set(re.findall(rb'(?:href|src|url)\W+([^")]*)', picture)) <= {b"to", b"lost", b"#to", b"#lost"}
        _inside(root)


def _inside(root: ET.Element) -> None:
    wide = int(root.attrib["width"])
    for each in root.iter(f"{SVG}text"):
        anchor = each.get("class") or ""
        half = width(str(each.text)) / 2
        x = float(each.attrib["x"])
        x += half if anchor in {"step", "divider", "caption", "clock"} else -half if anchor == "place" else 0
        assert -8 <= x - half <= x + half <= wide + 8, each.text


@pytest.mark.parametrize("name", ["2.1.9-random.calls.jsonl.gz", "2.1.9-random.log.gz", "1.7.24-debuglevel.log.gz"])
def test_what_is_recorded_of_an_entity_is_drawn_once(name: str) -> None:
    recording = open_recording(str(RECORDINGS / name), restarts=Restarts(assume="none"), as_called=True)
    seen: dict[str, Counter[int | object]] = {}
    for part in recording.batches:
        for each, line in zip(part.observations, part.lines, strict=True):
            seen.setdefault(each.entity, Counter())[line] += 1
    full = [entity for entity in seen if len(entity) == 64]
    assert full
    for entity in full[::7]:
        chosen = chosen_steps(str(RECORDINGS / name), entity=entity)
        short = [each for each in seen if each and [it for it in full if it.startswith(each)] == [entity]]
        found = Counter(line.number for each in chosen.steps if each.seen.entity in short for line in each.lines)

        assert sum((seen[each] for each in short), Counter()) == found
        assert [each.order for each in chosen.steps] == sorted(each.order for each in chosen.steps)
        assert lines_of(recorded_chart(chosen, None)) == _of_rows(chosen)


def _of_rows(chosen: ChosenSteps) -> list[int]:
    found: list[tuple[int, ...]] = []
    steps = chosen.steps
    for number, each in enumerate(steps):
        lines = tuple(line.number for line in each.lines)
        before = steps[number - 1] if number else None
        if before is not None and each.mate is before and each.seen.phase == "reply":
            lines = tuple(dict.fromkeys((*found.pop(), *lines)))
        found.append(lines)
    return [line for lines in found for line in lines]


EVENT = st.fixed_dictionaries(
    {
        "entity": st.sampled_from(["c1", "c2", ""]),
        "event": st.sampled_from(["start", "stop", "restart"]),
        "phase": st.sampled_from(["", "request", "reply", "lost", "answered", "noticed", "maybe", "gap"]),
        "reply": st.sampled_from(["", "ok", "NOT_FOUND"]),
    }
)


@given(st.lists(EVENT, min_size=1, max_size=30))
def test_each_observation_of_the_entity_is_in_one_row(events: list[dict[str, str]]) -> None:
    """A chart lists the observations of its entity in order, interleaved with the events that affect all entities."""
    mine = [number for number, each in enumerate(events, 1) if each["entity"] == "c1"]
    calls = {"request", "reply", "lost", "answered"}
    shared = [
        number
        for number, each in enumerate(events, 1)
        if not each["entity"] and each["phase"] not in calls and (not each["reply"] or each["phase"] == "gap")
    ]
    with tempfile.TemporaryDirectory() as folder:
        path = trace(*events, folder=Path(folder))
        if not mine:
            with pytest.raises(InputError, match=r"the recording contains no entity 'c1'|has no steps"):
                chosen_steps(path, entity="c1")
            return
        chart = recorded_chart(chosen_steps(path, entity="c1"), None)
        whole = recorded_chart(chosen_steps(path), None)

    assert lines_of(chart) == sorted([*mine, *(each for each in shared if mine[0] < each < mine[-1])])
    assert lines_of(whole) == [*range(1, len(events) + 1)]
    assert all(first <= last for _, first, last in whole.bars())
    ET.fromstring(svg(whole))  # noqa: S314  (ours)


# -- calls in progress -------------------------------------------------------------


def test_a_call_with_nothing_in_between_is_one_row(tmp_path: Path) -> None:
    at = "2026-11-20T11:03:2{}Z".format
    path = trace(
        {"entity": "c1", "event": "start", "phase": "request", "at": at(0)},
        {"entity": "c1", "event": "start", "phase": "reply", "reply": "ok", "at": at(1)},
        {"entity": "c1", "event": "stop", "phase": "request", "at": at(2)},
        {"entity": "c1", "event": "exit", "at": at(3)},
        {"entity": "c1", "event": "stop", "phase": "reply", "reply": "ok", "at": at(4)},
        folder=tmp_path,
    )
    chart = recorded_chart(chosen_steps(path), None)

    assert [(row.kind, row.text, row.clock, row.place) for row in chart.rows] == [
        ("call", "start: ok (1 s)", "11:03:20.000", "1"),
        ("call", "stop", "11:03:22.000", "3"),
        ("note", "exit", "11:03:23.000", "4"),
        ("reply", "stop: ok (2 s)", "11:03:24.000", "5"),
    ]
    assert chart.bars() == [(" c1", 1, 3)]


def test_a_restart_ends_what_is_in_progress(tmp_path: Path) -> None:
    path = trace(
        {"entity": "c1", "event": "stop", "phase": "request"},
        {"event": "restart"},
        {"entity": "c1", "event": "stop", "phase": "request"},
        {"entity": "c1", "event": "start", "phase": "request"},
        {"entity": "c1", "event": "start", "phase": "lost"},
        {"phase": "gap"},
        {"entity": "c1", "event": "stop", "phase": "reply", "reply": "ok"},
        {"entity": "c1", "event": "start", "phase": "request"},
        folder=tmp_path,
    )
    chart = recorded_chart(chosen_steps(path), None)

    assert chart.bars() == [(" c1", 0, 1), (" c1", 2, 5), (" c1", 3, 4), (" c1", 7, 8)]
    assert [row.kind for row in chart.rows if row.cuts] == ["divider", "divider"]
    assert [row.text for row in chart.rows if row.kind == "lost"] == ["start: no reply"]
    read([chart])


def test_who_is_answered_is_not_guessed(tmp_path: Path) -> None:
    """No duration is shown for two equal calls in progress, because a reply may end either of them.

    If each call is recorded as a whole, both durations are known.
    """
    ask = {"entity": "c1", "event": "stop", "phase": "request", "at": 0}
    told = {"entity": "c1", "event": "stop", "phase": "reply", "reply": "ok", "at": 5_000_000}
    log = chosen_steps(trace(RELATIVE, ask, ask, told, told, folder=tmp_path))
    first = {"entity": "c1", "event": "stop", "reply": "ok", "start": 1, "end": 9_000_001}
    calls = chosen_steps(trace(RELATIVE, first, first | {"start": 2, "end": 4_000_002}, folder=tmp_path))

    assert [row.text for row in recorded_chart(log, None).rows] == ["stop", "stop", "stop: ok", "stop: ok"]
    assert [row.text for row in recorded_chart(calls, None).rows] == ["stop", "stop: ok (4 ms)", "stop: ok (9 ms)"]


# -- participants ------------------------------------------------------------------


def test_calls_and_events_of_one_run_are_one_chart() -> None:
    steps = chosen_steps(str(EVENTS), EVENTS_CALLS, last=14)
    chart = recorded_chart(steps, None)

    assert chart.participants[:2] == ("client", "runtime")
    assert chart.participants[-1] == "plugin"
    assert [" ".join(chart.head(each))[:12] for each in chart.participants[2:-1]] == [
        "pod 79502751",
        "container e3",
        "container 02",
        "container 3b",
        "pod 47461932",
    ]
    texts = [re.sub(" .*", "", row.text) for row in chart.rows]
    assert texts[:4] == ["connects", "RunPodSandbox", "RunPodSandbox", "RunPodSandbox:"]
    assert [row.kind for row in chart.rows[:4]] == ["call", "call", "output", "reply"]
    assert [row.place for row in chart.rows[:4]] == ["a 1", "b 1", "a 3", "b 1"]


def test_a_pod_is_drawn_with_its_containers() -> None:
    pod = chosen_steps(str(EVENTS), EVENTS_CALLS, entity="7950")
    container = chosen_steps(str(EVENTS), EVENTS_CALLS, entity="e380f46f")

    assert [str(each) for each in pod.entities][:2] == ["pod 795027518b41", "container e380f46f1624"]
    reaching = [each.seen.event for each in container.steps if each.entity and each.entity.of == "pod"]
    assert [*dict.fromkeys(reaching)] == ["StopPodSandbox", "RemovePodSandbox"]
    assert container.steps[0].seen.event == "" or container.steps[0].seen.event == "CreateContainer"


def test_processes_of_a_history_are_clients() -> None:
    path = Path(__file__).parent.parent / "linearizability" / "histories" / "events.ok.jsonl"

    chart = recorded_chart(chosen_steps(str(path)), None)

    assert len([each for each in chart.participants if each.startswith("client ")]) > 1
    read([chart])


def test_checkpoints_are_what_was_shown() -> None:
    folder = str(RECORDINGS / "checkpoints" / "2.1.9")
    chart = recorded_chart(chosen_steps(folder), None)

    assert {"note"} == {row.kind for row in chart.rows}
    assert all(row.text.startswith("shows CONTAINER_") for row in chart.rows)


# -- findings of the judge ---------------------------------------------------------


def _violations(judged: Judged) -> Iterator[tuple[int, str]]:
    for each in judged.judgements:
        if isinstance(each.verdict, Illegal):
            yield from ((it.line, it.clause.name) for found in each.verdict.findings for it in found.first)


@pytest.mark.parametrize("name", ["containerd-1.6.20.log", "cri-calls-1.6.20.jsonl", "1.6.20-orphan.calls.jsonl.gz"])
def test_each_violation_is_marked_at_its_step(name: str) -> None:
    path = str(RECORDINGS / name)
    judged = judge(path, every=True)
    steps = chosen_steps(path)
    chart = recorded_chart(steps, marks([judged]))
    tolerated = recorded_chart(steps, marks([judge(path, every=True, profile="containerd-1.6")]))

    expected = Counter(_violations(judged))
    found: Counter[tuple[int, str]] = Counter()
    line = 0
    for row in chart.rows:
        if row.kind == "violation":
            found[line, row.text.partition(" ")[0]] += 1
            assert "clause " in row.whole
        elif match := re.search(r", line (?:\d+ and )*(\d+)", row.whole):
            line = int(match[1])
    assert expected == found
    assert expected
    assert f"{sum(expected.values())} violations" in chart.title
    assert "violation" not in {row.kind for row in tolerated.rows}
    assert [row.source for row in tolerated.rows if row.kind == "tolerated"] == [
        row.source for row in chart.rows if row.kind == "violation"
    ]
    assert "tolerated: stop-of-removed of containerd-1.6" in {row.text for row in tolerated.rows}


def test_what_is_assumed_is_marked() -> None:
    ran = fsm("draw", "-f", "mermaid", "--sequence", str(EVENTS), "--with", EVENTS_CALLS, "-p", "containerd-2.1")

    assert ran.stdout.count("? assumed: a restart between") == 1
    assert ran.stdout.count("~ tolerated: ") == 7
    assert "✗" not in ran.stdout
    assert "✗ removal-forgotten" not in ran.stdout
    assert fsm("draw", "-f", "mermaid", "--sequence", str(EVENTS), "--with", EVENTS_CALLS).stdout.count("✗ ") == 7


# -- hostile text ------------------------------------------------------------------

HOSTILE = [
    "<script>alert(1)</script>",
    "%%{init: {'theme': 'dark'}}%%",
    "wrap: a; b # c",
    "end",
    "$$x^2$$",
    "a\nb\x1b[2J\u202e",
    "x" * 5_000,
    '"><svg onload=alert(1)>',
]


@pytest.mark.parametrize("text", HOSTILE, ids=lambda text: text[:8])
def test_text_stays_text(text: str, tmp_path: Path) -> None:
    seen = {
        "entity": text,
        "of": text,
        "event": text,
        "reply": text,
        "shows": text,
        "detail": text,
        "fields": {text: text},
    }
    chart = recorded_chart(chosen_steps(trace(seen, {"entity": text, "shows": text}, folder=tmp_path)), None)
    drawn = svg(chart)
    root = ET.fromstring(drawn)  # noqa: S314  (ours)

    assert {"svg", "style", "title", "text", "g", "line", "path", "marker", "rect"} >= {
        each.tag.removeprefix(SVG) for each in root.iter()
    }
    assert b"<script" not in drawn
    assert not re.search("[\x00-\x08\x0b-\x1f\x7f-\x9f\u2028\u202a-\u202e]", drawn.decode())
    assert b"\\x1b" in drawn or "\x1b" not in text
    assert int(root.attrib["width"]) < 2_000
    assert "script>" not in mermaid(chart)
    read([chart])


def test_a_shortened_text_is_whole_in_the_title(tmp_path: Path) -> None:
    event = "UpdateContainerResourcesOfThisContainerNowAndForAllTimes"
    chart = recorded_chart(chosen_steps(trace({"entity": "c1", "event": event, "reply": "ok"}, folder=tmp_path)), None)
    root = ET.fromstring(svg(chart))  # noqa: S314  (ours)
    (group,) = root.iter(f"{SVG}g")

    assert event in str(group.findtext(f"{SVG}title"))
    assert event not in "".join(str(each.text) for each in group.iter(f"{SVG}text"))
    assert "…" in "".join(str(each.text) for each in group.iter(f"{SVG}text"))


# -- the command -------------------------------------------------------------------


def test_the_format_is_that_of_the_suffix(tmp_path: Path) -> None:
    draw = ("draw", "--sequence", str(CALLS))
    assert fsm(*draw).stdout.startswith("<svg ")
    assert fsm(*draw, "-f", "mermaid").stdout.startswith("sequenceDiagram\n")
    assert fsm(*draw, "-o", str(tmp_path / "calls.mmd")).returncode == 0
    assert (tmp_path / "calls.mmd").read_text(encoding="utf-8").startswith("sequenceDiagram\n")
    assert fsm(*draw, "-o", str(tmp_path / "new")).returncode == 0
    assert {"cri-calls-1.6.20.svg", "cri-calls-1.6.20.mmd"} == {path.name for path in (tmp_path / "new").iterdir()}


WRONG = [
    (
        ["--entity", "d1d12d2e084d"],
        "the recording contains no entity 'd1d12d2e084d' [FSM204]\n    did you mean container d1d12d2e084c?",
    ),
    (
        ["--entity", "zz"],
        "the recording contains no entity 'zz' [FSM204]\n    the recording has container d1d12d2e084c, ",
    ),
    (
        ["--entity", "5"],
        "the recording has several entities whose id begins with '5' [FSM204]\n    give a longer part of one id: ",
    ),
    (
        ["--from", "900"],
        "the recording has no steps from line 900 on [FSM204]\n    the recording has steps on lines 1 to ",
    ),
    (["--from", "9", "--to", "3"], "the line 3 of --to is before the line 9 of --from"),
    (["-f", "dot"], "a sequence chart can be written as svg or mermaid, but not as dot"),
    (["-f", "svg", "-f", "mermaid"], "several pictures cannot be written to standard output; use --output FOLDER"),
    (["-o", "chart.png"], "is not that of a format"),
    (["--show", "stays"], "--sequence, which cannot be combined with --event, --show"),
    (["--with", str(CALLS)], "[FSM206]"),
    (["-p", "containerd-1.5"], "[FSM203]"),
]


@pytest.mark.parametrize(
    ("options", "says"), WRONG, ids=lambda value: " ".join(value) if isinstance(value, list) else ""
)
def test_wrong_input_is_told(options: list[str], says: str) -> None:
    """For wrong input, an error names a remedy, the exit code is 2, and no picture is written."""
    ran = fsm("draw", "--sequence", str(RECORDINGS / "containerd-1.6.20.log"), *options)

    assert (2, "") == (ran.returncode, ran.stdout)
    assert says in ran.stderr


def test_what_is_no_recording_is_told(tmp_path: Path) -> None:
    (tmp_path / "notes.txt").write_text("Nothing of containers.\n")

    assert (
        "the recording contains nothing that could be drawn [FSM204]"
        in fsm("draw", "--sequence", str(tmp_path / "notes.txt")).stderr
    )
    assert "[FSM201]" in fsm("draw", "--sequence", str(tmp_path / "none.log")).stderr
    assert (
        "can be read only once, but must be read twice [FSM204]"
        in fsm("draw", "--sequence", "-", stdin=CALLS.read_bytes()).stderr
    )


def test_options_of_charts_need_a_chart() -> None:
    ran = fsm("draw", "cri-pod", "--from", "3")

    assert ran.returncode == 2
    assert "--with, --from and --to need --sequence" in ran.stderr


def test_a_picture_of_too_much_is_refused(tmp_path: Path) -> None:
    seen = {"entity": "c1", "event": "stop", "reply": "ok"}
    many = trace(*[seen] * (STEPS + 1), folder=tmp_path)
    with pytest.raises(
        InputError, match=f"has {STEPS + 1} steps, but a chart can have at most {STEPS} steps"
    ) as caught:
        chosen_steps(many)
    assert "--entity, such as c1; or choose lines with --from and --to" in caught.value.problems[0].hint.replace(
        "or lines", "or choose lines"
    )
    assert len(chosen_steps(many, last=STEPS).steps) == STEPS
    with pytest.raises(InputError, match="FSM216"):
        chosen_steps(many, entity="c1")
    wide = trace(*[seen | {"entity": f"c{number:03}"} for number in range(LIFELINES + 1)], folder=tmp_path)
    with pytest.raises(InputError, match=f"has {LIFELINES + 1} steps of {LIFELINES + 1} entities"):
        chosen_steps(wide)
    assert len(chosen_steps(wide, first=2).entities) == LIFELINES


def test_a_trace_of_no_machine_is_not_judged(tmp_path: Path) -> None:
    seen = {"entity": "c1", "event": "stop"}
    path = trace({"trace": 1, "fresh": True}, seen | {"reply": "ok"}, seen | {"reply": "NOT_FOUND"}, folder=tmp_path)

    assert "not judged" in fsm("draw", "--sequence", path).stdout
    judged = fsm("draw", "cri-container", "--sequence", path, "-f", "mermaid").stdout
    assert "✗ stop-is-idempotent (MUST): stop replied NOT_FOUND" in judged
    assert "2" == str(fsm("draw", "cri-containr", "--sequence", path).returncode)


def test_restarts_alone_are_those_of_the_runtime(tmp_path: Path) -> None:
    chart = recorded_chart(chosen_steps(trace({"event": "restart"}, {"phase": "gap"}, folder=tmp_path)), None)

    assert chart.participants == ("runtime",)
    assert [row.text for row in chart.rows] == ["restart", "observations are missing"]
    _inside(ET.fromstring(svg(chart)))  # noqa: S314  (ours)
    read([chart])


def test_the_picture_in_the_docs_is_up_to_date() -> None:
    """The picture in the docs equals the output of the command on the same page.

    To update it, run that command with ``-o docs/how-to/sequence-chart.svg``.
    """
    root = Path(__file__).parent.parent.parent
    page = (root / "docs" / "how-to" / "sequence-charts.md").read_text(encoding="utf-8")
    command = re.findall(r"^\$ fsm (draw -f mermaid --sequence .*)$", page, re.MULTILINE)[0].replace("-f mermaid ", "")

    assert (root / "docs" / "how-to" / "sequence-chart.svg").read_text(encoding="utf-8") == fsm(
        *command.split(), cwd=root
    ).stdout
    for number in (STEPS, LIFELINES):
        assert f" {number} " in page


def test_odd_observations_are_drawn(tmp_path: Path) -> None:
    path = trace(
        RELATIVE,
        {"entity": "c1"},
        {"entity": "c1", "event": "stop", "reply": "ok", "emits": ["StopContainer", "told"]},
        {"entity": "c1", "output": "RemoveContainer"},
        {"entity": "c1", "event": "start", "phase": "request", "at": 5},
        {"entity": "c1", "event": "start", "phase": "reply", "at": 5},
        {"entity": "c1", "event": "stop", "phase": "request", "at": 7},
        {"entity": "c1", "event": "stop", "phase": "reply", "at": 6},
        folder=tmp_path,
    )
    rows = recorded_chart(chosen_steps(path), None).rows

    assert [(row.kind, row.text) for row in rows] == [
        ("note", "nothing"),
        ("call", "stop: ok, emits StopContainer, told"),
        ("output", "RemoveContainer"),
        ("call", "start: replied"),
        ("call", "stop: replied"),
    ]
    assert [row.clock for row in rows] == ["", "", "", "00:00:00.000", "00:00:00.000"]
    assert rows[2].target == "outside"


def test_restarts_by_the_thousand_are_counted(tmp_path: Path) -> None:
    stop = {"entity": "c1", "event": "stop", "reply": "ok"}
    path = trace(stop, *[{"event": "restart"}] * (STEPS + 100), stop, folder=tmp_path)

    with pytest.raises(InputError, match=f"has {STEPS + 102} steps"):
        chosen_steps(path, entity="c1")
