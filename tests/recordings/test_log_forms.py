"""A form file describes the log of a program: its lines become observations, and nothing is dropped silently."""

from __future__ import annotations

import gzip
import pickle
import re
import time
import tomllib
from datetime import UTC, datetime
from itertools import chain
from typing import TYPE_CHECKING, Any

import jsonschema
import pytest
from commands import fsm
from hypothesis import given, settings
from hypothesis import strategies as st
from thorough import amount

from fsm.errors import InputError
from fsm.language.form_file import WrittenLogForm
from fsm.language.library import home
from fsm.language.vocabularies import schema
from fsm.machine.findings import Illegal
from fsm.monitor.judgement import Judged, judge
from fsm.recordings import form_named, open_recording
from fsm.recordings.line_reader import FOREIGN
from fsm.recordings.log_form import OTHERS, SKIPPED, UNTIMED
from fsm.recordings.sources import Rotated
from fsm.trace import Observation, nanoseconds

if TYPE_CHECKING:
    from pathlib import Path

DOOR = (home() / "examples" / "models" / "door.toml").read_text(encoding="utf-8")
LINE = r"line = '(?P<time>\S+) (?P<event>\w+) (?P<entity>\S+)(?: -> (?P<reply>\S+))?'"
FORM = f"""\
title = "door log"
machine = "../door.toml"
{LINE}
skip = ["^#", "DEBUG"]
events = {{ pushed = "push", pulled = "pull", bye = "remove", ping = "" }}
replies = {{ fine = "ok", none = "NOT_FOUND" }}
"""
LOG = """\
2026-11-27T10:00:00.5Z pushed d1 -> fine
2026-11-27T10:00:01Z pulled d1 -> fine
# a comment
2026-11-27T10:00:02Z ping d1
2026-11-27T10:00:03Z pulled d1 -> none
"""


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "forms").mkdir()
    (tmp_path / "forms" / "door.toml").write_text(FORM, encoding="utf-8")
    (tmp_path / "door.toml").write_text(DOOR, encoding="utf-8")
    (tmp_path / "door.log").write_text(LOG, encoding="utf-8")
    return tmp_path


def observed(form: str, log: str | bytes, folder: Path) -> tuple[list[tuple[Any, Observation]], dict[str, int]]:
    (folder / "forms" / "other.toml").write_text(form, encoding="utf-8")
    (folder / "other.log").write_bytes(log.encode() if isinstance(log, str) else log)
    recording = open_recording("other.log", form="other")
    found = [pair for batch in recording.batches for pair in zip(batch.lines, batch.observations, strict=True)]
    return found, dict(recording.notes)


def judged(log: str, form: str = "door", **more: Any) -> Judged:  # noqa: ANN401
    return judge(log, form=form, **more)


def violations(found: Judged) -> list[tuple[str, int]]:
    verdict = found.judgements[0].verdict
    listed = verdict.findings if isinstance(verdict, Illegal) else ()
    return [(each.file, each.line) for finding in listed for each in finding.first]


def test_a_violation_has_the_line_of_the_log(folder: Path) -> None:
    found = judged("door.log")

    assert [("door.log", 5)] == violations(found)
    assert (5, 2) == (found.notes["lines"], found.notes[SKIPPED])
    assert "door log" == found.form.title
    assert "door.log:5" in fsm("judge", "--form", "door", "door.log", cwd=folder).stdout


def test_a_legal_log_holds(folder: Path) -> None:
    (folder / "legal.log").write_text(LOG.rpartition("2026")[0], encoding="utf-8")

    assert [] == violations(judged("legal.log"))
    assert 0 == fsm("judge", "--form", "door", "legal.log", cwd=folder).returncode


@pytest.mark.parametrize("form", ["door", "forms/door.toml", "./forms/door.toml"])
def test_a_form_has_a_name_and_a_path(form: str, folder: Path) -> None:
    assert [("door.log", 5)] == violations(judged(str(folder / "door.log"), form)) or folder
    assert 5 == violations(judged("door.log", form))[0][1]


