"""The same test by hand, as a Hypothesis state machine: the lifecycle is in the rules, once per event."""

import asyncio

from connection import BusyError, ClosedError, Connection
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule


class Stream:
    async def close(self):
        await asyncio.sleep(0)


class ByHand(RuleBasedStateMachine):
    kind = Connection

    def __init__(self):
        super().__init__()
        self.loop = asyncio.new_event_loop()
        self.dials = []
        self.pauses = []
        self.connection = self.kind(self.dial)
        self.connection.pause = self.pause
        self.expected = "disconnected"
        self.connecting = None

    async def dial(self):
        dialled = self.loop.create_future()
        self.dials.append(dialled)
        return await dialled

    async def pause(self):
        paused = self.loop.create_future()
        self.pauses.append(paused)
        await paused

    def turn(self):
        for _ in range(5):
            self.loop.run_until_complete(asyncio.sleep(0))

    def failure(self, call):
        try:
            self.loop.run_until_complete(call)
        except (ClosedError, BusyError, OSError, asyncio.CancelledError) as error:
            return type(error)
        return None

    @precondition(lambda self: self.expected == "disconnected" and self.connecting is None)
    @rule()
    def connect(self):
        self.connecting = self.loop.create_task(self.connection.connect())
        self.turn()
        self.expected = "connecting"

    @precondition(lambda self: self.expected != "disconnected")
    @rule()
    def connect_too_late(self):
        closed = self.expected == "closed"
        assert self.failure(self.connection.connect()) is (ClosedError if closed else BusyError)

    @precondition(lambda self: self.connecting is not None)
    @rule(how=st.sampled_from(["opened", "refused", "cancelled"]))
    def connect_ends(self, how):
        if how == "opened":
            self.dials.pop().set_result(Stream())
        elif how == "refused":
            self.dials.pop().set_exception(OSError("refused"))
        else:
            self.connecting.cancel()
            self.dials.pop()
        closed = self.expected == "closed"
        error = {"refused": OSError, "cancelled": asyncio.CancelledError}.get(how, ClosedError if closed else None)
        assert self.failure(self.connecting) is error
        self.connecting = None
        if not closed:
            self.expected = "connected" if how == "opened" else "disconnected"

    @rule()
    def close(self):
        assert self.failure(self.connection.close()) is None
        self.expected = "closed"

    @precondition(lambda self: self.expected == "connected")
    @rule()
    def lost(self):
        self.loop.call_soon(self.connection.lost)
        self.turn()
        self.expected = "waiting"

    @precondition(lambda self: self.expected not in ("connecting", "reconnecting"))
    @rule()
    def time(self):
        if self.pauses and not self.pauses[-1].done():
            self.pauses.pop().set_result(None)
        self.turn()
        if self.expected == "waiting":
            self.expected = "reconnecting"

    @precondition(lambda self: self.expected == "reconnecting")
    @rule(opened=st.booleans())
    def answer(self, opened):
        if opened:
            self.dials.pop().set_result(Stream())
        else:
            self.dials.pop().set_exception(OSError("refused"))
        self.turn()
        self.expected = "connected" if opened else "waiting"

    @invariant()
    def the_state_is_right(self):
        assert self.connection.state == self.expected

    def teardown(self):
        self.loop.run_until_complete(self.connection.close())
        if self.connecting is not None:
            self.connecting.cancel()
            self.turn()
        assert not asyncio.all_tasks(self.loop)
        self.loop.close()
