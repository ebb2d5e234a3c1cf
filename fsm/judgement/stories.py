"""What happened to the entities that a report shows: a recording is judged once more, and their stories are told.

First those that break something, in the order in which it was found, then those that come first.
"""

from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Final

from fsm.judgement import Judged
from fsm.recordings import RecordingKind
from fsm.verdict import Illegal

TOLD: Final = 40
"""Entities of a recording whose stories are told."""

Telling = Callable[[str], bool]


def with_stories(judged: Judged, again: Callable[[Telling], Judged], *, most: int = TOLD) -> Judged:
    """*judged* with the stories of *most* of its entities; *again* judges it, and tells those that it is asked for."""
    if judged.stories or judged.kind in {RecordingKind.HISTORY, RecordingKind.NOTHING}:
        return judged
    broken = [*dict.fromkeys(_broken(judged))][:most]
    chosen = {*broken}

    def telling(entity: str) -> bool:
        if len(chosen) < most:
            chosen.add(entity)
        return entity in chosen

    stories = again(telling).stories
    rank = {entity: number for number, entity in enumerate(broken)}
    return replace(judged, stories=tuple(sorted(stories, key=lambda story: rank.get(story.entity, len(rank)))))


def _broken(judged: Judged) -> Iterator[str]:
    for judgement in judged.judgements:
        if isinstance(judgement.verdict, Illegal):
            for finding in judgement.verdict.findings:
                yield from (each.observation.entity for each in finding.first if each.observation.entity)
