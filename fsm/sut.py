"""Protocols for implementations that are tested against a machine.

A *system under test* (SUT) is one entity, such as a door. Only :class:`SUT` is required. The other
protocols are optional and are detected with :func:`isinstance`. Without ``outputs``, outputs are not compared.
Without ``begin`` and ``end``, states that occur only while a call is in progress are not tested.
"""

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple, Protocol, TypeAlias, runtime_checkable

StimulusStage: TypeAlias = Literal["do", "begin", "end", "crash"]
"""Part of an event that a test performs: all of it, its beginning, its next stage, or a crash of the SUT during it."""


class Stimulus(NamedTuple):
    """One action of a test. ``expected`` lists the outcome that the event should have at each stage.

    ``expected`` is empty if there is only one possible outcome. For a crash, ``point`` is the number of the effect
    just before which the SUT crashes, and the last expected outcome is the outcome of the restart.
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
    """A SUT's response to a stimulus: its reply, the state it shows, and its outputs.

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
        """Return to the machine's initial state, whatever happened before."""

    def do(self, event: str) -> str:
        """Perform *event*, a name from the machine, from beginning to end.

        Return the reply of a call: ``ok`` or an error code such as ``NOT_FOUND``. Return an empty string for an event
        without a reply. Raise :class:`UnsupportedError` if this implementation does not have the event or cannot
        trigger it.
        """

    def shows(self) -> str:
        """Return the visible state, as a value that the machine's states show, or an empty string if unknown."""

    def close(self) -> None:
        """Release all resources; no method is called after this."""


@runtime_checkable
class Emitting(Protocol):
    """A SUT whose outputs can be observed."""

    def outputs(self) -> Sequence[str] | None:
        """Return the outputs since the last call, or ``None`` if they are unknown. Called after :meth:`SUT.shows`."""


@runtime_checkable
class Detailed(Protocol):
    """A SUT whose status has fields. They are checked against the machine's clauses on fields."""

    def fields(self) -> Mapping[str, int | str]:
        """Return the current fields under the machine's names for them. Called after :meth:`SUT.shows`."""


@runtime_checkable
class Arranging(Protocol):
    """A SUT whose environment can be set up to produce a given outcome."""

    def arrange(self, event: str, outcome: str) -> bool:
        """Arrange for the next event, *event*, to have the outcome that the machine calls *outcome*.

        This is called before each ``do``, ``begin`` and ``end`` of an event with several outcomes. Before ``do`` of a
        call that takes time, it is called once for each stage, in order. If this returns True and the event has a
        different outcome, the test fails. An arrangement applies only to the next event.
        """


@runtime_checkable
class ArrangingStages(Protocol):
    """A SUT that has to know the stage for which an outcome is arranged. Used instead of :class:`Arranging`."""

    def arrange_stage(self, event: str, outcome: str, stage: str) -> bool:
        """Arrange for *event* to have *outcome* at *stage*, as :meth:`Arranging.arrange` does.

        *stage* is ``begin`` or ``end`` for a call that takes time, and empty for other events.
        """


def arranger(sut: SUT) -> Callable[[str, str, str], bool] | None:
    """Return the method of *sut* that arranges an outcome for an event and stage, or ``None`` if it is missing."""
    if isinstance(sut, ArrangingStages):
        return sut.arrange_stage
    if isinstance(sut, Arranging):
        return lambda event, outcome, _stage: sut.arrange(event, outcome)
    return None


@runtime_checkable
class Limited(Protocol):
    """A SUT in an environment that tests do not fully control.

    Some outcomes cannot be produced, and some signals occur spontaneously. Its steps are slow, so each test continues
    from where the previous one ended.
    """

    def never(self, event: str, outcome: str) -> bool:
        """Return whether tests need not produce *outcome* of *event*. If the outcome occurs anyway, it is judged.

        *outcome* is empty if the event has only one.
        """

    def unasked(self) -> Collection[str]:
        """Return the signals that may also occur spontaneously between the steps of a test."""


@runtime_checkable
class Overlapping(Protocol):
    """A SUT that can handle other events while one of its calls is in progress."""

    def begin(self, event: str) -> str | None:
        """Begin the call *event*. Return ``None`` if it is now in progress, or its reply if it has ended."""

    def end(self, event: str) -> str | None:
        """Advance the call *event* by one stage. Return ``None`` if it is still in progress, otherwise its reply."""


@runtime_checkable
class Remembering(Protocol):
    """A SUT that exposes its record: the data it keeps in addition to its state."""

    def record(self) -> Any:  # noqa: ANN401  (it is only compared)
        """Return a copy of the record as comparable data, without anything that need not survive a restart."""


@runtime_checkable
class Crashing(SUT, Protocol):
    """A SUT that can be made to crash partway through an event."""

    def crash(self, event: str, point: int) -> bool:
        """Perform *event*, crash just before its external effect number *point* (starting at 0), and restart.

        Return False if the event has fewer effects and therefore completes without a crash. Restart in any case.
        """


@runtime_checkable
class Costly(Protocol):
    """A SUT for which some events take much longer than others. It must show its state."""

    def costly(self, event: str) -> bool:
        """Check whether *event* is costly. Any run of consecutive costly events costs as much as one of them."""


@runtime_checkable
class Serial(Protocol):
    """A SUT that cannot be called from several threads, such as a process that handles one request at a time."""

    def serial(self) -> str:
        """Return the name of the SUT for the error message about using several threads."""


class UnsupportedError(Exception):
    """The SUT does not have this event, or cannot trigger it."""


class BrokenError(Exception):
    """The SUT gave no usable answer: it crashed, hung, or returned something invalid."""


def drained(outputs: list[str]) -> list[str]:
    """Return a copy of *outputs* and clear the list. Use it to implement :meth:`Emitting.outputs`.

    >>> kept = ["Creak"]
    >>> drained(kept), drained(kept)
    (['Creak'], [])
    """
    new = outputs.copy()
    outputs.clear()
    return new
