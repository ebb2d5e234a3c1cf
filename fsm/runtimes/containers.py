"""The container-runtime domain, whose models ship with fsm."""

from typing import Final

from fsm.entry_points import Domain

DOMAIN: Final = Domain(
    name="containers",
    about="Container runtimes: CRI, NRI and containerd.",
    client="fsm.runtimes.crictl:CRICTL",
    codes="fsm.runtimes:codes.toml",
    references={
        "container-events": "fsm.runtimes.reference.events.sut:EventsSUT",
        "container-status": "fsm.runtimes.reference.container.sut:ContainerSUT",
        "cri-service": "fsm.runtimes.reference.criservice.sut:CRIServiceSUT",
        "event-backoff": "fsm.runtimes.reference.events.sut:BackoffSUT",
        "event-monitor": "fsm.runtimes.reference.criservice.parts_sut:MonitorSUT",
        "nri-api": "fsm.runtimes.reference.nri.sut:NriApiSUT",
        "nri-container": "fsm.runtimes.reference.nri.sut:NriContainerSUT",
        "nri-plugin": "fsm.runtimes.reference.nri.plugin_sut:NriPluginSUT",
        "nri-pod": "fsm.runtimes.reference.nri.sut:NriPodSUT",
        "plugin-sync": "fsm.runtimes.reference.nri.plugin_sut:PluginSyncSUT",
        "pod-sandbox": "fsm.runtimes.reference.pods.sut:PodsSUT",
        "runtime-handlers": "fsm.runtimes.reference.runtime_handlers:RuntimeHandlersSUT",
        "sandbox-controller": "fsm.runtimes.reference.pods.sut:PodSandboxSUT",
        "service-construction": "fsm.runtimes.reference.criservice.parts_sut:ConstructionSUT",
    },
    examples={
        "": ("fsm judge /var/log/containerd.log", "journalctl -u containerd -o json | fsm judge -"),
        "check": ("fsm check nri-plugin-contract --parts container=any",),
        "convert": ("fsm convert containerd.log -o containerd.parquet",),
        "cover": ("fsm cover --format sh cri-calls.jsonl > missing.sh",),
        "diff": ("fsm diff container-status internal/cri/store/container/status.go",),
        "draw": ("fsm draw --sequence nri-events.jsonl --with cri-calls.jsonl -o calls.svg",),
        "explore": ("fsm explore node -o node.html", "fsm explore containerd.log -o what-happened.html"),
        "judge": (
            "fsm judge --rotated /var/log/containerd.log*",
            "journalctl -u containerd -o json | fsm judge --profile containerd-1.6 -",
            "fsm judge nri-events.jsonl --with cri-calls.jsonl",
        ),
        "mutate": ("fsm mutate --recording nri-events.jsonl --with cri-calls.jsonl --profile containerd-2.1",),
        "show": ("fsm show container-status --event StopContainer --profile containerd-1.6",),
        "test": (
            "fsm test container-status --against reference",
            "fsm test cri-container --against cri:unix:///run/containerd/containerd.sock --profile containerd-1.7",
            (
                "fsm test nri-plugin-contract --against cri:unix:///run/containerd/containerd.sock"
                " --nri unix:///run/nri/nri.sock"
            ),
        ),
    },
)
