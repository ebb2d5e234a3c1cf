"""Cases as JUnit XML, with a suite per recording and machine, or per subject, and a case per clause or property."""

from __future__ import annotations

import re
from io import BytesIO
from itertools import groupby
from operator import attrgetter
from typing import TYPE_CHECKING, Final

from junitparser import Error, Failure, JUnitXml, Skipped, TestCase, TestSuite

from fsm.errors import harmless
from fsm.report import words
from fsm.report.cases import Case

if TYPE_CHECKING:
    from collections.abc import Iterable

    from fsm.report.cases import Cases

# Characters that a log can contain but XML 1.0 cannot.
_FORBIDDEN: Final = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


def junit(cases: Cases) -> str:
    """Return *cases* as JUnit XML, ending in a newline.

    Violations fail the case of their clause.  Surprises, tolerated deviations and known failures are reported in the
    ``system-out`` of the case.  A case is skipped if its clause was not exercised or decided.  Each assumed event is
    a property of the suite.  A recording that could not be judged at all is an error.
    """
    document = JUnitXml(f"fsm {cases.command}")
    for name, found in groupby(cases.found, attrgetter("suite")):
        suite = TestSuite(clean(name))
        listed = [*found]
        for entry in listed:
            if entry.status == "assumed":
                suite.add_property("assumes", clean(entry.what))
        tried = (recording for recording in listed if isinstance(recording, Case))
        for those in words.grouped(((each.name, each.clause), each) for each in tried).values():
            suite.add_testcase(_case(those))
        document.add_testsuite(suite)
    for problem in cases.problems:
        case = TestCase(clean(words.file(problem.path)), classname="fsm")
        case.result = [Error(clean(f"{problem.what}: {problem.hint}"), problem.code)]
        suite = TestSuite(clean(words.file(problem.path)))
        suite.add_testcase(case)
        document.add_testsuite(suite)
    document.update_statistics()  # type: ignore[no-untyped-call]  # the method has no annotations
    out = BytesIO()
    document.write(out, pretty=True)
    return out.getvalue().decode("utf-8").rstrip("\n") + "\n"


def _case(found: list[Case]) -> TestCase:
    case = TestCase(clean(found[0].title), classname=clean(f"fsm.{found[0].name.replace('/', '.')}"))
    failed = [each for each in found if each.status == "failed"]
    skipped = [each for each in found if each.status in {"skipped", "untried"}]
    if failed:
        # Report one failure for all causes, because consumers count and show only one failure per case.
        others = sum(not each.again for each in failed) - 1
        more = f", and {words.plural(others, 'other cause')}" if others else ""
        case.result = [Failure(clean(failed[0].what + more), failed[0].clause.level)]
        case.result[0].text = clean("\n\n".join(_texts(failed)))
    elif skipped:
        case.result = [Skipped(clean(skipped[0].what))]
    notes = [
        f"{status}: {text}"
        for status in ("surprise", "known")
        for text in _texts(each for each in found if each.status == status)
    ]
    if notes:
        case.system_out = clean("\n\n".join(notes))
    return case


def _texts(found: Iterable[Case]) -> list[str]:
    """Return a text for each cause."""
    texts: list[str] = []
    for each in found:
        place = f"{words.file(each.at.file)}:{each.at.number}"
        if each.again:
            texts[-1] += f"\nalso at: {place}"
        else:
            texts.append("\n".join([f"{place}: {each.detail or each.what}", *each.facts]))
    return texts


def clean(text: str) -> str:
    r"""Replace the characters of *text* that XML cannot contain, and escape terminal control characters.

    >>> print(clean("a\x00\ufffeb"))
    a\x00\ufffdb
    """
    return _FORBIDDEN.sub("\ufffd", harmless(text))
