"""The JSON Schema and the parser accept the same documents."""

from __future__ import annotations

import copy
import datetime as dt
import inspect
import tomllib
from typing import TYPE_CHECKING, Any

import jsonschema
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from machines import DOOR, JOB, problems_of
from pydantic import BaseModel
from thorough import amount
from toml_text import toml_text

import fsm.language.machine_file
from fsm.language.library import home
from fsm.language.vocabularies import Stated, Vocabulary, schema

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

VALIDATOR = jsonschema.Draft202012Validator(schema())
SHIPPED = sorted((home() / "models").glob("*.toml"))
DOCUMENTS = [tomllib.loads(text) for text in (DOOR, JOB, SHIPPED[0].read_text(encoding="utf-8"))]


def _well_formed(document: dict[str, Any]) -> bool:
    return not {"FSM010", "FSM011", "FSM012", "FSM131"} & {problem.code for problem in problems_of(toml_text(document))}


def _nodes(node: object) -> Iterator[dict[str, Any]]:
    if isinstance(node, dict):
        yield node
    for below in node.values() if isinstance(node, dict) else node if isinstance(node, list) else ():
        yield from _nodes(below)


def test_it_is_a_schema_of_the_draft_that_it_names() -> None:
    jsonschema.Draft202012Validator.check_schema(schema())

    assert "https://json-schema.org/draft/2020-12/schema" == schema()["$schema"]
    assert schema()["$id"].startswith("urn:")
    assert schema()["title"]
    assert schema()["description"]


def test_every_call_gives_a_schema_of_its_own() -> None:
    mine = schema()
    mine["$defs"].clear()

    assert schema()["$defs"]


@pytest.mark.parametrize("path", SHIPPED, ids=lambda path: path.stem)
def test_shipped_models_are_valid(path: Path) -> None:
    VALIDATOR.validate(tomllib.loads(path.read_text(encoding="utf-8")))


def test_editors_understand_every_form() -> None:
    for node in _nodes(schema()):
        assert "anyOf" not in node
        assert node.get("type") != "null"
        if "patternProperties" in node or isinstance(node.get("properties"), dict):
            assert node["additionalProperties"] is False


def test_its_words_are_those_of_the_parser() -> None:
    classes = {
        name: each
        for name, each in inspect.getmembers(fsm.language.machine_file, inspect.isclass)
        if issubclass(each, BaseModel)
    }
    words = {
        name: {info.alias or word for word, info in each.model_fields.items()}
        for name, each in classes.items()
        if each.model_fields
    }
    found = {name: set(node["properties"]) for name, node in schema()["$defs"].items()}
    found["Written"] = set(schema()["properties"])

    # The schema does not define Cells, because events and overrides contain the keys of Cells directly.
    cells = words.pop("Cells")
    assert cells < found["WrittenEvent"]
    assert cells < found["WrittenOverride"]
    assert cells < found["WrittenRest"]
    assert words.pop("WrittenDemand") < found["WrittenRequirement"]
    # Nor does the schema define Cited, because levels and their sources are keys of other tables.
    cited = words.pop("Cited")
    assert cited < found["WrittenClause"]
    assert cited < found["WrittenEvent"]
    assert cited < found["WrittenRest"]
    assert cited < found["WrittenRequirement"]
    # The same is true of the words that events of machines and of systems have in common.
    assert words.pop("Happening") < found["WrittenEvent"]
    assert words.pop("Titled") < found["Header"]
    assert words == found


LEAVES = st.sampled_from(["", "open", "Open", "a b", "*", "ok", "error", "NOT_FOUND", "MUST", "call", "observed"])
OTHERS = st.one_of(
    LEAVES,
    st.booleans(),
    st.integers(-1, 1),
    st.just(0.5),
    st.just(dt.date(1979, 5, 27)),
    st.lists(LEAVES, max_size=2),
    st.dictionaries(LEAVES, LEAVES, max_size=2),
    st.lists(st.fixed_dictionaries({}, optional={"to": LEAVES, "reply": LEAVES, "emits": st.just([])}), max_size=2),
)
WORDS = ["moves", "ignores", "about", "kind", "rpc", "like", "MUST", "observed", "says", "link", "clause", "clauses"]
KEYS = st.sampled_from([*WORDS, "shut", "sh ut", "*", "", "<table>", "[key]", "é", "profile"])


@st.composite
def mutated(draw: st.DrawFn) -> dict[str, Any]:
    document: dict[str, Any] = copy.deepcopy(draw(st.sampled_from(DOCUMENTS)))
    for _ in range(draw(st.integers(1, 3))):
        places = [
            (node, key) for node in _tables(document) for key in (node if isinstance(node, dict) else range(len(node)))
        ]
        if not places:
            break
        node, key = draw(st.sampled_from(places))
        match draw(st.sampled_from(["rename", "drop", "replace", "replace", "add"])):
            case "rename" if isinstance(node, dict):
                node[draw(KEYS)] = node.pop(key)
            case "drop":
                del node[key]
            case "add" if isinstance(node, dict):
                node[draw(KEYS)] = draw(OTHERS)
            case _:
                node[key] = draw(OTHERS)
    return document


def _tables(node: object) -> Iterator[Any]:
    if isinstance(node, dict | list):
        yield node
        for below in node.values() if isinstance(node, dict) else node:
            yield from _tables(below)


@settings(max_examples=amount(40, night=2_000))
@given(document=mutated())
def test_a_document_is_valid_exactly_when_the_parser_takes_its_form(document: dict[str, Any]) -> None:
    """An editor complains exactly where the parser does."""
    assert _well_formed(document) == VALIDATOR.is_valid(document)


