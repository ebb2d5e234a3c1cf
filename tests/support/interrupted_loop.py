"""Interrupt an event loop before each line of asyncio in turn, in a new child process for each line.

Usage: ``interrupted_loop.py LINES``. The script prints the lines after which the child does not end or loses the
signal.
"""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from types import FrameType
from typing import TYPE_CHECKING

from fsm.interruption import Interruption

if TYPE_CHECKING:
    from _typeshed import TraceFunction

STEP = 7
"""The distance between the lines that are tried, which differs from the number of lines in a step of the loop."""


async def consume(source: asyncio.Queue[int], target: asyncio.Queue[int]) -> None:
    for _ in range(3):
        await asyncio.sleep(0)
        target.put_nowait(await source.get())


async def command(interruption: Interruption, asked: list[int]) -> None:
    source: asyncio.Queue[int] = asyncio.Queue()
    target: asyncio.Queue[int] = asyncio.Queue()
    with interruption.sets() as over:
        tasks = [asyncio.create_task(consume(source, target)) for _ in range(3)]
        interruption(signal.SIGTERM, None)
        asked.append(1)
        await over.wait()
        for each in range(9):
            source.put_nowait(each)
            await target.get()
        await asyncio.gather(*tasks)


def interrupt(line: int) -> bool:
    interruption, left = Interruption(), line
    asked: list[int] = []

    def trace(frame: FrameType, event: str, argument: object) -> TraceFunction | None:
        nonlocal left
        del argument
        if "asyncio" not in frame.f_code.co_filename:
            return None
        if event == "line" and asked:
            left -= 1
            if not left:
                sys.settrace(None)
                interruption(signal.SIGINT, None)
        return trace

    sys.settrace(trace)
    try:
        asyncio.run(command(interruption, asked))
    except (KeyboardInterrupt, UnboundLocalError):  # the interrupt came before asyncio assigned a variable
        pass
    finally:
        sys.settrace(None)
    return interruption.came


if __name__ == "__main__":
    for number in range(1, int(sys.argv[1]), STEP):
        child = os.fork()
        if not child:
            signal.alarm(10)
            os._exit(0 if interrupt(number) else 1)
        if code := os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]):
            sys.stdout.write(f"{number} {code}\n")
