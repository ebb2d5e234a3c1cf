"""Differences between lifecycles are reported, except for details that a drawing may leave out."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from drawn import CONTAINER, POD, Change, changes, drawing_of
from hypothesis import given, settings
from hypothesis import strategies as st
from machines import DOOR, JOB, LEASE, door, edited, job, machine_of
from random_machines import machines
from thorough import TIMES, amount

from fsm.diagrams import drawing
from fsm.diagrams.compare import ComparedMove, Comparison, Where, Why, choose, compare
from fsm.diagrams.draw.ascii import Outline, drawn, outline
from fsm.diagrams.draw.dot import dot
from fsm.diagrams.draw.picture import picture
from fsm.diagrams.draw.text_pictures import mermaid, plantuml
from fsm.diagrams.read import Drawing, parse
from fsm.errors import InputError
from fsm.language.library import load, names

if TYPE_CHECKING:
    import random
    from collections.abc import Callable

    from fsm.diagrams.draw.picture import Picture
    from fsm.machine import Machine

OWN = (("container-status", CONTAINER), ("pod-sandbox", POD))
LABELS = {
    "container-status": ("Create", "Load", "Start", "Stop", "Exit", "Remove", "Exec", "Attach", "LogReopen", "Pause"),
    "pod-sandbox": ("Create(Run)", "Load", "Start(Run)", "Start", "Stop", "Exit", "Remove", "PortForward"),
}
CHANGES = [(model, change) for model, text in OWN for change in changes(text, LABELS[model])]


ONE = (Where.FIRST, Where.SECOND)


def differences(found: Comparison) -> list[str]:
    states = [f"{each.where.value}: {each.name}" for each in found.states if each.where in ONE]
    return states + [f"{each.where.value}: {_move(each)}" for each in found.moves if each.where in ONE]


def _move(each: ComparedMove) -> str:
    return f"{each.source or '.'} {each.label or each.event or '-'} {each.target}"


# -- drawings and their machines -------------------------------------------------


@pytest.mark.parametrize(("model", "text"), OWN)
def test_a_drawing_shows_its_machine(model: str, text: str) -> None:
    machine, drawing = load(model), drawing_of(text)

    assert [] == differences(compare(machine, drawing))
    assert [] == differences(compare(drawing, machine))


@pytest.mark.parametrize("write", [mermaid, plantuml, dot])
def test_a_picture_shows_events_that_only_restart_a_timer(write: Callable[[Picture], str]) -> None:
    lease, other = machine_of(LEASE), machine_of(edited(LEASE, 'restarts  = ["renew"]', ""))

    assert [] == differences(compare(lease, drawing_of(write(picture(lease))), complete=True))
    assert ["first: held renew held"] == differences(compare(other, drawing_of(write(picture(other))), complete=True))


def test_there_are_enough_changes() -> None:
    assert 100 < len([change for model, change in CHANGES if model == "container-status"])


@pytest.mark.slow
@pytest.mark.parametrize(("model", "change"), CHANGES, ids=lambda part: part if isinstance(part, str) else part.what)
def test_every_single_change_is_named(model: str, change: Change) -> None:
    (found,) = parse(change.text, "changed.txt")

    if found.problems:
        listed = " ".join(f"{problem.line} {problem.what}" for problem in found.problems)
        near = range(change.lines.start - 1, change.lines.stop + 1)
        assert {*map(str, near)} & {*re.findall(r"\d+", listed)} or change.what.split()[-1] in listed
        return
    compared = compare(load(model), found)
    assert not compared.equal
    places = [place for each in compared.moves if each.where in ONE for place in each.places]
    places += [each.place for each in compared.states if each.where in ONE]
    missing = " ".join(differences(compared)).lower()
    assert any(place and place.line in change.lines for place in places) or called(model, change.what) & {
        *missing.split()
    }


def called(model: str, what: str) -> set[str]:
    old = what.split()[-1 if what.startswith(("no head", "no line")) else 0]
    meant = drawing.LabelMeanings(load(model)).meant([old])
    events = {meaning.event for _, meaning in meant if meaning}
    states = {state for own in drawing.groups(load(model), {old: ()}).values() for state in own}
    return {
        word.lower() for word in (*events, *states, old, *(["run"] if "(run)" in old.lower() or old == "Start" else []))
    }


def test_what_may_be_left_out_is_listed() -> None:
    machine, drawing = load("container-status"), drawing_of(CONTAINER)
    undrawn = {move.event for move in compare(machine, drawing).moves if move.where is Where.UNDRAWN}

    assert {"start", "stop", "remove", "exit", "restart", "exec-sync", "stats", "checkpoint"} <= undrawn
    listed = differences(compare(replace(machine, omits={}), drawing))
    assert "first: CREATED remove DELETED" in listed
    assert "first: CREATED start EXITED" in listed
    assert "first: . restart DELETED" in listed


def doors(*more: str, push: str = "PushDoor", closed: str = "CLOSED", without: str = "") -> Drawing:
    """Return a drawing of the door with additional, renamed or missing statements."""
    statements = [
        f"{closed} --> OPEN: {push}",
        f"OPEN --> {closed}: slam",
        f"{closed} --> gone: RemoveDoor",
        "OPEN --> gone: remove",
        *more,
    ]
    kept = "\n".join(each for each in statements if not without or without not in each)
    return drawing_of(f"stateDiagram-v2\n{kept}\n", "door.mmd")


NAMED: list[tuple[Drawing, list[str]]] = [
    (doors(), []),
    (doors("[*] --> CLOSED"), []),
    (doors("[*] --> OPEN"), ["second: . - OPEN"]),
    (doors(push="push"), []),
    (doors(push="push/opened"), []),
    (doors(push="push: opened"), []),
    (doors(push="push ✗ STUCK"), []),
    (doors(push="push/stuck"), ["second: CLOSED push/stuck OPEN", "first: CLOSED push OPEN"]),
    (doors(push="Push"), ["second: CLOSED Push OPEN"]),
    (doors(push="pushdoor"), ["second: CLOSED pushdoor OPEN"]),
    (doors(push="push/slam"), ["second: CLOSED slam OPEN"]),
    (doors(push="push, slam"), ["second: CLOSED slam OPEN"]),
    (doors(push="slam"), ["second: CLOSED slam OPEN"]),
    (doors("OPEN --> CLOSED"), ["second: OPEN - CLOSED"]),
    (doors("OPEN --> BROKEN: slam"), ["second: BROKEN", "second: OPEN slam BROKEN"]),
    (doors("CLOSED --> CLOSED: push"), []),
    (doors("OPEN --> OPEN: push"), []),
    (doors("gone --> gone: push"), ["second: gone push gone"]),
    (doors("OPEN --> CLOSED: knock"), ["second: OPEN knock CLOSED"]),
    (doors(closed="closed"), ["second: closed", "second: closed PushDoor OPEN", "second: OPEN slam closed", "second: closed RemoveDoor gone"]),
    (doors("shut --> ajar: warp", closed="shut"), ["first: ajar push OPEN", "first: ajar remove gone"]),
    (doors(without="OPEN --> gone"), ["first: OPEN remove gone"]),
    (doors(without="slam"), []),
    (doors(without="gone"), []),
]  # fmt: skip


@pytest.mark.parametrize(("drawing", "expected"), NAMED)
def test_names_match_through_the_model_only(drawing: Drawing, expected: list[str]) -> None:
    assert expected == differences(compare(door(), drawing))


def test_complete_compares_all_of_a_sketch() -> None:
    assert ["first: gone"] == differences(compare(door(), doors(without="gone"), complete=True))[:1]
    assert ["first: OPEN slam CLOSED"] == differences(compare(door(), doors(without="slam"), complete=True))


def test_gives_the_reason() -> None:
    drawing = doors("[*] --> OPEN", "OPEN --> CLOSED", "OPEN --> X: slam", "OPEN --> CLOSED: huh", push="push/stuck")

    assert [Why.OUTCOME, Why.INITIAL, Why.UNLABELLED, Why.STATE, Why.EVENT, None] == [
        move.why for move in compare(door(), drawing).moves if move.where in ONE
    ]


STATED = edited(
    DOOR,
    "[profile.old]",
    '[drawing.omits]\nremove = { states = ["ajar"] }\npush = { outcomes = ["stuck"] }\n[profile.old]',
)


def test_a_model_may_list_what_drawings_leave_out() -> None:
    machine = machine_of(STATED)

    assert [] == differences(compare(machine, doors()))
    assert [] == differences(compare(machine, doors(without="CLOSED --> gone")))
    assert ["first: OPEN remove gone"] == differences(compare(machine, doors(without="OPEN --> gone")))
    assert ["first: OPEN slam CLOSED"] == differences(compare(machine, doors(without="slam")))


ALIASED = (
    DOOR.replace('shows = "CLOSED" }', 'shows = "CLOSED", aliases = ["Zu"] }', 1)
    .replace('rpc     = "RemoveDoor"', 'rpc = "RemoveDoor"\naliases = ["Weg"]')
    .replace('reply = "STUCK" }]', 'reply = "STUCK", aliases = ["Push (jams)", "Lift then Pull"] }]')
)


def test_aliases_are_names() -> None:
    machine = machine_of(ALIASED)

    drawing = doors("Zu --> gone: Weg", "Zu --> Zu: Push (jams)", closed="Zu")
    assert [] == differences(compare(machine, drawing))
    assert [] == differences(compare(machine, drawing, complete=True))
    assert ["first: Zu push Zu"] == differences(compare(machine, doors(closed="Zu"), complete=True))
    assert ["second: Zu Push (jams) OPEN"] == differences(
        compare(machine, doors("Zu --> OPEN: Push (jams)", "Zu --> Zu: push", closed="Zu"))
    )


def test_labels_along_a_line_are_one_name() -> None:
    machine = machine_of(ALIASED)
    way = "+----+\n| Zu +--+ Lift\n|    |  |\n|    |  |\n|    |  | Pull\n|    <--+\n+----+\n"
    drawing = drawing_of(way)

    assert ("Lift then Pull",) == drawing.arrows[0].labels
    assert [] == [each for each in differences(compare(machine, drawing)) if "second" in each]
    assert ["second: Zu Lift Zu"] == [
        each for each in differences(compare(machine, drawing_of(way.replace("Pull", "")))) if "second" in each
    ]


@pytest.mark.parametrize(("old", "new", "shown"), [("RemoveDoor", "DeleteDoor", "DeleteDoor"), ("slam", "push", "<")])
def test_points_at_what_is_wrong(old: str, new: str, shown: str) -> None:
    text = drawn(outline(door())).replace(old, new)
    lines = text.split("\n")

    compared = compare(door(), drawing_of(text))
    places = [move.places[1] for move in compared.moves if move.where is Where.SECOND]

    assert places
    assert all(place and lines[place.line - 1].startswith(shown, place.column - 1) for place in places)


def test_a_call_that_takes_time_may_be_drawn_either_way() -> None:
    through = "waiting --> starting: start\nstarting --> checking: start\nchecking --> running: start"
    shown = "WAITING --> RUNNING: StartJob"
    rest = "[*] --> absent\nabsent --> {}: make\n{} --> {}: exit\n"

    one = drawing_of("stateDiagram\n" + shown + "\n" + rest.format("WAITING", "RUNNING", "ENDED"))
    assert [] == differences(compare(job(), one))
    more = f"{through}\n{rest.format('waiting', 'running', 'ENDED')}starting --> waiting: start\nchecking --> ENDED: exit\n"
    assert [] == differences(compare(job(), drawing_of("stateDiagram\n" + more)))
    wrong = drawing_of("stateDiagram\nWAITING --> ENDED: start\n" + rest.format("WAITING", "RUNNING", "ENDED"))
    assert ["second: WAITING start ENDED", "first: WAITING start RUNNING"] == differences(compare(job(), wrong))


def test_interrupting_events_may_have_no_source() -> None:
    base = "[*] --> absent\n[*] --> WAITING: make\nWAITING --> RUNNING: start\nRUNNING --> ENDED: exit\n"

    crash = base + "[*] --> WAITING: crash\n[*] --> ENDED: crash\n"
    assert [] == differences(compare(job(), drawing_of(f"stateDiagram\n{crash}")))
    crash = base + "[*] --> WAITING: crash\n"
    assert ["first: . crash ENDED"] == differences(compare(job(), drawing_of(f"stateDiagram\n{crash}")))
    crash = base + "[*] --> absent: crash\n[*] --> RUNNING: start\n"
    assert ["second: absent start RUNNING"] == [
        each for each in differences(compare(job(), drawing_of(f"stateDiagram\n{crash}"))) if "crash" not in each
    ]


# -- what fsm draws ------------------------------------------------------------------


def read(machine: Machine, text: str, *, complete: bool = True) -> list[str]:
    return differences(compare(machine, drawing_of(text), complete=complete))


@pytest.mark.slow
@pytest.mark.parametrize("name", names())
def test_shipped_models_as_ascii_are_read_back(name: str) -> None:
    machine = load(name)

    assert [] == read(machine, drawn(outline(machine)))
    for profile in machine.profiles:
        assert [] == read(machine.under(profile), drawn(outline(machine.under(profile))))


@pytest.mark.slow
@settings(max_examples=300 * TIMES, deadline=None)
@given(machine=machines())
def test_random_machines_as_ascii_are_read_back(machine: Machine) -> None:
    """Even if lines cross."""
    assert [] == read(machine, drawn(outline(machine)))


def _spoilt(shown: Outline, chance: random.Random) -> Outline | None:
    """Return *shown* with one line removed, redirected or relabelled, or ``None`` if it has no lines."""
    lines, trunks = list(shown.lines), list(shown.trunks)
    if not lines and not trunks:
        return None
    if trunks and chance.random() < 0.3:
        trunks[0] = replace(trunks[0], labels=("unheard", *trunks[0].labels[1:]))
        return replace(shown, trunks=tuple(trunks))
    if not lines:
        return None
    line = lines.pop(chance.randrange(len(lines)))
    match chance.choice(("drop", "label", "target")):
        case "label":
            lines.append(
                replace(line, labels=("unheard", *line.labels[1:]), joined="/".join(("unheard", *line.labels[1:])))
            )
        case "target":
            others = [state for state in (*shown.states, "unheard") if state != line.target]
            target = chance.choice(others)
            if any((each.source, each.target) == (line.source, target) for each in lines):
                target = "unheard"
            lines.append(replace(line, target=target))
        case _:
            pass
    states = dict.fromkeys((*shown.states, *(each.target for each in lines)))
    return replace(shown, lines=tuple(lines), states=tuple(states))


@settings(max_examples=150 * TIMES, deadline=None)
@given(machine=machines(), chance=st.randoms(use_true_random=False))
def test_random_drawings_with_one_change_differ(machine: Machine, chance: random.Random) -> None:
    """Whatever is removed, added or changed is reported with its event."""
    spoilt = _spoilt(outline(machine), chance)
    if spoilt is None:
        return

    assert read(machine, drawn(spoilt))


@pytest.mark.parametrize("write", [dot, mermaid, plantuml], ids=lambda write: write.__name__)
def test_guards_and_updates_are_read_back(write: Callable[[Picture], str]) -> None:
    """Guards may contain ``or``, commas and brackets, and updates follow several outputs."""
    text = Path("examples/models/safe.toml").read_text(encoding="utf-8")
    right, wrong = 'when = "code == 2", set = { failures = 0 }', "failures + 1"
    assert right in text
    assert wrong in text
    text = text.replace(right, f'{right.replace("2", "2 or max(code, 0) == 2")}, emits = ["click", "open"]')
    machine = replace(machine_of(text.replace(wrong, "min(failures + 1, 2)")), omits=None)
    full = write(picture(machine, show=("outcomes", "stays")))

    assert [] == read(machine, full)
    assert [] == read(machine, write(picture(machine)), complete=False)
    assert read(machine, full.replace("enter", "entry"))


@pytest.mark.slow
@pytest.mark.parametrize("name", names())
def test_pictures_are_read_back(name: str) -> None:
    machine = replace(load(name), omits=None)
    full = picture(machine, show=("outcomes", "stays", "interrupts", "profiles"))

    for write in (dot, mermaid, plantuml):
        assert [] == [each for each in read(machine, write(picture(machine)), complete=False) if "second" in each]
        assert [] == read(machine, write(full)), write.__name__


@pytest.mark.slow
@pytest.mark.parametrize("write", [dot, mermaid, plantuml], ids=lambda write: write.__name__)
@settings(max_examples=amount(50, night=2_000), deadline=None)
@given(machine=machines())
def test_pictures_of_random_machines_are_read_back(write: Callable[[Picture], str], machine: Machine) -> None:
    """Pictures are read back correctly, whatever they leave out or bundle, and even if they repeat names."""
    machine = replace(machine, omits=None)
    full = picture(machine, show=("outcomes", "stays", "interrupts", "profiles"))

    assert [] == [each for each in read(machine, write(picture(machine)), complete=False) if "second" in each]
    assert [] == read(machine, write(full))


# -- two machines, two drawings ---------------------------------------------------


def test_versions_differ_in_their_cells() -> None:
    machine = load("container-status")

    found = compare(machine.under("containerd-1.6"), machine.under("containerd-2.1"))

    gone = ("absent", "skipped-created", "skipped-running", "skipped-exited")
    assert [f"first: {each} stop {each}" for each in gone] == differences(found)
    assert [("NOT_FOUND", ("stop-of-removed",))] * len(gone) == [
        (move.reply, move.outcomes) for move in found.moves if move.where in ONE
    ]


TWINS = [
    ('to = "open", emits = ["Creak"]', 'to = "open", emits = ["Crack"]', {"shut push open"}),
    ('reply = "STUCK"', 'reply = ["STUCK", "JAMMED"]', {"shut push shut"}),
    ('silent = ["*"]', 'ignores = ["*"]', {"shut knock shut"}),
    ('cannot  = ["ajar", "gone"]', 'cannot  = ["ajar"]\nsilent = ["gone"]', {"gone slam gone"}),
    ("[event.warp]", "[event.wave]", {"shut warp ajar", "shut wave ajar"}),
]


@pytest.mark.parametrize(("old", "new", "expected"), TWINS)
def test_two_machines(old: str, new: str, expected: set[str]) -> None:
    text = edited(DOOR, old, new) if DOOR.count(old) == 1 else DOOR.replace(old, new)
    other = machine_of(text)

    listed = {each.split(": ", 1)[1] for each in differences(compare(door(), other))}

    assert expected <= listed
    assert compare(door(), door()).equal


def test_machines_are_matched_by_any_name_of_theirs() -> None:
    renamed = DOOR.replace("[event.push]", "[event.shove]").replace('event    = "push"', 'event    = "shove"')
    renamed = renamed.replace('event = "push"', 'event = "shove"')
    assert [] == differences(compare(door(), machine_of(renamed)))

    alias = edited(
        JOB,
        'ended    = { about = "Done, or lost.", shows = "ENDED" }',
        'over = { about = "Done, or lost.", shows = "ENDED", aliases = ["ended"] }',
    )
    assert [] == differences(
        compare(
            job(), machine_of(alias.replace('"ended"', '"over"').replace('aliases = ["over"]', 'aliases = ["ended"]'))
        )
    )


def test_two_drawings_are_compared_by_exact_names() -> None:
    one = drawing_of("stateDiagram\nA --> B: go, stop\nB --> C\n")
    two = drawing_of("digraph {\nA -> B [label=go]\nA -> B [label=stop]\nB -> c\n}\n")

    assert ["first: C", "second: c", "first: B - C", "second: B - c"] == differences(compare(one, two))


def test_compares_machines_and_drawings_only() -> None:
    with pytest.raises(TypeError, match="compare machines or drawings"):
        compare(door(), "door")  # type: ignore[arg-type]


# -- the choice between drawings ----------------------------------------------------

FINE = "stateDiagram\nCLOSED --> OPEN: push\n"
OTHER = "```\n\nstateDiagram\nOPEN --> CLOSED: push\n"
STRANGE = "```\n\nstateDiagram\nx --> y: z\n"
BROKEN = "```\n\nstateDiagram\nx -> y\n"


@pytest.mark.parametrize(
    ("text", "line"),
    [(OTHER + FINE.replace("state", "```\nstate", 1), 6), (STRANGE + OTHER, 7), (BROKEN + "```\n" + FINE, 6)],
)
def test_of_several_drawings_the_one_that_is_meant(text: str, line: int) -> None:
    """The drawing that matches the machine is chosen, or else the only drawing that shares a state with it."""
    found = choose(door(), parse(text, "doors.md"))

    assert f"doors.md:{line}" == found.second


@pytest.mark.parametrize(("text", "code"), [(OTHER + OTHER, "FSM410"), (OTHER + BROKEN, "FSM408")])
def test_of_several_drawings_none_is_guessed(text: str, code: str) -> None:
    with pytest.raises(InputError) as caught:
        choose(door(), parse(text, "doors.md"))

    assert code == caught.value.problems[0].code
