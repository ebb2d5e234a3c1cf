"""Code can be driven by a machine, which calls callbacks in order and handles their errors."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from machines import door, job

from fsm.language.library import load, names
from fsm.machine.driver import CannotHappenError, Change, Driver

if TYPE_CHECKING:
    from collections.abc import Callable

    from fsm.machine.driver import Position


class Log:
    """Callbacks that write lines to a log. The callback whose name is *fails* also raises an error."""

    def __init__(self, *, fails: str = "") -> None:
        self.lines: list[str] = []
        self.fails = fails
        self.door: Position = Driver(door()).position(enter=self.callback("enter"), leave=self.callback("leave"))

    def callback(self, what: str) -> Callable[[Change], None]:
        def noted(change: Change) -> None:
            self.lines.append(f"{what}: {change.event} {change.source} > {change.target}, in {self.door.state}")
            if self.fails == what:
                raise OSError(what)

        return noted


def test_a_state_is_left_then_the_effect_happens_then_the_other_is_entered() -> None:
    log = Log()

    outcome = log.door.take("push", "opened", effect=log.callback("effect"))

    assert ("opened", ("Creak",)) == (outcome.name, outcome.emits)
    assert [
        "leave: push shut > open, in shut",
        "effect: push shut > open, in shut",
        "enter: push shut > open, in open",
    ] == log.lines


def test_where_the_state_stays_only_the_effect_happens() -> None:
    log = Log()

    log.door.take("push", "stuck", effect=log.callback("effect"))
    log.door.take("push", "opened")
    del log.lines[1:]
    log.door.take("push")

    assert ["effect: push shut > shut, in shut"] == log.lines


@pytest.mark.parametrize(
    ("fails", "called", "state"),
    [
        ("leave", ["leave"], "shut"),
        ("effect", ["leave", "effect"], "shut"),
        ("enter", ["leave", "effect", "enter"], "open"),
    ],
)
def test_an_error_ends_the_step_where_it_is(fails: str, called: list[str], state: str) -> None:
    log = Log(fails=fails)

    with pytest.raises(OSError, match=fails):
        log.door.take("push", "opened", effect=log.callback("effect"))

    assert (called, state) == ([line.partition(":")[0] for line in log.lines], log.door.state)
    log.fails = ""
    log.door.take("remove")
    assert "gone" == log.door.state


def test_callbacks_by_name_are_called_for_these_states_only() -> None:
    entered: list[str] = []
    at = Driver(door()).position(
        enter={"open": lambda change: entered.append(change.target)},
        leave={"open": lambda change: entered.append(f"not {change.source}")},
    )

    at.take("push", "opened")
    at.take("remove")

    assert ["open", "not open"] == entered


def test_a_state_that_is_not_there_is_refused_at_once() -> None:
    driver = Driver(door())
    message = "door has no state 'opne'; it has shut, open, ajar, gone"

    with pytest.raises(ValueError, match=message):
        driver.position("opne")
    with pytest.raises(ValueError, match=message):
        driver.position(enter={"opne": print})
    with pytest.raises(ValueError, match=message):
        driver.position(leave={"open": print, "opne": print})


def test_a_callback_for_entering_may_go_on() -> None:
    at = Driver(door()).position(enter={"open": lambda _: at.take("remove")})

    at.take("push", "opened")

    assert "gone" == at.state


@pytest.mark.parametrize("when", ["leave", "effect"])
def test_nothing_happens_in_the_middle_of_a_step(when: str) -> None:
    def interfere(_: Change) -> None:
        at.take("remove")

    at = Driver(door()).position(leave=interfere if when == "leave" else None)

    with pytest.raises(RuntimeError, match="remove cannot happen while push leaves state shut"):
        at.take("push", "opened", effect=interfere if when == "effect" else None)
    assert "shut" == at.state


def test_a_call_that_takes_time_enters_the_state_in_between() -> None:
    seen: list[tuple[str, str]] = []
    at = Driver(job()).position(enter=lambda change: seen.append((change.event, change.target)))

    at.take("make")
    at.take("start", "begins")
    at.take("start", at.outcomes("start", ends=True)[0].name, ends=True)

    assert [("make", "waiting"), ("start", "starting")] == seen[:2]
    assert ("start", at.state) == seen[2]


def test_entities_are_apart() -> None:
    driver = Driver(door())
    first, second = driver.position(), driver.position()

    first.take("push", "opened")

    assert ("open", "shut") == (first.state, second.state)


@pytest.mark.parametrize("name", names())
def test_each_outcome_is_taken_as_the_machine_has_it(name: str) -> None:
    machine = load(name)
    driver = Driver(machine)

    for event in machine.events:
        for ends in (False, True):
            for state in machine.states:
                allowed = machine.step(state, event, ends=ends)
                if not allowed:
                    with pytest.raises(CannotHappenError):
                        driver.position(state).outcomes(event, ends=ends)
                for outcome in allowed or ():
                    at = driver.position(state)
                    assert outcome == at.take(event, outcome.name, ends=ends)
                    assert (outcome.to, machine.states[outcome.to].shows) == (at.state, at.shows)


def test_of_several_outcomes_one_must_be_named() -> None:
    at = Driver(door()).position()

    with pytest.raises(ValueError, match="push in state shut has no outcome ''; it has opened, stuck"):
        at.take("push")
    with pytest.raises(ValueError, match="door has no event 'kick'"):
        at.take("kick")


class Changes(list[str]):
    """A callback that is falsy, like an empty list, until it is called."""

    def __call__(self, change: Change) -> None:
        self.append(f"{change.source} > {change.target}")


def test_a_callback_may_be_false() -> None:
    entered, left = Changes(), Changes()
    Driver(door()).position(enter=entered, leave=left).take("push", "opened")

    assert (["shut > open"], ["shut > open"]) == (entered, left)
