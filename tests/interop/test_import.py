"""A model that is imported from another library, or from an exported model, behaves like the original."""

from __future__ import annotations

import itertools
import json
from dataclasses import replace
from typing import TYPE_CHECKING, Any
from xml.etree import ElementTree as ET

import pytest
from exported import bare
from hypothesis import given, settings
from hypothesis import strategies as st
from machines import DOOR, counter, door, job, machine_of
from random_machines import machines
from statemachine.io import load as chart_of
from thorough import TIMES, amount
from transitions import MachineError
from transitions.extensions.markup import MarkupMachine

from fsm.checker.equivalence import bisimilar
from fsm.errors import control_character
from fsm.interop.charts import TAKEN, python_statemachine, scxml
from fsm.interop.draft import outcome_events
from fsm.interop.formats import imported
from fsm.interop.transitions import transitions
from fsm.language.library import load, names
from fsm.language.write import toml
from fsm.machine import Cannot, Ignores, Moves, Refuses, Silent, outcomes
from fsm.machine.table import tabulate

if TYPE_CHECKING:
    import random
    from collections.abc import Iterable, Mapping

    from fsm.machine import Cell, Machine, Outcome

SHIPPED = [load(name) for name in names()]
PROFILED = [machine.under(profile) for machine in SHIPPED for profile in machine.profiles]


def taken(source: str | dict[str, Any], *, outcomes: bool = False) -> str:
    text = source if isinstance(source, str) else json.dumps(source)
    return imported(text.encode(), path="lamp.json", outcomes=outcomes)


def ways_of(machine: Machine, event: str, state: str) -> tuple[Outcome, ...]:
    return outcomes(machine.events[event].cells[state], state, machine.events[event].kind) or ()


def same(first: Machine, second: Machine) -> bool:
    return bisimilar(tabulate(first), tabulate(second))


# -- models written as text --------------------------------------------------------


@pytest.mark.parametrize("machine", [*SHIPPED, door(), job(), counter()], ids=lambda each: each.name)
def test_a_model_that_is_written_is_the_machine(machine: Machine) -> None:
    assert bare(machine_of(toml(machine))) == bare(machine)


@given(machines())
def test_random_models_are_written(machine: Machine) -> None:
    assert bare(machine_of(toml(machine))) == bare(machine)


@pytest.mark.slow
@pytest.mark.parametrize("machine", PROFILED, ids=lambda each: each.name)
def test_a_profile_that_is_written_is_what_it_allows(machine: Machine) -> None:
    assert same(machine_of(toml(machine)), machine)


@pytest.mark.slow
@given(st.text(st.characters(codec="utf-8")).filter(lambda text: not control_character(text)))
def test_any_text_can_be_written(text: str) -> None:
    machine = replace(door(), about=text)

    assert machine_of(toml(machine)).about == text


def test_models_are_short() -> None:
    text = toml(door(), comments=["A door.", "", "By hand."])

    assert text.startswith("# A door.\n\n# By hand.\n\n[machine]\n")
    assert '[event.remove]\nrpc = "RemoveDoor"\n' in text
    assert 'moves = {"*" = "gone"}\nignores = ["gone"]\n' in text
    assert 'moves = {shut = "ajar"}\ncannot = ["*"]\n' in text
    assert 'gone = {about = "Taken away."}\n' in text


# -- exported machines, run by other libraries -----------------------------------------

DEFAULTS = settings(max_examples=amount(30, night=1_200), deadline=None)


@DEFAULTS
@given(machines(), st.randoms(use_true_random=False))
def test_transitions_takes_the_same_steps(machine: Machine, chance: random.Random) -> None:
    """From every state, each event has the same target as in the table, and there are no other events."""
    running = MarkupMachine(markup=json.loads(transitions(machine)))
    for event, state, to in _walk(machine, chance):
        assert running.state == state
        if to is None:
            with pytest.raises((MachineError, AttributeError)):  # an event without transitions raises AttributeError
                running.trigger(event)
        else:
            assert running.trigger(event) is True
            assert running.state == to
        running.set_state(chance.choice(list(machine.states)))
        running.set_state(to or state)


