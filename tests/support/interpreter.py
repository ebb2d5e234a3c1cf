"""A naive interpreter of models with data, arguments, calls that take time, timers and substates, all together.

It reads the TOML of a model, imports nothing from fsm, and follows the reference pages literally.  A situation is a
plain value, every possibility is listed, and time passes tick by tick.
"""

from __future__ import annotations

import re
import tomllib
from dataclasses import dataclass, replace
from functools import cache
from itertools import product
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, TypeAlias

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

Value: TypeAlias = "int | bool | str"
Pairs: TypeAlias = "tuple[tuple[str, Value], ...]"
Stage: TypeAlias = Literal["asked", "begun", "acted", "free", "cut", "lost", "lost-begun"]
"""The stage of a call.  It is ``free`` if its end is not specified, and ``cut`` if it was interrupted."""

HISTORY = ".history"
TIME_PASSES = "time passes"
WIDEST = 3_000


class TooWideError(Exception):
    """There are more than :data:`WIDEST` situations, which would take too long."""


class Call(NamedTuple):
    event: str
    args: Pairs
    stage: Stage
    reply: str = ""
    emits: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Situation:
    """The innermost state, the states that histories remember, values, calls, and the ticks of running timers."""

    leaf: str
    memory: tuple[tuple[str, str], ...] = ()
    data: Pairs = ()
    calls: tuple[Call, ...] = ()
    clocks: tuple[tuple[str, int], ...] = ()

    def without(self, call: Call) -> Situation:
        left = list(self.calls)
        left.remove(call)
        return replace(self, calls=tuple(left))

    def with_call(self, call: Call) -> Situation:
        return replace(self, calls=tuple(sorted((*self.calls, call), key=repr)))


ANYTHING = Situation("anything")
"""The situation after an event that is not specified: anything may follow."""


class Effect(NamedTuple):
    """A possible effect of an event.  ``after`` has the calls from before."""

    name: str
    reply: str
    emits: tuple[str, ...]
    begins: bool
    after: Situation


class Taken(NamedTuple):
    """A step of a run in which calls are in progress.  ``ends`` is true if a call has reached its next stage."""

    event: str
    ends: bool
    effect: Effect
    args: Pairs
    unwritten: bool = False


class Seen(NamedTuple):
    """An observation.  ``None`` means that something was not observed."""

    event: str
    phase: str = ""
    reply: str = ""
    shows: str = ""
    emits: tuple[str, ...] | None = None
    fields: Mapping[str, Value] | None = None
    args: Mapping[str, Value] | None = None
    at: int | None = None


# -- conditions and terms ---------------------------------------------------------------------

TOKEN = re.compile(r"\s*(-?\d+(?![\w.-])|[A-Za-z_][\w.-]*|<=|>=|==|!=|[-<>()+,])")


@cache
def parsed(text: str) -> Any:  # noqa: ANN401  (nested tuples)
    tokens = TOKEN.findall(text)
    assert "".join(tokens) == re.sub(r"\s", "", text), text

    def joined(words: tuple[str, ...], part: Any) -> Any:  # noqa: ANN401
        left = part()
        while tokens and tokens[0] in words:
            left = (tokens.pop(0), left, part())
        return left

    def negated() -> Any:  # noqa: ANN401
        if tokens[0] == "not":
            tokens.pop(0)
            return ("not", negated())
        return joined(("==", "!=", "<", "<=", ">", ">="), lambda: joined(("+", "-"), single))

    def whole() -> Any:  # noqa: ANN401
        return joined(("or",), lambda: joined(("and",), negated))

    def single() -> Any:  # noqa: ANN401
        word = tokens.pop(0)
        if word in {"min", "max"}:
            tokens.pop(0)
            left = whole()
            tokens.pop(0)
            found = (word, left, whole())
            tokens.pop(0)
            return found
        if word == "(":
            found = whole()
            tokens.pop(0)
            return found
        return int(word) if re.fullmatch(r"-?\d+", word) else word

    found = whole()
    assert not tokens, text
    return found


