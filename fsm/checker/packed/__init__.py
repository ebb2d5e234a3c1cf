"""Systems searched as packed states by compiled code, where the extra ``fast`` is installed.

A state is a vector of a few machine words, with a field of bits for each copy in the cone.  :mod:`.programs` writes the
moves of a :class:`~fsm.machine.product.SystemTable` down as arrays of integers, :mod:`.expansion` takes them, and :mod:`.exploration`
numbers the states that they lead to, in a hash table.  :mod:`.walk` searches the product of that graph with the automaton of
a claim, in the order in which :mod:`fsm.checker` does, so what it finds is the same, to the step.
"""
