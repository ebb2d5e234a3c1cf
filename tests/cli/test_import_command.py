"""``fsm import`` turns files into models, and reports errors in the files."""

from __future__ import annotations

import contextlib
import json
from typing import TYPE_CHECKING, Any

import commands
import pytest
from hypothesis import given
from hypothesis import strategies as st
from machines import DOOR, door, edited, machine_of

from fsm.errors import InputError, control_character
from fsm.interop.charts import scxml
from fsm.interop.formats import FORMS, imported
from fsm.interop.transitions import transitions
from fsm.interop.yaml_nodes import LARGEST, SourceProblems, YamlNode, node_of
from fsm.language.codes import RULES
from fsm.machine import Ignores, outcomes

if TYPE_CHECKING:
    import subprocess
    from pathlib import Path

    from fsm.errors import Problem
    from fsm.interop.formats import ToolFormat


LAMP = """\
states:
  - off
  - on
initial: off
transitions:
  - [press, off, on]
  - {trigger: press, source: on, dest: off}
"""
DEFINITION = """\
states:
  off:
    transitions:
      - {event: press, target: on}
  on:
    transitions:
      - {event: press, target: off}
"""
CHART = """\
<scxml xmlns="http://www.w3.org/2005/07/scxml" initial="off">
  <state id="off">
    <transition event="press" target="on"/>
  </state>
  <state id="on"/>
</scxml>
"""
EXPORTED = scxml(door())

