"""The introspection of runtimes conforms to its machine, and planted bugs are found."""

from __future__ import annotations

import json
import subprocess
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

import pytest
from real_parts import program

from fsm.conformance.suite import conform
from fsm.language.library import load
from fsm.machine.driver import CannotHappenError
from fsm.runtimes.reference.runtime_handlers import (
    FEATURES,
    RUNTIME_INFO,
    Introspection,
    IntrospectionError,
    Packed,
    PanicError,
    RuncOptions,
    Runtime,
    RuntimeHandler,
    RuntimeHandlerFeatures,
    RuntimeHandlersSUT,
    RuntimeInfo,
    cri_userns,
)
from fsm.runtimes.reference.runtime_handlers import Features as Document

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pydantic import JsonValue

    from fsm.runtimes.reference.runtime_handlers import Options

IDMAP = {"idmap": {"enabled": True}}
RUNSC = "io.containerd.runsc.v1"


class Answers:
    def __init__(self, extra: Packed | None) -> None:
        self.extra = extra
        self.asked: list[tuple[str, Options | None]] = []

    def plugin_info(self, runtime_path: str, options: Options | None) -> Packed | None:
        self.asked.append((runtime_path, options))
        return self.extra


class Commands:
    """Runs the command ``features`` of the OCI runtimes on this machine, as the runc shim does."""

    def plugin_info(self, runtime_path: str, options: Options | None) -> Packed | None:
        del runtime_path
        name = options.binary_name if isinstance(options, RuncOptions) and options.binary_name else "runc"
        try:
            ran = subprocess.run([name, "features"], capture_output=True, check=False)
        except FileNotFoundError:
            raise IntrospectionError(f"there is no {name}") from None
        features = Packed(type_url=FEATURES, value=ran.stdout.decode()) if ran.returncode == 0 else None
        return Packed(type_url=RUNTIME_INFO, value=RuntimeInfo(name=name, features=features).model_dump())


def introspect_runtime_handlers(
    runtimes: Mapping[str, Runtime],
    default: str,
    service: Answers | Commands,
    *,
    kernel_has_rro: bool,
    profile: str = "",
) -> list[RuntimeHandler]:
    """Return the handlers that Status lists for *runtimes*.

    The default runtime is listed twice. Raises :class:`PanicError` if the introspection crashes.
    """
    handlers: list[RuntimeHandler] = []
    every = partial(
        Introspection,
        plugin_info=service.plugin_info,
        kernel_has_rro=kernel_has_rro,
        profile=profile,
        handlers=handlers,
    )
    for name, runtime in runtimes.items():
        every(name=name, runtime=runtime, default=name == default).run()
    return handlers


def answering(document: Mapping[str, object]) -> Answers:
    features: dict[str, JsonValue] = {"type_url": FEATURES, "value": json.dumps(document)}
    return Answers(Packed(type_url=RUNTIME_INFO, value={"name": "runsc", "features": features}))


def found(
    document: Mapping[str, object], *, kernel_has_rro: bool = True, profile: str = ""
) -> RuntimeHandlerFeatures | None:
    runtimes = {"runc": Runtime(options={})}
    (handler,) = introspect_runtime_handlers(
        runtimes, "", answering(document), kernel_has_rro=kernel_has_rro, profile=profile
    )
    return handler.features


