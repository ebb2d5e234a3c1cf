"""Containers in tests run the same image everywhere. If the image cannot be built, an error names a remedy."""

from __future__ import annotations

import io
import json
import struct
import tarfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from fsm.errors import InputError
from fsm.runtimes.live.workload import APPLETS, PAUSE, WORKLOAD, archive, import_images

if TYPE_CHECKING:
    from collections.abc import Callable

STATIC = b"\x7fELF\x02\x01\x01".ljust(16, b"\0") + struct.pack(
    "<HHIQQQIHHHHHH", 2, 62, 1, 0, 64, 0, 0, 64, 56, 1, 0, 0, 0
)
"""The header of an ELF binary for amd64 with a single program header."""

LOADED = struct.pack("<I", 1).ljust(56, b"\0")
LINKED = struct.pack("<I", 3).ljust(56, b"\0")


@pytest.fixture
def binary(tmp_path: Path) -> Callable[[bytes], Path]:
    def written(data: bytes) -> Path:
        path = tmp_path / "binary"
        path.write_bytes(data)
        return path

    return written


def files(content: bytes) -> dict[str, bytes]:
    with tarfile.open(fileobj=io.BytesIO(content)) as file:
        return {each.name: opened.read() for each in file if (opened := file.extractfile(each))}


def blob(content: dict[str, bytes], at: dict[str, Any]) -> bytes:
    return content[f"blobs/sha256/{at['digest'].removeprefix('sha256:')}"]


def test_the_same_binary_is_the_same_archive(binary: Callable[[bytes], Path], tmp_path: Path) -> None:
    elsewhere = tmp_path / "elsewhere"
    elsewhere.write_bytes(STATIC + LOADED)
    elsewhere.touch(mode=0o700)

    assert archive(binary(STATIC + LOADED)) == archive(elsewhere)
    assert archive(binary(STATIC + LOADED + b"1")) != archive(elsewhere)


def test_an_image_is_what_its_manifest_says(binary: Callable[[bytes], Path]) -> None:
    """The two images share a layer, in which the applets are links to the binary, but differ in their ids."""
    content = files(archive(binary(STATIC + LOADED)))
    index = json.loads(content["index.json"])["manifests"]
    manifests = [json.loads(blob(content, each)) for each in index]
    configs = [json.loads(blob(content, each["config"])) for each in manifests]
    with tarfile.open(fileobj=io.BytesIO(blob(content, manifests[0]["layers"][0]))) as layer:
        links = {each.name: each.linkname for each in layer if each.issym()}
        program = layer.extractfile("bin/busybox")
        assert program
        assert STATIC + LOADED == program.read()

    assert {f"bin/{name}": "busybox" for name in APPLETS} == links
    assert [WORKLOAD, PAUSE] == [each["annotations"]["io.containerd.image.name"] for each in index]
    assert len(configs) == len({each["config"]["digest"] for each in manifests})
    assert {"amd64"} == {each["architecture"] for each in configs}
    assert all(
        each["layers"][0]["digest"] == config["rootfs"]["diff_ids"][0]
        for each, config in zip(manifests, configs, strict=True)
    )


@pytest.mark.parametrize(
    ("data", "what"),
    [
        (STATIC + LINKED, "is not static"),
        (STATIC, "the binary is truncated"),
        (b"#!/bin/sh\n", "the file is not a 64-bit Linux binary"),
        (b"", "the file is not a 64-bit Linux binary"),
        (STATIC.replace(b"\x3e", b"\x03") + LOADED, "unknown architecture, number 3"),
    ],
)
def test_what_cannot_be_an_image_is_refused(data: bytes, what: str, binary: Callable[[bytes], Path]) -> None:
    with pytest.raises(
        InputError, match=f"{what}[^]]*\\[FSM601\\]\n *install a static busybox: apt-get install busybox-static"
    ):
        archive(binary(data))


def test_a_binary_that_is_missing_is_named(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="nowhere: the file cannot be read: no such file"):
        archive(tmp_path / "nowhere")


def test_the_client_of_containerd_is_needed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The error names the missing client.

    If no daemon listens, only ``PATH`` is searched for the client.
    """
    monkeypatch.setenv("PATH", str(tmp_path))

    with pytest.raises(InputError, match="the program 'ctr'"):
        import_images(tmp_path / "socket", b"")


@pytest.mark.parametrize(
    ("script", "what"),
    [
        (
            "echo first >&2; echo 'ctr: no such socket' >&2; exit 1",
            "the image could not be imported: ctr: no such socket",
        ),
        ("sleep 9", "within 0.2 s"),
    ],
)
def test_what_the_client_says_is_told(script: str, what: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    client = tmp_path / "ctr"
    client.write_text(f"#!/bin/sh\n{script}\n", encoding="utf-8")
    client.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")

    with pytest.raises(InputError, match=what):
        import_images(tmp_path / "socket", b"", timeout=0.2)
