"""Clients' requests for pods and containers, and records of them that outlive a run of the server."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import TypeAlias

from fsm.runtimes.reference.node.command import Command
from fsm.runtimes.reference.nri.messages import Fields

Limits: TypeAlias = Mapping[str, int | str]
"""The limits that are set, as a mapping from CRI field name to value."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PodPlan:
    """A client's request for a pod. ``annotations`` and ``labels`` are returned unchanged.

    ``namespaces`` says whose network, processes and shared memory the pod sees, as numbered in CRI. ``files`` maps
    paths in its containers to file contents.
    """

    name: str
    uid: str = ""
    namespace: str = ""
    attempt: int = 0
    labels: Mapping[str, str] = field(default_factory=dict)
    annotations: Mapping[str, str] = field(default_factory=dict)
    runtime_handler: str = ""
    log_folder: str = ""
    namespaces: tuple[int, int, int] = (0, 0, 0)
    files: tuple[tuple[str, str], ...] = ()

    @property
    def full_name(self) -> str:
        return f"{self.name}_{self.namespace}_{self.uid}_{self.attempt}"


@dataclass(frozen=True, slots=True, kw_only=True)
class ContainerPlan:
    """A client's request for a container. ``annotations`` and ``labels`` are returned unchanged."""

    name: str
    attempt: int = 0
    image: str = ""
    image_id: str = ""
    image_name: str = ""
    image_digest: str = ""
    command: Command = field(default_factory=Command)
    labels: Mapping[str, str] = field(default_factory=dict)
    annotations: Mapping[str, str] = field(default_factory=dict)
    log_path: str = ""
    limits: Limits = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class ContainerRecord:
    """A container of the pod ``pod``, with the full name ``reserved``.

    ``made_at`` is its creation time. ``pid`` is the id of its first process, or 0 if it has none, and ``started_at`` is
    the time at which that process was started.
    """

    pod: str
    reserved: str
    plan: ContainerPlan
    made_at: int = 0
    pid: int = 0
    started_at: int = 0


def adjusted(plan: ContainerPlan, wanted: Fields) -> ContainerPlan:
    """Return *plan* with the limits, annotations and variables that plugins want, given by field name."""
    numbers = {name: each for name, each in wanted.items() if isinstance(each, int)}
    texts = {name.partition(".")[::2]: str(each) for name, each in wanted.items()}
    variables = {**plan.command.variables, **{key: text for (kind, key), text in texts.items() if kind == "env"}}
    return replace(
        plan,
        limits={**plan.limits, **numbers},
        annotations={**plan.annotations, **{key: text for (kind, key), text in texts.items() if kind == "annotation"}},
        command=replace(plan.command, environment=tuple(variables.items())),
    )