def test_a_form_may_be_in_pyproject(folder: Path) -> None:
    table = FORM.replace("../door.toml", "door.toml")
    (folder / "pyproject.toml").write_text(f"[tool.fsm.form.mine]\n{table}", encoding="utf-8")

    assert [("door.log", 5)] == violations(judged("door.log", "mine"))
    (folder / "pyproject.toml").write_text(f"[tool.fsm.form.mine]\n\n{table}titel = 1\n", encoding="utf-8")
    with pytest.raises(InputError, match=r"pyproject\.toml:9: unknown word 'titel' in the file \[FSM010\]"):
        judged("door.log", "mine")


def test_other_models_may_judge(folder: Path) -> None:
    (folder / "forms" / "bare.toml").write_text(FORM.replace('machine = "../door.toml"\n', ""), encoding="utf-8")

    assert [("door.log", 5)] == violations(judged("door.log", "bare", models=["door.toml"]))
    with pytest.raises(InputError, match=r"the form 'bare' names no machine.*\[FSM202\]"):
        judged("door.log", "bare")


def test_an_event_that_the_model_does_not_have_makes_the_verdict_unknown(folder: Path) -> None:
    (folder / "forms" / "typo.toml").write_text(FORM.replace('"push"', '"psuh"'), encoding="utf-8")

    done = fsm("judge", "--form", "typo", "door.log", cwd=folder)
    assert "door has no event 'psuh'; did you mean 'push'?" in " ".join(done.stdout.split())


UNKNOWN_WORDS = """\
2026-11-27T10:00:00Z pushed d1 -> fine
what?
2026-11-27T10:00:01Z kicked d1
2026-11-27T10:00:02Z pushed d1 -> odd
yesterday pushed d1 -> fine
2026-11-27T10:00:03Z pulled d1 -> fine
"""


def test_what_is_unknown_is_counted_and_shown(folder: Path) -> None:
    (folder / "odd.log").write_text(UNKNOWN_WORDS, encoding="utf-8")
    found = judged("odd.log")
    notes = {note: [line.number for line in lines] for note, lines in found.places.items()}

    kicked, odd = "lines with the unknown event 'kicked'", "lines with the unknown reply 'odd'"
    assert {FOREIGN: [2], kicked: [3], odd: [4], UNTIMED: [5]} == notes
    assert dict.fromkeys(notes, 1) | {"lines": 6} == found.notes
    done = fsm("judge", "--form", "door", "odd.log", cwd=folder)
    report = " ".join(done.stdout.split())
    assert 3 == done.returncode
    assert "door unknown, 4 lines of the door log could not be read" in report
    for said in ("1 foreign or damaged line (2)", "1 line with the unknown event 'kicked' (3)", "(4)", "(5)"):
        assert said in report


def test_after_an_unknown_word_the_state_is_unknown(folder: Path) -> None:
    """A door that was kicked may be gone, so 'not found' is legal then; without the kick, it is not."""
    kick, rest = "2026-11-27T10:00:01Z kicked d1\n", LOG.partition("# a comment\n")
    (folder / "kicked.log").write_text(rest[0] + kick + rest[2], encoding="utf-8")

    assert [] == violations(judged("kicked.log"))
    assert [("door.log", 5)] == violations(judged("door.log"))


def test_rotated_compressed_and_piped_logs_are_read_alike(folder: Path) -> None:
    first, second = LOG.encode().split(b"# a comment\n")
    (folder / "door.log.2.gz").write_bytes(gzip.compress(first))
    (folder / "door.log.1").write_bytes(second)
    names = ["door.log.1", "door.log.2.gz"]
    rotated = judged(", ".join(names), source=Rotated(names=names, form="door"))

    assert [("door.log.1", 2)] == violations(rotated)
    (folder / "door.log.gz").write_bytes(gzip.compress(LOG.encode()))
    assert [("door.log.gz", 5)] == violations(judged("door.log.gz"))
    for options in ((), ("--follow",)):
        done = fsm("judge", "--form", "door", *options, "-", cwd=folder, stdin=LOG.encode())
        assert (1, True) == (done.returncode, "pull replied NOT_FOUND" in done.stdout), done.stderr
    assert "--form" in fsm("judge", "--form", "door", "--engine", "spark", "door.log", cwd=folder).stderr


