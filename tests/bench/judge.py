"""Measure the lines per second of ``fsm judge``, compared with decoding the same bytes and with ``transitions``.

    python tests/bench/judge.py [--lines 1000000] [--rounds 3]

The contenders take turns in one run, and the best of all rounds counts, so compiling and loading in the first round
do not matter. Both CPU and wall-clock seconds are reported, because a second thread scans logs. Files are generated
in a temporary folder.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import subprocess
import sys
import tempfile
import time
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple
from unittest.mock import patch

import msgspec
from transitions import Machine, MachineError

from fsm.monitor.judgement import judge
from fsm.runtimes.recordings import log_reader
from fsm.verdict import Holds

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

os.environ["POLARS_MAX_THREADS"] = "1"  # polars reads this variable when it is imported below
import polars as pl

LIFE = ("create", "start", "exec-sync", "status", "update-resources", "stop", "stop", "status", "remove", "stop")
SHOWN = {
    "create": "CONTAINER_CREATED",
    "start": "CONTAINER_RUNNING",
    "exec-sync": "CONTAINER_RUNNING",
    "update-resources": "CONTAINER_RUNNING",
    "stop": "CONTAINER_EXITED",
    "remove": "absent",
}
RECORDING = Path(__file__).resolve().parent.parent / "recordings" / "containerd-1.7.24.log"
FIRST = 1_795_172_600 * 10**9
ID = re.compile(rb"[0-9a-f]{64}")
ENTRY = r'time="([^"]*)" level=(\w+) msg="((?:[^"\\]|\\.)*)"'
TIME = re.compile(rb'time="([^"]+)"')


def trace(path: Path, lines: int, *, shows: bool = True) -> None:
    """Write a trace of *lines* calls on many containers, one line for each call.

    The calls are a millisecond apart, and eight containers exist at any time. If *shows* is false, replies do not
    show states, and a stopped container may have a pending time limit.
    """
    with path.open("w", encoding="utf-8") as file:
        file.write('{"trace": 1, "machine": "container-status", "fresh": true}\n')
        written = 0
        for batch in range(lines // (8 * len(LIFE)) + 1):
            shown = dict.fromkeys(range(8), "")
            for event in LIFE:
                for each in range(8):
                    if written == lines:
                        return
                    if not (event == "stop" and shown[each] == "absent"):
                        shown[each] = SHOWN.get(event, shown[each])
                    line = {
                        "at": FIRST + written * 1_000_000,
                        "entity": f"{batch * 8 + each:064x}",
                        "event": event,
                        "reply": "ok",
                    }
                    file.write(json.dumps(line | ({"shows": shown[each]} if shows else {})) + "\n")
                    written += 1


def log(path: Path, lines: int) -> None:
    """Write a log that repeats a recording, each time at a later date and with fresh ids."""
    recorded = RECORDING.read_bytes().splitlines(keepends=True)
    times = [datetime.fromisoformat(found[1].decode()) if (found := TIME.match(line)) else None for line in recorded]
    known = [each for each in times if each]
    with path.open("wb") as file:
        for number in range(lines):
            turn, index = divmod(number, len(recorded))
            salt, line, at = b"%08x" % turn, recorded[index], times[index]
            if at:
                later = at + turn * (max(known) - min(known))
                line = b'time="%sZ"' % later.isoformat()[:26].encode() + line[line.index(b" level=") :]
            file.write(ID.sub(lambda found, salt=salt: salt + found[0][8:], line))  # type: ignore[misc]


class Container:
    state: str


def with_transitions(path: Path) -> int:
    states = {
        "absent": "absent",
        "created": "CONTAINER_CREATED",
        "running": "CONTAINER_RUNNING",
        "exited": "CONTAINER_EXITED",
    }
    machine = Machine(model=None, states=list(states), initial="absent", auto_transitions=False)
    machine.add_transition("create", "absent", "created")
    machine.add_transition("start", "created", "running")
    machine.add_transition("exec_sync", "running", None)
    machine.add_transition("update_resources", ["created", "running", "exited"], None)
    machine.add_transition("status", ["created", "running", "exited"], None)
    machine.add_transition("stop", "running", "exited")
    machine.add_transition("stop", ["absent", "created", "exited"], None)
    machine.add_transition("remove", ["created", "running", "exited"], "absent")
    machine.add_transition("remove", "absent", None)
    alive: dict[str, Container] = {}
    violations = 0
    with path.open("rb") as file:
        next(file)
        for line in file:
            seen: dict[str, Any] = json.loads(line)
            container = alive.get(seen["entity"])
            if container is None:
                container = alive[seen["entity"]] = Container()
                machine.add_model(container)
            try:
                getattr(container, seen["event"].replace("-", "_"))()
                legal = True
            except MachineError:
                legal = False
            violations += legal != (seen["reply"] == "ok") or states[container.state] != seen["shows"]
            if container.state == "absent":
                machine.remove_model(container)
                del alive[seen["entity"]]
    return violations


def decode_json(path: Path) -> None:
    decode = msgspec.json.Decoder().decode
    with path.open("rb") as file:
        for line in file:
            decode(line)


def decode_log(path: Path) -> None:
    with path.open("rb") as file:
        for line in file:
            line.decode("utf-8")


def extract(path: Path) -> None:
    """Extract the time, level and message of every line on one core, with a regular expression in ``polars``."""
    lines = pl.scan_csv(path, has_header=False, new_columns=["line"], separator="\x01", quote_char=None)
    parts = lines.select(pl.col("line").str.extract_groups(ENTRY)).unnest("line")
    assert parts.collect().width == ENTRY.count("(") - ENTRY.count("(?")


def judged_slowly(path: Path) -> None:
    """Judge a log line by line, as fsm normally does only for small logs."""
    with patch.object(log_reader, "ENOUGH", sys.maxsize):
        judged(path)


def judged(path: Path) -> None:
    found = judge(str(path))
    assert all(isinstance(each.verdict, Holds) for each in found.judgements), path


def checked(path: Path) -> None:
    assert with_transitions(path) == 0


class Taken(NamedTuple):
    computing: float
    clock: float


def best(path: Path, contenders: Mapping[str, Callable[[Path], None]], rounds: int) -> dict[str, Taken]:
    times = dict.fromkeys(contenders, Taken(float("inf"), float("inf")))
    for _ in range(rounds):
        for name, run in contenders.items():
            computing, clock = time.process_time(), time.perf_counter()
            run(path)
            taken = time.process_time() - computing, time.perf_counter() - clock
            times[name] = Taken(*map(min, times[name], taken))
    return times


def report(title: str, lines: int, times: dict[str, Taken]) -> Iterator[str]:
    yield f"{title:<30}{'of a core':>19}  {'by the clock':>19}"
    ours = times["fsm judge"]
    for name, taken in times.items():
        rates = "  ".join(f"{lines / each:>11,.0f} lines/s" for each in taken)
        ratio = ", ".join(f"{each / own:.2f}" for each, own in zip(taken, ours, strict=True))
        yield f"  {name:<28}{rates}" + (f"  {ratio} x fsm judge's time" if taken != ours else "")


def peak(path: Path) -> int:
    read = "next(line for line in open('/proc/self/status') if line.startswith('VmHWM'))"  # not the parent's peak
    code = f"import sys; from fsm.monitor.judgement import judge; judge(sys.argv[1]); print({read}.split()[1])"
    done = subprocess.run([sys.executable, "-c", code, str(path)], capture_output=True, text=True, check=True)
    return int(done.stdout) // 1_000


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--lines", type=int, default=1_000_000)
    options.add_argument("--rounds", type=int, default=3)
    asked = options.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        lines, limited, records = (Path(folder) / each for each in ("trace.jsonl", "limited.jsonl", "containerd.log"))
        trace(lines, asked.lines)
        trace(limited, asked.lines, shows=False)
        log(records, asked.lines)
        contenders = {"fsm judge": judged, "msgspec": decode_json, "transitions": checked}
        print(*report("JSON lines", asked.lines, best(lines, contenders, asked.rounds)), sep="\n")  # noqa: T201
        both = {"fsm judge": judged, "msgspec": decode_json}
        print(*report("JSON lines, with time limits", asked.lines, best(limited, both, asked.rounds)), sep="\n")  # noqa: T201
        others = {"fsm judge, line by line": judged_slowly, "polars, extraction": extract, "decode": decode_log}
        times = best(records, {"fsm judge": judged, **others}, asked.rounds)
        print(*report("containerd log", asked.lines, times), sep="\n")  # noqa: T201
        small = Path(folder) / "small.jsonl", Path(folder) / "small.log"
        trace(small[0], asked.lines // 10)
        log(small[1], asked.lines // 10)
        for name, less, more in (("JSON lines", small[0], lines), ("containerd log", small[1], records)):
            print(f"memory, {name}: {peak(less)} MB for a tenth, {peak(more)} MB for all")  # noqa: T201


if __name__ == "__main__":
    main()
