"""Code is compiled only for large inputs, and a terminal shows a message about slow compilation."""

from __future__ import annotations

import io
import sys
from pathlib import Path

import pytest
from commands import FAILING, process

compiled = pytest.importorskip("fsm.compiled", reason="the extra 'fast' is not installed")


class Terminal(io.StringIO):
    """A stream that claims to be a terminal."""

    def isatty(self) -> bool:
        return True


SYSTEM = "examples/models/systems/house.toml"


@pytest.mark.parametrize(
    "words",
    [
        ("check", "examples/models/door.toml"),
        ("check", SYSTEM),
        ("judge", FAILING),
        ("test", "examples/models/door.toml", "--against", "model:examples/models/door.toml", "-n", "2"),
        ("mutate", "examples/models/door.toml"),
    ],
    ids=lambda words: words[0],
)
def test_nothing_is_compiled_for_a_small_input(words: tuple[str, ...], tmp_path: Path) -> None:
    ran = process(*words, env={"NUMBA_CACHE_DIR": str(tmp_path)})

    assert 2 > ran.returncode
    assert "compiling" not in ran.stderr
    assert [] == [*tmp_path.rglob("*.nb?")]


@pytest.mark.parametrize(("terminal", "lines"), [(True, 1), (False, 0)])
def test_slow_compilation_is_announced_once(monkeypatch: pytest.MonkeyPatch, lines: int, *, terminal: bool) -> None:
    stderr = Terminal() if terminal else io.StringIO()
    monkeypatch.setattr(sys, "stderr", stderr)
    monkeypatch.setattr(compiled, "_announced", set())

    for package in ("packed", "monitor", "packed"):
        compiled._announce(package)  # noqa: SLF001

    assert lines == stderr.getvalue().count("compiling the search of large systems, once, about 10 s\n")
    assert lines == stderr.getvalue().count("\n")


def double(number: int) -> int:
    return 2 * number


def test_code_that_is_not_cached_is_announced(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(compiled, "code_folder", lambda _: str(tmp_path))
    packages: list[str] = []
    monkeypatch.setattr(compiled, "_announce", packages.append)

    for _ in range(2):
        assert 6 == compiled.compiled(double)(3)

    assert [Path(__file__).parent.name] == packages
