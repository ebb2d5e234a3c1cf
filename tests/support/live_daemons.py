"""The fixture of the tests that are marked ``live``: a daemon of each version of containerd, one for all of them."""

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
    """A running daemon; tests leave in it what they found.  With ``--dist loadgroup`` each version has a worker."""
    if why := lacks():
        pytest.skip(why)
    with ScratchFolder() as folder:
        daemon = Containerd(version=str(request.param), folder=Path(folder))
        daemon.open()
        try:
            yield daemon
        finally:
            daemon.close()
