"""Calls a second of ``fsm judge`` where six clients call four containers at once, and how long damaged recordings take.

    python tests/bench/overlapping.py [--calls 10000] [--rounds 3] [--damaged 60]

Beside it, in turns, as many calls of one client, and nothing but decoding the same lines with ``msgspec``.  Containers
behave as ``container-status`` says, at random from a seed.  Damaged recordings have 385 calls, or are recordings of
containerd with eight clients; the slowest are named.
"""

from __future__ import annotations

import argparse
import gzip
import json
import random
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "support"))

import naive
from damage import broken_off, changed, mixed, reworded

from fsm.errors import InputError
from fsm.judgement import judge
from fsm.library import load
from fsm.verdict import Illegal

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from fsm.machine import Machine

TESTS = Path(__file__).resolve().parent.parent
CLIENTS, CONTAINERS, SMALL = 6, 4, 385
WEIGHTS = {
    "status": 30, "start": 20, "exec-sync": 12, "stop": 10, "update-resources": 9, "remove": 6, "reopen-log": 3, "exec": 3,
}  # fmt: skip
"""How often clients make each call, in proportion: as in the recordings of eight clients of containerd."""
SHOWN = {"CONTAINER_CREATED", "CONTAINER_RUNNING", "CONTAINER_EXITED", "CONTAINER_UNKNOWN"}
Line = dict[str, object]


@dataclass(kw_only=True)
class Container:
    """A container and its state; ``known`` once CreateContainer has returned its id."""

    id: str
    state: str
    known: bool = False


@dataclass(kw_only=True)
class Call:
    """A call in progress: how far it is, its reply, what it showed."""

    event: str
    of: Container
    start: int
    stage: str = "asked"
    reply: str = ""
    shown: str = ""


def recording(calls: int, clients: int, seed: int = 0) -> list[Line]:
    """The lines of *calls* calls of *clients*, as a client writes them down; a container that was removed gets a successor."""
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
    """The next call of a client: of a container that it knows, or in place of one that is gone."""
    slot = chance.choice([slot for slot, each in enumerate(slots) if each.known or not each.id] or [0])
    container = slots[slot]
    gone = container.state == machine.initial
    if not container.known or (gone and chance.random() < 0.7):
        container = slots[slot] = Container(id=f"{next(numbers):064x}", state="created")
        return Call(event="create", of=container, start=now, stage="acted", reply="ok")
    return Call(event=chance.choices([*WEIGHTS], [*WEIGHTS.values()])[0], of=container, start=now)


def _act(chance: random.Random, machine: Machine, call: Call) -> None:
    """One more instant of *call*."""
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
    """*lines* as a file."""
    path.write_text("".join(json.dumps(line) + "\n" for line in lines), encoding="utf-8")
    return path


def damaged(count: int, folder: Path) -> Iterator[Path]:
    """So many damaged recordings of fewer than 1,000 lines."""
    real = sorted((TESTS / "recordings").glob("*-contexts.*.gz"))
    small = [json.loads(line) for line in written(folder / "small.jsonl", recording(SMALL, CLIENTS)).open()]
    for number in range(count):
        chance = random.Random(number)
        kind = number % 5
        if kind in {0, 1}:
            name = f"six-clients-{number}"
            data = "".join(json.dumps(line) + "\n" for line in changed(small, chance)).encode()  # type: ignore[attr-defined]
        else:
            source = chance.choice(real)
            name, data = f"{number}-{source.name.removesuffix('.gz')}", gzip.decompress(source.read_bytes())
            data = b"".join(data.splitlines(keepends=True)[:999])
        if kind in {1, 2}:
            data = reworded(data.decode(), chance).encode("utf-8", "surrogatepass")
        elif kind in {0, 3}:
            data = b"".join(_exchanged(data.splitlines(keepends=True), chance))
        else:
            data = chance.choice((mixed, broken_off))(data, chance)
        path = folder / name
        path.write_bytes(data)
        yield path


def _exchanged(lines: list[bytes], chance: random.Random) -> list[bytes]:
    """*lines* without some, and with some in another order."""
    for _ in range(chance.randrange(1, 30)):
        one, other = chance.randrange(len(lines)), chance.randrange(len(lines))
        lines[one], lines[other] = lines[other], lines[one]
        del lines[chance.randrange(len(lines))]
    return lines


def judged(path: Path) -> None:
    """What is measured; nothing of it is illegal."""
    assert not any(isinstance(each.verdict, Illegal) for each in judge(str(path)).judgements), path


def decoded(path: Path) -> None:
    """Nothing but the decoding of every line."""
    decode = msgspec.json.Decoder().decode
    with path.open("rb") as file:
        for line in file:
            decode(line)


def timed(run: Callable[[Path], None], path: Path) -> float:
    """Seconds of this process that it takes."""
    start = time.process_time()
    run(path)
    return time.process_time() - start


def main() -> None:
    """Generate, measure, print."""
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--calls", type=int, default=10_000)
    options.add_argument("--rounds", type=int, default=3)
    options.add_argument("--damaged", type=int, default=60)
    asked = options.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        paths = {
            clients: written(Path(folder) / f"{clients}.jsonl", recording(asked.calls, clients))
            for clients in (CLIENTS, 1)
        }
        runs: dict[str, tuple[Callable[[Path], None], Path]] = {
            f"{CLIENTS} clients": (judged, paths[CLIENTS]),
            "one client": (judged, paths[1]),
            "msgspec, decoding": (decoded, paths[CLIENTS]),
        }
        judged(written(Path(folder) / "warm.jsonl", recording(10, 1)))
        best = dict.fromkeys(runs, float("inf"))
        for _ in range(asked.rounds):
            for name, (run, path) in runs.items():
                best[name] = min(best[name], timed(run, path))
        for name, taken in best.items():
            print(f"{name:<20}{asked.calls / taken:>12,.0f} calls/s")  # noqa: T201
        slowest: list[tuple[float, str]] = []
        for path in damaged(asked.damaged, Path(folder)):
            start = time.process_time()
            try:
                judge(str(path))
            except InputError:
                continue
            slowest.append((time.process_time() - start, path.name))
        for taken, name in sorted(slowest, reverse=True)[:5]:
            print(f"damaged, {taken:5.2f} s  {name}")  # noqa: T201


if __name__ == "__main__":
    main()
