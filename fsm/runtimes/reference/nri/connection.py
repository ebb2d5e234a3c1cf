"""Plugins in this process, whose methods are called on separate threads and with time limits."""

import threading
from collections.abc import Callable, Collection, Coroutine, Sequence
from concurrent.futures import Future
from queue import SimpleQueue
from typing import Final, Protocol, TypeAlias, TypeVar

from fsm.runtimes.reference.clock import Clock
from fsm.runtimes.reference.driven import UNKNOWN
from fsm.runtimes.reference.nri.messages import (
    Answer,
    Container,
    NRIError,
    PluginLateError,
    PluginLostError,
    Pod,
    RegistrationError,
    Request,
    Update,
)
from fsm.runtimes.reference.nri.session import Session, Terms

T = TypeVar("T")

Part: TypeAlias = tuple[Sequence[Pod], Sequence[Container]]


class Plugin(Protocol):
    """Base class of plugins in this process. A plugin's methods are called in order on a separate thread.

    ``index`` has two digits. Plugins are called in ascending order of their indices. ``name`` consists of letters,
    digits, and the characters ``_ . + -``. ``events`` are the requests to which the plugin subscribes, as names or as a
    bit mask. An empty collection or 0 means all requests.

    If a method raises an exception, the plugin answers with an error. A :class:`PluginLostError` means that the plugin
    has disconnected.
    """

    @property
    def index(self) -> str: ...

    @property
    def name(self) -> str: ...

    @property
    def events(self) -> Collection[str] | int: ...

    def synchronize(self, pods: Sequence[Pod], containers: Sequence[Container]) -> Sequence[Update]:
        """Receive the existing objects, or the last part of them. Return the updates that the plugin requests."""

    def handle(self, request: Request) -> Answer:
        """Answer *request*."""

    def synchronize_part(self, pods: Sequence[Pod], containers: Sequence[Container]) -> bool:
        """Receive some of the existing pods and containers. Return whether the plugin is waiting for the others."""
        del pods, containers
        return False

    def launch(self) -> None:
        """Start the plugin's process, if it has one. This may raise any exception."""
        return

    def close(self) -> None:
        """Called when the runtime closes the connection. This must return immediately."""
        return


class PluginLocal(threading.local):
    on_plugin_thread = False


class PluginThread:
    """A thread that runs the calls of one plugin in order.

    The thread marks itself in *local*, so that calls made by a plugin can be recognised.

    >>> thread = PluginThread(Clock(), PluginLocal())
    >>> thread.call(lambda: 6 * 7, until=Clock().now() + 10)
    42
    >>> thread.end()
    >>> thread.call(lambda: 6 * 7, until=Clock().now() + 10)
    Traceback (most recent call last):
        ...
    fsm.runtimes.reference.nri.messages.PluginLostError: it is closed
    """

    def __init__(self, clock: Clock, local: PluginLocal) -> None:
        self._clock: Final = clock
        self._local: Final = local
        self._changed: Final = threading.Condition()
        self._jobs: Final[SimpleQueue[Callable[[], None] | None]] = SimpleQueue()
        self._thread: Final = threading.Thread(target=self._work, daemon=True)
        self._ended = False

    def rename(self, name: str) -> None:
        self._thread.name = name

    def call(self, function: Callable[[], T], *, until: float) -> T:
        """Run *function* on the thread. Return its result or raise its exception.

        Raise :class:`PluginLateError` if *function* has not returned when the clock reaches *until*, or
        :class:`PluginLostError` if *function* tries to end the thread or :meth:`end` was called before.
        """
        if self._ended:
            raise PluginLostError("it is closed")
        if not self._thread.is_alive():
            self._thread.start()
        future = Future[T]()

        def job() -> None:
            try:
                future.set_result(function())
            except BaseException as error:  # noqa: BLE001  (the caller raises it; this thread continues)
                lost = PluginLostError(f"ended its thread: {error!r}")
                future.set_exception(error if isinstance(error, Exception) else lost)
            with self._changed:
                self._changed.notify_all()

        begin = self._clock.now()
        self._jobs.put(job)
        with self._changed:
            if not self._clock.wait(self._changed, future.done, until=until):
                raise PluginLateError(f"did not answer in {max(0.0, until - begin):.3g} seconds")
        return future.result()

    def end(self) -> None:
        self._ended = True
        self._jobs.put(None)

    def _work(self) -> None:
        self._local.on_plugin_thread = True
        while (job := self._jobs.get()) is not None:
            job()


