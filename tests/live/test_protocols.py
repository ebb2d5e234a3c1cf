"""The modules of the protocols are identical to the output of protoc."""

from __future__ import annotations

from pathlib import Path

import protocols
import pytest


@pytest.mark.parametrize("protocol", protocols.PROTOCOLS, ids=lambda path: path.stem)
def test_generated_modules_are_current(protocol: Path) -> None:
    for path, text in protocols.made(protocol).items():
        assert path.read_text(encoding="utf-8") == text, "python tests/support/protocols.py --write"
