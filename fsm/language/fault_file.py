"""The vocabulary of a fault file, which says what a proxy does to which calls."""

from typing import Annotated, Literal, TypeAlias

from pydantic import Field, StringConstraints

from fsm.language.grpc_codes import ErrorCode
from fsm.language.machine_file import Form

Do: TypeAlias = Literal["delay", "lose-reply", "fail", "cancel"]

MethodPattern: TypeAlias = Annotated[
    str, StringConstraints(pattern=r"^(\*|[A-Z][A-Za-z0-9]*|/[A-Za-z0-9_.]+/[A-Za-z0-9]+)$")
]
"""``StopContainer``, the full path ``/runtime.v1.RuntimeService/StopContainer``, or ``*`` for any method."""


class WrittenFault(Form):
    """What happens to some calls."""

    method: MethodPattern = Field(description="The method: its name, its whole path, or * for every one.")
    id: str | None = Field(None, min_length=1, description="Only calls on the pod or container whose id begins so.")
    nth: int | None = Field(None, ge=1, description="Only this one of the calls that fit, counted from 1.")
    every: int | None = Field(None, ge=1, description="Only every so many of the calls that fit.")
    probability: float | None = Field(None, ge=0, le=1, description="Each call that fits, so likely.")
    seed: int = Field(0, description="The beginning of the random numbers: the same choices on every run.")
    do: Do = Field(description="What happens.")
    when: Literal["before", "after"] = Field(
        "before", description="Of a delay or a failure: before the runtime is asked, or after it has answered."
    )
    milliseconds: int = Field(0, ge=0, le=86_400_000, description="How long a delay is; of cancel, when it comes.")
    code: ErrorCode = Field("UNAVAILABLE", description="With what a call fails.")
    message: str = Field("injected by fsm proxy", description="The text of the failure.")


class WrittenFaults(Form):
    """Faults: of those that fit a call, the first happens."""

    fault: list[WrittenFault] = Field(min_length=1, description="What happens to some calls; the first that fits.")
