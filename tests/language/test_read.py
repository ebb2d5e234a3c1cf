"""Model files are read, and syntactic errors are reported with a line and a remedy."""

from __future__ import annotations

import tomllib
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from machines import DOOR, JOB, counter_text, edited, line_of, problems_of
from thorough import TIMES
from toml_text import toml_text

from fsm.errors import InputError
from fsm.language.codes import RULES
from fsm.language.library import home
from fsm.language.machine_file import Written
from fsm.language.read import content, parse
from fsm.language.read.toml import DEEPEST, LARGEST, locate
from fsm.language.vocabularies import Stated

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

SHIPPED = sorted((home() / "models").glob("*.toml"))
TEXTS = [DOOR, JOB, counter_text(to=3), *(path.read_text(encoding="utf-8") for path in SHIPPED)]


# -- every syntactic error -----------------------------------------------------

PUSH = 'about   = "Open the door."\n'

# The code, the text to replace in the door, its replacement, the message, and the hint.
# The mark "# here" is on the line where the problem must be reported.
CASES = [
    ("FSM003", 'title   = "A door"', 'title = "A d\udcf6r"  # here', "the text is not UTF-8: byte 0xf6 at offset", "save the file as UTF-8"),
    ("FSM004", 'initial = "shut"', "initial = shut  # here", "is not TOML: invalid value (at line 6, column 11)", "see https://toml.io"),
    ("FSM004", 'initial = "shut"', f"initial = {'9' * 5000}  # here", "an integer has thousands of digits", "64 bits"),
    ("FSM004", "[event.warp]", "[event.push]  # here", "cannot declare", "see https://toml.io"),
    ("FSM005", PUSH, f"about = {'[' * 40}{']' * 40}  # here", "the file is nested more than 32 deep", "a model needs six levels"),
    ("FSM005", PUSH, f"about = {'[' * 9000}{']' * 9000}  # here", "the file is nested more than 32 deep", "six levels"),
    ("FSM005", PUSH, f"{'a.' * 40}a = 1  # here", "the file is nested more than 32 deep", "six levels"),
    ("FSM005", PUSH, f"{'a.' * 300_000}a = 1  # here", "the file is nested more than 32 deep", "six levels"),
    ("FSM010", '["open"]\nclauses', '["open"]\nignore = []  # here\nclauses', "unknown word 'ignore' in [event.push]", "did you mean 'ignores'? words: moves, ignores,"),
    ("FSM010", "[event.warp]", "[events.warp]  # here", "unknown word 'events' in the file", "did you mean 'event'? words: machine, states, define, data, event, timer, clause, fields, requires, profile"),
    ("FSM010", "ajar = { about = ", 'ajar = { abuot = "?", about = "" }  # here\n#', "unknown word 'abuot' in [states.ajar]", "did you mean 'about'? words: about, shows"),
    ("FSM010", "moves  = { shut = ", 'moves  = { shut = [{ go = "x" }] }  # here\n#', "unknown word 'go' in [event.warp.moves.shut[0]]", "words: name, about, to, "),
    ("FSM010", 'kind   = "hidden"', 'kind = "hidden"\n"<list>" = 1  # here', "unknown word '<list>' in [event.warp]", "words: "),
    ("FSM010", 'kind   = "hidden"', 'kind = "hidden"\n"[key]" = "warp"  # here', "unknown word '[key]' in [event.warp]", "words: "),
    ("FSM006", 'kind   = "hidden"', 'kind = "hidden"\n"a\\u001Bb" = 1  # here', r'event.warp."a\u001bb" has the control character U+001B', "remove the character"),
    ("FSM006", 'ignores = ["shut"]', 'ignores = [\n"shut",\n"\\u202E",  # here\n]', "event.slam.ignores[1] has the control character U+202E", "remove the character"),
    ("FSM011", "[event.slam]", "[event.hum]  # here\n[event.slam]", "'about' is missing from [event.hum]", "add: about = …"),
    ("FSM011", "gone = { about = ", 'gone = { shows = "x" }  # here\n#', "'about' is missing from [states.gone]", "add: about = …"),
    ("FSM012", 'ignores = ["shut"]', 'ignores = "shut"  # here', "event.slam.ignores is 'shut'", "give a list, each entry the name of a state, or '*'"),
    ("FSM012", 'ignores = ["shut"]', 'ignores = [\n"shut",\n7,  # here\n]', "event.slam.ignores[1] is 7", "give the name of a state, or '*'"),
    ("FSM012", 'ignores = ["shut"]', "ignores = { }  # here", "event.slam.ignores is a table", "give a list"),
    ("FSM012", 'ignores = ["shut"]', "interrupts = 1979-05-27  # here", "event.slam.interrupts is 1979-05-27", "give true or false"),
    ("FSM012", "moves  = { shut = ", 'moves  = { shut = [{ to = "gone", within = 99999999999999 }] }  # here\n#', "event.warp.moves.shut[0].within is 99999999999999", "give a whole number from 1 to 1,000,000,000"),
    ("FSM012", 'kind   = "hidden"', 'kind   = "hiden"  # here', "event.warp.kind is 'hiden'", "did you mean 'hidden'? values: call, signal, hidden"),
    ("FSM012", 'kind   = "hidden"', "kind   = true  # here", "event.warp.kind is true", "give one of 'call', 'signal', 'hidden'"),
    ("FSM012", 'rpc     = "PushDoor"', f"rpc = 0x{'f' * 5000}  # here", "event.push.rpc is 0xffff", "give text in quotes"),
    ("FSM012", 'name    = "door"', 'name = "a door"  # here', "machine.name is 'a door'", "give a name of letters, digits, '_', '.' and '-'"),
    ("FSM012", "gone = { about", '"go ne" = { about = "" }  # here\ngone = { about', "'go ne' in [states] cannot be used as a name", "use a name of letters, digits"),
    ("FSM012", PUSH, f'{PUSH}ends."*" = {{ stays = true }}  # here\n', "'*' in [event.push.ends] cannot be used as a name", "or a set of states from [define]"),
    ("FSM012", "clauses = { gone-is-gone", 'refuses = { gone = "Not found" }  # here\n#', "event.push.refuses.gone is 'Not found'", "give an error reply in capitals, such as NOT_FOUND, or 'error' for any, or a list of them"),
    ("FSM012", "moves  = { shut = ", 'moves  = { shut = { to = "ajar", reply = ["no"] } }  # here\n#', "event.warp.moves.shut.reply[0] is 'no'", "give 'ok', an error reply in capitals"),
    ("FSM012", "moves  = { shut = ", 'moves  = { shut = { to = "ajar", reply = 5 } }  # here\n#', "event.warp.moves.shut.reply is 5", "or a list of them"),
    ("FSM012", "moves  = { shut = ", "moves  = { shut = 5 }  # here\n#", "event.warp.moves.shut is 5", "give a name of letters, digits, '_', '.' and '-', or a table, or a list of them"),
    ("FSM012", "moves  = { shut = ", 'moves  = { shut = ["ajar"] }  # here\n#', "event.warp.moves.shut[0] is 'ajar'", "give a table"),
]  # fmt: skip


