"""A toy system for tests: an office with jobs and a door."""

from __future__ import annotations

from typing import TYPE_CHECKING

from fsm.language.build.specification import specify
from fsm.language.read import parse
from fsm.language.vocabularies import Stated

if TYPE_CHECKING:
    from fsm.machine.claims import Property, Specification
    from fsm.machine.product.system import System

OFFICE = """\
[system]
name   = "office"
title  = "Jobs and a door"
about  = "Jobs are heard of while the door is open."
source = "none"
[part.door]
machine = "door"
[part.job]
machine = "job"
count   = 2
heard   = "door is open"
[event.make]
kind  = "call"
of    = "job"
about = "Make it."
steps = ["job.make"]
[event.open]
kind  = "call"
about = "Open the door."
steps = ["door.push/opened"]
"""


def stated_of(system: System, claim: str, *, copy: int = 0) -> Property:
    return specification_of(system, claim, copy=copy).properties[0]


def specification_of(system: System, claim: str, *, copy: int = 0) -> Specification[System]:
    head = f'machine = "{system.name}"\n[property.it]\nsays = "It."\nMUST = "none"\n'

    def find(_: str) -> System:
        return system

    return specify(parse((head + claim).encode(), Stated, path="it.toml"), find, copy=copy)
