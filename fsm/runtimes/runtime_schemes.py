"""Schemes for testing container runtimes (``cri:ADDRESS``) and NRI plugins (``nri-plugin:COMMAND``)."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Final

from fsm.conformance.lookup import named_object
from fsm.conformance.scheme import PlanRequest, Scheme, SchemeOption, SutRequest
from fsm.errors import documented, of_extra, refused
from fsm.language.library import is_system, load, load_any, load_system
from fsm.machine import Machine
from fsm.machine.versions import Bounded, unknown_profile
from fsm.runtimes.names import POD
from fsm.sut import SUT

if TYPE_CHECKING:
    from fsm.conformance.tested import Tested
from fsm.runtimes.node_model import DAMAGED, NODE, ONE_POD, RELAYED, node


def _runtime(asked: SutRequest) -> Callable[[], SUT]:
    made: Callable[[], SUT] = of_extra("fsm.runtimes.live.runtime_sut", f"cri:{asked.rest}").factory(asked)
    return made


def _repeat_failures(asked: SutRequest, tested: Tested) -> Tested:
    from fsm.runtimes.live.runtime_sut import confirmed, factory  # noqa: PLC0415  (libraries may be missing)

    def make(seen: Callable[..., object] | None) -> SUT:
        return factory(asked, seen=seen)()

    machine = tested.oracle.plan.table.machine
    return replace(tested, failures=confirmed(make, machine, tested.failures, record=asked.record))


@contextmanager
def _report_new_shims() -> Iterator[Callable[[], str]]:
    shims = of_extra("fsm.runtimes.live.runtime_session", "fsm test").shims
    before = shims()

    def remaining() -> str:
        new = [str(process) for process in sorted(shims() - before)]
        return f"{len(new)} shims of the runtime were left running; to remove them: kill {' '.join(new)}" if new else ""

    yield remaining


def _planning_machine(request: PlanRequest) -> Machine | None:
    options = request.options
    nri, kill = options.get("nri"), options.get("kill_command")
    if nri and (request.script or request.properties or kill):
        raise ValueError("--nri cannot be combined with --script, --kill-command, --properties or --property")
    if nri:
        _check_relayed(request)
    machine = node(request.profile) if nri else None
    if damage := options.get("damage_command"):
        entity = machine.entity if machine else "" if is_system(request.model) else load(request.model).entity
        if entity == POD:
            raise ValueError(f"--damage-command damages records of containers, but {request.model} is about pods")
        if DAMAGED not in damage:
            raise ValueError(f"--damage-command must contain {DAMAGED}, which stands for the id of the container")
        if not (options.get("restart_command") or kill):
            raise ValueError("--damage-command needs --restart-command, which is used for restarts without damage")
    return machine


def _check_relayed(request: PlanRequest) -> None:
    name = request.model
    if name not in {NODE, *RELAYED}:
        models = ", ".join((NODE, *RELAYED))
        raise ValueError(f"--nri can be used only with {models}; leave out --nri, or name one of these models")
    if request.parts and {**ONE_POD, **request.parts} != ONE_POD:
        raise ValueError("a runtime can be tested only with --parts pod=1,container=1")
    groups: list[Mapping[str, Bounded]] = [load_any(name).profiles]
    if name == NODE:
        groups += [part.machine.profiles for part in load_system(name).parts.values()]
    if wrong := unknown_profile(request.profile, groups):
        raise ValueError(f"--profile '{wrong[0]}': {wrong[1]}")


def _plugin(asked: SutRequest) -> Callable[[], SUT]:
    plugins = of_extra("fsm.runtimes.live.plugin_test", f"nri-plugin:{asked.rest}")
    name = asked.options.get("answers", "")
    kind, _, rest = name.partition(":")
    if name and (kind != "python" or not rest):
        hint = f"use python:MODULE:CLASS; see {documented('how-to/nri')}"
        raise refused(name, "FSM601", "this does not name a class that checks answers", hint)
    answers = named_object(name, rest) if name else None
    return partial(plugins.PluginSUT, asked.machine, asked.rest, asked.timeout, answers)


RUNTIME: Final = Scheme(
    name="cri",
    rest="ADDRESS",
    about="a container runtime at a Unix socket",
    factory=_runtime,
    machine=_planning_machine,
    slow=True,
    during=_report_new_shims,
    repeated=_repeat_failures,
    options=(
        SchemeOption(
            name="--nri",
            metavar="ADDRESS",
            help="Socket where the runtime accepts NRI plugins: connect a plugin, and judge the events that it "
            "receives. For node, tested with one pod and one container, and for nri-container, nri-pod, "
            "plugin-container, plugin-pod and nri-plugin-contract.",
        ),
        SchemeOption(
            name="--image",
            help="Image for the containers of a runtime; it needs sh. Default: busybox, which fsm makes from the "
            "host's static /bin/busybox if containerd lacks it, and removes afterwards.",
        ),
        SchemeOption(
            name="--restart-command",
            metavar="COMMAND",
            help="Command that restarts the runtime. Without it or --kill-command, restarts are not tested.",
        ),
        SchemeOption(
            name="--kill-command",
            metavar="COMMAND",
            help="Command that kills the runtime and starts it again, to cut calls off after 3 ms, 18 ms, 33 ms and "
            "so on.",
        ),
        SchemeOption(
            name="--damage-command",
            metavar="COMMAND",
            help="Command that stops the runtime, damages what it keeps of a container, and starts it again. "
            "{container} stands for the container's id.",
        ),
    ),
)
PLUGIN: Final = Scheme(
    name="nri-plugin",
    rest="COMMAND",
    about="an NRI plugin, or unix:///SOCKET that it connects to",
    factory=_plugin,
    options=(
        SchemeOption(
            name="--answers",
            metavar="python:MODULE:CLASS",
            help="Class that judges the answers of an NRI plugin; see docs/how-to/nri.md.",
        ),
    ),
)
