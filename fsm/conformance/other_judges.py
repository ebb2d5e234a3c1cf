"""Protocols for systems under test that are not only judged by the machine that plans the tests."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol, runtime_checkable

from fsm.machine.findings import Covered, Violation


@runtime_checkable
class SelfJudging(Protocol):
    """A SUT whose tests are judged by *model* instead of the machine that plans them."""

    model: str

    def violation(self) -> Violation | None:
        """Return a violation that occurred since the reset, or ``None``. This is called after each step."""

    def covered(self) -> Sequence[Covered]:
        """Return how all tests together covered the machines of ``model``."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ToldEvents:
    """The number of events that a SUT sent to its listeners, and the violations among them."""

    count: int
    violations: Sequence[Violation]


@runtime_checkable
class Telling(Protocol):
    """A SUT that sends events about its actions. These events are checked against the steps of the tests."""

    def events(self) -> ToldEvents:
        """Return the events sent in all tests. This is called once, after the last test."""
