"""The connection as fsm tests it: ``fsm test pool.toml --against python:tested_connection:PooledConnection``."""

from connection_pool import Connection

METHODS = {"checkout": "lend", "checkin": "give_back"}
REPLIES = {"done": "ok", "busy": "BUSY", "broken": "BROKEN", "closed": "CLOSED", "free": "NOT_LENT", "open": "NOT_NEW"}


class PooledConnection:
    """A connection, with the names of the model."""

    def __init__(self, *bugs: str) -> None:
        self.bugs = bugs
        self.reset()

    def reset(self) -> None:
        self.connection = Connection("conn-1", self.bugs)

    def do(self, event: str) -> str:
        result = getattr(self.connection, METHODS.get(event, event))()
        return REPLIES[result] if result else ""

    def shows(self) -> str:
        return self.connection.state

    def close(self) -> None: ...


def double_lending() -> PooledConnection:
    return PooledConnection("double-lending")


def revived() -> PooledConnection:
    return PooledConnection("revived")


def dirty_return() -> PooledConnection:
    return PooledConnection("dirty-return")


def close_twice() -> PooledConnection:
    return PooledConnection("close-twice")


def tired_check() -> PooledConnection:
    return PooledConnection("tired-check")
