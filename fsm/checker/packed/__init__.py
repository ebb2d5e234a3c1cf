"""Search systems as packed states with compiled code, if the ``fast`` extra is installed.

A state is a vector of a few machine words.  It has a bit field for each copy in the cone.  :mod:`.programs` encodes
the moves of a :class:`~fsm.machine.product.SystemTable` as integer arrays, :mod:`.expansion` executes them, and
:mod:`.exploration` numbers the resulting states in a hash table.  :mod:`.walk` searches the product of the resulting
graph with the automaton of a claim.  It searches in the same order as :mod:`fsm.checker`, so both find the same runs.
"""