@pytest.mark.slow
@DEFAULTS
@given(machines(), st.randoms(use_true_random=False))
def test_python_statemachine_takes_the_same_steps(machine: Machine, chance: random.Random) -> None:
    """From every state, each event has the same target as in the table; an event without a target is ignored."""
    running = chart_of(python_statemachine(machine), format="json", validate=True)()
    for event, state, to in _walk(machine, chance):
        assert [each.id for each in running.configuration] == [state]
        running.send(event)
        assert [each.id for each in running.configuration] == [to or state]


def _walk(machine: Machine, chance: random.Random) -> Iterable[tuple[str, str, str | None]]:
    """Yield random events with their states and targets.

    The target is ``None`` if the event cannot happen.
    """
    leads = {(f"{row}.{word}", state): to for row, word, state, to in _steps(machine)}
    events = [*dict.fromkeys(event for event, _ in leads), "no.such"]
    state = machine.initial
    for _ in range(25):
        event = chance.choice(events)
        to = leads.get((event, state))
        yield event, state, to
        state = to or state


def _steps(machine: Machine) -> Iterable[tuple[str, str, str, str]]:
    for event in machine.events.values():
        for row, cells in ((event.name, event.cells), (f"{event.name}-ends", event.ends)):
            for state, cell in cells.items():
                match cell:
                    case Moves(outcomes=ways):
                        for way in ways:
                            yield row, way.name, state, way.to
                    case Ignores():
                        yield row, "ignored", state, state


@pytest.mark.slow
@pytest.mark.parametrize("machine", SHIPPED, ids=lambda each: each.name)
def test_shipped_machines_are_loaded(machine: Machine) -> None:
    MarkupMachine(markup=json.loads(transitions(machine)))
    running = chart_of(python_statemachine(machine), format="json", validate=True)()

    assert [each.id for each in running.configuration] == [machine.initial]


@pytest.mark.parametrize("name", [*sorted(TAKEN), "_private", "__class__", "name", "id", "events", "initial_state"])
def test_states_may_be_called_like_attributes(name: str) -> None:
    machine = machine_of(DOOR.replace("open", name).replace(f'"{name}ed"', '"opened"'))
    running = chart_of(python_statemachine(machine), format="json")()
    running.send("push.opened")

    (state,) = running.configuration
    assert state.id.strip("_2") in {name.strip("_"), f"state{name.strip('_')}", f"state{name}".strip("_")}


def test_all_attributes_are_known() -> None:
    first = chart_of(python_statemachine(door()), format="json")()
    for name in {name for name in dir(first) if not name.startswith("_") and "." not in name} - TAKEN:
        back = {"transitions": [{"event": "a.b", "target": name}]}
        states = {name: {"transitions": [{"event": "a.b", "target": "next"}]}, "next": back}
        running = chart_of(json.dumps({"states": states}), format="json")()
        running.send("a.b")
        assert [each.id for each in running.configuration] == ["next"]


# -- export and import -------------------------------------------------------------------


def plain(machine: Machine, *, raises: bool) -> Machine:
    """Return *machine* without clauses and profiles, and with states that show their own names.

    If *raises* is true, every event becomes a call, and outputs are dropped. The call replies with ok, or with an error
    in states that refuse the event. If *raises* is false, every event becomes a signal, and outputs are kept. States
    that refuse the event ignore the signal.
    """
    kept = {each.event.rpartition(".")[0] for each in outcome_events(machine)}
    return replace(
        machine,
        clauses={},
        profiles={},
        omits=None,
        indefinite=(),
        states={name: replace(state, shows=name) for name, state in machine.states.items()},
        events={
            name: replace(
                event,
                kind="call" if raises else "signal",
                rpc="",
                interrupts=False,
                cells={state: _plain(cell, raises=raises) for state, cell in event.cells.items()},
            )
            for name, event in machine.events.items()
            if name in kept
        },
    )


def _plain(cell: Cell, *, raises: bool) -> Cell:
    match cell:
        case Moves(outcomes=ways):
            reply = ("ok",) if raises else ()
            emits = {way.name: () if raises else way.emits for way in ways}
            return replace(cell, outcomes=tuple(replace(way, reply=reply, emits=emits[way.name]) for way in ways))
        case Refuses() | Cannot() | Silent() if raises:
            return Refuses(codes=("error",), clause=cell.clause)
        case _:
            return Ignores(clause=cell.clause)


@DEFAULTS
@given(machines(time=False))
def test_what_transitions_keeps_is_imported(machine: Machine) -> None:
    found = machine_of(taken(transitions(machine), outcomes=True))

    assert same(found, plain(machine, raises=True))


