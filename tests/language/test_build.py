"""A machine is built from a model file, and semantic errors are reported with a line and a remedy."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from machines import DOOR, JOB, LEASE, SAFE, counter, door, edited, job, line_of, machine_of, problems_of

import fsm
from fsm.language.build import LARGEST_TABLE
from fsm.language.codes import RULES
from fsm.language.library import load, names
from fsm.machine import Cannot, Ignores, Moves, Refuses, Silent

if TYPE_CHECKING:
    from fsm.machine import Machine

# -- every semantic error --------------------------------------------------

# Each case has the code of an error, a model, a text in the model, its replacement, the message, and the hint.
# The mark "# here" is on the line where the problem must be reported.
WARP = 'moves  = { shut = "ajar" }\ncannot = ["*"]'
EXIT = 'moves  = { running = "ended", checking = "ended" }'
BEGINS = '{ name = "begins", begins = "starting" },'
CHECKS = '  { name = "checks", begins = "checking" },'
DEVIATES = 'deviates = "push-opens"\nsince    = "1920"\nlink     = "https://example.org/doors#jam"\n'
JAMS = 'moves    = { shut = { to = "shut" } }'
CREAKS = 'moves = { ajar = { to = "open", emits = ["Creak"] } }'
LESS = (
    '[profile.old.cell.less]\nevent = "push"\nabout = ""\nmoves = { ajar = { to = "shut", reply = "STUCK" } }  # here'
)
RESTS = 'clauses = { gone-is-gone = { refuses = { gone = "NOT_FOUND" } } }'
CANNOT = 'cannot  = ["ajar", "gone"]'
PROFILE = "[profile.old]"
HANDBOOK = 'MUST = "handbook"'
IN = '["open"]'
FIELDS = f"""\
[fields]
time = ["opened"]
int  = ["code"]
text = ["reason"]

