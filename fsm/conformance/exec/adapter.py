"""A SUT that is a child process, in any language: one line of JSON asks it, one line answers.

The protocol is that of ``docs/exec-protocol.md``.  After a :class:`~fsm.sut.BrokenError`, which states what was asked,
what came, and what would have been right, the child is ended, and the next reset starts it again.
"""

from __future__ import annotations

import errno
import shlex
import shutil
from collections.abc import Sequence
from threading import RLock
from typing import Final, Literal, TypeAlias

import msgspec

from fsm.conformance.exec.transport import Process, TalkError, shown
from fsm.sut import BrokenError, UnsupportedError

VERSION: Final = 1

TIMEOUT: Final = 5.0
"""Seconds that an answer may take."""

START: Final = 30.0
"""Seconds that a child may take until it greets."""

GRACE: Final = 2.0
"""Seconds that a child has to end by itself."""

Ability: TypeAlias = Literal["arrange", "outputs", "overlap"]


class Greeting(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The first line of a child: the protocol's version, and what it can do that not every SUT can."""

    fsm: int
    can: tuple[Ability, ...] = ()


class ChildRequest(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What a child is asked: one of these, ``outcome`` beside ``arrange``; ``id`` is set when it is sent."""

    id: int = 0
    reset: bool = False
    do: str = ""
    arrange: str = ""
    outcome: str = ""
    begin: str = ""
    end: str = ""
    shows: bool = False


class ChildAnswer(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What a child answers; all but the ``id`` may be left out."""

    id: int
    reply: str | None = None
    shows: str | None = None
    outputs: tuple[str, ...] = ()
    unsupported: bool = False


def child(
    command: str | Sequence[str], *, timeout: float = TIMEOUT, start: float = START, grace: float = GRACE
) -> Child:
    """The SUT that *command* is, once it has greeted; its greeting states what it supports beyond a SUT.

    A text is split as a shell would, but no shell runs it.  An answer may take *timeout* seconds, the greeting *start*
    seconds, and to end by itself *grace* seconds.  Raises :class:`OSError` where there is no such command, and
    :class:`BrokenError` where it does not greet.

    >>> from fsm.sut import Arranging
    >>> code = 'echo \\'{"fsm":1}\\'; while read -r line; do echo \\'{"id":1,"shows":"SHUT"}\\'; done'
    >>> door = child(["sh", "-c", code])
    >>> door.reset()
    >>> door.shows(), isinstance(door, Arranging)
    ('SHUT', False)
    >>> door.close()
    """
    words = tuple(shlex.split(command) if isinstance(command, str) else command)
    if not words:
        raise ValueError("a command has at least one word")
    if shutil.which(words[0]) is None:
        raise FileNotFoundError(errno.ENOENT, "no command that can be run", words[0])
    talk = Talk(words, timeout=timeout, start=start, grace=grace)
    more = tuple(_MORE[ability] for ability in sorted(talk.can))
    kind = type("Child", (*more, Child), {}) if more else Child
    made: Child = kind(talk)
    return made


class Talk:
    """Requests to *command* and its answers, one at a time; the command is started when it is not running."""

    def __init__(self, command: tuple[str, ...], *, timeout: float, start: float, grace: float) -> None:
        self._command = command
        self._timeout = timeout
        self._start = start
        self._grace = grace
        self._lock = RLock()
        self._process: Process | None = None
        self._broken = ""
        self._number = 0
        self.can = self._greeted()

    def reset(self) -> ChildAnswer:
        """Reset it, in a process of its own if there is none that runs."""
        with self._lock:
            if self._process is None:
                if self._broken == _CLOSED:
                    raise BrokenError(f"{shlex.join(self._command)} {_CLOSED}")
                can = self._greeted()
                if can != self.can:
                    problem = f"now greets with {_listed(can)}, and with {_listed(self.can)} when it was first started"
                    raise self._breaks(problem)
            return self.ask(ChildRequest(reset=True))

    def ask(self, request: ChildRequest) -> ChildAnswer:
        with self._lock:
            if self._process is None:
                raise BrokenError(f"{self._broken}; it is started again by the next reset")
            self._number += 1
            asked = msgspec.json.encode(msgspec.structs.replace(request, id=self._number))
            line = self._exchanged(self._process, asked)
            return self._answer(line, asked)

    def close(self) -> None:
        with self._lock:
            process, self._process, self._broken = self._process, None, _CLOSED
            if process is not None:
                process.end(gently=True)

    def _greeted(self) -> frozenset[Ability]:
        """Start the process; the abilities in its greeting."""
        self._number = 0
        self._process = Process(self._command, grace=self._grace)
        line = self._exchanged(self._process, b"")
        try:
            greeting = _GREETING.decode(line)
        except msgspec.MsgspecError as error:
            raise self._breaks(f"greets with {shown(line)}: {error}", right=_HELLO) from None
        if greeting.fsm != VERSION:
            problem = f"speaks version {greeting.fsm} of the protocol, and this is version {VERSION}"
            raise self._breaks(problem, right=_HELLO)
        return frozenset(greeting.can)

    def _exchanged(self, process: Process, asked: bytes) -> bytes:
        """The line that comes once *asked* was sent, or the greeting."""
        right = _RIGHT if asked else _HELLO
        try:
            if asked:
                process.write(asked + b"\n", timeout=self._timeout)
            return process.read(timeout=self._timeout if asked else self._start)
        except TalkError as error:
            raise self._breaks(str(error), asked, right=right) from None
        except BaseException:  # interrupted: what comes next would be the answer to this
            self._breaks("was interrupted", asked)
            raise

    def _answer(self, line: bytes, asked: bytes) -> ChildAnswer:
        try:
            answer = _ANSWER.decode(line)
        except msgspec.MsgspecError as error:
            raise self._breaks(f"answers {shown(line)}: {error}", asked, right=_RIGHT) from None
        if answer.id != self._number:
            problem = f"answers {shown(line)}, which has the id {answer.id} and not {self._number}"
            raise self._breaks(problem, asked, right="each request is answered once, in turn, with its own id")
        if answer.outputs and "outputs" not in self.can:
            problem = f"answers {shown(line)}, and its greeting did not have outputs"
            raise self._breaks(problem, asked, right='add it to the greeting: {"fsm":1,"can":["outputs"]}')
        return answer

    def _breaks(self, problem: str, asked: bytes = b"", *, right: str = "") -> BrokenError:
        """The error with the *problem* of the process, which is ended, and what would have been *right*."""
        process, self._process = self._process, None
        errors = ""
        if process is not None:
            process.end(gently=False)
            errors = " / ".join(map(repr, process.errors()))
        where = f", asked {asked.decode()}," if asked else ""
        ends = f"its standard error ends with {errors}" if errors else ""
        self._broken = "; ".join(filter(None, [f"{shlex.join(self._command)}{where} {problem}", right, ends]))
        return BrokenError(self._broken)


class Child:
    """A child process as a SUT, for several threads: one request is answered before the next is sent."""

    def __init__(self, talk: Talk) -> None:
        self._talk = talk
        self._shows: str | None = None
        self._outputs: list[str] = []
        self._lock = RLock()

    def reset(self) -> None:
        """Reset it; a child that has ended is started again."""
        with self._lock:
            self._outputs.clear()
            self._shows = None
            self._noted(self._talk.reset())
            self._outputs.clear()

    def do(self, event: str) -> str:
        return self._replied(ChildRequest(do=event), event) or ""

    def shows(self) -> str:
        """What the last answer shows, or the answer to a request for it if that one had none."""
        with self._lock:
            if self._shows is not None:
                return self._shows
            answer = self._talk.ask(ChildRequest(shows=True))
            self._outputs += answer.outputs
            return answer.shows or ""

    def close(self) -> None:
        self._talk.close()

    def _replied(self, request: ChildRequest, event: str) -> str | None:
        with self._lock:
            answer = self._talk.ask(request)
            self._noted(answer)
        if answer.unsupported:
            raise UnsupportedError(event)
        return answer.reply

    def _noted(self, answer: ChildAnswer) -> None:
        self._shows = answer.shows
        self._outputs += answer.outputs


class _Outputs(Child):
    def outputs(self) -> tuple[str, ...]:
        with self._lock:
            out, self._outputs = tuple(self._outputs), []
            return out


class _Arranges(Child):
    def arrange(self, event: str, outcome: str) -> bool:
        with self._lock:
            answer = self._talk.ask(ChildRequest(arrange=event, outcome=outcome))
            self._outputs += answer.outputs
            return not answer.unsupported


class _Overlaps(Child):
    def begin(self, event: str) -> str | None:
        return self._replied(ChildRequest(begin=event), event)

    def end(self, event: str) -> str | None:
        return self._replied(ChildRequest(end=event), event)


_MORE: Final[dict[Ability, type[Child]]] = {"arrange": _Arranges, "outputs": _Outputs, "overlap": _Overlaps}

_GREETING: Final = msgspec.json.Decoder(Greeting)
_ANSWER: Final = msgspec.json.Decoder(ChildAnswer)

_CLOSED: Final = "was closed"
_HELLO: Final = 'its first line is to be {"fsm":1,"can":[]}, written and flushed (docs/exec-protocol.md)'
_RIGHT: Final = 'an answer is one line such as {"id":1,"reply":"ok"}, written and flushed (docs/exec-protocol.md)'


def _listed(can: frozenset[Ability]) -> str:
    return ", ".join(sorted(can)) or "nothing more"
