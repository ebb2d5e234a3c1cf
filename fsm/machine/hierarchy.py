"""The hierarchy of the states of a model.  A machine has only the innermost states, so engines know no parents."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from fsm.machine import Machine

HISTORY: Final = ".history"  # suffix of a parent's name: the state inside it that was left last


@dataclass(frozen=True, slots=True, kw_only=True)
class Parent:
    """A state with substates.  To enter it means to enter ``initial``, which may be a parent too."""

    about: str
    initial: str
    history: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Hierarchy:
    """The ``parents``, and the parent that each state, or other parent, is directly ``inside``.

    If the machine remembers where it left a parent, ``variants`` maps its states to their names in the model, ``leads``
    maps a state and the target in the model to the target, and ``written`` is the machine that has no such variants.

    >>> tree = Hierarchy(parents={"on": Parent(about="", initial="dim")}, inside={"dim": "on", "lit": "on"})
    >>> tree.named(["off", "dim", "lit"]), tree.entered("on")
    ({'on': ('dim', 'lit')}, 'dim')
    """

    parents: Mapping[str, Parent] = field(default_factory=dict)
    inside: Mapping[str, str] = field(default_factory=dict)
    variants: Mapping[str, str] = field(default_factory=dict)
    leads: Mapping[tuple[str, str], str] = field(default_factory=dict)
    written: Machine | None = None

    @property
    def remembers(self) -> bool:
        return any(parent.history for parent in self.parents.values())

    def above(self, name: str) -> Iterator[str]:
        """Yield the parents of *name*, from the inside out."""
        while name := self.inside.get(self.variants.get(name, name), ""):
            yield name

    def entered(self, name: str) -> str:
        while name in self.parents:
            name = self.parents[name].initial
        return name

    def words(self, states: Collection[str]) -> dict[str, tuple[str, ...]]:
        return {state: (state,) for state in states} | self.named(states)

    def named(self, states: Iterable[str]) -> dict[str, tuple[str, ...]]:
        """Map each name in the model that is not one of *states* to those of *states* that it stands for."""
        found: dict[str, tuple[str, ...]] = {}
        for state in states:
            for name in {self.variants.get(state, state): None, **dict.fromkeys(self.above(state))}:
                if name != state:
                    found[name] = (*found.get(name, ()), state)
        return found


FLAT: Final = Hierarchy()
