"""A job queue as a system under test, driven over TCP: ``jobs:HOST:PORT``."""

from collections.abc import Callable
from functools import partial
from socket import create_connection
from uuid import uuid4

from fsm import SUT
from fsm.conformance.scheme import Scheme, SchemeOption, SutRequest
from fsm.errors import refused


class Job:
    """A job of the queue called *queue*; each test uses a new job."""

    def __init__(self, host: str, port: int, queue: str, timeout: float) -> None:
        self._socket = create_connection((host, port), timeout)
        self._lines = self._socket.makefile("rw", encoding="utf-8", newline="\n")
        self._queue = queue

    def reset(self) -> None:
        """Choose an unused job name, because the queue never forgets a job."""
        self._job = f"{self._queue}/{uuid4().hex}"

    def do(self, event: str) -> str:
        """Return the queue's reply to *event*. The end of a lease is not a call, so its reply is empty."""
        reply = self._ask(event)
        return "" if event == "expire" else reply

    def shows(self) -> str:
        return self._ask("state")

    def close(self) -> None:
        self._lines.close()
        self._socket.close()

    def _ask(self, command: str) -> str:
        print(command, self._job, file=self._lines, flush=True)
        answer = self._lines.readline()
        if not answer:
            raise ConnectionError("the queue has closed the connection")
        return answer.strip()


def connection(asked: SutRequest) -> Callable[[], SUT]:
    """Return a function that connects to the queue whose address is in *asked*."""
    host, _, port = asked.rest.rpartition(":")
    if not host or not port.isdecimal():
        raise refused(f"jobs:{asked.rest}", "FSM601", "is not the address of a queue", "use jobs:HOST:PORT")
    return partial(Job, host, int(port), asked.options.get("queue", "test"), asked.timeout or 5)


JOBS = Scheme(
    name="jobs",
    rest="HOST:PORT",
    about="a job queue over TCP",
    factory=connection,
    options=(SchemeOption(name="--queue", metavar="NAME", help="Queue for the jobs of the tests. Default: test."),),
)
