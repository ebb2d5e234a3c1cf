"""Flatten a model with substates, so that other modules see only the innermost states.

Where a history may be entered, a state has a variant for each substate that may be remembered: ``lost(idle)`` and
``lost(busy)`` differ only in where the history leads. A state keeps its name if it does not matter what is remembered,
or if only one substate can be. Before a parent is entered for the first time, its initial substate is remembered.
"""

from collections.abc import Iterable, Mapping
from dataclasses import replace
from itertools import compress, islice, product
from typing import TypeAlias

from fsm.language.build.cells import ways
from fsm.language.build.problems import Problems
from fsm.language.machine_file import Written, WrittenState
from fsm.machine import Event, Machine, Override, Silent
from fsm.machine.hierarchy import HISTORY, Hierarchy, Parent
from fsm.machine.traversal import closure

_Memory: TypeAlias = tuple[str, tuple[str, ...]]  # a state, and what it remembers of each parent that matters there


def flattened(problems: Problems[Written]) -> Problems[Written]:
    """Return *problems* of the model without its parents, or refuse a hierarchy with errors in it."""
    states, here = problems.model.written.states, problems.below("states")
    inside = {name: each.in_ for name, each in states.items() if each.in_ is not None}
    for name, parent in inside.items():
        here.known("FSM160", f"state '{name}' is in the unknown state", parent, states, name, "in")
        if name in closure([parent], lambda each: [inside[each]] if each in inside else []):
            here.say("FSM160", f"state '{name}' is inside itself", "name an outer state", name, "in")
    parents = {name: each for name, each in states.items() if name in inside.values()}
    for name, each in states.items():
        own = [state for state, parent in inside.items() if parent == name]
        if own and each.initial not in own:
            lacks = f"'{each.initial}' is not one of them" if each.initial else "no 'initial'"
            hint = f"write initial = …, with one of {', '.join(own)}"
            here.say("FSM160", f"state '{name}' has substates, but {lacks}", hint, name, "initial")
        for word in sorted(({"kind", "aliases"} if own else {"initial", "history"}) & each.model_fields_set):
            what = f"state '{name}' has '{word}' and {'' if own else 'no '}substates"
            here.say("FSM160", what, f"leave out '{word}'" if own else f"write in = '{name}' in others", name, word)
        if name.removesuffix(HISTORY) in parents.keys() - {name}:
            here.say("FSM161", f"'{name}' is the name of a history", "choose another name for the state", name)
    problems.refuse()
    made = {name: Parent(about=at.about, initial=at.initial or "", history=at.history) for name, at in parents.items()}
    tree = Hierarchy(parents=made, inside=inside)
    leaves = {}
    for name in (each for each in states if each not in parents):
        shows = (states[each].shows for each in (name, *tree.above(name)))
        shown = next((each for each in shows if each is not None), None)
        leaves[name] = states[name].model_copy(update={"shows": shown})
    return _with_states(problems, tree, leaves) if parents else problems


def _with_states(problems: Problems[Written], tree: Hierarchy, states: Mapping[str, WrittenState]) -> Problems[Written]:
    written = problems.model.written
    initial = tree.entered(written.machine.initial)
    header = written.machine.model_copy(update={"initial": tree.leads.get(("", initial), initial)})
    flat = written.model_copy(update={"states": states, "machine": header})
    names: dict[str, list[str]] = {}
    for state in states:
        for name in tree.above(state):
            names.setdefault(name, []).append(state)
    tree = replace(tree, names={name: tuple(those) for name, those in names.items()})
    return replace(problems, model=replace(problems.model, written=flat), tree=tree)


def _matters(leads: Mapping[str, Iterable[str]], leaves: Mapping[str, tuple[str, ...]]) -> dict[str, list[str]]:
    """Map each state to the parents whose history may be entered from there before they are entered otherwise."""
    before: dict[str, list[str]] = {state: [] for state in leads}
    for state, targets in leads.items():
        for target in (each for to in targets for each in leaves.get(to.removesuffix(HISTORY), (to,))):
            before[target].append(state)
    matters: dict[str, list[str]] = {state: [] for state in leads}
    for parent, own in leaves.items():
        outside = {state: [each for each in before[state] if each not in own] for state in before if state not in own}
        for state in closure((each for each in outside if parent + HISTORY in leads[each]), outside.__getitem__):
            matters[state].append(parent)
    return matters


def remembering(problems: Problems[Written], machine: Machine, most: int) -> Problems[Written]:
    """Return *problems* of the model with the variants of its states, or refuse more than *most* variants.

    Outcomes of *machine*, which has no variants, may lead to histories.
    """
    tree = machine.hierarchy
    leaves = {name: tree.names[name] for name, parent in tree.parents.items() if parent.history}
    rows: list[Event | Override] = [*machine.events.values()]
    rows += (each for profile in machine.profiles.values() for each in profile.overrides)
    cells = [each for row in rows for each in (*row.cells.items(), *row.ends.items())]
    leads: dict[str, dict[str, None]] = {state: {} for state in machine.states}
    for state, cell in cells:
        leads[state] |= dict.fromkeys(way.to for way in ways((cell,)))
    matters = _matters(leads, leaves)
    anything = ((state, of) for state, those in matters.items() for of in product(*map(leaves.__getitem__, those)))
    every: list[_Memory] = [*islice(anything, most + 1)]
    if len(every) > most:
        hint = "declare the history of fewer states, or split the machine into several machines"
        problems.say("FSM120", f"the states can have more than {most} variants to remember substates", hint, "states")
        problems.refuse()

    def after(at: _Memory, to: str) -> _Memory:
        known = {**dict(zip(matters[at[0]], at[1], strict=True)), **dict.fromkeys(tree.above(at[0]), at[0])}
        state = known.get(to.removesuffix(HISTORY), to)
        return state, tuple(known[parent] for parent in matters[state])

    def reached(starts: Iterable[_Memory]) -> tuple[_Memory, ...]:
        return closure(starts, lambda at: [after(at, to) for to in leads[at[0]]])

    starts = {state: (state, tuple(map(tree.entered, parents))) for state, parents in matters.items()}
    found = reached([starts[machine.initial]])
    if any(isinstance(cell, Silent) for _, cell in cells):
        found = tuple(every)  # After a silent cell, the machine may be in any state and remember anything.
    met = {state for state, _ in found}
    found = reached([*found, *(at for state, at in starts.items() if state not in met)])
    of: dict[str, list[tuple[str, ...]]] = {state: [] for state in machine.states}
    for state, remembered in sorted(found, key={at: index for index, at in enumerate(every)}.__getitem__):
        of[state].append(remembered)
    names: dict[_Memory, str] = {}
    states, inside = {}, {**tree.inside}
    for state, those in of.items():
        each = problems.model.written.states[state]
        differ = [len({*remembered}) > 1 for remembered in zip(*those, strict=True)]
        for remembered in those:
            words = "+".join(compress(remembered, differ))
            name = names[state, remembered] = f"{state}({words})" if words else state
            other = {
                "shows": each.shows or state,
                "aliases": [*each.aliases, state],
                "kind": each.kind if each.kind != "initial" else None,
            }
            states[name] = each.model_copy(update=other) if words else each
            inside |= {name: state} if words else {}
    targets = {(name, to): names[after(at, to)] for at, name in names.items() for to in leads[at[0]]}
    targets["", machine.initial] = names[starts[machine.initial]]
    return _with_states(problems, replace(tree, inside=inside, leads=targets, written=machine), states)