WRONG: list[tuple[str | bytes, str, int, str]] = [
    # A text, the code of its error, the line, and the message.
    ("#" * (LARGEST + 1), "FSM502", 0, "the file is larger than 1 MiB"),
    (b"states:\n- \xff", "FSM503", 2, "the text is not UTF-8: byte 0xff at offset 10"),
    ('{"states": ["off", "on"\n', "FSM504", 2, "is neither JSON nor YAML"),
    ('{"states":\n"off" "on"}', "FSM504", 2, "is neither JSON nor YAML"),
    ("states: [\x07]", "FSM504", 1, "is neither JSON nor YAML"),
    (f"{LAMP}---\n{LAMP}", "FSM504", 8, "the file contains several documents"),
    ("states: [a]\n? [b]\n: c", "FSM504", 2, "has a list as a key"),
    ("<scxml>\n<state></scxml>", "FSM504", 2, "is not XML: mismatched tag"),
    ("<", "FSM504", 1, "is not XML"),
    ("[" * 100_000, "FSM505", 1, "the file is nested more than 32 deep"),
    ("- " * 50_000, "FSM505", 1, "the file is nested more than 32 deep"),
    ("<a>\n" * 10_000, "FSM505", 33, "the file is nested more than 32 deep"),
    ("states: &a [on]\ninitial: *a", "FSM506", 2, "has an alias, *a"),
    ('<!DOCTYPE a [\n<!ENTITY b "c">]>\n<scxml/>', "FSM506", 1, "has a document type"),
    ("", "FSM507", 1, "the file contains null, not a machine"),
    ("- states", "FSM507", 1, "the file contains a list, not a machine"),
    ("on", "FSM507", 1, "the file contains 'on', not a machine"),
    ("nodes: [off, on]", "FSM507", 1, "has no 'states'"),
    ("\n<html/>", "FSM507", 2, "the file is <html>, not a state chart"),
    (edited(LAMP, "initial:", "inital:"), "FSM508", 4, "the configuration has an unknown word 'inital'"),
    (edited(LAMP, "trigger:", "triger:"), "FSM508", 7, "the transition has an unknown word 'triger'"),
    (edited(LAMP, "- on", "- {name: on, enter: x}"), "FSM508", 3, "state 'on' has an unknown word 'enter'"),
    (edited(LAMP, "- on", "- {name: on, final: often}"), "FSM508", 3, "'final' of state 'on' is 'often'"),
    (edited(LAMP, "- on", "- [on]"), "FSM508", 3, "the name of a state is a list"),
    (edited(LAMP, "[press, off, on]", "press"), "FSM508", 6, "a transition is 'press'"),
    (
        edited(LAMP, "[press, off, on]", "[state, off, on]"),
        "FSM508",
        6,
        "trigger 'state' has the same name as the attribute of the model",
    ),
    (edited(LAMP, "[press, off, on]", "[press, {}, on]"), "FSM508", 6, "source of trigger 'press' is a mapping"),
    (edited(LAMP, "[press, off, on]", f"[press, [{'x' * 99}: 1], on]"), "FSM508", 6, "source of trigger 'press' is a"),
    (edited(DEFINITION, "{event: press, target: on}", "press"), "FSM508", 4, "a transition of state 'off' is 'press'"),
    (edited(DEFINITION, "target: on", "to: on"), "FSM508", 4, "a transition of state 'off' has an unknown word 'to'"),
    ("states: {off: on}", "FSM508", 1, "state 'off' is 'on'"),
    ("states: {off: {enter: {sned: x}}}", "FSM508", 1, "'enter' of state 'off' has an unknown word 'sned'"),
    ("states: []\ninitial: a", "FSM509", 1, "has no states"),
    ("states: {}", "FSM509", 1, "has no states"),
    (edited(LAMP, "initial: off", "initial: null"), "FSM509", 4, "the configuration has no initial state"),
    (edited(LAMP, "- on", "- {final: true}"), "FSM509", 3, "state has no name"),
    (edited(LAMP, "trigger: press, ", ""), "FSM509", 7, "transition has no trigger"),
    (edited(LAMP, "[press, off, on]", "[press, off]"), "FSM509", 6, "transition has no dest"),
    ('<scxml xmlns="http://www.w3.org/2005/07/scxml"/>', "FSM509", 1, "has no states"),
    (edited(CHART, '<state id="on"/>', "<state/>"), "FSM509", 5, "<state> has no id"),
    (edited(LAMP, "initial: off", "initial: of"), "FSM510", 4, "'initial' names the unknown state 'of'"),
    (edited(LAMP, "dest: off", "dest: of"), "FSM510", 7, "trigger 'press' leads to the unknown state 'of'"),
    (edited(LAMP, "source: on", "source: [on, no]"), "FSM510", 7, "trigger 'press' leads from the unknown state 'no'"),
    (
        edited(DEFINITION, "target: on", "target: no"),
        "FSM510",
        4,
        "a transition of state 'off' leads to the unknown state 'no'",
    ),
    (
        edited(CHART, 'target="on"', 'target="no"'),
        "FSM510",
        3,
        "a transition of state 'off' leads to the unknown state 'no'",
    ),
    (edited(CHART, 'initial="off"', 'initial="no"'), "FSM510", 1, "'initial' names the unknown state 'no'"),
    (edited(LAMP, "- on", "- {name: on, children: [dim]}"), "FSM511", 3, "state 'on' has 'children'"),
    (edited(DEFINITION, "  on:", "  on:\n    states: {dim: {}}"), "FSM511", 6, "state 'on' has 'states'"),
    (
        edited(CHART, '<state id="on"/>', '<state id="on"><state id="dim"/></state>'),
        "FSM511",
        5,
        "state 'on' has <state>",
    ),
    (
        edited(CHART, '<state id="on"/>', '<parallel id="on"/>'),
        "FSM511",
        5,
        "<parallel id='on'> has several active states",
    ),
    (
        edited(DEFINITION, "event: press, target: on", "target: on"),
        "FSM512",
        4,
        "state 'off' has a transition without an event",
    ),
    (
        edited(DEFINITION, "target: on", "target: on, on: {raise: x}"),
        "FSM512",
        4,
        "'on' of a transition of state 'off' has 'raise'",
    ),
    (edited(DEFINITION, "  off:", "  off:\n    final: true"), "FSM512", 5, "final state 'off' has transitions"),
    (edited(CHART, ' event="press"', ""), "FSM512", 3, "state 'off' has a transition without an event"),
    (
        edited(CHART, '<state id="on"/>', '<state id="on"><onentry>\n<if cond="x"/></onentry></state>'),
        "FSM512",
        6,
        "<if> causes other steps",
    ),
    (edited(LAMP, "- on", "- on\n  - off"), "FSM513", 4, "state 'off' occurs twice"),
    (f"{LAMP}initial: on", "FSM513", 8, "key 'initial' occurs twice"),
    (edited(CHART, 'id="on"', 'id="off"'), "FSM513", 5, "state 'off' occurs twice"),
    (
        edited(DEFINITION, "  off:", "  a: {initial: true}\n  b: {initial: true}\n  off:"),
        "FSM513",
        3,
        "several states are initial: a, b",
    ),
    (
        json.dumps({"states": [*map(str, range(2000))], "transitions": [[f"t{n}", "*", "1"] for n in range(2000)]}),
        "FSM515",
        1,
        "2000 transitions in 2001 states have more than",
    ),
    (
        json.dumps({"states": {"off": {"transitions": [{"event": " ".join(map(str, range(2000)))}]}}}),
        "FSM515",
        0,
        "2000 transitions in 2000 states have more than",
    ),
    ("states: [off,\n'\u202eon']", "FSM516", 2, "has the control character U+202E"),
]


