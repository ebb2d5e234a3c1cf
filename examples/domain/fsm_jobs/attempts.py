"""``fsm jobs``: count how often each job in a log was given to a worker."""

from collections import Counter

import click

from fsm.recordings import open_recording


@click.command("jobs")
@click.argument("log")
def command(log: str) -> list[dict[str, object]]:
    """Count the attempts of each job in LOG: how often a worker got it."""
    attempts: Counter[str] = Counter()
    for batch in open_recording(log, form="job-log").batches:
        for seen in batch.observations:
            attempts[seen.entity] += seen.event == "take" and seen.reply == "ok"
    return [{"job": job, "attempts": number} for job, number in attempts.items()]
