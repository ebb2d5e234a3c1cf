"""What files of models, systems and properties are held to."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from fsm.errors import Rule

if TYPE_CHECKING:
    from collections.abc import Mapping

FORM: Final[Mapping[str, Rule]] = {
    "FSM001": Rule(
        finds="a model that cannot be opened, or a name that no model has",
        why="nothing can be said of it",
        example="fsm show no/such/file.toml",
    ),
    "FSM002": Rule(
        finds="a model file of more than 4 MiB",
        why="no lifecycle that people can argue about is that large; it is some other file",
        example="fsm show /var/log/syslog",
    ),
    "FSM003": Rule(
        finds="bytes that are not UTF-8",
        why="a TOML file is UTF-8 by definition",
        example="a file saved as Latin-1",
    ),
    "FSM004": Rule(
        finds="text that is not TOML",
        why="the rest of the file cannot be trusted",
        example="initial = shut   (the quotes are missing)",
    ),
    "FSM005": Rule(
        finds="arrays, tables or keys nested more than 32 deep",
        why="the language needs six levels; deeper nesting is damage or an attack",
        example="moves = [[[[[[…]]]]]]",
    ),
    "FSM010": Rule(
        finds="a word that the language does not have",
        why="a misspelt word that is ignored is a rule that is not checked",
        example='[event.push] ignore = ["open"]',
    ),
    "FSM011": Rule(
        finds="a word that the language requires and the file lacks",
        why="without it the model has no meaning, or no source",
        example="[event.push] without kind",
    ),
    "FSM012": Rule(
        finds="a value or a name of the wrong form",
        why="it cannot mean anything there",
        example='ignores = "open"   (a list is needed)',
    ),
}

MEANING: Final[Mapping[str, Rule]] = {
    "FSM101": Rule(
        finds="an initial state that is not among the states",
        why="no life could begin",
        example='initial = "closed", where the states are shut and open',
    ),
    "FSM102": Rule(
        finds="a cell for a state that is not among the states, or a set with one",
        why="it would never apply, and the state that was meant is left without",
        example='ignores = ["opened"]',
    ),
    "FSM103": Rule(
        finds="a state in which an event has no cell",
        why="silence is on purpose or it is a gap: a machine is a total table",
        example='[event.push] moves = { shut = "open" }, and nothing for open',
    ),
    "FSM104": Rule(
        finds="an outcome that leads to a state that is not among the states",
        why="nobody could say what happens next",
        example='moves = { shut = "opened" }',
    ),
    "FSM105": Rule(
        finds="two cells for one event and one state, in the event or in a profile",
        why="only one of them can be meant",
        example='ignores = ["open"], refuses = { open = "ERROR" }',
    ),
    "FSM106": Rule(
        finds="a cell, a reply or a begin that this kind of event cannot have",
        why="signals and hidden events are not asked and do not reply; a call can always be made",
        example='[event.slam] kind = "signal", refuses = { gone = "NOT_FOUND" }',
    ),
    "FSM107": Rule(
        finds="a state that shows the empty text",
        why="an observation without a state would read as that state",
        example='shut = { about = "Closed.", shows = "" }',
    ),
    "FSM108": Rule(
        finds="the name of a clause that does not exist",
        why="the cell would rest on nothing",
        example='clause = "push-opens", without [clause.push-opens]',
    ),
    "FSM109": Rule(
        finds="an outcome with none of to, begins and stays, or with several of them",
        why="an outcome leads to one state",
        example='moves = { shut = { reply = "ok" } }',
    ),
    "FSM110": Rule(
        finds="an outcome that begins, and replies or emits",
        why="a call that has only begun has not replied, and what it emits belongs to its end",
        example='{ begins = "opening", reply = "ok" }',
    ),
    "FSM111": Rule(
        finds="a call that begins in a state and has no end there, or has one where it is never in progress",
        why="it would hang for ever, or its end could never happen",
        example='moves = { shut = { begins = "opening" } }, without [event.push.ends] opening',
    ),
    "FSM112": Rule(
        finds="an empty list of outcomes or replies, or alternatives that have not each a name of their own",
        why="an event that acts has an outcome, and reports tell alternatives by their names",
        example='shut = [{ to = "open" }, { to = "shut" }]',
    ),
    "FSM113": Rule(
        finds="a '*' that stands for no state",
        why="every state is mentioned already; the author thinks of one that is not there",
        example='ignores = ["shut", "open", "*"], where there are no other states',
    ),
    "FSM114": Rule(
        finds="a profile that overrides an event that does not exist",
        why="the override would never apply",
        example='[profile.old.cell.x] event = "pusch"',
    ),
    "FSM115": Rule(
        finds="an override that allows more than the machine, and names no clause that breaks",
        why="a deviation that is not called one would pass silently",
        example='[profile.old.cell.x] ignores = ["gone"], where the machine refuses',
    ),
    "FSM116": Rule(
        finds="an override that changes nothing, or that deviates from a clause it keeps",
        why="a deviation that is none hides the day on which there is one",
        example='deviates = "push-opens", with a cell that the machine has as well',
    ),
    "FSM117": Rule(
        finds="an event whose name on the wire is empty, or names another event",
        why="a trace that has it could mean either",
        example='rpc = "Push" in two events',
    ),
    "FSM118": Rule(
        finds="a call that interrupts",
        why="calls in progress are lost by what happens, such as a crash, not by what is asked",
        example='[event.push] kind = "call", interrupts = true',
    ),
    "FSM119": Rule(
        finds="a clause that no cell rests on",
        why="a sentence that nothing checks looks as if something did",
        example="[clause.push-opens], which no event names",
    ),
    "FSM120": Rule(
        finds="more than a million cells",
        why="every cell is held in memory; no lifecycle that people can argue about is that large",
        example="2,000 events in 2,000 states",
    ),
    "FSM121": Rule(
        finds="an alias that is a name of another event, or of a state that shows something else",
        why="a drawing may use any of the names, and must mean one thing by it",
        example='[event.stop] aliases = ["Exit"], and [event.exit] too',
    ),
    "FSM122": Rule(
        finds="a call whose ends only begin again, so that it never ends",
        why="whoever asked would wait for ever",
        example='ends = { opening = { begins = "checking" }, checking = { begins = "opening" } }',
    ),
    "FSM123": Rule(
        finds="drawings that omit an event, a state or an outcome that does not exist, or nothing",
        why="what is misspelt would be missed in every drawing, and what omits nothing says nothing",
        example='[drawing.omits] push = { states = ["opne"] }',
    ),
    "FSM124": Rule(
        finds="a profile that extends one that does not exist",
        why="the cells that it was to take over are missing",
        example='[profile."jobs-3"] extends = "job-2"',
    ),
    "FSM125": Rule(
        finds="profiles that extend each other in a circle",
        why="none of them would come first",
        example='[profile.old] extends = "older", where older extends old',
    ),
    "FSM126": Rule(
        finds="a clause that is defined in two places",
        why="the cells that name it could rest on either",
        example="says in [event.push.clauses.opens], and [clause.opens]",
    ),
    "FSM127": Rule(
        finds="an event that is like one that does not exist or is itself like another, or that repeats what it takes over",
        why="what it does is to be found in two places at most: its own table and that of the other event",
        example='[event.kick] like = "push", clause = "push-opens"',
    ),
    "FSM128": Rule(
        finds="a definition that is called like a state, or like something else that may stand in its place",
        why="whoever reads the name would take it for the other",
        example='[define] open = ["ajar"], where open is a state',
    ),
    "FSM129": Rule(
        finds="a definition that nothing uses",
        why="a misspelt use is hidden by it",
        example='[define] shuttable = ["open", "ajar"], and no cell for shuttable',
    ),
    "FSM130": Rule(
        finds="definitions that need each other in a circle",
        why="none of them would mean anything",
        example='[define] near = ["far"], far = ["near"]',
    ),
}

PROPERTIES: Final[Mapping[str, Rule]] = {
    "FSM301": Rule(
        finds="a property file without properties, or a property that makes no claim, or several",
        why="a property is one sentence that is true or false",
        example="[property.exited-is-final] without never",
    ),
    "FSM302": Rule(
        finds="a word that does not go with the claim, or one that the claim lacks",
        why="it would say nothing, and look as if it did",
        example='always = "stays", until = "absent"',
    ),
    "FSM303": Rule(
        finds="a condition that cannot be read, or that names what the machine does not have",
        why="a condition that is never true makes every property hold",
        example='never = "exitd then running"',
    ),
    "FSM304": Rule(
        finds="a machine that cannot be found, or has nothing in common with the first",
        why="there is nothing to compare",
        example='refines = "cri-contaner"',
    ),
    "FSM305": Rule(
        finds="a profile that the machine does not have",
        why="the property would be expected to fail nowhere",
        example='fails = { under = "containerd-1.5", about = "…", length = 2 }',
    ),
    "FSM306": Rule(
        finds="a model without a property file",
        why="nothing is claimed of it, so nothing can be checked",
        example="fsm check lonely.toml",
    ),
    "FSM307": Rule(
        finds="a property that is known to fail under no profile, or under one in two ways",
        why="its counterexample could be of either length",
        example='fails = { under = [], about = "…", length = 2 }',
    ),
}

COMPOSITION: Final[Mapping[str, Rule]] = {
    "FSM701": Rule(
        finds="a machine, part, event, outcome or profile's event that does not exist",
        why="it would never take part, and what was meant is missing",
        example='steps = ["dor.push"], where the part is called door',
    ),
    "FSM702": Rule(
        finds="a part or a joint event that is called like another, or like a word of conditions",
        why="a condition could mean either",
        example="[part.every]",
    ),
    "FSM703": Rule(
        finds="more than 60 copies of parts",
        why="no question about so many is answered in a lifetime, and two or three show what can go wrong",
        example="count = 9, per a part of which there are 9",
    ),
    "FSM704": Rule(
        finds="a condition that says nothing about the states of parts",
        why="it could not be asked of the system",
        example='when = "door is opne"',
    ),
    "FSM705": Rule(
        finds="a joint event with both steps and ways, or with neither",
        why="it would not be clear how it goes",
        example="[event.leave] without steps",
    ),
    "FSM706": Rule(
        finds="a signal or something hidden that replies",
        why="nobody has asked",
        example='kind = "signal", ways.done = { reply = "ok" }',
    ),
    "FSM707": Rule(
        finds="a step that cannot be read, or that means several copies and does not say every",
        why="it would be taken by another part than was meant, or by none",
        example='steps = ["door push"]',
    ),
    "FSM709": Rule(
        finds="a profile that names a joint event and changes nothing of it",
        why="what was to be changed is missing",
        example="[profile.late.event.leave], and nothing in it",
    ),
}
