"""EDN is read as Clojure writes it, and other text is refused."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fsm.recordings.operations import DEEPEST, Data, NotationError, forms

NAMES = st.from_regex(r"[a-zA-Z*!_?<>=][a-zA-Z0-9*!_?<>=.-]{0,8}", fullmatch=True).filter(
    lambda name: name not in {"nil", "true", "false"}
)
ATOMS = (
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False)
    | st.text(st.characters(exclude_categories=["Cs"]))
)
VALUES: st.SearchStrategy[Data] = st.recursive(
    ATOMS, lambda inner: st.lists(inner, max_size=4) | st.dictionaries(NAMES, inner, max_size=4), max_leaves=20
)


def written(value: Data) -> str:
    match value:
        case None:
            return "nil"
        case bool():
            return str(value).lower()
        case int():
            return str(value)
        case float():
            return {"inf": "##Inf", "-inf": "##-Inf"}.get(str(value), repr(value))
        case str():
            text = value
            for letter, escape in (("\\", "\\\\"), ('"', '\\"'), ("\n", "\\n"), ("\t", "\\t"), ("\r", "\\r")):
                text = text.replace(letter, escape)
            return f'"{text}"'
        case list():
            return f"[{' '.join(map(written, value))}]"
        case dict():
            return f"{{{', '.join(f':{key} {written(each)}' for key, each in value.items())}}}"


def read(text: str) -> list[Data]:
    return [form.value for form in forms(text)]


@given(st.lists(VALUES.filter(lambda value: not isinstance(value, list)), max_size=4))
def test_what_is_written_is_read(values: list[Data]) -> None:
    """A history has a form on each line, or all forms in one vector or list."""
    lines = "\n".join(map(written, values))

    assert values == read(lines)
    assert values == read(f"[{lines}]")
    assert values == read(f"; a comment\n#_ {{:left out}} ({lines})") if values else True


@given(st.text(alphabet=st.sampled_from('{}[]()":\\#_;, \nab1.-N/~^\u00e9'), max_size=60))
def test_any_text_is_read_or_refused(text: str) -> None:
    """A refusal names a line of the text, and no other exception is raised."""
    last = text.count("\n") + 1
    lines: list[int] = []
    try:
        lines += [form.line for form in forms(text)]
    except NotationError as error:
        lines.append(error.line)

    assert all(1 <= line <= last for line in lines)


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("#jepsen.history.Op{:index 0, :f :start}", {"index": 0, "f": "start"}),
        ("#jepsen.history.Op {:index 0}", {"index": 0}),
        ('#inst "2026-11-20T11:03:20Z"', "2026-11-20T11:03:20Z"),
        ("#:jepsen{:f 1}", {"f": 1}),
        ("#{1 2}", [1, 2]),
        ("{nil 1, 2 3, [4 nil] 5, true 6}", {"None": 1, "2": 3, "[4, None]": 5, "True": 6}),
        ("{:a #_ b c}", {"a": "c"}),
        ("{:a #_ #_ b c d}", {"a": "d"}),
        ("\\newline", "\n"),
        ("\\u0041", "A"),
        ("\\a", "a"),
        ('"\\u00e9\\n"', "é\n"),
        ("12N", 12),
        ("-1.5e3M", -1500.0),
        ("a.b/c", "a.b/c"),
        (":a.b/c", "a.b/c"),
    ],
)
def test_the_forms_that_clojure_writes(text: str, value: Data) -> None:
    assert [value] == read(text)


@pytest.mark.parametrize(
    ("text", "line", "what"),
    [
        ("{:a 1}\n{:b", 2, "the form that begins with '{' does not end"),
        ("{:a 1}\n{:b}", 2, "the key 'b' has no value"),
        ("{:a 1\n :a 2}", 1, "a map has the key 'a' twice"),
        ('[{:a "b}]\n', 1, "a string does not end"),
        ("[1\n 2", 1, "the form that begins with '[' does not end"),
        ("[1]\n]", 2, "found ']' after the end of the vector"),
        ("[1] [2]", 1, "found '[' after the end of the vector"),
        ("{:a 1)", 1, "found ')', which closes nothing"),
        ("\n)", 2, "found ')', which closes nothing"),
        ("1/2", 1, "found '1/2', which is not EDN"),
        ('#"a+"', 1, "found '#\"a+\"', which is not EDN"),
        ("##Inferior", 1, "found '##Inferior', which is not EDN"),
        ("\\wrong", 1, "found '\\\\wrong', which is not EDN"),
        ('"\\q"', 1, "found '\\\\q', which is not EDN"),
        ("1" * 5000, 1, "a number has 5,000 digits, which are too many"),
        ("#tag", 1, "the form that begins with '#tag' does not end"),
    ],
)
def test_what_is_no_edn_is_refused_with_its_line(text: str, line: int, what: str) -> None:
    with pytest.raises(NotationError) as caught:
        read(text)

    assert (line, what) == (caught.value.line, caught.value.what)


def test_nesting_is_bounded() -> None:
    """Forms may be nested to a fixed depth, which does not depend on the interpreter's stack."""
    assert read("{:a " * DEEPEST + "1" + "}" * DEEPEST)
    for opening in ("{:a ", "[", "#_", "#t "):
        with pytest.raises(NotationError, match="the form is nested more than 32 levels deep"):
            read(opening * 100_000)


def test_lines_are_those_on_which_forms_begin() -> None:
    assert [1, 3, 3, 6] == [form.line for form in forms("[{:a\n 1}\n2 #t\n\n3\n#_ 4\n ]\n".replace("#_ 4", "[\n]"))]
