"""Show machines as text or JSON, list the outcomes that a test can choose, and show runs step by step."""

from collections import Counter
from collections.abc import Collection, Iterator, Mapping
from dataclasses import replace
from typing import Final, assert_never

from fsm.machine import Cannot, Cell, Clause, Event, Ignores, Machine, Moves, Outcome, Override, Refuses, Silent
from fsm.machine.evidence import Run, RunStep
from fsm.machine.graph import Graph
from fsm.machine.hierarchy import FLAT, Above, level
from fsm.machine.product.system import JointEvent, PartStep, System
from fsm.machine.table import Table
from fsm.machine.terms import Variable
from fsm.machine.timers import PASSES, duration
from fsm.report import words
from fsm.report.json_report import Json, dumped, record
from fsm.report.layout import Layout, joined
from fsm.report.words import grouped, plural

_ALIKE: Final = 3  # minimum number of states in a combined row
_LEGEND: Final = (
    "Each row below says what an event does in a state, and [the clause] that says so; clauses are at the end. "
    "A row with … is about a call that has begun."
)

_COLOURS: Final = {Moves: "green", Ignores: "blue", Refuses: "yellow", Cannot: "red", Silent: "magenta"}


@joined
def text(
    machine: Machine, graph: Graph[Table] | None, layout: Layout, *, events: Collection[str], states: Collection[str]
) -> Iterator[str]:
    yield layout.style(machine.name, "bold") + f": {machine.title}"
    yield from layout.kept(machine.about)
    if graph is not None:
        yield from layout.kept(f"Source: {machine.source}.")
        yield from layout.kept(_facts(machine, graph))
        yield from ("", "states")
        tree = machine.hierarchy
        above = {state: tuple(name for name in tree.above(state) if name in tree.parents) for state in machine.states}
        rows = [*_states(machine, above)]
        longest = max(len(name) for name, _ in rows)
        for name, about in rows:
            yield from layout.kept(f"{name:<{longest}}  {about}", "  ", " " * (longest + 4))
        yield from _data_and_timers(machine, layout)
    yield from ("", *layout.kept(_LEGEND))
    used: dict[Clause, None] = {}
    for event in machine.events.values():
        if event.name in events:
            yield from ("", *_event(event, states, layout, used))
    if graph is not None and machine.requires:
        fields = ", ".join(f"{name} ({kind})" for name, kind in machine.fields.items())
        yield from ("", *layout.kept(f"fields: {fields}", "", "    "))
        for name, each in machine.requires.items():
            used.setdefault(each.clause)
            where = ", ".join(state for state in machine.states if state in each.states)
            yield from layout.kept(f"{where}: {each}  [{name}]", "  ", "      ")
    yield from ("", "clauses")
    for clause in used:
        yield from layout.kept(f"{words.clause(clause)} [{clause.source}] {clause.link}", "  ", "      ")


def _data_and_timers(machine: Machine, layout: Layout) -> Iterator[str]:
    if machine.data:
        yield from ("", "data")
    for variable in machine.data.values():
        scope = f" (the checker searches {variable.low} to {variable.high})" if variable.beyond == "scope" else ""
        scope = ", never beyond" if variable.beyond == "saturates" else scope
        first = variable.text(variable.initial)
        text = f"{variable.name} is {variable.domain}{scope}, at first {first}. {variable.about}"
        yield from layout.kept(text, "  ", "      ")
    if machine.timers:
        yield from ("", "timers")
    for timer in machine.timers.values():
        restarts = f" Restarts on {words.either(sorted(timer.restarts))}." if timer.restarts else ""
        where = words.either([state for state in machine.states if state in timer.states])
        after = f"{duration(timer.after)} (give or take {duration(timer.tolerance)})"
        fires = f"{timer.name} fires {timer.event} {after} after {where} is entered from elsewhere."
        yield from layout.kept(f"{fires}{restarts} {timer.about}", "  ", "      ")


def _states(machine: Machine, states: Above, depth: int = 0) -> Iterator[tuple[str, str]]:
    for name, inside in level(states, depth).items():
        if name in machine.states:
            state = machine.states[name]
            yield f"{'  ' * depth}{name}", f"{state.about} Shows {state.shows}."
        else:
            parent = machine.hierarchy.parents[name]
            yield f"{'  ' * depth}{name}", f"{parent.about} Begins in {parent.initial}."
            yield from _states(machine, inside, depth + 1)


