"""Find out why machines cannot be compared: their data differ in type, or times are not observed."""

from collections.abc import Iterable, Iterator

from fsm.machine import Event, Machine
from fsm.machine.guards import arguments_read
from fsm.machine.product.system import System
from fsm.machine.terms import Variable


def why_not_refined(mine: Machine, other: Machine) -> str:
    """Return why observations of *mine* cannot be compared with *other*, or an empty string if they can."""
    return next(filter(None, _differences(mine, other)), "")


def why_not_followed(mine: Machine | System, other: Machine, shared: Iterable[Event]) -> str:
    """Return why outputs and *shared* signals of *mine* cannot be compared with *other*, or an empty string."""
    return next(filter(None, _differences_of_outputs(mine, other, {each.name: each for each in shared})), "")


def why_not_equivalent(first: Machine, second: Machine) -> str:
    """Return why observations of *first* and *second* cannot be compared, or an empty string if they can."""
    for event, same in _pairs(second, first):
        if same is not None and _domains(event) != _domains(same):
            return f"'{same.name}' has other arguments in {second.name} than in {first.name}"
    return next(_timed(first, second), "")


def _differences(mine: Machine, other: Machine) -> Iterator[str]:
    yield from _timed(mine, other)
    for its in (each for each in other.data.values() if each.shown):
        own = mine.data.get(its.name)
        if own is None or not own.shown:
            yield f"{other.name} shows '{its.name}', which {mine.name} does not declare as shown"
        else:
            yield _different_domain(mine, own, other, its)
    for event, same in _pairs(other, mine):
        if same is not None:
            yield from _unlike_arguments(mine, other, event, same)
        elif event.kind != "call":
            yield from _beyond_scopes(other, event)


def _differences_of_outputs(mine: Machine | System, other: Machine, shared: dict[str, Event]) -> Iterator[str]:
    outputs = {*mine.outputs()} if isinstance(mine, Machine) else other.words().keys()
    yield from _timed(mine, other)
    for event in other.events.values():
        if event.name in shared:
            yield from _unlike_arguments(mine, other, event, shared[event.name])
        if not outputs.isdisjoint(event.words):
            yield from _unlike_arguments(mine, other, event, None)
        elif event.kind == "hidden":
            yield from _beyond_scopes(other, event)


def _pairs(machine: Machine, other: Machine) -> Iterator[tuple[Event, Event | None]]:
    """Yield the events of *machine*, each with the event of *other* as which it is observed."""
    words = {word: event for event in other.events.values() if event.kind != "hidden" for word in event.words}
    for event in machine.events.values():
        found = (words[word] for word in event.words if word in words and event.kind != "hidden")
        yield event, next(found, None)


def _timed(*machines: Machine | System) -> Iterator[str]:
    for each in machines:
        if isinstance(each, Machine) and each.timers:
            yield f"{each.name} has timers, and machines are compared without times"


def _unlike_arguments(mine: Machine | System, other: Machine, event: Event, same: Event | None) -> Iterator[str]:
    for name, its in event.arguments.items():
        own = same.arguments.get(name) if same else None
        if own is not None:
            yield _different_domain(mine, own, other, its)
        elif name in arguments_read(event):
            yield f"{other.name} reads the argument '{name}' of '{event.name}', which {mine.name} does not have"


def _beyond_scopes(other: Machine, event: Event) -> Iterator[str]:
    for name in event.arguments:
        if name in arguments_read(event) and event.arguments[name].beyond == "scope":
            yield f"the argument '{name}' of '{event.name}' in {other.name} is unobserved and may be beyond its scope"


def _different_domain(mine: Machine | System, own: Variable, other: Machine, its: Variable) -> str:
    if (own.number, own.truth) == (its.number, its.truth) and {*own.words} <= {*its.words}:
        return ""
    return f"'{own.name}' is {own.domain} in {mine.name}, but {its.domain} in {other.name}"


def _domains(event: Event) -> dict[str, tuple[object, ...]]:
    return {each.name: (each.low, each.high, each.words, each.truth) for each in event.arguments.values()}
