"""Build the cells of events and of their overrides."""

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from math import inf
from typing import Final, Literal, NamedTuple, TypeAlias, TypeVar, get_args

from fsm.errors import nearest
from fsm.language.build.data import Guards, arguments
from fsm.language.build.problems import Problems, implied
from fsm.language.machine_file import Cells, Written, WrittenEvent, WrittenOutcome
from fsm.language.read.toml import Keys
from fsm.machine import Cannot, Cell, Clause, Event, Ignores, Kind, Moves, Outcome, Refuses, Silent
from fsm.machine.hierarchy import HISTORY
from fsm.machine.terms import Variable

REST: Final = "*"  # represents every state that is not mentioned elsewhere
STAYS: Final = ""  # target of an outcome that does not change the state, until the state is known

Group: TypeAlias = Literal["moves", "ignores", "refuses", "cannot", "silent", "ends"]

Sets: TypeAlias = Mapping[str, tuple[str, ...]]  # maps the name of each set of states to its states

GROUPS: Final[tuple[Group, ...]] = get_args(Group)

_PLAIN: Final[Mapping[Group, type[Ignores | Cannot | Silent]]] = {
    "ignores": Ignores,
    "cannot": Cannot,
    "silent": Silent,
}


_WRONG: Final[Mapping[tuple[Group, bool], str]] = {
    ("refuses", False): 'only calls can be refused; use cannot, ignores or silent, or write: kind = "call"',
    ("cannot", True): "a call can be made in every state; use 'refuses' or 'silent'",
}
"""Hints for groups that calls (true) or other events (false) cannot have."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Part:
    written: Cells
    clauses: Mapping[str, Clause]
    at: Keys


class _Mention(NamedTuple):
    part: Part
    group: Group
    key: str
    state: str
    place: Keys
    depth: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Groups:
    """Builds the cells of the event ``name``, which may be spread over several ``parts`` of the model."""

    problems: Problems[Written]
    name: str
    kind: Kind
    parts: Sequence[Part]
    sets: Sets
    guards: Guards

    def cells(self) -> dict[str, Cell]:
        mentions = self._mentions("cells", [group for group in GROUPS if group != "ends"])
        named = {mention.state for mention in mentions}
        rest = [state for state in self._states() if state not in named]
        cells: dict[str, Cell] = {}
        for mention in mentions:
            if mention.state == REST and not rest:
                what = f"the '*' of event '{self.name}' matches no state"
                self.problems.say("FSM113", what, "remove the '*'", *mention.place)
            self._check_kind(mention)
            make = self._maker(mention)
            for state in rest if mention.state == REST else (mention.state,):
                cells[state] = make(state)
        return cells

    def ends(self) -> dict[str, Moves]:
        if self.kind != "call":
            for part in self.parts:
                if part.written.ends:
                    what = f"{self.kind} '{self.name}' cannot have 'ends'"
                    hint = "only calls have ends, because only calls take time"
                    self.problems.say("FSM106", what, hint, *part.at, "ends")
            return {}
        ends = {each.state: self._moves(each)(each.state) for each in self._mentions("ends", ["ends"])}
        return {state: ends[state] for state in self._states() if state in ends}

    def _states(self) -> Mapping[str, object]:
        return self.problems.model.written.states

    def _mentions(self, what: str, groups: Sequence[Group]) -> list[_Mention]:
        tree = self.problems.tree
        found = [
            _Mention(part, group, key, state, (*part.at, group, key if isinstance(keys, Mapping) else index), depth)
            for part in self.parts
            for group in groups
            for keys in (getattr(part.written, group),)
            for index, key in enumerate(keys)
            for depth in (len([*tree.above(key)]) if key in tree.parents else inf,)
            for state in self.sets.get(key, (key,))
        ]
        deepest = {each.state: each.depth for each in sorted(found, key=lambda each: each.depth)}
        kept = [each for each in found if each.depth == deepest[each.state]]  # a substate overrides its parents
        unused = {each.place: each.key for each in found if each.key in tree.parents}
        for place in unused.keys() - {each.place for each in kept}:
            what = f"event '{self.name}' has other cells for all substates of '{unused[place]}'"
            self.problems.say("FSM113", what, f"remove '{unused[place]}'", *place)
        by_state: defaultdict[str, list[_Mention]] = defaultdict(list)
        for mention in kept:
            by_state[mention.state].append(mention)
        for state, several in by_state.items():
            if len(several) > 1:
                listed = f": {' and '.join(mention.group for mention in several)}" if len(groups) > 1 else ""
                twice = f"event '{self.name}' has {len(several)} {what} for '{state}'{listed}"
                self.problems.say("FSM105", twice, "keep only the intended entry", *several[-1].place)
        known, check = (*self._states(), *self.sets), self.problems.known
        return [
            mention
            for mention in kept
            if mention.state == REST or check("FSM102", "unknown state", mention.state, known, *mention.place)
        ]

    def _check_kind(self, mention: _Mention) -> None:
        if hint := _WRONG.get((mention.group, self.kind == "call")):
            what = f"{self.kind} '{self.name}' cannot have '{mention.group}' cells"
            self.problems.say("FSM106", what, hint, *mention.place)

    def _maker(self, mention: _Mention) -> Callable[[str], Cell]:
        line, clauses = self.problems.line(*mention.place), mention.part.clauses
        match mention.group:
            case "moves" | "ends":
                return self._moves(mention)
            case "refuses":
                codes = _as_tuple(mention.part.written.refuses[mention.key])
                if not codes:
                    what = f"event '{self.name}' has no error reply for '{mention.key}' in 'refuses'"
                    self.problems.say("FSM112", what, "name an error, or use 'silent'", *mention.place)
                return lambda state: Refuses(codes=codes, clause=clauses[state], line=line)
            case group:
                return lambda state: _PLAIN[group](clause=clauses[state], line=line)

    def _moves(self, mention: _Mention) -> Callable[[str], Moves]:
        line, clauses = self.problems.line(*mention.place), mention.part.clauses
        leads = self.problems.tree.leads
        ways = self._outcomes(getattr(mention.part.written, mention.group)[mention.key], mention.place)
        return lambda state: Moves(
            outcomes=tuple(replace(way, to=leads.get((state, way.to), way.to) or state) for way in ways),
            clause=clauses[state],
            line=line,
        )

    def _outcomes(self, written: str | WrittenOutcome | Sequence[WrittenOutcome], at: Keys) -> tuple[Outcome, ...]:
        if isinstance(written, str):
            written = WrittenOutcome.model_validate({"to": written})
        if isinstance(written, WrittenOutcome):
            return (self._outcome(written, at),)
        if not written:
            what = f"event '{self.name}' has no outcome in '{at[-1]}'"
            self.problems.say("FSM112", what, "name at least one outcome, or use another kind of cell", *at)
        times = Counter(each.name for each in written)
        for index, each in enumerate(written):
            if len(written) > 1 and (each.name is None or times[each.name] > 1):
                what = "no name" if each.name is None else f"the same name as another one, '{each.name}'"
                what = f"an alternative outcome of '{self.name}' in '{at[-1]}' has {what}"
                self.problems.say("FSM112", what, 'give each alternative outcome its own name: name = "…"', *at, index)
        made = [self._outcome(each, (*at, index)) for index, each in enumerate(written)]
        return self.guards.with_rest(made, written, at)

    def _outcome(self, each: WrittenOutcome, at: Keys) -> Outcome:
        target = self._target(each, at)
        replies = _as_tuple(each.reply)
        begins = self.kind == "call" and each.begins is not None and each.to is None
        if not replies:
            hint = "name a reply, or leave out 'reply', which then is ok"
            self.problems.say("FSM112", f"an outcome of '{self.name}' has an empty list of replies", hint, *at, "reply")
        self._check_words(each, at)
        made = Outcome(
            name=each.name or (f"begins-{target}" if begins else "done"),
            to=target,
            reply=replies if self.kind == "call" and not begins else (),
            emits=tuple(each.emits),
            begins=begins,
            within=each.within or 0,
            about=each.about,
            aliases=tuple(each.aliases),
        )
        return self.guards.outcome(made, each, at)

    def _target(self, each: WrittenOutcome, at: Keys) -> str:
        tree, states = self.problems.tree, self._states()
        histories = [name + HISTORY for name, parent in tree.parents.items() if parent.history]
        words = {"to": each.to, "begins": each.begins, "stays": "true" if each.stays else ""}
        given = {word: value for word, value in words.items() if value}
        if len(given) != 1:
            listed = " and ".join(f"{word} = {value!r}" for word, value in given.items())
            what = f"outcome of '{self.name}' has {f'{listed} at once' if given else 'none of to, begins and stays'}"
            self.problems.say("FSM109", what, "write exactly one of: to = STATE, begins = STATE, stays = true", *at)
        for word, verb, state in (("to", "moves to the", each.to), ("begins", "begins in the", each.begins)):
            if state and state.endswith(HISTORY) and state not in (*states, *histories):
                of = state.removesuffix(HISTORY)
                what = f"event '{self.name}' {verb} history of '{of}', which is not declared"
                hint = f"write history = true for '{of}', if it has substates"
                self.problems.say("FSM161", what, hint, *at, word)
            elif len(given) == 1 and state not in states:
                known = (*states, *tree.names, *histories)
                self.problems.known("FSM104", f"event '{self.name}' {verb} unknown state", state, known, *at, word)
        return tree.entered(each.to or each.begins or STAYS)

    def _check_words(self, each: WrittenOutcome, at: Keys) -> None:
        for word in ("reply", "begins", "emits"):
            if word not in each.model_fields_set:
                continue
            if self.kind != "call" and word != "emits":
                what = f"{self.kind} '{self.name}' cannot have '{word}'"
                self.problems.say("FSM106", what, "only calls can begin, take time and reply", *at, word)
            elif self.kind == "call" and word != "begins" and "begins" in each.model_fields_set:
                what = f"an outcome of '{self.name}' begins the call, but already has '{word}'"
                self.problems.say("FSM110", what, f"move '{word}' to the end of the call", *at, word)


def keys(written: Cells) -> Iterator[str]:
    for group in GROUPS:
        yield from getattr(written, group)


def ways(cells: Iterable[Cell]) -> Iterator[Outcome]:
    for cell in cells:
        if isinstance(cell, Moves):
            yield from cell.outcomes


def _as_tuple(written: str | Sequence[str]) -> tuple[str, ...]:
    return (written,) if isinstance(written, str) else tuple(written)


C = TypeVar("C", bound=Cell)

_OF_THE_OTHER: Final = (
    "kind",
    "arguments",
    "MUST",
    "SHOULD",
    "MAY",
    "observed",
    "clause",
    "says",
    "link",
    "interrupts",
)
"""Words that an event with ``like`` inherits and must not use itself."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Events:
    problems: Problems[Written]
    known: Mapping[str, Clause]
    sets: Sets
    data: Mapping[str, Variable]

    def build_events(self) -> dict[str, Event]:
        making = self.problems.model.written.event
        made = {name: self._event(name, each) for name, each in making.items() if each.like is None}
        for name, each in making.items():
            if each.like is not None:
                model = made[each.like] if each.like in made and making[each.like].like is None else None
                made[name] = self._inherit_cells(name, each, model)
        return {name: made[name] for name in making}

    def _event(self, name: str, written: WrittenEvent) -> Event:
        at = ("event", name)
        if written.interrupts and written.actual_kind == "call":
            what = f"call '{name}' cannot interrupt calls"
            self.problems.say("FSM118", what, "only signals and hidden events can interrupt calls", *at, "interrupts")
        self.problems.known("FSM108", "unknown clause", written.clause, self.known, *at, "clause")
        own = self._implied_clause(name, written, written)
        taken = arguments(self.problems, name, written.arguments)
        groups = self._groups(name, written, written.actual_kind, own, taken)
        cells = groups.cells()
        for state in self.problems.model.written.states:
            if state not in cells:
                what = f"event '{name}' has no cell for state '{state}'"
                forms = "moves, ignores, refuses, cannot or silent ('*' is the rest)"
                self.problems.say("FSM103", what, f"state what '{name}' does there with {forms}", *at)
                cells[state] = Silent(clause=own)
        return Event(
            name=name,
            kind=groups.kind,
            about=written.about,
            cells={state: cells[state] for state in self.problems.model.written.states},
            ends=groups.ends(),
            rpc=written.rpc or "",
            aliases=tuple(written.aliases),
            interrupts=written.interrupts,
            arguments=taken,
        )

    def _inherit_cells(self, name: str, written: WrittenEvent, model: Event | None) -> Event:
        at = ("event", name)
        others = self.problems.model.written.event
        if model is None:
            other = others.get(str(written.like))
            if other is None:
                why = "not an event"
                hint = nearest(str(written.like), [each for each in others if others[each].like is None], of="events")
            else:
                why, hint = f"like '{other.like}' itself", f'write like = "{other.like}"'
            what = f"event '{name}' is like '{written.like}', which is {why}"
            self.problems.say("FSM127", what, hint, *at, "like")
            return self._event(name, written.model_copy(update={"kind": "hidden", "silent": [REST]}))
        for word in _OF_THE_OTHER:
            if word in written.model_fields_set:
                what = f"event '{name}' is like '{model.name}', but has '{word}'"
                hint = f"leave out '{word}', which is inherited from '{model.name}'"
                self.problems.say("FSM127", what, hint, *at, word)
        if REST in keys(written) or any(REST in keys(each) for each in written.clauses.values()):
            what = f"event '{name}' is like '{model.name}', but has cells for '*'"
            self.problems.say("FSM127", what, f"name the states in which '{name}' differs, or leave out 'like'", *at)
        like = others[model.name]
        of_model = self._implied_clause(model.name, like, like)
        of_this = self._implied_clause(name, written, like)
        with_clause = written.model_copy(update={"clause": like.clause})
        groups = self._groups(name, with_clause, model.kind, of_this, model.arguments)

        def own(cell: C) -> C:
            return replace(cell, clause=of_this) if cell.clause == of_model else cell

        return replace(
            model,
            name=name,
            about=written.about,
            cells={**{state: own(cell) for state, cell in model.cells.items()}, **groups.cells()},
            ends={**{state: own(end) for state, end in model.ends.items()}, **groups.ends()},
            rpc=written.rpc or "",
            aliases=tuple(written.aliases),
        )

    def _implied_clause(self, name: str, about: WrittenEvent, of: WrittenEvent) -> Clause:
        problems = self.problems.below("event", name)
        return implied(problems, problems.model.written.machine, name, about.about, of)

    def _groups(
        self, name: str, written: WrittenEvent, kind: Kind, own: Clause, taken: Mapping[str, Variable]
    ) -> Groups:
        at = ("event", name)
        states = self.problems.model.written.states
        usual = self.known.get(written.clause or "", own)
        parts = [Part(written=written, clauses=dict.fromkeys(states, usual), at=at)]
        for clause, rest in written.clauses.items():
            at_rest = (*at, "clauses", clause)
            self.problems.known("FSM108", "unknown clause", clause, self.known, *at_rest)
            if not any(keys(rest)):
                what = f"no cell of event '{name}' refers to clause '{clause}'"
                self.problems.say("FSM119", what, "give the clause cells, or remove the clause", *at_rest)
            parts.append(Part(written=rest, clauses=dict.fromkeys(states, self.known.get(clause, own)), at=at_rest))
        guards = Guards(problems=self.problems, data=self.data, arguments=taken)
        return Groups(problems=self.problems, name=name, kind=kind, parts=parts, sets=self.sets, guards=guards)
