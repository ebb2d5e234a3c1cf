"""Convert steps of a machine to shell lines for ``crictl``.

A step says only what must happen. This module chooses a container with which the step happens, such as a container
that exits by itself. If ``crictl`` does not make the call that a step needs, such as the removal of a running
container, the script makes the call with ``grpcurl``.
"""

from __future__ import annotations

import tomllib
from collections.abc import Iterator, Mapping, Sequence
from importlib.resources import files
from typing import Final

from fsm.conformance.client_paths import usual
from fsm.conformance.plan import Edge, Plan, Point
from fsm.conformance.scheme import DomainClient
from fsm.machine import Event, Machine
from fsm.runtimes.names import CONTAINER, CONTAINER_CALLS, POD, POD_CALLS
from fsm.sut import Stimulus

SECONDS: Final = 4  # number of seconds that the process of ``ends.json`` runs before it exits

_SHELL: Final = tomllib.loads((files("fsm.runtimes") / "crictl.toml").read_text(encoding="utf-8"))
PREAMBLE: Final[str] = _SHELL["preamble"]
"""Shell code that defines the variables, configurations and functions that the lines use."""

_COMMANDS: Final[Mapping[str, str]] = _SHELL["commands"]
_FAILING: Final[Mapping[str, str]] = _SHELL["failing"]
_DIRECT: Final[Mapping[str, str]] = _SHELL["direct"]
_CREATES: Final = {POD: "RunPodSandbox", CONTAINER: "CreateContainer"}
_REMOVABLE: Final = frozenset({"CONTAINER_CREATED", "CONTAINER_EXITED", "CONTAINER_UNKNOWN", "SANDBOX_NOTREADY"})
"""States in which ``crictl rm`` and ``crictl rmp`` call the runtime instead of failing by themselves."""


def takes(machine: Machine) -> bool:
    """Check whether a CRI client can make every call of *machine* on a single pod or container."""
    called = {event.rpc for event in machine.events.values() if event.kind == "call"}
    of_entity = {POD: POD_CALLS, CONTAINER: CONTAINER_CALLS | {"CreateContainer"}}
    return bool(called) and called <= of_entity.get(machine.entity, frozenset())


def lines(plan: Plan, steps: Sequence[Stimulus]) -> tuple[str, ...]:
    """Return shell lines that perform *steps* on a new entity. The lines require :data:`PREAMBLE`.

    ``$POD`` or ``$CONTAINER`` holds the id of the entity. The last line removes everything that the lines created. A
    comment names the expected outcome of a step if it is not the usual one. If no command can cause a step, the line
    is ``:`` with a comment. Raise ``ValueError`` unless :func:`takes` accepts the machine.

    >>> from fsm.conformance.plan import steps
    >>> from fsm.language.library import load
    >>> from fsm.machine.table import tabulate
    >>> print("\\n".join(lines(Plan(tabulate(load("cri-container"))), steps("create; start; exit; remove"))))
    POD=$(crictl runp pod.json)
    CONTAINER=$(crictl create "$POD" ends.json pod.json)
    crictl start "$CONTAINER"
    sleep 6 # the process has ended
    crictl rm "$CONTAINER"
    crictl rmp --force "$POD"
    """
    machine = plan.table.machine
    if not takes(machine):
        raise ValueError(f"{machine.name} has calls that a CRI client does not make")
    calls, making = [machine.events[step.event].rpc for step in steps], _CREATES[machine.entity]
    begin = ["POD=$(crictl runp pod.json)"] if making in calls and machine.entity == CONTAINER else []
    nobody = [] if calls[:1] == [making] else [f"{machine.entity.upper()}=$NOBODY"]
    end = ['crictl rmp --force "$POD"'] if making in calls else []
    return (*begin, *nobody, *_Writer(plan, steps).lines(), *end)


