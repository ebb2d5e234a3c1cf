"""The descriptors and types of the protocols are what protoc writes, except for what nothing uses."""

from __future__ import annotations

from importlib import import_module
from pathlib import Path

import protocols
import pytest


@pytest.mark.parametrize("protocol", protocols.PROTOCOLS, ids=lambda path: path.stem)
def test_generated_files_are_current(protocol: Path) -> None:
    for path, data in protocols.made(protocol).items():
        assert path.read_bytes() == data, "python tests/support/protocols.py --write"


@pytest.mark.parametrize("protocol", protocols.PROTOCOLS, ids=lambda path: path.stem)
def test_every_message_and_enumeration_is_defined(protocol: Path) -> None:
    module = import_module(f"fsm.runtimes.sockets.{protocol.stem}_pb2")
    described = module.DESCRIPTOR

    for name, message in described.message_types_by_name.items():
        assert getattr(module, name)().DESCRIPTOR is message
        assert getattr(module, name).__module__ == module.__name__
    values = [value for kind in described.enum_types_by_name.values() for value in kind.values]
    assert {value.name: value.number for value in values}.items() <= vars(module).items()
