"""Parse log lines and error texts of containerd.

containerd writes its log as logfmt or JSON, and journald, syslog and log collectors wrap each line in their own format.
This module extracts the message, timestamp and error from a line, and the code and state from an error text.
"""

import re
from typing import Final, NamedTuple

import msgspec

from fsm.recordings.line_reader import decoded
from fsm.trace import ABSENT

_QUOTED: Final = r'"([^"\\]*(?:\\.[^"\\]*)*)"'  # an alternation for each character would take five times as long
_LOGFMT: Final = re.compile(rf'time="([^"]*)" level=\w+ msg={_QUOTED}(.*)', re.DOTALL)
_TERMINAL: Final = re.compile(r"^(?:\x1b\[\d+m)?[A-Z]{4}(?:\x1b\[0m)?\[([^\]]+)\] (.*)", re.DOTALL)
_FIELD: Final = re.compile(rf'(?:^|\s)(?:\x1b\[\d+m)?(error|version|id)(?:\x1b\[0m)?=(?:{_QUOTED}|([^\s"]\S*))')
_ESCAPE: Final = re.compile(r"\\(x[0-9a-fA-F]{2}|u[0-9a-fA-F]{4}|.)", re.DOTALL)
_PLAIN: Final = {"n": "\n", "t": "\t", "r": "\r"}
_FRAMES: Final = 4  # maximum number of nested formats to unwrap, such as a log collector's and journald's


class Entry(NamedTuple):
    message: str
    at: str
    error: str
    version: str


class _Json(msgspec.Struct, gc=False):
    msg: str | None = None
    time: str | None = None
    error: str | None = None
    version: str | None = None
    journal: str | list[int] | None = msgspec.field(name="MESSAGE", default=None)
    log: str | None = None
    message: str | None = None


_DECODER: Final = msgspec.json.Decoder(_Json)


def entry(line: bytes) -> Entry | None:
    r"""Return the containerd log message in *line*, or ``None`` if *line* has no such message.

    >>> entry(b'Nov 20 11:03:20 n1 containerd[7]: time="T" level=info msg="StopContainer for \\"c1\\"" error=x').message
    'StopContainer for "c1"'
    """
    return _parse_entry(line.decode("utf-8", errors="replace"), _FRAMES)


def _parse_entry(text: str, frames: int) -> Entry | None:
    at = text.find("{")
    if at >= 0 and text.find('time="', 0, at) < 0 and (found := _json(text[at:], frames)) is not None:
        return found
    logfmt = _LOGFMT.search(text)
    if logfmt is not None:
        return _entry_with_fields(unescaped(logfmt[2]), logfmt[1], logfmt[3])
    terminal = _TERMINAL.match(text)
    if terminal is not None:
        return _entry_with_fields(terminal[2].split("  ")[0].rstrip(), terminal[1], terminal[2])
    return None


def _json(text: str, frames: int) -> Entry | None:
    found = decoded(text, _DECODER)
    if found is None:
        return None
    if found.msg is not None:
        return Entry(found.msg, found.time or "", found.error or "", found.version or "")
    inner = found.journal if found.journal is not None else found.log or found.message
    if isinstance(inner, list):
        # journald writes a message that is not plain text as a list of bytes.
        inner = bytes(each for each in inner if 0 <= each < 256).decode("utf-8", errors="replace")  # noqa: PLR2004
    return _parse_entry(inner, frames - 1) if inner and frames else None


def _entry_with_fields(message: str, at: str, fields: str) -> Entry:
    found: dict[str, str] = {}
    for name, quoted, bare in _FIELD.findall(fields):
        found.setdefault(name, bare or unescaped(quoted))
    return Entry(message, at, found.get("error", ""), found.get("version", ""))


def unescaped(text: str) -> str:
    r"""Resolve the escape sequences in *text*, the content of a quoted Go string.

    >>> unescaped(r'StopContainer for \"c1\"\n')
    'StopContainer for "c1"\n'
    """
    if text.count("\\") == text.count('\\"'):  # as in nearly all messages, only quotation marks are escaped
        return text.replace('\\"', '"')
    return _ESCAPE.sub(_unescape, text)


def _unescape(found: re.Match[str]) -> str:
    what = found[1]
    if len(what) > 1:
        return chr(int(what[1:], 16))
    return _PLAIN.get(what, what)


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
    """Split *error* into the gRPC code and the message that a client would receive.

    >>> split("rpc error: code = NotFound desc = an error occurred when try to find container")
    ('NOT_FOUND', 'an error occurred when try to find container')
    >>> split("failed to stop container: context deadline exceeded")
    ('DEADLINE_EXCEEDED', 'failed to stop container: context deadline exceeded')
    """
    found = _GRPC.match(error)
    name, text = (found[1], found[2]) if found else ("Unknown", error)
    return meant(capitals(name), text), text


def capitals(code: str) -> str:
    """Convert *code* from the spelling of a gRPC library, such as the library for Go, to capitals with underscores.

    ``CANCELLED`` becomes ``CANCELED``.

    >>> capitals("DeadlineExceeded"), capitals("CANCELLED"), capitals("OK")
    ('DEADLINE_EXCEEDED', 'CANCELED', 'OK')
    """
    return re.sub(r"(?<=[a-z])(?=[A-Z])", "_", code).upper().replace("CANCELLED", "CANCELED")


def meant(code: str, text: str) -> str:
    """Return *code*, or the code of the context error in *text* if *code* is ``UNKNOWN``.

    >>> meant("UNKNOWN", "failed to kill container: context canceled: unknown")
    'CANCELED'
    """
    ended = _ENDED.search(text) if code == "UNKNOWN" else None
    if ended is None:
        return code
    return "CANCELED" if ended[1] == "canceled" else "DEADLINE_EXCEEDED"


def met(text: str, *, pod: bool) -> str:
    """Return the state that the error *text* names, or an empty string if it does not name a state.

    >>> met("failed to exec in container: container is in CONTAINER_EXITED state", pod=False)
    'CONTAINER_EXITED'
    """
    if (_NO_POD if pod else _NO_CONTAINER).search(text):
        return ABSENT
    state = None if pod else _STATE.search(text)
    return state[1] if state else ""


def unresolved(text: str) -> bool:
    """Check whether the error *text* means that the call did not reach a container or pod.

    This happens if the id is ambiguous or empty, if the runtime is not ready, or if the client cannot connect.

    >>> unresolved("an error occurred when try to find container: Prefix can't be empty")
    True
    >>> unresolved("failed to connect to all addresses; last error: UNKNOWN: connection refused")
    True
    """
    return _UNRESOLVED.search(text) is not None


def unanswered(code: str, text: str) -> bool:
    """Check whether *code* and *text* mean that no runtime was running to answer the call.

    >>> unanswered("UNKNOWN", "server is not initialized yet")
    True
    """
    return code == "UNAVAILABLE" or _STARTING in text