@pytest.mark.parametrize(("code", "old", "new", "what", "hint"), CASES, ids=lambda part: part[:40])
def test_says_what_is_wrong_where_and_the_way_out(code: str, old: str, new: str, what: str, hint: str) -> None:
    text = edited(DOOR, old, new)

    (problem,) = problems_of(text.encode(errors="surrogateescape"))

    assert (code, line_of(text)) == (problem.code, problem.line)
    assert what in problem.what
    assert hint in problem.hint


FILES: list[tuple[str, Callable[[Path], object], str]] = [
    ("FSM001", lambda _: None, "the file cannot be opened: no such file or directory"),
    ("FSM001", lambda path: path.mkdir(), "the file cannot be opened: is a directory"),
    ("FSM001", lambda path: path.symlink_to(path), "the file cannot be opened: too many levels of symbolic links"),
    ("FSM002", lambda path: path.write_bytes(b"#" * (LARGEST + 1)), "the file is larger than 4 MiB"),
]


@pytest.mark.parametrize(("code", "make", "what"), FILES, ids=["missing", "directory", "loop", "huge"])
def test_says_why_a_file_cannot_be_used(code: str, make: Callable[[Path], object], what: str, tmp_path: Path) -> None:
    path = tmp_path / "toy.toml"
    make(path)

    with pytest.raises(InputError) as caught:
        parse(content(path), Written, path=str(path))

    (problem,) = caught.value.problems
    assert (code, 0, what) == (problem.code, problem.line, problem.what)
    assert str(caught.value).startswith(f"{path}: {what} [{code}]\n    ")


def test_a_path_that_no_file_can_have_is_said() -> None:
    with pytest.raises(InputError, match=r"the file cannot be opened: embedded null byte \[FSM001\]"):
        content("a\0b")


def test_every_rule_of_form_has_a_case() -> None:
    assert {code for code in RULES if code < "FSM1"} == {case[0] for case in (*CASES, *FILES)}


