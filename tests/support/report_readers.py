"""Read the report formats of other tools strictly."""

from __future__ import annotations

import json
import re
from xml.etree import ElementTree as ET

from jsonschema import Draft4Validator
from real_parts import package

COMMAND = re.compile(r"::(error|warning|notice) ((?:file=[^:,\n]+,line=\d+,)?title=[^:,\n]+)::([^\r\n]+)")


def check_github(written: str) -> None:
    assert [] == [line for line in written.removesuffix("\n").split("\n") if not COMMAND.fullmatch(line)]


def check_junit(written: str) -> None:
    root = ET.fromstring(written.encode())  # noqa: S314  (we wrote it ourselves)
    assert len(root.findall("./testsuite/testcase")) == int(root.attrib["tests"])
    assert len(root.findall("./testsuite/testcase/failure")) == int(root.attrib["failures"])
    assert len(root.findall("./testsuite/testcase/skipped")) == int(root.attrib["skipped"])
    assert [] == [case for case in root.iter("testcase") if len(case.findall("failure") + case.findall("skipped")) > 1]


def check_sarif(written: str) -> None:
    """Check that the report is JSON, and that its URI references are valid."""
    uris = _uris(json.loads(written.encode()))
    assert [] == [uri for uri in uris if not re.fullmatch(r"(file://)?([A-Za-z0-9._~/-]|%[0-9A-F]{2})+", uri)]


def _uris(node: object) -> list[str]:
    match node:
        case {"artifactLocation": {"uri": str(uri)}}:
            return [uri]
        case dict():
            return [each for value in node.values() for each in _uris(value)]
        case list():
            return [each for value in node for each in _uris(value)]
    return []


def sarif_validator() -> Draft4Validator:
    """Return a validator for the official SARIF schema."""
    schema = package("jest-sarif") / "lib" / "schemas" / "sarif-2.1.0-rtm.5.json"
    return Draft4Validator(json.loads(schema.read_text(encoding="utf-8")))
