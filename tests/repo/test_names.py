"""``docs/reference/names.md`` lists the counterparts of each name in the sources.

Every listed counterpart exists, and no name is missing.
"""

from __future__ import annotations

import pkgutil
import re
from pathlib import Path

import pytest

from fsm.language.library import claims, load, load_system, systems

TEXT = (Path(__file__).resolve().parent.parent.parent / "docs" / "reference" / "names.md").read_text(encoding="utf-8")
ROWS = [[cell.strip() for cell in line.strip("|").split("|")] for line in TEXT.splitlines() if line.startswith("| `")]
RELAYED = (
    "RunPodSandbox StopPodSandbox RemovePodSandbox CreateContainer PostCreateContainer StartContainer "
    "PostStartContainer UpdateContainer PostUpdateContainer StopContainer NotifyContainerExit RemoveContainer"
)
EXPORTED = {
    *["Status", "Status.State", "UpdateFunc", "StatusStorage", "StoreStatus", "LoadStatus"],
    *(f"StatusStorage.{name}" for name in ["Get", "UpdateSync", "Update", "Delete"]),
    *["CREATED", "RUNNING", "EXITED", "UNKNOWN", "DELETED", "READY", "NOTREADY"],
    *[
        "API",
        "New",
        "PluginSyncBlock",
        "State",
        "Created",
        "Running",
        "Stopped",
        "Removed",
        "RegisterDomain",
        "Domain",
        "Config",
        "DefaultConfig",
    ],
    *(f"API.{name}" for name in f"IsEnabled Start Stop BlockPluginSync {RELAYED}".split()),
    *["Config.ConfigureTimeouts", "PodSandbox", "LinuxPodSandbox", "Container", "LinuxContainer"],
    *["Controller", "Controller.Platform", "Controller.Wait", "Controller.Update", "RuntimeService", "ImageService"],
    *[
        "CRIService",
        "CRIService.Run",
        "CRIService.Close",
        "CRIService.IsInitialized",
        "NewCRIService",
        "CRIServiceOptions",
    ],
    "criService.BackOffEvent",
    *(
        f"{of}.{name}"
        for of, names in {
            "Domain": "GetName ListPodSandboxes ListContainers GetPodSandbox GetContainer UpdateContainer EvictContainer",
            "PodSandbox": "GetDomain GetID GetName GetUID GetNamespace GetLabels GetAnnotations GetRuntimeHandler "
            "GetLinuxPodSandbox GetPid",
            "LinuxPodSandbox": "GetLinuxNamespaces GetPodLinuxOverhead GetPodLinuxResources GetCgroupParent "
            "GetCgroupsPath GetLinuxResources",
            "Container": "GetDomain GetPodSandboxID GetID GetName GetState GetLabels GetAnnotations GetArgs GetEnv "
            "GetMounts GetHooks GetLinuxContainer GetPid",
            "LinuxContainer": "GetLinuxNamespaces GetLinuxDevices GetLinuxResources GetOOMScoreAdj GetCgroupsPath",
            "RuntimeService": "Config LoadOCISpec",
            "ImageService": "RuntimeSnapshotter PullImage UpdateImage CheckImages GetImage GetSnapshot LocalResolve "
            "ImageFSPaths PinnedImage",
        }.items()
        for name in names.split()
    ),
}
"""The names that the five sources export, including states."""


def test_none_is_missing() -> None:
    named = set()
    for row in ROWS:
        first, *others = re.findall(r"`([^`]+)`", row[0])
        named |= {first, *(first.partition(".")[0] + each if each.startswith(".") else each for each in others)}
    assert EXPORTED - named == set()


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row[0])
def test_it_is_there(row: list[str]) -> None:
    _, model, stated, reference = (cell.strip("`") for cell in row)
    name, _, what = (part.strip() for part in model.partition(":"))

    if name in systems():
        assert not what or what in {joint.family for joint in load_system(name).events.values()}
    else:
        machine = load(name)
        assert not what or what in machine.events or what in machine.states
    assert stated in {each.name for each in claims(name).properties}
    if reference != "—":
        pkgutil.resolve_name(reference)
