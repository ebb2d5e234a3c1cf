"""What runtimes support, found out as containerd's CRI plugin does when it starts, for the answer to Status.

The way from a runtime in the configuration to its entry in the list is the
machine ``runtime-handlers``; here is what each of its stages does with data:
a features document as the ``features`` command of an OCI runtime prints it.
Every part of such a document may be absent.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from dataclasses import dataclass, field
from functools import cache
from typing import TYPE_CHECKING, Final, Protocol, TypeVar

from pydantic import BaseModel, ConfigDict, JsonValue, ValidationError
from pydantic.alias_generators import to_camel, to_pascal

from fsm.library import load
from fsm.machine.driver import Driver

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

_Kind = TypeVar("_Kind", bound=BaseModel)

RUNC: Final = "io.containerd.runc.v2"
RUNTIME_INFO: Final = "containerd.types.RuntimeInfo"
FEATURES: Final = "types.containerd.io/opencontainers/runtime-spec/1/features/Features"
RRO: Final = "rro"
USER: Final = "user"
RRO_SINCE: Final = (5, 12)
"""The version of Linux that has recursive read-only mounts."""


class IntrospectionError(Exception):
    """A runtime could not be asked."""


class PanicError(Exception):
    """containerd has crashed, as written."""


class Document(BaseModel):
    """A part of a features document; what is absent, or null, is ``None``, and what is not known here is left out."""

    model_config = ConfigDict(extra="ignore", alias_generator=to_camel, populate_by_name=True)


class IDMap(Document):
    """Whether mounts may map ids."""

    enabled: bool | None = None


class MountExtensions(Document):
    """What mounts may have besides their options."""

    idmap: IDMap | None = None


class Linux(Document):
    """The features that only Linux has."""

    namespaces: list[str] | None = None
    mount_extensions: MountExtensions | None = None


class Features(Document):
    """What an OCI runtime says of itself.

    >>> Features.model_validate_json('{"ociVersionMin": "1.0.0", "mountOptions": ["rro"], "linux": null}')
    Features(mount_options=['rro'], linux=None)
    """

    mount_options: list[str] | None = None
    linux: Linux | None = None


class Options(BaseModel):
    """Options of a runtime of any type; the rest of them goes to it as it is."""

    model_config = ConfigDict(extra="allow", strict=True, alias_generator=to_pascal, populate_by_name=True)

    config_path: str = ""


class RuncOptions(Options):
    """Options of ``io.containerd.runc.v2``."""

    binary_name: str = ""
    root: str = ""
    systemd_cgroup: bool = False


class Packed(BaseModel):
    """A value, and the name of its type."""

    type_url: str
    value: JsonValue = None


class RuntimeInfo(BaseModel):
    """What a shim says of its runtime."""

    name: str = ""
    features: Packed | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Runtime:
    """A runtime as it is configured."""

    type: str = RUNC
    path: str = ""
    options: Mapping[str, JsonValue] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class RuntimeRequest:
    """Which runtime is asked about."""

    runtime_path: str
    options: Options | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class RuntimeHandlerFeatures:
    """What a handler supports."""

    recursive_read_only_mounts: bool = False
    user_namespaces: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class RuntimeHandler:
    """A handler as it is listed; the default one has no name.  Without ``features`` nothing is known of it."""

    name: str
    features: RuntimeHandlerFeatures | None = None


class Service(Protocol):
    """Who asks runtimes."""

    def plugin_info(self, request: RuntimeRequest) -> Packed | None:
        """The ``Extra`` of the answer, if there is any; raises :class:`IntrospectionError`."""


class Commands:
    """Asks the OCI runtimes of this machine, by their ``features`` command, as the shim of runc does.

    One that has no such command, as old ones have not, says nothing of its features.
    """

    def plugin_info(self, request: RuntimeRequest) -> Packed | None:
        """What the runtime that the options name, or ``runc``, prints."""
        options = request.options
        name = options.binary_name if isinstance(options, RuncOptions) and options.binary_name else "runc"
        binary = shutil.which(name)
        if binary is None:
            raise IntrospectionError(f"there is no {name}")
        said = subprocess.run([binary, "features"], capture_output=True, check=False)  # noqa: S603  (configured)
        features = Packed(type_url=FEATURES, value=said.stdout.decode()) if said.returncode == 0 else None
        return Packed(type_url=RUNTIME_INFO, value=RuntimeInfo(name=name, features=features).model_dump())


def kernel_supports_rro(release: str = "") -> bool:
    """Whether this kernel, or the one of *release*, has recursive read-only mounts.

    >>> kernel_supports_rro("5.11.0-1-amd64"), kernel_supports_rro("5.12-rc1"), kernel_supports_rro("6.1.0")
    (False, True, True)
    """
    numbers = re.findall(r"\d+", release or os.uname().release)[:2]
    return tuple(map(int, numbers)) >= RRO_SINCE


def supports_cri_userns(features: Features) -> bool:
    """Whether pods can have user namespaces: the runtime has to know them, and mounts with mapped ids.

    >>> supports_cri_userns(Features())
    False
    """
    return _userns(features) == "supported"


def _userns(features: Features) -> str:
    """The same, as the machine calls it."""
    linux = features.linux
    if linux is None:
        return "no-linux"
    if USER not in (linux.namespaces or ()):
        return "no-namespace"
    mounts = linux.mount_extensions
    return "supported" if mounts and mounts.idmap and mounts.idmap.enabled else "no-idmap"


@dataclass(kw_only=True)
class Introspection:
    """One runtime on its way into the list of ``handlers``; with the *profile* ``as-written`` as it was in March 2024.

    >>> found = Introspection(name="runc", runtime=Runtime(), service=Commands(), kernel_has_rro=True, default=True)
    >>> found.stage("runtime-type"), found.stage("request")
    ('runc', 'by-type')
    >>> found.request
    RuntimeRequest(runtime_path='io.containerd.runc.v2', options=None)
    """

    name: str
    runtime: Runtime
    service: Service
    kernel_has_rro: bool
    default: bool = False
    profile: str = ""
    handlers: list[RuntimeHandler] = field(default_factory=list)
    request: RuntimeRequest | None = None
    extra: Packed | None = None
    features: Features | None = None
    failures: list[str] = field(default_factory=list)
    """Which runtimes nothing could be found out of, and why: what containerd writes into its log."""

    def __post_init__(self) -> None:
        self._driver = _driver(self.profile)
        self._position = self._driver.position()
        self._names: set[str] = set()
        self._why = "it answered, and said nothing of it"
        self._options: Options | None = None
        self._stages: Mapping[str, Callable[[], str]] = {
            "runtime-type": self._type,
            "request": self._request,
            "plugin-info": self._plugin_info,
            "decode": self._decode,
            "mount-options": self._mount_options,
            "user-namespaces": self._user_namespaces,
            "list": lambda: "default" if self.default else "named",
        }

    @property
    def state(self) -> str:
        """The machine's name for where it is."""
        return self._position.state

    def run(self) -> None:
        """All that is still to be done; raises :class:`PanicError` if that ends containerd."""
        for stage in self._stages:
            if self._driver.offered(stage, self.state):
                self.stage(stage)
                if self.state == "panicked":
                    raise PanicError(f"the introspection of runtime {self.name!r} crashes containerd: {self._why}")

    def stage(self, event: str) -> str:
        """Do one stage, by the machine's name; how it went.

        Raises :class:`~fsm.machine.driver.CannotHappenError` where it is not its turn.
        """
        self._names = {way.name for way in self._position.outcomes(event)}
        stood = self._position.state
        way = self._position.take(event, self._stages[event]())
        if way.to == "requested":
            self.request = RuntimeRequest(
                runtime_path=self.runtime.path if "RuntimePath.path" in way.emits else self.runtime.type,
                options=self._options if "Options" in way.emits else None,
            )
        for told in way.emits:
            if told == "failed":
                self.failures.append(f"{self.name}: {self._why}")
            elif told in {"handler", "default-handler"}:
                name = self.name if told == "handler" else ""
                self.handlers.append(RuntimeHandler(name=name, features=_SUPPORTED[stood]))
        return way.name

    def _or(self, as_written: str, right: str) -> str:
        """What happens *as written*, if that is how it is to be; else what is *right*."""
        return as_written if as_written in self._names else right

    def _type(self) -> str:
        if self.runtime.type == RUNC:
            return "runc"
        self._why = f"its type is {self.runtime.type}"
        return self._or("type-refused", "other")

    def _request(self) -> str:
        given = self.runtime.options
        if given is None:
            self._why = "it has no options"
            return self._or("no-options-panics", "by-path" if self.runtime.path else "by-type")
        kind = RuncOptions if self.runtime.type == RUNC else Options
        try:
            self._options = kind.model_validate(dict(given))
        except ValidationError as error:
            self._why = str(error)
            return "bad-options"
        return "by-path-with-options" if self.runtime.path else "by-type-with-options"

    def _plugin_info(self) -> str:
        assert self.request is not None  # noqa: S101  (else it is not the turn of this)
        try:
            self.extra = self.service.plugin_info(self.request)
        except IntrospectionError as error:
            self._why = str(error)
            return "failed"
        return "answered"

    def _decode(self) -> str:
        if self.extra is None:
            return "no-extra"
        try:
            info = _unpacked(RuntimeInfo, RUNTIME_INFO, self.extra)
        except ValueError as error:
            self._why = str(error)
            return "other-extra"
        if info.features is None:
            return "no-features"
        try:
            self.features = _unpacked(Features, FEATURES, info.features)
        except ValueError as error:
            self._why = str(error)
            return "other-features"
        return "features"

    def _mount_options(self) -> str:
        if RRO not in (self._known().mount_options or ()):
            return "no-rro"
        return "rro" if self.kernel_has_rro else "old-kernel"

    def _user_namespaces(self) -> str:
        found = _userns(self._known())
        if found == "no-linux":
            self._why = "its features document has no Linux part"
            return self._or("no-linux-panics", found)
        return found

    def _known(self) -> Features:
        assert self.features is not None  # noqa: S101  (else it is not the turn of this)
        return self.features


