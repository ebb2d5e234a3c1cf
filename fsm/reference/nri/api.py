"""The NRI layer of a runtime: what it remembers of pods and containers, and what it relays to plugins.

Three machines drive it.  ``nri-api`` says what the interface takes when it is
disabled, made, started, blocked and stopped; ``nri-container`` and ``nri-pod``: whether a call is
relayed at all, which requests go out and in which order, what is remembered
then and what is replied.  What is here is what they leave open: how the
plugins have answered chooses among the outcomes of the machine, and what they
want is done to the domains.

Pods and containers have each their own memory, so that a pod and a container
of the same id do not meet.
"""

from __future__ import annotations

import logging
import threading
from contextlib import suppress
from dataclasses import replace
from typing import TYPE_CHECKING, Final

from fsm.reference.nri.config import default_config
from fsm.reference.nri.connection import Terms
from fsm.reference.nri.domain import Domains
from fsm.reference.nri.entities import Memory
from fsm.reference.nri.lifecycle import AS, Lifecycle
from fsm.reference.nri.listing import remember
from fsm.reference.nri.messages import NOTHING, Request
from fsm.reference.nri.nri_errors import (
    EvictionsFailedError,
    NRIError,
    RegistrationError,
    UnimplementedError,
    UpdatesFailedError,
)
from fsm.reference.nri.plugins import Plugins, came
from fsm.reference.nri.subscribing import known
from fsm.reference.nri.syncing import PluginSyncBlock, SyncLock

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from contextlib import AbstractContextManager

    from fsm.machine import Outcome
    from fsm.reference.nri.config import Config
    from fsm.reference.nri.connection import Connection, Plugin
    from fsm.reference.nri.merging import Merged
    from fsm.reference.nri.messages import Container, Fields, Pod, Update
    from fsm.reference.nri.plugins import Listener, Told

_log = logging.getLogger(__name__)


