"""Machines and systems that differ from an original in a single respect, and the properties that they break.

A *mutant* is a machine or system with one error that an author could make. A property that no mutant breaks detects
no error. A mutant that breaks no property is *equivalent* if no observation distinguishes it from the original.
Otherwise it is a *survivor* and shows an error that the properties do not detect (DeMillo, Lipton and Sayward, 1978).
:mod:`~fsm.mutation.mutants` makes mutants, and :mod:`~fsm.mutation.outcomes` finds the properties that they break.
"""
