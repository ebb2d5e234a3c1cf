"""Draw machines as pictures and tables.

:mod:`~fsm.diagrams.draw.picture` decides what is drawn and returns it as data. For each format, a small module writes
this data. All formats are text except ``svg`` and ``png``, which need Graphviz's ``dot`` program.
"""
