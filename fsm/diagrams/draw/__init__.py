"""Machines as pictures and tables.

:mod:`~fsm.diagrams.draw.picture` decides what is drawn, as data; one small module
a format writes it.  All of them are text but ``svg`` and ``png``, which need
Graphviz's program ``dot``.
"""