class _Writer:
    def __init__(self, plan: Plan, steps: Sequence[Stimulus]) -> None:
        self._plan, self._steps = plan, steps
        self._machine = plan.table.machine

    def lines(self) -> Iterator[str]:
        point = self._plan.start
        for index, step in enumerate(self._steps):
            event = self._machine.events[step.event]
            edge = self._edge(point, step)
            line, *notes = self._line(index, event, point.state).split(" # ")
            if step.stage == "begin":
                line += " &"
            elif step.stage == "end":
                line = "wait"
            elif step.stage == "crash":
                line = f"{line} & $RESTART"
                notes.append(f"meant to be killed in {event.name}")
            odd = edge.step.expected if edge is not None and not self._is_usual(edge) else ()
            if step.expected and odd:
                notes.append(f"expected: {', '.join(odd)}")
            yield f"{line} # {'; '.join(notes)}" if notes else line
            point = edge.to if edge is not None and edge.to is not None else point

    def _edge(self, point: Point, step: Stimulus) -> Edge | None:
        known: Mapping[Stimulus, Edge] = self._plan.by_step(point)
        alike = [edge for edge in self._plan.leaving(point) if edge.step[:2] == step[:2]]
        return known.get(step) or next(filter(self._is_usual, alike), alike[0] if alike else None)

    def _is_usual(self, edge: Edge) -> bool:
        cells = zip(edge.cells, edge.ways, strict=False)  # the last cell may be missing
        return all(way is usual(self._plan.table.step(state, row) or ()) for (row, state), way in cells)

    def _line(self, index: int, event: Event, state: int) -> str:
        step, table = self._steps[index], self._plan.table
        if event.rpc == _CREATES[self._machine.entity]:
            return self._creation_line(index, event.rpc, again=state != table.initial)
        if event.rpc == "CreateContainer":
            return 'crictl create "$POD" container.json pod.json'
        if event.interrupts:
            return "$RESTART"
        if event.name == "exit" and self._machine.entity == CONTAINER:
            return f"sleep {SECONDS + 2} # the process has ended"
        if event.rpc in _DIRECT and table.shows[state] not in _REMOVABLE:
            return _DIRECT[event.rpc]
        if event.rpc in _FAILING and (step.stage == "begin" or self._fails(index)):
            return _FAILING[event.rpc]
        return _COMMANDS.get(event.rpc, f": # {event.name}: no command makes it happen")

    def _creation_line(self, index: int, rpc: str, *, again: bool) -> str:
        if rpc == "RunPodSandbox":
            if again:
                return "crictl runp pod.json # the name is taken"
            failing = "--runtime no-such-handler " if self._fails(index) else ""
            return f"POD=$(crictl runp {failing}pod.json)"
        if again:
            return 'crictl create "$POD" container.json pod.json # the name is taken'
        config = "missing.json" if self._fails(index) else self._configuration_file(index)
        return f'CONTAINER=$(crictl create "$POD" {config} pod.json)'

    def _configuration_file(self, index: int) -> str:
        for number, step in enumerate(self._steps[index + 1 :], start=index + 1):
            match self._machine.events[step.event].rpc or step.event:
                case "StartContainer" if self._fails(number):
                    return "broken.json"
                case "exit":
                    return "ends.json"
                case "StopContainer" | "RemoveContainer" | "CreateContainer":
                    break
                case _:
                    pass
        return "container.json"

    def _fails(self, index: int) -> bool:
        step = self._steps[index]
        outcomes = (outcome for outcome in self._machine.events[step.event].outcomes() if outcome.name in step.expected)
        return any(outcome.reply and "ok" not in outcome.reply for outcome in outcomes)


CRICTL: Final = DomainClient(
    creates=_CREATES,
    removes=frozenset({"RemoveContainer", "RemovePodSandbox"}),
    looks=frozenset({"ContainerStatus", "PodSandboxStatus"}),
    arranged=frozenset({"StartContainer"}),  # a command that does not exist makes the call fail
    exits={CONTAINER: "exit"},
    takes=takes,
    lines=lines,
    preamble=PREAMBLE,
)