JSON = """\
machine = "../door.toml"
of = "door"
time = "milliseconds"
events = { opened = { event = "push", reply = "ok" }, shutting = { event = "pull", phase = "request" } }
shows = { o = "OPEN" }
arguments = { force = "int", loud = "bool", color = "text" }
fields = { width = "int" }
[paths]
width = "size.width"
time = "ts"
event = "what.name"
entity = ["door.id"]
shows = "state"
reply = "reply"
force = "force"
loud = "loud"
color = "color"
"""
JSON_LINES: list[tuple[str, Observation | str]] = [
    (
        '{"ts": 1795172600859, "what": {"name": "opened"}, "door.id": "d1"}',
        Observation(entity="d1", of="door", event="push", reply="ok", at=1795172600859000000),
    ),
    (
        '{"what": {"name": "shutting"}, "door.id": 7, "state": "o", "force": 3, "loud": true, "color": "rouge"}',
        Observation(
            entity="7",
            of="door",
            event="pull",
            phase="request",
            shows="OPEN",
            args={"force": 3, "loud": True, "color": "rouge"},
        ),
    ),
    ('{"door.id": "d1", "size": {"width": 80}}', Observation(entity="d1", of="door", fields={"width": 80})),
    ('{"what": {"name": "opened"}, "door.id": "d1", "size": {"width": "8 m"}}', "lines with the unknown width '8 m'"),
    (
        '{"what": {"name": "opened"}, "door.id": "d1", "reply": "NOT_FOUND"}',
        Observation(entity="d1", of="door", event="push", reply="NOT_FOUND"),
    ),
    ('{"what": {"name": 3.5}, "door.id": "d1"}', "lines with the unknown event '3.5'"),
    ('{"what": {"name": "opened"}, "door.id": "d1", "force": 1.5}', "lines with the unknown force '1.5'"),
    ('{"what": {"name": "opened"}, "door.id": "d1", "loud": "so"}', "lines with the unknown loud 'so'"),
    (
        '{"what": {"name": "opened"}, "door.id": "d1", "force": "' + "9" * 30 + '"}',
        "lines with the unknown force '" + "9" * 30 + "'",
    ),
    ('{"ts": 1.5, "what": {"name": "opened"}, "door.id": "d1"}', UNTIMED),
    ('{"what": ["opened"], "door.id": "d1"}', FOREIGN),
    ('["opened"]', FOREIGN),
    ("opened d1", FOREIGN),
    ("[" * 100_000, FOREIGN),
    ('{"what": {"name": ' + "9" * 5_000 + "}}", ""),
]


@pytest.mark.parametrize(("line", "expected"), JSON_LINES, ids=range(len(JSON_LINES)))
def test_json_lines(line: str, expected: Observation | str, folder: Path) -> None:
    found, notes = observed(JSON, line, folder)

    if isinstance(expected, Observation):
        assert ([(1, expected)], {"lines": 1}) == (found, notes)
    elif expected:
        assert {"lines": 1, expected: 1} == notes
    else:
        assert sum(notes.values()) > 1


ORDERS = r"""
line = '(?P<entity>\w+) (?:(?P<event>place|pay)|paid)(?: (?P<amount>\d+))?(?: ok=(?P<ok>\w+))?(?: -> (?P<reply>\w+))?(?: to (?P<paid>\S+))?'
machine = "../order.toml"
fresh = true
arguments = { amount = "int", ok = "bool" }
fields = { paid = "int" }
"""


@pytest.mark.parametrize(
    ("shown", "exit_code", "said"),
    [
        ("pay 2 ok=true -> ok to 2", 0, "verdict: holds"),
        ("pay 2 ok=true -> ok to 3", 1, "the state was shown with paid 3"),
        ("pay 2 ok=false -> NO to 2", 1, "the state was shown with paid 2"),
        ("paid to 0", 0, "verdict: holds"),
        ("paid to 1", 1, "the state was shown with paid 1"),
        ("pay 2 ok=true -> ok to two", 3, "1 line with the unknown paid 'two'"),
    ],
)
def test_shown_data_are_compared(shown: str, exit_code: int, said: str, folder: Path) -> None:
    model = (home() / "examples" / "order" / "order.toml").read_text(encoding="utf-8")
    (folder / "order.toml").write_text(model, encoding="utf-8")
    (folder / "forms" / "orders.toml").write_text(ORDERS, encoding="utf-8")
    (folder / "orders.log").write_text(f"o1 place 3 -> ok to 0\no1 {shown}\n", encoding="utf-8")

    done = fsm("judge", "--form", "orders", "orders.log", cwd=folder)
    assert (exit_code, True) == (done.returncode, said in " ".join(done.stdout.split())), done.stdout


