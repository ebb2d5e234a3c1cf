"""Find the system under test that a user names: a reference, Python code, a command or another model."""

import signal
import sys
from collections.abc import Callable, Mapping
from contextlib import suppress
from functools import partial
from importlib import import_module, invalidate_caches
from itertools import count
from pathlib import Path
from threading import current_thread, main_thread
from types import SimpleNamespace
from typing import Any, Final, cast

from fsm import entry_points
from fsm.conformance.asynchronous import Asynchronous, made
from fsm.conformance.failure import METHODS, misnamed
from fsm.conformance.scheme import SutRequest, foreign_schemes, own_schemes, scheme_of
from fsm.errors import InputError, documented, nearest, of_extra, refused
from fsm.language.library import is_system, load, load_system
from fsm.machine import ANY_ERROR, Machine
from fsm.machine.calls import ASKED, BEGUN, Rules
from fsm.machine.calls.valued import with_data
from fsm.machine.product.flatten import flatten
from fsm.machine.table import Way, tabulate
from fsm.machine.terms import Argument
from fsm.machine.versions import meant, within
from fsm.recordings import either
from fsm.sut import SUT, BrokenError, UnsupportedError

GRACE: Final = 1.0  # number of seconds for which an async SUT may run beyond the time limit of its waits


class Simulated:
    """A SUT that behaves like *machine*. By default, each event has its first outcome.

    Calls that the machine does not specify are answered with ok.

    >>> from fsm.language.library import load
    >>> washer = Simulated(load("examples/models/washer.toml"))
    >>> washer.arrange("start", "begins"), washer.arrange("start", "failed")
    (True, True)
    >>> washer.do("start"), washer.shows()
    ('NO_WATER', 'IDLE')
    """

    def __init__(self, machine: Machine) -> None:
        self._table = with_data(tabulate(machine))
        self._rules = Rules(self._table)
        if any(each.shown for each in machine.data.values()) and not hasattr(self, "fields"):
            self.fields = self._fields
        self.reset()

    def reset(self) -> None:
        self._state = self._table.initial
        self._calls: set[int] = set()
        self._out: list[str] = []
        self._wanted: list[str] = []

    def close(self) -> None: ...

    def shows(self) -> str:
        return self._table.shows[self._state]

    def _fields(self) -> dict[str, Argument]:
        return self._table.visible(self._state)

    def outputs(self) -> tuple[str, ...]:
        out, self._out = tuple(self._out), []
        return out

    def arrange(self, event: str, outcome: str) -> bool:
        row = self._table.row.get(event)
        if row is None:
            return False
        end = self._table.end.get(row, row)
        if self._wanted:  # The outcome is for a later stage, whose state is not known yet.
            cells = [(end, state) for state in range(len(self._table.states))]
        else:
            cells = [(each, self._state) for each in {row, end if row in self._calls else row}]
        self._wanted.append(outcome)
        return any(way.name == outcome for each, state in cells for way in self._table.step(state, each) or ())

    def do(self, event: str, *_: Any, **args: Any) -> str:  # noqa: ANN401  (subclasses need not accept any)
        row = self._row(event, args)
        way = self._take(row, ASKED)
        while way is not None and way.begins:
            way = self._take(row, BEGUN)
        return self._reply(row, way) or ""

    def begin(self, event: str, *_: Any, **args: Any) -> str | None:  # noqa: ANN401  (the same)
        row = self._row(event, args)
        return self._reply(row, self._take(row, ASKED))

    def end(self, event: str) -> str | None:
        row = next((each for each in sorted(self._calls) if self._table.rows[each].event.name == event), None)
        if row is None:
            raise UnsupportedError(f"{event} is not in progress")
        self._calls.remove(row)
        return self._reply(row, self._take(row, BEGUN))

    def _row(self, event: str, args: Mapping[str, Argument]) -> int:
        if event not in self._table.row:
            raise UnsupportedError(f"{self._table.machine.name} has no event {event!r}")
        return self._table.placed(self._table.row[event], args)

    def _take(self, row: int, stage: int) -> Way | None:
        """Take the next stage of a call or event. Return ``None`` if the model does not specify it."""
        if stage == ASKED and self._table.step(self._state, row) == ():
            message = f"{self._table.rows[row].name} cannot happen in state {self._table.states[self._state]}"
            raise UnsupportedError(message)
        instants = self._rules.instants(self._state, row, stage)
        if instants[0].way is None:
            return None
        wanted = self._wanted.pop(0) if self._wanted and len(instants) > 1 else ""
        instant = next((each for each in instants if each.way and each.way.name == wanted), instants[0])
        if self._rules.interrupts(row):
            self._calls.clear()
        self._state = instant.to
        self._out += instant.emits
        return instant.way

    def _reply(self, row: int, way: Way | None) -> str | None:
        self._wanted.clear()
        if way is not None and way.begins:
            self._calls.add(row)
            return None
        if self._table.rows[row].event.kind != "call":
            return ""
        code = way.reply[0] if way else "ok"
        return "UNKNOWN" if code == ANY_ERROR else code


