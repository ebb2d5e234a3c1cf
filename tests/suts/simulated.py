"""A simulated implementation of a machine: ``simulated.py MODEL``.

It speaks the protocol in docs/reference/exec-protocol.md.
"""

from __future__ import annotations

import json
import sys
from typing import TYPE_CHECKING, Any

from fsm.conformance.lookup import Simulated
from fsm.language.library import load
from fsm.sut import UnsupportedError

if TYPE_CHECKING:
    from collections.abc import Mapping


def answer(sut: Simulated, asked: Mapping[str, Any]) -> dict[str, Any]:
    reply: str | None = None
    try:
        match asked:
            case {"reset": True}:
                sut.reset()
            case {"do": str(event)}:
                reply = sut.do(event)
            case {"begin": str(event)}:
                reply = sut.begin(event)
            case {"end": str(event)}:
                reply = sut.end(event)
            case {"arrange": str(event), "outcome": str(outcome)}:
                return {"unsupported": not sut.arrange(event, outcome)}
            case {"shows": True}:
                return {"shows": sut.shows()}
    except UnsupportedError:
        return {"unsupported": True}
    return {"reply": reply, "outputs": sut.outputs()}


def main(model: str) -> None:
    sut = Simulated(load(model))
    print(json.dumps({"fsm": 1, "can": ["arrange", "outputs", "overlap"]}), flush=True)  # noqa: T201
    for line in sys.stdin:
        asked = json.loads(line)
        print(json.dumps({"id": asked["id"], **answer(sut, asked)}), flush=True)  # noqa: T201


if __name__ == "__main__":
    main(sys.argv[1])
