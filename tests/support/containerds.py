"""Run real containerd daemons of the versions in Debian, each in its own folder and mount namespace.

    python tests/support/containerds.py install|check
    python tests/support/containerds.py run 2.1.9 FOLDER
    python tests/support/containerds.py restart|kill FOLDER

``install`` downloads the packages with apt into ``.venv/containerd``, from the archive that this machine uses, but
installs nothing in the system. If this machine cannot run the daemons, ``check`` reports the reason. ``run`` starts a
daemon and prints its address; when interrupted, it ends the daemon and everything that the daemon has started.
``restart`` restarts the daemon. ``kill`` kills the daemon with SIGKILL and starts it again; containers keep running.

All processes of a daemon are descendants of a reaper, which kills them on request or when its parent process has
ended. Their mount namespace, with all its mounts, ends with the last process. Files written to ``/run`` stay inside
the namespace.
"""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Final

import grpc
from packages_of_debian import CACHE, INSTALL, VERSIONS, PackageError, install, installed, told

from fsm.conformance.exec import reaper
from fsm.runtimes.live.workload import NAMESPACE, PAUSE, WORKLOAD, archive, import_images
from fsm.runtimes.sockets.cri_client import CriClient

if TYPE_CHECKING:
    from collections.abc import Callable

SECONDS: Final = 30.0
"""The maximum number of seconds that a daemon may take to start or to end."""

_LIST_PODS: Final = "/runtime.v1.RuntimeService/ListPodSandbox"

_UNSHARE: Final = ("unshare", "--mount")
_TRY: Final = ("mount", "-t", "tmpfs", "tmpfs", "/run")

_INIT: Final = """
set -e
cd "$1"
mount -t tmpfs tmpfs upper
mkdir upper/run upper/work
mount -t overlay overlay -o "lowerdir=/run,upperdir=$1/upper/run,workdir=$1/upper/work" /run
touch namespace
exec "$2" -I -S -c "$3"
"""

_STARTER: Final = """
import signal, subprocess
signal.signal(signal.SIGCHLD, signal.SIG_IGN)
while True:
    with open("start") as pipe, open("log", "ab") as log:
        pipe.read()
        daemon = subprocess.Popen(["containerd", "--config", "config.toml"], stdout=log, stderr=log)
    with open("daemon.pid", "w") as file:
        file.write(str(daemon.pid))
"""
"""A shell script that starts a daemon whenever a line arrives on the pipe ``start``.

It runs in the mount namespace of the daemon.
"""

_RESTART: Final = """
cd "$(dirname "$0")"
old=$(cat daemon.pid)
kill -s "${1:-TERM}" "$old"
while [ -d "/proc/$old" ]; do sleep 0.01; done
eval "${2:-}"
rm daemon.pid
echo start > start
while [ ! -s daemon.pid ]; do sleep 0.01; done
"""
"""A shell script that restarts a daemon, because a Python program would be slower.

The script can run a command while the daemon is down. It does not wait until CRI answers.
"""

_GRACE: Final = 1.0

_OLD: Final = """\
version = 2
root = "{folder}/root"
state = "{folder}/state"
[grpc]
  address = "{folder}/containerd.sock"
[plugins."io.containerd.internal.v1.opt"]
  path = "{folder}/opt"
[plugins."io.containerd.grpc.v1.cri"]
  sandbox_image = "{pause}"
  restrict_oom_score_adj = true
  disable_apparmor = true
  [plugins."io.containerd.grpc.v1.cri".containerd]
    snapshotter = "{snapshotter}"
  [plugins."io.containerd.grpc.v1.cri".cni]
    conf_dir = "{folder}/cni"
    bin_dir = "{folder}/cni"
[plugins."io.containerd.nri.v1.nri"]
  disable = false
  socket_path = "{folder}/nri.sock"
  plugin_path = "{folder}/nri"
  plugin_config_path = "{folder}/nri"
"""

_NEW: Final = """\
version = 3
root = "{folder}/root"
state = "{folder}/state"
[grpc]
  address = "{folder}/containerd.sock"
[plugins.'io.containerd.internal.v1.opt']
  path = "{folder}/opt"
[plugins.'io.containerd.cri.v1.images']
  snapshotter = "{snapshotter}"
  [plugins.'io.containerd.cri.v1.images'.pinned_images]
    sandbox = "{pause}"
[plugins.'io.containerd.cri.v1.runtime']
  restrict_oom_score_adj = true
  disable_apparmor = true
  [plugins.'io.containerd.cri.v1.runtime'.cni]
    conf_dir = "{folder}/cni"
    bin_dirs = ["{folder}/cni"]
[plugins.'io.containerd.nri.v1.nri']
  disable = false
  socket_path = "{folder}/nri.sock"
  plugin_path = "{folder}/nri"
  plugin_config_path = "{folder}/nri"
"""


