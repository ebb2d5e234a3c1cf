"""A table of what calls do to a pod and its containers, which is filled on demand.

A :class:`Shape` is everything that the joiner knows about a pod, apart from the ids. Pods that do not differ in this
have the same shape. There are shapes for removed pods, and for pods whose containers are all known. The step that a
call causes is found by running the joiner once on a sample pod, and is then used for all pods of that shape.
Observations that concern more than one pod have no step.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Sequence
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from msgspec import structs

from fsm.runtimes.names import CONTAINER, POD
from fsm.runtimes.recordings.pod_calls import Joiner, Reached
from fsm.trace import Observation

_MOST: Final = 32
"""Maximum number of ids and calls in progress of a pod in the table, to limit the combinations."""

_SHAPES: Final = 16_384  # maximum number of shapes to keep

_NAMES: Final = tuple(f"{number:064x}" for number in range(3 * _MOST))


class _Known(NamedTuple):
    """The state of a pod as the joiner knows it, with numbered places instead of ids.

    The pod itself has place 0. Its containers come next, and removed containers last.
    """

    containers: int
    starts: tuple[tuple[bool, ...], ...]
    reached: tuple[tuple[str, tuple[int, ...], tuple[int, ...]], ...]
    creating: int
    overlapped: tuple[str, ...]
    stopped: bool
    not_ready: bool
    removed: bool


class Step(NamedTuple):
    """The effect of an observation on a pod of a given shape.

    Attributes:
        one: The variant of the only resulting observation, or -1. It is -1 unless that observation is about the same
            entity, and ids and creations do not change.
        seen: The resulting observations, as pairs of a variant and the place of the entity.
        to: The next shape of the pod.
        comes: The old place for each new place, empty if no place changes.
        removed: The places of containers that have been removed.
        gone: True if the pod itself is removed.
        ended: How many of the creations in progress have ended, oldest first.
        begun: How many creations have begun.
    """

    one: int
    seen: tuple[tuple[int, int], ...]
    to: Shape
    comes: tuple[int, ...]
    removed: tuple[int, ...]
    gone: bool
    ended: int
    begun: int


@dataclass(slots=True, eq=False)
class Shape:
    """The state of a pod as the joiner knows it, and the steps found for it so far.

    ``steps`` maps the symbol of an observation and the place of its entity to a step. ``rests`` is true for a removed
    pod without calls in progress.
    """

    known: _Known
    rests: bool
    steps: dict[tuple[int, int], Step | None] = field(default_factory=dict)


@dataclass(slots=True, eq=False)
class Pod:
    shape: Shape
    ids: list[str]
    creating: list[int]


@dataclass(slots=True)
class Shapes:
    number: Callable[[Observation], int]
    _known: dict[_Known, Shape] = field(default_factory=dict)

    def take(self, joiner: Joiner, identity: str) -> Pod | None:
        """Take the state of the pod that *identity* is or belongs to out of *joiner*, and return the pod.

        If the pod has no shape, return ``None`` and leave *joiner* unchanged.
        """
        is_pod = identity in joiner.containers or identity in joiner.removed[POD]
        name = identity if is_pod else joiner.pod_of.get(identity, "")
        pod = self._freeze(joiner, name)
        if pod is not None:
            for each in (joiner.reached, joiner.creating, joiner.overlapped):
                each.pop(name, None)
            joiner.stopped.discard(name)
            joiner.not_ready.discard(name)
            for container in joiner.containers.get(name, ()):
                joiner.starts.pop(container, None)
        return pod

    def step(self, pod: Pod, seen: Observation, place: int, *, made: bool) -> Step | None:
        """Return the step for *seen* at *place*, or ``None`` if *seen* concerns entities outside the pod.

        *made* is true if *seen* is the creation of a container in the pod.
        """
        if (seen.of == POD) != (place == 0):
            # If a container call names a pod, or a pod call names a container, the call concerns an unknown entity.
            return None
        known = pod.shape.known
        joiner = Joiner()
        _thaw(joiner, known, _NAMES, list(range(known.creating)))
        if known.removed:
            joiner.removed[POD][_NAMES[0]] = None
        else:
            joiner.pod_of = dict.fromkeys(_NAMES[1 : 1 + known.containers], _NAMES[0])
            joiner.containers = {_NAMES[0]: dict.fromkeys(joiner.pod_of)}
            joiner.whole = {_NAMES[0]}
        joiner.met = known.creating
        found = joiner.joined(structs.replace(seen, entity=_NAMES[place], detail=_NAMES[0] if made else seen.detail))
        after = self._freeze(joiner, _NAMES[0])
        if after is None or joiner.met != known.creating:  # the joiner would have tracked another entity
            return None
        removed = tuple(map(_NAMES.index, joiner.removed[CONTAINER]))
        ended = next((at for at in range(known.creating) if at in after.creating), known.creating)
        begun = after.creating.count(known.creating)
        if after.creating != [*range(ended, known.creating), *[known.creating] * begun]:
            return None
        if any(not each.entity or each.detail in _NAMES for each in found):
            return None
        parts = tuple((self.number(each), _NAMES.index(each.entity)) for each in found)
        places = tuple(map(_NAMES.index, after.ids))
        comes = places if places != tuple(range(len(pod.ids))) else ()
        gone = after.shape.known.removed and not known.removed
        same = not (comes or removed or gone or after.shape.rests) and ended == begun == 0
        one = parts[0][0] if same and len(parts) == 1 and parts[0][1] == place else -1
        return Step(one, parts, after.shape, comes, removed, gone, ended, begun)

    def _freeze(self, joiner: Joiner, name: str) -> Pod | None:
        exists, removed = name in joiner.containers, name in joiner.removed[POD]
        if exists != (name in joiner.whole) or exists == removed:
            return None
        containers = joiner.containers.get(name, {})
        others: list[Container[str]] = [*joiner.unrecorded.values(), *joiner.removed.values()]
        if name in joiner.leaks or name in joiner.pod_of or sum(name in each for each in others) > removed:
            return None
        for container in containers:
            if (
                joiner.pod_of.get(container) != name
                or container in joiner.containers
                or any(container in other for other in others)
            ):
                return None
        reached = joiner.reached.get(name, ())
        inner = (each for call in reached for each in (*call.certain, *call.perhaps))
        ids = list(dict.fromkeys((name, *containers, *inner)))
        place = {each: number for number, each in enumerate(ids)}
        creating = joiner.creating.get(name, [])
        starts = tuple(tuple(joiner.starts.get(each, ())) for each in containers)
        if len(ids) + len(reached) + len(creating) + max(map(len, starts), default=0) > _MOST:
            return None
        known = _Known(
            containers=len(containers),
            starts=starts,
            reached=tuple(
                (each.call, tuple(map(place.__getitem__, each.certain)), tuple(map(place.__getitem__, each.perhaps)))
                for each in reached
            ),
            creating=len(creating),
            overlapped=tuple(joiner.overlapped.get(name, ())),
            stopped=name in joiner.stopped,
            not_ready=name in joiner.not_ready,
            removed=removed,
        )
        if len(self._known) > _SHAPES:
            self._known.clear()
        rests = removed and not (reached or creating)
        return Pod(self._known.setdefault(known, Shape(known, rests)), ids, creating)


def put_back(joiner: Joiner, pod: Pod) -> None:
    _thaw(joiner, pod.shape.known, pod.ids, pod.creating)


def _thaw(joiner: Joiner, known: _Known, ids: Sequence[str], creating: list[int]) -> None:
    name = ids[0]
    if known.reached:
        joiner.reached[name] = [
            Reached(
                call=call, certain=tuple(ids[each] for each in certain), perhaps=tuple(ids[each] for each in perhaps)
            )
            for call, certain, perhaps in known.reached
        ]
    if creating:
        joiner.creating[name] = creating
    if known.overlapped:
        joiner.overlapped[name] = list(known.overlapped)
    if known.stopped:
        joiner.stopped.add(name)
    if known.not_ready:
        joiner.not_ready.add(name)
    for container, starts in zip(ids[1:], known.starts, strict=False):
        if starts:
            joiner.starts[container] = list(starts)
