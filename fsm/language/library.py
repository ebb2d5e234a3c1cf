"""Load shipped models and properties by name.

Files are read on each call, so that changes take effect. A file is built again only if its path or its content is
new.
"""

import atexit
import tomllib
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import replace
from difflib import get_close_matches
from functools import cache, lru_cache, partial
from importlib.resources import files
from importlib.resources.abc import Traversable
from os import PathLike, fspath
from os.path import isdir, lexists, relpath
from pathlib import Path
from typing import Final, Literal, TypeAlias, TypeVar

from fsm import entry_points
from fsm.errors import InputError, is_file, nearest, refused, system_error
from fsm.language.build import build
from fsm.language.build.specification import specify
from fsm.language.build.systems import build_system
from fsm.language.machine_file import Written
from fsm.language.read import F, File, content, form_of, parse, table_at, with_meaning
from fsm.language.vocabularies import MOST_COUNTED, Stated, WrittenSystem
from fsm.machine import Machine
from fsm.machine.claims import Specification, is_of
from fsm.machine.product.system import System
from fsm.scratch import ScratchFolder

T = TypeVar("T")

Role: TypeAlias = Literal["contract", "implementation", "system", "part"]

DISTRIBUTION: Final = "container-fsm"

REMEMBERED: Final = 64  # maximum number of files in each cache

_stated = lru_cache(maxsize=REMEMBERED)(partial(parse, form=Stated))
_composed = lru_cache(maxsize=REMEMBERED)(partial(parse, form=WrittenSystem))
_form_of = lru_cache(maxsize=REMEMBERED)(form_of)


@cache
def home() -> Path:
    """Return the folder that holds ``models`` and ``properties``, in the installed package or in the checkout.

    If the package is in a zip file, both folders are unpacked into a temporary folder.
    """
    package = files("fsm")
    shipped = package / "_shipped"
    if shipped.is_dir():
        return shipped if isinstance(shipped, Path) else _unpack_folder(shipped)
    checkout = Path(str(package)).parent
    project = checkout / "pyproject.toml"
    if project.is_file() and tomllib.loads(project.read_text("utf-8")).get("project", {}).get("name") == DISTRIBUTION:
        return checkout
    raise FileNotFoundError(f"no models beside {package}: reinstall {DISTRIBUTION}")


def _unpack_folder(source: Traversable) -> Path:
    scratch = ScratchFolder()
    atexit.register(scratch.cleanup)
    # Before Python 3.12, importlib.resources.as_file does not copy folders.
    folders = [(source, Path(scratch.name))]
    for folder, target in folders:
        target.mkdir(exist_ok=True)
        for entry in folder.iterdir():
            if entry.is_dir():
                folders.append((entry, target / entry.name))
            else:
                (target / entry.name).write_bytes(entry.read_bytes())
    return Path(scratch.name)


def _shipped(folder: str, name: str) -> str:
    return str(home() / folder / f"{name}.toml")


def names() -> tuple[str, ...]:
    """Return the sorted names of the shipped machines."""
    return _file_stems("models")


@cache
def _file_stems(folder: str) -> tuple[str, ...]:
    return tuple(sorted(path.stem for path in (home() / folder).glob("*.toml")))


def foreign_models() -> dict[str, Path]:
    """Map the names of models in other packages to their files, in the order of domains.

    Models with the name of a shipped model are left out.
    """
    found: dict[str, Path] = {}
    for _, domain in entry_points.foreign_objects(entry_points.DOMAINS, entry_points.Domain):
        for path in sorted(domain.folder.rglob("*.toml")) if domain.folder else ():
            if path.stem in found:
                what = f"the model has the same name as {found[path.stem]}"
                raise refused(str(path), "FSM221", what, "uninstall one of the two packages")
            if path.stem not in {*names(), *systems()}:
                found[path.stem] = path
    return found


def names_a_model(name: str, *, foreign: bool = True) -> bool:
    """Check whether *name* is the path of a model file or the name of a model.

    If *foreign* is true, models in other packages are included.

    >>> names_a_model("container-status"), names_a_model("door.toml"), names_a_model("door.log")
    (True, True, False)
    """
    own = name in names() or name in systems() or name.endswith(".toml")
    return own or (foreign and not is_path(name) and not is_file(name) and name in foreign_models())


def load(name: str | PathLike[str]) -> Machine:
    """Return the machine called *name*, or the machine in the model file at the path *name*.

    Raise :class:`InputError` if the machine does not exist or is not well formed.

    >>> load("examples/models/door.toml").initial
    'shut'
    """
    name = fspath(name)
    if is_system(name):
        raise system_error(name)
    path = _path_of(name, "models", names(), "model")
    return _machine(content(path), path)


def _path_of(name: str, folder: str, known: tuple[str, ...], what: str) -> str:
    if name in known:
        return _shipped(folder, name)
    if _is_folder(name):
        inside = min((str(path) for path in Path(name).glob("*.toml")), default="")
        hint = f"give a file in this folder, such as {inside}" if inside else f"give the path of a {what} file"
        raise refused(name, "FSM001", "the file cannot be opened: is a directory", hint)
    if is_path(name):
        return name
    if name in (others := foreign_models()):
        return str(others[name])
    raise _unknown(name, what, (*known, *others), {path.stem: path for path in _files_in(Path(), Path(folder))})