@pytest.mark.parametrize(
    ("document", "mounts", "userns"),
    [
        ({}, False, False),
        ({"mountOptions": None, "linux": None}, False, False),
        ({"mountOptions": ["ro"], "linux": {}}, False, False),
        ({"mountOptions": ["rro"]}, True, False),
        ({"linux": {"namespaces": ["user"], "mountExtensions": IDMAP}}, False, True),
        ({"linux": {"namespaces": ["user"]}}, False, False),
        ({"linux": {"namespaces": ["user"], "mountExtensions": None}}, False, False),
        ({"linux": {"namespaces": ["user"], "mountExtensions": {"idmap": None}}}, False, False),
        ({"linux": {"namespaces": ["user"], "mountExtensions": {"idmap": {"enabled": None}}}}, False, False),
        ({"linux": {"namespaces": ["user"], "mountExtensions": {"idmap": {"enabled": False}}}}, False, False),
        ({"linux": {"namespaces": None, "mountExtensions": IDMAP}}, False, False),
        ({"linux": {"namespaces": ["pid"], "mountExtensions": IDMAP}}, False, False),
        ({"mountOptions": ["rro"], "linux": {"namespaces": ["user"], "mountExtensions": IDMAP}}, True, True),
        ({"mountOptions": ["rro"], "annotations": {"a": "b"}, "hooks": [], "later": 1}, True, False),
    ],
    ids=str,
)
def test_the_features_of_a_document(document: dict[str, object], *, mounts: bool, userns: bool) -> None:
    assert RuntimeHandlerFeatures(recursive_read_only_mounts=mounts, user_namespaces=userns) == found(document)
    assert userns == (cri_userns(Document.model_validate(document)) == "supported")


def test_an_old_kernel_has_no_recursive_read_only_mounts() -> None:
    assert RuntimeHandlerFeatures() == found({"mountOptions": ["rro"]}, kernel_has_rro=False)


@pytest.mark.parametrize(
    ("runtime", "path", "options"),
    [
        (Runtime(type=RUNSC), RUNSC, None),
        (Runtime(type=RUNSC, options={"ConfigPath": "/etc/runsc.toml"}), RUNSC, {"config_path": "/etc/runsc.toml"}),
        (Runtime(), "io.containerd.runc.v2", None),
        (Runtime(path="/bin/crun-shim"), "/bin/crun-shim", None),
        (Runtime(options={"BinaryName": "crun"}), "io.containerd.runc.v2", {"binary_name": "crun"}),
    ],
    ids=str,
)
def test_the_request_for_a_runtime(runtime: Runtime, path: str, options: dict[str, object] | None) -> None:
    """Runtimes of every type are queried, with their options if they have any."""
    service = answering({"mountOptions": ["rro"]})

    (handler,) = introspect_runtime_handlers({"it": runtime}, "other", service, kernel_has_rro=True)

    assert RuntimeHandlerFeatures(recursive_read_only_mounts=True) == handler.features
    ((asked, given),) = service.asked
    assert (path, options) == (asked, given.model_dump(exclude_defaults=True) if given else None)


@pytest.mark.parametrize(
    "extra",
    [
        None,
        Packed(type_url="", value=None),
        Packed(type_url=RUNTIME_INFO, value=[]),
        Packed(type_url=RUNTIME_INFO, value="{"),
        Packed(type_url=RUNTIME_INFO, value={"name": "old"}),
        Packed(type_url=RUNTIME_INFO, value={"name": "new", "features": {"type_url": "else", "value": {}}}),
        Packed(type_url=RUNTIME_INFO, value={"name": "bad", "features": {"type_url": FEATURES, "value": "no json"}}),
        Packed(type_url=RUNTIME_INFO, value={"name": "bad", "features": {"type_url": FEATURES, "value": {"linux": 1}}}),
    ],
    ids=str,
)
def test_an_unknown_runtime_is_listed_without_features(extra: Packed | None) -> None:
    """An unknown runtime is listed without features, and the default runtime also under an empty name."""
    for profile in ("", "upstream"):
        listed = introspect_runtime_handlers(
            {"it": Runtime(options={})}, "it", Answers(extra), kernel_has_rro=True, profile=profile
        )

        assert [RuntimeHandler(name="it"), RuntimeHandler(name="")] == listed


