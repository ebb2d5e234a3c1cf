"""Data of a machine for a page: its states, events and clauses, and its table under each profile."""

import re
from collections.abc import Collection, Iterator
from typing import Final

from fsm.diagrams.draw.dot import FONT
from fsm.diagrams.draw.image import svg
from fsm.diagrams.draw.picture import Picture, picture
from fsm.machine import Clause, Event, Machine, Override, Profile
from fsm.machine.calls.rules import Rules
from fsm.machine.table import tabulate
from fsm.machine.versions import within
from fsm.report.json_report import Json, picked
from fsm.report.page.walk_data import cell_data, walks

# Parts of Graphviz's SVG to drop: ids, and the font, which the page sets.
_REPEATED: Final = re.compile(rf' (?:id="[^"]*"|font-family="{FONT}")')


def machine_data(
    machine: Machine, *, profile: str | None = None, also: Collection[str] = (), only: Collection[str] | None = None
) -> dict[str, Json]:
    """Return all of *machine* for the page, which shows *profile* first.

    If *only* is given, include only these of its profiles.  *also* adds others.  Raise
    :class:`~fsm.diagrams.draw.image.NoDotError` if Graphviz is not installed.
    """
    own = within(profile, machine.profiles)
    own_names = [each for each in machine.profiles if only is None or each in only]
    names = [*dict.fromkeys(("", *own_names, own or "", *also))]
    pictures: dict[Picture, int] = {}
    variants = [_Variant(machine.under(name or None), pictures) for name in names]
    base = variants[0]
    table = base.table
    return {
        **picked(machine, "name", "title", "about", "source", "entity"),
        "initial": table.initial,
        "states": [
            {
                **picked(state, "name", "about"),
                "shows": state.shows if state.shows != state.name else "",
                "kind": state.kind or "",
            }
            for state in machine.states.values()
        ],
        "rows": [
            {
                **picked(row, "name", "ends", event="event.name"),
                **picked(row.event, "kind", "about", "rpc", "interrupts"),
            }
            for row in table.rows
        ],
        "clauses": dict(_clauses(machine)),
        "profile": own or "",
        "profiles": [
            {"name": name, **_profile_data(machine.profiled(name) if name else None), **variant.data(base)}
            for name, variant in zip(names, variants, strict=True)
        ],
        "pictures": [
            drawn[drawn.index("<svg") :] for drawn in (_REPEATED.sub("", svg(each).decode()) for each in pictures)
        ],
    }


def _clauses(machine: Machine) -> Iterator[tuple[str, Json]]:
    profiles = machine.profiles.values()
    deviations = (
        *(each.deviation for profile in profiles for each in profile.overrides),
        *(exemption.deviation for profile in profiles for exemption in profile.exemptions),
    )
    broken = (each.clause for each in deviations if each)
    overrides = (override for profile in profiles for override in profile.overrides)
    rows: tuple[Event | Override, ...] = (*machine.events.values(), *overrides)
    used = (cell.clause for row in rows for cell in (*row.cells.values(), *row.ends.values()))
    for clause in (*machine.clauses.values(), *used, *broken):
        yield clause.name, clause_data(clause)


def clause_data(clause: Clause) -> dict[str, Json]:
    """Return a clause as data: its sentence, its level and its source."""
    return picked(clause, "name", "says", "level", "source", "link")


def _profile_data(profile: Profile | None) -> dict[str, Json]:
    if profile is None:
        return {"about": "", "changes": []}
    return {"about": profile.about, "changes": [_change(override) for override in profile.overrides]}


def _change(override: Override) -> Json:
    return {
        **picked(override, "name", "event", "about", "since", "until"),
        "states": [*dict.fromkeys((*override.cells, *override.ends))],
        **(
            picked(override.deviation, clause="clause.name", link="link")
            if override.deviation
            else {"clause": "", "link": ""}
        ),
    }


class _Variant:
    """*machine* under a profile.  Its picture is referred to by its number in *pictures*."""

    def __init__(self, machine: Machine, pictures: dict[Picture, int]) -> None:
        self.table = tabulate(machine)
        rules = Rules(self.table)
        self.cells = cell_data(self.table, rules)
        self._walks = walks(rules)
        drawn = picture(machine)
        self._picture = pictures.setdefault(drawn, len(pictures))

    def data(self, base: "_Variant") -> dict[str, Json]:
        """Return the walks, the picture, and the cells that differ from *base* (all cells for *base* itself)."""
        found: dict[str, Json] = {"cells": self.cells}
        if self is not base:
            pairs = enumerate(zip(self.cells, base.cells, strict=True))
            found = {"others": {str(number): cell for number, (cell, before) in pairs if cell != before}}
        return {**found, "walks": dict(self._walks), "picture": self._picture}