def _is_folder(name: str) -> bool:
    return isdir(name)  # noqa: PTH112 - pathlib raises for a name that is too long


def _files_in(*folders: Path) -> Iterator[Path]:
    return (path for folder in folders for path in sorted(folder.glob("*.toml")))


def _unknown(name: str, what: str, known: Collection[str], files: Mapping[str, Path]) -> InputError:
    """Return the error for the unknown *name*, which may be close to one of the *known* names or of the *files*."""
    hint = f"{nearest(name, known, of=f'{what}s')}; or give the path of a .toml file"
    for near in get_close_matches(name, [*(each for each in files if each not in known), *known], n=1):
        hint = (
            f"did you mean '{near}'? 'fsm list' prints all names" if near in known else f"did you mean {files[near]}?"
        )
    return refused(name, "FSM001", f"this is not the name of a {what}", hint)


def systems() -> tuple[str, ...]:
    return _file_stems("models/systems")


def roles() -> dict[str, Role]:
    """Map every shipped machine and system to its role. The roles that are needed most often come first.

    A *contract* is a machine that another machine refines or follows. A *part* occurs only in systems. It has no
    profile, and neither refines nor follows another machine.

    >>> found = roles()
    >>> found["container-status"], found["node"], found["sync-reader"]
    ('implementation', 'system', 'part')
    """
    paths = [(name, _shipped("properties", name)) for name in specified()]
    bound = {
        name: other
        for name, path in paths
        for stated in _stated(content(path), path=path).written.property.values()
        if (other := stated.refines or stated.follows)
    }
    files = [_shipped("models/systems", name) for name in systems()]
    used = {part.machine for path in files for part in _composed(content(path), path=path).written.part.values()}
    contracts = [name for name in names() if name in bound.values()]
    bare = {name for name in used if name not in bound and not load(name).profiles}
    others = [name for name in names() if name not in {*contracts, *bound, *bare}]
    return {
        **dict.fromkeys(contracts, "contract"),
        **dict.fromkeys((*bound, *others), "implementation"),
        **dict.fromkeys(systems(), "system"),
        **dict.fromkeys((name for name in names() if name in bare and name not in contracts), "part"),
    }


def is_system(name: str) -> bool:
    if name in names() or name in systems():
        return name in systems()
    path = name if is_path(name) else str(foreign_models().get(name, ""))
    return is_file(path) and _form_of(content(path), path=path) is WrittenSystem


def load_system(name: str | PathLike[str], counts: Mapping[str, int] | None = None) -> System:
    """Return the system called *name* or in the file *name*. *counts* maps parts to numbers of copies.

    >>> house = "examples/models/systems/house.toml"
    >>> len(load_system(house).copies), len(load_system(house, {"door": 1}).copies)
    (3, 2)
    """
    name = fspath(name)
    if name in names() or (is_file(name) and table_at(content(name), ("machine",), path=name)):
        hint = f"in Python, fsm.load({name!r}) loads the machine"
        raise refused(name, "FSM001", "this model is a machine, but a system is needed", hint)
    path = Path(_path_of(name, "models/systems", systems(), "system"))
    make = partial(build_system, find=partial(_machine_of_part, path))
    system = _read_and_build(_composed, content(path), WrittenSystem, str(path), make)
    return counted(system, counts) if counts else system


def counted(system: System, counts: Mapping[str, int]) -> System:
    """Return *system* with the numbers of copies in *counts*. Other parts keep the number that the file specifies.

    Raise :class:`InputError` for an unknown part, or for a number that is not from 1 to 100.
    """
    path = system.path or system.name
    for name, count in counts.items():
        if name not in system.parts:
            raise refused(path, "FSM701", f"unknown part '{name}'", nearest(name, system.parts, of="parts"))
        if not 1 <= count <= MOST_COUNTED:
            what = f"{count} copies of '{name}' are not allowed"
            raise refused(path, "FSM703", what, f"give a number from 1 to {MOST_COUNTED}")
    file = composition(system)
    changed = {name: file.written.part[name].model_copy(update={"count": count}) for name, count in counts.items()}
    written = file.written.model_copy(update={"part": {**file.written.part, **changed}})
    return build_system(replace(file, written=written), partial(_machine_of_part, Path(file.path)))


def _machine_of_part(path: Path, machine: str) -> Machine:
    return load(_named_in(path, machine, path.absolute().parents[:2]))


def _named_in(path: Path, name: str, folders: Sequence[Path]) -> str:
    """Return the path or name of the model that the file *path* calls *name*.

    A path starts at the folder of the file.  A name is that of a model in one of the *folders*, or a known name.
    """
    if is_path(name):
        return _ordinary_file(path.parent / name)
    near = (folder / f"{name}.toml" for folder in folders)
    found = next(filter(_is_model_file, near), None)
    if found is None and not names_a_model(name):
        models = filter(_is_model_file, _files_in(Path(), Path("models"), *folders))
        files = {file.stem: Path(relpath(file, path.parent)) for file in models}
        raise _unknown(name, "model", (*names(), *systems(), *foreign_models()), files)
    return str(found or name)


