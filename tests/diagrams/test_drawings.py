"""A drawing is read as a person sees it, or an error reports the position of the problem and a remedy."""

from __future__ import annotations

from textwrap import dedent

import pytest
from drawn import CONTAINER, POD, drawing_of

from fsm.diagrams.read import Drawing, find, parse
from fsm.errors import InputError
from fsm.language.codes import RULES


def arrows(drawing: Drawing) -> list[str]:
    """Return the arrows in the form ``source label target``, with a dot for a missing source."""
    return [f"{arrow.source or '.'} {'|'.join(arrow.labels) or '-'} {arrow.target}" for arrow in drawing.arrows]


def picture(text: str) -> str:
    return dedent(text).lstrip("\n")


def test_a_drawing_in_a_comment_with_its_flaws() -> None:
    """A drawing is read in spite of a missing corner, a loop on the right, and a target without a box."""
    assert [
        ". Create CREATED",
        ". Load CREATED",
        "CREATED Start RUNNING",
        ". Load RUNNING",
        "RUNNING LogReopen|Exec|Attach RUNNING",
        ". Load UNKNOWN",
        "RUNNING Exit/Stop EXITED",
        ". Load EXITED",
        "UNKNOWN Stop EXITED",
        "EXITED Remove DELETED",
    ] == arrows(drawing_of(CONTAINER))


def test_an_arrow_has_all_labels_along_it() -> None:
    assert [
        ". Create(Run) then Start(Run) READY",
        ". Load READY",
        "READY PortForward READY",
        ". Create(Run) then Start (failed and not cleaned) UNKNOWN",
        ". Load UNKNOWN",
        "READY Stop/Exit NOTREADY",
        ". Load NOTREADY",
        "UNKNOWN Stop NOTREADY",
        "NOTREADY Remove DELETED",
        ". Create(Run) then Start (failed but cleaned) DELETED",
    ] == arrows(drawing_of(POD))


def test_places_are_those_of_the_file() -> None:
    drawing = drawing_of("\t// +---+ go +---+\n\t// | A +----> B |\n\t// +---+    +---+\n")

    assert [("A", 2, 7), ("B", 2, 16)] == [(name, place.line, place.column) for name, place in drawing.states.items()]
    assert [(2, 14)] == [(arrow.place.line, arrow.place.column) for arrow in drawing.arrows]


DRAWN = {
    "plain": (
        """
        +---+  go  +---+
        | A +------> B |
        +---+      +---+
        """,
        ["A go B"],
    ),
    "heads beside the border": (
        """
        +---+  go  +---+
        | A |----->| B |
        +---+      +---+
        """,
        ["A go B"],
    ),
    "a label in a level line": (
        """
        +---+           +---+
        | A |--- go --->| B |
        +---+           +---+
        """,
        ["A go B"],
    ),
    "a label in an upright line": (
        """
        +---+
        | A |
        +-+-+
          |
         go
        (soon)
          |
          v
        +---+
        | B |
        +---+
        """,
        ["A go (soon) B"],
    ),
    "box-drawing characters": (
        """
        ┌───┐  go  ╭───╮
        │ A ├─────►│ B │
        └─┬─┘      ╰─▲─╯
          │  again   │
          └──────────┘
        """,
        ["A go B", "A again B"],
    ),
    "corners of dots and quotation marks": (
        """
        .---.  go  .---.
        | A |----->| B |
        '---'      '---'
        """,
        ["A go B"],
    ),
    "corners that are strokes": (
        """
        -----  go  -----
        | A |----->| B |
        -----      -----
        """,
        ["A go B"],
    ),
    "a line with two heads leads both ways": (
        """
        +---+  go  +---+
        | A <------> B |
        +---+      +---+
        """,
        ["B go A", "A go B"],
    ),
    "lines that join": (
        """
        +---+      +---+
        | A |      | B |
        +-+-+      +-+-+
          | a        | b
          +----+-----+
               |
            +--v--+
            |  C  |
            +-----+
        """,
        ["A a C", "B b C"],
    ),
    "lines that cross": (
        """
              +---+
              | C |
              +-+-+
                | down
        +---+   |    +---+
        | A +---|----> B |
        +---+   | on +---+
                v
              +---+
              | D |
              +---+
        """,
        ["A on B", "C down D"],
    ),
    "a side branch without a joint": (
        """
        +---+
        | A |
        +-+-+
          | go
          |
          |------> B
          v
        +---+
        | C |
        +---+
        """,
        ["A go B", "A go C"],
    ),
    "from nowhere, and to a word on the left": (
        """
        ---> A --+
        """,
        None,
    ),
    "words as states": (
        """
                +---+  go
        GONE <--+ A <----- *
                +---+
        """,
        ["A - GONE", ". go A"],
    ),
    "an arrow from a word that another leads to": (
        """
        +---+  go         back  +---+
        | A +-----> SOON -------> B |
        +---+                   +---+
        """,
        ["A go SOON", "SOON back B"],
    ),
    "a remark in a box, and a name on two lines": (
        """
        +---------+      +-------+
        |   NOT   |  go  | READY |
        |  READY  +------> (now) |
        +---------+      +-------+
        """,
        ["NOT READY go READY"],
    ),
    "wide letters take two columns": (
        """
        +------+ 行 +---+
        | 停止 +----> B |
        +------+    +---+
        """,
        ["停止 行 B"],
    ),
    "letters that look like strokes": (
        """
        +-------+  not-v-ready  +---+
        | v-v V +---------------> B |
        +-------+               +---+
        """,
        ["v-v V not-v-ready B"],
    ),
}