def evaluated(tree: Any, frame: Mapping[str, Value]) -> Any:  # noqa: ANN401, C901  (one case for each operator)
    if isinstance(tree, int):
        return tree
    if isinstance(tree, str):
        return {"true": True, "false": False}.get(tree, frame.get(tree, tree))
    operator, *parts = tree
    values = [evaluated(part, frame) for part in parts]
    match operator, values:
        case "not", [one]:
            return not one
        case "and", [left, right]:
            return left and right
        case "or", [left, right]:
            return left or right
        case "+", [left, right]:
            return left + right
        case "-", [left, right]:
            return left - right
        case "min" | "max", _:
            return min(values) if operator == "min" else max(values)
        case "==" | "!=", [left, right]:
            return (left == right) is (operator == "==")
        case "<" | ">=", [left, right]:
            return (left < right) is (operator == "<")
        case ">" | "<=", [left, right]:
            return (left > right) is (operator == ">")
        case _:
            raise TypeError(tree)


# -- one machine, one step --------------------------------------------------------------------


def domain(variable: Mapping[str, Any]) -> Sequence[Value]:
    if "values" in variable:
        words: Sequence[Value] = variable["values"]
        return words
    return [False, True] if variable.get("type") == "bool" else range(variable["from"], variable["to"] + 1)


