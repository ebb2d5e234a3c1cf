"""Verdicts.

A verdict is the answer to a question, with its evidence, as data. :mod:`fsm.report` formats it as text.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias


@dataclass(frozen=True, slots=True, kw_only=True)
class Holds:
    """The answer is yes. If there is a witness, a subclass holds it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Fails:
    """The answer is no. Each kind of question has a subclass with the evidence."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Unknown:
    """The question could not be answered for the reason ``why``."""

    why: str


Verdict: TypeAlias = Holds | Fails | Unknown
"""The answer to any question. Each kind of question narrows the type."""
