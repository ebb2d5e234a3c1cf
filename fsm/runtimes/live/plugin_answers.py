"""A user's own property over what a plugin under test answers: an object that is told of each answer, and says what is wrong.

Pods, containers and answers are plain data, by the names of NRI's messages.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any, Protocol, TypeAlias

from google.protobuf.json_format import MessageToDict
from google.protobuf.message import Message

from fsm.runtimes.live.nri_link import PluginChanges, RelayedEvent

Plain: TypeAlias = Mapping[str, Any]


class Answers(Protocol):
    """What :option:`--answers` names makes one of these for each connection, of the pods and containers that are there."""

    def on(self, event: str, pod: Plain, container: Plain | None, answer: Plain) -> str | None:
        """What is wrong with *answer*, with ``adjust`` and ``update`` as the plugin gave them; or an exception is raised."""


class AnswerCheck:
    """What *factory* makes, asked about each answer of one connection after the other."""

    def __init__(self, factory: Callable[..., Any]) -> None:
        self._factory = factory
        self._answers: Answers | None = None

    def connected(self, pods: Iterable[Message], containers: Iterable[Message], updates: Iterable[Message]) -> str:
        """What is wrong with the *updates* that were asked for when *pods* and *containers* were listed."""
        try:
            self._answers = self._factory([*map(_plain, pods)], [*map(_plain, containers)])
        except (Exception, SystemExit) as error:  # noqa: BLE001  (a user's code may raise anything)
            return f"cannot be judged: {_raised(error)}"
        return self._said("Synchronize", {}, None, {"update": [*map(_plain, updates)]})

    def told(self, event: RelayedEvent, changes: PluginChanges) -> str:
        """What is wrong with the *changes* that were answered."""
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
    """The first line of an assertion's own text; of what else was raised, its kind too."""
    text = next(iter(str(error).splitlines()), "")
    return text if isinstance(error, AssertionError) and text else f"{type(error).__name__}: {text}"
