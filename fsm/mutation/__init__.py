"""Machines and systems that differ from one in a single respect, and the properties that they break.

A *mutant* is a machine, or a system, changed by one mistake that an author could make.  A property that no mutant
breaks states nothing; a mutant that breaks no property is *equivalent*, if no observation distinguishes it from the
original, or a *survivor*: it shows what is not stated (DeMillo, Lipton and Sayward, 1978).
:mod:`~fsm.mutation.cell_mutants` and :mod:`~fsm.mutation.system_mutants` make them, :mod:`~fsm.mutation.outcomes` finds
which properties they break.
"""