def _facts(machine: Machine, graph: Graph[Table]) -> str:
    sizes = {"state": machine.states, "event": machine.events, "transition": graph.transitions}
    facts = [plural(len(items), noun) for noun, items in sizes.items()]
    facts += [f"depth {max(graph.depth.values())}", f"starts {machine.initial}"]
    if unreachable := graph.unreachable():
        facts.append(f"never reached: {', '.join(unreachable)}")
    if machine.profiles:
        facts.append(f"profiles: {', '.join(machine.profiles)}")
    return "; ".join(facts) + "."


def _event(event: Event, states: Collection[str], layout: Layout, used: dict[Clause, None]) -> Iterator[str]:
    wire = f" ({event.rpc})" if event.rpc and event.rpc != event.name else ""
    given = f" ({', '.join(f'{each.name}: {each.domain}' for each in event.arguments.values())})"
    wire += given if event.arguments else ""
    yield from layout.kept(f"{event.kind} {event.name}{wire}: {event.about}", "", "    ")
    rows = [*_rows("", event, event.cells, states, used), *_rows("… ", event, event.ends, states, used)]
    longest = max((len(name) for name, *_ in rows), default=0)
    for name, what, kind in rows:
        first = f"  {name:<{longest}}  "
        for row in layout.kept(what, first, " " * len(first)):
            yield row[: len(first)] + layout.style(row[len(first) :], _COLOURS[kind])


def _rows(
    lead: str, event: Event, cells: Mapping[str, Cell], states: Collection[str], used: dict[Clause, None]
) -> list[tuple[str, str, type[Cell]]]:
    rows = []
    for name, cell in cells.items():
        if name in states:
            used.setdefault(cell.clause)
            rows.append((f"{lead}{name}", f"{says(cell, event)}  [{cell.clause.name}]", type(cell)))
    (what, number), *_ = Counter(what for _, what, _ in rows).most_common(1) or [("", 0)]
    if number < _ALIKE or len(rows) < len(cells):
        return rows
    kind = next(kind for _, text, kind in rows if text == what)
    others = "all other states" if number < len(rows) else "all states"
    return [*(row for row in rows if row[1] != what), (f"{lead}{others}", what, kind)]


def says(cell: Cell, event: Event) -> str:
    match cell:
        case Moves(outcomes=outcomes):
            return "; or ".join(_outcome(outcome, several=len(outcomes) > 1) for outcome in outcomes)
        case Ignores():
            return "ok, nothing changes" if event.kind == "call" else "nothing changes"
        case Refuses(codes=codes):
            return f"refused: {_replies(codes)}"
        case Cannot():
            return "cannot happen"
        case Silent():
            return "unspecified"
        case _:
            assert_never(cell)


def _outcome(way: Outcome, *, several: bool) -> str:
    name = f"{way.name}: " if several or way.when else ""
    name += f"if {way.when.text}, " if way.when and way.when.text != "otherwise" else "otherwise, " if way.when else ""
    verb = "begins, meanwhile" if way.begins else "→"
    reply = f", {_replies(way.reply)}" if way.reply and way.reply != ("ok",) else ""
    emits = f", emits {', '.join(way.emits)}" if way.emits else ""
    emits += "".join(f", {each.variable} := {each.text}" for each in way.updates)
    emits += f", to be left within {way.within} s" if way.within else ""
    deviation = f" (deviation, {way.deviation.profile})" if way.deviation else ""
    return f"{name}{verb} {way.to}{reply}{emits}{deviation}"


def _replies(codes: tuple[str, ...]) -> str:
    return " or ".join("any error" if code == "error" else code for code in codes)


