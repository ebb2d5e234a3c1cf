"""``fsm draw --sequence``: draw a recording as a sequence chart."""

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Final

import click

from fsm.cli.output import put, whole_or_nothing
from fsm.cli.picture_files import formats, picture_file
from fsm.diagrams.draw.sequence import SequenceChart
from fsm.diagrams.draw.sequence import mermaid as mermaid_chart
from fsm.diagrams.draw.sequence_svg import svg as svg_chart
from fsm.diagrams.recorded_chart import recorded_chart
from fsm.diagrams.recorded_steps import chosen_steps
from fsm.errors import InputError, is_file, refused
from fsm.monitor.judgement import Judged, judge
from fsm.report.chart_marks import marks as chart_marks

CHART_SUFFIXES: Final[Mapping[str, str]] = {"svg": "svg", "mermaid": "mmd"}

_CHART_WRITERS: Final[Mapping[str, Callable[[SequenceChart], str | bytes]]] = {
    "svg": svg_chart,
    "mermaid": mermaid_chart,
}


def draw_chart(
    name: str,
    calls: str,
    models: tuple[str, ...],
    forms: tuple[str, ...],
    output: Path | None,
    *,
    profile: str | None,
    entity: str,
    first: int | None,
    last: int | None,
) -> int:
    """Draw the recording *name* in each of *forms*, with the *calls* of its run and the verdicts of *models*.

    Draw only the lines from *first* to *last*, if they are given.
    """
    if wrong := [form for form in forms if form not in CHART_SUFFIXES]:
        raise click.UsageError(f"a sequence chart is svg or mermaid, not {wrong[0]}")
    if first and last and last < first:
        raise click.UsageError(f"--to {last} is before --from {first}")
    for file in filter(None, (name, calls)):
        if file == "-" or (Path(file).exists() and not is_file(file) and not Path(file).is_dir()):
            raise refused(file, "FSM204", "can be read only once", "save it in a file, which is read and then judged")
    forms = formats(forms, output, CHART_SUFFIXES, pictures=1)
    steps = chosen_steps(name, calls, entity=entity, first=first, last=last)
    judged = _judged_together(name, calls, models, profile)
    chart = recorded_chart(steps, None if judged is None else chart_marks(judged))
    stem = Path(name).name.removesuffix(".gz").rpartition(".")[0] or "sequence"
    with whole_or_nothing() as begin:
        for form in forms:
            put(_CHART_WRITERS[form](chart), picture_file(output, stem, CHART_SUFFIXES[form]), begin)
    return 0


def _judged_together(name: str, calls: str, models: tuple[str, ...], profile: str | None) -> list[Judged] | None:
    """Judge the recording and *calls*. One must know *profile*. Return ``None`` if no recording names a machine."""
    found, problems = [], []
    for file, other in ((name, calls), (calls, "")) if calls else ((name, ""),):
        try:
            found.append(judge(file, calls=other, models=models, profile=profile, every=True))
        except InputError as error:
            problems.append(error)
    harmless = "FSM203" if found else "FSM202"
    for problem in problems:
        if {one.code for one in problem.problems} != {harmless}:
            raise problem
    return found or None