class Interpreter:
    """Interprets the model *text*, whose timers count in *tick* nanoseconds.  If not *timed*, timers do not run."""

    def __init__(self, text: str, *, tick: int = 10**9, timed: bool = True) -> None:
        model = tomllib.loads(text)
        self.states: dict[str, dict[str, Any]] = model["states"]
        self.above = {name: state["in"] for name, state in self.states.items() if "in" in state}
        self.leaves = [name for name in self.states if name not in self.above.values()]
        self.data: dict[str, dict[str, Any]] = model.get("data", {})
        self.events: dict[str, dict[str, Any]] = model["event"]
        self.fired = {timer["event"]: name for name, timer in model.get("timer", {}).items()}
        self.timers: dict[str, dict[str, Any]] = model.get("timer", {}) if timed else {}
        self.times = {}
        for name, timer in self.timers.items():
            after, tolerance = (round(float(timer[word].split()[0]) * 10**9) for word in ("after", "tolerance"))
            self.times[name] = (after - tolerance) // tick, (after + tolerance) // tick
        leaf = self.entered(model["machine"]["initial"])
        data = tuple((name, each.get("initial", domain(each)[0])) for name, each in self.data.items())
        clocks = tuple((name, 0) for name in self.timers if self.runs(name, leaf))
        self.initial = Situation(leaf, (), data, (), clocks)

    def kind(self, event: str) -> str:
        return str(self.events[event].get("kind", "call" if "rpc" in self.events[event] else "signal"))

    def chain(self, name: str) -> tuple[str, ...]:
        """Return *name*, its parent, the parent of its parent, and so on."""
        return (name, *self.chain(self.above[name])) if name in self.above else (name,)

    def entered(self, name: str) -> str:
        return self.entered(self.states[name]["initial"]) if "initial" in self.states[name] else name

    def shows(self, here: Situation) -> str:
        return next(
            (self.states[each]["shows"] for each in self.chain(here.leaf) if "shows" in self.states[each]), here.leaf
        )

    def fields(self, here: Situation) -> dict[str, Value]:
        return {name: value for name, value in here.data if self.data[name].get("shown")}

    def runs(self, timer: str, leaf: str) -> bool:
        return any(each in self.timers[timer]["in"] for each in self.chain(leaf))

    def cell(self, event: str, leaf: str) -> tuple[str, Any]:
        """Return the group of a cell, and what it says: the innermost state that is named decides."""
        for name in (*self.chain(leaf), "*"):
            for group in ("moves", "ignores", "refuses", "cannot", "silent"):
                entries = self.events[event].get(group, ())
                if name in entries:
                    return group, entries[name] if isinstance(entries, dict) else None
        raise KeyError(event, leaf)

    def outcomes(self, event: str, leaf: str) -> list[dict[str, Any]] | None:
        """Return the outcomes that the cell has for any values, or ``None`` if it is silent."""
        group, says = self.cell(event, leaf)
        match group:
            case "silent":
                return None
            case "cannot":
                return []
            case "ignores":
                return [{"name": "ignored", "stays": True}]
            case "refuses":
                return [{"name": "refused", "stays": True, "reply": says}]
            case _:
                return _listed(says)

    def ends(self, event: str, leaf: str) -> list[dict[str, Any]] | None:
        """Return the outcomes of the end of a call, or ``None`` if its end is not specified here."""
        ends = self.events[event].get("ends", {})
        return next((_listed(ends[name]) for name in self.chain(leaf) if name in ends), None)

    def chosen(self, outcomes: list[dict[str, Any]], frame: Mapping[str, Value]) -> list[dict[str, Any]]:
        """Return the outcomes whose conditions hold."""
        rest = not any(
            self.holds(each["when"], frame) for each in outcomes if each.get("when", "otherwise") != "otherwise"
        )
        return [
            each
            for each in outcomes
            if (rest if each.get("when") == "otherwise" else "when" not in each or self.holds(each["when"], frame))
        ]

    def holds(self, when: str, frame: Mapping[str, Value]) -> bool:
        return bool(evaluated(parsed(when), frame))

    def effects(self, here: Situation, event: str, args: Pairs, *, ends: bool = False) -> list[Effect] | None:
        """Return the effects that *event*, or the end of a call of it, may have, or ``None`` if they are unspecified."""
        outcomes = self.ends(event, here.leaf) if ends else self.outcomes(event, here.leaf)
        given = self.events[event].get("arguments", {})
        if outcomes is None or any(
            not given[name].get("scope") and value not in domain(given[name]) for name, value in args
        ):
            return None
        if self.fired.get(event) in dict(here.clocks) and not self.fires(here, event):
            return []
        possible = self.chosen(outcomes, {**dict(here.data), **dict(args)})
        if outcomes and not possible:
            return None
        return [
            Effect(each["name"], reply, tuple(each.get("emits", ())), "begins" in each, after)
            for each in possible
            for reply in self.replies(event, each)
            for after in [self.after(here, event, each, args, reply)]
        ]

    def replies(self, event: str, outcome: Mapping[str, Any]) -> Sequence[str]:
        if self.kind(event) != "call" or "begins" in outcome:
            return [""]
        reply = outcome.get("reply", "ok")
        return [reply] if isinstance(reply, str) else reply

    def fires(self, here: Situation, event: str) -> bool:
        """Check whether the timer of *event* runs, and may fire now."""
        ticks = dict(here.clocks).get(self.fired[event])
        return ticks is not None and ticks >= self.times[self.fired[event]][0]

    def after(self, here: Situation, event: str, outcome: Mapping[str, Any], args: Pairs, reply: str) -> Situation:
        leaf = self.target(here, outcome)
        left = {*self.chain(here.leaf)} - {*self.chain(leaf)}
        memory = {**dict(here.memory), **{name: here.leaf for name in left if self.states[name].get("history")}}
        clocks = self.clocks(here, leaf, event, acts="begins" not in outcome and reply in {"", "ok"})
        data = self.updated(dict(here.data), outcome.get("set", {}), dict(args))
        return Situation(leaf, tuple(sorted(memory.items())), data, here.calls, clocks)

    def target(self, here: Situation, outcome: Mapping[str, Any]) -> str:
        if "stays" in outcome:
            return here.leaf
        to: str = outcome.get("to") or outcome["begins"]
        if not to.endswith(HISTORY):
            return self.entered(to)
        parent = to.removesuffix(HISTORY)
        return here.leaf if parent in self.chain(here.leaf) else dict(here.memory).get(parent, self.entered(parent))

    def updated(self, data: dict[str, Value], new: Mapping[str, Value], args: Mapping[str, Value]) -> Pairs:
        after = {**data, **{name: self.value(name, text, {**data, **args}) for name, text in new.items()}}
        return tuple(after.items())

    def value(self, name: str, text: Value, frame: Mapping[str, Value]) -> Value:
        value: Value = evaluated(parsed(text), frame) if isinstance(text, str) else text
        variable = self.data[name]
        return min(max(int(value), variable["from"]), variable["to"]) if variable.get("saturates") else value

    def clocks(self, here: Situation, leaf: str, event: str, *, acts: bool) -> tuple[tuple[str, int], ...]:
        ticks = dict(here.clocks)
        for name, timer in self.timers.items():
            ran = name in ticks
            if not self.runs(name, leaf):
                ticks.pop(name, None)
            elif not ran or event == timer["event"] or (event in timer.get("restarts", ()) and acts):
                ticks[name] = 0
        return tuple(sorted(ticks.items()))

    def tick(self, here: Situation) -> Situation | None:
        """Return the situation a tick later, or ``None`` if a timer must fire before."""
        clocks = tuple((name, ticks + 1) for name, ticks in here.clocks)
        return None if any(ticks > self.times[name][1] for name, ticks in clocks) else replace(here, clocks=clocks)

    def arguments(self, event: str) -> Iterator[Pairs]:
        given = self.events[event].get("arguments", {})
        return (tuple(zip(given, values, strict=True)) for values in product(*map(domain, given.values())))

    # -- totality -----------------------------------------------------------------------------

    def faults(self) -> set[str]:
        """Return the codes of the faults in guards and updates: uncovered values, overlaps, and left ranges."""
        found = set[str]()
        for event in self.events:
            for leaf in self.leaves:
                for outcomes in (self.outcomes(event, leaf), self.ends(event, leaf)):
                    for values in product(*map(domain, self.data.values())) if outcomes else ():
                        data = dict(zip(self.data, values, strict=True))
                        for args in self.arguments(event):
                            found |= self._faults(outcomes or [], data, dict(args))
        return found

    def _faults(self, outcomes: list[dict[str, Any]], data: dict[str, Value], args: dict[str, Value]) -> set[str]:
        possible = self.chosen(outcomes, {**data, **args})
        found = set() if possible else {"FSM143"}
        unchosen = [each for each in possible if not each.get("chosen")]
        if len(possible) > 1 and unchosen and any("when" in each for each in outcomes):
            found.add("FSM144")
        for each in possible:
            for name, value in self.updated(data, each.get("set", {}), args):
                if not self.data[name].get("scope") and value not in domain(self.data[name]):
                    found.add("FSM145")
        return found

    # -- runs ---------------------------------------------------------------------------------

    def in_scope(self, here: Situation) -> bool:
        return all(value in domain(self.data[name]) for name, value in here.data)

    def steps(self, here: Situation, overlap: int = 1) -> Iterator[Taken]:
        """Yield every step that is possible next if calls that have begun, but no others, are in progress."""
        for event in self.events:
            kept = () if self.events[event].get("interrupts") else here.calls
            room = [call.event for call in kept].count(event) < overlap
            for args in self.arguments(event):
                for each in self.effects(here, event, args) or ():
                    if room or not each.begins:
                        yield Taken(event, False, self.begun(each, event, args, kept), args)  # noqa: FBT003  (a field)
        for call in dict.fromkeys(here.calls):
            rest = here.without(call).calls
            if self.ends(call.event, here.leaf) is None:
                effect = Effect("", "", (), begins=False, after=replace(here, calls=rest))
                yield Taken(call.event, True, effect, call.args, unwritten=True)  # noqa: FBT003  (as above)
            for each in self.effects(here, call.event, call.args, ends=True) or ():
                yield Taken(call.event, True, self.begun(each, call.event, call.args, rest), call.args)  # noqa: FBT003
        later = self.tick(here) if here.clocks else None
        if later:
            yield Taken(TIME_PASSES, False, Effect("ok", "", (), begins=False, after=later), ())  # noqa: FBT003  (as above)

    @staticmethod
    def begun(effect: Effect, event: str, args: Pairs, calls: tuple[Call, ...]) -> Effect:
        after = replace(effect.after, calls=calls)
        return effect._replace(after=after.with_call(Call(event, args, "begun")) if effect.begins else after)

    def reached(self, overlap: int = 1, most: int = 100_000) -> dict[Situation, list[Taken]]:
        """Return all situations that runs without unspecified ends reach within the scopes, with their steps."""
        found: dict[Situation, list[Taken]] = {}
        todo = [self.initial]
        while todo:
            here = todo.pop()
            if here not in found:
                steps = (each for each in self.steps(here, overlap) if not each.unwritten)
                found[here] = [each for each in steps if self.in_scope(each.effect.after)]
                todo += [each.effect.after for each in found[here]]
            if len(found) > most:
                raise TooWideError
        return found

    # -- recordings ---------------------------------------------------------------------------

    def first_unexplained(self, trace: Iterable[Seen], start: int | None = None) -> tuple[int | None, int | None]:
        """Return the indices of the first observation that no run explains, and of the first after which all is possible.

        The life of the entity begins at the time *start*, or at an unknown time before the first observation.
        """
        now, time, vague = self.closure([self.initial]), start, None
        for _ in range(max((latest for _, latest in self.times.values()), default=0) if start is None else 0):
            now |= self.elapsed(now, 1)
        for index, seen in enumerate(trace):
            if seen.at is not None:
                now = self.elapsed(now, 0 if time is None else seen.at - time)
                time = seen.at
            now = self.explained(now, seen)
            if ANYTHING in now and vague is None:
                vague = index
            if not now:
                return index, vague
        return None, vague

    def elapsed(self, now: set[Situation], ticks: int) -> set[Situation]:
        for _ in range(ticks):
            later = self.closure(each for each in map(self.tick, now) if each)
            if later == now:
                return now
            now = later
        return now

    def closure(self, situations: Iterable[Situation]) -> set[Situation]:
        """Add everything that may follow unseen at the same time."""
        found = set(situations)
        todo = list(found)
        while todo:
            fresh = set(self.instants(todo.pop())) - found
            found |= fresh
            todo += fresh
            if len(found) > WIDEST:
                raise TooWideError
        return found

    def instants(self, here: Situation) -> Iterator[Situation]:
        if here == ANYTHING:
            return
        for event in self.events:
            if self.kind(event) == "hidden":
                for args in self.arguments(event):
                    yield from self.happens(here, event, args, None)
        for call in set(here.calls):
            ends = call.stage in {"begun", "lost-begun"}
            if not ends and call.stage not in {"asked", "lost"}:
                continue
            others = here.without(call)
            if ends and self.ends(call.event, here.leaf) is None:
                yield others if call.stage == "lost-begun" else others.with_call(call._replace(stage="free"))
                continue
            effects = self.effects(others, call.event, call.args, ends=ends)
            yield from [ANYTHING] if effects is None else ()
            for each in effects or ():
                if call.stage in {"asked", "begun"}:
                    stage: Stage = "begun" if each.begins else "acted"
                    new = Call(call.event, call.args, stage, each.reply, each.emits)
                    yield each.after.with_call(new)
                else:
                    after = each.after.with_call(call) if call not in each.after.calls else each.after
                    begun = call._replace(stage="lost-begun")
                    yield after.with_call(begun) if each.begins and begun not in after.calls else after

    def happens(self, here: Situation, event: str, args: Pairs, emits: tuple[str, ...] | None) -> Iterator[Situation]:
        effects = self.effects(here, event, args)
        yield from [ANYTHING] if effects is None else ()
        for each in effects or ():
            if emits in {None, each.emits}:
                yield self.interrupted(each.after) if self.events[event].get("interrupts") else each.after

    @staticmethod
    def interrupted(here: Situation) -> Situation:
        calls = [call for call in here.calls if call.stage not in {"lost", "lost-begun"}]
        cut = (call._replace(stage="cut") if call.stage == "begun" else call for call in calls)
        return replace(here, calls=tuple(sorted(cut, key=repr)))

    def given(self, event: str, args: Mapping[str, Value] | None) -> Iterator[Pairs]:
        """Yield the arguments that an event with the known arguments *args* may have."""
        given = self.events[event].get("arguments", {})
        known = args or {}
        ranges = (
            [known[name]] if name in known else [*domain(each), *self.outside(each)] for name, each in given.items()
        )
        return (tuple(zip(given, values, strict=True)) for values in product(*ranges))

    @staticmethod
    def outside(variable: Mapping[str, Any]) -> Sequence[Value]:
        return [variable["to"] + 1] if variable.get("scope") else []

    def explained(self, now: set[Situation], seen: Seen) -> set[Situation]:
        after = self.closure(self.matched(now, seen))
        return self.closure(each for each in after if each == ANYTHING or self.fits(each, seen))

    def fits(self, here: Situation, seen: Seen) -> bool:
        shown = seen.shows in {"", self.shows(here)}
        return shown and all(dict(here.data)[name] == value for name, value in (seen.fields or {}).items())

    def matched(self, now: set[Situation], seen: Seen) -> Iterator[Situation]:
        if ANYTHING in now:
            yield ANYTHING
        here = now - {ANYTHING}
        if not seen.event:
            yield from here
        elif self.kind(seen.event) != "call":
            interrupts = self.events[seen.event].get("interrupts")
            for each, args in product(here, self.given(seen.event, seen.args)):
                over = replace(each, calls=()) if interrupts else each
                yield from self.happens(over, seen.event, args, seen.emits)
        elif seen.phase == "lost":
            for each in here:
                yield from self.given_up(each, seen.event)
        elif seen.phase == "request":
            yield from self.asked(here, seen)
        else:
            yield from self.answered(here if seen.phase else {*self.asked(here, seen)}, seen)

    def asked(self, here: set[Situation], seen: Seen) -> Iterator[Situation]:
        for each, args in product(here, self.given(seen.event, seen.args)):
            yield each.with_call(Call(seen.event, args, "asked"))

    def answered(self, here: set[Situation], seen: Seen) -> Iterator[Situation]:
        for each in self.closure(here):
            if each == ANYTHING:
                yield each
            yield from (each.without(call) for call in set(each.calls) if self.answers(call, seen))

    def answers(self, call: Call, seen: Seen) -> bool:
        if call.event != seen.event:
            return False
        if call.stage == "cut":
            return not seen.reply and not seen.emits
        if call.stage == "free":
            return not seen.emits
        return call.stage == "acted" and seen.reply in {"", call.reply} and seen.emits in {None, call.emits}

    def given_up(self, here: Situation, event: str) -> Iterator[Situation]:
        waiting = [call for call in set(here.calls) if call.event == event and not call.stage.startswith("lost")]
        if not waiting:
            yield here
        for call in waiting:
            stage: Stage | None = {"asked": "lost", "begun": "lost-begun"}.get(call.stage)  # type: ignore[assignment]
            left = here.without(call)
            lost = call._replace(stage=stage) if stage else None
            yield left if lost is None or lost in left.calls else left.with_call(lost)


def _listed(says: Any) -> list[dict[str, Any]]:  # noqa: ANN401  (what TOML has)
    if isinstance(says, str):
        return [{"name": "ok", "to": says}]
    return [says] if isinstance(says, dict) else says
