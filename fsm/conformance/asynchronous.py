"""Adapt a class with ``async def`` methods to the protocols of a system under test.

Each test has an event loop of its own (:class:`~fsm.conformance.virtual_loop.VirtualLoop`). An event is a call of a
method. A call that suspends is in progress, and continues when the test ends it: what the call waits for then happens,
one thing at a time. A fake that the call awaits is completed first. If there is none, its next timer fires. Calls may
also wait for what another call or a task in the background has begun, so fakes and timers of others come last. A test
of the machine's timers lets the time of the loop pass.
"""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Callable, Iterator, Mapping
from contextvars import copy_context
from functools import partial
from math import inf
from types import CodeType
from typing import Any, Final, Literal, cast

from fsm.conformance.failure import METHODS, place, raised
from fsm.conformance.fake import CALL, Call, Fake, Waiting
from fsm.conformance.virtual_loop import RESOLUTION, WAIT, VirtualLoop
from fsm.errors import refused
from fsm.machine import Machine, Moves, Outcome
from fsm.machine.terms import Argument
from fsm.sut import SUT, AsyncSUT, BrokenError, UnsupportedError, UntimelyError, arranger

CANCELLED: Final = "cancelled"  # name of the outcome for which the test cancels the call

LONGEST: Final = 1_000  # number of fakes and timers after which a call that has not returned counts as endless

LATE: Final = 100  # number of timers that may fire after the end of a test, before a task counts as leaked


async def next_timer() -> bool:
    """Let the time pass until the next timer of the event loop has fired. Return whether there was one.

    This costs no real time. It works only in an object that fsm tests.
    """
    loop = asyncio.get_running_loop()
    if not isinstance(loop, VirtualLoop):
        raise RuntimeError("next_timer() works only on the event loop of a test of fsm")  # noqa: TRY004
    when = loop.next_timer()
    if when is not None:
        fired = loop.create_future()
        loop.call_at(when, fired.set_result, None)
        await fired
    return when is not None


def made(factory: Callable[[], SUT | AsyncSUT], machine: Machine, *, timeout: float | None = None) -> SUT:
    """Return the SUT that *factory* makes, in an adapter if it has ``async def`` methods.

    *timeout* limits the seconds for which the adapter waits for each answer in real time.
    """
    sut: Any = factory if isinstance(factory, type) else factory()
    methods = [method_name(name) for name in machine.events]
    called = (*METHODS, "close", *([] if hasattr(sut, "do") else methods))
    if not any(inspect.iscoroutinefunction(getattr(sut, name, None)) for name in called):
        return cast("SUT", factory() if isinstance(factory, type) else sut)
    of = f"python:{sut.__module__}:{getattr(sut, '__qualname__', type(sut).__qualname__)}"
    own = ("begin", "end", *(["advance"] if machine.timers and "advance" not in methods else []))
    if hands := [name for name in own if hasattr(sut, name)]:
        hint = "remove them: a call that waits is in progress, and fsm ends it and lets the time of the loop pass"
        raise refused(of, "FSM622", f"it has async methods and also its own {' and '.join(hands)}", hint)
    for name in ("shows", "outputs", "fields", "record", "arrange", "arrange_stage"):
        if inspect.iscoroutinefunction(getattr(sut, name, None)):
            hint = f"write 'def {name}': it is called between the steps of a test, when no event may happen"
            raise refused(of, "FSM621", f"its method {name} is async", hint)
    if not hasattr(sut, "shows") or not any(hasattr(sut, name) for name in ("do", *methods)):
        hint = "add a method shows, and a method for each event of the model, or one method do for all"
        raise refused(of, "FSM620", "it has async methods, but cannot be tested", hint)
    return cast("SUT", Asynchronous(factory, sut, machine, WAIT if timeout is None else timeout))


def method_name(event: str) -> str:
    return event.replace("-", "_").replace(".", "_")


