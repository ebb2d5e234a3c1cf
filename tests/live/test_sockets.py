"""Addresses of Unix sockets are checked, and invalid ones cause a message."""

from __future__ import annotations

import os
import signal
import socket
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from passing import wait_for

from fsm.errors import InputError
from fsm.runtimes.live.nri_recorder import ToldPlugin
from fsm.runtimes.sockets.unix_sockets import bound, path, reached, target


@pytest.fixture
def listening(tmp_path: Path) -> Iterator[Path]:
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(str(tmp_path / "it.sock"))
        server.listen()
        yield tmp_path / "it.sock"


@pytest.mark.parametrize(
    ("address", "found"),
    [
        ("unix:///run/it.sock", "/run/it.sock"),
        ("unix:/run/it.sock", "/run/it.sock"),
        ("unix:it.sock", "it.sock"),
        ("/run/it.sock", "/run/it.sock"),
    ],
)
def test_addresses_name_paths(address: str, found: str) -> None:
    assert found == path(address)


@pytest.mark.parametrize(
    ("address", "says"),
    [
        ("tcp://localhost:1234", "this is not the address of a Unix socket"),
        ("it.sock", "this is not the address of a Unix socket"),
        ("unix://run/it.sock", "three slashes"),
        ("unix:", "the address has no path"),
        ("unix:///a\0b", "the address has no path"),
        (f"unix:///{'x' * 200}", "the system allows at most 107"),
    ],
)
def test_other_addresses_are_refused(address: str, says: str) -> None:
    with pytest.raises(InputError, match=says) as refused:
        path(address)

    assert refused.value.problems[0].code == "FSM603"


def test_gRPC_takes_any_path() -> None:  # noqa: N802
    assert target("unix:///run/a b%41?.sock") == "unix:/run/a%20b%2541%3F.sock"


def test_a_socket_that_listens_is_reached(listening: Path) -> None:
    assert reached(f"unix://{listening}") == str(listening)


def test_what_cannot_be_reached_is_said(tmp_path: Path, listening: Path) -> None:
    (tmp_path / "file").touch()
    gone = tmp_path / "gone.sock"
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(str(gone))  # this socket is bound but never listens

    for place, says in {
        tmp_path / "none.sock": "there is no such socket",
        tmp_path / "file" / "it.sock": "there is no such socket",
        tmp_path / "file": "is not a socket",
        tmp_path: "is not a socket",
        gone: "nothing listens on this socket",
    }.items():
        with pytest.raises(InputError, match=says) as refused:
            reached(str(place))
        assert refused.value.problems[0].hint
    assert reached(str(listening))


def test_a_socket_of_others_is_not_reached(listening: Path) -> None:
    """The test runs as root, and becomes the user nobody."""
    listening.chmod(0)
    before = os.geteuid()
    if before == 0:
        os.seteuid(65_534)
    try:
        with pytest.raises(InputError, match="this user may not use the socket"):
            reached(str(listening))
    finally:
        os.seteuid(before)


def test_a_socket_with_a_full_queue_is_in_use(tmp_path: Path) -> None:
    """The check of a socket with a full queue does not wait, and the socket is not removed."""
    path = str(tmp_path / "it.sock")
    with bound(path) as busy, socket.socket(socket.AF_UNIX) as waits:
        busy.listen(0)
        waits.connect(path)
        with pytest.raises(OSError, match="another process listens there"):
            bound(path)
    bound(path).close()


def test_what_is_no_socket_stays(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(FileExistsError, match="is not a socket"):
        bound(str(tmp_path / "file"))
    assert (tmp_path / "file").is_file()


def test_a_runtime_that_goes_does_not_end_the_test_that_tells_it(listening: Path) -> None:
    """If the runtime disconnects, SIGPIPE would end the command, so the plugin's thread blocks this signal."""
    plugin = ToldPlugin(str(listening), lambda _: True)
    [thread] = (each for each in threading.enumerate() if each.name == "plugin")
    status = Path(f"/proc/self/task/{thread.native_id}/status")

    def blocked() -> bool:
        mask = next(line for line in status.read_text().splitlines() if line.startswith("SigBlk:"))
        return bool(int(mask.split()[1], 16) >> signal.SIGPIPE - 1 & 1)

    wait_for(blocked)
    plugin.close()
