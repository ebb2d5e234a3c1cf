"""A counter up to three that answers requests in parallel: ``tally.py [unlocked] [serial]``.

It speaks the protocol in docs/reference/exec-protocol.md.
"""

from __future__ import annotations

import json
import sys
import threading
import time
from contextlib import nullcontext


def main(*how: str) -> None:
    """Answer each request in a thread of its own.

    With ``unlocked``, a thread may write back an outdated value.
    """
    lock = nullcontext() if "unlocked" in how else threading.Lock()
    writing = threading.Lock()
    count = 0

    def answer(asked: dict[str, object]) -> None:
        nonlocal count
        reply = "ok"
        with lock:
            found = count
            if asked.get("do") == "add":
                time.sleep(0.001)
                count, reply = (found, "FULL") if found == 3 else (found + 1, "ok")
            elif "do" in asked or "reset" in asked:
                count = 0
            told = {"id": asked["id"], "reply": reply, "shows": f"n{count}"}
        with writing:
            print(json.dumps(told), flush=True)  # noqa: T201

    print(json.dumps({"fsm": 1, "can": [] if "serial" in how else ["parallel"]}), flush=True)  # noqa: T201
    for line in sys.stdin:
        threading.Thread(target=answer, args=(json.loads(line),)).start()


if __name__ == "__main__":
    main(*sys.argv[1:])
