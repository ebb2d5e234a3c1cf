"""Schemes: the ways to name a system under test, ``NAME:REST``, that packages add.

A scheme is declared in the group :data:`fsm.entry_points.SUTS`. It may have options of its own, which ``fsm test``
offers.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from fsm import entry_points
from fsm.machine import Machine
from fsm.sut import SUT

if TYPE_CHECKING:
    from fsm.conformance.tested import Tested


@dataclass(frozen=True, slots=True, kw_only=True)
class SchemeOption:
    """An option of ``fsm test`` for systems under test of one scheme, such as ``--queue``. Its value is a text."""

    name: str
    metavar: str = "TEXT"
    help: str = ""

    @property
    def key(self) -> str:
        """The key of its value in :attr:`SutRequest.options`."""
        return self.name.lstrip("-").replace("-", "_")


@dataclass(frozen=True, slots=True, kw_only=True)
class SutRequest:
    """A request for a system under test.

    ``rest`` is what follows the name of the scheme, and ``model`` the name of the model. ``machine`` is what the tests
    are planned with. ``options`` are the options of the scheme, as far as they are given. ``record`` is the file for
    the calls of failed tests, if any.
    """

    rest: str
    machine: Machine
    model: str = ""
    profile: str | None = None
    timeout: float | None = None
    options: Mapping[str, str] = field(default_factory=dict)
    record: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class PlanRequest:
    """A request of ``fsm test``, before a machine is chosen."""

    model: str
    profile: str | None
    parts: Mapping[str, int]
    options: Mapping[str, str]
    threads: int = 1
    properties: bool = False
    script: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Scheme:
    """A kind of system under test.

    Attributes:
        name: What the name of a system under test begins with, before the colon.
        rest: What follows the colon, in help texts, such as ``ADDRESS``.
        about: A line on it in the help of ``fsm test``.
        factory: Returns a function that makes a system under test. Raises :class:`InputError` if it cannot be tested.
        options: The options that belong to it.
        machine: Returns the machine to plan tests with, or ``None`` for that of the model. Raises ``ValueError`` with a
            message for the user if the options do not fit the model or each other.
        waits: Whether it keeps to the time limit of answers itself.
        slow: Whether its calls take long and its failures may not recur. Races are then looked for with random delays,
            within a time limit, and failures are repeated.
        during: A context for the whole test. It may yield a function that returns what to tell the user at the end.
        repeated: Repeats the failures of a test, to count how often each recurs, and writes their calls to the record.
    """

    name: str
    rest: str
    about: str
    factory: Callable[[SutRequest], Callable[[], SUT]]
    options: tuple[SchemeOption, ...] = ()
    machine: Callable[[PlanRequest], Machine | None] = lambda _: None
    waits: bool = True
    slow: bool = False
    during: Callable[[], AbstractContextManager[Callable[[], str]]] = lambda: nullcontext(str)
    repeated: Callable[[SutRequest, Tested], Tested] = lambda _, tested: tested

    @property
    def form(self) -> str:
        return f"{self.name}:{self.rest}"


def own_schemes() -> tuple[Scheme, ...]:
    """Return the schemes of fsm itself."""
    return tuple(each for _, each in entry_points.own_objects(entry_points.SUTS, Scheme))


def foreign_schemes() -> Iterator[Scheme]:
    """Yield the schemes of other packages."""
    return (each for _, each in entry_points.foreign_objects(entry_points.SUTS, Scheme))


def scheme_of(name: str) -> Scheme | None:
    """Return the scheme of the system under test called *name*, or ``None`` if no package has it."""
    before, colon, rest = name.partition(":")
    return entry_points.find(entry_points.SUTS, before, Scheme) if colon and rest.strip() else None