OWN: Final[Mapping[str, str]] = {
    "reference": "the reference implementation",
    "python:MODULE:FACTORY": "what FACTORY() returns",
    "exec:COMMAND": "a process that speaks the protocol below",
    "model:MODEL": "another machine, simulated",
}


def references() -> Mapping[str, str]:
    return {name: kind for domain in entry_points.domains() for name, kind in domain.references.items()}


def find(
    name: str,
    machine: Machine,
    *,
    profile: str | None = None,
    options: Mapping[str, str] | None = None,
    model: str = "",
) -> Callable[[], SUT]:
    """Return a factory for the SUT called *name*, which is to be tested against *machine*.

    *name* must have one of the forms in :data:`OWN` or the form of a scheme (:mod:`fsm.conformance.scheme`), to which
    *options* are passed. Raise :class:`InputError` for any other name. A reference or model is used under *profile*.
    *model* is the name of the judging model, if *machine* has a different name.

    >>> from fsm.language.library import load
    >>> door = load("examples/models/door.toml")
    >>> find("model:examples/models/door.toml", door)().shows()
    'SHUT'
    """
    rest = name.partition(":")[2]
    model = model or machine.name
    asked = SutRequest(rest=rest, machine=machine, model=model, profile=profile, options=options or {})
    return factory_of(name, asked)


def factory_of(name: str, asked: SutRequest, counts: Mapping[str, int] | None = None) -> Callable[[], SUT]:
    """Return a factory for the SUT called *name*.

    A simulated system has *counts* copies of its parts. The time limit in *asked* applies to each answer. If the SUT
    is Python code, the limit applies only to calls from the main thread.
    """
    kind, rest, profile, timeout = name.partition(":")[0], asked.rest, asked.profile, asked.timeout
    scheme = scheme_of(name)
    match kind:
        case "reference" if not rest:
            profiles = meant(profile, asked.machine.profiles)
            factory = _reference(asked.machine, "+".join(own or each for each, own in profiles.items()))
        case "python" if rest:
            factory = named_object(name, rest)
        case "exec" if rest.strip():
            child: Callable[..., SUT] = import_module("fsm.conformance.exec.adapter").child
            factory = partial(child, rest) if timeout is None else partial(child, rest, timeout=timeout)
        case "model" if rest:
            if is_system(rest):
                system = load_system(rest, counts)
                other = flatten(system.under(within(profile, system.profiles)))
            else:
                other = load(rest).partly_under(profile)
            factory = partial(Simulated, other)
        case _ if scheme is not None:
            factory = scheme.factory(asked)
        case _:
            raise _refusal(name, "this does not name a system under test", f"use {either([*forms(foreign=True)])}")
    if timeout is None or kind == "exec" or (scheme is not None and scheme.waits):
        return lambda: _make_sut(name, factory, asked)
    if not hasattr(signal, "setitimer"):  # Windows
        raise _refusal(name, "a call cannot be interrupted on this operating system", "leave out --timeout")
    return lambda: _with_time_limit(_make_sut(name, factory, asked), timeout)


def forms(*, foreign: bool = False) -> dict[str, str]:
    schemes = [*own_schemes(), *(foreign_schemes() if foreign else ())]
    *before, last = OWN.items()
    return dict([*before, *((each.form, each.about) for each in schemes), last])


def _with_time_limit(sut: SUT, timeout: float) -> SUT:
    grace = GRACE if isinstance(sut, Asynchronous) else 0.0  # It ends a wait in real time itself.
    methods = {
        name: partial(_call_within, getattr(sut, name), timeout, grace) for name in METHODS if hasattr(sut, name)
    }
    others: dict[str, Callable[..., object]] = {name: getattr(sut, name) for name in ("close", *misnamed(sut))}
    if isinstance(sut, Asynchronous):

        def close() -> None:
            with suppress(BrokenError):  # The end of this test is not judged.
                methods["leftovers"]()

        def reset() -> None:
            close()
            methods["reset"]()

        others |= {"close": close, "reset": reset}
    return cast("SUT", SimpleNamespace(**{**methods, **others}))