def test_several_patterns_and_what_they_mean(folder: Path) -> None:
    form = r"""
line = [
  '(?P<entity>\w+) (?P<event>pushed|patted)( hard)?(, (?P<phase>asked))?',
  { match = '(?P<entity>\w+) is (?P<shows>\w+)' },
  { match = 'pulling (?P<entity>\w+)', event = "pull", phase = "request" },
  { match = '.*', event = "" },
]
events = { pushed = { event = "push", phase = "reply", reply = "ok" }, patted = "" }
phases = { asked = "request" }
"""
    found, notes = observed(form, "pulling d1\nd1 is OPEN\nhm\nd1 pushed\nd1 pushed hard, asked\nd1 patted\n", folder)

    assert [
        Observation(entity="d1", event="pull", phase="request"),
        Observation(entity="d1", shows="OPEN"),
        Observation(entity="d1", event="push", phase="reply", reply="ok"),
        Observation(entity="d1", event="push", phase="request", reply="ok"),
    ] == [seen for _, seen in found]
    assert {"lines": 6, SKIPPED: 2} == notes


TIMES = [
    ("rfc3339", "Z", "27.11.2026", None),
    ("rfc3339", "Z", "2026-11-27T10:00:00,123456789", "2026-11-27T10:00:00.123456789Z"),
    ("rfc3339", "+02:00", "2026-11-27T10:00:00", "2026-11-27T08:00:00Z"),
    ("rfc3339", "+02:00", "2026-11-27T10:00:00Z", "2026-11-27T10:00:00Z"),
    ("%d/%b/%Y:%H:%M:%S", "-01:30", "27/Nov/2026:10:00:00", "2026-11-27T11:30:00Z"),
    ("%d/%b/%Y:%H:%M:%S%z", "-01:30", "27/Nov/2026:10:00:00+0100", "2026-11-27T09:00:00Z"),
    ("%d/%b/%Y:%H:%M:%S", "Z", "31/Feb/2026:10:00:00", None),
    ("seconds", "Z", "1795172600.5", "2026-11-20T11:03:20.5Z"),
    ("nanoseconds", "Z", "1795172600859283083", "2026-11-20T11:03:20.859283083Z"),
    ("seconds", "Z", "12.5", None),
    ("seconds", "Z", "9" * 19, None),
    ("seconds", "Z", "1e999999999", None),
]


@pytest.mark.parametrize(("form", "zone", "text", "expected"), TIMES)
def test_times(form: str, zone: str, text: str, expected: str | None, folder: Path) -> None:
    found, notes = observed(f'{LINE}\ntime = "{form}"\nzone = "{zone}"', f"{text} push d1\n", folder)

    (((_, seen)),) = found
    at = None if seen.at is None else int(seen.at)
    moment = datetime.fromisoformat(expected[:19]).replace(tzinfo=UTC) if expected else None
    fraction = int((expected or "").rstrip("Z")[20:].ljust(9, "0") or "0")
    assert (None if moment is None else int(moment.timestamp()) * 10**9 + fraction) == at
    assert (at is None) == (notes.get(UNTIMED, 0) == 1)


def test_a_relative_clock_may_begin_at_zero(folder: Path) -> None:
    found, _ = observed(f'{LINE}\ntime = "seconds"\nclock = "relative"', "12.5 push d1\n", folder)

    assert [12_500_000_000] == [seen.at for _, seen in found]


