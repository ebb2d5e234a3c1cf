"""Shipped models and their mutants, built once per process."""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING

from fsm.language import library
from fsm.mutation import mutants

if TYPE_CHECKING:
    from fsm.machine import Machine
    from fsm.machine.claims import Specification
    from fsm.machine.product.system import System
    from fsm.mutation import Mutant


@cache
def claims(name: str) -> Specification[Machine | System]:
    return library.claims(name)


@cache
def specification(name: str) -> Specification[Machine]:
    return library.specification(name)


@cache
def known_mutants(name: str) -> dict[str, Mutant]:
    return {each.name: each for each in mutants(library.load(name))}