@pytest.mark.parametrize("case", [case for case in DRAWN if DRAWN[case][1] is not None])
def test_reads(case: str) -> None:
    text, expected = DRAWN[case]

    assert expected == arrows(drawing_of(picture(text)))


MARKS = ["// ", "# ", " * ", "-- ", ";; ", "% ", "> ", "\t//", "    "]


@pytest.mark.parametrize("mark", MARKS)
def test_reads_in_comments_of_all_kinds(mark: str) -> None:
    text = "".join(f"{mark}{line}\n" for line in picture(DRAWN["plain"][0]).splitlines())

    assert ["A go B"] == arrows(drawing_of(text))


def test_sentences_around_a_drawing_are_none_of_it() -> None:
    text = "It goes a -> b, as x <- y:\n" + picture(DRAWN["plain"][0]) + "Then c -> d, and that | is | all.\n"

    assert ["A go B"] == arrows(drawing_of(text))


WRONG = {
    "no head": ("FSM404", "+---+  go  +---+\n| A +------+ B |\n+---+      +---+\n", "between A (2:6) and B (2:11) has no arrowhead"),
    "a gap": ("FSM404", "+---+  go  +---+\n| A +-- ---> B |\n+---+      +---+\n", "column 7: the line breaks off"),
    "no line": ("FSM404", "+---+ +---+ go +---+\n| A | | C +----> B |\n+-v-+ +---+    +---+\n", "the arrowhead 'v' on the border of a box has no line"),
    "a joint alone": ("FSM404", "+---+  go  +---+\n| A +------> B +\n+---+      +---+\n", "the joint '+' on the border of a box has no line"),
    "into nothing": ("FSM404", "+---+  go  +---+\n| A +---->   | B |\n+---+      +---+\n", "the arrowhead '>' does not point at a box or a word"),
    "a word that is no state": ("FSM404", "      +---+\nA --> | B |\n go   +---+\n", "the line ends at 'A', which is not a box"),
    "a stray stroke": ("FSM404", "+---+  go  +---+\n| A +------> B |  |\n+---+      +---+\n", "'|' does not belong to any line"),
    "heads only": ("FSM404", "+---+     +---+\n| A <--+--> B |\n+---+  v  +---+\n     +---+\n     | C |\n     +---+\n", "the line has only arrowheads, and no beginning"),
    "many to many": ("FSM405", "+---+ go +---+\n| A +--+-> B |\n+---+  | +---+\n       |\n+---+  | +---+\n| C +--+-> D |\n+---+    +---+\n", "2 beginnings and 2 arrowheads, so it is unclear"),
    "a ring": ("FSM405", "+---+ +-+  +---+\n| A +-+ +--> B |\n+---+ +-+  +---+\n", "the line forms a ring"),
    "a label of no line": ("FSM406", "+---+  go  +---+\n| A +------> B |\n+---+      +---+           what\n", "'what' does not belong to any line"),
    "a label between two lines": ("FSM406", "+---+  +---+\n| A |  | B |\n+-+-+  +-+-+\n  | to   |\n  | go   |\n  |      |\n+-v-+  +-v-+\n| C |  | D |\n+---+  +---+\n".replace(" to ", "  to").replace(" go   |", "  go  |"), "could be the label of several lines"),
    "a label above one line and below another": ("FSM406", "+---+     +---+\n| A +-----> B |\n|   |  go |   |\n|   <-----+   |\n+---+     +---+\n", "'go' could be the label of several lines"),
    "a box in a box": ("FSM407", "+-----------+  go  +---+\n| +---+     +------> B |\n| | A | big |      +---+\n| +---+     |\n+-----------+\n", "a box contains other boxes"),
}  # fmt: skip


