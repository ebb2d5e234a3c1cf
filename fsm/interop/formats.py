"""Import the machines of other tools as model files.

The reader of a format converts a file of limited size (:mod:`~fsm.interop.yaml_nodes`) to a draft
(:mod:`~fsm.interop.draft`).  The draft is converted to a machine, and :mod:`~fsm.language.write` writes the machine
as a model file.
"""

from dataclasses import replace
from pathlib import Path
from typing import Final, Literal, TypeAlias, get_args

import graphviz

from fsm.errors import decoded_text, encodable
from fsm.interop.charts import read_definition, read_scxml
from fsm.interop.draft import Draft, machine_of
from fsm.interop.promela.vocabulary import steps
from fsm.interop.transitions import read_configuration
from fsm.interop.yaml_nodes import LARGEST, SourceProblems, node_of
from fsm.language.build import build
from fsm.language.machine_file import Written
from fsm.language.read import parse
from fsm.language.write import toml
from fsm.machine import Machine

ToolFormat: TypeAlias = Literal["transitions", "python-statemachine", "scxml"]
FORMS: Final[tuple[ToolFormat, ...]] = get_args(ToolFormat)


def imported(data: bytes, *, path: str, form: ToolFormat | None = None, outcomes: bool = False) -> str:
    """Convert the machine in *data* to a model file. *path* is its name in messages and in the model.

    If *form* is ``None``, the format is detected from the text.  If *outcomes* is true, events called
    ``EVENT.OUTCOME``, as ``fsm export`` names them, become outcomes of ``EVENT``.  Raise
    :class:`~fsm.errors.InputError` with every error found.

    >>> lamp = b'{"states": ["off", "on"], "initial": "off", "transitions": [["press", "off", "on"]]}'
    >>> print(imported(lamp, path="lamp.json").splitlines()[0])
    # Imported from lamp.json, a configuration of transitions.
    """
    problems = SourceProblems(path=path)
    if len(data) > LARGEST:
        what = f"the file is larger than {LARGEST // 1024 // 1024} MiB"
        problems.abort("FSM502", 0, what, "machines are small text files; check the path")
    text = decoded_text(data, path, code="FSM503")
    name = Path(path).stem or "machine"
    if form == "scxml" or (form is None and text.lstrip().startswith("<")):
        found = read_scxml(text, name, problems)
    else:
        node = node_of(text, problems)
        problems.raise_found()
        if not isinstance(node.value, dict):
            hint = "give a mapping with states, or SCXML"
            problems.abort("FSM507", node.line, f"the file contains {node.kind}, not a machine", hint)
        states = node.entries.get("states")
        if form is None and states is None:
            hint = "give a configuration of transitions or of python-statemachine, or SCXML; or select one with --from"
            problems.abort("FSM507", node.line, "the file has no 'states', so its format is unknown", hint)
        mapping = states is not None and isinstance(states.value, dict)
        definition = form == "python-statemachine" or (form is None and mapping)
        found = (read_definition if definition else read_configuration)(node, name)
    problems.raise_found()
    return model_file(found, path=path, outcomes=outcomes)


def model_file(found: Draft, *, path: str, outcomes: bool = False) -> str:
    """Return the text of a model file for the draft *found*, which was read from the file *path*."""
    file = encodable(Path(path).name)
    comments = [f"Imported from {file}, {found.form}.", *found.notes]
    plain = ["".join(each if each.isprintable() else "?" for each in line) for line in comments]
    written = toml(machine_of(found, file=file, outcomes=outcomes), comments=plain)
    build(parse(written.encode(), Written, path=file))  # check that fsm can read the model file
    return written


def dot(machine: Machine) -> str:
    """Return *machine* as a DOT graph that ends in a newline. Silent cells have no edge.

    >>> from fsm.language.library import load
    >>> dot(load("examples/models/door.toml")).splitlines()[0]
    'digraph door {'
    """
    graph = graphviz.Digraph(machine.name, graph_attr={"label": graphviz.escape(machine.title)})
    for state in machine.states.values():
        mark = "2" if state.name == machine.initial else None
        graph.node(state.name, shows=state.shows, tooltip=graphviz.escape(state.about), peripheries=mark)
    # Arguments and the passing of time have no edges of their own.
    once = {(each.event, each.ends, each.source, each.way): each for each in steps(replace(machine, timers={}))}
    for step in once.values():
        graph.edge(
            step.source,
            step.way.to,
            label=f"…{step.event}" if step.ends else step.event,
            kind=machine.events[step.event].kind,
            outcome=step.way.name,
            reply=step.reply or None,
            emits=", ".join(step.way.emits) or None,
            when=step.way.when.text if step.way.when else None,
            set=", ".join(f"{each.variable} := {each.text}" for each in step.way.updates) or None,
        )
    text: str = graph.source
    return text
