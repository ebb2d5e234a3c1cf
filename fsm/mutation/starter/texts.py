"""The contents of the files of a starter: explanatory comments, and text generated from the machine."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum
from pathlib import Path
from string import Template
from typing import Final

import tomlkit

from fsm.checker.breadth_first import reachable_size
from fsm.interop.transitions_object import FoundMachine
from fsm.language.build import build
from fsm.language.machine_file import Written
from fsm.language.read import parse
from fsm.language.write import toml
from fsm.machine import Machine, outcomes
from fsm.machine.table import tabulate
from fsm.mutation.suggestions import first_properties, table_of

MOST_PROPERTIES: Final = 6

MODEL: Final = Template("""\
# What each event does in each state. Every event says something of every state, so nothing is left open by accident.
#   fsm show models/$name.toml    prints it
#   fsm draw models/$name.toml    draws it

[machine]
name    = "$name"
title   = "$name"
about   = "Starts, works, and stops for good."
source  = "our own design"  # where the rules come from: a document, its version
initial = "new"

[states]  # what it can be in; 'shows' is what somebody from outside can read then; 'kind' is for pictures
new     = { about = "Made, and not started.", shows = "NEW" }
running = { about = "At work.", shows = "RUNNING", kind = "active" }
stopped = { about = "Has stopped for good.", shows = "STOPPED", kind = "final" }

[event.start]
kind    = "call"  # somebody asks, and gets a reply
about   = "Begin to work."
MUST    = "our own design"  # how binding it is: MUST, SHOULD, MAY, or observed; and who says so
moves   = { new = "running" }  # replies ok
ignores = ["running"]  # replies ok too, and changes nothing
refuses = { stopped = "GONE" }  # replies this error, and changes nothing

[event.stop]
kind    = "call"
about   = "Stop for good."
MUST    = "our own design"
moves   = { new = "stopped", running = "stopped" }
ignores = ["stopped"]

[event.fail]
kind    = "signal"  # it happens, and nobody is answered
about   = "The work breaks down."
MAY     = "our own design"
moves   = { running = "stopped" }
cannot  = ["new", "stopped"]  # it never happens there
""")

PROPERTIES: Final = """\
# What must hold of the model. 'fsm check' proves or refutes each of these in every run that the model allows.
# They were read off the model, so all of them hold: keep those that you mean, put them into your own words, say who
# demands it (MUST, SHOULD, MAY, observed), and add what the model must never do. 'catches' names mistakes in the model
# that the property would notice; 'fsm mutate --suggest' finds more of them.

