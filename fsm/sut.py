"""Protocols of an implementation that is tested against its machine.

A *system under test* is one entity: one container, one door.  :class:`SUT` is all that is required; the other protocols
are optional, and are detected by :func:`isinstance`.  Without ``outputs``, outputs are not compared; without ``begin``
and ``end``, states that are met only while a call is in progress are not tested.
"""

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple, Protocol, TypeAlias, runtime_checkable

StimulusStage: TypeAlias = Literal["do", "begin", "end", "crash"]
"""The part of an event that a test asks for: all of it, its beginning, its next stage, or a crash of the SUT in it."""


class Stimulus(NamedTuple):
    """One action of a test on an event; ``expected`` are the outcomes that the event should have, by stage.

    Without a choice, ``expected`` is empty.  A crash is at effect ``point``; its last outcome is that of the restart.
    """

    event: str
    stage: StimulusStage = "do"
    expected: tuple[str, ...] = ()
    point: int = 0

    def __str__(self) -> str:
        """Return the stimulus as it is written after ``--replay``.

        >>> str(Stimulus("start", "end", ("failed",))), str(Stimulus("stop"))
        ('end start=failed', 'stop')
        """
        where = f"@{self.point}" if self.stage == "crash" else ""
        verb = "" if self.stage == "do" else f"{self.stage}{where} "
        expected = f"={','.join(self.expected)}" if self.expected else ""
        return f"{verb}{self.event}{expected}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Response:
    """Response of a SUT to a stimulus: its reply, the state shown, and the outputs.

    ``reply`` is ``None`` while the call is in progress; ``outputs`` is ``None`` if they cannot be seen.
    """

    reply: str | None = ""
    shows: str = ""
    outputs: tuple[str, ...] | None = None


class SUT(Protocol):
    """One entity of a machine, in an implementation.

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
        """Start again in the machine's initial state, whatever happened before."""

    def do(self, event: str) -> str:
        """Let *event*, by its name in the machine, happen from beginning to end.

        Returns the reply of a call, ``ok`` or an error code such as ``NOT_FOUND``, and the empty string for an event
        without a reply.  Raises :class:`UnsupportedError` for an event that this implementation does not have or cannot
        be made to take.
        """

    def shows(self) -> str:
        """Return what an observer reads now, among what the machine's states show; empty if that is not known."""

    def close(self) -> None:
        """Release all resources; no method is called after this."""


@runtime_checkable
class Emitting(Protocol):
    """A SUT whose outputs can be seen."""

    def outputs(self) -> Sequence[str] | None:
        """Return the outputs since the last call, in order; ``None`` if unseen.  Called after :meth:`SUT.shows`."""


@runtime_checkable
class Detailed(Protocol):
    """A SUT whose status has fields, which are checked against the machine's clauses on them."""

    def fields(self) -> Mapping[str, int | str]:
        """Return the fields that are shown now, by the machine's names; called after :meth:`SUT.shows`."""


@runtime_checkable
class Arranging(Protocol):
    """A SUT whose surroundings can be arranged so that an event ends in a given way."""

    def arrange(self, event: str, outcome: str) -> bool:
        """Arrange that *event*, which is next, ends with the outcome that the machine calls *outcome*.

        Called before each ``do``, ``begin`` and ``end`` of an event with several outcomes; before ``do`` of a call that
        takes time, once for each of its stages, in order.  Returning true is a promise: if the event ends differently,
        the test fails.  An arrangement that did not affect the next event is dropped.
        """


@runtime_checkable
class ArrangingStages(Protocol):
    """A SUT that must be told the stage for which an outcome is arranged; used instead of :class:`Arranging`."""

    def arrange_stage(self, event: str, outcome: str, stage: str) -> bool:
        """Arrange *outcome* for the *stage* ``begin`` or ``end`` of a call that takes time; empty for other events."""


def arranger(sut: SUT) -> Callable[[str, str, str], bool] | None:
    """Return the function of *sut* that arranges an outcome for an event and its stage; ``None`` if it has none."""
    if isinstance(sut, ArrangingStages):
        return sut.arrange_stage
    if isinstance(sut, Arranging):
        return lambda event, outcome, _stage: sut.arrange(event, outcome)
    return None


@runtime_checkable
class Limited(Protocol):
    """A SUT in a world that no test controls: some outcomes are out of reach, and some signals come unasked.

    Its steps take long: a test of it continues where another has ended.
    """

    def never(self, event: str, outcome: str) -> bool:
        """Return whether tests need not try for this *outcome* of *event*; it is judged if it occurs.

        *outcome* is empty if the event has only one.
        """

    def unasked(self) -> Collection[str]:
        """Return the signals that may also happen between the steps of a test."""


@runtime_checkable
class Overlapping(Protocol):
    """A SUT that other events can reach while one of its calls is in progress."""

    def begin(self, event: str) -> str | None:
        """Let the call *event* begin; return ``None`` if it is now in progress, else its reply."""

    def end(self, event: str) -> str | None:
        """Let the call *event* in progress advance by one stage; return ``None`` if it still is, else its reply."""


@runtime_checkable
class Remembering(Protocol):
    """A SUT that shows its record: what it remembers beside its state."""

    def record(self) -> Any:  # noqa: ANN401  (it is only compared)
        """Return a copy of everything remembered, as comparable data, except what need not survive a restart."""


@runtime_checkable
class Crashing(SUT, Protocol):
    """A SUT that can be made to crash in the middle of an event."""

    def crash(self, event: str, point: int) -> bool:
        """Let *event* happen, crash just before its effect number *point* (from 0) on the world, and restart.

        Returns false if the event has fewer effects and was completed without a crash; the SUT restarts in any case.
        """


@runtime_checkable
class Costly(Protocol):
    """A SUT for which some events cost much more time than others; it shows its state."""

    def costly(self, event: str) -> bool:
        """Return whether *event* is costly.  Several costly events in a row cost as much as one, whichever they are."""


@runtime_checkable
class Serial(Protocol):
    """A SUT that threads cannot call concurrently: a process that takes one request at a time."""

    def serial(self) -> str:
        """Return its name in the message that refuses several threads."""


class UnsupportedError(Exception):
    """A SUT does not have this event, or cannot be made to take it."""


class BrokenError(Exception):
    """A SUT gave no answer that could be judged: it crashed, hung, or answered nonsense."""


def drained(outputs: list[str]) -> list[str]:
    """Return the *outputs* kept since the last time, for :meth:`Emitting.outputs`, and clear the list.

    >>> kept = ["Creak"]
    >>> drained(kept), drained(kept)
    (['Creak'], [])
    """
    new = outputs.copy()
    outputs.clear()
    return new
