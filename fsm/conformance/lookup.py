"""Find the system under test that a user names: the reference, Python code, a command, a runtime or another model."""

import signal
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from importlib import import_module, invalidate_caches
from itertools import count
from pathlib import Path
from threading import current_thread, main_thread
from types import SimpleNamespace
from typing import Any, Final, cast

from fsm.conformance.methods import METHODS, misnamed
from fsm.conformance.simulated import Simulated
from fsm.errors import InputError, documented, nearest, of_extra, refused
from fsm.language.library import is_system, load, load_system
from fsm.machine import Machine
from fsm.machine.product.flatten import flatten
from fsm.machine.versions import meant, within
from fsm.sut import SUT, BrokenError

KINDS: Final = (
    "reference",
    "python:MODULE:FACTORY",
    "exec:COMMAND",
    "cri:ADDRESS",
    "nri-plugin:COMMAND",
    "model:MODEL",
)

REFERENCES: Final[Mapping[str, tuple[str, str]]] = {
    "container-events": ("fsm.runtimes.reference.events.sut", "EventsSUT"),
    "container-status": ("fsm.runtimes.reference.container.sut", "ContainerSUT"),
    "cri-service": ("fsm.runtimes.reference.criservice.sut", "CRIServiceSUT"),
    "event-backoff": ("fsm.runtimes.reference.events.sut", "BackoffSUT"),
    "event-monitor": ("fsm.runtimes.reference.criservice.parts_sut", "MonitorSUT"),
    "nri-api": ("fsm.runtimes.reference.nri.api_sut", "NriApiSUT"),
    "nri-container": ("fsm.runtimes.reference.nri.sut", "NriContainerSUT"),
    "nri-plugin": ("fsm.runtimes.reference.nri.plugin_sut", "NriPluginSUT"),
    "nri-pod": ("fsm.runtimes.reference.nri.sut", "NriPodSUT"),
    "plugin-sync": ("fsm.runtimes.reference.nri.sync_sut", "PluginSyncSUT"),
    "pod-sandbox": ("fsm.runtimes.reference.pods.sut", "PodsSUT"),
    "runtime-handlers": ("fsm.runtimes.reference.runtime_handlers.sut", "RuntimeHandlersSUT"),
    "sandbox-controller": ("fsm.runtimes.reference.sandbox.sut", "PodSandboxSUT"),
    "service-construction": ("fsm.runtimes.reference.criservice.parts_sut", "ConstructionSUT"),
}
"""Maps each machine to the module and class of the SUT that adapts the reference implementation."""


NODE: Final = "node"
"""The system that a runtime is tested against if the events that it sends to plugins are tested too."""

RELAYED: Final = ("nri-container", "nri-pod", "plugin-container", "plugin-pod", "nri-plugin-contract")
"""The models of the events that plugins receive. They can judge tests planned with :data:`NODE`."""

ONE_POD: Final = {"pod": 1, "container": 1}
"""Number of copies of each part of :data:`NODE` in the test of a runtime. A client can read their states."""


