"""Measure the time that a proxy adds to a call.

    python tests/bench/proxy.py [--calls 2000] [--to unix:///run/containerd/containerd.sock]

The same calls are made alternately with and without the proxy, so that other load affects both equally. The proxy
runs in a process of its own. Without ``--to``, so does the runtime, which then answers immediately.
"""

from __future__ import annotations

import argparse
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from statistics import median, quantiles
from tempfile import TemporaryDirectory
from typing import Final

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "support"))

from cri_server import VERSION, Answering, serving

from fsm.runtimes.sockets.cri_client import CriClient
from fsm.runtimes.sockets.cri_pb2 import ContainerStatusRequest, ContainerStatusResponse

ONE: Final = "c" * 64
WARM: Final = 50
ANSWERS: Final[dict[str, Answering]] = {
    **VERSION,
    "ContainerStatus": lambda request, _context: ContainerStatusResponse(
        status={"id": request.container_id, "state": 1, "created_at": 5, "started_at": 7}
    ),
}


def _serve(path: str) -> None:
    with serving(Path(path), ANSWERS) as server:
        server.wait_for_termination()


def _process(stack: ExitStack, socket: Path, *command: str) -> None:
    process = stack.enter_context(subprocess.Popen([sys.executable, *command], stdout=subprocess.DEVNULL))
    stack.callback(process.send_signal, signal.SIGTERM)
    while not socket.exists():
        time.sleep(0.01)


def _line(name: str, seconds: list[float], direct: float) -> str:
    middle, slow = median(seconds) * 1e3, quantiles(seconds, n=100)[98] * 1e3
    return f"{name:34} median {middle:6.3f} ms   p99 {slow:6.3f} ms   median / direct {middle / direct:5.2f}   adds {middle - direct:+.3f} ms"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--calls", type=int, default=2_000)
    parser.add_argument("--to", default="")
    parser.add_argument("--serve", default="", help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.serve:
        _serve(given.serve)
        return
    with ExitStack() as stack:
        folder = Path(stack.enter_context(TemporaryDirectory()))
        to = given.to or f"unix:{folder / 'runtime'}"
        if not given.to:
            _process(stack, folder / "runtime", __file__, "--serve", str(folder / "runtime"))
        ways = {"direct": CriClient(to)}
        for name, *options in (
            ("proxy",),
            ("proxy --record", "--record", str(folder / "record.jsonl.gz")),
            ("proxy --record --judge", "--record", str(folder / "judged.jsonl.gz"), "--judge"),
        ):
            socket = folder / name.replace(" ", "")
            _process(stack, socket, "-m", "fsm", "proxy", "--listen", f"unix:{socket}", "--to", to, *options)
            ways[name] = CriClient(f"unix:{socket}")
        for each in ways.values():
            stack.callback(each.close)
        calls: dict[str, Callable[[CriClient], object]] = {
            "Version": lambda client: client.call("Version"),
            "ContainerStatus": lambda client: client.call("ContainerStatus", ContainerStatusRequest(container_id=ONE)),
        }
        for op, call in calls.items():
            took: dict[str, list[float]] = {name: [] for name in ways}
            for number in range(given.calls + WARM):
                for name, client in ways.items():
                    began = time.perf_counter()
                    call(client)
                    if number >= WARM:
                        took[name].append(time.perf_counter() - began)
            direct = median(took["direct"]) * 1e3
            for name, seconds in took.items():
                sys.stdout.write(f"{op:16}{_line(name, seconds, direct)}\n")


if __name__ == "__main__":
    main()
