"""Generate random models as TOML that combine data, arguments, guards, slow calls, timers and substates."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from interpreter import HISTORY, Interpreter
from random_data import random_condition, random_term

if TYPE_CHECKING:
    import random

Model: TypeAlias = dict[str, Any]

FEATURES: Final = frozenset(
    {"data", "time", "slow", "hidden", "choice", "scope", "tree", "silent", "interrupts", "alike", "outputs"}
)
"""The features of models.  ``alike`` are states that show the same text, and variables that are not shown."""

VARIABLES: Final[dict[str, tuple[Model, tuple[Model, ...]]]] = {
    "n": ({"from": 0, "to": 2}, ({}, {"saturates": True}, {"scope": True}, {"initial": 1})),
    "m": ({"from": -1, "to": 1}, ({}, {"saturates": True}, {"scope": True}, {"initial": 0})),
    "b": ({"type": "bool"}, ({}, {"initial": True})),
    "w": ({"values": ["red", "blue", "grey"]}, ({}, {"initial": "blue"})),
}
ARGUMENTS: Final[Model] = {
    "x": {"from": 0, "to": 2, "scope": True},
    "y": {"from": -1, "to": 1},
    "c": {"type": "bool"},
    "v": {"values": ["red", "blue", "grey"]},
}


def random_text(chance: random.Random, features: frozenset[str] = FEATURES, *, unit: str = "{} s") -> str:
    """Return a random model that has no faults, according to the interpreter.  *unit* formats the times of timers."""
    while True:
        text = model_text(random_model(chance, features, unit=unit))
        if not Interpreter(text).faults():
            return text


def random_model(chance: random.Random, features: frozenset[str] = FEATURES, *, unit: str = "{} s") -> Model:
    """Return a random model.  Its guards may overlap or leave values out, and its updates may leave a range."""
    return _Maker(chance, features, unit).model()


def model_text(model: Model) -> str:
    lines = []
    for head, table in model.items():
        for name, rows in table.items() if head in {"event", "timer"} else [("", table)]:
            lines += [f"[{head}.{name}]" if name else f"[{head}]"]
            lines += [f"{_key(key)} = {_value(value)}" for key, value in rows.items()]
    return "\n".join(lines) + "\n"


def _key(key: str) -> str:
    return key if key.isalnum() else json.dumps(key)


def _value(value: Any) -> str:  # noqa: ANN401  (what TOML has)
    match value:
        case dict():
            return f"{{ {', '.join(f'{_key(key)} = {_value(each)}' for key, each in value.items())} }}"
        case list():
            return f"[{', '.join(map(_value, value))}]"
        case _:
            return json.dumps(value)


class _Maker:
    def __init__(self, chance: random.Random, features: frozenset[str], unit: str) -> None:
        self.chance, self.features, self.unit = chance, features, unit
        self.states: Model = {f"s{number}": {"about": "A."} for number in range(chance.randint(3, 4))}
        self.leaves = [*self.states]
        self.data: Model = {}
        self.targets = [*self.leaves]

    def has(self, feature: str, probability: float = 1.0) -> bool:
        return feature in self.features and self.chance.random() < probability

    def model(self) -> Model:
        chance = self.chance
        if self.has("tree"):
            self.add_parents()
        for state in self.states.values():
            if self.has("alike", 0.3):
                state["shows"] = chance.choice("AB")
        self.targets += [name + HISTORY for name, state in self.states.items() if "history" in state] * 2
        for name in chance.sample([*VARIABLES], chance.choice((1, 1, 2))) if self.has("data") else ():
            words, more = VARIABLES[name]
            some = [each for each in more if self.has("scope") or "scope" not in each]
            self.data[name] = {**words, **chance.choice(some), "shown": not self.has("alike", 0.5)}
        kinds = ["call", chance.choice(("call", "signal")), "hidden" if self.has("hidden", 0.4) else "signal"]
        events = {f"{kind[0]}{number}": self.event(kind) for number, kind in enumerate(kinds)}
        timers = self.timers(events) if self.has("time") else {}
        head = {
            "name": "random",
            "title": "R",
            "about": "R.",
            "source": "none",
            "initial": chance.choice([*self.states]),
        }
        model = {"machine": head, "states": self.states, "data": self.data, "event": events, "timer": timers}
        return {name: table for name, table in model.items() if table}

    def add_parents(self) -> None:
        tops = [*self.leaves]
        for number in range(self.chance.choice((0, 1, 1, 2))):
            name, inside = f"p{number}", self.chance.sample(tops, self.chance.randint(1, 2))
            self.states[name] = {"about": "P.", "initial": self.chance.choice(inside)}
            self.states[name] |= {"history": True} if self.chance.random() < 0.6 else {}
            for each in inside:
                self.states[each]["in"] = name
            tops = [each for each in tops if each not in inside] + [name]
            self.targets.append(name)

    def above(self, name: str) -> list[str]:
        return [name, *(self.above(self.states[name]["in"]) if "in" in self.states[name] else ())]

    def entered(self, name: str) -> str:
        return self.entered(self.states[name]["initial"]) if "initial" in self.states[name] else name

    def timers(self, events: Model) -> Model:
        """Return one or two timers, and add their events to *events*."""
        timers = {}
        for number in range(self.chance.choice((1, 1, 2))):
            inside = self.chance.sample([*self.states], self.chance.choice((1, 1, 2)))
            running = [leaf for leaf in self.leaves if {*self.above(leaf)} & {*inside}]
            kind = "hidden" if self.has("hidden", 0.2) else "signal"
            restarts = [name for name in events if name[0] != "t" and self.acts(events[name], running)]
            restarts = self.chance.sample(restarts, min(len(restarts), self.chance.choice((0, 1, 1))))
            events[f"t{number}"] = self.event(kind, running)
            after = self.chance.randint(2, 5)
            times = {"after": self.unit.format(after), "tolerance": self.unit.format(self.chance.randint(0, 1))}
            timers[f"clock{number}"] = {
                "about": "T.",
                "in": inside,
                "event": f"t{number}",
                **times,
                "restarts": restarts,
            }
        return timers

    def acts(self, event: Model, running: list[str]) -> bool:
        """Check whether *event* may restart a timer that runs in the leaves *running*."""
        outcomes = [event.get("moves", {}).get(self.named(leaf, event), ()) for leaf in running]
        ignored = any(self.named(leaf, event) in event.get("ignores", ()) for leaf in running)
        vague = any(
            isinstance(each.get("reply"), list)
            for listed in [*outcomes, *event.get("ends", {}).values()]
            for each in listed
        )
        return not ignored and not vague and any("stays" in each for listed in outcomes for each in listed)

    def named(self, leaf: str, event: Model) -> str:
        keys = [key for group in ("moves", "ignores", "refuses", "cannot", "silent") for key in event.get(group, ())]
        return next((name for name in self.above(leaf) if name in keys), "*")

    def event(self, kind: str, running: list[str] | None = None) -> Model:
        """Return a random event.  If it is that of a timer, the timer runs in the leaves *running*."""
        chance, event = self.chance, Model(kind=kind, about="E.")
        args: Model = {}
        if self.has("data") and kind != "hidden" and running is None:
            args = {name: {**ARGUMENTS[name]} for name in chance.sample([*ARGUMENTS], chance.choice((0, 1, 1, 2)))}
            for each in args.values() if "scope" not in self.features else ():
                each.pop("scope", None)
            event |= {"arguments": args} if args else {}
        if kind != "call" and self.has("interrupts", 0.25):
            event["interrupts"] = True
        known, begun = [*self.data, *args], list[str]()
        keys = chance.sample([*self.states], chance.randint(2, len(self.states)))
        used = [next((name for name in self.above(leaf) if name in keys), "*") for leaf in self.leaves]
        fires = {each for each, leaf in zip(used, self.leaves, strict=True) if leaf in (running or ())}
        for key in [*keys, "*"]:
            if key in used and key != "*" and chance.random() < 0.7:
                event.setdefault("moves", {})[key] = self.outcomes(kind, known, begun)
            elif key in used:
                self.add_cell(event, key, fires=key in fires)
        ends: Model = {}
        for place in begun:  # the list grows during the loop
            if (leaf := self.entered(place)) not in ends:
                ends[leaf] = self.outcomes(kind, known, begun, last=True)
        return event | ({"ends": ends} if ends else {})

    def add_cell(self, event: Model, key: str, *, fires: bool) -> None:
        """Add a cell without outcomes.  If *fires*, a timer must be able to fire there."""
        if not fires and key != "*" and self.has("silent", 0.15):
            event.setdefault("silent", []).append(key)
        elif fires or self.chance.random() < 0.6:
            event.setdefault("ignores", []).append(key)
        elif event["kind"] == "call":
            event.setdefault("refuses", {})[key] = self.chance.choice(("BUSY", "GONE", ["BUSY", "GONE"]))
        else:
            event.setdefault("cannot", []).append(key)

    def outcomes(self, kind: str, known: list[str], begun: list[str], *, last: bool = False) -> list[Model]:
        """Return the outcomes of a cell.  If *last*, one of them ends a call."""
        chance = self.chance
        count = chance.choice((1, 1, 2, 3)) if self.has("choice") or self.data else 1
        slow = kind == "call" and (chance.random() < 0.2 if last else self.has("slow", 0.35))
        found = []
        for number in range(count):
            outcome: Model = {"name": f"o{number}"}
            if slow and (number or not last):
                begun.append(chance.choice([*self.states]))
                outcome["begins"] = begun[-1]
                slow = False
            else:
                outcome |= self.target()
                reply = chance.choice(("", "", "BUSY", ["ok", "BUSY"] if self.has("choice") else "GONE"))
                outcome |= {"reply": reply} if reply and kind == "call" else {}
                outcome |= {"emits": chance.choice((["x"], ["y"], ["x", "y"]))} if self.has("outputs", 0.3) else {}
            if self.data and chance.random() < 0.6:
                some = chance.sample([*self.data], chance.randint(1, len(self.data)))
                outcome["set"] = {name: self.new(name, known) for name in some}
            found.append(outcome)
        if count > 1 and (not self.has("choice", 0.3)):
            self.add_guards(found, known)
        return found

    def target(self) -> Model:
        return {"stays": True} if self.chance.random() < 0.25 else {"to": self.chance.choice(self.targets)}

    def add_guards(self, outcomes: list[Model], known: list[str]) -> None:
        """Add conditions that exclude each other, or of which several may hold."""
        conditions = [random_condition(self.chance, known, 1) for _ in outcomes[1:]]
        chosen = self.has("choice", 0.3)
        before = ""
        for outcome, condition in zip(outcomes, conditions, strict=False):
            outcome["when"] = f"{condition} and not ({before})" if before and not chosen else condition
            before = f"{before} or {condition}" if before else condition
        if not chosen:
            outcomes[-1]["when"] = "otherwise"
        for outcome in outcomes if chosen else ():
            outcome["chosen"] = True
        if self.chance.random() < 0.02:  # rarely, a condition covers too much or too little
            outcomes[0]["when"] = random_condition(self.chance, known, 1)

    def new(self, name: str, known: list[str]) -> int | bool | str:
        words = VARIABLES[name][0]
        if "from" in words:
            term = random_term(self.chance, known, 2)
            bounded = f"min(max({term}, {words['from']}), {words['to']})"
            some: list[int | bool | str] = [term, bounded, bounded, self.chance.randint(words["from"], words["to"])]
        elif "type" in words:
            some = [True, False, *(each for each in known if each in "bc")]
        else:
            some = ["red", "grey", *(each for each in known if each in "wv")]
        return self.chance.choice(some)