class Asynchronous:
    """A SUT whose calls run on an event loop with a virtual clock, and may be in progress between steps."""

    def __init__(self, factory: Callable[[], SUT | AsyncSUT], like: object, machine: Machine, wait: float) -> None:
        self._factory, self._machine, self._wait = factory, machine, wait
        self._sut: Any = None
        self._loop = VirtualLoop(wait)  # Each test has another one.
        self._loop.close()
        self._calls: dict[str, Call] = {}
        self._outcomes: list[str] = []
        self._suspends = False  # whether the next call must be in progress after its beginning
        self._waited = ""
        self.arranging = ""  # words for how the outcome of the last step was arranged
        self._time = 0.0  # of the loop, when passed() was called last
        for name in ("outputs", "fields", "record", "costly", "never", "unasked"):
            if hasattr(like, name):  # The kit recognizes optional methods by their presence.
                setattr(self, name, lambda *args, of=name: getattr(self._sut, of)(*args))

    def reset(self) -> None:
        self.close()
        self._loop, self._time = VirtualLoop(self._wait), 0.0
        self._calls.clear()
        self._outcomes.clear()
        if not hasattr(self._sut, "reset"):
            self._sut = self._run("the factory", self._factory)
        if hasattr(self._sut, "reset"):
            self._run("reset", self._sut.reset)

    def shows(self) -> str:
        return cast("str", self._sut.shows())

    def do(self, event: str, **given: Argument) -> str:
        if self._machine.events[event].interrupts:
            self._cancel_calls()
        call = self._start(event, *self._method(event, given))
        self._finish(call)
        self._complete_background(call)
        return self._reply(call)

    def advance(self, seconds: float) -> None:
        """Let time pass. Calls stay in progress, but their own timers fire too.

        Raise :class:`UntimelyError` if something real prevents this, or if a call would thereby end with an outcome
        that the test has not chosen.
        """
        due = (self._loop.next_timer() or inf) <= self._loop.time() + seconds + RESOLUTION
        going = [event for event, each in self._calls.items() if due and not each.task.done()]
        if self._loop.outstanding() or any(map(self._may_end, going)):
            raise UntimelyError
        call = self._start("", partial(asyncio.sleep, seconds))
        self._finish(call, one=True)
        if not call.task.done():
            raise UntimelyError
        self._complete_background(call)

    def passed(self) -> float:
        before, self._time = self._time, self._loop.time()
        return self._time - before

    def _may_end(self, event: str) -> bool:
        """Return whether a call of *event* may end here with an outcome that neither a fake nor the test causes."""
        known = {name for each in self._fakes() for name, result in each.outcomes.items() if result is not Fake.HANG}
        shows, states = self._sut.shows(), self._machine.states
        ends = [cell for state, cell in self._machine.events[event].ends.items() if states[state].shows == shows]
        return not shows or any(way.name not in {CANCELLED, *known} for cell in ends for way in cell.outcomes)

    def _complete_background(self, call: Call) -> None:
        """Use the outcomes of *call* that are those of a fake for which a task in the background waits."""
        for outcome in [*call.outcomes]:
            if any(outcome in each.outcomes and each.complete_where(_is_background, outcome) for each in self._fakes()):
                call.outcomes.remove(outcome)
                self._settle(call)

    def begin(self, event: str, **given: Argument) -> str | None:
        call = self._start(event, *self._method(event, given))
        waiting = self._next(call)
        if waiting is not None and call.outcomes and call.outcomes[0] in waiting.fake.outcomes:
            self._go_on(call)
        self._calls[event] = call
        return self._reply(call) if call.task.done() else None

    def end(self, event: str) -> str | None:
        self._last = call = self._calls[event]
        call.outcomes, self._outcomes = self._outcomes, []
        self._settle(call)
        self._finish(call, one=any(way.begins for way in self._ways(event, "ends")))
        return self._reply(call) if call.task.done() else None

    def arrange_stage(self, event: str, outcome: str, stage: str) -> bool:
        own = arranger(self._sut)
        self.arranging = "SUT promised"
        if own is not None and own(event, outcome, stage):
            return True
        begun = {way.name for way in self._ways(event, "cells") if way.begins} if stage == "begin" else set()
        self._suspends = outcome in begun
        self.arranging = "the call was kept waiting for"
        if self._suspends:
            return own is None
        fakes = any(outcome in each.outcomes for each in self._fakes())
        self.arranging = "a fake was completed for" if fakes else "the call was cancelled for"
        if fakes or (outcome == CANCELLED and stage == "end"):
            self._outcomes.append(outcome)
            return True
        return False

    def arranged(self) -> bool:
        return self._last.as_arranged and not self._last.outcomes

    def serial(self) -> str:
        hint = "leave out --threads; calls overlap without it"
        raise refused(self._machine.name, "FSM623", "the methods of the tested class are async", hint)

    def waited(self) -> str:
        return self._waited

    def leftovers(self) -> str:
        if self._loop.is_closed():  # An error has ended the test already.
            return ""
        loop = self._loop
        found: list[str] = []
        try:
            self._cancel_calls()
            if hasattr(self._sut, "close"):
                self._run("close", self._sut.close)
            for _ in range(LATE):
                loop.settle(until=(when := loop.next_timer()))
                if when is None or loop.time() < when:
                    break
        except (Exception, SystemExit) as error:  # noqa: BLE001  (all are findings)
            found.append(str(error) if isinstance(error, BrokenError) else f"close {raised(error)}")
        for task in (each for each in loop.tasks if not each.done()):
            name = getattr(task.get_coro(), "__qualname__", "a task")
            found.append(f"the task {name} has not ended; it waits{_where(task)}")
        found += loop.faults
        found += [f"nobody retrieved an exception: the SUT {raised(error)}" for error in loop.unretrieved()]
        self._note_waiting()
        loop.close()
        return found[0] if found else ""

    def close(self) -> None:
        if not self._loop.is_closed():
            self.leftovers()

    def _fakes(self) -> Iterator[Fake]:
        return (each for each in vars(self._sut).values() if isinstance(each, Fake))

    def _ways(self, event: str, of: Literal["cells", "ends"]) -> list[Outcome]:
        cells = getattr(self._machine.events[event], of).values()
        return [way for cell in cells if isinstance(cell, Moves) for way in cell.outcomes]

    def _method(self, event: str, given: Mapping[str, Argument]) -> tuple[Callable[..., object], *tuple[str, ...]]:
        if hasattr(self._sut, "do"):
            return partial(self._sut.do, **given), event
        if (method := getattr(self._sut, method_name(event), None)) is None:
            if any(each.event == event for each in self._machine.timers.values()):
                return (lambda: None,)  # It happens only by time.
            raise UnsupportedError(f"it has no method {method_name(event)}")
        return (partial(method, **given),)

    def _run(self, what: str, method: Callable[[], object]) -> object:
        """Call *method* and return its result, once it has ended."""
        call = self._start(what, method)
        self._finish(call)
        self._reply(call)
        return call.task.result() if call.task.exception() is None else None

    def _start(self, event: str, method: Callable[..., object], *args: str) -> Call:
        call, context = Call(event=event, outcomes=self._outcomes), copy_context()
        self._last, self._outcomes, suspends, self._suspends = call, [], self._suspends, False
        context.run(CALL.set, call)
        call.task = self._loop.create_task(_called(method, *args), context=context)
        self._settle(call)
        call.as_arranged = not suspends or not call.task.done()
        return call

    def _settle(self, call: Call, until: float | None = None) -> None:
        self._loop.settle(until=until, answered=lambda: call.task.done() or self._next(call) is not None)
        self._note_waiting()
        if self._loop.faults:
            raise BrokenError(self._loop.faults.pop())

    def _cancel_calls(self) -> None:
        calls, self._calls = self._calls, {}
        for call in calls.values():
            call.cancelled = call.task.cancel()
            self._settle(call)
            self._finish(call)
            if not call.task.done():
                raise BrokenError(f"{call.event} does not end when it is cancelled; it waits{_where(call.task)}")
            if not call.task.cancelled():
                call.task.exception()

    def _note_waiting(self) -> None:
        self._waited = self._waited or self._loop.waited

    def _next(self, call: Call) -> Waiting | None:
        waiting = [each for each in call.waiting if each.pending]
        return min(waiting, key=lambda each: each.task is not call.task, default=None)

    def _finish(self, call: Call, *, one: bool = False) -> None:
        """Let happen what *call* waits for, until the call returns. If *one* is true, let only one thing happen."""
        for _ in range(1 if one else LONGEST):
            if call.task.done() or not self._go_on(call):
                return

    def _go_on(self, call: Call) -> bool:
        until = None
        if call.outcomes[:1] == [CANCELLED] and not any(CANCELLED in each.outcomes for each in self._fakes()):
            call.outcomes.clear()
            call.cancelled = call.task.cancel()
        elif (waiting := self._next(call)) is not None:
            known = bool(call.outcomes) and call.outcomes[0] in waiting.fake.outcomes
            waiting.complete(call.outcomes.pop(0) if known else "")
        elif (until := self._loop.next_timer(call)) is None and not self._complete_shared(call):
            until = self._loop.next_timer()
            if until is None or self._loop.outstanding():
                return False
        self._settle(call, until)
        return True

    def _complete_shared(self, call: Call) -> bool:
        """Complete a fake for which another call or a task in the background waits. Return whether there was one.

        *call* may wait for it too, for example if two callers share one request, or for a lock that is held meanwhile.
        """
        outcome = "".join(call.outcomes[:1])
        fakes = sorted(self._fakes(), key=lambda each: outcome not in each.outcomes)
        completed = next((each for each in fakes if each.complete(outcome)), None)
        if completed is not None and outcome in completed.outcomes:
            call.outcomes.pop(0)
        return completed is not None

    def _reply(self, call: Call) -> str:
        event = self._machine.events.get(call.event)
        if not call.task.done():
            real = self._loop.outstanding()
            waits = f" within {self._wait:g} s; it waits for {real}" if real else f"; it waits{_where(call.task)}"
            raise BrokenError(f"{call.event} does not return{waits}")
        error = asyncio.CancelledError() if call.task.cancelled() else call.task.exception()
        if error is None:
            found = call.task.result()
            return ("ok" if event and event.kind == "call" else "") if found is None else found
        replies: Mapping[type[BaseException], str] = getattr(self._sut, "replies", {})
        if not call.cancelled or event is None:
            for kind, reply in replies.items():
                if isinstance(error, kind):
                    return reply
        if not call.task.cancelled():
            raise error
        if not call.cancelled:
            raise BrokenError(f"{call.event} was cancelled, although the test did not cancel it")
        ways = self._ways(call.event, "ends") if event else []
        return next((way.reply[0] for way in ways if way.name == CANCELLED and way.reply), "CANCELLED")


async def _called(method: Callable[..., object], *args: str) -> object:
    found = method(*args)
    return await found if inspect.isawaitable(found) else found


def _is_background(waiting: Waiting) -> bool:
    return waiting.call is None or waiting.call.task.done()


def _where(task: asyncio.Task[Any]) -> str:
    """Return the place at which *task* waits, in the user's code if possible."""
    places: list[tuple[CodeType, int]] = []
    coroutine: object = task.get_coro()
    while (frame := getattr(coroutine, "cr_frame", None)) is not None:
        places.append((frame.f_code, frame.f_lineno))
        coroutine = getattr(coroutine, "cr_await", None)
    return place(places)
