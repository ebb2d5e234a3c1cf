"""Pass damaged inputs to every command that reads files.

``python tests/support/hostile.py READER COUNT [FIRST]`` tries *COUNT* inputs, numbered from *FIRST*. If the
answer of a command is wrong, the input is kept in ``hostile-READER-NUMBER`` in the current folder.
"""

from __future__ import annotations

import contextlib
import gzip
import io
import json
import random
import re
import signal
import sys
import tempfile
import tomllib
from collections import Counter
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple
from unittest.mock import patch

import pyarrow as pa
import yaml
from commands import RECORDINGS, fsm, process
from damage import TO_BYTES, changed, reworded
from drawn import CONTAINER, POD
from pyarrow import ipc, parquet
from toml_text import toml_text

from fsm.language.library import home
from fsm.language.vocabularies import schema

if TYPE_CHECKING:
    import subprocess
    from collections.abc import Callable, Iterator

TESTS = Path(__file__).resolve().parent.parent
LONGEST = 5.0
"""The CPU time in seconds after which a command is considered to hang."""
LARGEST = 100_000
ANSWERS = {0, 1, 2, 3}
WRONG = 2
OBEYED = re.compile("[\0-\x08\x0b-\x1f\x7f-\x9f\u2028\u2029\u202a-\u202e\u2066-\u2069]")
UNREAD = {"FSM002", "FSM003", "FSM004", "FSM005", "FSM401", "FSM502", "FSM503", "FSM504", "FSM505"}
"""The codes of parser errors, after which the rest of the file is not examined."""
MORE = 1
SCHEMA = cache(schema)
"""The schema, which is cached because computing it takes longer than any other output."""


@dataclass(frozen=True, kw_only=True)
class Seed:
    """An undamaged input, with the other files that have to be in its folder."""

    name: str
    data: bytes
    form: str = "text"
    beside: dict[str, bytes] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True)
class Reader:
    """A command that reads one kind of file, with undamaged inputs to start from.

    In a command, ``{}`` is replaced with the path of the file, and ``{name}`` with its name without the suffix.
    ``quick`` is the number of damaged inputs to try in a normal run. A reader runs in a separate process if ``apart``
    is true, because it may end its own process.
    """

    seeds: Callable[[], list[Seed]]
    first: str
    then: tuple[str, ...] = ()
    quick: int = 24
    apart: bool = False


class Tried(NamedTuple):
    """The result for a damaged input: the error code if the input was refused, and the wrong answer, if any."""

    seed: Seed
    damaged: bytes
    refused: str
    offence: str


# -- undamaged inputs ----------------------------------------------------------

SMALL = ("lock-pair", "plugin-view", "sandbox-record", "sync-reader", "event-monitor", "nri-pod", "service-run")
SYSTEMS = ("nri-setup", "late-updates", "shared-ids", "plugin-sync", "plugin-updates")


def shipped(path: str) -> dict[str, bytes]:
    return {path: (home() / path).read_bytes()}


def written(*command: str) -> bytes:
    ran = fsm(*command)
    assert ran.returncode in {0, 1}, ran.stderr
    return ran.stdout.encode()


def models() -> list[Seed]:
    found = []
    for name in SMALL:
        beside = shipped(f"properties/{name}.toml") | {"trace": written("simulate", name)}
        found += [Seed(name=path, data=data, form="toml", beside=beside)
                  for path, data in shipped(f"models/{name}.toml").items()]  # fmt: skip
    large = [Seed(name=f"models/{name}.toml", data=data, form="toml", beside={"trace": written("simulate", name)})
             for name in ("cri-pod", "container-status") for data in shipped(f"models/{name}.toml").values()]  # fmt: skip
    return [*found, *large]


def properties() -> list[Seed]:
    return [
        Seed(name=path, data=data, form="toml")
        for name in (*SMALL, *(f"systems/{each}" for each in SYSTEMS))
        for path, data in shipped(f"properties/{name}.toml").items()
    ]


def systems() -> list[Seed]:
    return [
        Seed(name=path, data=data, form="toml", beside=shipped(f"properties/systems/{name}.toml"))
        for name in SYSTEMS
        for path, data in shipped(f"models/systems/{name}.toml").items()
    ]


