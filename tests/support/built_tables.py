"""Convert every shipped machine, system and property file to plain data, independent of the TOML layout.

The tables contain no line numbers or paths. Conditions are in a normal form, so that equivalent spellings are equal.

``python tests/support/built_tables.py`` prints each cell that differs from ``tests/models/tables.json.gz``. With
``--write``, it stores the current tables in that file.
"""

from __future__ import annotations

import gzip
import hashlib
import json
import sys
from dataclasses import fields, is_dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias, cast

from fsm.language.library import claims, load, load_system, names, systems
from fsm.machine import Event, Machine, Outcome, Override, State
from fsm.machine.claims import MatchesDiagram
from fsm.machine.conditions import All, At, In, Not, Some, WrittenCondition
from fsm.machine.hierarchy import FLAT
from fsm.machine.product.system import Copy, JointEvent, System, Variant

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from fsm.machine.claims import Specification
    from fsm.machine.conditions import Condition

Data: TypeAlias = "dict[str, Data] | list[Data] | str | int | bool | None"

STORED = Path(__file__).resolve().parent.parent / "models" / "tables.json.gz"
AGAIN = "if each change is meant, run: python tests/support/built_tables.py --write"

_PLACES = frozenset({"line", "path"})
_EXTENDED = (Event, Machine, Outcome, State)
_OPTIONAL = frozenset({"arguments", "chosen", "data", "impossible", "parts", "timers", "updates", "when"})
"""Fields of these classes that are left out if they are empty."""


def tables() -> dict[str, Data]:
    found: dict[str, Data] = {}
    for name in names():
        machine = load(name)
        found[f"machine {name}"] = machine_table(machine)
        for profile in machine.profiles:
            found[f"machine {name} under {profile}"] = machine_table(machine.under(profile))
        found[f"properties of {name}"] = property_table(claims(name))
    for name in systems():
        system = load_system(name)
        found[f"system {name}"] = system_table(system)
        for profile in system.profiles:
            found[f"system {name} under {profile}"] = system_table(replace(system.under(profile), profile=""))
        found[f"properties of {name}"] = property_table(claims(name))
    return found


def machine_table(machine: Machine) -> Data:
    table = _Data(machine=machine).record(machine)
    if machine.hierarchy == FLAT:
        del table["hierarchy"]
    for name, profile in machine.profiles.items():
        overrides = sorted(profile.overrides, key=lambda each: (each.event, each.name, sorted(each.cells)))
        found = cast("dict[str, dict[str, Data]]", table["profiles"])[name]
        found["overrides"] = {_called(each): _Data(machine=machine).data(each) for each in overrides}
    return table


def system_table(system: System) -> Data:
    """Return *system* as plain data, in which each part has the name and the digest of its machine."""
    return {**_Data(system=system).record(system), "profiles": [*system.profiles]}


def property_table(stated: Specification[Machine | System]) -> Data:
    of = stated.machine
    about = _Data(system=of) if isinstance(of, System) else _Data(machine=of)
    return {
        "machine": of.name,
        "expect": about.data(stated.expect),
        "properties": {each.name: about.data(each) for each in stated.properties},
    }


def normal_form(condition: Condition, machine: Machine) -> Data:
    """Return the condition in negation normal form, with flat, sorted and unique operands."""
    return _Data(machine=machine).data(condition)


def stored() -> dict[str, Data]:
    return cast("dict[str, Data]", json.loads(gzip.decompress(STORED.read_bytes())))


def differences(before: Data, after: Data, *at: str) -> Iterator[str]:
    match before, after:
        case dict(), dict():
            for name in before:
                if name in after:
                    yield from differences(before[name], after[name], *at, name)
                else:
                    yield f"{' / '.join((*at, name))}: is missing"
            yield from (f"{' / '.join((*at, name))}: is new" for name in after if name not in before)
            if before.keys() == after.keys() and [*before] != [*after]:
                yield f"{' / '.join(at)}: the order was {', '.join(before)} and is {', '.join(after)}"
        case list(), list() if len(before) == len(after):
            for number, (old, new) in enumerate(zip(before, after, strict=True)):
                yield from differences(old, new, *at, _name(old, number))
        case _ if before != after:
            yield f"{' / '.join(at)}: was {json.dumps(before)} and is {json.dumps(after)}"