@pytest.mark.parametrize("case", WRONG)
def test_refuses_what_could_be_misread(case: str) -> None:
    code, text, what = WRONG[case]

    (found,) = parse(text, "wrong.txt")

    assert code in {problem.code for problem in found.problems}
    assert any(what in problem.what for problem in found.problems), found.problems
    assert all(problem.hint and problem.path == "wrong.txt" for problem in found.problems)


def squeezed(text: str) -> str:
    """Return *text* with each run of blanks squeezed into one, as on some web pages."""
    return "\n".join(" ".join(line.split()) for line in text.split("\n"))


@pytest.mark.slow
@pytest.mark.parametrize("line", range(6, 31))
def test_a_line_that_has_lost_a_blank_is_named(line: int) -> None:
    """A line that is missing a space is reported as a single error, not as one error for each part."""
    lines = CONTAINER.split("\n")
    written = lines[line - 1]
    first = len(written) - len(written.lstrip("# "))
    inner = written.find("  ", first)
    for at in {first - 1, inner} - {-1}:
        broken = [*lines[: line - 1], written[:at] + written[at + 1 :], *lines[line:]]
        (found,) = parse("\n".join(broken), "x.py")

        assert [(each.line, each.code) for each in found.problems] in ([(line, "FSM403")], []), found.problems


@pytest.mark.parametrize("wide", [2, 3, 4])
def test_tabs_of_another_width_are_named(wide: int) -> None:
    lines = [line.removeprefix("#").rstrip() for line in CONTAINER.split("\n")]
    pieces = [[line[at : at + wide] for at in range(0, len(line), wide)] for line in lines]
    tabbed = ["".join("\t" if each == " " * wide else each for each in those) for those in pieces]

    try:
        problems = [problem for found in parse("\n".join(tabbed), "x.txt") for problem in found.problems]
    except InputError as error:
        problems = [*error.problems]

    (problem,) = problems
    assert (problem.code, "\t" in tabbed[problem.line - 1]) == ("FSM403", True)
    assert f"the drawing can be read with tabs of {wide} columns" in problem.what
    assert f"expand -t {wide}" in problem.hint


def test_tabs_are_named_though_the_drawing_has_another_mistake() -> None:
    text = CONTAINER.replace("#  ", "#\t", 3).replace("v", "-")

    (found,) = parse(text, "x.py")

    assert ["the drawing has tabs, and with tabs of 8 columns no line meets its box"] == [
        x.what for x in found.problems
    ]


@pytest.mark.parametrize("text", [CONTAINER, POD])
def test_a_drawing_without_its_columns_is_recognised(text: str) -> None:
    with pytest.raises(InputError) as caught:
        parse(squeezed(text), "copy.txt")

    (problem,) = caught.value.problems
    assert "FSM403" == problem.code
    assert problem.line > 5
    assert "each run of blanks was reduced" in problem.what
    assert "copy the drawing from its source" in problem.hint


NOTHING = {
    "FSM402": ("no drawing\nat all: a -> b\n", "the text contains no drawing of states"),
    "FSM407": ("    +-----+\n    |  A  |    x\n    +--  -+  --> y\n", "looks like the border of a box"),
}


@pytest.mark.parametrize("code", NOTHING)
def test_a_text_without_a_drawing_is_an_error(code: str) -> None:
    text, what = NOTHING[code]

    with pytest.raises(InputError) as caught:
        parse(text, "x.txt")

    (problem,) = caught.value.problems
    assert code == problem.code
    assert what in problem.what
    assert problem.hint


