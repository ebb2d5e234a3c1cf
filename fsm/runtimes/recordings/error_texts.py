"""Extract the gRPC code, and the state that a call met, from containerd's error texts."""

import re
from typing import Final

from fsm.trace import ABSENT

_GRPC: Final = re.compile(r"^rpc error: code = (\w+) desc = (.*)", re.DOTALL)
_STATE: Final = re.compile(r"\bcontainer is in (CONTAINER_[A-Z]+) state\b")
_NO_CONTAINER: Final = re.compile(
    r"^(?:failed to exec in container: )?(?:an error occurred when try to find container|failed to find container|"
    r"could not find container)\b.*\bnot found\b"
)
_NO_POD: Final = re.compile(
    r"^(?:an error occurred when try to find sandbox|failed to find sandbox(?: id)?)\b.*\bnot found\b"
)
_UNRESOLVED: Final = re.compile(
    r"Multiple IDs found with provided prefix|prefix can't be empty|server is not initialized yet|"
    r"^failed to connect to all addresses|^connection error: desc = \"transport: error while dialing",
    re.IGNORECASE,
)
_STARTING: Final = "server is not initialized yet"
_ENDED: Final = re.compile(r"\bcontext (canceled|deadline exceeded)\b")


def split(error: str) -> tuple[str, str]:
    """Split *error* into the code and the text that a client would receive.

    >>> split("rpc error: code = NotFound desc = an error occurred when try to find container")
    ('NOT_FOUND', 'an error occurred when try to find container')
    >>> split("failed to stop container: context deadline exceeded")
    ('DEADLINE_EXCEEDED', 'failed to stop container: context deadline exceeded')
    """
    found = _GRPC.match(error)
    name, text = (found[1], found[2]) if found else ("Unknown", error)
    return meant(capitals(name), text), text


def capitals(code: str) -> str:
    """Convert the gRPC *code* from the spelling of Go or another language to that of the protocol.

    >>> capitals("DeadlineExceeded"), capitals("CANCELLED"), capitals("OK")
    ('DEADLINE_EXCEEDED', 'CANCELED', 'OK')
    """
    return re.sub(r"(?<=[a-z])(?=[A-Z])", "_", code).upper().replace("CANCELLED", "CANCELED")


def meant(code: str, text: str) -> str:
    """Return *code*, or the code of the context error in *text*, because wrapping an error loses its code.

    >>> meant("UNKNOWN", "failed to kill container: context canceled: unknown")
    'CANCELED'
    """
    ended = _ENDED.search(text) if code == "UNKNOWN" else None
    if ended is None:
        return code
    return "CANCELED" if ended[1] == "canceled" else "DEADLINE_EXCEEDED"


def met(text: str, *, pod: bool) -> str:
    """Return the state that the call met if *text* names it, or an empty string otherwise.

    >>> met("failed to exec in container: container is in CONTAINER_EXITED state", pod=False)
    'CONTAINER_EXITED'
    """
    if (_NO_POD if pod else _NO_CONTAINER).search(text):
        return ABSENT
    state = None if pod else _STATE.search(text)
    return state[1] if state else ""


def unresolved(text: str) -> bool:
    """Check whether *text* means that the call reached no container or pod.

    This is so if the id was ambiguous or empty, or if the call came too early or was not sent. The error texts of gRPC
    clients in C++ and Go begin like this if the client cannot connect.

    >>> unresolved("an error occurred when try to find container: Prefix can't be empty")
    True
    >>> unresolved("failed to connect to all addresses; last error: UNKNOWN: connection refused")
    True
    """
    return _UNRESOLVED.search(text) is not None


def unanswered(code: str, text: str) -> bool:
    """Check whether a call that ended with *code* and *text* found no runtime to answer it.

    >>> unanswered("UNKNOWN", "server is not initialized yet")
    True
    """
    return code == "UNAVAILABLE" or _STARTING in text
