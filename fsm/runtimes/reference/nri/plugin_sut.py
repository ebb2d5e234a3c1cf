"""SUTs for a plugin's connection and for the lock on plugin synchronisation.

The plugin follows a script. To answer late, it advances the clock.
"""

import threading
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from functools import partial
from itertools import count, cycle
from queue import SimpleQueue
from typing import Final

from fsm.language.library import load_system
from fsm.runtimes.names import REGISTRATION, REQUESTS
from fsm.runtimes.reference.clock import Clock, TurnedClock
from fsm.runtimes.reference.driven import Action, ReferenceSUT, driver
from fsm.runtimes.reference.nri import SyncLock, UpstreamSyncLock
from fsm.runtimes.reference.nri.connection import Connection, Plugin, UpstreamConnection, finish
from fsm.runtimes.reference.nri.lifecycle import Plugins, relay_merged
from fsm.runtimes.reference.nri.messages import Answer, Container, NRIError, PluginLostError, Pod, Request, Update
from fsm.runtimes.reference.nri.session import MACHINE, Terms
from fsm.sut import BrokenError, UnsupportedError

PATIENCE: Final = 0.5
"""Maximum number of real seconds that a late plugin waits. Its call ends once the clock is advanced."""

POD: Final = Pod(id="pod")
CONTAINER: Final = Container(id="container", pod_id=POD.id)

SUBSCRIBED: Final = REQUESTS[:-1]

NAMES: Final = ("player", "logger_2.0+x-y", "P")
WRONG_NAMES: Final = ("", "a b", "a/b")
WRONG_INDICES: Final = ("", "7", "007", "1x")

UPSTREAM_OUTCOMES: Final[Mapping[tuple[str, str], tuple[str, ...]]] = {
    ("register", "registering"): ("registered", "left"),
    ("register", "active"): ("relabelled", "hangs"),
    ("stop", "active"): ("left", "stopped"),
}
"""Outcomes of events in NRI's own connection, by event and state.

In the state ``active``, the second outcome is for a plugin that was launched, or that has already registered again.
"""


class ScriptedPlugin(Plugin):
    """A plugin that records the messages it receives in *outputs*, and answers as ``script`` says.

    To answer too late, it calls *late*.
    """

    index = "10"

    def __init__(self, outputs: list[str], late: Callable[[], None]) -> None:
        self.script = ""
        self._outputs, self._late = outputs, late
        self._names = cycle(NAMES)

    @property
    def name(self) -> str:
        self._play_script()
        return next(self._names)

    @property
    def events(self) -> Sequence[str] | int:
        self._play_script("Configure")
        return 1 << len(REQUESTS) if self.script == "bad-events" else SUBSCRIBED

    def launch(self) -> None:
        if self.script == "failed":
            raise OSError("no such file")

    def synchronize_part(self, _pods: Sequence[Pod], _containers: Sequence[Container]) -> bool:
        self._play_script("Synchronize")
        return self.script != "not-split"

    def synchronize(self, _pods: Sequence[Pod], _containers: Sequence[Container]) -> Sequence[Update]:
        self._play_script("Synchronize")
        return ()

    def handle(self, _request: Request) -> Answer:
        self._play_script("request")
        return Answer()

    def close(self) -> None:
        self._outputs.append("closed")

    def _play_script(self, *output: str) -> None:
        self._outputs += output
        if self.script == "error":
            raise NRIError("no", code="INTERNAL")
        if self.script == "lost":
            raise PluginLostError("hung up")
        if self.script in {"timeout", "given-up"}:
            self._late()


