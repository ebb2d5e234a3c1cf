"""Measure the observations per second of ``fsm judge`` on a table, compared with only reading its columns.

    python tests/bench/tables.py [--rows 10000000] [--rounds 3]

The table is a Parquet file of ``container-status`` with ten observations of each container, whose ids have 64 digits.
Its rows are sorted either by time, with eight containers at any time, or by container. The file has either all
columns, as ``fsm convert`` writes them, or just the columns that are judged, as ``pyarrow`` writes them by default,
which means that most ids are repeated in each row. Compiling and loading are not measured. Files are generated in a
temporary folder.
"""

from __future__ import annotations

import argparse
import tempfile
from pathlib import Path

import numpy as np
import pyarrow as pa
from judge import FIRST, LIFE, SHOWN, best
from pyarrow import parquet

from fsm.monitor.judgement import judge
from fsm.recordings.observation_columns import SCHEMA
from fsm.recordings.tables import GROUP, HOW
from fsm.verdict import Holds

COLUMNS = ("entity", "event", "reply", "shows")
HEADER = '{"trace":1,"machine":"container-status"}'
AT_ONCE = 8
"""The number of containers whose observations are interleaved."""


def written(folder: Path, rows: int) -> dict[str, Path]:
    shown = [""]
    for event in LIFE:
        shown.append(shown[-1] if event == "stop" and shown[-1] == "absent" else SHOWN.get(event, shown[-1]))
    numbers = np.arange(rows)
    block, step = numbers // (AT_ONCE * len(LIFE)), numbers % (AT_ONCE * len(LIFE)) // AT_ONCE
    container = block * AT_ONCE + numbers % AT_ONCE
    ids = pa.array([f"{each:064x}" for each in range(int(container.max()) + 1)])
    found: dict[str, Path] = {}
    for name, order in ("in the order of time", numbers), ("sorted", np.argsort(container, kind="stable")):
        none = pa.array(np.zeros(rows, np.int8))
        table = pa.table(
            {
                "entity": ids.take(pa.array(container[order])),
                "event": pa.array(LIFE).take(pa.array(step[order])),
                "reply": pa.array(["ok"]).take(none),
                "shows": pa.array(shown[1:]).take(pa.array(step[order])),
                "at": FIRST + numbers[order] * 1_000_000,
            }
        )
        found[f"{name}, as pyarrow writes it"] = folder / f"{len(found)}.parquet"
        parquet.write_table(table, [*found.values()][-1], compression="zstd")
        known = {"row": numbers, "line": numbers, "file": pa.array(["trace.jsonl"]).take(none)}
        known |= {
            "recording": pa.array([HEADER]).take(none),
            **dict(zip(table.column_names, table.columns, strict=True)),
        }
        whole = pa.table([known.get(each.name, pa.nulls(rows, each.type)) for each in SCHEMA], SCHEMA)
        found[f"{name}, as fsm convert writes it"] = folder / f"{len(found)}.parquet"
        parquet.write_table(whole, [*found.values()][-1], row_group_size=GROUP, **HOW)
    return found


def judged(path: Path) -> None:
    [found] = judge(path, models=["container-status"]).judgements
    assert isinstance(found.verdict, Holds)


def read(path: Path) -> None:
    """Read the columns that are judged, and do nothing else.

    One thread reads the columns in dictionary encoding.
    """
    with parquet.ParquetFile(path, read_dictionary=list(COLUMNS)) as file:
        for rows in file.iter_batches(batch_size=GROUP, columns=list(COLUMNS), use_threads=False):
            assert rows.num_rows


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--rows", type=int, default=10_000_000)
    options.add_argument("--rounds", type=int, default=3)
    asked = options.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        for name, path in written(Path(folder), asked.rows).items():
            judged(path)
            times = best(path, {"fsm judge": judged, "pyarrow, reading": read}, asked.rounds)
            print(f"Parquet, {name}, {path.stat().st_size / asked.rows:.1f} bytes a row")  # noqa: T201
            for each, taken in times.items():
                rates = f"{asked.rows / taken.computing:>12,.0f} observations/s of a core"
                print(f"  {each:<28}{rates}, {asked.rows / taken.clock:,.0f} by the clock")  # noqa: T201


if __name__ == "__main__":
    main()
