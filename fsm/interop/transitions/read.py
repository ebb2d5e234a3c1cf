"""Configurations of the library `transitions`: the dictionary of its markup form, or of its constructor.

A trigger becomes a call.  It replies ``ok`` where the library returns, and ``error``
where it raises: in a state from which the trigger has no transition, unless invalid
triggers are ignored.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Final

from fsm.interop.draft import Draft, DraftState, DraftTransition
from fsm.interop.key_words import check_keys, flag, text, texts
from fsm.interop.source_text import SourceProblems
from fsm.interop.yaml_nodes import YamlNode

FORM: Final = "a configuration of transitions"
CALLBACKS: Final = (
    "before_state_change",
    "after_state_change",
    "prepare_event",
    "finalize_event",
    "on_exception",
    "on_final",
)
MACHINE: Final = frozenset(
    {
        *CALLBACKS,
        *("states", "transitions", "initial", "name", "send_event", "auto_transitions", "ordered_transitions"),
        *("ignore_invalid_triggers", "queued", "model", "models", "model_attribute", "model_override"),
    }
)
NESTED: Final = ("children", "states", "parallel", "initial", "transitions")
STATE: Final = frozenset(
    {
        *NESTED,
        *("name", "on_enter", "on_exit", "ignore_invalid_triggers", "final"),
        *("timeout", "on_timeout", "tags", "label"),
    }
)
TRANSITION: Final = ("trigger", "source", "dest", "conditions", "unless", "before", "after", "prepare")
"""In the order in which a list has them."""

ALL: Final = "*"
SAME: Final = "="
ADDED: Final = "initial"
"""The initial state of a configuration that does not define it."""


def read(root: YamlNode, name: str, problems: SourceProblems) -> Draft:
    """The draft that the configuration *root* defines, in the file *problems.path*; called *name* if it has no name."""
    return _Reader(root=root, problems=problems).draft(name)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Reader:
    root: YamlNode
    problems: SourceProblems

    def draft(self, name: str) -> Draft:
        root, problems = self.root, self.problems
        check_keys(root, MACHINE, problems, of="the configuration")
        places = {place.name: place for place in self._places()}
        initial = self._initial(places)
        arrows = [*self._arrows(places), *self._ordered(places, initial)]
        return Draft(
            name=text(root.entries.get("name"), problems, of="name") or name,
            file=problems.path,
            form=FORM,
            kind="call",
            initial=initial,
            states=tuple(places.values()),
            transitions=tuple(arrows),
            notes=tuple(self._notes()),
        )

    def _notes(self) -> Iterator[str]:
        yield "A trigger is a call: its reply is ok where transitions returns, and error where it raises."
        if flag(self.root.entries.get("auto_transitions"), self.problems, of="auto_transitions") is not False:
            yield "The automatic triggers to_STATE, which may be called everywhere, are left out."
        for word in CALLBACKS:
            if called := texts(self.root.entries.get(word), self.problems, of=word):
                yield f"{word} calls {', '.join(called)}."

    def _places(self) -> Iterator[DraftState]:
        states = self.root.entries.get("states")
        if states is None or not states.items or states.value is None:
            self.problems.add("FSM509", self.root.line, "has no states", "add: states: [...]")
            return
        ignores = self._ignores(self.root)
        seen: set[str] = set()
        for node in states.items:
            name_of = node.entries.get("name") if isinstance(node.value, dict) else node
            if name_of is None:
                self.problems.add("FSM509", node.line, "state has no name", "add: name")
                continue
            name = text(name_of, self.problems, of="the name of a state")
            if name in seen:
                self.problems.add("FSM513", node.line, f"state '{name}' occurs twice", "keep one of them")
            elif name:
                seen.add(name)
                yield self._place(name, node, ignores=ignores)

    def _place(self, name: str, node: YamlNode, *, ignores: bool | None) -> DraftState:
        check_keys(node, STATE, self.problems, of=f"state '{name}'")
        for word in NESTED:
            if word in node.entries and node.entries[word].value not in (None, False, []):
                what = f"state '{name}' has '{word}': it holds states of its own"
                hint = "write one flat state for each of them; a machine here is in one state at a time"
                self.problems.add("FSM511", node.keys[word], what, hint)
        own = self._ignores(node)
        notes = [
            f"{when}: {', '.join(called)}."
            for when, word in (("On entry", "on_enter"), ("On exit", "on_exit"), ("Tags", "tags"))
            if (called := texts(node.entries.get(word), self.problems, of=f"'{word}' of state '{name}'"))
        ]
        if flag(node.entries.get("final"), self.problems, of=f"'final' of state '{name}'"):
            notes.insert(0, "Final.")
        return DraftState(name=name, ignores=bool(ignores if own is None else own), notes=tuple(notes))

    def _ignores(self, node: YamlNode) -> bool | None:
        word = "ignore_invalid_triggers"
        return flag(node.entries.get(word), self.problems, of=word)

    def _initial(self, places: dict[str, DraftState]) -> str:
        """The name of the initial state, which is added to *places* if it is missing."""
        node = self.root.entries.get("initial")
        if node is not None and node.value is None:
            hint = "give the state in which every run begins"
            self.problems.add("FSM509", node.line, "has no initial state", hint)
        name = text(node, self.problems, of="initial") if node else ADDED
        if name and name not in places:
            if node:
                self.problems.unknown(node.line, "initial is", name, places)
            places[name] = DraftState(name=name, ignores=bool(self._ignores(self.root)))
        return name

    def _arrows(self, places: dict[str, DraftState]) -> Iterator[DraftTransition]:
        transitions = self.root.entries.get("transitions")
        if transitions is None or transitions.value is None:
            return
        self.problems.check_size(transitions.line, len(places), len(transitions.items))
        attribute = self.root.entries.get("model_attribute")
        for node in transitions.items:
            words = self._words(node)
            trigger = text(words.get("trigger"), self.problems, of="the trigger of a transition")
            if trigger and trigger == (attribute.text if attribute else "state"):
                what = f"trigger '{trigger}' has the name of the model's attribute that holds the state"
                self.problems.add("FSM508", node.line, what, "rename it")
            elif trigger:
                yield from self._of(trigger, node, words, places)

    def _words(self, node: YamlNode) -> dict[str, YamlNode]:
        """The parts of one transition by their names."""
        if isinstance(node.value, dict):
            check_keys(node, {*TRANSITION, "label"}, self.problems, of="the transition")
            words = node.entries
            needed: tuple[str, ...] = TRANSITION[:2]
        elif isinstance(node.value, list) and len(node.value) <= len(TRANSITION):
            words = dict(zip(TRANSITION, node.value, strict=False))
            needed = TRANSITION[:3]
        else:
            hint = "give a mapping with trigger, source and dest, or a list of them in this order"
            self.problems.add("FSM508", node.line, f"a transition is {node.kind}", hint)
            return {}
        for word in needed:
            if word not in words:
                self.problems.add("FSM509", node.line, f"transition has no {word}", f"add: {word}")
        return words

    def _of(
        self, trigger: str, node: YamlNode, words: dict[str, YamlNode], places: dict[str, DraftState]
    ) -> Iterator[DraftTransition]:
        """The draft's transitions for one transition of the configuration, one from each source."""
        of = f"of trigger '{trigger}'"
        sources = texts(words.get("source"), self.problems, of=f"source {of}")
        dest = words.get("dest")
        to = text(dest, self.problems, of=f"dest {of}") if dest and dest.value is not None else ""
        if to and to != SAME and to not in places:
            self.problems.unknown(dest.line if dest else node.line, f"trigger '{trigger}' leads to", to, places)
            return
        conditions = texts(words.get("conditions"), self.problems, of=f"conditions {of}")
        unless = texts(words.get("unless"), self.problems, of=f"unless {of}")
        notes = tuple(
            f"{when}: {', '.join(called)}."
            for when, word in (("Prepared by", "prepare"), ("Before", "before"), ("After", "after"))
            if (called := texts(words.get(word), self.problems, of=f"{word} {of}"))
        )
        for source in places if sources == (ALL,) else sources:
            if source not in places:
                line = words["source"].line
                self.problems.unknown(line, f"trigger '{trigger}' leads from", source, places)
                continue
            yield DraftTransition(
                event=trigger,
                source=source,
                to="" if to in {SAME, source} else to,
                when=(*conditions, *(f"not {each}" for each in unless)),
                notes=notes,
            )

    def _ordered(self, places: Iterable[str], initial: str) -> Iterator[DraftTransition]:
        """The transitions from each state to the next, if the configuration requests them."""
        node = self.root.entries.get("ordered_transitions")
        if not flag(node, self.problems, of="ordered_transitions"):
            return
        names = list(places)
        at = names.index(initial) if initial in names else 0
        names = names[at:] + names[:at]
        for source, to in zip(names, [*names[1:], *names[:1]], strict=True):
            yield DraftTransition(event="next_state", source=source, to=to)
