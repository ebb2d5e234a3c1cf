"""Write a machine as a model file.

The file is as short as possible, in the order in which people write models. Reading and building the file produces
the same machine, with one exception. If a profile was applied (:meth:`fsm.machine.Machine.under`), the file
keeps the behaviour that the profile allows, but no longer marks it as deviating.
"""

from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any, Final, TypeAlias, TypeVar, assert_never

import tomlkit
from tomlkit.items import Array, InlineTable, Table

from fsm import machine as model
from fsm.language.names import distinct
from fsm.machine.fields import Exemption, Requirement
from fsm.machine.terms import Variable
from fsm.machine.timers import Timer, duration

WIDEST: Final = 110  # maximum width of a value in columns; a wider value becomes a separate table
REST: Final = "*"

_PLAIN: Final[Mapping[type[model.Cell], str]] = {
    model.Ignores: "ignores",
    model.Cannot: "cannot",
    model.Silent: "silent",
}

T = TypeVar("T")
D = TypeVar("D", tomlkit.TOMLDocument, Table, InlineTable)

_Word: TypeAlias = "str | bool | int | tuple[str, ...] | tuple[tuple[str, str], ...]"

_Way: TypeAlias = tuple[tuple[str, _Word], ...]  # one outcome: the words to write and their values

_Content: TypeAlias = tuple[Any, ...]  # the outcomes or the error codes of a cell

_Form: TypeAlias = tuple[str, _Content]  # one cell: its group, and its outcomes or error codes


def toml(machine: model.Machine, *, comments: Sequence[str] = ()) -> str:
    """Return *machine* as a model file, which begins with *comments*, one per line, and ends in a newline.

    >>> from fsm.language.library import load
    >>> toml(load("examples/models/door.toml"), comments=["Doors."]).splitlines()[:3]
    ['# Doors.', '', '[machine]']
    """
    machine = (machine.hierarchy.written or machine).under(machine.profile)
    document = tomlkit.document()
    for line in comments:
        document.add(tomlkit.comment(line) if line else tomlkit.nl())
    level = _usual_level(machine)
    _add(document, {"machine": _header(machine, level), "states": _states(machine)})
    clauses = {name: _table(_sentence(clause), link=clause.link) for name, clause in machine.clauses.items()}
    requires = {name: _requirement(each) for name, each in machine.requires.items()}
    _add(
        document, _without_empty(clause=_super_table(clauses), fields=_fields(machine), requires=_super_table(requires))
    )
    _add(document, _without_empty(data=_super_table({name: _variable(each) for name, each in machine.data.items()})))
    document["event"] = _super_table({name: _event(machine, event, level) for name, event in machine.events.items()})
    timers = {name: _timer(each) for name, each in machine.timers.items()}
    _add(document, _without_empty(timer=_super_table(timers)))
    profiles = {name: _profile(machine, profile) for name, profile in machine.profiles.items()}
    _add(document, _without_empty(profile=_super_table(profiles)))
    if machine.omits is not None:
        document["drawing"] = _drawing(machine)
    return tomlkit.dumps(document).rstrip("\n") + "\n"


def _header(machine: model.Machine, level: model.Level) -> Table:
    return _table(
        {word: getattr(machine, word) for word in ("name", "title", "about", "source", "initial")},
        level="" if level == "MUST" else level,
        entity="" if machine.entity == machine.name else machine.entity,
        indefinite=machine.indefinite,
    )


def _states(machine: model.Machine) -> Table:
    tree, written = machine.hierarchy, {}
    inside = {name: {"in": parent} for name, parent in tree.inside.items()}
    for name, state in machine.states.items():
        shows = "" if state.shows == name else state.shows
        kind = state.kind if name != machine.initial else None
        about = {"about": state.about, **inside.get(name, {})}
        written[name] = _inline_table(about, shows=shows, kind=kind, aliases=state.aliases)
    for name, parent in tree.parents.items():
        about = {"about": parent.about, "initial": parent.initial, **inside.get(name, {})}
        written[name] = _inline_table(about, history=parent.history)
    return _table(written)


