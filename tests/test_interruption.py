"""A command is interrupted by signals and by its limits of time and memory."""

from __future__ import annotations

import signal
import subprocess
import sys
from pathlib import Path

import pytest

from fsm.interruption import OUT_OF_MEMORY, OUT_OF_TIME

ENOUGH = 1 << 40
SUPPORT = Path(__file__).resolve().parent / "support"


@pytest.mark.slow
@pytest.mark.parametrize(
    ("seconds", "memory", "why"),
    [(60.0, 1 << 20, OUT_OF_MEMORY), (0.2, ENOUGH, OUT_OF_TIME), (60.0, ENOUGH, "")],
    ids=["memory", "time", "neither"],
)
def test_more_than_it_may_is_an_interrupt(seconds: float, memory: int, why: str) -> None:
    code = (
        "from fsm.interruption import Interruption\n"
        f"with Interruption().limited({seconds}, {memory}):\n"
        "    try:\n"
        "        sum(range(20_000_000))\n"
        "        for _ in range(1_000_000): pass\n"
        "    except KeyboardInterrupt as error: why = error\n"
        "    else: why = ''\n"
        "import sys\n"
        "print('a verdict')\n"
        "print(why, file=sys.stderr)\n"
    )

    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)

    assert ran.stdout == ("" if why else "a verdict\n")
    assert ran.stderr == f"{why}\n"


@pytest.mark.slow
@pytest.mark.parametrize(
    ("seconds", "memory", "why"),
    [(60.0, 1 << 30, OUT_OF_MEMORY), (0.2, ENOUGH, OUT_OF_TIME)],
    ids=["memory", "time"],
)
@pytest.mark.parametrize("looks", [True, False])
def test_what_looks_ends_by_itself(seconds: float, memory: int, why: str, *, looks: bool) -> None:
    code = (
        "import fsm.interruption as interruption\n"
        "interruption._GRACE = 0.1\n"
        f"interruption.resident = lambda taken=iter(range(1 << 29, 1 << 40, 1 << 26)): next(taken)\n"
        f"with interruption.INTERRUPTION.limited({seconds}, {memory}):\n"
        "    try:\n"
        "        with interruption.INTERRUPTION.soft_limits() as excess:\n"
        f"            while not ({looks} and excess()): pass\n"
        "            print(excess())\n"
        "    except KeyboardInterrupt as error: interruption.INTERRUPTION.end(error)\n"
    )

    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)

    assert (0, f"{why}\n", "") == (ran.returncode, ran.stdout, ran.stderr) if looks else (3, "", f"{why}\n")


def test_what_cleans_up_is_not_interrupted_again() -> None:
    code = (
        "import signal, time\n"
        "from fsm.interruption import Interruption\n"
        "interruption = Interruption()\n"
        "interruption.expect()\n"
        "with interruption.limited(0.3, 1 << 40):\n"
        "    try: signal.raise_signal(signal.SIGTERM)\n"
        "    except KeyboardInterrupt: pass\n"
        "    while time.process_time() < 0.8: pass\n"
        "interruption.end(KeyboardInterrupt())\n"
    )

    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)

    assert (130, "", "interrupted\n") == (ran.returncode, ran.stdout, ran.stderr)


@pytest.mark.parametrize(
    ("signals", "expected"),
    [
        ("TERM", (0, "ended [1]\n")),
        ("TERM TERM", (0, "ended [1]\n")),
        ("INT INT", (0, "ended [1]\n")),
        ("TERM INT", (130, "")),
        ("TERM TERM INT", (130, "")),
    ],
)
def test_what_goes_on_until_it_is_interrupted_ends_normally(signals: str, expected: tuple[int, str]) -> None:
    """The first signal ends the command normally, even if the signal is sent twice, as ``timeout`` does.

    Only a different signal interrupts the command before it has ended.
    """
    code = (
        "import signal\n"
        "from fsm.interruption import Interruption\n"
        "interruption, over = Interruption(), []\n"
        "interruption.expect()\n"
        "try:\n"
        "    with interruption.ends(lambda: over.append(1)):\n"
        f"        for each in {signals.split()}: signal.raise_signal(signal.Signals['SIG' + each])\n"
        "    print('ended', over)\n"
        "except KeyboardInterrupt as error: interruption.end(error)\n"
    )

    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)

    assert expected == (ran.returncode, ran.stdout)


