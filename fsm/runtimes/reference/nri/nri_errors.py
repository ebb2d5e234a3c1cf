"""Errors of the NRI layer, each with the code of its reply."""

from collections.abc import Sequence
from typing import Final

from fsm.runtimes.reference.driven import ReplyError
from fsm.runtimes.reference.nri.messages import Eviction, Update


class NRIError(ReplyError):
    """An error of the NRI layer, of a domain or of a plugin.

    >>> NRIError("the door is shut", code="FAILED_PRECONDITION").code
    'FAILED_PRECONDITION'
    """

    def __init__(self, message: str, *, code: str = "") -> None:
        """Create the error. If *code* is empty, it has the code of its class."""
        super().__init__(message)
        if code:
            self.code = code


class NRIStoppedError(NRIError):
    """The interface was stopped, and accepts no more calls."""

    code = "UNAVAILABLE"


class ReentrantError(NRIError):
    """A plugin or domain called the NRI layer while the layer was waiting for it."""

    code = "FAILED_PRECONDITION"


class BlockedError(NRIError):
    """A plugin cannot be synchronised, because this was blocked for longer than the registration timeout."""

    code = "DEADLINE_EXCEEDED"


class RegistrationError(NRIError):
    """A plugin cannot be registered. Its name, index or events are wrong, or it failed."""

    code = "INVALID_ARGUMENT"


class PluginLostError(Exception):
    """A plugin disconnected, or did not answer in time."""

    code = "UNAVAILABLE"


class PluginLateError(PluginLostError):
    """A plugin did not answer in time."""

    code = "DEADLINE_EXCEEDED"


class ConflictError(NRIError):
    """Two plugins claim the same field of a container."""

    code = "ALREADY_EXISTS"


class ChangesFailedError(NRIError):
    """Some container updates or evictions failed and are in ``failed``. All others were made."""

    def __init__(self, failed: Sequence[Update] | Sequence[Eviction]) -> None:
        self.failed: Final = tuple(failed)
        change = type(failed[0]).__name__.lower()
        super().__init__(f"{change} of some containers failed: {', '.join(each.container_id for each in failed)}")
