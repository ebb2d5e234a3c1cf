"""A machine as a graph in DOT: an edge for each outcome, with all of its data as attributes.

This is data, in the order of the model; :mod:`fsm.diagrams.draw` makes pictures.
"""

from fsm.interop.promela.steps import steps
from fsm.machine import Machine


def dot(machine: Machine) -> str:
    """The graph of *machine*, ending in a newline; silent cells have no edge.

    >>> from fsm.library import load
    >>> dot(load("nri-pod")).splitlines()[0]
    'digraph "nri-pod" {'
    """
    lines = [f"digraph {_quoted(machine.name)} {{", f"  label={_quoted(machine.title)};"]
    for state in machine.states.values():
        mark = ", peripheries=2" if state.name == machine.initial else ""
        lines.append(f"  {_quoted(state.name)} [shows={_quoted(state.shows)}, tooltip={_quoted(state.about)}{mark}];")
    for step in steps(machine):
        attributes = {
            "label": f"…{step.event}" if step.ends else step.event,
            "kind": machine.events[step.event].kind,
            "outcome": step.way.name,
            "reply": step.reply,
            "emits": ", ".join(step.way.emits),
        }
        given = ", ".join(f"{name}={_quoted(value)}" for name, value in attributes.items() if value)
        lines.append(f"  {_quoted(step.source)} -> {_quoted(step.way.to)} [{given}];")
    return "\n".join([*lines, "}"]) + "\n"


def _quoted(text: str) -> str:
    """*text* as a string of DOT, in which a backslash begins an escape of the label."""
    quoted = text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
    return f'"{quoted}"'
