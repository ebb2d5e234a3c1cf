"""The vocabulary of a fault file: which calls a proxy delays, fails or cancels."""

from typing import Annotated, Literal, TypeAlias

from pydantic import Field, StringConstraints

from fsm.language.grpc_codes import ErrorCode
from fsm.language.machine_file import Form

Do: TypeAlias = Literal["delay", "lose-reply", "fail", "cancel"]

MethodPattern: TypeAlias = Annotated[
    str, StringConstraints(pattern=r"^(\*|[A-Z][A-Za-z0-9]*|/[A-Za-z0-9_.]+/[A-Za-z0-9]+)$")
]
"""``OpenDoor``, the full path ``/house.v1.Doors/OpenDoor``, or ``*`` for any method."""


class WrittenFault(Form):
    """A fault, and the calls that it affects."""

    method: MethodPattern = Field(description="The method: its name, its full path, or * for any method.")
    id: str | None = Field(None, min_length=1, description="Affect only calls on the entity whose id begins with this.")
    nth: int | None = Field(None, ge=1, description="Affect only this matching call, counted from 1.")
    every: int | None = Field(None, ge=1, description="Affect only every Nth matching call.")
    probability: float | None = Field(None, ge=0, le=1, description="Affect each matching call with this probability.")
    seed: int = Field(0, description="Seed of the random choices; they are the same in every run.")
    do: Do = Field(description="What the proxy does to the call.")
    when: Literal["before", "after"] = Field(
        "before", description="With delay and fail: before the server is called, or after it has answered."
    )
    milliseconds: int = Field(0, ge=0, le=86_400_000, description="The delay, or the time until the call is cancelled.")
    code: ErrorCode = Field("UNAVAILABLE", description="Error code of a failed call.")
    message: str = Field("injected by fsm proxy", description="Message of a failed call.")


class WrittenFaults(Form):
    """Faults. The first one that matches a call happens."""

    fault: list[WrittenFault] = Field(min_length=1, description="The faults; the first that matches a call happens.")
