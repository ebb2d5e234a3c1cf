"""Systems under test of which not only the machine that plans the tests says what is legal."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol, runtime_checkable

from fsm.machine.findings import Covered, Violation


@runtime_checkable
class SelfJudging(Protocol):
    """A SUT whose tests the machine that plans them does not judge, but the *model*."""

    model: str

    def violation(self) -> Violation | None:
        """What is not legal of the test since its reset; called after each step."""

    def covered(self) -> Sequence[Covered]:
        """What all tests have met of the machines of that model."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ToldEvents:
    """How many events a SUT has sent to those that listen, and what of them was not legal."""

    count: int
    violations: Sequence[Violation]


@runtime_checkable
class Telling(Protocol):
    """A SUT that sends events about what it does, which are held to what the tests have done."""

    def events(self) -> ToldEvents:
        """What it told in all tests; called once, after the last one."""
