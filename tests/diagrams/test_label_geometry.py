"""Words in the shipped pictures touch neither lines nor other words.

The widths of words are measured with the font, and a renderer draws the pictures.
"""

from __future__ import annotations

import re
import subprocess
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from label_geometry import drawn, touching, widths
from real_parts import program

if TYPE_CHECKING:
    from collections.abc import Mapping

    from label_geometry import Drawn, Style

DIAGRAMS = Path(__file__).resolve().parent.parent.parent / "diagrams"
PICTURES = sorted(DIAGRAMS.glob("*.svg"))


@pytest.fixture(scope="module")
def pictures() -> dict[str, Drawn]:
    return {path.stem: drawn(path.read_bytes()) for path in PICTURES}


@pytest.fixture(scope="module")
def wide(pictures: dict[str, Drawn]) -> Mapping[Style, float]:
    program("dot")
    return widths(style for picture in pictures.values() for style, _, _ in picture.texts)


def test_no_label_touches_a_line(pictures: dict[str, Drawn], wide: Mapping[Style, float]) -> None:
    assert all(picture.texts and picture.lines for picture in pictures.values())
    assert [f"{name}: {each}" for name, picture in pictures.items() for each in touching(picture, wide)] == []


@pytest.mark.parametrize("name", ["cri-pod", "plugin-container"])
def test_a_label_on_a_line_is_found(name: str, pictures: dict[str, Drawn], wide: Mapping[Style, float]) -> None:
    picture = pictures[name]
    (style, at, _), (other, _, _) = picture.texts[0], picture.texts[-1]
    for of, points in picture.lines:
        middle = points[len(points) // 2]
        for place in (middle, middle._replace(x=middle.x - wide[style] / 2, y=middle.y + style.size / 3)):
            moved = picture._replace(texts=[(style, place, "start")])
            assert f"'{style.text}' and {of}" in touching(moved, wide)

    over = picture._replace(texts=[(style, at, "start"), (other, at, "start")], lines=[])
    assert touching(over, wide) == [f"'{style.text}' and '{other.text}'"]


def rendered(picture: bytes, folder: Path) -> tuple[bytes, str]:
    made = folder / "picture.png"
    made.unlink(missing_ok=True)
    ran = subprocess.run(
        [program("rsvg-convert"), "-o", str(made)], input=picture, capture_output=True, check=False, timeout=60
    )
    return made.read_bytes() if made.exists() else b"", ran.stderr.decode()


@pytest.mark.slow
@pytest.mark.parametrize("path", PICTURES, ids=lambda path: path.stem)
def test_a_renderer_draws_it(path: Path, tmp_path: Path) -> None:
    picture = path.read_bytes()
    whole, said = rendered(picture, tmp_path)

    (size,) = re.findall(rb'<svg[^>]* width="(\d+)" height="(\d+)"', picture)
    assert said == ""
    assert (int.from_bytes(whole[16:20]), int.from_bytes(whole[20:24])) == tuple(map(int, size))
    for part in (rb"<text.*?</text>", rb"<path[^>]*/>"):
        assert rendered(re.sub(part, b"", picture), tmp_path)[0] not in {whole, b""}


@pytest.mark.slow
def test_what_is_broken_is_not_drawn(tmp_path: Path) -> None:
    drawn_, said = rendered(PICTURES[0].read_bytes().replace(b"</svg>", b""), tmp_path)

    assert drawn_ == b""
    assert said
