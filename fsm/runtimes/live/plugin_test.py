"""Test an NRI plugin by sending it events in every order that the plugin contract allows.

The machine plays the part of the runtime, and its outputs are relayed to the plugin, so only the plugin can fail. The
plugin fails if it answers too late or with an error, disconnects, or requests an update of a container that does not
exist.
"""

from __future__ import annotations

import shlex
import shutil
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import Final

from fsm.conformance.lookup import Simulated
from fsm.errors import refused
from fsm.machine import Machine
from fsm.machine.table import tabulate
from fsm.runtimes.live.plugin_host import Inventory, PluginHost, container, pod
from fsm.runtimes.names import EVENTS, POD_EVENTS, REQUEST
from fsm.runtimes.sockets import nri_pb2 as nri
from fsm.runtimes.sockets.nri_link import RelayedEvent
from fsm.sut import BrokenError

CODE: Final = "FSM601"
POD: Final = "pod"
CONNECTS: Final = "connects"
POD_LISTED: Final = "pod-listed"
CONTAINER_LISTED: Final = "container-listed"
STATES: Final = {
    **dict.fromkeys(("created", "starting"), nri.CONTAINER_CREATED),
    "running": nri.CONTAINER_RUNNING,
    **dict.fromkeys(("halted", "cut-short", "stopped"), nri.CONTAINER_STOPPED),
}
"""Maps container states of the model to those of NRI messages. Other states do not change the message."""


