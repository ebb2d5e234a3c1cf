"""containerd's error messages for pods and containers, and the lookup of shortened ids.

The messages are in ``error_words.toml``.
"""

import tomllib
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from functools import cache
from importlib.resources import files
from typing import Any

from fsm.runtimes.reference.driven import ABSENT, UNKNOWN, CallError, Driven, raise_reply


@cache
def _texts() -> dict[str, Any]:
    return tomllib.loads(files(__package__).joinpath("error_words.toml").read_text(encoding="utf-8"))


def full_id(given: str, known: Collection[str], event: str, kind: str) -> str:
    """Return the id in *known* that begins with *given*, or *given* itself if no id does.

    Raise :class:`~fsm.runtimes.reference.driven.CallError` if *given* is empty or ambiguous. The message contains
    *kind*, which is containerd's word for such objects.

    >>> full_id("ab", ["abc", "b"], "stop", "container"), full_id("x", ["abc"], "stop", "container")
    ('abc', 'x')
    >>> full_id("a", ["abc", "abd"], "stop", "container")  # doctest: +ELLIPSIS
    Traceback (most recent call last):
    fsm...CallError: stop: UNKNOWN: an error occurred when try to find container "a": Multiple IDs found with ...: a
    """
    if given in known:
        return given
    matching = [identity for identity in known if identity.startswith(given)]
    if given and len(matching) <= 1:
        return matching[0] if matching else given
    why = f"Multiple IDs found with provided prefix: {given}" if given else "prefix can't be empty"
    raise CallError(event, UNKNOWN, f'an error occurred when try to find {kind} "{given}": {why}')


def refusal_text(kind: str, event: str, given: str, shows: str, doing: str = "") -> str:
    """Return the message with which containerd refuses a call.

    *given* is the id that the caller has used, and *shows* is the state that clients see. *doing* is ``starting`` or
    ``removing`` while a start or removal is in progress, and ``deviation`` if the refusal is a deviation.

    >>> refusal_text("container", "start", "c1", "CONTAINER_EXITED")
    'failed to set starting state for container "c1": container is in CONTAINER_EXITED state'
    """
    texts = _texts()[kind]
    general = texts["absent" if shows == ABSENT else "refused"]
    chosen = {} if shows == ABSENT else texts.get(doing, {})
    text: str = chosen.get(event) or chosen.get("") or general.get(event, general[""])
    return text.replace("{id}", f'"{given}"').replace("{shows}", shows)


@contextmanager
def use_containerd_errors(kind: str, entity: Driven, event: str, given: str, *, deviates: bool) -> Iterator[None]:
    """Replace the message of a call that is refused within the context with containerd's message.

    *given* is the id that the caller has used. If *deviates* is true, and the profile has a deviation that refuses the
    call, the call is refused before the context is entered. Calls for absent entities never deviate.
    """
    state, shows = entity.state, entity.shows
    ways = entity.position.outcomes(event) if deviates and shows != ABSENT else ()
    refusals = (way for way in ways if way.deviation and way.reply and not way.replies("ok") and way.to == state)
    if way := next(refusals, None):
        entity.position.take(event, way.name)
        raise_reply(event, way, refusal_text(kind, event, given, shows, "deviation"))
    refused = entity.is_noop(event)
    try:
        yield
    except CallError as error:
        why = refusal_text(kind, event, given, shows, state.rpartition("-")[2]) if refused else error.why
        raise CallError(event, error.code, why) from None
