"""What all code that is driven by a machine needs: its driver, a choice among outcomes, and errors as replies."""

from collections.abc import Collection
from functools import cache
from typing import Final

from fsm.language.library import load
from fsm.machine import ANY_ERROR, Outcome
from fsm.machine.driver import Driver, Position

ABSENT: Final = "absent"
"""The state of an entity that does not exist, in every machine of objects."""

UNKNOWN: Final = "UNKNOWN"
"""The code of an error for which containerd gives no other."""


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
    """The surroundings did not do what was asked, or did not answer."""


class Driven:
    """What a machine drives: its state is that of its ``position``."""

    position: Position

    @property
    def state(self) -> str:
        return self.position.state


@cache
def driver(name: str, profile: str = "") -> Driver:
    """The driver of the machine called *name*, under *profile* if that is not empty.

    >>> driver("pod-sandbox").position().state
    'absent'
    """
    return Driver(load(name).under(profile))


def choices(position: Position, event: str, *, ends: bool = False) -> tuple[Outcome, ...]:
    """The outcomes of *event* at *position* that code chooses from; with ``ends``, those that a call of it may end in.

    By a profile's deviations an entity does what its world leads to, so they are no choice; but what is absent has no
    world, and the deviation is all that there is.

    >>> [way.name for way in choices(driver("container-status", "containerd-1.6").position(), "stop")]
    ['stop-of-removed']
    >>> [way.name for way in choices(driver("container-status", "containerd-1.6").position("exited"), "stop")]
    ['ignored']
    """
    ways = position.outcomes(event, ends=ends)
    deviating = position.shows == ABSENT and any(way.deviation for way in ways)
    return tuple(way for way in ways if bool(way.deviation) == deviating)


def refusal(position: Position, event: str) -> Outcome | None:
    """The deviation by which *event* is refused at *position*, where it is no matter of course; ``None`` if there is none.

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
    """The names of the outcomes that *event* may have at *position*.

    >>> sorted(offered(driver("container-status").position(), "create"))
    ['created', 'failed']
    """
    return {way.name for way in choices(position, event)}


def first_of(names: Collection[str], *wanted: str) -> str:
    """The first of the outcomes *wanted* that is one of *names*; the empty string if none is.

    >>> first_of(offered(driver("container-status").position(), "create"), "started", "failed")
    'failed'
    """
    return next((each for each in wanted if each in names), "")


def is_noop(position: Position, event: str) -> bool:
    """Whether *event* can only leave the entity at *position* as it is, so that it has no effect on data.

    >>> is_noop(driver("container-status").position(), "stop")
    True
    """
    ways = choices(position, event)
    return len(ways) == 1 and ways[0].to == position.state


def take(position: Position, event: str, outcome: str = "", *, ends: bool = False) -> Outcome:
    """Let *event* happen at *position* with *outcome*, or with the only one that there is to choose.

    >>> take(driver("container-status", "containerd-1.6").position(), "stop").reply
    ('NOT_FOUND',)
    """
    if not outcome and len(ways := choices(position, event, ends=ends)) == 1:
        outcome = ways[0].name
    return position.take(event, outcome, ends=ends)


def raise_reply(event: str, way: Outcome, why: str, code: str = UNKNOWN) -> None:
    """Raise the error that *way* replies, if it replies one; *code* stands for any error.

    >>> raise_reply("create", driver("container-status").position().take("create", "failed"), "disk full")
    Traceback (most recent call last):
    fsm.runtimes.reference.driven.CallError: create: UNKNOWN: disk full
    """
    if not way.begins and way.reply and not way.replies("ok"):
        raise CallError(event, code if way.reply[0] == ANY_ERROR else way.reply[0], why)
