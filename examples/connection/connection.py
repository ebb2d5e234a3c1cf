"""A connection that is opened, lost, opened again by itself after a pause, and closed."""

import asyncio

LIMIT = 10.0  # seconds for one attempt to connect
PAUSE = 1.0  # seconds before the next attempt after a loss


class ClosedError(Exception):
    """The connection is closed."""


class BusyError(Exception):
    """The connection is open, or is being opened."""


class Connection:
    """*dial* is an async function that returns a stream, which has an async method close."""

    def __init__(self, dial):
        self.dial = dial
        self.state = "disconnected"
        self.stream = None
        self.again = None  # the task that connects again

    async def connect(self):
        if self.state in ("closing", "closed"):
            raise ClosedError
        if self.state != "disconnected":
            raise BusyError
        self.state = "connecting"
        try:
            async with asyncio.timeout(LIMIT):
                stream = await self.dial()
        except BaseException:
            if self.state == "connecting":
                self.state = "disconnected"
            raise
        if self.state != "connecting":  # It was closed meanwhile.
            raise ClosedError
        self.stream, self.state = stream, "connected"

    def lost(self):
        """The stream calls this when the other side is gone."""
        if self.state == "connected":
            self.stream, self.state = None, "waiting"
            self.again = asyncio.create_task(self.connect_again())

    async def connect_again(self):
        while True:
            await self.pause()
            self.state = "reconnecting"
            try:
                async with asyncio.timeout(LIMIT):
                    stream = await self.dial()
            except OSError:  # TimeoutError is one.
                self.state = "waiting"
                continue
            self.stream, self.state = stream, "connected"
            return

    async def pause(self):
        await asyncio.sleep(PAUSE)

    async def close(self):
        if self.state in ("closing", "closed"):
            return
        self.stop_connecting_again()
        if self.state == "connected":
            self.state = "closing"
            await self.stream.close()
        self.state = "closed"

    def stop_connecting_again(self):
        if self.again is not None:
            self.again.cancel()
