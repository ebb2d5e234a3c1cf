"""A Spark cluster computes the same result as a single machine, even if a worker dies."""

from __future__ import annotations

import json
import random
import subprocess
import sys
import threading
import time
from typing import TYPE_CHECKING, Any, Final

import pytest
from commands import FAILING, FSM, PLAIN, RECORDINGS, fsm
from judged import content
from msgspec.json import decode, encode
from spark_cluster import Cluster, cluster

from fsm.errors import InputError
from fsm.fleet import Summary, summarise, total
from fsm.monitor.judgement import judge

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from pyspark.sql import DataFrame, SparkSession

pytestmark = [pytest.mark.slow, pytest.mark.filterwarnings("ignore::ResourceWarning")]

NAMES: Final = ("containerd-1.6.20.log", "cri-calls-1.6.20.jsonl", "1.7.24-killed-containers.log.gz")
KIND: Final = "container-status"
NODES: Final = 3


@pytest.fixture(scope="module")
def two_workers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    with cluster(tmp_path_factory.mktemp("cluster"), workers=2) as found:
        yield found


@pytest.fixture(scope="module")
def session(two_workers: Cluster) -> Iterator[SparkSession]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("SPARK_LOCAL_IP", "127.0.0.1")
        patch.setenv("PYSPARK_PYTHON", sys.executable)
        patch.setenv("PYSPARK_SUBMIT_ARGS", "--conf spark.executor.memory=512m pyspark-shell")
        found = spark().session(two_workers.master)
        yield found
        found.stop()


def spark() -> Any:  # noqa: ANN401  (imported where it is used: it takes a second)
    from fsm.fleet import spark  # noqa: PLC0415

    return spark


def test_lines_in_any_order(session: SparkSession) -> None:
    rows = [
        (name, str(RECORDINGS / name), number, line)
        for name in NAMES
        for number, line in enumerate(content(name).splitlines(), 1)
    ]
    random.Random(1).shuffle(rows)
    frame = session.createDataFrame(rows, "node string, file string, line long, value binary")

    judged = spark().judge(frame)

    expected = total(summarise([judge(RECORDINGS / name)], node=name) for name in NAMES)
    assert judged.summary() == (expected, ())
    found = {(row.node, row.clause, row["count"]) for row in judged.findings.collect()}
    assert found == {
        (each.node, one.clause, one.count) for each in expected.shares for one in each.found + each.tolerated
    }
    assert any(row.first[0].line for row in judged.findings.collect())
    judged.forget()


def observations(folder: Path) -> tuple[list[tuple[Any, ...]], Summary]:
    """Return observations of a few nodes as rows, with the summary that a single machine computes.

    Some events affect all containers of their node.
    """
    rows: list[tuple[Any, ...]] = []
    parts = []
    for node in range(NODES):
        made = fsm(
            "simulate", KIND, "--length", "200", "--entities", "5", "--profile", "containerd-1.6", "--seed", str(node)
        )
        head, *lines = made.stdout.splitlines()
        lines[150:150] = ['{"event": "restart"}', '{"event": "restart", "phase": "maybe"}']
        path = folder / f"node-{node}.jsonl"
        path.write_text("\n".join([head, *lines]), encoding="utf-8")
        parts.append(summarise([judge(path)], node=f"node-{node}"))
        for number, line in enumerate(lines, 2):
            row = json.loads(line)
            values = (row.get(each) for each in ("entity", "of", "event", "phase", "reply", "shows", "emits"))
            rows.append((f"node-{node}", str(path), number, *values))
    return rows, total(parts)


def test_observations_by_node_and_by_entity(session: SparkSession, tmp_path: Path) -> None:
    rows, expected = observations(tmp_path)
    random.Random(1).shuffle(rows)
    texts = ", ".join(f"{each} string" for each in ("entity", "of", "event", "phase", "reply", "shows"))
    frame = session.createDataFrame(rows, f"node string, file string, line long, {texts}, emits array<string>")

    def found(frame: DataFrame, **how: Any) -> tuple[Summary, tuple[str, ...]]:  # noqa: ANN401  (passed on)
        judged: tuple[Summary, tuple[str, ...]] = spark().judge(frame, models=[KIND], fresh=True, **how).summary()
        return judged

    by_node, by_entity = found(frame), found(frame, by="entity", parts=3)

    assert any(each.found for each in expected.shares)
    for summary, problems in (by_node, by_entity):
        assert (summary.shares, problems) == (expected.shares, ())
    without, _ = found(frame.where("entity is not null"), by="entity", parts=3)
    assert without.shares != expected.shares


def test_recordings_that_were_converted(session: SparkSession, tmp_path: Path) -> None:
    """Converted tables store the order of their rows, so a cluster may rearrange the rows."""
    tables = [str(tmp_path / f"{number}.parquet") for number in range(len(NAMES))]
    for name, table in zip(NAMES, tables, strict=True):
        assert fsm("convert", str(RECORDINGS / name), "-o", table).returncode == 0
    frame = session.read.parquet(*tables).orderBy("entity").repartition(3)

    found, problems = spark().judge(frame).summary()

    expected = total([summarise([judge(RECORDINGS / name)]) for name in NAMES])
    assert problems == ()
    assert found.of_all().shares == expected.of_all().shares