def _variable(each: Variable) -> Table:
    domain = {"from": each.low, "to": each.high} if each.number else {"values": each.words} if each.words else {}
    entries = {**_without_empty(about=each.about), **domain, **({"type": "bool"} if each.truth else {})}
    initial = {} if each.initial == each.low else {"initial": each.written(each.initial)}
    beyond = {} if each.beyond == "error" else {each.beyond: True}
    return _table(entries | initial | beyond, shown=each.shown)


def _timer(each: Timer) -> Table:
    entries = {"in": sorted(each.states), "event": each.event, "after": duration(each.after)}
    entries |= {"tolerance": duration(each.tolerance)}
    return _table(_without_empty(about=each.about) | entries, restarts=sorted(each.restarts))


def _sentence(clause: model.Clause) -> dict[str, str]:
    return {"says": clause.says, clause.level: clause.source}


def _event(machine: model.Machine, event: model.Event, level: model.Level) -> Table:
    rests = [cell.clause for cell in (*event.ends.values(), *event.cells.values())]
    implied = next((clause for clause in rests if not _is_named_clause(machine, clause)), None)
    named = Counter(clause.name for clause in rests if _is_named_clause(machine, clause))
    usual = "" if implied or not named else named.most_common(1)[0][0]
    kind = "" if event.kind == ("call" if event.rpc else "signal") else event.kind
    named_kind = _without_empty(kind=kind, rpc=event.rpc)
    table = _table(
        named_kind | {"about": event.about}, aliases=event.aliases, interrupts=event.interrupts, clause=usual
    )
    if event.arguments:
        table["arguments"] = _inline_table(
            {name: _inline_table(_variable(each)) for name, each in event.arguments.items()}
        )
    if implied and (implied.level, implied.source) != (level, machine.source):
        table[implied.level] = implied.source

    def home(cell: model.Cell) -> str:
        return cell.clause.name if _is_named_clause(machine, cell.clause) else usual

    forms = {
        state: [(home(cell), form) for form in _forms(cell, event.kind, state)] for state, cell in event.cells.items()
    }
    where, rest = _default_form(forms) or ("", None)
    others: dict[str, Table] = {}
    for clause in dict.fromkeys((usual, *map(home, (*event.cells.values(), *event.ends.values())))):
        cells = {state: cell for state, cell in event.cells.items() if home(cell) == clause}
        ends = {state: end for state, end in event.ends.items() if home(end) == clause}
        part = table if clause == usual else others.setdefault(clause, tomlkit.table())
        _cells(part, event.kind, cells, ends, rest if where == clause else None)
    if others:
        table["clauses"] = _clauses(others)
    return table


def _clauses(others: Mapping[str, Table]) -> Table | InlineTable:
    if not any(isinstance(value, Table) for cells in others.values() for value in cells.values()):
        inline = _inline_table({clause: _inline_table(cells) for clause, cells in others.items()})
        if _is_short(inline):
            return inline
    return _super_table(others)


def _is_short(value: InlineTable) -> bool:
    text = value.as_string()
    return len(text) <= WIDEST and "\n" not in text


def _profile(machine: model.Machine, profile: model.Profile) -> Table:
    parent = machine.profiles.get(profile.extends)
    parents = {each.name: model.of_profile(each, profile.name) for each in (parent.overrides if parent else ())}
    own = [each for each in profile.overrides if not _is_part(each, parents.get(each.name))]
    inherited = [model.of_profile(each, profile.name) for each in (parent.exemptions if parent else ())]
    exempt = [each for each in profile.exemptions if each not in inherited]
    return _table(
        {"about": profile.about},
        extends=profile.extends,
        since=profile.since,
        until=profile.until,
        cell=_super_table({each.name: _override(machine, each) for each in own}),
        exempt=_super_table({each.deviation.name: _exemption(each) for each in exempt}),
    )


