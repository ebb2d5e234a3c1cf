"""The list of runtime features that containerd's CRI plugin determines when it starts.

The machine ``runtime-handlers`` drives the stages from a configured runtime to its entry in the list.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import Final, TypeVar

from pydantic import BaseModel, ConfigDict, JsonValue, ValidationError
from pydantic.alias_generators import to_camel, to_pascal

from fsm.runtimes.reference.driven import Driven, ReferenceSUT, driver
from fsm.sut import BrokenError

_Kind = TypeVar("_Kind", bound=BaseModel)

RUNC: Final = "io.containerd.runc.v2"
RUNTIME_INFO: Final = "containerd.types.RuntimeInfo"
FEATURES: Final = "types.containerd.io/opencontainers/runtime-spec/1/features/Features"
RRO: Final = "rro"
USER: Final = "user"


class IntrospectionError(Exception):
    """The features of a runtime could not be determined."""


class PanicError(Exception):
    """Raised when containerd would crash."""


class Document(BaseModel):
    model_config = ConfigDict(extra="ignore", alias_generator=to_camel, populate_by_name=True)


class IDMap(Document):
    enabled: bool | None = None


class MountExtensions(Document):
    idmap: IDMap | None = None


class Linux(Document):
    namespaces: list[str] | None = None
    mount_extensions: MountExtensions | None = None


class Features(Document):
    """The features document of an OCI runtime.

    >>> Features.model_validate_json('{"ociVersionMin": "1.0.0", "mountOptions": ["rro"], "linux": null}')
    Features(mount_options=['rro'], linux=None)
    """

    mount_options: list[str] | None = None
    linux: Linux | None = None


class Options(BaseModel):
    model_config = ConfigDict(extra="allow", strict=True, alias_generator=to_pascal, populate_by_name=True)

    config_path: str = ""


class RuncOptions(Options):
    binary_name: str = ""
    root: str = ""
    systemd_cgroup: bool = False


class Packed(BaseModel):
    type_url: str
    value: JsonValue = None


class RuntimeInfo(BaseModel):
    name: str = ""
    features: Packed | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Runtime:
    type: str = RUNC
    path: str = ""
    options: Mapping[str, JsonValue] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class RuntimeHandlerFeatures:
    recursive_read_only_mounts: bool = False
    user_namespaces: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class RuntimeHandler:
    """An entry in the list of runtime handlers. The default handler has no name.

    ``features`` is ``None`` if the features are unknown.
    """

    name: str
    features: RuntimeHandlerFeatures | None = None


def cri_userns(features: Features) -> str:
    """Return the outcome for user namespaces, which pods can use only if the runtime supports idmapped mounts."""
    linux = features.linux
    if linux is None:
        return "no-linux"
    if USER not in (linux.namespaces or ()):
        return "no-namespace"
    mounts = linux.mount_extensions
    return "supported" if mounts and mounts.idmap and mounts.idmap.enabled else "no-idmap"


@dataclass(kw_only=True)
class Introspection(Driven):
    """The introspection of one runtime, which adds its entry to ``handlers``.

    *plugin_info* is called with a path and options to ask the runtime for its features. It returns the ``Extra`` field
    of the answer, or ``None`` if there is none, and raises :class:`IntrospectionError` on failure. *kernel_has_rro*
    tells whether the kernel supports recursive read-only mounts, as Linux does since 5.12.

    If *profile* is not empty, the machine behaves as under that profile, for example ``upstream``. ``failures`` lists
    the reasons why nothing is known about a runtime, which containerd logs.

    >>> runc = Introspection(name="runc", runtime=Runtime(), plugin_info=lambda *_: None, kernel_has_rro=True)
    >>> runc.run()
    >>> runc.handlers, runc.failures
    ([RuntimeHandler(name='runc', features=None)], ['runc: its answer has no features'])
    """

    name: str
    runtime: Runtime
    plugin_info: Callable[[str, Options | None], Packed | None]
    kernel_has_rro: bool
    default: bool = False
    profile: str = ""
    handlers: list[RuntimeHandler] = field(default_factory=list)
    request: tuple[str, Options | None] = "", None
    extra: Packed | None = None
    features: Features = field(default_factory=Features)
    failures: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        self._driver = driver("runtime-handlers", self.profile)
        self.position = self._driver.position()
        self._why = ""
        self._stages: Mapping[str, Callable[[], str]] = {
            "runtime-type": self._type,
            "request": self._request,
            "plugin-info": self._plugin_info,
            "decode": self._decode,
            "mount-options": self._mount_options,
            "user-namespaces": self._user_namespaces,
            "list": lambda: "default" if self.default else "named",
        }

    def run(self) -> None:
        for stage in self._stages:
            if self._driver.offered(stage, self.state):
                self.stage(stage)
                if self.state == "panicked":
                    raise PanicError(f"the introspection of runtime {self.name!r} crashes containerd: {self._why}")

    def stage(self, event: str) -> str:
        before = self.state
        way = self.position.take(event, self._stages[event]())
        for output in way.emits:
            if output == "failed":
                self.failures.append(f"{self.name}: {self._why}")
            elif output in {"handler", "default-handler"}:
                name = self.name if output == "handler" else ""
                mounts, userns = before in {"mounts", "both"}, before in {"userns", "both"}
                features = RuntimeHandlerFeatures(recursive_read_only_mounts=mounts, user_namespaces=userns)
                self.handlers.append(RuntimeHandler(name=name, features=None if before == "unknown" else features))
        return way.name

    def _choose_outcome(self, event: str, upstream: str, right: str) -> str:
        return upstream if any(way.name == upstream for way in self.position.outcomes(event)) else right

    def _type(self) -> str:
        if self.runtime.type == RUNC:
            return "runc"
        self._why = f"its type is {self.runtime.type}"
        return self._choose_outcome("runtime-type", "type-refused", "other")

    def _request(self) -> str:
        path, given = self.runtime.path or self.runtime.type, self.runtime.options
        if given is None:
            self.request, self._why = (path, None), "it has no options"
            return self._choose_outcome("request", "no-options-panics", "by-path" if self.runtime.path else "by-type")
        kind = RuncOptions if self.runtime.type == RUNC else Options
        try:
            self.request = path, kind.model_validate(dict(given))
        except ValidationError as error:
            self._why = str(error)
            return "bad-options"
        return "by-path-with-options" if self.runtime.path else "by-type-with-options"

    def _plugin_info(self) -> str:
        try:
            self.extra = self.plugin_info(*self.request)
        except IntrospectionError as error:
            self._why = str(error)
            return "failed"
        return "answered"

    def _decode(self) -> str:
        self._why = "its answer has no features"
        if self.extra is None:
            return "no-extra"
        try:
            info = _unpack(RuntimeInfo, RUNTIME_INFO, self.extra)
        except ValueError as error:
            self._why = str(error)
            return "other-extra"
        if info.features is None:
            return "no-features"
        try:
            self.features = _unpack(Features, FEATURES, info.features)
        except ValueError as error:
            self._why = str(error)
            return "other-features"
        return "features"

    def _mount_options(self) -> str:
        if RRO not in (self.features.mount_options or ()):
            return "no-rro"
        return "rro" if self.kernel_has_rro else "old-kernel"

    def _user_namespaces(self) -> str:
        self._why = "its features document has no Linux part"
        outcome = cri_userns(self.features)
        return self._choose_outcome("user-namespaces", "no-linux-panics", outcome) if outcome == "no-linux" else outcome


def _unpack(kind: type[_Kind], url: str, packed: Packed) -> _Kind:
    if packed.type_url != url:
        raise ValueError(f"it is a {packed.type_url or 'value without a type'}, and not a {url}")
    if isinstance(packed.value, str):
        return kind.model_validate_json(packed.value)
    return kind.model_validate(packed.value)


NAME: Final = "crun"
OTHER: Final = "io.containerd.runsc.v1"
PATH: Final = "/usr/local/bin/containerd-shim"


def _pack(features: Packed | None) -> Packed:
    return Packed(type_url=RUNTIME_INFO, value=RuntimeInfo(name=NAME, features=features).model_dump())


OPTIONS: Final[Mapping[str, Mapping[str, JsonValue]]] = {
    "bad-options": {"SystemdCgroup": "perhaps", "ConfigPath": 1},
    "by-path-with-options": {"Root": "/run/c"},
    "by-type-with-options": {"Root": "/run/c"},
}
"""The options of the runtime for each outcome of the event ``request`` that needs options."""

EXTRAS: Final[Mapping[str, Packed | None]] = {
    "features": _pack(Packed(type_url=FEATURES, value='{"ociVersionMin": "1.0.0"}')),
    "no-extra": None,
    "other-extra": Packed(type_url="containerd.types.Metric", value={}),
    "no-features": _pack(None),
    "other-features": _pack(Packed(type_url=FEATURES, value='["rro"]')),
}
"""An answer of the runtime for each outcome of the event ``decode``."""


def _linux(namespace: str = USER, *, idmap: bool = True) -> Linux:
    return Linux.model_validate({"namespaces": ["pid", namespace], "mountExtensions": {"idmap": {"enabled": idmap}}})


LINUX: Final = {"supported": _linux(), "no-namespace": _linux("network"), "no-idmap": _linux(idmap=False)}
"""The Linux part of a features document for each outcome of the event ``user-namespaces`` that needs such a part."""

NOT_UPSTREAM: Final = frozenset(
    {("runtime-type", "other"), ("request", "by-type"), ("request", "by-path"), ("user-namespaces", "no-linux")}
)


def _features_text(features: RuntimeHandlerFeatures | None) -> str:
    if features is None:
        return "no-features"
    return "-and-".join(name.replace("_", "-") for name, supported in asdict(features).items() if supported) or "none"


class RuntimeHandlersSUT(ReferenceSUT[Introspection]):
    machine = "runtime-handlers"
    kinds = (Introspection,)

    def reset(self) -> None:
        super().reset()
        self._fails = False
        self.introspection = self._kind(
            name=NAME,
            runtime=Runtime(options={}),
            plugin_info=self._plugin_info,
            kernel_has_rro=True,
            profile=self._profile,
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
                path = PATH if outcome.startswith("by-path") else ""
                found.runtime = replace(found.runtime, path=path, options=OPTIONS.get(outcome))
            case "plugin-info":
                self._fails = outcome == "failed"
            case "decode":
                found.extra = EXTRAS[outcome]
            case "mount-options":
                found.features.mount_options = ["ro"] if outcome == "no-rro" else ["ro", RRO]
                found.kernel_has_rro = outcome != "old-kernel"
            case "user-namespaces":
                found.features.linux = LINUX.get(outcome)
            case _:
                found.default = outcome == "default"
        return True

    def _plugin_info(self, *_: object) -> Packed | None:
        if self._fails:
            raise IntrospectionError("as arranged")
        return _pack(None)

    def _happen(self, event: str) -> object:
        return self.introspection.stage(event)

    def outputs(self) -> Sequence[str]:
        found = self.introspection
        outputs: list[str] = []
        if found.state == "requested":
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
        shown = {_features_text(handler.features) for handler in self.introspection.handlers}
        if len(shown) > 1:
            raise BrokenError(f"the entries of one runtime differ: {', '.join(sorted(shown))}")
        return shown.pop() if shown else "panicked" if self.introspection.state == "panicked" else "unlisted"
