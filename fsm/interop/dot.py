"""Export a machine as a DOT graph with one edge per outcome, which has all of its data as attributes.

The graph is meant as data and is in model order.  :mod:`fsm.diagrams.draw` draws pictures.
"""

import graphviz

from fsm.interop.promela.steps import steps
from fsm.machine import Machine


def dot(machine: Machine) -> str:
    """Return the DOT graph of *machine*, ending in a newline.  Silent cells have no edge.

    >>> from fsm.language.library import load
    >>> dot(load("examples/models/door.toml")).splitlines()[0]
    'digraph door {'
    """
    graph = graphviz.Digraph(machine.name, graph_attr={"label": graphviz.escape(machine.title)})
    for state in machine.states.values():
        mark = "2" if state.name == machine.initial else None
        graph.node(state.name, shows=state.shows, tooltip=graphviz.escape(state.about), peripheries=mark)
    for step in steps(machine):
        graph.edge(
            step.source,
            step.way.to,
            label=f"…{step.event}" if step.ends else step.event,
            kind=machine.events[step.event].kind,
            outcome=step.way.name,
            reply=step.reply or None,
            emits=", ".join(step.way.emits) or None,
        )
    text: str = graph.source
    return text
