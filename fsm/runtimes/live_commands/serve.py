"""``fsm serve``: serve the reference implementation as a container runtime for clients and plugins."""

import asyncio
from contextlib import AsyncExitStack
from os import W_OK, access
from pathlib import Path
from random import Random

import click

from fsm.command_options import profile_option
from fsm.errors import of_extra
from fsm.interruption import INTERRUPTION
from fsm.language.library import load
from fsm.machine.versions import unknown_profile
from fsm.runtimes.sockets.unix_sockets import peers_may_leave
from fsm.scratch import ScratchFolder

MACHINES = ("container-status", "pod-sandbox", "sandbox-controller", "nri-container", "nri-pod")
MEMORY = "/dev/shm"  # noqa: S108  (the names of the files in it are random)


@click.command("serve")
@click.option(
    "--cri", "address", required=True, metavar="ADDRESS", help="Socket to serve, such as unix:///run/fsm.sock."
)
@click.option(
    "--nri", metavar="ADDRESS", help="Socket for NRI plugins, such as unix:///tmp/nri.sock. Default: no plugins."
)
@profile_option("Deviate as this profile does, to test that a client copes.")
@click.option(
    "--processes", is_flag=True, help="Run the commands of containers as processes on this machine, as your user."
)
@click.option(
    "--deviate",
    type=click.FloatRange(0, 1),
    default=0.0,
    metavar="CHANCE",
    help="Chance of refusing a call that may be refused under the profile, as if its records were lost.",
)
@click.option("--seed", type=int, default=0, help="Seed for the choice of the calls that --deviate refuses.")
@click.option(
    "--state",
    type=click.Path(path_type=Path),
    metavar="FOLDER",
    help="Keep pods, containers and images in this folder, and restore those of an earlier server.",
)
def command(
    address: str,
    nri: str | None,
    profile: str | None,
    processes: bool,  # noqa: FBT001  (click passes it by name)
    deviate: float,
    seed: int,
    state: Path | None,
) -> int:
    """Serve the reference implementation as a CRI runtime, for crictl, the kubelet or your own client.

    Containers are simulated: 'sleep 5' ends after five seconds, and 'exit 3' immediately with code 3. Only a few
    commands are known; a container with any other command cannot be started. Stop the server with Ctrl-C or SIGTERM.
    Without --state, the server then keeps nothing.

    \b
    fsm serve --cri unix:///tmp/fsm.sock
    crictl -r unix:///tmp/fsm.sock ps -a
    fsm serve --cri unix:///tmp/fsm.sock --nri unix:///tmp/nri.sock --profile containerd-2.1
    """
    if deviate and not profile:
        raise click.UsageError("--deviate needs a profile that allows the deviation; add --profile")
    if wrong := unknown_profile(profile, [load(model).profiles for model in MACHINES]):
        raise click.BadParameter(f"'{wrong[0]}': {wrong[1]}", param_hint="--profile")
    of_extra("fsm.runtimes.sockets.cri_server", "fsm serve")
    from fsm.runtimes.reference.node import ServedNode, applicable  # noqa: PLC0415  (slow to import)
    from fsm.runtimes.reference.node.records import state_folder  # noqa: PLC0415
    from fsm.runtimes.sockets.cri_server import serving  # noqa: PLC0415  (its libraries may be missing)
    from fsm.runtimes.sockets.nri_relays import NodePlugins, with_plugins  # noqa: PLC0415

    async def serve() -> None:
        with (
            INTERRUPTION.sets() as over,
            state_folder(state) if state else ScratchFolder(MEMORY if access(MEMORY, W_OK) else None) as folder,
        ):
            plugins = NodePlugins(older=bool(applicable(profile or "", "nri-container"))) if nri else None
            chance = Random(seed)  # noqa: S311  (nothing is secret)
            node = ServedNode(
                Path(folder),
                profile=profile or "",
                processes=processes,
                kept=bool(state),
                deviates=lambda: chance.random() < deviate,
                send=plugins.send if plugins else None,
            )
            async with AsyncExitStack() as stack:
                await stack.enter_async_context(serving(address, node))
                if nri and plugins:
                    await stack.enter_async_context(with_plugins(nri, plugins, node))
                click.echo(f"serving CRI at {address}{f', NRI at {nri}' if nri else ''}", err=True)
                await over.wait()

    with peers_may_leave():
        asyncio.run(serve())
    return 0
