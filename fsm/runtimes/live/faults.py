"""Inject faults into the calls that pass through a proxy, following the rules in a file.

A fault delays, drops or replaces frames. Header blocks from the client are forwarded unchanged and in order, because
the runtime could not decode them otherwise. Frames from the runtime get new header blocks, so that any of them can be
dropped. The proxy acknowledges dropped data to its sender, because flow control would halt the connection otherwise.
"""

from __future__ import annotations

import time
from asyncio import AbstractEventLoop
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from typing import Final
from urllib.parse import quote

from fsm.errors import InputError, Problem, contents, documented
from fsm.language.names import CODES
from fsm.language.read import File, parse
from fsm.language.read.toml import LARGEST
from fsm.language.vocabularies import WrittenFault, WrittenFaults
from fsm.runtimes.live.passing_calls import PassingCalls, identity
from fsm.runtimes.sockets import http2


@dataclass(slots=True, kw_only=True)
class _Rule:
    written: WrittenFault
    chance: Random
    met: int = 0

    def concerns(self, method: str) -> bool:
        return self.written.method in {"*", method, method.rpartition("/")[2]}

    def applies_to(self, identity: str) -> bool:
        rule = self.written
        if rule.id is not None and not identity.startswith(rule.id):
            return False
        self.met += 1
        if rule.nth is not None:
            return self.met == rule.nth
        if rule.every is not None:
            return self.met % rule.every == 0
        return rule.probability is None or self.chance.random() < rule.probability


@dataclass(slots=True, kw_only=True)
class FaultRules:
    rules: list[_Rule]

    def concern(self, method: str) -> bool:
        return any(rule.concerns(method) for rule in self.rules)

    def of(self, method: str, identity: str) -> WrittenFault | None:
        struck = [rule.written for rule in self.rules if rule.concerns(method) and rule.applies_to(identity)]
        return struck[0] if struck else None


def read_rules(path: str | Path) -> FaultRules:
    """Read fault rules from *path*. Raise :class:`InputError` listing every error in the file."""
    hint = f"give the path of a file of faults; see {documented('how-to/proxy')}"
    file = parse(contents(path, most=LARGEST, code="FSM605", hint=hint), WrittenFaults, path=str(path))
    if problems := [each for index in range(len(file.written.fault)) for each in _problems(file, index)]:
        raise InputError(problems)
    return FaultRules(rules=[_Rule(written=one, chance=Random(one.seed)) for one in file.written.fault])  # noqa: S311


def _problems(file: File[WrittenFaults], index: int) -> list[Problem]:
    rule = file.written.fault[index]
    given = rule.model_fields_set
    choices = sorted({"nth", "every", "probability"} & given)
    found = [(word, f"'{word}' with '{choices[0]}'", "choose one of nth, every, probability") for word in choices[1:]]
    unused = {
        "delay": {"code", "message"},
        "lose-reply": {"code", "message", "when", "milliseconds"},
        "fail": {"milliseconds"},
        "cancel": {"code", "message", "when"},
    }
    if rule.do == "delay" and not rule.milliseconds:
        found.append(("do", "the delay has no 'milliseconds'", "add a line such as milliseconds = 500"))
    found += [
        (word, f"'{word}' has no effect with do = '{rule.do}'", f"remove '{word}'")
        for word in sorted(unused[rule.do] & given)
    ]
    if "seed" in given and "probability" not in given:
        what = "'seed' has no effect without 'probability'"
        found.append(("seed", what, "add a line such as probability = 0.1, or remove 'seed'"))
    return [
        Problem(path=file.path, line=file.lines.find("fault", index, word), code="FSM605", what=what, hint=hint)
        for word, what, hint in found
    ]


_UNDECIDED: Final = 16_384  # maximum size in bytes of an incomplete request that the proxy holds back


@dataclass(slots=True, kw_only=True)
class _Held:
    parts: list[http2.Frame] = field(default_factory=list)
    decided: bool = False


