"""Flatten machines of Python libraries: drive them from state to state, with every result of every condition.

The libraries themselves decide what happens in nested, parallel and remembered states.  Before a machine is driven, its
actions are removed, and its conditions are replaced by questions.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, TypeAlias

from transitions import Machine as LibraryMachine
from transitions import MachineError
from transitions.extensions import HierarchicalMachine
from transitions.extensions.asyncio import AsyncMachine

from fsm.errors import encodable, refused
from fsm.interop.draft import NOT, Draft, DraftState, DraftTransition

MOST_STATES: Final = 200
MOST_WAYS: Final = 64  # combinations of the conditions for which one event in one state asks
MOST_STEPS: Final = 50_000
MOST_QUESTIONS: Final = 1_000  # in one step; a step that asks more often has no end
STAYS: Final = "In all other cases: the state stays the same."
INTERNAL: Final = re.compile(r"(done[._](state|invoke)|error)[._].*|__initial__")  # events that the library sends
LOGIC: Final = re.compile(r"[\w\s!^()]+")  # conditions that consist of names, not, and, or


class EndlessStepError(BaseException):
    """A step does not end. This is no :class:`Exception`, because the libraries catch those."""


class VetoError(Exception):
    """A validator refuses an event."""


@dataclass(slots=True, kw_only=True)
class GuardAnswers:
    """The results of conditions in one step: those in *given* first, and then true."""

    given: list[bool] = field(default_factory=list)
    asked: dict[str, bool] = field(default_factory=dict)
    count: int = 0
    functions: dict[str, list[object]] = field(default_factory=dict)

    def ask(self, name: str = "") -> bool:
        self.count += 1
        if self.count > MOST_QUESTIONS:
            raise EndlessStepError
        given = self.given[len(self.asked) : len(self.asked) + 1] or [True]
        return self.asked.setdefault(name, *given) if name else True

    def question(self, called: object, *, raises: bool = False) -> Callable[..., bool]:
        """Return a condition in place of *called*, named after it. The second lambda is called ``lambda-2``."""
        name = _name_of(called)
        same = self.functions.setdefault(name, [])
        same += [] if called in same else [called]
        name += f"-{same.index(called) + 1}" if same.index(called) else ""

        def asked(*_: object, **__: object) -> bool:
            if not self.ask(name) and raises:
                raise VetoError
            return self.asked[name]

        return asked


@dataclass(frozen=True, slots=True, kw_only=True)
class LibraryState:
    """A state of a library's machine: the names of its leaves and of those that it remembers, and all to restore it."""

    leaves: tuple[str, ...]
    saved: Any
    remembers: tuple[str, ...] = ()
    final: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class DrivenMachine:
    """A library's machine without actions. *step* returns ``None`` if the library raises an error."""

    events: tuple[str, ...]
    places: tuple[LibraryState, ...]  # those that are known, the initial one first
    step: Callable[[LibraryState, str], LibraryState | None]
    answers: GuardAnswers
    lost: Mapping[str, Iterable[str]]  # names of what was removed, by the words for it
    parents: Iterable[str]
    declared: tuple[str, ...]  # the names of all states, in the order of the file


_Ways: TypeAlias = list[tuple[dict[str, bool], LibraryState | None]]


@contextmanager
def refusing(path: str, at: str) -> Iterator[None]:
    try:
        yield
    except EndlessStepError as error:
        hint = "give the transitions without an event a condition"
        raise refused(path, "FSM531", f"the machine takes steps without an end at {at}", hint) from error
    except Exception as error:
        what = f"the library fails at {at}: {type(error).__name__}: {error}"
        raise refused(path, "FSM518", what, "correct the definition; Python fails in the same way") from error


