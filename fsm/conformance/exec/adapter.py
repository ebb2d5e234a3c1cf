"""A SUT that is a child process, in any language: one line of JSON asks it, one line answers.

The protocol is that of ``docs/reference/exec-protocol.md``.  After a :class:`~fsm.sut.BrokenError`, which states what was asked,
what came, and what would have been right, the child is ended, and the next reset starts it again.
"""

from __future__ import annotations

import errno
import shlex
import shutil
from collections.abc import Sequence
from threading import Condition
from typing import Any, Final, Literal, TypeAlias

import msgspec

from fsm.conformance.crash import WHOLE
from fsm.conformance.exec.transport import EndedError, Process, TalkError, shown
from fsm.errors import documented
from fsm.recordings.line_reader import decode
from fsm.scratch import ScratchFolder
from fsm.sut import BrokenError, UnsupportedError, drained

VERSION: Final = 1

TIMEOUT: Final = 5.0
"""Seconds that an answer may take."""

START: Final = 30.0
"""Seconds that a child may take until it greets."""

GRACE: Final = 2.0
"""Seconds that a child has to end by itself."""

Ability: TypeAlias = Literal["arrange", "crash", "fields", "outputs", "overlap", "parallel", "record"]


class Death(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What it counts as that the child ends in the middle of an event; without ``shows`` the next process is asked."""

    reply: str = ""
    shows: str | None = None
    outputs: tuple[str, ...] = ()


class Greeting(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The first line of a child: the protocol's version, what it can do that not every SUT can, and what its end is."""

    fsm: int
    can: frozenset[Ability] = frozenset()
    dies: Death | None = None


class ChildRequest(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What a child is asked: one of these, with what belongs to it; ``id`` is set when it is sent."""

    id: int = 0
    reset: bool = False
    restart: bool = False
    do: str = ""
    arrange: str = ""
    outcome: str = ""
    stage: str = ""
    begin: str = ""
    end: str = ""
    crash: str = ""
    point: int | None = None
    shows: bool = False
    record: bool = False
    fields: bool = False


class ChildAnswer(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What a child answers; all but the ``id`` may be left out."""

    id: int
    reply: str | None = None
    shows: str | None = None
    outputs: tuple[str, ...] = ()
    record: Any = msgspec.UNSET
    fields: dict[str, int | str] = {}
    unsupported: bool | str = False


def child(
    command: str | Sequence[str], *, timeout: float = TIMEOUT, start: float = START, grace: float = GRACE
) -> Child:
    """The SUT that *command* is, once it has greeted; its greeting states what it supports beyond a SUT.

    A text is split as a shell would, but no shell runs it.  An answer may take *timeout* seconds, the greeting *start*
    seconds, and to end by itself *grace* seconds.  Raises :class:`OSError` where there is no such command, and
    :class:`BrokenError` where it does not greet.

    >>> from fsm.sut import ArrangingStages
    >>> code = 'echo \\'{"fsm":1}\\'; while read -r line; do echo \\'{"id":1,"shows":"SHUT"}\\'; done'
    >>> door = child(["sh", "-c", code])
    >>> door.reset()
    >>> door.shows(), isinstance(door, ArrangingStages)
    ('SHUT', False)
    >>> door.close()
    """
    words = tuple(shlex.split(command) if isinstance(command, str) else command)
    if not words:
        raise ValueError("a command has at least one word")
    if shutil.which(words[0]) is None:
        raise FileNotFoundError(errno.ENOENT, "no command that can be run", words[0])
    talk = Talk(words, timeout=timeout, start=start, grace=grace)
    can = talk.greeting.can
    missing = [name for ability, names in _METHODS.items() if ability not in can for name in names]
    missing += ["serial"] if "parallel" in can else []
    made: Child = type("Child", (Child,), dict.fromkeys(missing))(talk)
    return made


class Talk:
    """Requests to *command* and its answers; the command is started when it is not running.

    Several threads may ask at once: one of those that wait reads for all.  ``shows`` is what the last answer shows, if no
    other request was in progress meanwhile; ``outputs`` are those that have not been taken; ``arranged`` what was arranged
    for the next event.  The process has ``died`` if its end was the answer.
    """

    def __init__(self, command: tuple[str, ...], *, timeout: float, start: float, grace: float) -> None:
        self.name = shlex.join(command)
        self.shows: str | None = None
        self.outputs: list[str] = []
        self.arranged: list[ChildRequest] = []
        self._command = command
        self._timeout = timeout
        self._start = start
        self._grace = grace
        self._changed = Condition()
        self._folder = ScratchFolder()
        self._broken = ""
        self._deadly: set[str] = set()
        self._process: Process | None = None
        self._reading = False
        self.greeting = Greeting(fsm=0)
        try:
            self._greeted()
        except BaseException:
            self._folder.close()
            raise

    def reset(self) -> None:
        """Reset it, in a process and a folder of its own if there is none that runs."""
        if self._process is None and self._broken != _CLOSED:
            self._folder.close()
            self._folder = ScratchFolder()
            self._greeted()
        self.ask(ChildRequest(reset=True))
        self.outputs.clear()

    def restart(self, *before: ChildRequest) -> None:
        """Let a new process go on with what the last one has left in the folder, after it was asked what comes *before*."""
        if self._process is not None:
            self._process.end(gently=False)
        self._greeted()
        for request in (*before, ChildRequest(restart=True)):
            self.ask(request)

    def ask(self, request: ChildRequest) -> ChildAnswer:
        with self._changed:
            if self.died:
                self.restart()
            if self._process is None:
                what = f"{self.name} {_CLOSED}" if self._broken == _CLOSED else self._broken
                raise BrokenError(f"{what}; it is started again by the next reset")
            self._number += 1
            asked = msgspec.structs.replace(request, id=self._number)
            self._alone = not self._waiting
            self._waiting[asked.id] = None
            line = msgspec.json.encode(asked)
            try:
                self._process.write(line + b"\n", timeout=self._timeout)
                answer = self._awaited(self._process, asked)
            except EndedError as error:
                alone = len(self._waiting) == 1
                return self._death(asked, self._breaks(str(error), line, right=_RIGHT), alone=alone)
            except TalkError as error:
                raise self._breaks(str(error), line, right=error.right or _RIGHT) from None
            except BrokenError:
                raise
            except BaseException:  # interrupted: what comes next would be the answer to this
                self._breaks("was interrupted", line)
                raise
            if request.arrange:
                self.arranged.append(request)
            elif not (request.shows or request.record or request.fields):
                self.arranged = []
                self.shows = answer.shows if self._alone else None
            self.outputs += answer.outputs
            return answer

    def _awaited(self, process: Process, asked: ChildRequest) -> ChildAnswer:
        """The answer to what was *asked*; meanwhile other threads can ask, and what is read may be for them."""
        waiting = self._waiting
        while (answer := waiting.get(asked.id)) is None:
            if waiting is not self._waiting:
                raise BrokenError(self._broken)
            if self._reading:
                self._changed.wait()
                continue
            self._reading = True
            self._changed.release()
            try:
                line = process.read(timeout=self._timeout)
            finally:
                self._changed.acquire()
                self._reading = False
                self._changed.notify_all()
            found = self._decoded(line)
            waiting[found.id] = found
        del waiting[asked.id]
        if asked.record and answer.record is msgspec.UNSET:
            raise TalkError("answers without its record", 'what remembers nothing answers "record":null')
        return answer

    def _decoded(self, line: bytes) -> ChildAnswer:
        try:
            answer = decode(line, _ANSWER)
        except ValueError as error:
            raise TalkError(f"answers {shown(line)}: {error}") from None
        if self._waiting.get(answer.id, answer) is not None:
            expected = " or ".join(map(str, self._waiting))
            problem = f"answers {shown(line)}, which has the id {answer.id} and not {expected}"
            raise TalkError(problem, right="each request is answered once, in turn, with its own id")
        recorded = answer.record is not msgspec.UNSET
        for more, there in (("outputs", answer.outputs), ("record", recorded), ("fields", answer.fields)):
            if there and more not in self.greeting.can:
                problem = f"answers {shown(line)}, and its greeting did not have {more}"
                raise TalkError(problem, right=f'add it to the greeting: {{"fsm":1,"can":["{more}"]}}')
        return answer

    def _death(self, request: ChildRequest, broken: BrokenError, *, alone: bool) -> ChildAnswer:
        """The answer that it is to end at *request*, if it is one; else it is *broken*."""
        if request.crash and ((request.point or 0) < WHOLE or request.crash in self._deadly):
            self.died = True
            return ChildAnswer(id=request.id)
        event = request.do or request.begin or request.end
        if self.greeting.dies is None or not alone or not event:
            raise broken
        self.died = True
        self._deadly.add(event)
        self.shows = self.greeting.dies.shows
        self.outputs += self.greeting.dies.outputs
        return ChildAnswer(id=request.id, reply=self.greeting.dies.reply)

    def close(self) -> None:
        with self._changed:
            process, self._process, self.shows, self._broken = self._process, None, None, _CLOSED
            if process is not None:
                process.end(gently=True)
            self._folder.close()

    def _greeted(self) -> None:
        self._number = 0
        self._waiting: dict[int, ChildAnswer | None] = {}
        self._reading = self._alone = self.died = False
        process = self._process = Process(self._command, grace=self._grace, folder=self._folder.name)
        try:
            line = process.read(timeout=self._start)
            greeting = decode(line, _GREETING)
        except TalkError as error:
            raise self._breaks(str(error), right=_HELLO) from None
        except ValueError as error:
            raise self._breaks(f"greets with {shown(line)}: {error}", right=_HELLO) from None
        except BaseException:
            self._breaks("was interrupted")
            raise
        if greeting.fsm != VERSION:
            problem = f"speaks version {greeting.fsm} of the protocol, and this is version {VERSION}"
            raise self._breaks(problem, right=_HELLO)
        if self.greeting.fsm and greeting.can != self.greeting.can:
            now, before = _listed(greeting.can), _listed(self.greeting.can)
            raise self._breaks(f"now greets with {now}, and with {before} when it was first started")
        self.greeting = greeting

    def _breaks(self, problem: str, asked: bytes = b"", *, right: str = "") -> BrokenError:
        """The error with the *problem* of the process, which is ended, and what would have been *right*."""
        process, self._process = self._process, None
        self._waiting = {}
        errors = ""
        if process is not None:
            process.end(gently=False)
            errors = " / ".join(map(repr, process.errors()))
        where = f", asked {asked.decode()}," if asked else ""
        ends = f"its standard error ends with {errors}" if errors else ""
        self._broken = "; ".join(filter(None, [f"{self.name}{where} {problem}", right, ends]))
        return BrokenError(self._broken)


class Child:
    """A child process as a SUT; methods for what it cannot do are ``None``, so that it has not these protocols.

    If it can answer requests in parallel, several threads may call it at once.
    """

    def __init__(self, talk: Talk) -> None:
        self._talk = talk

    def reset(self) -> None:
        self._talk.reset()

    def do(self, event: str) -> str:
        return self._replied(ChildRequest(do=event), event) or ""

    def shows(self) -> str:
        """What the last answer shows, or the answer to a request for it if that one had none."""
        if self._talk.shows is None:
            return self._talk.ask(ChildRequest(shows=True)).shows or ""
        return self._talk.shows

    def close(self) -> None:
        self._talk.close()

    def outputs(self) -> list[str]:
        return drained(self._talk.outputs)

    def arrange_stage(self, event: str, outcome: str, stage: str) -> bool:
        return not self._talk.ask(ChildRequest(arrange=event, outcome=outcome, stage=stage)).unsupported

    def begin(self, event: str) -> str | None:
        return self._replied(ChildRequest(begin=event), event)

    def end(self, event: str) -> str | None:
        return self._replied(ChildRequest(end=event), event)

    def record(self) -> Any:  # noqa: ANN401  (it is only compared)
        return self._talk.ask(ChildRequest(record=True)).record

    def fields(self) -> dict[str, int | str]:
        return self._talk.ask(ChildRequest(fields=True)).fields

    def crash(self, event: str, point: int) -> bool:
        for_restart = [each for each in self._talk.arranged if each.arrange != event]
        self._replied(ChildRequest(crash=event, point=point), event)
        died = self._talk.died
        self._talk.restart(*for_restart)
        return died

    def serial(self) -> str:
        return self._talk.name

    def _replied(self, request: ChildRequest, event: str) -> str | None:
        answer = self._talk.ask(request)
        if answer.unsupported:
            raise UnsupportedError(event if answer.unsupported is True else answer.unsupported)
        return answer.reply


_METHODS: Final[dict[Ability, tuple[str, ...]]] = {
    "arrange": ("arrange_stage",),
    "crash": ("crash",),
    "fields": ("fields",),
    "outputs": ("outputs",),
    "overlap": ("begin", "end"),
    "record": ("record",),
}

_GREETING: Final = msgspec.json.Decoder(Greeting)
_ANSWER: Final = msgspec.json.Decoder(ChildAnswer)

_CLOSED: Final = "was closed"
_PROTOCOL: Final = documented("reference/exec-protocol")
_HELLO: Final = 'its first line is to be {"fsm":1,"can":[]}, written and flushed'
_RIGHT: Final = f'an answer is one line such as {{"id":1,"reply":"ok"}}, written and flushed ({_PROTOCOL})'


def _listed(can: frozenset[Ability]) -> str:
    return ", ".join(sorted(can)) or "nothing more"