EVERYTHING = """\
{"trace": 1, "machine": "cri-container", "fresh": true, "unseen": ["exit"]}
{"entity": "c1", "of": "container", "event": "create", "reply": "ok", "at": "2026-11-20T11:03:20.5+01:00"}
{"entity": "c1", "event": "StartContainer", "phase": "request", "at": 1795172600000000000, "detail": "slow"}
{"entity": "c1", "event": "StartContainer", "phase": "reply", "reply": "ok", "emits": ["CONTAINER_STARTED_EVENT"]}
{"entity": "c1", "event": "status", "reply": "ok", "met": "CONTAINER_RUNNING", "fields": {"started": 5, "reason": "x"}}
{"entity": "c1", "event": "stop", "phase": "lost"}
{"entity": "c1", "event": "stop", "phase": "answered", "reply": "NOT_FOUND"}
{"entity": "c1", "event": "exit", "phase": "noticed"}
{"entity": "c1", "event": "oom", "phase": "maybe"}
{"event": "restart", "phase": "assumed"}
{"entity": "c1", "output": "CONTAINER_STOPPED_EVENT"}
{"entity": "c1", "shows": "CONTAINER_EXITED", "fields": {"created": 1, "started": 5, "finished": 3, "exit-code": 1}}
{"entity": "c1", "event": "remove", "start": 1795172600000000000, "end": 1795172600005000000, "reply": "ok"}
{"phase": "gap"}
{"entity": "c1", "event": "remove", "reply": "ok"}
"""


def traces() -> list[Seed]:
    names = (*SMALL, "cri-pod", "container-status", "cri-container")
    every = Seed(name="trace", data=EVERYTHING.encode(), form="lines")
    return [every, every, every] + [
        Seed(name="trace", data=written("simulate", name, "--entities", "2", "--calls", "2"), form="lines")
        for name in names
    ]


def recorded(name: str) -> bytes:
    data = (RECORDINGS / name).read_bytes()
    return gzip.decompress(data) if name.endswith(".gz") else data


def parts(name: str, form: str, *, of: int = 40) -> list[Seed]:
    lines = recorded(name).splitlines(keepends=True)[: 20 * of]
    return [Seed(name="recording", data=b"".join(lines[at : at + of]), form=form) for at in range(0, len(lines), of)]


def framed(seed: Seed) -> list[Seed]:
    """Rewrite a log in the formats of journald and of a log collector."""
    lines = seed.data.decode().splitlines()
    journal = [{"__REALTIME_TIMESTAMP": str(number), "MESSAGE": each} for number, each in enumerate(lines)]
    collected = [{"time": "2026-11-20T11:03:20Z", "stream": "stderr", "log": f"{each}\n"} for each in lines]
    return [replace(seed, data=encoded(made, "lines"), form="lines") for made in (journal, collected)]


def logs() -> list[Seed]:
    return [
        *(each for seed in parts("containerd-2.1.9.log", "logfmt")[:3] for each in framed(seed)),
        *parts("containerd-1.7.24.log", "logfmt"),
        *parts("2.1.9-restart-kill9.log.gz", "logfmt"),
        *parts("2.1.9-jsonlog.log.gz", "lines"),
    ]


def calls() -> list[Seed]:
    return [*parts("cri-calls-2.1.9.jsonl", "lines"), *parts("1.7.24-killed-containers.calls.jsonl.gz", "lines")]


def events() -> list[Seed]:
    return [*parts("nri-events-2.1.9.jsonl", "lines"), *parts("1.7.24-forgotten.nri.jsonl.gz", "lines")]


def combined() -> list[Seed]:
    """Return a seed for each recording of a single run: its events, its calls and its log.

    Each seed damages one of the three recordings and keeps the other two.
    """
    run = {
        name: recorded(f"2.1.9-forgotten.{suffix}.gz")
        for name, suffix in (("events", "nri.jsonl"), ("calls", "calls.jsonl"), ("log", "log"))
    }
    return [
        Seed(name=name, data=data, form="logfmt" if name == "log" else "lines", beside=run)
        for name, data in run.items()
    ]


def tables() -> list[Seed]:
    data = []
    for name in ("containerd-2.1.9.log", "cri-calls-2.1.9.jsonl", "nri-events-2.1.9.jsonl"):
        with tempfile.TemporaryDirectory() as folder:
            Path(folder, "recording").write_bytes(b"".join(recorded(name).splitlines(keepends=True)[:60]))
            written("convert", f"{folder}/recording", "-o", f"{folder}/made.parquet")
            data += [
                Path(folder, "made.parquet").read_bytes(),
                *rewritten(parquet.read_table(f"{folder}/made.parquet")),
            ]
    return [Seed(name="recording", data=each, form="bytes") for each in data]