def problems_of(data: str | bytes, form: ToolFormat | None = None) -> list[tuple[str, int, str]]:
    with pytest.raises(InputError) as caught:
        imported(data.encode() if isinstance(data, str) else data, path="lamp", form=form)
    return [(each.code, each.line, each.what) for each in caught.value.problems]


@pytest.mark.parametrize(
    ("data", "code", "line", "message"), WRONG, ids=[f"{case[1]} {case[3]}"[:50] for case in WRONG]
)
def test_each_mistake_is_reported(data: str | bytes, code: str, line: int, message: str) -> None:
    found = problems_of(data)

    assert [(code, line)] == [(each[0], each[1]) for each in found if message in each[2]][:1], found


def test_every_rule_is_tried() -> None:
    """Every code up to FSM516 has a test case here.

    Later codes belong to ``fsm init``.
    """
    assert {code for code in RULES if "FSM5" < code < "FSM517"} == {case[1] for case in WRONG} | {"FSM501"}


@pytest.mark.parametrize("text", [LAMP, DEFINITION, CHART, EXPORTED])
def test_without_mistakes_nothing_is_reported(text: str) -> None:
    assert machine_of(imported(text.encode(), path="lamp")).initial in {"off", "shut"}


def test_all_mistakes_are_reported_at_once() -> None:
    text = edited(edited(LAMP, "initial: off", "initial: of"), "[press, off, on]", "[press, off, no]").replace(
        "source: on, ", ""
    )

    assert [(each[0], each[1]) for each in problems_of(text)] == [("FSM510", 4), ("FSM510", 6), ("FSM509", 7)]


def test_names_are_proposed_and_not_too_many() -> None:
    """A hint lists at most twenty names, because a file may cause thousands of such messages."""
    many = {"states": [f"s{n}" for n in range(25)], "transitions": [["go", "s0", "s111"]]}
    with pytest.raises(InputError) as caught:
        imported(json.dumps(many).encode(), path="lamp.json")

    (problem,) = caught.value.problems
    assert problem.hint.startswith("did you mean 's11'? states: s0, s1, ")
    assert problem.hint.endswith(", s19 and 6 more")


# -- values ------------------------------------------------------------------------------

VALUES = st.recursive(
    st.none() | st.booleans() | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=12,
)


@given(VALUES, st.sampled_from([None, 1, "\t"]), st.booleans())
def test_json_is_read_as_json(value: Any, indent: int | str | None, ascii_only: bool) -> None:  # noqa: FBT001, ANN401
    """Any JSON value is read unchanged, however it is formatted."""
    text = json.dumps({"it": value}, indent=indent, ensure_ascii=ascii_only)
    problems = SourceProblems(path="it")
    if any(len(key) > 100 for key in text.split('"')):
        return

    assert _value(node_of(text, problems)) == {"it": value}


def _value(node: YamlNode) -> Any:  # noqa: ANN401  (whatever JSON holds)
    match node.value:
        case dict() as entries:
            return {key: _value(each) for key, each in entries.items()}
        case list() as items:
            return [_value(each) for each in items]
        case value:
            return value


WORDS = st.sampled_from(
    [
        "states",
        "transitions",
        "initial",
        "name",
        "trigger",
        "source",
        "dest",
        "off",
        "on",
        "*",
        "=",
        "event",
        "target",
        "final",
        "cond",
        "send",
        "enter",
        "models",
    ]
)
NEAR = st.recursive(
    st.none() | st.booleans() | WORDS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(WORDS, inner, max_size=4),
    max_leaves=20,
)


@given(st.dictionaries(WORDS, NEAR), st.sampled_from([None, *FORMS]))
def test_what_is_nearly_a_machine_is_one_or_not(document: dict[str, Any], form: ToolFormat | None) -> None:
    """A document is either imported or refused with problems, each of which has a known code and a hint."""
    problems: tuple[Problem, ...] = ()
    try:
        found = imported(json.dumps({"states": ["off"], **document}).encode(), path="lamp", form=form)
        assert machine_of(found).initial in machine_of(found).states
    except InputError as error:
        problems = error.problems
    assert all(problem.code in RULES and problem.hint for problem in problems)