class PluginSUT:
    """A SUT for an NRI plugin. *where* is its command, or the address of the socket to which it connects.

    *machine* models the events that a plugin receives. After a reconnection in the model, the SUT reconnects the
    plugin only right before it relays the next event.
    """

    def __init__(
        self, machine: Machine, where: str, timeout: float | None = None, answers: Callable[..., object] | None = None
    ) -> None:
        self._name = f"nri-plugin:{where}"
        self._check(machine, where)
        self._model = Simulated(machine)
        self._host = PluginHost(where, request=timeout or REQUEST, answers=answers)
        self._count = 0
        self._out: tuple[str, ...] = ()
        self._begin()
        try:
            self._host.connect()
        except BaseException as error:  # includes KeyboardInterrupt
            self._host.close()
            if not isinstance(error, BrokenError):
                raise
            at_socket = where.startswith("unix:")
            hint = (
                "start a plugin that connects to this socket"
                if at_socket
                else "check that the command is an NRI plugin"
            )
            raise refused(self._name, CODE, f"the plugin cannot be tested: {error}", hint) from error

    def _check(self, machine: Machine, where: str) -> None:
        table = tabulate(machine)
        emitted = {name.partition(".")[0] for way in table.ways for name in way.emits}
        if CONNECTS not in table.row or not emitted <= set(EVENTS):
            what = f"a plugin cannot be tested against {machine.name}, in which no plugin connects"
            raise refused(self._name, CODE, what, "use the model nri-plugin-contract")
        if not where.startswith("unix:") and shutil.which((*shlex.split(where), "")[0]) is None:
            hint = "name a command that can be run, or the socket to listen on, as unix:///PATH"
            raise refused(self._name, CODE, "there is no such command", hint)

    def _begin(self) -> None:
        self._pod: nri.PodSandbox | None = None
        self._containers: dict[str, nri.Container] = {}
        self._inventory_before: Inventory | None = None  # the inventory before a reconnection that is still to be made

    def close(self) -> None:
        self._host.close()

    def serial(self) -> str:
        return self._name

    def shows(self) -> str:
        return self._model.shows()

    def outputs(self) -> tuple[str, ...]:
        return self._out

    def arrange(self, event: str, outcome: str) -> bool:
        return self._model.arrange(event, outcome)

    def costly(self, event: str) -> bool:
        return event.partition(".")[0] in {CONNECTS, POD_LISTED, CONTAINER_LISTED}

    def reset(self) -> None:
        if self._inventory_before is not None:
            self._host.inventory.restore(self._inventory_before)
        if self._host.connected:
            with suppress(BrokenError):  # a violation by the plugin during the clean-up is left to other tests
                self._tidy()
        self._model.reset()
        self._begin()
        if not self._host.connected:
            self._host.inventory.restore(Inventory())
            self._host.connect()

    def _tidy(self) -> None:
        there = self._host.inventory
        for each in tuple(there.containers.values()):
            its = there.pods.get(each.pod_sandbox_id, nri.PodSandbox(id=each.pod_sandbox_id))
            if each.state != nri.CONTAINER_STOPPED:
                self._host.relay(RelayedEvent(name="StopContainer", pod=its, container=each))
            self._host.relay(RelayedEvent(name="RemoveContainer", pod=its, container=each))
        for its in tuple(there.pods.values()):
            if its.id not in there.stopped:
                self._host.relay(RelayedEvent(name="StopPodSandbox", pod=its))
            self._host.relay(RelayedEvent(name="RemovePodSandbox", pod=its))
            del there.pods[its.id]

    def do(self, event: str) -> str:
        before = _states(self._model.shows())
        reply = self._model.do(event)
        self._out = self._model.outputs()
        after = _states(self._model.shows())
        if event == CONNECTS:
            self._next_inventory().shown = set(self._host.inventory.pods)
        elif event == POD_LISTED:
            there, its = self._next_inventory(), self._current_pod()
            there.pods[its.id] = its
            there.shown.add(its.id)
            if after.get(POD) in {"kept-stopped", "stopped"}:
                there.stopped.add(its.id)
        elif event.partition(".")[0] == CONTAINER_LISTED:
            slot, listed = event.replace(CONTAINER_LISTED, "container"), nri.Container()
            there = self._next_inventory()
            listed.CopyFrom(self._current_container(slot, new=slot not in before))
            listed.state = STATES.get(after.get(slot, ""), nri.CONTAINER_UNKNOWN)
            self._containers[slot] = listed
            there.add(listed)
            there.shown.add(listed.id)
        elif self._out:
            if self._inventory_before is not None:
                self._inventory_before = None
                self._host.connect()
            for each in self._out:
                self._relay(each, before, after)
        return reply

    def _next_inventory(self) -> Inventory:
        there = self._host.inventory
        if self._inventory_before is None:
            self._inventory_before = Inventory()
            self._inventory_before.restore(there)
            there.shown = {*there.pods, *there.containers}
        return there

    def _current_pod(self) -> nri.PodSandbox:
        if self._pod is None:
            self._count += 1
            self._pod = pod(self._count)
        return self._pod

    def _current_container(self, slot: str, *, new: bool) -> nri.Container:
        if new or slot not in self._containers:
            self._count += 1
            self._containers[slot] = container(self._count, slot, self._current_pod().id)
        return self._containers[slot]

    def _relay(self, output: str, before: Mapping[str, str], after: Mapping[str, str]) -> None:
        there = self._host.inventory
        name, _, copy = output.partition(".")
        its_pod = self._current_pod()
        if name in POD_EVENTS:
            if name == "RunPodSandbox":
                there.pods[its_pod.id] = its_pod
            self._host.relay(RelayedEvent(name=name, pod=its_pod))
            if name == "StopPodSandbox":
                there.stopped.add(its_pod.id)
            elif name == "RemovePodSandbox":
                there.pods.pop(its_pod.id, None)
                for each in tuple(there.containers.values()):  # the runtime removes containers with their pod
                    there.remove(each)
                self._pod = None
            return
        slot = f"container.{copy}" if copy else "container"
        its = self._current_container(slot, new=slot not in before and name != "PostUpdateContainer")
        resources = its.linux.resources if name == "UpdateContainer" else None
        if after.get(slot) in STATES:
            its.state = STATES[after[slot]]
        self._host.relay(RelayedEvent(name=name, pod=its_pod, container=its, resources=resources))


def _states(shown: str) -> dict[str, str]:
    """Parse *shown*, and return the state of each part that is no longer in its initial state.

    >>> _states("pod running, container.1 cut-short"), _states("the beginning")
    ({'pod': 'running', 'container.1': 'cut-short'}, {})
    """
    parts = (each.rpartition(" ") for each in shown.split(", "))
    return {part: state for part, _, state in parts if part != "the"}
