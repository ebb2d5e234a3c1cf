"""The codes with which a call of gRPC may fail: a module of its own, since what reads calls need not load what reads files."""

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

CODES: Final = ("OK", *get_args(ErrorCode))
"""The codes of gRPC by their numbers."""