_SUPPORTED: Final[Mapping[str, RuntimeHandlerFeatures | None]] = {
    "unknown": None,
    "neither": RuntimeHandlerFeatures(),
    "mounts": RuntimeHandlerFeatures(recursive_read_only_mounts=True),
    "userns": RuntimeHandlerFeatures(user_namespaces=True),
    "both": RuntimeHandlerFeatures(recursive_read_only_mounts=True, user_namespaces=True),
}
"""What is listed of a handler, by the state in which it was when it was listed."""


def introspect_runtime_handlers(
    runtimes: Mapping[str, Runtime],
    default: str,
    service: Service,
    *,
    kernel_has_rro: bool,
    profile: str = "",
) -> list[RuntimeHandler]:
    """What Status lists of *runtimes*, by name, of which that called *default* is listed twice.

    Raises :class:`PanicError` where it is done as written, and that ends containerd.
    """
    handlers: list[RuntimeHandler] = []
    for name, runtime in runtimes.items():
        Introspection(
            name=name,
            runtime=runtime,
            service=service,
            kernel_has_rro=kernel_has_rro,
            default=name == default,
            profile=profile,
            handlers=handlers,
        ).run()
    return handlers


def _unpacked(kind: type[_Kind], url: str, packed: Packed) -> _Kind:
    """What is in *packed*, which has to be a *kind*; raises :class:`ValueError`.

    A value may also be text: what a command has printed.
    """
    if packed.type_url != url:
        raise ValueError(f"it is a {packed.type_url or 'value without a type'}, and not a {url}")
    if isinstance(packed.value, str):
        return kind.model_validate_json(packed.value)
    return kind.model_validate(packed.value)


@cache
def _driver(profile: str) -> Driver:
    machine = load("runtime-handlers")
    return Driver(machine.under(profile) if profile in machine.profiles else machine)