def rewritten(table: pa.Table) -> Iterator[bytes]:
    times = table["at"].cast(pa.timestamp("ns", "UTC"))
    shown = pa.array([{"exit-code": each, "when": datetime(2026, 11, 20, tzinfo=UTC)} for each in range(len(table))])
    words = table["event"].combine_chunks().dictionary_encode()
    table = table.select(["entity", "emits", "reply", "shows", "line"]).replace_schema_metadata()
    for name, column in {"at": times, "fields": shown, "event": words}.items():
        table = table.append_column(name, column)
    for made in (ipc.new_file, ipc.new_stream):
        sink = io.BytesIO()
        with made(sink, table.schema) as writer:
            writer.write_table(table)
        yield sink.getvalue()
    sink = io.BytesIO()
    parquet.write_table(table, sink, write_page_index=True, row_group_size=20)
    yield sink.getvalue()


def summaries() -> list[Seed]:
    names = ("containerd-1.6.20.log", "2.1.9-jsonlog.log.gz")
    return [Seed(name="summary", data=written("judge", str(RECORDINGS / each), "--format", "summary"), form="json")
            for each in names]  # fmt: skip


def histories() -> list[Seed]:
    forms = {".edn": "text", ".json": "json", ".jsonl": "lines"}
    return [
        Seed(name="history", data=path.read_bytes(), form=forms[path.suffix])
        for path in sorted((TESTS / "linearizability" / "histories").iterdir())
    ]


def checkpoints() -> list[Seed]:
    data = {path: path.read_bytes() for path in sorted(RECORDINGS.glob("checkpoints/*/*.json"))}
    good = next(iter(data.values()))
    return [Seed(name="containers/c1/status", data=each, form="json", beside={"containers/c2/status": good})
            for each in data.values()]  # fmt: skip


def drawings() -> list[Seed]:
    paths = [TESTS.parent / "diagrams" / f"{name}{suffix}" for name in ("cri-pod", "sync-reader", "plugin-view")
             for suffix in (".dot", ".mmd", ".puml", ".md")]  # fmt: skip
    texts = [*(path.read_bytes() for path in paths), CONTAINER.encode(), POD.encode()]
    texts += [written("draw", name, "-f", "ascii") for name in ("service-run", "sync-reader", "event-monitor")]
    return [Seed(name="drawing", data=each) for each in texts]


def imports() -> list[Seed]:
    found = []
    for name in ("lock-pair", "plugin-view", "sandbox-record", "cri-pod"):
        found.append(Seed(name=f"{name}.xml", data=written("export", name, "-t", "scxml")))
        for tool in ("transitions", "python-statemachine"):
            data = written("export", name, "-t", tool)
            found.append(Seed(name=f"{name}.json", data=data, form="json"))
            found.append(Seed(name=f"{name}.yaml", data=yaml.safe_dump(json.loads(data)).encode()))
    return found


def reports() -> list[Seed]:
    known = {"cri-pod": "not-ready-for-good", "nri-pod": "stopped-before-removed"}
    return [Seed(name="report", data=written("check", name, "-P", each, "--format", "json"), form="json")
            for name, each in known.items()]  # fmt: skip


def answers() -> list[Seed]:
    found = []
    for name in ("lock-pair", "plugin-view", "event-monitor"):
        with tempfile.TemporaryDirectory() as folder:
            lines = Path(folder, "lines")
            play = f"{sys.executable} {TESTS / 'suts' / 'simulated.py'} {name} | tee -a {lines}"
            written("test", name, "-a", f"exec:bash -c '{play}'", "-n", "0")
            found.append(Seed(name=name, data=lines.read_bytes(), form="lines"))
    return found


JUDGED = ("judge {} --format summary", "convert {} -o made.parquet", "judge {} --format json", "judge {} --format sarif", "judge {} --format junit", "judge {} --format github",
          "judge {} --all --coverage", "judge {} --fresh --restarts none --fail-on observed")  # fmt: skip
SHOWN = ("draw container-status -f dot --highlight {}", "draw container-status -f markdown --coverage {}",
         "draw cri-container -f mermaid --highlight {}", "draw cri-pod -f plantuml --coverage {}",
         "draw --sequence {}", "draw -f mermaid --sequence {} --to 20",
         "mutate --recording {} --limit 2", "mutate --recording {} --limit 2 --format json")  # fmt: skip

