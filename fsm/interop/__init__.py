"""Machines and properties in the languages of other tools.

``promela`` is for the model checker SPIN, which decides the same claims by a program of its own: a second opinion on
:mod:`fsm.checker`, which takes nothing from it.  ``scxml`` is the W3C's notation for state charts, ``dot`` a graph for
Graphviz; ``transitions`` and ``python_statemachine`` are for the Python libraries of those names.
"""