def flattened(drive: Callable[[Any], DrivenMachine], machine: object, name: str, form: str, path: str) -> Draft:
    """Return a draft with flat states. Raise :class:`InputError` for *path* if it is too large."""
    cells: dict[LibraryState, dict[str, _Ways]] = {}
    with refusing(path, "the beginning"):
        driven = drive(machine)
    if driven.answers.asked:
        what = f"where '{name}' begins depends on conditions: {', '.join(driven.answers.asked)}"
        raise refused(path, "FSM531", what, "give the transitions of the initial state an event")
    waiting, steps = list(driven.places), 0
    for place in waiting:
        if place not in cells:
            cells[place] = {event: _ways(driven, place, event, path) for event in driven.events}
            found = [to for ways in cells[place].values() for _, to in ways]
            waiting += filter(None, found)
            steps += len(found)
        if len(cells) > max(MOST_STATES, len(driven.places)) or steps > MOST_STEPS:
            what = f"'{name}' has more than {MOST_STATES} flat states or {MOST_STEPS} steps"
            hint = "parallel states multiply: import their regions as machines, and join these in a [system]"
            raise refused(path, "FSM531", what, hint)
    names = _names(cells)
    states: dict[str, LibraryState] = {}
    for place in cells:
        states.setdefault(names[place], place)
    arrows = [arrow for each, place in states.items() for arrow in _arrows(each, cells[place], names)]
    if not arrows:
        raise refused(path, "FSM509", f"'{name}' has no transitions", "add a transition")
    return Draft(
        name=name,
        form=form,
        kind="call",
        initial=names[driven.places[0]],
        about=_about(path, form, arrows, driven),
        states=tuple(
            DraftState(name=each, ignores=False, final=place.final, shows=".".join(place.leaves))
            for each, place in sorted(states.items(), key=lambda item: _declared_places(item[1], driven.declared))
        ),
        transitions=tuple(sorted(arrows, key=lambda arrow: driven.events.index(arrow.event))),
    )


def _declared_places(place: LibraryState, declared: tuple[str, ...]) -> list[int]:
    return [declared.index(leaf) if leaf in declared else len(declared) for leaf in place.leaves]


def _about(path: str, form: str, arrows: Iterable[DraftTransition], driven: DrivenMachine) -> str:
    words = [
        f"Imported from {encodable(Path(path).name)}, {form}.",
        "If the library raises an error, the reply is error.",
    ]
    if conditions := dict.fromkeys(each.removeprefix(NOT) for arrow in arrows for each in arrow.when):
        words.append(f"Choices of the environment, because Python decides them: {', '.join(conditions)}.")
    lost = {what: ", ".join(dict.fromkeys(names)) for what, names in driven.lost.items()}
    words += [f"{what} are left out: {names}." for what, names in lost.items() if names]
    if parents := ", ".join(driven.parents):
        words.append("Nested states are flat: a state is named after its active leaves and what its history remembers.")
        words.append(f"These states have only leaves: {parents}.")
    return " ".join(words)


def _name_of(called: object) -> str:
    return called if isinstance(called, str) else str(getattr(called, "__name__", "a function")).strip("<>")


def _ways(driven: DrivenMachine, place: LibraryState, event: str, path: str) -> _Ways:
    found: _Ways = []
    given, answers = [True], driven.answers
    at = f"event '{event}' in state '{'.'.join(place.leaves)}'"
    while given or not found:
        answers.given, answers.asked, answers.count = given if found else [], {}, 0
        with refusing(path, at):
            found.append((answers.asked, driven.step(place, event)))
        if (to := found[-1][1]) and not to.leaves:
            hint = "give each history state a default: history.to(STATE)"
            raise refused(path, "FSM518", f"after {at}, no state is active", hint)
        if len(found) > MOST_WAYS:
            what = f"{at} asks for conditions that have more than {MOST_WAYS} combinations"
            raise refused(path, "FSM531", what, "combine conditions that belong together in one method")
        given = list(answers.asked.values())
        while given and not given.pop():
            pass
        given += [False] * (True in answers.asked.values())
    return found


