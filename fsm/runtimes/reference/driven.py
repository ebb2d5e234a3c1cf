"""Shared base of code driven by a machine: the driver, choosing between outcomes, and turning errors into replies."""

from collections.abc import Collection
from functools import cache
from typing import Final

from fsm.language.library import load
from fsm.machine import ANY_ERROR, Outcome
from fsm.machine.driver import Driver, Position

ABSENT: Final = "absent"
"""State of an entity that does not exist, in every machine of objects."""

UNKNOWN: Final = "UNKNOWN"
"""Error code used when containerd returns no specific one."""


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
    """The environment did not do what was asked of it, or did not answer."""


class Driven:
    """An object driven by a machine. Its state is that of its ``position``."""

    position: Position

    @property
    def state(self) -> str:
        return self.position.state


@cache
def driver(name: str, profile: str = "") -> Driver:
    """Return the driver of the machine called *name*, under *profile* if it is not empty.

    >>> driver("pod-sandbox").position().state
    'absent'
    """
    return Driver(load(name).under(profile))


def choices(position: Position, event: str, *, ends: bool = False) -> tuple[Outcome, ...]:
    """Return the outcomes of *event* at *position* that code can choose from.

    If *ends*, return those that end a call of *event*. Deviations are excluded, because the world of an entity decides
    whether it deviates. An absent entity has no world, so if it has deviations, only these are returned.

    >>> [way.name for way in choices(driver("container-status", "containerd-1.6").position(), "stop")]
    ['stop-of-removed']
    >>> [way.name for way in choices(driver("container-status", "containerd-1.6").position("exited"), "stop")]
    ['ignored']
    """
    ways = position.outcomes(event, ends=ends)
    deviating = position.shows == ABSENT and any(way.deviation for way in ways)
    return tuple(way for way in ways if bool(way.deviation) == deviating)


def refusal(position: Position, event: str) -> Outcome | None:
    """Return a deviation that refuses *event* at *position*, or ``None``, also if the entity is absent.

    >>> found = refusal(driver("container-status", "containerd-1.6").position("exited"), "stop")
    >>> found and found.reply
    ('NOT_FOUND',)
    >>> refusal(driver("container-status", "containerd-1.6").position(), "stop")
    """
    ways = () if position.shows == ABSENT else position.outcomes(event)
    refusing = (
        way for way in ways if way.deviation and way.reply and not way.replies("ok") and way.to == position.state
    )
    return next(refusing, None)


def offered(position: Position, event: str) -> set[str]:
    """Return the names of the outcomes that *event* may have at *position*.

    >>> sorted(offered(driver("container-status").position(), "create"))
    ['created', 'failed']
    """
    return {way.name for way in choices(position, event)}


def first_of(names: Collection[str], *wanted: str) -> str:
    """Return the first of the *wanted* outcomes that is in *names*, or an empty string if none is.

    >>> first_of(offered(driver("container-status").position(), "create"), "started", "failed")
    'failed'
    """
    return next((each for each in wanted if each in names), "")


def is_noop(position: Position, event: str) -> bool:
    """Check whether *event* must leave the entity at *position* in its state, so that it has no effect on data.

    >>> is_noop(driver("container-status").position(), "stop")
    True
    """
    ways = choices(position, event)
    return len(ways) == 1 and ways[0].to == position.state


def take(position: Position, event: str, outcome: str = "", *, ends: bool = False) -> Outcome:
    """Let *event* happen at *position* with *outcome*. By default, take the only outcome to choose from.

    >>> take(driver("container-status", "containerd-1.6").position(), "stop").reply
    ('NOT_FOUND',)
    """
    if not outcome and len(ways := choices(position, event, ends=ends)) == 1:
        outcome = ways[0].name
    return position.take(event, outcome, ends=ends)


def raise_reply(event: str, way: Outcome, why: str, code: str = UNKNOWN) -> None:
    """Raise :class:`CallError` if the reply of *way* is an error. *code* is used if the reply is "any error".

    >>> raise_reply("create", driver("container-status").position().take("create", "failed"), "disk full")
    Traceback (most recent call last):
    fsm.runtimes.reference.driven.CallError: create: UNKNOWN: disk full
    """
    if not way.begins and way.reply and not way.replies("ok"):
        raise CallError(event, code if way.reply[0] == ANY_ERROR else way.reply[0], why)
