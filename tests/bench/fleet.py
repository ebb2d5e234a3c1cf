"""Measure the observations per second of a local Spark cluster, compared with a single process.

    python tests/bench/fleet.py [--rows 10000000] [--nodes 8]

There are three Parquet tables. The first has several nodes, whose entities have ten observations each, in order of
time. The second has the same rows shuffled, as if some had arrived late. The third has a single container with the
same number of observations. The tables are judged by node and by entity, on one core and on two. So are files
with a single node each, which need no sorting.

Times are wall-clock times of a session that has already judged a small table. Memory is the peak that the system
reports for all Python workers together and for Java. Files are generated in a temporary folder.
"""

from __future__ import annotations

import argparse
import tempfile
import threading
import time
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
from pyarrow import parquet
from tables import judged, written

from fsm.fleet import spark

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pyspark.sql import SparkSession

MODELS = ["container-status"]


def fleet(folder: Path, rows: int, nodes: int) -> dict[str, Path]:
    timely, _ = written(folder, rows)
    table = parquet.read_table(timely)
    of = np.frombuffer(b"".join(pa.array(table["entity"]).to_numpy(zero_copy_only=False).astype("S64")), "S64")
    whose = np.array([int(each[-4:], 16) for each in of]) % nodes
    table = table.append_column("node", pa.array([f"node-{each}" for each in range(nodes)]).take(pa.array(whose)))
    table = table.append_column("line", pa.array(np.arange(rows)))
    late = table.take(pa.array(np.random.default_rng(1).permutation(rows)))
    events = ["create", "start", *["status"] * (rows - 2)]
    one = pa.table(
        {
            "entity": pa.array(["c" * 64]).take(pa.array(np.zeros(rows, np.int8))),
            "event": events,
            "reply": pa.array(["ok"]).take(pa.array(np.zeros(rows, np.int8))),
            "node": pa.array(["node-0"]).take(pa.array(np.zeros(rows, np.int8))),
            "line": np.arange(rows),
        }
    )
    (folder / "files").mkdir()
    for node in range(nodes):
        mine = table.filter(pa.array(whose == node)).drop_columns(["node"])
        parquet.write_table(mine, folder / "files" / f"node-{node}.parquet", compression="zstd")
    found = {"files": folder / "files"}
    for name, each in (("nodes", table), ("late", late), ("one", one), ("small", table.slice(0, rows // 100))):
        found[name] = folder / f"{name}.parquet"
        parquet.write_table(each, found[name], compression="zstd", row_group_size=1 << 19)
    return found


@contextmanager
def watched(most: dict[str, int]) -> Iterator[None]:
    """Record the peak memory of Python workers and of Java, in megabytes, while the ``with`` block runs."""
    over = threading.Event()

    def look() -> None:
        while not over.wait(0.2):
            now = {"python": 0, "java": 0}
            for each in Path("/proc").glob("[0-9]*"):
                with suppress(OSError):
                    command = (each / "cmdline").read_bytes()
                    which = "python" if b"pyspark.daemon" in command else "java" if b"java\0" in command[:64] else ""
                    if which:
                        now[which] += int((each / "statm").read_text().split()[1]) * 4096 >> 20
            most.update({which: max(most.get(which, 0), size) for which, size in now.items()})

    thread = threading.Thread(target=look)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()


def spent(session: SparkSession, path: Path, by: spark.Division) -> float:
    start = time.perf_counter()
    if path.is_dir():
        judging = spark.judge_files(session, spark.named(map(str, path.iterdir())), models=MODELS)
    else:
        judging = spark.judge(session.read.parquet(str(path)), models=MODELS, by=by)
    summary, problems = judging.summary()
    assert not problems, problems
    assert summary.shares, summary
    return time.perf_counter() - start


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--rows", type=int, default=10_000_000)
    options.add_argument("--nodes", type=int, default=8)
    asked = options.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        paths = fleet(Path(folder), asked.rows, asked.nodes)
        judged(paths["nodes"])
        start = time.perf_counter()
        judged(paths["nodes"])
        print(f"{'one process':<34}{asked.rows / (time.perf_counter() - start):>12,.0f} observations/s")  # noqa: T201
        for cores in (1, 2):
            session = spark.session(f"local[{cores}]")
            spent(session, paths["small"], "entity")
            for name, by in (
                ("files", "node"),
                ("nodes", "node"),
                ("nodes", "entity"),
                ("late", "entity"),
                ("one", "node"),
            ):
                most: dict[str, int] = {}
                with watched(most):
                    taken = spent(session, paths[name], by)  # type: ignore[arg-type]  # one of the two
                size = f"Python {most.get('python', 0)} MB, Java {most.get('java', 0)} MB"
                title = f"{name} by {by}, {cores} cores"
                print(f"{title:<34}{asked.rows / taken:>12,.0f} observations/s  {taken:6.1f} s  {size}", flush=True)  # noqa: T201
            session.stop()


if __name__ == "__main__":
    main()
