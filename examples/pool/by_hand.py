"""The same test by hand, with a rule-based state machine of Hypothesis: every call in every state, and its result."""

from collections.abc import Iterable

from connection_pool import Connection
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule


def by_hand(bugs: Iterable[str]) -> type[RuleBasedStateMachine]:
    """Return a state machine that tests a connection with *bugs*."""

    class ConnectionMachine(RuleBasedStateMachine):
        @initialize()
        def begin(self) -> None:
            self.connection, self.state = Connection("conn-1", bugs), "new"

        @rule()
        def open(self) -> None:
            result = self.connection.open()
            if self.state == "new":
                assert result == "done"
                self.state = "idle"
            else:
                assert result == "open"

        @rule()
        def lend(self) -> None:
            result = self.connection.lend()
            if self.state == "idle":
                assert result == "done"
                self.state = "in use"
            elif self.state in {"in use", "lost", "draining"}:
                assert result == "busy"
            elif self.state == "broken":
                assert result == "broken"
            else:
                assert result == "closed"

        @rule()
        def give_back(self) -> None:
            result = self.connection.give_back()
            if self.state == "in use":
                assert result == "done"
                self.state = "idle"
            elif self.state in {"lost", "draining"}:
                assert result == "done"
                self.state = "closed"
            else:
                assert result == "free"

        @rule()
        def lose(self) -> None:
            self.connection.lose()
            if self.state == "idle":
                self.state = "broken"
            elif self.state in {"in use", "draining"}:
                self.state = "lost"

        @rule()
        def check(self) -> None:
            result = self.connection.check()
            if self.state == "idle":
                assert result == "done"
            elif self.state == "broken":
                assert result == "broken"
                self.state = "closed"
            elif self.state in {"in use", "lost", "draining"}:
                assert result == "busy"
            else:
                assert result == "closed"

        @rule()
        def close(self) -> None:
            assert self.connection.close() == "done"
            if self.state == "in use":
                self.state = "draining"
            elif self.state in {"new", "idle", "broken"}:
                self.state = "closed"

        @invariant()
        def shows_its_state(self) -> None:
            if hasattr(self, "connection"):
                assert self.connection.state == self.state

    return ConnectionMachine
