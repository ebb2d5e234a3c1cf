"""Find the domains, recording formats, systems under test and commands that packages contribute to fsm.

A package declares its contributions as entry points (``MODULE:ATTRIBUTE``) in one of four groups. They are imported
only when they are needed.

Packages that come with fsm (:data:`OWN`) declare them in a table ``ENTRY_POINTS`` instead. This is faster than
reading metadata, and works where there is none, such as in a zip file, on PYTHONPATH or in a Spark worker.
"""

from __future__ import annotations

import os
import warnings
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from importlib import import_module
from itertools import chain
from operator import attrgetter
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, TypeVar

from fsm.errors import refused

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint

T = TypeVar("T")

DOMAINS: Final = "fsm.domains"
FORMS: Final = "fsm.recordings"
SUTS: Final = "fsm.suts"
COMMANDS: Final = "fsm.commands"

OWN: Final = ("fsm.runtimes",)  # packages in fsm itself that contribute something; any of them may be missing

OFF: Final = "FSM_NO_PLUGINS"  # if this environment variable is set, other packages are ignored, in child processes too


@dataclass(frozen=True, slots=True, kw_only=True)
class Domain:
    """An application domain, such as a kind of runtime or protocol.

    Attributes:
        models: The ``PACKAGE:FOLDER`` of the models. Their properties are in the folder ``properties`` next to it.
        client: The ``MODULE:ATTRIBUTE`` of a :class:`fsm.conformance.scheme.DomainClient`.
        codes: The ``PACKAGE:FILE`` of rules for inputs, in the format of ``fsm/language/codes.toml``.
        references: The ``MODULE:ATTRIBUTE`` of a reference implementation's adapter, by machine.
        examples: Lines to add to the help of commands, by command. The empty name is for the help of ``fsm``.
    """

    name: str
    about: str
    models: str = ""
    client: str = ""
    codes: str = ""
    references: Mapping[str, str] = field(default_factory=dict)
    examples: Mapping[str, tuple[str, ...]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        _ = self.folder  # Raise an error if the folder does not exist.

    @property
    def folder(self) -> Path | None:
        package, _, folder = self.models.partition(":")
        return Path(import_module(package).__path__[0], folder).resolve(strict=True) if package else None


@dataclass(frozen=True, slots=True, kw_only=True)
class DomainCommand:
    """A command that a package adds to ``fsm``. The help lists it under ``heading``, with the line ``about``.

    ``target`` is the ``MODULE:ATTRIBUTE`` of a :class:`click.Command`, which is imported only when it is used. Its
    function returns an exit code, or data to print: a mapping, a dataclass, or a list of these. The command has a
    CPU time limit unless ``endless`` is true.
    """

    about: str
    target: str
    heading: str = "Other packages"
    endless: bool = False


class PluginWarning(UserWarning):
    """A warning that a contribution could not be loaded and is ignored."""


def loaded(target: str) -> Any:  # noqa: ANN401  (each group has its own kind of object)
    """Import the object at *target*, which has the form ``MODULE:ATTRIBUTE``."""
    module, _, attribute = target.partition(":")
    try:
        return attrgetter(attribute)(import_module(module))
    except (ImportError, AttributeError) as error:
        if module.startswith("fsm."):
            raise
        what = f"the declared object cannot be loaded: {type(error).__name__}: {error}"
        hint = "correct the package that declares this object, or ignore all other packages with --no-plugins"
        raise refused(target, "FSM223", what, hint) from error


def own(group: str) -> Mapping[str, str]:
    """Return the targets of fsm's own contributions to *group* by name, in a fixed order."""
    found: dict[str, str] = {}
    for package in OWN:
        with suppress(ImportError):
            found |= import_module(package).ENTRY_POINTS[group]
    return found


def own_objects(group: str, kind: type[T]) -> Iterator[tuple[str, T]]:
    for name, target in own(group).items():
        yield name, _check_kind(loaded(target), kind)


def foreign_names(group: str) -> tuple[str, ...]:
    """Return the sorted names that other packages declare in *group*, without importing anything."""
    return tuple(sorted({declared.name for declared in _foreign_entry_points(group)}))


def foreign_objects(group: str, kind: type[T]) -> Iterator[tuple[str, T]]:
    """Yield the objects that other packages contribute to *group*.

    Warn about objects that cannot be loaded or are not of *kind*.
    """
    for declared in _foreign_entry_points(group):
        if (found := _object(declared, kind)) is not None:
            yield declared.name, found


def find(group: str, name: str, kind: type[T]) -> T | None:
    """Return the object *name* in *group*, or ``None`` if it does not exist or cannot be loaded.

    Raise :class:`InputError` if two packages other than fsm declare it.
    """
    if target := own(group).get(name):
        return _check_kind(loaded(target), kind)
    those = [declared for declared in _foreign_entry_points(group) if declared.name == name]
    if len(those) > 1:
        what = f"two packages add this name to {group}: {' and '.join(sorted(map(_distribution, those)))}"
        raise refused(name, "FSM221", what, "uninstall one of the two packages")
    return _object(those[0], kind) if those else None


def domains(*, foreign: bool = True) -> Iterator[Domain]:
    found = chain(own_objects(DOMAINS, Domain), foreign_objects(DOMAINS, Domain) if foreign else ())
    return (domain for _, domain in found)


def _foreign_entry_points(group: str) -> list[EntryPoint]:
    if OFF in os.environ:
        return []
    from importlib.metadata import entry_points  # noqa: PLC0415  (slow to import, and often not needed)

    mine = own(group)
    found = (each for each in entry_points(group=group) if each.name not in mine and not each.value.startswith(OWN))
    return sorted(found, key=lambda declared: declared.name)


def _object(declared: EntryPoint, kind: type[T]) -> T | None:
    try:
        return _check_kind(declared.load(), kind)
    except (Exception, SystemExit) as error:  # noqa: BLE001  (the code of another package)
        _warn(declared, error)
        return None


def warn_left_out(group: str, name: str, error: BaseException) -> None:
    for declared in _foreign_entry_points(group):
        if declared.name == name:
            _warn(declared, error)


def _warn(declared: EntryPoint, error: BaseException) -> None:
    what = f"{declared.group} '{declared.name}' of {_distribution(declared)} cannot be loaded"
    warnings.warn(f"{what}: {type(error).__name__}: {error}", PluginWarning, stacklevel=3)


def _check_kind(found: object, kind: type[T]) -> T:
    if not isinstance(found, kind):
        raise TypeError(f"the object is a {type(found).__name__}, not a {kind.__name__}")
    return found


def _distribution(declared: EntryPoint) -> str:
    return f"{declared.dist.name} {declared.dist.version}" if declared.dist else declared.value
