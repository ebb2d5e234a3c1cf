"""Every run of the node is checked against the contract of plugins, as far as a plugin can observe the run.

This test confirms two other checks. The properties of the node state the parts of the contract one by one, and the
oracle judges recordings against the contract.
"""

from __future__ import annotations

import re
from collections import deque
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING

import pytest

from fsm.language.library import load, load_system
from fsm.machine.product import SystemTable
from fsm.machine.product.reduction import Influence
from fsm.machine.table import tabulate

if TYPE_CHECKING:
    from collections.abc import Iterator

    from fsm.machine.table import Table, Way

Heard = frozenset[int]
"""The states of the contract in which an entity may be, as far as the plugin knows."""

ENOUGH = 400_000
"""The maximum number of states of the product, which limits the time of the search."""


@dataclass(frozen=True)
class Contract:
    """Computes the belief of a plugin after each event, according to the machine ``name`` of the contract."""

    name: str

    @property
    def table(self) -> Table:
        return tabulated(self.name)

    @property
    def nothing(self) -> Heard:
        return frozenset({self.table.initial})

    @property
    def anything(self) -> Heard:
        return frozenset(range(len(self.table.states)))

    def after(self, heard: Heard, event: str) -> Heard:
        """Return the belief after *event*, or an empty set if the event is forbidden."""
        table = self.table
        row = next(row.index for row in table.rows if event in {row.event.name, row.event.rpc})
        return frozenset(way.to for state in heard for way in table.step(state, row) or ())

    def clause(self, heard: Heard, event: str) -> str:
        table = self.table
        row = next(row for row in table.rows if event in {row.event.name, row.event.rpc})
        return row.event.cells[table.states[min(heard)]].clause.name


@cache
def tabulated(name: str) -> Table:
    return tabulate(load(name))


class BrokenError(Exception):
    """Raised with the name of the broken clause."""


def broken(profile: str | None, *, part: str) -> set[str]:
    """Return the clauses that a node can break for a single container or pod."""
    node = load_system("node")
    system = node.under(profile)
    number = {copy.name: copy.digit for copy in system.copies}
    entity, memory, mine = (
        ("container.1.1", "nri-container.1.1", ".1.1") if part == "container" else ("pod.1", "nri-pod.1", ".1")
    )
    digits = {number[each] for each in (entity, memory, "plugin", "pod.1")}
    table = SystemTable(system, cone=Influence(system).cone(digits, outputs={number[memory]}))
    contract = Contract(f"plugin-{part}")
    beginning = (table.initial, contract.nothing)
    seen, queue, found = {beginning}, deque([beginning]), set[str]()
    while queue:
        state, heard = queue.popleft()
        for row in table.rows:
            for way in table.step(state, row.index):
                try:
                    after = _heard(table, state, way, row.name, heard, contract, (entity, mine), number)
                except BrokenError as error:
                    found.add(str(error))
                    continue
                if (way.to, after) not in seen:
                    seen.add((way.to, after))
                    queue.append((way.to, after))
        assert len(seen) < ENOUGH
    return found


def _heard(
    table: SystemTable,
    state: int,
    way: Way,
    event: str,
    heard: Heard,
    contract: Contract,
    of: tuple[str, str],
    number: dict[str, int],
) -> Heard:
    entity, suffix = of

    def now(copy: str, at: int) -> str:
        part = tabulated(table.system.parts[copy.partition(".")[0]].machine.name)
        return part.states[table.locals(at)[number[copy]]]

    moved = now(entity, way.to) != now(entity, state)
    called = table.system.events[event].kind == "call"
    if now(entity, state) == "absent" and event in {f"create-{entity}", f"run-{entity}"}:
        heard = contract.nothing  # a new entity has a fresh id
    if moved and (now("plugin", state) == "away" if called else now(entity, way.to) == "absent"):
        # The plugin may be notified late, or never, of calls that were made while it was away. A record that a restart
        # loses is lost for everybody, not only for the plugin; this loss is a separate finding.
        heard = contract.anything
    told = tuple(_told(way, event, suffix, now(entity, way.to)))
    there = now("plugin", state) == "joined"
    if there and "ok" in way.reply:
        told = (*told, *_succeeded(event, contract.name, gone=now(entity, way.to) == "absent"))
    for each in told:
        after = contract.after(heard, each)
        if not after:
            raise BrokenError(contract.clause(heard, each))
        heard = after
    return heard


def _told(way: Way, event: str, suffix: str, now: str) -> Iterator[str]:
    if event == "plugin-joins":
        yield "connects"
        if suffix == ".1" and now == "ready":  # plugins are never notified of a pod whose run failed
            yield "listed"
        if suffix == ".1.1" and now in {"created", "running"}:
            yield f"sync-{now}"
    for output in way.emits:
        name = re.fullmatch(r"([A-Za-z]+)((?:\.\d+)+)", output)
        if name and name[2] == suffix:
            yield name[1]


def _succeeded(event: str, machine: str, *, gone: bool) -> Iterator[str]:
    family, _, suffix = event.partition(".")
    if machine == "plugin-pod" and suffix == "1":
        if family == "stop-pod":
            yield "stop-succeeds"
        if family == "remove-pod":
            yield "removal-succeeds"
    if (
        machine == "plugin-container"
        and gone
        and (family, suffix) in {("remove-container", "1.1"), ("remove-pod", "1")}
    ):
        yield "removal-succeeds"


BROKEN = {
    "container": {"no-start-after-stop", "removal-is-relayed", "created-first", "removed-last"},
    "pod": {"stop-is-relayed", "removal-is-relayed", "removed-last"},
}
"""The clauses that the node breaks.

See the properties ``no-start-after-stop`` and ``…-is-relayed`` of the node.
"""


@pytest.mark.slow
@pytest.mark.parametrize("part", BROKEN)
def test_what_the_node_breaks_is_known(part: str) -> None:
    """The node breaks exactly the known clauses, including the clauses that recordings of containerd break."""
    assert broken(None, part=part) == BROKEN[part]


@pytest.mark.slow
@pytest.mark.parametrize("part", BROKEN)
def test_the_mended_node_keeps_the_contract(part: str) -> None:
    assert broken("mended", part=part) == set()
