"""A machine, and what is claimed of it, in the languages of other tools.

``promela`` is for the model checker SPIN, which decides the same claims by a
program of its own: a second opinion on :mod:`fsm.checker`, from which
nothing here is taken.  ``scxml`` is the W3C's notation for state charts,
``dot`` the graph for Graphviz; ``transitions`` and ``python_statemachine``
are for the Python libraries of those names.
"""
