"""A client of CRI that is not ours: Kubernetes' own messages and gRPC for Go, built from Debian's packages.

    python tests/support/go_client.py

builds it, and prints its path.  ``cri_client.go`` is its source, which says how it is talked to.  Go and the libraries
are unpacked for the build only; the program is kept beside the containerds.
"""

from __future__ import annotations

import fcntl
import hashlib
import json
import os
import subprocess
import sys
import tempfile
from collections import deque
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Self

from packages_of_debian import CACHE, unpack

if TYPE_CHECKING:
    from types import TracebackType

_SOURCE: Final = Path(__file__).with_name("cri_client.go")

_SUITE: Final = "trixie"
_PACKAGES: Final = (
    "golang-1.24-go",
    "golang-1.24-src",
    "golang-github-kubernetes-cri-api-dev",
    "golang-github-gogo-protobuf-dev",
    "golang-github-golang-protobuf-1-5-dev",
    "golang-golang-x-net-dev",
    "golang-golang-x-sys-dev",
    "golang-golang-x-text-dev",
    "golang-google-genproto-dev",
    "golang-google-grpc-dev",
    "golang-google-protobuf-dev",
)


def built() -> Path:
    """The program; built where it is not there yet, or is of another source."""
    digest = hashlib.sha256(_SOURCE.read_bytes() + repr(_PACKAGES).encode()).hexdigest()[:12]
    program = CACHE / "bin" / f"cri-client-{digest}"
    program.parent.mkdir(parents=True, exist_ok=True)
    with (program.parent / "go.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)  # it takes a minute of a core, which others wait for
        if not program.is_file():
            _build(program)
    return program


def _build(program: Path) -> None:
    with tempfile.TemporaryDirectory(prefix="container-fsm-go-") as name:
        folder = Path(name)
        unpack(_PACKAGES, _SUITE, folder)
        root = folder / "usr" / "lib" / "go-1.24"
        environment = os.environ | {
            "GOROOT": str(root),
            "GOPATH": str(folder / "usr" / "share" / "gocode"),
            "GOCACHE": str(folder / "cache"),
            "GO111MODULE": "off",
            "GOTOOLCHAIN": "local",
            "GOFLAGS": "",
            "CGO_ENABLED": "0",
        }
        part = folder / "cri-client"
        build = [str(root / "bin" / "go"), "build", "-trimpath", "-ldflags=-s -w", "-o", str(part), str(_SOURCE)]
        subprocess.run(build, env=environment, check=True)
        for old in program.parent.glob("cri-client-*"):
            old.unlink()
        program.with_suffix(".part").write_bytes(part.read_bytes())
        program.with_suffix(".part").chmod(0o755)
        program.with_suffix(".part").rename(program)


class GoClient:
    """The program, connected to *address*; ``events`` has the answers of GetContainerEvents that came meanwhile."""

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
        """What was answered: ``call``, ``code`` as Go spells it, ``detail``, and ``reply`` if there is one."""
        self._ask({"call": op, "request": request, "seconds": seconds})
        while (answer := self._next())["call"] != op:
            self.events.append(answer)
        return answer

    def watch(self) -> None:
        """Have GetContainerEvents go on from now."""
        self._ask({"call": "GetContainerEvents"})

    def event(self) -> dict[str, Any]:
        """The next answer of GetContainerEvents, as :meth:`call` has them."""
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
