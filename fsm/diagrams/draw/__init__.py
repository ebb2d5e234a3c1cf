"""Machines as pictures and tables.

:mod:`~fsm.diagrams.draw.picture` decides what is drawn, as data; a small module for each format writes it.  All formats
are text except ``svg`` and ``png``, which need Graphviz's program ``dot``.
"""
