"""Resolve the names that a file defines: sets of states, and conditions.

A name may be used wherever its definition may.  It must therefore not already mean something there.  It must also be
used, and its definition must not depend on the name itself.
"""

import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import Final, TypeAlias

from fsm.language.build.problems import Problems
from fsm.language.read import F
from fsm.machine.traversal import closure

_WORD: Final = re.compile(r"[A-Za-z0-9_.-]+")

Definitions: TypeAlias = "Mapping[str, str | tuple[str, ...]]"
"""Maps each name to its definition: the text of a condition, or all states of a set."""


def definitions(
    problems: Problems[F],
    define: Mapping[str, str | Sequence[str]],
    *,
    states: Collection[str],
    taken: Mapping[str, Collection[str]],
    texts: Iterable[str],
) -> dict[str, str | tuple[str, ...]]:
    """Return the definitions.  Conditions stay as written, and nested sets are replaced by their states.

    Report names in *taken*, which are left out, and definitions that none of *texts* uses.  Also report sets with
    members that are not states, and circular definitions.  *taken* maps a kind of thing to its names.
    """
    members = (*states, *(name for name, value in define.items() if not isinstance(value, str)))
    needs = {name: _words(value) & define.keys() for name, value in define.items()}
    for name, value in define.items():
        for kind, names in {"state": states, **taken}.items():
            if name in names:
                what = f"'{name}' is defined here and is the name of {'an' if kind[0] in 'aeiou' else 'a'} {kind}"
                problems.say("FSM128", what, "choose a name that means nothing else", "define", name)
        for index, each in enumerate(() if isinstance(value, str) else value):
            problems.known("FSM102", "unknown state", each, members, "define", name, index)
    _check_circles(problems, needs)
    used = {*closure(set().union(*map(_words, texts)) & define.keys(), needs.__getitem__)}
    for name in define:
        if name not in used:
            problems.say("FSM129", f"nothing uses '{name}'", "use it, or drop it", "define", name)
    return {
        name: value
        if isinstance(value, str)
        else tuple(dict.fromkeys(each for each in _members(define, name) if each in states))
        for name, value in define.items()
        if not any(name in names for names in (states, *taken.values()))
    }


def _words(value: str | Sequence[str]) -> set[str]:
    return set(_WORD.findall(value) if isinstance(value, str) else value)


def _check_circles(problems: Problems[F], needs: Mapping[str, Collection[str]]) -> None:
    below = {name: {*closure(each, needs.__getitem__)} for name, each in needs.items()}
    noted: set[str] = set()
    for name, names in below.items():
        if name in names and name not in noted:
            circle = [each for each in needs if each in names and name in below[each]]
            noted.update(circle)
            listed = " and ".join(f"'{each}'" for each in circle)
            verb = "is defined by itself" if len(circle) == 1 else "are defined by each other"
            problems.say("FSM130", f"{listed} {verb}", "define one of them without the others", "define", name)


def _members(define: Mapping[str, str | Sequence[str]], name: str, met: frozenset[str] = frozenset()) -> Iterator[str]:
    value = define.get(name, "")
    for each in () if isinstance(value, str) or name in met else value:
        yield each
        yield from _members(define, each, met | {name})
