"""Measure ``fsm judge`` with six clients and four containers, and with damaged recordings.

    python tests/bench/overlapping.py [--calls 10000] [--rounds 3] [--damaged 300]

The number of calls judged per second is compared with the speed of three other tasks: judging the same number of calls
of a single client, a depth-first search for an order of the same calls (the algorithm of Wing and Gong, with Lowe's
cache of visited states), and decoding the same lines with ``msgspec``. Because a monitor reuses what it has learned
from earlier recordings, each process judges only ten calls of one client before it is measured. Containers behave at
random like ``container-status``.

Damaged recordings have fewer than 1,000 lines, and are either generated for six clients or made from recordings of
containerd. Each recording is judged in a process of its own, whose time includes loading. The slowest recordings are
named.
"""

from __future__ import annotations

import argparse
import contextlib
import gzip
import json
import random
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from multiprocessing import get_context
from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias

import msgspec

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "support"))

import naive
from damage import TO_BYTES, broken_off, changed, mixed, reworded
from naive_linearizability import explained

from fsm.errors import InputError
from fsm.language.library import load
from fsm.linearizability.history import History, Operation
from fsm.machine.findings import Illegal
from fsm.monitor.judgement import judge

if TYPE_CHECKING:
    from collections.abc import Iterator

    from fsm.machine import Machine

TESTS = Path(__file__).resolve().parent.parent
CLIENTS, CONTAINERS, SMALL = 6, 4, 385
WEIGHTS = {
    "status": 30, "start": 20, "exec-sync": 12, "stop": 10, "update-resources": 9, "remove": 6, "reopen-log": 3, "exec": 3,
}  # fmt: skip
"""The number of calls of each kind in the recordings of eight clients of containerd."""
SHOWN = {"CONTAINER_CREATED", "CONTAINER_RUNNING", "CONTAINER_EXITED", "CONTAINER_UNKNOWN"}
LINES = 999
Line = dict[str, object]
Run: TypeAlias = Callable[[Path], object]


@dataclass(kw_only=True)
class Container:
    """A container and its state.

    ``known`` is true once CreateContainer has returned its id.
    """

    id: str
    state: str
    known: bool = False


@dataclass(kw_only=True)
class Call:
    event: str
    of: Container
    start: int
    stage: str = "asked"
    reply: str = ""
    shown: str = ""


def recording(calls: int, clients: int, seed: int = 0) -> list[Line]:
    """Return a recording of *calls* calls, as the clients would write it.

    Each removed container is replaced with a new one.
    """
    chance, machine, now = random.Random(seed), load("container-status"), 10**18
    numbers = iter(range(10**9))
    slots = [Container(id="", state=machine.initial) for _ in range(CONTAINERS)]
    running: list[Call] = []
    lines: list[Line] = []
    made = 0
    while made < calls:
        now += chance.randrange(50_000, 400_000)
        acting = [each for each in running if each.stage != "acted"]
        over = [each for each in running if each.stage == "acted"]
        if len(running) < clients and chance.random() < 0.6:
            running.append(_asked(chance, slots, numbers, machine, now))
        elif acting and chance.random() < 0.6:
            _act(chance, machine, chance.choice(acting))
        elif over:
            call = chance.choice(over)
            running.remove(call)
            call.of.known = True
            lines.extend(_lines(call, machine, now))
            made += 1
    return lines


def _asked(chance: random.Random, slots: list[Container], numbers: Iterator[int], machine: Machine, now: int) -> Call:
    slot = chance.choice([slot for slot, each in enumerate(slots) if each.known or not each.id] or [0])
    container = slots[slot]
    gone = container.state == machine.initial
    if not container.known or (gone and chance.random() < 0.7):
        container = slots[slot] = Container(id=f"{next(numbers):064x}", state="created")
        return Call(event="create", of=container, start=now, stage="acted", reply="ok")
    return Call(event=chance.choices([*WEIGHTS], [*WEIGHTS.values()])[0], of=container, start=now)


def _act(chance: random.Random, machine: Machine, call: Call) -> None:
    ways = (naive.ends if call.stage == "begun" else naive.ways)(machine, call.of.state, call.event)
    way = chance.choice(sorted(ways or (), key=lambda way: (way.outcome, way.to)) or [None])
    if way is None:
        call.stage, call.reply = "acted", "ok"
        return
    call.of.state = way.to
    call.stage = "begun" if way.begins else "acted"
    if not way.begins:
        reply = chance.choice(sorted(way.replies))
        call.reply = "UNKNOWN" if reply == "error" else reply
        call.shown = machine.states[way.to].shows


def _lines(call: Call, machine: Machine, now: int) -> Iterator[Line]:
    code = "OK" if call.reply == "ok" else call.reply
    yield {"op": machine.events[call.event].rpc, "id": call.of.id, "start": call.start, "end": now, "code": code}
    if call.event == "status" and call.reply == "ok" and call.shown in SHOWN:
        yield {"op": "status", "id": call.of.id, "start": now, "state": call.shown}