def test_the_default_is_listed_twice() -> None:
    runtimes = {"a": Runtime(), "b": Runtime(type=RUNSC), "c": Runtime(options={"SystemdCgroup": "perhaps"})}

    listed = introspect_runtime_handlers(runtimes, "b", answering({"mountOptions": ["rro"]}), kernel_has_rro=True)

    rro = RuntimeHandlerFeatures(recursive_read_only_mounts=True)
    assert [("a", rro), ("b", rro), ("", rro), ("c", None)] == [(each.name, each.features) for each in listed]


def test_upstream_crashes() -> None:
    """Containerd crashes if an optional part is missing, and queries only runtimes of one type."""
    with pytest.raises(
        PanicError, match=r"^the introspection of runtime 'runc' .*: its features document has no Linux"
    ):
        found({"mountOptions": ["rro"]}, profile="upstream")
    with pytest.raises(PanicError, match=r"'it' crashes containerd: it has no options$"):
        introspect_runtime_handlers({"it": Runtime()}, "it", answering({}), kernel_has_rro=True, profile="upstream")

    assert RuntimeHandlerFeatures(user_namespaces=True) == found(
        {"linux": {"namespaces": ["user"], "mountExtensions": IDMAP}}, profile="upstream"
    )
    other = introspect_runtime_handlers(
        {"it": Runtime(type=RUNSC, options={})}, "", answering({"linux": {}}), kernel_has_rro=True, profile="upstream"
    )
    assert [RuntimeHandler(name="it")] == other


def test_no_stage_follows_a_crash() -> None:
    it = Introspection(
        name="it",
        runtime=Runtime(),
        plugin_info=answering({}).plugin_info,
        kernel_has_rro=True,
        profile="upstream",
        default=True,
    )
    with pytest.raises(PanicError):
        it.run()

    assert ("panicked", []) == (it.state, it.handlers)
    with pytest.raises(CannotHappenError):
        it.stage("list")


def test_a_runtime_of_this_machine_is_asked() -> None:
    program("runc")
    listed = introspect_runtime_handlers({"runc": Runtime()}, "runc", Commands(), kernel_has_rro=True)

    assert ["runc", ""] == [each.name for each in listed]
    assert all(each.features and each.features.recursive_read_only_mounts for each in listed)


def test_a_runtime_without_the_command_has_no_features() -> None:
    runtimes = {"false": Runtime(options={"BinaryName": "false"}), "none": Runtime(options={"BinaryName": "no-such"})}

    listed = introspect_runtime_handlers(runtimes, "", Commands(), kernel_has_rro=True)

    assert [RuntimeHandler(name="false"), RuntimeHandler(name="none")] == listed


@pytest.mark.parametrize("profile", [None, "upstream"])
def test_passes_the_test_of_its_machine(profile: str | None) -> None:
    tested = conform(
        load("runtime-handlers"), lambda: RuntimeHandlersSUT(profile or ""), profile=profile, examples=3, steps=10
    )

    assert ((), ()) == (tested.failures, tested.missed)
    assert (set() if profile is None else {"by-path", "by-type", "no-linux"}) == {way for _, way in tested.unarranged}


class MovedError(Exception):
    """Raised if a planted bug has changed the state unexpectedly."""


class _Moving(Introspection):
    def stage(self, event: str) -> str:
        try:
            return super().stage(event)
        except MovedError:
            return ""


class RefusesOthers(_Moving):
    def _type(self) -> str:
        if self.runtime.type == RUNSC:
            self.position = self._driver.position("unknown")
            self.failures.append(self.runtime.type)
            raise MovedError
        return super()._type()


class NeedsOptions(_Moving):
    def _request(self) -> str:
        if self.runtime.options is None:
            self.position = self._driver.position("panicked")
            raise MovedError
        return super()._request()


class NeedsLinux(_Moving):
    def _user_namespaces(self) -> str:
        if self.features and self.features.linux is None:
            self.position = self._driver.position("panicked")
            raise MovedError
        return super()._user_namespaces()


class ForgetsThePath(Introspection):
    def _request(self) -> str:
        self.runtime = replace(self.runtime, path="")
        return super()._request()