[requires.open-is-dated]
says = "It was opened at some time."
{HANDBOOK}
in   = {IN}
"""
HERE = FIELDS.replace("dated]", "dated]  # here")
SILENT = 'silent = ["*"]'
KNOCK = (
    'kind   = "call"\nabout  = "Ask whether anybody is there; the handbook does not say what happens."\nsilent = ["*"]'
)
CHECKING = 'checking = { to = "running", emits = ["started"] }\n'
OPEN = 'open = { about = "Open.", shows = "OPEN" }'
UNSHUT = 'open = { about = "Open.", shows = "OPEN", in = "unshut" }\nunshut = { about = "", initial = "open" }  # here'
WIDE = 'cannot  = ["ajar", "gone", "wide"]'
SUBSTATES = edited(DOOR, OPEN, UNSHUT.replace("  # here", "") + '\nwide = { about = "", in = "unshut" }')
SUBSTATES = edited(SUBSTATES, 'cannot  = ["ajar", "gone"]', WIDE)

FAILURES = 'failures = { from = 0, to = 2, about = "Wrong codes since the safe was last open." }\n'
CODE = "arguments = { code = { from = 0, to = 3, scope = true } }\n"
SHUT = 'moves   = { open = "locked" }\n'
RIGHT = '  { name = "right",   to = "open",    when = "code == 2", set = { failures = 0 } },\n'
WRONG = '  { name = "wrong",   stays = true,   when = "code != 2 and failures < 2", set = { failures = "failures + 1" }, reply = "WRONG" },\n'
BLOCKED = '  { name = "blocked", to = "blocked", when = "otherwise", reply = "BLOCKED" },\n'
CELL = f"moves.locked = [\n{RIGHT}{WRONG}{BLOCKED}"
AFTER, HELD, FIRES = 'after     = "30 s"\n', 'in        = ["held"]\n', 'event     = "expire"\n'
RESTARTS, TERM, TOLERANCE = 'restarts  = ["renew"]\n', "[timer.term]\n", 'tolerance = "1 s"\n'
DATA = [
    # The code, a whole line of the safe, what replaces it, the message, and the hint.
    (
        "FSM140",
        FAILURES,
        "failures = { from = 2, to = 0 }",
        "'failures' has no range: it goes from 2 to 0",
        "smaller number first",
    ),
    ("FSM140", FAILURES, "failures = { from = 0 }", "it goes from 0 to nothing", "write from = … and to = …"),
    (
        "FSM140",
        FAILURES,
        "failures = { from = 0, to = 2000000000000000 }",
        "it goes from 0 to 2000000000000000",
        "write from = … and to = …",
    ),
    (
        "FSM140",
        FAILURES,
        'failures = { about = "" }',
        "[data.failures] needs exactly one kind of values",
        "write from = … and to = …",
    ),
    (
        "FSM140",
        FAILURES,
        'failures = { from = 0, to = 2, type = "bool" }',
        "needs exactly one kind of values",
        'type = "bool"',
    ),
    (
        "FSM140",
        FAILURES,
        "failures = { from = 0, to = 2, initial = 3 }",
        "begins with 3, outside its range from 0 to 2",
        "begin in the range",
    ),
    (
        "FSM140",
        FAILURES,
        'failures = { from = 0, to = 2, initial = "two" }',
        "failures is 'two', but it must be an integer from 0 to 2",
        "give one of its values",
    ),
    (
        "FSM140",
        FAILURES,
        "failures = { from = 0, to = 2, saturates = true, scope = true }",
        "has 'saturates' and 'scope'",
        "keep one of them",
    ),
    (
        "FSM140",
        FAILURES,
        f'{FAILURES}how = {{ values = ["slow", "slow"] }}',
        "the words of 'how' are empty, repeated or reserved",
        "list each word once",
    ),
    ("FSM140", FAILURES, f"{FAILURES}how = {{ values = [] }}", "the words of 'how' are empty", "list each word once"),
    (
        "FSM140",
        FAILURES,
        f'{FAILURES}how = {{ values = ["fast", "7"] }}',
        "the words of 'how' are empty, repeated or reserved",
        "numbers",
    ),
    (
        "FSM140",
        FAILURES,
        f'{FAILURES}how = {{ values = ["fast", "failures"] }}',
        "the words of 'how' are empty, repeated or reserved",
        "names of variables",
    ),
    (
        "FSM140",
        FAILURES,
        f'{FAILURES}how = {{ values = ["fast"], scope = true }}',
        "'how' has a scope, but is not a number",
        "leave out 'scope'",
    ),
    (
        "FSM140",
        FAILURES,
        f"{FAILURES}done = {{ initial = true, saturates = true }}",
        "'done' saturates, but is not a number",
        "leave out 'saturates'",
    ),
    ("FSM140", CODE, "arguments = { code = { from = 0 } }", "'code' has no range", "write from = … and to = …"),
    *(
        (
            "FSM141",
            FAILURES,
            f"{FAILURES}{name} = {{ from = 0, to = 2 }}",
            f"'{name}' is also the name of {what}",
            "not used for anything else",
        )
        for name, what in (
            ("open", "a state"),
            ("shut", "a event"),
            ("min", "a word of conditions"),
            ("is", "a word of conditions"),
            ("7", "a number"),
        )
    ),
    (
        "FSM141",
        CODE,
        "arguments = { code = { from = 0, to = 3 }, failures = { from = 0, to = 2 } }",
        "'failures' is also the name of a variable",
        "not used for anything else",
    ),
    (
        "FSM141",
        CODE,
        "arguments = { code = { from = 0, to = 3 }, self = { from = 0, to = 2 } }",
        "'self' is also the name of a parameter",
        "not used for anything else",
    ),
    *(
        ("FSM142", RIGHT, RIGHT.replace('"code == 2"', f'"{when}"').rstrip(), what, hint)
        for when, what, hint in (
            ("cod == 2", "unknown name 'cod'", "did you mean 'code'?"),
            ("code == too", "unknown name or value 'too'", "names and values: failures, code"),
            ("code", "has 'code' instead of a condition", "compare it"),
            ("code = 2", "contains '='", "write '==' for equality"),
            ("colour == 'red'", 'contains "\'"', "without quotation marks"),
            ("code == 2 * 1", "contains '*'", "min(A, B)"),
            ("code == 2-1", "unknown name or value '2-1'", "names and values"),
            ("code == failures-1", "unknown name or value 'failures-1'", "put spaces around '-'"),
            ("code == 2 2", "continues with '2'", "insert 'and'"),
            ("code == min(2)", "lacks ','", "write 'min(A, B)'"),
            ("code == min(2, 3", "lacks a ')'", "write 'min(A, B)'"),
            ("(code == 2", "lacks a ')'", "add the closing parenthesis"),
            ("code == ", "ends where a value is expected", "complete the condition"),
            ("is open", "unknown name 'is'", "variables and arguments: failures, code"),
            ("code == 2 then code == 3", "is about several instants", "leave out 'then'"),
            ("code == 12345678901234567890", "unknown name or value '12345678901234567890'", "names and values"),
            ("code == 2 and " + "not " * 60 + "code == 2", "is nested too deeply", "split it"),
            ("code == " + "min(" * 2_000 + "2", "is nested too deeply", "split it"),
            ("code == " + "2 + " * 2_000 + "2", "is nested too deeply", "split it"),
            ("", "ends where a condition is expected", "complete the condition"),
        )
    ),
    *(
        ("FSM142", RIGHT, RIGHT.replace("failures = 0", update).rstrip(), what, hint)
        for update, what, hint in (
            ("failure = 0", "an outcome sets 'failure', which is not a variable", "did you mean 'failures'?"),
            ("failures = true", "the new value of failures is True", "give one of its values"),
            ('failures = "slow"', "unknown name or value 'slow'", "names and values"),
            ('failures = "code 1"', "continues with '1'", "insert '+' or '-'"),
            ('failures = ""', "ends where a value is expected", "complete"),
        )
    ),
    (
        "FSM142",
        f"{WRONG}{BLOCKED}",
        f"{WRONG}{BLOCKED}".replace("code != 2 and failures < 2", "otherwise").rstrip(),
        "'otherwise' needs other outcomes",
        "write a condition instead",
    ),
    *(
        (code, CELL, CELL.replace(old, new).replace("[", "[  # here"), what, hint)
        for code, old, new, what, hint in (
            ("FSM143", "otherwise", "code != 2 and failures > 2", "do not cover code = 0, failures = 2", "otherwise"),
            ("FSM144", "code != 2 and ", "", "overlap for code = 2, failures = 0", "chosen = true in both"),
            (
                "FSM145",
                "+ 1",
                "+ 2",
                "sets 'failures' to failures + 2, which is not an integer from 0 to 2 for",
                "saturates = true",
            ),
            (
                "FSM145",
                "failures = 0",
                "failures = 3",
                "sets 'failures' to 3, which is not an integer from 0 to 2 for code = 2",
                "extend the range",
            ),
        )
    ),
    (
        "FSM146",
        SHUT,
        RULES["FSM146"].wrong.strip().replace("open = [", "open = [  # here") + "\n",
        "cannot be decided",
        "simpler conditions",
    ),
    (
        "FSM147",
        CODE,
        "arguments = { code = { from = 0, to = 999999 } }",
        "the arguments of 'enter' have 1,000,000 combinations",
        "scope = true",
    ),
]
CASES = [
    ("FSM101", DOOR, 'initial = "shut"', 'initial = "shot"  # here', "unknown initial state 'shot'", "did you mean 'shut'? states: shut, open, ajar, gone"),
    ("FSM102", DOOR, 'ignores = ["shut"]', 'ignores = ["shut",\n"shat"]  # here', "unknown state 'shat'", "did you mean 'shut'? states: shut"),
    ("FSM102", DOOR, WARP, 'moves = { shut = "ajar", open-wide = "gone" }  # here\ncannot = ["*"]', "unknown state 'open-wide'", "states: shut"),
    ("FSM102", DOOR, RESTS, 'refuses = { gone = "NOT_FOUND" }\nclauses = { gone-is-gone = { ignores = ["gon"] } }  # here', "unknown state 'gon'", "did you mean 'gone'?"),
    ("FSM102", DOOR, CANNOT, 'cannot = ["apart"]\n[define]\napart = [ "ajar",\n"gon", "gone"]  # here', "unknown state 'gon'", "did you mean 'gone'? states: shut, open, ajar, gone, apart"),
    ("FSM102", JOB, CHECKING, f'{CHECKING}chequing = "running"  # here\n', "unknown state 'chequing'", "did you mean 'checking'?"),
    ("FSM103", DOOR, "[event.slam]", '[event.bang]  # here\nkind = "signal"\nabout = ""\ncannot = ["shut", "open", "ajar"]\n[event.slam]', "event 'bang' has no cell for state 'gone'", "state what 'bang' does there with moves,"),
    ("FSM104", DOOR, WARP, 'moves = { shut = "opened" }  # here\ncannot = ["*"]', "event 'warp' moves to the unknown state 'opened'", "did you mean 'open'? states: shut, open, ajar, gone"),
    ("FSM104", DOOR, WARP, '[event.warp.moves]\n"*" = "gone"\n[event.warp.moves.shut]\nto = "gon"  # here', "moves to the unknown state 'gon'", "did you mean 'gone'?"),
    ("FSM104", JOB, BEGINS, f'{BEGINS}\n{{ name = "b", begins = "stating" }},  # here', "event 'start' begins in the unknown state 'stating'", "did you mean 'starting'?"),
    ("FSM105", DOOR, 'cannot  = ["ajar", "gone"]', 'cannot = ["ajar", "gone", "shut"]  # here', "event 'slam' has 2 cells for 'shut': ignores and cannot", "keep only the intended entry"),
    ("FSM105", DOOR, 'silent = ["*"]', 'silent = ["*",\n"*"]  # here', "event 'knock' has 2 cells for '*': silent and silent", "keep only the intended entry"),
    ("FSM105", DOOR, CREAKS, f"{CREAKS}\n{LESS}", "event 'push' in 'ajar' is overridden by 'never-stuck' and 'less'", "keep only the intended override; only deviations may share a cell"),
    ("FSM106", DOOR, 'cannot  = ["ajar", "gone"]', 'cannot = ["ajar"]\nrefuses = { gone = "error" }  # here', "signal 'slam' cannot have 'refuses' cells", "only calls can be refused; use cannot, ignores or silent"),
    ("FSM106", DOOR, 'silent = ["*"]', 'cannot = ["*"]  # here', "call 'knock' cannot have 'cannot' cells", "a call can be made in every state; use 'refuses' or 'silent'"),
    ("FSM106", DOOR, WARP, 'cannot = ["*"]\n[event.warp.moves.shut]\nto = "ajar"\nreply = "ok"  # here', "hidden 'warp' cannot have 'reply'", "only calls"),
    ("FSM106", JOB, EXIT, 'moves = { running = { begins = "ended" } } # here', "signal 'exit' cannot have 'begins'", "only calls"),
    ("FSM106", JOB, EXIT, f'{EXIT}\nends = {{ running = "ended" }} # here', "signal 'exit' cannot have 'ends'", "only calls"),
    ("FSM107", DOOR, 'gone = { about = "Taken away." }', 'gone = { about = "Taken away.", shows = "" } # here', "state 'gone' shows an empty text", "leave out 'shows' for 'gone', or write the text that an observer reads"),
    ("FSM108", DOOR, 'clause  = "push-opens"', 'clause = "push-open"  # here', "unknown clause 'push-open'", "did you mean 'push-opens'? clauses: push-opens, gone-is-gone"),
    ("FSM108", DOOR, SILENT, f'{SILENT}\nclauses.gone-is-back.refuses = {{ gone = "NOT_FOUND" }}  # here', "unknown clause 'gone-is-back'", "did you mean 'gone-is-gone'? clauses: push-opens, gone-is-gone"),
    ("FSM108", DOOR, 'deviates = "push-opens"', 'deviates = "pull-opens"  # here', "unknown clause 'pull-opens'", "did you mean 'push-opens'?"),
    ("FSM109", DOOR, WARP, 'moves = { shut = { emits = [] } }  # here\ncannot = ["*"]', "outcome of 'warp' has none of to, begins and stays", "write exactly one of: to = STATE"),
    ("FSM109", JOB, BEGINS, f'{BEGINS}\n{{ name = "both", to = "ended", begins = "running" }},  # here', "outcome of 'start' has to = 'ended' and begins = 'running' at once", "write exactly one of: to = STATE"),
    ("FSM109", DOOR, WARP, 'moves = { shut = { to = "ajar", stays = true } }  # here\ncannot = ["*"]', "has to = 'ajar' and stays = 'true' at once", "write exactly one of: to = STATE"),
    ("FSM110", JOB, BEGINS, '{ name = "begins", begins = "starting", reply = "ok" }, # here', "an outcome of 'start' begins the call, but already has 'reply'", "to the end of the call"),
    ("FSM110", JOB, BEGINS, '{ name = "begins", begins = "starting", emits = ["x"] }, # here', "an outcome of 'start' begins the call, but already has 'emits'", "to the end of the call"),
    ("FSM111", JOB, CHECKING, f'{CHECKING}running = "ended"  # here\n', "event 'start' ends in 'running', but is never in progress in that state", 'no event leads to it from starting or checking, where the call begins: add an outcome with begins = "running", or remove the end'),
    ("FSM111", JOB, CHECKING, f'{CHECKING}absent = "ended"  # here\n', "event 'start' ends in 'absent', but is never in progress in that state", "no event leads to it from starting or checking, where the call begins"),
    ("FSM111", JOB, f"starting = [\n{CHECKS}", f'starting = [  # here\n{CHECKS}\n{{ name = "x", begins = "running" }},', "event 'start' begins in 'running', but cannot end there", "state how the call ends: ends = { running = … }"),
    ("FSM111", DOOR, JAMS, 'moves = { shut = { begins = "ajar" } }  # here', "event 'push' begins in 'ajar', but cannot end there", "state how the call ends"),
    ("FSM111", DOOR, JAMS, 'moves = { shut = "shut" }\nends.ajar = "open"  # here', "event 'push' ends in 'ajar', but is never in progress in that state", 'the call never begins: add an outcome with begins = "ajar", or remove the end'),
    ("FSM112", DOOR, WARP, 'moves = { shut = [] }  # here\ncannot = ["*"]', "event 'warp' has no outcome in 'shut'", "name at least one"),
    ("FSM112", DOOR, WARP, 'moves = { shut = [{ name = "x", to = "ajar" },\n{ to = "open" }] }  # here\ncannot = ["*"]', "an alternative outcome of 'warp' in 'shut' has no name", 'name = "…"'),
    ("FSM112", JOB, '{ name = "failed", to = "waiting", reply = "error" },', '{ name = "failed", to = "waiting", reply = [] },  # here', "an outcome of 'start' has an empty list of replies", "name a reply, or leave out 'reply', which then is ok"),
    ("FSM112", DOOR, RESTS, "clauses = { gone-is-gone = { refuses = { gone = [] } } }  # here", "event 'push' has no error reply for 'gone' in 'refuses'", "name an error, or use 'silent'"),
    ("FSM112", DOOR, JAMS, 'moves = { shut = { name = "opened", to = "shut" } }  # here', "'push' in 'shut' has two outcomes called 'opened' under profile 'old'", "rename the outcome that the profile adds"),
    ("FSM113", DOOR, 'cannot  = ["ajar", "gone"]', 'cannot = ["ajar", "gone", "*"]  # here', "the '*' of event 'slam' matches no state", "remove the '*'"),
    ("FSM114", DOOR, 'event    = "push"', 'event = "pusch"  # here', "unknown event 'pusch'", "did you mean 'push'? events: push, remove, knock, slam, warp"),
    ("FSM115", DOOR, f"{DEVIATES}{JAMS}", f"{JAMS}  # here", "override 'lock-jams' allows more in 'shut' than event 'push' does", 'deviates = "…"'),
    ("FSM115", DOOR, JAMS, 'silent = ["shut"]  # here', "override 'lock-jams' leaves 'shut' unspecified, but event 'push' specifies it", "state what the implementation does in this state"),
    ("FSM116", DOOR, JAMS, 'moves = { shut = { to = "shut", reply = "STUCK" } }  # here', "override 'lock-jams' allows no more in 'shut' than event 'push' does", "remove 'deviates', or the cell"),
    ("FSM116", DOOR, "[profile.old.cell.never-stuck]", '[profile.old.cell.nothing]  # here\nevent = "push"\nabout = ""\n[profile.old.cell.never-stuck]', "'nothing' overrides no cell", "name the cells that differ"),
    ("FSM117", DOOR, 'rpc     = "RemoveDoor"', 'rpc = "PushDoor"  # here', "events 'push' and 'remove' have the same name 'PushDoor' on the wire", "give each event its own name on the wire"),
    ("FSM117", DOOR, 'rpc     = "RemoveDoor"', 'rpc = "knock"  # here', "event 'remove' has the name 'knock' on the wire, but another event is called that", "rename one of the two events"),
    ("FSM121", DOOR, 'rpc     = "RemoveDoor"', 'rpc = "RemoveDoor"\naliases = ["knock"]  # here', "alias 'knock' of event 'remove' is a name of event 'knock'", "use each name for only one event"),
    ("FSM121", DOOR, 'about = "Closed.", shows = "CLOSED" }', 'about = "Closed.", shows = "CLOSED", aliases = ["gone"] }  # here', "alias 'gone' of state 'shut' is a name of state 'gone'", "or for several states that show the same text"),
    ("FSM121", DOOR, 'reply = "STUCK" }] }', 'reply = "STUCK", aliases = ["knock"] }] }  # here', "alias 'knock' of outcome 'stuck' of 'push' is a name of event 'knock'", "use each name for only one event"),
    ("FSM123", DOOR, "[profile.old]", '[drawing.omits]\npusch = { states = ["*"] }  # here\n[profile.old]', "drawings omit the unknown event 'pusch'", "did you mean 'push'?"),
    ("FSM123", DOOR, "[profile.old]", '[drawing.omits]\npush = { states = ["opne"] }  # here\n[profile.old]', "drawings omit 'push' in the unknown state 'opne'", "did you mean 'open'?"),
    ("FSM123", DOOR, "[profile.old]", '[drawing.omits]\npush = { outcomes = ["stukc"] }  # here\n[profile.old]', "drawings omit, for 'push', the unknown outcome 'stukc'", "did you mean 'stuck'?"),
    ("FSM123", DOOR, "[profile.old]", "[drawing.omits]\npush = {}  # here\n[profile.old]", "the entry of 'push' in [drawing.omits] omits nothing", "name states or outcomes"),
    ("FSM123", DOOR, "[profile.old]", '[drawing.omits]\nknock = { states = ["*"] }  # here\n[profile.old]', "the entry of 'knock' in [drawing.omits] omits nothing", "the event has no outcome"),
    ("FSM122", JOB, f'starting = [\n{CHECKS}\n  {{ name = "failed", to = "waiting", reply = "error" }},\n]\n{CHECKING}', 'starting = { begins = "checking" }  # here\nchecking = { begins = "starting" }\n', "event 'start' never ends, because its ends in 'starting' and 'checking' only begin the call again", "give one of these ends an outcome with 'to' or 'stays'"),
    ("FSM122", JOB, CHECKING, 'checking = { begins = "running" }  # here\nrunning = { begins = "running" }\n', "event 'start' never ends, because its ends in 'checking' and 'running' only begin the call again", "give one of these ends"),
    ("FSM117", DOOR, 'rpc     = "RemoveDoor"', 'rpc = ""  # here', "event 'remove' has an empty name on the wire", "leave out 'rpc'"),
    ("FSM118", DOOR, 'silent = ["*"]', 'silent = ["*"]\ninterrupts = true  # here', "call 'knock' cannot interrupt calls", "only signals and hidden events can interrupt calls"),
    ("FSM124", DOOR, 'until = "1945"', 'until = "1945"\nextends = "odl"  # here', "the profile extends the unknown profile 'odl'", "did you mean 'old'? profiles: old"),
    ("FSM125", DOOR, 'until = "1945"', 'until = "1945"\nextends = "old"  # here', "profile 'old' extends itself", "let one of the profiles extend no profile"),
    ("FSM125", DOOR, "[profile.old]", '[profile.first]\nabout = ""\nextends = "old"\n[profile.old]\nextends = "first"  # here', "profiles 'first' and 'old' extend each other", "let one of the profiles extend no profile"),
    ("FSM105", DOOR, CANNOT, 'cannot = ["apart"]\nsilent = ["gone"]  # here\n[define]\napart = ["ajar", "gone"]', "event 'slam' has 2 cells for 'gone': cannot and silent", "keep only the intended entry"),
    ("FSM105", JOB, CHECKING, f'{CHECKING}[event.start.clauses.c]\nsays = ""\nMAY = ""\nends = {{ checking = "ended" }}  # here\n', "event 'start' has 2 ends for 'checking'", "keep only the intended entry"),
    ("FSM106", DOOR, KNOCK, 'about = ""\nrefuses = { "*" = "STUCK" }  # here', "signal 'knock' cannot have 'refuses' cells", 'or write: kind = "call"'),
    ("FSM011", DOOR, SILENT, f'{SILENT}\nclauses.gone-for-good = {{ MUST = "handbook", refuses = {{ gone = "NOT_FOUND" }} }}  # here', "'says' is missing from [event.knock.clauses.gone-for-good], which has the source of clause 'gone-for-good'", "add says = …, or leave out the source and give only the name of the clause"),
    ("FSM011", DOOR, SILENT, f'{SILENT}\nclauses.gone-for-good = {{ says = "Gone.", refuses = {{ gone = "NOT_FOUND" }} }}  # here', "[event.knock.clauses.gone-for-good] has no level and no source", "add one of MUST, SHOULD, MAY and observed, with the source as its value: MUST = …"),
    ("FSM119", DOOR, RESTS, 'refuses = { gone = "NOT_FOUND" }\nclauses.gone-is-gone = {}  # here', "no cell of event 'push' refers to clause 'gone-is-gone'", "give the clause cells, or remove the clause"),
    ("FSM011", DOOR, SILENT, f'{SILENT}\nsays = "Nobody is there."  # here', "'clause' is missing from [event.knock], which has 'says'", "add clause = …"),
    ("FSM011", DOOR, f"[event.knock]\n{KNOCK}", f'[event.knock]  # here\n{KNOCK}\nclause = "push-opens"\nMUST = "handbook"', "'says' is missing from [event.knock], which has the source of clause 'push-opens'", "add says = …"),
    ("FSM011", DOOR, "[clause.push-opens]\n", '[clause.idle]  # here\nsays = ""\n[event.idle]\nabout = ""\nkind = "hidden"\nclause = "idle"\ncannot = ["*"]\n[clause.push-opens]\n', "[clause.idle] has no level and no source", "add one of MUST, SHOULD, MAY and observed"),
    ("FSM131", DOOR, SILENT, f'{SILENT}\nMUST = "handbook"\nMAY = "hearsay"  # here', "[event.knock] has several levels: MUST and MAY", "keep only the intended level"),
    ("FSM126", DOOR, RESTS, RESTS.replace("{ refuses", '{ says = "Gone.", MUST = "handbook", refuses') + "  # here", "clause 'gone-is-gone' is defined in two places", "elsewhere its name is enough"),
    ("FSM127", DOOR, KNOCK, 'about = ""\nlike = "psuh"  # here', "event 'knock' is like 'psuh', which is not an event", "did you mean 'push'? events: push, remove, slam, warp"),
    ("FSM127", DOOR, KNOCK, 'about = ""\nlike = "push"\n[event.kick]\nabout = ""\nlike = "knock"  # here', "event 'kick' is like 'knock', which is like 'push' itself", 'write like = "push"'),
    ("FSM127", DOOR, KNOCK, 'about = ""\nlike = "knock"  # here', "event 'knock' is like 'knock', which is like 'knock' itself", 'write like = "knock"'),
    ("FSM127", DOOR, KNOCK, 'about = ""\nlike = "push"\nclause = "push-opens"  # here', "event 'knock' is like 'push', but has 'clause'", "leave out 'clause', which is inherited from 'push'"),
    ("FSM127", DOOR, f"[event.knock]\n{KNOCK}", '[event.knock]  # here\nabout = ""\nlike = "push"\nsilent = ["*"]', "event 'knock' is like 'push', but has cells for '*'", "name the states in which 'knock' differs"),
    ("FSM128", DOOR, CANNOT, 'cannot = ["ajar", "gone"]\n[define]\nopen = ["ajar"]  # here', "'open' is defined here, but is also the name of a state", "choose a name that is not used for anything else"),
    ("FSM129", DOOR, CANNOT, 'cannot = ["ajar", "gone"]\n[define]\napart = ["ajar", "gone"]  # here', "nothing uses the definition 'apart'", "use the definition, or remove it"),
    ("FSM130", DOOR, CANNOT, 'cannot = ["apart"]\n[define]\napart = ["aside", "ajar", "gone"]  # here\naside = ["apart"]', "'apart' and 'aside' refer to each other in a circle", "define one of these names without the others"),
    ("FSM119", DOOR, "[clause.gone-is-gone]", '[clause.idle]  # here\nsays = ""\nMAY   = ""\n[clause.gone-is-gone]', "no cell refers to clause 'idle'", "name the clause in the 'clause' or 'clauses' of an event, or remove it"),
    ("FSM132", DOOR, PROFILE, f'{FIELDS}set = ["opend"]  # here\n{PROFILE}', "unknown field 'opend'", "did you mean 'opened'? fields: opened, code, reason"),
    ("FSM132", DOOR, PROFILE, f'[fields]\ntime = ["opened"]\nint = ["opened"]  # here\n{PROFILE}', "field 'opened' has the kinds time and int, but only one kind is allowed", "keep only the intended kind"),
    ("FSM132", DOOR, PROFILE, f'{FIELDS}set = ["opened"]\nwhen = {{ cause = ["wind"] }}  # here\n{PROFILE}', "unknown field 'cause'", "fields: opened, code, reason"),
    ("FSM133", DOOR, PROFILE, HERE + PROFILE, "[requires.open-is-dated] requires nothing", "add at least one of 'set', 'unset', 'not-before', 'values', 'iff' and 'keeps'"),
    ("FSM133", DOOR, PROFILE, f'{FIELDS}set = ["code"]  # here\n{PROFILE}', "field 'code' has the kind int and cannot be set", "name a field of kind time or text"),
    ("FSM132", DOOR, PROFILE, f'{FIELDS}keeps = ["opend"]  # here\n{PROFILE}', "unknown field 'opend'", "did you mean 'opened'?"),
    ("FSM133", DOOR, PROFILE, f'{FIELDS}not-before = {{ opened = "code" }}  # here\n{PROFILE}', "field 'code' has the kind int and cannot be before another", "name a field of kind time"),
    ("FSM133", DOOR, PROFILE, f'{FIELDS}values = {{ code = ["wind"] }}  # here\n{PROFILE}', "field 'code' has the kind int and cannot be 'wind'", "name a field of kind text"),
    *(
        ("FSM012", DOOR, PROFILE, f'{FIELDS}set = ["opened"]\nslack = {slack}  # here\n{PROFILE}', f"requires.open-is-dated.slack is {slack}", "give a number from 0 to 1,000,000,000")
        for slack in ("1e+308", "inf", "nan", "-1")
    ),
    ("FSM134", DOOR, 'shows = "OPEN" }', 'shows = "OPEN", kind = "initial" }  # here', "state 'open' has the kind initial, but the machine begins in 'shut'", "leave out 'kind', or choose one of active, final, error, pending"),
    ("FSM134", DOOR, 'about = "Closed.", shows = "CLOSED" }', 'about = "Closed.", shows = "CLOSED", kind = "final" }  # here', "state 'shut' has the kind final, but the machine begins in 'shut'", "leave out 'kind': the initial state always has the kind initial"),
    ("FSM102", DOOR, PROFILE, FIELDS.replace(IN, '["opne"]  # here') + 'set = ["opened"]\n' + PROFILE, "unknown state 'opne'", "did you mean 'open'?"),
    ("FSM011", DOOR, PROFILE, HERE.replace(HANDBOOK, "") + 'set = ["opened"]\n' + PROFILE, "[requires.open-is-dated] has no level and no source", "add one of MUST"),
    ("FSM108", DOOR, PROFILE, f'{FIELDS}set = ["opened"]\n[profile.old.exempt.undated]\ndeviates = "open-is-date"  # here\nabout = ""\nwhen = {{ code = [1] }}\n{PROFILE}', "unknown clause 'open-is-date'", "did you mean 'open-is-dated'?"),
    *(
        (code, SAFE, old, new if "# here" in new else f"{new}  # here\n", what, hint)
        for code, old, new, what, hint in DATA
    ),
    *(
        (code, LEASE, old, f"{new}  # here\n", what, hint)
        for code, old, new, what, hint in (
            ("FSM170", AFTER, 'after     = "half a minute"', "'half a minute' is not a duration", "write a number and ms, s, min, h or d"),
            ("FSM170", AFTER, 'after     = "P"', "'P' is not a duration", "write a number"),
            ("FSM170", TOLERANCE, 'tolerance = "30 s"', "the tolerance of timer 'term' is 30 s, but its time is 30 s", "shorter than the time"),
            ("FSM171", RESTARTS, 'restarts  = ["renewal"]', "timer 'term' restarts on the unknown event 'renewal'", "did you mean 'renew'?"),
            ("FSM171", FIRES, 'event     = "expiry"', "timer 'term' fires the unknown event 'expiry'", "did you mean 'expire'?"),
            ("FSM102", HELD, 'in        = ["hold"]', "unknown state 'hold'", "did you mean 'held'?"),
            ("FSM172", HELD, 'in        = ["held", "expired"]', "timer 'term' runs in 'expired', where its event 'expire' has no effect", "let the timer not run there"),
            ("FSM172", FIRES, 'event     = "release"', "timer 'term' fires the call 'release'", "fire an event that happens by itself"),
            ("FSM173", TERM, '[timer.other]\nin        = ["held"]\nevent     = "expire"\nafter     = "60 s"\ntolerance = "1 s"\n[timer.term]', "the timers 'other' and 'term' fire 'expire' in the same states", "its own event"),
            ("FSM174", RESTARTS, 'restarts  = ["release"]', "timer 'term' restarts on 'release', which never lets it run on", "leave out the event"),
            ("FSM174", "moves   = { held = { stays = true } }\n", 'ignores = ["held"]', "timer 'term' restarts on 'renew', which is ignored where it runs", "stays = true"),
            ("FSM174", "moves   = { held = { stays = true } }\n", 'moves   = { held = { stays = true, reply = ["ok", "BUSY"] } }', "whether 'renew' with outcome 'done' restarts timer 'term' depends on its reply", "an outcome for the reply ok"),
            ("FSM174", RESTARTS, 'restarts  = ["expire"]', "timer 'term' restarts on 'expire'", "leave out the event"),
            ("FSM141", TERM, "[timer.held]", "'held' is also the name of a variable, a state or an event", "not used for anything else"),
        )
    ),
    ("FSM126", DOOR, PROFILE, HERE.replace("open-is-dated", "gone-is-gone") + 'set = ["opened"]\n' + PROFILE, "clause 'gone-is-gone' is defined in two places", "choose another name"),
    ("FSM160", DOOR, OPEN, OPEN.replace(" }", ', in = "opened" }  # here'), "state 'open' is in the unknown state 'opened'", "did you mean 'open'?"),
    ("FSM160", DOOR, OPEN, UNSHUT.replace(" }  #", ', in = "unshut" }  #'), "state 'unshut' is inside itself", "name an outer state"),
    ("FSM160", DOOR, OPEN, UNSHUT.replace(', initial = "open"', ""), "state 'unshut' has substates, but no 'initial'", "write initial = …, with one of open"),
    ("FSM160", DOOR, OPEN, UNSHUT.replace('initial = "open"', 'initial = "ajar"'), "state 'unshut' has substates, but 'ajar' is not one of them", "write initial = …, with one of open"),
    ("FSM160", DOOR, OPEN, UNSHUT.replace(" }  #", ', kind = "active" }  #'), "state 'unshut' has 'kind' and substates", "leave out 'kind'"),
    ("FSM160", DOOR, OPEN, OPEN.replace(" }", ", history = true }  # here"), "state 'open' has 'history' and no substates", "write in = 'open' in others"),
    ("FSM161", DOOR, OPEN, f'{UNSHUT.replace("  # here", "")}\n"unshut.history" = {{ about = "" }}  # here', "'unshut.history' is the name of a history", "choose another name for the state"),
    ("FSM161", DOOR, WARP, 'moves = { shut = "open.history" }  # here\ncannot = ["*"]', "event 'warp' moves to the history of 'open', which is not declared", "write history = true for 'open', if it has substates"),
    ("FSM102", SUBSTATES, WIDE, 'cannot = ["ajar", "gone", "wide", "unshat"]  # here', "unknown state 'unshat'", "did you mean 'unshut'?"),
    ("FSM104", SUBSTATES, WARP, 'moves = { shut = "unshot" }  # here\ncannot = ["*"]', "moves to the unknown state 'unshot'", "did you mean 'unshut'?"),
    ("FSM105", SUBSTATES, WIDE, 'cannot = ["ajar", "gone", "unshut"]\nsilent = ["unshut"]  # here', "event 'slam' has 2 cells for 'wide': cannot and silent", "keep only the intended entry"),
    ("FSM113", SUBSTATES, WIDE, 'cannot = ["ajar", "gone", "wide",\n"unshut"]  # here', "event 'slam' has other cells for all substates of 'unshut'", "remove 'unshut'"),
    ("FSM128", SUBSTATES, WIDE, 'cannot = ["ajar", "gone", "unshut"]\n[define]\nunshut = ["ajar"]  # here', "'unshut' is defined here, but is also the name of a state", "choose a name"),
    ("FSM161", SUBSTATES, WARP, 'moves = { shut = "unshut.history" }  # here\ncannot = ["*"]', "moves to the history of 'unshut', which is not declared", "write history = true for 'unshut'"),
]  # fmt: skip


@pytest.mark.parametrize(("code", "text", "old", "new", "what", "hint"), CASES, ids=lambda part: part[:40])
def test_says_what_is_wrong_where_and_the_way_out(
    code: str, text: str, old: str, new: str, what: str, hint: str
) -> None:
    text = edited(text, old, new)

    problems = problems_of(text)

    assert [(code, line_of(text))] == [(problem.code, problem.line) for problem in problems]
    assert what in problems[0].what
    assert hint in problems[0].hint


@pytest.mark.parametrize(
    ("number", "cells"), [(501, 'silent = ["*"]'), (11, "moves.'*' = ["), (501, "moves.'*' = 'shut1'")]
)
def test_a_table_that_is_too_large_is_refused(number: int, cells: str) -> None:
    cells += "".join(f"{{ name = 'o{each}' }}," for each in range(50)) + "]" if cells.endswith("[") else ""
    head, _, _ = DOOR.partition("[states]")
    states = "".join(f'shut{number} = {{ about = "" }}\n' for number in range(1_000))
    events = "".join(f'[event.e{each}]\nkind = "call"\nabout = ""\n{cells}\n' for each in range(number))

    (problem,) = problems_of(f"{head}[states]\n{states}{events}")

    assert ("FSM120", 1_009) == (problem.code, problem.line)
    assert f"{number} events in 1000 states can have more than {LARGEST_TABLE} outcomes" == problem.what


def test_every_rule_of_meaning_has_a_case() -> None:
    assert {code for code in RULES if "FSM1" < code < "FSM2"} == {case[0] for case in CASES if case[0] > "FSM1"} | {
        "FSM120"
    }


def test_every_code_that_is_used_has_a_rule() -> None:
    """The source uses exactly the codes that have rules."""
    families = {code[:4] for code in RULES}
    used = {
        code
        for path in Path(fsm.__file__).parent.rglob("*.py")
        if path.name != "rules.py"
        for code in re.findall(r"FSM\d{3}", path.read_text(encoding="utf-8"))
        if code[:4] in families
    }

    assert set(RULES) == used


@pytest.mark.parametrize("code", RULES)
def test_a_rule_says_what_it_finds_and_why(code: str) -> None:
    rule = RULES[code]

    assert re.fullmatch(r"FSM[0-9]{3}", code)
    for part in (rule.finds, rule.why):
        assert part
        assert not part.endswith(".")
    assert rule.finds[0].islower()
    assert rule.why[0].islower()


def test_says_all_mistakes_at_once() -> None:
    text = DOOR
    for old, new in [
        ('initial = "shut"', 'initial = "shot"'),
        ('gone = { about = "Taken away." }', 'gone = { about = "", shows = "" }'),
        ('clause  = "push-opens"', 'clause  = "pull-opens"'),
        ('rpc     = "RemoveDoor"', 'rpc     = "PushDoor"'),
        ('silent = ["*"]', 'silent = ["shut", "opened"]'),
        (WARP, 'moves = { shut = "ayar" }\nrefuses = { open = "error" }'),
        ('event    = "push"', 'event    = "pull"'),
    ]:
        text = edited(text, old, new)

    problems = problems_of(text)

    expected = "101 107 108 117 103 103 103 102 103 103 104 106 114"
    assert expected == " ".join(problem.code.removeprefix("FSM") for problem in problems)
    assert sorted(problem.line for problem in problems) == [problem.line for problem in problems]


def test_a_mistake_behind_a_star_is_said_once() -> None:
    text = edited(DOOR, 'silent = ["*"]', 'moves = { "*" = "nowhere" }')

    assert ["FSM104"] == [problem.code for problem in problems_of(text)]


# -- the machine -----------------------------------------------------------------


def test_every_cell_is_there_in_the_order_of_the_model() -> None:
    machine = door()

    assert [
        ("push", "Moves Ignores Moves Refuses"),
        ("remove", "Moves Moves Moves Ignores"),
        ("knock", "Silent Silent Silent Silent"),
        ("slam", "Ignores Moves Cannot Cannot"),
        ("warp", "Moves Cannot Cannot Cannot"),
    ] == [
        (event.name, " ".join(type(cell).__name__ for cell in event.cells.values()))
        for event in machine.events.values()
    ]
    assert all(tuple(event.cells) == tuple(machine.states) for event in machine.events.values())


def test_a_cell_rests_on_the_clause_of_its_state_or_of_its_event() -> None:
    machine = door()

    assert [
        ("push", "shut", "push-opens", "MUST", "handbook, section 2"),
        ("push", "gone", "gone-is-gone", "SHOULD", "handbook, section 5"),
        ("remove", "gone", "remove", "MAY", "handbook, section 5"),
        ("slam", "open", "slam", "observed", "the door maker's handbook, second edition"),
        ("warp", "open", "warp", "MUST", "the door maker's handbook, second edition"),
    ] == [
        (event, state, clause.name, clause.level, clause.source)
        for event, state in (("push", "shut"), ("push", "gone"), ("remove", "gone"), ("slam", "open"), ("warp", "open"))
        for clause in (machine.events[event].cells[state].clause,)
    ]


def test_a_state_shows_its_name_unless_it_says_otherwise() -> None:
    assert ["CLOSED", "OPEN", "CLOSED", "gone"] == [state.shows for state in door().states.values()]


def test_a_call_that_begins_replies_where_it_ends() -> None:
    start = job().events["start"]

    assert [("begins", "starting", (), True), ("too-early", "waiting", ("error",), False)] == [
        (way.name, way.to, way.reply, way.begins)
        for cell in (start.cells["waiting"],)
        if isinstance(cell, Moves)
        for way in cell.outcomes
    ]
    assert {
        "starting": [("checks", "checking", ()), ("failed", "waiting", ("error",))],
        "checking": [("done", "running", ("ok",))],
    } == {state: [(way.name, way.to, way.reply) for way in end.outcomes] for state, end in start.ends.items()}


def test_signals_have_no_reply() -> None:
    moves = job().events["exit"].cells["running"]

    assert isinstance(moves, Moves)
    assert [()] == [way.reply for way in moves.outcomes]


@pytest.mark.parametrize(
    ("words", "kind"),
    [("", "signal"), ('rpc = "Bang"', "call"), ('kind = "call"', "call"), ('kind = "hidden"\nrpc = "Bang"', "hidden")],
)
def test_what_has_a_name_on_the_wire_is_a_call_and_all_else_a_signal(words: str, kind: str) -> None:
    events = machine_of(f'{DOOR}\n[event.bang]\n{words}\nabout = "A noise."\nsilent = ["*"]\n').events

    assert kind == events["bang"].kind


def test_a_cell_knows_its_line() -> None:
    events = door().events

    for event, state, mark in [
        ("push", "shut", 'moves   = { "*" = [{ name = "opened"'),
        ("slam", "gone", 'cannot  = ["ajar", "gone"]'),
        ("push", "gone", 'refuses = { gone = "NOT_FOUND" }'),
    ]:
        assert line_of(DOOR, mark) == events[event].cells[state].line


def test_header_words_reach_the_machine() -> None:
    assert ("task", ("CANCELED",)) == (job().entity, job().indefinite)
    assert ("counter", ()) == (counter().entity, counter().indefinite)


@pytest.mark.parametrize("name", names())
def test_every_shipped_model_is_well_formed(name: str) -> None:
    machine = load(name)

    assert name == machine.name
    for profile in machine.profiles:
        assert machine.states == machine.under(profile).states


# -- profiles ----------------------------------------------------------------------


def test_a_deviation_is_allowed_beside_what_the_machine_does() -> None:
    cell = door().under("old").events["push"].cells["shut"]

    assert isinstance(cell, Moves)
    assert [("opened", None), ("stuck", None), ("lock-jams", "push-opens")] == [
        (way.name, way.deviation and way.deviation.clause.name) for way in cell.outcomes
    ]
    assert "push-opens" == cell.clause.name


def test_an_override_that_narrows_replaces_the_cell() -> None:
    cell = door().under("old").events["push"].cells["ajar"]

    assert isinstance(cell, Moves)
    assert [("open", ("ok",), None)] == [(way.to, way.reply, way.deviation) for way in cell.outcomes]
    assert "push-opens" == cell.clause.name


def test_the_other_cells_are_those_of_the_machine() -> None:
    machine = door()
    profiled = machine.under("old")

    assert machine.events["push"].cells["gone"] == profiled.events["push"].cells["gone"]
    assert machine.events["remove"] == profiled.events["remove"]
    assert {} == profiled.profiles


SLOW_START = """
[clause.start-is-quick]
says = "A start takes no time."
MUST = "nobody"

