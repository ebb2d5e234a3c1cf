"""A model or a recording as a self-contained HTML page.

This module computes the possible next steps from the tables.  The page's script looks them up.
"""

import base64
import hashlib
import json
from collections.abc import Sequence
from html import escape
from importlib.resources import files

from fsm.errors import visible
from fsm.machine import Machine
from fsm.machine.product.system import System
from fsm.machine.property.evidence import Examined
from fsm.monitor.judgement import unprofiled
from fsm.report import Report, words
from fsm.report.json_report import Json, picked
from fsm.report.page.machine_data import machine_data, system_data
from fsm.report.page.result_data import property_data, recording_data, watched_data


def machine_page(machine: Machine, examined: Sequence[Examined] = (), *, profile: str | None = None) -> str:
    """Return the page of *machine* under each profile, with conclusions on its properties.  Show *profile* first."""
    shown = machine_data(machine, profile=profile)
    shown["properties"] = property_data(examined)
    title = f"{machine.name}: {machine.title}"
    return document(
        title,
        {
            "title": title,
            **picked(machine, "about", "source"),
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
            **picked(system, "about", "source"),
            "profile": profile or "",
            "machines": [machine_data(machine, profile=profile, only=system.profiles) for machine in machines.values()],
            "system": system_data(system, profile),
            "properties": property_data(examined),
        },
    )


def html(report: Report) -> str:
    """Return the complete document, ending in a newline.  It shows the entities whose stories *report* contains.

    Raise :class:`~fsm.diagrams.draw.dot.NoDotError` if Graphviz is not installed.
    """
    machines: dict[str, dict[str, Json]] = {}
    for _, judgement in report.judgements():
        machine = judgement.machine
        if machine.name not in machines:
            also = [each.machine.profile for _, each in report.judgements() if each.machine.name == machine.name]
            machines[machine.name] = machine_data(unprofiled(machine), also=also)
            machines[machine.name]["properties"] = watched_data(judgement.properties)
    verdict = report.total().word
    names = ", ".join(words.file(recording.name) for recording in report.judged)
    return document(
        f"{names}: {verdict}",
        {
            "title": names,
            "about": "",
            "source": "",
            "profile": "",
            "failOn": report.fail_on,
            "verdict": verdict,
            "problems": [str(problem) for problem in report.problems],
            "machines": [*machines.values()],
            "recordings": [recording_data(report, judged_recording) for judged_recording in report.judged],
        },
    )


def document(title: str, data: Json) -> str:
    """Return the document that shows *data*, ending in a newline."""
    room = files("fsm.report.page")
    script = room.joinpath("page.js").read_text(encoding="utf-8")
    style = room.joinpath("page.css").read_text(encoding="utf-8")
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    allowed = f"default-src 'none'; script-src 'sha256-{digest}'; style-src 'unsafe-inline'"
    unseen = "This page needs JavaScript, which it has in itself; nothing is loaded."
    return "\n".join(
        [
            "<!DOCTYPE html>",
            '<html lang="en">',
            "<head>",
            '<meta charset="utf-8">',
            f'<meta http-equiv="Content-Security-Policy" content="{allowed}">',
            '<meta name="viewport" content="width=device-width, initial-scale=1">',
            '<meta name="color-scheme" content="light dark">',
            f"<title>{escape(visible(title))}</title>",
            f"<style>\n{style}</style>",
            "</head>",
            "<body>",
            f'<main id="page"><noscript>{unseen}</noscript></main>',
            f'<script type="application/json" id="data">{embedded(data)}</script>',
            f"<script>{script}</script>",
            "</body>",
            "</html>",
            "",
        ]
    )


def embedded(data: Json) -> str:
    r"""Return *data* as JSON without ``<``, so that no text in it can end the script element.

    >>> embedded("</script>\u2028")
    '"\\u003c/script>\\u2028"'
    """
    return json.dumps(data, separators=(",", ":")).replace("<", "\\u003c")
