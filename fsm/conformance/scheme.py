"""Schemes: the ways to name a system under test, ``NAME:REST``, that packages add.

A scheme is declared in the group :data:`fsm.entry_points.SUTS`. It may have options of its own, which ``fsm test``
offers.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

from fsm import entry_points
from fsm.conformance.plan import Plan
from fsm.machine import Machine
from fsm.sut import SUT, Stimulus

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


@dataclass(frozen=True, slots=True, kw_only=True)
class DomainClient:
    """The abilities of a client of a domain, by the names of calls on the wire.

    Attributes:
        creates: Maps each kind of entity to the call that creates one.
        removes: The calls that remove entities.
        looks: The calls that return the state.
        arranged: The calls that a client can make fail after they have begun.
        exits: Maps a kind of entity to the signal that a client can wait for, as it happens by itself.
        takes: Whether there are shell lines for the calls of a machine.
        lines: Returns the shell lines that make steps of a plan happen to one entity from the initial state.
        preamble: Shell code that must run once before all lines.
    """

    creates: Mapping[str, str]
    removes: frozenset[str] = frozenset()
    looks: frozenset[str] = frozenset()
    arranged: frozenset[str] = frozenset()
    exits: Mapping[str, str] = field(default_factory=dict)
    takes: Callable[[Machine], bool] = lambda _: False
    lines: Callable[[Plan, Sequence[Stimulus]], tuple[str, ...]] = lambda *_: ()
    preamble: str = ""


NOBODY = DomainClient(creates={})
"""The client of a machine whose domain has none."""


class ClientRun(NamedTuple):
    """A title, and steps of a plan's machine from its initial state."""

    title: str
    plan: Plan
    steps: Sequence[Stimulus]


def client_of(machine: Machine) -> DomainClient:
    """Return the client of the domain that creates entities of the kind of *machine*."""
    clients = (entry_points.loaded(each.client) for each in entry_points.domains() if each.client)
    return next((each for each in clients if machine.entity in each.creates), NOBODY)


def script(client: DomainClient, runs: Iterable[ClientRun]) -> str:
    """Return a shell script of *runs*. It continues after failed calls, because many calls are meant to be refused."""
    blocks = ["#!/bin/sh\n" + client.preamble]
    for run in runs:
        title = " ".join(run.title.split())
        blocks.append("\n".join([f"# {title}", *client.lines(run.plan, run.steps)]))
    return "\n\n".join(blocks) + "\n"
