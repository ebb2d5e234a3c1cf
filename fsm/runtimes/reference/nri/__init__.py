"""The NRI layer of a container runtime, which relays the events of pods and containers to plugins.

The machine ``nri-api`` decides which calls the layer accepts. The machines ``nri-container`` and ``nri-pod`` decide
which requests are relayed, and the plugins' answers choose among the outcomes. Each plugin joins through a
``connection``, which the machine ``nri-plugin`` drives.

Any number of calls may block plugin synchronisation at the same time, even if a plugin is already waiting. Otherwise,
nested blocks would deadlock, for example when the removal of a pod removes its containers. The drawback is that a
plugin must wait until nothing blocks synchronisation.
"""

import logging
import threading
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, wait
from contextlib import contextmanager, suppress
from dataclasses import replace
from functools import partial
from math import inf
from typing import Final, Self

from fsm.runtimes.reference.clock import Clock
from fsm.runtimes.reference.nri.connection import Connection, Plugin, finish
from fsm.runtimes.reference.nri.lifecycle import (
    RELAYS,
    Lifecycle,
    MergedAnswers,
    Plugins,
    RelayedEntities,
    relay_merged,
)
from fsm.runtimes.reference.nri.messages import (
    NOTHING,
    Answer,
    BlockedError,
    ChangesFailedError,
    Container,
    ContainerChange,
    Domains,
    Fields,
    NRIError,
    Pod,
    RegistrationError,
    Request,
    Update,
    known,
)
from fsm.runtimes.reference.nri.session import Config, Terms, default_config, parts

_log = logging.getLogger(__name__)
_log.addHandler(logging.NullHandler())

CALL: Final = "call"
PLUGIN: Final = "plugin"


class PluginSyncBlock:
    """Keeps plugins from joining until :meth:`unblock` is called, or until its context ends.

    >>> block = SyncLock().block()
    >>> with block:
    ...     pass
    >>> block.unblock()  # has no effect the second time
    """

    def __init__(self, unblock: Callable[[], None] | None = None) -> None:
        self._lock = threading.Lock()
        self._unblock = unblock

    def unblock(self) -> None:
        with self._lock:
            unblock, self._unblock = self._unblock, None
        if unblock is not None:
            unblock()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.unblock()


class SyncLock:
    """A lock that is held either by any number of blocks or by a single joining plugin.

    >>> lock = SyncLock()
    >>> with lock.block(), lock.block(), lock.joining(timeout=0.01):
    ...     pass
    Traceback (most recent call last):
        ...
    fsm.runtimes.reference.nri.messages.BlockedError: synchronisation of plugins was blocked for 0.01 seconds
    >>> with lock.joining(timeout=1):
    ...     pass
    """

    def __init__(self, clock: Clock | None = None, observe: Callable[[str, str], None] | None = None) -> None:
        self._clock: Final = clock or Clock()
        self._observe: Final = observe or (lambda _process, _step: None)
        self._changed = threading.Condition()
        self._blocks = 0
        self._joining = False
        self._waiting = 0

    def block(self) -> PluginSyncBlock:
        with self._changed:
            self._acquire(CALL, self._may_block)
            self._blocks += 1
        return PluginSyncBlock(self._release)

    @contextmanager
    def joining(self, *, timeout: float) -> Iterator[None]:
        """Hold the lock while a plugin joins. Raise :class:`BlockedError` after waiting for *timeout* seconds."""
        with self._changed:
            self._waiting += 1
            try:
                if not self._acquire(PLUGIN, self._may_join, timeout):
                    raise BlockedError(f"synchronisation of plugins was blocked for {timeout:g} seconds")
            finally:
                self._waiting -= 1
                self._changed.notify_all()
            self._joining = True
        try:
            yield
        finally:
            with self._changed:
                self._joining = False
                self._observe(PLUGIN, "leaves")
                self._changed.notify_all()

    def _may_block(self) -> bool:
        return not self._joining

    def _may_join(self) -> bool:
        return not self._blocks and not self._joining

    def _acquire(self, process: str, free: Callable[[], bool], timeout: float = inf) -> bool:
        step = "enters"
        if not free():
            step = "gets"
            self._observe(process, "waits")
            if not self._clock.wait(self._changed, free, until=self._clock.now() + timeout):
                return False
        self._observe(process, step)
        return True

    def _release(self) -> None:
        with self._changed:
            self._blocks -= 1
            self._observe(CALL, "leaves")
            self._changed.notify_all()


class UpstreamSyncLock(SyncLock):
    """containerd's lock. A waiting plugin delays every new block, even if the caller already holds another block."""

    def _may_block(self) -> bool:
        return super()._may_block() and not self._waiting


