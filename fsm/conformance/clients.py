"""Clients: what a user of a domain can make happen, and the shell lines that do it.

A package declares its client in its domain (:class:`fsm.entry_points.Domain`).
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from fsm import entry_points
from fsm.conformance.plan import Plan
from fsm.machine import Machine
from fsm.sut import Stimulus


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
