"""Test items for model and property files."""

from __future__ import annotations

import contextlib
import os
import shlex
import tomllib
from collections.abc import Callable, Iterator
from fnmatch import fnmatch
from functools import cached_property, partial
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from fsm.checker import decide
from fsm.checker.breadth_first import reachable_size
from fsm.checker.instants import StepCache
from fsm.conformance.lookup import find
from fsm.conformance.suite import conform, run_property_test
from fsm.errors import InputError, nearest, printable
from fsm.language.library import load, names, specification
from fsm.machine import Machine
from fsm.machine.claims import NO_PROFILE, Property, Requires, Specification
from fsm.machine.evidence import Examined
from fsm.machine.table import tabulate
from fsm.monitor.property_watch import untestable
from fsm.pytest_plugin import AGAINST, ALL, BY_OPTION, UNREACHED
from fsm.report import ExitCode, check_report, conformance_report, property_report
from fsm.report.conformance_report import failure_text
from fsm.report.layout import LABEL

_REFUSED = pytest.StashKey[bool]()


def refuse_unknown(collected: pytest.File) -> None:
    """Raise a collection error if a SUT is configured for a model that does not exist.

    Models next to *collected*, in the repository, or below the paths passed to pytest count as existing, even if
    pytest does not collect them.
    """
    config = collected.config
    if config.stash.get(_REFUSED, False):
        return
    config.stash[_REFUSED] = True
    shipped = names()
    missing = dict.fromkeys(name for name in config.stash[AGAINST] or () if name != ALL and name not in shipped)
    own: set[str] = set()
    for path in _model_files(config, collected.path):
        if not missing:
            return
        for name in _names_of_model(path):
            own.add(name)
            missing.pop(name, None)
    lines = []
    for name in missing:
        by_option = name in config.stash[BY_OPTION]
        place = "--fsm-against" if by_option else f"{config.rootpath / 'pyproject.toml'}: [tool.fsm.against]"
        lines.append(f"{place}: '{printable(name)}' is not the name of a model")
        lines.append(f"    {nearest(name, [*sorted(own), *shipped], of='models')}")
    if lines:
        raise pytest.Collector.CollectError("\n".join(lines))


def _model_files(config: pytest.Config, collected: Path) -> Iterator[Path]:
    """Yield model files, nearest first. A file may be yielded twice."""
    yield from (collected.parent.parent / "models").glob("*.toml")
    pruned = config.getini("norecursedirs")
    asked = (config.invocation_params.dir / argument.partition("::")[0] for argument in config.args)
    seen: set[str] = set()
    for top in (config.rootpath, *(path if path.is_dir() else path.parent for path in asked)):
        for folder, inner, files in os.walk(top, followlinks=True):  # pytest follows links too
            if "models" in Path(folder).parts:
                yield from (Path(folder, file) for file in files if file.endswith(".toml"))
            real = os.path.realpath(folder)
            left = [] if real in seen else inner
            inner[:] = [name for name in left if not any(fnmatch(name, pattern) for pattern in pruned)]
            seen.add(real)


def _names_of_model(path: Path) -> set[str]:
    names = {path.stem}
    with contextlib.suppress(OSError, ValueError, KeyError, TypeError):
        name = tomllib.loads(path.read_text(encoding="utf-8"))["machine"]["name"]
        names |= {name} if isinstance(name, str) else set()
    return names


def _sut(config: pytest.Config, model: str) -> str:
    named = config.stash[AGAINST] or {}
    return named.get(model, named.get(ALL, ""))


def _command(config: pytest.Config, model: str, sut: str) -> str:
    given = Path(model)
    path = str(given.relative_to(config.rootpath)) if given.is_relative_to(config.rootpath) else model
    there = os.path.relpath(config.rootpath, config.invocation_params.dir)
    move = "" if there == "." else f"cd {shlex.quote(there)} && "
    return move + shlex.join(["fsm", "test", path, "--against", sut])


class ItemAnswer(NamedTuple):
    """The result of an item. ``report`` describes the failure or, if the item passed, is an optional remark."""

    report: str = ""
    holds: bool = True


class SpecificationItem(pytest.Item):
    """A test of the claim ``says``. It passes if ``holds`` is true in the result of ``answer``."""

    def __init__(self, *, answer: Callable[[], ItemAnswer], says: str = "", **others: Any) -> None:  # noqa: ANN401
        super().__init__(**others)
        self.answer = answer
        self.says = says

    def runtest(self) -> None:
        try:
            report, holds = self.answer()
        except InputError as error:
            report, holds = str(error), False
        if not holds:
            pytest.fail(report, pytrace=False)
        if report:
            self.add_report_section("call", UNREACHED, report)

    def repr_failure(self, excinfo: pytest.ExceptionInfo[BaseException], *others: Any) -> Any:  # noqa: ANN401  (pytest)
        """Return the report. Shorten the line in pytest's summary, because CI would repeat the whole report there."""
        shown: Any = super().repr_failure(excinfo, *others)
        if shown.reprcrash is not None:
            first, *_ = shown.reprcrash.message.splitlines()
            shown.reprcrash.message = f"does not hold: {self.says}" if self.says else first
        return shown

    def reportinfo(self) -> tuple[Any, int | None, str]:
        return self.path, None, self.name


