"""``fsm findings``: list the properties known to fail, and their fixes."""

from pathlib import Path

import click

from fsm.checker.known_defects import known_defects
from fsm.cli.options import complete_models_and_systems, format_option, layout
from fsm.cli.output import put, whole_or_nothing
from fsm.diagrams.draw import sequence, sequence_svg
from fsm.machine.product.system import System
from fsm.report import findings_report as report


@click.command("findings")
@click.argument("names", metavar="[MODEL|FILE]...", nargs=-1, shell_complete=complete_models_and_systems)
@format_option
@click.option(
    "--output",
    "-o",
    type=click.Path(path_type=Path, file_okay=False),
    help="Write pages in Markdown, with sequence charts in SVG, to this folder instead.",
)
def command(names: tuple[str, ...], form: str, output: Path | None) -> int:
    """List the known failures of the specification, each with its shortest run, and prove them again.

    MODEL is a name from 'fsm list', FILE a property file or a model file. Without either, all shipped models and
    systems are included. A finding is a property that fails as stated, and holds once a defect is fixed: either a
    system fails as it is and holds under its profile 'mended', or a machine fails under its profile 'upstream', which
    has the defects of the source, and holds without it.

    Exits with 1 if a finding no longer reproduces or its fix no longer holds.

    \b
    fsm findings node
    fsm findings -o docs/findings
    """
    found = list(known_defects(*names))
    if output is not None:
        with whole_or_nothing() as begin:
            for name, text in report.pages(found).items():
                put(text, output / name, begin)
            for finding in found:
                if finding.run is not None and isinstance(finding.of.machine, System):
                    drawn = sequence_svg.svg(sequence.chart(finding.run, finding.of.machine, finding.stated))
                    put(drawn, output / report.picture(finding), begin)
    else:
        click.echo(report.json(found) if form == "json" else report.text(found, layout()), nl=False)
    return report.answer(found).value
