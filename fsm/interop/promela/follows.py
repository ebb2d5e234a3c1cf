"""The outputs of one machine, and the signals it shares, as events of another: sets of its states, as bits.

This is a subset construction by shifting bits, and independent of :mod:`fsm.monitor`;
it does not support calls that take time.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import reduce
from operator import or_
from typing import Final

from fsm.interop.promela.products import Option, Product
from fsm.interop.promela.steps import ExportedStep
from fsm.interop.promela.vocabulary import CannotExportError, PromelaNames
from fsm.machine import Event, Machine, outcomes

MOST: Final = 30
"""Largest number of states of the other machine: each has a bit."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FollowsProduct(Product):
    """The machine with ``belief``, a variable with a bit for each state that the other may be in.

    ``initial`` is its initial value.  ``after`` has the states to which each output, and each signal that both have,
    leads from each state, by its name in Promela.  All are sets of states as bits, closed under hidden events.
    """

    initial: int
    after: Mapping[str, tuple[int, ...]]

    def declarations(self) -> Iterator[str]:
        for name, masks in self.after.items():
            parts = [f"((belief & {1 << bit}) -> {mask} : 0)" for bit, mask in enumerate(masks) if mask]
            yield f"#define AFTER_{name} ({' | '.join(parts) or '0'})"
        yield f"int belief = {self.initial};"

    def options(self, step: ExportedStep) -> Iterator[Option]:
        happens = [] if step.ends else [self.words.events[step.event]]
        names = (*happens, *(self.words.outputs[output] for output in step.way.emits))
        yield self._option(step, *(f"belief = AFTER_{name}" for name in names if name in self.after))

    def others(self) -> Iterator[str]:
        yield ":: belief == 0 -> assert(false)"


def follows_product(words: PromelaNames, other: Machine) -> FollowsProduct:
    """The product of the machine of *words* with the states that *other* may be in, given its outputs."""
    if len(other.states) > MOST:
        what = f"'{other.name}' has more than {MOST} states, and each needs a bit"
        raise CannotExportError(f"{what}: follow a smaller machine")
    names = {name: event for event in other.events.values() for name in (event.name, event.rpc) if name}
    known = {output: names[output] for output in words.outputs if output in names}
    for output, event in known.items():
        if event.ends:
            what = f"'{output}' is a call of '{other.name}' that takes time"
            raise CannotExportError(f"{what}: follow a machine of signals")
    signals = [name for name, event in words.machine.events.items() if event.kind == "signal"]
    shared = {name: event for name, event in other.events.items() if event.kind == "signal" and name in signals}
    bits = {state: 1 << bit for bit, state in enumerate(other.states)}
    closed = {state: sum(bits[to] for to in _reached(other, state)) for state in other.states}

    def leads(event: Event) -> tuple[int, ...]:
        return tuple(reduce(or_, (closed[to] for to in _after(other, event, state)), 0) for state in other.states)

    after = {words.outputs[output]: leads(event) for output, event in known.items()}
    after |= {words.events[name]: leads(event) for name, event in shared.items()}
    return FollowsProduct(words=words, initial=closed[other.initial], after=after)


def _after(other: Machine, event: Event, state: str) -> frozenset[str]:
    """The states that *event* may lead to from *state*; a call without a known reply may also have had no effect."""
    ways = outcomes(event.cells[state], state, event.kind)
    if ways is None:
        return frozenset(other.states)
    found = frozenset(way.to for way in ways)
    return found | {state} if event.kind == "call" else found


def _reached(other: Machine, state: str) -> set[str]:
    """The states that *other* may reach from *state* by hidden events."""
    hidden = [event for event in other.events.values() if event.kind == "hidden"]
    found: set[str] = set()
    fresh = {state}
    while fresh:
        found |= fresh
        fresh = {to for here in fresh for event in hidden for to in _after(other, event, here)} - found
    return found