def test_the_same_signal_interrupts_later() -> None:
    code = (
        "import signal, time\n"
        "import fsm.interruption\n"
        "fsm.interruption._ECHO = 0.01\n"
        "interruption = fsm.interruption.Interruption()\n"
        "interruption.expect()\n"
        "try:\n"
        "    with interruption.ends(lambda: None):\n"
        "        signal.raise_signal(signal.SIGINT)\n"
        "        time.sleep(0.02)\n"
        "        signal.raise_signal(signal.SIGINT)\n"
        "except KeyboardInterrupt as error: interruption.end(error)\n"
    )

    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)

    assert (130, "interrupted\n") == (ran.returncode, ran.stderr)


def test_an_event_loop_loses_no_step_to_an_interrupt() -> None:
    """A signal may arrive at any line of asyncio: the event loop ends, and neither a step nor the signal is lost."""
    script = [sys.executable, str(SUPPORT / "interrupted_loop.py"), "2400"]

    ran = subprocess.run(script, capture_output=True, text=True, check=False, timeout=300)

    assert (0, "", "") == (ran.returncode, ran.stdout, ran.stderr)


def test_a_signal_wakes_an_event_loop() -> None:
    """A signal ends the loop even if it arrives just before a wait or in another thread."""
    code = (
        "import asyncio, signal, threading\n"
        "from fsm.interruption import INTERRUPTION\n"
        "INTERRUPTION.expect()\n"
        "async def command():\n"
        "    with INTERRUPTION.sets() as over:\n"
        "        signalled = lambda: signal.pthread_kill(threading.get_ident(), signal.SIGTERM)\n"
        "        threading.Timer(0.1, signalled).start()\n"
        "        await over.wait()\n"
        "        print('ended')\n"
        "asyncio.run(command())\n"
    )

    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False, timeout=60)

    assert (0, "ended\n", "") == (ran.returncode, ran.stdout, ran.stderr)


def supervised(body: str) -> subprocess.CompletedProcess[str]:
    code = f"import ctypes, os, signal, sys\nfrom fsm.interruption import INTERRUPTION\nINTERRUPTION.expect()\nINTERRUPTION.supervise()\n{body}\n"
    return subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False, timeout=60)


@pytest.mark.parametrize(
    "body",
    [
        "os.abort()",
        "os.kill(os.getpid(), signal.SIGSEGV)",
        "ctypes.CDLL(None).exit(1)",
        "os._exit(74)",
        "try: raise ValueError\nexcept ValueError as error: INTERRUPTION.end(error)",
        "INTERRUPTION.end(KeyboardInterrupt())",
        "if not os.fork(): import time; time.sleep(5)\nelse: os._exit(0)",
    ],
    ids=[
        "abort",
        "segmentation fault",
        "exit of a library",
        "error of a library",
        "error",
        "no signal",
        "child that stays",
    ],
)
def test_what_ends_without_a_verdict_is_unknown(body: str) -> None:
    ran = supervised(f"print('half of', flush=True)\n{body}")

    assert (3, "half of\n") == (ran.returncode, ran.stdout)
    assert "unknown: there is no verdict, probably because the command ran out of memory" in ran.stderr.splitlines()[-1]


@pytest.mark.parametrize("code", [0, 1, 2, 3, 74])
def test_a_verdict_stays_whatever_becomes_of_the_process(code: int) -> None:
    """The verdict decides the exit code, even if the process is aborted while it frees its memory."""
    ran = supervised(f"INTERRUPTION.settle({code})\nos.abort()")

    assert (code, "", "") == (ran.returncode, ran.stdout, ran.stderr)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_a_signal_reaches_what_is_supervised(number: signal.Signals) -> None:
    code = (
        "import time\nfrom fsm.interruption import INTERRUPTION\nINTERRUPTION.expect()\nINTERRUPTION.supervise()\n"
        "try:\n    print('begun', flush=True)\n    while True: time.sleep(0.1)\nexcept KeyboardInterrupt as error: INTERRUPTION.end(error)\n"
    )
    with subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        assert process.stdout is not None
        process.stdout.readline()
        process.send_signal(number)
        _, err = process.communicate(timeout=30)

    assert (130, b"interrupted\n") == (process.returncode, err)
