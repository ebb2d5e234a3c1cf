"""Random tests draw arguments in the range, beside the constants of conditions, and far beyond a scope."""

from __future__ import annotations

from typing import Any

from hypothesis import Phase, find, settings
from hypothesis.errors import NoSuchExample
from machines import machine_of

from fsm.conformance.lookup import factory_of
from fsm.conformance.plan import Plan
from fsm.conformance.scheme import SutRequest
from fsm.conformance.stateful import argument_strategies
from fsm.machine.table import tabulate

PAY = machine_of("""\
[machine]
name = "pay"
title = "A payment"
about = "Of an amount."
source = "a test"
initial = "on"

[states]
on = { about = "" }

[event.pay]
kind = "call"
about = ""
arguments.amount = { from = 1, to = 3, scope = true }
arguments.tip = { from = 0, to = 500 }
arguments.card = { type = "bool" }
arguments.kind = { values = ["a", "b"] }
moves.on = [
  { name = "large", stays = true, when = "amount >= 70000 or tip == 333" },
  { name = "small", stays = true, when = "otherwise", reply = "SMALL" },
]
""")


def is_drawn(name: str, *values: object, draws: int = 400) -> bool:
    strategy = argument_strategies(Plan(tabulate(PAY)), {})["pay"][name]
    try:
        find(strategy, lambda value: value in values, settings=settings(max_examples=draws, phases=[Phase.generate]))
    except NoSuchExample:
        return False
    return True


def test_arguments_are_in_the_range_beside_constants_and_far_beyond_a_scope() -> None:
    for value in (1, 2, 3, 69_999, 70_000, 70_001):
        assert is_drawn("amount", value)
    assert is_drawn("amount", *range(4, 10_000))
    assert is_drawn("amount", *range(100_000, 2_000_000))
    assert is_drawn("tip", 333)
    assert is_drawn("tip", 334)
    assert is_drawn("card", *[True])
    assert is_drawn("kind", "b")


def test_no_value_is_outside_a_range_that_is_not_a_scope() -> None:
    assert not is_drawn("tip", *range(-100, 0), *range(501, 10_000))
    assert not is_drawn("amount", *range(-100, 1))
    assert not is_drawn("kind", "c")


class Payment:
    def reset(self) -> None: ...

    def do(self, event: str, *, amount: int, tip: int, card: bool, kind: str) -> str:  # noqa: ARG002
        return "ok" if amount >= 70_000 or tip == 333 else "SMALL"

    def shows(self) -> str:
        return "on"

    def close(self) -> None: ...


def test_a_time_limit_does_not_keep_arguments_away() -> None:
    name = f"{__name__}:Payment"
    sut: Any = factory_of(f"python:{name}", SutRequest(rest=name, machine=PAY, timeout=30))()

    assert sut.do("pay", amount=70_000, tip=0, card=True, kind="a") == "ok"
