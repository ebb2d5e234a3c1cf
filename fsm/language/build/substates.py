"""Flatten a model with substates, so that other modules see only the innermost states."""

from dataclasses import replace
from typing import Any

from fsm.language.build.problems import Problems
from fsm.language.machine_file import Written, WrittenState
from fsm.machine.hierarchy import HISTORY, Hierarchy, Parent
from fsm.machine.traversal import closure


def remembering(problems: Problems[Written], tree: Hierarchy, initial: str) -> Problems[Written]:
    """Return *problems* of the model with the variants in *tree* instead of its states."""
    states = {}
    for name, of in tree.variants.items():
        each = problems.model.written.states[of]
        kind = None if each.kind == "initial" else each.kind
        other = {"shows": each.shows or of, "aliases": [*each.aliases, of], "kind": kind}
        states[name] = each.model_copy(update=other) if name != of else each
    return _with_states(problems, states, initial)


def _with_states(problems: Problems[Written], states: dict[str, WrittenState], initial: str) -> Problems[Written]:
    header = problems.model.written.machine.model_copy(update={"initial": initial})
    written = problems.model.written.model_copy(update={"states": states, "machine": header})
    return replace(problems, model=replace(problems.model, written=written))


def flattened(problems: Problems[Written]) -> tuple[Problems[Written], Hierarchy]:
    """Return *problems* of the model without its parents, and the hierarchy, or refuse a model with errors in it."""
    states, here = problems.model.written.states, problems.below("states")
    inside = {name: each.in_ for name, each in states.items() if each.in_ is not None}
    for name, parent in inside.items():
        here.known("FSM160", f"state '{name}' is in the unknown state", parent, states, name, "in")
        if name in closure([parent], lambda each: [inside[each]] if each in inside else []):
            here.say("FSM160", f"state '{name}' is inside itself", "let 'in' name an outer state", name, "in")
    parents = {name: each for name, each in states.items() if name in inside.values()}
    for name, each in states.items():
        own = [state for state, parent in inside.items() if parent == name]
        if own and each.initial not in own:
            what = f"state '{name}' has substates, but '{each.initial}' is not the first of them to be entered"
            what = what if each.initial else f"'initial' is missing from state '{name}', which has substates"
            here.say("FSM161", what, f"let 'initial' be one of {', '.join(own)}", name, "initial")
        for word in {"initial", "history"} & each.model_fields_set if not own else ():
            what = f"state '{name}' has '{word}', but no substates"
            here.say("FSM161", what, f"leave out '{word}', or write in = '{name}' in its substates", name, word)
        if name.removesuffix(HISTORY) in parents.keys() - {name}:
            what = f"state '{name}' has the name of the history of '{name.removesuffix(HISTORY)}'"
            here.say("FSM162", what, "choose another name", name)
    problems.refuse()
    tree = Hierarchy(
        parents={
            name: Parent(about=each.about, initial=each.initial or "", history=each.history)
            for name, each in parents.items()
        },
        inside=inside,
    )
    initial = tree.entered(problems.model.written.machine.initial)

    def inherited(name: str) -> dict[str, Any]:
        found: dict[str, Any] = {}
        for each in (states[name], *map(states.__getitem__, tree.above(name))):
            own = each.model_dump(include={"shows", "kind", "aliases"}, exclude_defaults=True)
            found = {**own, **found}
        return {word: value for word, value in found.items() if (word, name) != ("kind", initial)}

    leaves = {name: each.model_copy(update=inherited(name)) for name, each in states.items() if name not in parents}
    return (_with_states(problems, leaves, initial) if parents else problems), tree
