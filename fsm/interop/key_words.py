"""The vocabulary of a format: the keys that a mapping may have, and the values under them."""

from collections.abc import Collection

from fsm.errors import nearest
from fsm.interop.source_text import SourceProblems
from fsm.interop.yaml_nodes import YamlNode


def check_keys(node: YamlNode, known: Collection[str], problems: SourceProblems, *, of: str) -> None:
    """Add a problem for each key of *node* that is not *known*."""
    for key in node.entries:
        if key not in known:
            hint = nearest(key, sorted(known), of="words")
            problems.add("FSM508", node.keys[key], f"{of} has an unknown word {key!r}", hint)


def text(node: YamlNode | None, problems: SourceProblems, *, of: str) -> str:
    """The text of *node*; empty, with a problem, if it is no text."""
    if node is not None and isinstance(node.value, str) and node.value:
        return node.value
    if node is not None:
        problems.add("FSM508", node.line, f"{of} is {node.kind}", "give a name")
    return ""


def texts(node: YamlNode | None, problems: SourceProblems, *, of: str) -> tuple[str, ...]:
    """The texts of *node*, which is a text or a list of them; none if it is missing or null."""
    if node is None or node.value is None:
        return ()
    return tuple(found for each in node.items if (found := text(each, problems, of=of)))


def flag(node: YamlNode | None, problems: SourceProblems, *, of: str) -> bool | None:
    """Whether *node* is true; ``None`` if it is missing or null."""
    if node is None or node.value is None:
        return None
    if not isinstance(node.value, bool):
        problems.add("FSM508", node.line, f"{of} is {node.kind}", "give true or false")
        return None
    return node.value