class NRI:
    """The interface of the NRI layer that a runtime calls. Thread-safe.

    Calls are serialised by a lock, which is held until the plugins have answered. A call to the layer from a
    plugin or domain for which the layer is waiting would deadlock, so it raises :class:`ReentrantError`. After a stop,
    calls that could relay or start anything raise :class:`NRIStoppedError`, and all others do nothing. A disabled
    interface never does anything.

    >>> from fsm.runtimes.reference.nri.messages import Answer
    >>> class Limiter(Plugin):
    ...     index, name, events = "10", "limiter", {"CreateContainer"}
    ...     def synchronize(self, pods, containers): return ()
    ...     def handle(self, request): return Answer(adjust={"memory.limit": 1 << 20})
    >>> nri = NRI(plugins=[Limiter()])
    >>> nri.start()
    >>> nri.plugins, nri.relay("create-container", Pod(id="p1"), Container(id="c1")).adjust
    (('10-limiter',), {'memory.limit': 1048576})
    >>> nri.container_state("c1")
    'created'
    >>> nri.stop()
    >>> nri.is_enabled()
    True
    >>> nri.relay("start-container", Pod(id="p1"), Container(id="c1"))
    Traceback (most recent call last):
        ...
    fsm.runtimes.reference.nri.messages.NRIStoppedError: the NRI interface was stopped; create a new one
    """

    def __init__(
        self,
        config: Config | None = None,
        domains: Domains | None = None,
        plugins: Iterable[Plugin] = (),
        listen: Callable[[str], Callable[[], object]] = lambda _: bool,
        sync: SyncLock | None = None,
    ) -> None:
        """Create the interface.

        The installed *plugins* join when the interface is started. *listen* is called with the path of the socket for
        other plugins. It returns a function that closes the socket, or raises :class:`OSError`. *sync* is the lock that
        keeps plugins from joining.
        """
        self.config = config or default_config()
        self.domains: Final = domains or Domains()
        self._entities: Final = RelayedEntities(self.config.release)
        self._installed: Final = tuple(plugins)
        self._listen: Final = listen
        self._close_socket: Callable[[], object] = bool
        events = known(self._entities.pods.outputs | self._entities.containers.outputs)
        self._terms: Final = Terms(config=self.config, known=events)
        self._plugins: Final = Plugins[Request, Answer, Connection]()
        self._life: Final = Lifecycle(self.config.release, disabled=self.config.disable)
        self._sync: Final = sync or SyncLock()
        self._exits: set[Future[None]] = set()

    @property
    def state(self) -> str:
        return self._life.state

    def is_enabled(self) -> bool:
        return bool(self._life.outcomes("is-enabled")[0].emits)

    @property
    def plugins(self) -> tuple[str, ...]:
        return self._plugins.names

    def container_state(self, container_id: str) -> str:
        return self._entities.containers.state(container_id)

    def pod_state(self, pod_id: str) -> str:
        return self._entities.pods.state(pod_id)

    def start(self) -> None:
        """Let the installed plugins join, and take the states of the containers from the domains.

        Like :meth:`register`, this waits while synchronisation is blocked. Raise :class:`RegistrationError` if a plugin
        cannot join, or :class:`NRIError` if the socket cannot be opened. After an error, the call can be repeated.
        """
        if self._life.accepts("start"):
            self._join("start", self._installed)

    def stop(self) -> None:
        with self._life.call("stop") as acts:
            if acts:
                self._life.take("stop", "stopped")
                self._plugins.close()
                self._close_socket()

    def configure_timeouts(self, *, registration: float = 0, request: float = 0) -> None:
        """Set the timeouts of plugins in seconds. 0 means the default. Raise :class:`ValueError` if one is negative."""
        with self._life.call("configure-timeouts") as acts:
            if acts:
                timeouts = {"plugin_registration_timeout": registration, "plugin_request_timeout": request}
                self.config = self._terms.config = replace(self.config, **timeouts)  # type: ignore[arg-type]  # floats

    def register(self, plugin: Plugin) -> None:
        """Let *plugin* join. It receives the existing pods and containers, and then all further requests.

        Raise :class:`BlockedError` if synchronisation stays blocked for the registration timeout, or
        :class:`RegistrationError` if the plugin fails or must not join.
        """
        if not self._life.accepts("join"):
            return
        if self.config.disable_connections:
            message = f"plugin {plugin.name} cannot join: connections are disabled; give it at the start"
            raise RegistrationError(message, code="FAILED_PRECONDITION")
        self._join("join", [plugin])

    def disconnect(self, plugin: Plugin) -> None:
        with self._life.call("leave") as acts:
            for connection in self._connections_of(plugin) if acts else ():
                connection.hang_up()

    def block_plugin_sync(self) -> PluginSyncBlock:
        """Keep plugins from joining until the block is released. If a plugin is joining, wait for it first."""
        if not self._life.accepts("block"):
            return PluginSyncBlock()
        block = self._sync.block()
        if not self._life.block():
            block.unblock()
            return block

        def unblock() -> None:
            self._life.unblock()
            block.unblock()

        return PluginSyncBlock(unblock)

    def update_containers(self, updates: Iterable[Update], plugin: Plugin | None = None) -> None:
        with self._life.call("update-containers") as acts:
            if not acts:
                return
            if plugin is None:
                self.domains.change(updates)
            elif connections := self._connections_of(plugin):
                finish(connections[0].request_updates(partial(self._update, updates)))
            else:
                raise NRIError("a plugin that is not connected cannot request updates", code="UNAVAILABLE")

    async def _update(self, updates: Iterable[Update]) -> None:
        self.domains.change(updates)

    def _connections_of(self, plugin: Plugin) -> list[Connection]:
        return [connection for connection in self._plugins.joined if connection.plugin is plugin]

    def relay(
        self, event: str, pod: Pod, container: Container | None = None, resources: Fields = NOTHING
    ) -> MergedAnswers | None:
        """Relay *event* to plugins, and return their answers to the last request.

        The event happens to *container*, or to *pod* if *container* is ``None``. An update requests *resources*. Return
        ``None`` if nothing was relayed. In the answers, ``adjust`` is for a container that is about to be created, and
        ``own`` has the resources that plugins want instead of *resources*. Changes that plugins request for other
        containers are made, and their failures are only logged. If the machine replies with an error, raise that error.
        """
        request = Request(event=event, pod=pod, container=container, resources=resources)
        with self._life.call(RELAYS.get(event, "relay")) as acts:
            return finish(self._entities.relay(request, self._relay)) if acts else None

    def notify_container_exit(self, pod: Pod, container: Container) -> None:
        """Tell plugins that a container's process has ended by itself. This happens on a separate thread."""
        if not self._life.accepts("notify-exit"):
            return
        relayed = Future[None]()
        self._exits.add(relayed)

        def relay() -> None:
            try:
                self._relay_exit(pod, container)
            except NRIError as error:
                _log.info("exit of container %s: %s", container.id, error)
            finally:
                self._exits.discard(relayed)
                relayed.set_result(None)

        threading.Thread(target=relay, name=f"exit of {container.id}", daemon=True).start()

    def wait_for_exits(self) -> None:
        # Thread.join is not used, because in CPython 3.11 several threads that join the same thread may collide.
        wait(set(self._exits))

    def _relay_exit(self, pod: Pod, container: Container) -> None:
        self.relay("notify-exit", pod, container)

    async def _relay(self, request: Request) -> MergedAnswers:
        merged = await relay_merged(request, partial(self._plugins.relay, request.event))
        if merged.error is None:
            self._try_changes(merged.evictions)
            self._try_changes(merged.others)
        return merged

    def _try_changes(self, changes: Iterable[ContainerChange]) -> None:
        with suppress(ChangesFailedError):  # the domains have logged the failures
            self.domains.change(changes)

    def _join(self, event: str, plugins: Iterable[Plugin]) -> None:
        connections = [Connection(plugin, self._terms, self._life.local) for plugin in plugins]
        try:
            for connection in connections:
                finish(connection.handshake(launched=event == "start"))
            with self._sync.joining(timeout=self.config.registration_timeout), self._life.call(event):
                self._life.take(event, self._synchronise(event, connections))
        except NRIError:
            for connection in connections:
                self._plugins.leave(connection)
            raise

    def _synchronise(self, event: str, connections: Iterable[Connection]) -> str:
        outcome = self._life.outcomes(event)[0].name
        pods, containers = self.domains.pods(), self.domains.containers()
        if outcome != "unsynchronised":
            self._entities.containers.synchronise(containers)
        for connection in connections:
            if outcome == "unsynchronised":
                connection.skip_synchronisation()
            else:
                most = self.config.sync_objects or inf
                self._try_changes(finish(connection.synchronise(parts(pods, containers, most))))
            self._plugins.join(connection)
        if event == "start" and not self.config.disable_connections:
            self._open_socket()
        return outcome

    def _open_socket(self) -> None:
        try:
            self._close_socket = self._listen(self.config.socket_path)
        except OSError as error:
            raise NRIError(f"no plugin can connect at {self.config.socket_path}: {error.strerror or error}") from error