def json(machine: Machine, *, events: Collection[str] | None = None, states: Collection[str] | None = None) -> str:
    """Return the machine as JSON, without the path and line numbers of its file."""
    events = machine.events if events is None else events
    states = machine.states if states is None else states
    return dumped(
        {
            **record(replace(machine, requires={}, data={}, timers={}, hierarchy=FLAT), *_APART),
            **({"data": _variables(machine.data)} if machine.data else {}),
            **({"timers": _timers(machine)} if machine.timers else {}),
            **({"hierarchy": record(machine.hierarchy, "leads", "written")} if machine.hierarchy.inside else {}),
            "requires": {
                name: {**record(replace(each, states=frozenset())), "states": [*sorted(each.states)]}
                for name, each in machine.requires.items()
            },
            "states": {name: record(each, "name", "parts") for name, each in machine.states.items() if name in states},
            "events": {
                each.name: _row_data(each, states, "name") for each in machine.events.values() if each.name in events
            },
            "omits": None
            if machine.omits is None
            else {
                event: {"states": [*sorted(each.states)], "outcomes": [*sorted(each.outcomes)]}
                for event, each in machine.omits.items()
            },
            "profiles": {
                name: {
                    **record(each, "name"),
                    "overrides": [_row_data(one, states, "line") for one in each.overrides if one.event in events],
                }
                for name, each in machine.profiles.items()
            },
        }
    )


def _row_data(row: Event | Override, states: Collection[str], without: str) -> Json:
    return {
        **record(row, without, "arguments"),
        **({"arguments": _variables(row.arguments)} if isinstance(row, Event) and row.arguments else {}),
        **{
            name: {state: _cell_data(cell) for state, cell in cells.items() if state in states}
            for name, cells in (("cells", row.cells), ("ends", row.ends))
        },
    }


def _cell_data(cell: Cell) -> Json:
    data: dict[str, Json] = {"is": type(cell).__name__.lower(), **record(cell, "line")}
    if isinstance(cell, Moves):
        data["outcomes"] = [
            {"begins" if each.begins else "to": each.to, **record(each, "begins", "to", *_DATA), **_effect(each)}
            for each in cell.outcomes
        ]
    return data


_APART: Final = ("path", "profile", "data", "timers", "hierarchy")
_DATA: Final = ("when", "updates", "chosen", "impossible")


def _effect(way: Outcome) -> dict[str, Json]:
    effect: dict[str, Json] = {"when": way.when.text} if way.when else {}
    if way.updates:
        effect["set"] = {each.variable: each.text for each in way.updates}
    return effect | {word: True for word in ("chosen", "impossible") if getattr(way, word)}


def _variables(those: Mapping[str, Variable]) -> dict[str, Json]:
    return {name: record(each, "name") for name, each in those.items()}


def _timers(machine: Machine) -> dict[str, Json]:
    return {
        name: {
            "in": [state for state in machine.states if state in each.states],
            "event": each.event,
            "after": duration(each.after),
            "tolerance": duration(each.tolerance),
            "restarts": [event for event in machine.events if event in each.restarts],
        }
        for name, each in machine.timers.items()
    }


@joined
def system_text(system: System, layout: Layout, *, event: str | None) -> Iterator[str]:
    yield layout.style(system.name, "bold") + f": {system.title}"
    yield from layout.kept(system.about)
    if event is None:
        profiles = f" Profiles: {', '.join(system.profiles)}." if system.profiles else ""
        yield from (*layout.kept(f"Source: {system.source}.{profiles}"), "", "parts")
        longest = max(map(len, system.parts))
        for part in system.parts.values():
            copies = f", {plural(len(part.copies), 'copy')}" if len(part.copies) > 1 else ""
            says = f"{part.machine.name}{copies}, begins {part.initial}. {part.about}".rstrip()
            yield from layout.kept(f"{part.name:<{longest}}  {says}", "  ", " " * (longest + 4))
    for joint, *_ in grouped((joint.family, joint) for joint in system.events.values()).values():
        if event in {None, joint.family, joint.rpc}:
            wire = f" ({joint.rpc})" if joint.rpc else ""
            yield from ("", *layout.kept(f"{joint.kind} {joint.name}{wire}: {joint.about}", "", "    "))
            clause = joint.clause
            yield from layout.kept(f"{clause.level}: {clause.says} [{clause.source}]", "  ", "    ")
            if joint.when is not None:
                yield from layout.kept(f"if {system.text(joint.when, joint.arguments)}", "  ", "    ")
            for way in joint.ways:
                steps = ", ".join(_step(system, joint, each) for each in way.steps) or "nothing"
                when = f", if {system.text(way.when, joint.arguments)}" if way.when is not None else ""
                replies = f", replies {' or '.join(way.reply)}" if way.reply else ""
                text = f"{way.name}{when}: {steps}{replies}"
                yield from layout.kept(text, "  ", "      ", marked=way.name, how="green")


