"""A system as people read it: its parts, and what they do together."""

from collections.abc import Iterator

from fsm.product.system import JointEvent, Part, PartStep, System
from fsm.report.layout import Layout
from fsm.report.words import plural


def text(system: System, layout: Layout, *, event: str | None) -> str:
    """*system*, or of its joint events only *event*, ending in a newline; of copies the first is shown."""
    lines = [layout.style(system.name, "bold") + f": {system.title}", *layout.kept(system.about)]
    if event is None:
        profiles = f" Profiles: {', '.join(system.profiles)}." if system.profiles else ""
        lines += [*layout.kept(f"Source: {system.source}.{profiles}"), "", "parts"]
        longest = max(map(len, system.parts))
        for part in system.parts.values():
            lines += layout.kept(f"{part.name:<{longest}}  {_part(part)}", "  ", " " * (longest + 4))
    families: dict[str, JointEvent] = {}
    for joint in system.events.values():
        families.setdefault(joint.family, joint)
    for joint in families.values():
        if event in {None, joint.family, joint.rpc}:
            lines += ["", *_joint(joint, layout)]
    return "\n".join(lines) + "\n"


def _part(part: Part) -> str:
    copies = f", {plural(len(part.copies), 'copy')}" if len(part.copies) > 1 else ""
    return f"{part.machine.name}{copies}, begins {part.initial}. {part.about}".rstrip()


def _joint(joint: JointEvent, layout: Layout) -> Iterator[str]:
    wire = f" ({joint.rpc})" if joint.rpc else ""
    yield from layout.kept(f"{joint.kind} {joint.name}{wire}: {joint.about}", "", "    ")
    clause = joint.clause
    yield from layout.kept(f"{clause.level}: {clause.says} [{clause.source}]", "  ", "    ")
    for way in joint.ways:
        steps = ", ".join(map(_step, way.steps)) or "nothing"
        yield from layout.kept(f"{way.name}: {steps}", "  ", "      ", marked=way.name, how="green")


def _step(step: PartStep) -> str:
    if not step.event:
        return f"reset {step.copy.name}"
    outcomes = f"/{','.join(sorted(step.outcomes))}" if step.outcomes else ""
    perhaps = " if its condition holds" if step.when is not None else ""
    return f"{step.copy.name}.{step.event}{'.ends' if step.ends else ''}{outcomes}{perhaps}"