WRONG = [
    ("", "FSM241", 1, "does not say how to read a line"),
    ("line = '(?P<event>.)(?P<entity>.)'\n[paths]\nreply = 'e'", "FSM241", 1, "does not say how to read a line"),
    ("line = '(?P<entity>.)'", "FSM241", 1, "does not say what happens"),
    ("line = '(?P<event>.)'", "FSM241", 1, "does not name an entity"),
    ("title = ''\nline = [\n  '(?P<event>.)(?P<entity>.)',\n  '(',\n]", "FSM240", 4, "missing )"),
    ("line = '(?P<event>.)(?P<entity>(a*)*\\1)'", "FSM240", 1, "invalid escape"),
    ("line = '(?P<event>.)(?P<entity>(a{1000}){1000})'", "FSM240", 1, "repetition"),
    ("skip = ['(?<!a)b']\nline = '(?P<event>.)(?P<entity>.)'", "FSM240", 1, "invalid"),
    (f"{LINE}\ntime = '%H:%M:%S'", "FSM240", 2, "'%H:%M:%S' is not a format with the date and the hour"),
    (f"{LINE}\ntime = '%m-%d %H:%M:%S'", "FSM240", 2, "is not a format"),
    (f"{LINE}\ntime = '%Y-%m %H:%M:%S'", "FSM240", 2, "is not a format"),
    (f"{LINE}\ntime = '%Y-%m-%d %I:%M:%S'", "FSM240", 2, "is not a format"),
    (f"{LINE}\ntime = '%Y-%m-%d %H:%q'", "FSM240", 2, "is not a format"),
    (f"{LINE}\ntime = '%Y %Y'", "FSM240", 2, "is not a format"),
    (f"{LINE}\ntime = '%Y-%m-%d %H %'", "FSM240", 2, "is not a format"),
    (f"{LINE}\ntime = 'hours'", "FSM240", 2, "'hours' is not a format"),
    (f"{LINE}\ntime = ''", "FSM240", 2, "'' is not a format"),
    ("line = '(?P<event>.)(?P<entity>.)(?P<replyy>.)'", "FSM242", 1, "'replyy' has no meaning"),
    ("[paths]\nevent = 'e'\nentity = 'n'\nrely = 'r'", "FSM242", 4, "'rely' has no meaning"),
    ("line = '(?P<event>.)(?P<entity>.)|(?P<event>.)'", "FSM242", 1, "'event' is given twice"),
    ("line = '(?P<event>.)(?P<entity>.)'\narguments = { event = 'int' }", "FSM242", 1, "'event' is given twice"),
    ("line = '(?P<event>.)(?P<entity>.)'\narguments = { size = 'int' }", "FSM242", 2, "'size' is not used"),
    ("line = '(?P<event>.)(?P<entity>.)'\nreplies = { a = 'ok' }", "FSM242", 2, "'replies' is not used"),
    ("line = '(?P<event>.)(?P<entity>.)'\nshows = { a = 'OPEN' }", "FSM242", 2, "'shows' is not used"),
    ("line = '(?P<event>.)(?P<entity>.)'\ntime = 'seconds'", "FSM242", 2, "'time' is not used"),
    ("line = '(?P<event>.)(?P<entity>.)'\nzone = '+01:00'", "FSM242", 2, "'zone' is not used"),
    (f"{LINE}\nzone = 'CET'", "FSM012", 2, "zone"),
    (f"{LINE}\nphases = {{ a = 'askd' }}", "FSM012", 2, "phases.a"),
    (f"{LINE}\nlines = 3", "FSM010", 2, "unknown word 'lines'"),
    (f"{LINE}\nevents = {{ a = {{ evnt = 'x' }} }}", "FSM010", 2, "unknown word 'evnt'"),
    (f"{LINE}\narguments = {{ reply = 'float' }}", "FSM012", 2, "arguments.reply"),
    (f"{LINE}\nfields = {{ width = 'int' }}", "FSM242", 2, "'width' is not used"),
    (f"{LINE[:-1]}(?P<x>.)'\nfields = {{ x = 'int' }}\narguments = {{ x = 'int' }}", "FSM242", 1, "'x' is given twice"),
    ("line = '", "FSM004", 1, "not TOML"),
]


