"""What a drawing that is to be checked later shows of a machine: drawn states, and arrows with their labels.

It is exactly what :mod:`fsm.diagrams.compare` expects of a full drawing.  More would
bury the lifecycle under the table.
"""

from collections.abc import Container, Iterator, Mapping
from dataclasses import dataclass

from fsm.diagrams.abstraction import Abstraction, Act
from fsm.diagrams.abstraction.drawn_names import THEN, LabelMeanings, Meaning, parts, plain, proposed
from fsm.machine import Event, Machine


@dataclass(frozen=True, slots=True, kw_only=True)
class OutlineArrow:
    """An arrow from one state to another, with its labels, and all of them joined."""

    source: str
    target: str
    labels: tuple[str, ...]
    joined: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Trunk:
    """Arrows without a source that have the same labels."""

    targets: tuple[str, ...]
    labels: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Outline:
    """States in the machine's order, and the arrows between them."""

    initial: str
    states: tuple[str, ...]
    lines: tuple[OutlineArrow, ...]
    trunks: tuple[Trunk, ...]


def outline(machine: Machine) -> Outline:
    """The outline of *machine*.

    >>> from fsm.library import load
    >>> outline(load("container-status")).trunks
    (Trunk(targets=('CREATED', 'UNKNOWN', 'RUNNING', 'EXITED'), labels=('Load',)),)
    """
    interrupting = [event.name for event in machine.events.values() if event.interrupts]
    abstraction = Abstraction(machine, proposed(machine), interrupting)
    known = LabelMeanings(machine).meanings
    moves: dict[tuple[str, str], dict[str, None]] = {}
    trunks: dict[str, dict[str, None]] = {}
    for key, acts in abstraction.must.items():
        shown = [act for act in acts if not abstraction.omitted(act, key.event)]
        for label in _labels(known, machine.events[key.event], shown):
            if not key.source:
                trunks.setdefault(label, {})[key.target] = None
            else:
                moves.setdefault((key.source, key.target), {})[label] = None
    alike: dict[tuple[str, ...], list[str]] = {}
    for label, targets in trunks.items():
        alike.setdefault(tuple(targets), []).append(label)
    return Outline(
        initial=abstraction.shown[machine.initial],
        states=tuple(dict.fromkeys(abstraction.shown[state] for state in machine.states)),
        lines=tuple(line for ends, labels in moves.items() for line in _lines(known, ends, list(labels))),
        trunks=tuple(Trunk(targets=targets, labels=tuple(labels)) for targets, labels in alike.items()),
    )


def _lines(known: Container[str], ends: tuple[str, str], labels: list[str]) -> Iterator[OutlineArrow]:
    """One arrow for all labels that can share it, and one for each that cannot."""
    shared = [label for label in labels if parts(label) == [label] and THEN not in label]
    for group in ([shared] if shared else []) + [[label] for label in labels if label not in shared]:
        joined = "/".join(group)
        if len(group) > 1 and joined in known:
            joined = ", ".join(group)
        yield OutlineArrow(source=ends[0], target=ends[1], labels=tuple(group), joined=joined)


def _labels(known: Mapping[str, Meaning], event: Event, acts: list[Act]) -> list[str]:
    """The labels of a move: its event, or each outcome that has a label of its own."""
    general = next(iter(plain([*event.aliases, event.rpc])), event.name)
    found: dict[str, None] = {}
    for act in acts:
        aliases = [alias for way in event.outcomes() if way.name == act.outcome for alias in plain(way.aliases)]
        own = [alias for alias in aliases if known[alias] == (event.name, act.outcome)]
        found[(own or [f"{event.name}: {act.outcome}"])[0] if act.named else general] = None
    return list(found)
