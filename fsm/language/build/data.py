"""Build variables, guards and updates, and check that the guards of each cell cover all values and do not overlap."""

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from math import prod
from typing import Final, Literal, TypeVar

from fsm.errors import nearest
from fsm.language.build.grammar import WORDS, ConditionError, GuardGrammar, type_of
from fsm.language.build.problems import Problems
from fsm.language.machine_file import Written, WrittenDomain, WrittenOutcome, WrittenVariable
from fsm.language.read.toml import Keys
from fsm.machine import Event, Machine, Moves, Outcome
from fsm.machine.conditions import All, Compare, Condition, Not, Some, WrittenCondition, any_of
from fsm.machine.guards import TooManyValuesError, solution
from fsm.machine.terms import OPERATORS, Argument, Constant, DataUpdate, Variable, assignments

T = TypeVar("T")

OTHERWISE: Final = "otherwise"
_RESERVED: Final = WORDS | OPERATORS.keys() | {"true", "false", OTHERWISE}
_PARAMETERS: Final = frozenset({"self", "event", "outcome", "ends", "effect"})  # of functions that take arguments
_LARGEST: Final = 10**15
MOST_ARGUMENTS: Final = 100_000


def variables(problems: Problems[Written]) -> dict[str, Variable]:
    found = {}
    for name, each in problems.model.written.data.items():
        here = problems.below("data", name)
        variable = _domain(here, name, each)
        beyond = [word for word in ("saturates", "scope") if getattr(each, word)]
        if len(beyond) > 1:
            here.say("FSM140", f"variable '{name}' has 'saturates' and 'scope'", "keep one of them", "scope")
        if each.saturates and not variable.number:
            here.say(
                "FSM140", f"variable '{name}' saturates, but is not a number", "leave out 'saturates'", "saturates"
            )
        try:
            initial = variable.low if each.initial is None else variable.encoded(each.initial)
        except ValueError as error:
            here.say("FSM140", f"the initial value of {error}", "give one of its values", "initial")
            initial = variable.low
        if not variable.low <= initial <= variable.high:
            what = f"variable '{name}' begins with {initial}, outside its range from {variable.low} to {variable.high}"
            here.say("FSM140", what, "begin in the range, or extend it", "initial")
        found[name] = replace(
            variable, initial=initial, shown=each.shown, beyond="saturates" if each.saturates else variable.beyond
        )
        written = problems.model.written
        _check_name(here, name, {"state": written.states, "event": written.event, "set of states": written.define})
    return found


def arguments(problems: Problems[Written], event: str, written: Mapping[str, WrittenDomain]) -> dict[str, Variable]:
    found = {}
    for name, each in written.items():
        here = problems.below("event", event, "arguments", name)
        found[name] = _domain(here, name, each)
        _check_name(here, name, {"variable": problems.model.written.data, "parameter": _PARAMETERS})
    return found


def _check_name(here: Problems[Written], name: str, taken: Mapping[str, Collection[str]]) -> None:
    for kind, names in {**taken, "word of conditions": _RESERVED, "number": [name] if name.isdigit() else []}.items():
        if name in names:
            hint = "choose a name that is not used for anything else"
            here.say("FSM141", f"'{name}' is also the name of a {kind}", hint)


def _domain(here: Problems[Written], name: str, each: WrittenDomain) -> Variable:
    truth = each.type == "bool" or (isinstance(each, WrittenVariable) and isinstance(each.initial, bool))
    ranged = each.from_ is not None or each.to is not None
    if truth + ranged + (each.values is not None) != 1:
        what = f"{here.table} needs exactly one kind of values"
        here.say("FSM140", what, 'write from = … and to = … for integers, values = […] for words, or type = "bool"')
        return Variable(name=name, truth=truth and not ranged)
    if each.scope and not ranged:
        here.say("FSM140", f"'{name}' has a scope, but is not a number", "leave out 'scope'", "scope")
    if truth:
        return Variable(name=name, about=each.about, truth=True)
    if each.values is not None:
        words = tuple(dict.fromkeys(each.values))
        taken = _RESERVED | here.model.written.data.keys() | {word for word in words if word.isdigit()}
        if len(words) < max(len(each.values), 1) or set(words) & taken:
            what = f"the words of '{name}' are empty, repeated or reserved"
            hint = "list each word once; numbers, names of variables, 'true', 'and' and the like are reserved"
            here.say("FSM140", what, hint, "values")
        return Variable(name=name, about=each.about, words=words or ("",), high=max(len(words) - 1, 0))
    low, high = each.from_ or 0, each.to if each.to is not None else each.from_ or 0
    if each.to is None or low > high or max(-low, high) > _LARGEST:
        what = f"'{name}' has no range: it goes from {low} to {'nothing' if each.to is None else high}"
        here.say("FSM140", what, "write from = … and to = …, with the smaller number first", "from")
    beyond: Literal["scope", "error"] = "scope" if each.scope else "error"
    return Variable(name=name, about=each.about, low=low, high=max(low, high), initial=low, beyond=beyond)


