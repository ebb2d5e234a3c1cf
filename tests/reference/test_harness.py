"""The reference implementations share the code of their systems under test, and this code works."""

from __future__ import annotations

import pytest

from fsm.conformance.lookup import find, references
from fsm.language.library import is_system, load, load_system
from fsm.machine.product.flatten import flatten
from fsm.sut import UnsupportedError


@pytest.mark.parametrize("name", [name for name in references() if name != "cri-service"])
def test_an_event_that_a_reference_does_not_have_is_unsupported(name: str) -> None:
    """If a reference lacks an event of the model, the event is left out of its tests."""
    machine = flatten(load_system(name)) if is_system(name) else load(name)
    sut = find("reference", machine)()
    try:
        with pytest.raises(UnsupportedError, match="nonsense"):
            sut.do("nonsense")
    finally:
        sut.close()
