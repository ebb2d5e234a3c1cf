"""A user's project, with a model of a door, its properties, and implementations."""

from __future__ import annotations

from typing import TYPE_CHECKING

from machines import DOOR, edited

if TYPE_CHECKING:
    from pathlib import Path

CLAIM = 'never = "gone then open"'
PROPERTIES = f"""\
machine = "door"
expect  = {{ states = 4, transitions = 17, depth = 1 }}

[under]
old = {{ states = 4, transitions = 17, depth = 1 }}

[property.gone-for-good]
says   = "A door that was taken away does not come back."
SHOULD = "handbook, section 5"
link   = "https://example.org/doors#gone"
{CLAIM}
catches = ["push in gone: to open"]
fails = {{ under = "old", about = "Ghosts.", length = 2 }}
"""


_HEAD, _, _REST = PROPERTIES.partition("expect ")
PLAIN = _HEAD + "\n" + _REST[_REST.index("[property.") :]

IMPLEMENTATION = '''\
"""A door, and some that are not."""

import time


class Door:
    def reset(self):
        self.at, self.out, self.stuck = "shut", [], False

    def arrange(self, event, outcome):
        self.stuck = outcome == "stuck"
        return True

    def do(self, event):
        gone = self.at == "gone"
        if event == "push":
            if gone:
                return "NOT_FOUND"
            if self.at == "shut":
                if self.stuck:
                    self.stuck = False
                    return "STUCK"
                self.at = "open"
                self.out.append("Creak")
        if event == "remove":
            self.at = "gone"
        if event == "slam" and self.at == "open":
            self.at = "shut"
            self.out.append("Bang")
        return "ok"

    def outputs(self):
        out, self.out = self.out, []
        return out

    def shows(self):
        return {"shut": "CLOSED", "open": "OPEN", "gone": "gone"}[self.at]

    def close(self):
        pass


class Silent(Door):
    """Does not say that it bangs."""

    def outputs(self):
        return [each for each in super().outputs() if each != "Bang"]


class Jammed(Door):
    """Takes no second push."""

    def do(self, event):
        return "JAMMED" if event == "push" and self.at == "open" else super().do(event)


class Nothing(Door):
    def do(self, event):
        from fsm.sut import UnsupportedError

        raise UnsupportedError(event)


class Slow(Door):
    """Looks, and leaps later."""

    def do(self, event):
        if event == "push" and self.at == "shut":
            time.sleep(0.001)
            self.at = "open"
            self.out.append("Creak")
            return "ok"
        return super().do(event)

    def arrange(self, event, outcome):
        return False


class Half:
    def reset(self):
        pass


def broken():
    raise RuntimeError("no door today")


number = 3
'''


def repository(at: Path, *, properties: str = PROPERTIES) -> Path:
    for folder, text in (("models", DOOR), ("properties", properties)):
        (at / folder).mkdir()
        (at / folder / "door.toml").write_text(text, encoding="utf-8")
    return at


def door(at: Path, claim: str, head: str = "") -> str:
    text = head + edited(PLAIN, CLAIM, claim).replace('fails = { under = "old", about = "Ghosts.", length = 2 }\n', "")
    return str(repository(at, properties=text) / "properties" / "door.toml")
