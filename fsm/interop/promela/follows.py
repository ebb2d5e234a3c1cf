"""The outputs of one machine, and the signals it shares, as events of another: sets of its states, as bits.

This is a subset construction by shifting bits, and independent of :mod:`fsm.monitor`;
it does not support calls that take time.
"""

from collections.abc import Iterable
from typing import Final

from fsm.interop.promela.products import FollowsProduct
from fsm.interop.promela.vocabulary import CannotExportError, PromelaNames
from fsm.machine import Event, Machine, outcomes

MOST: Final = 30
"""Largest number of states of the other machine: each has a bit."""


def follows_product(words: PromelaNames, other: Machine) -> FollowsProduct:
    """The product of the machine of *words* with the states that *other* may be in, given its outputs."""
    if len(other.states) > MOST:
        raise CannotExportError(
            f"'{other.name}' has more than {MOST} states, and each needs a bit", "follow a smaller machine"
        )
    names = {name: event for event in other.events.values() for name in (event.name, event.rpc) if name}
    known = {output: names[output] for output in words.outputs if output in names}
    for output, event in known.items():
        if event.ends:
            raise CannotExportError(
                f"'{output}' is a call of '{other.name}' that takes time", "follow a machine of signals"
            )
    hidden = [event for event in other.events.values() if event.kind == "hidden"]
    shared = [
        event
        for name, event in other.events.items()
        if event.kind == "signal" and name in words.events and words.machine.events[name].kind == "signal"
    ]
    bits = {state: 1 << bit for bit, state in enumerate(other.states)}
    closed = {state: sum(bits[to] for to in _reached(other, hidden, state)) for state in other.states}

    def lead(event: Event, state: str) -> int:
        found = 0
        for to in _after(other, event, state):
            found |= closed[to]
        return found

    leads = {output: tuple(lead(event, state) for state in other.states) for output, event in known.items()}
    hears = {event.name: tuple(lead(event, state) for state in other.states) for event in shared}
    return FollowsProduct(words=words, initial=closed[other.initial], leads=leads, hears=hears)


def _after(other: Machine, event: Event, state: str) -> frozenset[str]:
    """The states that *event* may lead to from *state*; a call without a known reply may also have had no effect."""
    ways = outcomes(event.cells[state], state, event.kind)
    if ways is None:
        return frozenset(other.states)
    found = frozenset(way.to for way in ways)
    return found | {state} if event.kind == "call" else found


def _reached(other: Machine, hidden: Iterable[Event], state: str) -> set[str]:
    """The states that *other* may reach from *state* by *hidden* events."""
    found = {state}
    todo = [state]
    while todo:
        here = todo.pop()
        fresh = {to for event in hidden for to in _after(other, event, here)}
        todo += fresh - found
        found |= fresh
    return found
