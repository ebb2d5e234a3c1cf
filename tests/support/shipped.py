"""What is shipped, and its mutants, each made once per process for all tests."""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING

from fsm.language import library
from fsm.mutation.cell_mutants import mutants

if TYPE_CHECKING:
    from fsm.machine import Machine
    from fsm.machine.product.system import System
    from fsm.machine.property.claims import Specification
    from fsm.mutation.cell_mutants import Mutant


@cache
def claims(name: str) -> Specification[Machine | System]:
    """The properties of the machine or system called *name*."""
    return library.claims(name)


@cache
def specification(name: str) -> Specification[Machine]:
    """The properties of the machine called *name*."""
    return library.specification(name)


@cache
def known_mutants(name: str) -> dict[str, Mutant]:
    """The mutants of the machine called *name*, by their names."""
    return {each.name: each for each in mutants(library.load(name))}