TEN_MISTAKES = """\
[machine]
name    = "a door"
titel   = "A door"
about   = "Opens and shuts."
source  = "nobody"
initial = "shut"

[states]
shut = { shows = "CLOSED" }
open = { about = "Open.", shows = 1 }

[event.push]
kind    = "cal"
moves   = { shut = "op en" }
ignores = "open"

[event.pull]
kind       = "call"
about      = "Shut the door."
moves      = { open = { to = "shut", reply = "fine" } }
interrupts = true
"""


def test_says_all_mistakes_at_once() -> None:
    said = [(problem.line, problem.code) for problem in problems_of(TEN_MISTAKES)]

    assert [
        (1, "FSM011"),
        (2, "FSM012"),
        (3, "FSM010"),
        (9, "FSM011"),
        (10, "FSM012"),
        (12, "FSM011"),
        (13, "FSM012"),
        (14, "FSM012"),
        (15, "FSM012"),
        (20, "FSM012"),
    ] == said


# -- lines -----------------------------------------------------------------------

LINES = """\
top = 1
[a.b]           # a, and not a itself
"c d".e = [     # dotted and quoted
  1,
  # nothing
  [2, { f = 3 }],
]
g = { h = 1, i.j = 2 }
q = ["r",
  "s"]          # a comment behind a value
[a]             # here it is
k = \"""
[no]
no = 1
\"""
[[l.m]]
n = 1
[[l.m]]
n = 2
[l.m.o]
p = 'x # y'
"""

PLACES = [
    (("top",), 1),
    (("a",), 11),
    (("a", "b"), 2),
    (("a", "b", "c d"), 3),
    (("a", "b", "c d", "e"), 3),
    (("a", "b", "c d", "e", 0), 4),
    (("a", "b", "c d", "e", 1), 6),
    (("a", "b", "c d", "e", 1, 1, "f"), 6),
    (("a", "b", "g", "h"), 8),
    (("a", "b", "g", "i", "j"), 8),
    (("a", "b", "q", 1), 10),
    (("a", "k"), 12),
    (("a", "k", "no"), 12),
    (("l",), 16),
    (("l", "m"), 16),
    (("l", "m", 0), 16),
    (("l", "m", 0, "n"), 17),
    (("l", "m", 1), 18),
    (("l", "m", 1, "n"), 19),
    (("l", "m", 1, "o", "p"), 21),
    (("l", "m", 0, "o"), 16),
    (("not", "there"), 1),
]


@pytest.mark.parametrize(("path", "line"), PLACES, ids=str)
def test_finds_the_line_of(path: tuple[str | int, ...], line: int) -> None:
    assert line == locate(LINES.encode()).find(*path)


def test_a_header_of_its_own_counts_before_a_table_that_is_implied() -> None:
    text = edited(
        DOOR,
        '[event.warp]\nkind   = "hidden"\nabout  = ',
        '[event.warp.moves]\najar = "ajar"\n\n[event.warp]  # here\nkind = "hidden"\n#',
    )
    text = edited(text, 'moves  = { shut = "ajar" }\n', "")

    assert [(line_of(text), "FSM011")] == [(problem.line, problem.code) for problem in problems_of(text)]


def test_what_is_missing_at_the_top_is_no_table_where_it_is_text() -> None:
    with pytest.raises(InputError) as raised:
        parse(b"", Stated, path="door.toml")

    assert ["add above all tables: machine = …", "add a table: [property]"] == [
        each.hint for each in raised.value.problems
    ]


def test_a_byte_order_mark_is_no_mistake() -> None:
    """A byte order mark at the start of a file is accepted, because some editors write it."""
    assert DOOR == DOOR.strip("\ufeff")
    assert () == problems_of("\ufeff" + DOOR)


def test_windows_line_ends_count_once() -> None:
    text = edited(DOOR, 'kind   = "hidden"', 'kind = "hiden"  # here')

    assert [line_of(text)] == [problem.line for problem in problems_of(text.replace("\n", "\r\n"))]


