"""Tests for the commands ``fsm explain`` and ``fsm help``."""

from __future__ import annotations

import pytest
from commands import fsm

from fsm.cli import commands
from fsm.language.codes import FAMILIES, RULES


@pytest.mark.parametrize("code", RULES)
def test_every_code_is_explained(code: str) -> None:
    ran = fsm("explain", code, env={"COLUMNS": "300"})
    rule = RULES[code]

    assert (0, "") == (ran.returncode, ran.stderr)
    said = f"{code}: {rule.finds} {rule.why[0].upper()}{rule.why[1:]}. wrong "
    assert " ".join(ran.stdout.split()).startswith(said)
    shown = ["  wrong", *(f"    {line}".rstrip() for line in rule.wrong.split("\n")), "", "  right"]
    assert "\n".join([*shown, *(f"    {line}".rstrip() for line in rule.right.split("\n"))]) in ran.stdout
    assert "\x1b" not in ran.stdout


def test_several_at_once_in_any_case() -> None:
    one, other = fsm("explain", "FSM004").stdout, fsm("explain", "FSM104").stdout

    assert f"{one}\n{other}" == fsm("explain", "fsm004", "Fsm104").stdout


def test_without_a_code_all_are_listed() -> None:
    lines = fsm("explain", env={"COLUMNS": "300"}).stdout.splitlines()

    assert list(RULES) == [line.split()[0] for line in lines if line.startswith("  FSM")]
    assert list(FAMILIES.values()) == [line for line in lines if line and not line.startswith("  ")]
    assert {code[:4] for code in RULES} == set(FAMILIES)


@pytest.mark.parametrize(
    ("given", "hint"),
    [
        ("FSM10", "did you mean FSM"),
        ("104", "did you mean FSM104?"),
        ("zzz", "'fsm explain' lists all codes"),
        ("fsm999", "lists all codes, FSM001 to FSM"),
    ],
)
def test_an_unknown_code_has_a_hint(given: str, hint: str) -> None:
    """The exit code is 2."""
    ran = fsm("explain", given)

    assert (2, "") == (ran.returncode, ran.stdout)
    assert f"there is no code '{given}'" in ran.stderr
    assert hint in ran.stderr
    assert "'fsm explain' lists all codes" in ran.stderr


@pytest.mark.parametrize("name", commands())
def test_help_of_a_command_is_its_help(name: str) -> None:
    assert (0, fsm(name, "--help").stdout) == (fsm("help", name).returncode, fsm("help", name).stdout)


def test_help_alone_is_the_help_of_all() -> None:
    assert (0, fsm("--help").stdout) == (fsm("help").returncode, fsm("help").stdout)


def test_help_of_an_unknown_command_has_a_hint() -> None:
    ran = fsm("help", "jugde")

    assert (2, "") == (ran.returncode, ran.stdout)
    assert "'jugde': did you mean 'judge'?" in ran.stderr


def test_the_version_has_a_short_option() -> None:
    assert (0, fsm("--version").stdout) == (fsm("-V").returncode, fsm("-V").stdout)