def _names(cells: Mapping[LibraryState, Mapping[str, _Ways]]) -> dict[LibraryState, str]:
    """Name the places. Those with the same leaves have one name if nothing distinguishes their futures."""
    groups: dict[LibraryState | None, Hashable] = {place: place.leaves for place in cells}
    count = 0
    while count < (count := len(set(groups.values()))):
        number = {group: index for index, group in enumerate(dict.fromkeys(groups.values()))}
        groups[None] = None
        number[None] = -1
        groups = {
            place: (
                number[groups[place]],
                *((*asked.items(), number[groups[to]]) for ways in row.values() for asked, to in ways),
            )
            for place, row in cells.items()
        }
    named: dict[Hashable, str] = {}
    for place in cells:
        name = ".".join(place.leaves)
        name += f"-after-{'.'.join(place.remembers)}" if name in named.values() and place.remembers else ""
        same = list(named.values()).count(name)
        named.setdefault(groups[place], f"{name}-{same + 1}" if same else name)
    return {place: named[groups[place]] for place in cells}


def _arrows(name: str, row: Mapping[str, _Ways], names: Mapping[LibraryState, str]) -> Iterator[DraftTransition]:
    """Yield the transitions of the state *name*, without those of events that always fail."""
    for event, ways in row.items():
        results = [(asked, names[to] if to else None) for asked, to in ways]
        idle = [to for _, to in results if to in {None, name}]
        # The first transition whose conditions hold is taken, so what is false needs no words. But if the last result
        # is a step, it gets words, and an earlier result, in which nothing happens, becomes the last one.
        last = idle[-1] if idle else results[-1][1]
        exact = last != results[-1][1]
        if exact:
            results = [(asked, to) for asked, to in results if to != last]
        while results and not exact and results[-1][1] == last:
            results.pop()
        for asked, to in [*results, ({}, last)]:
            when = tuple(atom if true else f"{NOT}{atom}" for atom, true in asked.items() if true or exact)
            target = "" if to in {None, name} else str(to)
            notes = (STAYS,) if results and not when and to in {None, name} else ()
            if to or results:
                yield DraftTransition(event=event, source=name, to=target, when=when, notes=notes, fails=to is None)


def drive_transitions(machine: LibraryMachine) -> DrivenMachine:
    """Return *machine*, whose callbacks are removed. Its automatic triggers are no events."""
    answers, nested = GuardAnswers(), isinstance(machine, HierarchicalMachine)
    actions: list[object] = []

    def remove(owner: object, *words: str) -> None:
        for word in words:
            actions.extend(getattr(owner, word, ()))
            setattr(owner, word, [])

    remove(machine, "prepare_event", "before_state_change", "after_state_change", "finalize_event", "on_final")
    machine.on_exception = [lambda *_, **__: None] if machine.on_exception else []
    names = machine.get_nested_state_names() if nested else list(machine.states)
    states: list[Any] = [machine.get_state(name) for name in names]
    timed = [name for name, state in zip(names, states, strict=True) if getattr(state, "timeout", 0)]
    for state in states:
        remove(state, "on_enter", "on_exit", "on_final", "on_timeout")
        state.timeout = 0
    for way in machine.get_transitions():
        remove(way, "prepare", "before", "after")
        for each in way.conditions:
            each.func = answers.question(each.func)
    model: Any = type("Model", (), {})()
    machine.add_model(model)

    def step(place: LibraryState, event: str) -> LibraryState | None:
        machine.set_state(_nested(place.saved, list), model)
        try:
            done = model.trigger(event)
            _ = asyncio.run(done) if isinstance(machine, AsyncMachine) else None
        except MachineError:
            return None
        return here()

    def here() -> LibraryState:
        saved = _nested(getattr(model, machine.model_attribute), tuple)
        leaves = tuple(str(getattr(each, "name", each)) for each in _leaves(saved))
        return LibraryState(leaves=leaves, saved=saved, final=len(leaves) == 1 and bool(machine.get_state(saved).final))

    places = [here()]
    parents = [name for name, state in zip(names, states, strict=True) if getattr(state, "states", ())]
    for name in () if parents else names:
        machine.set_state(name, model)  # a flat machine keeps the states that only automatic triggers reach
        places.append(here())
    automatic = {f"to_{name}" for name in names if machine.auto_transitions}
    events = dict.fromkeys(machine.get_nested_triggers() if nested else machine.events)
    events = {each: None for each in events if each not in automatic}
    return DrivenMachine(
        events=tuple(events),
        places=tuple(places),
        step=step,
        answers=answers,
        lost={"Actions": map(_name_of, actions), "Timeouts of states": timed},
        parents=parents,
        declared=tuple(names),
    )


