"""A small connection pool for threads, and the log that it writes. ``Pool(bugs={"double-lending"})`` has a bug."""

import argparse
import contextlib
import logging
import random
import sys
import threading
import time
from collections.abc import Iterable, Iterator

LOG = logging.getLogger("pool")
LOG.addHandler(logging.NullHandler())
FORMAT = "%(asctime)s %(levelname)-7s [%(threadName)s] pool: %(message)s"
BUGS = {
    "double-lending": "looks whether a connection is free before taking the lock, so two threads may get the same one",
    "revived": "a connection that is returned after its pool was closed becomes idle, and is never closed",
    "dirty-return": "a connection that was lost while it was in use becomes idle when it is returned",
    "close-twice": "closing a connection again is an error",
    "tired-check": "every second health check does not look at the connection",
}


class Connection:
    """A connection to a server. Each method returns the result that it logs."""

    def __init__(self, name: str, bugs: Iterable[str] = ()) -> None:
        self.name, self.state, self.bugs, self.checks = name, "new", frozenset(bugs), 0
        self._lock = threading.RLock()

    def open(self) -> str:
        with self._lock:
            if self.state != "new":
                return self._log("connect", "open")
            self.state = "idle"
            return self._log("connect", "done")

    def lend(self) -> str:
        before = self.state
        with self._lock:
            state = before if "double-lending" in self.bugs else self.state
            if state in {"in use", "lost", "draining"}:
                return self._log("lend", "busy")
            if state != "idle":
                return self._log("lend", "broken" if state == "broken" else "closed")
            self.state = "in use"
            return self._log("lend", "done")

    def give_back(self) -> str:
        with self._lock:
            if self.state not in {"in use", "lost", "draining"}:
                return self._log("return", "free")
            kept = {"in use", *(["lost"] * ("dirty-return" in self.bugs)), *(["draining"] * ("revived" in self.bugs))}
            self.state = "idle" if self.state in kept else "closed"
            return self._log("return", "done")

    def lose(self) -> None:
        with self._lock:
            if self.state in {"idle", "in use", "draining"}:
                self.state = "broken" if self.state == "idle" else "lost"
                self._log("lost")

    def check(self) -> str:
        with self._lock:
            if self.state not in {"idle", "broken"}:
                return self._log("probe", "closed" if self.state in {"new", "closed"} else "busy")
            self.checks += 1
            if self.state == "idle" or ("tired-check" in self.bugs and self.checks % 2 == 0):
                return self._log("probe", "done")
            self.state = "closed"
            return self._log("probe", "broken")

    def close(self) -> str:
        with self._lock:
            if self.state == "closed" and "close-twice" in self.bugs:
                return self._log("close", "closed")
            if self.state == "in use":
                self.state = "draining"
            elif self.state in {"new", "idle", "broken"}:
                self.state = "closed"
            return self._log("close", "done")

    def _log(self, what: str, result: str = "") -> str:
        level = logging.INFO if result == "done" else logging.WARNING
        LOG.log(level, "%s %s%s", what, self.name, result and f": {result}")
        return result


class Pool:
    """Lends its connections to threads."""

    def __init__(self, size: int, bugs: Iterable[str] = ()) -> None:
        self.connections = [Connection(f"conn-{number + 1}", bugs) for number in range(size)]
        for each in self.connections:
            each.open()
        LOG.info("%d connections", size)

    @contextlib.contextmanager
    def lent(self) -> Iterator[Connection | None]:
        """Lend any free connection for the length of a ``with`` block, or ``None`` if there is none."""
        found = next((each for each in self.connections if each.state == "idle" and each.lend() == "done"), None)
        try:
            yield found
        finally:
            if found:
                found.give_back()

    def check(self) -> None:
        for each in self.connections:
            each.check()

    def close(self) -> None:
        for each in self.connections:
            each.close()


def run(bugs: Iterable[str], *, seed: int = 0, threads: int = 6, size: int = 4) -> None:
    """Let threads use a pool whose connections are lost now and then, and close it while some are in use."""
    pool = Pool(size, bugs)

    def work(own: random.Random) -> None:
        for _ in range(40):
            with pool.lent() as connection:
                time.sleep(own.uniform(0, 0.001))
                if connection and own.random() < 0.01:
                    connection.lose()
            if own.random() < 0.02:
                own.choice(pool.connections).lose()
            if own.random() < 0.05:
                pool.check()

    sources = [random.Random(seed + number) for number in range(threads)]
    workers = [threading.Thread(target=work, args=(each,), name=f"worker-{n}") for n, each in enumerate(sources)]
    for each in workers:
        each.start()
    time.sleep(0.03)
    pool.close()
    for each in workers:
        each.join()
    pool.close()


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--bug", action="append", default=[], choices=BUGS)
    parser.add_argument("--seed", type=int, default=0)
    given = parser.parse_args()
    logging.basicConfig(stream=sys.stdout, level=logging.INFO, format=FORMAT)
    sys.setswitchinterval(1e-6)
    run(given.bug, seed=given.seed)