def _read(reader: Callable[[str], object], path: Path) -> ItemAnswer:
    reader(str(path))
    return ItemAnswer()


class ModelFile(pytest.File):
    @cached_property
    def machine(self) -> Machine:
        return load(str(self.path))

    def collect(self) -> Iterator[pytest.Item]:
        refuse_unknown(self)
        yield SpecificationItem.from_parent(self, name="well-formed", answer=partial(_read, load, self.path))
        sut = _sut(self.config, self.path.stem)
        if sut:
            answer = partial(self._check_conformance, sut)
            yield SpecificationItem.from_parent(self, name=f"conforms[{sut}]", answer=answer)

    def _check_conformance(self, sut: str) -> ItemAnswer:
        with contextlib.chdir(self.config.rootpath):  # Names of SUTs are relative to this folder.
            tested = conform(self.machine, find(sut, self.machine), name=sut)
        least = conformance_report.default_level(self.machine)
        again = _command(self.config, str(self.path), sut)
        report = conformance_report.text(tested, again=again, least=least)
        holds = conformance_report.answer(tested, least) is ExitCode.HOLDS
        return ItemAnswer(report if tested.unreached or not holds else "", holds=holds)


class PropertyFile(pytest.File):
    _last: tuple[str | None, StepCache] | None = None

    @cached_property
    def specification(self) -> Specification[Machine]:
        return specification(str(self.path))

    def collect(self) -> Iterator[pytest.Item]:
        refuse_unknown(self)
        try:
            stated = self.specification
        except InputError:
            answer = partial(_read, specification, self.path)
            yield SpecificationItem.from_parent(self, name="well-formed", answer=answer)
            return
        for profile in (None, *stated.machine.profiles):
            suffix = f"[{profile}]" if profile else ""
            if (profile or NO_PROFILE) in stated.expect:
                answer = partial(self._check_properties, profile)
                yield SpecificationItem.from_parent(self, name=f"size{suffix}", answer=answer)
            for claim in (claim for claim in stated.properties if not isinstance(claim.claim, Requires)):
                answer = partial(self._check_properties, profile, claim)
                yield SpecificationItem.from_parent(self, name=f"{claim.name}{suffix}", answer=answer, says=claim.says)
        sut = _sut(self.config, stated.machine.name)
        for claim in stated.properties if sut else ():
            # Do not require implementations to have properties that the model itself violates.
            if not untestable(claim) and claim.expected(None) is None:
                answer = partial(self._test_property, claim, sut)
                yield SpecificationItem.from_parent(self, name=f"{claim.name}[{sut}]", answer=answer, says=claim.says)

    def _stepping(self, profile: str | None) -> StepCache:
        if self._last is None or self._last[0] != profile:
            self._last = profile, StepCache(tabulate(self.specification.machine.under(profile)))
        return self._last[1]

    def _check_properties(self, profile: str | None, *properties: Property) -> ItemAnswer:
        stepping, stated = self._stepping(profile), self.specification
        examined = Examined(
            machine=stated.machine,
            profile=profile,
            counts=reachable_size(stepping.table),
            expected=None if properties else stated.expect.get(profile or NO_PROFILE),
            checked=tuple(decide(claim, stepping, profile=profile) for claim in properties),
        )
        holds = check_report.answer([examined]) is ExitCode.HOLDS if properties else not examined.resized
        return ItemAnswer("" if holds else check_report.text([examined]), holds=holds)

    def _test_property(self, stated: Property, sut: str) -> ItemAnswer:
        machine = self.specification.machine
        with contextlib.chdir(self.config.rootpath):
            result = run_property_test(machine, stated, find(sut, machine))
        if (failure := result.failure) is None:
            if (reason := property_report.why(result)) and not result.unseen:
                pytest.skip(f"not exercised: {reason}")
            return ItemAnswer(f"unknown: {reason}" if reason else "", holds=not reason)
        again = f"{_command(self.config, machine.path, sut)} --property {stated.name} --fail-on {stated.level}"
        return ItemAnswer(f"{failure_text(failure)}\n    {'again':<{LABEL}}{again}", holds=False)