def _nested(state: Any, kind: type) -> Any:  # noqa: ANN401  (lists or tuples, as deep as the machine)
    return kind(_nested(each, kind) for each in state) if isinstance(state, list | tuple) else state


def _leaves(state: Any) -> list[Any]:  # noqa: ANN401
    return [leaf for each in state for leaf in _leaves(each)] if isinstance(state, tuple) else [state]


def _questions(condition: object, kind: object, answers: GuardAnswers) -> object:
    """Return a condition that asks instead. If it combines names, these become questions in the class *kind*."""
    from statemachine import spec_parser  # noqa: PLC0415

    if not (isinstance(condition, str) and LOGIC.fullmatch(condition)):
        return answers.question(condition)
    for name in spec_parser.names_in_boolean_expr(condition):
        setattr(kind, name, staticmethod(answers.question(name)))
    return condition


def drive_statemachine(kind: Any) -> DrivenMachine:  # noqa: ANN401  (a class of a library that need not be installed)
    """Return a machine of the class *kind* of python-statemachine. The callbacks of the class are removed."""
    from statemachine import StateChart, graph  # noqa: PLC0415

    answers, actions = GuardAnswers(), list[str]()
    bare: Any = type(kind)(kind.__name__, (kind,), {"__init__": StateChart.__init__})
    delayed = [str(each) for each in bare._events if each.delay]
    bare._class_listeners = []
    bare._specs.clear()
    for each in graph.iterate_states_and_transitions(bare.states):
        specs, each._specs.items = each._specs.items, []
        if hasattr(each, "validators") and not each.initial:
            each.cond.add(lambda *_, **__: answers.ask())
        for spec in specs:
            if spec.group.name == "VALIDATOR":
                each.validators.add(answers.question(spec.func, raises=True))
            elif spec.group.name == "COND":
                each.cond.add(_questions(spec.func, bare, answers), expected_value=spec.expected_value)
            elif not spec.is_convention or hasattr(kind, spec.func):
                actions.append(_name_of(spec.func))
    machine = bare()
    states, engine = machine._config._instance_states, machine._engine

    def step(place: LibraryState, event: str) -> LibraryState | None:
        active, memory, engine.running = place.saved
        machine._config._write_to_model(type(machine.configuration_values)(active))
        machine.history_values = {name: [states[each] for each in past] for name, past in memory}
        try:
            machine.send(event, delay=0)
        except (kind.TransitionNotAllowed, VetoError):
            return None
        return here()

    def here() -> LibraryState:
        active = tuple(machine.configuration_values)  # the library's answers depend on the order
        memory = sorted((name, tuple(each.value for each in past)) for name, past in machine.history_values.items())
        return LibraryState(
            leaves=tuple(state.id for value, state in states.items() if value in active and state.is_atomic),
            remembers=tuple(states[each].id for _, past in memory for each in past if states[each].is_atomic),
            saved=(active, tuple(memory), engine.running),
            final=not engine.running,
        )

    events = tuple(str(each) for each in bare._events if not INTERNAL.fullmatch(each))
    parents = [state.id for state in states.values() if state.states]
    lost = {"Actions": actions, "Delays of events": delayed}
    return DrivenMachine(
        events=events,
        places=(here(),),
        step=step,
        answers=answers,
        lost=lost,
        parents=parents,
        declared=tuple(state.id for state in states.values()),
    )