class _Data:
    def __init__(self, *, machine: Machine | None = None, system: System | None = None) -> None:
        self._machine = machine
        self._system = system

    def record(self, value: object) -> dict[str, Data]:
        """Return the fields of a dataclass, except for its position in the source file."""
        found: dict[str, Data] = {"is": type(value).__name__}
        for each in fields(value) if is_dataclass(value) else ():
            held = getattr(value, each.name)
            if each.name not in _PLACES and (held or not isinstance(value, _EXTENDED) or each.name not in _OPTIONAL):
                found[each.name] = self.data(held)
        if isinstance(value, JointEvent):
            found = {name: held for name, held in found.items() if held or name != "arguments"}
            found["ways"] = {way.name: self.data(way) for way in sorted(value.ways, key=lambda way: way.name)}
        for word in ("clauses", "ends", "fails") if not isinstance(value, Override) else ("cells", "ends"):
            if isinstance(found.get(word), dict):  # the order does not matter
                found[word] = dict(sorted(cast("dict[str, Data]", found[word]).items()))
        if isinstance(value, Machine | System):
            del found["profile"]  # the profile is chosen by the caller
        if isinstance(value, MatchesDiagram):
            found["file"] = Path(value.path).name
        return found

    def data(self, value: object) -> Data:
        match value:
            case None | bool() | int() | str():
                return value
            case Machine():
                return f"{value.name} {_digest(machine_table(value))}"
            case Copy():
                return value.name
            case Variant() | System():
                return value.name
            case WrittenCondition():
                return self.data(value.means)
            case Not() | All() | Some() | In() | At():
                return self.condition(value)
            case frozenset():
                return _sorted(map(str, value))
            case tuple() | list():
                return [self.data(each) for each in value]
            case dict():
                return {str(key): self.data(each) for key, each in value.items()}
            case _:
                return self.record(value)

    def condition(self, condition: Condition, *, negated: bool = False) -> Data:
        match condition:
            case Not(of=inner):
                return self.condition(inner, negated=not negated)
            case All(of=parts) | Some(of=parts):
                every = isinstance(condition, All) is not negated
                return self._joined([self.condition(each, negated=negated) for each in parts], every=every)
            case In(states=states, before=before):
                known = self._machine.states if self._machine else {}
                return {"in": _sorted(set(known) - states if negated else states), "before": before}
            case At(part=part, copies=copies, states=states, every=every, before=before):
                known = self._system.parts[part].machine.states if self._system else {}
                return {
                    "in": _sorted(set(known) - states if negated else states),
                    "before": before,
                    "part": part,
                    "copies": [*copies],
                    "every": len(copies) == 1 or every is not negated,
                }
            case _:
                return {"not": self.record(condition)} if negated else self.record(condition)

    def _joined(self, parts: Sequence[Data], *, every: bool) -> Data:
        word = "all" if every else "some"
        flat: list[Data] = []
        sets: dict[str, set[str]] = {}
        for part in parts:
            for each in cast("list[Data]", part[word]) if isinstance(part, dict) and word in part else (part,):
                of = _of(each, every=every)
                if of is None or not isinstance(each, dict):
                    flat.append(each)
                    continue
                states = set(cast("list[str]", each["in"]))
                sets[of] = states if of not in sets else (sets[of] & states if every else sets[of] | states)
        flat += [{"in": _sorted(states), **json.loads(of)} for of, states in sets.items()]
        unique = {json.dumps(each, sort_keys=True): each for each in flat}
        ordered = [unique[each] for each in sorted(unique)]
        return ordered[0] if len(ordered) == 1 else {word: ordered}


def _of(condition: Data, *, every: bool) -> str | None:
    if not isinstance(condition, dict) or "in" not in condition:
        return None
    if len(cast("list[Data]", condition.get("copies", [0]))) > 1 and condition["every"] is not every:
        return None
    return json.dumps({word: value for word, value in condition.items() if word != "in"})


def _sorted(names: Iterable[str]) -> list[Data]:
    return [*sorted(names)]


def _called(override: Override) -> str:
    return f"{override.event}: {override.name}: {', '.join(sorted({*override.cells, *override.ends}))}"


def _name(value: Data, number: int) -> str:
    return str(value["name"]) if isinstance(value, dict) and "name" in value else str(number)


def _digest(table: Data) -> str:
    return hashlib.sha256(json.dumps(table).encode()).hexdigest()[:16]


def _write(found: Mapping[str, Data]) -> None:
    data = json.dumps(found, separators=(",", ":"), ensure_ascii=False).encode()
    STORED.write_bytes(gzip.compress(data, 9, mtime=0))


if __name__ == "__main__":
    built = tables()
    if "--write" in sys.argv[1:]:
        _write(built)
    else:
        for line in differences(cast("Data", stored()), cast("Data", built)):
            sys.stdout.write(f"{line}\n")