@pytest.mark.parametrize(("text", "code", "line", "what"), WRONG)
def test_errors_have_a_code_and_a_line(text: str, code: str, line: int, what: str, folder: Path) -> None:
    (folder / "forms" / "wrong.toml").write_text(text, encoding="utf-8")
    with pytest.raises(InputError) as caught:
        form_named("wrong")

    assert [(code, line)] == [(each.code, each.line) for each in caught.value.problems], caught.value
    assert what in str(caught.value)
    assert all(each.hint for each in caught.value.problems)


@pytest.mark.parametrize(("text", "code"), [(text, code) for text, code, *_ in WRONG if code != "FSM004"])
def test_the_schema_finds_what_it_can(text: str, code: str) -> None:
    """An editor marks unknown words and wrong values. It accepts forms whose errors concern several words."""
    valid = jsonschema.Draft202012Validator(schema(WrittenLogForm)).is_valid(tomllib.loads(text))
    assert (code not in {"FSM010", "FSM012"}) == valid


@pytest.mark.usefixtures("folder")
def test_a_form_can_be_sent_to_another_process() -> None:
    sent = pickle.loads(pickle.dumps(form_named("door")))  # noqa: S301

    assert form_named("door").title == sent.title
    assert nanoseconds("2026-11-27T10:00:00.5Z") == sent.time(LOG.encode().splitlines()[0])


def test_several_errors_are_reported_together(folder: Path) -> None:
    (folder / "forms" / "wrong.toml").write_text(
        f"{LINE[:-1]}(?P<x>.)'\nskip = ['(', ')']\ntime = 'x'", encoding="utf-8"
    )
    with pytest.raises(InputError) as caught:
        form_named("wrong")

    assert ["FSM242", "FSM240", "FSM240", "FSM240"] == [each.code for each in caught.value.problems]


def test_names_are_found_or_refused(folder: Path) -> None:
    with pytest.raises(InputError, match=r"FSM220.*\n.*did you mean 'door'"):
        form_named("dor")
    with pytest.raises(InputError, match="FSM220"):
        form_named("forms/dor.toml")
    (folder / "forms" / "trace.toml").write_text(FORM, encoding="utf-8")
    with pytest.raises(InputError, match=r"fsm or an installed package and forms/trace\.toml \[FSM220\]"):
        form_named("trace")
    assert "door log" == form_named("forms/trace.toml").title