def _is_model_file(path: Path) -> bool:
    return is_file(path) and _form_of(content(str(path)), path=str(path)) is not Stated


def _ordinary_file(path: Path) -> str:
    """Return *path*, or raise :class:`InputError` for a pipe or a device, because reading it could block forever."""
    if lexists(path) and not is_file(path):
        hint = "give the path of a model file, or a name from 'fsm list'"
        raise refused(str(path), "FSM001", "this is not an ordinary file", hint)
    return str(path)


def composition(system: System) -> File[WrittenSystem]:
    """Return the parsed file of *system*."""
    return _composed(content(system.path), path=system.path)


def specified() -> tuple[str, ...]:
    return _file_stems("properties")


def specification(name: str) -> Specification[Machine]:
    """Return the properties of a machine, as :func:`claims` does. Raise :class:`InputError` for a system.

    >>> specification("examples/models/door.toml").machine.name
    'door'
    """
    found = claims(name)
    if is_of(found, Machine):
        return found
    raise system_error(name)


def claims(name: str) -> Specification[Machine | System]:
    """Return the properties of the machine or system *name*, or the properties in the file *name*.

    The properties of a model are in the file of the same name in the folder ``properties`` beside the model's folder.
    Raise :class:`InputError` if the model has no properties, or if they are not well formed.

    >>> claims("examples/models/systems/house.toml").machine.name
    'house'
    """
    if is_path(name) and not _is_folder(name) and _form_of(content(name), path=name) is Stated:
        return _specification_in(Path(name), None)
    described = load_any(name)
    folder, file = Path(described.path).absolute().parent, Path(described.path).name
    if folder.parts[-2:] == ("models", "systems"):
        return _specification_in(folder.parents[1] / "properties" / "systems" / file, described)
    return _specification_in(folder.parent / "properties" / file, described)


def _specification_in(path: Path, machine: Machine | System | None) -> Specification[Machine | System]:
    data = content(path) if machine is None or path.is_file() else b""
    if machine is not None and not data.strip():
        hint = f"write the properties in {path}, or give the path of a property file"
        raise refused(machine.path or machine.name, "FSM306", "the model has no properties", hint)
    make = partial(specify, find=partial(_model_for, path, known=machine))
    return _read_and_build(_stated, data, Stated, str(path), make)


def _model_for(path: Path, name: str, known: Machine | System | None = None) -> Machine | System:
    folder = path.absolute().parent
    models = folder.parent.parent / "models" / "systems" if folder.name == "systems" else folder.parent / "models"
    found = _named_in(path.absolute(), name, (models, folder, folder.parent))
    if known is not None and is_path(found) and Path(found) == Path(known.path).absolute():
        return known
    return load_any(found)


def single(specification: Specification[System]) -> Specification[System]:
    return composed(specification, dict.fromkeys(specification.machine.parts, 1))


def composed(stated: Specification[System], counts: Mapping[str, int], *, copy: int = 0) -> Specification[System]:
    """Return the specification of the system with the numbers of copies in *counts* (see :func:`counted`).

    Claims about each copy of a part are made about the copy with the number *copy*. If *copy* is not 0, all other
    properties are left out. The sizes in the file are for the file's numbers of copies, so *counts* removes the sizes.

    >>> of = claims("examples/models/systems/house.toml")
    >>> len(composed(of, {"door": 3}).machine.copies), len(composed(of, {}, copy=1).properties) < len(of.properties)
    (4, True)
    """
    system = counted(stated.machine, counts) if counts else stated.machine
    file = _stated(content(stated.path), path=stated.path)
    named = file.written.machine
    found = specify(file, lambda name: system if name == named else _model_for(Path(stated.path), name), copy=copy)
    if not is_of(found, System):
        raise TypeError(f"{named} is a machine")
    return replace(found, expect={}) if counts else found


def specifications_of_copies(specification: Specification[System]) -> tuple[Specification[System], ...]:
    """Return a specification for each copy number from 1 on, with only the claims about copies of parts."""
    most = max(len(part.copies) for part in specification.machine.parts.values())
    return tuple(composed(specification, {}, copy=copy) for copy in range(1, most))


@lru_cache(maxsize=REMEMBERED)
def _machine(data: bytes, path: str) -> Machine:
    return _read_and_build(partial(parse, form=Written), data, Written, path, build)


def _read_and_build(
    read: Callable[..., File[F]], data: bytes, form: type[F], path: str, make: Callable[[File[F]], T]
) -> T:
    try:
        file = read(data, path=path)
    except InputError as error:
        raise with_meaning(error, data, form, path=path, make=make) from None
    return make(file)


def is_path(name: str) -> bool:
    return name.endswith(".toml") or "/" in name


def load_any(name: str) -> Machine | System:
    return load_system(name) if is_system(name) else load(name)
