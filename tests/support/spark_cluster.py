"""Run a Spark cluster on this machine.

The master and the workers are separate processes, and a worker can be killed.
"""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import time
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final

import pyspark
from real_parts import program

if TYPE_CHECKING:
    from collections.abc import Iterator

_CLASS: Final = Path(pyspark.__file__).parent / "bin" / "spark-class"
_STARTED: Final = re.compile(r"Starting Spark master at (spark://\S+)")
_DEPLOY: Final = "org.apache.spark.deploy"
_PATIENCE: Final = 120


@dataclass(frozen=True, slots=True, kw_only=True)
class Cluster:
    master: str
    workers: list[subprocess.Popen[bytes]]

    def kill_a_worker(self) -> None:
        worker = self.workers.pop()
        os.killpg(worker.pid, signal.SIGKILL)
        worker.wait()


@contextmanager
def cluster(folder: Path, workers: int) -> Iterator[Cluster]:
    program("java")
    started: list[subprocess.Popen[bytes]] = []
    try:
        started.append(_start(folder, "master", "master.Master", "--host", "127.0.0.1", "--port", "0"))
        master = _said(folder / "master.log", _STARTED, 1)[0]
        options = ("--host", "127.0.0.1", "--cores", "1", "--memory", "1g", "--work-dir", str(folder / "work"))
        started += [_start(folder, f"worker-{each}", "worker.Worker", *options, master) for each in range(workers)]
        _said(folder / "master.log", re.compile("Registering worker"), workers)
        yield Cluster(master=master, workers=started[1:])
    finally:
        for each in started:
            if each.poll() is None:
                os.killpg(each.pid, signal.SIGKILL)
                each.wait()


def _start(folder: Path, name: str, what: str, *arguments: str) -> subprocess.Popen[bytes]:
    environment = os.environ | {
        "PYSPARK_PYTHON": sys.executable,
        "SPARK_LOCAL_DIRS": str(folder / "local"),
        "SPARK_LOCAL_IP": "127.0.0.1",
        "SPARK_DAEMON_MEMORY": "256m",
    }
    with (folder / f"{name}.log").open("wb") as log:
        return subprocess.Popen(
            [_CLASS, f"{_DEPLOY}.{what}", "--webui-port", "0", *arguments],
            env=environment,
            stdout=log,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )


def _said(log: Path, wanted: re.Pattern[str], times: int) -> list[str]:
    end = time.monotonic() + _PATIENCE
    while len(found := wanted.findall(log.read_text(encoding="utf-8", errors="replace"))) < times:
        assert time.monotonic() < end, log.read_text(encoding="utf-8", errors="replace")
        time.sleep(0.1)
    return found