[profile.slow]
about = "Makes its jobs as if it started them."

[profile.slow.cell.make-takes-time]
event = "make"
about = "Others meet the job before it is made."
deviates = "start-is-quick"
moves = { absent = { begins = "checking" } }
ends = { checking = [{ name = "made", to = "waiting" }, { name = "lost", to = "absent", reply = "error" }] }

[profile.slow.cell.start-ends-otherwise]
event = "start"
about = "A check may fail."
deviates = "start-is-quick"
ends = { checking = [{ name = "same", to = "running", emits = ["started"] }, { name = "bad", to = "ended", reply = "error" }] }

[profile.sure]
about = "A start that is checked never fails before."

[profile.sure.cell.always-checks]
event = "start"
about = "It checks."
ends = { starting = { begins = "checking" } }
"""


def test_a_deviation_may_take_time() -> None:
    events = machine_of(JOB + SLOW_START).under("slow").events

    assert {
        ("make", "checking"): [("made", "waiting", True), ("lost", "absent", True)],
        ("start", "starting"): [("checks", "checking", False), ("failed", "waiting", False)],
        ("start", "checking"): [("done", "running", False), ("bad", "ended", True)],
    } == {
        (event.name, state): [(way.name, way.to, way.deviation is not None) for way in end.outcomes]
        for event in events.values()
        for state, end in event.ends.items()
    }


def test_ends_may_be_narrowed() -> None:
    ends = machine_of(JOB + SLOW_START).under("sure").events["start"].ends

    assert [("checking", True)] == [(way.to, way.begins) for way in ends["starting"].outcomes]
    assert [("running", False)] == [(way.to, way.begins) for way in ends["checking"].outcomes]


SOMETHING_MOVES = """
[event.shake]
kind = "hidden"
about = "It moves what is in progress, or the specification does not say."
"""


@pytest.mark.parametrize(
    ("shake", "state"),
    [
        ('ignores = ["*"]', "ended"),  # the exit leads to this state
        ('silent = ["checking"]\ncannot = ["*"]', "absent"),  # a silent cell may lead to any state
        ('moves = { checking = "waiting" }\ncannot = ["*"]', "running"),  # a second, concurrent start leads here
    ],
)
def test_a_call_may_end_wherever_others_move_it(shake: str, state: str) -> None:
    text = edited(JOB, CHECKING, f'{CHECKING}{state} = {{ stays = true, reply = "GONE" }}\n')
    still = edited(text, EXIT, 'moves = { running = "ended" }')

    assert () == problems_of(text + SOMETHING_MOVES + shake)
    assert ["FSM111"] == [each.code for each in problems_of(still + SOMETHING_MOVES + 'ignores = ["*"]')]


def test_a_call_can_end_under_each_profile() -> None:
    again = edited(
        JOB, CHECKING, 'checking = [{ name = "again", begins = "starting" }, { name = "done", to = "running" }]\n'
    )
    narrowed = """
