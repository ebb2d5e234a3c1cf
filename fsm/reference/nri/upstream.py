"""A plugin's connection as NRI v0.8 to v0.12 has it, where that is not what it is meant to be.

The profile ``as-written`` of the machine allows all of it.
"""

from __future__ import annotations

import threading
from dataclasses import replace
from typing import TYPE_CHECKING, Final

from fsm.reference.nri.connection import Connection
from fsm.reference.nri.nri_errors import NRIError, RegistrationError

if TYPE_CHECKING:
    from fsm.reference.nri.connection import Launch, Plugin, Terms


class AsWritten(Connection):
    """A connection that may be registered once more, and is not given up where it should be."""

    def __init__(self, plugin: Plugin, terms: Terms) -> None:
        super().__init__(plugin, replace(terms, profile="as-written"))
        self._left: Final = threading.Condition()
        self._taken = True
        self._process = False

    def launch(self, kind: Launch = "launched") -> None:
        """As the other; a process can be killed."""
        super().launch(kind)
        self._process = kind == "launched"

    def register(self, name: str, index: str) -> None:
        """As the other; but who has a wrong name stays, and who is listed gets another one.

        That leaves something that nobody takes, so the next registration
        waits until the plugin's own time is over.
        """
        if self.state == "registering" and self._wrong(name, index):
            self._went("register", "bad-names-stay")
            message = f"invalid plugin name or index: {index!r}, {name!r}"
            raise RegistrationError(message)
        if self.state != "active":
            super().register(name, index)
        elif self._taken:
            self._taken = False
            self._went("register", "registered-again")
            self._named(name, index)
        else:
            clock = self._terms.clock
            with self._left:
                clock.wait(self._left, lambda: self._taken, until=clock.now() + self._terms.registration)
            self._went("register", "third-registration-hangs")
            message = f"plugin {self.name}: its registration was not answered"
            raise NRIError(message, code="DEADLINE_EXCEEDED")

    def stop(self) -> None:
        """As the other, of one that is not listed, or is a process; others are left."""
        if self.listed and not self._process:
            self._went("stop", "left-at-the-stop")
        else:
            super().stop()
