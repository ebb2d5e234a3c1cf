"""Draw machines as pictures and tables.

:mod:`~fsm.diagrams.draw.picture` decides what is drawn, and a small module for each format writes it. All formats are
text except ``svg`` and ``png``, which need Graphviz's ``dot`` program.
"""