def written(path: Path, lines: list[Line]) -> Path:
    path.write_text(_text(lines), encoding="utf-8")
    return path


def damaged(count: int, folder: Path) -> Iterator[Path]:
    """Yield damaged recordings of fewer than 1,000 lines, many of which have overlapping calls."""
    real = sorted((TESTS / "recordings").glob("*.gz"))
    crowded = [path for path in real if "contexts" in path.name or "random" in path.name]
    small = [json.loads(line) for seed in range(4) for line in _text(recording(SMALL, CLIENTS, seed)).splitlines()]
    for number in range(count):
        chance = random.Random(number)
        source = chance.choice(crowded if number % 2 else real)
        if number % 5 < 2:
            first = chance.randrange(len(small) - LINES)
            name, lines = f"six-clients-{number}", small[first : first + LINES]
            data = _text(changed(lines, chance) if number % 5 else lines).encode()  # type: ignore[arg-type]
        else:
            name, data = f"{number}-{source.name.removesuffix('.gz')}", gzip.decompress(source.read_bytes())
            data = b"".join(data.splitlines(keepends=True)[:LINES])
        how = (_exchanged, _reworded, mixed, broken_off, _exchanged, chance.choice(TO_BYTES))[number % 6]
        path = folder / name
        path.write_bytes(how(data, chance))
        yield path


def _text(lines: list[Line]) -> str:
    return "".join(json.dumps(line) + "\n" for line in lines)


def _reworded(data: bytes, chance: random.Random) -> bytes:
    return reworded(data.decode(), chance).encode("utf-8", "surrogatepass")


def _exchanged(data: bytes, chance: random.Random) -> bytes:
    lines = data.splitlines(keepends=True)
    for _ in range(chance.randrange(1, 30)):
        one, other = chance.randrange(len(lines)), chance.randrange(len(lines))
        lines[one], lines[other] = lines[other], lines[one]
        del lines[chance.randrange(len(lines))]
    return b"".join(lines)


def judged(path: Path) -> None:
    assert not any(isinstance(each.verdict, Illegal) for each in judge(str(path)).judgements), path


def judged_somehow(path: Path) -> None:
    with contextlib.suppress(InputError):
        judge(str(path))


def searched(path: Path) -> None:
    machine = load("container-status")
    assert explained(machine, history(path, machine))


def history(path: Path, machine: Machine) -> History:
    events = {event.rpc: event.name for event in machine.events.values()}
    operations: list[Operation] = []
    for line in map(json.loads, path.open()):
        if "state" in line:
            operations[-1] = replace(operations[-1], shows=line["state"])
            continue
        reply = "ok" if line["code"] == "OK" else line["code"]
        called, returned, event = line["start"], line["end"], events[line["op"]]
        operations.append(Operation(called=called, returned=returned, event=event, reply=reply, entity=line["id"]))
    return History(operations=tuple(operations))


def decoded(path: Path) -> None:
    decode = msgspec.json.Decoder().decode
    with path.open("rb") as file:
        for line in file:
            decode(line)


def timed(run: Run, path: Path, before: Path | None = None) -> float:
    """Return the CPU seconds of *run*. If the recording *before* is given, judge it first, outside the measurement."""
    if before is not None:
        judged(before)
    start = time.process_time()
    run(path)
    return time.process_time() - start


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--calls", type=int, default=10_000)
    options.add_argument("--rounds", type=int, default=3)
    options.add_argument("--damaged", type=int, default=300)
    asked = options.parse_args()
    with tempfile.TemporaryDirectory() as scratch, get_context("fork").Pool(1, maxtasksperchild=1) as process:
        folder = Path(scratch)
        six, one, warm = (
            written(folder / f"{clients}-{calls}.jsonl", recording(calls, clients))
            for clients, calls in ((CLIENTS, asked.calls), (1, asked.calls), (1, 10))
        )
        runs: dict[str, tuple[Run, Path]] = {
            f"{CLIENTS} clients": (judged, six),
            "one client": (judged, one),
            f"{CLIENTS} clients, searched": (searched, six),
            "msgspec, decoding": (decoded, six),
        }
        best = dict.fromkeys(runs, float("inf"))
        for _ in range(asked.rounds):
            for name, (run, path) in runs.items():
                best[name] = min(best[name], process.apply(timed, (run, path, warm)))
        for name, taken in best.items():
            print(f"{name:<24}{asked.calls / taken:>12,.0f} calls/s")  # noqa: T201
        times = [(process.apply(timed, (judged_somehow, path)), path.name) for path in damaged(asked.damaged, folder)]
        print(f"{len(times)} damaged, {sum(taken for taken, _ in times):.0f} s")  # noqa: T201
        for taken, name in sorted(times, reverse=True)[:5]:
            print(f"damaged, {taken:5.2f} s  {name}")  # noqa: T201


if __name__ == "__main__":
    main()
