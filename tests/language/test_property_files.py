"""Property files have the documented meaning, and errors are reported with a line and a remedy."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from built_tables import normal_form
from door_project import CLAIM, PROPERTIES, repository
from machines import DOOR, edited, line_of, machine_of

from fsm.errors import InputError
from fsm.language.build.specification import specify
from fsm.language.codes import RULES
from fsm.language.library import specification
from fsm.language.read import parse
from fsm.language.vocabularies import Stated
from fsm.machine.claims import KnownFailure, Never, Reachable, Refines
from fsm.machine.conditions import In, WrittenCondition

if TYPE_CHECKING:
    from pathlib import Path

    from fsm.errors import Problem
    from fsm.machine import Machine
    from fsm.machine.claims import Specification

EVERYWHERE = '{ under = "*", about = "So it is.", length = 1 }'
TWICE = PROPERTIES.replace("fails = {", f"fails = [{EVERYWHERE}, {{").replace("length = 2 }", "length = 2 }]")


def found(name: str) -> Machine:
    if name == "door":
        return machine_of(DOOR)
    from fsm.language.library import load  # noqa: PLC0415

    return load(name)


def specified(text: str) -> Specification[Machine]:
    return specify(parse(text.encode(), Stated, path="toy.toml"), found)


def problems(text: str) -> tuple[Problem, ...]:
    with pytest.raises(InputError) as raised:
        specified(text)
    return raised.value.problems


def test_all_that_is_written_is_there() -> None:
    whole = specified(PROPERTIES)
    (stated,) = whole.properties

    assert (whole.machine.name, whole.expect["none"].states, whole.expect["old"].transitions) == ("door", 4, 17)
    assert (stated.name, stated.level, stated.line) == ("gone-for-good", "SHOULD", 7)
    assert stated.claim == Never(
        sequences=(
            (
                WrittenCondition(text="gone", means=In(states=frozenset({"gone"}))),
                WrittenCondition(text="open", means=In(states=frozenset({"open"}))),
            ),
        )
    )
    assert stated.expected(None) is None
    assert stated.expected("old") == KnownFailure(about="Ghosts.", length=2)
    assert stated.catches == ("push in gone: to open",)


def test_everywhere_is_everywhere() -> None:
    (stated,) = specified(TWICE).properties

    assert [getattr(stated.expected(each), "length", None) for each in (None, "old")] == [1, 2]


CASES = [
    # The code, the text that replaces the claim, the message, and the hint.
    ("FSM301", 'once = "open"', "makes no claim", "make one of idempotent, always"),
    ("FSM301", 'always = "open"\nnever = "open"  # here', "makes 2 claims: always, never", "make one of"),
    ("FSM302", 'always = "open"\nuntil = "gone"  # here', "'until' has no meaning with 'always'", "leave out 'until'"),
    ("FSM302", 'leads-to = "open"  # here', "has leads-to, but lacks from", "from = …"),
    ("FSM303", 'never = "opne"  # here', "unknown name 'opne'", "did you mean 'open'? states and events: shut, open, ajar, gone, push"),
    ("FSM303", 'never = [\n"open",\n"was opne",  # here\n]', "unknown state 'opne'", "did you mean 'open'? states: shut"),
    ("FSM303", 'never = "shows OPNE"  # here', "no state shows 'OPNE'", "did you mean 'OPEN'? texts that states show: CLOSED, OPEN, gone"),
    ("FSM303", 'never = "emits Crack"  # here', "no event emits 'Crack'", "did you mean 'Creak'? outputs: Creak, Bang"),
    ("FSM303", 'never = "push replies okay"  # here', "'okay' is not a reply", "a reply is ok, error, or a code"),
    ("FSM303", 'never = "slam replies ok"  # here', "'slam' is not a call and has no reply", "leave out 'replies'"),
    ("FSM303", 'never = "open and"  # here', "'open and' ends where a condition is expected", "complete the condition"),
    ("FSM303", 'never = ""  # here', "'' ends where a condition is expected", "complete the condition"),
    ("FSM303", 'never = "(open or gone"  # here', "'(open or gone' lacks a ')'", "add the closing parenthesis"),
    ("FSM303", 'never = "open gone"  # here', "'open gone' continues with 'gone'", "insert 'and', 'or' or 'then' before it"),
    ("FSM303", 'never = "open && gone"  # here', "the condition 'open && gone' contains '&'", "use only names, parentheses, 'and', 'or', 'not' and 'then'"),
    ("FSM303", 'never = "silent push"  # here', "lacks 'on' after 'silent'", "silent on EVENT"),
    ("FSM303", 'never = "silent on psuh"  # here', "unknown event 'psuh'", "did you mean 'push'? events"),
    ("FSM303", 'never = "then open"  # here', "'then open' has 'then' instead of a condition", "see 'fsm check --help'"),
    ("FSM303", 'always = "open then gone"  # here', "is about several instants", "leave out 'then'"),
    ("FSM303", f'never = "{"(" * 60}open"  # here', "is nested too deeply", "split it into several conditions"),
    ("FSM303", 'reachable = "push"\nfrom-each = ["opne"]  # here', "unknown state 'opne'", "did you mean 'open'?"),
    ("FSM303", 'idempotent = "psuh"  # here', "unknown event 'psuh'", "did you mean 'push'?"),
    ("FSM303", 'idempotent = "slam"  # here', "signal 'slam' is not a call", "only a call can be idempotent"),
    ("FSM303", 'from = "open"\nleads-to = "shut"\nfair = ["slum"]  # here', "unknown event 'slum'", "did you mean 'slam'?"),
    ("FSM303", 'from = "open"\nleads-to = "shut"\nfair = ["push.ends"]  # here', "event 'push' has no ends", "only calls that take time have ends"),
    ("FSM303", 'from = "open"\nleads-to = "shut"\nstrongly-fair = ["push/opned"]  # here', "unknown outcome 'opned'", "did you mean 'opened'?"),
    ("FSM304", 'refines = "cri-contaner"  # here', "machine 'cri-contaner': this is not the name of a model", "did you mean 'cri-container'?"),
    ("FSM304", 'follows = "cri-container"  # here', "none of the outputs of 'door' is an event of 'cri-container'", "name a machine whose events are outputs"),
    ("FSM307", f'{CLAIM}\nfails = {{ under = [], about = "", length = 1 }}  # here', "property 'gone-for-good' is known to fail, but under no profile", "name a profile, or leave out the failure"),
    ("FSM307", f"{CLAIM}\nfails = [{EVERYWHERE},\n{EVERYWHERE}]  # here", "has two known failures under '*'", "keep only the intended failure"),
    ("FSM307", f'{CLAIM}\nfails = {{ under = ["old", "none",\n"old"], about = "", length = 1 }}  # here', "has two known failures under 'old'", "keep only the intended failure"),
    ("FSM305", f'{CLAIM}\nfails = {{ under = "older", about = "", length = 1 }}  # here', "unknown profile 'older'", "did you mean 'old'? profiles: *, none, old"),
]  # fmt: skip


@pytest.mark.parametrize(("code", "claim", "what", "hint"), CASES, ids=[each[1][:40] for each in CASES])
def test_says_what_is_wrong_where_and_the_way_out(code: str, claim: str, what: str, hint: str) -> None:
    text = edited(PROPERTIES.split("fails = ", maxsplit=1)[0], CLAIM, claim)
    (problem,) = problems(text)

    mark = "# here" if "# here" in text else "[property.gone-for-good]"
    assert (problem.code, problem.line) == (code, line_of(text, mark))
    assert what in problem.what
    assert hint in problem.hint


def test_one_failure_under_several_profiles_is_written_once() -> None:
    several = edited(PROPERTIES, 'under = "old"', 'under = ["none", "old"]')
    plain = edited(PROPERTIES, 'under = "old", ', "")
    ghosts = KnownFailure(about="Ghosts.", length=2)

    assert [{"none": ghosts, "old": ghosts}, {"none": ghosts}] == [
        each.fails for text in (several, plain) for each in specified(text).properties
    ]


def test_what_is_defined_stands_for_what_it_is() -> None:
    define = '[define]\nwide = ["open", "ajar"]\noff = ["wide", "gone"]\nback = "was gone and wide or was wide"\n'
    text = edited(PROPERTIES, CLAIM, 'reachable = ["was wide then is off", "not back"]\nfrom-each = ["wide"]')
    spelled = edited(
        PROPERTIES,
        CLAIM,
        'reachable = ["(was open or was ajar) then (open or ajar or gone)",'
        ' "not (was gone and (open or ajar) or (was open or was ajar))"]\nfrom-each = ["open", "ajar"]',
    )

    claims = [
        specified(each).properties[0].claim for each in (text.replace("[property.", f"{define}[property."), spelled)
    ]

    machine = found("door")
    named, plain = (
        [[normal_form(each.means, machine) for each in sequence] for sequence in claim.sequences]
        for claim in claims
        if isinstance(claim, Reachable)
    )
    assert plain == named


DEFINED = [
    # The code, the definition, the claim, the message and the hint; "# here" marks the line of the problem.
    ("FSM303", "back = 'was opne'  # here", f"{CLAIM}\nuntil = 'back'", "unknown state 'opne'", "did you mean 'open'?"),
    ("FSM303", "back = 'was gone then open'  # here", f"{CLAIM}\nuntil = 'back'", "is about several instants", "leave out 'then'"),
    ("FSM303", "away = 'gone'", "never = 'was away'  # here", "unknown state 'away'", "states: shut, open, ajar, gone"),
    ("FSM102", "away = ['gone',\n'opne']  # here", f"{CLAIM}\nuntil = 'was away'", "unknown state 'opne'", "did you mean 'open'?"),
    ("FSM128", "gone = ['shut']  # here", f"{CLAIM}\nuntil = 'was gone'", "'gone' is defined here, but is also the name of a state", "choose a name"),
    ("FSM128", "push = 'was gone'  # here", f"{CLAIM}\nuntil = 'push'", "'push' is defined here, but is also the name of an event", "choose a name"),
    ("FSM128", "PushDoor = 'was gone'  # here", f"{CLAIM}\nuntil = 'PushDoor'", "is also the name of an event", "choose a name"),
    ("FSM128", "stays = 'was gone'  # here", f"{CLAIM}\nuntil = 'stays'", "is also the name of a word of conditions", "choose a name"),
    ("FSM129", "away = 'gone'  # here", CLAIM, "nothing uses the definition 'away'", "use the definition, or remove it"),
]  # fmt: skip


@pytest.mark.parametrize(("code", "define", "claim", "what", "hint"), DEFINED, ids=[each[1][:30] for each in DEFINED])
def test_says_what_is_wrong_with_what_is_defined(code: str, define: str, claim: str, what: str, hint: str) -> None:
    text = edited(PROPERTIES, CLAIM, claim).replace("[property.", f"[define]\n{define}\n[property.")

    (problem,) = problems(text)

    assert (problem.code, problem.line) == (code, line_of(text))
    assert what in problem.what
    assert hint in problem.hint


def test_a_definition_that_needs_itself_is_one_mistake_and_its_use_another() -> None:
    define = "[define]\nnear = 'far'\nfar = 'not near'\n"
    text = edited(PROPERTIES, CLAIM, f"{CLAIM}\nuntil = 'near'").replace("[property.", f"{define}[property.")

    assert ["FSM130", "FSM303"] == sorted(problem.code for problem in problems(text))


def test_a_property_has_one_level_with_its_source() -> None:
    level = 'SHOULD = "handbook, section 5"\n'
    bare = edited(PROPERTIES, level, "")
    both = edited(PROPERTIES, level, f'{level}MAY = "hearsay"  # here\n')

    assert [("MAY", "handbook")] == [
        (each.level, each.source) for each in specified(edited(PROPERTIES, level, 'MAY = "handbook"\n')).properties
    ]
    assert [("FSM011", "[property.gone-for-good] has no level and no source")] == [
        (problem.code, problem.what) for problem in problems(bare)
    ]
    assert [("FSM131", "[property.gone-for-good] has several levels: SHOULD and MAY", line_of(both))] == [
        (problem.code, problem.what, problem.line) for problem in problems(both)
    ]


def test_a_profile_that_is_not_there() -> None:
    text = edited(PROPERTIES, "\nold = ", "\nodl = ")
    (problem,) = problems(text)

    assert (problem.code, problem.line, problem.hint) == ("FSM305", 5, "did you mean 'old'? profiles: old")


def test_no_property_is_a_mistake() -> None:
    (problem,) = problems('machine = "door"\n[property]\n')

    assert (problem.code, problem.line) == ("FSM301", 2)


def test_every_mistake_is_said_at_once() -> None:
    text = edited(PROPERTIES, CLAIM, 'never = "opne"') + '[property.other]\nsays = ""\nMUST  = ""\n'

    assert [problem.code for problem in problems(text)] == ["FSM303", "FSM301"]


def test_every_rule_is_broken_here() -> None:
    """Every code about properties has a case here, except FSM306, which is about files."""
    assert {code for code in RULES if "FSM3" < code < "FSM4"} == {case[0] for case in CASES} | {"FSM306"}


# -- files ----------------------------------------------------------------------


@pytest.mark.parametrize("path", ["models/door.toml", "properties/door.toml"])
def test_a_model_and_its_properties_find_each_other(tmp_path: Path, path: str) -> None:
    whole = specification(str(repository(tmp_path) / path))

    assert whole.machine.path == str(tmp_path / "models" / "door.toml") or path.startswith("models")
    assert [each.name for each in whole.properties] == ["gone-for-good"]


def test_a_machine_may_be_named_by_its_path(tmp_path: Path) -> None:
    text = edited(PROPERTIES, 'machine = "door"', 'machine = "../models/door.toml"')

    assert specification(str(repository(tmp_path, properties=text) / "properties" / "door.toml")).machine.name == "door"


def test_a_model_without_properties_says_where_they_belong(tmp_path: Path) -> None:
    repository(tmp_path)
    (tmp_path / "properties" / "door.toml").unlink()
    with pytest.raises(InputError) as raised:
        specification(str(tmp_path / "models" / "door.toml"))
    (problem,) = raised.value.problems

    assert problem.code == "FSM306"
    assert f"write the properties in {tmp_path}/properties/door.toml" in problem.hint


def test_a_broken_model_is_reported_as_such(tmp_path: Path) -> None:
    repository(tmp_path)
    model = tmp_path / "models" / "door.toml"
    model.write_text(edited(DOOR, 'initial = "shut"', 'initial = "shutt"  # here'), encoding="utf-8")
    with pytest.raises(InputError) as raised:
        specification(str(tmp_path / "properties" / "door.toml"))
    (problem,) = raised.value.problems

    assert (problem.path, problem.code) == (str(model), "FSM101")


def test_refines_finds_what_is_beside_the_file(tmp_path: Path) -> None:
    text = edited(PROPERTIES, CLAIM, 'refines = "cri-pod"')
    repository(tmp_path, properties=text)
    (tmp_path / "models" / "cri-pod.toml").write_text(
        edited(DOOR, 'name    = "door"', 'name = "mine"'), encoding="utf-8"
    )
    (stated,) = specification(str(tmp_path / "properties" / "door.toml")).properties

    assert isinstance(stated.claim, Refines)
    assert stated.claim.other.name == "mine"
