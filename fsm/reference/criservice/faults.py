"""What the reference CRI service is tested in: a stream that can be broken off, gates, a clock that is held, a domain of NRI."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from fsm.reference.criservice.components import Registration
from fsm.reference.criservice.streaming import StreamingServer

if TYPE_CHECKING:
    from collections.abc import Sequence

    from fsm.reference.nri.messages import Container, Eviction, Pod, Update


class ProcessExitError(Exception):
    """The process would have exited."""


async def cancelled() -> None:
    """All other tasks are, and have ended."""
    tasks = asyncio.all_tasks() - {asyncio.current_task()}
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)


class Feed:
    """A stream of events that can be broken off."""

    def __init__(self) -> None:
        self._events: asyncio.Queue[str | Exception] = asyncio.Queue()

    def put(self, event: str | Exception) -> None:
        """*event* comes, or is why none does any more."""
        self._events.put_nowait(event)

    def __aiter__(self) -> Feed:
        return self

    async def __anext__(self) -> tuple[str, str]:
        event = await self._events.get()
        if isinstance(event, Exception):
            raise event
        return "container", event


class Gates:
    """Where Run waits until it is let on; it sleeps there, too."""

    def __init__(self) -> None:
        self.at = ""
        self._open = asyncio.Event()

    async def pause(self, place: str) -> None:
        """Wait at *place*."""
        self.at = place
        await self._open.wait()
        self._open.clear()

    def let_on(self) -> None:
        """Go on."""
        self.at = ""
        self._open.set()


class Held:
    """A clock for one who waits, until his time is over."""

    def __init__(self) -> None:
        self.over = asyncio.Event()

    def now(self) -> float:
        """It stands still."""
        return 0.0

    async def sleep(self, seconds: float) -> None:
        """Until it is over, whatever *seconds* are."""
        del seconds
        await self.over.wait()


class ArrangedServer(StreamingServer):
    """One that ``refuses`` to be closed, once."""

    refuses = False

    def shut(self) -> None:
        """Unless it refuses."""
        if self.refuses:
            self.refuses = False
            message = "use of closed network connection"
            raise OSError(message)
        super().shut()


class ArrangedRegistration(Registration):
    """Without plugins it takes no time, and needs no thread."""

    async def join(self) -> None:
        """Register and start."""
        self._domains.register(self._domain)
        self.nri.start()


class Listener:
    """The socket of NRI, at which nobody comes."""

    def close(self) -> None:
        """Nothing."""


class Domain:
    """The service's pods and containers, of which there are none."""

    name = "k8s.io"

    def list_pod_sandboxes(self) -> Sequence[Pod]:
        """None."""
        return ()

    def list_containers(self) -> Sequence[Container]:
        """None."""
        return ()

    def get_pod_sandbox(self, pod_id: str) -> None:
        """None."""

    def get_container(self, container_id: str) -> None:
        """None."""

    def update_container(self, update: Update) -> None:
        """Nothing."""

    def evict_container(self, eviction: Eviction) -> None:
        """Nothing."""
