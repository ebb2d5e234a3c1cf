"""Find what packages contribute to fsm: domains, forms of recording, systems under test and commands.

A package declares each contribution by name, as an entry point ``MODULE:ATTRIBUTE`` in one of four groups. It is
imported only when it is needed. The package of fsm that uses a group defines the type of its objects.

The packages in :data:`OWN` come with fsm and declare their contributions in a table ``ENTRY_POINTS`` instead. They
are therefore found without metadata, for example in a zip file, on PYTHONPATH or in a Spark worker, and without the
time that reading metadata takes.
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

OWN: Final = ("fsm.runtimes",)
"""The packages of fsm itself that contribute something. Any of them may be missing."""

OFF: Final = "FSM_NO_PLUGINS"
"""The environment variable that turns off other packages, here and in child processes. Any value does."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Domain:
    """A field of application, with its models, a client and reference implementations.

    Attributes:
        models: A folder of TOML files as ``PACKAGE:FOLDER``, next to the folder ``properties`` for their properties.
        client: The ``MODULE:ATTRIBUTE`` of a :class:`fsm.conformance.scheme.DomainClient`.
        codes: A TOML file of rules for inputs as ``PACKAGE:FILE``, in the form of ``fsm/language/codes.toml``.
        references: The adapters of the reference implementations by machine, as ``MODULE:ATTRIBUTE``.
        examples: Lines for the help of commands. Those of the empty name are for the help of ``fsm`` itself.
    """

    name: str
    about: str
    models: str = ""
    client: str = ""
    codes: str = ""
    references: Mapping[str, str] = field(default_factory=dict)
    examples: Mapping[str, tuple[str, ...]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        _ = self.folder  # This raises an error if there is no such folder.

    @property
    def folder(self) -> Path | None:
        package, _, folder = self.models.partition(":")
        return Path(import_module(package).__path__[0], folder).resolve(strict=True) if package else None


@dataclass(frozen=True, slots=True, kw_only=True)
class DomainCommand:
    """A command of ``fsm``, listed in the help under ``heading`` with the line ``about``.

    ``target`` is the ``MODULE:ATTRIBUTE`` of a :class:`click.Command`, which is loaded only when it is used. Its
    function returns an exit code, or data to print: a mapping, a dataclass, or a list of these. The computing time of
    the command is limited unless ``endless`` is true.
    """

    about: str
    target: str
    heading: str = "Other packages"
    endless: bool = False


class PluginWarning(UserWarning):
    """Warns that a package's contribution cannot be loaded and is left out."""


def loaded(target: str) -> Any:  # noqa: ANN401  (each group has its own kind of object)
    """Return the object at *target*, which is ``MODULE:ATTRIBUTE``.

    >>> loaded("operator:attrgetter").__name__
    'attrgetter'
    """
    module, _, attribute = target.partition(":")
    try:
        return attrgetter(attribute)(import_module(module))
    except (ImportError, AttributeError) as error:
        if module.startswith("fsm."):
            raise
        hint = "correct the package that declares this object, or ignore all other packages with --no-plugins"
        raise refused(
            target, "FSM223", f"the declared object cannot be loaded: {type(error).__name__}: {error}", hint
        ) from error


def own(group: str) -> Mapping[str, str]:
    """Return the names in *group* that fsm itself declares, in a fixed order, with their targets."""
    found: dict[str, str] = {}
    for package in OWN:
        with suppress(ImportError):
            found |= import_module(package).ENTRY_POINTS[group]
    return found


def own_objects(group: str, kind: type[T]) -> Iterator[tuple[str, T]]:
    for name, target in own(group).items():
        yield name, _check_kind(loaded(target), kind)


def foreign_names(group: str) -> tuple[str, ...]:
    """Return the names that other packages declare in *group*, in sorted order. Nothing is imported."""
    return tuple(sorted({declared.name for declared in _foreign_entry_points(group)}))


def foreign_objects(group: str, kind: type[T]) -> Iterator[tuple[str, T]]:
    """Yield each name in *group* that another package declares, with its object.

    An object that cannot be loaded or is not of this *kind* is left out with a warning.
    """
    for declared in _foreign_entry_points(group):
        if (found := _object(declared, kind)) is not None:
            yield declared.name, found


def find(group: str, name: str, kind: type[T]) -> T | None:
    """Return the object *name* in *group*, or ``None`` if it does not exist or cannot be loaded.

    The metadata of packages are read only if fsm itself does not declare *name*. Raise :class:`InputError` if two
    packages declare it.
    """
    if name in own(group):
        return dict(own_objects(group, kind))[name]
    those = [declared for declared in _foreign_entry_points(group) if declared.name == name]
    if len(those) > 1:
        both = " and ".join(sorted(_distribution(declared) for declared in those))
        raise refused(
            name, "FSM221", f"two packages add this name to {group}: {both}", "uninstall one of the two packages"
        )
    return _object(those[0], kind) if those else None


def domains(*, foreign: bool = True) -> Iterator[Domain]:
    for _, domain in chain(own_objects(DOMAINS, Domain), foreign_objects(DOMAINS, Domain) if foreign else ()):
        yield domain


def _foreign_entry_points(group: str) -> list[EntryPoint]:
    if OFF in os.environ:
        return []
    from importlib.metadata import entry_points  # noqa: PLC0415  (slow to import, and often not needed)

    mine = own(group)
    found = (
        declared
        for declared in entry_points(group=group)
        if declared.name not in mine and not declared.value.startswith(OWN)
    )
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
