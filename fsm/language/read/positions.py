"""Where each key and each entry of a TOML document stands."""

import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TypeAlias

import tree_sitter
import tree_sitter_toml

Keys: TypeAlias = tuple[str | int, ...]
"""A path into a document: ``("event", "push", "moves", "shut", 0)``."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Lines:
    """Line numbers by path of keys."""

    of: Mapping[Keys, int]

    def find(self, *path: str | int) -> int:
        """The line of *path*, or of the nearest table around it; 1 if there is none."""
        for length in range(len(path), 0, -1):
            if (line := self.of.get(path[:length])) is not None:
                return line
        return 1


def locate(data: bytes) -> Lines:
    """The line of every key and entry in the TOML document *data*, which must be valid.

    A table that is only implied, as ``event`` is by ``[event.push]``, is where
    it is first mentioned; one that has a header of its own is there.
    """
    tree = tree_sitter.Parser(tree_sitter.Language(tree_sitter_toml.language())).parse(data)
    walk = _Walk(implied={}, written={}, entries={})
    walk.keys(tree.root_node, ())
    return Lines(of={**walk.implied, **walk.written})


@dataclass(frozen=True, slots=True, kw_only=True)
class _Walk:
    """Where tables are implied, where keys are written, and how many ``[[…]]`` a table has so far."""

    implied: dict[Keys, int]
    written: dict[Keys, int]
    entries: dict[Keys, int]

    def keys(self, node: tree_sitter.Node, at: Keys) -> None:
        """Note the keys in *node*, the document or a table, which stands *at* this path."""
        for child in node.named_children:
            match child.type:
                case "pair":
                    key, value, *_ = child.named_children  # a comment may follow
                    self._value(value, self._key(key, at))
                case "table" | "table_array_element":
                    self._table(child)
                case "ERROR":
                    self.keys(child, at)

    def _table(self, node: tree_sitter.Node) -> None:
        at = self._key(node.named_children[0], ())
        if node.type == "table_array_element":
            index = self.entries.get(at, 0)
            self.entries[at] = index + 1
            at = (*at, index)
            self.written[at] = node.start_point[0] + 1
        self.keys(node, at)

    def _value(self, node: tree_sitter.Node, at: Keys) -> None:
        match node.type:
            case "array":
                for index, item in enumerate(each for each in node.named_children if each.type != "comment"):
                    self.written[*at, index] = item.start_point[0] + 1
                    self._value(item, (*at, index))
            case "inline_table":
                self.keys(node, at)

    def _key(self, key: tree_sitter.Node, prefix: Keys) -> Keys:
        """The path of *key* under *prefix*, noted with its line."""
        line = key.start_point[0] + 1
        *around, last = _parts(key)
        for part in around:
            prefix = (*prefix, part)
            self.implied.setdefault(prefix, line)
            if prefix in self.entries:  # a header inside [[…]] means its latest entry
                prefix = (*prefix, self.entries[prefix] - 1)
        prefix = (*prefix, last)
        self.written.setdefault(prefix, line)
        return prefix


def _parts(key: tree_sitter.Node) -> tuple[str, ...]:
    if key.type == "dotted_key":
        return tuple(part for child in key.named_children for part in _parts(child))
    text = (key.text or b"").decode("utf-8")
    return (text,) if key.type == "bare_key" else tuple(tomllib.loads(f"{text} = 0"))
