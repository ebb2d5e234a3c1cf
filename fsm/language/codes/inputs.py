"""What recordings, drawings, files of other tools and systems under test are held to."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from fsm.errors import Rule

if TYPE_CHECKING:
    from collections.abc import Mapping

RECORDINGS: Final[Mapping[str, Rule]] = {
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
    "FSM206": Rule(
        finds="files that are no NRI events and calls of one run",
        why="what a plugin was told can be held only against what was called meanwhile",
        example="fsm judge containerd.log --with cri-calls.jsonl",
    ),
    "FSM207": Rule(
        finds="a history that is neither JSON nor EDN, or damaged",
        why="an operation that is passed over would make others look illegal",
        example="{:type :invoke, :f :start, :process 0   (the map does not end)",
    ),
    "FSM208": Rule(
        finds="a form in a history that is no operation, or an end that does not fit its call",
        why="when an operation was in progress is what a history is judged by",
        example="{:type :ok, :f :start, :process 0}   (process 0 has called nothing)",
    ),
    "FSM209": Rule(
        finds="a history of more than 64 MiB",
        why="a history is held in memory as a whole",
        example="fsm judge history.edn   (of a million operations)",
    ),
    "FSM210": Rule(
        finds="an operation of a history whose event, or what was shown, none of the machines has",
        why="what it did to the entity cannot be known, so nothing after it can be judged",
        example="{:type :invoke, :f :strat, :process 0}",
    ),
}

DRAWINGS: Final[Mapping[str, Rule]] = {
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

IMPORTS: Final[Mapping[str, Rule]] = {
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
        finds="a file whose format is unknown",
        why="the same words mean other things in other libraries",
        example='{"nodes": ["off", "on"]}',
    ),
    "FSM508": Rule(
        finds="a key that the format does not have, or a value that is not allowed there",
        why="the library that the file is for refuses it too, or would misunderstand it",
        example='{"triger": "press", "source": "off", "dest": "on"}',
    ),
    "FSM509": Rule(
        finds="a required key that is missing",
        why="without it there is no machine",
        example='{"trigger": "press", "dest": "on"}   (from where?)',
    ),
    "FSM510": Rule(
        finds="the name of a state that does not exist",
        why="the library would fail there only when it is reached, or make up the state",
        example='{"trigger": "press", "source": "off", "dest": "onn"}',
    ),
    "FSM511": Rule(
        finds="nested states, or several active states at a time",
        why="a machine here is in one state; which of theirs could be seen is for people to decide",
        example='{"name": "on", "children": ["dim", "bright"]}',
    ),
    "FSM512": Rule(
        finds="a transition without an event, one that raises events, or one that can never be taken",
        why="a table says what happens when something happens; what happens by itself is another step",
        example='<transition target="off"/>',
    ),
    "FSM513": Rule(
        finds="a key or a state that occurs twice",
        why="only one of them can be meant",
        example='"states": ["off", "on", "off"]',
    ),
    "FSM515": Rule(
        finds="more than a million pairs of a state and a transition",
        why="a table has a cell for each; no lifecycle that people can argue about is that large",
        example="2,000 triggers from '*', in 2,000 states",
    ),
}

UNDER_TEST: Final[Mapping[str, Rule]] = {
    "FSM601": Rule(
        finds="a system under test that is not there, cannot be imported, or lacks a method of one",
        why="there is nothing to test",
        example="fsm test cri-pod --against python:nowhere:make",
    ),
    "FSM602": Rule(
        finds="a system of parts that is too large to be one machine",
        why="a test that meets all of its states would not end",
        example="fsm test node --against reference",
    ),
}