def _call_within(
    method: Callable[..., object], timeout: float, grace: float, *arguments: object, **given: object
) -> object:
    """Call *method*, and raise :class:`BrokenError` in it after *timeout* and *grace* seconds.

    If the method catches the exception, raise it again after every further *timeout* seconds and after the return.
    Calls from threads other than the main thread have no time limit.
    """
    if current_thread() is not main_thread():
        return method(*arguments, **given)  # The search for races handles hanging threads itself.
    alarms = count()
    name = "close" if method.__name__ == "leftovers" else method.__name__
    if grace and name in {"do", "begin", "end"}:
        name = str(arguments[0])
    late = BrokenError(f"{name} did not return within {timeout:g} s")

    def alarm(_number: int, _frame: object) -> None:
        next(alarms)
        raise late

    before = signal.signal(signal.SIGALRM, alarm)
    signal.setitimer(signal.ITIMER_REAL, timeout + grace, timeout + grace)
    try:
        found = method(*arguments, **given)
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
    if next(alarms):  # The method has caught the exception.
        raise late
    return found


def _reference(machine: Machine, profile: str) -> Callable[[], SUT]:
    known = references()
    if machine.name not in known:
        hint = f"these models have a reference implementation: {', '.join(known)}; or use {either([*forms()][1:])}"
        raise _refusal("reference", f"there is no reference implementation of {machine.name}", hint)
    if not known[machine.name].startswith("fsm."):
        return partial(entry_points.loaded(known[machine.name]), profile)
    module, _, kind = known[machine.name].partition(":")
    return partial(getattr(of_extra(module, "reference", extra="service"), kind), profile)


def named_object(name: str, rest: str) -> Callable[[], SUT]:
    module, colon, attribute = rest.partition(":")
    if not (module and colon and attribute):
        raise _refusal(name, "this does not name a factory", "use python:MODULE:FACTORY, as in python:door.tests:make")
    here = str(Path.cwd())
    if here not in sys.path:
        sys.path.insert(0, here)  # The command python -m does the same.
    invalidate_caches()
    try:
        found: Any = import_module(module)
    except (Exception, SystemExit) as error:
        what = f"the module cannot be imported: {type(error).__name__}: {error}"
        raise _refusal(name, what, f"modules are searched for in {here} and in the Python installation") from error
    for part in attribute.split("."):
        if not hasattr(found, part):
            hint = nearest(part, [each for each in vars(found) if not each.startswith("_")], of="names")
            raise _refusal(name, f"the module or object has no {part}", hint)
        found = getattr(found, part)
    if not callable(found):
        hint = "name a function or class that returns the system under test"
        raise _refusal(name, "this is neither a function nor a class", hint)
    factory: Callable[[], SUT] = found
    return factory


def _make_sut(name: str, factory: Callable[[], SUT], asked: SutRequest) -> SUT:
    try:
        sut = made(factory, asked.machine, timeout=asked.timeout)
    except InputError:
        raise
    except BrokenError as error:
        hint = f"a process must first write a greeting; see {documented('reference/exec-protocol')}"
        raise _refusal(name, f"the system cannot be tested: {error}", hint) from error
    except OSError as error:
        command = name.startswith("exec:")
        hint = "name a command that can be run" if command else "check that the system is running at this address"
        what = f"the system cannot be {'started' if command else 'reached'}: {error.strerror or error}"
        raise _refusal(name, what, hint) from error
    except (Exception, SystemExit) as error:
        hint = "the factory takes no arguments and returns an object with reset, do, shows and close"
        raise _refusal(name, f"the factory raised {type(error).__name__}: {error}", hint) from error
    missing = [each for each in ("reset", "do", "shows", "close") if not callable(getattr(sut, each, None))]
    if missing:
        what = f"the factory returned a {type(sut).__name__}, which has no {' and no '.join(missing)}"
        meant = "".join(f"did you mean {ours} by {theirs}? " for theirs, ours in misnamed(sut).items())
        hint = f"{meant}a system under test needs reset, do, shows and close; see {documented('how-to/conformance')}"
        raise _refusal(name, what, hint)
    return sut


def _refusal(name: str, what: str, hint: str) -> InputError:
    return refused(name, "FSM601", what, hint)
