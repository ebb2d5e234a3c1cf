"""Set up all tests, with reproducible examples, an event loop, and an option to forbid skips."""

from __future__ import annotations

import asyncio
import gc
import inspect
import os
import signal
from typing import TYPE_CHECKING

import pytest
from hypothesis import settings

if TYPE_CHECKING:
    from collections.abc import Generator

collect_ignore = ["bench", "cli/corpus", "support/as_on_windows"]  # importing as_on_windows hides modules
pytest_plugins = ["browser_fixtures", "live_daemons"]

settings.register_profile("default", max_examples=100, deadline=None, derandomize=True, database=None)
settings.register_profile("moderate", max_examples=500, deadline=None)
settings.register_profile("thorough", max_examples=2_000, deadline=None)
settings.load_profile("default")


def pytest_configure(config: pytest.Config) -> None:
    """Restore the default signal handlers, and turn skips into failures if ``FSM_FORBID_SKIPS`` is 1.

    A shell starts background processes with SIGINT ignored, and nohup with SIGHUP ignored; commands under test would
    inherit this. Skips are forbidden in doctests, too.
    """
    for number, handler in ((signal.SIGINT, signal.default_int_handler), (signal.SIGHUP, signal.SIG_DFL)):
        if signal.getsignal(number) is signal.SIG_IGN:
            signal.signal(number, handler)
    if os.environ.get("FSM_FORBID_SKIPS") == "1":
        config.pluginmanager.register(NoSkips())


@pytest.hookimpl(tryfirst=True)
def pytest_pyfunc_call(pyfuncitem: pytest.Function) -> bool | None:
    """Run coroutine functions on their own event loop, and leave other tests to pytest."""
    if not inspect.iscoroutinefunction(pyfuncitem.obj):
        return None
    arguments = {name: pyfuncitem.funcargs[name] for name in inspect.signature(pyfuncitem.obj).parameters}
    asyncio.run(pyfuncitem.obj(**arguments))
    return True


def pytest_collection_finish() -> None:
    """Freeze all objects that exist after collection, so that the garbage collector skips them."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(100_000, 20, 20)


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Print the number of random inputs on which all judges agreed (see ``tests/machine/test_calls.py``)."""
    passed = terminalreporter.getreports("passed")
    counts = [each for report in passed for name, each in report.user_properties if name == "random examples"]
    if counts:
        terminalreporter.write_line(f"one semantics of calls: {sum(map(int, map(str, counts))):,} random examples")


class NoSkips:
    """A pytest plugin that turns every skip into a failure."""

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_makereport(
        self, call: pytest.CallInfo[None]
    ) -> Generator[None, pytest.TestReport, pytest.TestReport]:
        report = yield
        if call.excinfo and isinstance(call.excinfo.value, pytest.skip.Exception):
            report.outcome = "failed"
            report.longrepr = f"skips are forbidden: {call.excinfo.value}"
        return report

    @pytest.hookimpl(wrapper=True)
    def pytest_make_collect_report(self) -> Generator[None, pytest.CollectReport, pytest.CollectReport]:
        report = yield
        if report.outcome == "skipped":
            report.outcome = "failed"
            report.longrepr = f"skips are forbidden: {report.longrepr}"
        return report
