"""Schemes for naming systems under test. A name has the form ``SCHEME:REST``, and packages can add schemes.

A scheme is declared in the group :data:`fsm.entry_points.SUTS`. A scheme may add options to ``fsm test``.
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
    """An option of ``fsm test``, such as ``--queue``, for one scheme. Its value is a string."""

    name: str
    metavar: str = "TEXT"
    help: str = ""

    @property
    def key(self) -> str:
        """The key of the option in :attr:`SutRequest.options`."""
        return self.name.lstrip("-").replace("-", "_")


@dataclass(frozen=True, slots=True, kw_only=True)
class SutRequest:
    """A request for a system under test.

    ``rest`` is the part of its name after the scheme and the colon. Tests are planned from ``machine``; ``model`` is
    only the name of the model. ``options`` contains the options of the scheme that the user set. If ``record`` names
    a file, the calls of failed tests are written to it.
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
    """A request for the machine from which ``fsm test`` plans the tests."""

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
        name: The part before the colon in the name of a system under test.
        rest: The placeholder for the part after the colon in help texts, such as ``ADDRESS``.
        about: A line about the scheme in the help of ``fsm test``.
        factory: Returns a function that makes a system under test, or raises :class:`InputError`.
        options: The options of the scheme.
        machine: Returns the machine from which to plan tests, or ``None`` for the model's machine. Raises
            ``ValueError`` with a message for the user if the options do not fit the model or each other.
        waits: Whether the system under test itself enforces the time limit for answers.
        slow: Whether calls take long and failures may not recur. If so, the search for races uses random delays and a
            time limit, and failures are repeated.
        during: Returns a context manager for the whole test. It yields a function that returns a last message to print.
        repeated: Repeats failures to count how often they recur, and writes their calls to the record.
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
    return tuple(each for _, each in entry_points.own_objects(entry_points.SUTS, Scheme))


def foreign_schemes() -> Iterator[Scheme]:
    return (each for _, each in entry_points.foreign_objects(entry_points.SUTS, Scheme))


def scheme_of(name: str) -> Scheme | None:
    before, colon, rest = name.partition(":")
    return entry_points.find(entry_points.SUTS, before, Scheme) if colon and rest.strip() else None


@dataclass(frozen=True, slots=True, kw_only=True)
class DomainClient:
    """The abilities of a domain's client. Each call is identified by its name in the protocol.

    Attributes:
        creates: Maps each kind of entity to the call that creates such an entity.
        removes: The calls that remove entities.
        looks: The calls that return the state.
        arranged: The calls that a client can cause to fail after they have begun.
        exits: Maps a kind of entity to a signal that happens by itself. A client can wait for this signal.
        takes: Returns whether the calls of a machine can be made by shell lines.
        lines: Returns shell lines that take the steps of a plan on one entity, which starts in the initial state.
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


class ClientRun(NamedTuple):
    title: str
    plan: Plan
    steps: Sequence[Stimulus]


def client_of(machine: Machine) -> DomainClient:
    clients = (entry_points.loaded(each.client) for each in entry_points.domains() if each.client)
    return next((each for each in clients if machine.entity in each.creates), NOBODY)


def script(client: DomainClient, runs: Iterable[ClientRun]) -> str:
    """Return a shell script for *runs*. It does not stop at a failed call, because many calls fail on purpose."""
    blocks = ["#!/bin/sh\n" + client.preamble]
    for run in runs:
        title = " ".join(run.title.split())
        blocks.append("\n".join([f"# {title}", *client.lines(run.plan, run.steps)]))
    return "\n\n".join(blocks) + "\n"
