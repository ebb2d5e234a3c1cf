"""A lease with a virtual clock, as a child process.  The first argument is its term in seconds."""

import json
import sys


def say(**answer: object) -> None:
    sys.stdout.write(json.dumps(answer) + "\n")
    sys.stdout.flush()


def main(term: float) -> None:
    state, now, ends = "free", 0.0, float("inf")
    say(fsm=1, can=["advance"])
    for line in sys.stdin:
        request = json.loads(line)
        reply = ""
        if "reset" in request:
            state, now, ends = "free", 0.0, float("inf")
        now += request.get("advance", 0)
        if now >= ends:
            state, ends = "expired", float("inf")
        match request.get("do"), state:
            case "acquire", "held":
                reply = "HELD"
            case ("acquire", _) | ("renew", "held"):
                state, ends, reply = "held", now + term, "ok"
            case "renew", _:
                reply = "NOT_HELD"
            case "release", _:
                state, ends, reply = "free", float("inf"), "ok"
        say(id=request["id"], reply=reply, shows=state)


if __name__ == "__main__":
    main(float(sys.argv[1]))
