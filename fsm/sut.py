"""What an implementation has to show of itself, so that it can be tested against its machine.

A *system under test* is one entity: one container, one door.  :class:`SUT` is
all that is required; the other protocols are optional, and :func:`isinstance`
finds out which there are.  Without ``outputs``, outputs are not compared;
without ``begin`` and ``end``, states that are met only while a call is in
progress are not tested.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, Protocol, TypeAlias, runtime_checkable

if TYPE_CHECKING:
    from collections.abc import Sequence


Stage: TypeAlias = Literal["do", "begin", "end", "crash"]
"""Which part of an event a test asks for: all of it, its beginning, its next stage, or that the SUT dies in it."""


class Stimulus(NamedTuple):
    """What a test does with an event; ``expected`` are the outcomes it is to have, stage by stage.

    They are empty where there is no choice.  A crash is one at the ``point``-th
    effect of the event; the last outcome that is expected then is that of the restart.
    """

    event: str
    stage: Stage = "do"
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
        """Begin anew, in the machine's initial state, whatever was before."""

    def do(self, event: str) -> str:
        """Let *event* happen, by the name that the machine has for it, from beginning to end.

        Returns the reply of a call, ``ok`` or an error code such as
        ``NOT_FOUND``, and the empty text for what has no reply.  Raises
        :class:`UnsupportedError` for what this implementation has not, or
        cannot be made to do.
        """

    def shows(self) -> str:
        """What an observer reads just now: one of those that the machine's states show.

        The empty text where that cannot be told.
        """

    def close(self) -> None:
        """Give back all that is held; nothing else is called after it."""


@runtime_checkable
class Emitting(Protocol):
    """A SUT whose outputs can be seen."""

    def outputs(self) -> Sequence[str]:
        """What came out since this was last asked, in order."""


@runtime_checkable
class Arranging(Protocol):
    """A SUT in whose world it can be arranged how things end."""

    def arrange(self, event: str, outcome: str) -> bool:
        """See to it that *event*, which is next, ends in the way that the machine calls *outcome*.

        Called before each ``do``, ``begin`` and ``end`` of an event with
        several outcomes; before ``do`` of a call that takes time once for
        each of its stages, in order.  Returns whether that can be seen to:
        whoever says so promises it, and a test fails where it ends otherwise.
        What was arranged and not met by the next event is forgotten.
        """


@runtime_checkable
class Overlapping(Protocol):
    """A SUT that can be met while one of its calls is in progress."""

    def begin(self, event: str) -> str | None:
        """Let the call *event* begin; ``None`` if it is in progress now, else its reply."""

    def end(self, event: str) -> str | None:
        """Let the call *event*, which is in progress, go on by one stage; its reply, or ``None`` if it is still in it."""


@runtime_checkable
class Remembering(Protocol):
    """A SUT that shows what it remembers beside its state."""

    def record(self) -> Any:  # noqa: ANN401  (it is only compared)
        """All that is remembered, as data that can be compared; the reader's own.

        What need not outlive a restart is left out.
        """


@runtime_checkable
class Crashing(Protocol):
    """A SUT that can be made to die in the middle of an event."""

    def crash(self, event: str, point: int) -> bool:
        """Let *event* happen, but die just before its *point*-th effect on the world, counted from 0; then start again.

        Returns whether it died: false if the event has fewer effects, and was done whole.
        The SUT then stands as after a restart either way.
        """


class UnsupportedError(Exception):
    """A SUT has not this event, or cannot be made to do it."""


class BrokenError(Exception):
    """A SUT gave no answer that could be judged: it crashed, hung, or talked garbage."""


def drained(outputs: list[str]) -> list[str]:
    """The *outputs* kept since the last time, for :meth:`Emitting.outputs`; the list is empty afterwards.

    >>> kept = ["Creak"]
    >>> drained(kept), drained(kept)
    (['Creak'], [])
    """
    new = outputs.copy()
    outputs.clear()
    return new
