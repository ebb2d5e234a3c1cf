"""Judge recordings on a Spark cluster, with a task for each recording or for each group of its entities.

The rows of a DataFrame are judged where they are stored, and only summaries are collected. The rows may be in any
order. A recording does not have to fit into memory.
"""

import os
import re
import sys
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Final, Literal, TypeAlias

import msgspec
from py4j.protocol import Py4JError, Py4JJavaError
from pyspark.errors import PySparkException, PySparkRuntimeError
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812  (the name that users of Spark expect)
from pyspark.sql.pandas.types import from_arrow_schema

from fsm.errors import refused
from fsm.fleet import Summary, total
from fsm.fleet import cluster_tasks as tasks
from fsm.language.library import is_path, load_any
from fsm.machine import Machine
from fsm.machine.product.system import System
from fsm.recordings.observation_columns import ABOUT, ROW
from fsm.recordings.time_order import SHORTEST, Assume

ORDERS: Final = (ROW, "line", "at")
"""Columns that can order observations, starting with the most precise column."""

Division: TypeAlias = Literal["node", "entity"]

_FORMS: Final = frozenset({".log", ".txt", ".json", ".jsonl", ".parquet", ".arrow", ".gz", ".zst"})

# Matches local masters that do not set a number of tries. By default, one dead worker fails the job.
_LOCAL: Final = re.compile(r"local(?:\[([^,\]]+)\])?")

_TRIES: Final = 4  # Maximum number of tries per task. This is Spark's default on clusters.

_JUDGED: Final = from_arrow_schema(tasks.JUDGED)
_FOUND: Final = from_arrow_schema(tasks.FOUND)


@dataclass(frozen=True, slots=True)
class JudgedFleet:
    """The results of judging a fleet's recordings. They are computed on first use.

    The DataFrame ``recordings`` has one row per recording, with its ``node`` and ``file``. The column ``judged``
    contains the summary in JSON. If the recording could not be judged, ``problem`` contains the reason.
    """

    recordings: DataFrame

    @property
    def findings(self) -> DataFrame:
        """A table with a row for each cause and each tolerated deviation of each recording."""
        return self.recordings.mapInArrow(tasks.causes, _FOUND)

    def summary(self) -> tuple[Summary, tuple[str, ...]]:
        """Return the combined summary, and the problems of recordings that could not be judged."""
        try:
            rows = self.recordings.mapInArrow(tasks.sum_summaries, _JUDGED).collect()
        except (PySparkException, Py4JError) as error:
            what = f"failed: {_short_message(error)}"
            hint = "each worker needs container-fsm[spark], in the Python that PYSPARK_PYTHON names"
            raise refused("Spark", "FSM601", what, hint) from error
        found = total(msgspec.json.decode(row.judged, type=Summary) for row in rows if row.judged)
        return found, tuple(sorted(row.problem for row in rows if row.problem))

    def forget(self) -> None:
        """Free the results on the cluster. They are recomputed on the next use."""
        self.recordings.unpersist()


def judge(
    frame: DataFrame,
    *,
    models: Sequence[str | Machine | System] = (),
    profile: str | None = None,
    by: Division = "node",
    fresh: bool = False,
    unseen: Sequence[str] = (),
    restarts: Assume = "maybe",
    shortest_restart: float = SHORTEST / 1e9,
    parts: int = 64,
) -> JudgedFleet:
    """Judge the recordings in *frame*. The optional columns ``node`` and ``file`` identify the recordings.

    Rows are either lines or observations. For a line of a log or of recorded calls, ``value`` is the text and ``line``
    is the number. Observations have the columns of ``docs/reference/trace-format.md``, and are ordered by the
    first existing column among ``row``, ``line`` and ``at``. *models* must name the machines, unless the rows come from
    ``fsm convert``.

    If *by* is ``entity``, the entities of each recording are divided into groups. The number of groups is *parts*.
    *unseen* and *fresh* have the same meaning as in the header of a trace. For the other arguments, see
    :func:`fsm.monitor.judgement.judge`. Shipped models are loaded on the cluster by name, and other machines
    are sent to it.

    Raise ``ValueError`` if columns are missing, and :class:`InputError` if a model is not well formed or no machine
    has the profile.
    """
    form = _row_form(frame, by)
    machines = _load_paths(models)
    if form == "observations" and not machines and ABOUT not in frame.columns:
        raise ValueError("the observations do not name their machine; pass models")
    task = tasks.ClusterTask(
        form=form,
        models=machines,
        profile=profile,
        fresh=fresh,
        unseen=tuple(unseen),
        restarts=restarts,
        shortest_restart=shortest_restart,
        parts=by == "entity",
    )
    task.check()
    present = {name: F.col(name).cast("string") if name in frame.columns else F.lit("") for name in ("node", "file")}
    keyed = frame.withColumns({name: F.coalesce(column, F.lit("")) for name, column in present.items()})
    if task.parts:
        own = F.pmod(F.xxhash64("entity"), F.lit(parts))
        of_all = F.coalesce(F.col("entity"), F.lit("")) == ""
        everywhere = F.sequence(F.lit(0).cast("long"), F.lit(parts - 1).cast("long"))
        keyed = keyed.withColumn("part", F.explode(F.when(of_all, everywhere).otherwise(F.array(own))))
    several = 4 * frame.sparkSession.sparkContext.defaultParallelism  # to keep all cores busy until the end
    keys = [name for name in tasks.KEYS if name in keyed.columns]
    order = [name for name in ORDERS if name in keyed.columns][:1]
    rows = keyed.repartition(several, *keys).sortWithinPartitions(*keys, *order)
    judged = rows.mapInArrow(task.judged, _JUDGED)
    if task.parts:
        together = judged.repartition(several, "node", "file").sortWithinPartitions("node", "file")
        judged = together.mapInArrow(tasks.put_together, _JUDGED)
    return JudgedFleet(judged.persist())