KEYS = st.text(st.characters(exclude_categories=["Cs"]), max_size=4)
VALUES = st.recursive(
    st.booleans() | st.integers(-9, 9) | KEYS | st.dates(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(KEYS, inner, max_size=3),
    max_leaves=12,
)


@given(document=st.dictionaries(KEYS, VALUES, max_size=4))
def test_every_key_and_entry_has_a_line(document: dict[str, Any]) -> None:
    """The locator finds every key and entry that TOML reads. Each top-level key is on a line of its own."""
    text = toml_text(document)
    assert document == tomllib.loads(text)

    lines = locate(text.encode())

    assert dict(_places(document)) == lines.of


def _places(document: dict[str, Any]) -> Iterator[tuple[tuple[str | int, ...], int]]:
    for line, (key, value) in enumerate(document.items(), 1):
        for path in _paths((key,), value):
            yield path, line


def _paths(path: tuple[str | int, ...], value: object) -> Iterator[tuple[str | int, ...]]:
    yield path
    match value:
        case dict():
            for key, each in value.items():
                yield from _paths((*path, key), each)
        case list():
            for index, each in enumerate(value):
                yield from _paths((*path, index), each)


# -- damaged files -----------------------------------------------------------------


@st.composite
def damaged_bytes(draw: st.DrawFn) -> bytes:
    data = bytearray(draw(st.sampled_from(TEXTS)).encode())
    for _ in range(draw(st.integers(1, 6))):
        at = draw(st.integers(0, max(0, len(data) - 1)))
        match draw(st.sampled_from(["cut", "flip", "insert", "drop"])):
            case "cut":
                del data[at:]
            case "flip" if data:
                data[at] ^= 1 << draw(st.integers(0, 7))
            case "insert":
                data[at:at] = draw(
                    st.sampled_from([b"[", b"]", b"{", b'"', b"'", b"=", b".", b"\n", b"#", b"\0", b"\xff"])
                )
            case _:
                del data[at : at + draw(st.integers(1, 20))]
    return bytes(data)


@st.composite
def damaged_lines(draw: st.DrawFn) -> bytes:
    lines = draw(st.sampled_from(TEXTS)).split("\n")
    for _ in range(draw(st.integers(1, 6))):
        line = lines.pop(draw(st.integers(0, len(lines) - 1)))
        for _ in range(draw(st.integers(0, 2))):
            lines.insert(draw(st.integers(0, len(lines))), line)
        lines = lines or [""]
    return "\n".join(lines).encode()


@given(data=damaged_bytes() | damaged_lines())
@example(data=b"")
@example(data=b"\xef\xbb\xbf")
@example(data=b"[key]\n")
@example(data=b'"<table>" = 1\n')
def test_a_damaged_file_is_a_machine_or_says_what_is_wrong(data: bytes) -> None:
    """A damaged file is either read without problems, or each of its problems is reported on an existing line."""
    last = data.count(b"\n") + 1

    for problem in problems_of(data):
        assert problem.code in RULES
        assert problem.what
        assert problem.hint
        assert 0 <= problem.line <= last


@pytest.mark.slow
@pytest.mark.parametrize("text", TEXTS, ids=["door", "job", "counter", *(path.stem for path in SHIPPED)])
def test_a_file_cut_short_says_what_is_wrong(text: str) -> None:
    lines = text.splitlines(keepends=True)
    for end in range(0, len(lines), max(1, len(lines) // (40 if TIMES > 1 else 12))):
        problems_of("".join(lines[:end]))


def test_a_large_file_of_mistakes_is_read_in_time() -> None:
    text = "".join(f"word{number} = {number}\n" for number in range(5_000))

    assert 5_000 + 3 == len(problems_of(text))


def test_nesting_as_deep_as_allowed_is_read() -> None:
    """The nesting limit counts tables and arrays, including the file itself."""
    deepest = DEEPEST - 2

    said = [problems_of(f"machine = {'[' * depth}{']' * depth}") for depth in (deepest + 1, deepest + 2)]

    assert [{"FSM011", "FSM012"}, {"FSM005"}] == [{problem.code for problem in problems} for problems in said]


def test_dots_in_strings_and_numbers_nest_nothing() -> None:
    dots = "a." * 100
    text = edited(
        DOOR, 'about   = "Open the door."', f'about = """{dots}\n\\"{dots}"""  # {dots}\naliases = [\'{dots}\']'
    )

    assert () == problems_of(text)


def test_reads_the_same_from_bytes_and_from_a_file(tmp_path: Path) -> None:
    path = tmp_path / "door.toml"
    path.write_text(DOOR, encoding="utf-8")

    assert parse(DOOR.encode(), Written, path=str(path)) == parse(content(path), Written, path=str(path))


def test_a_message_lists_so_many_mistakes_and_no_more() -> None:
    text = edited(DOOR, 'silent = ["*"]', f"silent = [{'0, ' * 1_000}]")

    with pytest.raises(InputError) as caught:
        parse(text.encode(), Written, path="door.toml")

    assert 1_000 == len(caught.value.problems)
    assert "and 900 more" == str(caught.value).splitlines()[-1]
    assert 201 == len(str(caught.value).splitlines())
