"""What error texts of containerd say: a gRPC code, and the state that the call met."""

from __future__ import annotations

import re
from typing import Final

_GRPC: Final = re.compile(r"^rpc error: code = (\w+) desc = (.*)", re.DOTALL)
_STATE: Final = re.compile(r"\bcontainer is in (CONTAINER_[A-Z]+) state$")
_NO_CONTAINER: Final = re.compile(
    r"^(?:failed to exec in container: )?(?:an error occurred when try to find container|failed to find container|"
    r"could not find container)\b.*not found$"
)
_NO_POD: Final = re.compile(
    r"^(?:an error occurred when try to find sandbox|failed to find sandbox(?: id)?)\b.*not found$"
)
_NOBODY: Final = re.compile(
    r"Multiple IDs found with provided prefix|prefix can't be empty|server is not initialized yet", re.IGNORECASE
)
_CANCELED: Final = re.compile(r"context canceled$")
_TOO_LATE: Final = re.compile(r"context deadline exceeded$")

ABSENT: Final = "absent"


def split(error: str) -> tuple[str, str]:
    """The code and the text of *error*, as a client would get them.

    >>> split("rpc error: code = NotFound desc = an error occurred when try to find container")
    ('NOT_FOUND', 'an error occurred when try to find container')
    >>> split("failed to stop container: context deadline exceeded")
    ('DEADLINE_EXCEEDED', 'failed to stop container: context deadline exceeded')
    """
    found = _GRPC.match(error)
    name, text = (found[1], found[2]) if found else ("Unknown", error)
    code = re.sub(r"(?<=[a-z])(?=[A-Z])", "_", name).upper()
    # A handler that wraps the error of its context keeps the text and loses the code.
    if code == "UNKNOWN" and _TOO_LATE.search(text):
        code = "DEADLINE_EXCEEDED"
    elif code == "UNKNOWN" and _CANCELED.search(text):
        code = "CANCELED"
    return code, text


def met(text: str, *, pod: bool) -> str:
    """The state that the call met, where *text* names it; else nothing.

    >>> met("failed to exec in container: container is in CONTAINER_EXITED state", pod=False)
    'CONTAINER_EXITED'
    """
    if (_NO_POD if pod else _NO_CONTAINER).search(text):
        return ABSENT
    state = None if pod else _STATE.search(text)
    return state[1] if state else ""


def met_nobody(text: str) -> bool:
    """Whether *text* says that the call reached no container and no pod: its id fits none or several, or it came too early.

    >>> met_nobody("an error occurred when try to find container: Prefix can't be empty")
    True
    """
    return _NOBODY.search(text) is not None
