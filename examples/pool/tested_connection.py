"""The connection as fsm tests it: ``fsm test pool.toml --against python:tested_connection:make``."""

from connection_pool import Connection

REPLIES = {
    "done": "ok",
    "in use": "BUSY",
    "broken": "BROKEN",
    "closed": "CLOSED",
    "not lent": "NOT_LENT",
    "not new": "NOT_NEW",
}


class PooledConnection:
    """A connection, with the names of the model."""

    def __init__(self, *bugs: str) -> None:
        self.bugs = bugs
        self.reset()

    def reset(self) -> None:
        self.connection = Connection("conn-1", self.bugs)

    def do(self, event: str) -> str:
        method = {"checkout": "lend", "checkin": "give_back"}.get(event, event)
        return REPLIES.get(getattr(self.connection, method)() or "", "")

    def shows(self) -> str:
        return self.connection.state

    def close(self) -> None: ...


def make(*bugs: str) -> PooledConnection:
    return PooledConnection(*bugs)


def revived() -> PooledConnection:
    return make("revived")


def dirty_return() -> PooledConnection:
    return make("dirty-return")


def close_twice() -> PooledConnection:
    return make("close-twice")


def tired_check() -> PooledConnection:
    return make("tired-check")


def double_lending() -> PooledConnection:
    return make("double-lending")
