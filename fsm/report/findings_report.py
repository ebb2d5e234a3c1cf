"""Report findings as text, JSON or pages."""

from collections.abc import Iterator, Sequence

from fsm.checker.known_defects import KnownDefect
from fsm.diagrams.draw import sequence
from fsm.machine.product.system import System
from fsm.report import ExitCode
from fsm.report.json_report import Json, dumped, picked, record
from fsm.report.layout import Layout, joined
from fsm.report.machine_report import data, steps
from fsm.report.words import grouped, plural


def answer(found: Sequence[KnownDefect]) -> ExitCode:
    return ExitCode.HOLDS if all(each.proved for each in found) else ExitCode.FAILS


@joined
def text(found: Sequence[KnownDefect], layout: Layout) -> Iterator[str]:
    for each in found:
        yield layout.style(f"{each.of.machine.name}: {each.stated.name} fails", "bold")
        says = f"Broken property, {each.stated.level}: {each.stated.says} [{each.stated.source}]"
        for paragraph in (f"{each.known.about} {each.known.link}", says, _fix_text(each)):
            yield from layout.kept(paragraph, "  ", "      ")
        yield from steps(each.run, indent=2) if each.run is not None else ()
        yield ""
    proved = sum(each.proved for each in found)
    yield f"{plural(len(found), 'finding')}, {proved} proved to fail and to be fixed"


def _fix_text(defect: KnownDefect) -> str:
    length = plural(defect.known.length, "step")
    where = f"under the profile {defect.mend}" if defect.mend else "without the profile"
    if defect.proved:
        return f"Shortest run: {length}. Fixed {where} (proved)."
    return f"Expected: it fails in {length} and is fixed {where}. At least one of these is no longer true."


def json(found: Sequence[KnownDefect]) -> str:
    findings: list[Json] = [
        {
            **picked(each, model="of.machine.name", property="stated.name"),
            **picked(each.stated, "level", "says", "source"),
            "profile": each.profile,
            **record(each.known),
            "run": data(each.run) if each.run else None,
            **picked(each, "mend", "proved"),
        }
        for each in found
    ]
    return dumped({"findings": findings})


def pages(found: Sequence[KnownDefect]) -> dict[str, str]:
    lines = [
        "# What the specification has found",
        "",
        "Each property below is known to fail. Its page has the shortest run that shows this, and the change to the",
        "model that fixes it, which is proved. `fsm findings` proves everything again and writes these pages.",
        "",
        "| model | property | level | steps |",
        "|---|---|---|---|",
    ]
    names = ((each, each.of.machine.name) for each in found)
    lines += [
        f"| [{name}]({name}.md) | [{each.stated.says}]({name}.md#{each.stated.name}-fails) "
        f"| {each.stated.level} | {each.known.length} |"
        for each, name in names
    ]
    pages = {"README.md": "\n".join(lines) + "\n"}
    for model, these in grouped((each.of.machine.name, each) for each in found).items():
        head = [f"# {these[0].of.machine.title}", "", f"Known failures of `{model}`. Written by `fsm findings`."]
        pages[f"{model}.md"] = "\n".join([*head, *(line for each in these for line in _story(each))]) + "\n"
    return pages


def picture(defect: KnownDefect) -> str:
    return f"{defect.of.machine.name}-{defect.stated.name}.svg"


def _story(defect: KnownDefect) -> Iterator[str]:
    where = f"under the profile `{defect.mend}`" if defect.mend else "if the profile `upstream` is not used"
    link = f" See <{defect.known.link}>." if defect.known.link else ""
    yield from ("", f"## {defect.stated.name} fails", "", f"{defect.known.about}{link}", "")
    yield from (f"Broken property, **{defect.stated.level}**: {defect.stated.says} ({defect.stated.source})", "")
    yield f"Proved to be fixed in the model {where}: `fsm check {defect.of.machine.name} -P {defect.stated.name}`."
    if defect.run is None:
        return
    if isinstance(defect.of.machine, System):
        shown = sequence.mermaid(sequence.chart(defect.run, defect.of.machine, defect.stated))
        yield from ("", "```mermaid", shown.rstrip("\n"), "```")
        yield from ("", f"[The same run as a picture.]({picture(defect)})")
    yield from ("", "```text", *steps(defect.run, indent=0), "```")
