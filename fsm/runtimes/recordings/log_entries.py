"""Parse the containerd log messages in lines of a node's log, in any of its formats.

containerd writes logfmt or JSON, and journald, syslog and log collectors wrap it in their own formats. This module
unwraps each message, its timestamp and its error.
"""

import re
from typing import Final, NamedTuple

import msgspec

from fsm.recordings.line_reader import decoded

_QUOTED: Final = r'"([^"\\]*(?:\\.[^"\\]*)*)"'  # unrolled: one alternative per character takes five times as long
_LOGFMT: Final = re.compile(rf'time="([^"]*)" level=\w+ msg={_QUOTED}(.*)', re.DOTALL)
_TERMINAL: Final = re.compile(r"^(?:\x1b\[\d+m)?[A-Z]{4}(?:\x1b\[0m)?\[([^\]]+)\] (.*)", re.DOTALL)
_FIELD: Final = re.compile(rf'(?:^|\s)(?:\x1b\[\d+m)?(error|version|id)(?:\x1b\[0m)?=(?:{_QUOTED}|([^\s"]\S*))')
_ESCAPE: Final = re.compile(r"\\(x[0-9a-fA-F]{2}|u[0-9a-fA-F]{4}|.)", re.DOTALL)
_PLAIN: Final = {"n": "\n", "t": "\t", "r": "\r"}
_FRAMES: Final = 4  # maximum number of wrappers to remove, such as a log collector's around journald's


class Entry(NamedTuple):
    """A containerd log message: its timestamp as written, and the fields that fsm uses."""

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
    r"""Return the containerd log message in *line*, or ``None`` if there is none.

    >>> entry(b'Nov 20 11:03:20 n1 containerd[7]: time="T" level=info msg="StopContainer for \\"c1\\"" error=x').message
    'StopContainer for "c1"'
    """
    return _opened(line.decode("utf-8", errors="replace"), _FRAMES)


def _opened(text: str, frames: int) -> Entry | None:
    at = text.find("{")
    if at >= 0 and text.find('time="', 0, at) < 0 and (found := _json(text[at:], frames)) is not None:
        return found
    logfmt = _LOGFMT.search(text)
    if logfmt is not None:
        return _with_fields(unescaped(logfmt[2]), logfmt[1], logfmt[3])
    terminal = _TERMINAL.match(text)
    if terminal is not None:
        return _with_fields(terminal[2].split("  ")[0].rstrip(), terminal[1], terminal[2])
    return None


def _json(text: str, frames: int) -> Entry | None:
    found = decoded(text, _DECODER)
    if found is None:
        return None
    if found.msg is not None:
        return Entry(found.msg, found.time or "", found.error or "", found.version or "")
    inner = found.journal if found.journal is not None else found.log or found.message
    if isinstance(inner, list):
        # journald writes a message as a list of bytes if it is not plain text.
        inner = bytes(each for each in inner if 0 <= each < 256).decode("utf-8", errors="replace")  # noqa: PLR2004
    return _opened(inner, frames - 1) if inner and frames else None


def _with_fields(message: str, at: str, fields: str) -> Entry:
    found: dict[str, str] = {}
    for name, quoted, bare in _FIELD.findall(fields):
        found.setdefault(name, bare or unescaped(quoted))
    return Entry(message, at, found.get("error", ""), found.get("version", ""))


def unescaped(text: str) -> str:
    r"""Return *text*, the content of a quoted Go string, with its escapes resolved.

    >>> unescaped(r'StopContainer for \"c1\"\n')
    'StopContainer for "c1"\n'
    """
    if text.count("\\") == text.count('\\"'):  # no other escape, as in nearly all messages
        return text.replace('\\"', '"')
    return _ESCAPE.sub(_unescape, text)


def _unescape(found: re.Match[str]) -> str:
    what = found[1]
    if len(what) > 1:
        return chr(int(what[1:], 16))
    return _PLAIN.get(what, what)