class NriPluginSUT(ReferenceSUT[Connection]):
    machine = MACHINE
    kinds = (Connection, UpstreamConnection)
    profiles = ("upstream", "containerd-2.1")

    def reset(self) -> None:
        super().reset()
        self.clock = TurnedClock()
        self._numbers = count()
        self._done = threading.Event()
        self._terms = Terms(clock=self.clock)
        self._plugins = Plugins[Request, Answer, Connection]()
        self.plugin = ScriptedPlugin(self._outputs, self._be_late)
        self._begin()

    def _begin(self) -> None:
        self.connection = self._kind(self.plugin, self._terms)
        self._scope.callback(self.connection.stop)
        self._scope.callback(self.connection.hang_up)  # this ends the connection's thread
        self._stopped = False

    def shows(self) -> str:
        return self.connection.state

    def arrange(self, event: str, outcome: str) -> bool:
        self.plugin.script = outcome
        state = self.connection.state
        if not isinstance(self.connection, UpstreamConnection):
            return any(way.name == outcome for way in driver(MACHINE).offered(event, state))
        if event == "relay" and self._stopped:
            return False
        possible = UPSTREAM_OUTCOMES.get((event, state))
        if possible and state == "active":
            second = self.connection.launched if event == "stop" else self.connection.registered_again
            possible = possible[second:][:1]
        return possible is None or outcome in possible

    def _actions(self) -> Mapping[str, Action]:
        return {
            "connect": self._connect,
            "launch": self._launch,
            "register": self._register,
            "no-registration": self._miss_registration,
            "configure": lambda: finish(self.connection.configure()),
            "synchronise": self._synchronise,
            "relay": self._relay,
            "update-containers": lambda: finish(self.connection.request_updates(self._update)),
            "hang-up": self.connection.hang_up,
            "stop": self._stop,
        }

    def _clear_faults(self) -> None:
        self.plugin.script = ""
        self.clock.hurried = False
        self._done.set()
        self._done = threading.Event()

    def _connect(self) -> None:
        self._begin()
        self.connection.connect()

    def _launch(self) -> None:
        self._begin()
        if self.plugin.script == "built-in":
            self.connection.launch((self.plugin.name, self.plugin.index), built_in=True)
        else:
            self.connection.launch()

    def _register(self) -> None:
        number, outcome = next(self._numbers), self.plugin.script
        name, index = NAMES[number % len(NAMES)], f"{number % 100:02}"
        if outcome == "bad-name" or (outcome == "left" and number % 2):
            name = WRONG_NAMES[number % len(WRONG_NAMES)]
        elif outcome in {"bad-index", "left"}:
            index = WRONG_INDICES[number % len(WRONG_INDICES)]
        self.clock.hurried = True
        self.connection.register(name, index)

    def _miss_registration(self) -> None:
        self.plugin.script = "given-up"
        finish(self.connection.await_registration())

    def _synchronise(self) -> None:
        if self.plugin.script in {"part", "not-split"}:
            finish(self.connection.synchronise_part(([POD], [CONTAINER])))
            return
        finish(self.connection.synchronise_last(([POD], [CONTAINER])))
        self._plugins.join(self.connection)

    def _relay(self) -> None:
        events = REQUESTS[-1:] if self.plugin.script == "not-subscribed" else SUBSCRIBED
        event = events[next(self._numbers) % len(events)]
        request = Request(event=event, pod=POD, container=CONTAINER)
        merged = finish(relay_merged(request, partial(self._plugins.relay, event)))
        if self._stopped and not self.connection.listed:
            self.connection.drop()  # the stop removed the connection from the list of plugins without closing it
        if merged.error:
            raise merged.error

    async def _update(self) -> None:
        if self.plugin.script == "failed":
            raise NRIError("as arranged", code="INTERNAL")
        self._outputs += ["updated"] * (self.plugin.script != "nothing-known")

    def _stop(self) -> None:
        listed = self.connection.listed
        self._plugins.close()
        if not listed:
            self.connection.stop()
        self._stopped = True

    def _be_late(self) -> None:
        done = self._done
        self.clock.turn(REGISTRATION)
        done.wait(PATIENCE)


SYSTEM: Final = load_system("plugin-sync")

ORDERS: Final = {
    **dict.fromkeys(("begins", "begins-within", "registers"), "enter"),
    **dict.fromkeys(("goes-on", "is-synchronised"), "go"),
    **dict.fromkeys(("ends", "has-joined"), "leave"),
}


class _Process(threading.Thread):
    """A thread that acquires and releases the lock as the ``orders`` say, and reports its ``steps``.

    The order ``end`` stays in the queue, so that the thread also releases nested acquisitions.
    """

    def __init__(self, name: str, machine: str, enter: Callable[[], AbstractContextManager[object]]) -> None:
        super().__init__(name=name, daemon=True)
        self.position = driver(machine).position()
        self.steps, self.orders = SimpleQueue[str](), SimpleQueue[str]()
        self._enter = enter

    def run(self) -> None:
        while self.order() == "enter":
            with self._enter():
                self.run()

    def order(self) -> str:
        if (order := self.orders.get()) == "end":
            self.orders.put(order)
        return order


class _Gate(Clock):
    """A clock that makes a :class:`_Process` wait for orders instead of for a point in time."""

    def wait(self, changed: threading.Condition, ready: Callable[[], bool], *, until: float) -> bool:
        del until  # calls wait without a time limit
        process = _current_process()
        while True:
            changed.release()
            order = process.order()
            changed.acquire()
            if order == "end" or ready():
                return True
            process.steps.put("stays")


def _current_process() -> _Process:
    process = threading.current_thread()
    assert isinstance(process, _Process)  # noqa: S101  (no other thread uses the lock)
    return process


class PluginSyncSUT(ReferenceSUT[SyncLock]):
    """The lock on plugin synchronisation under test.

    Under the profile ``calls-first``, this is the lock of the reference NRI layer, and otherwise containerd's lock.

    >>> sut = PluginSyncSUT()
    >>> [sut.do(event) for event in ("begins.1", "registers", "begins-within.1")]
    ['', '', '']
    >>> sut.shows()
    'plugin waiting, call.1 waiting-within'
    >>> sut.close()
    """

    machine = "plugin-sync"
    kinds = (UpstreamSyncLock, SyncLock)
    profiles = ("calls-first",)

    def reset(self) -> None:
        super().reset()
        lock = self._kind(_Gate(), lambda _, step: _current_process().steps.put(step))
        join = partial(lock.joining, timeout=REGISTRATION)
        self._processes = {"plugin": _Process("plugin", "sync-writer", join)}
        self._processes |= {name: _Process(name, "sync-reader", lock.block) for name in ("call.1", "call.2")}
        for process in self._processes.values():
            process.start()
        self._scope.callback(self._end)

    def _end(self) -> None:
        for process in self._processes.values():
            process.orders.put("end")
        for process in self._processes.values():
            process.join()

    def shows(self) -> str:
        return SYSTEM.shows({name: process.position.state for name, process in self._processes.items()})

    def do(self, event: str) -> str:
        name, _, number = event.partition(".")
        if name not in ORDERS:
            raise UnsupportedError(f"the reference of plugin-sync has no event {event!r}")
        process = self._processes[f"call.{number}" if number else "plugin"]
        process.orders.put(ORDERS[name])
        step = process.steps.get()
        if step == "stays":
            raise BrokenError(f"{process.name} continues to wait")
        process.position.take(step)
        return ""
