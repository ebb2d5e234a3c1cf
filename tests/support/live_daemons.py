"""Fixtures for live tests that share one daemon for each version of containerd."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from containerds import Containerd, lacks
from packages_of_debian import VERSIONS

from fsm.scratch import ScratchFolder

if TYPE_CHECKING:
    from collections.abc import Iterator


@pytest.fixture(scope="session", params=[pytest.param(each, marks=pytest.mark.xdist_group(each)) for each in VERSIONS])
def containerd(request: pytest.FixtureRequest) -> Iterator[Containerd]:
    """Yield a running daemon. Each test must clean up everything that it creates there.

    With ``--dist loadgroup``, all tests of one version run in the same worker.
    """
    if why := lacks():
        pytest.skip(why)
    with ScratchFolder() as folder:
        daemon = Containerd(version=str(request.param), folder=Path(folder))
        daemon.open()
        try:
            yield daemon
        finally:
            daemon.close()
