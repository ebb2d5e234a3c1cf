"""Rules for recordings, drawings, files of other tools, and systems under test."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from fsm.errors import Rule

if TYPE_CHECKING:
    from collections.abc import Mapping

RECORDINGS: Final[Mapping[str, Rule]] = {
    "FSM201": Rule(
        finds="a recording that cannot be opened or read",
        why="there is nothing to judge",
        wrong="fsm judge containerd.lgo",
        right="fsm judge containerd.log",
    ),
    "FSM202": Rule(
        finds="a trace that does not name its machine",
        why="the same events mean different things to different machines",
        wrong="fsm judge trace.jsonl    # it has no header",
        right="fsm judge --model cri-container trace.jsonl",
    ),
    "FSM203": Rule(
        finds="a profile that none of the machines has",
        why="a misspelt profile would tolerate nothing, silently",
        wrong="fsm judge --profile containerd-1.5 containerd.log",
        right="fsm judge --profile containerd-1.6 containerd.log",
    ),
    "FSM204": Rule(
        finds="a recording that contains no such entity, or no counterexample",
        why="there is no run to follow",
        wrong="fsm draw container-status --format mermaid --highlight containerd.log --entity c9",
        right="fsm draw container-status --format mermaid --highlight containerd.log",
    ),
    "FSM205": Rule(
        finds="a trace whose `unseen` lists an event that no machine has, or a call",
        why="an unseen event that is misspelt counts as seen, and its absence would be held against the trace",
        wrong='{"trace": 1, "machine": "container-status", "unseen": ["exti"]}',
        right='{"trace": 1, "machine": "container-status", "unseen": ["exit"]}',
    ),
    "FSM206": Rule(
        finds="files that are not NRI events and calls of the same run",
        why="what a plugin received can only be judged by the calls of that run",
        wrong="fsm judge containerd.log --with cri-calls.jsonl",
        right="fsm judge nri-events.jsonl --with cri-calls.jsonl",
    ),
    "FSM207": Rule(
        finds="a history that is neither JSON nor EDN, or damaged",
        why="an operation that is skipped would make others look illegal",
        wrong=("{:type :invoke, :f :start, :process 0}\n{:type :ok, :f :start, :process"),
        right=("{:type :invoke, :f :start, :process 0}\n{:type :ok, :f :start, :process 0}"),
    ),
    "FSM208": Rule(
        finds="a form in a history that is not an operation, or an end that does not fit its call",
        why="a history is judged by when each operation was in progress",
        wrong="{:type :ok, :f :start, :process 0}",
        right=("{:type :invoke, :f :start, :process 0}\n{:type :ok, :f :start, :process 0}"),
    ),
    "FSM209": Rule(
        finds="a history of more than 64 MiB",
        why="a history is held in memory as a whole",
        wrong="fsm judge --model cri-container all-runs.edn.gz    # 65 MiB when unpacked",
        right="fsm judge --model cri-container one-run.edn",
    ),
    "FSM210": Rule(
        finds="an operation of a history whose event, or what was shown, none of the machines has",
        why="what it did to the entity is unknown, so nothing after it can be judged",
        wrong="{:type :invoke, :f :strat, :process 0}",
        right="{:type :invoke, :f :start, :process 0}",
    ),
}

DRAWINGS: Final[Mapping[str, Rule]] = {
    "FSM401": Rule(
        finds="a file that cannot be opened, or is not text",
        why="there is nothing to read a drawing from",
        wrong="fsm diff door.toml no/such/status.go",
        right="fsm diff door.toml status.go",
    ),
    "FSM402": Rule(
        finds="a text, or a line of it, without a drawing of states",
        why="there is nothing to compare",
        wrong="push: shut -> open",
        right=("+------+ push +------+\n| shut +------> open |\n+------+      +------+"),
    ),
    "FSM403": Rule(
        finds="a drawing whose runs of blanks were squeezed into one",
        why="where lines meet boxes depends on columns; without them every reading is a guess",
        wrong=("+----------+\n| shut |\n+----+-----+\n| push\n+----v-----+\n| open |\n+----------+"),
        right=("+----------+\n|   shut   |\n+----+-----+\n     | push\n+----v-----+\n|   open   |\n+----------+"),
    ),
    "FSM404": Rule(
        finds="a line that begins or ends at nothing, or an arrowhead without a line",
        why="half an arrow could have been any arrow",
        wrong=("+------+ push +------+\n| shut +------+ open |\n+------+      +------+"),
        right=("+------+ push +------+\n| shut +------> open |\n+------+      +------+"),
    ),
    "FSM405": Rule(
        finds="lines that meet so that it is unclear which leads where",
        why="every guess would be an arrow that is not in the drawing",
        wrong=(
            "+------+      +------+\n"
            "| shut +--+---> open |\n"
            "+------+  |   +------+\n"
            "          |\n"
            "+------+  |   +------+\n"
            "| ajar +--+---> gone |\n"
            "+------+      +------+"
        ),
        right=(
            "+------+      +------+\n"
            "| shut +--+---> open |\n"
            "+------+  |   +------+\n"
            "          |\n"
            "+------+  |\n"
            "| ajar +--+\n"
            "+------+"
        ),
    ),
    "FSM406": Rule(
        finds="a label that belongs to no line, or to any of several",
        why="an event would be missing, or end up at the wrong arrow",
        wrong=("+------+      +------+\n| shut +------> open |\n+------+      +------+           push"),
        right=("+------+ push +------+\n| shut +------> open |\n+------+      +------+"),
    ),
    "FSM407": Rule(
        finds="a box that is not closed, or has boxes in it",
        why="its state would be missing; states within states are another kind of machine",
        wrong=("+------+\n| shut |   push\n+--  --+  -----> open"),
        right=("+------+ push\n| shut +------> open\n+------+"),
    ),
    "FSM408": Rule(
        finds="a statement in a Mermaid diagram that flat state diagrams do not have",
        why="what is not understood cannot be compared",
        wrong=("stateDiagram-v2\n  state shut {\n    locked --> unlocked\n  }"),
        right=("stateDiagram-v2\n  shut --> open: push"),
    ),
    "FSM409": Rule(
        finds="a graph that is not DOT, or has no directions",
        why="its edges cannot be read as arrows",
        wrong='graph { shut -- open [label="push"] }',
        right='digraph { shut -> open [label="push"] }',
    ),
    "FSM410": Rule(
        finds="a file with several drawings, of which any could be intended",
        why="a difference to the wrong drawing means nothing",
        wrong="fsm diff door.toml states.md",
        right="fsm diff door.toml states.md:2",
    ),
}

IMPORTS: Final[Mapping[str, Rule]] = {
    "FSM501": Rule(
        finds="a file that cannot be opened",
        why="there is nothing to import",
        wrong="fsm import lamp.jsno",
        right="fsm import lamp.json",
    ),
    "FSM502": Rule(
        finds="a file of more than 1 MiB",
        why="no machine that people write is that large; it is another file",
        wrong="fsm import containerd.log    # 5 MiB",
        right="fsm import lamp.json",
    ),
    "FSM503": Rule(
        finds="bytes that are not UTF-8",
        why="names would be guessed",
        wrong="states: [off, on]    # L\\xe2mpchen",
        right="states: [off, on]    # Lämpchen",
    ),
    "FSM504": Rule(
        finds="text that is not JSON, YAML or XML",
        why="the rest of the file cannot be trusted",
        wrong='{"states": ["off", "on"',
        right='{"states": ["off", "on"], "initial": "off"}',
    ),
    "FSM505": Rule(
        finds="lists, mappings or elements nested more than 32 deep",
        why="flat machines need five levels; deeper nesting is damage or an attack",
        wrong="states: [[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]",
        right="states: [off, on]",
    ),
    "FSM506": Rule(
        finds="an alias in YAML, or a document type in XML",
        why="with them a small file may stand for an endless one, or read others",
        wrong=("states: &all [off, on]\nignored: *all"),
        right="states: [off, on]",
    ),
    "FSM507": Rule(
        finds="a file whose format is unknown",
        why="the same words mean other things in other libraries",
        wrong='{"nodes": ["off", "on"]}',
        right='{"states": ["off", "on"], "initial": "off"}',
    ),
    "FSM508": Rule(
        finds="a key that the format does not have, or a value that is not allowed there",
        why="the library that the file is for refuses it too, or would misunderstand it",
        wrong="  - {trigger: press, source: off, dest: on, when: is_whole}",
        right="  - {trigger: press, source: off, dest: on, conditions: is_whole}",
    ),
    "FSM509": Rule(
        finds="a required key that is missing",
        why="without it there is no machine",
        wrong="  - {trigger: press, dest: on}",
        right="  - {trigger: press, source: off, dest: on}",
    ),
    "FSM510": Rule(
        finds="the name of a state that does not exist",
        why="the library would fail there only when it is reached, or invent the state",
        wrong="  - {trigger: press, source: off, dest: onn}",
        right="  - {trigger: press, source: off, dest: on}",
    ),
    "FSM511": Rule(
        finds="nested states, or several active states at a time",
        why="a machine here is in one state; which of several is observed is for people to decide",
        wrong="states: [off, {name: on, children: [dim, bright]}]",
        right="states: [off, on, dim, bright]",
    ),
    "FSM512": Rule(
        finds="a transition without an event, one that raises events, or one that can never be taken",
        why="a table says what an event does; what happens by itself is another step",
        wrong=(
            '<scxml xmlns="http://www.w3.org/2005/07/scxml">\n'
            '  <state id="off"><transition target="on"/></state>\n'
            '  <state id="on"/>\n'
            "</scxml>"
        ),
        right=(
            '<scxml xmlns="http://www.w3.org/2005/07/scxml">\n'
            '  <state id="off"><transition event="press" target="on"/></state>\n'
            '  <state id="on"/>\n'
            "</scxml>"
        ),
    ),
    "FSM513": Rule(
        finds="a key or a state that occurs twice",
        why="only one of them can be intended",
        wrong="states: [off, on, off]",
        right="states: [off, on]",
    ),
    "FSM515": Rule(
        finds="more than a million pairs of a state and a transition",
        why="a table has a cell for each; no lifecycle that people can discuss is that large",
        wrong="fsm import sweep.json    # 2,000 triggers from every one of 2,000 states",
        right="fsm import lamp.json",
    ),
}

UNDER_TEST: Final[Mapping[str, Rule]] = {
    "FSM601": Rule(
        finds="a system under test that does not exist, cannot be imported, or lacks a method",
        why="there is nothing to test",
        wrong="fsm test door.toml --against python:nowhere:make",
        right="fsm test door.toml --against model:door.toml",
    ),
    "FSM602": Rule(
        finds="a system of parts that is too large to be one machine",
        why="a test of all its states would not end",
        wrong="fsm test node --against reference",
        right="fsm test nri-pod --against model:nri-pod",
    ),
}
