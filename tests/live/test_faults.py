"""A fault affects only the calls that match its rule."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import grpc
import pytest
from passing import Echo, Passing, channel, echoing, passing, wait_for

from fsm.errors import InputError
from fsm.runtimes.live.call_recording import recorded
from fsm.runtimes.live.faults import FaultRules, read_rules

STOP = "/runtime.v1.RuntimeService/StopContainer"
START = "/runtime.v1.RuntimeService/StartContainer"
RULE = '[[fault]]\nmethod = "StopContainer"\n'


def on(identity: str) -> bytes:
    return b"\n" + bytes([len(identity)]) + identity.encode()


def rules(tmp_path: Path, text: str) -> FaultRules:
    (tmp_path / "rules.toml").write_text(text, encoding="utf-8")
    return read_rules(tmp_path / "rules.toml")


@dataclass(slots=True, kw_only=True)
class Faulty:
    echo: Echo
    proxy: Passing
    near: grpc.Channel

    def code(self, method: str, request: bytes, *, timeout: float = 5, sent: tuple[tuple[str, str], ...] = ()) -> str:
        calling: grpc.UnaryUnaryMultiCallable[bytes, bytes] = self.near.unary_unary(method)
        try:
            return "OK" if calling(request, timeout=timeout, metadata=sent) == request else "another reply"
        except grpc.RpcError as error:
            return str(error.code().name)


@contextmanager
def faulty(tmp_path: Path, text: str) -> Iterator[Faulty]:
    with (
        echoing(tmp_path / "runtime") as echo,
        passing(tmp_path / "proxy", tmp_path / "runtime", rules(tmp_path, text)) as proxy,
        channel(tmp_path / "proxy") as near,
    ):
        yield Faulty(echo=echo, proxy=proxy, near=near)


def test_a_failure_before_does_not_reach_the_runtime(tmp_path: Path) -> None:
    """A call that fails before the runtime acts never reaches the runtime.

    Other calls do, and the recording does not blame the runtime for the fault.
    """
    with faulty(tmp_path, RULE + 'do = "fail"\nid = "abc"\nmessage = "tested: é"\n') as it:
        calling: grpc.UnaryUnaryMultiCallable[bytes, bytes] = it.near.unary_unary(STOP)
        with pytest.raises(grpc.RpcError) as refused:
            calling(on("abcdef"), timeout=5)
        assert refused.value.code() is grpc.StatusCode.UNAVAILABLE
        assert refused.value.details() == "tested: é"
        assert it.echo.asked == []
        assert it.code(STOP, on("xyz")) == "OK"
        assert it.code(START, on("abcdef")) == "OK"
        assert it.echo.asked == [on("xyz"), on("abcdef")]
        [fault, *others] = [recorded(each)[0] for each in it.proxy.until(3)]

    assert ("fault", "StopContainer", "abcdef", "CANCELED", "UNAVAILABLE") == tuple(
        fault[each] for each in ("op", "call", "id", "code", "injected")
    )
    assert [("StopContainer", "OK"), ("StartContainer", "OK")] == [(each["op"], each["code"]) for each in others]
    assert it.proxy.proxy.injected == {"UNAVAILABLE": 1}


def test_a_failure_after_hides_what_the_runtime_did(tmp_path: Path) -> None:
    """The recording has both the runtime's answer and the answer that the client received."""
    with faulty(tmp_path, RULE + 'do = "fail"\nwhen = "after"\ncode = "INTERNAL"\n') as it:
        assert it.code(STOP, on("abc"), sent=(("x-a", "b"),)) == "INTERNAL"
        assert it.echo.asked == [on("abc")]
        [line] = recorded(it.proxy.until(1)[0])

    assert ("OK", "INTERNAL") == (line["code"], line["injected"])


def test_a_lost_reply_leaves_the_client_waiting(tmp_path: Path) -> None:
    with faulty(tmp_path, RULE + 'do = "lose-reply"\nnth = 1\n') as it:
        began = time.monotonic()
        assert it.code(STOP, on("abc"), timeout=0.2) == "DEADLINE_EXCEEDED"
        assert time.monotonic() - began >= 0.15
        assert it.echo.asked == [on("abc")]
        assert it.code(STOP, on("abc")) == "OK"
        assert [("OK", "lose-reply"), ("OK", "")] == [(each.code, each.injected) for each in it.proxy.until(2)]


def test_a_call_is_cancelled_in_its_middle(tmp_path: Path) -> None:
    with faulty(tmp_path, '[[fault]]\nmethod = "/a.B/Wait"\ndo = "cancel"\nmilliseconds = 30\n') as it:
        waiting: grpc.UnaryStreamMultiCallable[bytes, bytes] = it.near.unary_stream("/a.B/Wait")
        call = waiting(b"x", timeout=5)
        assert next(iter(call)) == b"begun"
        with pytest.raises(grpc.RpcError):
            list(call)
        assert call.code() is grpc.StatusCode.CANCELLED
        wait_for(lambda: bool(it.echo.canceled))
        assert [("CANCELED", "cancel")] == [(each.code, each.injected) for each in it.proxy.until(1)]


