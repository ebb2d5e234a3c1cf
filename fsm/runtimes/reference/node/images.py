"""A store of images that have names but no content. Every image can be pulled."""

from collections.abc import Iterable
from dataclasses import dataclass
from hashlib import sha256
from typing import Final

from fsm.runtimes.reference.node.records import Records

PRESENT: Final = ("docker.io/library/busybox:latest", "registry.k8s.io/pause:3.10")
"""Images that exist from the start."""

KEPT: Final = "names"
SIZE: Final = 1 << 20


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredImage:
    """An image by its full ``name``. ``id`` identifies its configuration, and ``digest`` its content."""

    name: str
    id: str
    digest: str
    size: int = SIZE

    @property
    def tag(self) -> str:
        """The name if it has a tag, and otherwise an empty string."""
        return "" if "@" in self.name else self.name


def full_name(name: str) -> str:
    """Complete *name* with registry and tag, as Docker clients do.

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
    """The images of a node.

    >>> images = Images()
    >>> image = images.pull("busybox:1.36")
    >>> images.find(image.id[:20]) == images.find("busybox:1.36") == image
    True
    >>> images.remove("busybox:1.36")
    >>> images.find("busybox:1.36")
    """

    def __init__(self, present: Iterable[str] = PRESENT, kept: Records[list[str]] | None = None) -> None:
        self._images: dict[str, StoredImage] = {}
        self._kept = kept
        for name in kept.load().get(KEPT, present) if kept else present:
            self._add(name)

    def list(self) -> tuple[StoredImage, ...]:
        return tuple(self._images.values())

    def find(self, reference: str) -> StoredImage | None:
        """Return the image with the name, digest or id *reference*. An id may be shortened."""
        name = full_name(reference)
        digits = reference.removeprefix("sha256:")
        for image in self._images.values():
            if name in {image.name, image.digest} or (digits and image.id.removeprefix("sha256:").startswith(digits)):
                return image
        return None

    def pull(self, name: str) -> StoredImage:
        image = self._add(name)
        self._save()
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
        """Remove an image. Has no effect if there is no such image."""
        if image := self.find(reference):
            del self._images[image.name]
            self._save()

    def _save(self) -> None:
        if self._kept:
            self._kept.save(KEPT, list(self._images))