def test_a_worker_is_killed_in_the_middle(session: SparkSession, two_workers: Cluster, tmp_path: Path) -> None:
    files = []
    for number in range(24):
        name = NAMES[number % len(NAMES)]
        files.append(tmp_path / f"node-{number}.{name.partition('.')[2]}")
        files[-1].write_bytes((RECORDINGS / name).read_bytes())
    nodes = spark().named(map(str, files))
    found: list[tuple[Summary, tuple[str, ...]]] = []
    judging = threading.Thread(target=lambda: found.append(spark().judge_files(session, nodes).summary()))
    tracker = session.sparkContext.statusTracker()

    def done() -> tuple[int, int]:
        stages = [stage for each in tracker.getActiveStageIds() if (stage := tracker.getStageInfo(each)) is not None]
        return max(
            ((each.numCompletedTasks, each.numTasks) for each in stages if each.numTasks == len(files)), default=(0, 1)
        )

    judging.start()
    while done()[0] < 3:
        assert judging.is_alive()
        time.sleep(0.02)
    two_workers.kill_a_worker()
    ended, all_of_them = done()
    judging.join()

    assert ended < all_of_them == len(files)
    expected = total(summarise([judge(each)], node=nodes[str(each)]) for each in files)
    assert found == [(expected, ())]
    assert len(expected.shares) > len(files)
    assert two_workers.workers[0].poll() is None


@pytest.mark.parametrize(
    ("columns", "how", "said"),
    [
        ("value string", {}, "the lines have no order"),
        ("line long, value string", {"by": "entity"}, "depends on the lines before it"),
        ("node string", {}, "the table needs a column "),
        ("entity string", {"models": [KIND]}, "the observations have no order"),
        ("entity string, line long", {}, "do not name their machine"),
        ("entity string, line long", {"models": ["no-such"]}, "no-such: this is not the name of a model"),
        ("entity string, line long", {"models": [KIND], "profile": "no-such"}, "no profile 'no-such'"),
    ],
)
def test_what_cannot_be_judged_is_refused_at_once(
    session: SparkSession, columns: str, how: dict[str, Any], said: str
) -> None:
    with pytest.raises((InputError, ValueError), match=said):
        spark().judge(session.createDataFrame([], columns), **how)


def test_files_that_cannot_be_read_are_told(session: SparkSession) -> None:
    good = str(RECORDINGS / NAMES[0])

    found, problems = spark().judge_files(session, {good: "one", "/no/such.log": "two"}).summary()

    assert found == summarise([judge(good)], node="one")
    assert [each.partition(" [")[0] for each in problems] == [
        "/no/such.log: the file cannot be opened: no such file or directory"
    ]


def command(*arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [FSM, "judge", *arguments], env=PLAIN | environment, capture_output=True, check=False, timeout=300, text=True
    )


@pytest.mark.nightly
def test_the_command(tmp_path: Path) -> None:
    files = [str(RECORDINGS / name) for name in NAMES[:2]]
    expected = total(summarise([judge(each)], node=node) for each, node in spark().named(files).items())
    (tmp_path / "all.json").write_bytes(encode(expected))

    summary = command("--engine", "spark[2]", "--format", "summary", *files)
    text = command("--engine", "spark", *files, "/no/such.log")

    assert (summary.returncode, decode(summary.stdout, type=Summary)) == (1, expected)
    assert text.stdout == fsm("merge", str(tmp_path / "all.json")).stdout
    assert text.returncode == 2
    assert "/no/such.log: the file cannot be opened: no such file or directory" in text.stderr


KILLED: Final = """\
import os, signal, sys

def hook(event, arguments):
    if event == "import" and arguments[0] == "fsm.monitor.judgement" and "daemon" in sys.argv[0]:
        if not os.path.exists({marker!r}):
            open({marker!r}, "w").close()
            os.kill(os.getpid(), signal.SIGKILL)

sys.addaudithook(hook)
"""
"""A hook that kills the first worker that begins to judge."""


def test_a_killed_worker_of_this_machine_is_replaced(tmp_path: Path) -> None:
    marker = tmp_path / "killed"
    (tmp_path / "sitecustomize.py").write_text(KILLED.format(marker=str(marker)), encoding="utf-8")
    files = [str(RECORDINGS / name) for name in NAMES[:2]]

    ran = command("--engine", "spark[1]", "--format", "summary", *files, PYTHONPATH=str(tmp_path))

    expected = total(summarise([judge(each)], node=node) for each, node in spark().named(files).items())
    assert marker.exists()
    assert (ran.returncode, decode(ran.stdout, type=Summary)) == (1, expected), ran.stderr


def test_tables_that_match_a_pattern(tmp_path: Path) -> None:
    """Each matching table is a separate recording, and its file name is the name of the node."""
    for number, name in enumerate(NAMES[:2]):
        assert fsm("convert", str(RECORDINGS / name), "-o", str(tmp_path / f"node-{number}.parquet")).returncode == 0

    ran = command("--engine", "spark[2]", "--format", "summary", f"file://{tmp_path}/*.parquet")

    expected = total(summarise([judge(tmp_path / f"node-{each}.parquet")], node=f"node-{each}") for each in range(2))
    assert (ran.returncode, decode(ran.stdout, type=Summary)) == (1, expected)


def test_without_java() -> None:
    ran = command("--engine", "spark", FAILING, JAVA_HOME="/no/such")

    assert (ran.returncode, ran.stdout) == (2, "")
    assert "local[*]: Spark cannot start a session: " in ran.stderr
    assert "openjdk-17-jre-headless" in ran.stderr
    assert "Traceback" not in ran.stderr


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (("--engine", "spork"), "'spork' is not an engine: "),
        (("--engine", "spark", "--follow"), "cannot be combined with --engine"),
        (("--engine", "spark", "--since", "2h"), "cannot be combined with --engine"),
        (("--engine", "spark", "--format", "sarif"), "with --engine, the format must be text or summary"),
        (("--engine", "spark", "-"), "the workers of --engine cannot read standard input"),
    ],
)
def test_options_that_a_cluster_has_not(options: tuple[str, ...], said: str) -> None:
    ran = fsm("judge", *options, FAILING)

    assert (ran.returncode, ran.stdout) == (2, "")
    assert said in ran.stderr
