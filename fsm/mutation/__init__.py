"""Machines and systems that differ from an original in a single respect, and the properties that they break.

A *mutant* is a machine, or a system, with one error that an author could make. A property that no mutant breaks states
nothing. A mutant that breaks no property is *equivalent* if no observation distinguishes it from the original, or a
*survivor*: it shows what the properties leave open (DeMillo, Lipton and Sayward, 1978).
:mod:`~fsm.mutation.cell_mutants` and :mod:`~fsm.mutation.system_mutants` make mutants, :mod:`~fsm.mutation.outcomes`
finds the properties that they break.
"""
