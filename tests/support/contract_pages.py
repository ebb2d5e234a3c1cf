"""Generate the NRI and CRI contract pages in ``docs/reference``.

``python tests/support/contract_pages.py --write`` replaces the text between the two marks of each page with the
statements of the models. The rest of a page is written by hand.
"""

from __future__ import annotations

import sys
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, Final, assert_never

from judged import CALLS, EVENTS, RECORDINGS, profile

from fsm.language.library import claims, composition, load, load_system
from fsm.machine import Cannot, Clause, Ignores, Moves, Refuses, Silent
from fsm.machine.graph import explore
from fsm.machine.table import tabulate
from fsm.monitor.judgement import judge

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from pathlib import Path

    from fsm.machine import Cell, Event, Machine, Override
    from fsm.machine.fields import Exemption
    from fsm.machine.product.system import JointEvent, System
    from fsm.monitor.judgement import Judged

DOCS: Final = RECORDINGS.parent.parent / "docs" / "reference"
BEGIN: Final = "\n## The states\n"
END: Final = "\n## Beside the drafts\n"

SEVEN: Final = "1.6, 1.7, 2.0, 2.1, 2.2, 2.3, main"
MANY: Final = 3
"""The number of states with equal behaviour at which a summary replaces their list."""

CROWDED: Final = ("contexts", "random", "kill9")
"""Recordings that are left out, because judging them takes seconds and other recordings are sufficient."""

