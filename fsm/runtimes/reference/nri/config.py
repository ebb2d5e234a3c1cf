"""Configuration of the NRI layer, and the differences between releases."""

from dataclasses import dataclass
from typing import Final

REGISTRATION: Final = 5.0
REQUEST: Final = 2.0
"""Number of seconds that a plugin has to register, and to answer a request."""

# The profile containerd-1.7 describes containerd 1.7.2. Synchronisation can be blocked in 1.7.26.
RELEASES: Final = {"": False, "containerd-2.1": False, "containerd-1.7": True}
"""Maps each release to whether NRI is disabled by default. A release is a profile, or empty for the newest."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Config:
    """Whether NRI is enabled, where plugins are found, and how much time they have.

    Timeouts are in seconds, or 0 for the default, and each interface has its own. If ``disable_connections``, only
    plugins passed at the start can join. ``sync_objects`` is the maximum number of pods and containers in one message
    to a joining plugin. 0 means no limit. Raise :class:`ValueError` for a negative number.

    >>> config = Config(plugin_request_timeout=0.5)
    >>> config.disable, config.registration_timeout, config.request_timeout
    (False, 5.0, 0.5)
    """

    disable: bool = False
    socket_path: str = "/var/run/nri/nri.sock"
    plugin_registration_timeout: float = REGISTRATION
    plugin_request_timeout: float = REQUEST
    disable_connections: bool = False
    sync_objects: int = 0
    release: str = ""

    def __post_init__(self) -> None:
        seconds = "give seconds, or 0 for the default"
        for name, value, hint in (
            ("plugin_registration_timeout", self.plugin_registration_timeout, seconds),
            ("plugin_request_timeout", self.plugin_request_timeout, seconds),
            ("sync_objects", self.sync_objects, "give a number, or 0 for any"),
        ):
            if value < 0:
                raise ValueError(f"{name} is {value}; {hint}")

    @property
    def registration_timeout(self) -> float:
        return self.plugin_registration_timeout or REGISTRATION

    @property
    def request_timeout(self) -> float:
        return self.plugin_request_timeout or REQUEST


def default_config(release: str = "") -> Config:
    """Return the default configuration of *release* (default: newest). Raise :class:`ValueError` if it is unknown.

    >>> default_config().disable, default_config("containerd-1.7").disable
    (False, True)
    """
    if release not in RELEASES:
        known = ", ".join(filter(None, RELEASES))
        raise ValueError(f"no release is called {release!r}; there are {known}, and the newest, which has no name")
    return Config(disable=RELEASES[release], release=release)
