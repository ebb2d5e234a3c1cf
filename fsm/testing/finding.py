"""The system that somebody names: the reference, a function in Python, a command, another model."""

from __future__ import annotations

import importlib
import sys
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from fsm.building import under
from fsm.composing.flattening import flatten
from fsm.errors import InputError, Problem, nearest
from fsm.library import is_system, load, load_system
from fsm.testing.simulated import Simulated
from fsm.testing.system import BrokenError

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from fsm.machine import Machine
    from fsm.testing.system import System

KINDS: Final = ("reference", "python:MODULE:FACTORY", "exec:COMMAND", "model:MODEL")

REFERENCES: Final[Mapping[str, tuple[str, str]]] = {
    "container-events": ("fsm.testing.reference_eventq", "EventsSystem"),
    "container-status": ("fsm.testing.reference_container", "ContainerSystem"),
    "cri-service": ("fsm.testing.reference_criservice", "CRIServiceSystem"),
    "event-backoff": ("fsm.testing.reference_backoff", "BackoffSystem"),
    "event-monitor": ("fsm.testing.reference_monitor", "MonitorSystem"),
    "nri-api": ("fsm.testing.reference_nri_api", "NriApiSystem"),
    "nri-container": ("fsm.testing.reference_nri", "NriContainerSystem"),
    "nri-plugin": ("fsm.testing.reference_nri_plugin", "NriPluginSystem"),
    "nri-pod": ("fsm.testing.reference_nri", "NriPodSystem"),
    "plugin-sync": ("fsm.testing.reference_nri_sync", "PluginSyncSystem"),
    "pod-sandbox": ("fsm.testing.reference_pods", "PodsSystem"),
    "runtime-handlers": ("fsm.testing.reference_runtime_handlers", "RuntimeHandlersSystem"),
    "sandbox-controller": ("fsm.testing.reference_podsandbox", "PodSandboxSystem"),
    "service-construction": ("fsm.testing.reference_construction", "ConstructionSystem"),
}
"""By machine, the module and the class that make the reference implementation a system."""


def find(
    name: str, machine: Machine, *, profile: str | None = None, timeout: float | None = None
) -> Callable[[], System]:
    """What makes the system called *name*, one of :data:`KINDS`, which is to be tested by *machine*.

    A reference, and a model, is as *profile* has it.  A process has *timeout* seconds for each answer.

    Raises :class:`InputError` where there is none such.

    >>> from fsm.library import load
    >>> pod = load("cri-pod")
    >>> find("model:cri-pod", pod)().shows()
    'absent'
    """
    kind, _, rest = name.partition(":")
    match kind:
        case "reference" if not rest:
            factory = _reference(machine, profile or "")
        case "python" if rest:
            factory = _python(name, rest)
        case "exec" if rest.strip():
            child: Callable[..., System] = import_module("fsm.testing.child").child
            limits = {} if timeout is None else {"timeout": timeout}
            factory = partial(child, rest, **limits)
        case "model" if rest:
            factory = partial(Simulated, _model(rest, profile))
        case _:
            raise _wrong(name, "is not the name of a system", f"say {', '.join(KINDS[:-1])} or {KINDS[-1]}")
    return lambda: _checked(name, factory)


def _model(name: str, profile: str | None) -> Machine:
    """The machine, or the system as one machine, called *name*; as *profile* has it, if it has one of that name."""
    if is_system(name):
        system = load_system(name)
        return flatten(system.profiles[profile].system if profile and profile in system.profiles else system)
    other = load(name)
    return under(other, profile) if profile and profile in other.profiles else other


def _reference(machine: Machine, profile: str) -> Callable[[], System]:
    if machine.name not in REFERENCES:
        hint = f"there is one of {', '.join(REFERENCES)}; or say {', '.join(KINDS[1:-1])} or {KINDS[-1]}"
        raise _wrong("reference", f"there is no reference implementation of {machine.name}", hint)
    module, kind = REFERENCES[machine.name]
    try:
        return partial(getattr(import_module(module), kind), profile)
    except ModuleNotFoundError as error:
        hint = "install it with the extra 'service': pip install 'container-fsm[service]'"
        raise _wrong("reference", f"needs {error.name}", hint) from error


def _python(name: str, rest: str) -> Callable[[], System]:
    module, colon, attribute = rest.partition(":")
    if not (module and colon and attribute):
        raise _wrong(
            name, "does not say where the factory is", "say python:MODULE:FACTORY, as in python:door.tests:make"
        )
    here = str(Path.cwd())
    if here not in sys.path:
        sys.path.insert(0, here)  # what python -m does
    importlib.invalidate_caches()
    try:
        found: Any = import_module(module)
    except Exception as error:
        told = f"{type(error).__name__}: {error}"
        raise _wrong(
            name, f"cannot be imported: {told}", "modules are looked for here and where Python is installed"
        ) from error
    for part in attribute.split("."):
        if not hasattr(found, part):
            hint = nearest(part, [each for each in vars(found) if not each.startswith("_")], of="names")
            raise _wrong(name, f"has no {part}", hint)
        found = getattr(found, part)
    if not callable(found):
        raise _wrong(name, "is not a function or a class", "name what makes a system when it is called")
    factory: Callable[[], System] = found
    return factory


def _checked(name: str, factory: Callable[[], System]) -> System:
    """The system that *factory*, called *name*, makes; refused if it is none."""
    try:
        system = factory()
    except InputError:
        raise
    except BrokenError as error:
        raise _wrong(
            name, f"makes no system: {error}", "a system says first what it can: see docs/exec-protocol.md"
        ) from error
    except OSError as error:
        raise _wrong(name, f"makes no system: {error.strerror or error}", "name a command that can be run") from error
    except Exception as error:
        told = f"{type(error).__name__}: {error}"
        raise _wrong(name, f"makes no system: {told}", "the factory takes no arguments and returns a system") from error
    missing = [each for each in ("reset", "do", "shows", "close") if not callable(getattr(system, each, None))]
    if missing:
        what = f"makes a {type(system).__name__}, which has no {' and no '.join(missing)}"
        raise _wrong(name, what, "a system has reset, do, shows and close: see docs/conformance.md")
    return system


def _wrong(name: str, what: str, hint: str) -> InputError:
    return InputError([Problem(path=name, line=0, code="FSM601", what=what, hint=hint)])
