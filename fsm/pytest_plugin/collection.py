"""What pytest collects of model and property files."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cached_property
from typing import TYPE_CHECKING, Any

import pytest

from fsm.checker import decide
from fsm.checker.breadth_first import reachable_size
from fsm.checker.instants import StepCache
from fsm.conformance.lookup import find
from fsm.conformance.property_tests import run_property_test
from fsm.conformance.suite import conform
from fsm.errors import InputError
from fsm.library import load, specification
from fsm.machine.table import tabulate
from fsm.property.claims import NO_PROFILE
from fsm.property.evidence import Examined
from fsm.property_monitor import untestable
from fsm.pytest_plugin.settings import ALL, against
from fsm.report import ExitCode, check_report, conformance_report, failures
from fsm.report.layout import plain

if TYPE_CHECKING:
    from fsm.machine import Machine
    from fsm.property.claims import Property, Specification

WIDTH = 100
"""Columns of the report of a failure."""


def _sut(config: pytest.Config, model: str) -> str:
    """What is to be tested against *model*; empty if nothing is."""
    named = against(config)
    return named.get(model, named.get(ALL, ""))


class _FailedError(Exception):
    """A test of ours failed, and this is why: words that pytest is to print as they are."""


class _Item(pytest.Item):
    """One question about a file."""

    def repr_failure(self, excinfo: pytest.ExceptionInfo[BaseException], *args: Any, **kwargs: Any) -> Any:  # noqa: ANN401  (as pytest has it)
        """What went wrong: our own words, without a traceback."""
        if isinstance(excinfo.value, _FailedError | InputError):
            return str(excinfo.value)
        return super().repr_failure(excinfo, *args, **kwargs)

    def reportinfo(self) -> tuple[Any, int | None, str]:
        return self.path, None, self.name


class ModelFile(pytest.File):
    """A model: that it is well formed, and that the SUT that is named for it conforms."""

    @cached_property
    def machine(self) -> Machine:
        return load(str(self.path))

    def collect(self) -> Iterator[pytest.Item]:
        yield WellFormedItem.from_parent(self, name="well-formed")
        sut = _sut(self.config, self.path.stem)
        if sut:
            yield ConformsItem.from_parent(self, name=f"conforms[{sut}]", sut=sut)


class WellFormedItem(_Item):
    """The model can be read, and means something."""

    parent: ModelFile

    def runtest(self) -> None:
        _ = self.parent.machine


class ConformsItem(_Item):
    """A SUT takes the test of the model."""

    parent: ModelFile

    def __init__(self, *, sut: str, **others: Any) -> None:  # noqa: ANN401  (pytest's own)
        super().__init__(**others)
        self.sut = sut

    def runtest(self) -> None:
        """Test it, and fail with everything that is not legal."""
        machine = self.parent.machine
        tested = conform(machine, find(self.sut, machine), name=self.sut)
        if conformance_report.answer(tested, "observed") is not ExitCode.HOLDS:
            raise _FailedError(conformance_report.text(tested, width=WIDTH))


class PropertyFile(pytest.File):
    """The properties of a machine: that each is as stated, and that the machine has the size that is expected."""

    _last: tuple[str | None, StepCache] | None = None

    @cached_property
    def specification(self) -> Specification:
        return specification(str(self.path))

    def stepping(self, profile: str | None) -> StepCache:
        """The steps of the machine under *profile*; those of the last profile asked for are result."""
        if self._last is None or self._last[0] != profile:
            machine = self.specification.machine
            self._last = profile, StepCache(tabulate(machine.under(profile)))
        return self._last[1]

    def collect(self) -> Iterator[pytest.Item]:
        """The questions about this file; one that fails where it is not well formed."""
        try:
            stated = self.specification
        except InputError:
            yield StatedItem.from_parent(self, name="well-formed")
            return
        for profile in (None, *stated.machine.profiles):
            suffix = f"[{profile}]" if profile else ""
            if (profile or NO_PROFILE) in stated.expect:
                yield SizedItem.from_parent(self, name=f"size{suffix}", profile=profile)
            for each in stated.properties:
                yield ProvedItem.from_parent(self, name=f"{each.name}{suffix}", profile=profile, stated=each)
        sut = _sut(self.config, stated.machine.name)
        for each in stated.properties if sut else ():
            # What the machine is known not to have is nothing to ask of others.
            if not untestable(each) and each.expected(None) is None:
                yield TestedItem.from_parent(self, name=f"{each.name}[{sut}]", stated=each, sut=sut)


class StatedItem(_Item):
    """A property file can be read, and means something."""

    parent: PropertyFile

    def runtest(self) -> None:
        _ = self.parent.specification


class _OfProfile(_Item):
    parent: PropertyFile

    def __init__(self, *, profile: str | None, **others: Any) -> None:  # noqa: ANN401  (pytest's own)
        super().__init__(**others)
        self.profile = profile

    def examined(self, *properties: Property) -> Examined:
        """The size of the machine, and what is concluded on *properties*."""
        stepping = self.parent.stepping(self.profile)
        stated = self.parent.specification
        return Examined(
            machine=stated.machine,
            profile=self.profile,
            counts=reachable_size(stepping.table),
            expected=None if properties else stated.expect.get(self.profile or NO_PROFILE),
            checked=tuple(decide(each, stepping, profile=self.profile) for each in properties),
        )


class SizedItem(_OfProfile):
    """The machine has as many states and transitions, and is as deep, as is expected."""

    def runtest(self) -> None:
        examined = self.examined()
        if examined.resized:
            raise _FailedError(check_report.text([examined], width=WIDTH, style=plain))


class ProvedItem(_OfProfile):
    """A property is proved, or fails as it is known to."""

    def __init__(self, *, stated: Property, **others: Any) -> None:  # noqa: ANN401  (pytest's own)
        super().__init__(**others)
        self.stated = stated

    def runtest(self) -> None:
        examined = self.examined(self.stated)
        if check_report.answer([examined]) is not ExitCode.HOLDS:
            raise _FailedError(check_report.text([examined], width=WIDTH, style=plain))


class TestedItem(_Item):
    """A SUT has the property, as far as tests show."""

    parent: PropertyFile

    def __init__(self, *, stated: Property, sut: str, **others: Any) -> None:  # noqa: ANN401  (pytest's own)
        super().__init__(**others)
        self.stated = stated
        self.sut = sut

    def runtest(self) -> None:
        machine = self.parent.specification.machine
        result = run_property_test(machine, self.stated, find(self.sut, machine))
        if result.failure is not None:
            raise _FailedError(failures.text(result.failure, width=WIDTH))
