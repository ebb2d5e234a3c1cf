"""Each law about the record of a SUT is tested with a SUT that has a bug and breaks the law."""

from __future__ import annotations

import json
from copy import deepcopy
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
from machines import PURSE, machine_of

from fsm.conformance.plan import steps
from fsm.conformance.suite import conform, replay


class DeadError(Exception):
    """Raised when the simulated process dies."""


class Purse:
    """A purse that writes its whole content to disk before it changes its memory."""

    def __init__(self) -> None:
        self._home = TemporaryDirectory()
        self.file = Path(self._home.name, "purse")
        self.effects = -1

    def close(self) -> None:
        self._home.cleanup()

    def reset(self) -> None:
        self.coins: dict[str, Any] | None = None
        self.torn = False
        self.wanted: dict[str, str] = {}
        self.file.unlink(missing_ok=True)

    def arrange(self, event: str, outcome: str) -> bool:
        self.wanted[event] = outcome
        return True

    def record(self) -> Any:  # noqa: ANN401
        return deepcopy(self.coins)

    def shows(self) -> str:
        if self.torn:
            return "TORN"
        return "absent" if self.coins is None else "THERE"

    def do(self, event: str) -> str:
        self.effects = -1
        return self.happens(event)

    def crash(self, event: str, point: int) -> bool:
        self.effects = point
        try:
            self.happens(event)
        except DeadError:
            died = True
        else:
            died = False
        self.effects = -1
        self.happens("night")
        return died

    def effect(self) -> None:
        if self.effects == 0:
            raise DeadError
        self.effects -= 1

    def happens(self, event: str) -> str:
        wanted = self.wanted.pop(event, "")
        there = self.coins is not None
        match event:
            case "knit" if there or self.torn:
                return "EXISTS"
            case "knit":
                self.keep({"coins": [], "said": "thanks"})
            case "pay" if self.torn:
                return "TORN"
            case "pay" if not there:
                return "NOT_FOUND"
            case "pay":
                return self.pay(dropped=wanted == "dropped")
            case "lose":
                self.effect()
                self.file.unlink(missing_ok=True)
                self.coins, self.torn = None, False
            case "night" if wanted == "moths" and there:
                self.file.write_text("{", encoding="utf-8")
                self.load()
            case "night":
                self.load()
        return "" if event == "night" else "ok"

    def pay(self, *, dropped: bool) -> str:
        coins = deepcopy(self.coins) or {}
        coins["coins"].append(1)
        if dropped:
            return "DROPPED"
        self.keep(coins)
        return "ok"

    def keep(self, coins: dict[str, Any]) -> None:
        other = self.file.with_suffix(".new")
        self.effect()
        other.write_text(self.text(coins), encoding="utf-8")
        self.effect()
        other.replace(self.file)
        self.coins = coins

    def text(self, coins: dict[str, Any]) -> str:
        return json.dumps(coins)

    def load(self) -> None:
        try:
            self.coins = json.loads(self.file.read_text(encoding="utf-8"))
        except FileNotFoundError:
            self.coins, self.torn = None, self.torn
        except ValueError:
            self.coins, self.torn = None, True


def test_a_good_one_passes() -> None:
    found = conform(machine_of(PURSE), Purse, examples=20)

    assert (found.failures, found.missed) == ((), ())


class Remembers(Purse):
    """A purse that keeps its content in memory after its file was damaged."""

    def load(self) -> None:
        before = self.coins
        super().load()
        self.coins = before if self.torn else self.coins


def test_who_dies_before_it_pays_and_is_then_torn_has_not_paid() -> None:
    """If the process dies before a payment takes effect, the earlier record may remain even if the file is torn."""
    found = conform(machine_of(PURSE), Remembers, examples=0)

    assert found.failures == ()


class Lends(Purse):
    def record(self) -> Any:  # noqa: ANN401
        return self.coins


class LendsPart(Purse):
    def record(self) -> Any:  # noqa: ANN401
        return dict(self.coins) if self.coins else None


class Hasty(Purse):
    """A purse that counts dropped coins."""

    def pay(self, *, dropped: bool) -> str:
        super().pay(dropped=False)
        return "DROPPED" if dropped else "ok"


class Forgets(Purse):
    """A purse that writes only part of its data."""

    def text(self, coins: dict[str, Any]) -> str:
        return json.dumps({"coins": coins["coins"]})


class Overwrites(Purse):
    """A purse that overwrites an existing purse, although it replies with a refusal."""

    def happens(self, event: str) -> str:
        if event == "knit" and self.coins is not None:
            self.coins["said"] = "again?"
        return super().happens(event)


class WritesInPlace(Purse):
    """A purse that writes its file in two parts. Its process may die between the two writes."""

    def keep(self, coins: dict[str, Any]) -> None:
        self.effect()
        self.file.write_text(self.text(coins)[:5], encoding="utf-8")
        self.effect()
        self.file.write_text(self.text(coins), encoding="utf-8")
        self.coins = coins


class WritesTwice(Purse):
    """A purse that writes wrong data first. Its process may die before it writes the right data."""

    def keep(self, coins: dict[str, Any]) -> None:
        super().keep({**coins, "said": "thank"})
        super().keep(coins)


PLANTED = [
    (Lends, "the method record returned the record itself", "knit"),
    (LendsPart, "the method record returned the record itself", "knit"),
    (Hasty, "pay failed, but the record changed: coins was [], and is [1]", "knit; pay=dropped"),
    (
        Forgets,
        "the state of the SUT survived night, but the record changed: said was 'thanks', and is None",
        "knit; night=kept",
    ),
    (Overwrites, "knit was refused, but the record changed: said was 'thanks', and is 'again?'", "knit; knit"),
    (
        WritesInPlace,
        "after a crash the SUT shows TORN, but a restart may show only absent or THERE",
        "crash@1 knit=done,kept",
    ),
    (
        WritesTwice,
        "after a crash the record of the SUT is neither the record before the event nor the one after it: coins was [], and is [1]",
        "knit; crash@2 pay=paid,kept",
    ),
]


@pytest.mark.parametrize(("kind", "says", "test"), PLANTED, ids=lambda each: getattr(each, "__name__", ""))
def test_what_is_wrong_is_noticed(kind: type[Purse], says: str, test: str) -> None:
    machine = machine_of(PURSE)

    found = conform(machine, kind, examples=0)

    told = {each.broken: "; ".join(map(str, each.steps)) for each in found.failures}
    assert [steps for broken, steps in told.items() if says in broken][:1] == [test], told
    again = replay(machine, kind, steps(test))
    assert says in again.failures[0].broken