def _step(system: System, joint: JointEvent, step: PartStep) -> str:
    when = f" if {system.text(step.when, joint.arguments)}" if step.when is not None else ""
    if not step.event:
        return f"reset {step.copy.name}{when}"
    outcomes = f"/{','.join(sorted(step.outcomes))}" if step.outcomes else ""
    return f"{step.copy.name}.{step.event}{'.ends' if step.ends else ''}{outcomes}{when}"


def outcomes_text(table: Table, events: Collection[str], states: Collection[str]) -> str:
    found = _choices(table, events, states).items()
    heads = [f"{stage} {event}={outcome}".strip() for (event, stage, outcome), _ in found]
    width = max(map(len, heads), default=0)
    return "".join(f"{head:<{width}}  in {', '.join(where)}\n" for head, (_, where) in zip(heads, found, strict=True))


def outcomes_json(table: Table, events: Collection[str], states: Collection[str]) -> str:
    return dumped(
        [
            {"event": event, "stage": stage, "outcome": outcome, "states": [*where]}
            for (event, stage, outcome), where in _choices(table, events, states).items()
        ]
    )


def _choices(table: Table, events: Collection[str], states: Collection[str]) -> dict[tuple[str, str, str], list[str]]:
    return grouped(
        ((row.event.name, "end" if row.ends else "begin" if row.index in table.end else "", way.name), state)
        for row in table.rows
        for number, state in enumerate(table.states)
        if row.event.name in events and state in states and len(ways := table.step(number, row.index) or ()) > 1
        for way in ways
    )


def steps(run: Run, *, indent: int) -> Iterator[str]:
    taken = [(step, happens(step)) for step in (*run.steps, *run.cycle)]
    longest = max((len(what) for _, what in taken), default=0)
    yield f"{'':{indent}}starts {run.initial}"
    for number, (each, what) in enumerate(taken, 1):
        if number == len(run.steps) + 1:
            yield f"{'':{indent}}and then forever"
        following = taken[number][0] if number < len(taken) else None
        if following and each.event.endswith(PASSES) and each.event == following.event and number != len(run.steps):
            continue  # only the last of several equal steps of time is shown
        where = each.source if each.source == each.target else f"{each.source} → {each.target}"
        where = ", ".join((where, *each.data))
        yield f"{'':{indent}}{number:2} {what if each.done else f'{what:<{longest}}  {where}'}"
        before = taken[number - 2][0].data if number > 1 else ()
        values = ", ".join(value for value in each.data if each.done and value not in before)
        yield from (f"{'':{indent + 5}}{line}" for line in (*parts(each), *([values] if values else ())))
    if run.stopped:
        yield f"{'':{indent}}and then nothing more happens"


def parts(taken: RunStep) -> Iterator[str]:
    for done in taken.done:
        if done.source == done.target and not done.emits:
            continue
        what = f"{done.event}{' goes on' if done.ends else ''}" if done.event else "is reset"
        where = done.target if done.source == done.target else f"{done.source} → {done.target}"
        emits = f", emits {', '.join(done.emits)}" if done.emits else ""
        yield f"{done.copy}: {what}, {where}{emits}"


def happens(taken: RunStep) -> str:
    if not taken.event:
        return "state observed"
    what = [f"{taken.event} ({', '.join(taken.given)})" if taken.given else taken.event]
    if taken.phase in {"request", "lost"}:
        what.append("is asked" if taken.phase == "request" else "ends unseen")
    elif taken.ends and not taken.reply:
        what.append("goes on")
    if taken.reply:
        what.append(f"replies {words.reply(taken.reply)}")
    elif taken.outcome and taken.outcome not in {taken.target, "done" if taken.done else "ok"} and not taken.phase:
        what.append(f"({taken.outcome})")
    if taken.emits and not taken.done:
        what.append(f"emits {', '.join(taken.emits)}")
    return " ".join(what)


def data(run: Run) -> Json:
    return {
        **record(run),
        "steps": [_step_data(step) for step in run.steps],
        "cycle": [_step_data(each) for each in run.cycle],
    }


def _step_data(taken: RunStep) -> Json:
    done: list[Json] = [{"part": act.copy, **record(act, "copy", "digit")} for act in taken.done]
    empty = [name for name in ("given", "data") if not getattr(taken, name)]
    return {**record(taken, "done", *empty), **({"parts": done} if done else {})}