@pytest.mark.parametrize("head", ["flowchart LR", "graph TD"])
def test_a_flowchart_is_told_from_a_state_diagram(head: str) -> None:
    with pytest.raises(InputError) as caught:
        parse(f"```mermaid\n{head}\n  a -->|go| b\n```\n", "x.md")
    (problem,) = caught.value.problems
    assert ("FSM402", 2) == (problem.code, problem.line)
    assert "flowchart" in problem.what
    assert "the Mermaid diagram stateDiagram-v2" in problem.hint

    assert parse("```mermaid\nstateDiagram-v2\n  a --> b: go\n```\n", "x.md")


def test_a_table_is_no_drawing() -> None:
    for text in ("+---+---+\n| a | b |\n+---+---+\n| c | d |\n+---+---+\n", "+------+\n| NOTE |\n+------+\n"):
        with pytest.raises(InputError):
            parse(text, "table.md")


# -- Mermaid, PlantUML and DOT -------------------------------------------------------------

MERMAID = """\
# States

```mermaid
---
title: A box
---
stateDiagram-v2
    direction LR
    %% a remark
    classDef loud fill:#f00
    [*] --> CREATED : Create
    state "RUNNING" as r
    CREATED --> r:::loud : Start<br/>Again
    note right of r
        a --> b
    end note
    r --> r : Stop#47;Exit
    EXITED : has ended
    r --> EXITED
    EXITED --> [*] : Remove;
```

Then a --> b.
"""


def test_reads_mermaid_between_fences() -> None:
    drawing = drawing_of(MERMAID, "states.md")

    assert (7, 20) == (drawing.line, drawing.last)
    assert [
        ". Create CREATED",
        "CREATED Start|Again RUNNING",
        "RUNNING Stop/Exit RUNNING",
        "RUNNING - EXITED",
        "EXITED Remove [*]",
    ] == arrows(drawing)
    assert [11, 13, 17, 19, 20] == [arrow.place.line for arrow in drawing.arrows]


def test_reads_mermaid_in_a_comment() -> None:
    text = "// stateDiagram\n//   A --> B: go\ncode --> is: none\n"

    assert ["A go B"] == arrows(drawing_of(text))


@pytest.mark.parametrize("statement", ["A { B", "A -> B: go", "A --> B --> C", "state x <<choice>>", "--"])
def test_refuses_other_statements_of_mermaid(statement: str) -> None:
    (found,) = parse(f"stateDiagram-v2\n  A --> B: go\n  {statement}\n", "x.mmd")

    assert [("FSM408", 3)] == [(problem.code, problem.line) for problem in found.problems]
    assert f"not a statement of a state diagram: {statement!r}" in found.problems[0].what


PLANTUML = """\
' a remark
@startuml box
title
A --> B : in the title
end title
skinparam state {
  BackgroundColor<<loud>> red
}
hide empty description
[*] -down-> CREATED : Create
state "RUNNING" as r <<loud>> #pink;line:green
CREATED -[#red,dashed]-> r : Start\\nAgain
note right of r
  a --> b : c
end note
r -left-> r : Stop/Exit
EXITED : has ended
r -> EXITED : Die at 1:2
EXITED --> [*] : Remove
@enduml
"""


def test_reads_plantuml() -> None:
    drawing = drawing_of(PLANTUML, "states.puml")

    assert (2, 19) == (drawing.line, drawing.last)
    assert [
        ". Create CREATED",
        "CREATED Start|Again RUNNING",
        "RUNNING Stop/Exit RUNNING",
        "RUNNING Die at 1:2 EXITED",
        "EXITED Remove [*]",
    ] == arrows(drawing)
    assert [10, 12, 16, 18, 19] == [arrow.place.line for arrow in drawing.arrows]


def test_reads_plantuml_in_a_comment() -> None:
    text = "# @startuml\n# [*] --> A\n#   A --> B: go\n# @enduml\n@startuml\nAlice -> Bob : go\n@enduml\n"

    assert [". - A", "A go B"] == arrows(drawing_of(text))


@pytest.mark.parametrize("statement", ["A { B", "state x <<choice>>", "A --> B --> C", "--", "A --> B[H]"])
def test_refuses_other_statements_of_plantuml(statement: str) -> None:
    (found,) = parse(f"@startuml\n[*] --> A\n{statement}\n@enduml", "x.puml")

    assert [("FSM408", 3)] == [(problem.code, problem.line) for problem in found.problems]


