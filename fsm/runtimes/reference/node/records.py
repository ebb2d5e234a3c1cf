"""Files that record the requested pods, containers and images, so that a restarted server can restore them."""

import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from hashlib import sha256
from pathlib import Path
from typing import Final, Generic, TypeVar

import msgspec
from google.protobuf.json_format import MessageToDict, ParseDict, ParseError
from google.protobuf.message import Message

from fsm.errors import reason, refused
from fsm.recordings.line_reader import decode
from fsm.runtimes.reference.container import durable_files

T = TypeVar("T")

CODE: Final = "FSM607"

_ENCODER: Final = msgspec.json.Encoder(enc_hook=partial(MessageToDict, preserving_proto_field_name=True))


class Records(Generic[T]):
    """The records of the type *kind* in the directory *root*, one in each file.

    A file is named after the id of its record. Records may contain protobuf messages. If *root* is ``None``, nothing
    is kept.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     Records(Path(folder), list[str]).save("c1", ["sleep", "5"])
    ...     kept = Records(Path(folder), list[str])
    ...     print(kept.load())
    ...     kept.delete("c1")
    ...     print(kept.load())
    {'c1': ['sleep', '5']}
    {}
    """

    def __init__(self, root: Path | None, kind: type[T]) -> None:
        self._root = root
        self._decoder = msgspec.json.Decoder(kind, dec_hook=_message)
        if root:
            root.mkdir(parents=True, exist_ok=True)

    def save(self, identity: str, record: T) -> None:
        if self._root:
            durable_files.write(self._root / f"{identity}.json", _ENCODER.encode(record))

    def delete(self, identity: str) -> None:
        if self._root:
            durable_files.remove(self._root / f"{identity}.json")

    def load(self) -> dict[str, T]:
        files = sorted(self._root.glob("*.json")) if self._root else []
        return {file.name.removesuffix(".json"): self._read(file) for file in files}

    def _read(self, path: Path) -> T:
        try:
            return decode(path.read_bytes(), self._decoder)
        except (OSError, ValueError) as error:
            remedy = "remove the file; the pod, container or images that it describes are then lost"
            raise refused(str(path), CODE, f"the file cannot be read: {error}", remedy) from error


def _message(kind: type[Message], plain: dict[str, object]) -> Message:
    try:
        return ParseDict(plain, kind())
    except ParseError as error:
        raise ValueError(str(error)) from error


@contextmanager
def state_folder(path: Path) -> Iterator[Path]:
    """Lock the directory *path* for this process, and create it if necessary.

    Raise :class:`~fsm.errors.InputError` if the directory cannot be used, for example because another process uses it.
    """
    try:
        path.mkdir(mode=0o700, parents=True, exist_ok=True)
        descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY)
    except OSError as error:
        what = f"the folder cannot be used: {reason(error)}"
        raise refused(str(path), CODE, what, "name a folder that you may write to") from error
    try:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            what, hint = "the folder is in use by another server", "end the other server, or name another folder"
            raise refused(str(path), CODE, what, hint) from error
        yield path
    finally:
        os.close(descriptor)


PRESENT: Final = ("docker.io/library/busybox:latest", "registry.k8s.io/pause:3.10")

KEPT: Final = "names"
SIZE: Final = 1 << 20


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredImage:
    name: str
    id: str
    digest: str
    size: int = SIZE

    @property
    def tag(self) -> str:
        return "" if "@" in self.name else self.name


def full_name(name: str) -> str:
    """Complete the image name *name* with a registry and a tag, as Docker clients do.

    >>> full_name("busybox"), full_name("localhost:5000/a/b@sha256:12")
    ('docker.io/library/busybox:latest', 'localhost:5000/a/b@sha256:12')
    """
    first, slash, _ = name.partition("/")
    if not slash:
        name = f"docker.io/library/{name}"
    elif not ({".", ":"} & set(first) or first == "localhost"):
        name = f"docker.io/{name}"
    last = name.rpartition("/")[2]
    return name if ":" in last or "@" in last else f"{name}:latest"


class Images:
    """The images of a node, whose names are kept in the directory *root*.

    >>> images = Images()
    >>> image = images.pull("busybox:1.36")
    >>> images.find(image.id[:20]) == images.find("busybox:1.36") == image
    True
    >>> images.remove("busybox:1.36")
    >>> images.find("busybox:1.36")
    """

    def __init__(self, root: Path | None = None) -> None:
        self._images: dict[str, StoredImage] = {}
        self._kept = Records(root, list[str])
        for name in self._kept.load().get(KEPT, PRESENT):
            self._add(name)

    def list(self) -> tuple[StoredImage, ...]:
        return tuple(self._images.values())

    def find(self, reference: str) -> StoredImage | None:
        name = full_name(reference)
        digits = reference.removeprefix("sha256:")
        for image in self._images.values():
            if name in {image.name, image.digest} or (digits and image.id.removeprefix("sha256:").startswith(digits)):
                return image
        return None

    def pull(self, name: str) -> StoredImage:
        image = self._add(name)
        self._kept.save(KEPT, list(self._images))
        return image

    def _add(self, name: str) -> StoredImage:
        full = full_name(name)
        repository, _, given = full.partition("@")
        without_tag = repository.rpartition(":")[0] if ":" in repository.rpartition("/")[2] else repository
        digest = given or f"sha256:{sha256(full.encode()).hexdigest()}"
        identity = f"sha256:{sha256(digest.encode()).hexdigest()}"
        self._images[full] = StoredImage(name=full, id=identity, digest=f"{without_tag}@{digest}")
        return self._images[full]

    def remove(self, reference: str) -> None:
        if image := self.find(reference):
            del self._images[image.name]
            self._kept.save(KEPT, list(self._images))