def _fields(machine: model.Machine) -> Table:
    kinds: dict[str, list[str]] = {}
    for name, kind in machine.fields.items():
        kinds.setdefault(kind, []).append(name)
    return _table(kinds)


def _requirement(each: Requirement) -> Table:
    table = _table(_sentence(each.clause), link=each.clause.link)
    valued = {"not-before": each.not_before, "values": each.values, "iff": each.iff}
    valued |= {"when": each.when, "unless": each.unless}
    listed = {"in": sorted(each.states)} | _without_empty(
        set=each.set, unset=each.unset, keeps=each.keeps, slack=each.slack / 1e9
    )
    return _add(table, listed | {word: _inline_table(what) for word, what in valued.items() if what})


def _exemption(each: Exemption) -> Table:
    broken = each.deviation
    entries = {"deviates": broken.clause.name, "about": broken.about, "when": _inline_table(each.when)}
    return _table(entries, since=each.since, until=each.until, link=broken.link)


def _is_part(override: model.Override, whole: model.Override | None) -> bool:
    if whole is None or replace(override, cells=whole.cells, ends=whole.ends) != whole:
        return False
    return override.cells.items() <= whole.cells.items() and override.ends.items() <= whole.ends.items()


def _override(machine: model.Machine, override: model.Override) -> Table:
    broken = override.deviation
    deviates, link = (broken.clause.name, broken.link) if broken else ("", "")
    entries = {"event": override.event, "about": override.about}
    table = _table(entries, deviates=deviates, since=override.since, until=override.until, link=link)
    kind = machine.events[override.event].kind
    forms = {state: _forms(cell, kind, state) for state, cell in override.cells.items()}
    rest = _default_form(forms) if override.cells.keys() == machine.states.keys() else None
    _cells(table, kind, override.cells, override.ends, rest)
    return table


def _drawing(machine: model.Machine) -> Table:
    omits = {}
    for event, each in (machine.omits or {}).items():
        states = [REST] if each.states == machine.states.keys() else sorted(each.states)
        omits[event] = _inline_table({}, states=states, outcomes=sorted(each.outcomes))
    return _super_table({"omits": _table(omits)})


def _is_named_clause(machine: model.Machine, clause: model.Clause) -> bool:
    return machine.clauses.get(clause.name) == clause


def _usual_level(machine: model.Machine) -> model.Level:
    levels: Counter[model.Level] = Counter()
    for event in machine.events.values():
        levels.update(
            {cell.clause.level for cell in event.cells.values() if not _is_named_clause(machine, cell.clause)}
        )
    return levels.most_common(1)[0][0] if levels else "MUST"


def _cells(
    table: Table,
    kind: model.Kind,
    cells: Mapping[str, model.Cell],
    ends: Mapping[str, model.Moves],
    usual: _Form | None,
) -> None:
    forms = {state: _forms(cell, kind, state) for state, cell in cells.items()}
    groups: dict[str, dict[str, _Content]] = {}
    for state, ways in forms.items():
        group, content = ways[0]
        if usual not in ways:
            groups.setdefault(group, {})[state] = content
    if usual is not None:
        groups.setdefault(usual[0], {})[REST] = usual[1]
    for group in ("moves", "ignores", "refuses", "cannot", "silent"):
        if group in groups:
            table[group] = _group(group, groups[group])
    if ends:
        table["ends"] = _group("moves", {state: _forms(cell, kind, state)[0][1] for state, cell in ends.items()})


def _default_form(forms: Mapping[str, Collection[T]]) -> T | None:
    times = Counter(form for ways in forms.values() for form in ways)
    found = max(times, key=lambda form: (times[form] - 1) * len(repr(form)), default=None)
    return found if found and times[found] > 1 else None