FOUND: Final = {
    ("plugin-pod", "undone-unannounced"): "two-plugins.md#no-end-without-a-beginning",
    ("plugin-pod", "stop-unannounced"): "node.md#pods-stop-before-they-are-removed",
    ("plugin-pod", "stop-forgotten"): "node.md#stop-of-a-pod-is-relayed",
    ("plugin-pod", "removal-forgotten"): "node.md#removal-of-a-pod-is-relayed",
    ("plugin-container", "undone-unannounced"): "two-plugins.md#no-end-without-a-beginning",
    ("plugin-container", "stop-unannounced"): "two-plugins.md#removed-after-the-stop",
    ("plugin-container", "started-after-stop"): "node.md#no-start-after-stop",
    ("plugin-container", "removal-forgotten"): "node.md#removal-of-an-exited-container-is-relayed",
    ("plugin-container", "stopped-again"): "two-plugins.md#stop-is-relayed-once",
    ("plugin-container", "updated-after-removal"): "late-updates.md#nothing-after-the-removal",
    ("nri-plugin-contract", "create-container"): "node.md#containers-in-ready-pods",
    ("cri-pod", "ready-until-the-exit-is-handled"): "pod-records.md#stopped-has-not-the-status-ready",
}
"""The findings page about each deviation of a machine."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Contract:
    page: Path
    machines: tuple[str, ...]
    system: str = ""
    recordings: tuple[tuple[str, str], ...]


def _together(name: str) -> str:
    return name.replace(".nri.", ".calls.") if ".nri." in name else "cri-calls-with-nri-2.1.9.jsonl"


CONTRACTS: Final = {
    "nri": Contract(
        page=DOCS / "nri-contract.md",
        machines=("plugin-pod", "plugin-container"),
        system="nri-plugin-contract",
        recordings=tuple((name, _together(name)) for name in EVENTS),
    ),
    "cri": Contract(
        page=DOCS / "cri-contract.md",
        machines=("cri-pod", "cri-container"),
        recordings=tuple((name, "") for name in CALLS if not any(each in name for each in CROWDED)),
    ),
}


@cache
def recorded(contract: Contract) -> tuple[Judged, ...]:
    return tuple(
        judge(str(RECORDINGS / name), calls=str(RECORDINGS / calls) if calls else "", profile=profile(name))
        for name, calls in contract.recordings
    )


def page(contract: Contract) -> str:
    before, _, rest = contract.page.read_text(encoding="utf-8").partition(BEGIN)
    _, _, after = rest.partition(END)
    return before + BEGIN + "\n".join(_generated(contract)) + END + after


def _generated(contract: Contract) -> Iterator[str]:
    machines = [load(name) for name in contract.machines]
    system = load_system(contract.system) if contract.system else None
    yield ""
    for machine in machines:
        shown = any(state.shows != state.name for state in machine.states.values())
        yield from (f"{machine.title} (`{machine.name}`):", "")
        yield from ("| state | shown | |", "|---|---|---|") if shown else ("| state | |", "|---|---|")
        for state in machine.states.values():
            yield f"| {state.name} | " + (f"`{state.shows}` | " if shown else "") + f"{state.about} |"
        yield ""
    for machine in machines:
        yield from (f"## {machine.entity.capitalize()}s", "")
        for event in machine.events.values():
            yield from _event(contract, machine, event, system)
        yield from _fields(machine)
    yield from ("## Properties that versions break", "")
    yield from ("`fsm check MODEL --profile VERSION -P PROPERTY` prints the run.", "")
    yield from ("| model, property | level | promise | broken by | steps |", "|---|---|---|---|--:|")
    for name in (*contract.machines, *([contract.system] if contract.system else [])):
        for stated in claims(name).properties:
            for about in dict.fromkeys(known.about for known in stated.fails.values()):
                those = {under: known for under, known in stated.fails.items() if known.about == about}
                broken = f"{_versions(those)}: {about}{_link(next(iter(those.values())).link)}"
                steps = next(iter(those.values())).length or "-"
                yield f"| `{name}`, `{stated.name}` | {stated.level} | {stated.says} | {broken} | {steps} |"
    yield ""


def _fields(machine: Machine) -> Iterator[str]:
    if not machine.requires:
        return
    yield from (f"### Fields of the status of a {machine.entity}", "")
    for each in machine.requires.values():
        states = ", ".join(state for state in machine.states if state in each.states)
        yield _promise(each.clause, f"In {states}: {each}.")
    for profiles in _exempted(machine).values():
        deviation = profiles[0].deviation
        names = [each.deviation.profile for each in profiles]
        yield f"- Broken by {_versions(names)}: `{deviation.name}`, against `{deviation.clause.name}`. {deviation.about}"
    yield ""


def _exempted(machine: Machine) -> dict[str, list[Exemption]]:
    found: dict[str, list[Exemption]] = {}
    for of in machine.profiles.values():
        for each in of.exemptions:
            found.setdefault(each.deviation.name, []).append(each)
    return found


def _event(contract: Contract, machine: Machine, event: Event, system: System | None) -> Iterator[str]:
    joint = _joint(system, machine, event)
    yield from (
        "### " + (event.rpc or f"{event.name.replace('-', ' ').capitalize()} ({machine.entity})"),
        "",
        event.about,
    )
    if joint and joint.about != event.about:
        yield f"Of a pod and its containers: {joint.about}"
    yield from ("", f"| {machine.entity} | {'reply' if event.kind == 'call' else 'happens'} | then | clause |")
    yield from ("|---|---|---|---|", *_rows(event), "")
    clauses = {each.clause.name: each.clause for each in (*event.cells.values(), *event.ends.values())}
    for clause in clauses.values():
        yield _promise(clause)
    broken = list(_broken(contract, machine, event))
    if system and joint:
        asked = composition(system).written.event[joint.family].when
        if joint.clause.name not in clauses:
            yield _promise(joint.clause, f"It happens only where {asked}." if asked else "")
        broken += _broken_together(contract, machine, system, joint)
    if seen := _recorded(contract, machine, event):
        yield f"- Recorded with containerd {', '.join(seen)}."
    yield from broken or ["- No version is known to break this."]
    yield from (*_choices(machine, event), "")


def _rows(event: Event) -> Iterator[str]:
    found: dict[tuple[tuple[str, str, str], ...], list[str]] = {}
    for state, cell in event.cells.items():
        found.setdefault(tuple(_outcomes(event, state, cell)), []).append(state)
    most = max(found, key=lambda rows: len(found[rows]))
    if len(found[most]) >= MANY:
        found[most] = ["every state" if len(found) == 1 else "every other state"]
        found[most] = found.pop(most)
    for state, cell in event.ends.items():
        found.setdefault(tuple(_outcomes(event, state, cell)), []).append(f"{state}, when it ends")
    for rows, states in found.items():
        for number, (reply, then, clause) in enumerate(rows):
            yield f"| {', '.join(states) if not number else ''} | {reply} | {then} | `{clause}` |"


def _outcomes(event: Event, state: str, cell: Cell) -> Iterator[tuple[str, str, str]]:
    match cell:
        case Moves(outcomes=ways):
            stays = all(way.to == state for way in ways)
            ends: dict[tuple[str, str], None] = {}
            for way in ways:
                about = f" ({way.about.removesuffix('.')})" if way.about else ""
                reply = ", ".join(way.reply) or ("goes on" if way.begins else "yes")
                ends[reply, ("as before" if stays else way.to) + about] = None
            yield from ((*each, cell.clause.name) for each in ends)
        case Ignores():
            yield "ok" if event.kind == "call" else "yes", "as before", cell.clause.name
        case Refuses(codes=codes):
            yield ", ".join(codes), "as before", cell.clause.name
        case Cannot():
            yield "no", "", cell.clause.name
        case Silent():
            yield "open", "open", cell.clause.name
        case _:
            assert_never(cell)


def _promise(clause: Clause, more: str = "") -> str:
    return f"- **{clause.level}** `{clause.name}`: {clause.says} {more}{' ' if more else ''}({clause.source}){_link(clause.link)}"


def _link(url: str) -> str:
    return f" [{url.removeprefix('https://github.com/').partition('/blob/')[0]}]({url})" if url else ""


def _versions(names: Iterable[str]) -> str:
    return "containerd " + ", ".join(name.removeprefix("containerd-") for name in names).replace(SEVEN, "1.6 to main")


def _joint(system: System | None, machine: Machine, event: Event) -> JointEvent | None:
    if system is None:
        return None
    part = next(name for name, each in system.parts.items() if each.machine.name == machine.name)
    return next(
        (
            each
            for each in system.events.values()
            if any(step.copy.part == part and step.event == event.name for way in each.ways for step in way.steps)
        ),
        None,
    )


def _recorded(contract: Contract, machine: Machine, event: Event) -> tuple[str, ...]:
    return tuple(
        dict.fromkeys(
            next(part for part in name.replace(".jsonl", "").split("-") if part[0].isdigit()).partition(".calls")[0]
            for (name, _), judged in zip(contract.recordings, recorded(contract), strict=True)
            for judgement in judged.judgements
            if judgement.machine.name == machine.name
            and any(count for (row, _), count in judgement.covered.cells.items() if row.split(" ")[0] == event.name)
        )
    )


def _seen(contract: Contract, machine: str, deviation: str, profiles: list[str]) -> str:
    found = {
        name: sum(each.count for each in judgement.tolerated if each.first.deviation.name == deviation)
        for (name, _), judged in zip(contract.recordings, recorded(contract), strict=True)
        for judgement in judged.judgements
        if judgement.machine.name == machine and profile(name) in profiles
    }
    seen = [f"[{name}](../../tests/recordings/{name}) ({count})" for name, count in found.items() if count]
    return f" Seen in {', '.join(seen)}." if seen else ""


def _overrides(machine: Machine, event: Event) -> Iterable[tuple[Override, list[str]]]:
    found: dict[tuple[str, str], tuple[Override, list[str]]] = {}
    for name in machine.profiles:
        profiled = machine.profiled(name)
        for each in profiled.overrides if profiled else ():
            if each.event == event.name:
                found.setdefault((each.name, each.until), (each, []))[1].append(name)
    return found.values()


def _bounds(override: Override) -> str:
    return f", since {override.since}" * bool(override.since) + f", until {override.until}" * bool(override.until)


def _broken(contract: Contract, machine: Machine, event: Event) -> Iterator[str]:
    for override, names in _overrides(machine, event):
        if (deviation := override.deviation) is None:
            continue
        graph = explore(tabulate(machine.under(names[0])))
        reached = min(
            (state for state in override.cells if state in machine.states), key=lambda state: len(graph.path(state))
        )
        run = [*(step.partition("/")[0] for step in graph.path(reached)), event.name]
        shortest = ", ".join(machine.events[step].rpc or step.replace("-", " ") for step in run)
        where = FOUND.get((machine.name, override.name))
        yield (
            f"- Broken by {_versions(names)}{_bounds(override)}: `{override.name}`, against `{deviation.clause.name}`. "
            f"{override.about}{_link(deviation.link)} Shortest run: {shortest}."
            + (f" [Derived](../findings/{where}-fails) from containerd's own machines." if where else "")
            + _seen(contract, machine.name, override.name, names)
        )


def _broken_together(contract: Contract, machine: Machine, system: System, joint: JointEvent) -> Iterator[str]:
    found: dict[str, list[str]] = {}
    for name, written in composition(system).written.profile.items():
        if change := written.event.get(joint.family):
            found.setdefault(change.about or "", []).append(name)
    for about, names in found.items():
        where = FOUND.get((system.name, joint.family))
        yield (
            f"- Broken by {_versions(names)}: against `{joint.clause.name}`. {about}"
            + (f" [Derived](../findings/{where}-fails) from containerd's own machines." if where else "")
            + _seen(contract, machine.name, joint.family, names)
        )


def _choices(machine: Machine, event: Event) -> Iterator[str]:
    for override, names in _overrides(machine, event):
        if override.deviation is None:
            yield f"- Choice of {_versions(names)}{_bounds(override)}: {override.about}"


if __name__ == "__main__":
    for each in CONTRACTS.values():
        if "--write" in sys.argv[1:]:
            each.page.write_text(page(each), encoding="utf-8")
        else:
            sys.stdout.write(page(each))
