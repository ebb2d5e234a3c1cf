"""Describe failed tests: the steps, the responses, and the reason for the failure."""

import difflib
import inspect
import os
import re
import sysconfig
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import cache
from pathlib import Path
from traceback import walk_tb
from types import CodeType
from typing import Final

from fsm.conformance.boundaries import GuardSide
from fsm.conformance.crash import Ended
from fsm.conformance.plan import Doing, Edge, Plan, Point
from fsm.machine import Clause
from fsm.machine.findings import Violation
from fsm.machine.table import Table
from fsm.monitor.property_watch import Violated
from fsm.sut import (
    SUT,
    BrokenError,
    Clocked,
    Detailed,
    Overlapping,
    Response,
    Stimulus,
    StimulusStage,
    UntimelyError,
    arranger,
)

_DATA: Final = re.compile(r", \S+ = .*")  # the values after the name of a state
WITHOUT_STATES: Final = 4
"""The number of leading items of :attr:`Failure.kind` that do not depend on the states before the failed step."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Taken:
    """A step of a test, the response to it, and the point before it.

    ``came`` is the step with its actual outcome, if that was not the expected outcome. ``passed`` is the virtual time
    in nanoseconds that passed in the step.
    """

    step: Stimulus
    seen: Response | None
    point: Point | None = None
    came: Stimulus | None = None
    passed: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Failure:
    """A test that failed at its last step, and the reason.

    If the failure does not always recur, ``repeated`` holds the number of repetitions that failed and the number of
    all repetitions. ``broken`` describes a promise that the SUT has broken, and ``clause`` is then the clause for
    the event in that state. ``hint`` suggests a fix if the adapter is probably at fault. ``also`` lists other
    states from which tests failed for the same cause. ``at_end`` is true if the failure was found after the last step,
    and ``hangs`` if the SUT did not return then, as it would not in other tests either.
    """

    trace: tuple[Taken, ...] = ()
    violation: Violation | None = None
    breaks: Violated | None = None
    broken: str = ""
    hint: str = ""
    clause: Clause | None = None
    repeated: tuple[int, int] | None = None
    also: tuple[tuple[str, ...], ...] = ()
    at_end: bool = False
    hangs: bool = False

    @property
    def steps(self) -> tuple[Stimulus, ...]:
        return tuple(taken.step for taken in self.trace)

    @property
    def began(self) -> tuple[tuple[str, ...], ...]:
        """The possible states before the last step, in a tuple with one item, or an empty tuple if unknown."""
        return () if self.violation is None else (self.violation.before,)

    @property
    def kind(self) -> tuple[object, ...]:
        """A key that is equal for failures with the same cause."""
        if self.at_end:
            return ("at the end", self.broken.partition(";")[0])  # without the place
        where = self.trace[-1].step[:2] if self.trace else ()  # the event and its stage
        if self.breaks is not None:
            return ("breaks", self.breaks.of.name)
        if (found := self.violation) is None:
            return (*where, "broken")
        return (
            *where,
            found.cause,
            found.clause.name,
            tuple(dict.fromkeys(_DATA.sub("", each) for each in found.before)),
        )


@dataclass(slots=True, kw_only=True)
class Causes:
    """The shortest failure of each cause, for at most ``most`` causes. The function ``shrunk`` shrinks a failure."""

    most: int
    shrunk: Callable[[Failure], Failure] = lambda failure: failure
    found: dict[tuple[object, ...], Failure] = field(default_factory=dict)

    def add(self, failure: Failure) -> bool:
        cause = failure.kind[:WITHOUT_STATES]
        known = self.found.get(cause)
        shortest = self.shrunk(failure) if known is None or len(failure.steps) < len(known.steps) else known
        states = dict.fromkeys((*known.also, *known.began, *failure.began) if known else ())
        also = tuple(each for each in states if each not in shortest.began)
        self.found[cause] = replace(shortest, also=also)
        return not failure.trace or failure.hangs or len(self.found) >= self.most

    def failures(self) -> list[Failure]:
        return list(self.found.values())


class FailedError(Exception):
    def __init__(self, failure: Failure) -> None:
        super().__init__()
        self.failure = failure


@dataclass(kw_only=True)
class Cover:
    """The coverage of a SUT by the tests so far, and the limits of the SUT that the tests have found.

    A (row, state) pair counts in ``cells`` if the SUT was certainly in the state when the event was applied, and in
    ``ambiguous`` if other states were also possible. ``compared`` counts how often the outputs of a pair were seen.
    ``timed`` counts how often each timer had not fired too early (``early``), had fired in time (``fired``), or had not
    fired after it was stopped (``stopped``). The steps in ``untimely`` are impossible because of other timers.
    ``sides`` counts how often a test was on a side of a comparison in a guard.
    ``arranged`` contains the steps whose outcome the SUT has promised, ``unarranged`` the outcomes that the SUT cannot
    arrange, and ``hopeless`` the steps that never occurred in many attempts. ``unsupported`` maps an event at a point
    to the reason why the SUT does not support it. For each test that ends with a crash during its
    last event, ``whole`` contains the state and record of a SUT that restarts after it has completed the event.
    """

    cells: Counter[tuple[int, int]] = field(default_factory=Counter)
    ambiguous: Counter[tuple[int, int]] = field(default_factory=Counter)
    compared: Counter[tuple[int, int]] = field(default_factory=Counter)
    arranged: set[tuple[Point, Stimulus]] = field(default_factory=set)
    ways: Counter[int] = field(default_factory=Counter)
    sides: Counter[GuardSide] = field(default_factory=Counter)
    timed: Counter[tuple[str, str]] = field(default_factory=Counter)
    untimely: set[Doing] = field(default_factory=set)
    steps: int = 0
    shown: bool = False
    heard: bool = False
    unsupported: dict[Doing, str] = field(default_factory=dict)
    supported: set[tuple[str, StimulusStage]] = field(default_factory=set)
    unarranged: set[tuple[str, str]] = field(default_factory=set)
    deviations: Counter[str] = field(default_factory=Counter)
    unspecified: int = 0
    whole: dict[tuple[Stimulus, ...], Ended] = field(default_factory=dict)
    hopeless: set[tuple[Point, Stimulus]] = field(default_factory=set)
    _taken: set[tuple[Point, Stimulus]] = field(default_factory=set)

    def give_up(self, edge: Edge) -> None:
        """Stop trying to take *edge*, unless a test has taken it before."""
        if (edge.source, edge.step) not in self._taken:
            self.hopeless.add((edge.source, edge.step))

    def leave_out(self, doing: Doing, why: str) -> None:
        self.unsupported[doing] = "" if why == doing[1] else why

    def took(self, edge: Edge) -> bool:
        return (edge.source, edge.step) in self._taken

    def avoided(self, edge: Edge) -> bool:
        return (
            edge.doing in self.unsupported or edge.doing in self.untimely or (edge.source, edge.step) in self.hopeless
        )

    def add(self, edge: Edge, plan: Plan) -> None:
        self._taken.add((edge.source, edge.step))
        self.hopeless.discard((edge.source, edge.step))
        self.untimely.discard(edge.doing)
        self.sides.update(plan.sides(edge))
        self.ways.update(plan.original(way).index for way in edge.ways)
        self.deviations.update(way.deviation.name for way in edge.ways if way.deviation)
        self.unspecified += edge.to is None


METHODS: Final = (
    *("reset", "do", "shows", "outputs", "fields", "arrange", "arrange_stage", "begin", "end", "record", "crash"),
    *("never", "unasked", "costly", "advance", "leftovers", "unjudged", "waited", "arranged", "passed"),
)

_NEAR: Final = 0.75  # minimum similarity, from 0 to 1, of a misspelled method name and the right name


def needed(table: Table, sut: SUT, cover: Cover) -> tuple[str, ...]:
    lacks = {
        "outputs": any(way.emits for way in table.ways) and not cover.heard,
        "fields": bool(table.machine.requires) and not isinstance(sut, Detailed),
        "arrange": any(len({way.when for way in ways or ()}) < len(ways or ()) for ways in table.cells)
        and arranger(sut) is None,
        "advance": bool(table.machine.timers) and not isinstance(sut, Clocked),
        "begin": bool(table.end) and not isinstance(sut, Overlapping),
        "end": bool(table.end) and not isinstance(sut, Overlapping),
    }
    return tuple(name for name, lacking in lacks.items() if lacking)


def misnamed(sut: SUT) -> Mapping[str, str]:
    """Map public methods of *sut* that no protocol defines to the missing methods with a similar name.

    >>> from types import SimpleNamespace
    >>> misnamed(SimpleNamespace(do=print, output=print, helper=print))
    {'output': 'outputs'}
    """
    absent = [name for name in METHODS[:-5] if getattr(sut, name, None) is None]  # without fsm's own ones
    own = [name for name, _ in inspect.getmembers_static(sut, callable) if name[0] != "_" and name not in METHODS]
    close = {name: difflib.get_close_matches(name, absent, n=1, cutoff=_NEAR) for name in own}
    return {name: meant[0] for name, meant in close.items() if meant}


LISTED: Final = 20  # maximum number of known values to list in the message about an unknown value
_INSTALLED: Final = ("site-packages", "dist-packages")


def raised(error: BaseException) -> str:
    """Describe *error* and the place where it was raised. The innermost line of the user's code is preferred.

    >>> try:
    ...     {}["boom"]
    ... except KeyError as error:
    ...     raised(error).rpartition(":")[0].startswith("raised KeyError: 'boom' at ")
    True
    """
    text = str(error)
    what = f"raised {type(error).__name__}" + (f": {text}" if text else "")
    return what + place([(frame.f_code, line) for frame, line in walk_tb(error.__traceback__)])


def place(places: Sequence[tuple[CodeType, int]]) -> str:
    """Describe the innermost of *places* that is in the user's code, or else the innermost one."""
    own = [(code, line) for code, line in places if not _is_library(code.co_filename)]
    for code, line in (own or places)[-1:]:
        function = "" if code.co_name == "<module>" else f" in {code.co_name}"
        return f" at {_relative_path(code.co_filename)}:{line}{function}"
    return ""


@cache
def _is_library(file: str) -> bool:
    if file.startswith("<"):
        return True
    path = Path(os.path.abspath(file))  # noqa: PTH100 - only a name: the file need not exist
    libraries = [Path(sysconfig.get_path(each)) for each in ("stdlib", "platstdlib")]
    ours = Path(__file__).parents[1]
    return any(path.is_relative_to(each) for each in (ours, *libraries)) or not {*path.parts}.isdisjoint(_INSTALLED)


def _relative_path(file: str) -> str:
    with suppress(OSError, ValueError):  # The working folder may have been removed.
        return str(Path(file).relative_to(Path.cwd()))
    return file


def listed(shows: str, shown: Iterable[str]) -> str:
    known = list(dict.fromkeys(shown))
    close = difflib.get_close_matches(shows, known, n=1, cutoff=0)
    return ", ".join(known) if len(known) <= LISTED else f"{close[0]!r} and {len(known) - 1} others"


def describe_error(error: BaseException) -> str:
    if isinstance(error, MemoryError | UntimelyError):
        raise error  # The SUT is not at fault. A MemoryError means that fsm has reached the limit of ``--memory``.
    return str(error) if isinstance(error, BrokenError) else f"the SUT {raised(error)}"
