"""The vocabulary of model and property files: as JSON Schema for editors, and by place in a file for hints."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Final, get_args

from fsm.language.machine_file import Code, Form, Name, Reply, StateKey, Written
from fsm.language.vocabularies import MethodPattern, Stated, WrittenFaults, WrittenSystem

_Node = dict[str, Any]

_PHRASES: Final[Mapping[str, str]] = {
    get_args(kind)[1].pattern: phrase
    for kind, phrase in (
        (Name, "a name of letters, digits, '_', '.' and '-'"),
        (StateKey, "the name of a state, or '*' for every state that is not mentioned"),
        (Code, "an error reply in capitals, such as NOT_FOUND, or 'error' for any"),
        (MethodPattern, "the name of a method, its whole path, or '*' for every one"),
        (Reply, "'ok', an error reply in capitals, such as NOT_FOUND, or 'error' for any"),
    )
}
"""Maps each pattern of the language to its description."""


_TITLES: Final[Mapping[type[Form], tuple[str, str]]] = {
    Written: (
        "model",
        "An executable specification of a lifecycle: its states, and the effect of each event in each state.",
    ),
    WrittenSystem: ("system", "Machines that step together: the parts, and their joint events."),
    Stated: ("property", "Properties of a lifecycle, each with its source."),
    WrittenFaults: ("faults", "The calls that 'fsm proxy --rules' delays, fails or cancels."),
}


def schema(form: type[Form] = Written) -> dict[str, Any]:
    """Return the JSON Schema (draft 2020-12) of a model file, or of a file of another *form*.

    It does not detect unknown state names and similar errors, which :func:`fsm.language.build.build` does.

    >>> schema()["required"]
    ['machine', 'states', 'event']
    """
    name, about = _TITLES[form]
    written = form.model_json_schema()
    definitions = {name: _tidy(node) for name, node in written.pop("$defs").items()}
    body = _tidy(written)
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "$id": f"urn:container-fsm:{name}:1",
        "title": f"fsm {name}",
        "description": about,
        **{key: value for key, value in body.items() if key != "description"},
        "$defs": definitions,
    }


def _tidy(node: _Node) -> _Node:
    """Return *node* without pydantic's additions for Python, and closed to unknown names."""
    tidy = {key: value for key, value in node.items() if key not in {"title", "anyOf", "oneOf"}}
    # TOML has no null, so drop it: an absent word is simply not written.
    ways = [_tidy(each) for each in (*node.get("anyOf", ()), *node.get("oneOf", ())) if each != {"type": "null"}]
    if len(ways) == 1:
        tidy = {**ways[0], **tidy}
    elif ways:
        tidy["oneOf"] = ways
    if tidy.get("default", ...) is None:
        del tidy["default"]
    for key in ("properties", "patternProperties"):
        if key in tidy:
            tidy[key] = {name: _tidy(below) for name, below in tidy[key].items()}
    for key in ("items", "additionalProperties"):
        if isinstance(tidy.get(key), dict):
            tidy[key] = _tidy(tidy[key])
    if "patternProperties" in tidy:
        tidy["additionalProperties"] = False
    if tidy.get("pattern") in _PHRASES:
        tidy.setdefault("description", _PHRASES[tidy["pattern"]])
    return tidy


@dataclass(frozen=True, slots=True, kw_only=True)
class Vocabulary:
    """The words and values that the language allows at a path of keys, such as ``("event", "push", "kind")``."""

    root: Mapping[str, Any] = field(default_factory=schema)

    def words(self, *path: str | int) -> tuple[str, ...]:
        """Return the words that a table at *path* may have; empty if the author chooses the names there.

        >>> Vocabulary().words("states", "open")
        ('about', 'shows', 'kind', 'aliases')
        """
        return tuple(dict.fromkeys(word for form in self._at(path) for word in form.get("properties", {})))

    def values(self, *path: str | int) -> tuple[str, ...]:
        """Return the values allowed at *path*; empty if the vocabulary does not list them.

        >>> Vocabulary().values("event", "push", "kind")
        ('call', 'signal', 'hidden')
        """
        return tuple(value for form in self._at(path) for value in form.get("enum", ()))

    def expected(self, *path: str | int) -> str:
        """Return a description of the value expected at *path*, as the end of a sentence.

        >>> Vocabulary().expected("machine", "about")
        'text in quotes'
        """
        return self._either(self._at(path))

    def names(self, *path: str | int) -> str:
        """Return the names that the table at *path* may have, as the end of a sentence."""
        patterns = (pattern for form in self._at(path) for pattern in form.get("patternProperties", ()))
        return ", or ".join(map(_PHRASES.__getitem__, patterns))

    def _at(self, path: tuple[str | int, ...]) -> list[_Node]:
        here = list(self._forms(self.root))
        for part in path:
            here = [form for node in here for below in _below(node, part) for form in self._forms(below)]
        return here

    def _forms(self, node: Mapping[str, Any]) -> Iterator[_Node]:
        if "$ref" in node:
            yield from self._forms(self.root["$defs"][node["$ref"].removeprefix("#/$defs/")])
        elif "oneOf" in node:
            for each in node["oneOf"]:
                yield from self._forms(each)
        else:
            yield dict(node)

    def _either(self, forms: Iterable[_Node]) -> str:
        phrases: list[str] = []
        for phrase in map(self._phrase, forms):
            repeated = phrase.removeprefix("a list, each entry ") in phrases
            phrases.append("a list of them" if repeated else phrase)
        return ", or ".join(phrases)

    def _phrase(self, form: _Node) -> str:
        match form:
            case {"enum": values}:
                return f"one of {', '.join(map(repr, values))}"
            case {"type": "string"}:
                return _PHRASES.get(form.get("pattern", ""), "text in quotes")
            case {"type": "array", "items": items}:
                return f"a list, each entry {self._either(self._forms(items))}"
            case {"type": "boolean"}:
                return "true or false"
            case _:
                return "a table"


def _below(form: _Node, part: str | int) -> Iterator[_Node]:
    """Yield the schemas for a value under *part* in *form*, even if *part* is not a valid name."""
    if isinstance(part, int):
        if "items" in form:
            yield form["items"]
    elif part in form.get("properties", {}):
        yield form["properties"][part]
    else:
        yield from form.get("patternProperties", {}).values()
        if isinstance(form.get("additionalProperties"), dict):
            yield form["additionalProperties"]
