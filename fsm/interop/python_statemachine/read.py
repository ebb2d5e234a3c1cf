"""Definitions of the library `python-statemachine`, version 3, in its JSON or as YAML with the same keys."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from fsm.interop.charts import FLAT, ChartState, ChartTransition, StateChart, draft_of
from fsm.interop.draft import Draft
from fsm.interop.key_words import check_keys, flag, text, texts
from fsm.interop.source_text import SourceProblems
from fsm.interop.yaml_nodes import YamlNode

FORM: Final = "a definition of python-statemachine"
DOCUMENT: Final = frozenset({"name", "description", "datamodel", "states"})
NESTED: Final = ("states", "parallel", "history", "invoke")
STATE: Final = frozenset({*NESTED, "initial", "final", "enter", "exit", "transitions", "donedata"})
SLOTS: Final = ("before", "on", "after")
TRANSITION: Final = frozenset({*SLOTS, "event", "target", "cond", "unless", "internal", "initial"})
ACTIONS: Final = frozenset({"assign", "raise", "log", "if", "foreach", "send", "cancel", "script"})
CHOOSING: Final = ("raise", "if", "foreach")
"""Actions that make a step cause another one, or send an event conditionally."""


def read(root: YamlNode, name: str, problems: SourceProblems) -> Draft:
    """The draft that the definition *root* defines; called *name* if it has no name."""
    return _Reader(problems=problems).draft(root, name)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Reader:
    problems: SourceProblems

    def draft(self, root: YamlNode, name: str) -> Draft:
        check_keys(root, DOCUMENT, self.problems, of="the definition")
        written = root.entries.get("states")
        if written is None or not written.entries:
            line = written.line if written else root.line
            self.problems.add("FSM509", line, "has no states", 'add: "states": { … }')
        states = written.entries if written else {}
        begin = [
            key
            for key, node in states.items()
            if flag(node.entries.get("initial"), self.problems, of=f"'initial' of state '{key}'")
        ]
        if len(begin) > 1:
            line = states[begin[1]].line
            self.problems.add("FSM513", line, f"several states are initial: {', '.join(begin)}", "keep one of them")
        data = root.entries.get("datamodel")
        about = text(root.entries.get("description"), self.problems, of="description")
        chart = StateChart(
            name=text(root.entries.get("name"), self.problems, of="name") or name,
            form=FORM,
            about=about,
            states=[self._state(key, node, written.keys[key] if written else 0) for key, node in states.items()],
            initial=begin[0] if begin else "",
            notes=("Its data are left out; what depends on them is a choice of the environment.",) if data else (),
        )
        return draft_of(chart, self.problems)

    def _state(self, name: str, node: YamlNode, line: int) -> ChartState:
        of = f"state '{name}'"
        if not isinstance(node.value, dict) and node.value is not None:
            self.problems.add("FSM508", node.line, f"{of} is {node.kind}", "give a mapping")
        check_keys(node, STATE, self.problems, of=of)
        for word in NESTED:
            if word in node.entries and node.entries[word].value not in (None, False, [], {}):
                what = f"{of} has '{word}': it is not flat"
                self.problems.add("FSM511", node.keys[word], what, FLAT)
        entered, enters = self._actions(node.entries.get("enter"), f"'enter' of {of}")
        left, leaves = self._actions(node.entries.get("exit"), f"'exit' of {of}")
        notes = [
            f"{when}: {', '.join(called)}." for when, called in (("On entry", entered), ("On exit", left)) if called
        ]
        transitions = node.entries.get("transitions")
        found = transitions.items if transitions and transitions.value is not None else []
        return ChartState(
            name=name,
            line=line,
            final=bool(flag(node.entries.get("final"), self.problems, of=f"'final' of {of}")),
            enters=tuple(enters),
            leaves=tuple(leaves),
            notes=tuple(notes),
            transitions=tuple(self._transition(each, of) for each in found),
        )

    def _transition(self, node: YamlNode, of: str) -> ChartTransition:
        of = f"a transition of {of}"
        if not isinstance(node.value, dict):
            self.problems.add("FSM508", node.line, f"{of} is {node.kind}", "give a mapping with event and target")
            return ChartTransition(events=("_",), target="", line=node.line)
        check_keys(node, TRANSITION, self.problems, of=of)
        calls: list[str] = []
        emits: list[str] = []
        for word in SLOTS:
            called, sent = self._actions(node.entries.get(word), f"'{word}' of {of}")
            calls += [f"{word.capitalize()}: {', '.join(called)}."] if called else []
            emits += sent
        entries = node.entries
        target = entries.get("target")
        unless = texts(entries.get("unless"), self.problems, of=f"'unless' of {of}")
        return ChartTransition(
            events=tuple(text(entries.get("event"), self.problems, of=f"the event of {of}").split()),
            target=text(target, self.problems, of=f"the target of {of}") if target and target.value is not None else "",
            line=node.line,
            when=(
                *texts(entries.get("cond"), self.problems, of=f"'cond' of {of}"),
                *(f"not {each}" for each in unless),
            ),
            emits=tuple(emits),
            notes=tuple(calls),
        )

    def _actions(self, node: YamlNode | None, of: str) -> tuple[list[str], list[str]]:
        """The callbacks named at *node*, and the events sent to another machine there."""
        called: list[str] = []
        sent: list[str] = []
        for each in node.items if node and node.value is not None else []:
            if isinstance(each.value, str):
                called.append(each.value)
                continue
            check_keys(each, ACTIONS, self.problems, of=of)
            for word in CHOOSING:
                if word in each.entries:
                    what = f"{of} has '{word}', by which one step causes others or chooses among them"
                    hint = "give each choice a transition of its own"
                    self.problems.add("FSM512", each.keys[word], what, hint)
            sent += self._sent(each.entries.get("send"), of)
        return called, sent

    def _sent(self, node: YamlNode | None, of: str) -> Iterator[str]:
        """The event sent at *node*, if it has a target."""
        if node and "target" in node.entries:
            yield text(node.entries.get("event"), self.problems, of=f"the event sent by {of}")
