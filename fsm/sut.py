"""Protocols for implementations to be tested.

A *system under test* (SUT) is one entity, such as a door. Only :class:`SUT` or :class:`AsyncSUT` is required. The
other protocols are optional, and are recognized with :func:`isinstance`. Without a method ``outputs``, the outputs of
the SUT are not compared. Without the methods ``begin`` and ``end``, states that exist only during a call are not
tested, unless the methods of the SUT are async.
"""

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple, Protocol, TypeAlias, runtime_checkable

StimulusStage: TypeAlias = Literal["do", "begin", "end", "crash", "wait"]
"""An action of a test: the whole event, its beginning, its next stage, or a crash of the SUT during the event.

To wait is to let time pass, but not so much that a timer may fire.  The event is that of a timer."""


class Stimulus(NamedTuple):
    """An action of a test, and the outcome that the event should have at each stage, if there is a choice.

    For a crash, the last outcome is that of the restart, and ``point`` is the number of the effect before the crash.
    ``args`` are the names and values of the arguments. The next stage of a call has the arguments of its beginning.
    """

    event: str
    stage: StimulusStage = "do"
    expected: tuple[str, ...] = ()
    point: int = 0
    args: tuple[tuple[str, int | bool | str], ...] = ()

    def __str__(self) -> str:
        """Format the stimulus for ``--replay``.

        >>> str(Stimulus("start", "end", ("failed",))), str(Stimulus("pay", args=(("amount", 3), ("cash", True))))
        ('end start=failed', 'pay(amount=3, cash=true)')
        """
        where = f"@{self.point}" if self.stage == "crash" else ""
        verb = "" if self.stage == "do" else f"{self.stage}{where} "
        expected = f"={','.join(self.expected)}" if self.expected else ""
        values = ((name, str(value).lower() if isinstance(value, bool) else value) for name, value in self.args)
        args = f"({', '.join(f'{name}={value}' for name, value in values)})" if self.args else ""
        return f"{verb}{self.event}{args}{expected}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Response:
    """The response of a SUT.

    ``reply`` is ``None`` while the call is in progress, and ``outputs`` is ``None`` if the outputs are unknown.
    """

    reply: str | None = ""
    shows: str = ""
    outputs: tuple[str, ...] | None = None


class SUT(Protocol):
    """An entity of the implementation, with methods that a test calls.

    >>> class Door:
    ...     def reset(self) -> None:
    ...         self.open = False
    ...
    ...     def do(self, event: str) -> str:
    ...         self.open = {"push": True, "pull": False}[event]
    ...         return "ok"
    ...
    ...     def shows(self) -> str:
    ...         return "OPEN" if self.open else "CLOSED"
    ...
    ...     def close(self) -> None: ...
    >>> door: SUT = Door()
    """

    def reset(self) -> None:
        """Return to the initial state, whatever happened before."""

    def do(self, event: str) -> str:
        """Perform the whole *event*.

        The arguments of an event that has some are passed as keyword arguments, here and in the other methods that
        begin an event: ``do("pay", amount=3)``. If no event has arguments, the methods need not accept any.

        Return the reply of a call, which is ``ok`` or an error code such as ``NOT_FOUND``. For an event without a
        reply, return an empty string. Raise :class:`UnsupportedError` if the implementation does not have the event
        or cannot trigger it.
        """

    def shows(self) -> str | Mapping[str, str]:
        """Return the visible state in the machine's own terms, or an empty string if it is unknown.

        For a system, return a mapping from the names of parts to what they show.  Parts may be left out.
        """

    def close(self) -> None:
        """Release all resources. The SUT is not used afterwards."""


class AsyncSUT(Protocol):
    """An object with ``async def`` methods. It has either a method ``do``, or one for each event of the machine."""

    def shows(self) -> str:
        """Return the visible state, as :meth:`SUT.shows` does."""


@runtime_checkable
class Emitting(Protocol):
    def outputs(self) -> Sequence[str] | None:
        """Return the outputs since the last call of this method, or ``None`` if they are unknown.

        Tests call this method after :meth:`SUT.shows`.
        """


@runtime_checkable
class Detailed(Protocol):
    """A SUT whose status has fields.  Tests check the machine's clauses on these fields."""

    def fields(self) -> Mapping[str, int | str]:
        """Return the current values of the machine's fields, and of the variables that it declares as ``shown``.

        Tests call this method after :meth:`SUT.shows`.
        """


@runtime_checkable
class Arranging(Protocol):
    def arrange(self, event: str, outcome: str) -> bool:
        """Ensure that the next event has the given outcome. Return whether this is possible.

        This method is called before each ``do``, ``begin`` and ``end`` of an event with several outcomes. Before
        ``do`` of a call that takes time, it is called once for each stage, in order. If it returns True and the
        outcome differs, the test fails.
        """