def _forms(cell: model.Cell, kind: model.Kind, state: str) -> tuple[_Form, ...]:
    match cell:
        case model.Moves(outcomes=ways):
            return tuple({("moves", _ways(ways, kind, stays)): None for stays in ("", state)})
        case model.Refuses(codes=codes):
            return (("refuses", codes),)
        case model.Ignores() | model.Cannot() | model.Silent():
            return ((_PLAIN[type(cell)], ()),)
        case _:
            assert_never(cell)


def _ways(ways: tuple[model.Outcome, ...], kind: model.Kind, stays: str) -> tuple[_Way, ...]:
    names: list[str] = []
    for way in ways:
        names.append(distinct(way.name, names, also=".-"))
    return tuple(_way(way, name, kind, stays, alone=len(ways) == 1) for way, name in zip(ways, names, strict=True))


def _way(way: model.Outcome, name: str, kind: model.Kind, stays: str, *, alone: bool) -> _Way:
    usual = f"begins-{way.to}" if way.begins else "done"
    stays_here = way.to == stays and not way.begins
    plain = way.begins or kind != "call" or way.reply == ("ok",)
    entries: dict[str, _Word] = {
        "name": "" if alone and name == usual else name,
        "begins": way.to if way.begins else "",
        "stays": stays_here,
        "to": "" if way.begins or stays_here else way.to,
        "reply": () if plain else way.reply,
        "when": way.when.text if way.when else "",
        "set": tuple((each.variable, each.text) for each in way.updates),
        "chosen": way.chosen,
        "emits": way.emits,
        "within": way.within,
        "about": way.about or (way.deviation.about if way.deviation else ""),
        "aliases": way.aliases,
    }
    return tuple((word, value) for word, value in entries.items() if value)


def _group(group: str, cells: Mapping[str, _Content]) -> Table | InlineTable | Array:
    if group in _PLAIN.values():
        return array_of(list(cells))
    written = {state: _outcomes(each) if group == "moves" else _codes(each) for state, each in cells.items()}
    inline = _inline_table(written)
    if _is_short(inline):
        return inline
    table = tomlkit.table()
    table.update(written)  # _table() would write each array on one line
    return table


def _codes(codes: _Content) -> object:
    return codes[0] if len(codes) == 1 else array_of(codes)


def _outcomes(ways: _Content) -> object:
    written = [_inline_table({word: _written(word, value) for word, value in way}) for way in ways]
    if len(written) > 1:
        several = tomlkit.array()
        several.extend(written)
        return several.multiline(True)  # noqa: FBT003  (tomlkit has no other way)
    return written[0]["to"] if list(written[0]) == ["to"] else written[0]


def _written(word: str, value: Any) -> object:  # noqa: ANN401  (any TOML value)
    return _codes(value) if word == "reply" else _inline_table(dict(value)) if word == "set" else value


def array_of(values: Iterable[object]) -> Array:
    """Return *values* as an array on one line, or with one value per line if a single line would be too long."""
    array = tomlkit.array()
    array.extend(values)
    return array.multiline(True) if len(array.as_string()) > WIDEST else array  # noqa: FBT003  (as above)


def _inline_table(entries: Mapping[str, object], **optional: object) -> InlineTable:
    return _add(tomlkit.inline_table(), {**entries, **_without_empty(**optional)})


def _table(entries: Mapping[str, object], **optional: object) -> Table:
    return _add(tomlkit.table(), {**entries, **_without_empty(**optional)})


def _add(table: D, entries: Mapping[str, object]) -> D:
    for word, value in entries.items():
        table[word] = array_of(value) if isinstance(value, list | tuple) else value
    return table


def _super_table(tables: Mapping[str, Table]) -> Table:
    return _add(tomlkit.table(is_super_table=bool(tables)), tables)


def _without_empty(**entries: object) -> dict[str, object]:
    return {word: value for word, value in entries.items() if value}
