"""The hierarchy of the states of a model.  A machine has only the innermost states, so engines know no parents."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final, TypeAlias

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
    """The ``parents``, and the name that each state, or other parent, is directly ``inside``.

    If the machine remembers where it left a parent, its states are variants inside the states of the model.  ``leads``
    maps a variant and a target in the model to a variant, and ``written`` is the machine without variants.  ``names``
    maps each name in the model that stands for several states to these states.
    """

    parents: Mapping[str, Parent] = field(default_factory=dict)
    inside: Mapping[str, str] = field(default_factory=dict)
    names: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    leads: Mapping[tuple[str, str], str] = field(default_factory=dict)
    written: Machine | None = None

    @property
    def unresolved(self) -> bool:
        """Whether outcomes may lead to a history, because there are no variants yet."""
        return self.written is None and any(parent.history for parent in self.parents.values())

    def above(self, name: str) -> Iterator[str]:
        """Yield the names that *name* is inside, from the inside out.

        >>> [*Hierarchy(inside={"lit": "on", "on": "plugged"}).above("lit")]
        ['on', 'plugged']
        """
        while name := self.inside.get(name, ""):
            yield name

    def in_model(self, state: str) -> str:
        """Return the state that the model declares for *state*, which may be a variant that remembers a substate."""
        name = self.inside.get(state, state)
        return state if name in self.parents else name

    def entered(self, name: str) -> str:
        while name in self.parents:
            name = self.parents[name].initial
        return name


FLAT: Final = Hierarchy()

Above: TypeAlias = Mapping[str, tuple[str, ...]]  # the names that each state is inside, from the inside out


def level(states: Above, depth: int) -> dict[str, dict[str, tuple[str, ...]]]:
    """Map each name at *depth*, where 0 is the outside, to those of *states* that are inside it, or to itself.

    >>> level({"lit": ("on",), "off": (), "dim": ("on",)}, 0)
    {'on': {'lit': ('on',), 'dim': ('on',)}, 'off': {'off': ()}}
    """
    found: dict[str, dict[str, tuple[str, ...]]] = {}
    for state, names in states.items():
        found.setdefault((state, *names)[-1 - depth], {})[state] = names
    return found
