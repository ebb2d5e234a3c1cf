"""Test a child process, which may be written in any language.

Each request and each answer is one line of JSON. ``docs/reference/exec-protocol.md`` describes the protocol. If the
child violates it, the child is terminated, and :class:`~fsm.sut.BrokenError` is raised with the request, the answer and
the answer that was expected. The next reset starts the child again.
"""

from __future__ import annotations

import errno
import shlex
import shutil
from collections.abc import Sequence
from threading import Condition
from typing import Any, Final, Literal, TypeAlias, get_args

import msgspec

from fsm.conformance.crash import WHOLE
from fsm.conformance.exec import EndedError, Process, TalkError, shown
from fsm.errors import documented
from fsm.recordings.line_reader import decode
from fsm.scratch import ScratchFolder
from fsm.sut import BrokenError, UnsupportedError, drained

VERSION: Final = 1

TIMEOUT: Final = 5.0  # default number of seconds to wait for an answer
START: Final = 30.0  # default number of seconds to wait for the greeting
GRACE: Final = 2.0  # default number of seconds to wait for a child to exit by itself

Ability: TypeAlias = Literal["advance", "arrange", "crash", "fields", "outputs", "overlap", "parallel", "record"]


class Death(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The response to assume if the child exits during an event. By default, the next process shows the state."""

    reply: str = ""
    shows: str | None = None
    outputs: tuple[str, ...] = ()


class Greeting(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    fsm: int
    can: frozenset[Ability] = frozenset()
    dies: Death | None = None


class ChildRequest(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
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
    advance: float = 0
    args: dict[str, int | bool | str] = {}


class ChildAnswer(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    id: int
    reply: str | None = None
    shows: str | None = None
    outputs: tuple[str, ...] = ()
    record: Any = msgspec.UNSET
    fields: dict[str, int | bool | str] = {}
    unsupported: bool | str = False


def child(
    command: str | Sequence[str], *, timeout: float = TIMEOUT, start: float = START, grace: float = GRACE
) -> Child:
    """Start *command* and return it as a SUT with the abilities that its greeting lists.

    A string is split into words like a shell command, but no shell runs it. The command has *start* seconds to send
    its greeting, *timeout* seconds for each answer, and *grace* seconds to exit by itself. Raise :class:`OSError`
    if it does not exist, and :class:`BrokenError` if it does not send a greeting.

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
    lacking: list[Ability] = [ability for ability in get_args(Ability) if ability not in can]
    missing = [name for ability in lacking for name in _METHODS.get(ability, (ability,))]
    missing += ["serial"] if "parallel" in can else []
    made: Child = type("Child", (Child,), dict.fromkeys(missing))(talk)
    return made


class Talk:
    """The conversation with a command, which is started when needed.

    Several threads may send requests at once. One of the waiting threads then reads the answers for all of them.
    ``shows`` is the state in the last answer, or ``None`` if another request was in progress at the time.
    ``arranged`` collects the outcomes to arrange for the next event. ``died`` is true if the process exited instead
    of giving the last answer.
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
            self._start_process()
        except BaseException:
            self._folder.cleanup()
            raise

    def reset(self) -> None:
        """Reset the child. If it is not running, start it in a new folder first."""
        if self._process is None and self._broken != _CLOSED:
            self._folder.cleanup()
            self._folder = ScratchFolder()
            self._start_process()
        self.ask(ChildRequest(reset=True))
        self.outputs.clear()

    def restart(self, *before: ChildRequest) -> None:
        """Start a new process in the same folder, and send it the requests in *before* and a restart request."""
        if self._process is not None:
            self._process.end(gently=False)
        self._start_process()
        for request in (*before, ChildRequest(restart=True)):
            self.ask(request)

    def ask(self, request: ChildRequest) -> ChildAnswer:
        with self._changed:
            if self.died:
                self.restart()
            if self._process is None:
                what = f"{self.name} {_CLOSED}" if self._broken == _CLOSED else self._broken
                raise BrokenError(f"{what}; the next reset starts it again")
            self._number += 1
            asked = msgspec.structs.replace(request, id=self._number)
            self._alone = not self._waiting
            self._waiting[asked.id] = None
            line = msgspec.json.encode(asked)
            try:
                self._process.write(line + b"\n", timeout=self._timeout)
                answer = self._answer_to(self._process, asked)
            except EndedError as error:
                alone = len(self._waiting) == 1
                return self._answer_by_exit(asked, self._end_broken(str(error), line, right=_RIGHT), alone=alone)
            except TalkError as error:
                raise self._end_broken(str(error), line, right=error.right or _RIGHT) from None
            except BrokenError:
                raise
            except BaseException:  # After an interruption, the next line would be the answer to this request.
                self._end_broken("the process was interrupted", line)
                raise
            if request.arrange:
                self.arranged.append(request)
            elif not (request.shows or request.record or request.fields):
                self.arranged = []
                self.shows = answer.shows if self._alone else None
            self.outputs += answer.outputs
            return answer

    def _answer_to(self, process: Process, asked: ChildRequest) -> ChildAnswer:
        """Return the answer to *asked*. Answers to the requests of other threads may be read first."""
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
            found = self._decode_answer(line)
            waiting[found.id] = found
        del waiting[asked.id]
        if asked.record and answer.record is msgspec.UNSET:
            right = 'a process that stores nothing must answer "record":null'
            raise TalkError("the process answers without its record", right)
        return answer

    def _decode_answer(self, line: bytes) -> ChildAnswer:
        try:
            answer = decode(line, _ANSWER)
        except ValueError as error:
            raise TalkError(f"the process answers {shown(line)}: {error}") from None
        if self._waiting.get(answer.id, answer) is not None:
            expected = " or ".join(map(str, self._waiting))
            problem = f"the process answers {shown(line)}, whose id is {answer.id} instead of {expected}"
            raise TalkError(problem, right="answer each request once, with the id of the request")
        recorded = answer.record is not msgspec.UNSET
        for more, there in (("outputs", answer.outputs), ("record", recorded), ("fields", answer.fields)):
            if there and more not in self.greeting.can:
                problem = f"the process answers {shown(line)}, but its greeting did not name the ability {more}"
                raise TalkError(problem, right=f'add the ability to the greeting: {{"fsm":1,"can":["{more}"]}}')
        return answer

    def _answer_by_exit(self, request: ChildRequest, broken: BrokenError, *, alone: bool) -> ChildAnswer:
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
            self._folder.cleanup()

    def _start_process(self) -> None:
        self._number = 0
        self._waiting: dict[int, ChildAnswer | None] = {}
        self._reading = self._alone = self.died = False
        process = self._process = Process(self._command, grace=self._grace, folder=self._folder.name)
        try:
            line = process.read(timeout=self._start)
            greeting = decode(line, _GREETING)
        except TalkError as error:
            raise self._end_broken(str(error), right=_HELLO) from None
        except ValueError as error:
            raise self._end_broken(f"the process greets with {shown(line)}: {error}", right=_HELLO) from None
        except BaseException:
            self._end_broken("the process was interrupted")
            raise
        if greeting.fsm != VERSION:
            problem = f"the process speaks version {greeting.fsm} of the protocol, but fsm speaks version {VERSION}"
            raise self._end_broken(problem, right=_HELLO)
        if self.greeting.fsm and greeting.can != self.greeting.can:
            now, before = _ability_names(greeting.can), _ability_names(self.greeting.can)
            problem = f"the process now greets with {now}, but greeted with {before} when it was first started"
            raise self._end_broken(problem)
        self.greeting = greeting

    def _end_broken(self, problem: str, asked: bytes = b"", *, right: str = "") -> BrokenError:
        process, self._process = self._process, None
        self._waiting = {}
        errors = ""
        if process is not None:
            process.end(gently=False)
            errors = " / ".join(map(repr, process.errors()))
        where = f", asked {asked.decode()}" if asked else ""
        ends = f"its standard error ends with {errors}" if errors else ""
        self._broken = "; ".join(filter(None, [f"{self.name}{where}: {problem}", right, ends]))
        return BrokenError(self._broken)


class Child:
    """A SUT that runs as a child process. Several threads may call it at once if the child is parallel.

    The methods for missing abilities are ``None``, so ``isinstance`` checks against their protocols fail.
    """

    def __init__(self, talk: Talk) -> None:
        self._talk = talk

    def reset(self) -> None:
        self._talk.reset()

    def do(self, event: str, **args: int | str) -> str:
        return self._ask_for_reply(ChildRequest(do=event, args=args), event) or ""

    def shows(self) -> str:
        if self._talk.shows is None:
            return self._talk.ask(ChildRequest(shows=True)).shows or ""
        return self._talk.shows

    def close(self) -> None:
        self._talk.close()

    def outputs(self) -> list[str]:
        return drained(self._talk.outputs)

    def arrange_stage(self, event: str, outcome: str, stage: str) -> bool:
        return not self._talk.ask(ChildRequest(arrange=event, outcome=outcome, stage=stage)).unsupported

    def begin(self, event: str, **args: int | str) -> str | None:
        return self._ask_for_reply(ChildRequest(begin=event, args=args), event)

    def end(self, event: str) -> str | None:
        return self._ask_for_reply(ChildRequest(end=event), event)

    def record(self) -> Any:  # noqa: ANN401  (it is only compared)
        return self._talk.ask(ChildRequest(record=True)).record

    def fields(self) -> dict[str, int | str]:
        return self._talk.ask(ChildRequest(fields=True)).fields

    def crash(self, event: str, point: int, **args: int | str) -> bool:
        for_restart = [each for each in self._talk.arranged if each.arrange != event]
        self._ask_for_reply(ChildRequest(crash=event, point=point, args=args), event)
        died = self._talk.died
        self._talk.restart(*for_restart)
        return died

    def advance(self, seconds: float) -> None:
        self._ask_for_reply(ChildRequest(advance=seconds), "advance")

    def serial(self) -> str:
        return self._talk.name

    def _ask_for_reply(self, request: ChildRequest, event: str) -> str | None:
        answer = self._talk.ask(request)
        if answer.unsupported:
            raise UnsupportedError(event if answer.unsupported is True else answer.unsupported)
        return answer.reply


_METHODS: Final[dict[Ability, tuple[str, ...]]] = {"arrange": ("arrange_stage",), "overlap": ("begin", "end")}

_GREETING: Final = msgspec.json.Decoder(Greeting)
_ANSWER: Final = msgspec.json.Decoder(ChildAnswer)

_CLOSED: Final = "was closed"
_PROTOCOL: Final = documented("reference/exec-protocol")
_HELLO: Final = 'the process must first write and flush the line {"fsm":1,"can":[]}'
_RIGHT: Final = (
    f'the process must write and flush each answer as one line such as {{"id":1,"reply":"ok"}} ({_PROTOCOL})'
)


def _ability_names(can: frozenset[Ability]) -> str:
    return ", ".join(sorted(can)) or "nothing more"