@DEFAULTS
@given(machines(time=False))
def test_what_python_statemachine_keeps_is_imported(machine: Machine) -> None:
    """Outputs too."""
    found = machine_of(taken(python_statemachine(machine), outcomes=True))

    assert same(found, plain(machine, raises=False))


@DEFAULTS
@given(machines(time=False))
def test_what_scxml_keeps_is_imported(machine: Machine) -> None:
    """Outputs too."""
    found = machine_of(taken(scxml(machine), outcomes=True))

    assert same(found, plain(machine, raises=False))


@DEFAULTS
@given(machines())
def test_what_transitions_dumps_is_imported(machine: Machine) -> None:
    """The markup that transitions itself writes has no targets for internal transitions."""
    markup = json.loads(transitions(machine))
    dumped = json.loads(json.dumps(MarkupMachine(markup=json.loads(transitions(machine))).markup))

    assert same(machine_of(taken(dumped)), machine_of(taken(markup)))


def test_without_outcomes_each_is_an_event() -> None:
    machine = machine_of(taken(transitions(door())))

    assert list(machine.events) == ["push.opened", "push.stuck", "push.ignored", "remove.done", "remove.ignored", *REST]


REST = ["slam.ignored", "slam.done", "warp.done"]


# -- configurations of transitions ------------------------------------------------------------

STATES = ("a", "b", "not c")
CONDITIONS = ("x", "y")


@st.composite
def configurations(draw: st.DrawFn) -> dict[str, Any]:
    ignoring = st.sampled_from([{}, {"ignore_invalid_triggers": True}, {"ignore_invalid_triggers": False}])
    states = [draw(st.sampled_from([name, {"name": name, **draw(ignoring)}])) for name in STATES]
    state = st.sampled_from(STATES)
    conditions = st.sampled_from(
        [
            {},
            {},
            {"conditions": "x"},
            {"conditions": ["x"]},
            {"unless": "x"},
            {"unless": ["y"]},
            {"conditions": ["x"], "unless": ["y"]},
        ]
    )
    source = st.one_of(state, st.just("*"), st.lists(state, min_size=1, unique=True))
    dest = st.one_of(state, st.just("="), st.none())
    trigger = st.sampled_from(["go", "stop it"])
    tables = st.builds(
        lambda trigger, source, dest, own: {"trigger": trigger, "source": source, "dest": dest, **own},
        trigger,
        source,
        dest,
        conditions,
    )
    lists = st.builds(lambda *parts: list(parts), trigger, source, dest)
    return {
        "states": states,
        "transitions": draw(st.lists(st.one_of(tables, lists), max_size=5)),
        "initial": draw(state),
        **draw(ignoring),
        **draw(st.sampled_from([{}, {"auto_transitions": False}, {"ordered_transitions": True}])),
    }


@settings(max_examples=amount(60, night=3_000), deadline=None)
@given(configurations())
def test_configurations_do_what_transitions_does(configuration: dict[str, Any]) -> None:
    """In every state, every trigger has the same targets, for all values of the conditions."""
    machine = machine_of(taken(configuration))
    markup: Any = {**json.loads(json.dumps(configuration)), "models": []}
    running = MarkupMachine(markup=markup)
    called = {event.rpc or name: event for name, event in machine.events.items()}
    shown = {state.shows: name for name, state in machine.states.items()}

    assert machine.states[machine.initial].shows == configuration["initial"]
    assert {name for name in running.events if not name.startswith("to_")} == set(called)
    for (name, event), state in itertools.product(called.items(), STATES):
        ours = {(way.to, way.reply[0]) for way in ways_of(machine, event.name, shown[state])}
        assert ours == {(shown[to], reply) for to, reply in _ends(running, name, state)}


def _ends(running: MarkupMachine, trigger: str, state: str) -> set[tuple[str, str]]:
    found = set()
    for values in itertools.product((True, False), repeat=len(CONDITIONS)):
        model = _Model(dict(zip(CONDITIONS, values, strict=True)))
        running.add_model(model, initial=state)
        try:
            model.trigger(trigger)
            found.add((model.state, "ok"))
        except MachineError:
            found.add((model.state, "error"))
        running.remove_model(model)
    return found


class _Model:
    state: str
    trigger: Any

    def __init__(self, holds: Mapping[str, bool]) -> None:
        self._holds = holds

    def x(self) -> bool:
        return self._holds["x"]

    def y(self) -> bool:
        return self._holds["y"]


