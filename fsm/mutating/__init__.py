"""Machines and systems that differ from one in a single respect, and which property notices.

A *mutant* is a machine, or a system, changed as somebody could have got it
wrong.  A property that no mutant breaks says nothing yet; a mutant that breaks
no property is *equivalent*, if nobody can tell it from the original, or a
*survivor*: it shows what is not stated (DeMillo, Lipton and Sayward, 1978).
:mod:`~fsm.mutating.cells` and :mod:`~fsm.mutating.joints` make them,
:mod:`~fsm.mutating.fates` and :mod:`~fsm.mutating.joint_fates` say what
becomes of them.
"""

from fsm.mutating.cells import Mutant, mutants
from fsm.mutating.fates import Fate, fates
from fsm.mutating.joint_fates import joint_fates
from fsm.mutating.joints import JointMutant, joint_mutants

__all__ = ["Fate", "JointMutant", "Mutant", "fates", "joint_fates", "joint_mutants", "mutants"]