class DaemonError(Exception):
    """Raised if a daemon fails to start, restart or end, with the last lines of its log."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Containerd:
    """A daemon whose whole state is in *folder*, so that another process can take it over.

    The path of the folder must be short, because a socket's path is limited to about a hundred characters.
    """

    version: str
    folder: Path
    _reapers: list[subprocess.Popen[bytes]] = field(default_factory=list, init=False, repr=False, compare=False)
    """The reaper, if it is a child of this process, which then has to wait for it."""

    @property
    def endpoint(self) -> Path:
        return self.folder / "containerd.sock"

    @property
    def nri(self) -> Path | None:
        """Return the socket for NRI plugins, or ``None`` if this version of the daemon has none."""
        return None if self.version.startswith("1.6.") else self.folder / "nri.sock"

    @property
    def restart_command(self) -> str:
        return f"sh {self.folder}/restart"

    @property
    def kill_command(self) -> str:
        return f"{self.restart_command} KILL"

    @property
    def damage_command(self) -> str:
        status = "root/io.containerd.grpc.v1.cri/containers/{container}/status"
        return f"{self.restart_command} TERM 'truncate -s 0 {status}'"

    @property
    def log(self) -> Path:
        return self.folder / "log"

    @property
    def reaper(self) -> int:
        """Return the process id of the reaper, or 0 if there is none.

        All other processes are descendants of the reaper.
        """
        return _written(self.folder / "reaper.pid")

    @property
    def pid(self) -> int:
        """Return the process id of the daemon, or 0 if it is not running."""
        return _written(self.folder / "daemon.pid")

    def open(self) -> None:
        """Create the namespace, start the daemon and import the images.

        Everything in the namespace ends together with this process.
        """
        for name in ("root", "state", "opt", "cni", "nri", "upper"):
            (self.folder / name).mkdir(parents=True, exist_ok=True)
        os.mkfifo(self.folder / "start")
        (self.folder / "version").write_text(self.version, encoding="utf-8")
        text = (_OLD if self.version.startswith("1.") else _NEW).format(
            folder=self.folder, pause=PAUSE, snapshotter=_snapshotter(self.folder)
        )
        (self.folder / "config.toml").write_text(text, encoding="utf-8")
        (self.folder / "restart").write_text(_RESTART, encoding="utf-8")
        try:
            self._make_namespace()
            self.start()
            import_images(self.endpoint, archive(CACHE / "bin" / "busybox"))
            self._until(lambda: {WORKLOAD, PAUSE} <= _images(self.endpoint), "has the images")
        except BaseException:
            self.close()
            raise

    def start(self) -> None:
        """Start the daemon and wait until CRI answers."""
        self._until(lambda: _written_line(self.folder / "start"), "can be started")
        self.answered()

    def answered(self) -> None:
        """Wait until CRI answers."""
        self._until(lambda: bool(self.pid), "runs")
        self._until(lambda: _answers(self.endpoint), "answers", ended=lambda: not _runs(self.pid))

    def end(self, number: signal.Signals = signal.SIGTERM) -> None:
        """End the daemon but leave its containers running."""
        pid = self.pid
        if pid:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, number)
            self._until(lambda: not _runs(pid), "ends")
            (self.folder / "daemon.pid").unlink()

    def restart(self) -> None:
        self.end()
        self.start()

    def kill(self) -> None:
        self.end(signal.SIGKILL)
        self.start()

    def close(self) -> None:
        """End the daemon with all shims, containers and mounts, but keep the folder.

        Further calls have no effect.
        """
        reaper = self.reaper
        if not reaper:
            return
        groups = _control_groups(reaper)
        with contextlib.suppress(ProcessLookupError):
            os.kill(reaper, signal.SIGTERM)
        self._until(lambda: not _runs(reaper), "ends")
        for each in self._reapers:
            each.wait(SECONDS)
        for group in groups:
            _remove_group(group)
        for name in ("reaper.pid", "daemon.pid", "namespace", "start"):
            (self.folder / name).unlink(missing_ok=True)

    def _make_namespace(self) -> None:
        path = f"{CACHE / self.version / 'bin'}:{CACHE / 'bin'}:{os.environ['PATH']}"
        command = [
            sys.executable,
            "-c",
            Path(reaper.__file__).read_text(encoding="utf-8"),
            str(os.getpid()),
            str(_GRACE),
        ]
        with self.log.open("ab") as log:
            started = subprocess.Popen(
                [*command, *_UNSHARE, "bash", "-c", _INIT, "init", str(self.folder), sys.executable, _STARTER],
                env={**os.environ, "PATH": path},
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
            )
        self._reapers.append(started)
        (self.folder / "reaper.pid").write_text(str(started.pid), encoding="utf-8")
        made = (self.folder / "namespace").exists
        self._until(made, "has a namespace of its own", ended=lambda: started.poll() is not None)

    def _until(self, holds: Callable[[], bool], what: str, ended: Callable[[], bool] = lambda: False) -> None:
        late = time.monotonic() + SECONDS
        while not holds():
            if ended() or time.monotonic() > late:
                lines = self.log.read_text(encoding="utf-8", errors="replace").splitlines()[-20:]
                raise DaemonError(
                    "\n".join([f"containerd {self.version} never {what}; the end of {self.log}:", *lines])
                )
            time.sleep(0.02)


def found(folder: Path) -> Containerd:
    return Containerd(version=(folder / "version").read_text(encoding="utf-8"), folder=folder)


def lacks() -> str:
    """Explain why this machine cannot run a daemon, with a remedy, or return an empty string if it can."""
    if os.geteuid() != 0:
        return "containerd needs root: run it with sudo"
    try:
        tried = subprocess.run([*_UNSHARE, *_TRY], capture_output=True, text=True, check=False)
    except FileNotFoundError:
        return f"{_UNSHARE[0]} is missing; install it: apt-get install util-linux"
    if tried.returncode:
        return f"mounts are not allowed here ({tried.stderr.strip()}); a privileged container allows them"
    return "" if all(map(installed, VERSIONS)) else f"containerd is missing; install it: {INSTALL}"


def processes(pid: int) -> list[int]:
    """Return all descendants of a process."""
    below = _children(pid)
    return below + [each for child in below for each in processes(child)]


def _answers(endpoint: Path) -> bool:
    """Check whether CRI can list pods, because the daemon accepts connections before it can answer calls."""
    with grpc.insecure_channel(f"unix://{endpoint}", options=[("grpc.default_authority", "localhost")]) as channel:
        list_pods: grpc.UnaryUnaryMultiCallable[bytes, bytes] = channel.unary_unary(_LIST_PODS)
        try:
            list_pods(b"", timeout=5)
        except grpc.RpcError:
            return False
    return True


def _images(endpoint: Path) -> set[str]:
    with CriClient(f"unix://{endpoint}") as client:
        found = client.call("ListImages").message
    return {name for each in (found.images if found else ()) for name in each.repo_tags}


def _children(pid: int) -> list[int]:
    try:
        threads = list(Path(f"/proc/{pid}/task").iterdir())
        return [int(child) for each in threads for child in (each / "children").read_text(encoding="ascii").split()]
    except OSError:
        return []


def _runs(pid: int) -> bool:
    try:
        state = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8").rpartition(")")[2].split()[0]
    except OSError:
        return False
    return state != "Z"


def _written_line(pipe: Path) -> bool:
    """Write a line to *pipe*, and return whether another process has the pipe open for reading."""
    try:
        opened = os.open(pipe, os.O_WRONLY | os.O_NONBLOCK)
    except OSError:
        return False
    try:
        return os.write(opened, b"start\n") > 0
    finally:
        os.close(opened)


def _written(path: Path) -> int:
    try:
        return int(path.read_text(encoding="utf-8").strip() or 0)
    except OSError:
        return 0


def _snapshotter(folder: Path) -> str:
    """Choose a snapshotter for *folder*: ``native`` if it is on an overlay, because overlays cannot be stacked."""
    stat = ["stat", "--file-system", "--format=%T", str(folder)]
    below = subprocess.run(stat, capture_output=True, text=True, check=True).stdout.strip()
    return "native" if below == "overlayfs" else "overlayfs"


def _control_groups(reaper: int) -> list[Path]:
    return sorted(set().union(*map(_groups_of, processes(reaper))) - _groups_of(reaper))


def _groups_of(pid: int) -> set[Path]:
    try:
        lines = Path(f"/proc/{pid}/cgroup").read_text(encoding="utf-8").splitlines()
        mounts = Path("/proc/mounts").read_text(encoding="utf-8").splitlines()
    except OSError:
        return set()
    groups = {line.split(":", 2)[2].lstrip("/") for line in lines}
    hierarchies = [fields[1] for fields in map(str.split, mounts) if fields[2] in {"cgroup", "cgroup2"}]
    return {Path(each, group) for each in hierarchies for group in groups if group}


def _remove_group(group: Path) -> None:
    """Remove a control group once its processes have left it. Then remove its parent if the parent is empty."""
    late = time.monotonic() + 2
    while group.is_dir():
        try:
            group.rmdir()
        except OSError:
            if time.monotonic() > late:
                return
            time.sleep(0.02)
    if group.parent.name == NAMESPACE:
        with contextlib.suppress(OSError):  # the parent has other groups
            group.parent.rmdir()


def main(arguments: list[str]) -> int:
    match arguments:
        case ["install"]:
            try:
                install()
                sys.stdout.writelines(f"{version}: {told(version)}\n" for version in VERSIONS)
            except PackageError as error:
                sys.stderr.write(f"{error}\n")
                return 2
        case ["check"]:
            if why := lacks():
                sys.stderr.write(f"no containerd can run here: {why}\n")
                return 2
        case ["run", version, folder] if version in VERSIONS:
            if why := lacks():
                sys.stderr.write(f"{why}\n")
                return 2
            daemon = Containerd(version=version, folder=Path(folder).absolute())
            signal.signal(signal.SIGTERM, signal.default_int_handler)
            daemon.open()
            try:
                sys.stdout.write(f"CRI=unix://{daemon.endpoint}\nNRI={daemon.nri or ''}\nLOG={daemon.log}\n")
                sys.stdout.flush()
                signal.pause()
            except KeyboardInterrupt:
                pass
            finally:
                daemon.close()
        case [("restart" | "kill") as what, folder]:
            getattr(found(Path(folder).absolute()), what)()
        case _:
            sys.stderr.write(f"{__doc__}")
            return 2
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
