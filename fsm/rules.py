"""Every rule that an input is held to, by its code.

Codes are stable and are never used again for another rule.  FSM0xx is the
form of a model file (:mod:`fsm.reading`), FSM1xx its meaning
(:mod:`fsm.building`), FSM2xx what is judged by it, FSM3xx what is claimed of it,
FSM4xx drawings of it, FSM5xx what it is imported from, FSM6xx what is tested by it.
"""

from __future__ import annotations

from types import MappingProxyType
from typing import TYPE_CHECKING, Final

from fsm.errors import Rule

if TYPE_CHECKING:
    from collections.abc import Mapping

_FORM: Final[Mapping[str, Rule]] = {
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

_MEANING: Final[Mapping[str, Rule]] = {
    "FSM101": Rule(
        finds="an initial state that is not among the states",
        why="no life could begin",
        example='initial = "closed", where the states are shut and open',
    ),
    "FSM102": Rule(
        finds="a cell or a clause for a state that is not among the states",
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
}

_RECORDINGS: Final[Mapping[str, Rule]] = {
    "FSM201": Rule(
        finds="a recording that cannot be opened or read",
        why="nothing can be said of it",
        example="fsm judge no/such/containerd.log",
    ),
    "FSM202": Rule(
        finds="a trace that does not say which machine it is of",
        why="the same events mean different things to different machines",
        example="a trace without a header, and no --model",
    ),
    "FSM203": Rule(
        finds="a profile that none of the machines has",
        why="a misspelt profile would tolerate nothing, and not say so",
        example="fsm judge --profile containerd-1.5 containerd.log",
    ),
    "FSM204": Rule(
        finds="a recording that shows nobody of the kind that is asked for, or no counterexample",
        why="there is no way to follow",
        example="fsm draw cri-pod --highlight nri-events.jsonl",
    ),
    "FSM205": Rule(
        finds="a trace that calls unseen what no machine has, or what is a call",
        why="signals that are thought to be seen would have to be in it, and their absence would be held against it",
        example='{"trace": 1, "machine": "container-status", "unseen": ["exti"]}',
    ),
}

_PROPERTIES: Final[Mapping[str, Rule]] = {
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
        example='[property.stop-is-idempotent.fails."containerd-1.5"]',
    ),
    "FSM306": Rule(
        finds="a model without a property file",
        why="nothing is claimed of it, so nothing can be checked",
        example="fsm check lonely.toml",
    ),
}

_DRAWINGS: Final[Mapping[str, Rule]] = {
    "FSM401": Rule(
        finds="a file that cannot be opened, or is no text",
        why="there is nothing to read a drawing from",
        example="fsm diff container-status no/such/status.go",
    ),
    "FSM402": Rule(
        finds="a text, or a line of it, without a drawing of states",
        why="there is nothing to compare",
        example="fsm diff container-status README:1",
    ),
    "FSM403": Rule(
        finds="a drawing whose runs of blanks were squeezed into one",
        why="where lines meet boxes is a matter of columns; without them anything could be read into it",
        example="| CREATED <-----+ above | | |",
    ),
    "FSM404": Rule(
        finds="a line that begins or ends at nothing, or an arrowhead without a line",
        why="half an arrow could have been any arrow",
        example="A --+  -> B",
    ),
    "FSM405": Rule(
        finds="lines that meet so that it cannot be told which of them leads where",
        why="every guess would be an arrow that nobody has drawn",
        example="two boxes and two arrowheads, joined by one +",
    ),
    "FSM406": Rule(
        finds="a label that belongs to no line, or to any of several",
        why="an event would be missed, or end up at the wrong arrow",
        example="| Stop |, between two lines",
    ),
    "FSM407": Rule(
        finds="a box that is not closed, or has boxes in it",
        why="its state would be missed; states within states are another kind of machine",
        example="+---+ above | A |, and nothing below",
    ),
    "FSM408": Rule(
        finds="a statement in a Mermaid diagram that is none of a flat state diagram",
        why="what is not understood cannot be compared",
        example="state A {",
    ),
    "FSM409": Rule(
        finds="a graph that is not DOT, or has no directions",
        why="its edges cannot be read as arrows",
        example="graph { A -- B }",
    ),
    "FSM410": Rule(
        finds="a file with several drawings, of which any could be meant",
        why="a difference to the wrong drawing says nothing",
        example="fsm diff container-status states.md",
    ),
}

_IMPORTS: Final[Mapping[str, Rule]] = {
    "FSM501": Rule(
        finds="a file that cannot be opened",
        why="there is nothing to import",
        example="fsm import no/such/door.json",
    ),
    "FSM502": Rule(
        finds="a file of more than 1 MiB",
        why="no machine that people write is that large; it is some other file",
        example="fsm import /var/log/syslog",
    ),
    "FSM503": Rule(
        finds="bytes that are not UTF-8",
        why="names would be guessed",
        example="a file saved as Latin-1",
    ),
    "FSM504": Rule(
        finds="text that is not JSON, YAML or XML",
        why="the rest of the file cannot be trusted",
        example='{"states": ["off", "on"   (the brackets are not closed)',
    ),
    "FSM505": Rule(
        finds="lists, mappings or elements nested more than 32 deep",
        why="flat machines need five levels; deeper nesting is damage or an attack",
        example="states: [[[[[[…]]]]]]",
    ),
    "FSM506": Rule(
        finds="an alias in YAML, or a document type in XML",
        why="by them a small file may stand for an endless one, or read others",
        example="states: &all [off, on], and *all further down",
    ),
    "FSM507": Rule(
        finds="a file of which it cannot be told what form it has",
        why="the same words mean other things in other libraries",
        example='{"nodes": ["off", "on"]}',
    ),
    "FSM508": Rule(
        finds="a word that the form does not have, or a value that it cannot have there",
        why="the library that the file is for refuses it too, or would misunderstand it",
        example='{"triger": "press", "source": "off", "dest": "on"}',
    ),
    "FSM509": Rule(
        finds="a word that the form requires and the file lacks",
        why="without it there is no machine",
        example='{"trigger": "press", "dest": "on"}   (from where?)',
    ),
    "FSM510": Rule(
        finds="the name of a state that does not exist",
        why="the library would fail there only when it is reached, or make up the state",
        example='{"trigger": "press", "source": "off", "dest": "onn"}',
    ),
    "FSM511": Rule(
        finds="states within states, or several at a time",
        why="a machine here is in one state; which of theirs could be seen is for people to decide",
        example='{"name": "on", "children": ["dim", "bright"]}',
    ),
    "FSM512": Rule(
        finds="a step that no event takes, that causes others, or that can never be taken",
        why="a table says what happens when something happens; what happens by itself is another step",
        example='<transition target="off"/>',
    ),
    "FSM513": Rule(
        finds="a key or a state that stands twice",
        why="only one of them can be meant",
        example='"states": ["off", "on", "off"]',
    ),
    "FSM514": Rule(
        finds="a state chart of ours that was changed so that its machine is not well formed",
        why="what is imported is held to the same rules as what is written",
        example="a <transition> less in the export of a call that takes time",
    ),
    "FSM515": Rule(
        finds="more than a million pairs of a state and a transition",
        why="a table has a cell for each; no lifecycle that people can argue about is that large",
        example="2,000 triggers from '*', in 2,000 states",
    ),
}

_SYSTEMS: Final[Mapping[str, Rule]] = {
    "FSM601": Rule(
        finds="a system that is not there, cannot be imported, or has not the methods of one",
        why="there is nothing to test",
        example="fsm test cri-pod --against python:nowhere:make",
    ),
}

RULES: Final[Mapping[str, Rule]] = MappingProxyType(
    {**_FORM, **_MEANING, **_RECORDINGS, **_PROPERTIES, **_DRAWINGS, **_IMPORTS, **_SYSTEMS}
)
"""In the order of the codes."""