def test_the_extra_is_named_if_it_is_missing(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(__import__("sys").modules, "re2", None)
    (folder / "forms" / "new.toml").write_text("line = '(?P<event>\\w+) (?P<entity>[a-z]+)!'", encoding="utf-8")
    with pytest.raises(InputError, match=r"FSM601.*\n.*pip install 'container-fsm\[logs\]'"):
        form_named("new")
    (folder / "forms" / "json.toml").write_text(JSON, encoding="utf-8")
    assert "json" == form_named("json").name


HOSTILE: dict[str, bytes] = {
    "catastrophic": b"a" * 1_000_000 + b"\n",
    "cut": b"a" * 3_000_000 + b"\n",
    "nul": b"\x00" * 500_000 + b"\n" + b"2026-11-27T10:00:00Z push d\x001\n",
    "not UTF-8": b"2026-11-27T10:00:00Z push d\xff\xfe1\n" * 3,
    "unknown lines": b"".join(b"line %d\n" % number for number in range(100_000)),
    "unknown words": b"".join(b"x kick%d d1\n" % number for number in range(100_000)),
    "no line break": b"ab\r" * 100_000,
}


@pytest.mark.parametrize("data", HOSTILE.values(), ids=HOSTILE)
def test_hostile_logs_end_quickly(data: bytes, folder: Path) -> None:
    form = f"line = ['(?P<event>(a*)*)(?P<entity>b)', {LINE.partition('=')[2]}]\nskip = ['(x+x+)+y']\nevents = {{ push = 'push' }}"
    began = time.process_time()
    found, notes = observed(form, data, folder)

    assert time.process_time() - began < 20
    assert len(notes) <= 10
    read = len([1 for _, seen in found if seen.phase != "gap"])
    assert read + sum(count for note, count in notes.items() if note != "lines") >= notes["lines"]
    if b"kick" in data:
        assert 99_995 == notes[OTHERS]
        assert all(len(note) < 100 for note in notes)


def test_a_long_unknown_word_is_shortened(folder: Path) -> None:
    _, notes = observed(FORM, b"x " + b"k" * 100_000 + b" d1\n", folder)

    assert all(len(note) < 100 for note in notes)


WORDS = st.from_regex(re.compile(r"[a-z][a-z0-9_]{0,5}", re.ASCII), fullmatch=True)
STAMPS = st.datetimes(datetime(2001, 1, 1), datetime(2200, 1, 1)).map(lambda moment: moment.replace(tzinfo=UTC))  # noqa: DTZ001
SEEN = st.fixed_dictionaries(
    {"entity": WORDS, "event": WORDS, "at": STAMPS},
    optional={"reply": WORDS, "shows": WORDS, "phase": st.sampled_from(["request", "reply", "lost", "answered"])},
)


@settings(max_examples=amount(50, night=1_000))
@given(seen=st.lists(SEEN, max_size=8), data=st.data())
def test_lines_written_through_the_pattern_are_read_back(
    seen: list[dict[str, Any]], data: st.DataObject, tmp_path_factory: pytest.TempPathFactory
) -> None:
    """Write observations with random words for events, replies and states, and noise between them."""
    folder = tmp_path_factory.mktemp("back")
    tables: dict[str, dict[str, str]] = {}
    for name in ("event", "reply", "shows", "phase"):
        values = sorted({each[name] for each in seen if name in each})
        words = data.draw(st.lists(WORDS, min_size=len(values), max_size=len(values), unique=True))
        tables[name] = dict(zip(values, words, strict=True))
    form = """line = '(?P<time>[^|]+)\\|(?P<event>\\w+)\\|(?P<entity>\\w+)\\|(?P<reply>\\w*)\\|(?P<shows>\\w*)\\|(?P<phase>\\w*)'
time = "%Y-%m-%d %H:%M:%S.%f"
skip = ['^noise']
"""
    for key, name in (("events", "event"), ("replies", "reply"), ("shows", "shows"), ("phases", "phase")):
        if tables[name]:
            form += f"[{key}]\n" + "".join(f'"{word}" = "{value}"\n' for value, word in tables[name].items())
    lines: list[str] = []
    expected: list[tuple[int, Observation]] = []
    for each in seen:
        lines += ["noise " + "x" * len(lines)] * data.draw(st.integers(0, 2))
        said = [tables[name][each[name]] if name in each else "" for name in ("reply", "shows", "phase")]
        moment = each["at"].strftime("%Y-%m-%d %H:%M:%S.%f")
        lines.append("|".join([moment, tables["event"][each["event"]], each["entity"], *said]))
        since = each["at"] - datetime(1970, 1, 1, tzinfo=UTC)
        at = ((since.days * 86_400 + since.seconds) * 10**6 + since.microseconds) * 1_000
        expected.append((len(lines), Observation(**each | {"at": at})))
    (folder / "back.toml").write_text(form, encoding="utf-8")
    (folder / "back.log").write_text("\n".join(lines), encoding="utf-8")
    recording = open_recording(str(folder / "back.log"), form=str(folder / "back.toml"))
    found = [zip(batch.lines, batch.observations, strict=True) for batch in recording.batches]

    assert expected == list(chain.from_iterable(found))
    assert (len(lines) - len(seen), []) == (recording.notes[SKIPPED], [*recording.notes.places])


def test_the_same_words_exchanged_are_read_differently(folder: Path) -> None:
    """The previous test can fail: with the words of two events exchanged, other observations are read."""
    exchanged = FORM.replace("pushed", "x").replace("pulled", "pushed").replace("x =", "pulled =")

    assert [seen.event for _, seen in observed(FORM, LOG, folder)[0]] == ["push", "pull", "pull"]
    assert [seen.event for _, seen in observed(exchanged, LOG, folder)[0]] == ["pull", "push", "push"]


def test_a_form_in_the_wrong_table_of_the_project_file_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "pyproject.toml").write_text("[form.mine]\nline = '(?P<event>.)(?P<entity>.)'\n", encoding="utf-8")
    monkeypatch.chdir(tmp_path)

    with pytest.raises(InputError) as caught:
        form_named("mine")

    assert "write [tool.fsm.form.mine]" in str(caught.value)
