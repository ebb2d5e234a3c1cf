"""Search of systems as packed states by compiled code, if the extra ``fast`` is installed.

A state is a vector of a few machine words, with a field of bits for each copy in the cone.  :mod:`.programs` writes the
moves of a :class:`~fsm.machine.product.SystemTable` as arrays of integers, :mod:`.expansion` executes them, and
:mod:`.exploration` numbers the states that they lead to, in a hash table.  :mod:`.walk` searches the product of that
graph with the automaton of a claim in the same order as :mod:`fsm.checker`, so it finds the same, to the step.
"""