@dataclass(frozen=True, slots=True, kw_only=True)
class Guards:
    """Parses the conditions and updates of outcomes, which may read the variables in ``data`` and ``arguments``."""

    problems: Problems[Written]
    data: Mapping[str, Variable]
    arguments: Mapping[str, Variable]

    def outcome(self, made: Outcome, written: WrittenOutcome, at: Keys) -> Outcome:
        when = None
        if written.when is not None and written.when != OTHERWISE:
            text = written.when
            means = self._parsed(lambda: self._grammar(text).condition().means, (*at, "when"))
            when = WrittenCondition(text=text, means=means) if means else None
        updates = tuple(
            update
            for name, value in written.set.items()
            if (update := self._update(name, value, (*at, "set", name))) is not None
        )
        return replace(made, when=when, updates=updates, chosen=written.chosen)

    def with_rest(self, made: Sequence[Outcome], written: Sequence[WrittenOutcome], at: Keys) -> tuple[Outcome, ...]:
        """Give the outcomes that are written with ``otherwise`` their condition."""
        rest = [index for index, each in enumerate(written) if each.when == OTHERWISE]
        guards = [each.when.means for each in made if each.when is not None]
        if rest and (len(rest) > 1 or len(made) == 1 or not all(each.when is not None for each in written)):
            what = "'otherwise' needs other outcomes in the cell, each with a condition of its own"
            self.problems.say("FSM142", what, "write a condition instead of 'otherwise'", *at, rest[-1])
            return tuple(made)
        otherwise = _otherwise(guards)
        return tuple(replace(each, when=otherwise) if index in rest else each for index, each in enumerate(made))

    def _update(self, name: str, value: Argument, at: Keys) -> DataUpdate | None:
        if name not in self.data:
            hint = nearest(name, self.data, of="variables")
            self.problems.say("FSM142", f"an outcome sets '{name}', which is not a variable", hint, *at)
            return None
        variable = self.data[name]
        if not isinstance(value, str):
            try:
                return DataUpdate(variable=name, term=Constant(value=variable.encoded(value)), text=str(value).lower())
            except ValueError as error:
                self.problems.say("FSM142", f"the new value of {error}", "give one of its values", *at)
                return None
        term = self._parsed(lambda: self._grammar(value).term(type_of(variable)), at)
        return DataUpdate(variable=name, term=term, text=value) if term else None

    def _grammar(self, text: str) -> GuardGrammar:
        return GuardGrammar(text=text, data={**self.data, **self.arguments})

    def _parsed(self, parse: Callable[[], T], at: Keys) -> T | None:
        try:
            return parse()
        except ConditionError as error:
            self.problems.say("FSM142", error.what, error.hint, *at)
            return None


def _otherwise(guards: Sequence[Condition]) -> WrittenCondition:
    means = Not(of=any_of(guards)) if guards else All(of=())
    return WrittenCondition(text=OTHERWISE, means=means)


def with_rest_of(ways: Sequence[Outcome]) -> tuple[Outcome, ...]:
    """Return *ways* with the conditions ``otherwise`` computed again, after other conditions have changed."""
    rest = [way.when is not None and way.when.text == OTHERWISE for way in ways]
    guards = [way.when.means for way, is_rest in zip(ways, rest, strict=True) if way.when and not is_rest]
    changed = _otherwise(guards)
    return tuple(replace(way, when=changed) if is_rest else way for way, is_rest in zip(ways, rest, strict=True))


