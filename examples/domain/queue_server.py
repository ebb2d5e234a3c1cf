"""A job queue for trying the package out. It serves while another command runs:

    python queue_server.py [--bug] COMMAND...

In COMMAND, ``{address}`` is the address of the queue. With ``--bug``, workers can take jobs that are already done.
"""

import subprocess
import sys
from socketserver import StreamRequestHandler, ThreadingTCPServer
from threading import Thread

TABLE = {
    "submit": {"absent": "queued", "queued": "EXISTS", "running": "EXISTS", "done": "EXISTS"},
    "take": {"absent": "NOT_FOUND", "queued": "running", "running": "BUSY", "done": "DONE"},
    "finish": {"absent": "NOT_FOUND", "queued": "NOT_RUNNING", "running": "done", "done": "NOT_RUNNING"},
    "expire": {"running": "queued"},
}
"""For each command and state of a job, the next state, or an error in capitals."""

STATES: dict[str, str] = {}
"""Maps each submitted job to its state."""


def answer(command: str, job: str) -> str:
    """Carry out *command* on *job*, and return the reply."""
    state = STATES.get(job, "absent")
    if command == "state":
        return state
    found = TABLE[command][state]
    if found.isupper():
        return found
    STATES[job] = found
    return "ok"


class Connection(StreamRequestHandler):
    """A connection with one line for each command and one line for each reply."""

    def handle(self) -> None:
        """Answer commands until the client closes the connection."""
        for line in self.rfile:
            self.wfile.write(answer(*line.decode().split()).encode() + b"\n")


def main(words: list[str]) -> int:
    """Serve while the command in *words* runs, and return the exit code of the command."""
    if words[0] == "--bug":
        TABLE["take"]["done"] = "running"
        words = words[1:]
    with ThreadingTCPServer(("127.0.0.1", 0), Connection) as server:
        Thread(target=server.serve_forever, daemon=True).start()
        address = f"127.0.0.1:{server.server_address[1]}"
        done = subprocess.run([word.replace("{address}", address) for word in words], check=False)
        server.shutdown()
    return done.returncode


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