READERS = {
    "models": Reader(
        seeds=models,
        first="show {}",
        then=(
            *("show {} -p containerd-1.7", "test {} -a model:{} -n 1 --steps 5 -p containerd-1.7"),
            *("show {} --format json", "show {} --outcomes", "draw {} -f dot -s all", "draw {} -f mermaid -s all"),
            *("draw {} -f plantuml -s outcomes", "draw {} -f markdown", "draw {} -f ascii", "export {} -t promela"),
            *("export {} -t dot", "export {} -t scxml", "export {} -t transitions", "export {} -t python-statemachine"),
            *(
                "simulate {} --entities 2 --calls 2",
                "check {} --limit 300 --runs",
                "check {} --limit 300 --format json",
            ),
            *("diff {} {name}", "diff {} {name} -f dot", "diff {} {name} -f json", "diff --behaviour {name} {}"),
            *(
                "diff --behaviour {} {name} -f json",
                "test {} -a model:{} -n 1 --steps 5",
                "judge trace -m {} --coverage",
            ),
            *("draw {} -f dot --highlight trace", "test {name} -a model:{} -n 1 --steps 5 --format json"),
        ),
    ),
    "properties": Reader(
        seeds=properties,
        first="check {} --limit 100",
        then=("check {} --limit 300 --runs", "check {} --limit 300 --format json"),
    ),
    "systems": Reader(
        seeds=systems,
        first="show {}",
        then=(
            *("check {} --limit 100 --runs", "check {} --limit 300 --format json", "show {} --outcomes"),
            *("show {} --outcomes --format json", "test {} -a model:{} -n 1 --steps 5"),
        ),
    ),
    "traces": Reader(seeds=traces, first="judge {}", then=(*JUDGED, *SHOWN, "judge {} -m lock-pair --properties")),
    "logs": Reader(seeds=logs, first="judge {}", then=(*JUDGED, *SHOWN)),
    "calls": Reader(seeds=calls, first="judge {}", then=(*JUDGED, *SHOWN)),
    "events": Reader(seeds=events, first="judge {}", then=(*JUDGED, *SHOWN)),
    "combined": Reader(
        seeds=combined,
        quick=12,
        first="judge events --with calls",
        then=(
            "judge events --with log",
            "judge events --with log --format json",
            "judge events --with calls --all",
            "draw --sequence events --with calls --to 40",
            "mutate --recording events --with calls --limit 2",
        ),
    ),
    "histories": Reader(
        seeds=histories,
        first="judge {} -m container-status",
        then=tuple(f"{each} -m cri-container" for each in JUDGED) + SHOWN,
    ),
    "tables": Reader(seeds=tables, first="judge {} -m container-status", then=(*JUDGED, *SHOWN), quick=16, apart=True),
    "summaries": Reader(seeds=summaries, first="merge {}", then=("merge {} {} --format json", "merge {} --by node")),
    "checkpoints": Reader(
        seeds=checkpoints,
        first="judge .",
        then=(*(each.replace("{}", ".") for each in (*JUDGED, *SHOWN[:4])), "judge {}"),
    ),
    "drawings": Reader(
        seeds=drawings,
        quick=8,
        first="diff {} cri-pod",
        then=(
            "diff {} {}",
            "diff sync-reader {} -f json",
            "diff plugin-view {} -f dot --complete",
            "diff {}:3 cri-pod",
        ),
    ),
    "imports": Reader(
        seeds=imports,
        first="import {} -o made.toml",
        then=(
            "show made.toml",
            "draw made.toml -f dot",
            "import {} --outcomes",
            "export made.toml -t scxml",
            "import {} --from transitions",
            "import {} --from python-statemachine",
            "import {} --from scxml",
        ),
    ),
    "reports": Reader(
        seeds=reports,
        first="draw cri-pod -f dot --highlight {}",
        then=("draw nri-pod -f mermaid --highlight {}", "draw nri-pod -f markdown --highlight {}"),
    ),
    "answers": Reader(
        seeds=answers,
        first="test {name} -n 0 -a exec:bash\\ -c\\ 'cat\\ {};cat\\ >/dev/null'",
        quick=5,
    ),
}


# -- damage to an input --------------------------------------------------------

_FIELD = re.compile(r'([\w.-]+)=("(?:[^"\\]|\\.)*"|\S*)')


@cache
def document(data: bytes, form: str) -> object:
    text = data.decode()
    match form:
        case "toml":
            return tomllib.loads(text)
        case "json":
            return json.loads(text)
        case "lines":
            return [json.loads(line) for line in text.splitlines()]
    return [dict(_FIELD.findall(line)) for line in text.splitlines()]


def encoded(value: object, form: str) -> bytes:
    match form:
        case "toml" if isinstance(value, dict):
            text = toml_text(value)
        case "lines" if isinstance(value, list):
            text = "".join(f"{json.dumps(each, ensure_ascii=False)}\n" for each in value)
        case "logfmt" if isinstance(value, list):
            text = "".join(f"{_logged(each)}\n" for each in value)
        case _:
            text = json.dumps(value)
    return text.encode("utf-8", "surrogatepass")


