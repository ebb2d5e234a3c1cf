"""Rules for model files: their form, and what they mean."""

from collections.abc import Mapping
from typing import Final

from fsm.errors import Rule

FORM: Final[Mapping[str, Rule]] = {
    "FSM001": Rule(
        finds="a model that cannot be opened, or a name that no model has",
        why="there is nothing to work with",
        wrong="fsm show cri-contaner",
        right="fsm show cri-container",
    ),
    "FSM002": Rule(
        finds="a model file of more than 4 MiB",
        why="no lifecycle that people can discuss is that large; it is another file",
        wrong="fsm show logs/containerd.log",
        right="fsm judge logs/containerd.log",
    ),
    "FSM003": Rule(
        finds="bytes that are not UTF-8",
        why="a TOML file is UTF-8 by definition",
        wrong='title   = "A d\\xf6r"',
        right='title   = "A dör"',
    ),
    "FSM004": Rule(
        finds="text that is not TOML",
        why="the rest of the file cannot be trusted",
        wrong="initial = shut",
        right='initial = "shut"',
    ),
    "FSM005": Rule(
        finds="arrays, tables or keys nested more than 32 deep",
        why="the language needs six levels; deeper nesting is damage or an attack",
        wrong="about   = [[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]",
        right='about   = "Open the door."',
    ),
    "FSM010": Rule(
        finds="a word that the language does not have",
        why="a misspelt word that is ignored is a rule that is not checked",
        wrong='ignore  = ["shut"]',
        right='ignores = ["shut"]',
    ),
    "FSM011": Rule(
        finds="a word that the language requires and the file lacks",
        why="without it the model has no meaning, or no source",
        wrong="[event.warp]",
        right=('[event.warp]\nkind   = "hidden"'),
    ),
    "FSM012": Rule(
        finds="a value or a name of the wrong form",
        why="it has no meaning there",
        wrong='ignores = "shut"',
        right='ignores = ["shut"]',
    ),
}