DOT = """\
// a -> comment
strict digraph "a b" {
  node [shape=box]; /* more -> comment */
  start [shape=point]
  A [label="CREATED\\nsince noon"]
  start -> A [label="Create"]
  A -> {B C} [label="a -> b\\lStop/Exit"]
  subgraph cluster_0 { D -> B [label=<<b>go</b>&amp;<i>stay</i>>] }
  B:n -> "D":s -> A
}
"""


def test_reads_dot() -> None:
    drawing = drawing_of(DOT, "x.dot")

    assert [
        ". Create CREATED",
        "CREATED a -> b|Stop/Exit B",
        "CREATED a -> b|Stop/Exit C",
        "D go&stay B",
        "B - D",
        "D - CREATED",
    ] == arrows(drawing)
    assert [6, 7, 7, 8, 9, 9] == [arrow.place.line for arrow in drawing.arrows]


@pytest.mark.parametrize(
    ("text", "line", "what"),
    [
        ("digraph {\n a -> \n}\n", 3, "column 1: the graph is not DOT: expected name, but found }"),
        ("digraph {\n a -> node\n}\n", 2, "column 7: the graph is not DOT: expected name, but found node"),
        ("digraph {\n a -- b\n}\n", 2, "column 4: the graph is not DOT: expected name, but found --"),
        (
            'digraph {\n a -> "b\n}\n',
            2,
            "column 7: the graph is not DOT: expected name, but found an unclosed string or comment",
        ),
        (
            "digraph {\n a [label=<<b>x</b>]\n}\n",
            2,
            "column 11: the graph is not DOT: expected name, but found an unclosed string or comment",
        ),
        (
            "digraph {\n a /* b\n}\n",
            2,
            "column 4: the graph is not DOT: expected name, but found an unclosed string or comment",
        ),
        ("digraph {\n node\n}\n", 3, "column 1: the graph is not DOT: expected [, but found }"),
        ("digraph {\n a [b]\n}\n", 2, "column 6: the graph is not DOT: expected =, but found ]"),
        ("digraph {\n a $ b\n}\n", 2, "column 4: the graph is not DOT: expected name, but found '$'"),
        ("digraph {\n a -> b\n", 3, "column 1: the graph is not DOT: expected name, but found the end"),
        ("graph {\n a -- b\n}\n", 1, "the graph is undirected"),
    ],
)
def test_refuses_dot_that_is_none(text: str, line: int, what: str) -> None:
    (found,) = parse(text, "x.dot")

    assert [("FSM409", line)] == [(problem.code, problem.line) for problem in found.problems]
    assert what in found.problems[0].what


def test_finds_several_in_one_file() -> None:
    found = parse(f"{MERMAID}\n{picture(DRAWN['plain'][0])}\n{DOT}\n{CONTAINER}", "all.md")

    assert [
        ["CREATED", "RUNNING", "EXITED", "[*]"],
        ["A", "B"],
        ["CREATED", "B", "C", "D"],
        ["CREATED", "RUNNING", "UNKNOWN", "EXITED", "DELETED"],
    ] == [list(each.states) for each in found]
    assert sorted(each.line for each in found) == [each.line for each in found]


# -- files -----------------------------------------------------------------------


def test_a_file_that_is_not_there(tmp_path: object) -> None:
    with pytest.raises(InputError, match="no such file or directory"):
        find(f"{tmp_path}/none.txt")


def test_a_file_that_is_no_text(tmp_path: object) -> None:
    path = f"{tmp_path}/picture.png"
    with open(path, "wb") as file:  # noqa: PTH123  (the fixture is only a place)
        file.write(b"\x89PNG\r\n\x1a\n\xff\xfe")

    with pytest.raises(InputError, match="is not UTF-8: byte"):
        find(path)


def test_every_code_of_drawings_has_a_case() -> None:
    """Every error code for drawings has a case here, except FSM410, which is tested with the command."""
    cases = {"FSM401", "FSM403", "FSM408", "FSM409", "FSM410", "FSM411", *NOTHING} | {
        code for code, _, _ in WRONG.values()
    }

    assert {code for code in RULES if code.startswith("FSM4")} == cases
