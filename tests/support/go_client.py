"""An independent CRI client with Kubernetes' own messages and gRPC for Go, built from Debian's packages.

    python tests/support/go_client.py

The command builds the client and prints its path. The source of the client, ``cri_client.go``, describes its
protocol. Go and the libraries are unpacked only for the build; the program is kept in the folder of the containerd
daemons.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections import deque
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Self

import go_programs

if TYPE_CHECKING:
    from types import TracebackType

_SOURCE: Final = Path(__file__).with_name("cri_client.go")


def built() -> Path:
    return go_programs.built("cri-client", str(_SOURCE), go_programs.LIBRARIES, source=_SOURCE.read_bytes())


class GoClient:
    """A running client, which collects the answers to GetContainerEvents in ``events``."""

    def __init__(self, address: str) -> None:
        self.events: deque[dict[str, Any]] = deque()
        self._process = subprocess.Popen(
            [str(built()), address], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._process.communicate(timeout=60)

    def call(self, op: str, *, seconds: float = 30, **request: object) -> dict[str, Any]:
        """Make a call and return the answer.

        The answer has the keys ``call``, ``code`` (in Go's spelling), ``detail`` and, on success, ``reply``.
        """
        self._ask({"call": op, "request": request, "seconds": seconds})
        while (answer := self._next())["call"] != op:
            self.events.append(answer)
        return answer

    def watch(self) -> None:
        self._ask({"call": "GetContainerEvents"})

    def event(self) -> dict[str, Any]:
        return self.events.popleft() if self.events else self._next()

    def _ask(self, line: dict[str, Any]) -> None:
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps(line) + "\n")
        self._process.stdin.flush()

    def _next(self) -> dict[str, Any]:
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        assert line, "the client has ended"
        found: dict[str, Any] = json.loads(line)
        return found


if __name__ == "__main__":
    sys.stdout.write(f"{built()}\n")
