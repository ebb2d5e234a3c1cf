"""gRPC error codes, in a separate module so that readers of calls need not load readers of files."""

from typing import Final, Literal, TypeAlias, get_args

ErrorCode: TypeAlias = Literal[
    "CANCELED",
    "UNKNOWN",
    "INVALID_ARGUMENT",
    "DEADLINE_EXCEEDED",
    "NOT_FOUND",
    "ALREADY_EXISTS",
    "PERMISSION_DENIED",
    "RESOURCE_EXHAUSTED",
    "FAILED_PRECONDITION",
    "ABORTED",
    "OUT_OF_RANGE",
    "UNIMPLEMENTED",
    "INTERNAL",
    "UNAVAILABLE",
    "DATA_LOSS",
    "UNAUTHENTICATED",
]

CODES: Final = ("OK", *get_args(ErrorCode))  # all gRPC codes, in numerical order
