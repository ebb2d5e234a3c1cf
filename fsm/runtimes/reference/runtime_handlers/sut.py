"""The introspection of one runtime under test. What a stage finds is set just before that stage."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, replace
from typing import Final

from fsm.runtimes.reference.harness import ReferenceSUT
from fsm.runtimes.reference.runtime_handlers.introspection import (
    FEATURES,
    RRO,
    RUNC,
    RUNTIME_INFO,
    USER,
    Features,
    Introspection,
    IntrospectionError,
    Linux,
    Packed,
    Runtime,
    RuntimeHandlerFeatures,
    RuntimeInfo,
)
from fsm.sut import BrokenError

NAME: Final = "crun"
OTHER: Final = "io.containerd.runsc.v1"
PATH: Final = "/usr/local/bin/containerd-shim"


def _packed(features: Packed | None) -> Packed:
    return Packed(type_url=RUNTIME_INFO, value=RuntimeInfo(name=NAME, features=features).model_dump())


EXTRAS: Final[Mapping[str, Packed | None]] = {
    "features": _packed(Packed(type_url=FEATURES, value='{"ociVersionMin": "1.0.0"}')),
    "no-extra": None,
    "other-extra": Packed(type_url="containerd.types.Metric", value={}),
    "no-features": _packed(None),
    "other-features": _packed(Packed(type_url=FEATURES, value='["rro"]')),
}
"""Maps the outcome of decoding the runtime's answer to the answer."""


def _linux(namespace: str = USER, *, idmap: bool = True) -> Linux:
    return Linux.model_validate({"namespaces": ["pid", namespace], "mountExtensions": {"idmap": {"enabled": idmap}}})


LINUX: Final = {"supported": _linux(), "no-namespace": _linux("network"), "no-idmap": _linux(idmap=False)}
"""Maps the outcome for user namespaces to the Linux part of the features document. Other outcomes need none."""

NOT_UPSTREAM: Final = frozenset(
    {("runtime-type", "other"), ("request", "by-type"), ("request", "by-path"), ("user-namespaces", "no-linux")}
)
"""Outcomes that containerd does not have."""


def _shown(features: RuntimeHandlerFeatures | None) -> str:
    if features is None:
        return "no-features"
    return "-and-".join(name.replace("_", "-") for name, supported in asdict(features).items() if supported) or "none"


class RuntimeHandlersSUT(ReferenceSUT[Introspection]):
    """The introspection of one runtime under test. The runtime's answers have no features until a stage sets them."""

    machine = "runtime-handlers"
    kinds = (Introspection,)

    def reset(self) -> None:
        super().reset()
        self._fails = False
        runtime = Runtime(options={})
        self.introspection = self._kind(
            name=NAME, runtime=runtime, plugin_info=self._plugin_info, kernel_has_rro=True, profile=self._profile
        )
        self._listed = 0

    def arrange(self, event: str, outcome: str) -> bool:
        if self._profile and (event, outcome) in NOT_UPSTREAM:
            return False
        found = self.introspection
        match event:
            case "runtime-type":
                found.runtime = replace(found.runtime, type=RUNC if outcome == "runc" else OTHER)
            case "request":
                runtime = replace(found.runtime, path=PATH if outcome.startswith("by-path") else "", options=None)
                if outcome == "bad-options":
                    runtime = replace(runtime, options={"SystemdCgroup": "perhaps", "ConfigPath": 1})
                elif outcome.endswith("-with-options"):
                    runtime = replace(runtime, options={"Root": "/run/c"})
                found.runtime = runtime
            case "plugin-info":
                self._fails = outcome == "failed"
            case "decode":
                found.extra = EXTRAS[outcome]
            case "mount-options":
                self._features().mount_options = ["ro"] if outcome == "no-rro" else ["ro", RRO]
                found.kernel_has_rro = outcome != "old-kernel"
            case "user-namespaces":
                self._features().linux = LINUX.get(outcome)
            case _:
                found.default = outcome == "default"
        return True

    def _plugin_info(self, *_: object) -> Packed | None:
        if self._fails:
            raise IntrospectionError("as arranged")
        return _packed(None)

    def _happen(self, event: str) -> object:
        return self.introspection.stage(event)

    def outputs(self) -> Sequence[str]:
        found = self.introspection
        outputs: list[str] = []
        if found.request and found.state == "requested":
            path, options = found.request
            outputs = ["RuntimePath.type" if path == found.runtime.type else "RuntimePath.path"]
            outputs += ["Options"] * (options is not None)
        outputs += ["failed"] * len(found.failures)
        found.failures.clear()
        listed = found.handlers[self._listed :]
        outputs += ["handler" if handler.name == NAME else "default-handler" for handler in listed]
        self._listed = len(found.handlers)
        return tuple(outputs)

    def shows(self) -> str:
        """Return the features in the list, which must be the same in all entries."""
        shown = {_shown(handler.features) for handler in self.introspection.handlers}
        if len(shown) > 1:
            raise BrokenError(f"the entries of one runtime differ: {', '.join(sorted(shown))}")
        return shown.pop() if shown else "panicked" if self.introspection.state == "panicked" else "unlisted"

    def _features(self) -> Features:
        if self.introspection.features is None:
            raise BrokenError("there is no features document")
        return self.introspection.features