@runtime_checkable
class ArrangingStages(Protocol):
    """A variant of :class:`Arranging` for a SUT that needs to know the stage of the outcome."""

    def arrange_stage(self, event: str, outcome: str, stage: str) -> bool:
        """Like :meth:`Arranging.arrange`, but with the stage of the outcome.

        *stage* is ``begin`` or ``end`` for a call that takes time, and empty for other events.
        """


@runtime_checkable
class Retracting(Protocol):
    """A SUT that learns only during a step whether it can keep its promise about the outcome."""

    def arranged(self) -> bool:
        """Return whether the last step had the outcome that was arranged."""


def arranger(sut: SUT) -> Callable[[str, str, str], bool] | None:
    """Return a function that calls the SUT's method for arranging outcomes, or ``None`` if there is none."""
    if isinstance(sut, ArrangingStages):
        return sut.arrange_stage
    if isinstance(sut, Arranging):
        return lambda event, outcome, _stage: sut.arrange(event, outcome)
    return None


@runtime_checkable
class Limited(Protocol):
    """A slow SUT whose environment is not fully under the control of tests.

    Each test continues from the state in which the previous one ended.
    """

    def never(self, event: str, outcome: str) -> bool:
        """Return whether *outcome* may remain untested.

        *outcome* is empty if the event has only one outcome.
        """

    def unasked(self) -> Collection[str]:
        """Return the signals that may happen spontaneously between the steps of a test."""


@runtime_checkable
class Overlapping(Protocol):
    """A SUT that can handle other events during a call."""

    def begin(self, event: str) -> str | None:
        """Begin a call. Return its reply if it has already ended, or ``None`` if it is in progress."""

    def end(self, event: str) -> str | None:
        """Continue a call until its next stage. Return its reply, or ``None`` if it is still in progress."""


@runtime_checkable
class Remembering(Protocol):
    def record(self) -> Any:  # noqa: ANN401  (it is only compared)
        """Return a copy of the data that, in addition to the state, must survive a restart."""


@runtime_checkable
class Crashing(SUT, Protocol):
    """A SUT that can crash during an event."""

    def crash(self, event: str, point: int) -> bool:
        """Perform *event*, but crash just before its external effect with the index *point*.  Then restart.

        If the event has no effect with this index, let the event complete, then restart and return False.
        """


@runtime_checkable
class Costly(Protocol):
    """A SUT for which some events take much longer than others. It must show its state."""

    def costly(self, event: str) -> bool:
        """Return whether *event* is costly. Several costly events in a row cost no more than one."""


@runtime_checkable
class Clocked(Protocol):
    """A SUT with a virtual clock.  A test then lets time pass instead of calling ``do`` for the events of timers."""

    def advance(self, seconds: float) -> None:
        """Let the given virtual time pass, and let everything happen that is due by then."""


@runtime_checkable
class SelfClocked(Clocked, Protocol):
    """A SUT whose virtual time may also pass during other steps of a test, and by itself.

    Its method ``advance`` may raise :class:`UntimelyError`.
    """

    def passed(self) -> float:
        """Return the seconds of virtual time that have passed since the last call of this method or of ``reset``."""


@runtime_checkable
class Tidy(Protocol):
    """A SUT that knows whether a test has left something behind that it should have ended."""

    def leftovers(self, expected: Callable[..., str]) -> str:
        """End the test.  Return an error message if something is still running or has gone wrong, else an empty string.

        ``expected(shows, fields, call)`` returns what is legal instead of *shows* and *fields*, or an empty string, if
        no step has followed, except perhaps *call*, which may be empty.
        """

    def unjudged(self) -> bool:
        """Return whether what the SUT shows has changed after the end of a test, and nothing says if this is legal."""


@runtime_checkable
class RealTime(Protocol):
    """A SUT that may depend on events outside of the test, so that its tests may not be reproducible."""

    def waited(self) -> str:
        """Return what the tests have waited for in real time, or an empty string."""


@runtime_checkable
class Serial(Protocol):
    """A SUT that only one thread can call, such as a process that handles one request at a time."""

    def serial(self) -> str:
        """Return the name of the SUT for the error message about several threads."""


class UnsupportedError(Exception):
    """Raised if a SUT does not have an event or cannot trigger it."""


class UntimelyError(Exception):
    """Raised if the virtual time passes in such a way that a test cannot judge its step."""


class BrokenError(Exception):
    """Raised if a SUT crashed, hung or returned something invalid."""


def drained(outputs: list[str]) -> list[str]:
    """Return a copy of the list and clear it. This helps to implement :meth:`Emitting.outputs`.

    >>> kept = ["Creak"]
    >>> drained(kept), drained(kept)
    (['Creak'], [])
    """
    new = outputs.copy()
    outputs.clear()
    return new
