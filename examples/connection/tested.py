"""What fsm needs to test the connection: fakes for the other side, and a method for each event of the model."""

from connection import BusyError, ClosedError, Connection

import fsm


class Stream:
    def __init__(self, close):
        self.close = close


class Tested:
    replies = {ClosedError: "CLOSED", BusyError: "BUSY", OSError: "UNREACHABLE"}

    def __init__(self, kind=Connection):
        self.closed = fsm.Fake()
        self.dial = fsm.Fake(
            lambda: Stream(self.closed),
            outcomes={
                "opened": lambda: Stream(self.closed),
                "refused": OSError("refused"),
                "unanswered": fsm.Fake.HANG,
            },
        )
        self.connection = kind(self.dial)

    async def connect(self):
        await self.connection.connect()

    async def close(self):
        await self.connection.close()

    def lost(self):
        self.connection.lost()

    async def time(self):
        await fsm.next_timer()

    def answer(self):
        """Do nothing: the outcome of the event says how the fake answers."""

    def shows(self):
        return self.connection.state
