"""A slow second opinion on property watching, which judges every run that fits the observations.

The runs come from :mod:`brute_force`, which shares no code with the tested engine.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from brute_force import replay
from brute_force.claims import Run, Search
from brute_force.steps import UNLIMITED, MachineModel, Runs

if TYPE_CHECKING:
    import random
    from collections.abc import Iterator

    from brute_force.steps import Configuration, Step

    from fsm.machine import Machine
    from fsm.machine.claims import Property
    from fsm.sut import Response, Stimulus

CODES = frozenset({"BUSY", "GONE"})


class BeyondError(Exception):
    """Raised for an observation with words that the machine does not have."""


def random_run(chance: random.Random, machine: Machine, length: int) -> Run:
    """Return a random run in which calls usually end, but never in an unspecified way."""
    model = MachineModel(machine)
    run: list[Step] = []
    here = model.initial
    while len(run) < length:
        steps = [step for step in model.steps(here, CODES) if not step.unwritten]
        ending = [step for step in steps if _ends(step)]
        if not steps:
            break
        step = chance.choice(ending if ending and chance.random() < 0.5 else steps)
        run.append(step)
        here = step.target
    return tuple(run)


def breaks(machine: Machine, stated: Property, run: Run) -> bool:
    search = Search(Runs(MachineModel(machine), CODES), unwritten=False)
    return any(replay.breaks(search, stated.claim, run[:end], 0, stopped=False) for end in range(len(run) + 1))


def consistent(machine: Machine, seen: list[tuple[Stimulus, Response]]) -> Iterator[Run]:
    model = MachineModel(machine, UNLIMITED)

    def following(here: Configuration, index: int) -> Iterator[Run]:
        if index == len(seen):
            yield ()
            return
        for part in _parts(model, here, *seen[index]):
            for rest in following(part[-1].target, index + 1):
                yield (*part, *rest)

    return following(model.initial, 0)


def _parts(model: MachineModel, here: Configuration, stimulus: Stimulus, seen: Response) -> Iterator[Run]:
    event = stimulus.event
    ends = stimulus.stage == "end"
    if not ends and model.silent(here, event):
        raise BeyondError
    todo: list[Run] = [(step,) for step in model.steps(here, CODES) if step.event == event and _ends(step) == ends]
    if ends and not todo:
        raise BeyondError  # the call has been interrupted
    while todo:
        run = todo.pop()
        last = run[-1]
        if last.unwritten:
            raise BeyondError
        if is_open(last) and (stimulus.stage == "do" or seen.reply is not None):  # the reply may come at once
            # If a call repeats its stages, the second round does nothing new.
            if all(each.target != last.target for each in run[:-1]):
                todo += [
                    (*run, step) for step in model.steps(last.target, CODES) if step.event == event and _ends(step)
                ]
        elif _fits(model, last, seen):
            yield run


def _fits(model: MachineModel, step: Step, seen: Response) -> bool:
    replied = seen.reply is None if is_open(step) else step.reply == seen.reply
    return replied and seen.outputs in {None, step.emits} and seen.shows in {"", model.shows(step.target)}


def is_open(step: Step) -> bool:
    return step.stage in {"begins", "continues"}


def _ends(step: Step) -> bool:
    return step.stage in {"ends", "continues"}