def judge_files(
    session: SparkSession,
    names: Mapping[str, str],
    *,
    models: Sequence[str | Machine | System] = (),
    profile: str | None = None,
    fresh: bool = False,
    restarts: Assume = "maybe",
    shortest_restart: float = SHORTEST / 1e9,
) -> JudgedFleet:
    """Judge recordings in files that all workers can open. *names* maps files to nodes."""
    task = tasks.ClusterTask(
        form="files",
        models=_load_paths(models),
        profile=profile,
        fresh=fresh,
        restarts=restarts,
        shortest_restart=shortest_restart,
    )
    task.check()
    rows = session.createDataFrame([(node, file) for file, node in names.items()], "node string, file string")
    return JudgedFleet(rows.repartition(max(1, len(names))).mapInArrow(task.judged, _JUDGED).persist())


def session(master: str) -> SparkSession:
    """Return a session that prints only errors and, on a terminal, progress.

    Raise :class:`InputError` if the session cannot be started.
    """
    quiet = f"-Dlog4j2.configurationFile={Path(__file__).with_name('log4j2.properties').as_uri()}"
    local = _LOCAL.fullmatch(master)
    builder = (
        SparkSession.builder.master(f"local[{local[1] or 1},{_TRIES}]" if local else master)
        .appName("fsm judge")
        .config("spark.ui.enabled", "false")
        .config("spark.log.level", "ERROR")
        .config("spark.ui.showConsoleProgress", str(sys.stderr.isatty()).lower())
        .config("spark.driver.extraJavaOptions", quiet)
    )
    if master.startswith("local"):  # Local workers must use the same interpreter.
        os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    try:
        return builder.getOrCreate()
    except (PySparkRuntimeError, Py4JError, OSError) as error:
        what = f"Spark cannot start a session: {_short_message(error)}"
        hint = "Spark needs Java 17, for example from Debian's package openjdk-17-jre-headless, and a reachable cluster"
        raise refused(master, "FSM601", what, hint) from error


def _short_message(error: Exception) -> str:
    """Return the first line of the error message. For an error in a worker, return the last line of the traceback."""
    said = error.java_exception.getMessage() if isinstance(error, Py4JJavaError) else str(error)
    lines = [line for line in (said or "").splitlines() if line.strip()] or [type(error).__name__]
    return lines[-1 if "Traceback (most recent call last):" in lines else 0].strip()


def _row_form(frame: DataFrame, by: Division) -> tasks.RowForm:
    names = frame.columns
    if "value" in names:
        if by == "entity":
            raise ValueError("the meaning of a line depends on the lines before it, so lines must be judged by node")
        if "line" not in names:
            raise ValueError("the lines have no order; add a column 'line' with their numbers")
        return "lines"
    if "entity" not in names:
        needed = "a column 'value' for lines, or 'entity' for observations"
        raise ValueError(f"the table needs {needed}, not only {', '.join(names)}")
    if not {*ORDERS} & set(names):
        raise ValueError("the observations have no order; add a column 'line' or a column 'at' with the time")
    return "observations"


def _load_paths(models: Sequence[str | Machine | System]) -> list[str | Machine | System]:
    """Load models that are given as paths, because workers may not have the files."""
    return [load_any(model) if isinstance(model, str) and is_path(model) else model for model in models]


def named(files: Iterable[str]) -> dict[str, str]:
    """Map files to nodes. A node is named after its file, or after the folder if file names are not unique.

    >>> named(["logs/node-7.v1.log.gz", "logs/node-8.log"])
    {'logs/node-7.v1.log.gz': 'node-7.v1', 'logs/node-8.log': 'node-8'}
    >>> named(["node-7/door.log", "node-8/door.log"])
    {'node-7/door.log': 'node-7', 'node-8/door.log': 'node-8'}
    """
    paths = {file: PurePosixPath(file) for file in files}
    for node in (lambda path: _stem(path.name), lambda path: path.parent.name):
        found: dict[str, str] = {file: node(path) for file, path in paths.items()}
        if all(found.values()) and len({*found.values()}) == len(found):
            return found
    return {file: file for file in paths}


def _stem(name: str) -> str:
    stem, _, suffix = name.rpartition(".")
    return _stem(stem) if stem and f".{suffix}" in _FORMS else name