class Connection(Session[Request, Answer, Part, Sequence[Update]]):
    """The connection of a plugin in this process, which calls the plugin on a thread of its own.

    >>> class Slow(Plugin):
    ...     index, name, events = "10", "slow", ("StopContainer",)
    ...     def synchronize(self, pods, containers): return ()
    ...     def handle(self, request): threading.Event().wait()
    >>> from fsm.runtimes.reference.nri.session import Config
    >>> connection = Connection(Slow(), Terms(config=Config(plugin_request_timeout=0.5)))
    >>> finish(connection.handshake()), finish(connection.synchronise([((), ())]))
    (None, ())
    >>> connection.name, sorted(connection.events), connection.state
    ('10-slow', ['StopContainer'], 'active')
    >>> finish(connection.relay("StopContainer", Request(event="StopContainer", pod=Pod(id="p1"))))
    >>> connection.state
    'absent'
    """

    def __init__(self, plugin: Plugin, terms: Terms, local: PluginLocal | None = None) -> None:
        super().__init__(terms)
        self.plugin: Final = plugin
        self._thread: Final = PluginThread(terms.clock, local or PluginLocal())

    async def _ask_registration(self, until: float) -> None:
        self.register(*self._thread.call(lambda: (self.plugin.name, self.plugin.index), until=until))

    async def _ask_events(self, until: float) -> Collection[str] | int:
        return self._thread.call(lambda: self.plugin.events, until=until)

    async def _ask_part(self, part: Part, until: float) -> bool:
        return self._thread.call(lambda: self.plugin.synchronize_part(*part), until=until)

    async def _ask_last(self, part: Part, until: float) -> Sequence[Update]:
        return self._thread.call(lambda: self.plugin.synchronize(*part), until=until)

    async def _ask(self, request: Request, until: float) -> Answer:
        return self._thread.call(lambda: self.plugin.handle(request), until=until)

    def _start_process(self) -> None:
        self.plugin.launch()

    def _close(self) -> None:
        self.plugin.close()

    def _take(self, event: str, outcome: str = "") -> None:
        super()._take(event, outcome)
        if self.state == "absent":
            self._thread.end()

    def _rename(self, name: str, index: str) -> None:
        super()._rename(name, index)
        self._thread.rename(f"plugin {self.name}")


def finish(work: Coroutine[object, object, T]) -> T:
    """Run *work* without an event loop, and return its result. Raise :class:`RuntimeError` if it suspends."""
    try:
        work.send(None)
    except StopIteration as finished:
        result: T = finished.value
        return result
    raise RuntimeError(f"{work} suspends")


class UpstreamConnection(Connection):
    """NRI's own connection, which accepts a second registration and sometimes is not closed."""

    profile = "upstream"
    registered_again = False
    launched = False

    def _start_process(self) -> None:
        super()._start_process()
        self.launched = True

    def register(self, name: str, index: str) -> None:
        """Register the plugin, or rename it if it is listed. An invalid name does not close the connection.

        Renaming uses a channel that is read only once, so the next registration hangs until the plugin times out.
        """
        if self.state == "registering" and self._name_error(name, index):
            self._take("register", "left")
            raise RegistrationError(f"invalid plugin name or index: {index!r}, {name!r}", code=UNKNOWN)
        if self.state != "active":
            super().register(name, index)
        elif not self.registered_again:
            self.registered_again = True
            self._take("register", "relabelled")
            self._rename(name, index)
        else:
            clock = self._terms.clock
            never = threading.Condition()
            with never:
                clock.wait(never, bool, until=clock.now() + self._terms.config.registration_timeout)
            self._take("register", "hangs")
            raise NRIError(f"plugin {self.name}: its registration was not answered", code="DEADLINE_EXCEEDED")

    def stop(self) -> None:
        if self.listed and not self.launched:
            self._take("stop", "left")
        else:
            super().stop()