def check_data(problems: Problems[Written], machine: Machine) -> None:
    """Report cells whose guards do not cover all values or overlap, and updates that leave a range."""
    for event in machine.events.values():
        many = prod(each.high - each.low + 1 for each in event.arguments.values())
        if many > MOST_ARGUMENTS:
            what = f"the arguments of '{event.name}' have {many:,} combinations, more than {MOST_ARGUMENTS:,}"
            hint = "write smaller ranges with scope = true; other values may still occur"
            problems.say("FSM147", what, hint, "event", event.name, "arguments")
            continue
        done = set[tuple[object, ...]]()
        for state, cell in (*event.cells.items(), *event.ends.items()):
            ways = cell.outcomes if isinstance(cell, Moves) else ()
            at = (cell.line, *((way.when, way.updates) for way in ways))
            if any(way.when or way.updates for way in ways) and at not in done:
                done.add(at)
                say = partial(problems.say_at, cell.line)
                _Cell(say=say, machine=machine, event=event, state=state).check(ways)


def data_faults(machine: Machine, event: Event, state: str, ways: Sequence[Outcome]) -> list[tuple[str, str, str]]:
    """Return the faults in the conditions and updates of *ways*, the outcomes of a cell: codes, texts and hints."""
    found: list[tuple[str, str, str]] = []
    _Cell(say=lambda *fault: found.append(fault), machine=machine, event=event, state=state).check(ways)
    return found


@dataclass(frozen=True, slots=True, kw_only=True)
class _Cell:
    say: Callable[[str, str, str], None]
    machine: Machine
    event: Event
    state: str

    def check(self, ways: Sequence[Outcome]) -> None:
        where = f"the outcomes of '{self.event.name}' in '{self.state}'"
        guards = [way.when.means if way.when else All(of=()) for way in ways]
        if all(way.when for way in ways) and (values := self._values(Not(of=Some(of=tuple(guards))))) is not None:
            what = f"{where} do not cover {values or 'any values'}"
            self.say("FSM143", what, 'add an outcome, or write: when = "otherwise"')
        for index, way in enumerate(ways if any(way.when for way in ways) else ()):
            for other, guard in zip(ways[:index], guards[:index], strict=True):
                both = All(of=(guard, guards[index]))
                may_meet = (way.chosen and other.chosen) or way.deviation or other.deviation
                if not may_meet and (values := self._values(both)) is not None:
                    what = (
                        f"the outcomes '{other.name}' and '{way.name}' of '{self.event.name}' in '{self.state}' overlap"
                    )
                    hint = "let one condition exclude the other, or write chosen = true in both, if either may happen"
                    self.say("FSM144", f"{what} for {values or 'all values'}", hint)
        for way, guard in zip(ways, guards, strict=True):
            for update in way.updates:
                self._check_range(way, guard, update)

    def _check_range(self, way: Outcome, guard: Condition, update: DataUpdate) -> None:
        variable = self.machine.data[update.variable]
        if variable.beyond != "error":
            return
        less = Compare(comparison="<", left=update.term, right=Constant(value=variable.low))
        more = Compare(comparison=">", left=update.term, right=Constant(value=variable.high))
        if (values := self._values(All(of=(guard, Some(of=(less, more)))))) is not None:
            what = f"'{way.name}' of '{self.event.name}' in '{self.state}' sets '{update.variable}' to {update.text}"
            what += f", which is not {variable.domain}" + (f" for {values}" if values else "")
            hint = "restrict the condition, extend the range, or write saturates = true or scope = true at the variable"
            self.say("FSM145", what, hint)

    def _values(self, condition: Condition) -> str | None:
        known = {**self.machine.data, **self.event.arguments}
        try:
            found = solution(condition, {name: (each.low, each.high) for name, each in known.items()})
        except TooManyValuesError:
            what = f"whether all values fit the outcomes of '{self.event.name}' in '{self.state}' cannot be decided"
            hint = "write simpler conditions, smaller ranges with scope = true, or saturates = true at what is set"
            self.say("FSM146", what, hint)
            return None
        return None if found is None else ", ".join(assignments((known[name] for name in found), tuple(found.values())))
