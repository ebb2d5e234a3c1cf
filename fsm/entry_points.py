"""What packages add to fsm: domains, forms of recording, systems under test and commands.

A package declares each of them by name, as an entry point ``MODULE:ATTRIBUTE`` in one of four groups. It is imported
only when it is needed. The packages in :data:`OWN` come with fsm and declare the same in a table ``ENTRY_POINTS``, so
that they are found without metadata (in a zip file, on PYTHONPATH, in a Spark worker) and without the time that reading
metadata takes. What the objects are is up to the rooms that use them.
"""

from __future__ import annotations

import os
import warnings
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from importlib import import_module
from operator import attrgetter
from typing import TYPE_CHECKING, Any, Final

from fsm.errors import refused

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint

DOMAINS: Final = "fsm.domains"
FORMS: Final = "fsm.recordings"
SUTS: Final = "fsm.suts"
COMMANDS: Final = "fsm.commands"

OWN: Final = ("fsm.runtimes",)
"""The packages of fsm itself that add something. They may be missing."""

OFF: Final = "FSM_NO_PLUGINS"
"""Environment variable that turns other packages off, also in child processes. Its value does not matter."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Domain:
    """One field of application: its models, and what a client can make happen.

    ``models`` is a folder of TOML files, written as ``PACKAGE:FOLDER``; their properties are in the folder
    ``properties`` beside it. ``client`` is ``MODULE:ATTRIBUTE`` of a :class:`fsm.conformance.clients.DomainClient`.
    ``references`` maps machines to the classes that adapt their reference implementations, written in the same way.
    """

    name: str
    about: str
    models: str = ""
    client: str = ""
    references: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class DomainCommand:
    """A command of ``fsm``: a line ``about`` it, listed under a ``heading``, and ``MODULE:ATTRIBUTE`` of the command.

    The target is a :class:`click.Command`, which is loaded only when it is used. Its function returns an exit code, or
    data to be printed: a mapping, a dataclass, or a list of those. If ``endless`` is true, its computing time has no
    limit.
    """

    about: str
    target: str
    heading: str = "Other packages"
    endless: bool = False


class PluginWarning(UserWarning):
    """A package's contribution cannot be loaded, and is left out."""


def loaded(target: str) -> Any:  # noqa: ANN401  (each group has its own kind of object)
    """Return the object at *target*, which is ``MODULE:ATTRIBUTE``.

    >>> loaded("operator:attrgetter").__name__
    'attrgetter'
    """
    module, _, attribute = target.partition(":")
    return attrgetter(attribute)(import_module(module))


def own(group: str) -> Mapping[str, str]:
    """Return the names in *group* that fsm itself declares, with their targets, in a fixed order."""
    found: dict[str, str] = {}
    for package in OWN:
        with suppress(ImportError):
            found |= import_module(package).ENTRY_POINTS[group]
    return found


def own_objects(group: str) -> Iterator[tuple[str, object]]:
    """Yield each name in *group* that fsm itself declares, and its object."""
    for name, target in own(group).items():
        yield name, loaded(target)


def foreign_names(group: str) -> tuple[str, ...]:
    """Return the names that other packages declare in *group*, sorted. Nothing is imported."""
    return tuple(sorted({each.name for each in _foreign(group)}))


def foreign_objects(group: str) -> Iterator[tuple[str, object]]:
    """Yield each name in *group* that another package declares, and its object. Warn of those that cannot be loaded."""
    for each in _foreign(group):
        found = _object(each)
        if found is not None:
            yield each.name, found


def find(group: str, name: str) -> object | None:
    """Return the object *name* in *group*, or ``None`` if there is none or it cannot be loaded.

    Metadata are read only if fsm itself does not declare *name*. Raise :class:`InputError` if two packages declare it.
    """
    if target := own(group).get(name):
        found: object = loaded(target)
        return found
    those = [each for each in _foreign(group) if each.name == name]
    if len(those) > 1:
        both = " and ".join(sorted(_distribution(each) for each in those))
        raise refused(name, "FSM221", f"is added to {group} by {both}", "uninstall one of them")
    return _object(those[0]) if those else None


def _foreign(group: str) -> list[EntryPoint]:
    if OFF in os.environ:
        return []
    from importlib.metadata import entry_points  # noqa: PLC0415  (slow to import, and often not needed)

    mine = own(group).values()
    return sorted((each for each in entry_points(group=group) if each.value not in mine), key=lambda each: each.name)


def _object(declared: EntryPoint) -> object | None:
    try:
        found: object = declared.load()
    except (Exception, SystemExit) as error:  # noqa: BLE001  (anybody's code)
        what = f"{declared.group} '{declared.name}' of {_distribution(declared)} cannot be loaded"
        warnings.warn(f"{what}: {type(error).__name__}: {error}", PluginWarning, stacklevel=2)
        return None
    return found


def _distribution(declared: EntryPoint) -> str:
    return f"{declared.dist.name} {declared.dist.version}" if declared.dist else declared.value
