"""The stories that a report shows: stories with violations first, or stories up to a line."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import PurePath
from typing import Final

from fsm.errors import refused
from fsm.machine.findings import Illegal
from fsm.monitor.judgement import Judged
from fsm.monitor.judgement.part import Story
from fsm.recordings.form import HISTORY
from fsm.trace import Line

TOLD: Final = 40
"""Maximum number of entities of a recording whose stories are told."""

Telling = Callable[[str], bool]


def with_stories(judged: Judged, again: Callable[[Telling], Judged], *, most: int = TOLD) -> Judged:
    """Return *judged* with the stories of up to *most* entities, which *again* collects by judging again."""
    if judged.stories or judged.form is HISTORY or not judged.form.name:
        return judged
    illegal = [each.verdict for each in judged.judgements if isinstance(each.verdict, Illegal)]
    found = [each.observation.entity for one in illegal for finding in one.findings for each in finding.first]
    broken = [*dict.fromkeys(filter(None, found))][:most]
    chosen = {*broken}

    def telling(entity: str) -> bool:
        if len(chosen) < most:
            chosen.add(entity)
        return entity in chosen

    stories = again(telling).stories
    rank = {entity: number for number, entity in enumerate(broken)}
    return replace(judged, stories=tuple(sorted(stories, key=lambda story: rank.get(story.entity, len(rank)))))


def up_to(found: Sequence[Judged], place: Line) -> list[Judged]:
    """Return *found* with only the stories that have an observation at *place*, up to the last one there.

    Without a file, *place* is a line of any file.  Raise :class:`InputError` if no file, or several files, have such
    a line.
    """
    cut = [replace(each, stories=tuple(_shortened(each.stories, place))) for each in found]
    files = dict.fromkeys(story.until.file for each in cut for story in each.stories if story.until)
    places = [step.place for each in found for story in each.stories for step in story.steps]
    here = {each.number for each in places if _is_in(each, place)}
    near = sorted(sorted(here, key=lambda number: abs(number - place.number))[:4])
    hint = f"the nearest lines are {', '.join(map(str, near))}" if near else "no line of this file has one"
    if len(files) > 1:
        hint = f"say FILE:LINE, such as {next(iter(files))}:{place.number}"
        raise refused(" and ".join(files), "FSM204", f"both have it on line {place.number}", hint)
    if places and not files:
        what = f"line {place.number} has no observation of that entity"
        raise refused(place.file or found[0].name, "FSM204", what, hint)
    return cut


def _shortened(stories: Sequence[Story], place: Line) -> Iterator[Story]:
    for story in stories:
        # An assumed event that concerns all entities is part of the next step.
        steps = [step for step in story.steps if step.followed or step.seen.phase != "assumed"]
        last = {step.place: at for at, step in enumerate(steps, 1) if step.place.number == place.number}
        for line in (each for each in last if _is_in(each, place)):
            yield replace(story, steps=steps[: last[line]], until=line)


def _is_in(line: Line, place: Line) -> bool:
    return place.file in {"", line.file, PurePath(line.file).name}
