"""Build images for containers under test from a static binary, and import them into containerd.

Nothing is downloaded, and the same binary yields the same image on every machine.
"""

import hashlib
import io
import json
import shutil
import socket
import struct
import subprocess
import tarfile
import tempfile
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path
from typing import Final

from fsm.errors import InputError, reason, refused

WORKLOAD: Final = "localhost/container-fsm-workload:1"
PAUSE: Final = "localhost/container-fsm-pause:1"
"""Name of the image that keeps a pod alive, if containerd's option ``sandbox_image`` is set to this name.

Since containerd 2.0, the option is called ``pinned_images.sandbox``.
"""

BINARY: Final = Path("/bin/busybox")
APPLETS: Final = ("cat", "echo", "false", "kill", "sh", "sleep", "test", "touch", "true")
"""Commands that an image has in its folder ``/bin``. They are links to the binary."""

NAMESPACE: Final = "k8s.io"  # containerd namespace of CRI's images and containers
_SLEEP: Final = ["/bin/sleep", "2147483647"]
_FOLDERS: Final = ("bin", "dev", "etc", "proc", "root", "sys", "tmp")
_ARCHITECTURES: Final = {22: "s390x", 62: "amd64", 183: "arm64", 21: "ppc64le", 243: "riscv64", 258: "loong64"}
_INTERPRETER: Final = 3  # type of the program header that names a dynamic linker (``PT_INTERP``)
_INSTALL: Final = "install a static busybox: apt-get install busybox-static"
_CODE: Final = "FSM601"


def archive(binary: Path = BINARY, *, names: Iterable[str] = (WORKLOAD, PAUSE)) -> bytes:
    """Return an OCI archive with one image for each of *names*.

    Each image contains *binary* as ``/bin/busybox``, with links for its commands, and sleeps by default. The images
    have different ids, so that each can be removed separately. Raise :class:`InputError` for an unsuitable *binary*.
    """
    try:
        data = binary.read_bytes()
    except OSError as error:
        raise _workload_error(str(binary), f"the file cannot be read: {reason(error)}", _INSTALL) from error
    architecture = _architecture(data, str(binary))
    blobs: dict[str, bytes] = {}

    def blob(media: str, content: bytes) -> dict[str, object]:
        digest = hashlib.sha256(content).hexdigest()
        blobs[digest] = content
        return {"mediaType": f"application/vnd.oci.image.{media}", "digest": f"sha256:{digest}", "size": len(content)}

    folders = [_tar_entry(name, kind=tarfile.DIRTYPE) for name in _FOLDERS]
    links = [_tar_entry(f"bin/{name}", kind=tarfile.SYMTYPE, target="busybox") for name in APPLETS]
    layer = blob("layer.v1.tar", _tar_archive([*folders, _tar_entry("bin/busybox", data), *links]))

    def image(name: str) -> dict[str, object]:
        config = {
            "architecture": architecture,
            "os": "linux",
            "config": {"Cmd": _SLEEP, "Env": ["PATH=/bin"], "Labels": {"image": name}},
            "rootfs": {"type": "layers", "diff_ids": [layer["digest"]]},
        }
        manifest = {"schemaVersion": 2, "config": blob("config.v1+json", _json(config)), "layers": [layer]}
        media = "application/vnd.oci.image.manifest.v1+json"
        top = blob("manifest.v1+json", _json({**manifest, "mediaType": media}))
        return {**top, "annotations": {"io.containerd.image.name": name}}

    files = {
        "oci-layout": _json({"imageLayoutVersion": "1.0.0"}),
        "index.json": _json({"schemaVersion": 2, "manifests": [image(name) for name in names]}),
        **{f"blobs/sha256/{digest}": content for digest, content in blobs.items()},
    }
    return _tar_archive(_tar_entry(name, content) for name, content in files.items())


def import_images(endpoint: Path, content: bytes, *, timeout: float = 60.0) -> None:
    """Import the OCI archive *content* into the containerd at the socket *endpoint*. Importing it again has no effect.

    Raise :class:`InputError` if ``ctr`` fails, or is found neither in the daemon's directory nor in ``PATH``.
    """
    command = [str(_ctr_program(endpoint)), "--address", str(endpoint), "--namespace", NAMESPACE]
    with tempfile.NamedTemporaryFile(prefix="container-fsm-image-") as file:
        file.write(content)
        file.flush()
        try:
            ran = subprocess.run(  # noqa: S603  (runs the client that belongs to the daemon)
                [*command, "images", "import", file.name], capture_output=True, timeout=timeout, check=False
            )
        except subprocess.TimeoutExpired:
            what = f"the daemon did not import the image within {timeout:g} s"
            raise _workload_error(str(endpoint), what, "check whether the daemon is busy") from None
    if ran.returncode:
        why = ran.stderr.decode(errors="replace").strip().rpartition("\n")[2]
        hint = "check that a containerd listens there, and that you may connect to it"
        raise _workload_error(str(endpoint), f"the image could not be imported: {why}", hint)


def _architecture(data: bytes, path: str) -> str:
    if not data.startswith(b"\x7fELF\x02") or len(data) < 64:  # noqa: PLR2004  (the size of a 64-bit header)
        raise _workload_error(path, "the file is not a 64-bit Linux binary", _INSTALL)
    order = "<" if data[5] == 1 else ">"
    (machine,) = struct.unpack_from(f"{order}H", data, 18)
    (headers,) = struct.unpack_from(f"{order}Q", data, 32)
    size, count = struct.unpack_from(f"{order}HH", data, 54)
    starts = [headers + size * number for number in range(count)]
    if starts and starts[-1] + 4 > len(data):
        raise _workload_error(path, "the binary is truncated", _INSTALL)
    if any(struct.unpack_from(f"{order}I", data, start)[0] == _INTERPRETER for start in starts):
        raise _workload_error(path, "the binary is not static: it needs libraries of this machine", _INSTALL)
    if machine not in _ARCHITECTURES:
        raise _workload_error(path, f"the binary is for an unknown architecture, number {machine}", _INSTALL)
    return _ARCHITECTURES[machine]


def _tar_entry(
    name: str, content: bytes = b"", *, kind: bytes = tarfile.REGTYPE, target: str = ""
) -> tuple[tarfile.TarInfo, bytes]:
    header = tarfile.TarInfo(name)
    header.type, header.linkname, header.size, header.mode = kind, target, len(content), 0o755
    return header, content


def _tar_archive(entries: Iterable[tuple[tarfile.TarInfo, bytes]]) -> bytes:
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w", format=tarfile.USTAR_FORMAT) as file:
        for header, content in entries:
            file.addfile(header, io.BytesIO(content))
    return out.getvalue()


def _json(value: object) -> bytes:
    return json.dumps(value, sort_keys=True, separators=(",", ":")).encode()


def _ctr_program(endpoint: Path) -> Path:
    with suppress(OSError), socket.socket(socket.AF_UNIX) as client:
        client.connect(str(endpoint))
        daemon, _, _ = struct.unpack("3i", client.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, 12))
        beside = Path(f"/proc/{daemon}/exe").readlink().with_name("ctr")
        if beside.is_file():
            return beside
    if found := shutil.which("ctr"):
        return Path(found)
    hint = "install containerd's client: apt-get install containerd; or use an image that the runtime has"
    raise _workload_error(str(endpoint), "the program 'ctr', which imports images, is not installed", hint)


def _workload_error(path: str, what: str, hint: str) -> InputError:
    return refused(path, _CODE, what, hint)
