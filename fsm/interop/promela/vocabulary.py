"""The names of a machine in Promela, and conditions as Promela expressions.

An expression describes one instant, and its macro has seven parameters: ``was`` and ``is``, the states before and
after the step; ``event``; ``reply``, and ``whose``, the call that receives this reply; ``output``, the output of the
instant; and ``all``, the position in ``lists`` of all outputs of the step, counted from 1 (0 before the first step).
"""

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from math import gcd
from typing import Final, assert_never

from fsm.language.names import identifiers
from fsm.machine import ANY_ERROR, Machine, Outcome, Silent, conditions, outcomes, terms
from fsm.machine.conditions import Atom, Condition, atoms
from fsm.machine.terms import DataUpdate, Term, names_in

_NONE: Final[Mapping[str, int]] = {}


@dataclass(frozen=True, slots=True, kw_only=True)
class ExportedStep:
    """An outcome of an event in a state, or of a call in progress if ``ends`` is true."""

    event: str
    ends: bool
    source: str
    way: Outcome
    reply: str  # may be empty
    given: tuple[tuple[str, int], ...] = ()  # the arguments

    @property
    def title(self) -> str:
        name = f"{self.event}{' ends' if self.ends else ''}/{self.way.name}"
        reply = f" replies {self.reply}" if self.reply else ""
        emits = f" emits {', '.join(self.way.emits)}" if self.way.emits else ""
        given = f" with {', '.join(f'{name} {value}' for name, value in self.given)}" if self.given else ""
        return f"{name}{given}{reply}{emits}: {self.source} to {self.way.to}"


def steps(machine: Machine, codes: Collection[str] | None = None) -> Iterator[ExportedStep]:
    """Yield every step of *machine* in the model's order. Silent cells have no steps.

    If *codes* are given, each reply of an outcome is a step, and "any error" includes each of *codes*.
    """
    for event in machine.events.values():
        for ends, cells in ((False, event.cells), (True, event.ends)):
            for source in machine.states:
                cell = cells.get(source)
                for way in (outcomes(cell, source, event.kind) or ()) if cell else ():
                    read = _names(way) & event.arguments.keys()
                    if read and ends:
                        what = f"the end of '{event.name}' reads '{min(read)}', and Promela does not store arguments"
                        raise CannotExportError(f"{what}: store it in a variable when the call begins")
                    ranges = [range(each.low, each.high + 1) for name, each in event.arguments.items() if name in read]
                    names = [name for name in event.arguments if name in read]
                    for reply, values in product(_replies(way.reply, codes), product(*ranges)):
                        given = tuple(zip(names, values, strict=True))
                        yield ExportedStep(
                            event=event.name, ends=ends, source=source, way=way, reply=reply, given=given
                        )
    for source in machine.states:
        if any(source in timer.states for timer in machine.timers.values()):
            way = Outcome(name="second", to=source)
            yield ExportedStep(event=TIME, ends=False, source=source, way=way, reply="")


def _names(way: Outcome) -> set[str]:
    tested = (each for each in atoms(way.when.means) if isinstance(each, conditions.Compare)) if way.when else ()
    return {name for each in tested for name in each.names} | {
        name for update in way.updates for name in names_in(update.term)
    }


def reached(machine: Machine) -> tuple[list[frozenset[tuple[str, frozenset[str]]]], int]:
    """Return the reachable states by distance from the initial state, and the number of steps.

    Each state is a pair of a state of the machine and the calls that have begun.
    """
    start = (machine.initial, frozenset[str]())
    layers, met, taken, every = [frozenset({start})], {start}, 0, list(steps(machine))
    while layers[-1]:
        further = set()
        for state, begun in layers[-1]:
            for step in every:
                own = step.event in begun
                if step.source != state or (step.ends and not own) or (step.way.begins and own and not step.ends):
                    continue
                over = begun if machine.events[step.event].interrupts else {step.event} if step.ends else set[str]()
                left = begun - over
                further.add((step.way.to, left | {step.event} if step.way.begins else left))
                taken += 1
        layers.append(frozenset(further - met))
        met |= further
    return layers[:-1], taken


def _replies(replies: tuple[str, ...], codes: Collection[str] | None) -> tuple[str, ...]:
    if not replies:
        return ("",)
    if codes is None:
        return (" or ".join(replies),)
    return tuple(dict.fromkeys((*replies, *sorted(codes)))) if ANY_ERROR in replies else replies


def silent(machine: Machine, event: str) -> tuple[str, ...]:
    return tuple(state for state, cell in machine.events[event].cells.items() if isinstance(cell, Silent))


class CannotExportError(Exception):
    """The target language cannot express the claim. The message contains the reason and a remedy."""


