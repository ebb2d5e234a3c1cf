"""Steps of a machine as shell lines for a CRI client: ``crictl``, or ``grpcurl`` for calls without a command.

A step says only what must happen.  This module chooses a suitable container, such as one that exits by itself or one
whose command does not exist.  ``crictl rm`` and ``rmp`` check the status first and do not remove anything that is
running or absent, and ``crictl stats`` lists containers, so those calls are made with ``grpcurl``.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Final

from fsm.conformance.client_paths import usual
from fsm.conformance.clients import DomainClient
from fsm.conformance.plan import Edge, Plan, Point
from fsm.machine import Event, Machine
from fsm.runtimes.names import CONTAINER, CONTAINER_CALLS, MAKES, POD, POD_CALLS
from fsm.sut import Stimulus

SECONDS: Final = 4
"""Number of seconds that the process runs in a container that exits by itself."""

PREAMBLE: Final = f"""\
# Needs crictl, grpcurl for what crictl has no command for, and an image that the runtime has, with the command sleep.
IMAGE=${{IMAGE:-docker.io/library/busybox:latest}}
SOCKET=${{SOCKET:-/run/containerd/containerd.sock}}
PROTO=${{PROTO:-$PWD/fsm/runtimes/sockets/cri.proto}} # the messages of CRI, of fsm or of kubernetes/cri-api
RESTART=${{RESTART:-systemctl restart containerd}}
NOBODY=$(printf %064d 0) # an id that was never given
export CONTAINER_RUNTIME_ENDPOINT="unix://$SOCKET"
cd "$(mktemp -d)" || exit
cat > pod.json << END
{{"metadata": {{"name": "fsm", "namespace": "fsm", "uid": "fsm-$$"}}, "log_directory": "$PWD", "linux": {{}}}}
END
container() {{
  cat << END
{{"metadata": {{"name": "fsm"}}, "image": {{"image": "$1"}}, "command": [$2], "log_path": "fsm.log", "linux": {{}}}}
END
}}
container "$IMAGE" '"sleep", "3600"' > container.json
container "$IMAGE" '"sleep", "{SECONDS}"' > ends.json
container "$IMAGE" '"/no/such/command"' > broken.json
container no.such/image '"sleep", "3600"' > missing.json
call() {{ # METHOD FIELD ID
  grpcurl -plaintext -unix -authority localhost -import-path "$(dirname "$PROTO")" -proto "$(basename "$PROTO")" \\
    -d "{{\\"$2\\": \\"$3\\"}}" "$SOCKET" "runtime.v1.RuntimeService/$1"
}}"""
"""Shell code that must run once before all lines: variables, configurations and functions."""

_COMMANDS: Final[Mapping[str, str]] = {
    "StopPodSandbox": 'crictl stopp "$POD"',
    "RemovePodSandbox": 'crictl rmp "$POD"',
    "PodSandboxStatus": 'crictl inspectp "$POD"',
    "PortForward": 'timeout 2 crictl port-forward "$POD" 8080',
    "UpdatePodSandboxResources": 'call UpdatePodSandboxResources pod_sandbox_id "$POD"',
    "StartContainer": 'crictl start "$CONTAINER"',
    "StopContainer": 'crictl stop "$CONTAINER"',
    "RemoveContainer": 'crictl rm "$CONTAINER"',
    "ContainerStatus": 'crictl inspect "$CONTAINER"',
    "UpdateContainerResources": 'crictl update --cpu-share 512 "$CONTAINER"',
    "ReopenContainerLog": 'crictl logs --reopen --tail 0 "$CONTAINER"',
    "ExecSync": 'crictl exec --sync "$CONTAINER" true',
    "Exec": 'crictl exec "$CONTAINER" true',
    "Attach": 'timeout 2 crictl attach "$CONTAINER"',
    "ContainerStats": 'call ContainerStats container_id "$CONTAINER"',
    "CheckpointContainer": 'crictl checkpoint --export "$PWD/checkpoint.tar" "$CONTAINER"',
}
_FAILING: Final[Mapping[str, str]] = {
    "StopContainer": 'crictl stop --timeout 10 "$CONTAINER"',
    "ExecSync": 'crictl exec --sync "$CONTAINER" /no/such/command',
    "Exec": 'crictl exec "$CONTAINER" /no/such/command',
}
_DIRECT: Final[Mapping[str, str]] = {
    "RemovePodSandbox": 'call RemovePodSandbox pod_sandbox_id "$POD"',
    "RemoveContainer": 'call RemoveContainer container_id "$CONTAINER"',
}
_REMOVABLE: Final = frozenset({"CONTAINER_CREATED", "CONTAINER_EXITED", "CONTAINER_UNKNOWN", "SANDBOX_NOTREADY"})
"""Displayed states in which ``crictl rm`` and ``rmp`` call the runtime."""


def takes(machine: Machine) -> bool:
    """Check whether the calls of *machine* are those that a CRI client makes on one pod or one container."""
    called = {event.rpc for event in machine.events.values() if event.kind == "call"}
    of_entity = {POD: POD_CALLS, CONTAINER: CONTAINER_CALLS | {"CreateContainer"}}
    return bool(called) and called <= of_entity.get(machine.entity, frozenset())


def lines(plan: Plan, steps: Sequence[Stimulus]) -> tuple[str, ...]:
    """Return the shell lines that make *steps* happen to one entity from the initial state, after :data:`PREAMBLE`.

    The id is in ``$POD`` or ``$CONTAINER``.  The last line removes everything that the lines created.  If an expected
    outcome is not the usual one, a comment names it.  A step that no command can cause becomes a ``:`` command with a
    comment.

    Raise ``ValueError`` unless :func:`takes` accepts the machine.

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
        raise ValueError(f"{machine.name} is no machine of calls that a client of the CRI makes")
    end = ['crictl rmp --force "$POD"'] if machine.entity in _made(machine, steps) else []
    return (*_begin(machine, steps), *_Writer(plan, steps).lines(), *end)