@pytest.mark.parametrize("when", ["before", "after"])
def test_a_delay_is_before_or_after_the_runtime_acts(tmp_path: Path, when: str) -> None:
    """The recorded time of a call does not include the delay."""
    with faulty(tmp_path, RULE + f'do = "delay"\nmilliseconds = 150\nwhen = "{when}"\n') as it:
        began = time.monotonic()
        calling: grpc.UnaryUnaryMultiCallable[bytes, bytes] = it.near.unary_unary(STOP)
        future = calling.future(on("abc"), timeout=5)
        wait_for(lambda: bool(it.echo.asked))
        acted = time.monotonic() - began
        assert future.result() == on("abc")
        took = time.monotonic() - began
        [call] = it.proxy.until(1)

    assert took >= 0.15
    assert (acted >= 0.15) == (when == "before")
    assert call.end - call.start < 0.15e9


def test_a_delayed_call_can_be_given_up(tmp_path: Path) -> None:
    """If its caller gives up, a delayed call never reaches the runtime. Other calls are not delayed."""
    with faulty(tmp_path, RULE + 'do = "delay"\nmilliseconds = 100\nnth = 1\n') as it:
        assert it.code(STOP, on("abc"), timeout=0.02) == "DEADLINE_EXCEEDED"
        assert it.code(STOP, on("xyz")) == "OK"
        time.sleep(0.1)
        assert it.code(STOP, on("xyz")) == "OK"
        assert it.echo.asked == [on("xyz")] * 2


@pytest.mark.parametrize(
    ("choice", "failed"),
    [("nth = 3", [3]), ("every = 2", [2, 4, 6]), ("probability = 1.0", [1, 2, 3, 4, 5, 6]), ("probability = 0.0", [])],
)
def test_the_calls_that_fit_are_counted(tmp_path: Path, choice: str, failed: list[int]) -> None:
    found = rules(tmp_path, f'{RULE}id = "a"\ndo = "fail"\n{choice}\n')

    assert failed == [number for number in range(1, 7) if found.of(STOP, "abc") and found.of(STOP, "b") is None]


def test_chance_is_the_same_on_every_run(tmp_path: Path) -> None:
    def drawn(seed: int) -> list[bool]:
        found = rules(tmp_path, f'{RULE}do = "fail"\nprobability = 0.5\nseed = {seed}\n')
        return [found.of(STOP, "") is not None for _ in range(64)]

    assert drawn(7) == drawn(7) != drawn(8)


def test_of_several_rules_the_first_happens(tmp_path: Path) -> None:
    text = f'{RULE}do = "fail"\ncode = "INTERNAL"\nnth = 2\n[[fault]]\nmethod = "*"\ndo = "fail"\ncode = "ABORTED"\nevery = 2\n'
    found = rules(tmp_path, text)

    struck = [found.of(STOP, "") for _ in range(4)]

    assert [None, "INTERNAL", None, "ABORTED"] == [each and each.code for each in struck]


def test_large_messages_and_many_calls_survive_dropped_ones(tmp_path: Path) -> None:
    """Dropped messages do not use up the connection's flow-control windows."""
    body = b"\n\x01a" + b"\x12" + b"\x80\x80\x04" + bytes(65_536)
    text = (
        f'{RULE}do = "fail"\nwhen = "after"\nevery = 2\n[[fault]]\nmethod = "StartContainer"\ndo = "fail"\nevery = 2\n'
    )
    with faulty(tmp_path, text) as it:
        for method in (STOP, START):
            assert ["OK", "UNAVAILABLE"] * 40 == [it.code(method, body) for _ in range(80)]


@pytest.mark.parametrize(
    ("text", "wrong"),
    [
        ("[[fault]]\nmethod = 'Stop'\n", r"rules.toml:1: 'do' is missing from .* \[FSM011\]"),
        (f"{RULE}do = 'dely'\n", r"rules.toml:3: .*\n    did you mean 'delay'"),
        (f"{RULE}do = 'delay'\nmiliseconds = 5\n", r"rules.toml:4: unknown word 'miliseconds' .* \[FSM010\]"),
        (f"{RULE}do = 'delay'\n", r"rules.toml:3: the delay has no 'milliseconds' \[FSM605\]"),
        (f"{RULE}do = 'fail'\nnth = 1\nevery = 2\n", r"rules.toml:5: 'nth' with 'every'|rules.toml:4: 'nth' with"),
        (f"{RULE}do = 'fail'\nseed = 2\n", r"rules.toml:4: 'seed' has no effect without 'probability' \[FSM605\]"),
        (
            f"{RULE}do = 'delay'\nmilliseconds = 1\ncode = 'ABORTED'\n",
            r"rules.toml:5: 'code' has no effect with do = 'delay'",
        ),
        (f"{RULE}do = 'fail'\ncode = 'TEAPOT'\n", r"rules.toml:4: .*\[FSM012\]"),
        (f"{RULE}do = 'fail'\nnth = 0\n", r"rules.toml:4: .*\[FSM012\]"),
        ("[[fault]]\nmethod = 'no such'\ndo = 'fail'\n", r"rules.toml:2: .*name of a method"),
        ("fault = []\n", r"rules.toml:1: .*\[FSM012\]"),
        ("fault = 5\n", r"rules.toml:1: .*\[FSM012\]"),
        ("x = \n", r"rules.toml:1: the file is not TOML"),
    ],
)
def test_what_is_wrong_in_a_file_has_its_line(tmp_path: Path, text: str, wrong: str) -> None:
    with pytest.raises(InputError, match=f"(?s){wrong}"):
        rules(tmp_path, text)


def test_a_file_that_is_not_there_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"the file cannot be opened: no such file or directory \[FSM605\]"):
        read_rules(tmp_path / "rules.toml")