"""

TEST: Final = Template('''\
"""$name: its model has its properties, and the implementation does what the model says."""

$imports

MODEL = fsm.load(Path(__file__).parents[1] / "models" / "$name.toml")

AGAIN = "fsm test models/$name.toml --against python:tests.test_$module:Adapter"
"""What repeats a failure in the folder above this one, and says how to take its steps alone."""

$adapter
def test_the_model_has_its_properties() -> None:
    """Each property in properties/$name.toml is proved."""
    checked = fsm.check(MODEL)
    if not all(isinstance(each.verdict, fsm.Holds) for each in checked.checked):
        raise AssertionError(fsm.describe(checked))


def test_the_implementation_does_what_the_model_says() -> None:
    """Every step of the model first, then random ones; a failure is shrunk to the shortest test."""
    tested = fsm.conform(MODEL, Adapter)
    if not isinstance(tested.verdict, fsm.Holds):
        raise AssertionError(f"{fsm.describe(tested)}\\n\\nagain: {AGAIN}")
''')

STAND_IN: Final = Template('''\
STEPS = {
$steps
}
"""What an event does in a state: the reply, and the next state."""


class Implementation:
    """A stand-in: put your own class in its place."""

    def __init__(self) -> None:
        self.state = $initial

    def handle(self, event: str) -> str:
        reply, self.state = STEPS[event, self.state]
        return reply


class Adapter:
    """How fsm drives the implementation: it starts anew, lets an event happen, and reads what is shown."""

    def reset(self) -> None:
        self.tested = Implementation()

    def do(self, event: str) -> str:
        """Let it happen, and return the reply: ok, an error code, or nothing where nobody is answered."""
        return self.tested.handle(event)

    def shows(self) -> str:
        """One of the texts that the states of the model show."""
        return $shows

    def close(self) -> None: ...

''')

DRIVEN: Final = Template('''\
$triggers
class Adapter:
    """How fsm drives the machine: it starts anew, calls a trigger, and reads the state."""

    def reset(self) -> None:
        $reset

    def do(self, event: str) -> str:
        """Call the trigger, and return the reply that the model has for what it does."""
        try:
            self.tested.trigger($trigger)
        except MachineError:
            return "error"
        return "ok"

    def shows(self) -> str:
        return $shows

    def close(self) -> None: ...

''')


@dataclass(frozen=True, slots=True, kw_only=True)
class Starter:
    """The files of a starter, by path relative to its folder, and the ``machine`` that the model file defines."""

    machine: Machine
    files: Mapping[str, str]


def starter(name: str, source: Machine | None = None, *, driven: FoundMachine | None = None, folder: Path) -> Starter:
    """Return a starter for *folder*: the model of *source* or an example, and a test of *driven* or a stand-in."""
    model = toml(source, comments=_comments(source)) if source else MODEL.substitute(name=name)
    path = f"models/{name}.toml"
    machine = build(parse(model.encode(), Written, path=path))
    module = re.sub(r"\W", "_", name)
    imports = ["from pathlib import Path", "", "import fsm"]
    if driven:
        imports = [
            "import sys",
            *imports[:2],
            "from transitions import MachineError",
            "",
            imports[2],
            *_found(driven, folder),
        ]
    test = TEST.substitute(
        name=name,
        module=module,
        imports="\n".join(imports),
        adapter=_driven(driven, machine) if driven else _stand_in(machine),
    )
    return Starter(
        machine=machine,
        files={path: model, f"properties/{name}.toml": _properties(machine), f"tests/test_{module}.py": test},
    )


def _comments(source: Machine) -> list[str]:
    complete = "Every event says something of every state, so nothing is left open by accident."
    refuses = "where the source says nothing of it, it 'refuses', so"
    return [
        f"What each event does in each state. {complete}",
        f"  fsm show models/{source.name}.toml    prints it",
        f"  fsm draw models/{source.name}.toml    draws it",
        "",
        source.about,
        f"Each event is a call: where it 'moves' it acts and replies ok; {refuses}",
        "it replies an error and changes nothing. 'ignores' is another answer: it replies ok, and changes nothing.",
    ]


def _properties(machine: Machine) -> str:
    document = tomlkit.document()
    document["machine"] = machine.name
    size = reachable_size(tabulate(machine))
    expect = tomlkit.inline_table()
    expect.update({"states": size.states, "transitions": size.transitions, "depth": size.depth})
    document["expect"] = expect
    found = first_properties(machine, MOST_PROPERTIES)
    document["property"] = {each.candidate.name: table_of(each.candidate, each.kills) for each in found}
    return PROPERTIES + tomlkit.dumps(document)


def _stand_in(machine: Machine) -> str:
    steps = []
    for event in machine.events.values():
        for state, cell in event.cells.items():
            for way in (outcomes(cell, state, event.kind) or ())[:1]:
                where = f"({json.dumps(event.name)}, {json.dumps(state)})"
                steps.append(f"    {where}: ({json.dumps(way.reply[0] if way.reply else '')}, {json.dumps(way.to)}),")
    shown = {state.name: state.shows for state in machine.states.values()}
    plain = all(name == shows for name, shows in shown.items())
    shows = "self.tested.state" if plain else f"{json.dumps(shown, ensure_ascii=False)}[self.tested.state]"
    return STAND_IN.substitute(steps="\n".join(steps), initial=json.dumps(machine.initial), shows=shows)


def _found(driven: FoundMachine, folder: Path) -> list[str]:
    there = os.path.relpath(driven.folder.resolve(), folder.resolve())
    place = "Path(__file__).parents[1]" + ("" if there == "." else f" / {json.dumps(there)}")
    file = f"{driven.module.replace('.', '/')}.py"
    return ["", f"sys.path.insert(0, str({place}))  # where {file} is", f"import {driven.module}  # noqa: E402"]


def _driven(driven: FoundMachine, machine: Machine) -> str:
    made = f"{driven.module}.{driven.made}"
    reset = [f"self.tested = {made}{driven.moved}"]
    if not driven.fresh:
        first = [f"machine = {made}{driven.inside}", "machine.set_state(machine.initial)"]
        reset = [*first, f"self.tested = {made}{driven.moved}"]
    renamed = {event.name: event.rpc for event in machine.events.values() if event.rpc}
    attribute = driven.machine.model_attribute
    named = isinstance(getattr(driven.machine.models[0], attribute), Enum)
    return DRIVEN.substitute(
        triggers=f"TRIGGERS = {json.dumps(renamed)}\n\n" if renamed else "",
        reset="\n        ".join(reset),
        trigger="TRIGGERS.get(event, event)" if renamed else "event",
        shows=f"self.tested.{attribute}{'.name' if named else ''}",
    )