def test_a_configuration_in_yaml() -> None:
    text = "states: [on, off, 007]\ninitial: off\ntransitions:\n- [press, off, on]\n- {trigger: press, source: on, dest: 007}\n"
    machine = machine_of(imported(text.encode(), path="lamp.yaml"))

    assert list(machine.states) == ["on", "off", "007"]
    assert [way.to for way in ways_of(machine, "press", "on")] == ["007"]


LAMP = """\
# Imported from lamp.json, a configuration of transitions.
# A trigger is a call: its reply is ok where transitions returns, and error where it raises.
# The automatic triggers to_STATE, which may be called everywhere, are left out.
# before_state_change calls log.

[machine]
name = "lamp"
title = "lamp"
about = "Imported from lamp.json, a configuration of transitions."
source = "lamp.json"
initial = "off"

[states]
off = {about = "Off."}
on-again = {about = "On again. On entry: shine.", shows = "on again"}

[event.press]
kind = "call"
about = "Press."

[event.press.moves]
off = [
    {name = "is_whole-not-is_broken", to = "on-again", about = "When is_whole and not is_broken. After: count, sing."},
    {name = "otherwise", to = "off", about = "When no condition holds: nothing is done."},
]
on-again = "off"

[event.smash]
kind = "call"
about = "Smash."
moves = {on-again = "off"}
refuses = {off = "error"}
"""


def test_a_model_is_pleasant_to_read() -> None:
    configuration = {
        "states": ["off", {"name": "on again", "on_enter": ["shine"]}],
        "initial": "off",
        "before_state_change": ["log"],
        "transitions": [
            {
                "trigger": "press",
                "source": "off",
                "dest": "on again",
                "conditions": "is_whole",
                "unless": "is_broken",
                "after": ["count", "sing"],
            },
            ["press", "on again", "off"],
            ["smash", "on again", "off"],
        ],
    }

    assert taken(configuration) == LAMP


# -- definitions of python-statemachine and state charts -----------------------------------------


@st.composite
def definitions(draw: st.DrawFn, *, several: bool = True) -> dict[str, Any]:
    """Draw a definition for python-statemachine whose conditions are data.

    If *several* is true, a transition may have several conditions.
    """
    state = st.sampled_from(["a", "b"])
    event = st.sampled_from(["go", "go.far", "stop", "go stop", "go.*", "*", "stop."])
    conditions = [{}, {}, {"cond": "x"}, {"unless": "x"}, *([{"cond": ["x"], "unless": ["y"]}] if several else [])]
    condition: st.SearchStrategy[dict[str, Any]] = st.sampled_from(conditions)
    target: st.SearchStrategy[dict[str, Any]] = st.one_of(st.just({}), state.map(lambda name: {"target": name}))
    transition = st.builds(lambda event, *parts: {"event": event} | parts[0] | parts[1], event, condition, target)
    found: dict[str, Any] = {name: {"transitions": draw(st.lists(transition, max_size=3))} for name in ("a", "b")}
    if draw(st.booleans()):
        found["b"] = {"final": True}
    return {"name": "lamp", "states": found}


@pytest.mark.slow
@settings(max_examples=40 * TIMES, deadline=None)
@given(definitions())
def test_definitions_do_what_python_statemachine_does(definition: dict[str, Any]) -> None:
    """In every state, every event has the same targets, for all values of the data."""
    machine = machine_of(taken(definition))
    ends: dict[tuple[str, str], set[str]] = {}
    for x, y, begin in itertools.product((True, False), (True, False), ("a", "b")):
        states = {name: {**each, "initial": name == begin} for name, each in definition["states"].items()}
        document = {"datamodel": {"x": str(x), "y": str(y)}, "states": states}
        for event in machine.events:
            running = chart_of(json.dumps(document), format="json")()  # only the first instance of a class has data
            running.send(event)
            (state,) = running.configuration
            ends.setdefault((event, begin), set()).add(state.id)
    for (event, begin), found in ends.items():
        assert {way.to for way in ways_of(machine, event, begin)} == found


@settings(max_examples=60 * TIMES, deadline=None)
@given(definitions(several=False))
def test_a_state_chart_is_its_definition(definition: dict[str, Any]) -> None:
    """The same machine in SCXML and in JSON becomes the same model."""
    first = machine_of(imported(_chart(definition).encode(), path="lamp.json"))
    second = machine_of(taken(definition))

    for name, event in first.events.items():
        assert _plainly(event.cells) == _plainly(second.events[name].cells)
    assert list(first.events) == list(second.events)
    assert first.states == second.states