def _logged(line: object) -> str:
    fields = line.items() if isinstance(line, dict) else [("msg", line)]
    return " ".join(f"{key}={value if isinstance(value, str) else json.dumps(value)}" for key, value in fields)


def damaged(seed: Seed, chosen: random.Random) -> bytes:
    kind = chosen.randrange(12)
    if kind == 0 or seed.form == "bytes":
        return chosen.choice(TO_BYTES)(seed.data, chosen)
    if kind == 1 or seed.form == "text":
        return reworded(seed.data.decode(), chosen).encode("utf-8", "surrogatepass")
    return encoded(changed(document(seed.data, seed.form), chosen), seed.form)


# -- answers of commands ------------------------------------------------------


class HangError(BaseException):
    """Raised when a command takes too long. The command does not catch it."""


@contextlib.contextmanager
def bounded() -> Iterator[None]:
    """Raise :class:`HangError` in the body if it exceeds the limit of CPU time."""

    def hangs(_number: int, _frame: object) -> None:
        raise HangError

    before = signal.signal(signal.SIGVTALRM, hangs)
    signal.setitimer(signal.ITIMER_VIRTUAL, LONGEST)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_VIRTUAL, 0)
        signal.signal(signal.SIGVTALRM, before)


def offence(ran: subprocess.CompletedProcess[str]) -> str:
    if ran.returncode not in ANSWERS:
        return f"exit code {ran.returncode}: {ran.stderr[-2_000:]}"
    if found := OBEYED.search(ran.stdout + ran.stderr):
        return f"U+{ord(found[0]):04X} is printed: {found.string[max(0, found.start() - 40) : found.end() + 40]!r}"
    return f"{len(ran.stderr)} characters of message" if len(ran.stderr) > LARGEST else ""


def answered(reader: Reader, name: str, folder: Path, chosen: random.Random | None = None) -> tuple[str, str]:
    """Return the error code with which a file was refused, and a description of a wrong answer, if any.

    With *chosen*, only the first command and a random choice of the other commands are tried.
    """
    more = chosen.sample(reader.then, min(MORE, len(reader.then))) if chosen else reader.then
    refused = ""
    for number, each in enumerate((reader.first, *more)):
        command = each.replace("{}", name).replace("{name}", Path(name).stem)
        words = [word.replace("\\ ", " ") for word in re.split(r"(?<!\\) ", command)]
        try:
            with bounded(), patch("fsm.language.read.schema", SCHEMA):
                ran = (process if reader.apart else fsm)("--debug", *words, cwd=folder)
        except HangError:
            return refused, f"{command}: hangs"
        if wrong := offence(ran):
            return refused, f"{command}: {wrong}"
        if number == 0 and ran.returncode == WRONG:
            code = re.search(r"\[(FSM\d+)\]$", ran.stderr, re.MULTILINE)
            refused = code[1] if code else "usage"
            if chosen:
                break
    return refused, ""


@cache
def seeds(name: str) -> list[Seed]:
    return READERS[name].seeds()


def tried(name: str, number: int, folder: Path) -> Tried:
    chosen = random.Random(f"{name} {number}")
    seed = chosen.choice(seeds(name))
    data = damaged(seed, chosen)
    place(folder, seed.beside | {seed.name: data})
    refused, wrong = answered(READERS[name], seed.name, folder, chosen)
    return Tried(seed, data, refused, wrong)


def place(folder: Path, files: dict[str, bytes]) -> None:
    for name, data in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data)


def campaign(name: str, count: int, first: int) -> None:
    codes: Counter[str] = Counter()
    offences: Counter[str] = Counter()
    with tempfile.TemporaryDirectory() as folder:
        for number in range(first, first + count):
            result = tried(name, number, Path(folder))
            codes[result.refused or "taken"] += 1
            if result.offence:
                kind = re.sub(r"[0-9]+", "0", " ".join(result.offence.split()[-12:]))
                offences[kind] += 1
                if offences[kind] == 1:
                    Path(f"hostile-{name}-{number}").write_bytes(result.damaged)
                    sys.stdout.write(f"{name} {number} {result.seed.name}: {result.offence}\n\n")
                    sys.stdout.flush()
    past = 1 - sum(times for code, times in codes.items() if code in UNREAD) / count
    sys.stdout.write(
        f"{name}: {count:,} from {first}: {sum(offences.values())} offences; {past:.0%} past the parser, "
        f"{codes['taken'] / count:.0%} taken; {dict(codes.most_common())}\n"
    )


if __name__ == "__main__":
    campaign(sys.argv[1], int(sys.argv[2]), int(sys.argv[3]) if len(sys.argv) > 3 else 0)
