"""Programs in Go, built from Debian's packages.

Go and the libraries are unpacked only for the build; programs are kept in the folder of the containerd daemons.
"""

from __future__ import annotations

import fcntl
import hashlib
import os
import subprocess
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Final

from packages_of_debian import CACHE, unpack, unpack_source

if TYPE_CHECKING:
    from collections.abc import Sequence

_SUITE: Final = "trixie"
_GO: Final = ("golang-1.24-go", "golang-1.24-src")
LIBRARIES: Final = (
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


def built(name: str, target: str, libraries: Sequence[str], *, source: bytes = b"", package: str = "") -> Path:
    """Return the path of a Go program. Build the program first if necessary.

    *target* is either a file, whose content is *source*, or an import path. With *package*, NRI's folder ``plugins``
    is unpacked from the sources of that package, because Debian's library lacks it.
    """
    digest = hashlib.sha256(source + repr((target if package else "", libraries)).encode()).hexdigest()[:12]
    program = CACHE / "bin" / f"{name}-{digest}"
    program.parent.mkdir(parents=True, exist_ok=True)
    with (program.parent / "go.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)  # the build takes a minute, so other processes wait for its result
        if not program.is_file():
            with tempfile.TemporaryDirectory(prefix="container-fsm-go-") as folder:
                _build(program, target, libraries, package, Path(folder))
            for old in program.parent.glob(f"{name}-*"):
                if old != program:
                    old.unlink()
    return program


def _build(program: Path, target: str, libraries: Sequence[str], package: str, folder: Path) -> None:
    unpack((*_GO, *libraries), _SUITE, folder)
    root, path = folder / "usr" / "lib" / "go-1.24", folder / "usr" / "share" / "gocode"
    if package:
        unpack_source(package, _SUITE, "plugins", path / "src" / "github.com" / "containerd" / "nri")
    environment = os.environ | {
        "GOROOT": str(root),
        "GOPATH": str(path),
        "GOCACHE": str(folder / "cache"),
        "GO111MODULE": "off",
        "GOTOOLCHAIN": "local",
        "GOFLAGS": "",
        "CGO_ENABLED": "0",
    }
    part = folder / program.name
    build = [str(root / "bin" / "go"), "build", "-trimpath", "-ldflags=-s -w", "-o", str(part), target]
    subprocess.run(build, env=environment, check=True)
    program.with_suffix(".part").write_bytes(part.read_bytes())
    program.with_suffix(".part").chmod(0o755)
    program.with_suffix(".part").rename(program)
