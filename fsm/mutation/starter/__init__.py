"""Create the first files of a new user: a model, properties of the model, and a test.

The files are made from scratch, from a machine of the ``transitions`` library, or from a drawing. Each property is
proved for the model, and detects at least one error that the model could have (:mod:`fsm.mutation.outcomes`).
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from importlib.resources import files
from pathlib import Path
from string import Template
from typing import Final

import tomlkit

from fsm.checker.breadth_first import reachable_size
from fsm.diagrams.read import Drawing
from fsm.diagrams.read.state_diagrams import NOWHERE
from fsm.errors import InputError, Problem, refused
from fsm.interop.draft import Draft, DraftState, DraftTransition, machine_of
from fsm.interop.python_files import PythonMachine
from fsm.language.build import build
from fsm.language.machine_file import Written
from fsm.language.read import parse
from fsm.language.write import toml
from fsm.machine import Machine, outcomes
from fsm.machine.table import tabulate
from fsm.mutation.suggestions import first_properties, table_of

BEFORE: Final = "absent"  # the source state of an arrow that has a label but no source


def drawn_machine(drawing: Drawing, name: str) -> Machine:
    """Return the machine in *drawing*, under the name *name*.

    Each label becomes a call, which fails in the states that no arrow with this label leaves. Raise
    :class:`InputError` if the drawing cannot be read, or if its initial state or an arrow is unclear.
    """
    problems = [*drawing.problems, *_unlabelled_arrows(drawing)]
    if problems:
        raise InputError(problems)
    initial = _initial_state(drawing)
    kept = any(arrow.labels for arrow in drawing.arrows if arrow.target == NOWHERE)
    states = dict.fromkeys((initial, *(state for state in drawing.states if kept or state != NOWHERE)))
    left = {each.source or initial for each in drawing.arrows if each.target not in {each.source, NOWHERE}}
    draft = Draft(
        name=name,
        form="a drawing",
        kind="call",
        initial=initial,
        states=tuple(DraftState(name=state, ignores=False, final=state not in left) for state in states),
        transitions=tuple(_arrows(drawing, initial)),
    )
    return machine_of(draft, file=drawing.path, outcomes=True)


def _unlabelled_arrows(drawing: Drawing) -> Iterator[Problem]:
    for each in drawing.arrows:
        if each.source is not None and each.target != NOWHERE and not each.labels:
            what = f"column {each.place.column}: the arrow from '{each.source}' to '{each.target}' has no label"
            hint = "write the name of the event beside the arrow"
            yield Problem(path=drawing.path, line=each.place.line, code="FSM519", what=what, hint=hint)


def _initial_state(drawing: Drawing) -> str:
    marked = [each.target for each in drawing.arrows if each.source is None and not each.labels]
    if marked:
        return marked[0]
    if any(each.source is None for each in drawing.arrows):
        return BEFORE
    left = {each.source for each in drawing.arrows}
    entered = {each.target for each in drawing.arrows if each.source != each.target}
    first = [state for state in drawing.states if state in left - entered]
    if len(first) != 1:
        what = "the drawing does not show where a run begins"
        hint = "draw an arrow to the initial state that begins at no state: [*] --> STATE, or from a point"
        raise refused(drawing.path, "FSM519", what, hint, line=drawing.line)
    return first[0]


def _arrows(drawing: Drawing, initial: str) -> Iterator[DraftTransition]:
    drawn = [
        DraftTransition(
            event=label.replace(".", "-"),
            source=each.source or initial,
            line=each.place.line,
            to="" if each.source == each.target else each.target,
        )
        for each in drawing.arrows
        for label in each.labels
    ]
    for each in dict.fromkeys(replace(one, line=0) for one in drawn):
        several = {one.to for one in drawn if (one.event, one.source) == (each.event, each.source)}
        part = (each.to or each.source).replace(".", "-")
        yield replace(each, event=f"{each.event}.{part}") if len(several) > 1 else each


MOST_PROPERTIES: Final = 6
LEAVES: Final = {  # by the exception that the library raises
    "MachineError": """
def leaves(state: object) -> list[str]:
    parts = state if isinstance(state, list) else []
    return [each for part in parts for each in leaves(part)] or [getattr(state, "name", state)]