@dataclass(slots=True)
class StreamFaults:
    """Applies fault rules to the calls on one connection."""

    calls: PassingCalls
    rules: FaultRules
    loop: AbstractEventLoop
    to_client: Callable[[bytes], None]
    to_server: Callable[[bytes], None]
    _held: dict[int, _Held] = field(default_factory=dict)
    _fates: dict[int, WrittenFault] = field(default_factory=dict)
    _closed: set[int] = field(default_factory=set)
    _late: set[int] = field(default_factory=set)
    _begun: set[int] = field(default_factory=set)
    _headers: http2.HeaderWriter = field(default_factory=http2.HeaderWriter)

    def busy(self) -> bool:
        return bool(self._held or self._late)

    def from_client(self, part: http2.Frame, now: int) -> None:
        number = part.stream
        self.calls.from_client(part, now)
        if number in self._closed:
            self.to_client(http2.window_update_frame(part.counted()))
        elif part.kind in {http2.HEADERS, http2.CONTINUATION}:
            self.to_server(part.whole)
            stream = self.calls.streams.get(number)
            if stream is not None and self.rules.concern(stream.method):
                self._held.setdefault(number, _Held())
        elif part.kind == http2.RST_STREAM:
            self._drop(number)
            self._closed.add(number)
            self.to_server(part.whole)
        elif part.kind == http2.DATA and (held := self._held.get(number)):
            held.parts.append(part)
            if not held.decided:
                self._decide(number, held, now)
        else:
            self.to_server(part.whole)

    def _decide(self, number: int, held: _Held, now: int) -> None:
        stream = self.calls.streams.get(number)
        long = sum(part.counted() for part in held.parts) > _UNDECIDED
        if stream is None or not (stream.request.complete or held.parts[-1].ends() or long):
            return
        held.decided = True
        fault = self.rules.of(stream.method, identity(stream.method, stream.request.first() or b""))
        if fault is None:
            self._release(number)
            return
        stream.injected = fault.code if fault.do == "fail" else fault.do
        if fault.do == "delay" and fault.when == "before":
            self.loop.call_later(fault.milliseconds / 1000, self._release, number)
        elif fault.do == "fail" and fault.when == "before":
            self.calls.end(number, now, reached=False)
            self._drop(number)
            self.to_server(http2.reset(number))
            self._answer(number, fault.code, fault.message)
        else:
            self._fates[number] = fault
            self._release(number)
            if fault.do == "cancel":
                self.loop.call_later(fault.milliseconds / 1000, self._cancel, number)

    def _release(self, number: int) -> None:
        held = self._held.pop(number, None)
        stream = self.calls.streams.get(number)
        if held is not None and stream is not None:
            stream.start = time.time_ns()
            for part in held.parts:
                self.to_server(part.whole)

    def _drop(self, number: int) -> None:
        if held := self._held.pop(number, None):
            self.to_client(http2.window_update_frame(sum(part.counted() for part in held.parts)))

    def _cancel(self, number: int) -> None:
        if number in self.calls.streams:
            self.calls.end(number, time.time_ns(), code="CANCELED", detail="canceled by fsm proxy")
            self.to_server(http2.reset(number))
            self._answer(number, "CANCELED", "canceled by fsm proxy")

    def _answer(self, number: int, code: str, message: str, before: http2.Headers = ()) -> None:
        own_names = {b"grpc-status", b"grpc-message", b"grpc-status-details-bin"}
        kept = [header for header in before if header[0] not in own_names]
        own = [(b"grpc-status", b"%d" % CODES.index(code)), (b"grpc-message", quote(message, safe=" ").encode())]
        if not before and number not in self._begun:
            kept = [(b":status", b"200"), (b"content-type", b"application/grpc")]
        self.to_client(self._headers.frames(number, [*kept, *own], ends=True))
        self._closed.add(number)
        self._fates.pop(number, None)

    def from_server(self, part: http2.Frame, now: int) -> None:
        number = part.stream
        block = self.calls.from_server(part, now)
        headers = part.kind in {http2.HEADERS, http2.CONTINUATION}
        if headers and block is None:
            return  # the header block is incomplete
        fate = self._fates.get(number)
        if number in self._closed or (fate is not None and fate.do == "lose-reply"):
            self.to_server(http2.window_update_frame(part.counted()))
            return
        ends = block[1] if block else part.ends()
        whole = self._headers.frames(number, block[0], ends=ends) if block else part.whole
        over = ends or part.kind == http2.RST_STREAM
        if fate is None or fate.do == "cancel" or (fate.do == "delay" and not over):
            self._pass_to_client(number, whole, headers=headers, ends=ends)
        elif fate.do == "delay":
            self._late.add(number)
            self.loop.call_later(fate.milliseconds / 1000, self._pass_late_to_client, number, whole)
        elif over:
            self._answer(number, fate.code, fate.message, block[0] if block else ())
        elif part.kind == http2.DATA:
            self.to_server(http2.window_update_frame(part.counted()))
        else:
            self._pass_to_client(number, whole, headers=headers, ends=False)

    def _pass_to_client(self, number: int, whole: bytes, *, headers: bool, ends: bool) -> None:
        self.to_client(whole)
        if ends:
            self._fates.pop(number, None)
            self._begun.discard(number)
        elif headers:
            self._begun.add(number)

    def _pass_late_to_client(self, number: int, whole: bytes) -> None:
        self._late.discard(number)
        if number not in self._closed:
            self._pass_to_client(number, whole, headers=False, ends=True)
