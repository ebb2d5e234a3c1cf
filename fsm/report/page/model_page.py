"""The page of a machine: its table, walks through it, and what is claimed of it."""

from collections.abc import Sequence

from fsm.machine import Machine
from fsm.property.evidence import Examined
from fsm.report.page.document import document
from fsm.report.page.machine_data import machine_data
from fsm.report.page.property_data import property_data


def machine_page(machine: Machine, examined: Sequence[Examined] = (), *, profile: str | None = None) -> str:
    """*machine* with the conclusions on its properties, as it is under each profile; the page begins with *profile*."""
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
