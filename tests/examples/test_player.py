"""The example of a media player, one entity with two regions, finds planted bugs in implementations and traces."""

from __future__ import annotations

from pathlib import Path

import pytest
from commands import fsm as run

import fsm

PLAYER = "examples/models/systems/player.toml"


class Player:
    """A player that keeps both regions in plain attributes."""

    def reset(self) -> None:
        self.playback, self.stream = "stopped", "offline"
        self.said: list[str] = []

    def do(self, event: str) -> str:
        reply: str | None = getattr(self, event)()
        return reply or ("" if event in {"connected", "lost"} else "ok")

    def connect(self) -> None:
        if self.stream == "offline":
            self.stream = "connecting"

    def connected(self) -> None:
        self.stream = "online"

    def play(self) -> str:
        if self.stream != "online":
            return "OFFLINE"
        self.playback = "playing"
        return "ok"

    def pause(self) -> str:
        if self.playback == "stopped":
            return "NOT_PLAYING"
        self.playback = "paused"
        return "ok"

    def stop(self) -> None:
        self.playback = "stopped"

    def disconnect(self) -> None:
        self.lost()

    def lost(self) -> None:
        self.stream = "offline"
        if self.playback == "playing":
            self.playback = "paused"
            self.said.append("Starved")

    def shows(self) -> dict[str, str]:
        return {"playback": self.playback, "stream": self.stream}

    def outputs(self) -> list[str]:
        said, self.said = self.said, []
        return said

    def close(self) -> None: ...


class PlaysOn(Player):
    """The regions do not know of each other: a song keeps playing without a connection."""

    def lost(self) -> None:
        self.stream = "offline"


class Eager(Player):
    """Plays while it is still connecting."""

    def play(self) -> str:
        if self.stream == "offline":
            return "OFFLINE"
        self.playback = "playing"
        return "ok"


class StopsWhenLost(Player):
    """Forgets the song when the connection is lost, which only the state of the playback shows."""

    def lost(self) -> None:
        super().lost()
        if self.playback == "paused":
            self.playback = "stopped"


class OnlyPlayback(Player):
    """Shows only one of its regions."""

    def shows(self) -> dict[str, str]:
        return {"playback": self.playback}


class StopsUnseen(StopsWhenLost):
    """Shows only the connection, so that the wrong playback is noticed by its replies."""

    def shows(self) -> dict[str, str]:
        return {"stream": self.stream}


@pytest.mark.parametrize(
    ("sut", "steps"),
    [
        (Player, ()),
        (OnlyPlayback, ()),
        (PlaysOn, ("connect", "connected", "play", "disconnect")),
        (Eager, ("connect", "play")),
        (StopsWhenLost, ("connect", "connected", "play", "disconnect")),
        (StopsUnseen, ("connect", "connected", "play", "disconnect", "pause")),
    ],
)
def test_planted_bugs_are_found(sut: type[Player], steps: tuple[str, ...]) -> None:
    """Each bug is found by a shortest test, and the correct player passes."""
    tested = fsm.conform(fsm.load_system(PLAYER), sut, examples=10)
    assert {tuple(step.event for step in each.steps) for each in tested.failures} >= ({steps} if steps else set())
    assert isinstance(tested.verdict, fsm.Holds) is not bool(steps)


class Broken(Player):
    """Shows something that no state of the playback shows."""

    def stop(self) -> None:
        self.playback = "ajar"


@pytest.mark.parametrize(
    ("sut", "steps", "says"),
    [
        (Eager, "connect; play", "expected   OFFLINE"),
        (PlaysOn, "connect; connected; play; disconnect", "expected   playback=paused stream=offline"),
        (Broken, "stop", "which no state shows"),
    ],
)
def test_a_joint_state_that_cannot_be_reached_breaks_the_clause_of_the_step(
    sut: type[Player], steps: str, says: str
) -> None:
    tested = fsm.conform(fsm.load_system(PLAYER), sut, examples=0)
    (failure,) = (each for each in tested.failures if "; ".join(step.event for step in each.steps) == steps)
    assert bool(failure.broken) is (sut is Broken)
    assert says in fsm.describe(tested)


@pytest.mark.parametrize(
    ("shows", "code"), [('{"playback": "paused"}', 0), ('{"playback": "playing"}', 1), ('{"stream": "online"}', 1)]
)
def test_a_trace_with_looks_at_one_region(tmp_path: Path, shows: str, code: int) -> None:
    """Both regions move when the connection is lost."""
    events = ["connect", "connected", "play"]
    lines = [f'{{"entity": "p", "event": "{event}", "reply": "ok"}}' for event in events]
    lines[1] = '{"entity": "p", "event": "connected"}'
    lines += [f'{{"entity": "p", "event": "lost", "shows": {shows}}}']
    (tmp_path / "player.jsonl").write_text("\n".join(['{"trace": 1, "fresh": true}', *lines, ""]))
    assert run("judge", "-m", PLAYER, str(tmp_path / "player.jsonl")).returncode == code


def test_the_properties_hold() -> None:
    assert run("check", PLAYER).returncode == 0


def test_the_driver_moves_both_regions() -> None:
    player = fsm.Driver(fsm.load_system(PLAYER)).position()
    for event in ("connect", "connected", "play"):
        player.take(event)
    assert player.take("lost").emits == ("Starved",)
    assert player.state == "playback=paused stream=offline"
