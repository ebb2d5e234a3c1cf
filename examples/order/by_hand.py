"""The test of the order as written by hand, with the order as a machine of ``transitions``."""

from collections.abc import Callable

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule
from order import Order
from transitions import Machine, MachineError

AMOUNTS = st.integers(1, 5_000)


class Expected:
    """The order as it should be."""

    def __init__(self) -> None:
        self.price = self.paid = self.back = self.tries = 0
        self.machine = Machine(self, ["cart", "due", "done", "closed"], initial="cart", auto_transitions=False)
        add = self.machine.add_transition
        add("place", "cart", "due", after="keep_price")
        add("accepted", "due", "due", conditions="is_part", after="keep_payment")
        add("accepted", "due", "done", conditions="is_rest", after="keep_payment")
        add("declined", "due", "due", conditions="may_try", after="keep_try")
        add("declined", "due", "closed", unless="may_try")
        add("refund", "done", "done", conditions="is_partly_back", after="keep_refund")
        add("refund", "done", "closed", conditions="is_all_back", after="keep_refund")
        add("cancel", "due", "closed")
        add("expire", "due", "closed")

    def is_part(self, amount: int) -> bool:
        return self.paid + amount < self.price

    def is_rest(self, amount: int) -> bool:
        return self.paid + amount == self.price

    def is_partly_back(self, amount: int) -> bool:
        return self.back + amount < self.paid

    def is_all_back(self, amount: int) -> bool:
        return self.back + amount == self.paid

    def may_try(self) -> bool:
        return self.tries < 5

    def keep_price(self, amount: int) -> None:
        self.price = amount

    def keep_payment(self, amount: int) -> None:
        self.paid += amount

    def keep_refund(self, amount: int) -> None:
        self.back += amount

    def keep_try(self) -> None:
        self.tries += 1


def by_hand(make: Callable[[], Order]) -> type[RuleBasedStateMachine]:
    """Return the test as a Hypothesis state machine."""

    class Orders(RuleBasedStateMachine):
        @initialize()
        def begin(self) -> None:
            self.order, self.expected = make(), Expected()

        @rule(amount=AMOUNTS)
        def place(self, amount: int) -> None:
            before = self.expected.state
            reply = self.order.do("place", amount=amount)
            if before == "cart":
                self.expected.place(amount)
            assert reply == ("ok" if before == "cart" else "PLACED")

        @rule(amount=AMOUNTS, ok=st.booleans())
        def pay(self, amount: int, ok: bool) -> None:
            before = self.expected.state
            reply = self.order.do("pay", amount=amount, ok=ok)
            if before != "due":
                assert reply == "NOT_DUE"
            elif ok:
                assert reply == ("ok" if self.expected.accepted(amount) else "TOO_MUCH")
            else:
                self.expected.declined()
                assert reply == ("NO" if self.expected.state == "due" else "LOCKED")

        @rule(amount=AMOUNTS)
        def refund(self, amount: int) -> None:
            before = self.expected.state
            reply = self.order.do("refund", amount=amount)
            if before != "done":
                assert reply == "NOT_PAID"
            else:
                assert reply == ("ok" if self.expected.refund(amount) else "TOO_MUCH")

        @rule()
        def cancel(self) -> None:
            try:
                self.expected.cancel()
                expected = "ok"
            except MachineError:
                expected = "NO"
            assert self.order.do("cancel") == expected

        @rule()
        def hour(self) -> None:
            if self.expected.state == "due":
                self.expected.expire()
            self.order.advance(3_660)

        @invariant()
        def agree(self) -> None:
            expected = self.expected
            assert self.order.shows() == expected.state
            assert self.order.fields() == {"paid": expected.paid, "back": expected.back}

    return Orders
