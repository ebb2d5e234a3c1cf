"""What happened: observations of many entities, in order.

An *observation* is one thing that somebody saw: a request, a reply, a signal,
a state that was shown, an output.  Sources turn logs and recordings into
observations; :mod:`fsm.monitor` judges them.  The JSON form of an
observation, field by field, is the trace format of ``docs/trace-format.md``.
"""

from __future__ import annotations

from typing import Literal, NamedTuple, TypeAlias

import msgspec


class Line(NamedTuple):
    """A line of one of several files."""

    file: str
    number: int


Phase: TypeAlias = Literal["", "request", "reply", "lost", "answered", "noticed", "maybe", "gap"]
"""Which part of an event was seen.

empty
    All of it: a call with its reply, a signal, or a state or an output alone.
request, reply
    The two ends of a call; it acts at some instant between them.
lost
    The caller gave up: no reply will be seen, and the call may act yet.
answered
    A reply to a call whose request nobody recorded; it acted at some instant before.
noticed
    A signal that can happen now, with or without its effect; where it may act
    later, the trace does not show it.
maybe
    A signal that may have happened, or a call that may have been made.
gap
    Observations are missing: nothing is known from here on of the entity, or of anybody if none is named.
"""


class Observation(msgspec.Struct, frozen=True, kw_only=True, gc=False, omit_defaults=True):
    """One thing that was seen.

    A struct of ``msgspec`` and not a dataclass: a trace has millions of
    them, and the decoder makes them straight from bytes.

    ``of`` is the kind of entity (``container``); ``event`` the model's name
    for it or the name on the wire; ``shows`` what an observer read just after;
    ``met`` what the reply says of the state that the call met; ``emits`` the
    outputs that came with it; ``output`` an output seen alone.  An empty
    ``entity`` stands for every entity.  Times are nanoseconds since the epoch
    or RFC 3339; ``start`` and ``end`` give a whole call its interval.
    """

    entity: str = ""
    of: str = ""
    event: str = ""
    phase: Phase = ""
    reply: str = ""
    shows: str = ""
    met: str = ""
    output: str = ""
    emits: tuple[str, ...] | None = None
    at: int | str | None = None
    start: int | None = None
    end: int | None = None
    detail: str = ""
    line: int = 0


Key: TypeAlias = tuple[str, Phase, str, str, str, str, tuple[str, ...] | None]
"""All of an observation that bears on legality: neither who, nor when, nor where."""


def key(observation: Observation) -> Key:
    """What *observation* says, whoever it is about.

    >>> key(Observation(entity="c1", event="stop", reply="ok"))
    ('stop', '', 'ok', '', '', '', None)
    """
    return (
        observation.event,
        observation.phase,
        observation.reply,
        observation.shows,
        observation.met,
        observation.output,
        observation.emits,
    )
