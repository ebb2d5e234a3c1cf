"""A naive interpreter of machines with substates, which keeps the tree, the active leaf and the remembered leaves."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import random
    from collections.abc import Iterator

HISTORY = ".history"
REST = "*"
WORDS = ("ignores", "cannot", "silent")


@dataclass(frozen=True)
class Tree:
    """``above`` maps names to their parents, and ``cells`` maps events and keys to words or to lists of targets."""

    above: dict[str, str]
    first: dict[str, str]
    shows: dict[str, str]
    histories: frozenset[str]
    initial: str
    leaves: tuple[str, ...]
    cells: dict[str, dict[str, str | list[str]]]

    def chain(self, name: str) -> Iterator[str]:
        """Yield *name*, its parent, the parent of its parent, and so on."""
        yield name
        if name in self.above:
            yield from self.chain(self.above[name])

    def entered(self, name: str) -> str:
        return self.entered(self.first[name]) if name in self.first else name

    def shown(self, leaf: str) -> str:
        return next((self.shows[name] for name in self.chain(leaf) if name in self.shows), leaf)


@dataclass(frozen=True)
class Naive:
    """A machine in the state ``leaf``.  ``forgets`` and ``outer`` make mistakes, which a test must notice."""

    tree: Tree
    leaf: str
    remembered: dict[str, str] = field(default_factory=dict)
    forgets: bool = False
    outer: bool = False

    @property
    def key(self) -> tuple[str, tuple[tuple[str, str], ...]]:
        return self.leaf, tuple(sorted(self.remembered.items()))

    def cell(self, event: str) -> str | list[str]:
        """Return what the innermost name that contains the leaf says, or the rest."""
        cells = self.tree.cells[event]
        chain = [name for name in self.tree.chain(self.leaf) if name in cells]
        return cells[chain[-1 if self.outer else 0]] if chain else cells[REST]

    def moved(self, target: str) -> Naive:
        """Return the machine after an outcome that leads to *target*."""
        parent = target.removesuffix(HISTORY)
        if target == "stays":
            leaf = self.leaf
        elif target == parent:
            leaf = self.tree.entered(target)
        elif parent in self.tree.chain(self.leaf):
            leaf = self.leaf
        else:
            leaf = self.remembered.get(parent, self.tree.entered(parent))
        left = {*self.tree.chain(self.leaf)} - {*self.tree.chain(leaf)}
        kept = {} if self.forgets else dict.fromkeys(left & self.tree.histories, self.leaf)
        return Naive(self.tree, leaf, {**self.remembered, **kept}, forgets=self.forgets, outer=self.outer)


def random_tree(chance: random.Random, *, silent: bool = False) -> Tree:
    """Build a random tree of four to seven leaves and up to four parents, with two to four events."""
    leaves = tuple(f"s{number}" for number in range(chance.randint(4, 7)))
    above: dict[str, str] = {}
    first: dict[str, str] = {}
    tops = list(leaves)
    for number in range(chance.randint(1, 4)):
        own = chance.sample(tops, chance.randint(1, min(3, len(tops))))
        name = f"p{number}"
        above |= dict.fromkeys(own, name)
        first[name] = chance.choice(own)
        tops = [each for each in tops if each not in own] + [name]
    histories = frozenset(name for name in first if chance.random() < 0.6)
    names = [*leaves, *first]
    targets = [*names, *(name + HISTORY for name in sorted(histories) * 3)]
    cells = {}
    for number in range(chance.randint(2, 4)):
        words = WORDS if silent else WORDS[:2]
        keys = [*chance.sample(names, chance.randint(1, len(names))), REST]

        def effect(key: str, words: tuple[str, ...] = words) -> str | list[str]:
            if chance.random() < 0.25 or key == REST:
                return chance.choice(words)
            return chance.sample([*targets, "stays"], 1 if chance.random() < 0.7 else 2)

        cells[f"e{number}"] = {key: effect(key) for key in keys}
    shows = {name: chance.choice("ABC") for name in names if chance.random() < 0.4}
    initial = chance.choice(names)
    return Tree(above, first, shows, histories, initial, leaves, cells)


def text_of(tree: Tree) -> str:
    """Return the model file of *tree*, without cells that no leaf uses."""
    lines = [
        '[machine]\nname = "t"\ntitle = "T"\nabout = ""\nsource = "none"',
        f'initial = "{tree.initial}"',
        "[states]",
    ]
    for name in (*tree.leaves, *tree.first):
        words = ['about = ""']
        words += [f'in = "{tree.above[name]}"'] if name in tree.above else []
        words += [f'initial = "{tree.first[name]}"'] if name in tree.first else []
        words += [f'shows = "{tree.shows[name]}"'] if name in tree.shows else []
        words += ["history = true"] if name in tree.histories else []
        lines.append(f"{name} = {{ {', '.join(words)} }}")
    for event, cells in tree.cells.items():
        found = {leaf: next(name for name in (*tree.chain(leaf), REST) if name in cells) for leaf in tree.leaves}
        kept = {key: cells[key] for key in cells if key in found.values()}
        lines.append(f'[event.{event}]\nkind = "hidden"\nabout = ""')
        lines += [f"{word} = {[key for key in kept if kept[key] == word]}" for word in WORDS]
        lines.append(f"[event.{event}.moves]")
        for key, effect in kept.items():
            if isinstance(effect, list):
                ways = [f'name = "o{number}", {_way(target)}' for number, target in enumerate(effect)]
                lines.append(f'"{key}" = [{", ".join(f"{{ {way} }}" for way in ways)}]')
    return "\n".join(lines)


def _way(target: str) -> str:
    return "stays = true" if target == "stays" else f'to = "{target}"'
