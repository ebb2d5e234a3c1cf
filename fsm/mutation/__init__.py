"""Machines and systems that differ from one in a single respect, and which property notices.

A *mutant* is a machine, or a system, changed as somebody could have got it
wrong.  A property that no mutant breaks says nothing yet; a mutant that breaks
no property is *equivalent*, if nobody can tell it from the original, or a
*survivor*: it shows what is not stated (DeMillo, Lipton and Sayward, 1978).
:mod:`~fsm.mutation.cell_mutants` and :mod:`~fsm.mutation.system_mutants` make them,
:mod:`~fsm.mutation.outcomes` and :mod:`~fsm.mutation.system_outcomes` say what
becomes of them.
"""

from fsm.mutation.cell_mutants import Mutant, mutants
from fsm.mutation.outcomes import Fate, fates
from fsm.mutation.system_mutants import JointMutant, joint_mutants
from fsm.mutation.system_outcomes import joint_fates

__all__ = ["Fate", "JointMutant", "Mutant", "fates", "joint_fates", "joint_mutants", "mutants"]
