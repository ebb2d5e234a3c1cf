"""Three toy machines for tests: a door, a counter, and a job whose start takes time."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from fsm.errors import InputError
from fsm.language.build import build
from fsm.language.machine_file import Written
from fsm.language.read import parse

if TYPE_CHECKING:
    from fsm.errors import Problem
    from fsm.machine import Machine

LEASE = (Path(__file__).parents[2] / "examples" / "models" / "lease.toml").read_text(encoding="utf-8")
SAFE = (Path(__file__).parents[2] / "examples" / "models" / "safe.toml").read_text(encoding="utf-8")
"""A safe, whose calls have arguments and which counts wrong codes."""

LEASE = (Path(__file__).parents[2] / "examples" / "models" / "lease.toml").read_text(encoding="utf-8")
"""A lease, which has a timer."""

DOOR = """\
[machine]
name    = "door"
title   = "A door"
about   = "Opens, shuts, and is taken away in the end."
source  = "the door maker's handbook, second edition"
initial = "shut"

[states]
shut = { about = "Closed.", shows = "CLOSED" }
open = { about = "Open.", shows = "OPEN" }
ajar = { about = "Open, but shown as closed.", shows = "CLOSED" }
gone = { about = "Taken away." }

[clause.push-opens]
says = "A door that is pushed opens, or is open already."
MUST = "handbook, section 2"

[clause.gone-is-gone]
says   = "A door that is gone is answered NOT_FOUND."
SHOULD = "handbook, section 5"
link   = "https://example.org/doors#gone"

[event.push]
kind    = "call"
rpc     = "PushDoor"
about   = "Open the door."
clause  = "push-opens"
moves   = { "*" = [{ name = "opened", to = "open", emits = ["Creak"] }, { name = "stuck", to = "shut", reply = "STUCK" }] }
ignores = ["open"]
clauses = { gone-is-gone = { refuses = { gone = "NOT_FOUND" } } }

[event.remove]
kind    = "call"
rpc     = "RemoveDoor"
about   = "Take the door away."
MAY     = "handbook, section 5"
moves   = { "*" = "gone" }
ignores = ["gone"]

[event.knock]
kind   = "call"
about  = "Ask whether anybody is there; the handbook does not say what happens."
silent = ["*"]

[event.slam]
kind    = "signal"
about   = "The wind shuts it."
observed = "the door maker's handbook, second edition"
moves   = { open = { to = "shut", emits = ["Bang"] } }
ignores = ["shut"]
cannot  = ["ajar", "gone"]

[event.warp]
kind   = "hidden"
about  = "The wood works, and the door stands ajar."
moves  = { shut = "ajar" }
cannot = ["*"]

[profile.old]
about = "Doors from before the war."
until = "1945"

[profile.old.cell.lock-jams]
event    = "push"
about    = "Stays shut, and says that it has opened."
deviates = "push-opens"
since    = "1920"
link     = "https://example.org/doors#jam"
moves    = { shut = { to = "shut" } }

[profile.old.cell.never-stuck]
event = "push"
about = "Opens whenever it stands ajar."
moves = { ajar = { to = "open", emits = ["Creak"] } }
"""

JOB = """\
[machine]
name       = "job"
title      = "A job"
about      = "Waits, runs, and ends; to start it takes time."
source     = "none"
initial    = "absent"
entity     = "task"
level      = "observed"
indefinite = ["CANCELED"]

[states]
absent   = { about = "Never made." }
waiting  = { about = "Made.", shows = "WAITING" }
starting = { about = "A start is in progress.", shows = "WAITING" }
checking = { about = "Started, but the call has not returned.", shows = "RUNNING" }
running  = { about = "At work.", shows = "RUNNING" }
ended    = { about = "Done, or lost.", shows = "ENDED" }

[event.make]
kind    = "call"
rpc     = "MakeJob"
about   = "Make it."
moves   = { absent = "waiting" }
refuses = { "*" = ["EXISTS", "BUSY"] }

[event.start]
kind    = "call"
rpc     = "StartJob"
about   = "Let it run."
refuses = { absent = "NOT_FOUND", "*" = "error" }

[event.start.moves]
waiting = [
  { name = "begins", begins = "starting" },
  { name = "too-early", to = "waiting", reply = "error", about = "Nobody was ready." },
]

[event.start.ends]
starting = [
  { name = "checks", begins = "checking" },
  { name = "failed", to = "waiting", reply = "error" },
]
checking = { to = "running", emits = ["started"] }

[event.exit]
kind   = "signal"
about  = "It has come to its end."
moves  = { running = "ended", checking = "ended" }
cannot = ["*"]

[event.crash]
kind       = "signal"
about      = "All that is in progress is lost."
interrupts = true
moves      = { starting = "waiting", checking = "ended", running = "ended" }
ignores    = ["*"]
"""


PURSE = """\
[machine]
name    = "purse"
title   = "A purse"
about   = "Coins go in, and are there the next day."
source  = "a purse"
initial = "absent"
level   = "MUST"
[states]
absent = { about = "There is none.", shows = "absent" }
there  = { about = "There is one.", shows = "THERE" }
torn   = { about = "There is one, and what is in it cannot be counted.", shows = "TORN" }
[event.knit]
kind    = "call"
about   = "Make one."
moves   = { absent = "there" }
refuses = { there = "EXISTS", torn = "EXISTS" }
[event.pay]
kind    = "call"
about   = "Put a coin in."
refuses = { absent = "NOT_FOUND", torn = "TORN" }
[event.pay.moves]
there = [{ name = "paid", stays = true }, { name = "dropped", stays = true, reply = "DROPPED" }]
[event.lose]
kind    = "call"
about   = "Lose it."
moves   = { there = "absent", torn = "absent" }
ignores = ["absent"]
[event.night]
kind       = "signal"
about      = "Everything is forgotten but what was written down."
interrupts = true
ignores    = ["absent", "torn"]
[event.night.moves]
there = [{ name = "kept", stays = true }, { name = "moths", to = "torn" }]
"""


def counter_text(*, to: int) -> str:
    states = "\n".join(f'n{n} = {{ about = "{n} so far." }}' for n in range(to + 1))
    moves = "\n".join(f'n{n} = {{ to = "n{n + 1}", emits = ["tick"] }}' for n in range(to))
    return f"""\
[machine]
name    = "counter"
title   = "A counter"
about   = "Counts to {to}."
source  = "arithmetic"
initial = "n0"

[states]
{states}

[event.add]
kind    = "call"
about   = "Count one more."
refuses = {{ n{to} = "FULL" }}

[event.add.moves]
{moves}

[event.reset]
kind    = "call"
about   = "Begin again."
moves   = {{ "*" = "n0" }}
ignores = ["n0"]
"""


def machine_of(text: str) -> Machine:
    return build(parse(text.encode(), Written, path="toy.toml"))


def door() -> Machine:
    return machine_of(DOOR)


def job() -> Machine:
    return machine_of(JOB)


def counter(*, to: int = 3) -> Machine:
    return machine_of(counter_text(to=to))


def problems_of(data: str | bytes) -> tuple[Problem, ...]:
    try:
        build(parse(data.encode() if isinstance(data, str) else data, Written, path="toy.toml"))
    except InputError as error:
        return error.problems
    return ()


def edited(text: str, old: str, new: str) -> str:
    assert text.count(old) == 1, f"{old!r} occurs {text.count(old)} times"
    return text.replace(old, new)


def line_of(text: str, mark: str = "# here") -> int:
    return next((number for number, line in enumerate(text.split("\n"), 1) if mark in line), 0)
