"""The answers of several plugins to one request, combined: each field of a container belongs to one plugin."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Final

from fsm.reference.nri.messages import Answer, Eviction, Fields, Request, Update
from fsm.reference.nri.nri_errors import ConflictError, NRIError

ALLOWED: Final[Mapping[str, frozenset[str]]] = {
    "CreateContainer": frozenset({"adjust", "updates", "evictions"}),
    "UpdateContainer": frozenset({"updates", "evictions"}),
    "StopContainer": frozenset({"updates"}),
}
"""The parts of an answer that count, by event; none for other events."""


class MergedAnswers:
    """The combined answers to *request*.

    >>> from fsm.reference.nri.messages import Container, Pod
    >>> merged = MergedAnswers(Request(event="CreateContainer", pod=Pod(id="p1"), container=Container(id="c1")))
    >>> merged.add("10-a", Answer(adjust={"env.A": "1"}))
    >>> merged.add("20-b", Answer(adjust={"env.A": "2"}))
    Traceback (most recent call last):
        ...
    fsm.reference.nri.nri_errors.ConflictError: plugins '20-b' and '10-a' both set env.A of container c1
    >>> merged.adjust
    {'env.A': '1'}
    """

    def __init__(self, request: Request) -> None:
        self.adjust: dict[str, object] = {}
        self.evictions: list[Eviction] = []
        self._allowed: Final = ALLOWED.get(request.event, frozenset())
        self._subject: Final = request.container.id if request.container else ""
        self._base: Final[Fields] = request.resources
        self._requested: dict[str, Update] = {}
        self._owners: dict[tuple[str, str], str] = {}

    def add(self, plugin: str, answer: Answer) -> None:
        """Add the *answer* of *plugin*; a conflicting update that may fail is dropped as a whole.

        Raises :class:`ConflictError` for a field that belongs to another, and
        :class:`NRIError` for an update of the container that is being created.
        """
        if "adjust" in self._allowed:
            self._claim(plugin, self._subject, answer.adjust)
            self.adjust |= answer.adjust
        if "updates" in self._allowed:
            for update in answer.updates:
                self._update(plugin, update)
        if "evictions" in self._allowed:
            self.evictions += answer.evictions

    @property
    def others(self) -> tuple[Update, ...]:
        """The updates of other containers, in the order in which plugins first requested them."""
        return tuple(each for each in self._requested.values() if each.container_id != self._subject)

    @property
    def own(self) -> Fields | None:
        """The resources for the container of the request; ``None`` if no plugin changes them."""
        requested = self._requested.get(self._subject)
        return {**self._base, **requested.resources} if requested else None

    def _update(self, plugin: str, update: Update) -> None:
        if "adjust" in self._allowed and update.container_id == self._subject:
            message = f"plugin {plugin!r} asked for an update of {self._subject} during its creation; adjust it instead"
            raise NRIError(message, code="INVALID_ARGUMENT")
        try:
            self._claim(plugin, update.container_id, update.resources)
        except ConflictError:
            if update.ignore_failure:
                return
            raise
        known = self._requested.get(update.container_id, update)
        self._requested[update.container_id] = replace(
            known,
            resources={**known.resources, **update.resources},
            ignore_failure=known.ignore_failure and update.ignore_failure,
        )

    def _claim(self, plugin: str, container: str, fields: Fields) -> None:
        for name in fields:
            owner = self._owners.get((container, name))
            if owner is not None:
                raise ConflictError(f"plugins {plugin!r} and {owner!r} both set {name} of container {container}")
        self._owners |= {(container, name): plugin for name in fields}
