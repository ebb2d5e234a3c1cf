"""containerd's error messages, which ``recordings/error_texts`` recognises, and ids that callers may shorten."""

from collections.abc import Collection, Mapping
from typing import Final

from fsm.runtimes.reference.driven import ABSENT


class AmbiguousIdError(Exception):
    """An id is empty, or the prefix of several ids."""


def full_id(given: str, known: Collection[str]) -> str:
    """Return the id in *known* that *given* stands for, or *given* itself if there is none.

    Raise :class:`AmbiguousIdError`, with containerd's message, if *given* is empty or ambiguous.

    >>> full_id("ab", ["abc", "b"]), full_id("x", ["abc"])
    ('abc', 'x')
    >>> full_id("a", ["abc", "abd"])
    Traceback (most recent call last):
    fsm.runtimes.reference.node.error_words.AmbiguousIdError: Multiple IDs found with provided prefix: a
    """
    if not given:
        raise AmbiguousIdError("prefix can't be empty")
    if given in known:
        return given
    found = [each for each in known if each.startswith(given)]
    if len(found) > 1:
        raise AmbiguousIdError(f"Multiple IDs found with provided prefix: {given}")
    return found[0] if found else given


NO_CONTAINER: Final = "an error occurred when try to find container {id!r}: not found"
NO_RECORD: Final = 'failed to get container info: container "{id}" in namespace "k8s.io": not found'
NOT_RUNNING: Final = "container is in {shows} state"

ABSENT_CONTAINER: Final[Mapping[str, str]] = {
    "exec": "failed to find container {id!r} in store: not found",
    "attach": "failed to find container in store: not found",
    "exec-sync": "failed to exec in container: failed to find container {id!r} in store: not found",
    "update-resources": "failed to find container: not found",
    "stats": "failed to find container: not found",
    "checkpoint": "failed to find container {id!r}: not found",
}
"""Messages for calls on a container that does not exist. Other calls get :data:`NO_CONTAINER`."""

REFUSED: Final[Mapping[str, str]] = {
    "start": "failed to set starting state for container {id!r}: container is in {shows} state",
    "remove": "failed to set removing state for container {id!r}: container is in starting state, can't be removed",
    "exec": NOT_RUNNING,
    "attach": NOT_RUNNING,
    "exec-sync": f"failed to exec in container: {NOT_RUNNING}",
    "reopen-log": "container is not running",
    "update-resources": "failed to update resources: container {id!r} is in removing state",
    "stats": "unexpected metrics response: []",
    "checkpoint": "container {id!r} is in {shows} state. only CONTAINER_RUNNING containers can be checkpointed",
}
"""Messages for calls that the state of the container does not allow."""

BUSY: Final[Mapping[tuple[str, str], str]] = {
    ("start", "starting"): "failed to set starting state for container {id!r}: container is already in starting state",
    (
        "start",
        "removing",
    ): "failed to set starting state for container {id!r}: container is in removing state, can't be started",
    ("remove", "removing"): "failed to set removing state for container {id!r}: container is already in removing state",
}
"""Messages by call and by the operation in progress that prevents it."""

ABSENT_POD: Final[Mapping[str, str]] = {
    "status": "an error occurred when try to find sandbox: not found",
    "create-container": "failed to find sandbox id {id!r}: not found",
    "port-forward": "failed to find sandbox {id!r}: not found",
    "update-resources": "failed to find sandbox: not found",
}
POD_REFUSED: Final[Mapping[str, str]] = {
    "create-container": "sandbox container {id!r} is not running",
    "port-forward": "sandbox container is not running",
}


def of_container(event: str, identity: str, state: str, shows: str) -> str:
    """Return why *event* is refused by a container in *state*, which clients see as *shows*.

    >>> of_container("start", "c1", "exited", "CONTAINER_EXITED")
    'failed to set starting state for container "c1": container is in CONTAINER_EXITED state'
    """
    if shows == ABSENT:
        text = ABSENT_CONTAINER.get(event, NO_CONTAINER)
    else:
        text = BUSY.get((event, state.rpartition("-")[2]), REFUSED.get(event, "container {id!r} is in {shows} state"))
    return _filled(text, identity, shows)


def of_pod(event: str, identity: str, shows: str) -> str:
    """Return why *event* is refused by a pod that *shows* a state.

    >>> of_pod("stop", "p1", "absent")
    'an error occurred when try to find sandbox "p1": not found'
    """
    if shows == ABSENT:
        text = ABSENT_POD.get(event, "an error occurred when try to find sandbox {id!r}: not found")
    else:
        text = POD_REFUSED.get(event, "sandbox {id!r} is in {shows} state")
    return _filled(text, identity, shows)


def _filled(text: str, identity: str, shows: str) -> str:
    return text.replace("{id!r}", f'"{identity}"').replace("{shows}", shows)
