"""An order, and six bugs that can be switched on: ``Order("limit")``."""

from collections.abc import Callable
from functools import partial

BUGS = ("limit", "too-much", "refunds", "late", "cancel", "large")


class Order:
    """An order that is paid and refunded in parts."""

    def __init__(self, bug: str = "") -> None:
        self.bug = bug
        self.reset()

    def reset(self) -> None:
        self.state = "cart"
        self.price = self.paid = self.back = self.tries = 0
        self.left = 0.0  # seconds until the order expires

    def advance(self, seconds: float) -> None:
        """Let virtual time pass."""
        due = self.state == "due" and not (self.bug == "late" and self.paid)
        self.left -= seconds
        if due and self.left <= 0:
            self.state = "closed"

    def do(self, event: str, **args: int) -> str:
        reply: str = getattr(self, event)(**args)
        return reply

    def shows(self) -> str:
        return self.state

    def fields(self) -> dict[str, int]:
        return {"paid": self.paid, "back": self.back}

    def close(self) -> None: ...

    def place(self, amount: int) -> str:
        if self.state != "cart":
            return "PLACED"
        self.state, self.price, self.left = "due", amount, 3_600.0
        return "ok"

    def pay(self, amount: int, *, ok: bool) -> str:
        if self.state != "due":
            return "NOT_DUE"
        if not ok:
            return self._declined()
        if self.bug == "large":
            amount %= 1000
        if self.paid + amount > self.price and self.bug != "too-much":
            return "TOO_MUCH"
        self.paid += amount
        if self.paid >= self.price:
            self.state = "done"
        return "ok"

    def _declined(self) -> str:
        if self.tries == (6 if self.bug == "limit" else 5):
            self.state = "closed"
            return "LOCKED"
        self.tries += 1
        return "NO"

    def refund(self, amount: int) -> str:
        if self.state != "done":
            return "NOT_PAID"
        if (amount if self.bug == "refunds" else self.back + amount) > self.paid:
            return "TOO_MUCH"
        self.back += amount
        if self.back == self.paid:
            self.state = "closed"
        return "ok"

    def cancel(self) -> str:
        if self.state != "due" and not (self.bug == "cancel" and self.state == "done" and self.back):
            return "NO"
        self.state = "closed"
        return "ok"

    def expire(self) -> str:
        """Nothing expires without its time."""
        return ""


def orders(bug: str = "") -> Callable[[], Order]:
    """Return a function that makes orders with the bug."""
    return partial(Order, bug)
