"""Collect the stories that a report shows, those with violations first, by judging the recording again."""

from collections.abc import Callable
from dataclasses import replace
from typing import Final

from fsm.machine.findings import Illegal
from fsm.monitor.judgement import Judged
from fsm.recordings.form import HISTORY

TOLD: Final = 40
"""Maximum number of entities of a recording whose stories are told."""

Telling = Callable[[str], bool]


def with_stories(judged: Judged, again: Callable[[Telling], Judged], *, most: int = TOLD) -> Judged:
    """Return *judged* with the stories of at most *most* entities.  *again* judges the recording to collect them."""
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
