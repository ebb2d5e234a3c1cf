"""A purse that keeps its coins in a file: ``purse.py [BUG]``.

It speaks the protocol in docs/reference/exec-protocol.md, and panics if it gets a bad coin. With ``overwrites``, the
purse counts a coin that was dropped; with ``writes-in-place``, a crash may leave its file incomplete; with
``immortal``, it never dies; with ``mortal``, it dies whenever it is asked to.
"""

from __future__ import annotations

import json
import os
import signal
import sys
from pathlib import Path
from typing import Any

BUG = sys.argv[1] if len(sys.argv) > 1 else ""
FILE = Path(os.environ.get("FSM_FOLDER", ""), "purse")


class Purse:
    """A purse in memory and in a file.

    If ``effects`` is set, the process dies after that number of further effects.
    """

    def __init__(self) -> None:
        self.coins: list[int] | None = None
        self.torn = False
        self.wanted: dict[str, str] = {}
        self.effects: int | None = None

    def effect(self) -> None:
        if self.effects == 0 and BUG != "immortal":
            os.kill(os.getpid(), signal.SIGKILL)
        if self.effects is not None:
            self.effects -= 1

    def keep(self, coins: list[int]) -> None:
        other = FILE if BUG == "writes-in-place" else FILE.with_suffix(".new")
        text = json.dumps(coins)
        self.effect()
        other.write_text(text[:1], encoding="utf-8")
        self.effect()
        other.write_text(text, encoding="utf-8")
        other.replace(FILE)
        self.coins = coins

    def load(self) -> None:
        try:
            self.coins, self.torn = json.loads(FILE.read_text(encoding="utf-8")), False
        except FileNotFoundError:
            self.coins, self.torn = None, False
        except ValueError:
            self.coins, self.torn = None, True

    def do(self, event: str) -> str:
        wanted = self.wanted.pop(event, "")
        self.wanted.clear()
        match event:
            case "knit" if self.coins is not None or self.torn:
                return "EXISTS"
            case "knit":
                self.keep([])
            case "pay":
                return self.pay(dropped=wanted == "dropped")
            case "lose":
                self.effect()
                FILE.unlink(missing_ok=True)
                self.coins, self.torn = None, False
            case "bad-coin" if self.coins is not None:
                sys.exit("panic: a bad coin")
            case "night":
                if wanted == "moths" and FILE.exists():
                    FILE.write_text("{", encoding="utf-8")
                self.load()
        return "" if event == "night" else "ok"

    def pay(self, *, dropped: bool) -> str:
        if self.coins is None:
            return "TORN" if self.torn else "NOT_FOUND"
        if not dropped or BUG == "overwrites":
            self.keep([*self.coins, 1])
        return "DROPPED" if dropped else "ok"

    def answer(self, asked: dict[str, Any]) -> dict[str, Any]:
        told: dict[str, Any] = {}
        match asked:
            case {"reset": True}:
                FILE.unlink(missing_ok=True)
                self.__init__()  # type: ignore[misc]
            case {"restart": True}:
                self.do("night")
            case {"arrange": str(event), "outcome": str(outcome)}:
                self.wanted[event] = outcome
            case {"record": True}:
                told["record"] = self.coins
            case {"crash": str(event), "point": int(point)}:
                self.effects = 0 if BUG == "mortal" else point
                if BUG == "mortal":
                    self.effect()
                self.do(event)
            case {"do": str(event)}:
                told["reply"] = self.do(event)
        told["shows"] = "TORN" if self.torn else "absent" if self.coins is None else "THERE"
        return {"id": asked["id"], **told}


def main() -> None:
    purse = Purse()
    print(json.dumps({"fsm": 1, "can": ["arrange", "crash", "record"], "dies": {"reply": "PANIC"}}), flush=True)  # noqa: T201
    for line in sys.stdin:
        print(json.dumps(purse.answer(json.loads(line))), flush=True)  # noqa: T201


if __name__ == "__main__":
    main()