[profile.never]
about = "It checks, and checks again."

[profile.never.cell.forever]
event = "start"
about = ""
ends = { starting = { begins = "checking" }, checking = { begins = "starting" } }  # here
"""

    assert () == problems_of(again)
    assert [("FSM122", line_of(again + narrowed))] == [(each.code, each.line) for each in problems_of(again + narrowed)]


def test_deviations_from_one_cell_may_meet() -> None:
    more = (
        DOOR
        + '\n[profile.old.cell.falls-off]\nevent = "push"\nabout = ""\ndeviates = "push-opens"\nmoves = { shut = "gone" }\n'
    )
    cell = machine_of(more).under("old").events["push"].cells["shut"]

    assert isinstance(cell, Moves)
    assert ["opened", "stuck", "lock-jams", "falls-off"] == [way.name for way in cell.outcomes]


def test_an_unknown_profile_is_misuse() -> None:
    with pytest.raises(ValueError, match="machine 'door' has no profile 'new'; profiles: old"):
        door().under("new")
    with pytest.raises(ValueError, match="machine 'counter' has no profile 'old'; profiles: none"):
        counter().under("old")


def test_all_kinds_of_cells_are_in_the_toys() -> None:
    kinds = {
        type(cell) for machine in (door(), job()) for event in machine.events.values() for cell in event.cells.values()
    }

    assert {Moves, Ignores, Refuses, Cannot, Silent} == kinds


def test_an_outcome_that_stays_leads_to_the_state_it_is_in() -> None:
    machine = machine_of(edited(DOOR, 'silent = ["*"]', 'moves = { "*" = { stays = true, emits = ["Knock"] } }'))
    cells = machine.events["knock"].cells

    assert {state: [state] for state in machine.states} == {
        state: [way.to for way in cell.outcomes] for state, cell in cells.items() if isinstance(cell, Moves)
    }


# -- profiles that extend others -----------------------------------------------------

OLDER = (
    DOOR
    + """
