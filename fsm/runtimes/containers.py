"""Container runtimes as a domain. Its models are those that fsm ships."""

from typing import Final

from fsm.entry_points import Domain

DOMAIN: Final = Domain(
    name="containers",
    about="Container runtimes: CRI, NRI and containerd.",
    client="fsm.runtimes.crictl:CRICTL",
    references={
        "container-events": "fsm.runtimes.reference.events.sut:EventsSUT",
        "container-status": "fsm.runtimes.reference.container.sut:ContainerSUT",
        "cri-service": "fsm.runtimes.reference.criservice.sut:CRIServiceSUT",
        "event-backoff": "fsm.runtimes.reference.events.sut:BackoffSUT",
        "event-monitor": "fsm.runtimes.reference.criservice.parts_sut:MonitorSUT",
        "nri-api": "fsm.runtimes.reference.nri.api_sut:NriApiSUT",
        "nri-container": "fsm.runtimes.reference.nri.sut:NriContainerSUT",
        "nri-plugin": "fsm.runtimes.reference.nri.plugin_sut:NriPluginSUT",
        "nri-pod": "fsm.runtimes.reference.nri.sut:NriPodSUT",
        "plugin-sync": "fsm.runtimes.reference.nri.sync_sut:PluginSyncSUT",
        "pod-sandbox": "fsm.runtimes.reference.pods.sut:PodsSUT",
        "runtime-handlers": "fsm.runtimes.reference.runtime_handlers.sut:RuntimeHandlersSUT",
        "sandbox-controller": "fsm.runtimes.reference.sandbox.sut:PodSandboxSUT",
        "service-construction": "fsm.runtimes.reference.criservice.parts_sut:ConstructionSUT",
    },
)
