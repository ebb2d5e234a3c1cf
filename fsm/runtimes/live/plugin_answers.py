"""A user's own check of a plugin's answers: an object that receives each answer and returns what is wrong with it.

Pods, containers and answers are plain data, with the field names of NRI messages.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any, Protocol, TypeAlias

from google.protobuf.json_format import MessageToDict
from google.protobuf.message import Message

from fsm.runtimes.live.nri_link import PluginChanges, RelayedEvent

Plain: TypeAlias = Mapping[str, Any]


class Answers(Protocol):
    """Checks the answers on one connection.  The :option:`--answers` factory makes it from the listed objects."""

    def on(self, event: str, pod: Plain, container: Plain | None, answer: Plain) -> str | None:
        """Return what is wrong with *answer*, the plugin's ``adjust`` and ``update``, or raise an exception."""


class AnswerCheck:
    """Passes each answer on a connection to the checker that *factory* makes for that connection."""

    def __init__(self, factory: Callable[..., Any]) -> None:
        self._factory = factory
        self._answers: Answers | None = None

    def connected(self, pods: Iterable[Message], containers: Iterable[Message], updates: Iterable[Message]) -> str:
        """Make the connection's checker.  Return what is wrong with the *updates* requested at synchronisation."""
        try:
            self._answers = self._factory([*map(_plain, pods)], [*map(_plain, containers)])
        except (Exception, SystemExit) as error:  # noqa: BLE001  (a user's code may raise anything)
            return f"cannot be judged: {_raised(error)}"
        return self._said("Synchronize", {}, None, {"update": [*map(_plain, updates)]})

    def told(self, event: RelayedEvent, changes: PluginChanges) -> str:
        """Return what is wrong with the *changes* answered to *event*."""
        answer: dict[str, Any] = {"update": [*map(_plain, changes.updates)]}
        if changes.adjustment is not None:
            answer["adjust"] = _plain(changes.adjustment)
        container = _plain(event.container) if event.container is not None else None
        return self._said(event.name, _plain(event.pod), container, answer)

    def _said(self, event: str, pod: Plain, container: Plain | None, answer: Plain) -> str:
        if self._answers is None:
            return ""
        try:
            said = self._answers.on(event, pod, container, answer)
        except (Exception, SystemExit) as error:  # noqa: BLE001
            said = _raised(error)
        return f"has answered {event} wrongly: {said}" if said else ""


def _plain(message: Message) -> dict[str, Any]:
    return MessageToDict(message, preserving_proto_field_name=True)


def _raised(error: BaseException) -> str:
    text = next(iter(str(error).splitlines()), "")
    return text if isinstance(error, AssertionError) and text else f"{type(error).__name__}: {text}"