def _plainly(cells: Mapping[str, Cell]) -> list[Any]:
    ways = [outcomes(cell, state, "signal") or () for state, cell in cells.items()]
    return [[(way.to, way.emits) for way in each] for each in ways]


def _chart(definition: dict[str, Any]) -> str:
    root = ET.Element("scxml", {"xmlns": "http://www.w3.org/2005/07/scxml", "name": definition["name"]})
    for name, state in definition["states"].items():
        element = ET.SubElement(root, "final" if state.get("final") else "state", {"id": name})
        for each in state.get("transitions", []):
            kept = {key: value for key, value in each.items() if key in {"event", "target"}}
            condition = each["cond"] if "cond" in each else f"not {each['unless']}" if "unless" in each else ""
            ET.SubElement(element, "transition", {**kept, **({"cond": condition} if condition else {})})
    return ET.tostring(root, encoding="unicode")


def test_sent_events_are_emitted() -> None:
    text = """<scxml xmlns="http://www.w3.org/2005/07/scxml">
      <state id="a"><onexit><send event="left" target="#_parent"/></onexit>
        <transition event="go" target="b"><send event="gone" target="http://x"/><send event="own"/></transition>
        <transition event="nod"><send event="nodded" target="#_parent"/></transition></state>
      <state id="b"><onentry><send event="come" target="#_parent"/></onentry></state></scxml>"""
    machine = machine_of(imported(text.encode(), path="a.scxml"))

    assert [way.emits for way in ways_of(machine, "go", "a")] == [("left", "gone", "come")]
    assert [way.emits for way in ways_of(machine, "nod", "a")] == [("nodded",)]
    definition = {
        "states": {
            "a": {
                "exit": {"send": {"event": "left", "target": "#_parent"}},
                "transitions": [
                    {
                        "event": "go",
                        "target": "b",
                        "on": [{"send": {"event": "gone", "target": "http://x"}}, {"send": {"event": "own"}}, "called"],
                    },
                    {"event": "nod", "after": {"send": {"event": "nodded", "target": "#_parent"}}},
                ],
            },
            "b": {"enter": {"send": {"event": "come", "target": "#_parent"}}},
        }
    }
    again = machine_of(taken(definition))
    assert [way.about for way in ways_of(again, "go", "a")] == ["On: called."]
    assert same(again, machine)


def test_a_chart_that_only_takes_anything() -> None:
    machine = machine_of(taken({"states": {"a": {"transitions": [{"event": "*", "target": "b"}]}, "b": {}}}))

    assert {name: event.rpc for name, event in machine.events.items()} == {"_": "*"}


def test_original_names_are_kept() -> None:
    configuration = {
        "states": ["a b", "a-b", "ä", "-"],
        "initial": "a b",
        "transitions": [["go on", "*", "ä"], ["go-on", "ä", "="]],
        "name": "My lamp",
    }
    machine = machine_of(taken(configuration))

    assert {name: state.shows for name, state in machine.states.items()} == {
        "a-b-2": "a b",
        "a-b": "a-b",
        "_": "ä",
        "_-2": "-",
    }
    assert {name: event.rpc for name, event in machine.events.items()} == {"go-on-2": "go on", "go-on": ""}
    assert (machine.name, machine.title) == ("My-lamp", "My lamp")


def test_a_machine_without_transitions() -> None:
    machine = machine_of(taken({"states": ["a"], "initial": "a"}))

    assert (list(machine.states), dict(machine.events)) == (["a"], {})


def test_many_conditions_are_all_kept() -> None:
    arrows = [{"trigger": "go", "source": "a", "dest": "a", "conditions": [f"c{n}"]} for n in range(12)]
    machine = machine_of(taken({"states": ["a"], "initial": "a", "transitions": arrows}))

    assert [way.name for way in ways_of(machine, "go", "a")] == [*(f"c{n}" for n in range(12)), "otherwise"]
    last = {"trigger": "go", "source": "a", "dest": None}
    machine = machine_of(taken({"states": ["a"], "initial": "a", "transitions": [*arrows, last, last]}))
    assert len(ways_of(machine, "go", "a")) == 13
