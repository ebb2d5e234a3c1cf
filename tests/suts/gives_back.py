"""A judge for ``nri_plugin.py``, a plugin that must assign its only CPU and take it back."""

from __future__ import annotations

from typing import Any

CPUS = 1


class GivesBack:
    """A judge that requires a CPU for each new container as long as one is free."""

    def __init__(self, pods: list[dict[str, Any]], containers: list[dict[str, Any]]) -> None:
        del pods
        self.there = {each["id"] for each in containers}
        self.cpus: dict[str, str] = {}

    def on(
        self, event: str, pod: dict[str, Any], container: dict[str, Any] | None, answer: dict[str, Any]
    ) -> str | None:
        del pod
        if event == "CreateContainer" and container is not None:
            cpu = answer.get("adjust", {}).get("linux", {}).get("resources", {}).get("cpu", {}).get("cpus", "")
            if cpu in self.cpus.values():
                return f"CPU {cpu} is another container's"
            if not cpu and len(self.there) < CPUS:
                return f"{container['name']} got no CPU, though one is free"
            self.there.add(container["id"])
            if cpu:
                self.cpus[container["id"]] = cpu
        elif event == "RemoveContainer" and container is not None:
            self.there.discard(container["id"])
            self.cpus.pop(container["id"], None)
        return None
