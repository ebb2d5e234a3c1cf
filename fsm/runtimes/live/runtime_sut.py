"""Create SUTs for real runtimes, for every shipped model whose calls a CRI client can make."""

import shlex
import subprocess
from collections.abc import Callable, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Final

from fsm.conformance.executor import Execution
from fsm.conformance.failure import FailedError, Failure
from fsm.conformance.oracle import Oracle, oracle
from fsm.conformance.scheme import SutRequest
from fsm.errors import refused
from fsm.language.library import load
from fsm.machine import Machine
from fsm.machine.versions import unknown_profile
from fsm.runtimes.live.call_recording import CallRecording
from fsm.runtimes.live.container_sut import RuntimeContainerSUT, RuntimePodSUT
from fsm.runtimes.live.entity_sut import EntitySUT
from fsm.runtimes.live.node_sut import RuntimeNodeSUT, ToldNodeSUT
from fsm.runtimes.live.runtime_session import RuntimeSession, wait
from fsm.runtimes.names import CONTAINER, POD
from fsm.runtimes.node_model import DAMAGED, NODE, RELAYED
from fsm.runtimes.sockets.cri_client import CallAnswer
from fsm.sut import SUT, BrokenError

_RESTARTING: Final = 60.0  # number of seconds to wait for a restarted runtime to answer again
_REPETITIONS: Final = 3  # number of repetitions of a failed test
_SUTS: Final[Mapping[str, type[EntitySUT]]] = {CONTAINER: RuntimeContainerSUT, POD: RuntimePodSUT}


def factory(asked: SutRequest, *, seen: Callable[[CallAnswer], object] | None = None) -> Callable[[], SUT]:
    """Return a function that creates the SUT for the request *asked* on the runtime at the address ``asked.rest``.

    *seen* is called with each answer. Raise :class:`InputError` if a CRI client cannot make the machine's calls.
    """
    machine, options = asked.machine, asked.options
    if options.get("nri") and machine.name == NODE:
        return partial(_node, asked, seen)
    called = {event.rpc for event in machine.events.values() if event.kind == "call"}
    sut = _SUTS.get(machine.entity)
    if sut is None or not called or not called <= sut.calls:
        what = f"the system is a runtime, but {machine.name} does not describe CRI calls on one container or one pod"
        hint = (
            "use the model cri-container or cri-pod for any runtime, or container-status or pod-sandbox for containerd"
        )
        if machine.name in {NODE, *RELAYED}:
            hint = "add --nri ADDRESS, the socket at which the runtime accepts plugins"
        raise refused(f"cri:{asked.rest}", "FSM601", what, hint)
    return lambda: sut(machine, _session(asked, seen))


def _session(asked: SutRequest, seen: Callable[[CallAnswer], object] | None = None) -> RuntimeSession:
    options = asked.options
    session = RuntimeSession(asked.rest, image=options.get("image", ""), timeout=asked.timeout, seen=seen)
    run = partial(_run_restart_command, session)
    kill, damage = options.get("kill_command"), options.get("damage_command")
    if restart := options.get("restart_command") or kill:
        session.restart = partial(run, restart)
    if kill:
        session.kill = partial(run, kill)
    if damage:
        session.damage = lambda container: run(damage.replace(DAMAGED, shlex.quote(container)))
    return session


def _node(asked: SutRequest, seen: Callable[[CallAnswer], object] | None) -> RuntimeNodeSUT:
    nri, profile = asked.options["nri"], asked.profile
    if asked.model != NODE:
        return ToldNodeSUT(_session(asked), nri, model=asked.model, profile=profile, seen=seen)
    profiles = [load(name).profiles for name in ("plugin-pod", "plugin-container")]
    return RuntimeNodeSUT(
        _session(asked),
        nri,
        profile=None if unknown_profile(profile, profiles) else profile,
        by_calls=[load(name).partly_under(profile) for name in ("pod-sandbox", "container-status")],
        seen=seen,
    )


def confirmed(
    make: Callable[[Callable[[CallAnswer], object] | None], SUT],
    machine: Machine,
    failures: Sequence[Failure],
    *,
    record: str | None = None,
) -> tuple[Failure, ...]:
    """Repeat each failure that has a trace on new SUTs, and count how often the failure happens again.

    *make* creates a SUT. Its argument is a function to call with the answer to each call, or ``None``. The profile of
    the test is already applied to *machine*. The first repetition writes its calls to the file *record*, and the events
    relayed to a plugin to a second file, whose name has the additional suffix ``.nri``.
    """
    counts = [(failure, 0) for failure in failures if failure.trace]
    with CallRecording(record) if record is not None else nullcontext() as recording:
        for number in range(_REPETITIONS if counts else 0):
            sut = make(recording.take if recording is not None and not number else None)
            judge = oracle(machine, overlaps=False, sut=sut)
            try:
                counts = [(each, count + _fails_again(judge, sut, each)) for each, count in counts]
            finally:
                sut.close()
            if isinstance(sut, RuntimeNodeSUT) and record is not None and not number:
                Path(f"{record}.nri").write_bytes(b"".join(line + b"\n" for line in sut.plugin.recording))
    often = {id(each): count for each, count in counts}
    return tuple(
        replace(each, repeated=(often[id(each)], _REPETITIONS)) if id(each) in often else each for each in failures
    )


def _fails_again(judge: Oracle, sut: SUT, failure: Failure) -> bool:
    try:
        Execution(judge, sut).replay(failure.steps)
    except FailedError as failed:
        return failed.failure.kind == failure.kind
    return False


def _run_restart_command(session: RuntimeSession, command: str) -> None:
    try:
        ran = subprocess.run(  # noqa: S602  (the user wrote the command for the shell)
            command, shell=True, capture_output=True, stdin=subprocess.DEVNULL, timeout=_RESTARTING, check=False
        )
    except subprocess.TimeoutExpired as error:
        raise BrokenError(f"{command} did not end within {_RESTARTING:g} s") from error
    if ran.returncode:
        said = ran.stderr.decode(errors="replace").strip()[-200:]
        raise BrokenError(f"{command} exited with {ran.returncode}: {said}")
    session.events.interrupted()
    # A call of Version would not show whether the runtime is ready: a restarting runtime answers Version before it has
    # loaded its pods.
    if not wait(lambda: session.client.call("ListPodSandbox", timeout=5).code == "OK", _RESTARTING):
        raise BrokenError(f"the runtime does not answer {_RESTARTING:g} s after {command}")
