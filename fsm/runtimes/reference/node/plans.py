"""What clients want of pods and containers, and what is kept of it from one run of the server to the next."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import TypeAlias

from fsm.runtimes.reference.node.command import Command
from fsm.runtimes.reference.nri.messages import Fields

Limits: TypeAlias = Mapping[str, int | str]
"""Limits that are set, by the names of their fields in CRI."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PodPlan:
    """What a client wants of a pod; ``annotations`` and ``labels`` are given back as they are.

    ``namespaces`` are whose network, processes and shared memory it sees, as CRI numbers them; ``files`` are texts
    that its containers find, by their paths.
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
    """What a client wants of a container; ``annotations`` and ``labels`` are given back as they are."""

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
    """A container in the pod ``pod``, whose name in full is ``reserved``.

    ``made_at`` is when it was made, ``pid`` the number of its first process, or 0, and ``started_at`` when that was started.
    """

    pod: str
    reserved: str
    plan: ContainerPlan
    made_at: int = 0
    pid: int = 0
    started_at: int = 0


def adjusted(plan: ContainerPlan, wanted: Fields) -> ContainerPlan:
    """*plan* with the limits, annotations and variables that plugins want, by the names of such fields."""
    numbers = {name: each for name, each in wanted.items() if isinstance(each, int)}
    texts = {name.partition(".")[::2]: str(each) for name, each in wanted.items()}
    variables = {**plan.command.variables, **{key: text for (kind, key), text in texts.items() if kind == "env"}}
    return replace(
        plan,
        limits={**plan.limits, **numbers},
        annotations={**plan.annotations, **{key: text for (kind, key), text in texts.items() if kind == "annotation"}},
        command=replace(plan.command, environment=tuple(variables.items())),
    )
