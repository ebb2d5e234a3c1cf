"""Search systems as packed states with compiled code, if the ``fast`` extra is installed.

A state is a vector of a few machine words, with a bit field for each copy in the cone.  :mod:`.programs` encodes the
moves of a :class:`~fsm.machine.product.SystemTable` as integer arrays, :mod:`.expansion` executes them, and
:mod:`.exploration` numbers the resulting states in a hash table.  :mod:`.walk` searches the product of that graph with
a claim's automaton in the same order as :mod:`fsm.checker`, so both find the same runs.
"""