def _begin(machine: Machine, steps: Sequence[Stimulus]) -> Iterator[str]:
    if machine.entity == CONTAINER and CONTAINER in _made(machine, steps):
        yield "POD=$(crictl runp pod.json)"
    if machine.entity not in _made(machine, steps[:1]):
        yield f"{machine.entity.upper()}=$NOBODY"


def _made(machine: Machine, steps: Sequence[Stimulus]) -> set[str]:
    return {_of(rpc) for each in steps if (rpc := machine.events[each.event].rpc) in MAKES}


def _of(rpc: str) -> str:
    return POD if rpc == "RunPodSandbox" else CONTAINER


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
            odd = edge.step.expected if edge is not None and not self._usual(edge) else ()
            if step.expected and odd:
                notes.append(f"expected: {', '.join(odd)}")
            yield f"{line} # {'; '.join(notes)}" if notes else line
            point = edge.to if edge is not None and edge.to is not None else point

    def _edge(self, point: Point, step: Stimulus) -> Edge | None:
        known: Mapping[Stimulus, Edge] = self._plan.by_step(point)
        alike = [each for each in self._plan.leaving(point) if each.step[:2] == step[:2]]
        return known.get(step) or next(filter(self._usual, alike), alike[0] if alike else None)

    def _usual(self, edge: Edge) -> bool:
        met = zip(edge.cells, edge.ways, strict=False)  # the last cell may be unspecified
        return all(way is usual(self._plan.table.step(state, row) or ()) for (row, state), way in met)

    def _line(self, index: int, event: Event, state: int) -> str:
        step, table = self._steps[index], self._plan.table
        if event.rpc in MAKES and _of(event.rpc) == self._machine.entity:
            return self._making(index, event.rpc, again=state != table.initial)
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

    def _making(self, index: int, rpc: str, *, again: bool) -> str:
        if rpc == "RunPodSandbox":
            if again:
                return "crictl runp pod.json # the name is taken"
            failing = "--runtime no-such-handler " if self._fails(index) else ""
            return f"POD=$(crictl runp {failing}pod.json)"
        if again:
            return 'crictl create "$POD" container.json pod.json # the name is taken'
        config = "missing.json" if self._fails(index) else self._config(index)
        return f'CONTAINER=$(crictl create "$POD" {config} pod.json)'

    def _config(self, index: int) -> str:
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
        replies = [each.reply for each in self._machine.events[step.event].outcomes() if each.name in step.expected]
        return any(reply and "ok" not in reply for reply in replies)


CRICTL: Final = DomainClient(
    creates={POD: "RunPodSandbox", CONTAINER: "CreateContainer"},
    removes=frozenset({"RemoveContainer", "RemovePodSandbox"}),
    looks=frozenset({"ContainerStatus", "PodSandboxStatus"}),
    arranged=frozenset({"StartContainer"}),  # by naming a command that does not exist
    exits={CONTAINER: "exit"},
    takes=takes,
    lines=lines,
    preamble=PREAMBLE,
)