class DropsOptions(Introspection):
    def stage(self, event: str) -> str:
        outcome = super().stage(event)
        if self.request:
            self.request = self.request[0], None
        return outcome


class TakesBadOptions(Introspection):
    def _request(self) -> str:
        outcome = super()._request()
        return "by-type-with-options" if outcome == "bad-options" else outcome


class GivesUp(Introspection):
    def _plugin_info(self) -> str:
        outcome = super()._plugin_info()
        if outcome == "failed":
            raise IntrospectionError(self._why)
        return outcome


class BelievesAnything(Introspection):
    def _decode(self) -> str:
        outcome = super()._decode()
        if outcome == "other-features":
            self.features = Document()
            return "features"
        return outcome


class IgnoresTheKernel(Introspection):
    """An introspection that lists recursive read-only mounts even if the kernel lacks them."""

    def _mount_options(self) -> str:
        outcome = super()._mount_options()
        return "rro" if outcome == "old-kernel" else outcome


class IgnoresTheList(Introspection):
    """An introspection that lists recursive read-only mounts for every runtime if the kernel is new."""

    def _mount_options(self) -> str:
        return "rro" if self.kernel_has_rro else "old-kernel"


class NeedsNoIdmap(Introspection):
    def _user_namespaces(self) -> str:
        outcome = super()._user_namespaces()
        return "supported" if outcome == "no-idmap" else outcome


class NeedsNoNamespace(Introspection):
    def _user_namespaces(self) -> str:
        outcome = super()._user_namespaces()
        return "supported" if outcome == "no-namespace" else outcome


class HasNoDefault(Introspection):
    def stage(self, event: str) -> str:
        outcome = super().stage(event)
        del self.handlers[1:]
        return outcome


class DefaultWithoutFeatures(Introspection):
    def stage(self, event: str) -> str:
        outcome = super().stage(event)
        self.handlers[1:] = [replace(each, features=None) for each in self.handlers[1:]]
        return outcome


class UnknownIsUnsupported(Introspection):
    def stage(self, event: str) -> str:
        outcome = super().stage(event)
        self.handlers[:] = [replace(each, features=each.features or RuntimeHandlerFeatures()) for each in self.handlers]
        return outcome


TO_DOCUMENT = "runtime-type; request; plugin-info; decode"
TO_LISTING = f"{TO_DOCUMENT}; mount-options; user-namespaces; list"

BUGS: dict[type[Introspection], str] = {
    RefusesOthers: "runtime-type",
    NeedsOptions: "runtime-type; request",
    NeedsLinux: f"{TO_DOCUMENT}; mount-options; user-namespaces",
    ForgetsThePath: "runtime-type; request",
    DropsOptions: "runtime-type; request",
    TakesBadOptions: "runtime-type; request",
    GivesUp: "runtime-type; request; plugin-info",
    BelievesAnything: TO_DOCUMENT,
    IgnoresTheKernel: TO_LISTING,
    IgnoresTheList: TO_LISTING,
    NeedsNoIdmap: TO_LISTING,
    NeedsNoNamespace: TO_LISTING,
    HasNoDefault: "runtime-type; request; list",
    DefaultWithoutFeatures: TO_LISTING,
    UnknownIsUnsupported: "runtime-type; request; list",
}


@pytest.mark.parametrize("kind", BUGS, ids=lambda kind: kind.__name__)
def test_a_bug_is_found_by_the_shortest_test(kind: type[Introspection]) -> None:
    tested = conform(load("runtime-handlers"), lambda: RuntimeHandlersSUT(kind=kind), examples=0, most=1)

    assert ["; ".join(step.event for step in each.steps) for each in tested.failures] == [BUGS[kind]], [
        ("; ".join(map(str, each.steps)), each.broken, each.violation and each.violation.illegal)
        for each in tested.failures
    ]
