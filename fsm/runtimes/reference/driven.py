"""Shared base of code driven by a machine: the driver, choice of outcomes, and conversion of errors to replies."""

from collections.abc import Collection
from functools import cache
from typing import Final

from fsm.language.library import load
from fsm.machine import ANY_ERROR, Outcome
from fsm.machine.driver import Driver, Position

ABSENT: Final = "absent"
"""State of an entity that does not exist, in every machine of objects."""

UNKNOWN: Final = "UNKNOWN"
"""Error code used when containerd returns no specific code."""


class ReplyError(Exception):
    """A call is answered with the error ``code``."""

    code: str = UNKNOWN


class CallError(ReplyError):
    """The call ``event`` was refused or failed."""

    def __init__(self, event: str, code: str, why: str) -> None:
        super().__init__(f"{event}: {code}: {why}")
        self.event = event
        self.code = code
        self.why = why


class WorldError(Exception):
    """The environment refused or failed to perform a request, or did not answer."""


@cache
def driver(name: str, profile: str = "") -> Driver:
    """Return the driver of the machine called *name*, under *profile* if it is not empty."""
    return Driver(load(name).under(profile))


class Driven:
    """An object driven by a machine. Its state is the state of its ``position``.

    >>> exited = Driven(driver("container-status", "containerd-1.6").position("exited"))
    >>> exited.state, exited.offered("stop"), exited.is_noop("stop"), exited.take("stop").reply
    ('exited', {'ignored'}, True, ('ok',))
    >>> Driven(driver("container-status", "containerd-1.6").position()).take("stop").reply
    ('NOT_FOUND',)
    """

    def __init__(self, position: Position) -> None:
        self.position = position

    @property
    def state(self) -> str:
        return self.position.state

    @property
    def shows(self) -> str:
        """The state as an observer sees it."""
        return self.position.shows

    def choices(self, event: str, *, ends: bool = False) -> tuple[Outcome, ...]:
        """Return the outcomes of *event*, or of the end of a call if *ends*, from which code can choose.

        Deviations are excluded, because the world of an entity decides whether it deviates. An absent entity has no
        world, so if it has deviations, only these are returned.
        """
        ways = self.position.outcomes(event, ends=ends)
        deviating = self.position.shows == ABSENT and any(way.deviation for way in ways)
        return tuple(way for way in ways if bool(way.deviation) == deviating)

    def offered(self, event: str) -> set[str]:
        """Return the names of the outcomes from which code can choose."""
        return {way.name for way in self.choices(event)}

    def is_noop(self, event: str) -> bool:
        """Check whether *event* must leave the entity's state unchanged, so that it has no effect on data."""
        ways = self.choices(event)
        return len(ways) == 1 and ways[0].to == self.state

    def refusal(self, event: str) -> Outcome | None:
        """Return a deviation that refuses *event*. Return ``None`` if there is none or if the entity is absent.

        >>> refused = Driven(driver("container-status", "containerd-1.6").position("exited")).refusal("stop")
        >>> refused and refused.reply
        ('NOT_FOUND',)
        """
        ways = () if self.position.shows == ABSENT else self.position.outcomes(event)
        return next(
            (way for way in ways if way.deviation and way.reply and not way.replies("ok") and way.to == self.state),
            None,
        )

    def take(self, event: str, outcome: str = "", *, ends: bool = False) -> Outcome:
        """Let *event* happen with *outcome*, by default with the only possible outcome."""
        if not outcome and len(ways := self.choices(event, ends=ends)) == 1:
            outcome = ways[0].name
        return self.position.take(event, outcome, ends=ends)


def first_of(names: Collection[str], *wanted: str) -> str:
    """Return the first of the *wanted* outcomes that is in *names*, or an empty string.

    >>> first_of({"created", "failed"}, "started", "failed")
    'failed'
    """
    return next((name for name in wanted if name in names), "")


def raise_reply(event: str, way: Outcome, why: str, code: str = UNKNOWN) -> None:
    """Raise :class:`CallError` if the reply of *way* is an error. *code* is used if the reply is "any error".

    >>> raise_reply("create", driver("container-status").position().take("create", "failed"), "disk full")
    Traceback (most recent call last):
    fsm.runtimes.reference.driven.CallError: create: UNKNOWN: disk full
    """
    if not way.begins and way.reply and not way.replies("ok"):
        raise CallError(event, code if way.reply[0] == ANY_ERROR else way.reply[0], why)
