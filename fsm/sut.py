"""What an implementation has to show of itself, so that it can be tested against its machine.

A *system under test* is one entity: one container, one door.  :class:`SUT` is all that is required; the other
protocols are optional, and :func:`isinstance` finds out which there are.  Without ``outputs``, outputs are not
compared; without ``begin`` and ``end``, states that are met only while a call is in progress are not tested.
"""

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple, Protocol, TypeAlias, runtime_checkable

StimulusStage: TypeAlias = Literal["do", "begin", "end", "crash"]
"""Which part of an event a test asks for: all of it, its beginning, its next stage, or that the SUT dies in it."""


class Stimulus(NamedTuple):
    """What a test does with an event; ``expected`` are the outcomes it is to have, stage by stage.

    They are empty where there is no choice.  A crash is at effect ``point``; the last outcome is that of the restart.
    """

    event: str
    stage: StimulusStage = "do"
    expected: tuple[str, ...] = ()
    point: int = 0

    def __str__(self) -> str:
        """As it is written after ``--replay``.

        >>> str(Stimulus("start", "end", ("failed",))), str(Stimulus("stop"))
        ('end start=failed', 'stop')
        """
        where = f"@{self.point}" if self.stage == "crash" else ""
        verb = "" if self.stage == "do" else f"{self.stage}{where} "
        expected = f"={','.join(self.expected)}" if self.expected else ""
        return f"{verb}{self.event}{expected}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Response:
    """What a SUT did at a stimulus: its reply, ``None`` while the call is in progress; what it showed and put out.

    ``outputs`` is ``None`` where they cannot be seen.
    """

    reply: str | None = ""
    shows: str = ""
    outputs: tuple[str, ...] | None = None


class SUT(Protocol):
    """One entity of a machine, as an implementation has it.

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

        Returns the reply of a call, ``ok`` or an error code such as ``NOT_FOUND``, and the empty string for what has
        no reply.  Raises :class:`UnsupportedError` for an event that this implementation does not have or cannot be
        made to take.
        """

    def shows(self) -> str:
        """What an observer reads now, one of those that the machine's states show; empty if that is not known."""

    def close(self) -> None:
        """Release everything that is held; no method is called after this."""


@runtime_checkable
class Emitting(Protocol):
    """A SUT whose outputs can be seen."""

    def outputs(self) -> Sequence[str] | None:
        """The outputs since the last call of this method, in order; called after :meth:`SUT.shows`.

        ``None`` if they could not be seen this time.
        """


@runtime_checkable
class Detailed(Protocol):
    """A SUT whose status has fields, which are held to the clauses that the machine has on them."""

    def fields(self) -> Mapping[str, int | str]:
        """The fields that are shown now, by the machine's names; called after :meth:`SUT.shows`."""


@runtime_checkable
class Arranging(Protocol):
    """A SUT in whose surroundings it can be arranged how events end."""

    def arrange(self, event: str, outcome: str) -> bool:
        """Arrange that *event*, which is next, ends with the outcome that the machine calls *outcome*.

        Called before each ``do``, ``begin`` and ``end`` of an event with several outcomes; before ``do`` of a call
        that takes time, once for each of its stages, in order.  To return true is a promise: if the event ends
        otherwise, the test fails.  What was arranged and did not affect the next event is dropped.
        """


@runtime_checkable
class ArrangingStages(Protocol):
    """A SUT that has to be given the stage for which an outcome is arranged; it takes the place of :class:`Arranging`."""

    def arrange_stage(self, event: str, outcome: str, stage: str) -> bool:
        """Arrange *outcome* for the *stage* ``begin`` or ``end`` of a call that takes time; empty for other events."""


def arranger(sut: SUT) -> Callable[[str, str, str], bool] | None:
    """What arranges an outcome of an event, and of its stage, of *sut*; ``None`` if nothing does."""
    if isinstance(sut, ArrangingStages):
        return sut.arrange_stage
    if isinstance(sut, Arranging):
        return lambda event, outcome, _stage: sut.arrange(event, outcome)
    return None


@runtime_checkable
class Limited(Protocol):
    """A SUT in a world that no test controls, where some of what may happen is out of reach, and some comes unasked.

    Its steps take long: a test of it goes on where another has ended.
    """

    def never(self, event: str, outcome: str) -> bool:
        """Whether a test need not try to have *event* end with *outcome*, empty where it has one only; it is judged if it comes."""

    def unasked(self) -> Collection[str]:
        """The signals that may also happen between the steps of a test."""


@runtime_checkable
class Overlapping(Protocol):
    """A SUT that other events can reach while one of its calls is in progress."""

    def begin(self, event: str) -> str | None:
        """Let the call *event* begin; ``None`` if it is in progress now, else its reply."""

    def end(self, event: str) -> str | None:
        """Let the call *event*, which is in progress, go on by one stage; ``None`` if it still is, else its reply."""


@runtime_checkable
class Remembering(Protocol):
    """A SUT that shows its record: what it remembers beside its state."""

    def record(self) -> Any:  # noqa: ANN401  (it is only compared)
        """A copy of everything that is remembered, as data that can be compared, except what need not survive a restart."""


@runtime_checkable
class Crashing(SUT, Protocol):
    """A SUT that can be made to crash in the middle of an event."""

    def crash(self, event: str, point: int) -> bool:
        """Let *event* happen, crash just before its effect number *point* on the world, counted from 0, and restart.

        Returns whether it crashed; false if the event has fewer effects, and was completed.
        Either way the SUT has restarted.
        """


@runtime_checkable
class Costly(Protocol):
    """A SUT to which some events cost much more time than others; it shows its state."""

    def costly(self, event: str) -> bool:
        """Whether *event* is one of them.  Several in a row cost as much as one, whichever they are."""


@runtime_checkable
class Serial(Protocol):
    """A SUT that several threads cannot call at once: a process that takes one request at a time."""

    def serial(self) -> str:
        """Its name in the message that refuses several threads."""


class UnsupportedError(Exception):
    """A SUT does not have this event, or cannot be made to take it."""


class BrokenError(Exception):
    """A SUT gave no answer that could be judged: it crashed, hung, or answered nonsense."""


def drained(outputs: list[str]) -> list[str]:
    """The *outputs* kept since the last time, for :meth:`Emitting.outputs`; the list is empty afterwards.

    >>> kept = ["Creak"]
    >>> drained(kept), drained(kept)
    (['Creak'], [])
    """
    new = outputs.copy()
    outputs.clear()
    return new
