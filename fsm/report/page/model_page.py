"""The pages of a machine and of a system: tables, walks and properties."""

from collections.abc import Sequence

from fsm.machine import Machine
from fsm.machine.product.system import System
from fsm.machine.property.evidence import Examined
from fsm.report.page.document import document
from fsm.report.page.machine_data import machine_data
from fsm.report.page.property_data import property_data
from fsm.report.page.system_data import system_data


def machine_page(machine: Machine, examined: Sequence[Examined] = (), *, profile: str | None = None) -> str:
    """Return the page of *machine* under each profile, with conclusions on its properties.  Show *profile* first."""
    shown = machine_data(machine, profile=profile)
    shown["properties"] = property_data(examined)
    title = f"{machine.name}: {machine.title}"
    return document(
        title,
        {
            "title": title,
            "about": machine.about,
            "source": machine.source,
            "profile": shown["profile"],
            "machines": [shown],
        },
    )


def system_page(system: System, examined: Sequence[Examined] = (), *, profile: str | None = None) -> str:
    """Return the page of *system*: parts, walks, and conclusions on its properties.  Show *profile* first."""
    machines = {part.machine.name: part.machine for part in system.parts.values()}
    title = f"{system.name}: {system.title}"
    return document(
        title,
        {
            "title": title,
            "about": system.about,
            "source": system.source,
            "profile": profile or "",
            "machines": [machine_data(each, profile=profile, only=system.profiles) for each in machines.values()],
            "system": system_data(system, profile),
            "properties": property_data(examined),
        },
    )