class NRI:
    """The interface that a runtime calls, from as many threads as it likes.

    One lock is held for the whole of every call, the plugins' answers
    included, so calls take effect one after the other.  Every call raises
    :class:`NRIStoppedError` once the interface was stopped, and
    :class:`ReentrantError` where a plugin or domain makes it while it is
    being asked.  If the interface is disabled, nothing happens at all.

    >>> from fsm.reference.nri.messages import Answer, Container, Pod
    >>> class Limiter:
    ...     index, name, events = "10", "limiter", {"CreateContainer"}
    ...     def synchronize(self, pods, containers): return ()
    ...     def handle(self, request): return Answer(adjust={"memory.limit": 1 << 20})
    >>> nri = NRI(plugins=[Limiter()])
    >>> nri.start()
    >>> nri.plugins, nri.create_container(Pod(id="p1"), Container(id="c1"))
    (('10-limiter',), {'memory.limit': 1048576})
    >>> nri.container_state("c1")
    'created'
    >>> nri.stop()
    >>> nri.is_enabled()
    True
    >>> nri.start_container(Pod(id="p1"), Container(id="c1"))
    Traceback (most recent call last):
        ...
    fsm.reference.nri.nri_errors.NRIStoppedError: the NRI interface was stopped; make a new one
    """

    def __init__(
        self,
        config: Config | None = None,
        domains: Domains | None = None,
        plugins: Iterable[Plugin] = (),
        listen: Callable[[str], Listener] | None = None,
        sync: SyncLock | None = None,
    ) -> None:
        """Set up as *config* says, for *domains*; *plugins* are those that are installed, and join at the start.

        *listen* opens the socket at a path, where others are to come, and
        raises :class:`OSError` if it cannot.  *sync* keeps them from joining.
        """
        self.config = config or default_config()
        self._domains: Final = domains or Domains()
        self._pods: Final = Memory("nri-pod", self.config.release.name)
        self._containers: Final = Memory("nri-container", self.config.release.name)
        self._installed: Final = tuple(plugins)
        self._listen: Final = listen
        self._listener: Listener | None = None
        self._plugins: Final = Plugins(self._terms())
        self._life: Final = Lifecycle(
            self.config.release.name, disabled=self.config.disable, asked=lambda: self._plugins.working
        )
        self._sync: Final = sync or SyncLock()
        self._exiting: Final = threading.Condition()
        self._exits: set[threading.Thread] = set()

    @property
    def state(self) -> str:
        """The state of ``nri-api`` in which the interface is."""
        return self._life.state

    def is_enabled(self) -> bool:
        """Whether there is NRI at all, by configuration."""
        return bool(self._life.ways("is-enabled")[0].emits)

    @property
    def plugins(self) -> tuple[str, ...]:
        """Index and name of each plugin that has joined, in the order in which they are asked."""
        return self._plugins.names

    def container_state(self, container_id: str) -> str:
        """The state of ``nri-container`` in which the container is remembered."""
        return self._containers.state(container_id)

    def pod_state(self, pod_id: str) -> str:
        """The state of ``nri-pod`` in which the pod is remembered."""
        return self._pods.state(pod_id)

    # -- the interface itself --------------------------------------------------

    def start(self) -> None:
        """Let the installed plugins join; what the domains list of containers is remembered, even if there are none.

        Waits while that is blocked, as :meth:`register` does.  Raises
        :class:`RegistrationError` if one cannot join, :class:`NRIError` if
        there can be no socket: then none has, and this can be tried again.
        Once it has succeeded it cannot.
        """
        if self._life.asked("start"):
            self._join("start", self._installed)

    def stop(self) -> None:
        """Ask the plugins no more."""
        with self._entered("stop") as acts:
            if acts:
                self._life.move("stop", "stopped")
                self._plugins.close()
                if self._listener is not None:
                    self._listener.close()

    def configure_timeouts(self, *, registration: float = 0, request: float = 0) -> None:
        """Give plugins other times, in seconds; zero stands for the default.

        Raises :class:`ValueError` for a time that is below zero.
        """
        with self._entered("configure-timeouts") as acts:
            if acts:
                self.config = replace(
                    self.config, plugin_registration_timeout=registration, plugin_request_timeout=request
                )
                self._plugins.terms.registration = self.config.registration_timeout
                self._plugins.terms.request = self.config.request_timeout

    def register(self, plugin: Plugin) -> None:
        """Let *plugin* join: it is told what there is, and asked from then on.

        Waits while that is blocked, and raises :class:`BlockedError` if it
        is for longer than a registration may take;
        :class:`RegistrationError` for a plugin that cannot be registered,
        or fails when it is told, or where none may come by themselves.
        """
        if not self._life.asked("join"):
            return
        if self.config.disable_connections:
            message = f"plugin {plugin.name} cannot join: connections are disabled; give it at the start"
            raise RegistrationError(message, code="FAILED_PRECONDITION")
        self._join("join", [plugin])

    def disconnect(self, plugin: Plugin) -> None:
        """*plugin* has hung up: it is asked no more."""
        with self._entered("leave") as acts:
            if acts:
                self._plugins.lose(plugin)

    def block_plugin_sync(self) -> PluginSyncBlock:
        """Keep plugins from joining until that is unblocked; waits for one that is at it, never for one that waits."""
        if not self._life.asked("block"):
            return PluginSyncBlock()
        block = self._sync.block()
        try:
            self._life.block()
        except NRIError:
            block.unblock()
            raise

        def unblock() -> None:
            self._life.unblock()
            block.unblock()

        return PluginSyncBlock(unblock)

    def update_containers(self, updates: Iterable[Update], plugin: Plugin | None = None) -> None:
        """Make *updates* that *plugin*, if it is named, asks for by itself; :class:`UpdatesFailedError` has what failed."""
        with self._entered("update-containers") as acts:
            if acts:
                self._plugins.updates(plugin, lambda: self._domains.update_containers(updates))

    # -- pods ------------------------------------------------------------------

    def run_pod_sandbox(self, pod: Pod) -> None:
        """The pod is up, and about to be reported ready."""
        self._pod("run-pod-sandbox", pod)

    def update_pod_sandbox(self, pod: Pod, resources: Fields = NOTHING) -> None:
        """The pod's resources are about to be changed to *resources*; not every release has this."""
        self._pod("update-pod-sandbox", pod, resources)

    def post_update_pod_sandbox(self, pod: Pod) -> None:
        """The pod's resources were changed; not every release has this."""
        self._pod("post-update-pod-sandbox", pod)

    def stop_pod_sandbox(self, pod: Pod) -> None:
        """The pod's processes have ended."""
        self._pod("stop-pod-sandbox", pod)

    def remove_pod_sandbox(self, pod: Pod) -> None:
        """The pod is gone."""
        self._pod("remove-pod-sandbox", pod)

    # -- containers ------------------------------------------------------------

    def create_container(self, pod: Pod, container: Container) -> Fields | None:
        """The container is about to be created; returns what plugins adjust, ``None`` if NRI is disabled.

        Other containers are evicted and updated as they ask; that some could not be is only logged.
        """
        merged = self._container("create-container", pod, container)
        return merged.adjust if merged else None

    def post_create_container(self, pod: Pod, container: Container) -> None:
        """The container was created."""
        self._container("post-create-container", pod, container)

    def start_container(self, pod: Pod, container: Container) -> None:
        """The container's process is about to be started."""
        self._container("start-container", pod, container)

    def post_start_container(self, pod: Pod, container: Container) -> None:
        """The container's process was started."""
        self._container("post-start-container", pod, container)

    def update_container(self, pod: Pod, container: Container, resources: Fields) -> Fields | None:
        """The container's resources are about to be changed to *resources*; returns what to change them to instead.

        ``None`` if no plugin wants anything else.  What plugins want of other
        containers is done at once; that some of it could not be is only logged.
        """
        merged = self._container("update-container", pod, container, resources)
        return merged.own if merged else None

    def post_update_container(self, pod: Pod, container: Container) -> None:
        """The container's resources were changed."""
        self._container("post-update-container", pod, container)

    def stop_container(self, pod: Pod, container: Container) -> None:
        """The container's process has ended, or one that was never started was told to stop."""
        self._container("stop-container", pod, container)

    def remove_container(self, pod: Pod, container: Container) -> None:
        """The container is gone; plugins are told first that it has stopped, if they were not."""
        self._container("remove-container", pod, container)

    def notify_container_exit(self, pod: Pod, container: Container) -> None:
        """The container's process has ended by itself.

        Returns at once: it is relayed on a thread of its own, in no order
        with other calls, and what plugins answer to it is lost.
        """
        if not self._life.asked("notify-exit"):
            return
        thread = threading.Thread(
            target=self._exits_on, args=(pod, container), name=f"exit of {container.id}", daemon=True
        )
        with self._exiting:
            self._exits.add(thread)
            thread.start()

    def wait_for_exits(self) -> None:
        """Wait until every exit of which there was a notification is relayed."""
        with self._exiting:  # several threads that join one may trip over each other in CPython 3.11
            known = set(self._exits)
            self._exiting.wait_for(lambda: not known & self._exits)

    # -- how it is done --------------------------------------------------------

    def _pod(self, event: str, pod: Pod, resources: Fields = NOTHING) -> None:
        with self._entered(AS.get(event, "relay")) as acts:
            if acts:
                self._happens(self._pods, pod.id, event, Request(event=event, pod=pod, resources=resources))

    def _container(self, event: str, pod: Pod, container: Container, resources: Fields = NOTHING) -> Merged | None:
        with self._entered(AS.get(event, "relay")) as acts:
            if not acts:
                return None
            request = Request(event=event, pod=pod, container=container, resources=resources)
            return self._happens(self._containers, container.id, event, request)

    def _exits_on(self, pod: Pod, container: Container) -> None:
        try:
            self._exited(pod, container)
        finally:
            with self._exiting:
                self._exits.discard(threading.current_thread())
                self._exiting.notify_all()

    def _exited(self, pod: Pod, container: Container) -> None:
        try:
            self._container("notify-exit", pod, container)
        except NRIError as error:
            _log.info("exit of container %s: %s", container.id, error)

    def _happens(self, memory: Memory, entity: str, event: str, request: Request) -> Merged | None:
        """Let *event* happen to *entity*: relay all that the machine puts out, and reply as it does."""
        ways = memory.ways(entity, event)
        relays = max((way.emits for way in ways), key=len, default=())  # the others end where a plugin is lost
        told = [self._relayed(replace(request, event=name)) for name in relays]
        way = memory.take(entity, event, came(ways, relays, told))
        if way.reply and "ok" not in way.reply:
            raise _refused(event, way, told)
        return told[-1].merged if told else None

    def _relayed(self, request: Request) -> Told:
        """Send *request* to the plugins, and do what they want of other containers; what fails is logged, and no more."""
        told = self._plugins.relay(request)
        if told.error is None:
            with suppress(EvictionsFailedError):
                self._domains.evict_containers(told.merged.evictions)
            with suppress(UpdatesFailedError):
                self._domains.update_containers(told.merged.others)
        return told

    def _join(self, event: str, plugins: Iterable[Plugin]) -> None:
        """Let all of *plugins* join, or none, as *event* goes; tell them what there is."""
        connections = [self._plugins.connection(plugin) for plugin in plugins]
        try:
            for connection in connections:
                connection.enter(launched=event == "start")
            with self._sync.joining(timeout=self.config.registration_timeout), self._entered(event):
                self._life.move(event, self._synchronised(event, connections))
        except NRIError:
            for connection in connections:
                self._plugins.leave(connection)
            raise

    def _synchronised(self, event: str, connections: Iterable[Connection]) -> str:
        """How *event* goes: all of *connections* are told what there is, and are among the plugins."""
        outcome = self._life.ways(event)[0].name
        pods, containers = self._domains.pods(), self._domains.containers()
        if outcome != "untold":
            remember(self._containers, containers)
        for connection in connections:
            updates = connection.synchronise(pods, containers) if outcome != "untold" else connection.untold()
            with suppress(UpdatesFailedError):
                self._domains.update_containers(updates)
            self._plugins.join(connection)
        if event == "start":
            self._open()
        return outcome

    def _open(self) -> None:
        """Open the socket, if there is to be one."""
        if self._listen is None or self.config.disable_connections:
            return
        try:
            self._listener = self._listen(self.config.socket_path)
        except OSError as error:
            raise NRIError(f"no plugin can connect at {self.config.socket_path}: {error.strerror or error}") from error

    def _terms(self) -> Terms:
        """On what terms plugins are connected."""
        return Terms(
            registration=self.config.registration_timeout,
            request=self.config.request_timeout,
            known=known(self._pods.outputs | self._containers.outputs),
            profile=self.config.release.name,
            largest=self.config.sync_objects,
        )

    def _entered(self, event: str) -> AbstractContextManager[bool]:
        return self._life.entered(event)


def _refused(event: str, way: Outcome, told: list[Told]) -> NRIError:
    """The error that *way* replies: a plugin's, or the layer's own."""
    error = told[-1].error if told else None
    return error or UnimplementedError(f"{event}: {way.about or 'there is no such method'}", code=way.reply[0])
