"""Systems under test that are not only judged by the machine that plans the tests."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol, runtime_checkable

from fsm.machine.findings import Covered, Violation


@runtime_checkable
class SelfJudging(Protocol):
    """A SUT whose tests are judged by *model* instead of the machine that plans them."""

    model: str

    def violation(self) -> Violation | None:
        """Return a violation since the reset, or ``None``; called after each step."""

    def covered(self) -> Sequence[Covered]:
        """Return the coverage of the machines of that model by all tests."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ToldEvents:
    """The number of events that a SUT sent to its listeners, and the violations among them."""

    count: int
    violations: Sequence[Violation]


@runtime_checkable
class Telling(Protocol):
    """A SUT that sends events about its actions; the events are checked against the steps of the tests."""

    def events(self) -> ToldEvents:
        """Return the events sent in all tests; called once, after the last one."""
