"""What goes wrong in the NRI layer: each error has a code, as replies have it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Iterable

    from fsm.reference.nri.messages import Eviction, Update


class NRIError(Exception):
    """Anything that the layer, a domain or a plugin has to say against a request.

    >>> NRIError("the door is shut", code="FAILED_PRECONDITION").code
    'FAILED_PRECONDITION'
    """

    code: str = "UNKNOWN"

    def __init__(self, message: str, *, code: str = "") -> None:
        """*message* is for people, *code* for programs; without one it is that of the class."""
        super().__init__(message)
        if code:
            self.code = code


class NRIStoppedError(NRIError):
    """The interface was stopped: nothing can be asked of it any more."""

    code = "UNAVAILABLE"

    def __init__(self) -> None:
        super().__init__("the NRI interface was stopped; make a new one")


class ReentrantError(NRIError):
    """Somebody whom the layer is asking just now asks the layer: it could only wait for itself."""

    code = "FAILED_PRECONDITION"

    def __init__(self) -> None:
        super().__init__(
            "a plugin or domain that is being asked cannot ask: return updates with the answer, or ask later"
        )


class UnimplementedError(NRIError):
    """The release that is played has no such method."""

    code = "UNIMPLEMENTED"


class BlockedError(NRIError):
    """A plugin cannot be synchronised: that was blocked for longer than a registration may take."""

    code = "DEADLINE_EXCEEDED"


class RegistrationError(NRIError):
    """A plugin that cannot be registered: for its name, its index, its events, or because it failed at it."""

    code = "INVALID_ARGUMENT"


class PluginFailedError(NRIError):
    """The plugin called ``plugin`` answered a request with an error."""

    def __init__(self, plugin: str, error: Exception) -> None:
        """*error* is what *plugin* raised; its code is kept if it has one."""
        super().__init__(f"plugin {plugin}: {error}", code=error.code if isinstance(error, NRIError) else "")
        self.plugin: Final = plugin


class PluginLostError(Exception):
    """A plugin has hung up, or did not answer in time: raised by it, or on its behalf."""


class PluginLateError(PluginLostError):
    """A plugin did not answer in time."""


class ConflictError(NRIError):
    """Two plugins, or one twice, claim the same field of a container."""

    code = "ALREADY_EXISTS"


class DuplicateDomainError(NRIError):
    """There is a domain of this name."""

    code = "ALREADY_EXISTS"


class UnknownDomainError(NRIError):
    """There is no domain of this name."""

    code = "NOT_FOUND"


class UpdatesFailedError(NRIError):
    """Some updates could not be made: ``failed``; all the others were."""

    def __init__(self, failed: Iterable[Update]) -> None:
        self.failed: Final = tuple(failed)
        super().__init__(f"update of some containers failed: {', '.join(each.container_id for each in self.failed)}")


class EvictionsFailedError(NRIError):
    """Some evictions could not be made: ``failed``; all the others were."""

    def __init__(self, failed: Iterable[Eviction]) -> None:
        self.failed: Final = tuple(failed)
        super().__init__(f"eviction of some containers failed: {', '.join(each.container_id for each in self.failed)}")