@given(st.binary() | st.text().map(str.encode), st.sampled_from([None, *FORMS]))
def test_what_is_no_machine_is_refused(data: bytes, form: ToolFormat | None) -> None:
    with pytest.raises(InputError):
        imported(data, path="lamp", form=form)


@given(st.integers(0, len(EXPORTED)), st.integers(0, 40), st.sampled_from(["", "x", '"', "<a/>"]))
def test_damaged_state_charts_are_refused_or_read(at: int, length: int, instead: str) -> None:
    """A damaged state chart is either read or refused with ``InputError``; no other exception is raised."""
    with contextlib.suppress(InputError):
        imported((EXPORTED[:at] + instead + EXPORTED[at + length :]).encode(), path="door.scxml")


# -- the command -------------------------------------------------------------------------


def fsm(*arguments: str, given: str = "") -> subprocess.CompletedProcess[str]:
    return commands.fsm(*arguments, stdin=given.encode())


@pytest.mark.parametrize("text", [LAMP, DEFINITION, CHART])
def test_what_is_imported_is_shown(text: str, tmp_path: Path) -> None:
    path, model = tmp_path / "lamp.txt", tmp_path / "lamp.toml"
    path.write_text(text, encoding="utf-8")
    printed, written = fsm("import", str(path)), fsm("import", str(path), "-o", str(model))

    assert (printed.returncode, written.returncode, written.stdout) == (0, 0, "")
    assert printed.stdout == model.read_text(encoding="utf-8")
    assert fsm("show", str(model)).stdout.startswith("lamp: lamp\n")


def test_standard_input_and_outcomes() -> None:
    ran = fsm("import", "-", "--outcomes", "--from", "transitions", given=transitions(door()))

    assert ran.returncode == 0
    assert list(machine_of(ran.stdout).events) == ["push", "remove", "slam", "warp"]


def test_a_whole_round_trip(tmp_path: Path) -> None:
    model, chart = tmp_path / "door.toml", tmp_path / "door.scxml"
    model.write_text(DOOR, encoding="utf-8")
    assert fsm("export", str(model), "--to", "scxml", "-o", str(chart)).returncode == 0
    back = machine_of(fsm("import", str(chart), "--outcomes").stdout)

    assert list(door().states) == list(back.states)
    assert [("opened", "open"), ("stuck", "shut")] == [
        (way.name, way.to) for way in outcomes(back.events["push"].cells["shut"], "shut", "signal") or ()
    ]
    assert isinstance(back.events["push"].cells["gone"], Ignores)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["no/such/file.json"], "no/such/file.json: the file cannot be opened: no such file or directory [FSM501]"),
        (["-"], "stdin:1: the file contains null, not a machine [FSM507]"),
        (["-", "--from", "scxml"], "stdin:1: the file is not XML: no element found [FSM504]"),
        (["-", "--from", "png"], "'png' is not one of"),
    ],
)
def test_mistakes_have_a_way_out(arguments: list[str], message: str) -> None:
    ran = fsm("import", *arguments)

    assert (ran.returncode, ran.stdout) == (2, "")
    assert message in ran.stderr
    assert "Traceback" not in ran.stderr


@pytest.mark.parametrize(
    ("given", "line", "found"),
    [
        ('{"states": [\n"o\\u001b[31mff", "on"]}', 2, r"'o\x1b[31mff' has the control character U+001B [FSM516]"),
        ("states: [off, on]\nbegin\u202e: off", 2, r"'begin\u202e' has the control character U+202E [FSM516]"),
        ('<scxml>\n<state id="off&#x85;"/></scxml>', 2, r"'off\x85' has the control character U+0085 [FSM516]"),
        (
            "states: [off,\n\x1b[31mon]",
            2,
            "the file is neither JSON nor YAML: control characters are not allowed [FSM504]",
        ),
        (LAMP.replace("off", "öff"), 0, ""),
    ],
)
def test_a_control_character_is_refused(given: str, line: int, found: str) -> None:
    """A control character cannot reach a terminal or a page; letters of all alphabets are accepted."""
    ran = fsm("import", "-", given=given)

    assert (2 if found else 0) == ran.returncode, ran.stderr
    assert not found or f"stdin:{line}: {found}" in ran.stderr
    assert all(not control_character(each) for each in (ran.stdout, ran.stderr))


def test_a_folder_that_is_not_there(tmp_path: Path) -> None:
    ran = fsm("import", "-", "-o", str(tmp_path / "no" / "lamp.toml"), given=LAMP)

    assert (ran.returncode, ran.stdout) == (2, "")
    assert "no such file or directory" in ran.stderr