""",
    "TransitionNotAllowed": """
def leaves(machine: StateChart) -> list[str]:
    states = machine.states_map.values()
    return [each.id for each in states if each.is_atomic and each.value in machine.configuration_values]

""",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Starter:
    machine: Machine  # the machine that the model file defines
    files: Mapping[str, str]  # maps each path, relative to the folder, to the contents of the file


def starter(name: str, source: Machine | None = None, *, driven: PythonMachine | None = None, folder: Path) -> Starter:
    """Return the starting files for *folder*.

    Without a *source*, the model is an example. Without *driven*, the test drives a stand-in for a system under test.
    """
    model = toml(source, comments=_comments(source)) if source else _fill_template("model", name=name)
    path = f"models/{name}.toml"
    machine = build(parse(model.encode(), Written, path=path))
    module = re.sub(r"\W", "_", name)
    imports = ["from pathlib import Path", "", "import fsm"]
    if driven:
        standard = [*(["import asyncio"] if "asyncio" in driven.call else []), "import sys", "from pathlib import Path"]
        imports = [*standard, "", driven.imports, "", "import fsm", *_import_driven(driven, folder)]
    test = _fill_template(
        "test",
        name=name,
        module=module,
        imports="\n".join(imports),
        adapter=_driver_text(driven, machine) if driven else _stand_in_text(machine),
    )
    return Starter(
        machine=machine,
        files={path: model, f"properties/{name}.toml": _properties(machine), f"tests/test_{module}.py": test},
    )


def _fill_template(template: str, **words: str) -> str:
    text = (files("fsm.mutation.starter") / f"{template}.txt").read_text(encoding="utf-8")
    return Template(text).substitute(words)


def _comments(source: Machine) -> list[str]:
    complete = "Every event says something about every state, so nothing is left open by accident."
    refuses = "where the source says nothing about it, it 'refuses', so"
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
    size = reachable_size(tabulate(machine))
    expect = tomlkit.inline_table()
    expect.update({"states": size.states, "transitions": size.transitions, "depth": size.depth})
    found = first_properties(machine, MOST_PROPERTIES)
    stated = {each.candidate.name: table_of(each.candidate, each.kills) for each in found}
    return _fill_template("properties") + tomlkit.dumps({"machine": machine.name, "expect": expect, "property": stated})


def _stand_in_text(machine: Machine) -> str:
    steps = []
    for event in machine.events.values():
        for state, cell in event.cells.items():
            for way in (outcomes(cell, state, event.kind) or ())[:1]:
                where = f"({json.dumps(event.name)}, {json.dumps(state)})"
                steps.append(f"    {where}: ({json.dumps(way.reply[0] if way.reply else '')}, {json.dumps(way.to)}),")
    shown = {state.name: state.shows for state in machine.states.values()}
    plain = all(name == shows for name, shows in shown.items())
    shows = "self.tested.state" if plain else f"{json.dumps(shown, ensure_ascii=False)}[self.tested.state]"
    return _fill_template("stand_in", steps="\n".join(steps), initial=json.dumps(machine.initial), shows=shows)


def _import_driven(driven: PythonMachine, folder: Path) -> list[str]:
    relative = os.path.relpath(Path(driven.folder).resolve(), folder.resolve())
    place = "Path(__file__).parents[1]" + ("" if relative == "." else f" / {json.dumps(relative)}")
    file = f"{driven.module.replace('.', '/')}.py"
    return ["", f"sys.path.insert(0, str({place}))  # where {file} is", f"import {driven.module}  # noqa: E402"]


def _driver_text(driven: PythonMachine, machine: Machine) -> str:
    renamed = {event.name: event.rpc for event in machine.events.values() if event.rpc}
    event = "TRIGGERS.get(event, event)" if renamed else "event"
    return _fill_template(
        "driven",
        triggers=(f"TRIGGERS = {json.dumps(renamed)}\n\n" if renamed else "")
        + LEAVES[driven.error] * ("leaves(" in driven.shows),
        reset="\n        ".join(driven.reset),
        call=driven.call.format(event),
        error=driven.error,
        shows=driven.shows,
    )