[profile.oldest]
about = "The first ones."
extends = "older"

[profile.older]
about = "Doors of wood."
extends = "old"

[profile.older.cell.wood-works]
event = "slam"
about = "Does not reach the frame."
deviates = "gone-is-gone"
moves = { open = "ajar" }
"""
)


def _overrides(machine: Machine, profile: str) -> list[tuple[str, str, list[str]]]:
    return [(each.name, each.event, list(each.cells)) for each in machine.profiles[profile].overrides]


def test_a_profile_has_the_cells_of_the_one_that_it_extends() -> None:
    machine = machine_of(OLDER)

    old = [("lock-jams", "push", ["shut"]), ("never-stuck", "push", ["ajar"])]
    assert ["old", "oldest", "older"] == list(machine.profiles)
    assert old == _overrides(machine, "old")
    assert [*old, ("wood-works", "slam", ["open"])] == _overrides(machine, "older") == _overrides(machine, "oldest")


def test_a_deviation_that_is_taken_over_is_one_of_the_profile_that_has_it() -> None:
    machine = machine_of(OLDER)

    deviations = {name: each.overrides[0].deviation for name, each in machine.profiles.items()}

    assert all(deviation is not None for deviation in deviations.values())
    assert {("old", "1920"), ("older", "1920"), ("oldest", "1920")} == {
        (each.profile, each.since) for each in deviations.values() if each
    }
    assert "older" == machine.under("older").step("shut", "push")[-1].deviation.profile  # type: ignore[index, union-attr]


@pytest.mark.parametrize(
    ("own", "expected"),
    [
        ('[profile.older.cell.lock-holds]\nevent = "push"\nabout = ""\nmoves = { ajar = { to = "shut", reply = "STUCK" } }', [("lock-jams", "push", ["shut"]), ("lock-holds", "push", ["ajar"])]),
        ('[profile.older.cell.lock-jams]\nevent = "push"\nabout = ""\ndeviates = "push-opens"\nmoves = { ajar = "ajar" }', [("lock-jams", "push", ["ajar"])]),
        ('[profile.older.cell.quiet]\nevent = "slam"\nabout = ""\ncannot = ["open"]', [("lock-jams", "push", ["shut"]), ("never-stuck", "push", ["ajar"]), ("quiet", "slam", ["open"])]),
    ],
    ids=["another name", "the same name", "another event"],
)  # fmt: skip
def test_a_profile_overrides_cell_by_cell_what_it_extends(own: str, expected: list[tuple[str, str, list[str]]]) -> None:
    machine = machine_of(f'{DOOR}\n[profile.older]\nabout = ""\nextends = "old"\n{own}')

    assert expected == _overrides(machine, "older")


def test_a_profile_that_extends_a_circle_is_no_further_mistake() -> None:
    text = DOOR
    for name, parent in (("one", "two"), ("two", "one"), ("three", "two")):
        text += f'\n[profile.{name}]\nabout = ""\nextends = "{parent}"\n'

    assert ["FSM125"] == [problem.code for problem in problems_of(text)]


# -- clauses with their cells, events like others, sets of states ----------------------


def test_a_clause_may_stand_with_the_cells_that_rest_on_it() -> None:
    rests = (
        """clauses.deaf = { says = "What is gone hears nothing.", MAY = "handbook, section 6", cannot = ["gone"] }"""
    )
    text = edited(DOOR, CANNOT, 'cannot = ["ajar"]\n' + rests)
    text = edited(text, SILENT, 'silent = ["*"]\nclauses.deaf.refuses = { gone = "NOT_FOUND" }')
    machine = machine_of(text)

    assert ["push-opens", "gone-is-gone", "deaf"] == list(machine.clauses)
    assert ("MAY", "handbook, section 6") == (machine.clauses["deaf"].level, machine.clauses["deaf"].source)
    assert [("deaf", Cannot), ("slam", Cannot), ("deaf", Refuses), ("knock", Silent)] == [
        (cell.clause.name, type(cell))
        for event, state in (("slam", "gone"), ("slam", "ajar"), ("knock", "gone"), ("knock", "ajar"))
        for cell in (machine.events[event].cells[state],)
    ]


def test_the_star_stands_for_the_states_that_no_clause_mentions() -> None:
    text = edited(DOOR, SILENT, 'refuses = { gone = "NOT_FOUND" }\nclauses.push-opens.silent = ["*"]')

    cells = machine_of(text).events["knock"].cells

    assert [("push-opens", Silent)] * 3 + [("knock", Refuses)] == [
        (cell.clause.name, type(cell)) for cell in cells.values()
    ]


KICK = """
[event.kick]
like  = "push"
rpc   = "KickDoor"
about = "Open the door with a foot."
"""


def test_an_event_that_is_like_another_has_its_cells() -> None:
    machine = machine_of(f'{DOOR}{KICK}refuses = {{ open = "STUCK" }}\nclauses.gone-is-gone.silent = ["gone"]')

    push, kick = machine.events["push"], machine.events["kick"]

    assert ("call", "KickDoor", "Open the door with a foot.") == (kick.kind, kick.rpc, kick.about)
    assert (push.cells["shut"], push.cells["ajar"]) == (kick.cells["shut"], kick.cells["ajar"])
    assert [Refuses, Silent] == [type(kick.cells[state]) for state in ("open", "gone")]
    assert ["push-opens", "gone-is-gone"] == [kick.cells[state].clause.name for state in ("open", "gone")]
    assert list(machine.states) == list(kick.cells)


def test_an_event_that_is_like_one_without_a_clause_is_its_own_clause() -> None:
    machine = machine_of(DOOR + KICK.replace('"push"', '"remove"'))

    clause = machine.events["kick"].cells["shut"].clause

    assert ("kick", "Open the door with a foot.", "MAY", "handbook, section 5") == (
        clause.name,
        clause.says,
        clause.level,
        clause.source,
    )


def test_an_event_that_is_like_a_call_that_takes_time_ends_like_it() -> None:
    machine = machine_of(
        f'{JOB}\n[event.retry]\nlike = "start"\nabout = "Once more."\nends = {{ checking = "ended" }}\n'
    )

    start, retry = machine.events["start"], machine.events["retry"]

    assert {way.name for way in start.ends["starting"].outcomes} == {
        way.name for way in retry.ends["starting"].outcomes
    }
    assert ("running", "ended") == (start.ends["checking"].outcomes[0].to, retry.ends["checking"].outcomes[0].to)


def test_an_event_may_be_like_one_that_stands_behind_it() -> None:
    head, _, tail = DOOR.partition("[event.push]")

    assert ["kick", "push", "remove"] == list(machine_of(f"{head}{KICK}[event.push]{tail}").events)[:3]


SETS = """
[define]
shuttable = ["open", "ajar"]
off-frame = ["shuttable", "gone"]
"""


def test_a_set_of_states_stands_for_each_of_them() -> None:
    text = edited(DOOR, "[clause.push-opens]", f"{SETS}\n[clause.push-opens]")
    text = edited(text, "moves   = { open = { to", "moves   = { shuttable = { to")
    text = edited(text, CANNOT, 'cannot = ["gone"]')
    text = edited(text, SILENT, 'ignores = ["shut"]\nrefuses = { off-frame = "STUCK" }')
    text = edited(text, "moves = { ajar = { to", "moves = { shuttable = { to").replace(
        'ignores = ["open"]\nclauses', "clauses"
    )
    text += '[drawing.omits]\nslam = { states = ["off-frame"] }\n'
    machine = machine_of(text)

    assert [Ignores, Moves, Moves, Cannot] == [type(cell) for cell in machine.events["slam"].cells.values()]
    assert [Ignores, Refuses, Refuses, Refuses] == [type(cell) for cell in machine.events["knock"].cells.values()]
    assert {"open", "ajar"} == set(machine.profiles["old"].overrides[1].cells)
    assert machine.omits is not None
    assert {"open", "ajar", "gone"} == machine.omits["slam"].states


def test_what_a_set_stands_for_stays_where_it_is() -> None:
    text = edited(DOOR, "[clause.push-opens]", f"{SETS}\n[clause.push-opens]")
    text = edited(text, SILENT, 'ignores = ["shut"]\nmoves = { off-frame = { stays = true } }')

    cells = machine_of(text).events["knock"].cells

    assert ["open", "ajar", "gone"] == [
        way.to for cell in cells.values() if isinstance(cell, Moves) for way in cell.outcomes
    ]
