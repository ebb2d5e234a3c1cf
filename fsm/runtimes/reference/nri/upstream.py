"""A plugin connection as in NRI v0.8 to v0.12, where it differs from what the machine intends."""

import threading
from dataclasses import replace
from typing import Final

from fsm.runtimes.reference.driven import UNKNOWN
from fsm.runtimes.reference.nri.connection import Connection, Plugin
from fsm.runtimes.reference.nri.messages import NRIError, RegistrationError
from fsm.runtimes.reference.nri.session import Terms


class UpstreamConnection(Connection):
    """A connection that can be registered twice, and sometimes stays open when it should be closed."""

    def __init__(self, plugin: Plugin, terms: Terms) -> None:
        super().__init__(plugin, replace(terms, config=replace(terms.config, release="upstream")))
        self._condition: Final = threading.Condition()
        self._registered_again = False
        self._process = False

    def launch(self, given: tuple[str, str] | None = None, *, built_in: bool = False) -> None:
        super().launch(given, built_in=built_in)
        self._process = not built_in

    def register(self, name: str, index: str) -> None:
        """Register the plugin. A wrong name does not close the connection, and a listed plugin is renamed.

        Renaming sends to a channel that is never read again, so the next registration hangs until the plugin's own
        timeout.
        """
        if self.state == "registering" and self._name_error(name, index):
            self._take("register", "left")
            raise RegistrationError(f"invalid plugin name or index: {index!r}, {name!r}", code=UNKNOWN)
        if self.state != "active":
            super().register(name, index)
        elif not self._registered_again:
            self._registered_again = True
            self._take("register", "relabelled")
            self._rename(name, index)
        else:
            clock = self._terms.clock
            with self._condition:
                clock.wait(self._condition, lambda: False, until=clock.now() + self._terms.config.registration_timeout)
            self._take("register", "hangs")
            raise NRIError(f"plugin {self.name}: its registration was not answered", code="DEADLINE_EXCEEDED")

    def stop(self) -> None:
        """Close connections of processes, and of plugins that are not listed. Leave others open."""
        if self.listed and not self._process:
            self._take("stop", "left")
        else:
            super().stop()