CALL = {"kind": "call", "silent": ["on"]}
EVENTS: list[tuple[dict[str, Any], bool]] = [
    ({"kind": "call"}, True),
    ({"kind": "knock"}, False),
    ({}, True),
    ({"rpc": "Do"}, True),
    ({"rpc": ""}, True),
    ({"like": "other"}, True),
    (CALL | {"MUST": "page 1"}, True),
    (CALL | {"MUST": "page 1", "MAY": "page 2"}, False),
    (CALL | {"clause": "c"}, True),
    (CALL | {"clause": "c", "says": "It is so.", "MUST": "page 1", "link": ""}, True),
    (CALL | {"clause": "c", "says": "It is so.", "MUST": "page 1", "observed": "page 2"}, False),
    (CALL | {"clause": "c", "says": "It is so."}, False),
    (CALL | {"clause": "c", "MUST": "page 1"}, False),
    (CALL | {"clause": "c", "link": ""}, False),
    (CALL | {"says": "It is so.", "MUST": "page 1"}, False),
    (CALL | {"link": ""}, False),
    *(
        ({"kind": "call", "clauses": {"c": {"silent": ["on"], **words}}}, fits)
        for words, fits in (
            ({}, True),
            ({"says": "It is so.", "SHOULD": "page 1"}, True),
            ({"says": "It is so.", "SHOULD": "page 1", "link": ""}, True),
            ({"says": "It is so.", "SHOULD": "page 1", "MAY": "page 2"}, False),
            ({"says": "It is so."}, False),
            ({"SHOULD": "page 1"}, False),
            ({"link": ""}, False),
        )
    ),
]


@pytest.mark.parametrize(("words", "fits"), EVENTS, ids=str)
def test_a_clause_has_its_sentence_and_one_level(words: dict[str, Any], *, fits: bool) -> None:
    machine = {"name": "lamp", "title": "A lamp", "about": "Is on.", "source": "the box", "initial": "on"}
    document = {"machine": machine, "states": {"on": {"about": "On."}}, "event": {"look": {"about": "Look.", **words}}}

    assert fits == _well_formed(document)
    assert fits == VALIDATOR.is_valid(document)


@pytest.mark.parametrize("level", [{}, {"MUST": "page 1"}, {"MUST": "page 1", "MAY": "page 2"}], ids=str)
def test_a_clause_alone_has_one_level(level: dict[str, str]) -> None:
    document: dict[str, Any] = copy.deepcopy(DOCUMENTS[0])
    document["clause"]["push-opens"] = {"says": "A door that is pushed opens.", **level}

    assert (len(level) == 1) == _well_formed(document)
    assert (len(level) == 1) == VALIDATOR.is_valid(document)


def test_both_kinds_of_documents_are_tried() -> None:
    assert [True, True, True, False] == [_well_formed(document) for document in (*DOCUMENTS, {})]
    assert [True, True, True, False] == [VALIDATOR.is_valid(document) for document in (*DOCUMENTS, {})]


PATHS: list[tuple[tuple[str | int, ...], str]] = [
    ((), "machine states define data event timer clause fields requires profile drawing"),
    (("machine",), "name title about source initial level entity indefinite"),
    (("states",), ""),
    (("states", "open"), "about shows kind aliases in initial history"),
    (("event", "push", "ignores"), ""),
    (("event", "push", "moves", "*", 0, "reply"), ""),
    (("clause", "c"), "MUST SHOULD MAY observed says link"),
    (("profile", "p"), "about extends since until cell exempt"),
    (
        ("profile", "any name", "cell", "c"),
        "moves ignores refuses cannot silent ends event about deviates since until link",
    ),
    (("nothing", "there"), ""),
    (("event", 0), ""),
]


@pytest.mark.parametrize(("path", "words"), PATHS, ids=str)
def test_knows_the_words_at_a_path(path: tuple[str | int, ...], words: str) -> None:
    assert words == " ".join(Vocabulary().words(*path))


def test_an_outcome_has_the_same_words_alone_and_in_a_list() -> None:
    alone = Vocabulary().words("event", "push", "moves", "open")

    assert {"name", "to", "begins", "reply", "emits"} < set(alone)
    assert alone == Vocabulary().words("event", "push", "ends", "open", 1)


@pytest.mark.parametrize(
    ("path", "expected"),
    [
        (("machine", "about"), "text in quotes"),
        (("machine", "name"), "a name of letters, digits, '_', '.' and '-'"),
        (("machine", "level"), "one of 'MUST', 'SHOULD', 'MAY', 'observed'"),
        (("event", "push"), "a table"),
        (("event", "push", "interrupts"), "true or false"),
        (("event", "push", "moves", "x", "emits"), "a list, each entry text in quotes"),
        (("event", "push", "moves", "x", 0, "within"), "a whole number from 1 to 1,000,000,000"),
        (("requires", "x", "values", "code", 0), "a whole number, or text in quotes"),
        (("event", "push", "moves", "x"), "a name of letters, digits, '_', '.' and '-', or a table, or a list of them"),
    ],
    ids=str,
)
def test_says_what_is_expected_at_a_path(path: tuple[str | int, ...], expected: str) -> None:
    assert expected == Vocabulary().expected(*path)


def test_a_number_may_have_only_a_lower_limit() -> None:
    assert "a whole number, at least 1" == Vocabulary(root=schema(Stated)).expected("expect", "states")
