"""A keeper process between a test and a runtime, which lets calls in progress finish even if the test is killed.

If the caller of RunPodSandbox goes away while containerd is starting a process, containerd leaves that process
running, and CRI does not show it. The keeper therefore forwards everything to the runtime except the frames that
cancel a call, and closes a connection to the runtime only when all calls on it have been answered.

This module runs as a program, ``python PATH RUNTIME SECONDS``, and imports no other module of fsm. Its standard
input is the listening socket. The program exits when no process has the other end of its standard output open.
"""

import os
import select
import socket
import struct
import subprocess
import sys
import threading
from contextlib import suppress
from pathlib import Path
from typing import Final

_HEAD: Final = struct.Struct(">HBBBI")
_DATA, _HEADERS, _RESET = 0, 1, 3  # types of HTTP/2 frames, each of which begins with a header of nine bytes
_LAST: Final = 1  # flag of the last frame of a stream
_PREFACE: Final = 24  # number of bytes that a client sends before its first frame
_SECONDS: Final = 30.0  # number of seconds to wait for calls in progress


class CallKeeper:
    """A process that listens on a socket in *folder* and forwards connections to the runtime.

    ``address`` refers to a file descriptor, so it is valid only in the process that created this object.
    """

    def __init__(self, folder: Path, runtime: Path) -> None:
        self._folder = os.open(folder, os.O_PATH | os.O_DIRECTORY)
        path = Path(f"/proc/self/fd/{self._folder}/cri.sock")
        self.address = f"unix://{path}"
        with socket.socket(socket.AF_UNIX) as listening:
            listening.bind(str(path))
            path.chmod(0o600)
            listening.listen()
            self._process = subprocess.Popen(  # noqa: S603  (runs this file)
                [sys.executable, "-I", "-S", __file__, str(runtime), str(_SECONDS)],
                stdin=listening.fileno(),
                stdout=subprocess.PIPE,
                start_new_session=True,
            )

    def close(self) -> None:
        if self._process.stdout is not None and not self._process.stdout.closed:
            self._process.stdout.close()
            os.close(self._folder)
        with suppress(subprocess.TimeoutExpired):
            self._process.wait(_SECONDS)


class _Connection:
    def __init__(self, client: socket.socket, runtime: str) -> None:
        self._client = client
        self._runtime = socket.socket(socket.AF_UNIX)
        self._calls: set[int] = set()
        self._changed = threading.Condition()
        self._runtime.connect(runtime)

    def passed(self, seconds: float) -> None:
        back = threading.Thread(target=self._relay_answers, daemon=True)
        back.start()
        with suppress(OSError):
            self._runtime.sendall(_receive_exactly(self._client, _PREFACE))
            while True:
                kind, _, stream, whole = _frame(self._client)
                if kind == _RESET:
                    continue
                if kind == _HEADERS:
                    with self._changed:
                        self._calls.add(stream)
                self._runtime.sendall(whole)
        with self._changed:
            self._changed.wait_for(lambda: not self._calls, seconds)
        with suppress(OSError):
            self._runtime.shutdown(socket.SHUT_RDWR)
        back.join()
        self._runtime.close()
        self._client.close()

    def hang_up(self) -> None:
        with suppress(OSError):
            self._client.shutdown(socket.SHUT_RD)

    def _relay_answers(self) -> None:
        gone = False
        with suppress(OSError):
            while True:
                kind, flags, stream, whole = _frame(self._runtime)
                if kind == _RESET or (kind in {_DATA, _HEADERS} and flags & _LAST):
                    with self._changed:
                        self._calls.discard(stream)
                        self._changed.notify_all()
                if not gone:
                    try:
                        self._client.sendall(whole)
                    except OSError:  # the client was killed
                        gone = True
        with self._changed:
            self._calls.clear()
            self._changed.notify_all()
        with suppress(OSError):
            self._client.shutdown(socket.SHUT_RDWR)


def _frame(source: socket.socket) -> tuple[int, int, int, bytes]:
    head = _receive_exactly(source, _HEAD.size)
    high, low, kind, flags, stream = _HEAD.unpack(head)
    return kind, flags, stream & 0x7FFFFFFF, head + _receive_exactly(source, high << 8 | low)


def _receive_exactly(source: socket.socket, count: int) -> bytes:
    parts = bytearray()
    while len(parts) < count:
        part = source.recv(count - len(parts))
        if not part:
            raise ConnectionError
        parts += part
    return bytes(parts)


def main(runtime: str, seconds: str) -> None:
    listening = socket.socket(fileno=os.dup(0))
    running: list[tuple[_Connection, threading.Thread]] = []
    gone = select.poll()
    gone.register(1, 0)  # poll reports errors even if no event is requested
    gone.register(listening, select.POLLIN)
    while all(number != 1 for number, _ in gone.poll()):
        client, _ = listening.accept()
        try:
            connection = _Connection(client, runtime)
        except OSError:
            client.close()
            continue
        thread = threading.Thread(target=connection.passed, args=(float(seconds),), daemon=True)
        thread.start()
        running.append((connection, thread))
    for connection, thread in running:
        connection.hang_up()
        thread.join()


if __name__ == "__main__":
    main(*sys.argv[1:])