DAMAGED: Final = "{container}"
"""Placeholder in a damage command for the id of the container whose checkpoint is to be damaged."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RuntimeOptions:
    """Options, besides its address, for testing a real runtime. Commands are run by the shell.

    If ``nri``, the socket for plugins, is given, the runtime is tested against :data:`NODE`. ``judge`` names the model
    that judges the tests under ``profile``: :data:`NODE` or one of :data:`RELAYED`.
    """

    image: str = ""
    restart_command: str = ""
    kill_command: str = ""
    damage_command: str = ""
    nri: str = ""
    judge: str = ""
    profile: str | None = None


def node(profile: str | None) -> Machine:
    """Return :data:`NODE` with one pod and one container, flattened to a machine that shows what a client can read."""
    return flatten(load_system(NODE, ONE_POD).partly_under(profile), visible=tuple(ONE_POD))


def find(
    name: str,
    machine: Machine,
    *,
    profile: str | None = None,
    timeout: float | None = None,
    runtime: RuntimeOptions | None = None,
    counts: Mapping[str, int] | None = None,
    answers: str = "",
) -> Callable[[], SUT]:
    """Return a factory for the SUT called *name*, to be tested against *machine*.

    *name* has one of the forms in :data:`KINDS`. A reference or model is used under *profile*. *counts* is the number
    of copies of each part of a system. A process or runtime must send each answer within *timeout* seconds. Each method
    that the main thread calls on a Python SUT must return within the same time. *runtime* has options for a runtime.
    *answers* names, as ``python:MODULE:FACTORY``, the property that a plugin's answers are checked against. Raise
    :class:`InputError` if *name* has none of these forms.

    >>> from fsm.language.library import load
    >>> pod = load("cri-pod")
    >>> find("model:cri-pod", pod)().shows()
    'absent'
    """
    kind, _, rest = name.partition(":")
    match kind:
        case "reference" if not rest:
            factory = _reference(
                machine, "+".join(own or each for each, own in meant(profile, machine.profiles).items())
            )
        case "python" if rest:
            factory = _python(name, rest)
        case "exec" if rest.strip():
            child: Callable[..., SUT] = import_module("fsm.conformance.exec.adapter").child
            limits = {} if timeout is None else {"timeout": timeout}
            factory = partial(child, rest, **limits)
        case "cri" if rest:
            factory = of_extra("fsm.runtimes.live.runtime_sut", name).factory(
                rest, machine, runtime or RuntimeOptions(), timeout=timeout
            )
        case "nri-plugin" if rest.strip():
            factory = partial(
                of_extra("fsm.runtimes.live.plugin_test", name).PluginSUT, machine, rest, timeout, _answers(answers)
            )
        case "model" if rest:
            factory = partial(Simulated, _model(rest, profile, counts))
        case _:
            raise _wrong(name, "does not name what to test", f"use {', '.join(KINDS[:-1])} or {KINDS[-1]}")
    if timeout is None or kind in {"cri", "exec", "nri-plugin"}:
        return lambda: _checked(name, factory)
    if not hasattr(signal, "setitimer"):  # Windows
        raise _wrong(name, "cannot be interrupted on this system", "leave out --timeout")
    return lambda: _limited(_checked(name, factory), timeout)


def _limited(sut: SUT, timeout: float) -> SUT:
    methods = {name: partial(_called, getattr(sut, name), timeout) for name in METHODS if hasattr(sut, name)}
    others = {name: getattr(sut, name) for name in misnamed(sut)}
    return cast("SUT", SimpleNamespace(close=sut.close, **methods, **others))


def _called(method: Callable[..., object], timeout: float, *arguments: object) -> object:
    """Call *method*, raising :class:`BrokenError` in it every *timeout* seconds. Raise it again if it was caught."""
    if current_thread() is not main_thread():
        return method(*arguments)  # the search for races deals with hanging threads itself
    alarms = count()
    late = BrokenError(f"{method.__name__} did not return within {timeout:g} s")

    def alarm(_number: int, _frame: object) -> None:
        next(alarms)
        raise late

    before = signal.signal(signal.SIGALRM, alarm)
    signal.setitimer(signal.ITIMER_REAL, timeout, timeout)
    try:
        found = method(*arguments)
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
    if next(alarms):  # the method has caught the exception
        raise late
    return found


def _model(name: str, profile: str | None, counts: Mapping[str, int] | None) -> Machine:
    if is_system(name):
        system = load_system(name, counts)
        return flatten(system.under(within(profile, system.profiles)))
    other = load(name)
    return other.partly_under(profile)


def _reference(machine: Machine, profile: str) -> Callable[[], SUT]:
    if machine.name not in REFERENCES:
        hint = f"there is one of {', '.join(REFERENCES)}; or use {', '.join(KINDS[1:-1])} or {KINDS[-1]}"
        raise _wrong("reference", f"there is no reference implementation of {machine.name}", hint)
    module, kind = REFERENCES[machine.name]
    return partial(getattr(of_extra(module, "reference", extra="service"), kind), profile)


def _answers(name: str) -> Callable[..., object] | None:
    if not name:
        return None
    kind, _, rest = name.partition(":")
    if kind != "python" or not rest:
        raise _wrong(
            name, "does not name a property of answers", f"use python:MODULE:CLASS, see {documented('how-to/nri')}"
        )
    return _python(name, rest)


def _python(name: str, rest: str) -> Callable[[], SUT]:
    module, colon, attribute = rest.partition(":")
    if not (module and colon and attribute):
        raise _wrong(name, "does not name a factory", "use python:MODULE:FACTORY, as in python:door.tests:make")
    here = str(Path.cwd())
    if here not in sys.path:
        sys.path.insert(0, here)  # as python -m does
    invalidate_caches()
    try:
        found: Any = import_module(module)
    except (Exception, SystemExit) as error:
        what = f"cannot be imported: {type(error).__name__}: {error}"
        raise _wrong(name, what, f"modules are looked for in {here} and where Python is installed") from error
    for part in attribute.split("."):
        if not hasattr(found, part):
            hint = nearest(part, [each for each in vars(found) if not each.startswith("_")], of="names")
            raise _wrong(name, f"has no {part}", hint)
        found = getattr(found, part)
    if not callable(found):
        raise _wrong(name, "is not a function or a class", "name what makes the system under test when it is called")
    factory: Callable[[], SUT] = found
    return factory


def _checked(name: str, factory: Callable[[], SUT]) -> SUT:
    try:
        sut = factory()
    except InputError:
        raise
    except BrokenError as error:
        hint = f"a process first writes what it can do: see {documented('reference/exec-protocol')}"
        raise _wrong(name, f"cannot be tested: {error}", hint) from error
    except OSError as error:
        raise _wrong(name, f"cannot be started: {error.strerror or error}", "name a command that can be run") from error
    except (Exception, SystemExit) as error:
        hint = "the factory takes no arguments and returns an object with reset, do, shows and close"
        raise _wrong(name, f"raised {type(error).__name__}: {error}", hint) from error
    missing = [each for each in ("reset", "do", "shows", "close") if not callable(getattr(sut, each, None))]
    if missing:
        what = f"makes a {type(sut).__name__}, which has no {' and no '.join(missing)}"
        meant = "".join(f"did you mean {ours} by {theirs}? " for theirs, ours in misnamed(sut).items())
        hint = f"{meant}what is tested has reset, do, shows and close: see {documented('how-to/conformance')}"
        raise _wrong(name, what, hint)
    return sut


def _wrong(name: str, what: str, hint: str) -> InputError:
    return refused(name, "FSM601", what, hint)
