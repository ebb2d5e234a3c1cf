"""The reference of how runtimes are introspected under test: what is found is decided when it is looked for."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Final

from fsm.machine.driver import CannotHappenError
from fsm.reference.runtime_handlers.introspection import (
    FEATURES,
    RRO,
    RUNC,
    RUNTIME_INFO,
    USER,
    Features,
    IDMap,
    Introspection,
    IntrospectionError,
    Linux,
    MountExtensions,
    Packed,
    Runtime,
    RuntimeHandlerFeatures,
    RuntimeInfo,
)
from fsm.sut import BrokenError, UnsupportedError

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from pydantic import JsonValue

    from fsm.reference.runtime_handlers.introspection import RuntimeRequest

NAME: Final = "crun"
OTHER: Final = "io.containerd.runsc.v1"
PATH: Final = "/usr/local/bin/containerd-shim"

FOUND: Final[Mapping[RuntimeHandlerFeatures | None, str]] = {
    None: "no-features",
    RuntimeHandlerFeatures(): "none",
    RuntimeHandlerFeatures(recursive_read_only_mounts=True): "recursive-read-only-mounts",
    RuntimeHandlerFeatures(user_namespaces=True): "user-namespaces",
    RuntimeHandlerFeatures(
        recursive_read_only_mounts=True, user_namespaces=True
    ): "recursive-read-only-mounts-and-user-namespaces",
}
"""What an observer reads of what is listed."""


def _packed(features: Packed | None) -> Packed:
    return Packed(type_url=RUNTIME_INFO, value=RuntimeInfo(name=NAME, features=features).model_dump())


ANSWERS: Final[Mapping[str, Callable[[], Packed | None]]] = {
    "features": lambda: _packed(Packed(type_url=FEATURES, value='{"ociVersionMin": "1.0.0"}')),
    "no-extra": lambda: None,
    "other-extra": lambda: Packed(type_url="containerd.types.Metric", value={}),
    "no-features": lambda: _packed(None),
    "other-features": lambda: _packed(Packed(type_url=FEATURES, value='["rro"]')),
}
"""What the runtime answers, by what is to be found in it."""

MOUNTS: Final = MountExtensions(idmap=IDMap(enabled=True))

PARTS: Final[Mapping[str, Linux | None]] = {
    "supported": Linux(namespaces=["pid", USER], mount_extensions=MOUNTS),
    "no-namespace": Linux(namespaces=["pid"], mount_extensions=MOUNTS),
    "no-idmap": Linux(namespaces=[USER], mount_extensions=MountExtensions(idmap=IDMap(enabled=False))),
    "no-linux": None,
    "no-linux-panics": None,
}
"""The Linux part of a document, by what is to be found in it."""

NEVER: Final = frozenset(
    {("runtime-type", "other"), ("request", "by-type"), ("request", "by-path"), ("user-namespaces", "no-linux")}
)
"""What does not come about where it is done as written: events and outcomes."""


class _World:
    """The introspection service: what it was asked, and whether it can answer."""

    def __init__(self) -> None:
        self.fails = False
        self.asked: list[RuntimeRequest] = []

    def plugin_info(self, request: RuntimeRequest) -> Packed | None:
        """An answer in which nothing is to be found yet."""
        self.asked.append(request)
        if self.fails:
            raise IntrospectionError("as arranged")
        return _packed(None)


class RuntimeHandlersSUT:
    """One :class:`~fsm.reference.runtime_handlers.introspection.Introspection` under test; *kind* makes it.

    >>> sut = RuntimeHandlersSUT()
    >>> sut.do("runtime-type"), sut.arrange("request", "by-path"), sut.do("request"), sut.outputs()
    ('', True, '', ('RuntimePath.path',))
    >>> sut.shows()
    'unlisted'
    """

    def __init__(self, profile: str = "", *, kind: type[Introspection] = Introspection) -> None:
        self._profile, self._kind = profile, kind
        self.reset()

    def reset(self) -> None:
        """Another runtime, of which nothing is known."""
        self.world = _World()
        self.introspection = self._kind(
            name=NAME, runtime=Runtime(options={}), service=self.world, kernel_has_rro=True, profile=self._profile
        )
        self._told = 0

    def close(self) -> None:
        """Nothing is held."""

    def arrange(self, event: str, outcome: str) -> bool:
        """What is configured, or what the runtime says, is what leads to the *outcome*."""
        if self._profile and (event, outcome) in NEVER:
            return False
        match event:
            case "runtime-type":
                kind = RUNC if outcome == "runc" else OTHER
                self.introspection.runtime = replace(self.introspection.runtime, type=kind)
            case "request":
                self._configured(outcome)
            case "plugin-info":
                self.world.fails = outcome == "failed"
            case "decode":
                self.introspection.extra = ANSWERS[outcome]()
            case "mount-options":
                self._features().mount_options = ["ro"] if outcome == "no-rro" else ["ro", RRO]
                self.introspection.kernel_has_rro = outcome != "old-kernel"
            case "user-namespaces":
                self._features().linux = PARTS[outcome]
            case _:
                self.introspection.default = outcome == "default"
        return True

    def do(self, event: str) -> str:
        """One stage."""
        try:
            self.introspection.stage(event)
        except CannotHappenError as error:
            raise UnsupportedError(str(error)) from error
        return ""

    def outputs(self) -> Sequence[str]:
        """What the request says, when it was made, what was noted, and what was listed."""
        found = self.introspection
        told: list[str] = []
        if found.request and found.state == "requested":
            told = ["RuntimePath.type" if found.request.runtime_path == found.runtime.type else "RuntimePath.path"]
            told += ["Options"] * (found.request.options is not None)
        told += ["failed"] * len(found.failures)
        found.failures.clear()
        told += ["handler" if each.name == NAME else "default-handler" for each in found.handlers[self._told :]]
        self._told = len(found.handlers)
        return tuple(told)

    def shows(self) -> str:
        """What is listed; all entries must say the same."""
        found = {FOUND[each.features] for each in self.introspection.handlers}
        if len(found) > 1:
            raise BrokenError(f"the entries of one runtime differ: {', '.join(sorted(found))}")
        return found.pop() if found else "panicked" if self.introspection.state == "panicked" else "unlisted"

    def _configured(self, outcome: str) -> None:
        path = PATH if outcome.startswith("by-path") else ""
        options: dict[str, JsonValue] | None = None
        if outcome == "bad-options":
            options = {"SystemdCgroup": "perhaps", "ConfigPath": 1}
        elif outcome.endswith("-with-options"):
            options = {"Root": "/run/c"}
        self.introspection.runtime = replace(self.introspection.runtime, path=path, options=options)

    def _features(self) -> Features:
        if self.introspection.features is None:
            raise BrokenError("there is no features document")
        return self.introspection.features
