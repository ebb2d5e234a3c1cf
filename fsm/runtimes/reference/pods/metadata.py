"""Pods, and the metadata from which a restart recovers them, with one file for each pod in its directory."""

import asyncio
import json
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Final

from pydantic import TypeAdapter

from fsm.machine.driver import Position
from fsm.runtimes.reference.container import durable_files
from fsm.runtimes.reference.container.world import Exit
from fsm.runtimes.reference.driven import Driven

FILE: Final = "metadata.json"

MAKING: Final = "making"
"""Written in place of a state while a run is in progress."""


class MetadataError(Exception):
    """A metadata file cannot be read."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Metadata:
    """A pod's metadata and its last known ``state``. Times are in nanoseconds since the epoch, or 0 if unset."""

    id: str
    name: str
    state: str = MAKING
    created_at: int = 0
    exit: Exit | None = None
    limits: Mapping[str, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class PodStatus(Metadata):
    """The status of a pod as clients see it. ``state`` is the state that the machine shows."""

    pid: int = 0
    addresses: tuple[str, ...] = ()


class Pod(Driven):
    """A pod, whether or not it is in the store. ``watch`` is the task that waits for its exit."""

    def __init__(self, metadata: Metadata, position: Position) -> None:
        super().__init__(position)
        self.id, self.name, self.limits = metadata.id, metadata.name, metadata.limits
        self.created_at, self.exit = metadata.created_at, metadata.exit
        self.watch: asyncio.Task[None] | None = None
        self.lock = asyncio.Lock()

    def metadata(self, state: str) -> Metadata:
        return Metadata(
            id=self.id, name=self.name, state=state, created_at=self.created_at, exit=self.exit, limits=self.limits
        )


@dataclass(eq=False)
class MetadataStore:
    """The metadata of all pods, in directories below *root*. Every method may raise :class:`OSError`.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     store = MetadataStore(Path(folder))
    ...     store.create(Metadata(id="1", name="web", state="ready"))
    ...     print(list(store.ids()), store.load("1").state)
    ...     store.delete("1")
    ...     print(list(store.ids()))
    ['1'] ready
    []
    """

    root: Path

    def create(self, metadata: Metadata) -> None:
        durable_files.make_folder(self.path(metadata.id).parent)
        self.save(metadata)

    def save(self, metadata: Metadata) -> None:
        durable_files.write(self.path(metadata.id), json.dumps(asdict(metadata), sort_keys=True).encode())

    def load(self, id: str) -> Metadata:  # noqa: A002  (the field's name)
        """Return the metadata of the pod *id*. Raise :class:`MetadataError` if it is not valid."""
        try:
            metadata = TypeAdapter(Metadata).validate_json(self.path(id).read_bytes(), strict=True)
        except (OSError, ValueError) as error:
            raise MetadataError(f"{self.path(id)}: cannot be read") from error
        if metadata.id != id:
            raise MetadataError(f"{self.path(id)}: not the metadata of pod {id}")
        return metadata

    def delete(self, id: str) -> None:  # noqa: A002  (the field's name)
        """Delete the metadata of the pod *id*. Must come last, because a restart can then no longer find the pod."""
        durable_files.remove(self.path(id))
        with suppress(FileNotFoundError):
            self.path(id).parent.rmdir()

    def ids(self) -> Iterator[str]:
        if self.root.is_dir():
            yield from sorted(folder.name for folder in self.root.iterdir() if folder.is_dir())

    def path(self, id: str) -> Path:  # noqa: A002  (the field's name)
        return self.root / id / FILE
