"""The page of judged recordings, with the machines that judged them."""

from fsm.language.library import load
from fsm.report import ExitCode, Report, words
from fsm.report.json_report import Json
from fsm.report.page.document import document
from fsm.report.page.machine_data import machine_data
from fsm.report.page.property_data import watched_data
from fsm.report.page.recording_data import recording_data


def html(report: Report) -> str:
    """Return the complete document, ending in a newline.  It shows the entities whose stories *report* contains.

    Raise :class:`~fsm.diagrams.draw.image.NoDotError` if Graphviz is not installed.
    """
    machines: dict[str, dict[str, Json]] = {}
    for _, judgement in report.each():
        machine = judgement.machine
        if machine.name not in machines:
            also = [each.machine.profile for _, each in report.each() if each.machine.name == machine.name]
            whole = load(machine.path) if machine.profile and machine.path else machine
            machines[machine.name] = machine_data(whole, also=also)
            machines[machine.name]["properties"] = watched_data(judgement.properties)
    names = ", ".join(words.file(each.name) for each in report.judged)
    return document(
        f"{names}: {_verdict(report)}",
        {
            "title": names,
            "about": "",
            "source": "",
            "profile": "",
            "failOn": report.fail_on,
            "verdict": _verdict(report),
            "problems": [str(each) for each in report.problems],
            "machines": [*machines.values()],
            "recordings": [recording_data(report, each) for each in report.judged],
        },
    )


def _verdict(report: Report) -> str:
    return {ExitCode.HOLDS: "holds", ExitCode.FAILS: "fails", ExitCode.UNKNOWN: "unknown"}[report.total()]
