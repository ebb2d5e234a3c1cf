"""Protocols for implementations that are tested against a machine.

A *system under test* (SUT) is one entity, such as a door. Only :class:`SUT` is required. The other
protocols are optional and are detected with :func:`isinstance`. If a SUT has no method ``outputs``, its outputs are
not compared. If it has no methods ``begin`` and ``end``, states that occur only while a call is in progress are not
tested.
"""

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple, Protocol, TypeAlias, runtime_checkable

StimulusStage: TypeAlias = Literal["do", "begin", "end", "crash"]
"""The part of an event that a test performs.

It is the whole event, its beginning, its next stage, or a crash of the SUT during the event.
"""


class Stimulus(NamedTuple):
    """One action of a test, and the outcomes that the event should have at each of its stages.

    ``expected`` is empty if there is no choice. For a crash, ``point`` is the number of the effect just before which
    the SUT crashes, and the last expected outcome is that of the restart.
    """

    event: str
    stage: StimulusStage = "do"
    expected: tuple[str, ...] = ()
    point: int = 0

    def __str__(self) -> str:
        """Return the stimulus in the notation of ``--replay``.

        >>> str(Stimulus("start", "end", ("failed",))), str(Stimulus("stop"))
        ('end start=failed', 'stop')
        """
        where = f"@{self.point}" if self.stage == "crash" else ""
        verb = "" if self.stage == "do" else f"{self.stage}{where} "
        expected = f"={','.join(self.expected)}" if self.expected else ""
        return f"{verb}{self.event}{expected}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Response:
    """The reply of a SUT to a stimulus, the state that it shows, and its outputs.

    ``reply`` is ``None`` while the call is in progress. ``outputs`` is ``None`` if outputs cannot be observed.
    """

    reply: str | None = ""
    shows: str = ""
    outputs: tuple[str, ...] | None = None


class SUT(Protocol):
    """One entity in an implementation of a machine.

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
        """Return to the machine's initial state, whatever has happened before."""

    def do(self, event: str) -> str:
        """Perform *event*, a name that the machine uses, from beginning to end.

        Return the reply of a call: ``ok`` or an error code such as ``NOT_FOUND``. An event without a reply returns an
        empty string. Raise :class:`UnsupportedError` if this implementation does not have the event or cannot trigger
        it.
        """

    def shows(self) -> str:
        """Return the visible state as a value that the machine's states show, or an empty string if unknown."""

    def close(self) -> None:
        """Release all resources. No method is called after this."""


@runtime_checkable
class Emitting(Protocol):
    """A SUT whose outputs can be observed."""

    def outputs(self) -> Sequence[str] | None:
        """Return the outputs since the last call of this method, or ``None`` if the outputs are unknown.

        This method is called after :meth:`SUT.shows`.
        """


@runtime_checkable
class Detailed(Protocol):
    """A SUT whose status has fields, which are checked against the machine's clauses on fields."""

    def fields(self) -> Mapping[str, int | str]:
        """Return the current fields under the names that the machine uses.

        This method is called after :meth:`SUT.shows`.
        """


@runtime_checkable
class Arranging(Protocol):
    """A SUT whose environment can be set up to produce a given outcome."""

    def arrange(self, event: str, outcome: str) -> bool:
        """Arrange that the next event, *event*, has the outcome that the machine calls *outcome*.

        This method is called before each ``do``, ``begin`` and ``end`` of an event with several outcomes; before
        ``do`` of a call that takes time, once for each stage, in order. It applies only to the next event. The test
        fails if this method returns True and the event has a different outcome.
        """


@runtime_checkable
class ArrangingStages(Protocol):
    """A SUT that has to know the stage for which an outcome is arranged. It replaces :class:`Arranging`."""

    def arrange_stage(self, event: str, outcome: str, stage: str) -> bool:
        """Arrange that *event* has *outcome* at *stage*, as :meth:`Arranging.arrange` does.

        *stage* is ``begin`` or ``end`` for a call that takes time, and empty for other events.
        """


def arranger(sut: SUT) -> Callable[[str, str, str], bool] | None:
    """Return the method of *sut* that arranges an outcome for an event and a stage, or ``None`` if it has none."""
    if isinstance(sut, ArrangingStages):
        return sut.arrange_stage
    if isinstance(sut, Arranging):
        return lambda event, outcome, _stage: sut.arrange(event, outcome)
    return None


@runtime_checkable
class Limited(Protocol):
    """A SUT in an environment that tests do not fully control.

    Tests cannot produce some outcomes, and some signals occur spontaneously. The steps of such a SUT are slow, so
    each test continues from the state in which the previous one ended.
    """

    def never(self, event: str, outcome: str) -> bool:
        """Return whether tests may do without *outcome* of *event*. If the outcome occurs anyway, it is judged.

        *outcome* is empty if the event has only one.
        """

    def unasked(self) -> Collection[str]:
        """Return the signals that may also occur spontaneously between the steps of a test."""


@runtime_checkable
class Overlapping(Protocol):
    """A SUT that can handle other events while one of its calls is in progress."""

    def begin(self, event: str) -> str | None:
        """Begin the call *event*. Return its reply if it has already ended, or ``None`` if it is in progress."""

    def end(self, event: str) -> str | None:
        """Advance the call *event* by one stage. Return its reply, or ``None`` if the call is still in progress."""


@runtime_checkable
class Remembering(Protocol):
    """A SUT that exposes its record, that is, the data that it keeps in addition to its state."""

    def record(self) -> Any:  # noqa: ANN401  (it is only compared)
        """Return a copy of the record as comparable data, without anything that need not survive a restart."""


@runtime_checkable
class Crashing(SUT, Protocol):
    """A SUT that can be made to crash partway through an event."""

    def crash(self, event: str, point: int) -> bool:
        """Perform *event*, crash just before its external effect number *point*, and restart.

        Effects are numbered from 0. If the event has fewer of them, it completes without a crash; return False, after
        restarting all the same.
        """


@runtime_checkable
class Costly(Protocol):
    """A SUT for which some events take much longer than others. It must show its state."""

    def costly(self, event: str) -> bool:
        """Check whether *event* is costly. Several costly events in a row cost no more than one."""


@runtime_checkable
class Serial(Protocol):
    """A SUT that cannot be called from several threads, such as a process that handles one request at a time."""

    def serial(self) -> str:
        """Return the name of the SUT for the message that it cannot be used from several threads."""


class UnsupportedError(Exception):
    """Raised if the SUT does not have an event or cannot trigger it."""


class BrokenError(Exception):
    """Raised if the SUT did not answer usably: it crashed, hung, or returned something invalid."""


def drained(outputs: list[str]) -> list[str]:
    """Return a copy of *outputs* and clear the list. This function helps to implement :meth:`Emitting.outputs`.

    >>> kept = ["Creak"]
    >>> drained(kept), drained(kept)
    (['Creak'], [])
    """
    new = outputs.copy()
    outputs.clear()
    return new
