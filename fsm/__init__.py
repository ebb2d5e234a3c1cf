"""The public interface of fsm, documented in ``docs/reference/library.md``.

Only the names in ``__all__``, and the attributes and methods that the documentation describes, are stable. Names are
imported lazily, so that ``import fsm`` and ``fsm --help`` are fast.
"""

# Do not import anything here. Even typing takes 20 ms, and Ctrl-C prints a traceback until fsm.__main__ handles
# signals.
TYPE_CHECKING = False

if TYPE_CHECKING:
    from fsm.checker import check as check
    from fsm.conformance.asynchronous import next_timer as next_timer
    from fsm.conformance.fake import Fake as Fake
    from fsm.conformance.suite import conform as conform
    from fsm.errors import InputError as InputError
    from fsm.hypothesis_tests import stateful as stateful
    from fsm.language.library import load as load
    from fsm.language.library import load_system as load_system
    from fsm.linearizability import linearize as linearize
    from fsm.linearizability.history import History as History
    from fsm.linearizability.history import Operation as Operation
    from fsm.machine import Machine as Machine
    from fsm.machine import Outcome as Outcome
    from fsm.machine.driver import CannotHappenError as CannotHappenError
    from fsm.machine.driver import Change as Change
    from fsm.machine.driver import Driver as Driver
    from fsm.machine.product.system import System as System
    from fsm.machine.simulation import simulate as simulate
    from fsm.monitor import Monitor as Monitor
    from fsm.monitor.judgement import judge as judge
    from fsm.report.description import describe as describe
    from fsm.sut import SUT as SUT
    from fsm.sut import UnsupportedError as UnsupportedError
    from fsm.trace import Observation as Observation
    from fsm.verdict import Fails as Fails
    from fsm.verdict import Holds as Holds
    from fsm.verdict import Unknown as Unknown
    from fsm.verdict import Verdict as Verdict

_NAMES = {
    "checker": "check",
    "conformance.asynchronous": "next_timer",
    "conformance.fake": "Fake",
    "conformance.suite": "conform",
    "errors": "InputError",
    "hypothesis_tests": "stateful",
    "language.library": "load load_system",
    "linearizability": "linearize",
    "linearizability.history": "History Operation",
    "machine": "Machine Outcome",
    "machine.driver": "CannotHappenError Change Driver",
    "machine.product.system": "System",
    "machine.simulation": "simulate",
    "monitor": "Monitor",
    "monitor.judgement": "judge",
    "report.description": "describe",
    "sut": "SUT UnsupportedError",
    "trace": "Observation",
    "verdict": "Fails Holds Unknown Verdict",
}
"""Public names by module, for imports at run time. The imports above are for type checkers."""

_MODULES = dict(sorted((name, module) for module, names in _NAMES.items() for name in names.split()))
__all__ = list(_MODULES)


if not TYPE_CHECKING:  # Type checkers would accept any name if they saw __getattr__.

    def __getattr__(name: str) -> object:
        if name not in _MODULES:
            raise AttributeError(f"module 'fsm' has no attribute {name!r}")
        from importlib import import_module  # noqa: PLC0415  (see above)

        return getattr(import_module(f"fsm.{_MODULES[name]}"), name)


def __dir__() -> list[str]:
    return __all__