MEANING: Final[Mapping[str, Rule]] = {
    "FSM101": Rule(
        finds="an initial state that is not among the states",
        why="no run could begin",
        wrong='initial = "shot"    # the states are shut, open, ajar and gone',
        right='initial = "shut"',
    ),
    "FSM102": Rule(
        finds="a cell for a state that is not among the states, or a set with one",
        why="it would never apply, and the intended state has no cell",
        wrong='ignores = ["shut", "opne"]    # the states are shut, open, ajar and gone',
        right='ignores = ["shut"]',
    ),
    "FSM103": Rule(
        finds="a state in which an event has no cell",
        why="a machine is a total table: what is left out by mistake must not look like silence",
        wrong=(
            "[event.slam]\n"
            'kind    = "signal"\n'
            'about   = "The wind shuts it."\n'
            'observed = "the door maker\'s handbook, second edition"\n'
            'moves   = { open = { to = "shut", emits = ["Bang"] } }\n'
            'ignores = ["shut"]\n'
            'cannot  = ["ajar"]    # and in gone?'
        ),
        right=(
            "[event.slam]\n"
            'kind    = "signal"\n'
            'about   = "The wind shuts it."\n'
            'observed = "the door maker\'s handbook, second edition"\n'
            'moves   = { open = { to = "shut", emits = ["Bang"] } }\n'
            'ignores = ["shut"]\n'
            'cannot  = ["ajar", "gone"]'
        ),
    ),
    "FSM104": Rule(
        finds="an outcome that leads to a state that is not among the states",
        why="what follows it would be undefined",
        wrong='moves  = { shut = "ayar" }    # the states are shut, open, ajar and gone',
        right='moves  = { shut = "ajar" }',
    ),
    "FSM105": Rule(
        finds="two cells for one event and one state, in the event or in a profile",
        why="only one of them can be intended",
        wrong=(
            "[event.slam]\n"
            'kind    = "signal"\n'
            'about   = "The wind shuts it."\n'
            'observed = "the door maker\'s handbook, second edition"\n'
            'moves   = { open = { to = "shut", emits = ["Bang"] } }\n'
            'ignores = ["shut", "open"]    # but open moves\n'
            'cannot  = ["ajar", "gone"]'
        ),
        right=(
            "[event.slam]\n"
            'kind    = "signal"\n'
            'about   = "The wind shuts it."\n'
            'observed = "the door maker\'s handbook, second edition"\n'
            'moves   = { open = { to = "shut", emits = ["Bang"] } }\n'
            'ignores = ["shut"]\n'
            'cannot  = ["ajar", "gone"]'
        ),
    ),
    "FSM106": Rule(
        finds="a cell, a reply or a begin that this kind of event cannot have",
        why="signals and hidden events have no reply; a call can always be made",
        wrong=(
            "[event.slam]\n"
            'kind    = "signal"\n'
            'about   = "The wind shuts it."\n'
            'observed = "the door maker\'s handbook, second edition"\n'
            'moves   = { open = { to = "shut", emits = ["Bang"] } }\n'
            'ignores = ["shut"]\n'
            'refuses = { ajar = "STUCK", gone = "NOT_FOUND" }'
        ),
        right=(
            "[event.slam]\n"
            'kind    = "signal"\n'
            'about   = "The wind shuts it."\n'
            'observed = "the door maker\'s handbook, second edition"\n'
            'moves   = { open = { to = "shut", emits = ["Bang"] } }\n'
            'ignores = ["shut"]\n'
            'cannot  = ["ajar", "gone"]'
        ),
    ),
    "FSM107": Rule(
        finds="a state that shows the empty text",
        why="an observation without a state would be read as that state",
        wrong='gone = { about = "Taken away.", shows = "" }',
        right='gone = { about = "Taken away." }',
    ),
    "FSM108": Rule(
        finds="the name of a clause that does not exist",
        why="the cell would rest on nothing",
        wrong='clause  = "push-open"    # there is [clause.push-opens]',
        right='clause  = "push-opens"',
    ),
    "FSM109": Rule(
        finds="an outcome with none of to, begins and stays, or with several of them",
        why="an outcome leads to one state",
        wrong='moves  = { shut = { emits = ["Creak"] } }',
        right='moves  = { shut = { to = "ajar", emits = ["Creak"] } }',
    ),
    "FSM110": Rule(
        finds="an outcome that begins, and replies or emits",
        why="a call that has only begun has no reply yet, and what it emits belongs to its end",
        wrong='{ name = "begins", begins = "starting", reply = "ok" },',
        right='{ name = "begins", begins = "starting" },',
    ),
    "FSM111": Rule(
        finds="a call that begins in a state and has no end there, or has one where it is never in progress",
        why="it would never return, or its end could never happen",
        wrong='{ name = "checks", begins = "running" },    # ends has checking, and not running',
        right='{ name = "checks", begins = "checking" },',
    ),
    "FSM112": Rule(
        finds="an empty list of outcomes or replies, or alternatives without different names",
        why="an event that acts has an outcome, and reports distinguish alternatives by their names",
        wrong='moves  = { shut = [{ to = "ajar" }, { to = "open" }] }',
        right='moves  = { shut = [{ name = "warps", to = "ajar" }, { name = "springs", to = "open" }] }',
    ),
    "FSM113": Rule(
        finds="a '*' that stands for no state",
        why="every state is listed already, so a state that the author had in mind is missing",
        wrong=(
            "[event.slam]\n"
            'kind    = "signal"\n'
            'about   = "The wind shuts it."\n'
            'observed = "the door maker\'s handbook, second edition"\n'
            'moves   = { open = { to = "shut", emits = ["Bang"] } }\n'
            'ignores = ["shut"]\n'
            'cannot  = ["ajar", "gone", "*"]    # there is no other state'
        ),
        right=(
            "[event.slam]\n"
            'kind    = "signal"\n'
            'about   = "The wind shuts it."\n'
            'observed = "the door maker\'s handbook, second edition"\n'
            'moves   = { open = { to = "shut", emits = ["Bang"] } }\n'
            'ignores = ["shut"]\n'
            'cannot  = ["ajar", "gone"]'
        ),
    ),
    "FSM114": Rule(
        finds="a profile that overrides an event that does not exist",
        why="the override would never apply",
        wrong='event    = "pusch"    # there is [event.push]',
        right='event    = "push"',
    ),
    "FSM115": Rule(
        finds="an override that allows more than the machine, and does not name the clause that it breaks",
        why="a deviation must be declared, or it would pass silently",
        wrong='moves    = { shut = { to = "shut" } }    # [event.push] opens it, or replies STUCK',
        right=('deviates = "push-opens"\nmoves    = { shut = { to = "shut" } }'),
    ),
    "FSM116": Rule(
        finds="an override that changes nothing, or that deviates from a clause it keeps",
        why="a deviation without effect hides the day on which there is one",
        wrong='moves    = { shut = { to = "shut", reply = "STUCK" } }    # as [event.push] may, too',
        right='moves    = { shut = { to = "shut" } }',
    ),
    "FSM117": Rule(
        finds="an event whose name on the wire is empty, or names another event",
        why="a trace with that name could mean either",
        wrong='rpc     = "PushDoor"    # as [event.push] is called',
        right='rpc     = "RemoveDoor"',
    ),
    "FSM118": Rule(
        finds="a call that interrupts",
        why="calls in progress are lost by something that happens, such as a crash, not by a request",
        wrong=('kind       = "call"\nabout      = "All that is in progress is lost."\ninterrupts = true'),
        right=('kind       = "signal"\nabout      = "All that is in progress is lost."\ninterrupts = true'),
    ),
    "FSM119": Rule(
        finds="a clause that no cell rests on",
        why="a sentence that nothing checks looks as if something did",
        wrong='refuses = { gone = "NOT_FOUND" }    # and no event has [clause.gone-is-gone]',
        right='clauses = { gone-is-gone = { refuses = { gone = "NOT_FOUND" } } }',
    ),
    "FSM120": Rule(
        finds="more than a million cells",
        why="every cell is held in memory; no lifecycle that people can discuss is that large",
        wrong="fsm show register.toml    # 1,001 events in 1,000 states",
        right="fsm show door.toml        # 5 events in 4 states",
    ),
    "FSM121": Rule(
        finds="an alias that is a name of another event, or of a state that shows something else",
        why="a drawing may use any of the names, and must mean one thing by it",
        wrong=('rpc     = "RemoveDoor"\naliases = ["knock"]    # there is [event.knock]'),
        right=('rpc     = "RemoveDoor"\naliases = ["unhinge"]'),
    ),
    "FSM122": Rule(
        finds="a call whose ends only begin again, so that it never ends",
        why="the caller would wait for ever",
        wrong=('starting = { begins = "checking" }\nchecking = { begins = "starting" }'),
        right=('starting = { begins = "checking" }\nchecking = "running"'),
    ),
    "FSM123": Rule(
        finds="drawings that omit an event, a state or an outcome that does not exist, or nothing",
        why="what is misspelt would be missing from every drawing, and an omission of nothing means nothing",
        wrong=('[drawing.omits]\npush = { states = ["ayar"] }'),
        right=('[drawing.omits]\npush = { states = ["ajar"] }'),
    ),
    "FSM124": Rule(
        finds="a profile that extends one that does not exist",
        why="the cells that it was to take over are missing",
        wrong=('[profile.jammed]\nabout   = "Old doors, after rain."\nextends = "odl"    # there is [profile.old]'),
        right=('[profile.jammed]\nabout   = "Old doors, after rain."\nextends = "old"'),
    ),
    "FSM125": Rule(
        finds="profiles that extend each other in a circle",
        why="none of them would come first",
        wrong=('[profile.jammed]\nabout   = "Old doors, after rain."\nextends = "jammed"'),
        right=('[profile.jammed]\nabout   = "Old doors, after rain."\nextends = "old"'),
    ),
    "FSM126": Rule(
        finds="a clause that is defined in two places",
        why="the cells that name it could rest on either",
        wrong=(
            "[event.push.clauses.gone-is-gone]    # there is [clause.gone-is-gone]\n"
            'says    = "A door that is gone does not open."\n'
            'SHOULD  = "handbook, section 5"\n'
            'refuses = { gone = "NOT_FOUND" }'
        ),
        right=('[event.push.clauses.gone-is-gone]\nrefuses = { gone = "NOT_FOUND" }'),
    ),
    "FSM127": Rule(
        finds="an event that is like one that does not exist or is itself like another, or that repeats what it takes over",
        why="what an event does is found in two places at most: its own table and that of the other event",
        wrong=('[event.knock]\nabout = "Knock it open."\nlike  = "psuh"    # there is [event.push]'),
        right=('[event.knock]\nabout = "Knock it open."\nlike  = "push"'),
    ),
    "FSM128": Rule(
        finds="a definition with the name of a state, or of something else that may stand in its place",
        why="a reader would take the name for the other",
        wrong=('cannot  = ["ajar", "gone"]\n\n[define]\nopen = ["ajar"]'),
        right=('cannot  = ["apart"]\n\n[define]\napart = ["ajar", "gone"]'),
    ),
    "FSM129": Rule(
        finds="a definition that nothing uses",
        why="it hides a use that is misspelt",
        wrong=('cannot  = ["ajar", "gone"]\n\n[define]\napart = ["ajar", "gone"]'),
        right=('cannot  = ["apart"]\n\n[define]\napart = ["ajar", "gone"]'),
    ),
    "FSM130": Rule(
        finds="definitions that need each other in a circle",
        why="none of them would have a meaning",
        wrong=('cannot  = ["apart"]\n\n[define]\napart = ["aside", "ajar", "gone"]\naside = ["apart"]'),
        right=('cannot  = ["apart"]\n\n[define]\napart = ["aside", "gone"]\naside = ["ajar"]'),
    ),
    "FSM131": Rule(
        finds="a clause, an event or a property of two levels",
        why="it would be unclear whether to break it is a violation",
        wrong='MAY     = "handbook, section 5"\nMUST    = "handbook, section 5"',
        right='MAY     = "handbook, section 5"',
    ),
}
