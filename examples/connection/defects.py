"""Connections with one defect each, and what fsm needs to test them."""

import asyncio

from connection import BusyError, ClosedError, Connection
from tested import Tested


class LateReconnect(Connection):
    """close() forgets the task that connects again, which then opens the closed connection."""

    def stop_connecting_again(self):
        pass


class CloseWhileConnecting(Connection):
    """connect() does not look whether the connection was closed while it waited."""

    async def connect(self):
        if self.state in ("closing", "closed"):
            raise ClosedError
        if self.state != "disconnected":
            raise BusyError
        self.state = "connecting"
        try:
            async with asyncio.timeout(10):
                self.stream = await self.dial()
        except BaseException:
            if self.state == "connecting":
                self.state = "disconnected"
            raise
        self.state = "connected"


class StuckAfterCancel(Connection):
    """If the caller gives up, the connection stays in the state connecting."""

    async def connect(self):
        try:
            await super().connect()
        except asyncio.CancelledError:
            if self.state == "disconnected":
                self.state = "connecting"
            raise


class GivesUp(Connection):
    """The task that connects again dies of the first refusal, and nobody notices."""

    async def connect_again(self):
        await self.pause()
        self.state = "reconnecting"
        self.stream = await self.dial()
        self.state = "connected"


class LeakedHeartbeat(Connection):
    """A task that is started with each connection is never ended."""

    async def connect(self):
        await super().connect()
        self.heartbeat = asyncio.create_task(self.beat())

    async def beat(self):
        while True:
            await asyncio.sleep(30)


class DoubleReconnect(Connection):
    """The stream reports its loss twice, and the second report starts a second task, which close() does not know."""

    def lost(self):
        super().lost()
        if self.state == "waiting":
            self.again = asyncio.create_task(self.connect_again())


DEFECTS = [LateReconnect, CloseWhileConnecting, StuckAfterCancel, GivesUp, LeakedHeartbeat, DoubleReconnect]


def late_reconnect():
    return Tested(LateReconnect)


def close_while_connecting():
    return Tested(CloseWhileConnecting)
