"""The wheel installs a single importable package and every shipped file."""

from __future__ import annotations

import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent.parent


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> dict[str, bytes]:
    out = tmp_path_factory.mktemp("wheel")
    command = [sys.executable, "-m", "hatchling", "build", "--target", "wheel", "--directory", str(out)]
    subprocess.run(command, cwd=ROOT, check=True, capture_output=True)
    (built,) = out.glob("*.whl")
    with zipfile.ZipFile(built) as packed:
        return {name: packed.read(name) for name in packed.namelist()}


def test_installs_one_import_name(wheel: dict[str, bytes]) -> None:
    tops = {name.split("/")[0] for name in wheel}

    assert {"fsm"} == {top for top in tops if not top.endswith(".dist-info")}


@pytest.mark.parametrize("kind", ["models", "properties"])
def test_carries_every_shipped_file(kind: str, wheel: dict[str, bytes]) -> None:
    written = {f"fsm/_shipped/{path.relative_to(ROOT)}" for path in (ROOT / kind).rglob("*.toml")}

    assert written == {name for name in wheel if name.startswith(f"fsm/_shipped/{kind}/") and name.endswith(".toml")}


def test_modules_are_those_of_the_checkout(wheel: dict[str, bytes]) -> None:
    written = {str(path.relative_to(ROOT)): path.read_bytes() for path in (ROOT / "fsm").rglob("*.py")}

    assert written == {name: data for name, data in wheel.items() if name.endswith(".py")}


def test_carries_models_and_types(wheel: dict[str, bytes]) -> None:
    assert any(name.startswith("fsm/_shipped/models/") for name in wheel)
    assert "fsm/py.typed" in wheel
    assert {"fsm/language/codes.toml", "fsm/runtimes/codes.toml"} <= {*wheel}
    assert {f"fsm/runtimes/sockets/{each}.binpb" for each in ("cri", "nri", "ttrpc")} <= {*wheel}


def test_carries_neither_tests_nor_caches(wheel: dict[str, bytes]) -> None:
    assert not [name for name in wheel if "tests/" in name or "conftest" in name or "__pycache__" in name]