TIME: Final = "time passes"  # event of the steps that let the clocks run
STOPPED: Final = -1  # value of the clock of a timer that does not run
INSTANT: Final = "was, is, event, whose, reply, output, all"
NOWHERE: Final = "s_none"  # the state before the first instant of a run
SMALL: Final = 250  # largest number that is stored in a byte; the other values of a byte are reserved


class PromelaNames:
    """The Promela names for *machine* and for the conditions in *stated*."""

    def __init__(self, machine: Machine, stated: Iterable[Condition]) -> None:
        mentioned = [atom for condition in stated for atom in atoms(condition)]
        replies = {each.reply for each in mentioned if isinstance(each, conditions.Replies)}
        self.machine = machine
        self.codes = frozenset(replies - {"ok", ANY_ERROR})  # the error replies in *stated*
        taken = list(steps(machine, self.codes))
        outputs = [output for step in taken for output in step.way.emits]
        outputs += [each.output for each in mentioned if isinstance(each, conditions.Emits) and each.output]
        given = ["ok", ANY_ERROR, *(step.reply for step in taken if step.reply), *sorted(self.codes)]
        self.states = identifiers("s_", machine.states, taken=["s_none"])
        named = [*machine.events, *([TIME] if machine.timers else [])]
        self.events = identifiers("e_", dict.fromkeys(named), taken=["e_none"])
        self.replies = identifiers("r_", dict.fromkeys(given), taken=["r_none"])
        self.outputs = identifiers("o_", dict.fromkeys(outputs), taken=["o_none"])
        timed = [event.name for event in machine.events.values() if event.ends]
        # Maps each call that takes time to the variable that is true while the call is in progress.
        self.begun = identifiers("begun_", dict.fromkeys(timed))
        self.data = identifiers("d_", dict.fromkeys(machine.data))
        self.clocks = identifiers("c_", dict.fromkeys(machine.timers))
        self._unit = gcd(*(each for timer in machine.timers.values() for each in (timer.earliest, timer.latest)))
        changed = (step.way.updates for step in taken if not _in_order(step.way.updates))
        # Variables whose new values are stored first, because others depend on the old ones, and vice versa.
        self._swapped = {self.data[each.variable] for updates in changed for each in updates}
        self.lists = tuple(dict.fromkeys(step.way.emits for step in taken))

    def definitions(self) -> Iterator[str]:
        yield "/* states; s_none is before the first */"
        yield from (f"#define {name} {number}" for number, name in enumerate(self.states.values()))
        yield f"#define {NOWHERE} {len(self.states)}"
        for title, names in (("events", self.events), ("replies", self.replies), ("outputs", self.outputs)):
            yield f"/* {title} */"
            yield f"#define {title[0]}_none 0"
            yield from (f"#define {name} {number}" for number, name in enumerate(names.values(), 1))

    def first(self) -> str:
        return f"{NOWHERE}, {self.states[self.machine.initial]}, e_none, e_none, r_none, o_none, 0"

    def instants(self, step: ExportedStep) -> tuple[str, ...]:
        event = self.events[step.event]
        # The end of a call is only a reply.  It does not count as another occurrence of the event.
        happens = "e_none" if step.ends else event
        replies = f"{event}, {self.replies[step.reply]}" if step.reply else "e_none, r_none"
        place = f"{self.states[step.source]}, {self.states[step.way.to]}"
        outputs = [self.outputs[output] for output in step.way.emits] or ["o_none"]
        all_ = self.lists.index(step.way.emits) + 1
        return tuple(f"{place}, {happens}, {replies}, {output}, {all_}" for output in outputs)

    def calls(self, step: ExportedStep) -> tuple[list[str], dict[str, int]]:
        if step.event == TIME:
            return [], {}
        own, event = self.begun.get(step.event, ""), self.machine.events[step.event]
        if step.ends:
            return [own], {} if step.way.begins else {step.event: 0}
        if step.way.begins:
            return [f"!{own}"], {step.event: 1}
        return [], dict.fromkeys(self.begun, 0) if event.interrupts else {}

    def variables(self) -> Iterator[str]:
        for name, each in self.machine.data.items():
            yield f"{'byte' if each.low >= 0 and each.high <= SMALL else 'int'} {self.data[name]} = {each.initial};"
        for name, timer in self.machine.timers.items():
            yield f"int {self.clocks[name]} = {0 if self.machine.initial in timer.states else STOPPED};"
        yield from (f"int new_{word} = 0;" for word in self.data.values() if word in self._swapped)

    def _clock_of(self, step: ExportedStep) -> tuple[list[str], list[str]]:
        """Return the guards and the effects of a step on clocks, which count in the greatest whole unit."""
        guards, effects = list[str](), list[str]()
        for name, timer in self.machine.timers.items():
            clock, ran, runs = self.clocks[name], step.source in timer.states, step.way.to in timer.states
            if step.event == TIME:
                guards += [f"{clock} < {timer.latest // self._unit}"] if ran else []
                effects += [f"{clock} = {clock} + 1"] if ran else []
                continue
            fires = step.event == timer.event
            acts = not step.way.begins and (not step.way.reply or "ok" in step.way.reply)
            guards += [f"{clock} >= {timer.earliest // self._unit}"] if ran and fires else []
            if ran and not runs:
                effects.append(f"{clock} = {STOPPED}")
            elif runs and (not ran or fires or (step.event in timer.restarts and acts)):
                effects.append(f"{clock} = 0")
        return guards, effects

    def data_of(self, step: ExportedStep) -> tuple[list[str], list[str]]:
        """Return the guards and the effects of a step on data, with its arguments inserted."""
        given = dict(step.given)
        guards = [self.expression(step.way.when.means, given)] if step.way.when else []
        first, then = list[str](), list[str]()
        in_order = _in_order(step.way.updates)
        for update in in_order or step.way.updates:
            each, word = self.machine.data[update.variable], self.data[update.variable]
            value = self.term(update.term, given)
            if each.beyond == "saturates":
                value = f"({value} < {each.low} -> {each.low} : ({value} > {each.high} -> {each.high} : {value}))"
            elif each.beyond == "scope":
                guards.append(f"({each.low} <= {value} && {value} <= {each.high})")
            first.append(f"{'' if in_order else 'new_'}{word} = {value}")
            then += [] if in_order else [f"{word} = new_{word}", f"new_{word} = 0"]
        timed, clocks = self._clock_of(step)
        return [*guards, *timed], [*first, *then, *clocks]

    def term(self, term: Term, given: Mapping[str, int]) -> str:
        match term:
            case terms.Constant(value=value):
                return f"({value})" if value < 0 else str(value)
            case terms.Read(name=name):
                return str(given[name]) if name in given else self.data[name]
            case terms.Combined(operator=operator, left=left, right=right):
                one, other = self.term(left, given), self.term(right, given)
                if operator in {"+", "-"}:
                    return f"({one} {operator} {other})"
                return f"({one} {'<' if operator == 'min' else '>'} {other} -> {one} : {other})"
            case _:
                assert_never(term)

    def any_of(self, states: Iterable[str], of: str) -> str:
        wanted = frozenset(states)
        found = [f"{of} == {word}" for state, word in self.states.items() if state in wanted]
        return f"({' || '.join(found)})" if found else "(false)"

    def expression(self, condition: Condition, given: Mapping[str, int] = _NONE) -> str:
        match condition:
            case conditions.Not(of=inner):
                return f"(!{self.expression(inner, given)})"
            case conditions.All(of=parts):
                return f"({' && '.join(self.expression(each, given) for each in parts) or 'true'})"
            case conditions.Some(of=parts):
                return f"({' || '.join(self.expression(each, given) for each in parts)})"
            case conditions.Compare(comparison=comparison, left=left, right=right):
                return f"({self.term(left, given)} {comparison} {self.term(right, given)})"
            case _:
                return self._atom(condition)

    def _atom(self, condition: Atom) -> str:
        match condition:
            case conditions.In(states=states, before=before):
                return self.any_of(states, "was" if before else "is")
            case conditions.Emits(output=output):
                return f"(output == {self.outputs[output] if output else 'o_none'})"
            case conditions.EmitsOnly(outputs=outputs):
                return f"(all == {self.lists.index(outputs) + 1})" if outputs in self.lists else "(false)"
            case conditions.SilentOn(event=event):
                return self.any_of(silent(self.machine, event), "is")
            case conditions.Happens(event=event):
                return f"(event == {self.events[event]})"
            case conditions.Replies(event=event, reply=reply):
                test = f"reply != {self.replies['ok']}" if reply == ANY_ERROR else f"reply == {self.replies[reply]}"
                return f"(whose == {self.events[event]} && {test})"
            case conditions.StateChanges():
                return f"(was != is && was != {NOWHERE})"
            case conditions.At() | conditions.StepEmits() | conditions.Compare():
                raise TypeError(f"{condition} is not about the step of a machine")
            case _:
                assert_never(condition)


def _in_order(updates: Sequence[DataUpdate]) -> Sequence[DataUpdate]:
    """Return *updates* in an order in which none of them reads a variable that is already changed, if there is one."""
    left, found = [*updates], list[DataUpdate]()
    while left:
        reads = {
            id(each): {name for other in left if other is not each for name in names_in(other.term)} for each in left
        }
        free = next((each for each in left if each.variable not in reads[id(each)]), None)
        if free is None:
            return ()
        left.remove(free)
        found.append(free)
    return found


def size(numbers: int) -> str:
    return "byte" if numbers <= SMALL else "short" if numbers < 1 << 15 else "int"
